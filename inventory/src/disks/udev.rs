//! udev's database, where there is one: `E:KEY=VALUE` lines in a file a device (sd-device.c).

use crate::Root;
use std::collections::BTreeMap;

const MAX_ENTRY_BYTES: usize = 256 << 10;

/// What is asked for. Entries hold some sixty properties, and machines have thousands of disks.
const WANTED: [&str; 13] = [
    "DM_WWN",
    "ID_FS_LABEL",
    "ID_FS_LABEL_ENC",
    "ID_FS_TYPE",
    "ID_MODEL",
    "ID_PART_ENTRY_NAME",
    "ID_PATH",
    "ID_SCSI_SERIAL",
    "ID_SERIAL",
    "ID_SERIAL_SHORT",
    "ID_WWN",
    "ID_WWN_WITH_EXTENSION",
    "SCSI_IDENT_SERIAL",
];

/// What udev knows of a device; empty without udev.
#[derive(Clone, Debug, Default)]
pub(super) struct Udev {
    properties: Vec<(&'static str, String)>,
    is_known: bool,
}

impl Udev {
    /// The entry of a block device.
    pub fn read(root: &Root, (major, minor): (u32, u32)) -> Self {
        match root.text(format!("/run/udev/data/b{major}:{minor}"), MAX_ENTRY_BYTES) {
            Some(text) => Self::parse(&text),
            None => Self::default(),
        }
    }

    /// Keeps what is wanted of an entry.
    fn parse(text: &str) -> Self {
        let known = properties(text, |key| WANTED.contains(&key));
        let wanted = WANTED.iter().filter_map(|key| Some((*key, (*known.get(key)?).to_owned())));
        Self { properties: wanted.collect(), is_known: true }
    }

    /// Whether there is an entry at all.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// A property that is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        debug_assert!(WANTED.contains(&key), "{key}");
        self.properties.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }

    /// The first of several properties.
    pub fn first(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.get(key))
    }
}

/// The properties of an entry. A line ends at either kind of line end; the last of several values counts, and an empty one
/// takes back those before.
pub(crate) fn properties(text: &str, keep: impl Fn(&str) -> bool) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for line in text.split(['\n', '\r']) {
        match line.strip_prefix("E:").and_then(|line| line.split_once('=')) {
            Some((key, "")) => {
                found.remove(key);
            }
            Some((key, value)) if keep(key) => {
                found.insert(key, value);
            }
            Some(_) | None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let udev = Udev::parse(
            "S:disk/by-id/x\nI:123\nE:ID_MODEL=A_B\nE:ID_SERIAL=\nE:ID_PATH=a=b\r\nG:systemd\nE:noise\nE:OTHER=1\n\
             E:ID_WWN=0x1\nE:ID_WWN=0x2\nE:DM_WWN=x\nE:DM_WWN=\n",
        );
        assert_eq!((udev.get("ID_MODEL"), udev.get("ID_PATH")), (Some("A_B"), Some("a=b")));
        assert_eq!(udev.first(&["ID_SERIAL", "ID_SERIAL_SHORT", "ID_MODEL"]), Some("A_B"));
        assert_eq!((udev.first(&["ID_SERIAL"]), udev.get("DM_WWN")), (None, None));
        assert_eq!(udev.get("ID_WWN"), Some("0x2"));
        assert!(udev.is_known() && !Udev::default().is_known());
    }
}
