//! Every check at its thresholds: what is just enough, what is just not, and what is said of it.

use super::*;
use crate::attest::record::Policy;
use crate::check::{connectivity::MajorityGroups, reach::Reach, requirements::Requirements};
use crate::model::{ClusterRecord, DAY2_CLUSTER, DAY2_HOST, HostKey, HostRecord, InfraEnvRecord, Presence};
use crate::net::Cidr;
use crate::state::ClusterState;
use api::{
    Cluster, ClusterNetwork, HostId, HostProgressInfo, HostRole, InfraEnv, InfraEnvId, MachineNetwork, Platform,
    Secret, Timestamp,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

mod operators;

const NOW: i64 = 1_800_000_000;

/// A host of a cluster of three, with nothing wrong.
struct Setup {
    record: HostRecord,
    presence: Presence,
    cluster: Option<ClusterRecord>,
    infra_env: InfraEnvRecord,
    shared: Shared,
    attest: Policy,
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn id(number: u128) -> HostId {
    HostId(uuid::Uuid::from_u128(number))
}

fn cluster(masters: u32) -> ClusterRecord {
    let cluster = Cluster {
        name: "rack".into(),
        base_dns_domain: "example.com".into(),
        openshift_version: "4.21.3".into(),
        control_plane_count: masters,
        platform: Some(Platform { external: json!({}), kind: "baremetal".into() }),
        cluster_networks: vec![ClusterNetwork { cidr: "10.128.0.0/14".into(), host_prefix: 23, cluster_id: None }],
        service_networks: vec![MachineNetwork { cidr: "172.30.0.0/16".into(), cluster_id: None }],
        ..Cluster::default()
    };
    ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::default())
}

fn setup() -> Setup {
    let key = HostKey { infra_env: InfraEnvId::random(), host: id(1) };
    let mut record = HostRecord::new(key, None, Timestamp::from_unix_seconds(NOW));
    record.host.role = HostRole::Master;
    record.host.installation_disk_id = "/dev/sda".into();
    record.set_inventory(
        json!({
            "hostname": "node-1",
            "cpu": {"count": 4, "architecture": "x86_64"},
            "memory": {"physical_bytes": 16384_u64 << 20, "physical_bytes_method": "ghw"},
            "disks": [{"name": "sda", "path": "/dev/sda", "id": "/dev/sda", "drive_type": "SSD",
                       "installation_eligibility": {"eligible": true}}],
            "interfaces": [{"name": "eth0", "ipv4_addresses": ["10.0.0.1/24"], "ipv6_addresses": ["fe80::1/64"]}],
            "routes": [{"destination": "0.0.0.0", "gateway": "10.0.0.254", "interface": "eth0"}],
            "system_vendor": {"manufacturer": "QEMU", "product_name": "Q35"},
            "tpm_version": "2.0",
        })
        .to_string(),
    );
    let peer = |number: u128| (id(number), (HostRole::Master, format!("node-{number}")));
    let mut shared = Shared {
        names: [1, 2, 3].map(|number| (format!("node-{number}"), 1)).into(),
        peers: [1, 2, 3].map(peer).into(),
        machine_networks: vec![cidr("10.0.0.0/24")],
        group_minimum: 3,
        hosts: 3,
        ..Shared::default()
    };
    shared.groups.majority_groups.insert("10.0.0.0/24".into(), vec![id(1), id(2), id(3)]);
    shared.groups.l3_connected_addresses.insert(id(1), vec!["10.0.0.1".into()]);
    let presence = Presence { checked_in_at: Timestamp::from_unix_seconds(NOW), clock: NOW };
    let mut setup = Setup {
        record,
        presence,
        cluster: Some(cluster(3)),
        infra_env: InfraEnvRecord::default(),
        shared,
        attest: Policy::Off,
    };
    reach(&mut setup, 0.0, 0.0, true);
    setup
}

impl Setup {
    fn findings(&self, waived: Waived) -> Findings {
        let context = Context {
            record: &self.record,
            presence: self.presence,
            cluster: self.cluster.as_ref(),
            infra_env: Some(&self.infra_env),
            shared: &self.shared,
            requirements: &Requirements::default(),
            attest: self.attest,
            now: Timestamp::from_unix_seconds(NOW),
            started: Timestamp::from_unix_seconds(0),
        };
        run(&context, waived)
    }

    fn found(&self, id: &str) -> Option<(Status, String)> {
        let findings = self.findings(Waived::default());
        let mut found = findings.iter().filter(|finding| finding.id == id);
        found.next().map(|finding| (finding.status, finding.message.clone()))
    }

    fn cluster(&mut self) -> &mut ClusterRecord {
        self.cluster.as_mut().unwrap()
    }

    fn user_managed(&mut self) {
        self.cluster().cluster.user_managed_networking = true;
        self.shared.machine_networks.clear();
    }

    fn single_node(&mut self) {
        self.cluster().cluster.control_plane_count = 1;
        self.shared.hosts = 1;
    }

    fn day2(&mut self) {
        self.cluster().cluster.kind = DAY2_CLUSTER.into();
        self.record.host.kind = DAY2_HOST.into();
    }

    fn keep(&mut self, name: &str, value: &Value) {
        self.record.set_text(name, value.to_string());
    }

    fn at_stage(&mut self, stage: HostStage) {
        let progress = HostProgressInfo { current_stage: Some(stage), ..Default::default() };
        self.record.host.progress = Some(progress);
    }
}

/// Sets a part of the inventory.
fn part(setup: &mut Setup, pointer: &str, value: Value) {
    let mut inventory: Value = serde_json::from_str(&setup.record.host.inventory).unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    inventory.pointer_mut(parent).unwrap()[name] = value;
    setup.record.set_inventory(inventory.to_string());
}

/// What the host measured of host 2.
fn reach(setup: &mut Setup, rtt: f64, loss: f64, mtu: bool) {
    let remote = json!({"remote_hosts": [{"host_id": id(2),
        "l3_connectivity": [{"remote_ip_address": "10.0.0.2", "successful": true, "average_rtt_ms": rtt,
                             "packet_loss_percentage": loss}],
        "mtu_report": [{"remote_ip_address": "10.0.0.2", "mtu_successful": mtu},
                       {"remote_ip_address": "192.0.2.2", "mtu_successful": mtu}]}]});
    let report: api::ConnectivityReport = serde_json::from_value(remote.clone()).unwrap();
    assert!(Reach::from(report).seen(id(2)).is_some());
    setup.record.set_connectivity(remote.to_string());
}

fn no_inventory(setup: &mut Setup) {
    setup.record.set_inventory(String::new());
}

type Row = (&'static str, fn(&mut Setup), Option<(Status, &'static str)>);

fn hold(rows: &[Row]) {
    for (index, (id, change, expected)) in rows.iter().enumerate() {
        let mut setup = setup();
        change(&mut setup);
        let found = setup.found(id);
        let found = found.as_ref().map(|(status, message)| (*status, message.as_str()));
        assert_eq!(found, *expected, "{id}, row {index}");
    }
}

use Status::{Disabled, Error, Failure, Pending, Success};

const WAITING: Option<(Status, &str)> = Some((Pending, "The host has not sent its inventory yet"));

#[test]
#[rustfmt::skip]
fn presence() {
    hold(&[
        ("connected", |s| s.presence.checked_in_at = Timestamp::from_unix_seconds(NOW - 179), Some((Success, "Host is connected"))),
        ("connected", |s| s.presence.checked_in_at = Timestamp::from_unix_seconds(NOW - 180), Some((Failure, "Host is disconnected"))),
        ("connected", |s| { s.presence.checked_in_at = Timestamp::from_unix_seconds(NOW - 299); s.record.host.bootstrap = true }, Some((Success, "Host is connected"))),
        ("connected", |s| { s.presence.checked_in_at = Timestamp::from_unix_seconds(NOW - 300); s.record.host.bootstrap = true }, Some((Failure, "Host is disconnected"))),
        ("connected", |s| s.at_stage(HostStage::Rebooting), None),
        ("connected", |s| s.at_stage(HostStage::Installing), Some((Success, "Host is connected"))),
        ("media-connected", |_| {}, Some((Success, "Media device is connected"))),
        ("media-connected", |s| s.record.host.media_status = "disconnected".into(), Some((Failure, "The discovery media can't be read any more: connect it again, then restart the host"))),
        ("time-synced-between-host-and-service", |s| s.presence.clock = NOW - 1200, Some((Success, "Host clock is synchronized with service"))),
        ("time-synced-between-host-and-service", |s| s.presence.clock = NOW - 1201, Some((Failure, "The host's clock is 1201 s behind the service's: set both by NTP"))),
        ("time-synced-between-host-and-service", |s| s.presence.clock = NOW + 3600, Some((Success, "Host clock is synchronized with service"))),
        ("time-synced-between-host-and-service", |s| s.presence.clock = NOW + 3601, Some((Failure, "The host's clock is 3601 s ahead of the service's: set both by NTP"))),
        ("time-synced-between-host-and-service", |s| s.presence.clock = 0, Some((Pending, "The host has not reported its time yet"))),
        ("time-synced-between-host-and-service", |s| s.at_stage(HostStage::Joined), None),
        ("ntp-synced", |_| {}, None),
        ("ntp-synced", |s| s.keep("ntp_sources", &json!([{"source_state": "unreachable"}, {"source_state": "synced"}])), Some((Success, "Host NTP is synced"))),
        ("ntp-synced", |s| s.keep("ntp_sources", &json!([{"source_state": "unreachable"}])), Some((Failure, "Host couldn't synchronize with any NTP server: give it one that it reaches (additional_ntp_source)"))),
        ("ntp-synced", |s| { s.cluster = None; s.keep("ntp_sources", &json!([])) }, None),
        ("ntp-synced", |s| { s.cluster = None; s.infra_env.infra_env = InfraEnv { ntp_sources: "n1".into(), ..InfraEnv::default() }; s.keep("ntp_sources", &json!([])) }, Some((Failure, "Host couldn't synchronize with any NTP server: give it one that it reaches (additional_ntp_source)"))),
    ]);
    let setup = setup();
    let t = Timestamp::from_unix_seconds;
    let old = Presence { checked_in_at: t(NOW - 10_000), clock: NOW };
    assert!(connected(&setup.record, old, t(NOW), t(NOW - 10)), "the service itself was down");
}

#[test]
#[rustfmt::skip]
fn hardware() {
    hold(&[
        ("has-inventory", |_| {}, Some((Success, "Valid inventory exists for the host"))),
        ("has-inventory", no_inventory, Some((Failure, "The host has not sent its inventory yet"))),
        ("inventory-not-partially-truncated", |s| part(s, "/truncation", json!({"type": "partial", "reasons": ["size"]})), Some((Failure, "The agent left a part of the inventory out (size): raise its limit of size, or have it list fewer disks"))),
        ("inventory-not-fully-truncated", |s| part(s, "/truncation", json!({"type": "partial", "reasons": ["size"]})), Some((Success, "Inventory is not truncated"))),
        ("inventory-not-fully-truncated", |s| part(s, "/truncation", json!({"type": "full", "reasons": ["size"]})), Some((Failure, "The agent left a part of the inventory out (size): raise its limit of size, or have it list fewer disks"))),
        ("has-min-cpu-cores", |s| part(s, "/cpu/count", json!(2)), Some((Success, "Sufficient CPU cores"))),
        ("has-min-cpu-cores", |s| part(s, "/cpu/count", json!(1)), Some((Failure, "Any role needs 2 CPU cores, the host has 1"))),
        ("has-min-cpu-cores", no_inventory, WAITING),
        ("has-min-memory", |s| part(s, "/memory/physical_bytes", json!(8092_u64 << 20)), Some((Success, "Sufficient minimum RAM"))),
        ("has-min-memory", |s| part(s, "/memory/physical_bytes", json!((8092_u64 << 20) - 1)), Some((Failure, "Any role needs 8192 MiB of memory, the host has 8091 MiB"))),
        ("has-min-memory", |s| part(s, "/memory", json!({"physical_bytes": 7929_u64 << 20, "physical_bytes_method": "meminfo"})), Some((Success, "Sufficient minimum RAM"))),
        ("has-min-memory", |s| part(s, "/memory", json!({"physical_bytes": 7928_u64 << 20, "physical_bytes_method": "meminfo"})), Some((Failure, "Any role needs 8192 MiB of memory, the host has 7928 MiB"))),
        ("has-cpu-cores-for-role", |_| {}, Some((Success, "Sufficient CPU cores for role master"))),
        ("has-cpu-cores-for-role", |s| part(s, "/cpu/count", json!(3)), Some((Failure, "Role master needs 4 CPU cores, the host has 3"))),
        ("has-cpu-cores-for-role", |s| { s.single_node(); part(s, "/cpu/count", json!(8)) }, Some((Success, "Sufficient CPU cores for role master"))),
        ("has-cpu-cores-for-role", |s| { s.single_node(); part(s, "/cpu/count", json!(7)) }, Some((Failure, "Role master needs 8 CPU cores, the host has 7"))),
        ("has-cpu-cores-for-role", |s| { s.single_node(); s.cluster().cluster.openshift_version = "4.22.0".into() }, Some((Success, "Sufficient CPU cores for role master"))),
        ("has-cpu-cores-for-role", |s| { s.record.host.role = HostRole::Arbiter; part(s, "/cpu/count", json!(2)) }, Some((Success, "Sufficient CPU cores for role arbiter"))),
        ("has-cpu-cores-for-role", |s| { s.record.host.role = HostRole::AutoAssign; part(s, "/cpu/count", json!(2)) }, Some((Success, "Sufficient CPU cores for role auto-assign"))),
        ("has-memory-for-role", |s| part(s, "/memory/physical_bytes", json!(16284_u64 << 20)), Some((Success, "Sufficient RAM for role master"))),
        ("has-memory-for-role", |s| part(s, "/memory/physical_bytes", json!(16283_u64 << 20)), Some((Failure, "Role master needs 16384 MiB of memory, the host has 16283 MiB"))),
        ("has-min-valid-disks", |_| {}, Some((Success, "Sufficient disk capacity"))),
        ("has-min-valid-disks", |s| part(s, "/disks", json!([])), Some((Error, "The host has no disk that could be seen"))),
        ("has-min-valid-disks", |s| part(s, "/disks", json!([{"name": "sda", "installation_eligibility": {"not_eligible_reasons": ["Disk is removable"]}}])), Some((Failure, "No eligible disks were found (sda: Disk is removable)"))),
        ("hostname-unique", |_| {}, Some((Success, "Hostname node-1 is unique in cluster"))),
        ("hostname-unique", |s| { s.shared.names.insert("node-1".into(), 2); }, Some((Failure, "Hostname node-1 is also that of 1 other host(s) of the cluster: give the host another name"))),
        ("hostname-valid", |_| {}, Some((Success, "Hostname node-1 is allowed"))),
        ("hostname-valid", |s| part(s, "/hostname", json!("localhost")), Some((Failure, "Hostname localhost is not allowed: use lower-case letters, digits, hyphens and dots, at most 63, not localhost"))),
        ("hostname-valid", |s| { s.record.host.requested_hostname = "a".into(); no_inventory(s) }, Some((Failure, "The host has not reported its name yet"))),
        ("compatible-with-cluster-platform", |_| {}, Some((Success, "Host is compatible with cluster platform baremetal"))),
        ("compatible-with-cluster-platform", |s| s.cluster().cluster.platform = None, Some((Pending, "The platform of the cluster is not set"))),
        ("compatible-with-cluster-platform", |s| s.cluster().cluster.platform.as_mut().unwrap().kind = "vsphere".into(), Some((Failure, "Host is not compatible with cluster platform vsphere: its maker is 'QEMU'"))),
        ("vsphere-disk-uuid-enabled", |_| {}, None),
        ("vsphere-disk-uuid-enabled", |s| s.cluster().cluster.platform.as_mut().unwrap().kind = "vsphere".into(), Some((Failure, "Disks sda have no UUID: set disk.EnableUUID to TRUE for this virtual machine"))),
        ("compatible-agent", |_| {}, Some((Success, "Host agent is compatible with the service"))),
        ("compatible-agent", |s| s.at_stage(HostStage::Installing), None),
        ("no-skip-installation-disk", |s| s.record.set_text("skip_formatting_disks", "/dev/sdb".into()), Some((Success, "No request to skip formatting of the installation disk"))),
        ("no-skip-installation-disk", |s| s.record.set_text("skip_formatting_disks", "/dev/sdb,/dev/sda".into()), Some((Failure, "The installation disk is among those whose formatting is skipped: choose another one, or take it off the list"))),
        ("no-skip-missing-disk", |s| s.record.set_text("skip_formatting_disks", "/dev/sda".into()), Some((Success, "All disks that have skipped formatting are present in the host inventory"))),
        ("no-skip-missing-disk", |s| s.record.set_text("skip_formatting_disks", "/dev/sda,/dev/gone".into()), Some((Failure, "Disks whose formatting is skipped are not in the inventory: /dev/gone"))),
        ("no-skip-missing-disk", no_inventory, WAITING),
        ("sufficient-installation-disk-speed", |_| {}, Some((Success, "Speed of installation disk has not yet been measured"))),
        ("sufficient-installation-disk-speed", |s| s.keep("disks_info", &json!({"/dev/sda": {"disk_speed": {"tested": true, "exit_code": 0, "speed_ms": 99}}})), Some((Success, "Speed of installation disk is sufficient"))),
        ("sufficient-installation-disk-speed", |s| s.keep("disks_info", &json!({"/dev/sda": {"disk_speed": {"tested": true, "exit_code": 1}}})), Some((Failure, "Speed of installation disk could not be measured: the step ended with 1"))),
    ]);
}

#[test]
#[rustfmt::skip]
fn disk_encryption() {
    const ID: &str = "disk-encryption-requirements-satisfied";
    fn on(s: &mut Setup, roles: &str, mode: &str) {
        s.cluster().settings.insert("disk_encryption".into(), json!({"enable_on": roles, "mode": mode}));
    }
    fn fetched(s: &mut Setup, clevis: Value) {
        s.day2();
        let config = json!({"ignition": {"version": "3.2.0"}, "storage": {"luks": [{"name": "root", "clevis": clevis}]}});
        s.keep("api_vip_connectivity", &json!({"is_success": true, "ignition": config.to_string()}));
    }
    hold(&[
        (ID, |_| {}, None),
        (ID, |s| on(s, "none", "tpmv2"), None),
        (ID, |s| on(s, "workers,arbiters", "tpmv2"), None),
        (ID, |s| on(s, "masters,workers", "tpmv2"), Some((Success, "Installation disk can be encrypted using tpmv2"))),
        (ID, |s| { on(s, "all", "tpmv2"); part(s, "/tpm_version", json!("1.2")) }, Some((Failure, "The host's TPM version is not supported, expected-version: 2.0, actual-version: 1.2"))),
        (ID, |s| { on(s, "all", "tpmv2"); no_inventory(s) }, WAITING),
        (ID, |s| on(s, "masters", "tang"), Some((Pending, "The host has not tried to reach the Tang servers yet"))),
        (ID, |s| { on(s, "masters", "tang"); s.keep("tang_connectivity", &json!({"is_success": true})) }, Some((Success, "Installation disk can be encrypted using tang"))),
        (ID, |s| { on(s, "masters", "tang"); s.keep("tang_connectivity", &json!({})) }, Some((Failure, "Could not validate that all Tang servers are reachable and working: {}"))),
        (ID, |s| { on(s, "all", "tpmv2"); s.day2() }, None),
        (ID, |s| fetched(s, json!({})), None),
        (ID, |s| { fetched(s, json!({"tpm2": true})); part(s, "/tpm_version", json!("none")) }, Some((Failure, "TPM version could not be found, make sure TPM is enabled in host's BIOS"))),
        (ID, |s| fetched(s, json!({"tpm2": true, "tang": [{"url": "http://t"}]})), Some((Pending, "The host has not tried to reach the Tang servers yet"))),
    ]);
}

#[test]
#[rustfmt::skip]
fn networks() {
    hold(&[
        ("machine-cidr-defined", |_| {}, Some((Success, "Machine Network CIDR is defined"))),
        ("machine-cidr-defined", |s| s.shared.machine_networks.clear(), Some((Failure, "The machine network is not defined: set it, or the virtual addresses it is to hold"))),
        ("machine-cidr-defined", Setup::user_managed, Some((Success, "No Machine Network CIDR needed: User Managed Networking"))),
        ("machine-cidr-defined", |s| s.cluster = None, None),
        ("belongs-to-machine-cidr", |_| {}, Some((Success, "Host belongs to all machine network CIDRs"))),
        ("belongs-to-machine-cidr", |s| s.shared.machine_networks.push(cidr("192.0.2.0/24")), Some((Failure, "Host has no address in the machine network 192.0.2.0/24"))),
        ("belongs-to-machine-cidr", |s| { s.shared.machine_networks.push(cidr("192.0.2.0/24")); s.cluster().settings.insert("load_balancer".into(), json!({"type": "user-managed"})); }, Some((Success, "Host belongs to all machine network CIDRs"))),
        ("belongs-to-machine-cidr", |s| { s.shared.machine_networks = vec![cidr("192.0.2.0/24")]; s.cluster().settings.insert("load_balancer".into(), json!({"type": "user-managed"})); }, Some((Failure, "Host has no address in the machine network 192.0.2.0/24"))),
        ("belongs-to-machine-cidr", |s| s.shared.machine_networks.clear(), Some((Pending, "The machine network is not defined yet"))),
        ("belongs-to-machine-cidr", no_inventory, WAITING),
        ("belongs-to-machine-cidr", Setup::user_managed, Some((Success, "Host belongs to all machine network CIDRs"))),
        ("belongs-to-machine-cidr", |s| { s.user_managed(); s.shared.machine_networks = vec![cidr("192.0.2.0/24")]; s.record.host.bootstrap = true }, Some((Failure, "Host has no address in the machine network 192.0.2.0/24"))),
        ("belongs-to-machine-cidr", |s| { s.user_managed(); s.single_node() }, Some((Pending, "The machine network is not defined yet"))),
        ("ignition-downloadable", |_| {}, None),
        ("ignition-downloadable", Setup::day2, None),
        ("ignition-downloadable", |s| { s.day2(); s.cluster().course.imported = true }, Some((Pending, "The host has not tried to download its ignition config yet"))),
        ("ignition-downloadable", |s| { s.day2(); s.shared.with_control_plane = true; s.keep("api_vip_connectivity", &json!({"is_success": true})) }, Some((Success, "Ignition is downloadable"))),
        ("ignition-downloadable", |s| { s.day2(); s.shared.with_control_plane = true; s.keep("api_vip_connectivity", &json!({"url": "http://a", "download_error": "refused"})) }, Some((Failure, "The host can't download its ignition config from http://a: refused"))),
        ("has-default-route", |_| {}, Some((Success, "Host has been configured with at least one default route."))),
        ("has-default-route", |s| part(s, "/routes", json!([{"destination": "::/0", "gateway": "fe80::2"}])), Some((Success, "Host has been configured with at least one default route."))),
        ("has-default-route", |s| part(s, "/routes", json!([{"destination": "0.0.0.0"}])), Some((Failure, "Host has no default route with a gateway"))),
        ("container-images-available", |s| s.keep("images_status", &json!({"r.io/a": {"result": "success", "download_rate": 0.001}})), Some((Success, "All required container images were either pulled successfully or no attempt was made to pull them"))),
        ("container-images-available", |s| s.keep("images_status", &json!({"r.io/a": {"result": "success", "download_rate": 0.000_9}})), Some((Failure, "Failed to fetch container images needed for installation from r.io/a"))),
        ("container-images-available", |s| s.keep("images_status", &json!({"r.io/a": {"result": "failure"}})), Some((Failure, "Failed to fetch container images needed for installation from r.io/a"))),
        ("valid-platform-network-settings", |_| {}, Some((Success, "Platform Q35 is allowed"))),
        ("valid-platform-network-settings", |s| part(s, "/system_vendor/product_name", json!("OpenStack Compute")), Some((Failure, "Platform OpenStack Compute is allowed only with user managed networking: set it for the cluster"))),
    ]);
    let mut setup = setup();
    let nic = |name: &str, v4: &str, v6: &str| json!({"name": name, "ipv4_addresses": [v4], "ipv6_addresses": [v6]});
    let mut verdict = |nics: Value| { part(&mut setup, "/interfaces", nics); setup.found("non-overlapping-subnets").unwrap() };
    let apart = (Success, "Host subnets are not overlapping".to_owned());
    assert_eq!(verdict(json!([nic("a", "10.0.0.1/24", "fd00::1/64"), nic("b", "10.0.1.1/24", "fd00::2/64")])), apart, "the cluster has no IPv6");
    let both = verdict(json!([nic("a", "10.0.0.1/24", "fe80::1/64"), nic("b", "10.0.0.2/25", "fe80::2/64")]));
    assert_eq!(both, (Failure, "Networks of the host overlap: 10.0.0.0/24 of a and 10.0.0.0/25 of b: give its interfaces networks of their own".to_owned()));
}

#[test]
#[rustfmt::skip]
fn iscsi() {
    const ID: &str = "no-iscsi-nic-belongs-to-machine-cidr";
    hold(&[
        (ID, |_| {}, None),
        (ID, |s| part(s, "/disks/0/iscsi", json!({"host_ip_address": "192.0.2.1"})), Some((Success, "Network interface connected to iSCSI disk does not belong to machine network CIDRs"))),
        (ID, |s| part(s, "/disks/0/iscsi", json!({"host_ip_address": "10.0.0.1"})), Some((Failure, "The iSCSI session of the installation disk goes over 10.0.0.1, which is in the machine network: use another network for it"))),
        (ID, |s| { s.day2(); part(s, "/disks/0/iscsi", json!({"host_ip_address": "10.0.0.1"})) }, None),
        (ID, |s| { s.user_managed(); part(s, "/disks/0/iscsi", json!({"host_ip_address": "10.0.0.1"})) }, None),
    ]);
}

#[test]
#[rustfmt::skip]
fn peers() {
    const LATENCY: &str = "sufficient-network-latency-requirement-for-role";
    const LOSS: &str = "sufficient-packet-loss-requirement-for-role";
    const GROUP: &str = "belongs-to-majority-group";
    const IN_GROUP: Option<(Status, &str)> = Some((Success, "Host has connectivity to the majority of hosts in the cluster"));
    const OUTSIDE: Option<(Status, &str)> = Some((Failure, "Host does not reach the majority of hosts of the cluster, or they don't reach it"));
    fn worker(s: &mut Setup) {
        s.record.host.role = HostRole::Worker;
        s.shared.peers.insert(id(2), (HostRole::Worker, "node-2".into()));
    }
    fn unreported(s: &mut Setup) { s.record.set_connectivity(String::new()); }
    fn cut_off(s: &mut Setup) { s.shared.groups = MajorityGroups::default(); }
    hold(&[
        (LATENCY, |s| reach(s, 100.0, 0.0, true), Some((Success, "Network latency requirement has been satisfied."))),
        (LATENCY, |s| reach(s, 100.5, 0.0, true), Some((Failure, "Network latency of more than 100 ms to hosts of the same role: node-2 (100.50 ms)"))),
        (LATENCY, |s| { worker(s); reach(s, 1000.0, 0.0, true) }, Some((Success, "Network latency requirement has been satisfied."))),
        (LATENCY, |s| { worker(s); reach(s, 1000.5, 0.0, true) }, Some((Failure, "Network latency of more than 1000 ms to hosts of the same role: node-2 (1000.50 ms)"))),
        (LATENCY, |s| { s.record.host.role = HostRole::Worker; reach(s, 5000.0, 0.0, true) }, Some((Success, "Network latency requirement has been satisfied."))),
        (LATENCY, unreported, Some((Pending, "The host has not probed the others yet"))),
        (LATENCY, |s| { s.single_node(); unreported(s) }, Some((Success, "Network latency requirement has been satisfied."))),
        (LATENCY, |s| { s.day2(); unreported(s) }, Some((Success, "Network latency requirement has been satisfied."))),
        (LOSS, |s| reach(s, 1.0, 0.5, true), Some((Failure, "Packet loss of more than 0 % to hosts of the same role: node-2 (0.50 %)"))),
        (LOSS, |s| { worker(s); reach(s, 1.0, 10.0, true) }, Some((Success, "Packet loss requirement has been satisfied."))),
        (LOSS, |s| { worker(s); reach(s, 1.0, 10.5, true) }, Some((Failure, "Packet loss of more than 10 % to hosts of the same role: node-2 (10.50 %)"))),
        ("mtu-valid", |_| {}, Some((Success, "MTU is ok"))),
        ("mtu-valid", |s| reach(s, 0.0, 0.0, false), Some((Failure, "Packets of the interfaces' full size do not reach 10.0.0.2: set the same MTU on hosts and switches"))),
        ("mtu-valid", |s| { s.user_managed(); reach(s, 0.0, 0.0, false) }, Some((Failure, "Packets of the interfaces' full size do not reach 10.0.0.2, 192.0.2.2: set the same MTU on hosts and switches"))),
        ("mtu-valid", unreported, Some((Pending, "The host has not probed the MTU yet"))),
        ("mtu-valid", Setup::single_node, None),
        (GROUP, |_| {}, IN_GROUP),
        (GROUP, cut_off, OUTSIDE),
        (GROUP, |s| { cut_off(s); s.shared.hosts = 2 }, Some((Pending, "Connectivity is known once the cluster has 3 hosts; it has 2"))),
        (GROUP, |s| { s.shared.machine_networks.push(cidr("192.0.2.0/24")) }, OUTSIDE),
        (GROUP, |s| s.shared.machine_networks.clear(), Some((Pending, "The machine network is not defined yet"))),
        (GROUP, |s| { cut_off(s); s.single_node() }, IN_GROUP),
        (GROUP, |s| { cut_off(s); s.day2() }, IN_GROUP),
        (GROUP, Setup::user_managed, IN_GROUP),
        (GROUP, |s| { s.user_managed(); s.cluster().cluster.service_networks[0].cidr = "fd02::/112".into() }, OUTSIDE),
        (GROUP, |s| { s.shared.groups.majority_groups.clear(); s.cluster().settings.insert("load_balancer".into(), json!({"type": "user-managed"})); }, IN_GROUP),
        ("no-ip-collisions-in-network", |_| {}, Some((Success, "No IP collisions were detected by host 00000000-0000-0000-0000-000000000001"))),
        ("no-ip-collisions-in-network", |s| drop(s.shared.collisions.insert([10, 0, 0, 1].into(), ["m1".to_owned(), "m2".to_owned()].into())), Some((Failure, "Addresses of this host are used by others as well: 10.0.0.1 is answered for by m1 and m2"))),
        ("no-ip-collisions-in-network", |s| { s.shared.collisions.insert([10, 0, 0, 1].into(), ["m1".to_owned(), "m2".to_owned()].into()); s.day2() }, Some((Success, "No IP collisions were detected by host 00000000-0000-0000-0000-000000000001"))),
    ]);
}

#[test]
#[rustfmt::skip]
fn domains() {
    const API: &str = "api-domain-name-resolved-correctly";
    const WILDCARD: &str = "dns-wildcard-not-configured";
    const FINE: Option<(Status, &str)> = Some((Success, "Domain name resolution for the api.rack.example.com domain was successful or not required"));
    fn resolved(s: &mut Setup, name: &str, addresses: &[&str]) {
        s.keep("domain_name_resolutions", &json!({"resolutions": [{"domain_name": name, "ipv4_addresses": addresses}]}));
    }
    hold(&[
        (API, |_| {}, FINE),
        (API, |s| { s.user_managed(); resolved(s, "api.rack.example.com", &["192.0.2.9"]) }, FINE),
        (API, |s| { s.user_managed(); resolved(s, "api.rack.example.com", &[]) }, Some((Failure, "The host can't resolve api.rack.example.com: add a record for it to the DNS server that the host uses"))),
        (API, |s| { s.user_managed(); resolved(s, "api.rack.example.com", &["10.0.0.1"]) }, Some((Failure, "api.rack.example.com leads to this host itself: it must lead to the load balancer"))),
        (API, |s| { s.user_managed(); resolved(s, "other", &[]) }, Some((Pending, "The host has not resolved api.rack.example.com yet"))),
        (API, |s| { s.user_managed(); s.cluster().cluster.base_dns_domain.clear() }, Some((Error, "The base domain is not set: api.rack can't be resolved without it"))),
        (API, |s| { s.user_managed(); s.single_node(); resolved(s, "api.rack.example.com", &[]) }, Some((Failure, "The host can't resolve api.rack.example.com: add a record for it to the DNS server that the host uses"))),
        (API, |s| { s.user_managed(); s.single_node(); resolved(s, "api.rack.example.com", &["10.0.0.1"]) }, FINE),
        (API, |s| { s.user_managed(); s.single_node(); s.shared.single_node_dnsmasq = true; resolved(s, "api.rack.example.com", &[]) }, FINE),
        ("api-int-domain-name-resolved-correctly", |s| { s.user_managed(); s.single_node(); s.shared.single_node_dnsmasq = true; resolved(s, "other", &[]) }, Some((Success, "Domain name resolution for the api-int.rack.example.com domain was successful or not required"))),
        ("apps-domain-name-resolved-correctly", |s| { s.user_managed(); s.single_node(); s.shared.single_node_dnsmasq = true; s.cluster().cluster.base_dns_domain.clear() }, Some((Success, "Domain name resolution for the *.apps.rack. domain was successful or not required"))),
        (API, |s| { s.user_managed(); s.shared.single_node_dnsmasq = true; resolved(s, "api.rack.example.com", &[]) }, Some((Failure, "The host can't resolve api.rack.example.com: add a record for it to the DNS server that the host uses"))),
        (API, |s| { s.user_managed(); s.single_node(); s.day2(); s.shared.single_node_dnsmasq = true; resolved(s, "api.rack.example.com", &[]) }, Some((Failure, "The host can't resolve api.rack.example.com: add a record for it to the DNS server that the host uses"))),
        ("apps-domain-name-resolved-correctly", |s| { s.user_managed(); resolved(s, "console-openshift-console.apps.rack.example.com", &["10.0.0.1"]) }, Some((Success, "Domain name resolution for the *.apps.rack.example.com domain was successful or not required"))),
        (WILDCARD, |s| resolved(s, "validateNoWildcardDNS.rack.example.com.", &[]), Some((Success, "DNS wildcard check was successful"))),
        (WILDCARD, |s| resolved(s, "validateNoWildcardDNS.rack.example.com", &["192.0.2.9"]), Some((Failure, "DNS wildcard configuration was detected for domain *.rack.example.com: the installation will not work with it"))),
        (WILDCARD, |s| resolved(s, "other", &[]), Some((Pending, "The host has not looked for a DNS wildcard yet"))),
        (WILDCARD, |s| { s.day2(); resolved(s, "validateNoWildcardDNS.rack.example.com", &["192.0.2.9"]) }, Some((Success, "DNS wildcard check was successful"))),
    ]);
}

#[test]
fn what_is_switched_off_is_not_looked_at_and_what_is_ignored_is() {
    let mut setup = setup();
    part(&mut setup, "/cpu/count", json!(3));
    let names = || BTreeSet::from(["has-cpu-cores-for-role".to_owned()]);
    let outcome = |waived: Waived| {
        let findings = setup.findings(waived);
        let found = findings.iter().find(|finding| finding.id == "has-cpu-cores-for-role").unwrap().clone();
        (found.status, found.message, findings.for_state().sufficient.is_empty())
    };
    let failure = "Role master needs 4 CPU cores, the host has 3".to_owned();
    assert_eq!(outcome(Waived::default()), (Failure, failure.clone(), false));
    assert_eq!(outcome(Waived { ignored: names(), ..Waived::default() }), (Failure, failure, true));
    let disabled = outcome(Waived { disabled: names(), ..Waived::default() });
    assert_eq!(disabled, (Disabled, "Validation disabled by configuration".to_owned(), true));
}

#[test]
fn a_host_without_a_cluster_is_judged_by_its_hardware_and_its_name_only() {
    let mut setup = setup();
    setup.cluster = None;
    setup.presence.clock = 0;
    assert_eq!(setup.findings(Waived::default()).for_state().unbound, Vec::<String>::new());
    part(&mut setup, "/hostname", json!("localhost"));
    assert_eq!(setup.findings(Waived::default()).for_state().unbound.len(), 1);
    part(&mut setup, "/cpu/count", json!(1));
    assert_eq!(setup.findings(Waived::default()).for_state().unbound.len(), 2);
}

#[test]
fn hostnames() {
    for good in ["a", "sno-0", "node-1.example.com", "52-54-00-aa-bb-01", "0"] {
        assert!(valid_hostname(good), "{good}");
    }
    let long = "a".repeat(64);
    for bad in ["", "-a", "A", "a_b", "a..b", "a.", "localhost", "localhost.localdomain", &long] {
        assert!(!valid_hostname(bad), "{bad}");
    }
}

#[test]
fn what_a_boot_that_is_not_proven_blocks_is_the_services_policy() {
    let mut setup = setup();
    let mut found = |policy| {
        setup.attest = policy;
        let blocks = setup.findings(Waived::default()).for_state().min_hardware.len();
        (setup.found("boot-attested").map(|(status, _)| status), blocks)
    };
    assert_eq!(found(Policy::Off), (None, 0));
    assert_eq!(found(Policy::Note), (Some(Success), 0));
    assert_eq!(found(Policy::Warn), (Some(Pending), 0));
    assert_eq!(found(Policy::Refuse), (Some(Pending), 1));
}
