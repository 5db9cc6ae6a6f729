//! The install configuration of a cluster, as `openshift-install` takes it: what to make the install-time files of, which
//! this service is then given. Without the pull secret, which no answer of this service holds.

use super::find::{find_cluster, find_infra_env};
use crate::events::{self, kinds};
use crate::http::{Answer, Call, Refusal};
use crate::model::{ClusterRecord, HostRecord};
use crate::service::Service;
use api::{HostRole, Secret};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Longest override, bytes.
const MAX_OVERRIDE_BYTES: usize = 64 << 10;

/// What an install configuration may hold at its top.
const FIELDS: [&str; 22] = [
    "additionalTrustBundle",
    "additionalTrustBundlePolicy",
    "apiVersion",
    "arbiter",
    "baseDomain",
    "bootstrapInPlace",
    "capabilities",
    "compute",
    "controlPlane",
    "cpuPartitioningMode",
    "featureGates",
    "featureSet",
    "fips",
    "imageContentSources",
    "imageDigestSources",
    "metadata",
    "networking",
    "osImageStream",
    "platform",
    "proxy",
    "pullSecret",
    "sshKey",
];

/// GET /v2/clusters/{id}/install-config: YAML, as a JSON text.
pub fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let record = find_cluster(&model, call.cluster_id()?)?;
    let hosts = model.hosts_of_cluster(record.cluster.id);
    let infra_env = hosts.first().and_then(|host| find_infra_env(&model, host.host.infra_env_id).ok());
    let bundle = infra_env.map(|record| record.infra_env.additional_trust_bundle.clone()).unwrap_or_default();
    let text = serde_norway::to_string(&document(&record, &hosts, &bundle));
    Ok(Answer::json(StatusCode::OK, &text.map_err(|error| Refusal::internal(&error))?))
}

/// PATCH /v2/clusters/{id}/install-config: a JSON text of a JSON object that is merged over it.
pub fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let text = call.json_text("installConfigParams")?;
    if text.len() > MAX_OVERRIDE_BYTES {
        return Err(Refusal::invalid(format!("the override is longer than {MAX_OVERRIDE_BYTES} bytes")));
    }
    check(&text)?;
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        if !record.state.accepts_hosts() {
            return Err(Refusal::invalid(format!(
                "cluster {id} is in status {}: its install configuration can't change any more",
                record.state
            )));
        }
        record.cluster.install_config_overrides = Secret::new(text);
        events::cluster(change, &record, kinds::INSTALL_CONFIG_APPLIED, Value::Null);
        change.put_cluster(record);
        Ok(Answer::empty(StatusCode::CREATED))
    })
}

/// An override is empty, or an object of known fields.
fn check(text: &str) -> Result<(), Refusal> {
    if text.is_empty() {
        return Ok(());
    }
    let fields: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        // Its text may hold a password: only the place is named.
        let (line, column) = (error.line(), error.column());
        Refusal::invalid(format!("the override is not a JSON object: see line {line} column {column}"))
    })?;
    match fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        Some(unknown) => Err(Refusal::invalid(format!("json: unknown field {unknown:?}"))),
        None => Ok(()),
    }
}

fn document(record: &ClusterRecord, hosts: &[Arc<HostRecord>], bundle: &str) -> Value {
    let cluster = &record.cluster;
    let architecture = match cluster.cpu_architecture.as_str() {
        "x86_64" | "multi" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let pool = |name: &str, replicas: usize| {
        let threads = match cluster.hyperthreading.as_str() {
            "all" => true,
            some => some.split(',').any(|role| role.strip_suffix('s') == Some(name)),
        };
        let threads = if threads { "Enabled" } else { "Disabled" };
        json!({"architecture": architecture, "hyperthreading": threads, "name": name, "replicas": replicas})
    };
    let workers = hosts.iter().filter(|host| host.effective_role() == HostRole::Worker).count();
    let masters = usize::try_from(cluster.control_plane_count).unwrap_or(0);
    let pods = cluster.cluster_networks.iter();
    let pods = pods.map(|network| json!({"cidr": network.cidr, "hostPrefix": network.host_prefix}));
    let mut config = json!({
        "apiVersion": "v1",
        "baseDomain": cluster.base_dns_domain,
        "metadata": {"name": cluster.name},
        "compute": [pool("worker", workers)],
        "controlPlane": pool("master", masters),
        "networking": {
            "networkType": cluster.network_type,
            "clusterNetwork": pods.collect::<Vec<_>>(),
            "machineNetwork":
                cluster.machine_networks.iter().map(|network| json!({"cidr": network.cidr})).collect::<Vec<_>>(),
            "serviceNetwork": cluster.service_networks.iter().map(|network| &network.cidr).collect::<Vec<_>>(),
        },
        "platform": platform(record, hosts),
    });
    let kept = |name: &str| record.kept.get(name).and_then(Value::as_str).unwrap_or_default();
    let proxies =
        [("httpProxy", kept("http_proxy")), ("httpsProxy", kept("https_proxy")), ("noProxy", kept("no_proxy"))];
    let proxies = proxies.into_iter().filter(|(_, value)| !value.is_empty());
    let proxies: Map<String, Value> = proxies.map(|(name, value)| (name.to_owned(), value.into())).collect();
    if let Value::Object(fields) = &mut config {
        let texts = [("sshKey", cluster.ssh_public_key.as_str()), ("additionalTrustBundle", bundle)];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            fields.insert(name.into(), text.into());
        }
        if !proxies.is_empty() {
            fields.insert("proxy".into(), Value::Object(proxies));
        }
    }
    if let Ok(over) = serde_json::from_str(cluster.install_config_overrides.expose()) {
        merge(&mut config, over);
    }
    if let Value::Object(fields) = &mut config {
        fields.remove("pullSecret");
    }
    config
}

fn platform(record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Value {
    let kind = record.cluster.platform.as_ref().map_or("none", |platform| platform.kind.as_str());
    let vips = |list: &[Value]| -> Vec<Value> { list.iter().filter_map(|vip| vip.get("ip").cloned()).collect() };
    match kind {
        "baremetal" => json!({"baremetal": {
            "apiVIPs": vips(&record.cluster.api_vips),
            "ingressVIPs": vips(&record.cluster.ingress_vips),
            "provisioningNetwork": "Disabled",
            "hosts": hosts.iter().map(|host| machine(host)).collect::<Vec<_>>(),
        }}),
        other => json!({other: {}}),
    }
}

fn machine(host: &HostRecord) -> Value {
    let inventory = host.facts().inventory.as_ref();
    let nics = inventory.map(|inventory| inventory.interfaces.as_slice()).unwrap_or_default();
    let mac = nics.iter().find(|nic| !nic.mac_address.is_empty() && nic.kind == "physical");
    json!({
        "name": host.hostname().unwrap_or_default(),
        "role": host.effective_role().as_str(),
        "bootMACAddress": mac.map(|nic| nic.mac_address.as_str()).unwrap_or_default(),
    })
}

/// Objects by member, everything else as a whole.
fn merge(into: &mut Value, over: Value) {
    match (into, over) {
        (Value::Object(into), Value::Object(over)) => {
            for (name, value) in over {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, over) => *into = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ClusterState;
    use api::Cluster;

    #[test]
    fn an_override_is_merged_and_no_pull_secret_shown() {
        let cluster = Cluster {
            name: "edge".into(),
            base_dns_domain: "example.com".into(),
            control_plane_count: 3,
            hyperthreading: "masters".into(),
            cpu_architecture: "x86_64".into(),
            install_config_overrides: Secret::new(
                r#"{"pullSecret":"hunter2","networking":{"networkType":"Calico"},"fips":true}"#,
            ),
            ..Cluster::default()
        };
        let mut record = ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::new("hunter2"));
        record.kept.insert("no_proxy".into(), "a,b".into());
        let config = document(&record, &[], "PEM");
        assert_eq!(config["networking"]["networkType"], "Calico");
        assert_eq!((&config["fips"], &config["proxy"]["noProxy"]), (&json!(true), &json!("a,b")));
        assert_eq!(
            (&config["controlPlane"]["replicas"], &config["controlPlane"]["hyperthreading"]),
            (&json!(3), &json!("Enabled"))
        );
        assert_eq!(config["compute"][0]["hyperthreading"], "Disabled");
        assert_eq!(config["platform"], json!({"none": {}}));
        assert!(!config.to_string().contains("hunter2"));
    }
}
