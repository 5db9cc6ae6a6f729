//! Every check of a cluster at its thresholds, with what is said of it.

use super::*;
use crate::model::HostKey;
use api::{Cluster, ClusterNetwork, HostId, InfraEnvId, MachineNetwork, Platform, Secret, Timestamp};
use serde_json::{Value, json};

mod operators;

/// A cluster of three, with nothing wrong.
struct Setup {
    record: ClusterRecord,
    hosts: Vec<HostRecord>,
    machine_networks: Vec<Cidr>,
    clocks: Vec<i64>,
    has_manifests: bool,
    with_control_plane: bool,
}

fn host(number: u128, role: HostRole) -> HostRecord {
    let key = HostKey { infra_env: InfraEnvId::default(), host: HostId(uuid::Uuid::from_u128(number)) };
    let mut record = HostRecord::new(key, None, Timestamp::ZERO);
    record.state = HostState::Known;
    record.host.role = role;
    let nic = json!({"name": "eth0", "ipv4_addresses": [format!("10.0.0.{number}/24")]});
    record.set_inventory(json!({"interfaces": [nic]}).to_string());
    record
}

fn vip(address: &str, verification: &str) -> Vec<Value> {
    vec![json!({"ip": address, "verification": verification})]
}

fn setup() -> Setup {
    let pods = ClusterNetwork { cidr: "10.128.0.0/14".into(), host_prefix: 23, cluster_id: None };
    let cluster = Cluster {
        base_dns_domain: "example.com".into(),
        control_plane_count: 3,
        pull_secret_set: true,
        network_type: "OVNKubernetes".into(),
        platform: Some(Platform { external: json!({}), kind: "baremetal".into() }),
        cluster_networks: vec![pods],
        service_networks: vec![MachineNetwork { cidr: "172.30.0.0/16".into(), cluster_id: None }],
        api_vips: vip("10.0.0.100", "succeeded"),
        ingress_vips: vip("10.0.0.101", "succeeded"),
        ..Cluster::default()
    };
    Setup {
        record: ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::default()),
        hosts: (1..=3).map(|number| host(number, HostRole::Master)).collect(),
        machine_networks: vec!["10.0.0.0/24".parse().unwrap()],
        clocks: vec![1000, 1010],
        has_manifests: false,
        with_control_plane: true,
    }
}

impl Setup {
    fn findings(&self, waived: Waived) -> Findings {
        let hosts: Vec<_> = self.hosts.iter().cloned().map(Arc::new).collect();
        let context = Context {
            record: &self.record,
            hosts: &hosts,
            machine_networks: &self.machine_networks,
            clocks: &self.clocks,
            has_manifests: self.has_manifests,
            with_control_plane: self.with_control_plane,
        };
        run(&context, waived)
    }

    fn cluster(&mut self) -> &mut Cluster {
        &mut self.record.cluster
    }

    fn user_managed(&mut self) {
        self.cluster().user_managed_networking = true;
        self.cluster().api_vips.clear();
        self.cluster().ingress_vips.clear();
        self.machine_networks.clear();
    }

    fn single_node(&mut self) {
        self.cluster().control_plane_count = 1;
        self.hosts.truncate(1);
    }

    fn balanced(&mut self) {
        self.record.settings.insert("load_balancer".into(), json!({"type": "user-managed"}));
    }

    fn pods(&mut self, cidr: &str, host_prefix: u32) {
        self.cluster().cluster_networks = vec![ClusterNetwork { cidr: cidr.into(), host_prefix, cluster_id: None }];
    }

    fn services(&mut self, cidr: &str) {
        self.cluster().service_networks = vec![MachineNetwork { cidr: cidr.into(), cluster_id: None }];
    }

    fn machines(&mut self, cidrs: &[&str]) {
        self.machine_networks = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
    }
}

type Row = (&'static str, fn(&mut Setup), Status, &'static str);

fn hold(rows: &[Row]) {
    for (index, (id, change, status, message)) in rows.iter().enumerate() {
        let mut setup = setup();
        change(&mut setup);
        let findings = setup.findings(Waived::default());
        let found = findings.iter().find(|finding| finding.id == *id).unwrap();
        assert_eq!((found.status, found.message.as_str()), (*status, *message), "{id}, row {index}");
    }
}

use crate::check::Status;
use crate::state::ClusterState;
use Status::{Disabled, Failure, Pending, Success};

#[test]
fn nothing_wrong_is_ready() {
    let checks = setup().findings(Waived::default()).for_state();
    assert!(checks.vips_defined && checks.inputs_given && checks.installable);
}

#[test]
#[rustfmt::skip]
fn configuration() {
    fn oracle(s: &mut Setup) {
        s.cluster().platform = Some(Platform { external: json!({"platform_name": "oci"}), kind: "external".into() });
    }
    hold(&[
        ("pull-secret-set", |_| {}, Success, "The pull secret is set."),
        ("pull-secret-set", |s| s.cluster().pull_secret_set = false, Failure, "The pull secret is not set."),
        ("dns-domain-defined", |_| {}, Success, "The base domain is defined."),
        ("dns-domain-defined", |s| s.cluster().base_dns_domain.clear(), Failure, "The base domain is undefined and must be provided."),
        ("platform-requirements-satisfied", |_| {}, Success, "Platform requirements satisfied"),
        ("platform-requirements-satisfied", oracle, Failure, "Platform oci needs its manifests: upload them to the cluster"),
        ("platform-requirements-satisfied", |s| { oracle(s); s.has_manifests = true }, Success, "Platform requirements satisfied"),
        ("network-type-valid", |_| {}, Success, "The cluster has a valid network type"),
        ("network-type-valid", |s| s.cluster().network_type = "Weave".into(), Failure, "Network type 'Weave' is not one of OpenShiftSDN, OVNKubernetes, CiscoACI, Cilium, Calico, None"),
        ("network-type-valid", |s| s.cluster().network_type = "OpenShiftSDN".into(), Success, "The cluster has a valid network type"),
        ("network-type-valid", |s| { s.cluster().network_type = "OpenShiftSDN".into(); s.single_node() }, Failure, "OpenShiftSDN takes neither IPv6 nor single-node clusters: use OVNKubernetes"),
        ("network-type-valid", |s| { s.cluster().network_type = "OpenShiftSDN".into(); s.services("fd02::/112") }, Failure, "OpenShiftSDN takes neither IPv6 nor single-node clusters: use OVNKubernetes"),
        ("network-type-valid", |s| s.cluster().vip_dhcp_allocation = true, Failure, "OVNKubernetes takes no virtual addresses by DHCP"),
        ("custom-manifests-requirements-satisfied", |_| {}, Success, "No custom manifests are required"),
        ("custom-manifests-requirements-satisfied", |s| s.cluster().network_type = "Cilium".into(), Failure, "Network type Cilium needs its manifests: upload them to the cluster"),
        ("custom-manifests-requirements-satisfied", |s| { s.cluster().network_type = "Cilium".into(); s.has_manifests = true }, Success, "Custom manifests are there"),
    ]);
}

#[test]
#[rustfmt::skip]
fn hosts() {
    const READY: &str = "all-hosts-are-ready-to-install";
    const COUNT: &str = "sufficient-masters-count";
    const EXACT: &str = "The cluster has the exact amount of dedicated control plane nodes.";
    const CLOCKS: &str = "ntp-server-configured";
    fn two(s: &mut Setup, third: HostRole) {
        s.cluster().control_plane_count = 2;
        s.hosts[2].host.role = third;
    }
    hold(&[
        (READY, |_| {}, Success, "All hosts in the cluster are ready to install."),
        (READY, |s| s.hosts[0].state = HostState::PreparingSuccessful, Success, "All hosts in the cluster are ready to install."),
        (READY, |s| s.hosts[0].state = HostState::Insufficient, Failure, "The cluster has 1 host(s) that are not ready to install."),
        (COUNT, |_| {}, Success, EXACT),
        (COUNT, |s| s.hosts.push(host(4, HostRole::Worker)), Success, EXACT),
        (COUNT, |s| s.hosts.truncate(2), Failure, "The cluster must have exactly 3 dedicated control plane node(s); it has 2."),
        (COUNT, |s| s.hosts.push(host(4, HostRole::Master)), Failure, "The cluster must have exactly 3 dedicated control plane node(s); it has 4."),
        (COUNT, |s| { s.hosts[0].host.role = HostRole::AutoAssign; s.hosts[0].host.suggested_role = HostRole::Master }, Success, EXACT),
        (COUNT, Setup::single_node, Success, EXACT),
        (COUNT, |s| { s.single_node(); s.hosts.push(host(4, HostRole::Worker)) }, Failure, "A single-node cluster takes no workers; it has 1."),
        (COUNT, |s| two(s, HostRole::Arbiter), Success, EXACT),
        (COUNT, |s| two(s, HostRole::Worker), Failure, "Two control plane nodes have no majority without each other: give a host the role arbiter, or both fencing credentials"),
        (COUNT, |s| { two(s, HostRole::Worker); s.with_control_plane = false }, Success, EXACT),
        (CLOCKS, |s| s.clocks = vec![1000, 1299], Success, "No ntp problems found"),
        (CLOCKS, |s| s.clocks = vec![1000, 1300, 1100], Failure, "Hosts' clocks are 300 s apart: give the cluster an NTP server that all hosts reach"),
        (CLOCKS, |s| s.clocks.clear(), Success, "No ntp problems found"),
    ]);
}

#[test]
#[rustfmt::skip]
fn networks_defined() {
    hold(&[
        ("machine-cidr-defined", |_| {}, Success, "The Machine Network CIDR is defined."),
        ("machine-cidr-defined", |s| s.machine_networks.clear(), Failure, "The Machine Network CIDR is undefined: set it, or the virtual addresses it is to hold"),
        ("machine-cidr-defined", |s| { s.machine_networks.clear(); s.hosts.clear() }, Pending, "Hosts have not been discovered yet"),
        ("machine-cidr-defined", Setup::user_managed, Success, "No Machine Network CIDR needed: User Managed Networking"),
        ("machine-cidr-defined", |s| { s.user_managed(); s.single_node() }, Failure, "The Machine Network CIDR is undefined: set it, or the virtual addresses it is to hold"),
        ("cluster-cidr-defined", |_| {}, Success, "The Cluster Network CIDR is defined."),
        ("cluster-cidr-defined", |s| s.cluster().cluster_networks.clear(), Failure, "The Cluster Network CIDR is undefined and must be provided."),
        ("service-cidr-defined", |_| {}, Success, "The Service Network CIDR is defined."),
        ("service-cidr-defined", |s| s.cluster().service_networks.clear(), Failure, "The Service Network CIDR is undefined and must be provided."),
        ("no-cidrs-overlapping", |_| {}, Success, "No CIDRS are overlapping."),
        ("no-cidrs-overlapping", |s| s.services("10.128.0.0/16"), Failure, "Networks overlap: cluster network 10.128.0.0/14 and service network 10.128.0.0/16: give each its own"),
        ("no-cidrs-overlapping", |s| s.services("10.0.0.0/16"), Failure, "Networks overlap: machine network 10.0.0.0/24 and service network 10.0.0.0/16: give each its own"),
        ("no-cidrs-overlapping", |s| s.services("10.132.0.0/16"), Success, "No CIDRS are overlapping."),
        ("no-cidrs-overlapping", |s| s.machine_networks.clear(), Pending, "The Machine Network CIDR is undefined."),
        ("no-cidrs-overlapping", |s| s.cluster().service_networks.clear(), Pending, "The Service Network CIDR is undefined."),
        ("no-cidrs-overlapping", Setup::user_managed, Success, "No CIDRS are overlapping."),
        ("networks-same-address-families", |_| {}, Success, "Same address families for all networks."),
        ("networks-same-address-families", |s| s.services("fd02::/112"), Failure, "Machine, cluster and service networks are not all of the same address families (IPv4, IPv6): give each kind one of every family"),
        ("networks-same-address-families", |s| s.machines(&["fd00::/64"]), Failure, "Machine, cluster and service networks are not all of the same address families (IPv4, IPv6): give each kind one of every family"),
    ]);
}

#[test]
#[rustfmt::skip]
fn host_prefixes() {
    const ID: &str = "network-prefix-valid";
    const FINE: &str = "The Cluster Network prefix is valid.";
    fn others(s: &mut Setup) { s.cluster().network_type = "Calico".into(); }
    hold(&[
        (ID, |_| {}, Success, FINE),
        (ID, |s| s.pods("10.128.0.0/14", 25), Success, FINE),
        (ID, |s| s.pods("10.128.0.0/14", 26), Failure, "Host prefix 26 does not fit the cluster network 10.128.0.0/14: it must leave 4 networks of at least 128 addresses"),
        (ID, |s| s.pods("10.128.0.0/21", 23), Success, FINE),
        (ID, |s| s.pods("10.128.0.0/22", 23), Failure, "Host prefix 23 does not fit the cluster network 10.128.0.0/22: it must leave 4 networks of at least 128 addresses"),
        (ID, |s| { s.pods("10.128.0.0/21", 23); s.hosts.extend([4, 5].map(|n| host(n, HostRole::Worker))) }, Failure, "Host prefix 23 does not fit the cluster network 10.128.0.0/21: it must leave 5 networks of at least 128 addresses"),
        (ID, |s| { s.pods("10.128.0.0/23", 23); s.single_node() }, Success, FINE),
        (ID, |s| { s.pods("10.128.0.0/23", 22); s.single_node() }, Failure, "Host prefix 22 does not fit the cluster network 10.128.0.0/23: it must leave 1 networks of at least 128 addresses"),
        (ID, |s| s.pods("fd01::/48", 64), Success, FINE),
        (ID, |s| s.pods("fd01::/48", 122), Failure, "Host prefix 122 does not fit the cluster network fd01::/48: it must leave 4 networks of at least 128 addresses"),
        (ID, |s| { s.pods("10.128.0.0/14", 26); others(s) }, Success, FINE),
        (ID, |s| { s.pods("10.128.0.0/22", 24); others(s) }, Failure, "Host prefix 23 does not fit the cluster network 10.128.0.0/22: it must leave 4 networks of at least 128 addresses"),
    ]);
}

#[test]
#[rustfmt::skip]
fn virtual_addresses() {
    const DEFINED: &str = "api-vips-defined";
    const VALID: &str = "api-vips-valid";
    const FREE: &str = "api vips 10.0.0.100 belongs to the Machine CIDR and is not in use.";
    const FREE_9: &str = "api vips 10.0.0.9 belongs to the Machine CIDR and is not in use.";
    const FREE_254: &str = "api vips 10.0.0.254 belongs to the Machine CIDR and is not in use.";
    const NOT_NEEDED: &str = "API virtual IPs are not required: User Managed Networking";
    const EQUAL: &str = "machine-cidr-equals-to-calculated-cidr";
    const SAME: &str = "The Cluster Machine CIDR is equivalent to the calculated CIDR.";
    fn api(s: &mut Setup, address: &str, verification: &str) { s.cluster().api_vips = vip(address, verification); }
    fn free(s: &mut Setup, host: usize, list: &[&str]) {
        s.hosts[host].set_text("free_addresses", json!([{"network": "10.0.0.0/24", "free_addresses": list}]).to_string());
    }
    hold(&[
        (DEFINED, |_| {}, Success, "API virtual IPs are defined."),
        (DEFINED, |s| s.cluster().api_vips.clear(), Failure, "API virtual IPs are undefined and must be provided."),
        (DEFINED, Setup::user_managed, Success, NOT_NEEDED),
        (DEFINED, Setup::single_node, Success, NOT_NEEDED),
        ("ingress-vips-defined", |s| s.cluster().ingress_vips.clear(), Failure, "Ingress virtual IPs are undefined and must be provided."),
        (VALID, |_| {}, Success, FREE),
        (VALID, |s| s.cluster().api_vips.clear(), Pending, "API virtual IPs are undefined."),
        (VALID, |s| api(s, "10.0.1.1", "succeeded"), Failure, "API virtual IP 10.0.1.1 is in no machine network."),
        (VALID, |s| api(s, "10.0.0.255", "succeeded"), Failure, "API virtual IP 10.0.0.255 is the broadcast address of 10.0.0.0/24."),
        (VALID, |s| api(s, "10.0.0.254", "succeeded"), Success, FREE_254),
        (VALID, |s| api(s, "10.0.0.9", "failed"), Failure, "API virtual IP 10.0.0.9 is in use already: choose a free one."),
        (VALID, |s| api(s, "10.0.0.9", "unverified"), Failure, "API virtual IP 10.0.0.9 has not been verified yet."),
        (VALID, |s| { api(s, "10.0.0.9", "unverified"); free(s, 0, &["10.0.0.9"]) }, Success, FREE_9),
        (VALID, |s| { api(s, "10.0.0.9", ""); free(s, 0, &["10.0.0.9"]); free(s, 1, &["10.0.0.8"]) }, Failure, "API virtual IP 10.0.0.9 has not been verified yet."),
        (VALID, |s| { api(s, "10.0.0.9", "failed"); s.balanced() }, Success, FREE_9),
        (VALID, Setup::user_managed, Success, NOT_NEEDED),
        ("ingress-vips-valid", |s| s.cluster().ingress_vips = vip("10.0.1.1", "succeeded"), Failure, "Ingress virtual IP 10.0.1.1 is in no machine network."),
        (EQUAL, |_| {}, Success, SAME),
        (EQUAL, |s| s.cluster().ingress_vips.clear(), Pending, "The Machine Network CIDR, API virtual IPs, or Ingress virtual IPs are undefined."),
        (EQUAL, |s| s.machines(&["10.0.0.0/16"]), Failure, "The Cluster Machine CIDR 10.0.0.0/16 is different than the calculated CIDR 10.0.0.0/24, which holds the API virtual IP 10.0.0.100."),
        (EQUAL, |s| s.machine_networks.clear(), Failure, "The Cluster Machine CIDR (none) is different than the calculated CIDR 10.0.0.0/24, which holds the API virtual IP 10.0.0.100."),
        (EQUAL, |s| api(s, "192.0.2.1", "succeeded"), Failure, "No host has an interface in a network with the API virtual IP 192.0.2.1."),
        (EQUAL, Setup::user_managed, Success, "The Cluster Machine CIDR is not required: User Managed Networking"),
        (EQUAL, |s| { s.balanced(); s.machines(&["192.0.2.0/24"]) }, Success, "The Cluster Machine CIDR is not required: User Managed Load Balancer"),
    ]);
}

#[test]
fn what_is_switched_off_holds_nothing_back() {
    let mut setup = setup();
    setup.clocks = vec![0, 1000];
    let names = || ["ntp-server-configured".to_owned()].into();
    let outcome = |waived: Waived| {
        let findings = setup.findings(waived);
        let status = findings.iter().find(|finding| finding.id == "ntp-server-configured").unwrap().status;
        (status, findings.for_state().installable)
    };
    assert_eq!(outcome(Waived::default()), (Failure, false));
    assert_eq!(outcome(Waived { ignored: names(), ..Waived::default() }), (Failure, true));
    assert_eq!(outcome(Waived { disabled: names(), ..Waived::default() }), (Disabled, true));
}
