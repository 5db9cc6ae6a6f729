//! `feature_usage`: what a cluster makes use of, for those who count it.

use super::{ClusterFacts, Feature};
use crate::model::{ClusterRecord, HostRecord, InfraEnvRecord};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The published text: a JSON object, by name.
pub(crate) fn text<'a>(
    record: &ClusterRecord,
    hosts: &[Arc<HostRecord>],
    infra_envs: impl Iterator<Item = &'a InfraEnvRecord>,
    has_manifests: bool,
) -> String {
    let mut usages = Usages::default();
    let infra_envs: Vec<&InfraEnvRecord> = infra_envs.collect();
    add_cluster(&mut usages, record, &ClusterFacts::new(record, hosts));
    add_architectures(&mut usages, record, &infra_envs);
    add_overrides(&mut usages, record, hosts, &infra_envs);
    add_hosts(&mut usages, record, hosts);
    usages.add_if(has_manifests, "Custom manifest");
    Value::Object(usages.0).to_string()
}

#[derive(Default)]
struct Usages(Map<String, Value>);

impl Usages {
    fn add_if(&mut self, used: bool, name: &str) {
        if used {
            let id = identifier(name);
            self.0.insert(name.to_owned(), json!({"id": id, "name": name}));
        }
    }

    fn add_with(&mut self, name: &str, data: Map<String, Value>) {
        if !data.is_empty() {
            let id = identifier(name);
            self.0.insert(name.to_owned(), json!({"data": data, "id": id, "name": name}));
        }
    }
}

fn identifier(name: &str) -> String {
    name.replace(' ', "_").replace('.', "").to_uppercase()
}

fn one(name: &str, value: impl Into<Value>) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value.into())])
}

fn add_cluster(usages: &mut Usages, record: &ClusterRecord, facts: &ClusterFacts) {
    let of_features = [
        (Feature::Sno, "SNO"),
        (Feature::VipAutoAlloc, "VIP auto alloc."),
        (Feature::DualStack, "Dual-stack"),
        (Feature::DualStackVips, "Dual-stack VIPs"),
        (Feature::OvnNetworkType, "OVN network type"),
        (Feature::SdnNetworkType, "SDN network type"),
        (Feature::CiscoAciNetworkType, "CiscoACI network type"),
        (Feature::CiliumNetworkType, "Cilium network type"),
        (Feature::CalicoNetworkType, "Calico network type"),
        (Feature::NoneNetworkType, "None network type"),
        (Feature::NutanixIntegration, "Nutanix integration"),
    ];
    for (feature, name) in of_features {
        usages.add_if(facts.uses(feature), name);
    }
    for operator in &facts.operators {
        usages.add_if(true, &operator.to_uppercase());
    }
    let several_user_managed = facts.user_managed_networking && facts.control_plane_count >= 3;
    usages.add_if(several_user_managed, "User Managed Networking With Multi Node");
    let platform = record.cluster.platform.as_ref().map_or("", |platform| platform.kind.as_str());
    if !matches!(platform, "" | "baremetal" | "none") {
        usages.add_with("Platform selection", one("platform_type", platform));
    }
    let threads = record.cluster.hyperthreading.as_str();
    if !matches!(threads, "" | "none") {
        usages.add_with("Hyperthreading", one("hyperthreading_enabled", threads));
    }
    let setting = |name: &str| record.settings.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(sources) = setting("additional_ntp_source") {
        usages.add_with("Additional NTP Source", one("source_count", sources.split(',').count()));
    }
    let proxies = ["http_proxy", "https_proxy", "no_proxy"].into_iter().filter(|name| setting(name).is_some());
    usages.add_with("Proxy", proxies.map(|name| (name.to_owned(), Value::from(1))).collect());
    usages.add_if(setting("tags").is_some(), "Cluster Tags");
    usages.add_if(record.settings.get("schedulable_masters") == Some(&Value::Bool(true)), "Schedulable masters");
    let encryption = record.settings.get("disk_encryption").and_then(Value::as_object);
    if let Some(encryption) = encryption.filter(|fields| fields.get("enable_on").is_some_and(|on| on != "none")) {
        let mut encryption = encryption.clone();
        encryption.entry("tang_servers").or_insert_with(|| "".into());
        usages.add_with("Disk encryption", encryption);
    }
    usages.add_if(record.course.roles_assigned, "auto assign role");
    usages.add_if(record.ignored_validations.is_some(), "Validations have been ignored for this cluster");
}

fn add_architectures(usages: &mut Usages, record: &ClusterRecord, infra_envs: &[&InfraEnvRecord]) {
    let of_infra_envs = infra_envs.iter().map(|record| record.infra_env.cpu_architecture.as_str());
    for architecture in of_infra_envs.chain([record.cluster.cpu_architecture.as_str()]) {
        let name = crate::releases::normal_architecture(architecture);
        usages.add_if(matches!(name, "arm64" | "s390x" | "ppc64le"), &format!("{name} architecture"));
    }
}

fn add_overrides(
    usages: &mut Usages,
    record: &ClusterRecord,
    hosts: &[Arc<HostRecord>],
    infra_envs: &[&InfraEnvRecord],
) {
    let overrides: Option<Map<String, Value>> =
        serde_json::from_str(record.cluster.install_config_overrides.expose()).ok();
    let overrides = overrides.unwrap_or_default();
    usages.add_if(overrides.get("fips") == Some(&Value::Bool(true)), "FIPS");
    let names = overrides.iter().map(|(name, value)| {
        let fields = value.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        [name.as_str()].into_iter().chain(fields).collect::<Vec<_>>().join(" ")
    });
    usages.add_with("Install Config Overrides", names.map(|name| (name, Value::Bool(true))).collect());
    let mut levels = Map::new();
    if infra_envs.iter().any(|record| !record.infra_env.ignition_config_override.is_empty()) {
        levels.insert("infra-env".to_owned(), Value::Bool(true));
    }
    if hosts.iter().any(|record| !record.host.ignition_config_overrides.is_empty()) {
        levels.insert("host".to_owned(), Value::Bool(true));
    }
    usages.add_with("Ignition Config Override", levels);
    let with_networks = infra_envs.iter().any(|record| !record.infra_env.static_network_config.is_empty());
    usages.add_if(with_networks, "Static Network Config");
    let with_arguments = infra_envs.iter().any(|record| record.infra_env.kernel_arguments.is_some());
    usages.add_if(with_arguments, "discovery kernel arguments");
}

fn add_hosts(usages: &mut Usages, record: &ClusterRecord, hosts: &[Arc<HostRecord>]) {
    if hosts.iter().any(|record| !record.host.requested_hostname.is_empty()) {
        usages.add_with("Requested hostname", one("host_count", 1));
    }
    let platform = record.cluster.platform.as_ref().map_or("", |platform| platform.kind.as_str());
    if record.cluster.user_managed_networking || !matches!(platform, "" | "baremetal" | "none") {
        return;
    }
    let virtual_machines = hosts.iter().filter(|record| {
        let inventory = record.facts().inventory.as_ref();
        inventory.and_then(|inventory| inventory.system_vendor.as_ref()).is_some_and(|vendor| vendor.r#virtual)
    });
    let ids: Vec<String> = virtual_machines.map(|record| record.host.id.to_string()).collect();
    if !ids.is_empty() {
        usages.add_with("Cluster managed networking with VMs", one("VM Hosts", ids));
    }
}
