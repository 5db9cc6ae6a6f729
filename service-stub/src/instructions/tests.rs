//! The tables of docs/compatibility.md#instructions, and what our own agent makes of every step.

use super::options::StepOptions;
use super::*;
use crate::auth::Auth;
use crate::check::requirements::Requirements;
use crate::cluster_files::GivenFiles;
use crate::http::limits::Limits;
use crate::model::{ClusterRecord, DAY2_CLUSTER, DAY2_HOST, HostKey, HostRecord, IgnoredValidations, InfraEnvRecord};
use crate::net::Cidr;
use crate::payload::Payload;
use crate::retention::Retention;
use crate::service::Settings;
use crate::state::ClusterState;
use api::{Cluster, HostRole, InfraEnv, Inventory, Secret, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

const HOST: &str = "c30d2dc3-64aa-49e3-91cb-4f469a75a5f9";
const OTHER: &str = "9a869904-4b40-4aae-a997-9879bd08dde6";
const IMAGE: &str = "quay.io/edge-infrastructure/assisted-installer-agent:latest";

fn settings(files: &std::path::Path) -> Settings {
    for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
        std::fs::write(files.join(name), r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
    }
    Settings {
        url: "http://10.0.0.5:8090".into(),
        boot_url: "http://10.0.0.5:8090".into(),
        hosts: Default::default(),
        ca_pem: None,
        poll_interval: 60,
        monitor_interval: std::time::Duration::from_secs(4),
        requirements: Requirements::default(),
        agent_image: IMAGE.into(),
        installer_image: "quay.io/edge-infrastructure/assisted-installer:latest".into(),
        controller_image: "quay.io/edge-infrastructure/assisted-installer-controller:latest".into(),
        deliver_agent: false,
        cluster_files: Some(GivenFiles::open(files).unwrap()),
        generation: None,
        image_args: Default::default(),
        manifests: Default::default(),
        registry: None,
        attest: Default::default(),
        auth: Auth::None,
        await_controller: false,
        soft_timeouts: false,
        disabled_validations: IgnoredValidations::default(),
        limits: Limits::default(),
        openshift_versions: Vec::new(),
        catalogue: None,
        disconnected_ignition: None,
        steps: StepOptions { disk_speed_check: true, check_images: vec!["r.io/a:1".into()], ..StepOptions::default() },
        retention: Retention::default(),
        mirror: None,
        cluster_ca_pem: String::new(),
        insecure_policy: false,
        allowed_origins: Vec::new(),
        event_limits: Default::default(),
        finalizing: Default::default(),
        release_sources: Default::default(),
        rendezvous: None,
    }
}

fn inventory(address: &str) -> Value {
    json!({
        "boot": {"command_line": "rd.neednet=1 coreos.live zfcp.allow_lun_scan=0 rd.znet=qeth,0.0.f200 rd.dasd=0.0.0200 rd.zfcp=0.0.fc00 \
                                  ip=192.168.126.5::192.168.126.1 nameserver=192.168.126.1"},
        "disks": [{"name": "null", "path": "/dev/null", "by_id": "/dev/null", "drive_type": "SSD"}],
        "hostname": "node",
        "interfaces": [
            {"name": "lo", "ipv4_addresses": ["127.0.0.1/8"]},
            {"name": "eth0", "mac_address": "52:54:00:AA:13:00", "ipv4_addresses": [address], "ipv6_addresses": ["fd00::5/64"]},
            {"name": "eth1", "mac_address": "52:54:00:aa:13:01", "ipv4_addresses": ["10.0.0.1/8"]},
        ],
        "routes": [{"destination": "0.0.0.0", "gateway": "10.0.0.254", "interface": "eth1", "family": 2}],
    })
}

/// A host that is asked for all there is to ask.
struct World {
    record: HostRecord,
    peers: Vec<Arc<HostRecord>>,
    cluster: ClusterRecord,
    infra_env: InfraEnvRecord,
    networks: Vec<Cidr>,
    settings: Settings,
    static_network: bool,
    _files: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let infra_env = "2b110a48-f0aa-44f5-b427-75cc89477064".parse().unwrap();
        let host = |id: &str, address: &str| {
            let key = HostKey { infra_env, host: id.parse().unwrap() };
            let mut record = HostRecord::new(key, None, Timestamp::from_unix_seconds(0));
            record.state = HostState::Known;
            record.host.role = HostRole::Master;
            record.host.installation_disk_id = "/dev/null".into();
            record.set_inventory(inventory(address).to_string());
            record
        };
        let vip = |ip: &str| vec![json!({"ip": ip})];
        let cluster = Cluster {
            id: "0a59ef14-c313-44bb-9966-0663282aeadf".parse().unwrap(),
            name: "ha".into(),
            base_dns_domain: "example.com".into(),
            openshift_version: "4.22.9".into(),
            control_plane_count: 3,
            api_vips: vip("192.168.126.100"),
            ingress_vips: vip("192.168.126.101"),
            vip_dhcp_allocation: true,
            ..Cluster::default()
        };
        let mut cluster = ClusterRecord::new(ClusterState::Ready, cluster, Secret::default());
        let servers = r#"[{"url":"http://tang.example.com:7500","thumbprint":"PLjNyRdGw03zlRoGjQYMahSZGu9"}]"#;
        let encryption = json!({"enable_on": "all", "mode": "tang", "tang_servers": servers});
        cluster.settings.insert("disk_encryption".into(), encryption);
        Self {
            record: host(HOST, "192.168.126.10/24"),
            peers: vec![Arc::new(host(OTHER, "192.168.126.11/24"))],
            cluster,
            infra_env: InfraEnvRecord {
                infra_env: InfraEnv { id: infra_env, ..InfraEnv::default() },
                ..InfraEnvRecord::default()
            },
            networks: vec!["192.168.126.0/24".parse().unwrap()],
            settings: settings(files.path()),
            static_network: false,
            _files: files,
        }
    }

    /// The same host, added to a cluster that is there.
    fn added() -> Self {
        let mut world = Self::new();
        world.record.host.kind = DAY2_HOST.into();
        world.record.host.role = HostRole::Worker;
        world.cluster.cluster.kind = DAY2_CLUSTER.into();
        world.cluster.course.api_vip_dns_name = "api.ha.example.com".into();
        let luks = json!([{"name": "root", "clevis": {"tang": [{"url": "http://t", "thumbprint": "x", "new": 1}]}}]);
        let config = json!({"ignition": {"version": "3.2.0"}, "storage": {"luks": luks}}).to_string();
        world.record.set_text("api_vip_connectivity", json!({"is_success": true, "ignition": config}).to_string());
        world
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            record: &self.record,
            infra_env: Some(&self.infra_env),
            cluster: Some(&self.cluster),
            peers: &self.peers,
            machine_networks: &self.networks,
            static_network: self.static_network,
            settings: &self.settings,
            payload: Payload {
                machine_config_operator: Some("r.io/mco:1".into()),
                must_gather: Some("r.io/mg:1".into()),
                coreos: None,
            },
            image: None,
            now: Timestamp::from_unix_seconds(100_000),
            attest: None,
            certify: None,
            hurries: false,
        }
    }

    fn next(&self) -> Steps {
        next(&self.situation())
    }

    /// Arguments of one step; none when it is not handed out.
    fn args(&self, kind: StepType) -> Option<Vec<String>> {
        step(&self.situation(), &kind).map(|step| step.args)
    }

    fn only_arg(&self, kind: StepType) -> String {
        let args = self.args(kind).unwrap();
        assert_eq!(args.len(), 1);
        args[0].clone()
    }
}

/// States, steps in order, seconds, and whether the agent begins anew.
type Row = (&'static [HostState], &'static [&'static str], u64, bool);

#[test]
fn each_state_has_its_steps() {
    use HostState as S;
    const DAY1: &[Row] = &[
        (&[S::Discovering], &["inventory"], 60, false),
        (
            &[S::Insufficient, S::PendingForInput],
            &[
                "inventory",
                "connectivity-check",
                "tang-connectivity-check",
                "free-network-addresses",
                "dhcp-lease-allocate",
                "ntp-synchronizer",
                "domain-resolution",
                "verify-vips",
            ],
            60,
            false,
        ),
        (
            &[S::Known],
            &[
                "connectivity-check",
                "tang-connectivity-check",
                "free-network-addresses",
                "dhcp-lease-allocate",
                "inventory",
                "ntp-synchronizer",
                "domain-resolution",
                "verify-vips",
            ],
            60,
            false,
        ),
        (
            &[S::PreparingForInstallation],
            &["dhcp-lease-allocate", "installation-disk-speed-check", "container-image-availability"],
            60,
            false,
        ),
        (&[S::Installing], &["install", "dhcp-lease-allocate"], 60, false),
        (&[S::InstallingInProgress], &["dhcp-lease-allocate"], 60, false),
    ];
    const DAY2: &[Row] = &[
        (
            &[S::Known],
            &[
                "connectivity-check",
                "api-vip-connectivity-check",
                "tang-connectivity-check",
                "inventory",
                "ntp-synchronizer",
                "domain-resolution",
            ],
            60,
            false,
        ),
        (
            &[S::Insufficient],
            &[
                "inventory",
                "connectivity-check",
                "api-vip-connectivity-check",
                "tang-connectivity-check",
                "ntp-synchronizer",
                "domain-resolution",
            ],
            60,
            false,
        ),
        (&[S::Discovering], &["inventory", "ntp-synchronizer", "domain-resolution"], 60, false),
        (
            &[S::PendingForInput],
            &["inventory", "connectivity-check", "api-vip-connectivity-check", "tang-connectivity-check"],
            60,
            false,
        ),
        (&[S::Installing], &["install"], 60, false),
    ];
    const EITHER: &[Row] = &[
        (&[S::Disconnected, S::DisconnectedUnbound], &["inventory"], 120, false),
        (&[S::Error, S::Cancelled], &["logs-gather", "stop-installation"], 120, false),
        (&[S::Disabled, S::Resetting, S::DisabledUnbound], &[], 120, false),
        (&[S::Binding, S::Unbinding, S::UnbindingPendingUserAction], &[], 0, true),
        (
            &[S::DiscoveringUnbound, S::InsufficientUnbound, S::KnownUnbound],
            &["inventory", "ntp-synchronizer"],
            60,
            false,
        ),
        (&[S::Reclaiming], &["download-boot-artifacts"], 60, false),
        (&[S::ReclaimingRebooting], &["reboot-for-reclaim"], 120, true),
    ];
    for (mut world, rows) in [(World::new(), DAY1), (World::added(), DAY2)] {
        for state in HostState::ALL {
            world.record.state = *state;
            let row = rows.iter().chain(EITHER).find(|(states, ..)| states.contains(state));
            let (_, expected, seconds, exit) = row.copied().unwrap_or((&[], &[], 60, false));
            let given = world.next();
            let steps = given.instructions.clone().unwrap_or_default();
            let kinds: Vec<&str> = steps.iter().map(|step| step.step_type.as_str()).collect();
            let day2 = world.record.day2();
            assert_eq!(kinds, expected, "{state}, day 2: {day2}");
            assert_eq!(given.next_instruction_seconds, seconds, "{state}, day 2: {day2}");
            assert_eq!(given.post_step_action == PostStepAction::Exit, exit, "{state}, day 2: {day2}");
            assert_eq!(given.instructions.is_none(), steps.is_empty(), "null for nothing");
            steps.iter().for_each(taken);
        }
    }
}

/// Our own agent makes a child process of the step; of stopping, which has no request, too.
fn taken(step: &Step) {
    let settings = agent::settings::Settings {
        url: "http://s".into(),
        token: Secret::default(),
        http: api::http::HttpConfig::default(),
        infra_env_id: "2b110a48-f0aa-44f5-b427-75cc89477064".parse().unwrap(),
        agent_version: IMAGE.into(),
        host_id: Some(HOST.parse().unwrap()),
        program: "/nonexistent/landfall".into(),
        media: Default::default(),
        reboot: true,
        dry: None,
        limits: Default::default(),
        state_dir: Default::default(),
        pace: Default::default(),
    };
    if let Err(refusal) = agent::steps::action(step, &settings, HOST.parse().unwrap()) {
        panic!("{}: {refusal}", step.step_type);
    }
    let (kind, suffix) = step.step_id.rsplit_once('-').unwrap();
    assert_eq!(kind, step.step_type.as_str());
    assert!(suffix.len() == 8 && suffix.bytes().all(|b| b.is_ascii_hexdigit()), "{}", step.step_id);
}

#[test]
fn arguments_are_what_the_real_service_sends() {
    let mut world = World::new();
    let domains = r#"{"domains":[{"domain_name":"api.ha.example.com"},{"domain_name":"api-int.ha.example.com"},{"domain_name":"console-openshift-console.apps.ha.example.com"},{"domain_name":"validateNoWildcardDNS.ha.example.com."},{"domain_name":"validateNoWildcardDNS.ha.example.com"},{"domain_name":"quay.io"}]}"#;
    assert_eq!(world.only_arg(StepType::DomainResolution), domains);
    assert_eq!(world.args(StepType::InstallationDiskSpeedCheck).unwrap(), [r#"{"path":"/dev/null"}"#, "480.00"]);
    let images = r#"{"images":["r.io/a:1"],"timeout":960}"#;
    assert_eq!(world.only_arg(StepType::ContainerImageAvailability), images);
    assert_eq!(world.only_arg(StepType::NtpSynchronizer), r#"{"ntp_source":""}"#);
    assert_eq!(world.only_arg(StepType::FreeNetworkAddresses), r#"["192.168.126.0/24"]"#);
    let vips = r#"[{"vip":"192.168.126.100","vip_type":"api"},{"vip":"192.168.126.101","vip_type":"ingress"}]"#;
    assert_eq!(world.only_arg(StepType::VerifyVips), vips);
    let tang = world.only_arg(StepType::TangConnectivityCheck);
    let servers = r#"{"tang_servers":"[{\"url\":\"http://tang.example.com:7500\",\"thumbprint\":\"PLjNyRdGw03zlRoGjQYMahSZGu9\"}]"}"#;
    assert_eq!(tang, servers);
    let leases: Value = serde_json::from_str(&world.only_arg(StepType::DhcpLeaseAllocate)).unwrap();
    let macs = json!({"interface": "eth0", "api_vip_mac": "00:1a:4a:9e:c4:a1", "ingress_vip_mac": "00:1a:4a:c7:dd:65"});
    assert_eq!(leases, macs);
    world.cluster.dhcp.api_lease = "lease {\n}".into();
    let leases: Value = serde_json::from_str(&world.only_arg(StepType::DhcpLeaseAllocate)).unwrap();
    assert_eq!(leases["api_vip_lease"], "lease {\n}");
    assert_eq!(world.only_arg(StepType::UpgradeAgent), format!(r#"{{"agent_image":"{IMAGE}"}}"#));

    world.infra_env.infra_env.additional_ntp_sources = "n1,n2".into();
    assert_eq!(world.only_arg(StepType::NtpSynchronizer), r#"{"ntp_source":"n1,n2"}"#);
    world.cluster.settings.insert("ntp_sources".into(), "n3".into());
    assert_eq!(world.only_arg(StepType::NtpSynchronizer), r#"{"ntp_source":"n3"}"#);

    world.record.host.bootstrap = true;
    let logs: Value = serde_json::from_str(&world.only_arg(StepType::LogsGather)).unwrap();
    assert_eq!((&logs["master_ips"], &logs["installer_gather"]), (&json!(["192.168.126.11"]), &json!(true)));
    world.record.host.bootstrap = false;
    let logs: Value = serde_json::from_str(&world.only_arg(StepType::LogsGather)).unwrap();
    assert_eq!(logs.get("master_ips"), Some(&Value::Null), "only a bootstrap host has them");
}

#[test]
fn what_there_is_nothing_to_ask_by_is_left_out() {
    use StepType as T;
    let left_out = |change: &dyn Fn(&mut World), kind: T| {
        let mut world = World::new();
        assert!(world.args(kind.clone()).is_some(), "{kind}");
        change(&mut world);
        assert_eq!(world.args(kind.clone()), None, "{kind}");
    };
    left_out(&|world| world.settings.cluster_files = None, T::DomainResolution);
    left_out(&|world| world.cluster.cluster.base_dns_domain.clear(), T::DomainResolution);
    left_out(&|world| world.cluster.cluster.vip_dhcp_allocation = false, T::DhcpLeaseAllocate);
    left_out(&|world| world.networks.clear(), T::DhcpLeaseAllocate);
    left_out(&|world| world.record.set_inventory(String::new()), T::DhcpLeaseAllocate);
    left_out(&|world| world.cluster.cluster.user_managed_networking = true, T::VerifyVips);
    left_out(&|world| world.peers.clear(), T::ConnectivityCheck);
    left_out(&|world| world.settings.steps.disk_speed_check = false, T::InstallationDiskSpeedCheck);
    left_out(
        &|world| world.record.host.installer_args = r#"["--save-partlabel","data"]"#.into(),
        T::InstallationDiskSpeedCheck,
    );
    let measured = json!({"/dev/null": {"path": "/dev/null", "disk_speed": {"tested": true, "exit_code": 1}}});
    left_out(&|world| world.record.set_text("disks_info", measured.to_string()), T::InstallationDiskSpeedCheck);
    let persistent = |world: &mut World| {
        world.record.set_inventory(json!({"boot": {"device_type": "persistent"}}).to_string());
    };
    left_out(&persistent, T::InstallationDiskSpeedCheck);
    left_out(&|world| world.settings.steps.check_images.clear(), T::ContainerImageAvailability);
    let tried = json!({"r.io/a:1": {"result": "failure"}}).to_string();
    left_out(&|world| world.record.set_text("images_status", tried.clone()), T::ContainerImageAvailability);
    let by_tpm = json!({"enable_on": "all", "mode": "tpmv2"});
    left_out(
        &|world| drop(world.cluster.settings.insert("disk_encryption".into(), by_tpm.clone())),
        T::TangConnectivityCheck,
    );
    left_out(&|world| world.record.host.logs_collected_at = Timestamp::now(), T::LogsGather);

    let mut world = World::new();
    world.cluster.settings.insert("ocp_release_image".into(), "192.0.2.1:5000/r:1".into());
    assert!(!world.only_arg(T::DomainResolution).contains("192.0.2.1"), "an address is not a name");
    world.settings.steps.disabled = vec![T::Inventory, T::NtpSynchronizer];
    world.record.state = HostState::KnownUnbound;
    assert_eq!(world.next().instructions, None);
}

#[test]
fn an_added_host_tries_what_its_pointer_will_lead_to() {
    let mut world = World::added();
    let asked =
        |world: &World| -> Value { serde_json::from_str(&world.only_arg(StepType::ApiVipConnectivityCheck)).unwrap() };
    assert_eq!(asked(&world), json!({"url": "http://api.ha.example.com:22624/config/worker"}));
    world.record.texts.machine_config_pool_name = Some("infra".into());
    assert_eq!(asked(&world)["url"], "http://api.ha.example.com:22624/config/infra");
    let authorities = json!([{"source": "data:text/plain;base64,QUI="}]);
    let config = json!({"ignition": {"security": {"tls": {"certificateAuthorities": authorities}}}});
    world.record.host.ignition_config_overrides = config.to_string();
    let with_ca = json!({"url": "https://api-int.ha.example.com:22623/config/infra", "ca_certificate": "QUI="});
    assert_eq!(asked(&world), with_ca);
    world.cluster.course.api_vip_dns_name = "2001:db8::1".into();
    assert_eq!(asked(&world)["url"], "https://[2001:db8::1]:22623/config/infra");
    let tang = world.only_arg(StepType::TangConnectivityCheck);
    assert_eq!(tang, r#"{"tang_servers":"[{\"url\":\"http://t\",\"thumbprint\":\"x\"}]"}"#, "as its config has them");
    assert!(!world.only_arg(StepType::DomainResolution).contains("quay.io"));
    world.settings.cluster_files = None;
    assert_eq!(world.args(StepType::ApiVipConnectivityCheck), None, "it is this service that it gets its config from");
    world.cluster.course.imported = true;
    assert!(world.args(StepType::ApiVipConnectivityCheck).is_some());
}

#[test]
fn an_agent_of_another_version_is_brought_up_to_date_first() {
    use HostState as S;
    let mut world = World::new();
    world.settings.steps.upgrade_agents = true;
    let upgrading = [
        S::Binding,
        S::Discovering,
        S::Insufficient,
        S::Known,
        S::PendingForInput,
        S::DiscoveringUnbound,
        S::InsufficientUnbound,
        S::KnownUnbound,
    ];
    for state in HostState::ALL {
        world.record.state = *state;
        world.record.host.discovery_agent_version = "r.io/older:1".into();
        let given = world.next();
        let upgrades = given.instructions.iter().flatten().any(|step| step.step_type == StepType::UpgradeAgent);
        assert_eq!(upgrades, upgrading.contains(state), "{state}");
        if upgrades {
            assert_eq!((given.next_instruction_seconds, given.post_step_action), (60, PostStepAction::Continue));
            assert_eq!(given.instructions.as_deref().map(<[Step]>::len), Some(1));
            given.instructions.iter().flatten().for_each(taken);
        }
        world.record.host.discovery_agent_version = IMAGE.into();
        let given = world.next();
        assert!(given.instructions.iter().flatten().all(|step| step.step_type != StepType::UpgradeAgent), "{state}");
    }
}

#[test]
fn kargs_name_the_interfaces_of_the_machine_network() {
    let inventory: Inventory = serde_json::from_value(inventory("192.168.131.10/24")).unwrap();
    let kargs = |networks: &[&str]| {
        let networks: Vec<Cidr> = networks.iter().map(|text| text.parse().unwrap()).collect();
        steps::ip_kargs(&inventory, &networks)
    };
    assert_eq!(kargs(&["192.168.131.0/24"]), ["ip=52-54-00-aa-13-00:dhcp"]);
    assert_eq!(kargs(&["192.168.131.0/24", "fd00::/64"]), ["ip=52-54-00-aa-13-00:dhcp,dhcp6"]);
    assert_eq!(kargs(&["fd00::/64"]), ["ip=52-54-00-aa-13-00:dhcp6"]);
    assert_eq!(kargs(&[]), ["ip=52-54-00-aa-13-01:dhcp"], "the default route's");
    assert_eq!(kargs(&["172.16.0.0/12"]), Vec::<String>::new());
}

#[test]
fn disk_machine_and_network_have_their_arguments() {
    let kargs = |change: &dyn Fn(&mut World, &mut Value)| {
        let mut world = World::new();
        let mut inventory = inventory("192.168.126.10/24");
        change(&mut world, &mut inventory);
        world.record.set_inventory(inventory.to_string());
        let args = steps::installer_args(&world.situation());
        args.into_iter().filter(|arg| arg != "--append-karg").collect::<Vec<_>>().join(" ")
    };
    let disk = |inventory: &mut Value, kind: &str| inventory["disks"][0]["drive_type"] = kind.into();
    let iscsi = |inventory: &mut Value, address: &str| {
        disk(inventory, "iSCSI");
        inventory["disks"][0]["iscsi"] = json!({"host_ip_address": address});
    };
    let machine = |inventory: &mut Value, product: &str| {
        inventory["system_vendor"] = json!({"manufacturer": "IBM/S390", "product_name": product});
    };
    let own = |world: &mut World, args: &[&str]| world.record.host.installer_args = json!(args).to_string();
    const NET: &str = "ip=52-54-00-aa-13-00:dhcp";
    const DEVICES: &str = "rd.neednet=1 zfcp.allow_lun_scan=0 rd.znet=qeth,0.0.f200 rd.dasd=0.0.0200 rd.zfcp=0.0.fc00";
    assert_eq!(kargs(&|_, _| ()), NET);
    assert_eq!(kargs(&|_, i| disk(i, "Multipath")), format!("rw rd.multipath=default {NET}"));
    assert_eq!(kargs(&|_, i| disk(i, "RAID")), format!("rd.md=1 rd.auto=1 {NET}"));
    assert_eq!(kargs(&|_, i| iscsi(i, "10.0.0.1")), format!("rd.iscsi.firmware=1 ip=52-54-00-aa-13-01:dhcp {NET}"));
    assert_eq!(kargs(&|_, i| iscsi(i, "fd00::5")), format!("rd.iscsi.firmware=1 ip=52-54-00-aa-13-00:dhcp6 {NET}"));
    assert_eq!(kargs(&|_, i| iscsi(i, "192.168.126.10")), format!("rd.iscsi.firmware=1 {NET}"), "once");
    assert_eq!(kargs(&|_, i| iscsi(i, "192.0.2.77")), format!("rd.iscsi.firmware=1 {NET}"), "nobody has it");
    assert_eq!(kargs(&|_, i| machine(i, "z15")), format!("{DEVICES} {NET}"));
    assert_eq!(kargs(&|_, i| machine(i, "KVM")), NET);
    let overridden = kargs(&|world, i| {
        machine(i, "z15");
        own(world, &["--append-karg", "ip=dhcp"]);
    });
    assert_eq!(overridden, format!("ip=dhcp {DEVICES} ip=192.168.126.5::192.168.126.1 nameserver=192.168.126.1"));
    assert_eq!(kargs(&|world, _| own(world, &["--append-karg", "ip=eth0:dhcp"])), "ip=eth0:dhcp");
    assert_eq!(kargs(&|world, _| own(world, &["-n"])), "-n");
    assert_eq!(kargs(&|world, _| world.static_network = true), "--copy-network");
}

#[test]
fn other_disks_that_boot_are_cleared_unless_somebody_keeps_them() {
    let disk = |name: &str, more: Value| {
        let mut disk = json!({"name": name, "path": format!("/dev/{name}"), "bootable": true, "drive_type": "SSD"});
        disk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        disk
    };
    let disks = json!([
        disk("sda", json!({"by_id": "/dev/disk/by-id/a", "by_path": "/dev/disk/by-path/a"})),
        disk("sdb", json!({"by_path": "/dev/disk/by-path/b"})),
        disk("sdc", json!({"bootable": false})),
        disk("sdd", json!({"removable": true})),
        disk("mmcblk0", json!({})),
        disk("sde", json!({"drive_type": "FC"})),
        disk("sdf", json!({"drive_type": "iSCSI"})),
        disk("dm-0", json!({"drive_type": "LVM"})),
        disk("dm-1", json!({"drive_type": "Multipath"})),
        disk("sr0", json!({"is_installation_media": true})),
        disk("sdg", json!({"by_id": "/dev/disk/by-id/g"})),
    ]);
    let mut world = World::new();
    world.record.set_inventory(json!({"disks": disks}).to_string());
    world.record.host.installation_disk_id = "/dev/disk/by-id/a".into();
    let asked = |world: &World| {
        let request = steps::install_request(&world.situation()).unwrap();
        (request.disks_to_format.join(" "), request.skip_installation_disk_cleanup)
    };
    let (a, b, g) = ("/dev/disk/by-id/a", "/dev/disk/by-path/b", "/dev/disk/by-id/g");
    assert_eq!(asked(&world), (format!("{a} {b} {g}"), false));
    world.record.texts.skip_formatting_disks = Some("/dev/disk/by-id/g,/dev/gone".into());
    assert_eq!(asked(&world), (format!("{a} {b}"), false));
    world.record.host.installer_args = r#"["--save-partindex","5-7"]"#.into();
    assert_eq!(asked(&world), (b.to_owned(), true), "what is saved is on the installation disk");
}

#[test]
fn a_request_says_what_a_day_2_host_needs_and_no_more() {
    let asked = |world: &World| serde_json::to_value(steps::install_request(&world.situation()).unwrap()).unwrap();
    let mut world = World::new();
    let day1 = asked(&world);
    let expected = json!({
        "boot_device": "/dev/null", "check_cvo": false, "cluster_id": "0a59ef14-c313-44bb-9966-0663282aeadf",
        "control_plane_count": 3, "controller_image": world.settings.controller_image, "disks_to_format": [],
        "host_id": HOST, "infra_env_id": "2b110a48-f0aa-44f5-b427-75cc89477064",
        "installer_args": r#"["--append-karg","ip=52-54-00-aa-13-00:dhcp"]"#,
        "installer_image": world.settings.installer_image, "mco_image": "r.io/mco:1", "must_gather_image": "r.io/mg:1",
        "notify_num_reboots": true, "openshift_version": "4.22.9", "role": "master", "service_ips": null,
    });
    assert_eq!(day1, expected);
    world.cluster.settings.insert("http_proxy".into(), "http://p:3128".into());
    world.cluster.settings.insert("no_proxy".into(), ".corp".into());
    let no_proxy = ".corp,127.0.0.1,localhost,.svc,.cluster.local,api-int.ha.example.com";
    assert_eq!(asked(&world)["proxy"], json!({"http_proxy": "http://p:3128", "no_proxy": no_proxy}));
    let day2 = asked(&World::added());
    for name in ["mco_image", "must_gather_image", "openshift_version"] {
        assert!(day2.get(name).is_none(), "{name}: {day2}");
    }
}
