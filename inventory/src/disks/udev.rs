//! udev's database, where there is one: `E:KEY=VALUE` lines in a file a device.

use crate::Root;
use std::collections::BTreeMap;

const MAX_ENTRY_BYTES: usize = 256 << 10;

/// What udev knows of a device; empty without udev.
#[derive(Clone, Debug, Default)]
pub(super) struct Udev(BTreeMap<String, String>);

impl Udev {
    /// The entry of a block device.
    pub fn read(root: &Root, (major, minor): (u32, u32)) -> Self {
        Self::parse(&root.text(format!("/run/udev/data/b{major}:{minor}"), MAX_ENTRY_BYTES).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let property = |line: &str| {
            let (key, value) = line.strip_prefix("E:")?.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        };
        Self(text.lines().filter_map(property).collect())
    }

    /// A property that is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The first of several properties.
    pub fn first(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let udev =
            Udev::parse("S:disk/by-id/x\nI:123\nE:ID_MODEL=A_B\nE:ID_SERIAL=\nE:DM_NAME=a=b\nG:systemd\nE:noise\n");
        assert_eq!(udev.get("ID_MODEL"), Some("A_B"));
        assert_eq!(udev.get("DM_NAME"), Some("a=b"));
        assert_eq!(udev.first(&["ID_SERIAL", "ID_NONE", "ID_MODEL"]), Some("A_B"));
        assert_eq!(udev.first(&["ID_SERIAL"]), None);
    }
}
