//! The host's mount table and swap areas.

use crate::Root;
use kernel::mounts::Mount;

/// Hosts with many containers have thousands of mounts.
const MAX_TABLE_BYTES: usize = 16 << 20;
const OF_FIRST: &str = "/proc/1/mountinfo";

/// The mounts of process 1, whose view is the host's, else our own, which in a container lacks the host's mounts.
pub(crate) fn mounts(root: &Root) -> Vec<Mount> {
    let of_first = root.text(OF_FIRST, MAX_TABLE_BYTES).filter(|text| !text.is_empty());
    let is_own = of_first.is_none();
    let table = of_first.or_else(|| root.text("/proc/self/mountinfo", MAX_TABLE_BYTES));
    if table.is_none() {
        tracing::warn!("no mount table found: disks in use cannot be recognised");
    } else if is_own && root.is_live() {
        tracing::warn!(
            "cannot read {OF_FIRST}; using the mount table of this process: disks that only the host has mounted look \
             free. Run as root in the host's PID namespace (podman run --privileged --pid=host)"
        );
    }
    kernel::mounts::mounts(&table.unwrap_or_default())
}

/// Sources of the swap areas in use: block devices and files.
pub(crate) fn swaps(root: &Root) -> Vec<String> {
    kernel::mounts::swaps(&root.text("/proc/swaps", 64 << 10).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn the_first_process_speaks_for_the_host() {
        let tree = Tree::new(&[
            ("proc/self/mountinfo", "36 35 8:2 / /boot rw - ext4 /dev/sda2 rw\n"),
            ("proc/swaps", "Filename\t\tType\n/dev/sda3   partition\n"),
        ]);
        let targets = || mounts(&tree.root()).into_iter().map(|mount| mount.target).collect::<Vec<_>>();
        assert_eq!(targets(), ["/boot"]);
        assert_eq!(swaps(&tree.root()), ["/dev/sda3"]);
        tree.add("proc/1/mountinfo", "1 2 0:33 / /host rw - btrfs /dev/sdb rw\n");
        assert_eq!(targets(), ["/host"]);
    }
}
