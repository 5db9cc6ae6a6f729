//! The smallest guest: busybox and a few modules in an initramfs whose init is the test's own script.
#![allow(clippy::unwrap_used)]

use qemu_tests::paths;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

const MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_net"];
const APPLETS: &str =
    "sh mount modprobe cat echo head dd printf ip udhcpc awk grep wget ping usleep reboot poweroff tr sleep";

/// Kernel and initramfs, made below `dir`.
pub(crate) fn build(dir: &Path, script: &str) -> (PathBuf, PathBuf) {
    let package = paths::target_dir().join("vm/packages/cloud");
    assert!(package.join(".done").exists(), "{} is missing: run .ci/setup", package.display());
    let modules = fs::read_dir(package.join("lib/modules")).unwrap().next().unwrap().unwrap().path();
    let release = modules.file_name().unwrap().to_str().unwrap().to_owned();

    let root = dir.join("tree");
    let _ = fs::remove_dir_all(&root);
    for name in ["bin", "proc", "sys", "dev"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).expect("package busybox-static");
    APPLETS.split(' ').for_each(|applet| symlink("busybox", root.join("bin").join(applet)).unwrap());
    install_modules(&modules, &root.join("lib/modules").join(&release));
    let setup = "#!/bin/sh\nexport PATH=/bin\nmount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev\n\
                 echo 1 > /proc/sys/kernel/printk; modprobe virtio_pci\n";
    executable(&root.join("init"), &format!("{setup}{script}\necho '@@ init ended'; poweroff -f\n"));
    executable(&root.join("dhcp"), "#!/bin/sh\n[ $1 = bound ] && ip addr add $ip/${mask:-24} dev $interface\nexit 0\n");

    let initrd = dir.join("initrd.gz");
    let archive = "cd \"$0\" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1 > \"$1\"";
    let status = Command::new("sh").args(["-c", archive]).arg(&root).arg(&initrd).status().unwrap();
    assert!(status.success(), "cpio and gzip are needed");
    (package.join("boot").join(format!("vmlinuz-{release}")), initrd)
}

fn install_modules(from: &Path, to: &Path) {
    let all = fs::read_to_string(from.join("modules.dep")).unwrap();
    let mut needed = String::new();
    for line in all.lines() {
        let (path, needs) = line.split_once(':').unwrap();
        if MODULES.iter().any(|name| path.ends_with(&format!("/{name}.ko"))) {
            for file in needs.split_whitespace().chain([path]) {
                fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
                fs::copy(from.join(file), to.join(file)).unwrap();
            }
            needed.push_str(line);
            needed.push('\n');
        }
    }
    fs::write(to.join("modules.dep"), needed).unwrap();
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
