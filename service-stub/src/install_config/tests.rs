//! The install configuration by platform and version, and overrides of it.

use super::*;
use crate::model::{HostKey, HostRecord, InfraEnvRecord};
use crate::rules::networks::Family;
use crate::state::ClusterState;
use api::{
    Cluster, ClusterId, ClusterNetwork, FencingCredentials, HostId, HostRole, InfraEnv, InfraEnvId, MachineNetwork,
    MirrorRegistry, Platform, Secret, Timestamp,
};
use std::sync::Arc;

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----";

struct World {
    record: ClusterRecord,
    model: Model,
    site: Site,
}

impl World {
    fn new(platform: &str, count: u32) -> Self {
        let network = |cidr: &str| MachineNetwork { cidr: cidr.into(), cluster_id: None };
        let external = match platform {
            "external" => json!({"platform_name": "oci", "cloud_controller_manager": "External"}),
            _ => json!({}),
        };
        let cluster = Cluster {
            id: ClusterId::random(),
            name: "edge".into(),
            base_dns_domain: "example.com".into(),
            control_plane_count: count,
            hyperthreading: "all".into(),
            cpu_architecture: "x86_64".into(),
            openshift_version: "4.22.9".into(),
            network_type: "OVNKubernetes".into(),
            machine_networks: vec![network("10.0.0.0/24")],
            service_networks: vec![network("172.30.0.0/16")],
            cluster_networks: vec![ClusterNetwork { cidr: "10.128.0.0/14".into(), host_prefix: 23, cluster_id: None }],
            platform: Some(Platform { kind: platform.into(), external }),
            user_managed_networking: matches!(platform, "none" | "external"),
            ..Cluster::default()
        };
        let record = ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::new("hunter2"));
        Self { record, model: Model::default(), site: Site::default() }
    }

    fn with_vips(mut self) -> Self {
        self.record.cluster.api_vips = vec![json!({"ip": "10.0.0.100"}), json!({"ip": "fd00::100"})];
        self.record.cluster.ingress_vips = vec![json!({"ip": "10.0.0.101"})];
        self
    }

    fn infra_env(&mut self, bundle: &str, time_sources: &str) -> InfraEnvId {
        let infra_env = InfraEnv {
            id: InfraEnvId::random(),
            additional_trust_bundle: bundle.into(),
            additional_ntp_sources: time_sources.into(),
            ..InfraEnv::default()
        };
        let id = infra_env.id;
        let record = InfraEnvRecord { infra_env, ..InfraEnvRecord::default() };
        Arc::make_mut(&mut self.model.infra_envs).insert(id, Arc::new(record));
        id
    }

    fn host(&mut self, infra_env: InfraEnvId, name: &str, role: HostRole, address: &str) -> HostKey {
        let key = HostKey { infra_env, host: HostId::random() };
        let mut host = HostRecord::new(key, Some(self.record.cluster.id), Timestamp::ZERO);
        host.host.role = role;
        host.host.requested_hostname = name.into();
        let nic = |mac: &str, address: &str| json!({"name": mac, "type": "physical", "mac_address": mac, "ipv4_addresses": [address]});
        let nics = [nic("52:54:00:00:00:0f", "192.0.2.1/24"), nic(&format!("52:54:00:00:00:0{name}"), address)];
        host.set_inventory(json!({"interfaces": nics, "boot": {"current_boot_mode": "uefi"}}).to_string());
        Arc::make_mut(&mut self.model.hosts).insert(key, Arc::new(host));
        key
    }

    fn change_host(&mut self, key: HostKey, change: impl FnOnce(&mut HostRecord)) {
        let hosts = Arc::make_mut(&mut self.model.hosts);
        change(Arc::make_mut(hosts.get_mut(&key).unwrap()));
    }

    fn text(&self) -> String {
        text(&self.record, &self.model, &self.site).unwrap()
    }

    fn config(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    fn over(&mut self, text: &str) {
        self.record.cluster.install_config_overrides = Secret::new(text);
    }
}

#[test]
fn a_single_node_has_its_disk_in_place() {
    let mut world = World::new("none", 1);
    let infra_env = world.infra_env("", "");
    let key = world.host(infra_env, "a", HostRole::Master, "10.0.0.1/24");
    world.change_host(key, |host| {
        host.host.bootstrap = true;
        host.host.installation_disk_id = "/dev/disk/by-id/wwn-1".into();
        host.host.installation_disk_path = "/dev/sda".into();
    });
    assert_eq!(
        world.text(),
        r#"{"apiVersion":"v1","baseDomain":"example.com","networking":{"networkType":"OVNKubernetes","clusterNetwork":[{"cidr":"10.128.0.0/14","hostPrefix":23}],"machineNetwork":[{"cidr":"10.0.0.0/24"}],"serviceNetwork":["172.30.0.0/16"]},"metadata":{"name":"edge"},"compute":[{"hyperthreading":"Enabled","name":"worker","replicas":0}],"controlPlane":{"hyperthreading":"Enabled","name":"master","replicas":1},"platform":{"none":{}},"bootstrapInPlace":{"installationDisk":"/dev/disk/by-id/wwn-1"},"fips":false,"pullSecret":"hunter2","sshKey":""}"#
    );
    world.change_host(key, |host| host.host.installation_disk_id.clear());
    assert_eq!(world.config()["bootstrapInPlace"]["installationDisk"], "/dev/sda");
    world.record.cluster.network_type = "None".into();
    assert_eq!(world.config()["networking"]["networkType"], "None");
    world.record.cluster.network_type.clear();
    assert_eq!(world.config()["networking"]["networkType"], "OVNKubernetes");
}

#[test]
fn several_nodes_without_networks_take_those_of_the_bootstrap_host() {
    let mut world = World::new("external", 3);
    world.record.cluster.machine_networks.clear();
    world.record.settings.insert("http_proxy".into(), "http://p".into());
    let infra_env = world.infra_env("", "");
    let key = world.host(infra_env, "a", HostRole::Master, "10.0.0.1/24");
    assert_eq!(world.config()["networking"].get("machineNetwork"), None, "while no host bootstraps");
    world.change_host(key, |host| {
        host.host.bootstrap = true;
        let mut inventory: Value = serde_json::from_str(&host.host.inventory).unwrap();
        inventory["routes"] = json!([{"destination": "0.0.0.0", "gateway": "10.0.0.254"}]);
        host.set_inventory(inventory.to_string());
    });
    let config = world.config();
    assert_eq!(config["networking"]["machineNetwork"], json!([{"cidr": "10.0.0.0/24"}]));
    assert_eq!(config["proxy"]["noProxy"], ".edge.example.com,10.128.0.0/14,172.30.0.0/16");
    let external = json!({"PlatformName": "oci", "CloudControllerManager": "External"});
    assert_eq!((&config["platform"]["external"], config.get("bootstrapInPlace")), (&external, None));
}

#[test]
fn machines_are_known_by_their_interface_in_a_machine_network() {
    let mut world = World::new("baremetal", 3).with_vips();
    let infra_env = world.infra_env("", "t1, t2,t1");
    let worker = world.host(infra_env, "b", HostRole::Worker, "10.0.0.2/24");
    world.host(infra_env, "c", HostRole::Arbiter, "10.0.0.3/24");
    world.host(infra_env, "a", HostRole::Master, "10.0.0.1/24");
    world.change_host(worker, |host| host.set_inventory(host.host.inventory.replace("uefi", "bios")));
    let host = |name: &str, role: &str, mode: &str| {
        json!({"name": name, "role": role, "bootMACAddress": format!("52:54:00:00:00:0{name}"), "bootMode": mode,
            "hardwareProfile": "",
            "bmc": {"username": "", "password": "", "address": "", "disableCertificateVerification": false}})
    };
    let wanted = json!({
        "provisioningNetwork": "Disabled", "apiVIPs": ["10.0.0.100", "fd00::100"], "ingressVIPs": ["10.0.0.101"],
        "hosts": [host("a", "master", "UEFI"), host("c", "arbiter", "UEFI"), host("b", "worker", "legacy")],
        "additionalNTPServers": ["t1", "t2"],
    });
    let config = world.config();
    assert_eq!(config["platform"]["baremetal"], wanted);
    assert_eq!((&config["arbiter"]["replicas"], config.get("featureSet")), (&json!(1), None));
    world.record.settings.insert("additional_ntp_source".into(), "t3,t3".into());
    world.record.settings.insert("load_balancer".into(), json!({"type": "user-managed"}));
    let baremetal = &world.config()["platform"]["baremetal"];
    assert_eq!(baremetal["additionalNTPServers"], json!(["t3", "t3"]), "as the user has them");
    assert_eq!(baremetal["loadBalancer"], json!({"type": "UserManaged"}));
    world.record.cluster.openshift_version = "4.6.1".into();
    let baremetal = &world.config()["platform"]["baremetal"];
    assert_eq!(
        (&baremetal["provisioningNetwork"], &baremetal["apiVIPs"], &baremetal["apiVIP"], &baremetal["ingressVIP"]),
        (&json!("Unmanaged"), &json!(["10.0.0.100"]), &json!("10.0.0.100"), &json!("10.0.0.101"))
    );
}

#[test]
fn what_a_platform_needs_is_named() {
    let said = |world: &World| text(&world.record, &world.model, &world.site).unwrap_err().to_string();
    for platform in ["vsphere", "nutanix"] {
        let wanted = format!(
            "error while adding Platfom {platform} to install config, error is: invalid cluster parameters, APIVip must be provided"
        );
        assert_eq!(said(&World::new(platform, 3)), wanted);
    }
    let mut world = World::new("baremetal", 3).with_vips();
    let infra_env = world.infra_env("", "");
    world.host(infra_env, "a", HostRole::Master, "10.1.0.1/24");
    assert!(
        said(&world).ends_with("Failed to find a network interface matching any machine network"),
        "{}",
        said(&world)
    );
    world.record.cluster.machine_networks.clear();
    world.record.cluster.api_vips.clear();
    assert!(said(&world).contains("Failed to find machine networks for baremetal cluster"), "{}", said(&world));
    let mut world = World::new("baremetal", 3);
    world.record.cluster.openshift_version = "4.11.3".into();
    assert!(said(&world).contains("APIVip must be provided"));
    assert!(check_override(&world.record, &world.model, &world.site, "").is_err());
}

#[test]
fn placeholders_by_version() {
    let mut world = World::new("vsphere", 3).with_vips();
    let vsphere = &world.config()["platform"]["vsphere"];
    assert_eq!(vsphere["vcenters"][0]["datacenters"], json!(["datacenterplaceholder"]));
    assert_eq!(vsphere["failureDomains"][0]["topology"]["folder"], "/datacenterplaceholder/vm/folderplaceholder");
    assert_eq!((&vsphere["apiVIPs"][0], vsphere.get("vCenter")), (&json!("10.0.0.100"), None));
    world.record.cluster.openshift_version = "4.12.1".into();
    let vsphere = &world.config()["platform"]["vsphere"];
    assert_eq!((&vsphere["vCenter"], vsphere.get("vcenters")), (&json!("vcenterplaceholder"), None));
    world.record.cluster.user_managed_networking = true;
    world.record.cluster.network_type = "None".into();
    let config = world.config();
    assert_eq!(config["platform"]["vsphere"].get("apiVIPs"), None);
    assert_eq!(config["networking"]["networkType"], "None");
    let mut world = World::new("nutanix", 3).with_vips();
    world.record.cluster.network_type = "None".into();
    let config = world.config();
    assert_eq!(config["networking"]["networkType"], "", "the plug-in comes as manifests");
    assert_eq!(config["platform"]["nutanix"]["prismElements"][0]["endpoint"]["port"], 9440);
}

#[test]
fn threads_by_pool() {
    for (setting, wanted) in [
        ("all", ["Enabled", "Enabled", "Enabled"]),
        ("none", ["Disabled", "Disabled", "Disabled"]),
        ("masters,workers", ["Enabled", "Disabled", "Enabled"]),
        ("arbiters", ["Disabled", "Enabled", "Disabled"]),
    ] {
        let mut world = World::new("none", 2);
        let infra_env = world.infra_env("", "");
        world.host(infra_env, "a", HostRole::Arbiter, "10.0.0.1/24");
        world.record.cluster.hyperthreading = setting.into();
        world.record.cluster.openshift_version = "4.19.3".into();
        let config = world.config();
        let pools = [&config["controlPlane"], &config["arbiter"], &config["compute"][0]];
        assert_eq!(pools.map(|pool| pool["hyperthreading"].as_str().unwrap()), wanted, "{setting}");
        assert_eq!(config["featureSet"], "TechPreviewNoUpgrade");
    }
}

#[test]
fn two_hosts_power_each_other_off() {
    let mut world = World::new("none", 2);
    let infra_env = world.infra_env("", "");
    let keys = ["a", "b"].map(|name| world.host(infra_env, name, HostRole::Master, "10.0.0.1/24"));
    let fence = |mac: Option<&str>| FencingCredentials {
        address: "https://bmc".into(),
        certificate_verification: mac.map(|_| "Disabled".into()),
        mac_address: mac.map(str::to_owned),
        password: Secret::new("pass"),
        username: "user".into(),
    };
    world.change_host(keys[0], |host| host.fencing = Some(fence(None)));
    assert_eq!(world.config()["controlPlane"].get("fencing"), None, "one of two");
    world.change_host(keys[1], |host| host.fencing = Some(fence(Some("52:54:00:00:00:0b"))));
    for (version, set) in [("4.21.4", Some(&json!("TechPreviewNoUpgrade"))), ("4.22.0-rc.1", None)] {
        world.record.cluster.openshift_version = version.into();
        let config = world.config();
        assert_eq!(config.get("featureSet"), set, "{version}");
        let credentials = config["controlPlane"]["fencing"]["credentials"].as_array().unwrap();
        let common = json!({"address": "https://bmc", "username": "user", "password": "pass"});
        let with = |more: Value| {
            let mut fields = common.clone();
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fields
        };
        let by_mac = json!({"macAddress": "52:54:00:00:00:0b", "certificateVerification": "Disabled"});
        for wanted in [with(json!({"hostname": "a"})), with(by_mac)] {
            assert!(credentials.contains(&wanted), "{credentials:?} {wanted}");
        }
    }
    world.host(infra_env, "c", HostRole::Arbiter, "10.0.0.3/24");
    assert_eq!(world.config()["controlPlane"].get("fencing"), None, "an arbiter has the third vote");
}

#[test]
fn what_is_reached_without_the_proxy() {
    let mut world = World::new("none", 3);
    assert_eq!(world.config().get("proxy"), None);
    world.record.settings.insert("http_proxy".into(), "http://p:3128".into());
    const OWN: &str = ".edge.example.com,10.128.0.0/14,172.30.0.0/16,10.0.0.0/24";
    for (given, direct) in [("a,,b", format!("a,b,{OWN}")), (" * ", "*".to_owned()), ("", OWN.to_owned())] {
        world.record.settings.insert("no_proxy".into(), given.into());
        assert_eq!(world.config()["proxy"], json!({"httpProxy": "http://p:3128", "noProxy": direct}));
    }
}

#[test]
fn the_primary_family_comes_first() {
    let mut world = World::new("none", 1);
    world.record.cluster.machine_networks =
        ["10.0.0.0/24", "fd00::/64"].map(|cidr| MachineNetwork { cidr: cidr.into(), cluster_id: None }).to_vec();
    world.record.primary = Some(Family::V6);
    let wanted = json!([{"cidr": "fd00::/64"}, {"cidr": "10.0.0.0/24"}]);
    assert_eq!(world.config()["networking"]["machineNetwork"], wanted);
}

#[test]
fn mirrors_by_version_and_certificates_in_order() {
    let mut world = World::new("none", 3);
    let infra_env = world.infra_env("four", "");
    world.host(infra_env, "a", HostRole::Master, "10.0.0.1/24");
    world.host(infra_env, "b", HostRole::Master, "10.0.0.2/24");
    assert_eq!(world.config()["additionalTrustBundle"], "four");
    world.over(r#"{"additionalTrustBundle": "one\n"}"#);
    let pair = |source: &str, mirror: &str| vec![(source.to_owned(), vec![mirror.to_owned()])];
    let mirrors = Mirrors {
        digest: pair("quay.io", "mirror"),
        tag: pair("docker.io", "mirror"),
        ca_pem: "three".into(),
        ..Mirrors::default()
    };
    world.site = Site { mirrors: Some(mirrors), root_ca: "two".into() };
    let config = world.config();
    assert_eq!(config["additionalTrustBundle"], "one\n\ntwo\nthree\nfour");
    let sources = json!([{"source": "quay.io", "mirrors": ["mirror"]}]);
    assert_eq!((&config["imageDigestSources"], config.get("imageContentSources")), (&sources, None));
    world.record.cluster.openshift_version = "4.13.9".into();
    let config = world.config();
    assert_eq!((&config["imageContentSources"], config.get("imageDigestSources")), (&sources, None));
}

#[test]
fn a_clusters_own_mirrors_replace_the_services_and_every_authority_is_trusted() {
    let mut world = World::new("none", 3);
    let infra_env = world.infra_env("infra-env", "");
    world.host(infra_env, "a", HostRole::Master, "10.0.0.1/24");
    let record = Arc::make_mut(&mut world.model.infra_envs).get_mut(&infra_env).unwrap();
    Arc::make_mut(record).infra_env.mirror_registry_configuration.ca_bundle = "infra-env's mirrors".into();
    let pair = |source: &str, mirror: &str| vec![(source.to_owned(), vec![mirror.to_owned()])];
    let mirrors = Mirrors { digest: pair("quay.io", "service"), ca_pem: "service".into(), ..Mirrors::default() };
    world.site = Site { mirrors: Some(mirrors), root_ca: String::new() };
    let conf = |pull: &str| {
        format!("[[registry]]\nlocation = 'quay.io/a'\nmirror = [{{location = 'own/a', pull-from-mirror = '{pull}'}}]")
    };
    for (conf, ca, sources, trusted) in [
        ("", "", json!([{"source": "quay.io", "mirrors": ["service"]}]), "service\ninfra-env\ninfra-env's mirrors"),
        (
            &conf("digest-only"),
            "cluster's mirrors",
            json!([{"source": "quay.io/a", "mirrors": ["own/a"]}]),
            "service\ncluster's mirrors\ninfra-env\ninfra-env's mirrors",
        ),
        (&conf("tag-only"), "", Value::Null, "service\ninfra-env\ninfra-env's mirrors"),
    ] {
        world.record.cluster.mirror_registry_configuration =
            MirrorRegistry { registries_conf: conf.into(), ca_bundle: ca.into() };
        let config = world.config();
        assert_eq!(config["imageDigestSources"], sources, "{conf}");
        assert_eq!(config["additionalTrustBundle"], trusted, "{conf}");
    }
}

#[test]
fn overrides_are_checked_and_merged() {
    let mut world = World::new("none", 3);
    let check = |world: &World, over: &str| {
        let checked = check_override(&world.record, &world.model, &world.site, over);
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (over, why) in [
        ("", ""),
        (r#"{"fips":true}"#, ""),
        (r#"{"publish":"Internal"}"#, r#"json: unknown field "publish""#),
        (r#"{"additionalTrustBundle":"PEM"}"#, "invalid block"),
        (&json!({"additionalTrustBundle": PEM}).to_string(), "parse failed: x509: malformed certificate"),
    ] {
        assert_eq!(check(&world, over), why, "{over}");
    }
    world.over(r#"{"fips":true,"networking":{"clusterNetwork":[{"cidr":"10.132.0.0/14"}],"networkType":"Calico"}}"#);
    let config = world.config();
    assert_eq!(config["networking"]["clusterNetwork"], json!([{"cidr": "10.132.0.0/14", "hostPrefix": 23}]));
    assert_eq!((&config["fips"], &config["networking"]["networkType"]), (&json!(true), &json!("Calico")));
}

#[test]
fn a_console_that_is_not_among_the_parts() {
    let mut world = World::new("none", 3);
    for (version, over, has) in [
        ("4.22.9", "", true),
        ("4.22.9", r#"{"capabilities":{"baselineCapabilitySet":"None"}}"#, false),
        ("4.11.9", r#"{"capabilities":{"baselineCapabilitySet":"None"}}"#, true),
        ("4.22.9", r#"{"capabilities":{"baselineCapabilitySet":"v4.11"}}"#, true),
        (
            "4.12.0",
            r#"{"capabilities":{"baselineCapabilitySet":"None","additionalEnabledCapabilities":["Storage","Console"]}}"#,
            true,
        ),
    ] {
        world.record.cluster.openshift_version = version.into();
        world.over(over);
        assert_eq!(has_console(&world.record), has, "{version} {over}");
    }
}

#[test]
fn another_clusters_file_describes_it_not() {
    let World { record, .. } = World::new("none", 3);
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
