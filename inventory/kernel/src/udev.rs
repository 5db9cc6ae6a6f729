//! udev's database, if it exists: `E:KEY=VALUE` and `S:LINK` lines in a file a device (sd-device.c).

use crate::{DevNumber, Root};
use std::collections::BTreeMap;

const MAX_ENTRY_BYTES: usize = 256 << 10;

/// What udev knows of a device; empty without udev. Entries hold some sixty properties, and machines have thousands of
/// disks: only the wanted ones are stored.
#[derive(Clone, Debug, Default)]
pub struct Udev {
    wanted: &'static [&'static str],
    properties: Vec<(&'static str, String)>,
    /// Below `/dev`.
    links: Vec<String>,
    is_known: bool,
}

impl Udev {
    /// The entry of a block device.
    pub fn read(root: &Root, number: DevNumber, wanted: &'static [&'static str]) -> Self {
        match root.text(format!("/run/udev/data/b{number}"), MAX_ENTRY_BYTES) {
            Some(text) => Self::parse(&text, wanted),
            None => Self::default(),
        }
    }

    fn parse(text: &str, wanted: &'static [&'static str]) -> Self {
        let known = properties(text, |key| wanted.contains(&key));
        let properties = wanted.iter().filter_map(|key| Some((*key, (*known.get(key)?).to_owned()))).collect();
        let links = text.lines().filter_map(|line| line.strip_prefix("S:")).map(str::to_owned).collect();
        Self { wanted, properties, links, is_known: true }
    }

    /// Whether an entry exists at all.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// A wanted property that is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        debug_assert!(!self.is_known || self.wanted.contains(&key), "{key}");
        self.properties.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }

    /// The first of several properties.
    pub fn first(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// Names of its links in this directory of `/dev`.
    pub fn links<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = &'a str> {
        self.links.iter().filter_map(move |link| link.strip_prefix(directory)?.strip_prefix('/'))
    }
}

/// The properties of an entry. A line ends at either kind of line end; the last of several values counts, and an empty one
/// takes back those before.
pub fn properties(text: &str, keep: impl Fn(&str) -> bool) -> BTreeMap<&str, &str> {
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
            "S:disk/by-id/x\nS:disk/by-path/y\nI:123\nE:ID_MODEL=A_B\nE:ID_SERIAL=\nE:ID_PATH=a=b\r\nG:systemd\nE:noise\nE:OTHER=1\n\
             E:ID_WWN=0x1\nE:ID_WWN=0x2\nE:DM_WWN=x\nE:DM_WWN=\n",
            &["ID_MODEL", "ID_SERIAL", "ID_SERIAL_SHORT", "ID_PATH", "ID_WWN", "DM_WWN"],
        );
        assert_eq!((udev.get("ID_MODEL"), udev.get("ID_PATH")), (Some("A_B"), Some("a=b")));
        assert_eq!(udev.first(&["ID_SERIAL", "ID_SERIAL_SHORT", "ID_MODEL"]), Some("A_B"));
        assert_eq!((udev.first(&["ID_SERIAL"]), udev.get("DM_WWN")), (None, None));
        assert_eq!(udev.get("ID_WWN"), Some("0x2"));
        assert_eq!(udev.links("disk/by-id").collect::<Vec<_>>(), ["x"]);
        assert!(udev.is_known() && !Udev::default().is_known());
    }
}
