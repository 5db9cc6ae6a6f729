//! The request of the step `install` (docs/compatibility.md#install-request).

use super::kind::{Kind, Outcome, Replied, Situation, detail, json};
use crate::check::disks;
use crate::http::Refusal;
use crate::model::{ClusterRecord, HostRecord};
use crate::net::Cidr;
use crate::state::{HostState, host::Trigger};
use crate::text::at;
use api::{ApiVipConnectivityResponse, Disk, HostRole, InstallRequest, Interface, Inventory, Proxy, StepReply, kinds};
use flate2::read::GzDecoder;
use ignition::data_url;
use netcheck::image::reference::Name;
use serde_json::Value;
use std::{io::Read, net::IpAddr};

/// A rendered machine config has some hundred KiB.
const MAX_MACHINE_CONFIG_BYTES: u64 = 16 << 20;

pub(crate) fn kind() -> Kind {
    Kind {
        // The installer is pulled in three attempts of ten minutes; then it reports its first stage.
        limit_s: Some(3 * 600 + 300),
        failed,
        ..Kind::new::<kinds::Install>(
            |state, _| state == HostState::Installing,
            |situation| json::<kinds::Install>(&request(situation)?),
        )
    }
}

fn failed(replied: &Replied) -> Result<Outcome, Refusal> {
    if is_name_clash(replied.reply) {
        return Ok(Outcome::Nothing);
    }
    let why = format!("installation command failed: {}", detail(replied.reply));
    Ok(Outcome::Trigger(Trigger::InstallationFailed, why))
}

/// The real service hands the install step out until the first progress report and relies on this clash.
fn is_name_clash(reply: &StepReply) -> bool {
    reply.exit_code == 125 && reply.error.contains("is already in use")
}

/// What the installer is asked to do. Without a control plane none is counted: no host carries a temporary one.
pub(crate) fn request(situation: &Situation) -> Option<InstallRequest> {
    let (record, cluster) = (situation.record, &situation.cluster?.cluster);
    let host = &record.host;
    let boot_device =
        [&host.installation_disk_id, &host.installation_disk_path].into_iter().find(|id| !id.is_empty())?;
    let settings = situation.settings;
    let with_control_plane = settings.has_control_plane();
    let day1 = !record.day2();
    let coreos_image = coreos_image(situation.payload.coreos.as_deref(), record);
    if coreos_image.is_none() && lacks_system(record) {
        return None;
    }
    Some(InstallRequest {
        boot_device: boot_device.clone(),
        check_cvo: false,
        cluster_id: cluster.id,
        control_plane_count: if with_control_plane { cluster.control_plane_count } else { 0 },
        controller_image: settings.controller_image.clone(),
        coreos_image,
        disks_to_format: disks_to_format(record).0.iter().map(|disk| disks::identifier(disk)).collect(),
        enable_skip_mco_reboot: false,
        host_id: host.id,
        infra_env_id: host.infra_env_id,
        installer_args: serde_json::to_string(&installer_args(situation)).ok(),
        installer_image: settings.installer_image.clone(),
        mco_image: situation.payload.machine_config_operator.clone().filter(|_| day1),
        must_gather_image: situation.payload.must_gather.clone().filter(|_| day1),
        notify_num_reboots: true,
        openshift_version: Some(cluster.openshift_version.clone()).filter(|version| day1 && !version.is_empty()),
        proxy: proxy(situation.cluster?),
        role: if host.bootstrap { HostRole::Bootstrap } else { record.effective_role() },
        service_ips: None,
        skip_installation_disk_cleanup: keeps_partitions(record),
    })
}

/// The system for a host that runs from its own disk, and gets it into the root file system there: that of the release, else that of
/// the config which the cluster gives its new nodes.
fn coreos_image(of_release: Option<&str>, record: &HostRecord) -> Option<String> {
    if !record.boots_from_disk() {
        return None;
    }
    of_release.map(str::to_owned).or_else(|| system_of_config(record))
}

/// Whether a host has no system to install: an added one that runs from its own disk, whose image would be overwritten while it runs.
pub(crate) fn lacks_system(record: &HostRecord) -> bool {
    record.day2() && record.boots_from_disk() && system_of_config(record).is_none()
}

/// `spec.osImageURL` in the machine config that comes with the config which the host fetched.
fn system_of_config(record: &HostRecord) -> Option<String> {
    const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
    let text = record.texts.api_vip_connectivity.as_deref()?;
    let answer: ApiVipConnectivityResponse = serde_json::from_str(text).ok()?;
    let config: Value = serde_json::from_str(&answer.ignition).ok()?;
    let files = config.pointer("/storage/files")?.as_array()?;
    let file = files.iter().find(|file| at(file, "/path") == ENCAPSULATED)?;
    let data = data_url::decode(at(file, "/contents/source")).ok()?.data;
    let text = match at(file, "/contents/compression") {
        "gzip" => unpacked(&data)?,
        _ => data.into_owned(),
    };
    let machine_config: Value = serde_json::from_slice(&text).ok()?;
    let image = at(&machine_config, "/spec/osImageURL");
    image.parse::<Name>().is_ok().then(|| image.to_owned())
}

fn unpacked(gzip: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let read = GzDecoder::new(gzip).take(MAX_MACHINE_CONFIG_BYTES).read_to_end(&mut text).ok()?;
    (u64::try_from(read).ok()? < MAX_MACHINE_CONFIG_BYTES).then_some(text)
}

/// Disks with a boot sector, which would be booted from instead of the installation disk: those that are to be cleared, and those
/// that the user keeps.
pub(crate) fn disks_to_format(record: &HostRecord) -> (Vec<&Disk>, Vec<&Disk>) {
    let skipped = record.texts.skip_formatting_disks.as_deref().unwrap_or_default();
    let own = [&record.host.installation_disk_id, &record.host.installation_disk_path];
    let installs = |disk: &Disk| own.iter().any(|id| !id.is_empty() && disks::answers_to(disk, id));
    let keeps = |disk: &&Disk| {
        skipped.split(',').any(|id| !id.is_empty() && disks::answers_to(disk, id))
            || installs(disk) && keeps_partitions(record)
    };
    let inventory = record.facts().inventory.iter();
    inventory.flat_map(|inventory| &inventory.disks).filter(|disk| boots(disk)).partition(|disk| !keeps(disk))
}

/// Whether firmware may boot from a disk that is the machine's own. What is shared with others is never touched.
fn boots(disk: &Disk) -> bool {
    let removable = disk.removable || disk.name.starts_with("mmcblk");
    let shared = matches!(disk.drive_type.as_str(), "FC" | "iSCSI" | "LVM" | "Multipath");
    disk.bootable && !removable && !shared && !disk.is_installation_media
}

/// The user's own arguments for the image's writer.
fn own_args(record: &HostRecord) -> Vec<String> {
    serde_json::from_str(&record.host.installer_args).unwrap_or_default()
}

/// Whether partitions of the installation disk are to stay.
pub(super) fn keeps_partitions(record: &HostRecord) -> bool {
    own_args(record).iter().any(|arg| arg.starts_with("--save-part"))
}

/// The cluster's proxies, past which the cluster's own names go.
fn proxy(record: &ClusterRecord) -> Option<Proxy> {
    let setting = |name| record.settings.get(name).and_then(|value| value.as_str()).filter(|text| !text.is_empty());
    let (http, https) = (setting("http_proxy"), setting("https_proxy"));
    http.or(https)?;
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let no_proxy =
        no_proxy(setting("no_proxy").unwrap_or_default(), &record.cluster.name, &record.cluster.base_dns_domain);
    Some(Proxy { http_proxy: owned(http), https_proxy: owned(https), no_proxy: Some(no_proxy) })
}

fn no_proxy(given: &str, name: &str, base: &str) -> String {
    if given.trim() == "*" {
        return "*".to_owned();
    }
    let internal = format!("api-int.{name}.{base}");
    let own = ["127.0.0.1", "localhost", ".svc", ".cluster.local", internal.as_str()];
    let mut all: Vec<&str> = Vec::new();
    for entry in given.split(',').map(str::trim).filter(|entry| !entry.is_empty()).chain(own) {
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
    all.join(",")
}

/// The user's arguments, then what the machine, the disk and the network need, then where the image is.
pub(crate) fn installer_args(situation: &Situation) -> Vec<String> {
    let mut args = own_args(situation.record);
    let has_ip = args.windows(2).any(|pair| pair[0] == "--append-karg" && pair[1].starts_with("ip="));
    let inventory = situation.record.facts().inventory.as_ref();
    let machine_needs = inventory.map(|inventory| mainframe_kargs(inventory, has_ip)).unwrap_or_default();
    let chosen = Some(&situation.record.host.installation_disk_id).filter(|id| !id.is_empty());
    let of_disk = inventory.zip(chosen).map(|(inventory, id)| disk_kargs(inventory, id));
    let append = |args: &mut Vec<String>, kargs: Vec<String>| {
        args.extend(kargs.into_iter().flat_map(|karg| ["--append-karg".to_owned(), karg]));
    };
    append(&mut args, machine_needs);
    append(&mut args, of_disk.unwrap_or_default());
    let copies = args.iter().any(|arg| matches!(arg.as_str(), "-n" | "--copy-network"));
    if situation.static_network && !copies {
        args.push("--copy-network".to_owned());
    }
    if !has_ip && !copies && !situation.static_network {
        // A disk's own interface may be among them.
        let mut kargs = inventory.map(|inventory| ip_kargs(inventory, situation.machine_networks)).unwrap_or_default();
        kargs.retain(|karg| !args.contains(karg));
        append(&mut args, kargs);
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

/// What the live system of a mainframe's partition was started with: its disks and networks are not found without. Its addresses
/// only where the user sets some as well.
fn mainframe_kargs(inventory: &Inventory, has_ip: bool) -> Vec<String> {
    const DEVICES: [&str; 5] = ["rd.neednet", "zfcp.allow_lun_scan", "rd.znet", "rd.dasd", "rd.zfcp"];
    const ADDRESSES: [&str; 2] = ["ip=", "nameserver="];
    let vendor = inventory.system_vendor.clone().unwrap_or_default();
    if vendor.manufacturer != "IBM/S390" || vendor.product_name == "KVM" {
        return Vec::new();
    }
    let wanted = |karg: &&str| {
        let starts = |list: &[&str]| list.iter().any(|start| karg.starts_with(start));
        starts(&DEVICES) || has_ip && starts(&ADDRESSES)
    };
    let boot = inventory.boot.iter();
    boot.flat_map(|boot| boot.command_line.split_whitespace()).filter(wanted).map(str::to_owned).collect()
}

/// What the first boot needs to find the installation disk.
fn disk_kargs(inventory: &Inventory, id: &str) -> Vec<String> {
    let Some(disk) = inventory.disks.iter().find(|disk| disks::answers_to(disk, id)) else { return Vec::new() };
    let owned = |kargs: &[&str]| kargs.iter().map(|karg| (*karg).to_owned()).collect();
    match disk.drive_type.as_str() {
        "Multipath" => owned(&["rw", "rd.multipath=default"]),
        "iSCSI" => {
            let address = disk.iscsi.as_ref().and_then(|iscsi| iscsi.host_ip_address.parse::<IpAddr>().ok());
            let network = address.and_then(|address| {
                let has = |nic: &&Interface| {
                    let texts = nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses);
                    texts.filter_map(|text| text.parse::<Cidr>().ok()).any(|cidr| cidr.address == address)
                };
                let nic = inventory.interfaces.iter().find(has).filter(|nic| !nic.mac_address.is_empty())?;
                Some(ip_karg(nic, if address.is_ipv4() { "dhcp" } else { "dhcp6" }))
            });
            ["rd.iscsi.firmware=1".to_owned()].into_iter().chain(network).collect()
        }
        "RAID" => owned(&["rd.md=1", "rd.auto=1"]),
        _ => Vec::new(),
    }
}

fn ip_karg(nic: &Interface, method: &str) -> String {
    format!("ip={}:{method}", nic.mac_address.to_lowercase().replace(':', "-"))
}

/// One `ip=` per interface in the machine networks; where none are known, per interface of a default route.
pub(crate) fn ip_kargs(inventory: &Inventory, machine_networks: &[Cidr]) -> Vec<String> {
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
        Some(ip_karg(nic, method))
    };
    inventory.interfaces.iter().filter(|nic| !nic.mac_address.is_empty()).filter_map(karg).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostKey;
    use api::{HostId, InfraEnvId, Timestamp};
    use base64::{Engine, engine::general_purpose::STANDARD};
    use flate2::{Compression, write::GzEncoder};
    use serde_json::json;
    use std::io::Write;

    #[test]
    fn a_host_that_runs_from_its_disk_gets_the_system_of_the_release_else_of_the_fetched_config() {
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        let mut record = HostRecord::new(key, None, Timestamp::ZERO);
        record.host.kind = crate::model::DAY2_HOST.into();
        let fetched = |contents: Value| {
            let files = json!([{"path": "/etc/x"}, {"path": "/etc/ignition-machine-config-encapsulated.json", "contents": contents}]);
            let config = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}}).to_string();
            Some(json!({"is_success": true, "ignition": config}).to_string())
        };
        record.texts.api_vip_connectivity =
            fetched(json!({"source": "data:,%7B%22spec%22%3A%7B%22osImageURL%22%3A%22r.io/os@sha256:00%22%7D%7D"}));
        assert_eq!(coreos_image(Some("r.io/release:1"), &record), None, "its live system is in memory");
        assert!(!lacks_system(&record));
        record.set_inventory(json!({"boot": {"device_type": "persistent"}}).to_string());
        assert_eq!(coreos_image(Some("r.io/release:1"), &record).as_deref(), Some("r.io/release:1"));
        assert!(lacks_system(&record), "a digest of one byte");
        let machine_config = json!({"spec": {"osImageURL": "r.io/os:4.20"}}).to_string();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(machine_config.as_bytes()).unwrap();
        let gzip = STANDARD.encode(gzip.finish().unwrap());
        let plain = STANDARD.encode(&machine_config);
        for contents in [
            json!({"source": format!("data:;base64,{plain}")}),
            json!({"source": format!("data:;base64,{gzip}"), "compression": "gzip"}),
        ] {
            record.texts.api_vip_connectivity = fetched(contents);
            assert_eq!(coreos_image(None, &record).as_deref(), Some("r.io/os:4.20"));
            assert!(!lacks_system(&record));
        }
        for bad in [
            json!({"source": "data:,x"}),
            json!({"source": "https://x"}),
            json!({"source": "data:,%7B%7D"}),
            json!(null),
        ] {
            record.texts.api_vip_connectivity = fetched(bad);
            assert!(lacks_system(&record));
        }
        record.texts.api_vip_connectivity = None;
        assert!(lacks_system(&record));
    }

    #[test]
    fn the_clusters_own_names_go_past_a_proxy() {
        let own = "127.0.0.1,localhost,.svc,.cluster.local,api-int.c.example.com";
        for (given, expected) in [
            ("", own.to_owned()),
            ("*", "*".to_owned()),
            ("10.0.0.0/8, .example.com,,10.0.0.0/8", format!("10.0.0.0/8,.example.com,{own}")),
            ("localhost,.svc", "localhost,.svc,127.0.0.1,.cluster.local,api-int.c.example.com".to_owned()),
        ] {
            assert_eq!(no_proxy(given, "c", "example.com"), expected, "{given}");
        }
    }
}
