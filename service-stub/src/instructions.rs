//! What a host is told when it polls: a function of its record and its peers (service contract §6).

use crate::check::{connectivity::addresses, disks};
use crate::model::{ClusterRecord, HostRecord, InfraEnvRecord};
use crate::net::Cidr;
use crate::service::Settings;
use crate::state::HostState;
use api::{
    BootArtifactsRequest, ConnectivityCheckHost, ConnectivityCheckNic, HostRole, InstallRequest, Interface, Inventory,
    LogsGatherRequest, NtpSynchronizationRequest, PostStepAction, Proxy, Step, StepType, Steps, Timestamp, VerifyVip,
    VipType,
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

/// A host is on its way to be known for so long, and what it waits for is a poll, nothing else. One that stays where it is needs
/// somebody, and then a poll now and then will do.
const SOON_FOR_S: u64 = 60;
/// By a second more after each so many, so that one that is stuck is not kept busy with its inventory.
const SLOWER_AFTER_S: u64 = 10;

/// Everything that decides on a host's instructions.
pub struct Situation<'a> {
    /// The host.
    pub record: &'a HostRecord,
    /// Its infra-env.
    pub infra_env: Option<&'a InfraEnvRecord>,
    /// Its cluster.
    pub cluster: Option<&'a ClusterRecord>,
    /// All hosts of its cluster.
    pub peers: &'a [Arc<HostRecord>],
    /// Networks of the cluster's machines.
    pub machine_networks: &'a [Cidr],
    /// Its infra-env gives it a network of its own.
    pub static_network: bool,
    /// Settings of the service.
    pub settings: &'a Settings,
    /// File name of the image to install.
    pub image: Option<&'a str>,
    /// When it polls.
    pub now: Timestamp,
}

/// The answer to a poll. Steps that can't be built are left out.
pub fn next(situation: &Situation) -> Steps {
    use HostState as S;
    let kinds: &[StepType] = match situation.record.state {
        S::Discovering | S::Disconnected => &[StepType::Inventory],
        S::Insufficient | S::PendingForInput => &[
            StepType::Inventory,
            StepType::ConnectivityCheck,
            StepType::FreeNetworkAddresses,
            StepType::NtpSynchronizer,
            StepType::VerifyVips,
        ],
        S::Known => &[
            StepType::ConnectivityCheck,
            StepType::FreeNetworkAddresses,
            StepType::Inventory,
            StepType::NtpSynchronizer,
            StepType::VerifyVips,
        ],
        S::DiscoveringUnbound | S::InsufficientUnbound | S::KnownUnbound | S::DisconnectedUnbound => {
            &[StepType::Inventory]
        }
        S::Installing => &[StepType::Install],
        S::Error | S::Cancelled => &[StepType::LogsGather, StepType::StopInstallation],
        S::Reclaiming => &[StepType::DownloadBootArtifacts],
        S::ReclaimingRebooting => &[StepType::RebootForReclaim],
        _ => &[],
    };
    let steps: Vec<Step> = kinds.iter().filter_map(|kind| step(situation, kind)).collect();
    let interval = situation.settings.poll_interval;
    let record = situation.record;
    Steps {
        instructions: (!steps.is_empty()).then_some(steps),
        next_instruction_seconds: pause(record.state, record.host.status_updated_at, situation.now, interval),
        post_step_action: if registers_again(record.state) { PostStepAction::Exit } else { PostStepAction::Continue },
    }
}

/// A host on its way into a cluster or out of one begins anew.
fn registers_again(state: HostState) -> bool {
    use HostState as S;
    matches!(state, S::Binding | S::Unbinding | S::UnbindingPendingUserAction | S::ReclaimingRebooting)
}

/// Seconds until the next poll of a host that has been in `state` since then.
fn pause(state: HostState, since: Timestamp, now: Timestamp, interval: u64) -> u64 {
    use HostState as S;
    match (state, u64::try_from(now.seconds_since(since))) {
        (S::Binding | S::Unbinding | S::UnbindingPendingUserAction, _) => 0,
        (S::Resetting | S::Disabled | S::DisabledUnbound | S::ReclaimingRebooting, _) => interval.saturating_mul(2),
        (S::Disconnected | S::DisconnectedUnbound | S::Error | S::Cancelled, _) => interval.saturating_mul(2),
        (
            S::Discovering | S::Insufficient | S::PendingForInput | S::DiscoveringUnbound | S::InsufficientUnbound,
            Ok(age @ ..SOON_FOR_S),
        ) => interval.min(1 + age / SLOWER_AFTER_S),
        _ => interval,
    }
}

fn step(situation: &Situation, kind: &StepType) -> Option<Step> {
    let args = match kind {
        StepType::DownloadBootArtifacts => vec![serde_json::to_string(&boot_artifacts(situation)?).ok()?],
        StepType::RebootForReclaim => vec![r#"{"host_fs_mount_dir":"/host"}"#.to_owned()],
        StepType::Inventory => vec![situation.record.host.id.to_string()],
        StepType::ConnectivityCheck => vec![connectivity_check(situation)?],
        StepType::FreeNetworkAddresses => vec![serde_json::to_string(&small_networks(situation)?).ok()?],
        StepType::NtpSynchronizer => vec![serde_json::to_string(&ntp_request(situation)?).ok()?],
        StepType::VerifyVips => vec![serde_json::to_string(&vips(situation)?).ok()?],
        StepType::Install => vec![serde_json::to_string(&install_request(situation)?).ok()?],
        StepType::LogsGather => vec![serde_json::to_string(&logs_request(situation)?).ok()?],
        _ => Vec::new(),
    };
    Some(Step { args, step_id: format!("{kind}-{:08x}", fastrand::u32(..)), step_type: kind.clone() })
}

/// The virtual addresses that the hosts are to hold; none where the user looks after that.
fn vips(situation: &Situation) -> Option<Vec<VerifyVip>> {
    let record = situation.cluster?;
    if record.cluster.user_managed_networking || record.single_node() {
        return None;
    }
    let of = |list: &[Value], vip_type: VipType| {
        let addresses = list.iter().filter_map(|vip| Some(vip.get("ip")?.as_str()?.to_owned()));
        addresses.map(|vip| VerifyVip { vip, vip_type }).collect::<Vec<_>>()
    };
    let all = [of(&record.cluster.api_vips, VipType::Api), of(&record.cluster.ingress_vips, VipType::Ingress)].concat();
    (!all.is_empty()).then_some(all)
}

/// The host's IPv4 networks of at most 10 host bits, where somebody needs a free address in one.
fn small_networks(situation: &Situation) -> Option<Vec<String>> {
    const MAX_HOST_BITS: u8 = 10;
    vips(situation)?;
    let inventory = situation.record.facts().inventory.as_ref()?;
    let texts = inventory.interfaces.iter().flat_map(|nic| &nic.ipv4_addresses);
    let cidrs = texts.filter_map(|text| text.parse::<Cidr>().ok()).filter(|cidr| !cidr.address.is_loopback());
    let small = cidrs.filter(|cidr| cidr.prefix >= 32 - MAX_HOST_BITS).map(|cidr| cidr.network().to_string());
    let networks: BTreeSet<String> = small.collect();
    (!networks.is_empty()).then(|| networks.into_iter().collect())
}

/// The time sources that somebody named for the cluster.
fn ntp_request(situation: &Situation) -> Option<NtpSynchronizationRequest> {
    let kept = |name| situation.cluster?.kept.get(name)?.as_str().filter(|text| !text.is_empty());
    let named = kept("additional_ntp_source").or_else(|| kept("ntp_sources"))?;
    Some(NtpSynchronizationRequest { ntp_source: named.to_owned() })
}

/// The other hosts of the cluster that can answer; none when there are none.
fn connectivity_check(situation: &Situation) -> Option<String> {
    let others = situation.peers.iter().filter(|peer| {
        peer.host.id != situation.record.host.id
            && !matches!(peer.state, HostState::Discovering | HostState::Disconnected)
    });
    let hosts: Vec<ConnectivityCheckHost> = others
        .filter_map(|peer| {
            let inventory = peer.facts().inventory.as_ref()?;
            let nics = inventory.interfaces.iter().filter(|nic| !nic.mac_address.is_empty()).map(connectivity_nic);
            let nics: Vec<_> = nics.filter(|nic| !nic.ip_addresses.is_empty()).collect();
            Some(ConnectivityCheckHost { host_id: peer.host.id, nics })
        })
        .collect();
    if hosts.is_empty() { None } else { serde_json::to_string(&hosts).ok() }
}

fn connectivity_nic(nic: &Interface) -> ConnectivityCheckNic {
    let of_one = Inventory { interfaces: vec![nic.clone()], ..Inventory::default() };
    ConnectivityCheckNic {
        ip_addresses: addresses(&of_one).map(|address| address.to_string()).collect(),
        mac: nic.mac_address.clone(),
        name: nic.name.clone(),
    }
}

/// What an installed host boots into discovery with, by itself.
fn boot_artifacts(situation: &Situation) -> Option<BootArtifactsRequest> {
    let (infra_env, settings) = (situation.infra_env?, situation.settings);
    let initrd = format!("/images/{}/pxe-initrd", infra_env.infra_env.id);
    let (initrd, _) = settings.auth.presigned(&initrd, Some(infra_env), None);
    Some(BootArtifactsRequest {
        kernel_url: format!("{}/boot-artifacts/kernel", settings.url),
        initrd_url: format!("{}{initrd}", settings.url),
        rootfs_url: format!("{}/boot-artifacts/rootfs", settings.url),
        host_fs_mount_dir: "/host".into(),
    })
}

/// Asks for all there is, until it has come.
fn logs_request(situation: &Situation) -> Option<LogsGatherRequest> {
    let host = &situation.record.host;
    host.logs_collected_at.is_zero().then_some(LogsGatherRequest {
        cluster_id: situation.cluster?.cluster.id,
        host_id: host.id,
        infra_env_id: host.infra_env_id,
        bootstrap: host.bootstrap,
        installer_gather: true,
        master_ips: Vec::new(),
    })
}

/// What the installer is asked to do. Without a control plane none is counted: no host carries a temporary one. Only the
/// installation disk is touched; `disks_to_format` stays empty.
pub fn install_request(situation: &Situation) -> Option<InstallRequest> {
    let (host, cluster) = (&situation.record.host, &situation.cluster?.cluster);
    let boot_device =
        [&host.installation_disk_id, &host.installation_disk_path].into_iter().find(|id| !id.is_empty())?;
    let proxy = proxy(situation.cluster?);
    let settings = situation.settings;
    let with_control_plane = settings.cluster_files.is_some();
    Some(InstallRequest {
        boot_device: boot_device.clone(),
        check_cvo: false,
        cluster_id: cluster.id,
        control_plane_count: if with_control_plane { cluster.control_plane_count } else { 0 },
        controller_image: settings.controller_image.clone(),
        coreos_image: None,
        disks_to_format: Vec::new(),
        enable_skip_mco_reboot: false,
        host_id: host.id,
        infra_env_id: host.infra_env_id,
        installer_args: serde_json::to_string(&installer_args(situation)).ok(),
        installer_image: settings.installer_image.clone(),
        mco_image: settings.mco_image.clone(),
        must_gather_image: None,
        notify_num_reboots: true,
        openshift_version: Some(cluster.openshift_version.clone()),
        proxy,
        role: if host.bootstrap { HostRole::Bootstrap } else { situation.record.effective_role() },
        service_ips: None,
        skip_installation_disk_cleanup: false,
    })
}

fn proxy(record: &ClusterRecord) -> Option<Proxy> {
    let kept = |name| record.kept.get(name).and_then(|value| value.as_str()).filter(|text| !text.is_empty());
    let (http, https) = (kept("http_proxy"), kept("https_proxy"));
    http.or(https)?;
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Some(Proxy { http_proxy: owned(http), https_proxy: owned(https), no_proxy: owned(kept("no_proxy")) })
}

/// The user's arguments, then what the disk and the network need, then where the image is.
pub fn installer_args(situation: &Situation) -> Vec<String> {
    let host = &situation.record.host;
    let mut args: Vec<String> = serde_json::from_str(&host.installer_args).unwrap_or_default();
    let append = |args: &mut Vec<String>, karg: &str| args.extend(["--append-karg".to_owned(), karg.to_owned()]);
    let inventory = situation.record.facts().inventory.as_ref();
    let disk = inventory
        .and_then(|inventory| inventory.disks.iter().find(|disk| disks::answers_to(disk, &host.installation_disk_id)));
    match disk.map(|disk| disk.drive_type.as_str()) {
        Some("Multipath") => {
            append(&mut args, "rw");
            append(&mut args, "rd.multipath=default");
        }
        Some("iSCSI") => append(&mut args, "rd.iscsi.firmware=1"),
        Some("RAID") => {
            append(&mut args, "rd.md=1");
            append(&mut args, "rd.auto=1");
        }
        _ => {}
    }
    if situation.static_network && !args.iter().any(|arg| matches!(arg.as_str(), "-n" | "--copy-network")) {
        args.push("--copy-network".to_owned());
    }
    let has_ip = args.windows(2).any(|pair| pair[0] == "--append-karg" && pair[1].starts_with("ip="));
    let copies = args.iter().any(|arg| matches!(arg.as_str(), "-n" | "--copy-network"));
    if !has_ip && !copies {
        for karg in inventory.map(|inventory| ip_kargs(inventory, situation.machine_networks)).unwrap_or_default() {
            append(&mut args, &karg);
        }
    }
    let names_image = args.iter().any(|arg| {
        let flag = arg.split('=').next().unwrap_or(arg);
        matches!(flag, "--image-url" | "--image-file")
    });
    if let Some(image) = situation.image.filter(|_| !names_image) {
        args.extend(["--image-url".to_owned(), format!("{}/boot-artifacts/os/{image}", situation.settings.url)]);
    }
    args
}

/// One `ip=` per interface in the machine networks; where none are known, per interface of a default route.
fn ip_kargs(inventory: &Inventory, machine_networks: &[Cidr]) -> Vec<String> {
    let default_route = |nic: &Interface| {
        inventory.routes.iter().any(|route| {
            route.interface == nic.name && disks::is_default(&route.destination) && !route.gateway.is_empty()
        })
    };
    let inside = |nic: &Interface, text: &String| match text.parse::<Cidr>() {
        Ok(cidr) if machine_networks.is_empty() => !cidr.address.is_loopback() && default_route(nic),
        Ok(cidr) => machine_networks.iter().any(|network| network.contains(cidr.address)),
        Err(_) => false,
    };
    let karg = |nic: &Interface| {
        let v4 = nic.ipv4_addresses.iter().any(|text| inside(nic, text));
        let v6 = nic.ipv6_addresses.iter().any(|text| inside(nic, text));
        let method = match (v4, v6) {
            (true, true) => "dhcp,dhcp6",
            (true, false) => "dhcp",
            (false, true) => "dhcp6",
            (false, false) => return None,
        };
        Some(format!("ip={}:{method}", nic.mac_address.to_lowercase().replace(':', "-")))
    };
    inventory.interfaces.iter().filter(|nic| !nic.mac_address.is_empty()).filter_map(karg).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn inventory() -> Inventory {
        serde_json::from_value(json!({
            "interfaces": [
                {"name": "lo", "ipv4_addresses": ["127.0.0.1/8"]},
                {"name": "eth0", "mac_address": "52:54:00:AA:13:00", "ipv4_addresses": ["192.168.131.10/24"], "ipv6_addresses": ["fd00::5/64"]},
                {"name": "eth1", "mac_address": "52:54:00:aa:13:01", "ipv4_addresses": ["10.0.0.1/8"]},
            ],
            "routes": [{"destination": "0.0.0.0", "gateway": "10.0.0.254", "interface": "eth1", "family": 2}],
        }))
        .unwrap()
    }

    #[test]
    fn a_host_on_its_way_polls_soon_and_one_that_is_stuck_or_settled_does_not() {
        use HostState as S;
        let at = Timestamp::from_unix_seconds;
        let after = |state, seconds: i64| pause(state, at(1000), at(1000 + seconds), 60);
        for state in [S::Discovering, S::Insufficient, S::PendingForInput, S::InsufficientUnbound] {
            assert_eq!([0, 15, 59, 60, -5].map(|age| after(state, age)), [1, 2, 6, 60, 60], "{state:?}");
        }
        assert_eq!([after(S::Known, 0), after(S::Installing, 0), after(S::Error, 0)], [60, 60, 120]);
        assert_eq!(pause(S::Discovering, at(0), at(0), 0), 0);
    }

    #[test]
    fn kargs_name_the_interfaces_of_the_machine_network() {
        let kargs = |networks: &[&str]| {
            let networks: Vec<Cidr> = networks.iter().map(|text| text.parse().unwrap()).collect();
            ip_kargs(&inventory(), &networks)
        };
        assert_eq!(kargs(&["192.168.131.0/24"]), ["ip=52-54-00-aa-13-00:dhcp"]);
        assert_eq!(kargs(&["192.168.131.0/24", "fd00::/64"]), ["ip=52-54-00-aa-13-00:dhcp,dhcp6"]);
        assert_eq!(kargs(&["fd00::/64"]), ["ip=52-54-00-aa-13-00:dhcp6"]);
        assert_eq!(kargs(&[]), ["ip=52-54-00-aa-13-01:dhcp"], "the default route's");
        assert_eq!(kargs(&["172.16.0.0/12"]), Vec::<String>::new());
    }
}
