//! Finds the medium that the live system was booted from when it is mounted nowhere, as after it was copied to memory: by
//! the label of its file system, which the kernel's arguments name (`coreos.liveiso=`).

use super::{device::Device, unanswered, warn_of_lost};
use crate::{Root, ask::Question};
use kernel::udev::Udev;
use std::collections::BTreeSet;

/// `CD001` and its version behind the type of a primary volume descriptor (ECMA-119, 9.4).
const PRIMARY: &[u8] = b"\x01CD001\x01";
/// Where the descriptor keeps the volume identifier, padded with blanks.
const LABEL: std::ops::Range<usize> = 40..72;
/// Behind the system area of 16 sectors.
const DESCRIPTOR_END_BYTES: u64 = 17 * 2048;

/// Kernel names of the disks that hold the ISO of this label. Where udev has looked at a disk it has read the label; the
/// others are asked themselves.
pub(super) fn holders_of<'a>(root: &Root, label: &str, devices: &[&'a Device]) -> BTreeSet<&'a str> {
    let is_it = |udev: &Udev| udev.get("ID_FS_TYPE") == Some("iso9660") && udev.get("ID_FS_LABEL") == Some(label);
    let mut found = BTreeSet::new();
    let mut asked = Vec::new();
    for device in devices {
        let parts = device.partitions.iter().map(|partition| &partition.udev);
        if std::iter::once(&device.udev).chain(parts).any(is_it) {
            found.insert(device.name.as_str());
        } else if may_be_asked(device) {
            asked.push(device.name.as_str());
        }
    }
    let questions: Vec<_> = asked.iter().map(|disk| Question::IsoDescriptor { disk: (*disk).to_owned() }).collect();
    let given = root.ask_all(&questions);
    if root.is_live() {
        warn_of_lost(unanswered(&questions, &given));
    }
    for (disk, answer) in asked.into_iter().zip(given) {
        if answer.is_ok_and(|descriptor| volume_label(&descriptor).as_deref() == Some(label)) {
            found.insert(disk);
        }
    }
    found
}

/// Optical drives count as installation media in any case.
fn may_be_asked(device: &Device) -> bool {
    let is_kind = |prefix: &&str| device.name.starts_with(prefix);
    !device.udev.is_known()
        && device.size_bytes >= DESCRIPTOR_END_BYTES
        && ["sd", "vd", "nvme", "mmc"].iter().any(is_kind)
}

/// The volume identifier of a primary volume descriptor.
pub(super) fn volume_label(descriptor: &[u8]) -> Option<String> {
    let label = descriptor.strip_prefix(PRIMARY).and(descriptor.get(LABEL))?;
    Some(String::from_utf8_lossy(label).trim_end_matches([' ', '\0']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels() {
        let mut descriptor = vec![0; 2048];
        descriptor[..7].copy_from_slice(PRIMARY);
        descriptor[LABEL].copy_from_slice(b"rhcos-9.6.20250121-0            ");
        assert_eq!(volume_label(&descriptor).as_deref(), Some("rhcos-9.6.20250121-0"));
        descriptor[0] = 2;
        assert_eq!(volume_label(&descriptor), None);
    }

    proptest! {
        #[test]
        fn noise_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..100), begun in any::<bool>()) {
            if begun {
                bytes.splice(0..0, PRIMARY.iter().copied());
            }
            volume_label(&bytes);
        }
    }
}
