//! Loop devices, made for the test and asked as disks are.

use super::*;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use std::{fs, process::Command, thread};
use testkit::disk::Loop;

/// A loop device over a file with this content.
struct Medium {
    device: Loop,
    _file: tempfile::NamedTempFile,
}

impl Medium {
    fn of(content: &[u8]) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, content).unwrap();
        Self { device: Loop::over(file.path(), &["--read-only"]), _file: file }
    }
}

#[test]
fn boot_signatures_are_read_from_the_device() {
    if !testkit::skip::unless("root, for loop devices", nix::unistd::geteuid().is_root()) {
        return;
    }
    let mut content = vec![0; 1 << 20];
    let blank = Medium::of(&content);
    content[510..512].copy_from_slice(&[0x55, 0xaa]);
    let bootable = Medium::of(&content);
    let tiny = Medium::of(&[]);
    let root = Root::open("/").unwrap();
    let all = devices(&root);
    for (device, expected) in [(&blank, false), (&bootable, true), (&tiny, false)] {
        let found = all.iter().find(|d| d.node() == device.device.node()).unwrap();
        assert_eq!(ask(&root, &[found])[0].is_bootable, expected, "{}", device.device.name());
    }
}

/// Loop devices are not reported, but their users are found as for disks. Mounted where only this thread sees it.
#[test]
fn what_is_mounted_is_in_use() {
    if !testkit::skip::unless("root, for loop devices and mounts", nix::unistd::geteuid().is_root()) {
        return;
    }
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(4 << 20).unwrap();
    match Command::new("mkfs.ext4").arg("-q").arg(image.path()).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return testkit::skip::because(format_args!("mkfs.ext4: {error}")),
    }
    let (used, free) = (Medium::of(&fs::read(image.path()).unwrap()), Medium::of(&[0; 4096]));
    let node = used.device.node().to_owned();
    let target = tempfile::tempdir().unwrap();
    let at = target.path().to_owned();
    let table = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&Path>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(Some(&node), &at, Some("ext4"), MsFlags::MS_RDONLY, none).unwrap();
        fs::read_to_string("/proc/thread-self/mountinfo").unwrap()
    });
    let mounts: Vec<Mount> = kernel::mounts::mounts(&table.join().unwrap());
    let root = Root::open("/").unwrap();
    let all = devices(&root);
    let usage = Usage::new(&root, &all, &mounts, &[]);
    let judged = |device: &Medium| {
        let device = all.iter().find(|found| found.node() == device.device.node()).unwrap();
        let verdict = eligibility::judge(&root, device, kind::drive_type(&root, device), &usage, None);
        (usage.direct(&device.name).to_vec(), verdict.reasons)
    };
    let place = target.path().to_str().unwrap();
    let read_only = "Disk is read-only".to_owned();
    let mounted = format!("Disk is mounted on '{place}'");
    assert_eq!(judged(&used), (vec![usage::Use::Mount(place.to_owned())], vec![mounted, read_only.clone()]));
    assert_eq!(judged(&free), (vec![], vec![read_only]));
}
