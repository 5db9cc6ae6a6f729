//! The same clusters at both services: their install configurations, and what either says of overrides.

use super::*;
use crate::service::{RealService, ServiceOptions, ours::OurService};

const NAMES: &[(&str, &str)] = &[("quay.io", "192.0.2.80")];
/// Ours has the other one.
const REAL_PORT: u16 = 8092;

/// A cluster with its hosts, and overrides that are tried one after the other.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) cluster: Value,
    pub(super) infra_env: Value,
    pub(super) hosts: Vec<Host>,
    overrides: Vec<String>,
}

#[derive(Clone)]
pub(super) struct Host {
    pub(super) role: &'static str,
    pub(super) inventory: Value,
    /// Settings.
    pub(super) patch: Value,
}

/// Fields over those of a document.
pub(super) fn with(mut document: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("{fields}") };
    document.as_object_mut().unwrap().extend(fields);
    document
}

fn inventory(number: usize) -> Value {
    json!({
        "hostname": format!("node-{number}"),
        "bmc_address": "0.0.0.0",
        "bmc_v6address": "::/0",
        "boot": {"current_boot_mode": "uefi"},
        "cpu": {"architecture": "x86_64", "count": 16, "flags": ["vmx"], "frequency": 2000.0, "model_name": "CPU"},
        "memory": {"physical_bytes": 64_u64 << 30, "usable_bytes": 64_u64 << 30, "physical_bytes_method": "dmidecode"},
        "system_vendor": {"manufacturer": "Maker", "product_name": "Machine", "serial_number": format!("S{number}")},
        "tpm_version": "2.0",
        "timestamp": 1_790_000_000,
        "disks": [{
            "id": format!("/dev/disk/by-id/wwn-{number}"), "by_id": format!("/dev/disk/by-id/wwn-{number}"),
            "by_path": "/dev/disk/by-path/pci-0", "name": "vda", "path": "/dev/vda", "drive_type": "HDD", "bootable": false,
            "hctl": "1:0:0:0", "size_bytes": 240_u64 << 30, "installation_eligibility": {"eligible": true, "not_eligible_reasons": []},
        }],
        "interfaces": [
            {"name": "ens2", "type": "physical", "mac_address": format!("52:54:00:00:01:{number:02x}"), "mtu": 1500,
             "ipv4_addresses": [format!("192.0.2.{}/24", number + 10)], "ipv6_addresses": [], "flags": ["up"], "has_carrier": true},
            {"name": "ens3", "type": "physical", "mac_address": format!("52:54:00:00:00:{number:02x}"), "mtu": 1500,
             "ipv4_addresses": [format!("192.168.131.{}/24", number + 10)],
             "ipv6_addresses": [format!("fd00:131::{}/64", number + 10)], "flags": ["up"], "has_carrier": true},
        ],
        "routes": [
            {"destination": "0.0.0.0", "gateway": "192.168.131.1", "interface": "ens3", "family": 2, "metric": 100},
            {"destination": "::", "gateway": "fd00:131::1", "interface": "ens3", "family": 10, "metric": 100},
        ],
    })
}

impl Case {
    pub(super) fn new(name: &'static str, roles: &[&'static str], cluster: Value) -> Self {
        let host =
            |(number, role): (usize, &&'static str)| Host { role, inventory: inventory(number), patch: json!({}) };
        let base = json!({
            "name": "edge", "openshift_version": "4.22", "base_dns_domain": "example.com", "pull_secret": PULL_SECRET,
            "cpu_architecture": "x86_64", "ssh_public_key": "", "machine_networks": [{"cidr": "192.168.131.0/24"}],
            "control_plane_count": roles.iter().filter(|role| **role == "master").count(),
        });
        Self {
            name,
            cluster: with(base, cluster),
            infra_env: json!({}),
            hosts: roles.iter().enumerate().map(host).collect(),
            overrides: Vec::new(),
        }
    }

    pub(super) fn infra_env(self, infra_env: Value) -> Self {
        Self { infra_env, ..self }
    }

    fn overrides<T: ToString>(self, overrides: impl IntoIterator<Item = T>) -> Self {
        Self { overrides: overrides.into_iter().map(|over| over.to_string()).collect(), ..self }
    }

    pub(super) fn hosts(mut self, change: impl Fn(usize, &mut Host)) -> Self {
        self.hosts.iter_mut().enumerate().for_each(|(number, host)| change(number, host));
        self
    }
}

pub(super) const HA: &[&str] = &["master", "master", "master", "worker", "worker"];
pub(super) const SNO: &[&str] = &["master"];

pub(super) fn vips() -> Value {
    json!({"api_vips": [{"ip": "192.168.131.100"}], "ingress_vips": [{"ip": "192.168.131.101"}]})
}

pub(super) fn two_families() -> Value {
    json!({
        "machine_networks": [{"cidr": "192.168.131.0/24"}, {"cidr": "fd00:131::/64"}],
        "service_networks": [{"cidr": "172.30.0.0/16"}, {"cidr": "fd02::/112"}],
        "cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": 23}, {"cidr": "fd01::/48", "host_prefix": 64}],
    })
}

/// The other family first.
fn turned(networks: Value) -> Value {
    let turn = |(name, list): (String, Value)| {
        let mut list = list.as_array().unwrap().clone();
        list.reverse();
        (name, Value::Array(list))
    };
    networks.as_object().unwrap().clone().into_iter().map(turn).collect()
}

fn certificate() -> String {
    let (certificate, _) = testkit::tls::self_signed(&testkit::tls::self_signing());
    testkit::tls::pem(&certificate)
}

/// A decoder's refusals, and what it lets pass.
const OVERRIDES: &[&str] = &[
    r#"{"fips":true}"#,
    r#"{"FIPS":true,"ſſhKey":1}"#,
    r#"{"fips":true} trailing"#,
    r#"{"zzz":1}"#,
    r#"{"networking":{"zzz":1}}"#,
    r#"{"zzz":1,"fips":"x"}"#,
    r#"{"fips":"x","zzz":1}"#,
    r#"{"fips":1}"#,
    r#"{"sshKey":true}"#,
    r#"{"sshKey":null,"fips":null,"networking":null}"#,
    r#"{"compute":[{"replicas":1.5}]}"#,
    r#"{"compute":[{"replicas":"1"}]}"#,
    r#"{"compute":[{"replicas":7}]}"#,
    r#"{"compute":[null,{"name":"second"}]}"#,
    r#"{"compute":null,"proxy":null}"#,
    r#"{"controlPlane":{"replicas":9223372036854775807}}"#,
    r#"{"controlPlane":{"fencing":{"credentials":[{"hostname":"a"}]}}}"#,
    r#"{"arbiter":{"name":"arbiter","replicas":1}}"#,
    r#"{"featureGates":{}}"#,
    r#"{"featureGates":["a",null]}"#,
    r#"{"proxy":{"httpProxy":"http://p"}}"#,
    r#"{"proxy":[]}"#,
    r#"{"networking":{"networkType":"Calico"}}"#,
    r#"{"networking":{"networkType":7}}"#,
    r#"{"networking":{"clusterNetwork":[{"cidr":"10.132.0.0/14"}]}}"#,
    r#"{"networking":{"clusterNetwork":[]}}"#,
    r#"{"networking":{"clusterNetwork":null,"serviceNetwork":[null,"10.0.0.0/8"]}}"#,
    r#"{"networking":{"machineNetwork":[{"cidr":"192.0.2.0/24"},{}]}}"#,
    r#"{"platform":{"baremetal":{}}}"#,
    r#"{"platform":{"baremetal":{"hosts":[{"bmc":{"address":"redfish://b"}}],"provisioningNetworkCIDR":"","loadBalancer":{}}}}"#,
    r#"{"platform":{"vsphere":{"vcenters":[{"server":"v","port":443}],"failureDomains":[{"topology":{"networks":["n"]}}]}}}"#,
    r#"{"platform":{"vsphere":{"vcenters":[{"port":2147483648}]}}}"#,
    r#"{"platform":{"nutanix":{"subnetUUIDs":["u"],"prismElements":[{}]}}}"#,
    r#"{"platform":{"external":{"platformName":"x","cloudControllerManager":"External"}}}"#,
    r#"{"platform":{"none":null}}"#,
    r#"{"platform":{"aws":{}}}"#,
    r#"{"capabilities":{"baselineCapabilitySet":"None"}}"#,
    r#"{"capabilities":{"baselineCapabilitySet":"None","additionalEnabledCapabilities":["Console"]}}"#,
    r#"{"capabilities":{"baselineCapabilitySet":1}}"#,
    r#"{"cpuPartitioningMode":"AllNodes","featureSet":"CustomNoUpgrade","osImageStream":"rhel-10","additionalTrustBundlePolicy":"Always"}"#,
    r#"{"imageDigestSources":[{"source":"s"}],"imageContentSources":[{"source":"s"}]}"#,
    r#"{"sshKey":"<a> & \"b\""}"#,
    r#"{"publish":"Internal"}"#,
    r#"{"metadata":7}"#,
    r#"{"additionalTrustBundle":"PEM"}"#,
    r#"{"additionalTrustBundle":"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"}"#,
    "[1]",
    "null",
    "7",
    r#"{"fips":"#,
    r#"{"fips":true,}"#,
    " ",
    "",
];

fn cases() -> Vec<Case> {
    let pem = certificate();
    let bundle = json!({"additionalTrustBundle": pem, "additionalTrustBundlePolicy": "Always"});
    let proxy =
        |direct: &str| json!({"http_proxy": "http://p:3128", "https_proxy": "http://p:3129", "no_proxy": direct});
    let platform = |kind: &str| json!({"platform": {"type": kind}});
    let external = |name: &str, manager: &str| {
        let external = json!({"platform_name": name, "cloud_controller_manager": manager});
        json!({"platform": {"type": "external", "external": external}, "user_managed_networking": true})
    };
    let fence = |number: usize, host: &mut Host| {
        let mut credentials = json!({"address": "https://bmc", "username": "user", "password": "secret"});
        if number == 1 {
            credentials =
                with(credentials, json!({"certificate_verification": "Disabled", "mac_address": "52:54:00:00:00:01"}));
        }
        host.patch = json!({"fencing_credentials": credentials});
    };
    vec![
        Case::new("single node", SNO, json!({})).overrides(OVERRIDES),
        Case::new(
            "single node, 4.14, found network",
            SNO,
            json!({"openshift_version": "4.14", "machine_networks": null}),
        ),
        Case::new("single node, both families", SNO, two_families()),
        Case::new("single node, no plug-in", SNO, json!({"network_type": "None"})),
        Case::new("user-managed", HA, json!({"user_managed_networking": true})),
        Case::new("baremetal", HA, vips()).overrides([
            r#"{"platform":{"baremetal":{"hosts":[{"bmc":{"address":"redfish://b"}}],"apiVIPs":null}}}"#,
            r#"{"platform":{"baremetal":null,"none":{}}}"#,
        ]),
        Case::new("baremetal, legacy boot and unknown", HA, vips()).hosts(|number, host| match number {
            0 => host.inventory["boot"]["current_boot_mode"] = json!("bios"),
            1 => host.inventory["boot"] = json!({}),
            2 => drop(host.inventory.as_object_mut().unwrap().remove("boot")),
            _ => {}
        }),
        Case::new(
            "baremetal, 4.14, found network",
            HA,
            with(vips(), json!({"openshift_version": "4.14", "machine_networks": null})),
        ),
        Case::new("baremetal, no plug-in", HA, with(vips(), json!({"network_type": "None"}))),
        Case::new(
            "baremetal, no hosts",
            &[],
            with(vips(), json!({"control_plane_count": 3, "machine_networks": null})),
        ),
        Case::new("baremetal, a host elsewhere", HA, vips())
            .hosts(|number, host| {
                let interfaces = if number == 4 { 1 } else { 2 };
                host.inventory["interfaces"].as_array_mut().unwrap().truncate(interfaces);
            })
            .overrides([r#"{"fips":true}"#]),
        Case::new("baremetal, user's balancer", HA, with(vips(), json!({"load_balancer": {"type": "user-managed"}}))),
        Case::new(
            "both families",
            HA,
            with(
                two_families(),
                json!({
                    "api_vips": [{"ip": "192.168.131.100"}, {"ip": "fd00:131::100"}],
                    "ingress_vips": [{"ip": "192.168.131.101"}, {"ip": "fd00:131::101"}],
                }),
            ),
        ),
        Case::new("IPv6 first", HA, {
            let addresses = json!({
                "api_vips": [{"ip": "192.168.131.100"}, {"ip": "fd00:131::100"}],
                "ingress_vips": [{"ip": "192.168.131.101"}, {"ip": "fd00:131::101"}],
            });
            turned(with(two_families(), addresses))
        }),
        Case::new("proxy", HA, with(vips(), proxy("a.example.com,10.9.0.0/16"))),
        Case::new("proxy, all direct", HA, with(vips(), proxy("*"))),
        Case::new(
            "proxy, user-managed",
            HA,
            with(proxy(""), json!({"user_managed_networking": true, "machine_networks": null})),
        ),
        Case::new("external", HA, external("cloud", "External")),
        Case::new("OCI", HA, external("oci", "External")).infra_env(json!({"image_type": "minimal-iso"})),
        Case::new("external, no manager", SNO, external("cloud", "")),
        Case::new("vSphere", HA, with(vips(), platform("vsphere"))).overrides([
            r#"{"platform":{"vsphere":{"vcenters":[{"server":"v","user":"u","password":null}]}}}"#,
            r#"{"platform":{"vsphere":{"failureDomains":[{"topology":{"folder":""}}]}}}"#,
        ]),
        Case::new("vSphere, user-managed", HA, with(platform("vsphere"), json!({"user_managed_networking": true}))),
        Case::new("vSphere without addresses", HA, platform("vsphere")).overrides([r#"{"fips":true}"#, ""]),
        Case::new("Nutanix", HA, with(vips(), platform("nutanix")))
            .overrides([r#"{"platform":{"nutanix":{"prismCentral":{"endpoint":{"address":"pc"}}}}}"#]),
        Case::new("Nutanix, 4.14", HA, with(with(vips(), platform("nutanix")), json!({"openshift_version": "4.14"}))),
        Case::new("arbiter", &["master", "master", "arbiter"], vips()),
        Case::new(
            "arbiter, threads",
            &["master", "master", "arbiter", "worker"],
            with(vips(), json!({"hyperthreading": "arbiters,workers"})),
        ),
        Case::new("fencing", &["master", "master"], vips()).hosts(fence),
        Case::new("fencing, not both", &["master", "master"], vips()).hosts(move |number, host| {
            if number == 0 {
                fence(number, host);
            }
        }),
        Case::new("fencing, too old", HA, with(vips(), json!({"openshift_version": "4.14"}))).hosts(fence),
        Case::new("no threads", HA, with(vips(), json!({"hyperthreading": "none"}))),
        Case::new("threads of masters", HA, with(vips(), json!({"hyperthreading": "masters"}))),
        Case::new(
            "the cluster's time",
            HA,
            with(vips(), json!({"additional_ntp_source": "t1.example.com,t2.example.com"})),
        )
        .infra_env(json!({"additional_ntp_sources": "t3.example.com"})),
        Case::new("the infra-env's time and trust", HA, vips())
            .infra_env(
                json!({"additional_ntp_sources": "t3.example.com,t4.example.com", "additional_trust_bundle": pem}),
            )
            .overrides([bundle]),
    ]
}

/// What each service says of a case, by the step that it says it of.
fn answers(api: &Api, case: &Case) -> Vec<(String, Value)> {
    let mut said = Vec::new();
    let (status, created) = api.try_request("POST", "/clusters", Some(case.cluster.clone()));
    if status != 201 {
        said.push(("cluster".to_owned(), json!([status, created["reason"]])));
        return said;
    }
    let cluster = id(&created);
    let mut body = with(infra_env(Some(&cluster)), case.infra_env.clone());
    body["openshift_version"] = case.cluster["openshift_version"].clone();
    let (status, created) = api.try_request("POST", "/infra-envs", Some(body));
    if status != 201 {
        said.push(("infra-env".to_owned(), json!([status, created["reason"]])));
        return said;
    }
    let env = id(&created);
    let anonymous = |value: Value| -> Value {
        let text = value.to_string().replace(&cluster, "CLUSTER").replace(&env, "INFRA_ENV");
        serde_json::from_str(&text).unwrap()
    };
    for (number, host) in case.hosts.iter().enumerate() {
        let host_id = format!("00000000-0000-4000-8000-{number:012}");
        let path = format!("/infra-envs/{env}/hosts");
        let register = json!({"host_id": host_id, "discovery_agent_version": "quay.io/edge/agent:latest"});
        api.request("POST", &path, Some(register));
        let path = format!("{path}/{host_id}");
        let reply = json!({"step_id": "inventory-1", "step_type": "inventory", "exit_code": 0, "output": host.inventory.to_string()});
        api.request("POST", &format!("{path}/instructions"), Some(reply));
        if case.hosts.len() > 1 {
            api.request("PATCH", &path, Some(json!({"host_role": host.role})));
        }
        let (status, answer) = api.try_request("PATCH", &path, Some(host.patch.clone()));
        // The real service shows the password to everyone who sees the host.
        let shown = api.get(&path)["fencing_credentials"].to_string().replace("secret", "");
        said.push((format!("host {number}"), anonymous(json!([status, answer["reason"], shown]))));
    }
    // The real service looks at the hosts' networks each second.
    if case.hosts.len() == 1 || !case.hosts.is_empty() && case.cluster["api_vips"].is_array() {
        api.await_state("the cluster has found its networks", &format!("/clusters/{cluster}"), PATIENCE, |cluster| {
            cluster["machine_networks"].as_array().is_some_and(|networks| !networks.is_empty())
        });
    }
    let path = format!("/clusters/{cluster}/install-config");
    let state = || {
        let (status, config) = api.try_request("GET", &path, None);
        let parsed = config.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let config = parsed.map_or_else(|| config["reason"].clone(), in_order);
        let shown = api.get(&format!("/clusters/{cluster}"));
        let mut operators: Vec<Value> =
            shown["monitored_operators"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
        operators.sort_by_key(Value::to_string);
        anonymous(json!({"status": status, "config": config, "operators": operators}))
    };
    said.push(("config".to_owned(), state()));
    for over in &case.overrides {
        let (status, answer) = api.try_request("PATCH", &path, Some(Value::from(over.as_str())));
        said.push((format!("override {over}"), anonymous(json!([status, answer["reason"], answer["message"]]))));
        if status == 201 {
            said.push((format!("config with {over}"), state()));
        }
    }
    api.request("DELETE", &format!("/clusters/{cluster}"), None);
    said
}

/// The real service has its hosts in no order.
fn in_order(mut config: Value) -> Value {
    let credentials = config.pointer_mut("/controlPlane/fencing/credentials").and_then(Value::as_array_mut);
    if let Some(credentials) = credentials {
        credentials.sort_by_key(Value::to_string);
    }
    config
}

/// What may be another: a part of the step, and why.
const NAMED: &[(&str, &str)] = &[
    (r#"override {"fips":true,}"#, "a syntax error is named by its place: the text may be secret"),
    (r#"override {"metadata":7}"#, "there, a type without a name is shown with all its fields"),
    ("MAA=", "what is wrong within a certificate is said by another parser"),
];

#[test]
fn install_configurations_are_the_same() {
    scenario("p: install configurations, both services", &["assisted-service"], NAMES, |peers, site| {
        let environment = [("TNF_CLUSTERS_SUPPORT", "true".to_owned())];
        let options = ServiceOptions { base_url: site.url(), environment: &environment, ..ServiceOptions::default() };
        let real = RealService::start(peers, &site.server.namespace, REAL_PORT, options);
        let ours = OurService::start(site, &[]);
        let mut different = Vec::new();
        let (mut compared, mut named) = (0, 0);
        for case in cases() {
            let (theirs, own) = (answers(&real.api, &case), answers(&ours.api, &case));
            for (index, (step, wanted)) in theirs.iter().enumerate() {
                compared += 1;
                let seen = own.get(index).filter(|(own, _)| own == step).map(|(_, seen)| seen);
                match seen == Some(wanted) {
                    true => {}
                    false if NAMED.iter().any(|(part, _)| step.contains(part)) => named += 1,
                    false => different.push(format!(
                        "{}: {step}:\n  real {wanted}\n  ours {}",
                        case.name,
                        seen.unwrap_or(&Value::Null)
                    )),
                }
            }
        }
        std::fs::write(traces().join("different.txt"), different.join("\n\n")).unwrap();
        assert!(
            different.is_empty(),
            "{} of {compared} answers differ; the first:\n{}",
            different.len(),
            different.iter().take(5).cloned().collect::<Vec<_>>().join("\n")
        );
        format!("{compared} answers compared, {named} differ as named")
    });
}
