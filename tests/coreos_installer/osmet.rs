//! `pack osmet` and `dev extract osmet`: a disk packed into an osmet file, and an image put together from one, on loop devices.

use super::peer;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use testkit::disk::{
    Loop, LoopDisk,
    osmet::{Extent, Partition, add_object, object_path, write},
    ostree::OstreeDisk,
    run, skipped,
};

const IMAGE_BYTES: usize = 4 << 20;

/// What was said, and what the disk has.
struct Extracted {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
    disk: Vec<u8>,
}

fn extract(program: &Path, directory: &Path, words: &str) -> Extracted {
    let disk = directory.join("disk");
    fs::write(&disk, vec![0xEE; IMAGE_BYTES]).unwrap();
    let device = Loop::over(&disk, &[]);
    let words = words.split(' ').map(|word| if word == "DEVICE" { device.node() } else { Path::new(word) });
    let mut command = Command::new(program);
    command.args(["dev", "extract", "osmet"]).args(words).current_dir(directory).env_remove("RUST_BACKTRACE");
    let output = command.output().unwrap();
    // By the device: as long as somebody else looks at it, what was written need not be in the file yet.
    let disk = fs::read(device.node()).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let (code, stdout) = (output.status.code(), output.stdout);
    Extracted { code, stdout, stderr, disk }
}

#[test]
fn an_image_is_put_together_as_by_the_released_program() {
    if skipped() {
        return;
    }
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
        let (ours, theirs) = (go(&program), go(&peer));
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
    let gone = extract(&program, directory.path(), "--osmet good.osmet repo DEVICE");
    assert!(gone.code == Some(1) && gone.stderr.contains("cannot read byte 0 of the live system's"), "{}", gone.stderr);
}

/// `pack osmet` of a disk.
fn packing(program: &Path, made: &OstreeDisk, sum: &str, to: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["pack", "osmet", "--checksum", sum, "--description", "Test OS 1", "--output"]).arg(to);
    command.arg(made.disk.path()).env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
    command
}

/// What was said, but for the size, which depends on the version of xz.
fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| !line.contains("(compressed)")).map(|line| format!("{line}\n")).collect()
}

/// Puts the disk together again with `program`, and compares.
fn assert_unpacks(program: &Path, osmet: &Path, made: &OstreeDisk, sector: u32) {
    let target = LoopDisk::new(made.disk.size(), sector, false);
    let mut command = Command::new(program);
    command.args(["dev", "extract", "osmet", "--osmet"]).arg(osmet).arg(made.repo()).arg(target.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", words(&output));
    let text = |path: PathBuf| path.display().to_string();
    run("cmp", &[&text(made.disk.path()), &text(target.path())]);
}

/// Each program unpacks what each packs.
#[test]
fn a_disk_is_packed_as_by_the_released_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let ours = path("coreos-installer");
    symlink(env!("CARGO_BIN_EXE_landfall"), &ours).unwrap();
    let peer = peer();
    for (sector, kind) in [(512, "ext4"), (4096, "ext4"), (512, "xfs"), (4096, "xfs")] {
        let Some(made) = OstreeDisk::new(sector, kind, "") else { return };
        made.disk.list_partitions();
        let _read_only = made.disk.read_only();
        let sum = made.sha256();
        let pack = |program, sum: &str, name| packing(program, &made, sum, &path(name)).arg("--fast").output().unwrap();
        let output = pack(&ours, &sum, "ours.osmet");
        assert!(output.status.success(), "{sector} {kind}: {}", words(&output));
        assert_unpacks(&ours, &path("ours.osmet"), &made, sector);
        // The image as a file, in the place of the first.
        let mut of_file = Command::new(&ours);
        of_file.args(["pack", "osmet", "--fast", "--checksum", &sum.to_uppercase(), "--description", "Test OS 1"]);
        let before = fs::read(path("ours.osmet")).unwrap();
        let of_file = of_file.arg("--output").arg(path("ours.osmet")).arg(made.disk.file()).output().unwrap();
        assert!(of_file.status.success(), "{sector} {kind}: {}", words(&of_file));
        assert!(fs::read(path("ours.osmet")).unwrap() == before, "{sector} {kind}");

        let Some(peer) = &peer else { continue };
        let theirs = pack(peer, &sum, "theirs.osmet");
        assert_eq!(made.sha256(), sum, "{sector} {kind}: the disk was changed");
        assert!(theirs.status.success(), "{sector} {kind}: {}", words(&theirs));
        assert_eq!(words(&output), words(&theirs), "{sector} {kind}");
        assert_unpacks(&ours, &path("theirs.osmet"), &made, sector);
        assert_unpacks(peer, &path("ours.osmet"), &made, sector);
        let bytes = |name| fs::metadata(path(name)).unwrap().len();
        println!("{sector} {kind}: {} bytes, and theirs {}", bytes("ours.osmet"), bytes("theirs.osmet"));
        // The sum of another disk.
        let wrong = "07".repeat(32);
        let (output, theirs) = (pack(&ours, &wrong, "wrong.osmet"), pack(peer, &wrong, "wrong.osmet"));
        assert_eq!((output.status.code(), words(&output)), (theirs.status.code(), words(&theirs)));
        assert!(!path("wrong.osmet").exists());
    }
}

#[test]
fn packing_that_is_interrupted_leaves_nothing() {
    let Some(made) = OstreeDisk::new(512, "xfs", "") else { return };
    let directory = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_landfall"));
    let mut child = packing(program, &made, &made.sha256(), &directory.path().join("a.osmet"));
    let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "Packing image"));
    run("kill", &["-INT", &child.id().to_string()]);
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("interrupted; no osmet file is left")), "{rest:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
