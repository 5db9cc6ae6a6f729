//! What must be removed, from the files known to contain it. Pure; the bytes are hostile.

use super::MIN_LEN;
use crate::{bmc, identity::SHARED_SERIALS, mpt, optics, pci, scsi, ses, smartarray, smbios::Smbios, tpm};
use kernel::order::Gather;
use kernel::{bytes::le64, hex, record::Kind};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

/// Values without meaning, in lower case, besides those that hosts share.
const TELLTALES_OF_NOTHING: [&str; 9] = [
    "",
    "none",
    "unknown",
    "not specified",
    "default string",
    "asset tag",
    "no asset tag",
    "no asset information",
    // The same on all machines of Azure.
    "7783-7084-3265-9085-8269-3286-77",
];
/// Asset tags that name a platform, in lower case.
const PLATFORMS: [&str; 4] = ["amazon ec2", "oraclecloud.com", "google compute engine", "huaweicloud"];
/// Files of /sys/class/dmi/id that tell the make. Where a serial number or asset tag says the same, it is not a secret.
const MAKES: [&str; 8] = [
    "sys_vendor",
    "product_name",
    "product_family",
    "product_version",
    "board_vendor",
    "board_name",
    "chassis_vendor",
    "bios_vendor",
];

/// Files of sysfs, the device tree among them, that contain only such a value, by their last component.
const VALUE_FILES: [&str; 29] = [
    "board_serial",
    "board_asset_tag",
    "board_tracer",
    "chassis_serial",
    "chassis_asset_tag",
    "product_serial",
    "product_uuid",
    "serial",
    "serial_number",
    "serial-number",
    "unique_id",
    "system-id",
    "wwid",
    "wwn",
    "nguid",
    "uuid",
    "eui",
    "address",
    "perm_hwaddr",
    "port_name",
    "node_name",
    "node_guid",
    "port_guid",
    "sys_image_guid",
    "sas_address",
    "host_sas_address",
    "subsysnqn",
    "hostnqn",
    "hostid",
];
/// udev's properties that hold one.
const VALUE_PROPERTIES: [&str; 18] = [
    "ID_SERIAL",
    "ID_SERIAL_SHORT",
    "SCSI_IDENT_SERIAL",
    "ID_SCSI_SERIAL",
    "ID_WWN",
    "ID_WWN_WITH_EXTENSION",
    "DM_WWN",
    "DM_SERIAL",
    "ID_FS_UUID",
    "ID_FS_UUID_ENC",
    "ID_FS_UUID_SUB",
    "ID_PART_ENTRY_UUID",
    "ID_PART_TABLE_UUID",
    "ID_UUID",
    "SCSI_IDENT_LUN_NAA_REG",
    "SCSI_IDENT_LUN_NAA_REGEXT",
    "SCSI_IDENT_LUN_T10",
    "SCSI_IDENT_PORT_NAA_REG",
];
/// Where page 89h of a SCSI disk keeps ATA's IDENTIFY data (SAT-4 12.4.2).
const PAGE_89_IDENTIFY: usize = 60;

/// The values of a capture.
pub(super) struct Values {
    known: BTreeSet<String>,
    /// Texts that stay although they stand where such a value would, in lower case.
    public: BTreeSet<String>,
}

impl Values {
    pub(super) fn collect(entries: &BTreeMap<PathBuf, Kind>) -> Self {
        let mut public: BTreeSet<String> =
            [&TELLTALES_OF_NOTHING[..], &PLATFORMS, &SHARED_SERIALS].concat().into_iter().map(str::to_owned).gather();
        let mut known = BTreeSet::new();
        for (path, kind) in entries {
            let Kind::File(bytes) = kind else { continue };
            let is_make =
                |dir: &str, names: &[&str]| names.iter().any(|name| path.ends_with(Path::new(dir).join(name)));
            if is_make("dmi/id", &MAKES) || is_make("device", &["model", "vendor"]) {
                public.insert(String::from_utf8_lossy(bytes).trim().to_lowercase());
            } else if path.starts_with("/run/udev/data") {
                public.extend(models(&String::from_utf8_lossy(bytes)));
            }
            known.extend(of_file(path, bytes));
        }
        let mut values = Self { known, public };
        let known = std::mem::take(&mut values.known);
        values.known = known.into_iter().filter(|value| value.len() >= MIN_LEN && values.tells(value)).collect();
        values
    }

    /// Those long enough to be searched for.
    pub(super) fn known(&self) -> &BTreeSet<String> {
        &self.known
    }

    /// Where in a file values stand that are too short for that.
    pub(super) fn short(&self, path: &Path, bytes: &[u8]) -> Vec<Range<usize>> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
        let mut places = Vec::new();
        let mut add = |value: &str| {
            if value.len() < MIN_LEN && self.tells(value) {
                let start = value.as_ptr().addr() - text.as_ptr().addr();
                places.push(start..start + value.len());
            }
        };
        if is_value_file(path) {
            add(core(clean(text)));
        } else if path.starts_with("/run/udev/data") {
            text.lines().filter_map(property).for_each(add);
        } else if path == Path::new("/proc/cpuinfo") {
            // s390x: the CPU's own number, then the machine's five digits.
            text.lines()
                .filter_map(|line| after(line, "identification =")?.split(',').next())
                .map(str::trim)
                .filter_map(|value| value.len().checked_sub(5).and_then(|at| value.get(at..)))
                .for_each(add);
        }
        places
    }

    fn tells(&self, value: &str) -> bool {
        let is_blank = value.bytes().all(|byte| matches!(byte, b'0' | b'f' | b'F' | b'.' | b':' | b'-' | b' ' | b'x'));
        !is_blank && !self.public.contains(&value.to_lowercase())
    }
}

fn is_value_file(path: &Path) -> bool {
    // PCI slots have addresses, too, which are not secret.
    let is_slot = path.starts_with("/sys/bus/pci/slots");
    let is_known = path.file_name().is_some_and(|name| VALUE_FILES.iter().any(|known| name == *known));
    is_known && !is_slot && (path.starts_with("/sys") || path.starts_with("/proc/device-tree"))
}

fn property(line: &str) -> Option<&str> {
    let (name, value) = line.strip_prefix("E:")?.split_once('=')?;
    VALUE_PROPERTIES.contains(&name).then(|| core(value.trim()))
}

/// What udev takes for a serial number where a disk has none.
fn models(text: &str) -> Vec<String> {
    let get = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix("E:")?.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
    };
    let (vendor, model) = (get("ID_VENDOR").to_lowercase(), get("ID_MODEL").to_lowercase());
    vec![format!("{vendor}_{model}"), vendor, model]
}

fn after<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(name).map(|(_, rest)| rest)
}

fn of_file(path: &Path, bytes: &[u8]) -> Vec<String> {
    let text = || String::from_utf8_lossy(bytes);
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let bytes_at = |range: Range<usize>| bytes.get(range).unwrap_or_default();
    if is_value_file(path) {
        let text = text();
        let value = core(clean(&text));
        // Its bytes stand apart.
        let value = if name == "eui" { value.replace(' ', "") } else { value.to_owned() };
        return vec![infiniband(&value).unwrap_or(value)];
    }
    if path.starts_with("/run/udev/data") {
        return text()
            .lines()
            .flat_map(|line| property(line).map(str::to_owned).into_iter().chain(names_in(line)))
            .collect();
    }
    if path == Path::new("/proc/sysinfo") {
        let value = |line| after(line, "Sequence Code:").map(|code| code.trim().to_owned());
        return text().lines().filter_map(value).collect();
    }
    if path.ends_with("firmware/dmi/tables/DMI") {
        return Smbios::parse(bytes.to_vec()).serials();
    }
    let (in_ipmi, in_tpm) = (path.starts_with("/landfall/ipmi"), path.starts_with("/landfall/tpm"));
    match &*name {
        "nvme-identify-controller" => {
            let text = |range| clean(&String::from_utf8_lossy(bytes_at(range))).to_owned();
            // Serial number and name of the subsystem (NVMe 2.0, figure 275).
            vec![text(4..24), core(&text(768..1024)).to_owned()]
        }
        "ata-identify" => ata_values(bytes),
        "vpd_pg89" | "scsi-page-89" => ata_values(bytes.get(PAGE_89_IDENTIFY..).unwrap_or_default()),
        "vpd_pg80" | "scsi-page-80" => {
            vec![clean(&String::from_utf8_lossy(bytes.get(4..).unwrap_or_default())).to_owned()]
        }
        "vpd" if path.starts_with("/sys") => pci::vpd::secrets(bytes),
        // The last half of an InfiniBand address is the port's GUID.
        _ if path.parent().is_some_and(|parent| parent.ends_with("gids")) => {
            vec![text().get(20..).map(|guid| clean(guid).to_owned()).unwrap_or_default()]
        }
        _ if path.starts_with("/proc/driver/nvidia") => {
            text().lines().filter_map(|line| after(line, "GPU-")).map(|uuid| uuid.trim().to_owned()).collect()
        }
        _ if path.starts_with("/landfall/interfaces") && name.starts_with("module-") => {
            optics::serial(bytes, name.ends_with("upper")).into_iter().collect()
        }
        "vpd_pg83" | "scsi-page-83" => of_page_83(bytes.get(4..).unwrap_or_default()),
        "scsi-log-18" => scsi::addresses(bytes),
        "enclosure-page-01" | "enclosure-page-0a" => ses::secrets(bytes),
        _ if name.starts_with("smartarray-") => smartarray::secrets(&name, bytes),
        _ if name.starts_with("mpt-") => mpt::secrets(&name, bytes),
        _ if name.starts_with("megaraid-") => of_megaraid(&name, bytes),
        name if in_ipmi && name.starts_with("part-") => bmc::part_serials(bytes),
        name if in_tpm && name.starts_with("nv-") => tpm::unique_in_index(bytes),
        name if in_tpm && name.starts_with("public-") => tpm::unique_in_key(bytes),
        // Get LAN Configuration Parameters, MAC address (IPMI 2.0, 23.2): behind completion code and revision.
        _ if in_ipmi && name.starts_with("0c-02-") && name.get(8..).is_some_and(|rest| rest.starts_with("-05")) => {
            vec![hex::colons(bytes_at(2..8))]
        }
        // Get System GUID and Get Device GUID (IPMI 2.0, 20.8 and 22.14).
        "06-37" | "06-08" if in_ipmi => {
            vec![uuid::Uuid::from_slice(bytes_at(1..17)).map_or(String::new(), |id| id.to_string())]
        }
        _ => Vec::new(),
    }
}

/// Serial number, and the WWN of words 108 to 111 (ACS-4 7.13.6).
fn ata_values(identify: &[u8]) -> Vec<String> {
    let straight = |range: Range<usize>| -> Vec<u8> {
        identify.get(range).unwrap_or_default().chunks_exact(2).flat_map(|word| [word[1], word[0]]).collect()
    };
    vec![clean(&String::from_utf8_lossy(&straight(20..40))).to_owned(), hex::lower(straight(216..224))]
}

/// Serial numbers, and addresses of ports, which are little endian (drivers/scsi/megaraid/megaraid_sas.h).
fn of_megaraid(name: &str, bytes: &[u8]) -> Vec<String> {
    let text = |range: Range<usize>| clean(&String::from_utf8_lossy(bytes.get(range).unwrap_or_default())).to_owned();
    let page = |range: Range<usize>| of_page_83(bytes.get(range).unwrap_or_default());
    let address = |at: usize| le64(bytes, at).map_or(String::new(), |address| format!("{address:016x}"));
    match name.split('-').nth(1) {
        // Of the ports to the host and to drives.
        Some("controller") => (40..104).chain(112..176).step_by(8).map(address).chain([text(0x590..0x5b0)]).collect(),
        Some("drives") => (8..bytes.len()).step_by(24).flat_map(|at| [address(at + 8), address(at + 16)]).collect(),
        Some("drive") => {
            let unique = [text(40..60), address(200), address(208), address(216), address(224)];
            unique.into_iter().chain(page(104..164)).chain(page(298..358)).collect()
        }
        Some("volume") => page(308..368),
        _ => Vec::new(),
    }
}

/// All designators of a device identification page (SPC-5 7.7.6), of the unit, its port and its target.
fn of_page_83(mut rest: &[u8]) -> Vec<String> {
    let mut values = Vec::new();
    while let Some(([codes, flags, _, len], after)) = rest.split_first_chunk() {
        let Some((designator, next)) = after.split_at_checked(usize::from(*len)) else { break };
        let text = String::from_utf8_lossy(designator);
        values.push(match (codes & 0xf, flags & 0xf) {
            // Numbers of ports and groups.
            (_, 4..=6) => String::new(),
            (1, 10) => hex::lower(designator.get(2..).unwrap_or_default()),
            (1, _) => hex::lower(designator),
            // The vendor comes first, and stays.
            (_, 1) => clean(text.get(8..).unwrap_or_default()).to_owned(),
            _ => core(clean(&text)).to_owned(),
        });
        rest = next;
    }
    values
}

/// World-wide names of SAS and Fibre Channel in a path or a link of udev's: `0x` and 16 or 32 digits.
fn names_in(line: &str) -> impl Iterator<Item = String> {
    line.split("0x").skip(1).filter_map(|rest| {
        let len = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        // The leading digit is the kind of name; other numbers of that length are masks and the like.
        (matches!(len, 16 | 32) && rest.starts_with(['1', '2', '3', '5', '6'])).then(|| rest[..len].to_owned())
    })
}

/// The port's GUID at the end of an InfiniBand address; queue number and subnet before it are not secret.
fn infiniband(address: &str) -> Option<String> {
    let bytes: Vec<&str> = address.split(':').collect();
    (bytes.len() == 20).then(|| bytes[12..].join(":"))
}

fn clean(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default().trim()
}

/// The value without the words that name its kind.
fn core(value: &str) -> &str {
    if let Some(rest) = value.strip_prefix("nqn.") {
        return rest.rsplit_once(':').map_or("", |(_, tail)| tail);
    }
    if let Some((part, rest)) = value.strip_prefix("part").and_then(|rest| rest.split_once('-'))
        && part.bytes().all(|byte| byte.is_ascii_digit())
    {
        return core(rest);
    }
    // Device mapper's; a digit for the kind of name follows multipath's.
    if let Some(rest) = value.strip_prefix("mpath-") {
        return core(rest.strip_prefix(|c: char| c.is_ascii_digit()).filter(|_| !is_name(rest)).unwrap_or(rest));
    }
    if let Some(rest) = value.strip_prefix("CRYPT-") {
        let is_uuid = |part: &&str| part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        return rest.split('-').find(is_uuid).unwrap_or_default();
    }
    let prefixes = ["LVM-", "0x", "naa.", "eui.", "uuid.", "t10.", "nvme."];
    let value = prefixes.iter().find_map(|prefix| value.strip_prefix(prefix)).unwrap_or(value);
    // scsi_id's digit for the kind.
    value.strip_prefix('3').filter(|rest| is_name(rest)).unwrap_or(value)
}

fn is_name(value: &str) -> bool {
    matches!(value.len(), 16 | 32) && value.bytes().all(|byte| byte.is_ascii_hexdigit())
}
