//! A machine of the plan: BareMetalHost, and what all documents say of a machine.

use super::{
    PlanError,
    draft::{Draft, hints, put_host},
    listed,
    metadata::Metadata,
    names::{BARE_METAL_HOST, CLUSTER_DEPLOYMENT, INFRA_ENV},
    read::Fields,
    references::{Key, Reference, declare},
};
use crate::planned::PlannedHost;
use api::{HostRole, Mac};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The label that says which infra-env a machine is of.
const INFRA_ENV_LABEL: &str = "infraenvs.agent-install.openshift.io";
const HOSTNAME: &str = "bmac.agent-install.openshift.io/hostname";
const ROLE: &str = "bmac.agent-install.openshift.io/role";
const INSTALLER_ARGS: &str = "bmac.agent-install.openshift.io/installer-args";
const IGNITION: &str = "bmac.agent-install.openshift.io/ignition-config-overrides";
const POOL: &str = "bmac.agent-install.openshift.io/machine-config-pool";
const CLUSTER: &str = "bmac.agent-install.openshift.io/cluster-reference";
const REMOVE: &str = "bmac.agent-install.openshift.io/remove-agent-and-node-on-delete";
/// Followed by the name of a label of the node.
const NODE_LABEL: &str = "bmac.agent-install.openshift.io.node-label.";
/// Followed by the name of a label of the Agent resource, which there is none of.
const AGENT_LABEL: &str = "bmac.agent-install.openshift.io.agent-label.";
const KNOWN: [&str; 8] = [HOSTNAME, ROLE, INSTALLER_ARGS, IGNITION, POOL, CLUSTER, REMOVE, NODE_LABEL];
/// How the published controllers start an installation.
const METHOD: &str = "start_assisted_install";

/// The installed host uses the live host's network.
pub(crate) const COPY_NETWORK: &str = "--copy-network";

pub(crate) fn bare_metal_host(mut fields: Fields, draft: &mut Draft) -> Result<(), PlanError> {
    let mut metadata = Metadata::take(&mut fields)?;
    declare(&mut draft.machines, BARE_METAL_HOST, metadata.key.clone(), fields.file, ())?;
    if let Some(name) = metadata.labels.get(INFRA_ENV_LABEL) {
        let key = Key { namespace: metadata.key.namespace.clone(), name: name.clone() };
        let place = fields.full_place(&format!("metadata.labels.{INFRA_ENV_LABEL}"));
        draft.references.push(Reference { kind: INFRA_ENV, key, place });
    }
    if let Some(cluster) = metadata.annotation(CLUSTER) {
        let place = format!("metadata.annotations.{CLUSTER}");
        let Some((namespace, name)) = cluster.split_once('/') else {
            return Err(fields.error(&place, "is not a namespace and a name: 'namespace/name'"));
        };
        let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
        draft.references.push(Reference { kind: CLUSTER_DEPLOYMENT, key, place: fields.full_place(&place) });
    }
    let [name, role_text, args, ignition, pool] =
        [HOSTNAME, ROLE, INSTALLER_ARGS, IGNITION, POOL].map(|name| metadata.annotation(name));
    let place = |name: &str| format!("metadata.annotations.{name}");
    let args: Option<Vec<String>> = args
        .map(|args| serde_json::from_str(&args))
        .transpose()
        .map_err(|_| fields.error(&place(INSTALLER_ARGS), "is not a JSON list of texts"))?;
    let role = role(&fields, &place(ROLE), role_text)?;
    if metadata.annotation(REMOVE).is_some() {
        fields.note(format!("{}: does nothing here: no node is removed from a cluster", place(REMOVE)));
    }
    let mut labels = BTreeMap::new();
    for name in metadata.annotations.keys().cloned().collect::<Vec<_>>() {
        if let Some(label) = name.strip_prefix(NODE_LABEL) {
            labels.insert(label.to_owned(), metadata.annotations.remove(&name).unwrap_or_default());
        } else if name.starts_with(AGENT_LABEL) {
            metadata.annotations.remove(&name);
            fields.note(format!("{}: does nothing here: there are no Agent resources to label", place(&name)));
        }
    }
    metadata.finish(&fields, &KNOWN)?;
    let mut spec = fields.object("spec")?;
    let Some(mac) = mac(&mut spec, "bootMACAddress")? else {
        return Err(spec.error("bootMACAddress", "is missing: it identifies the machine"));
    };
    spec.idle(listed::of(listed::IDLE, "BareMetalHost.spec"));
    spec.refuse(listed::of(listed::REFUSED, "BareMetalHost.spec"))?;
    let mut deploy = spec.object("customDeploy")?;
    if let Some(method) = deploy.text("method")?.filter(|method| method != METHOD) {
        return Err(deploy.error("method", format!("'{}' is not {METHOD}", method.escape_default())));
    }
    drop(deploy);
    let host = PlannedHost {
        name: name.unwrap_or_default(),
        role,
        macs: [mac].into(),
        hints: hints(&mut spec, "rootDeviceHints")?,
        installer_args: args.unwrap_or_default(),
        ignition_override: ignition.unwrap_or_default(),
        pool: pool.unwrap_or_default(),
        labels,
        origins: [BARE_METAL_HOST].into(),
        place: spec.full_place("bootMACAddress"),
    };
    put_host(draft, host)
}

/// The network of a machine that is known by these interfaces.
pub(crate) fn network(
    fields: &Fields,
    field: &str,
    config: &Value,
    interfaces: &[(Mac, String)],
    draft: &mut Draft,
) -> Result<(), PlanError> {
    let text = match config {
        Value::String(text) => text.clone(),
        config => serde_norway::to_string(config).map_err(|error| fields.error(field, error))?,
    };
    let map: Vec<Value> = interfaces
        .iter()
        .map(|(mac, name)| json!({"mac_address": mac.to_string(), "logical_nic_name": name}))
        .collect();
    draft.networks.push(json!({"network_yaml": text, "mac_interface_map": map}));
    Ok(())
}

/// The interfaces that a machine is known by; at least one.
pub(crate) fn interfaces(fields: &mut Fields) -> Result<Vec<(Mac, String)>, PlanError> {
    let mut found = Vec::new();
    for mut interface in fields.objects("interfaces")? {
        let (mac, name) = (mac(&mut interface, "macAddress")?, interface.text("name")?);
        let Some(mac) = mac else { return Err(interface.error("macAddress", "is missing")) };
        found.push((mac, name.unwrap_or_default()));
    }
    if found.is_empty() {
        return Err(fields.error("interfaces", "is empty: give the MAC addresses that identify the machine"));
    }
    Ok(found)
}

pub(crate) fn mac(fields: &mut Fields, name: &str) -> Result<Option<Mac>, PlanError> {
    let text = fields.text(name)?;
    text.map(|text| text.parse().map_err(|error| fields.error(name, error))).transpose()
}

pub(crate) fn role(fields: &Fields, field: &str, text: Option<String>) -> Result<HostRole, PlanError> {
    match text.as_deref().unwrap_or_default() {
        "" | "auto-assign" => Ok(HostRole::AutoAssign),
        "master" => Ok(HostRole::Master),
        "arbiter" => Ok(HostRole::Arbiter),
        "worker" => Ok(HostRole::Worker),
        other => Err(fields.error(field, format!("'{}' is none of master, arbiter, worker", other.escape_default()))),
    }
}
