//! Mounting over real loop devices; needs root.

use super::*;
use std::fs;
use std::sync::mpsc::channel;
use testkit::disk::{ENTRY, Image, LoopDisk, MIB, skipped};

fn boot(image: &Image) -> Partition {
    Partition { number: 3, name: "boot".into(), start: image.boot_start, len: image.boot_len }
}

/// An image on a disk that nobody holds.
fn with_image(sector: u32) -> (Image, LoopDisk, Disk) {
    let image = Image::new(sector);
    let disk = LoopDisk::new(64 * MIB, sector, false);
    disk.write(0, &image.data);
    let mut opened = Disk::open(&disk.path()).unwrap();
    opened.release().unwrap();
    (image, disk, opened)
}

#[test]
fn partition_without_a_node_is_mounted_through_a_loop_device() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let (image, disk, opened) = with_image(sector);
        assert_eq!(partitions::node_of(&opened, &boot(&image)), None);
        let device = PartitionDevice::open(&opened, &boot(&image)).unwrap();
        assert!(device.path.to_string_lossy().starts_with("/dev/loop") && device._bound.is_some());
        let write = || fs::write("/written", "inside").and_then(|()| File::open("/written")?.sync_all());
        device.enter(write).unwrap().unwrap();
        let name = device.path.file_name().unwrap().to_owned();
        drop(device);
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let is_bound = || fs::read_to_string(&backing).is_ok_and(|text| text.trim() == disk.path().to_string_lossy());
        let freed = testkit::wait::comes(|| !is_bound());
        assert!(freed, "the loop device stays bound");
        opened.file().sync_all().unwrap();
        assert_eq!(image.debugfs(&disk, "cat /written"), "inside");
    }
}

#[test]
fn mount_is_seen_by_one_thread_which_sees_nothing_else() {
    if skipped() {
        return;
    }
    let (image, _disk, opened) = with_image(512);
    let device = PartitionDevice::bind(&opened, &boot(&image)).unwrap();
    let mark = device.path.to_string_lossy().into_owned();
    let (inside, entered) = channel();
    let (seen, answer) = channel();
    let watcher = thread::spawn(move || {
        entered.recv().unwrap();
        seen.send(fs::read_to_string("/proc/thread-self/mountinfo").unwrap()).unwrap();
    });
    let entry = device.enter(move || {
        inside.send(()).unwrap();
        let others = answer.recv().unwrap();
        assert!(!others.contains(&format!("{mark} ")), "{others}");
        assert!(!Path::new("/proc/self").exists() && !Path::new("/etc").exists());
        fs::read_to_string("/loader/entries/ostree-1-test.conf")
    });
    assert_eq!(entry.unwrap().unwrap(), ENTRY);
    watcher.join().unwrap();
    assert!(Path::new("/proc/self").exists());
    // A failure inside is the caller's, and unmounts all the same.
    let failure = device.enter(|| fs::read("/no/such/file").map(drop));
    assert_eq!(failure.unwrap().unwrap_err().kind(), io::ErrorKind::NotFound);
    device.enter(|| io::Result::Ok(())).unwrap().unwrap();
}

/// As udev's helpers do after a partition table is read anew.
#[test]
fn a_device_that_is_held_for_a_moment_is_waited_for() {
    if skipped() {
        return;
    }
    let (image, _disk, opened) = with_image(512);
    let device = PartitionDevice::open(&opened, &boot(&image)).unwrap();
    let exclusively = OFlag::O_RDONLY | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let held = open(device.path(), exclusively, Mode::empty()).unwrap();
    let holder = thread::spawn(move || {
        thread::sleep(3 * BUSY_PAUSE);
        drop(held);
    });
    device.enter(|| io::Result::Ok(())).unwrap().unwrap();
    holder.join().unwrap();
}

#[test]
fn what_is_no_file_system_is_named() {
    if skipped() {
        return;
    }
    let disk = LoopDisk::new(64 * MIB, 512, false);
    let opened = Disk::open(&disk.path()).unwrap();
    let partition = Partition { number: 1, name: "boot".into(), start: MIB, len: 8 * MIB };
    let device = PartitionDevice::bind(&opened, &partition).unwrap();
    let error = device.enter(|| io::Result::Ok(())).unwrap_err();
    assert!(matches!(error, MountError::Mount { ref tries, .. } if tries[0] == ("ext4", Errno::EINVAL)), "{error}");
}
