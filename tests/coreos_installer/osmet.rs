//! `dev extract osmet`: an image put together from an osmet file and a repository, onto a loop device.

use super::peer;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::disk::osmet::{Extent, Partition, add_object, object_path, write};

const IMAGE_BYTES: usize = 4 << 20;

/// A loop device, gone with this.
struct Loop(PathBuf);

impl Loop {
    /// None where there can be none.
    fn over(path: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(path).output().ok()?;
        let device = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Self(device.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// What was said, and what the disk has.
struct Extracted {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
    disk: Vec<u8>,
}

/// None where there are no loop devices.
fn extract(program: &Path, directory: &Path, words: &str) -> Option<Extracted> {
    let disk = directory.join("disk");
    fs::write(&disk, vec![0xEE; IMAGE_BYTES]).unwrap();
    let device = Loop::over(&disk)?;
    let words = words.split(' ').map(|word| if word == "DEVICE" { device.0.clone() } else { word.into() });
    let mut command = Command::new(program);
    command.args(["dev", "extract", "osmet"]).args(words).current_dir(directory).env_remove("RUST_BACKTRACE");
    let output = command.output().unwrap();
    drop(device);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let (code, stdout) = (output.status.code(), output.stdout);
    Some(Extracted { code, stdout, stderr, disk: fs::read(&disk).unwrap() })
}

#[test]
fn an_image_is_put_together_as_by_the_released_program() {
    let Some(peer) = peer() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let program = path("coreos-installer");
    symlink(env!("CARGO_BIN_EXE_landfall"), &program).unwrap();
    let content: Vec<u8> = (0..100_000u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let mut image = vec![7; IMAGE_BYTES];
    image[(1 << 20) + 8192..][..content.len()].copy_from_slice(&content);
    // The rest of its last block.
    image[(1 << 20) + 8192 + content.len()..(1 << 20) + 8192 + 102_400].fill(0);
    let object = add_object(&path("repo"), &content);
    let extent = Extent { file_offset: 0, start: (1 << 20) + 8192, len: 102_400, object };
    let partitions: [Partition; 1] = [(1 << 20, 3 << 20, vec![extent])];
    write(&path("good.osmet"), &image, 512, &partitions);
    let mut other = image.clone();
    other[0] = 8;
    // The sum of another image.
    write(&path("other.osmet"), &other, 512, &partitions);
    let bytes = fs::read(path("other.osmet")).unwrap();
    let good = fs::read(path("good.osmet")).unwrap();
    let at = bytes.iter().zip(&good).position(|(a, b)| a != b).unwrap();
    let mut bad = good.clone();
    bad[at] = bytes[at];
    fs::write(path("bad.osmet"), bad).unwrap();
    fs::write(path("none.osmet"), [0; 5000]).unwrap();

    // Whether the texts are the same too.
    for (words, alike) in [
        ("--osmet good.osmet repo DEVICE", true),
        ("--osmet good.osmet repo absent", true),
        ("--osmet good.osmet repo good.osmet", true),
        ("--osmet good.osmet repo /dev/null", true),
        ("repo DEVICE", true),
        ("--osmet bad.osmet repo DEVICE", false),
        ("--osmet none.osmet repo DEVICE", false),
        ("--osmet absent.osmet repo DEVICE", false),
        ("--osmet good.osmet elsewhere DEVICE", false),
    ] {
        let go = |program: &Path| extract(program, directory.path(), words);
        let (Some(ours), Some(theirs)) = (go(&program), go(&peer)) else {
            return testkit::skip::because("there are no loop devices");
        };
        assert_eq!(
            (ours.code, &ours.stdout),
            (theirs.code, &theirs.stdout),
            "{words}: {} and theirs {}",
            ours.stderr,
            theirs.stderr
        );
        assert_eq!(ours.stderr == theirs.stderr, alike, "{words}: {} and theirs {}", ours.stderr, theirs.stderr);
        // What failed leaves no start of an image here, whatever it leaves there.
        let expected = if ours.code == Some(0) { &image[..1 << 20] } else { &[0xEE; 1 << 20][..] };
        assert!(ours.disk[..1 << 20] == *expected, "{words}");
        assert!(ours.code != Some(0) || (ours.disk == image && theirs.disk == image), "{words}");
    }
    // A file of the repository that is gone.
    fs::remove_file(object_path(&path("repo"), &object)).unwrap();
    let gone = extract(&program, directory.path(), "--osmet good.osmet repo DEVICE").unwrap();
    assert!(gone.code == Some(1) && gone.stderr.contains("cannot read byte 0 of the live system's"), "{}", gone.stderr);
}
