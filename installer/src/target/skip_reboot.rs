//! The cluster's own version of the system is put on the new disk at once. Otherwise the first boot would fetch it, and reboot into it
//! (docs/compatibility.md#skipping-a-reboot).

use super::{BOOT, MachineConfig, Pace, ROOT, TargetError, failed, machine_config, retry::thrice, space::free_percent};
use crate::{host::Host, programs::Program};
use diskwrite::{WrittenDisk, grow_xfs};
use kernel::Cancel;
use std::{
    error::Error,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

/// Credentials of the registries, as podman keeps them.
const AUTH_FILE: &str = "/root/.docker/config.json";
const PLATFORM: &str = "ignition.platform.id=";

/// Does it. `ignition` is the host's config, `append_kargs` what the kernel on the disk was given. After an error the
/// installation continues: the host then reboots once more by itself.
pub(crate) fn skip_mco_reboot(
    host: &dyn Host,
    device: &Path,
    ignition: &[u8],
    append_kargs: &[String],
    pace: &Pace,
    cancel: &Cancel,
) -> Result<(), TargetError> {
    if cfg!(target_arch = "s390x") {
        return Ok(());
    }
    let config = machine_config::wait(ignition, pace, cancel)?;
    tracing::info!(image = config.os_image_url, "putting the cluster's own version of the system on the disk");
    let disk = thrice(pace, cancel, || WrittenDisk::open(device))?;
    let layout = disk.layout()?;
    let root = layout.partition(ROOT);
    let root = root.ok_or_else(|| TargetError::NoPartition { device: device.to_owned(), number: ROOT })?;
    let root_bytes = thrice(pace, cancel, || disk.grow(ROOT, free_percent(&layout, root.len)))?;
    let at = host.root().join("mnt");
    let cmdline = fs::read_to_string(host.root().join("proc/cmdline")).unwrap_or_default();
    let args = deploy_args(&at, &config, &cmdline, append_kargs);
    let args: Vec<&OsStr> = args.iter().map(OsString::as_os_str).collect();
    let inside = || -> Result<(), TargetError> {
        thrice(pace, cancel, || grow_xfs(&at, root_bytes))?;
        let _permissive = Permissive::start(host.root());
        thrice(pace, cancel, || host.run(Program::Ostree, &args, cancel))?;
        Ok(())
    };
    thrice(pace, cancel, || disk.mounted(&[(ROOT, &at), (BOOT, &at.join("boot"))], inside))?
}

/// The arguments of `ostree`. `$ignition_firstboot` is for the boot loader, which puts its value there.
fn deploy_args(at: &Path, config: &MachineConfig, cmdline: &str, append_kargs: &[String]) -> Vec<OsString> {
    let platform = cmdline.split_whitespace().find(|arg| arg.starts_with(PLATFORM));
    let platform = platform.map_or_else(|| format!("{PLATFORM}metal"), str::to_owned);
    let mut args: Vec<OsString> = ["container", "image", "deploy", "--sysroot"].map(OsString::from).into();
    args.push(at.into());
    let image = format!("ostree-unverified-registry:{}", config.os_image_url);
    args.extend(["--authfile", AUTH_FILE, "--imgref"].map(OsString::from));
    args.push(image.into());
    args.extend(["--karg", &platform, "--karg", "$ignition_firstboot", "--stateroot", "rhcos"].map(OsString::from));
    for karg in append_kargs.iter().chain(&config.kernel_arguments) {
        args.extend(["--karg", karg].map(OsString::from));
    }
    args
}

/// SELinux lets everything pass as long as this lives: the files of another system have labels that this one doesn't know.
struct Permissive(Option<PathBuf>);

impl Permissive {
    fn start(root: &Path) -> Self {
        let path = root.join("sys/fs/selinux/enforce");
        let enforcing = fs::read_to_string(&path).is_ok_and(|text| text.trim() == "1");
        if enforcing && let Err(error) = fs::write(&path, "0").map_err(failed("write", &path)) {
            tracing::warn!(error = &error as &dyn Error, "cannot switch SELinux to permissive mode");
            return Self(None);
        }
        Self(enforcing.then_some(path))
    }
}

impl Drop for Permissive {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        if let Err(error) = fs::write(path, "1").map_err(failed("write", path)) {
            tracing::warn!(error = &error as &dyn Error, "cannot switch SELinux back to enforcing mode");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ostree_gets_image_arguments_and_stateroot() {
        let config = MachineConfig { os_image_url: "quay.io/os@sha256:1".into(), kernel_arguments: vec!["a=1".into()] };
        let line = |cmdline| {
            let args = deploy_args(Path::new("/mnt"), &config, cmdline, &["ip=dhcp".into()]);
            args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line("quiet ignition.platform.id=nutanix x"),
            "container image deploy --sysroot /mnt --authfile /root/.docker/config.json --imgref \
             ostree-unverified-registry:quay.io/os@sha256:1 --karg ignition.platform.id=nutanix --karg $ignition_firstboot \
             --stateroot rhcos --karg ip=dhcp --karg a=1"
        );
        assert!(line("quiet").contains("--karg ignition.platform.id=metal --karg $ignition_firstboot"));
    }

    #[test]
    fn selinux_enforces_again_afterwards() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("sys/fs/selinux/enforce");
        drop(Permissive::start(root.path()));
        assert!(!path.exists());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for before in ["1", "0"] {
            fs::write(&path, before).unwrap();
            let permissive = Permissive::start(root.path());
            assert_eq!(fs::read_to_string(&path).unwrap(), "0");
            drop(permissive);
            assert_eq!(fs::read_to_string(&path).unwrap(), before);
        }
    }
}
