//! The live system of real parts: systemd with NetworkManager, chrony, a bus and logins, as Debian packages them, and an initramfs
//! that the real dracut makes of them, with the real Ignition's module and one of ours for what a live image needs
//! (`dracut-modules/`). Slower to build and to boot than the system the other tests use, and as much like CoreOS as its packages allow.

use super::{
    Hardware,
    kernel::Kernel,
    root,
    store::{self, Inputs},
    tools, tree,
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

/// dracut's modules; what they depend on comes along. Hooks and settings of the host's own system are not used.
const DRACUT_MODULES: &str = "bash systemd systemd-initrd dracut-systemd dbus-daemon dbus network-manager network url-lib \
                              kernel-modules kernel-network-modules udev-rules fs-lib base ignition coreos-live";
/// Where it leaves the archive, in the root it runs in.
const RESULT: &str = "var/tmp/initramfs.img";

/// What every image depends on.
pub(super) fn inputs(hardware: Hardware) -> Result<Inputs> {
    let mut inputs = root::inputs(hardware)?;
    inputs.packages(hardware.arch, "coreos")?;
    Ok(inputs)
}

/// The root; a directory. Services are enabled by presets on the first boot, as Ignition needs it.
pub(super) fn base(hardware: Hardware) -> Result<PathBuf> {
    let arch = hardware.arch;
    store::cached(&arch.build_name("dracut-root"), "d", &inputs(hardware)?, |_, tree| {
        root::skeleton(tree)?;
        root::install_packages(&store::packages(arch, "coreos")?, &root::excluded(arch, "dracut.exclude")?, tree)?;
        let mut modules = tree::list(&store::data_dir().join("root.modules"))?;
        for list in ["initramfs.modules", "dracut.modules"] {
            modules.extend(tree::list(&store::data_dir().join(list))?);
        }
        Kernel::open(hardware)?.install_modules(&modules, tree)?;
        for (link, target) in
            [("usr/bin/sh", "bash"), ("usr/bin/awk", "mawk"), ("usr/sbin/init", "../lib/systemd/systemd")]
        {
            if !tree::present(&tree.join(link)) {
                symlink(target, tree.join(link))?;
            }
        }
        tree::overlay(&store::data_dir().join("dracut-root"), tree)?;
        for dir in
            ["var/log/journal", "var/log/chrony", "var/lib/chrony", "var/lib/NetworkManager", "sysroot", "var/tmp"]
        {
            fs::create_dir_all(tree.join(dir))?;
        }
        for (path, mode) in [("etc/shadow", 0o600), ("etc/gshadow", 0o600), ("tmp", 0o1777), ("var/tmp", 0o1777)] {
            fs::set_permissions(tree.join(path), PermissionsExt::from_mode(mode))?;
        }
        tools::run("ldconfig", ["-X".as_ref(), "-r".as_ref(), tree.as_os_str()])?;
        Ok(())
    })
}

/// The initramfs, zstd.
pub(super) fn initramfs(hardware: Hardware) -> Result<PathBuf> {
    let (arch, base) = (hardware.arch, base(hardware)?);
    // The real dracut runs in the tree, so the tree's programs must run here.
    ensure!(arch.is_host(), "dracut cannot make an initramfs for {} on {}", arch.name, std::env::consts::ARCH);
    store::cached(&arch.build_name("dracut-initramfs"), "img", &inputs(hardware)?, |scratch, result| {
        let tree = scratch.join("tree");
        tree::overlay(&base, &tree)?;
        let modules = tree.join("usr/lib/dracut/modules.d");
        tree::overlay(&store::packages(arch, "ignition")?.join("usr/lib/dracut/modules.d"), &modules)?;
        tree::overlay(&store::data_dir().join("dracut-modules"), &modules)?;
        let config = "usr/lib/ignition/base.d/00-core.ign";
        tree::place(&store::data_dir().join("initramfs").join(config), &tree.join(config))?;
        let drivers_wanted = tree::list(&store::data_dir().join("initramfs.modules"))?.join(" ");
        let log = dracut(&tree, &Kernel::open(hardware)?.release, &drivers_wanted, config)?;
        let made = tree.join(RESULT);
        ensure!(made.exists(), "dracut made no initramfs; it said:\n{log}");
        fs::copy(made, result)?;
        Ok(())
    })
}

/// Runs the tree's dracut in the tree, as root of its own user name space: no privileges are needed.
fn dracut(tree: &Path, release: &str, drivers: &str, config: &str) -> Result<String> {
    let script = format!(
        "set -e
        for dir in dev proc sys; do mount --rbind /$dir \"$0/$dir\"; done
        exec chroot \"$0\" /usr/bin/env -i PATH=/usr/sbin:/usr/bin LC_ALL=C DRACUT_NO_MKNOD=1 DRACUT_NO_XATTR=1 SYSTEMD_IN_CHROOT=1 \
            /usr/bin/dracut --force --no-hostonly --no-hostonly-cmdline --no-early-microcode --nostrip --reproducible --kver {release} \
            --tmpdir /var/tmp --modules '{DRACUT_MODULES}' --drivers '{drivers}' --install /{config} --compress 'zstd -q -12 -T0' /{RESULT}"
    );
    let mut command = tools::tool("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(tree);
    let output = command.output().context("starting unshare")?;
    let log = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("dracut failed ({}): {log}", output.status);
    }
    // It continues without what it can't find.
    ensure!(!log.contains("ERROR"), "dracut said:\n{log}");
    Ok(log)
}
