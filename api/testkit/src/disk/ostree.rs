//! Disks as CoreOS lays out its own, with an ostree repository, for tests of osmet files.

use super::{LoopDisk, MIB, osmet::add_object, run, skipped};
use crate::skip;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

const BOOT_START_MIB: u64 = 4;
const BOOT_MIB: u64 = 16;
/// Fills the file system mounted at `$2` from the directory `$3`; no other process sees the mount.
const FILL: &str =
    r#"mount -o loop "$1" "$2"; cp -a --sparse=always "$3/." "$2"; cd "$2"; eval "$4"; cd /; umount "$2""#;

/// Such a disk, and its repository outside of it.
pub struct OstreeDisk {
    pub disk: LoopDisk,
    dir: TempDir,
    /// How many objects are in the repository on the disk.
    pub objects: usize,
}

impl OstreeDisk {
    /// With a root file system of `kind`, in which the commands `more` are run once it is filled. None, with a word about it, where
    /// there can't be one.
    pub fn new(sector: u32, kind: &str, more: &str) -> Option<Self> {
        let mkfs = format!("mkfs.{kind}");
        let is_there = Command::new(&mkfs).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
        if skipped() || !skip::unless(&mkfs, is_there) {
            return None;
        }
        // XFS has at least 300 MiB.
        let root_mib = if kind == "xfs" { 304 } else { 32 };
        let disk = LoopDisk::new((BOOT_START_MIB + BOOT_MIB + root_mib + 1) * MIB, sector, true);
        let dir = tempfile::tempdir().unwrap();
        let sectors = |mib: u64| mib * MIB / u64::from(sector);
        let part = |number: u32, start: u64, len: u64| {
            format!("--new={number}:{}:{}", sectors(start), sectors(start + len) - 1)
        };
        let device = disk.path().display().to_string();
        let root_start = BOOT_START_MIB + BOOT_MIB;
        let [bios, boot, root] = [part(1, 1, 1), part(3, BOOT_START_MIB, BOOT_MIB), part(4, root_start, root_mib)];
        run(
            "sgdisk",
            &[
                "--set-alignment=1",
                &bios,
                "--change-name=1:BIOS-BOOT",
                &boot,
                "--change-name=3:boot",
                &root,
                "--change-name=4:root",
                &device,
            ],
        );
        let mut made = Self { disk, dir, objects: 0 };
        let kernel = made.make_trees();
        made.fill(BOOT_START_MIB, BOOT_MIB, "mkfs.ext4", &["-q", "-b", "4096", "-L", "boot"], "boot", "");
        let xfs = ["-q", "-s", &format!("size={sector}"), "-L", "root"];
        let options: &[&str] = if kind == "xfs" { &xfs } else { &["-q", "-b", "4096", "-L", "root"] };
        // A deployment has links to objects.
        let linked = format!("ln ostree/repo/objects/{} ostree/deploy/test/vmlinuz\n{more}", name(&kernel));
        made.fill(root_start, root_mib, &mkfs, options, "root", &linked);
        Some(made)
    }

    /// The same objects as on the disk, for unpacking.
    pub fn repo(&self) -> PathBuf {
        self.tree("root").join("ostree/repo")
    }

    fn tree(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Of the whole disk.
    pub fn sha256(&self) -> String {
        let (mut file, mut sum, mut buf) = (File::open(self.disk.path()).unwrap(), Sha256::new(), vec![0; 1 << 20]);
        loop {
            let count = file.read(&mut buf).unwrap();
            if count == 0 {
                return format!("{:x}", sum.finalize());
            }
            sum.update(&buf[..count]);
        }
    }

    /// Makes what goes into both file systems; returns the sum of the kernel, which is in both.
    fn make_trees(&mut self) -> [u8; 32] {
        let (boot, repo) = (self.tree("boot"), self.repo());
        fs::create_dir_all(boot.join("ostree/test")).unwrap();
        fs::create_dir_all(boot.join("loader/entries")).unwrap();
        fs::create_dir_all(self.tree("root").join("ostree/deploy/test")).unwrap();
        let kernel = noise(3 << 20, 1);
        // Of whole blocks and not; one of a byte, one without any.
        for (len, seed) in [(0, 2), (1, 3), (4095, 4), (4096, 5), (70_000, 6), (1_000_000, 7)] {
            add_object(&repo, &noise(len, seed));
        }
        let mut with_hole = noise(2 << 20, 8);
        with_hole[1 << 19..1 << 20].fill(0);
        add_object(&repo, &with_hole);
        let sum = add_object(&repo, &kernel);
        self.objects = 8;
        fs::write(boot.join("ostree/test/vmlinuz"), &kernel).unwrap();
        // As long as an object, but another.
        fs::write(boot.join("ostree/test/other"), noise(70_000, 9)).unwrap();
        fs::write(boot.join("loader/entries/ostree-1-test.conf"), super::ENTRY).unwrap();
        // Not objects.
        fs::write(repo.join("config"), "[core]\nmode=bare\n").unwrap();
        fs::write(repo.join("objects").join(name(&sum)).with_extension("dirmeta"), noise(9000, 10)).unwrap();
        sum
    }

    /// Makes a file system of a tree, and puts it on the disk.
    fn fill(&self, start_mib: u64, len_mib: u64, mkfs: &str, options: &[&str], tree: &str, more: &str) {
        let file = self.dir.path().join("file-system");
        File::create(&file).unwrap().set_len(len_mib * MIB).unwrap();
        let at = self.dir.path().join("mounted");
        fs::create_dir_all(&at).unwrap();
        let text = |path: &Path| path.display().to_string();
        run(mkfs, &[options, &[&text(&file)]].concat());
        let arguments = [&text(&file), &text(&at), &text(&self.tree(tree)), more];
        run("unshare", &[&["--mount", "sh", "-ec", FILL, "fill"][..], &arguments[..]].concat());
        let mut from = File::open(&file).unwrap();
        let mut to = fs::OpenOptions::new().write(true).open(self.disk.path()).unwrap();
        let mut buf = vec![0; 1 << 20];
        for mib in 0..len_mib {
            from.read_exact(&mut buf).unwrap();
            if buf.iter().any(|byte| *byte != 0) {
                to.seek(SeekFrom::Start((start_mib + mib) * MIB)).unwrap();
                to.write_all(&buf).unwrap();
            }
        }
        to.sync_all().unwrap();
        fs::remove_file(file).unwrap();
    }
}

/// An object's name below `objects`.
fn name(sum: &[u8; 32]) -> String {
    let digits: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}/{}.file", &digits[..2], &digits[2..])
}

fn noise(len: usize, mut state: u32) -> Vec<u8> {
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}
