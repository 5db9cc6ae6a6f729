//! Loop devices and images for tests that need root.
//!
//! Nothing here takes a path from outside: a [`LoopDisk`] is made over a file of the test's own, and is looked at again
//! before every use.

mod attached;
pub mod osmet;
pub mod ostree;

pub use attached::Loop;

use crate::{
    http::{self, Request},
    skip,
};
use std::{
    fs::{self, File},
    io::{BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

pub const MIB: u64 = 1 << 20;

/// True, with a word about it, where a test can't run.
pub fn skipped() -> bool {
    let tools = ["losetup", "sgdisk", "mke2fs", "debugfs", "e2fsck", "xz", "gzip", "zstd", "partx"];
    let is_there = |tool| Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    !(skip::unless("root", nix::unistd::geteuid().is_root())
        && skip::unless("loop devices", Path::new("/dev/loop-control").exists())
        && tools.into_iter().all(|tool| skip::unless(tool, is_there(tool))))
}

/// Runs a tool and returns its output; it must succeed.
pub fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A loop device over a file of our own; both go when it is dropped.
pub struct LoopDisk {
    device: Loop,
    dir: TempDir,
}

impl LoopDisk {
    pub fn new(bytes: u64, sector: u32, partition_scan: bool) -> Self {
        Self::below(&std::env::temp_dir(), bytes, sector, partition_scan)
    }

    /// One that has nothing to wait for.
    pub fn in_memory(bytes: u64, sector: u32) -> Self {
        Self::below(Path::new("/dev/shm"), bytes, sector, true)
    }

    fn below(directory: &Path, bytes: u64, sector: u32, partition_scan: bool) -> Self {
        let dir = tempfile::Builder::new().prefix("diskwrite-test-").tempdir_in(directory).unwrap();
        let file = dir.path().join("disk");
        File::create(&file).unwrap().set_len(bytes).unwrap();
        let sector = sector.to_string();
        let mut options = vec!["--sector-size", &sector];
        options.extend(partition_scan.then_some("--partscan"));
        Self { device: Loop::over(&file, &options), dir }
    }

    #[track_caller]
    pub fn path(&self) -> PathBuf {
        self.device.node().to_owned()
    }

    pub fn name(&self) -> String {
        self.device.name()
    }

    /// What is behind the device.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// What is on the medium.
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut data = vec![0; usize::try_from(len).unwrap()];
        File::open(self.device.node()).unwrap().read_exact_at(&mut data, offset).unwrap();
        data
    }

    pub fn size(&self) -> u64 {
        fs::metadata(self.file()).unwrap().len()
    }

    pub fn write(&self, offset: u64, data: &[u8]) {
        let file = fs::OpenOptions::new().write(true).open(self.device.node()).unwrap();
        file.write_all_at(data, offset).unwrap();
        file.sync_all().unwrap();
    }

    /// Makes the disk look as if something bootable were on it, at either end.
    pub fn put_old_tables(&self, sector: u32) {
        let mut head = vec![0xEE; 1 << 20];
        head[510..512].copy_from_slice(&[0x55, 0xAA]);
        let at = usize::try_from(sector).unwrap();
        head[at..at + 8].copy_from_slice(b"EFI PART");
        self.write(0, &head);
        self.write(self.size() - u64::from(sector), &head[at..2 * at]);
    }

    /// No table, primary or backup, and no boot signature.
    pub fn assert_cleared(&self) {
        for offset in [0, self.size() - MIB] {
            assert!(self.read(offset, MIB).iter().all(|byte| *byte == 0), "{} is not zero at {offset}", self.name());
        }
        assert_eq!(self.partitions(), Vec::<u32>::new());
    }

    /// The tables of [`put_old_tables`](Self::put_old_tables) are there.
    pub fn assert_untouched(&self, sector: u32) {
        let at = usize::try_from(sector).unwrap();
        assert_eq!(&self.read(0, MIB)[at..at + 9], b"EFI PART\xEE");
        assert_eq!(&self.read(self.size() - u64::from(sector), 8), b"EFI PART");
    }

    /// Numbers of the partitions the kernel knows.
    pub fn partitions(&self) -> Vec<u32> {
        self.device.partitions()
    }

    /// Makes the kernel, and udev where it runs, look at the partitions and what is in them now. Not every kernel finds them itself.
    pub fn list_partitions(&self) {
        let how = if self.partitions().is_empty() { "--add" } else { "--update" };
        run("partx", &[how, &self.device.node().display().to_string()]);
        if Path::new("/run/udev/control").exists() {
            run("udevadm", &["settle"]);
        }
    }

    /// Nobody can write to the disk and its listed partitions until the answer is dropped: mounting XFS changes it even where it is
    /// mounted read-only.
    pub fn read_only(&self) -> ReadOnly {
        let disk = self.device.node().display().to_string();
        let nodes = self.partitions().iter().map(|number| format!("{disk}p{number}")).chain([disk.clone()]).collect();
        let guard = ReadOnly { nodes };
        guard.set("--setro");
        guard
    }

    /// A copy of a part of the disk, for tools that look into file systems.
    pub fn extract(&self, offset: u64, len: u64) -> PathBuf {
        let path = self.dir.path().join("part");
        fs::write(&path, self.read(offset, len)).unwrap();
        path
    }
}

/// See [`LoopDisk::read_only`].
pub struct ReadOnly {
    nodes: Vec<String>,
}

impl ReadOnly {
    fn set(&self, option: &str) {
        for node in &self.nodes {
            run("blockdev", &[option, node]);
        }
    }
}

impl Drop for ReadOnly {
    /// The next user of the loop device would find it so.
    fn drop(&mut self) {
        self.set("--setrw");
    }
}

/// A small image: `boot`, ext4 with an entry and the stamp, and `root`, noise with a run of zeros.
pub struct Image {
    pub dir: TempDir,
    pub data: Vec<u8>,
    pub boot_start: u64,
    pub boot_len: u64,
}

pub const ENTRY: &str = "title Test OS\nlinux /vmlinuz\ninitrd /ostree/test/initramfs.img\noptions rw $ignition_firstboot quiet ignition.platform.id=metal\n";

/// The initramfs of that entry, and what is in it.
pub const INITRAMFS: (&str, &[u8]) = ("/ostree/test/initramfs.img", b"an initramfs, as far as tests go");

/// With the markers between which console settings go.
pub const GRUB: &str =
    "set timeout=1\n# CONSOLE-SETTINGS-START\nterminal_input console\n# CONSOLE-SETTINGS-END\nblscfg\n";
/// What the platforms of the image ask for.
pub const PLATFORMS: &str = r#"{"metal":{"grub_commands":["terminal_input console"],"kernel_arguments":["quiet"]},
 "qemu":{"grub_commands":["serial --speed=115200","terminal_input serial console"],"kernel_arguments":["console=tty0","console=ttyS0,115200n8"]}}"#;

impl Image {
    pub fn new(sector: u32) -> Self {
        Self::with_partition(sector, "boot")
    }

    /// With another name for the partition whose file system is labelled `boot`.
    pub fn with_partition(sector: u32, name: &str) -> Self {
        Self::build(sector, name, INITRAMFS.1)
    }

    /// With another initramfs. The boot file system has room for 7 MiB.
    pub fn with_initramfs(sector: u32, content: &[u8]) -> Self {
        Self::build(sector, "boot", content)
    }

    fn build(sector: u32, name: &str, initramfs: &[u8]) -> Self {
        let dir = tempfile::Builder::new().prefix("diskwrite-image-").tempdir().unwrap();
        let bytes = 32 * MIB;
        // sgdisk takes the sector size from the device, so the table is made on one.
        let disk = LoopDisk::new(bytes, sector, false);
        let device = disk.path().display().to_string();
        run(
            "sgdisk",
            &[
                "--set-alignment=1",
                &format!("--new=1:{}:+1M", MIB / u64::from(sector)),
                "--change-name=1:BIOS-BOOT",
                "--new=2:0:+2M",
                "--change-name=2:EFI-SYSTEM",
                "--new=3:0:+12M",
                &format!("--change-name=3:{name}"),
                "--new=4:0:0",
                "--change-name=4:root",
                &device,
            ],
        );
        let mut data = disk.read(0, bytes);
        drop(disk);
        let (boot_start, boot_len) = (4 * MIB, 12 * MIB);
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("loader/entries")).unwrap();
        fs::write(tree.join("loader/entries/ostree-1-test.conf"), ENTRY).unwrap();
        fs::create_dir_all(tree.join("ostree/test")).unwrap();
        fs::write(tree.join(INITRAMFS.0.trim_start_matches('/')), initramfs).unwrap();
        fs::write(tree.join("ignition.firstboot"), "").unwrap();
        fs::create_dir_all(tree.join("grub2")).unwrap();
        fs::write(tree.join("grub2/grub.cfg"), GRUB).unwrap();
        fs::create_dir_all(tree.join("coreos")).unwrap();
        fs::write(tree.join("coreos/platforms.json"), PLATFORMS).unwrap();
        let boot = dir.path().join("boot");
        File::create(&boot).unwrap().set_len(boot_len).unwrap();
        let (tree, boot) = (tree.display().to_string(), boot.display().to_string());
        run("mke2fs", &["-q", "-t", "ext4", "-b", "4096", "-L", "boot", "-d", &tree, &boot]);
        let at = usize::try_from(boot_start).unwrap();
        let boot = fs::read(&boot).unwrap();
        data[at..at + boot.len()].copy_from_slice(&boot);
        let mut state = 1u32;
        for byte in &mut data[17 << 20..22 << 20] {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = state.to_be_bytes()[0];
        }
        Self { dir, data, boot_start, boot_len }
    }

    /// The image packed by the real tool, or raw.
    pub fn packed(&self, tool: Option<&str>) -> PathBuf {
        let raw = self.dir.path().join("image.raw");
        if !raw.exists() {
            fs::write(&raw, &self.data).unwrap();
        }
        let Some(tool) = tool else { return raw };
        let packed = self.dir.path().join(format!("image.{tool}"));
        let output = Command::new(tool).args(["-1", "--stdout"]).arg(&raw).output().unwrap();
        assert!(output.status.success());
        fs::write(&packed, output.stdout).unwrap();
        packed
    }

    /// A file of a disk's boot file system.
    pub fn boot_file(&self, disk: &LoopDisk, path: &str) -> Vec<u8> {
        let to = self.dir.path().join("boot-file");
        self.debugfs(disk, &format!("dump {path} {}", to.display()));
        fs::read(&to).unwrap()
    }

    /// The boot file system of a disk, as debugfs sees it.
    pub fn debugfs(&self, disk: &LoopDisk, command: &str) -> String {
        let part = disk.extract(self.boot_start, self.boot_len).display().to_string();
        run("e2fsck", &["-f", "-n", &part]);
        run("debugfs", &["-R", command, &part])
    }
}

/// The next client that asks for an image, and its request. There is no signature.
pub fn accept(listener: &TcpListener) -> (TcpStream, Request) {
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        let request = Request::read(&mut BufReader::new(&stream)).unwrap().unwrap();
        if !request.path().ends_with(".sig") {
            return (stream, request);
        }
        stream.write_all(&http::reply("404 Not Found", "", "")).unwrap();
    }
}
