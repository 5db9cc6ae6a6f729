//! Well-known partition types, and the operating systems they point to.

use super::{Contents, Kind};
use kernel::order;

/// UEFI 2.10 table 5.7, Microsoft's and the Discoverable Partitions Specification's.
pub(super) fn gpt(guid: &str) -> Option<&'static str> {
    Some(match guid {
        "c12a7328-f81f-11d2-ba4b-00a0c93ec93b" => "EFI system",
        "21686148-6449-6e6f-744e-656564454649" => "BIOS boot",
        "9e1a2d38-c612-4316-aa26-8b49521e5a8b" => "PowerPC PReP boot",
        "0fc63daf-8483-4772-8e79-3d69d8477de4" => "Linux file system",
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709" => "Linux root (x86-64)",
        "b921b045-1df0-41c3-af44-4c6f280d3fae" => "Linux root (ARM64)",
        "bc13c2ff-59e6-4262-a352-b275fd6f7172" => "Linux extended boot",
        "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f" => "Linux swap",
        "e6d6d379-f507-44c2-a23c-238f2a3df928" => "Linux LVM",
        "a19d880f-05fc-4d3b-a006-743f0f84911e" => "Linux RAID",
        "ca7d7ccb-63ed-4c53-861c-1742536059cc" => "Linux LUKS",
        "e3c9e316-0b5c-4db8-817d-f92df00215ae" => "Microsoft reserved",
        "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7" => "Microsoft basic data",
        "de94bba4-06d1-4d40-a16a-bfd50179d6ac" => "Windows recovery",
        "af9b60a0-1431-4f62-bc68-3311714a69ad" => "Windows LDM data",
        "5808c8aa-7e8f-42e0-85d2-e1e90434cfb3" => "Windows LDM metadata",
        "e75caf8f-f680-4cee-afa3-b001e56efc2d" => "Windows storage spaces",
        "7c3457ef-0000-11aa-aa11-00306543ecac" => "Apple APFS",
        "48465300-0000-11aa-aa11-00306543ecac" => "Apple HFS+",
        "516e7cb4-6ecf-11d6-8ff8-00022d09712b" => "FreeBSD data",
        "83bd6b9d-7f41-11dc-be0b-001560b84f0f" => "FreeBSD boot",
        "516e7cb6-6ecf-11d6-8ff8-00022d09712b" => "FreeBSD UFS",
        "516e7cba-6ecf-11d6-8ff8-00022d09712b" => "FreeBSD ZFS",
        "6a898cc3-1dd2-11b2-99a6-080020736631" => "Solaris /usr or Apple ZFS",
        "aa31e02a-400f-11db-9590-000c2911d1b8" => "VMware VMFS",
        "9d275380-40ad-11db-bf97-000c2911d1b8" => "VMware diagnostic",
        "4fbd7e29-9d25-41b8-afd0-062c0ceff05d" => "Ceph OSD",
        "fe3a2a5d-4f32-41a7-b725-accc3285a309" => "ChromeOS kernel",
        _ => return None,
    })
}

pub(super) fn mbr(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0x01 | 0x04 | 0x06 | 0x0B | 0x0C | 0x0E => "FAT",
        0x05 | 0x0F | 0x85 => "extended",
        0x07 => "NTFS or exFAT",
        0x27 => "Windows recovery",
        0x41 => "PowerPC PReP boot",
        0x42 => "Windows LDM",
        0x82 => "Linux swap",
        0x83 => "Linux file system",
        0x8E => "Linux LVM",
        0xA5 => "FreeBSD",
        0xAF => "Apple HFS+",
        0xEE => "GPT protective",
        0xEF => "EFI system",
        0xFB => "VMware VMFS",
        0xFD => "Linux RAID",
        _ => return None,
    })
}

/// What seems to be installed, from types, names and file systems; sorted.
pub(super) fn systems(contents: &Contents) -> Vec<String> {
    let parts = &contents.partitions;
    let has_type = |word: &str| parts.iter().any(|part| part.type_name.as_deref().is_some_and(|t| t.contains(word)));
    let all = || contents.signatures.iter().chain(parts.iter().flat_map(|part| &part.signatures));
    let has_kind = |kind: Kind| all().any(|signature| signature.kind == kind);
    let named = |name: &str| parts.iter().any(|part| part.name == name);
    let labelled = |label: &str| all().any(|signature| signature.label.as_deref() == Some(label));
    let windows = (has_kind(Kind::Ntfs) || has_kind(Kind::BitLocker) || has_kind(Kind::Refs))
        && (has_type("Microsoft reserved") || has_type("Windows") || has_type("NTFS"));
    // The layout of Fedora and RHEL CoreOS (docs/compatibility.md#disk-layout).
    let coreos = named("EFI-SYSTEM") && named("boot") && named("root");
    let esxi = has_type("VMware") || has_kind(Kind::VmfsVolume);
    let macos = has_kind(Kind::Apfs) || has_type("Apple APFS");
    let live = |kind| kind == Kind::Iso9660 && contents.signatures.iter().any(|signature| signature.kind == kind);
    let linux_kinds = [Kind::Ext2, Kind::Ext3, Kind::Ext4, Kind::Xfs, Kind::Btrfs, Kind::Lvm2, Kind::Swap];
    let linux = !coreos && (has_type("Linux") || linux_kinds.into_iter().any(has_kind));
    let found = [
        (coreos, "CoreOS"),
        (live(Kind::Iso9660) || live(Kind::Udf), "installation medium"),
        (has_type("FreeBSD"), "FreeBSD"),
        (linux && (has_type("EFI system") || has_type("BIOS boot") || labelled("boot") || labelled("root")), "Linux"),
        (macos, "macOS"),
        (esxi, "VMware ESXi"),
        (windows, "Windows"),
    ];
    let mut systems: Vec<String> =
        found.into_iter().filter(|(seen, _)| *seen).map(|(_, name)| name.to_owned()).collect();
    order::sort(&mut systems);
    systems
}
