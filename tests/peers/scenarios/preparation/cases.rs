//! Clusters of many kinds.

use super::super::install_config::{self, HA, SNO, two_families, vips, with};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// A cluster, and requests about it once its hosts are there: method, path, body. `CLUSTER` and `HOST-1` in a path are ids.
pub(super) struct Case {
    pub base: install_config::Case,
    pub requests: Vec<(&'static str, String, Value)>,
}

impl Case {
    fn manifest(self, folder: &str, file: &str, content: &str) -> Self {
        let body = json!({"folder": folder, "file_name": file, "content": BASE64_STANDARD.encode(content)});
        self.request("POST", "/clusters/CLUSTER/manifests", body)
    }

    fn request(mut self, method: &'static str, path: &str, body: Value) -> Self {
        self.requests.push((method, path.to_owned(), body));
        self
    }

    /// Its domain's first part.
    pub(super) fn label(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        self.base.name.replace(", ", "-").chars().map(plain).collect()
    }
}

impl From<install_config::Case> for Case {
    fn from(base: install_config::Case) -> Self {
        Self { base, requests: Vec::new() }
    }
}

fn case(name: &'static str, roles: &[&'static str], cluster: Value) -> Case {
    install_config::Case::new(name, roles, cluster).into()
}

/// The same with other inventories.
fn inventories(case: Case, change: impl Fn(usize, &mut Value)) -> Case {
    Case { base: case.base.hosts(|number, host| change(number, &mut host.inventory)), ..case }
}

fn only_ipv6(_: usize, inventory: &mut Value) {
    for interface in inventory["interfaces"].as_array_mut().unwrap() {
        interface["ipv4_addresses"] = json!([]);
    }
    inventory["routes"].as_array_mut().unwrap().remove(0);
    inventory["interfaces"].as_array_mut().unwrap().remove(0);
}

fn ipv6(of: Value) -> Value {
    let networks = two_families().as_object().unwrap().clone();
    let second = networks.into_iter().map(|(name, list)| (name, json!([list[1].clone()]))).collect();
    with(Value::Object(second), of)
}

const FOUR: &[&str] = &["master", "master", "master", "worker"];
const COMPACT: &[&str] = &["master", "master", "master"];
const TANG: &str = r#"[{"url":"http://tang.example.com:7500","thumbprint":"PLjNyRdGw03zlRoGjQYMahSZGu9"}]"#;
const POOL: &str =
    "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata: {name: infra}\n";
const MACHINE_CONFIG: &str = "apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 90-own, labels: {machineconfiguration.openshift.io/role: worker}}
spec: {config: {ignition: {version: 3.2.0}, storage: {files: [{path: /etc/own, mode: 420, contents: {source: 'data:,own'}}]}}}
";
const OVERRIDE: &str = r#"{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/example","mode":420,"overwrite":true,"contents":{"source":"data:text/plain;base64,aGVscGltdHJhcHBlZGluYXN3YWdnZXJzcGVj"}}]},"systemd":{"units":[{"name":"own.service","enabled":true,"contents":"[Service]\nExecStart=/bin/true\n"}]}}"#;

pub(super) fn cases() -> Vec<Case> {
    let none = json!({"user_managed_networking": true});
    let operators = |names: &[&str]| {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"olm_operators": all})
    };
    let encryption = |on: &str, mode: &str| {
        let servers = if mode == "tang" { TANG } else { "" };
        with(vips(), json!({"disk_encryption": {"enable_on": on, "mode": mode, "tang_servers": servers}}))
    };
    let external = json!({"platform": {"type": "external", "external": {"platform_name": "cloud",
        "cloud_controller_manager": "External"}}, "user_managed_networking": true});
    let of_vmware = |_: usize, inventory: &mut Value| {
        inventory["system_vendor"] =
            json!({"manufacturer": "VMware, Inc.", "product_name": "VMware7,1", "serial_number": "V", "virtual": true});
        inventory["disks"][0]["has_uuid"] = true.into();
    };
    let of_nutanix = |_: usize, inventory: &mut Value| {
        inventory["system_vendor"] =
            json!({"manufacturer": "Nutanix", "product_name": "AHV", "serial_number": "N", "virtual": true});
    };
    let with_second_disk = |_: usize, inventory: &mut Value| {
        let mut second = inventory["disks"][0].clone();
        for (name, value) in [("name", "vdb"), ("path", "/dev/vdb"), ("by_path", "/dev/disk/by-path/pci-1")] {
            second[name] = value.into();
        }
        for name in ["id", "by_id"] {
            second[name] = format!("{}-b", second[name].as_str().unwrap()).into();
        }
        second["hctl"] = "1:0:0:1".into();
        inventory["disks"].as_array_mut().unwrap().push(second);
    };
    let two_vips = with(
        two_families(),
        json!({"api_vips": [{"ip": "192.168.131.100"}, {"ip": "fd00:131::100"}],
            "ingress_vips": [{"ip": "192.168.131.101"}, {"ip": "fd00:131::101"}]}),
    );
    let dhcp = json!({"openshift_version": "4.14", "vip_dhcp_allocation": true, "network_type": "OpenShiftSDN"});
    let mut pool = case("manifests, a pool, overrides", HA, vips())
        .manifest("openshift", "several.yaml", "kind: A\n---\nkind: B\nwords: [yes, 0x10, '1']\n---\nkind: C\n")
        .manifest("manifests", "comment.yaml", "---\n# nothing before\nkind: One # as it is\n")
        .manifest("manifests", "other.json", "{\"kind\": \"Other\"}")
        .manifest("openshift", "empty.yaml", "# nothing\n")
        .manifest(
            "manifests",
            "cluster-scheduler-02-config.yml.patch_1",
            "- op: add\n  path: /metadata/labels\n  value: {first: '1'}\n",
        )
        .manifest(
            "openshift",
            "cluster-scheduler-02-config.yml.patch_2",
            "- op: replace\n  path: /spec/mastersSchedulable\n  value: true\n",
        )
        .manifest("openshift", "pool.yaml", POOL)
        .manifest("openshift", "machine-config.yaml", MACHINE_CONFIG)
        .request("PATCH", "/hosts/HOST-1/ignition", json!({"config": OVERRIDE}))
        .request(
            "PATCH",
            "/clusters/CLUSTER/install-config",
            r#"{"fips":true,"networking":{"networkType":"Calico"}}"#.into(),
        );
    pool.base.hosts[1].patch = json!({"host_name": "renamed"});
    pool.base.hosts[4].patch = json!({"machine_config_pool_name": "infra"});
    let mut missing_pool = case("a missing pool", HA, vips());
    missing_pool.base.hosts[3].patch = json!({"machine_config_pool_name": "absent"});
    let times = json!({"additional_ntp_source": "t1.example.com,t2.example.com"});
    vec![
        case("single node", SNO, json!({})),
        inventories(case("single node, IPv6", SNO, ipv6(json!({}))), only_ipv6),
        inventories(case("single node, LVM", SNO, operators(&["lvm"])), with_second_disk),
        case("single node, encryption", SNO, json!({"disk_encryption": {"enable_on": "all", "mode": "tpmv2"}})),
        case("baremetal", HA, vips()),
        case("no platform, one worker", FOUR, none.clone()),
        case("no platform, compact", COMPACT, none),
        case("both families", HA, two_vips),
        inventories(
            case(
                "baremetal, IPv6",
                HA,
                ipv6(json!({"api_vips": [{"ip": "fd00:131::100"}], "ingress_vips": [{"ip": "fd00:131::101"}]})),
            ),
            only_ipv6,
        ),
        case("arbiter", &["master", "master", "arbiter"], vips()),
        case("external", HA, external),
        inventories(case("vSphere", HA, with(vips(), json!({"platform": {"type": "vsphere"}}))), of_vmware),
        case("tang for masters", HA, encryption("masters", "tang")),
        case("TPM for workers", HA, encryption("workers", "tpmv2")),
        inventories(case("Nutanix", HA, with(vips(), json!({"platform": {"type": "nutanix"}}))), of_nutanix),
        case("proxy", HA, with(vips(), json!({"http_proxy": "http://p:3128", "no_proxy": "a.example.com"}))),
        case(
            "schedulable masters, balancer",
            HA,
            with(vips(), json!({"schedulable_masters": true, "load_balancer": {"type": "user-managed"}})),
        ),
        Case::from(
            install_config::Case::new("times, persistent boot", HA, with(vips(), times))
                .infra_env(json!({"additional_ntp_sources": "t3.example.com"}))
                .hosts(|number, host| {
                    if number != 0 {
                        host.inventory["boot"]["device_type"] = "persistent".into();
                    }
                }),
        ),
        case("addresses by DHCP", HA, dhcp),
        case("4.14", HA, with(vips(), json!({"openshift_version": "4.14"}))),
        case("operators", COMPACT, with(vips(), operators(&["metallb", "nmstate", "cluster-observability"]))),
        case("a bad patch", COMPACT, vips()).manifest(
            "manifests",
            "nothing.yaml.patch_1",
            "- op: remove\n  path: /nowhere\n",
        ),
        missing_pool,
        pool,
    ]
}

/// One whose double fails.
pub(super) fn failing(name: &'static str) -> Case {
    case(name, COMPACT, vips())
}

/// The output of a step on a host that lacks nothing.
pub(super) fn reply(step: &str, arguments: &[Value], inventory: &Value) -> Option<Value> {
    let request = || -> Value { serde_json::from_str(arguments[0].as_str().unwrap()).unwrap() };
    Some(match step {
        "inventory" => inventory.clone(),
        "connectivity-check" => connectivity(&request(), inventory),
        "free-network-addresses" => {
            let free = ["192.168.131.100", "192.168.131.101", "192.0.2.100"];
            let of = |network: &Value| {
                let start = network.as_str().unwrap().rsplit_once('.').unwrap().0.to_owned();
                let free: Vec<_> = free.iter().filter(|address| address.starts_with(&start)).collect();
                json!({"network": network, "free_addresses": free})
            };
            request()
                .as_array()
                .unwrap()
                .iter()
                .filter(|network| network.as_str().unwrap().contains('.'))
                .map(of)
                .collect()
        }
        "ntp-synchronizer" => json!({"ntp_sources": [{"source_name": "192.168.131.1", "source_state": "synced"}]}),
        "verify-vips" => {
            let verified = |vip: &Value| with(vip.clone(), json!({"verification": "succeeded"}));
            request().as_array().unwrap().iter().map(verified).collect()
        }
        "tang-connectivity-check" => json!({"is_success": true, "tang_server_response": [{
            "tang_url": "http://tang.example.com:7500", "payload": "p", "signatures": [{"protected": "a", "signature": "b"}]}]}),
        "dhcp-lease-allocate" => json!({
            "api_vip_address": "192.168.131.100", "ingress_vip_address": "192.168.131.101",
            "api_vip_lease": "lease {\n  interface \"api\";\n  fixed-address 192.168.131.100;\n  renew 0 2030/01/01 00:00:00;\n}",
            "ingress_vip_lease": "lease {\n  interface \"ingress\";\n  fixed-address 192.168.131.101;\n  renew 0 2030/01/01 00:00:00;\n}",
        }),
        "installation-disk-speed-check" => json!({"io_sync_duration": 1, "path": request()["path"]}),
        "container-image-availability" => {
            let one = |image: &Value| json!({"name": image, "result": "success", "time": 1.0, "size_bytes": 1e6, "download_rate": 1.0});
            json!({"images": request()["images"].as_array().unwrap().iter().map(one).collect::<Vec<_>>()})
        }
        _ => return None,
    })
}

fn connectivity(hosts: &Value, inventory: &Value) -> Value {
    let outgoing = inventory["interfaces"].as_array().unwrap();
    let remote = |host: &Value| {
        let (mut second, mut third) = (Vec::new(), Vec::new());
        for nic in host["nics"].as_array().unwrap() {
            for address in nic["ip_addresses"].as_array().unwrap() {
                for own in outgoing {
                    second.push(json!({"outgoing_nic": own["name"], "remote_ip_address": address,
                        "remote_mac": nic["mac"], "successful": true}));
                }
                third.push(
                    json!({"outgoing_nic": outgoing[0]["name"], "remote_ip_address": address, "successful": true,
                    "average_rtt_ms": 0.5, "packet_loss_percentage": 0}),
                );
            }
        }
        json!({"host_id": host["host_id"], "l2_connectivity": second, "l3_connectivity": third})
    };
    json!({"remote_hosts": hosts.as_array().unwrap().iter().map(remote).collect::<Vec<_>>()})
}
