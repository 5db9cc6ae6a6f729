//! Installed and usable memory (docs/compatibility.md#memory).

use crate::{Root, smbios::Smbios};
use api::Memory;

const BLOCKS: &str = "/sys/devices/system/memory";

/// `memory`. Installed memory comes from the firmware, else from the kernel's memory blocks (`ghw`, by the name of the real
/// agent's library), else is what the kernel uses.
///
/// That library also looks for the kernel's boot messages in `/var/log/syslog`, and finally reports `MemTotal` as its own
/// finding. Neither is done here: the file may be of another boot, and for `meminfo` the service allows for the part that
/// the kernel reserves.
pub(crate) fn memory(root: &Root, smbios: &Smbios) -> Memory {
    let usable_bytes = root.text("/proc/meminfo", 64 << 10).and_then(|text| mem_total(&text)).unwrap_or(0);
    let found = |method: &'static str, bytes: u64| {
        crate::possible_bytes(bytes).filter(|bytes| *bytes != 0).map(|bytes| (method, bytes))
    };
    let (method, physical_bytes) = found("dmidecode", smbios.memory_bytes())
        .or_else(|| found("ghw", online_block_bytes(root)))
        .or_else(|| found("meminfo", usable_bytes))
        .unwrap_or_default();
    Memory { physical_bytes, physical_bytes_method: method.to_owned(), usable_bytes }
}

/// `MemTotal`, bytes.
fn mem_total(meminfo: &str) -> Option<u64> {
    let mut words = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_ascii_whitespace();
    let count: u64 = words.next()?.parse().ok()?;
    let unit = match words.next() {
        Some(unit) if unit.eq_ignore_ascii_case("kB") => 1024,
        None => 1,
        Some(_) => return None,
    };
    count.checked_mul(unit).and_then(crate::possible_bytes)
}

fn online_block_bytes(root: &Root) -> u64 {
    let size = root.attribute(format!("{BLOCKS}/block_size_bytes"));
    let Some(size) = size.and_then(|hex| u64::from_str_radix(hex.trim_start_matches("0x"), 16).ok()) else {
        return 0;
    };
    let is_block = |name: &String| name.strip_prefix("memory").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let is_online = |name: &String| root.attribute(format!("{BLOCKS}/{name}/state")).as_deref() == Some("online");
    let online = root.list(BLOCKS).iter().filter(|name| is_block(name) && is_online(name)).count();
    u64::try_from(online).unwrap_or(0).saturating_mul(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn sources_in_order() {
        let tree = Tree::new(&[("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n")]);
        let none = Smbios::parse(Vec::new());
        let expected = |method: &str, physical_bytes| Memory {
            physical_bytes,
            physical_bytes_method: method.to_owned(),
            usable_bytes: 16 << 20,
        };
        assert_eq!(memory(&tree.root(), &none), expected("meminfo", 16 << 20));
        tree.add("sys/devices/system/memory/block_size_bytes", "8000000\n");
        tree.add("sys/devices/system/memory/memory0/state", "online\n");
        tree.add("sys/devices/system/memory/memory1/state", "offline\n");
        tree.add("sys/devices/system/memory/memory32/state", "online\n");
        tree.add("sys/devices/system/memory/memory_more/state", "online\n");
        assert_eq!(memory(&tree.root(), &none), expected("ghw", 256 << 20));
        let mut device = vec![0; 0x15];
        device[..4].copy_from_slice(&[17, 0x15, 0, 0]);
        device[0x0d] = 0x40;
        device.extend([0, 0]);
        assert_eq!(memory(&tree.root(), &Smbios::parse(device)), expected("dmidecode", 16 << 30));
    }

    #[test]
    fn nothing_known_is_left_out() {
        assert_eq!(memory(&Tree::new(&[]).root(), &Smbios::parse(Vec::new())), Memory::default());
        assert_eq!(mem_total("MemTotal: 99999999999999999999 kB"), None);
        assert_eq!(mem_total("MemTotal: 18446744073709551615 kB"), None);
    }
}
