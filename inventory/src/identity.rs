//! Who a host is (docs/compatibility.md#host-identity): the same hardware gives the same id as the assisted-installer's own agent does, so
//! that a host known to the service stays the same host.
//!
//! The rules may not be improved one-sidedly: a placeholder added here changes the ids of hosts already known by it. For
//! machines that share one, operators can set the id (`landfall.host_id=`), which no such host had.

use crate::{Root, net::sysfs_macs, smbios::Smbios};
use api::HostId;
use md5::{Digest, Md5};
use std::fmt;
use uuid::{Uuid, uuid};

const BOARD_SERIAL: &str = "/sys/class/dmi/id/board_serial";
const PRODUCT_UUID: &str = "/sys/class/dmi/id/product_uuid";

/// Board serials, in lower case, that many boards share.
const PLACEHOLDER_SERIALS: [&str; 10] = [
    "",
    "unknown",
    "none",
    "(none)",
    "-",
    // BlueField cards
    "unspecified base board serial number",
    "unspecified system serial number",
    "default string",
    // Linode
    "not specified",
    // ProLiant Gen11
    "pca_number.acc",
];

/// System UUIDs that many machines share. The second is Kaloom's.
const PLACEHOLDER_UUIDS: [Uuid; 2] =
    [uuid!("00000000-0000-0000-0000-000000000000"), uuid!("03000200-0400-0500-0006-000700080009")];

/// Board serials, in lower case, that hosts are known by although many boards share them.
pub(crate) const SHARED_SERIALS: [&str; 16] = [
    "to be filled by o.e.m.",
    "to be filled by oem",
    "o.e.m.",
    "oem",
    "n/a",
    "na",
    "not applicable",
    "not available",
    "invalid",
    "empty",
    "system serial number",
    "base board serial number",
    "board serial number",
    "serial number",
    "123456789",
    "0123456789",
];

/// What an operator's own id is called on the kernel's command line and in an SMBIOS OEM string.
const OVERRIDE: &str = "landfall.host_id=";
/// A file that QEMU gives with `-fw_cfg name=opt/landfall/host_id,string=…`.
const FW_CFG: &str = "/sys/firmware/qemu_fw_cfg/by_name/opt/landfall/host_id/raw";

/// The id of every host without anything to identify it.
const FAILURE: Uuid = uuid!("deaddead-dead-dead-dead-deaddeaddead");

/// Where an identity comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The operator's, on the kernel's command line.
    KernelArgument,
    /// The operator's, from QEMU.
    FwCfg,
    /// The operator's, from the firmware's table.
    OemString,
    /// MD5 of the baseboard's serial number.
    BoardSerial,
    /// The firmware's system UUID itself.
    SystemUuid,
    /// MD5 of the lowest MAC address.
    Mac,
    /// Nothing was found: the id is one that all such hosts share.
    Nothing,
}

impl Source {
    /// Short name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KernelArgument => "kernel-argument",
            Self::FwCfg => "fw-cfg",
            Self::OemString => "oem-string",
            Self::BoardSerial => "board-serial",
            Self::SystemUuid => "system-uuid",
            Self::Mac => "mac",
            Self::Nothing => "nothing",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A host's id and what it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub id: HostId,
    /// What it was made of.
    pub source: Source,
}

/// The identity of the host whose system `root` is. Needs root's rights on a running system, where DMI hides its serial
/// numbers from other users.
pub fn host_id(root: &Root) -> Identity {
    let identity = |id, source| Identity { id: HostId(id), source };
    if let Some((id, source)) = operators(root) {
        return identity(id, source);
    }
    if let Some(serial) = board_serial(root) {
        let text = String::from_utf8_lossy(&serial);
        if is_shared(&text) {
            tracing::warn!(
                serial = &*text,
                "other boards have the same serial number, and so the same host id: set a unique one with the kernel \
                 argument {OVERRIDE}UUID"
            );
        }
        return identity(md5(&serial), Source::BoardSerial);
    }
    if let Some(uuid) = system_uuid(root) {
        return identity(uuid, Source::SystemUuid);
    }
    match sysfs_macs(root).iter().min() {
        Some(mac) => identity(md5(mac.as_bytes()), Source::Mac),
        None => {
            tracing::warn!(
                "nothing distinguishes this host from others: set an id with the kernel argument {OVERRIDE}UUID"
            );
            identity(FAILURE, Source::Nothing)
        }
    }
}

/// An id that the operator gave, the most deliberate way first. One that is not a UUID is logged and ignored: a host
/// under another id is better than none.
fn operators(root: &Root) -> Option<(Uuid, Source)> {
    let command_line = root.text("/proc/cmdline", 64 << 10).unwrap_or_default();
    let argument = command_line.split_ascii_whitespace().filter_map(|word| word.strip_prefix(OVERRIDE)).next_back();
    let oem_strings = Smbios::read(root).oem_strings();
    let oem_string = oem_strings.iter().find_map(|text| text.trim().strip_prefix(OVERRIDE));
    let given = [
        (argument.map(str::to_owned), Source::KernelArgument),
        (root.text(FW_CFG, 4096), Source::FwCfg),
        (oem_string.map(str::to_owned), Source::OemString),
    ];
    given.into_iter().find_map(|(text, source)| {
        let text = text?;
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let uuid = text.parse().ok();
        if uuid.is_none() {
            tracing::warn!(%source, id = text, "the given host id is not a UUID and is ignored");
        }
        Some((uuid?, source))
    })
}

/// Whether a serial number is one that makers put on board after board.
fn is_shared(serial: &str) -> bool {
    let lower = serial.to_lowercase();
    let mut characters = lower.chars();
    let first = characters.next();
    SHARED_SERIALS.contains(&lower.as_str()) || characters.all(|c| Some(c) == first)
}

/// The bytes as the firmware has them, which need not be text: the id is the sum of them.
fn board_serial(root: &Root) -> Option<Vec<u8>> {
    let bytes = match root.read(BOARD_SERIAL, 4096) {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::debug!(path = BOARD_SERIAL, %error, "cannot be read");
            return None;
        }
    };
    let serial = trimmed(&bytes);
    let lower = String::from_utf8_lossy(serial).to_lowercase();
    (!PLACEHOLDER_SERIALS.contains(&lower.as_str())).then(|| serial.to_owned())
}

/// Without Unicode's white space at either end, as Go's `strings.TrimSpace` does it: none of it has more than three bytes in
/// UTF-8, and bytes that are not UTF-8 stay.
fn trimmed(mut bytes: &[u8]) -> &[u8] {
    let is_blank = |part: &[u8]| std::str::from_utf8(part).is_ok_and(|text| text.trim().is_empty());
    let lengths = |bytes: &[u8]| 1..=bytes.len().min(3);
    while let Some(len) = lengths(bytes).find(|len| is_blank(&bytes[..*len])) {
        bytes = &bytes[len..];
    }
    while let Some(len) = lengths(bytes).find(|len| is_blank(&bytes[bytes.len() - len..])) {
        bytes = &bytes[..bytes.len() - len];
    }
    bytes
}

fn system_uuid(root: &Root) -> Option<Uuid> {
    let uuid = root.text(PRODUCT_UUID, 4096)?.trim().parse().ok()?;
    (!PLACEHOLDER_UUIDS.contains(&uuid)).then_some(uuid)
}

/// The sum as it is: neither version nor variant bits are set, as the service has always seen it.
fn md5(bytes: &[u8]) -> Uuid {
    Uuid::from_bytes(Md5::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn identity(serial: Option<&str>, uuid: Option<&str>, macs: &[(&str, &str)]) -> (String, Source) {
        let tree = Tree::new(&[]);
        for (path, value) in [(BOARD_SERIAL, serial), (PRODUCT_UUID, uuid)] {
            if let Some(value) = value {
                tree.add(&path[1..], format!("{value}\n"));
            }
        }
        for (name, mac) in macs {
            tree.add(&format!("sys/class/net/{name}/address"), format!("{mac}\n"));
        }
        let identity = host_id(&tree.root());
        (identity.id.to_string(), identity.source)
    }

    #[test]
    fn serials() {
        for (serial, id) in [
            ("123-456-789", "856f4f9c-3c08-4d97-8ec7-ea0ad7d4cadf"),
            ("  Other\t", "6311ae17-c1ee-52b3-6e68-aaf4ad066387"),
            ("L1HF02A02SD", "d3d368a5-914d-a95a-3644-9dfb4eb0903b"),
        ] {
            assert_eq!(identity(Some(serial), Some(SOME_UUID), &[]), (id.to_owned(), Source::BoardSerial));
        }
    }

    #[test]
    fn a_serial_that_is_no_utf8_counts_byte_by_byte() {
        let id = |bytes: &[u8]| {
            let tree = Tree::new(&[]);
            tree.add(&BOARD_SERIAL[1..], bytes);
            host_id(&tree.root()).id.to_string()
        };
        // printf '\xff\xff\xff\xff' | md5sum
        assert_eq!(id(b"\xff\xff\xff\xff\n"), "a54f0041-a9e1-5b05-0f25-c463f1db7449");
        assert_eq!(id(b" \t\xff\xff\xff\xff\r\n"), "a54f0041-a9e1-5b05-0f25-c463f1db7449");
        // A blank of two bytes and one of three go; the first byte of one alone is none.
        assert_eq!(trimmed("\u{a0}\u{3000} a b\u{85}\u{2003}\n".as_bytes()), b"a b");
        assert_eq!(trimmed(b"\xe3\x80 a \x80\xc2"), b"\xe3\x80 a \x80\xc2");
        assert_eq!(trimmed(b" \n"), b"");
    }

    const SOME_UUID: &str = "4C4C4544-0046-4A10-8051-B4C04F4D3532";

    #[test]
    fn placeholder_serials_fall_to_the_uuid() {
        let uuid = (SOME_UUID.to_lowercase(), Source::SystemUuid);
        assert_eq!(identity(None, Some(SOME_UUID), &[]), uuid);
        for serial in PLACEHOLDER_SERIALS {
            assert_eq!(identity(Some(serial), Some(SOME_UUID), &[]), uuid, "{serial}");
            assert_eq!(identity(Some(&serial.to_uppercase()), Some(SOME_UUID), &[]), uuid, "{serial}");
        }
        // Not on the list, and may not be: hosts are known by it.
        assert_eq!(identity(Some("To be filled by O.E.M."), Some(SOME_UUID), &[]).1, Source::BoardSerial);
    }

    #[test]
    fn placeholder_uuids_fall_to_the_lowest_mac() {
        let macs = [("lo", "00:00:00:00:00:00"), ("eth1", "f8:75:a4:a4:00:ff"), ("eth0", "F8:75:A4:A4:00:FE")];
        let lowest = ("5fbf9397-0231-3d13-9fba-46c95209335b".to_owned(), Source::Mac);
        for uuid in
            ["", "unknown", "no uuid", "00000000-0000-0000-0000-000000000000", "03000200-0400-0500-0006-000700080009"]
        {
            assert_eq!(identity(Some("None"), Some(uuid), &macs), lowest, "{uuid}");
        }
        assert_eq!(identity(None, None, &macs), lowest);
    }

    #[test]
    fn a_bond_port_counts_with_its_own_mac() {
        let tree = Tree::new(&[
            ("sys/class/net/bond0/address", "f8:75:a4:a4:00:ff\n"),
            ("sys/class/net/eth0/address", "f8:75:a4:a4:00:ff\n"),
            ("sys/class/net/eth0/bonding_slave/perm_hwaddr", "f8:75:a4:a4:00:fe\n"),
            ("sys/class/net/bonding_masters", "bond0\n"),
        ]);
        assert_eq!(host_id(&tree.root()).id.to_string(), "5fbf9397-0231-3d13-9fba-46c95209335b");
    }

    #[test]
    fn the_operator_has_the_last_word() {
        let tree = Tree::new(&[(&BOARD_SERIAL[1..], "123-456-789\n")]);
        let oem = "landfall.host_id=11111111-0000-0000-0000-000000000003";
        let table = [&[11, 5, 0, 0, 2][..], b"other\0", oem.as_bytes(), b"\0\0"].concat();
        let found = || host_id(&tree.root());
        let is = |last: char, source| {
            let id = format!("11111111-0000-0000-0000-00000000000{last}");
            assert_eq!((found().id.to_string(), found().source), (id, source));
        };
        tree.add("sys/firmware/dmi/tables/DMI", table);
        is('3', Source::OemString);
        tree.add(&FW_CFG[1..], "11111111-0000-0000-0000-000000000002\0");
        is('2', Source::FwCfg);
        tree.add("proc/cmdline", "quiet landfall.host_id=11111111-0000-0000-0000-000000000001 ro\n");
        is('1', Source::KernelArgument);
        // What can't be parsed affects only itself.
        tree.add("proc/cmdline", "landfall.host_id=node-7\n");
        is('2', Source::FwCfg);
        tree.add(&FW_CFG[1..], "").add("sys/firmware/dmi/tables/DMI", "");
        assert_eq!(found().source, Source::BoardSerial);
    }

    #[test]
    fn serials_that_many_boards_have() {
        for serial in ["To be filled by O.E.M.", "0123456789", "N/A", "0000000", "xxxx", "."] {
            assert!(is_shared(serial), "{serial}");
        }
        for serial in ["123-456-789", "Other", "L1HF02A02SD"] {
            assert!(!is_shared(serial), "{serial}");
        }
    }

    #[test]
    fn nothing_at_all() {
        assert_eq!(identity(None, None, &[]), ("deaddead-dead-dead-dead-deaddeaddead".to_owned(), Source::Nothing));
        assert_eq!(identity(None, None, &[("lo", "00:00:00:00:00:00")]).1, Source::Nothing);
    }
}
