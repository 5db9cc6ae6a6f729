//! Kinds of objects, each declared once, and what is read of them.

use crate::text::text_at;
use api::json::null_is_default;
use kube::core::{ApiResource, DynamicObject, Object, ObjectMeta};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A kind of object.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
}

impl Kind {
    pub fn resource(self) -> ApiResource {
        let api_version = match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        };
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version,
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    pub fn plural(self) -> &'static str {
        self.plural
    }

    pub fn name(self) -> &'static str {
        self.kind
    }

    /// `group/version`, as objects name it.
    pub fn api_version(self) -> String {
        self.resource().api_version
    }
}

macro_rules! kinds {
    ($($name:ident = $group:literal $version:literal $kind:literal $plural:literal;)*) => {
        $(pub const $name: Kind = Kind { group: $group, version: $version, kind: $kind, plural: $plural };)*
    };
}

kinds! {
    NODE = "" "v1" "Node" "nodes";
    NAMESPACE = "" "v1" "Namespace" "namespaces";
    POD = "" "v1" "Pod" "pods";
    SERVICE = "" "v1" "Service" "services";
    CONFIG_MAP = "" "v1" "ConfigMap" "configmaps";
    SECRET = "" "v1" "Secret" "secrets";
    EVENT = "" "v1" "Event" "events";
    JOB = "batch" "v1" "Job" "jobs";
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" "clusterrolebindings";
    CERTIFICATE_REQUEST = "certificates.k8s.io" "v1" "CertificateSigningRequest" "certificatesigningrequests";
    PROXY = "config.openshift.io" "v1" "Proxy" "proxies";
    INFRASTRUCTURE = "config.openshift.io" "v1" "Infrastructure" "infrastructures";
    IMAGE_DIGEST_MIRROR_SET = "config.openshift.io" "v1" "ImageDigestMirrorSet" "imagedigestmirrorsets";
    IMAGE_CONTENT_SOURCE_POLICY = "operator.openshift.io" "v1alpha1" "ImageContentSourcePolicy" "imagecontentsourcepolicies";
    CLUSTER_VERSION = "config.openshift.io" "v1" "ClusterVersion" "clusterversions";
    CLUSTER_OPERATOR = "config.openshift.io" "v1" "ClusterOperator" "clusteroperators";
    SUBSCRIPTION = "operators.coreos.com" "v1alpha1" "Subscription" "subscriptions";
    CSV = "operators.coreos.com" "v1alpha1" "ClusterServiceVersion" "clusterserviceversions";
    INSTALL_PLAN = "operators.coreos.com" "v1alpha1" "InstallPlan" "installplans";
    PROVISIONING = "metal3.io" "v1alpha1" "Provisioning" "provisionings";
    BARE_METAL_HOST = "metal3.io" "v1alpha1" "BareMetalHost" "baremetalhosts";
    MACHINE = "machine.openshift.io" "v1beta1" "Machine" "machines";
    MACHINE_CONFIG = "machineconfiguration.openshift.io" "v1" "MachineConfig" "machineconfigs";
    MACHINE_CONFIG_POOL = "machineconfiguration.openshift.io" "v1" "MachineConfigPool" "machineconfigpools";
    IMAGE_STREAM = "image.openshift.io" "v1" "ImageStream" "imagestreams";
}

/// A node, the part that is needed: five hundred of them are held.
pub type Node = Object<NodeSpec, NodeStatus>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeSpec {
    #[serde(default, deserialize_with = "null_is_default")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatus {
    #[serde(default, deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub addresses: Vec<Address>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    #[serde(default)]
    pub key: String,
}

/// A condition of any object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub address: String,
}

/// Questions to a node.
pub trait NodeFacts {
    /// In lower case.
    fn host_name(&self) -> String;
    fn is_ready(&self) -> bool;
    fn internal_ips(&self) -> Vec<IpAddr>;
    fn taints(&self) -> &[Taint];
}

impl NodeFacts for Node {
    fn host_name(&self) -> String {
        name(&self.metadata).to_lowercase()
    }

    fn is_ready(&self) -> bool {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }

    fn internal_ips(&self) -> Vec<IpAddr> {
        let addresses = self.status.iter().flat_map(|status| &status.addresses);
        addresses
            .filter(|address| address.kind == "InternalIP")
            .filter_map(|address| address.address.parse().ok())
            .collect()
    }

    fn taints(&self) -> &[Taint] {
        &self.spec.taints
    }
}

pub fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

pub fn namespace(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or_default()
}

/// The conditions of an object in its order, which counts.
pub fn conditions(object: &DynamicObject) -> Vec<Condition> {
    let list = object.data.pointer("/status/conditions").cloned().unwrap_or_default();
    Option::<Vec<Condition>>::deserialize(list).ok().flatten().unwrap_or_default()
}

/// A value of a ConfigMap.
pub fn entry(map: &DynamicObject, key: &str) -> Option<String> {
    Some(map.data.get("data")?.get(key)?.as_str()?.to_owned())
}

/// A text of an object, by JSON pointer; empty if there is none.
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    text_at(&object.data, pointer)
}
