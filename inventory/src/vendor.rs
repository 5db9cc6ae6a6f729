//! Who made the machine, and whether it is a virtual one (docs/compatibility.md#system-vendor).

use crate::{Root, cpu::CpuInfo, smbios::Smbios};
use api::SystemVendor;

const DMI: &str = "/sys/class/dmi/id";
const DEVICE_TREE: &str = "/proc/device-tree";
/// What stands for a missing value.
const UNKNOWN: &str = "unknown";

/// DMI texts, in the order in which they are looked at: the first that begins like a maker of virtual machines counts.
const TEXTS: [&str; 5] = ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];
/// DMI texts of virtual machines, by how they begin (systemd's virt.c), and what runs such a machine.
const VIRTUAL_PREFIXES: [(&str, &str); 15] = [
    ("KVM", "KVM"),
    ("OpenStack", "KVM"),
    ("KubeVirt", "KVM"),
    ("QEMU", "QEMU"),
    ("VMware", "VMware"),
    ("VMW", "VMware"),
    ("innotek GmbH", "VirtualBox"),
    ("VirtualBox", "VirtualBox"),
    ("Bochs", "Bochs"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "Hyper-V"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("Xen", "Xen"),
];
/// Clock sources that only guests of a hypervisor have, by how they begin.
const CLOCKS: [(&str, &str); 2] = [("kvm-clock", "KVM"), ("hyperv_clocksource", "Hyper-V")];
const CLOCK_SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// Has virtual machines and real ones; the latter have `.metal` in their names.
const EC2: &str = "Amazon EC2";
/// What Linux runs on, where it knows.
const HYPERVISOR_TYPE: &str = "/sys/hypervisor/type";
/// On the boards of some virtual machines, but on all of its maker's servers too: there systemd is wrong, and only the
/// processor or the firmware's own mark decides.
const ORACLE: &str = "Oracle Corporation";

pub(crate) fn system_vendor(root: &Root, info: &CpuInfo, smbios: &Smbios) -> SystemVendor {
    // A text that the firmware leaves empty is empty: unknown is only what can't be read.
    let field = |name: &str| root.attribute(format!("{DMI}/{name}")).unwrap_or_else(|| UNKNOWN.to_owned());
    let mut vendor = SystemVendor {
        manufacturer: field("sys_vendor"),
        product_name: field("product_name"),
        serial_number: field("product_serial"),
        r#virtual: is_virtual(root, info, smbios),
    };
    if matches!(field("product_family").as_str(), "oVirt" | "RHV") {
        vendor.product_name = "oVirt".to_owned();
    }
    if field("chassis_asset_tag") == "OracleCloud.com" {
        vendor.manufacturer = "OracleCloud.com".to_owned();
    }
    if vendor.manufacturer == UNKNOWN && info.get("vendor_id") == Some("IBM/S390") {
        vendor.manufacturer = "IBM/S390".to_owned();
        vendor.product_name = control_program(root).unwrap_or_else(|| "LPAR".to_owned());
    }
    vendor
}

/// Whether `systemd-detect-virt --vm` would find a virtual machine. A control program or the processor's hypervisor bit is
/// proof. Firmware texts count only where they can't belong to a real machine. A Xen host's own domain sees the hypervisor
/// below it without being a guest; whether that hypervisor is one, only the firmware tells.
pub(crate) fn is_virtual(root: &Root, info: &CpuInfo, smbios: &Smbios) -> bool {
    if is_xen_host(root) {
        return firmware_tells(root, smbios);
    }
    let has_bit = info.flags().is_some_and(|mut flags| flags.any(|flag| flag == "hypervisor"));
    let is_user_mode = info.get("vendor_id") == Some("User Mode Linux");
    if has_bit || is_user_mode || control_program(root).is_some() || device_tree_tells(root) {
        return true;
    }
    root.attribute(HYPERVISOR_TYPE).is_some_and(|kind| !kind.is_empty()) || firmware_tells(root, smbios)
}

fn firmware_tells(root: &Root, smbios: &Smbios) -> bool {
    let marked = smbios.is_virtual();
    match firmware_maker(root) {
        // Without a table, as on Arm, the name is what there is; most by far are virtual.
        Some((EC2, _)) => {
            let name = root.attribute(format!("{DMI}/product_name"));
            marked.unwrap_or_else(|| !name.is_some_and(|name| is_metal(&name)))
        }
        None | Some((ORACLE, _)) => marked == Some(true),
        Some(_) => true,
    }
}

/// The first maker of virtual machines that a DMI text begins with, and what runs its machines.
fn firmware_maker(root: &Root) -> Option<(&'static str, &'static str)> {
    TEXTS.iter().filter_map(|name| root.attribute(format!("{DMI}/{name}"))).find_map(|text| {
        let others = [(EC2, EC2), (ORACLE, ORACLE)];
        VIRTUAL_PREFIXES.into_iter().chain(others).find(|(prefix, _)| text.starts_with(prefix))
    })
}

/// What runs this virtual machine, as far as it shows itself.
pub(crate) fn hypervisor(root: &Root) -> Option<String> {
    let clocks = root.attribute(CLOCK_SOURCES).unwrap_or_default();
    let has_clock = |prefix: &str| clocks.split_ascii_whitespace().any(|clock| clock.starts_with(prefix));
    let clock = || CLOCKS.into_iter().find(|(prefix, _)| has_clock(prefix)).map(|(_, name)| name);
    let by_firmware = match firmware_maker(root) {
        // QEMU says no more of what it runs on.
        Some((_, "QEMU")) => Some(clock().unwrap_or("QEMU")),
        Some((_, ORACLE)) | None => None,
        Some((_, name)) => Some(name),
    };
    let is_xen = || root.attribute(HYPERVISOR_TYPE).as_deref() == Some("xen") && !is_xen_host(root);
    control_program(root)
        .or_else(|| is_xen().then(|| "Xen".to_owned()))
        .or_else(|| by_firmware.or_else(clock).or_else(|| device_tree_hypervisor(root)).map(str::to_owned))
}

fn device_tree_hypervisor(root: &Root) -> Option<&'static str> {
    let compatible = root.attribute(format!("{DEVICE_TREE}/hypervisor/compatible")).unwrap_or_default();
    match () {
        () if compatible.contains("kvm") => Some("KVM"),
        () if compatible.contains("xen") => Some("Xen"),
        () if root.exists(format!("{DEVICE_TREE}/ibm,partition-name")) => Some("PowerVM"),
        () if device_tree_tells(root) => Some("QEMU"),
        () => None,
    }
}

/// `m5.metal`, `c7g.metal-48xl`.
fn is_metal(product_name: &str) -> bool {
    product_name.split_once(".metal").is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with('-'))
}

/// The privileged domain: `control_d` among its capabilities, or bit 11 (`XENFEAT_dom0`) among its features.
fn is_xen_host(root: &Root) -> bool {
    let features = || u64::from_str_radix(&root.attribute("/sys/hypervisor/properties/features")?, 16).ok();
    match root.text("/proc/xen/capabilities", 4096) {
        Some(text) => text.contains("control_d"),
        None => features().is_some_and(|features| features & 1 << 11 != 0),
    }
}

/// A hypervisor's node, QEMU's own ones, or a partition of a POWER machine that its console manages.
fn device_tree_tells(root: &Root) -> bool {
    let has = |name: &str| root.exists(format!("{DEVICE_TREE}/{name}"));
    has("hypervisor")
        || root.list(DEVICE_TREE).iter().any(|name| name.starts_with("fw-cfg"))
        || has("ibm,partition-name") && has("hmc-managed?") && !has("chosen/qemu,graphic-width")
        || root.attribute(format!("{DEVICE_TREE}/compatible")).is_some_and(|text| text.contains("qemu,pseries"))
}

/// s390x: what runs this guest, inner blanks included: `z/VM    7.2.0`, `KVM/Linux`.
fn control_program(root: &Root) -> Option<String> {
    let text = root.text("/proc/sysinfo", 64 << 10)?;
    let line = text.lines().find(|line| line.starts_with("VM") && line.contains("Control Program:"))?;
    Some(line.split_once("Control Program:")?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn with(tree: &Tree, table: Vec<u8>) -> SystemVendor {
        let root = tree.root();
        system_vendor(&root, &CpuInfo::read(&root), &Smbios::parse(table))
    }

    fn read_vendor(tree: &Tree) -> SystemVendor {
        with(tree, Vec::new())
    }

    fn dmi(fields: &[(&str, &str)]) -> Tree {
        let tree = Tree::new(&[]);
        for (name, value) in fields {
            tree.add(&format!("sys/class/dmi/id/{name}"), format!("{value}\n"));
        }
        tree
    }

    #[test]
    fn texts() {
        let unknown = read_vendor(&dmi(&[]));
        assert_eq!((unknown.manufacturer.as_str(), unknown.serial_number.as_str()), ("unknown", "unknown"));
        let dell =
            read_vendor(&dmi(&[("sys_vendor", "Dell Inc."), ("product_name", " R650 "), ("product_serial", "ABC")]));
        assert_eq!((dell.manufacturer.as_str(), dell.product_name.as_str()), ("Dell Inc.", "R650"));
        assert!(!dell.r#virtual);
        assert_eq!(read_vendor(&dmi(&[("product_name", "RHEL"), ("product_family", "RHV")])).product_name, "oVirt");
        let oracle = read_vendor(&dmi(&[("sys_vendor", "QEMU"), ("chassis_asset_tag", "OracleCloud.com")]));
        assert_eq!(oracle.manufacturer, "OracleCloud.com");
        assert!(oracle.r#virtual);
    }

    #[test]
    fn mainframes() {
        let tree = Tree::new(&[("proc/cpuinfo", "vendor_id       : IBM/S390\n")]);
        let lpar = read_vendor(&tree);
        assert_eq!(
            (lpar.manufacturer.as_str(), lpar.product_name.as_str(), lpar.r#virtual),
            ("IBM/S390", "LPAR", false)
        );
        tree.add("proc/sysinfo", "VM00 Name:            ZKVM\nVM00 Control Program: z/VM    7.2.0\n");
        let guest = read_vendor(&tree);
        assert_eq!((guest.product_name.as_str(), guest.r#virtual), ("z/VM    7.2.0", true));
    }

    #[test]
    fn virtual_or_not() {
        let is = |tree: Tree| read_vendor(&tree).r#virtual;
        assert!(is(Tree::new(&[("proc/cpuinfo", "flags\t: fpu hypervisor lahf\n")])));
        assert!(!is(Tree::new(&[("proc/cpuinfo", "flags\t: fpu hypervisor_not\n")])));
        let dom0 = Tree::new(&[("proc/cpuinfo", "flags\t: hypervisor\n"), ("proc/xen/capabilities", "control_d\n")]);
        assert!(!is(dom0));
        assert!(!is(dmi(&[("sys_vendor", "Amazon EC2"), ("product_name", "m5.metal")])));
        assert!(!is(dmi(&[("sys_vendor", "Oracle Corporation"), ("product_name", "ORACLE SERVER X9-2")])));
        assert!(is(dmi(&[("sys_vendor", "VMware, Inc.")])));
        assert!(is(Tree::new(&[("proc/device-tree/hypervisor/compatible", "linux,kvm")])));
        assert!(is(Tree::new(&[("proc/device-tree/fw-cfg@9020000/compatible", "qemu,fw-cfg-mmio")])));
        let lpar = [("proc/device-tree/ibm,partition-name", "p1\0"), ("proc/device-tree/hmc-managed?", "")];
        assert!(is(Tree::new(&lpar)));
        assert!(!is(Tree::new(&[("proc/device-tree/compatible", "ibm,powernv\0ibm,p9-openbmc\0")])));
        assert!(is(Tree::new(&[
            ("sys/hypervisor/type", "xen\n"),
            ("sys/hypervisor/properties/features", "00000705\n")
        ])));
        assert!(!is(Tree::new(&[
            ("sys/hypervisor/type", "xen\n"),
            ("sys/hypervisor/properties/features", "00000f05\n")
        ])));
    }

    #[test]
    fn guests_of_ec2_without_a_firmware_table() {
        for (product, expected) in [
            ("m6g.large", true),
            ("", true),
            ("m5.metal", false),
            ("c7g.metal-48xl", false),
            ("x.metallic", true),
            ("r.metal-x.large", false),
        ] {
            let found = read_vendor(&dmi(&[
                ("sys_vendor", "Amazon EC2"),
                ("bios_vendor", "Amazon EC2"),
                ("product_name", product),
            ]));
            assert_eq!(found.r#virtual, expected, "{product}");
        }
        assert!(read_vendor(&dmi(&[("sys_vendor", "Amazon EC2")])).r#virtual);
    }

    #[test]
    fn the_first_text_that_tells_counts() {
        let is = |fields: &[(&str, &str)]| read_vendor(&dmi(fields)).r#virtual;
        // The board's maker made real servers too.
        assert!(is(&[("product_name", "VirtualBox"), ("board_vendor", "Oracle Corporation")]));
        assert!(is(&[("sys_vendor", "Google"), ("product_name", "Google Compute Engine")]));
        assert!(is(&[("sys_vendor", "Xen"), ("product_name", "HVM domU")]));
        // A laptop.
        assert!(!is(&[("sys_vendor", "Google"), ("product_name", "Eve")]));
        assert!(!is(&[("sys_vendor", "Oracle Corporation"), ("bios_vendor", "American Megatrends Inc.")]));
    }

    #[test]
    fn the_firmware_may_say_so() {
        let mut bios = vec![0; 0x18];
        bios[..4].copy_from_slice(&[0, 0x18, 0, 0]);
        bios[CHARACTERISTICS_AT] = 0x10;
        bios.extend([0, 0]);
        let ec2 = dmi(&[("sys_vendor", "Amazon EC2")]);
        assert!(with(&ec2, bios.clone()).r#virtual);
        bios[CHARACTERISTICS_AT] = 0;
        assert!(!with(&ec2, bios).r#virtual);
    }

    const CHARACTERISTICS_AT: usize = 0x13;
}
