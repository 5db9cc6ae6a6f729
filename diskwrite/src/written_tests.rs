//! Growing and mounting over a real loop device; needs root.

use super::*;
use testkit::disk::{LoopDisk, run, skipped};

const MIB: u64 = 1 << 20;

/// A disk of 700 MiB with an image of 400 on it, whose last partition is an XFS.
fn installed(sector: u32) -> LoopDisk {
    let disk = LoopDisk::new(700 * MIB, sector, false);
    let device = disk.path().display().to_string();
    let first = format!("--new=1:{}:+1M", MIB / u64::from(sector));
    run("sgdisk", &["--set-alignment=1", &first, "--new=2:0:+2M", "--new=3:0:+16M", "--new=4:0:+320M", &device]);
    let dir = tempfile::tempdir().unwrap();
    let [boot, root] = ["boot", "root"].map(|name| dir.path().join(name));
    for (image, len) in [(&boot, 16 * MIB), (&root, 320 * MIB)] {
        File::create(image).unwrap().set_len(len).unwrap();
    }
    run("mke2fs", &["-q", "-b", "4096", "-t", "ext4", &boot.display().to_string()]);
    run("mkfs.xfs", &["-q", "-s", &format!("size={sector}"), &root.display().to_string()]);
    let hole = vec![0; 1 << 20];
    for (image, start) in [(boot, 4 * MIB), (root, 20 * MIB)] {
        for (block, at) in fs::read(image).unwrap().chunks(1 << 20).zip((start..).step_by(1 << 20)) {
            if block != hole {
                disk.write(at, block);
            }
        }
    }
    disk
}

#[test]
fn root_grows_into_the_disk_but_for_what_is_to_be_free() {
    if skipped() {
        return;
    }
    for sector in [512, 4096] {
        let disk = installed(sector);
        let written = WrittenDisk::open(&disk.path()).unwrap();
        assert_eq!(written.layout().unwrap().partition(4).unwrap().len, 320 * MIB);
        // 630 MiB are to be used, and it starts at 20.
        let len = written.grow(4, 10).unwrap();
        assert_eq!(len, 610 * MIB);
        assert_eq!(written.grow(4, 90).unwrap(), len, "it never shrinks");
        let checked = run("sgdisk", &["--verify", &disk.path().display().to_string()]);
        assert!(checked.contains("No problems found"), "{checked}");
        // One in front of another can't.
        assert_eq!(written.grow(3, 0).unwrap(), 16 * MIB);
        assert!(matches!(written.grow(9, 0), Err(WrittenError::NoPartition { number: 9, .. })));

        let dir = tempfile::tempdir().unwrap();
        let [root, boot] = ["", "boot"].map(|name| dir.path().join("mnt").join(name));
        let used = |root: &Path| nix::sys::statvfs::statvfs(root).unwrap().blocks() * 4096;
        let inside = || {
            let before = used(&root);
            let grown = [grow_xfs(&root, len).unwrap(), grow_xfs(&root, len).unwrap()];
            fs::write(boot.join("file"), "on boot").unwrap();
            fs::write(root.join("file"), "on root").unwrap();
            (before, grown, used(&root), grow_xfs(&boot, len).is_err())
        };
        let (before, grown, after, refused) = written.mounted(&[(4, &root), (3, &boot)], inside).unwrap();
        assert_eq!((grown, refused), ([true, false], true));
        // By as much as the partition; the journal stays as it is.
        assert_eq!(after - before, 290 * MIB, "{before} {after}");
        // What was seen there was seen there alone.
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        let again = written.mounted(&[(4, &root), (3, &boot)], || fs::read_to_string(boot.join("file")).unwrap());
        assert_eq!(again.unwrap(), "on boot");
        let error = written.mounted(&[(4, &root), (1, &boot)], || ()).unwrap_err();
        assert!(matches!(error, WrittenError::Mount(MountError::Mount { .. })), "{error}");
    }
}
