//! The kinds of objects that a cluster has beyond those of Kubernetes, without their schemas: an old server would refuse parts of the real
//! ones.

use serde_json::{Value, json};

/// A kind of object, and where the API has it.
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub is_namespaced: bool,
    pub has_status: bool,
}

const fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    is_namespaced: bool,
    has_status: bool,
) -> Resource {
    Resource { group, version, kind, plural, is_namespaced, has_status }
}

/// All that [`crds`] declares.
pub const RESOURCES: [Resource; 17] = [
    row("config.openshift.io", "v1", "ClusterOperator", "clusteroperators", false, true),
    row("config.openshift.io", "v1", "ClusterVersion", "clusterversions", false, true),
    row("config.openshift.io", "v1", "Proxy", "proxies", false, true),
    row("config.openshift.io", "v1", "Infrastructure", "infrastructures", false, true),
    row("config.openshift.io", "v1", "ImageDigestMirrorSet", "imagedigestmirrorsets", false, true),
    row("operator.openshift.io", "v1alpha1", "ImageContentSourcePolicy", "imagecontentsourcepolicies", false, false),
    row("operators.coreos.com", "v1alpha1", "Subscription", "subscriptions", true, true),
    row("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", true, true),
    row("operators.coreos.com", "v1alpha1", "InstallPlan", "installplans", true, true),
    row("metal3.io", "v1alpha1", "Provisioning", "provisionings", false, true),
    row("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts", true, true),
    row("machine.openshift.io", "v1beta1", "Machine", "machines", true, true),
    row("machineconfiguration.openshift.io", "v1", "MachineConfig", "machineconfigs", false, false),
    row("machineconfiguration.openshift.io", "v1", "MachineConfigPool", "machineconfigpools", false, true),
    row("route.openshift.io", "v1", "Route", "routes", true, true),
    row("image.openshift.io", "v1", "ImageStream", "imagestreams", true, true),
    row("security.openshift.io", "v1", "SecurityContextConstraints", "securitycontextconstraints", false, false),
];

impl Resource {
    /// The row of a plural.
    ///
    /// # Panics
    /// Where there is none.
    pub fn named(plural: &str) -> &'static Self {
        RESOURCES.iter().find(|row| row.plural == plural).unwrap_or_else(|| panic!("no resource {plural}"))
    }

    /// The path of the collection: of all namespaces without one.
    pub fn collection(&self, namespace: Option<&str>) -> String {
        let namespace = namespace.map(|name| format!("namespaces/{name}/")).unwrap_or_default();
        format!("/apis/{}/{}/{namespace}{}", self.group, self.version, self.plural)
    }

    /// An object of this kind; `members` are those beside its identity.
    pub fn object(&self, namespace: Option<&str>, name: &str, members: Value) -> Value {
        let mut object = members;
        object["apiVersion"] = format!("{}/{}", self.group, self.version).into();
        object["kind"] = self.kind.into();
        object["metadata"]["name"] = name.into();
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    }

    fn definition(&self) -> Value {
        let subresources = if self.has_status { json!({ "status": {} }) } else { json!({}) };
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{}.{}", self.plural, self.group) },
            "spec": {
                "group": self.group,
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.kind.to_lowercase(),
                },
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "schema": { "openAPIV3Schema": schema },
                    "subresources": subresources,
                }],
            },
        })
    }
}

/// The definitions of [`RESOURCES`], each of an object without a schema.
pub fn crds() -> Vec<Value> {
    RESOURCES.iter().map(Resource::definition).collect()
}
