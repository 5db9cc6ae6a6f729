//! Installations as the tests run them, and what must be on the disk after a good one.
#![allow(dead_code, clippy::unwrap_used)]

use diskwrite::initrd::{Archive, Member};
use diskwrite::{Changes, Event, Failure, InstallError, InstallOptions, Installed, Source, install};
use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpListener},
    path::Path,
};
use testkit::disk::{ENTRY, INITRAMFS, Image, LoopDisk, MIB, accept};

pub(crate) const IGNITION: &[u8] = br#"{"ignition":{"version":"3.2.0"}}"#;

pub(crate) fn from_file(disk: &LoopDisk, image: &Path) -> InstallOptions {
    InstallOptions { source: Source::File(image.to_owned()), device: disk.path(), ..Default::default() }
}

pub(crate) fn full(disk: &LoopDisk, image: &Path, network: &Path) -> InstallOptions {
    InstallOptions {
        ignition: Some(IGNITION.to_vec()),
        changes: Changes {
            append_kargs: vec!["ip=dhcp".into(), "console=ttyS0".into()],
            delete_kargs: vec!["quiet".into()],
            network_dir: Some(network.to_owned()),
            ..Default::default()
        },
        ..from_file(disk, image)
    }
}

pub(crate) fn keyfiles() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("eth0.nmconnection");
    fs::write(&path, "[connection]\nid=eth0\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    dir
}

pub(crate) fn go(options: &InstallOptions) -> (Result<Installed, InstallError>, Vec<Event>) {
    let mut events = Vec::new();
    let result = install(options, &mut |event| events.push(event));
    (result, events)
}

pub(crate) fn fail(options: &InstallOptions) -> (InstallError, Failure) {
    let mut error = go(options).0.unwrap_err();
    let cause = std::mem::replace(&mut *error.cause, Failure::Cancelled { written_bytes: 0 });
    (error, cause)
}

/// Everything but the boot partition is as in the image, the tail is zero, and the kernel knows the partitions.
pub(crate) fn assert_installed(disk: &LoopDisk, image: &Image) {
    let found = disk.read(0, 32 * MIB);
    let (boot, end) =
        (usize::try_from(image.boot_start).unwrap(), usize::try_from(image.boot_start + image.boot_len).unwrap());
    assert!(found[..boot] == image.data[..boot], "before the boot partition");
    assert!(found[end..] == image.data[end..], "after the boot partition");
    assert!(disk.read(disk.size() - MIB, MIB).iter().all(|byte| *byte == 0), "an old backup table is left");
    assert_eq!(disk.partitions(), [1, 2, 3, 4]);
}

pub(crate) fn assert_configured(disk: &LoopDisk, image: &Image) {
    assert_eq!(image.debugfs(disk, "cat /ignition/config.ign").as_bytes(), IGNITION);
    let mode = |path: &str| {
        let stat = image.debugfs(disk, &format!("stat {path}"));
        stat.split("Mode:").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(mode("/ignition"), "0700");
    assert_eq!(mode("/ignition/config.ign"), "0600");
    assert_eq!(
        image.debugfs(disk, "cat /loader/entries/ostree-1-test.conf"),
        ENTRY.replace(" quiet", "").replace("=metal", "=metal ip=dhcp console=ttyS0")
    );
    assert_network(disk, image);
}

/// The profile of [`keyfiles`] is at the end of the initramfs, and nowhere else.
pub(crate) fn assert_network(disk: &LoopDisk, image: &Image) {
    let initramfs = image.boot_file(disk, INITRAMFS.0);
    let added = Archive::unpack(initramfs.strip_prefix(INITRAMFS.1).unwrap()).unwrap();
    let files: Vec<_> = added.members().filter(|(_, member)| matches!(member, Member::File { .. })).collect();
    let profile = Member::File { mode: 0o600, data: b"[connection]\nid=eth0\n".to_vec() };
    assert_eq!(files, [("etc/coreos-firstboot-network/eth0.nmconnection", &profile)]);
    assert!(!image.debugfs(disk, "ls -p /").contains("coreos-firstboot-network"));
}

/// Serves `data` from `from` on, of which `len` bytes come, to one client.
pub(crate) fn serve_once(listener: &TcpListener, data: &[u8], len: usize) {
    let (mut stream, request) = accept(listener);
    let end = data.len().min(request.range_start().unwrap_or(0) + len);
    stream.write_all(&testkit::http::resumed(&request, data, end)).unwrap();
}

pub(crate) fn from_server(disk: &LoopDisk, address: SocketAddr) -> InstallOptions {
    let source = Source::Url(format!("http://{address}/image"));
    InstallOptions { source, ..from_file(disk, Path::new("")) }
}
