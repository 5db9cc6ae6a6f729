//! What an update of a cluster sets, and what it leaves.

use super::cluster_settings::apply;
use crate::http::Refusal;
use crate::model::ClusterRecord;
use crate::rules::platform;
use crate::state::ClusterState;
use api::{Cluster, ClusterNetwork, Secret};
use serde_json::{Value, json};

fn cluster(masters: u32) -> ClusterRecord {
    let single = masters == 1;
    let own = Cluster {
        name: "rack".into(),
        control_plane_count: masters,
        high_availability_mode: if single { "None" } else { "Full" }.into(),
        user_managed_networking: single,
        openshift_version: "4.22.9".into(),
        cpu_architecture: "x86_64".into(),
        cluster_networks: vec![ClusterNetwork { cidr: "10.128.0.0/14".into(), host_prefix: 23, cluster_id: None }],
        platform: Some(platform::with_kind(if single { "none" } else { "baremetal" })),
        ..Cluster::default()
    };
    let mut record = ClusterRecord::new(ClusterState::Insufficient, own, Secret::default());
    record.settings.insert("tags".into(), "old".into());
    record
}

fn set(record: &mut ClusterRecord, params: Value) -> Result<(), String> {
    let params = serde_json::from_value(params).unwrap();
    apply(record, &[], params).map_err(|refusal| match refusal {
        Refusal::Request(status, text) | Refusal::Application(status, text) => format!("{status}: {text}"),
    })
}

#[test]
fn what_is_given_is_set_and_the_rest_stays() {
    let mut record = cluster(1);
    let given = json!({
        "name": "edge", "machine_network_cidr": "192.0.2.0/24", "cluster_network_host_prefix": 24, "tags": "",
        "ntp_sources": "ntp1.example.com,192.0.2.1", "no_proxy": "a,b", "pull_secret": "",
    });
    set(&mut record, given).unwrap();
    let own = &record.cluster;
    assert_eq!((own.name.as_str(), own.high_availability_mode.as_str()), ("edge", "None"));
    assert_eq!(
        (own.machine_networks[0].cidr.as_str(), own.machine_networks[0].cluster_id),
        ("192.0.2.0/24", Some(own.id))
    );
    assert_eq!((own.cluster_networks[0].cidr.as_str(), own.cluster_networks[0].host_prefix), ("10.128.0.0/14", 24));
    assert_eq!(own.platform.as_ref().unwrap().kind, "none");
    assert!(!own.pull_secret_set, "an empty secret takes it away");
    assert!(!record.settings.contains_key("tags") && record.settings.contains_key("ntp_sources"));
}

#[test]
fn mirrors_of_registries_are_set_refused_and_removed() {
    let mut record = cluster(3);
    let conf = "[[registry]]\nlocation = 'quay.io'\nmirror = [{location = 'm'}]\n";
    let mut set = |mirrors: Value| {
        let result = set(&mut record, json!({"mirror_registry_configuration": mirrors}));
        (result, record.cluster.mirror_registry_configuration.registries_conf.clone())
    };
    assert_eq!(set(json!({"registries_conf": conf})), (Ok(()), conf.to_owned()));
    assert_eq!(set(Value::Null), (Ok(()), conf.to_owned()), "what is not given stays");
    let refused = |why: &str| (Err(format!("400 Bad Request: {why}")), conf.to_owned());
    for (mirrors, why) in [
        (json!({"registries_conf": "[[registry]]"}), "failed to find any image mirrors in registry.conf"),
        (json!({"registries_conf": conf, "ca_bundle": "hunter2"}), "ca_bundle: invalid block"),
        (json!({"ca_bundle": "hunter2"}), "ca_bundle has no registries.conf to go with"),
    ] {
        assert_eq!(set(mirrors), refused(why));
    }
    assert_eq!(set(json!({})), (Ok(()), String::new()));
}

#[test]
fn management_of_the_network_and_platform_follow_each_other() {
    let mut record = cluster(3);
    let kind = |record: &ClusterRecord| record.cluster.platform.as_ref().unwrap().kind.clone();
    set(&mut record, json!({"user_managed_networking": true})).unwrap();
    assert_eq!((kind(&record).as_str(), record.cluster.user_managed_networking), ("none", true));
    set(&mut record, json!({"platform": {"type": "baremetal"}})).unwrap();
    assert_eq!((kind(&record).as_str(), record.cluster.user_managed_networking), ("baremetal", false));
    let external = json!({"platform": {"type": "external", "external": {"platform_name": "acme"}}, "user_managed_networking": true});
    set(&mut record, external).unwrap();
    assert_eq!(record.cluster.platform.as_ref().unwrap().external["cloud_controller_manager"], "");
}

#[test]
fn addresses_of_one_way_are_no_good_for_the_other() {
    let mut record = cluster(3);
    record.cluster.api_vips = vec![json!({"ip": "192.0.2.5"})];
    record.cluster.ingress_vips = vec![json!({"ip": "192.0.2.6"})];
    set(&mut record, json!({"name": "edge"})).unwrap();
    assert_eq!(record.cluster.api_vips.len(), 1);
    set(&mut record, json!({"vip_dhcp_allocation": true})).unwrap();
    assert!(record.cluster.vip_dhcp_allocation && record.cluster.api_vips.is_empty());
    set(&mut record, json!({"machine_networks": [{"cidr": "192.0.2.0/24"}]})).unwrap();
    let why = set(&mut record, json!({"machine_networks": [{"cidr": "fd00::/64"}]})).unwrap_err();
    assert_eq!(why, "400 Bad Request: VIP DHCP allocation is unsupported with IPv6 network fd00::/64");
}

#[test]
fn encryption_is_set_field_by_field() {
    let mut record = cluster(3);
    let servers = r#"[{"url":"http://a","thumbprint":"x"}]"#;
    set(&mut record, json!({"disk_encryption": {"enable_on": "all"}})).unwrap();
    assert_eq!(record.settings["disk_encryption"], json!({"enable_on": "all", "mode": "tpmv2"}));
    set(&mut record, json!({"disk_encryption": {"mode": "tang", "tang_servers": servers}})).unwrap();
    let all = json!({"enable_on": "all", "mode": "tang", "tang_servers": servers});
    assert_eq!(record.settings["disk_encryption"], all);
    set(&mut record, json!({"name": "edge", "schedulable_masters": true})).unwrap();
    assert_eq!(record.settings["disk_encryption"], all);
    assert_eq!(record.settings["schedulable_masters"], true);
}

#[test]
fn an_installed_cluster_stays_as_it_is() {
    let mut installed = cluster(3);
    installed.state = ClusterState::Installed;
    let why = set(&mut installed, json!({"name": "edge"})).unwrap_err();
    assert!(why.starts_with("409") && why.ends_with("[insufficient ready pending-for-input adding-hosts]"), "{why}");
}
