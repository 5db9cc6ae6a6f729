//! Where in the machine a device is, by its directory in sysfs. Pure.

use std::path::Path;

/// Where the kernel lists the CPUs.
pub(super) const CPUS: &str = "/sys/devices/system/cpu";

/// Whether it is on no bus.
pub(super) fn is_virtual(sys: &Path) -> bool {
    sys.iter().any(|name| name == "virtual")
}

/// The PCI function it hangs on, such as `0000:17:00.0`: the nearest above it.
pub(super) fn pci_address(sys: &Path) -> Option<String> {
    sys.iter().rev().filter_map(|name| name.to_str()).find(|name| is_pci_address(name)).map(str::to_owned)
}

/// Whether something above it is called so with a number behind, such as `usb1`.
pub(super) fn is_below(sys: &Path, kind: &str) -> bool {
    let numbered = |name: &str| {
        name.strip_prefix(kind)
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit() || first == '-'))
    };
    sys.iter().filter_map(|name| name.to_str()).any(numbered)
}

/// Domain (four digits, or more behind a volume controller), bus, device and function.
fn is_pci_address(name: &str) -> bool {
    let is_hex = |text: &str, least: usize, most: usize| {
        (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts = || {
        let (domain, rest) = name.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        Some([(domain, 4, 8), (bus, 2, 2), (device, 2, 2), (function, 1, 1)])
    };
    parts().is_some_and(|parts| parts.iter().all(|(text, least, most)| is_hex(text, *least, *most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |path: &str| pci_address(Path::new(path));
        let nvme = "/sys/devices/pci0000:00/0000:00:1d.0/10000:01:00.0/nvme/nvme0";
        assert_eq!(of(nvme).as_deref(), Some("10000:01:00.0"));
        let disk = "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
        assert_eq!(of(disk).as_deref(), Some("0000:00:1f.2"));
        assert_eq!(of("/sys/devices/platform/0:0:0:0"), None);
        assert!(is_below(Path::new(disk), "ata") && !is_below(Path::new(disk), "usb"));
        assert!(is_below(Path::new("/sys/devices/x/host0/rport-0:0-1/target0:0:0"), "rport"));
        assert!(is_virtual(Path::new("/sys/devices/virtual/net/lo")) && !is_virtual(Path::new(disk)));
    }
}
