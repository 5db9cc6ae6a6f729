//! The install configuration of a cluster, as `openshift-install` takes it: its settings and its hosts, with the user's
//! overrides merged over them.

use crate::machine_networks;
use crate::model::{ClusterRecord, HostRecord, Model};
use crate::net::Cidr;
use api::{HostRole, InfraEnvId};
use kernel::order::{self, Gather};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// An operator's file is a few KB.
const MAX_FILE_BYTES: usize = 4 << 20;

/// YAML, with the pull secret in it.
pub(crate) fn text(record: &ClusterRecord, model: &Model) -> Result<String, serde_norway::Error> {
    serde_norway::to_string(&document(record, model))
}

/// Whether a file holds the install configuration of this cluster and not of another.
pub(crate) fn describes(file: &[u8], record: &ClusterRecord) -> bool {
    let Ok(documents) = ignition::yaml::documents::<Value>(file, MAX_FILE_BYTES) else { return false };
    let [config] = documents.as_slice() else { return false };
    config["metadata"]["name"] == record.cluster.name.as_str()
        && config["baseDomain"] == record.cluster.base_dns_domain.as_str()
}

fn document(record: &ClusterRecord, model: &Model) -> Value {
    let cluster = &record.cluster;
    let hosts = model.hosts_of_cluster(cluster.id);
    let machine_networks = machine_networks::find(record, &hosts);
    let pods = cluster.cluster_networks.iter();
    let pods = pods.map(|network| json!({"cidr": network.cidr, "hostPrefix": network.host_prefix}));
    let machines = machine_networks.iter().map(|network| json!({"cidr": network.to_string()}));
    let mut networking = json!({
        "clusterNetwork": pods.collect::<Vec<_>>(),
        "machineNetwork": machines.collect::<Vec<_>>(),
        "serviceNetwork": cluster.service_networks.iter().map(|network| &network.cidr).collect::<Vec<_>>(),
    });
    // With the type None the network plug-in comes as manifests.
    if !matches!(cluster.network_type.as_str(), "" | "None") {
        networking["networkType"] = cluster.network_type.as_str().into();
    }
    let masters = usize::try_from(cluster.control_plane_count).unwrap_or(0);
    let mut config = json!({
        "apiVersion": "v1",
        "baseDomain": cluster.base_dns_domain,
        "metadata": {"name": cluster.name},
        "compute": [pool(record, "worker", count(&hosts, HostRole::Worker))],
        "controlPlane": pool(record, "master", masters),
        "networking": networking,
        "platform": platform(record, model, &hosts, &machine_networks),
        "fips": false,
        "pullSecret": record.pull_secret.expose(),
        "sshKey": cluster.ssh_public_key,
    });
    let arbiters = count(&hosts, HostRole::Arbiter);
    if arbiters > 0 {
        config["arbiter"] = pool(record, "arbiter", arbiters);
    }
    if let Some(proxy) = proxy(record, &machine_networks) {
        config["proxy"] = proxy;
    }
    if let Some(stream) = record.settings.get("os_stream") {
        config["osImageStream"] = stream.clone();
    }
    // A single node starts its control plane from its own disk.
    if let Some(host) = hosts.iter().find(|host| record.single_node() && host.host.bootstrap) {
        config["bootstrapInPlace"] = json!({"installationDisk": host.host.installation_disk_path});
    }
    if let Ok(over) = serde_json::from_str::<Map<String, Value>>(cluster.install_config_overrides.expose()) {
        merge(&mut config, Value::Object(over));
    }
    let bundles = infra_envs(model, &hosts).map(|id| model.infra_envs[&id].infra_env.additional_trust_bundle.as_str());
    let all: Vec<&str> = config["additionalTrustBundle"].as_str().into_iter().chain(bundles).collect();
    let bundle = all.into_iter().filter(|bundle| !bundle.is_empty()).collect::<Vec<_>>().join("\n");
    if !bundle.is_empty() {
        config["additionalTrustBundle"] = bundle.trim().into();
    }
    config
}

/// The infra-envs that the hosts registered in.
fn infra_envs<'a>(model: &'a Model, hosts: &[Arc<HostRecord>]) -> impl Iterator<Item = InfraEnvId> + use<'a> {
    let ids: BTreeSet<InfraEnvId> = hosts.iter().map(|host| host.host.infra_env_id).gather();
    ids.into_iter().filter(|id| model.infra_envs.contains_key(id))
}

fn count(hosts: &[Arc<HostRecord>], role: HostRole) -> usize {
    hosts.iter().filter(|host| host.effective_role() == role).count()
}

fn pool(record: &ClusterRecord, name: &str, replicas: usize) -> Value {
    let architecture = match record.cluster.cpu_architecture.as_str() {
        "x86_64" | "multi" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let threads = match record.cluster.hyperthreading.as_str() {
        "all" => true,
        some => some.split(',').any(|role| role.strip_suffix('s') == Some(name)),
    };
    let threads = if threads { "Enabled" } else { "Disabled" };
    json!({"architecture": architecture, "hyperthreading": threads, "name": name, "replicas": replicas})
}

/// With the cluster's own networks and domain among what is reached directly.
fn proxy(record: &ClusterRecord, machine_networks: &[Cidr]) -> Option<Value> {
    let setting = |name: &str| record.settings.get(name).and_then(Value::as_str).unwrap_or_default();
    let (http, https, direct) = (setting("http_proxy"), setting("https_proxy"), setting("no_proxy").trim());
    if http.is_empty() && https.is_empty() {
        return None;
    }
    let cluster = &record.cluster;
    let direct = if direct == "*" {
        direct.to_owned()
    } else {
        let given = direct.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        let domain = format!(".{}.{}", cluster.name, cluster.base_dns_domain);
        let pods = cluster.cluster_networks.iter().map(|network| network.cidr.clone());
        let services = cluster.service_networks.iter().map(|network| network.cidr.clone());
        let machines = machine_networks.iter().map(Cidr::to_string);
        let all = given.chain([domain]).chain(pods).chain(services).chain(machines);
        all.collect::<Vec<_>>().join(",")
    };
    let all = [("httpProxy", http), ("httpsProxy", https), ("noProxy", &direct)];
    let given = all.into_iter().filter(|(_, value)| !value.is_empty());
    Some(given.map(|(name, value)| (name.to_owned(), Value::from(value))).collect::<Map<_, _>>().into())
}

fn platform(record: &ClusterRecord, model: &Model, hosts: &[Arc<HostRecord>], machine_networks: &[Cidr]) -> Value {
    let platform = record.cluster.platform.as_ref();
    let kind = platform.map_or("none", |platform| platform.kind.as_str());
    let vips = |list: &[Value]| -> Vec<Value> { list.iter().filter_map(|vip| vip.get("ip").cloned()).collect() };
    let mut fields = match kind {
        "external" => {
            let external = platform.map_or(&Value::Null, |platform| &platform.external);
            json!({"platformName": external["platform_name"], "cloudControllerManager": external["cloud_controller_manager"]})
        }
        "baremetal" => {
            let mut sorted: Vec<&HostRecord> = hosts.iter().map(AsRef::as_ref).collect();
            order::sort_by_key(&mut sorted, |host| (rank(host.effective_role()), host.hostname().map(str::to_owned)));
            let machines = sorted.into_iter().map(|host| machine(host, machine_networks));
            json!({
                "provisioningNetwork": "Disabled",
                "hosts": machines.collect::<Vec<_>>(),
                "additionalNTPServers": time_sources(record, model, hosts),
            })
        }
        _ => json!({}),
    };
    if !record.cluster.user_managed_networking && matches!(kind, "baremetal" | "vsphere" | "nutanix") {
        fields["apiVIPs"] = vips(&record.cluster.api_vips).into();
        fields["ingressVIPs"] = vips(&record.cluster.ingress_vips).into();
        if record.user_balanced() {
            fields["loadBalancer"] = json!({"type": "UserManaged"});
        }
    }
    json!({kind: fields})
}

/// The control plane comes first.
fn rank(role: HostRole) -> u8 {
    match role {
        HostRole::Master | HostRole::Bootstrap => 0,
        HostRole::Arbiter => 1,
        HostRole::Worker | HostRole::AutoAssign => 2,
    }
}

/// Those of the cluster, else those of the infra-envs of its hosts.
fn time_sources(record: &ClusterRecord, model: &Model, hosts: &[Arc<HostRecord>]) -> Vec<String> {
    let own = record.settings.get("additional_ntp_source").and_then(Value::as_str).unwrap_or_default();
    let others = infra_envs(model, hosts).map(|id| model.infra_envs[&id].infra_env.additional_ntp_sources.as_str());
    let texts: Vec<&str> = if own.trim().is_empty() { others.collect() } else { vec![own] };
    let mut sources: Vec<String> = Vec::new();
    for source in texts.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|source| !source.is_empty()) {
        if !sources.iter().any(|known| known == source) {
            sources.push(source.to_owned());
        }
    }
    sources
}

/// A host as the installer knows it: by the interface in the machine network.
fn machine(host: &HostRecord, machine_networks: &[Cidr]) -> Value {
    let inventory = host.facts().inventory.as_ref();
    let nics = inventory.map(|inventory| inventory.interfaces.as_slice()).unwrap_or_default();
    let inside = |nic: &&api::Interface| {
        let texts = nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses);
        let mut addresses = texts.filter_map(|text| text.parse::<Cidr>().ok()).map(|cidr| cidr.address);
        addresses.any(|address| machine_networks.iter().any(|network| network.contains(address)))
    };
    let physical = |nic: &&api::Interface| !nic.mac_address.is_empty() && nic.kind == "physical";
    let nic = nics.iter().find(inside).or_else(|| nics.iter().find(physical));
    let uefi =
        inventory.is_some_and(|inventory| inventory.boot.as_ref().is_some_and(|boot| boot.current_boot_mode == "uefi"));
    json!({
        "name": host.hostname().unwrap_or_default(),
        "role": host.effective_role().as_str(),
        "bootMACAddress": nic.map(|nic| nic.mac_address.as_str()).unwrap_or_default(),
        "bootMode": if uefi { "UEFI" } else { "legacy" },
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
    use crate::model::{HostKey, InfraEnvRecord};
    use crate::state::ClusterState;
    use api::{Cluster, ClusterId, HostId, InfraEnv, Platform, Secret, Timestamp};

    fn record() -> ClusterRecord {
        let cluster = Cluster {
            id: ClusterId::random(),
            name: "edge".into(),
            base_dns_domain: "example.com".into(),
            control_plane_count: 3,
            hyperthreading: "masters".into(),
            cpu_architecture: "x86_64".into(),
            install_config_overrides: Secret::new(r#"{"networking":{"networkType":"Calico"},"fips":true}"#),
            ..Cluster::default()
        };
        ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::new("hunter2"))
    }

    #[test]
    fn an_override_is_merged_over_the_settings() {
        let mut record = record();
        let config = document(&record, &Model::default());
        assert_eq!(config["networking"]["networkType"], "Calico");
        assert_eq!((&config["fips"], &config["pullSecret"]), (&json!(true), &json!("hunter2")));
        assert_eq!(
            (&config["controlPlane"]["replicas"], &config["controlPlane"]["hyperthreading"]),
            (&json!(3), &json!("Enabled"))
        );
        assert_eq!(config["compute"][0]["hyperthreading"], "Disabled");
        assert_eq!(config["platform"], json!({"none": {}}));
        assert_eq!((config.get("proxy"), config.get("arbiter")), (None, None));
        record.settings.insert("http_proxy".into(), "http://p:3128".into());
        for (given, direct) in [("a,b", "a,b,.edge.example.com"), ("*", "*"), ("", ".edge.example.com")] {
            record.settings.insert("no_proxy".into(), given.into());
            let proxy = &document(&record, &Model::default())["proxy"];
            assert_eq!(*proxy, json!({"httpProxy": "http://p:3128", "noProxy": direct}));
        }
    }

    #[test]
    fn hosts_are_known_by_their_interface_in_the_machine_network() {
        let mut record = record();
        record.cluster.platform = Some(Platform { kind: "baremetal".into(), ..Platform::default() });
        record.cluster.machine_networks = vec![api::MachineNetwork { cidr: "10.0.0.0/24".into(), cluster_id: None }];
        record.cluster.api_vips = vec![json!({"ip": "10.0.0.100"})];
        let infra_env = InfraEnv {
            id: InfraEnvId::random(),
            additional_trust_bundle: "PEM".into(),
            additional_ntp_sources: "t1, t2,t1".into(),
            ..InfraEnv::default()
        };
        let mut model = Model::default();
        for (name, role, address) in [("b", HostRole::Worker, "10.0.0.2/24"), ("a", HostRole::Master, "10.0.0.1/24")] {
            let key = HostKey { infra_env: infra_env.id, host: HostId::random() };
            let mut host = HostRecord::new(key, Some(record.cluster.id), Timestamp::ZERO);
            host.host.role = role;
            host.host.requested_hostname = name.into();
            let nic = |mac: &str, address: &str| json!({"name": mac, "type": "physical", "mac_address": mac, "ipv4_addresses": [address]});
            let nics = [nic("52:54:00:00:00:0f", "192.0.2.1/24"), nic(&format!("52:54:00:00:00:0{name}"), address)];
            host.set_inventory(json!({"interfaces": nics, "boot": {"current_boot_mode": "uefi"}}).to_string());
            Arc::make_mut(&mut model.hosts).insert(key, Arc::new(host));
        }
        let infra_env = InfraEnvRecord { infra_env, ..InfraEnvRecord::default() };
        Arc::make_mut(&mut model.infra_envs).insert(infra_env.infra_env.id, Arc::new(infra_env));
        let config = document(&record, &model);
        let platform = &config["platform"]["baremetal"];
        let host = |name: &str, role: &str| json!({"name": name, "role": role, "bootMode": "UEFI", "bootMACAddress": format!("52:54:00:00:00:0{name}")});
        assert_eq!(platform["hosts"], json!([host("a", "master"), host("b", "worker")]));
        assert_eq!(
            (&platform["apiVIPs"], &platform["additionalNTPServers"]),
            (&json!(["10.0.0.100"]), &json!(["t1", "t2"]))
        );
        assert_eq!(config["additionalTrustBundle"], "PEM");
        assert_eq!(config["compute"][0]["replicas"], 1);
    }

    #[test]
    fn another_clusters_file_describes_it_not() {
        let record = record();
        for (file, wanted) in [
            ("{baseDomain: example.com, metadata: {name: edge}}", true),
            ("{baseDomain: example.com, metadata: {name: other}}", false),
            ("{baseDomain: example.net, metadata: {name: edge}}", false),
            ("install-config.yaml", false),
            ("{", false),
        ] {
            assert_eq!(describes(file.as_bytes(), &record), wanted, "{file}");
        }
    }
}
