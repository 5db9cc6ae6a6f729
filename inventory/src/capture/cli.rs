//! `landfall capture`: a machine in a file.

use super::Captured;
use crate::Root;
use anyhow::{Context, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::{
    fs::{self, File},
    io::{ErrorKind, IsTerminal, Write, stderr, stdout},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

/// Write everything that this machine's inventory and report are made of to a file
///
/// The file is a .tar.gz of what was read from /sys, /proc, /run/udev and /dev/disk, and of the raw answers of the kernel
/// and the devices. `landfall inventory --root FILE` and `landfall report --root FILE` then describe this machine
/// wherever they run. Only that file is written. SMBIOS, serial numbers and answers of devices need root.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  landfall capture -o rack7-node3.tar.gz
  landfall capture --scrub -o for-support.tar.gz
  ssh node landfall capture -o - > node.tar.gz
  landfall report --root node.tar.gz")]
pub struct Capture {
    /// File to write, or a pipe; - is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "json")]
    output: Option<PathBuf>,
    /// Print {"tar_gz": BASE64} on standard output instead of the file itself
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Replace serial numbers, asset tags, UUIDs, world-wide names, MAC addresses and keys of TPMs
    ///
    /// A value has the same replacement throughout this file, and another one in the next. The maker's part of an address
    /// is retained. Host name, IP addresses, iSCSI names, labels and the kernel's command line are not replaced, except
    /// for such values within them.
    #[arg(long)]
    scrub: bool,
    /// Capture from this captured tree or file instead
    #[arg(long, value_name = "DIR|FILE", default_value = "/")]
    root: PathBuf,
}

impl Capture {
    /// Runs the subcommand. What can't be read is missing from the file, as it is from an inventory.
    pub fn run(self) -> anyhow::Result<()> {
        let output = self.output.unwrap_or_else(|| PathBuf::from("-"));
        let is_stdout = output == Path::new("-");
        ensure!(
            !is_stdout || self.json || !stdout().is_terminal(),
            "a capture is not text: send it to a file with -o FILE"
        );
        let captured = Captured::take(Root::open(&self.root)?);
        let captured = if self.scrub { captured.scrub() } else { captured };
        if self.json {
            let mut archive = Vec::new();
            captured.write(&mut archive)?;
            let document = api::certify::Capture { tar_gz: BASE64_STANDARD.encode(&archive) };
            return writeln!(stdout().lock(), "{}", serde_json::to_string(&document)?)
                .context("cannot print the capture");
        }
        if is_stdout {
            return captured.write(stdout().lock()).context("cannot write the capture to standard output");
        }
        let fail = || format!("cannot write the capture to {}", output.display());
        let len_bytes = match place(&output)? {
            Place::Stream(mut file) => {
                captured.write(&mut file).with_context(fail)?;
                None
            }
            Place::File(path) => {
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
                // Complete or not at all, and readable by its owner only: it contains serial numbers.
                let mut file = tempfile::NamedTempFile::new_in(dir).with_context(fail)?;
                captured.write(file.as_file_mut()).with_context(fail)?;
                let len_bytes = file.as_file().metadata().with_context(fail)?.len();
                file.persist(path).with_context(fail)?;
                Some(len_bytes)
            }
        };
        let len = len_bytes.map(|len| format!(", {}", kernel::units::binary(len))).unwrap_or_default();
        let _ = writeln!(stderr(), "{}: {} entries{len}", output.display(), captured.len());
        Ok(())
    }
}

/// Where a capture goes.
enum Place {
    /// A regular file, existing or not, to be replaced as a whole.
    File(PathBuf),
    /// A pipe, a terminal or a character device, which stays what it is.
    Stream(File),
}

/// A link is followed: it stays, and the file it leads to is replaced.
fn place(output: &Path) -> anyhow::Result<Place> {
    let fail = || format!("cannot write the capture to {}", output.display());
    match fs::metadata(output) {
        Ok(seen) if seen.is_file() => Ok(Place::File(fs::canonicalize(output).with_context(fail)?)),
        Ok(seen) => {
            let is_disk = seen.file_type().is_block_device();
            ensure!(!is_disk, "{} is a disk: a capture would destroy what is on it; name a file", output.display());
            Ok(Place::Stream(File::options().write(true).open(output).with_context(fail)?))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_link = fs::symlink_metadata(output).is_ok();
            ensure!(
                !is_link,
                "{} is a link to a file that does not exist: remove it or name another",
                output.display()
            );
            Ok(Place::File(output.to_owned()))
        }
        Err(error) => Err(error).with_context(fail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{collect, identity, testing::Tree};
    use std::os::unix::fs::symlink;

    fn machine() -> Tree {
        let tree = Tree::new(&[
            ("sys/class/dmi/id/board_serial", "123-456-789\n"),
            ("sys/devices/pci0000:00/block/sda/size", "2048\n"),
            ("sys/devices/pci0000:00/block/sda/dev", "8:0\n"),
            ("sys/devices/pci0000:00/block/sda/device/wwid", "naa.5000c500a1b2c3d4\n"),
            ("run/udev/data/b8:0", "E:ID_WWN=0x5000c500a1b2c3d4\n"),
            ("landfall/disks/sda/first-sector", ""),
            ("proc/meminfo", "MemTotal: 1024 kB\n"),
            ("proc/unrelated", "secret"),
        ]);
        tree.add("landfall/disks/sda/first-sector", [&[0; 510][..], &[0x55, 0xaa]].concat());
        tree.link("sys/block/sda", "../devices/pci0000:00/block/sda");
        tree.link("dev/disk/by-id/wwn-0x5000c500a1b2c3d4", "../../sda");
        tree
    }

    fn capture(tree: &Tree, scrub: bool) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("machine.tar.gz");
        Capture { output: Some(output.clone()), json: false, scrub, root: tree.path().to_owned() }.run().unwrap();
        (dir, output)
    }

    #[test]
    fn a_replay_tells_the_same() {
        let tree = machine();
        let (_dir, file) = capture(&tree, false);
        let (of_tree, of_file) = (tree.root(), Root::open(&file).unwrap());
        let (first, again) = (collect(&of_tree), collect(&of_file));
        assert!(first.disks[0].bootable && first.disks[0].by_id.ends_with("a1b2c3d4"));
        assert_eq!(first, again);
        assert_eq!(identity::host_id(&of_tree), identity::host_id(&of_file));
        assert!(!of_file.exists("/proc/unrelated"));
        // A capture of the capture is the capture.
        let second = file.with_file_name("second.tar.gz");
        Capture { output: Some(second.clone()), json: false, scrub: false, root: file.clone() }.run().unwrap();
        assert_eq!(fs::read(file).unwrap(), fs::read(second).unwrap());
    }

    #[test]
    fn a_scrubbed_machine_is_another_of_the_same_make() {
        let tree = machine();
        let (_dir, file) = capture(&tree, true);
        let (first, scrubbed) = (collect(&tree.root()), collect(&Root::open(&file).unwrap()));
        let (disk, other) = (&first.disks[0], &scrubbed.disks[0]);
        assert_eq!((disk.size_bytes, disk.bootable), (other.size_bytes, other.bootable));
        assert_ne!(disk.wwn, other.wwn);
        assert_eq!(other.by_id, format!("/dev/disk/by-id/wwn-{}", other.wwn));
        assert_ne!(identity::host_id(&tree.root()).id, identity::host_id(&Root::open(&file).unwrap()).id);
    }

    #[test]
    fn a_place_that_cannot_be_written() {
        let tree = machine();
        let output = PathBuf::from("/nonexistent/machine.tar.gz");
        let error = Capture { output: Some(output), json: false, scrub: false, root: tree.path().to_owned() }
            .run()
            .unwrap_err();
        assert_eq!(error.to_string(), "cannot write the capture to /nonexistent/machine.tar.gz");
    }

    #[test]
    fn the_null_device_was_replaced_by_a_file() {
        let tree = machine();
        let run = |output: &Path| {
            Capture { output: Some(output.to_owned()), json: false, scrub: false, root: tree.path().to_owned() }.run()
        };
        let dir = tempfile::tempdir().unwrap();
        // Through a link, so that a mistake replaces the link and not the machine's /dev/null.
        let null = dir.path().join("null");
        symlink("/dev/null", &null).unwrap();
        run(&null).unwrap();
        assert!(fs::symlink_metadata(&null).unwrap().is_symlink());
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        run(&pipe).unwrap();
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        let (_dir, file) = capture(&tree, false);
        assert_eq!(reader.join().unwrap(), fs::read(file).unwrap());
        // A directory neither.
        assert!(run(dir.path()).is_err());
    }

    #[test]
    fn a_link_stays_and_its_file_is_written() {
        let tree = machine();
        let run = |output: &Path| {
            Capture { output: Some(output.to_owned()), json: false, scrub: false, root: tree.path().to_owned() }.run()
        };
        let dir = tempfile::tempdir().unwrap();
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        symlink("file", &link).unwrap();
        let error = run(&link).unwrap_err().to_string();
        assert!(error.contains("is a link to a file that does not exist"), "{error}");
        fs::write(&file, "old").unwrap();
        run(&link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("file"));
        assert!(Root::open(&file).is_ok());
    }
}
