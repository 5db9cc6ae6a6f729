//! The program called as `rdcore`, by itself and beside the released one, where that is in PATH.
#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;
use testkit::{
    disk::{LoopDisk, MIB, run, skipped},
    skip,
};

const ENTRY: &str = "title x  \nversion 1\noptions rw quiet quiet root=UUID=1 a=b\nlinux /vmlinuz\n";
/// Ours, with the directory that holds its name.
fn ours() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("rdcore");
    symlink(env!("CARGO_BIN_EXE_landfall"), &program).unwrap();
    (dir, program)
}

fn theirs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join("rdcore")).find(|path| path.is_file());
    skip::unless("coreos-installer's rdcore in PATH", found.is_some()).then_some(found).flatten()
}

/// Exit code, standard output, standard error.
type Said = (Option<i32>, String, String);

fn say(program: &Path, args: &[&str], input: &str, dir: &Path) -> Said {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn boot() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let entries = dir.path().join("loader/entries");
    fs::create_dir_all(&entries).unwrap();
    fs::write(entries.join("ostree-1.conf"), "options old\n").unwrap();
    fs::write(entries.join("ostree-2.conf"), ENTRY).unwrap();
    dir
}

#[test]
fn every_command_explains_itself() {
    let (dir, program) = ours();
    let (code, help, _) = say(&program, &["--help"], "", dir.path());
    assert_eq!(code, Some(0));
    for command in ["rootmap", "bind-boot", "kargs", "stream-hash", "verify-unique-fs-label"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let (code, help, _) = say(&program, &[command, "--help"], "", dir.path());
        assert!(code == Some(0) && help.contains(&format!("Usage: rdcore {command}")), "{help}");
    }
    assert!(!help.contains("zipl"), "{help}");
    let (code, out, error) = say(&program, &["zipl", "--boot-mount", "/boot"], "", dir.path());
    assert!(code == Some(1) && out.is_empty() && error.contains("s390x"), "{error}");
    let (code, version, _) = say(&program, &["--version"], "", dir.path());
    assert!(code == Some(0) && version.starts_with("rdcore 0.27"), "{version}");
    assert_eq!(say(&program, &[], "", dir.path()).0, Some(2));
}

#[test]
fn the_last_entry_is_edited() {
    let (_dir, program) = ours();
    let boot = boot();
    let entry =
        |number: u32| fs::read_to_string(boot.path().join(format!("loader/entries/ostree-{number}.conf"))).unwrap();
    let kargs = |args: &[&str]| say(&program, &[&["kargs", "--boot-mount", "."], args].concat(), "", boot.path());
    let printed = |args: &str| (Some(0), format!("{args}\n"), String::new());
    assert_eq!(kargs(&["--create-if-changed", "changed"]), printed("rw quiet quiet root=UUID=1 a=b"));
    assert_eq!(entry(2), ENTRY, "without edits not even blanks go");
    let same = ["--should-exist", "rw", "--should-not-exist", "ro", "--create-if-changed", "changed"];
    assert_eq!(kargs(&same), printed("rw quiet quiet root=UUID=1 a=b"));
    assert!(!boot.path().join("changed").exists());
    let edits = ["--delete", "quiet", "--append", "a=b", "--append-if-missing", "rw", "--append-if-missing", "c"];
    assert_eq!(kargs(&[&edits[..], &same[4..]].concat()), printed("rw root=UUID=1 a=b a=b c"));
    assert!(boot.path().join("changed").exists());
    assert_eq!(entry(2), "title x\nversion 1\noptions rw root=UUID=1 a=b a=b c\nlinux /vmlinuz\n");
    assert_eq!(entry(1), "options old\n");

    fs::write(boot.path().join("loader/entries/ostree-3.conf"), "title y\n").unwrap();
    let (code, _, error) = kargs(&["--append", "x"]);
    assert!(code == Some(1) && error.contains("Couldn't locate 'options' line"), "{error}");
    let (code, _, error) = say(&program, &["kargs", "--boot-mount", "/nowhere"], "", boot.path());
    assert!(code == Some(1) && error.contains("Found no BLS entries in /nowhere/loader/entries"), "{error}");
}

#[test]
fn the_running_kernels_arguments_are_printed() {
    let (dir, program) = ours();
    let (code, out, _) = say(&program, &["kargs", "--current", "--append", "landfall"], "", dir.path());
    let line = fs::read_to_string("/proc/cmdline").unwrap();
    assert_eq!((code, out), (Some(0), format!("{} landfall\n", line.trim()).trim_start().to_owned()));
}

/// Command lines whose answer is the released program's, with what they read.
const SAME: &[(&[&str], &str)] = &[
    (&["kargs"], ""),
    (&["kargs", "--append", "x"], ""),
    (&["kargs", "--override-options", " a b  c "], ""),
    (&["kargs", "--override-options", "a b c", "--append", "b", "--delete", "b"], ""),
    (&["kargs", "--override-options", "a b c", "--append-if-missing", "b", "--append-if-missing", " d "], ""),
    (&["kargs", "--override-options", "a b c", "--should-not-exist", "a b", "--should-exist", "bc"], ""),
    (&["kargs", "--override-options", "", "--append", "x"], ""),
    (&["kargs", "--override-options", "a", "--delete", "a"], ""),
    (&["kargs", "--override-options", "a b a c a", "--delete", "a"], ""),
    (&["stream-hash", "pieces"], "land"),
    (&["stream-hash", "pieces"], "lamd"),
    (&["stream-hash", "pieces"], ""),
    (&["stream-hash", "pieces"], "landfall"),
    (&["stream-hash", "empty"], ""),
    (&["stream-hash", "other"], "land"),
    (&["stream-hash", "zero"], "land"),
    (&["stream-hash", "large"], "land"),
    (&["stream-hash", "broken"], "land"),
];

fn material() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let sum = Command::new("sh").args(["-c", "printf land | sha256sum | cut -d' ' -f1"]).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    for (name, text) in [
        ("pieces", format!("stream-hash sha256 4\n{sum}")),
        ("wrong", format!("stream-hash sha256 4\n{}\n", "0".repeat(64))),
        ("empty", String::new()),
        ("other", "stream-hash sha512 4\n".to_owned()),
        ("zero", "stream-hash sha256 0\n".to_owned()),
        ("large", "stream-hash sha256 67108865\n".to_owned()),
        ("broken", "stream hash\n".to_owned()),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[test]
fn data_passes_up_to_the_first_wrong_piece() {
    let (_dir, program) = ours();
    let material = material();
    assert_eq!(
        say(&program, &["stream-hash", "pieces"], "land", material.path()),
        (Some(0), "land".into(), String::new())
    );
    let (code, out, error) = say(&program, &["stream-hash", "pieces"], "landfall", material.path());
    assert_eq!((code, &*out, &*error), (Some(1), "land", "Error: found extra input data at offset 4\n"));
    let (code, out, error) = say(&program, &["stream-hash", "wrong"], "land", material.path());
    assert!(code == Some(1) && out.is_empty() && error.starts_with("Error: hash mismatch at offset 0; "), "{error}");
    let (code, _, error) = say(&program, &["stream-hash", "missing"], "", material.path());
    assert!(code == Some(1) && error.starts_with("Error: opening missing\n"), "{error}");
}

#[test]
fn the_released_program_says_the_same() {
    let Some(theirs) = theirs() else { return };
    let (_dir, ours) = ours();
    let material = material();
    for (args, input) in SAME {
        let [ours, theirs] = [&ours, &theirs].map(|program| say(program, args, input, material.path()));
        assert_eq!(ours, theirs, "{args:?} {input:?}");
    }
    // The released program takes mount points alone.
    if !skip::unless("root", nix::unistd::geteuid().is_root()) {
        return;
    }
    let boot = boot();
    let place = boot.path().display();
    let edits = "--delete quiet --append x --append-if-missing rw --append-if-missing y";
    let [ours, theirs] = [&ours, &theirs].map(|program| {
        let script = format!(
            "mount -t tmpfs none /mnt && cp -r {place}/. /mnt && {} kargs --boot-mount /mnt --create-if-changed /mnt/new {edits} \
             && cat /mnt/loader/entries/*.conf && ls /mnt",
            program.display()
        );
        say(Path::new("unshare"), &["--mount", "sh", "-c", &script], "", boot.path())
    });
    // The released program leaves one of two neighbours.
    assert_eq!((ours.0, ours.1), (theirs.0, theirs.1.replace("rw quiet ", "rw ")));
}

fn formatted(label: &str, uuid: &str) -> LoopDisk {
    let disk = LoopDisk::new(16 * MIB, 512, false);
    run("mke2fs", &["-q", "-F", "-t", "ext4", "-L", label, "-U", uuid, &disk.path().display().to_string()]);
    disk
}

const FIRST: &str = "11111111-2222-3333-4444-555555555555";
const SECOND: &str = "99999999-8888-7777-6666-555555555555";

#[test]
fn a_label_is_counted_on_the_devices_of_this_machine() {
    if skipped() {
        return;
    }
    let (dir, program) = ours();
    let label = format!("lf{}", std::process::id());
    let verify = || say(&program, &["verify-unique-fs-label", "--rereadpt", &label], "", dir.path());
    let none = format!("Error: System has 0 devices with a filesystem labeled '{label}': []\n");
    assert_eq!(verify(), (Some(1), String::new(), none));
    let first = formatted(&label, FIRST);
    assert_eq!(verify(), (Some(0), String::new(), String::new()));
    {
        let _same = formatted(&label, FIRST);
        assert_eq!(verify().0, Some(0));
    }
    let second = formatted(&label, SECOND);
    let (code, _, error) = verify();
    assert!(code == Some(1) && error.starts_with("Error: System has 2 devices"), "{error}");
    assert!(error.contains(&first.name()) && error.contains(&second.name()), "{error}");
}

#[test]
fn boot_is_bound_to_the_root_that_is_mounted() {
    if skipped() {
        return;
    }
    let (dir, program) = ours();
    let (boot, root) = (formatted("boot", FIRST), formatted("root", SECOND));
    let from = self::boot();
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/boot /run/root && mount {} /run/boot && mount -t tmpfs none /run/root \
         && mkdir /run/root/sysroot && mount {} /run/root/sysroot && cp -r {}/. /run/boot && mkdir /run/boot/grub2 \
         && PROGRAM bind-boot /run/root /run/boot && PROGRAM bind-boot /run/root /run/boot && cd /run \
         && cat coreos/bootfs_uuid boot/.root_uuid boot/grub2/bootuuid.cfg && grep options boot/loader/entries/ostree-2.conf \
         && PROGRAM rootmap /run/root",
        boot.path().display(),
        root.path().display(),
        from.path().display(),
    );
    let script = script.replace("PROGRAM", &program.display().to_string());
    let (code, out, error) = say(Path::new("unshare"), &["--mount", "sh", "-c", &script], "", dir.path());
    let bound = format!(
        "{FIRST}\n{SECOND}\nset BOOT_UUID=\"{FIRST}\"\noptions rw quiet quiet root=UUID=1 a=b boot=UUID={FIRST}\n"
    );
    assert_eq!(out, bound, "{error}");
    // No initramfs sets a loop device up.
    assert_eq!(
        (code, error.as_str()),
        (Some(1), "Error: Configuring rootmap\n\nCaused by:\n    unknown block device type loop\n")
    );
}
