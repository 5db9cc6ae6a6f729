//! What each step asks (docs/compatibility.md#steps); none where there is nothing to ask.

use super::{Situation, pace::IMAGES_S};
use crate::check::connectivity::addresses;
use crate::dhcp_vips;
use crate::encryption;
use crate::ignition_endpoint::Endpoint;
use crate::instructions::options::StepOptions;
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::state::HostState;
use api::{
    ApiVipConnectivityRequest, BootArtifactsRequest, ConnectivityCheckHost, ConnectivityCheckNic,
    ContainerImageAvailabilityRequest, DhcpAllocationRequest, DiskSpeedCheckRequest, DomainResolutionRequest,
    DomainResolutionRequestDomain, HostRole, Interface, Inventory, LogsGatherRequest, NtpSynchronizationRequest,
    TangConnectivityRequest, VerifyVip, VipType,
};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, net::IpAddr};

/// Where releases are, unless the cluster names another place.
const RELEASE_REGISTRY: &str = "quay.io";
/// Where images of no registry are.
const DEFAULT_REGISTRY: &str = "docker.io";

/// The virtual addresses that the hosts are to hold; none where the user looks after that.
pub(super) fn vips(situation: &Situation) -> Option<Vec<VerifyVip>> {
    let record = situation.cluster.filter(|record| has_vips(record))?;
    let of = |list: &[Value], vip_type: VipType| {
        let addresses = list.iter().filter_map(|vip| Some(vip.get("ip")?.as_str()?.to_owned()));
        addresses.map(|vip| VerifyVip { vip, vip_type }).collect::<Vec<_>>()
    };
    let all = [of(&record.cluster.api_vips, VipType::Api), of(&record.cluster.ingress_vips, VipType::Ingress)].concat();
    (!all.is_empty()).then_some(all)
}

/// Whether a cluster is to have virtual addresses; else the user looks after that.
fn has_vips(record: &ClusterRecord) -> bool {
    !record.cluster.user_managed_networking && !record.single_node()
}

/// The host's IPv4 networks of at most 10 host bits.
pub(super) fn small_networks(situation: &Situation) -> Option<Vec<String>> {
    const MAX_HOST_BITS: u8 = 10;
    let inventory = situation.record.facts().inventory.as_ref()?;
    let texts = inventory.interfaces.iter().flat_map(|nic| &nic.ipv4_addresses);
    let cidrs = texts.filter_map(|text| text.parse::<Cidr>().ok()).filter(|cidr| !cidr.address.is_loopback());
    let small = cidrs.filter(|cidr| cidr.prefix >= 32 - MAX_HOST_BITS).map(|cidr| cidr.network().to_string());
    let networks: BTreeSet<String> = small.collect();
    (!networks.is_empty()).then(|| networks.into_iter().collect())
}

/// Leases of the virtual addresses, over the host's interface in the machine network.
pub(super) fn leases(situation: &Situation) -> Option<DhcpAllocationRequest> {
    let record = situation.cluster.filter(|record| record.cluster.vip_dhcp_allocation && !record.day2())?;
    let network = situation.machine_networks.first()?;
    let inventory = situation.record.facts().inventory.as_ref()?;
    let inside = |nic: &&Interface| {
        let cidrs = nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses).filter_map(|text| text.parse::<Cidr>().ok());
        cidrs.into_iter().any(|cidr| network.contains(cidr.address))
    };
    let id = record.cluster.id;
    Some(DhcpAllocationRequest {
        api_vip_lease: record.dhcp.api_lease.clone(),
        api_vip_mac: dhcp_vips::mac(id, "api"),
        ingress_vip_lease: record.dhcp.ingress_lease.clone(),
        ingress_vip_mac: dhcp_vips::mac(id, "ingress"),
        interface: inventory.interfaces.iter().find(inside)?.name.clone(),
    })
}

/// The time sources that somebody named for the cluster, else for the infra-env; without one the host's own are told.
pub(super) fn time_sources(situation: &Situation) -> NtpSynchronizationRequest {
    let kept = |name| situation.cluster?.kept.get(name)?.as_str();
    let infra_env = situation.infra_env.map(|record| &record.infra_env);
    let named = [
        kept("additional_ntp_source"),
        kept("ntp_sources"),
        infra_env.map(|infra_env| infra_env.additional_ntp_sources.as_str()),
        infra_env.map(|infra_env| infra_env.ntp_sources.as_str()),
    ];
    let named = named.into_iter().flatten().find(|text| !text.is_empty());
    NtpSynchronizationRequest { ntp_source: named.unwrap_or_default().to_owned() }
}

/// The names of a control plane, two that must not be there, and the registry of the release. Where no control plane is brought
/// up there are no names.
pub(super) fn domains(situation: &Situation) -> Option<DomainResolutionRequest> {
    let record = situation.cluster.filter(|_| situation.settings.cluster_files.is_some())?;
    let (name, base) = (&record.cluster.name, &record.cluster.base_dns_domain);
    if base.is_empty() {
        return None;
    }
    let of_cluster = ["api", "api-int", "console-openshift-console.apps"].map(|what| format!("{what}.{name}.{base}"));
    let wildcard = format!("validateNoWildcardDNS.{name}.{base}");
    let release = record.kept.get("ocp_release_image").and_then(Value::as_str).map_or(RELEASE_REGISTRY, registry);
    let release = Some(release).filter(|host| !record.day2() && host.parse::<IpAddr>().is_err());
    let all = of_cluster.into_iter().chain([format!("{wildcard}."), wildcard]).chain(release.map(str::to_owned));
    let domains = all.map(|name| DomainResolutionRequestDomain { domain_name: Some(name) });
    Some(DomainResolutionRequest { domains: domains.collect() })
}

/// The host part of an image reference, without its port.
fn registry(image: &str) -> &str {
    let Some((host, _)) = image.split_once('/') else { return DEFAULT_REGISTRY };
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    match host.split_once(':') {
        Some((host, _)) => host,
        None if host.contains('.') || host == "localhost" => host,
        None => DEFAULT_REGISTRY,
    }
}

/// The other hosts of the cluster that can answer; none when there are none.
pub(super) fn connectivity(situation: &Situation) -> Option<Vec<ConnectivityCheckHost>> {
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
    (!hosts.is_empty()).then_some(hosts)
}

fn connectivity_nic(nic: &Interface) -> ConnectivityCheckNic {
    let of_one = Inventory { interfaces: vec![nic.clone()], ..Inventory::default() };
    ConnectivityCheckNic {
        ip_addresses: addresses(&of_one).map(|address| address.to_string()).collect(),
        mac: nic.mac_address.clone(),
        name: nic.name.clone(),
    }
}

/// Where an added host's installed system gets its config. Where there is no control plane it is this service, which the host
/// reaches already.
pub(super) fn api_vip(situation: &Situation) -> Option<ApiVipConnectivityRequest> {
    let record = situation.cluster.filter(|record| record.day2())?;
    let endpoint = Endpoint::of(situation.settings.cluster_files.is_some(), record, situation.record)?;
    Some(endpoint.request(situation.record))
}

/// The servers that unlock the host's disk, if any do.
pub(super) fn tang(situation: &Situation) -> Option<TangConnectivityRequest> {
    let tang_servers = encryption::tang_servers(situation.cluster?, situation.record)?;
    Some(TangConnectivityRequest { tang_servers })
}

/// The installation disk, unless it was measured or has data that are to stay.
pub(super) fn disk_speed(situation: &Situation) -> Option<DiskSpeedCheckRequest> {
    let path = disk_to_measure(&situation.settings.steps, situation.record)?.to_owned();
    Some(DiskSpeedCheckRequest { path })
}

/// The installation disk of a host that is still to measure it.
pub fn disk_to_measure<'a>(options: &StepOptions, record: &'a HostRecord) -> Option<&'a str> {
    let boot = record.facts().inventory.as_ref().and_then(|inventory| inventory.boot.as_ref());
    let persistent = boot.is_some_and(|boot| boot.device_type == "persistent");
    if !options.disk_speed_check || persistent || super::install::keeps_partitions(record) {
        return None;
    }
    let host = &record.host;
    let mut names = [&host.installation_disk_id, &host.installation_disk_path].into_iter().filter(|id| !id.is_empty());
    let infos = document(record, "disks_info");
    let tested = |name: &String| infos.get(name).is_some_and(|info| info["disk_speed"]["tested"] == true);
    if names.clone().any(tested) { None } else { names.next().map(String::as_str) }
}

/// The images that were not tried yet.
pub(super) fn images(situation: &Situation) -> Option<ContainerImageAvailabilityRequest> {
    let images = images_to_try(&situation.settings.steps, situation.record);
    (!images.is_empty()).then_some(ContainerImageAvailabilityRequest { images, timeout: i64::try_from(IMAGES_S).ok() })
}

/// The images that a host is still to try.
pub fn images_to_try(options: &StepOptions, record: &HostRecord) -> Vec<String> {
    if options.check_images.is_empty() {
        return Vec::new();
    }
    let tried = document(record, "images_status");
    options.check_images.iter().filter(|image| !tried.contains_key(*image)).cloned().collect()
}

/// A text field that is kept, as the document it is.
fn document(record: &HostRecord, name: &str) -> Map<String, Value> {
    record.kept.get(name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// What an installed host boots into discovery with, by itself.
pub(super) fn boot_artifacts(situation: &Situation) -> Option<BootArtifactsRequest> {
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

/// Asks for all there is, until it has come; of a bootstrap host also for what the other masters have.
pub(super) fn logs(situation: &Situation) -> Option<LogsGatherRequest> {
    let host = &situation.record.host;
    let masters = situation
        .peers
        .iter()
        .filter(|peer| host.bootstrap && peer.host.id != host.id && peer.effective_role() == HostRole::Master);
    host.logs_collected_at.is_zero().then_some(LogsGatherRequest {
        cluster_id: situation.cluster?.cluster.id,
        host_id: host.id,
        infra_env_id: host.infra_env_id,
        bootstrap: host.bootstrap,
        installer_gather: true,
        master_ips: masters.filter_map(|peer| reached_at(peer, situation.machine_networks)).collect(),
    })
}

/// A host's address in the machine networks; where none are known, its first.
fn reached_at(record: &HostRecord, networks: &[Cidr]) -> Option<IpAddr> {
    let addresses = &record.facts().addresses;
    let inside = |address: &&IpAddr| networks.iter().any(|network| network.contains(**address));
    if networks.is_empty() { addresses.first() } else { addresses.iter().find(inside) }.copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries() {
        for (image, host) in [
            ("quay.io/openshift-release-dev/ocp-release:4.22.9-x86_64", "quay.io"),
            ("mirror.example.com:5000/ocp/release@sha256:0f", "mirror.example.com"),
            ("192.0.2.1:5000/ocp/release:1", "192.0.2.1"),
            ("[2001:db8::1]:5000/ocp/release:1", "2001:db8::1"),
            ("library/release", "docker.io"),
            ("release", "docker.io"),
        ] {
            assert_eq!(registry(image), host, "{image}");
        }
    }
}
