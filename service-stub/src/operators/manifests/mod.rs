//! Manifests of a cluster's operators: those that the first node applies, and those that the cluster's controller applies once
//! the operator is there.

mod object;
mod resources;
mod storage;
#[cfg(test)]
mod tests;

pub(crate) use object::ManifestFile;

use super::situation::{Machine, Roles, Situation};
use super::subscription::Part;
use super::table::{Operator, find};
use crate::model::{ClusterRecord, HostRecord};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use object::{Object, binding, namespace, prometheus_role};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The list for controllers that do not reach the service.
const LIST_FILE: &str = "olm_operator_manifests.yaml";
const LIST_NAMESPACE: &str = "assisted-installer";
const MARKETPLACE: &str = "openshift-marketplace";

/// What the controller applies once an operator is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CustomManifest {
    /// The operator.
    pub(crate) name: String,
    /// YAML documents; empty for an operator without any.
    pub(crate) content: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperatorManifests {
    pub(crate) openshift: Vec<ManifestFile>,
    pub(crate) custom: Vec<CustomManifest>,
}

/// The manifests of the operators of a cluster, in the order of their names.
pub(crate) fn manifests(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> OperatorManifests {
    let chosen: Vec<&Operator> = cluster.course.olm_operators().filter_map(|own| find(&own.name)).collect();
    if chosen.is_empty() || cluster.day2() {
        return OperatorManifests::default();
    }
    let situation = Situation { cluster, roles: Roles::of(hosts) };
    let (disks, _) = situation.storage_disks(hosts.iter().map(|host| Machine::of(host)));
    let mut openshift: Vec<ManifestFile> = chosen
        .iter()
        .flat_map(|operator| installation(operator, &situation))
        .map(|(name, object)| object.file(name))
        .collect();
    let custom: Vec<(&str, Vec<Object>)> = chosen
        .iter()
        .map(|operator| (operator.name, resources::of(operator, &situation, disks)))
        .chain(resources::engine_on_storage(&situation))
        .collect();
    openshift.push(list(&situation, &custom).file(LIST_FILE.to_owned()));
    let custom = custom.into_iter().map(|(name, objects)| CustomManifest {
        name: name.to_owned(),
        content: objects.iter().map(|object| format!("---\n{}", object.yaml())).collect(),
    });
    OperatorManifests { openshift, custom: custom.collect() }
}

/// What installs an operator, with the names of the files.
fn installation(operator: &Operator, situation: &Situation) -> Vec<(String, Object)> {
    let (olm, own) = (&operator.olm, operator.namespace);
    let mut files = Vec::new();
    let mut put = |part, object| files.push((olm.file(part), object));
    if let Some(home) = olm.home {
        put(Part::Namespace, namespace(own, home.monitored));
        let targets = if home.own_only { json!({"targetNamespaces": [own]}) } else { json!({}) };
        put(Part::Group, Object::new("operators.coreos.com/v1", "OperatorGroup", home.group).within(own).spec(targets));
    }
    put(Part::Subscription, subscription(operator, situation));
    if olm.measured {
        let role = prometheus_role(own);
        put(Part::Own("prometheus-rolebinding"), binding(&role));
        put(Part::Own("prometheus-role"), role);
    }
    for (name, object) in resources::beside(operator, situation) {
        put(Part::Own(name), object);
    }
    files
}

fn subscription(operator: &Operator, situation: &Situation) -> Object {
    // As it is monitored: its name depends on the version.
    let monitored = situation.cluster.course.olm_operators().find(|own| own.name == operator.name);
    let name = monitored.map_or(operator.subscription, |own| own.subscription_name.as_str());
    let mut spec = json!({
        "installPlanApproval": "Automatic",
        "name": operator.olm.package.unwrap_or(name),
        "source": operator.olm.source,
        "sourceNamespace": MARKETPLACE,
    });
    if let Some(channel) = operator.olm.channel {
        spec["channel"] = channel.into();
    }
    Object::new("operators.coreos.com/v1alpha1", "Subscription", name).within(operator.namespace).spec(spec)
}

/// Everything for the controller in one ConfigMap: each document under a name of its own, and per operator the names of its documents.
fn list(situation: &Situation, custom: &[(&str, Vec<Object>)]) -> Object {
    let mut data = Map::new();
    for own in situation.cluster.course.olm_operators() {
        let objects = custom.iter().filter(|(name, _)| *name == own.name).flat_map(|(_, objects)| objects);
        let mut names = Vec::new();
        for (index, object) in objects.enumerate() {
            let name = format!("{}-{:02}.yaml", own.name, index + 1);
            data.insert(name.clone(), BASE64.encode(object.yaml().trim_end()).into());
            names.push(name);
        }
        if names.is_empty() {
            continue;
        }
        let about = json!({"manifests": names, "namespace": own.namespace, "subscriptionName": own.subscription_name});
        data.insert(format!("{}.metadata.yaml", own.name), object::yaml(&about).into());
    }
    Object::new("v1", "ConfigMap", "olm-operator-manifests").within(LIST_NAMESPACE).with("data", Value::Object(data))
}
