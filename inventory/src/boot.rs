//! How the machine booted, and its TPM (docs/compatibility.md#boot-and-tpm).

use crate::Root;
use api::Boot;
use kernel::mounts::Mount;
use std::io;

/// Kernel arguments that only a CoreOS live system has.
const LIVE_ARGUMENTS: [&str; 2] = ["coreos.liveiso=", "coreos.live.rootfs_url="];
/// What the CoreOS live initramfs leaves behind.
const LIVE_MARK: &str = "/run/ostree-live";

pub(crate) fn boot(root: &Root, mounts: &[Mount]) -> Boot {
    let command_line = root.text("/proc/cmdline", 64 << 10).unwrap_or_default();
    Boot {
        current_boot_mode: if root.is_dir("/sys/firmware/efi") { "uefi" } else { "bios" }.to_owned(),
        device_type: device_type(root, &command_line, mounts).unwrap_or_default().to_owned(),
        pxe_interface: argument(&command_line, "BOOTIF=").unwrap_or_default().to_owned(),
        secure_boot_state: secure_boot(root).to_owned(),
        command_line,
    }
}

pub(crate) fn tpm_version(root: &Root) -> String {
    match root.read("/sys/class/tpm/tpm0/tpm_version_major", 64) {
        Ok(bytes) => match String::from_utf8_lossy(&bytes).trim() {
            "1" => "1.2".to_owned(),
            "2" => "2.0".to_owned(),
            other => other.to_owned(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => "none".to_owned(),
        Err(error) => {
            tracing::debug!(%error, "cannot read the TPM's version");
            String::new()
        }
    }
}

/// The label of the ISO that a live system was booted from (`coreos.liveiso=`). Blanks in it are written as dracut does.
pub(crate) fn live_label(boot: &Boot) -> Option<String> {
    let label = argument(&boot.command_line, LIVE_ARGUMENTS[0])?.trim_matches('"').replace("\\x20", " ");
    (!label.is_empty()).then_some(label)
}

fn argument<'a>(command_line: &'a str, name: &str) -> Option<&'a str> {
    command_line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name))
}

/// `ephemeral` when nothing that is changed now survives a reboot. The service installs differently on a `persistent` host, so
/// the marks of a live system count for more than the mount, whose source is not a loop device on all of them.
fn device_type(root: &Root, command_line: &str, mounts: &[Mount]) -> Option<&'static str> {
    if LIVE_ARGUMENTS.iter().any(|name| argument(command_line, name).is_some()) || root.exists(LIVE_MARK) {
        return Some("ephemeral");
    }
    let sysroot = mounts.iter().rfind(|mount| mount.target == "/sysroot")?;
    Some(if sysroot.source.starts_with("/dev/loop") { "ephemeral" } else { "persistent" })
}

pub(crate) fn secure_boot(root: &Root) -> &'static str {
    match kernel::efi::flag(root, "SecureBoot") {
        Ok(Some(false)) => "Disabled",
        Ok(Some(true)) => "Enabled",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "NotSupported",
        Ok(None) | Err(_) => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mounts, testing::Tree};

    fn read_boot(tree: &Tree) -> Boot {
        boot(&tree.root(), &mounts::mounts(&tree.root()))
    }

    #[test]
    fn a_bios_live_iso() {
        let cmdline = "BOOT_IMAGE=/vmlinuz BOOTIF=01-52-54-00-aa-bb-01 coreos.liveiso=rhcos-9.6\n";
        let found = read_boot(&Tree::new(&[("proc/cmdline", cmdline)]));
        assert_eq!(found.command_line, cmdline);
        assert_eq!(found.current_boot_mode, "bios");
        assert_eq!(found.pxe_interface, "01-52-54-00-aa-bb-01");
        assert_eq!(found.secure_boot_state, "NotSupported");
        assert_eq!(found.device_type, "ephemeral");
        assert_eq!(live_label(&found).as_deref(), Some("rhcos-9.6"));
        assert_eq!(live_label(&Boot::default()), None);
    }

    #[test]
    fn the_kind_of_sysroot() {
        let with = |line: &str| Tree::new(&[("proc/1/mountinfo", line), ("proc/cmdline", "quiet\n")]);
        let on = |source: &str| read_boot(&with(&format!("30 1 7:1 / /sysroot ro - xfs {source} ro\n"))).device_type;
        assert_eq!(on("/dev/loop1"), "ephemeral");
        assert_eq!(on("/dev/sda4"), "persistent");
        assert_eq!(read_boot(&with("")).device_type, "");
        let live = with("30 1 0:20 / /sysroot ro - overlay overlay ro\n");
        live.add("run/ostree-live", "");
        assert_eq!(read_boot(&live).device_type, "ephemeral");
    }

    #[test]
    fn secure_boot_states() {
        let tree = Tree::new(&[]);
        for (bytes, state) in [
            (&[6, 0, 0, 0, 1][..], "Enabled"),
            (&[6, 0, 0, 0, 0], "Disabled"),
            (&[6, 0, 0, 0, 2], "Unknown"),
            (&[6, 0, 0, 0], "Unknown"),
            (&[0; 100], "Unknown"),
        ] {
            tree.add("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", bytes);
            let found = read_boot(&tree);
            assert_eq!((found.secure_boot_state.as_str(), found.current_boot_mode.as_str()), (state, "uefi"));
        }
    }

    #[test]
    fn tpm_versions() {
        let tree = Tree::new(&[]);
        assert_eq!(tpm_version(&tree.root()), "none");
        for (text, version) in [("1\n", "1.2"), ("2\n", "2.0"), ("3\n", "3")] {
            tree.add("sys/class/tpm/tpm0/tpm_version_major", text);
            assert_eq!(tpm_version(&tree.root()), version);
        }
    }
}
