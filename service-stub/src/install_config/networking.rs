//! The networks, the proxy, and what a single node installs itself to.

use crate::install_config::facts::Facts;
use crate::net::Cidr;
use serde_json::{Map, Value, json};

/// The network plug-in that is brought as manifests.
const NO_PLUG_IN: &str = "None";
const DEFAULT_PLUG_IN: &str = "OVNKubernetes";

/// Puts in what concerns the networks. Where the user looks after them, the platform takes the hosts' networks too, and the plug-in
/// by its name whatever it is.
pub(crate) fn add(facts: &Facts, user_managed: bool, config: &mut Map<String, Value>) {
    let cluster = &facts.record.cluster;
    let pods = cluster.cluster_networks.iter();
    let pods: Vec<Value> =
        pods.map(|network| json!({"cidr": network.cidr, "hostPrefix": network.host_prefix})).collect();
    let services: Vec<&str> = cluster.service_networks.iter().map(|network| network.cidr.as_str()).collect();
    let stored = stored(facts);
    let machines = if user_managed { facts.machine_networks.as_slice() } else { stored };
    let machines: Vec<Value> = machines.iter().map(|network| json!({"cidr": network.to_string()})).collect();
    let plug_in = match cluster.network_type.as_str() {
        NO_PLUG_IN if !user_managed => "",
        "" if user_managed && facts.record.single_node() => DEFAULT_PLUG_IN,
        plug_in => plug_in,
    };
    config.insert(
        "networking".to_owned(),
        json!({
            "networkType": plug_in,
            "clusterNetwork": if pods.is_empty() { Value::Null } else { pods.into() },
            "machineNetwork": machines,
            "serviceNetwork": if services.is_empty() { Value::Null } else { services.into() },
        }),
    );
    if let Some(proxy) = proxy(facts, stored) {
        config.insert("proxy".to_owned(), proxy);
    }
}

/// The disk that a single node is to be on after it has started its control plane from memory.
pub(crate) fn add_single_node(facts: &Facts, config: &mut Map<String, Value>) {
    let Some(host) = facts.hosts.iter().find(|host| host.host.bootstrap && facts.record.single_node()) else { return };
    let (id, path) = (&host.host.installation_disk_id, &host.host.installation_disk_path);
    let disk = if id.is_empty() { path } else { id };
    config.insert("bootstrapInPlace".to_owned(), json!({"installationDisk": disk}));
}

/// The cluster's own networks. Several hosts whose networks the user looks after have none, unless they were set.
fn stored<'a>(facts: &'a Facts) -> &'a [Cidr] {
    let cluster = &facts.record.cluster;
    let found_late = cluster.user_managed_networking && !facts.record.single_node();
    if found_late && cluster.machine_networks.is_empty() { &[] } else { &facts.machine_networks }
}

/// With the cluster's own networks and domain among what is reached directly.
fn proxy(facts: &Facts, machine_networks: &[Cidr]) -> Option<Value> {
    let [http, https, direct] = ["http_proxy", "https_proxy", "no_proxy"].map(|name| facts.setting(name));
    if http.is_empty() && https.is_empty() {
        return None;
    }
    let direct = match direct.trim() {
        "*" => "*".to_owned(),
        direct => {
            let cluster = &facts.record.cluster;
            let given = direct.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
            let domain = format!(".{}.{}", cluster.name, cluster.base_dns_domain);
            let pods = cluster.cluster_networks.iter().map(|network| network.cidr.clone());
            let services = cluster.service_networks.iter().map(|network| network.cidr.clone());
            let machines = machine_networks.iter().map(Cidr::to_string);
            given.chain([domain]).chain(pods).chain(services).chain(machines).collect::<Vec<_>>().join(",")
        }
    };
    Some(json!({"httpProxy": http, "httpsProxy": https, "noProxy": direct}))
}
