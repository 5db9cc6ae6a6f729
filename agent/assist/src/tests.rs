//! A process with an assistant, under Landlock: it may execute and mount nothing itself.

use super::*;
use landlock::{ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr};
use nix::{errno::Errno, mount::MsFlags, sys::signal::Signal};
use std::{
    env, fs,
    io::{self, Read},
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
};
use testkit::{
    disk::Loop,
    wait::{comes, found},
};

const SHELL: Program =
    Program { name: "/bin/sh", arguments: &[&["-c", "*"], &["-s", "**"]], variables: &["GIVEN", "HOME"] };
const KARGS: Program =
    Program { name: "/bin/kargs", arguments: &[&["*", "--karg **", "end", "--not **"]], variables: &[] };
const DIRECTORY: &str = "LANDFALL_TEST_DIRECTORY";
const PART: &str = "LANDFALL_TEST_PART";

fn start_with(program: &str, arguments: &[&str], set: &[(&str, &str)]) -> wire::Start {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let environment = set.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
    wire::Start { program: program.to_owned(), arguments: owned(arguments), environment, place: Place::default() }
}

#[test]
fn a_table_allows_what_is_in_it() {
    let table = Table {
        programs: vec![SHELL, KARGS],
        roots: vec!["/host".into()],
        remounts: vec!["/boot".into()],
        disks: vec!["/dev/vda".into()],
        mount_points: &["/mnt"],
    };
    let allows = |program: &str, arguments: &[&str]| table.allows_start(&start_with(program, arguments, &[]));
    assert!(allows("/bin/sh", &["-c", "true"]) && allows("/bin/sh", &["-s", "x", "y"]) && allows("/bin/sh", &["-s"]));
    for arguments in [&["-c"][..], &["-c", "-x"], &["-c", "a", "b"], &["-s", "x", "-y"], &["c"], &[]] {
        assert!(!allows("/bin/sh", arguments), "{arguments:?}");
    }
    let kargs = |arguments: &[&str]| allows("/bin/kargs", arguments);
    assert!(kargs(&["/mnt", "end"]) && kargs(&["/mnt", "--karg", "a", "--karg", "-b", "end", "--not", "c"]));
    for arguments in [&["/mnt"][..], &["/mnt", "--karg", "end"], &["/mnt", "--root", "/", "end"], &["-x", "end"]] {
        assert!(!kargs(arguments), "{arguments:?}");
    }
    assert!(!allows("sh", &["-c", "true"]) && !allows("/bin/bash", &["-c", "true"]));
    assert!(table.allows_start(&start_with("/bin/sh", &["-s"], &[("GIVEN", "x")])));
    assert!(!table.allows_start(&start_with("/bin/sh", &["-s"], &[("GIVEN", "x"), ("LD_PRELOAD", "x")])));
    let in_root = |root: &str, writable_boot| {
        let place = Place { own_group: false, root: Some(root.into()), writable_boot };
        table.allows_start(&wire::Start { place, ..start_with("/bin/sh", &["-s"], &[]) })
    };
    assert!(in_root("/host", true) && in_root("/", false) && !in_root("/tmp", false) && !in_root("/host/x", false));
    let remount = MsFlags::MS_REMOUNT.bits();
    assert!(table.allows_remount(Path::new("/boot"), remount | MsFlags::MS_NOSUID.bits()));
    assert!(!table.allows_remount(Path::new("/"), remount) && !table.allows_remount(Path::new("/boot"), 0));
    assert!(!table.allows_remount(Path::new("/boot"), remount | MsFlags::MS_BIND.bits()));
    let mounts = |device: &str, at: &str, kind: &str, flags: MsFlags| {
        let mount = wire::Mount { device: device.into(), at: at.into(), kind: kind.into(), flags: flags.bits() };
        table.allows_mount(&mount, |device, disks| {
            disks == [PathBuf::from("/dev/vda")] && device == Path::new("/dev/vda3")
        })
    };
    assert!(mounts("/dev/vda3", "/mnt/x", "xfs", MsFlags::MS_NODEV));
    assert!(!mounts("/dev/vdb1", "/mnt/x", "xfs", MsFlags::empty()));
    assert!(!mounts("/dev/vda3", "/mnt/../etc", "xfs", MsFlags::empty()));
    assert!(!mounts("/dev/vda3", "/etc", "xfs", MsFlags::empty()));
    assert!(!mounts("/dev/vda3", "/mnt/x", "overlay", MsFlags::empty()));
    assert!(!mounts("/dev/vda3", "/mnt/x", "xfs", MsFlags::MS_BIND));
    assert!(!Table::default().allows_start(&start_with("/bin/sh", &["-s"], &[])));
}

/// Reads and changes what is in these trees; nothing else, no program, no mount.
fn confine(trees: &[&Path]) {
    let all = AccessFs::from_all(ABI::V1);
    let mut ruleset = Ruleset::default().handle_access(all).unwrap().create().unwrap();
    for tree in trees {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(tree).unwrap(), all ^ AccessFs::Execute)).unwrap();
    }
    ruleset.restrict_self().unwrap();
}

fn wait(child: &mut Child) -> ExitStatus {
    found(|| child.try_wait().unwrap()).expect("it ends")
}

fn start_shell(script: &str, place: Place) -> io::Result<(Child, io::PipeReader)> {
    let (reader, writer) = io::pipe()?;
    let outputs: [OwnedFd; 2] = [writer.try_clone()?.into(), writer.into()];
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).env("GIVEN", "given").env_remove("HOME");
    start(&command, place, outputs).map(|child| (child, reader))
}

fn shell(script: &str) -> (String, ExitStatus) {
    let (mut child, mut reader) = start_shell(script, Place::default()).unwrap();
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    (said, wait(&mut child))
}

/// Starts this test program again for one of the tests that are marked as ignored.
fn part(name: &str, directory: &Path) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([&format!("tests::{name}"), "--exact", "--ignored", "--nocapture"]).env(DIRECTORY, directory);
    let output = command.env(PART, name).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn directory() -> PathBuf {
    env::var_os(DIRECTORY).unwrap().into()
}

fn is_root() -> bool {
    testkit::skip::unless("root", nix::unistd::geteuid().is_root())
}

#[test]
fn programs_come_from_the_assistant() {
    part("programs", tempfile::tempdir().unwrap().path());
}

#[test]
#[ignore = "the process of the test before"]
fn programs() {
    let (us, directory) = (std::process::id(), directory());
    fork(Table { programs: vec![SHELL], ..Table::default() }).unwrap();
    confine(&[&directory, Path::new("/dev")]);
    assert_eq!(Command::new("/bin/sh").status().unwrap_err().raw_os_error(), Some(libc::EACCES));
    let (said, status) = shell("echo out; echo err >&2; echo $GIVEN ${HOME-none}; exit 3");
    assert_eq!((said.as_str(), status.code()), ("out\nerr\ngiven none\n", Some(3)));
    let (parent, _) = shell("echo $PPID");
    assert_ne!(parent.trim(), us.to_string(), "it is the assistant's");
    let refused = start(&Command::new("/bin/true"), Place::default(), [null(), null()]).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    assert_eq!(remount(Path::new("/"), MsFlags::MS_REMOUNT).unwrap_err().raw_os_error(), Some(libc::EPERM));
    // A group is ended, and a tree of which the first signal makes a part orphans.
    let place = Place { own_group: true, ..Place::default() };
    let (mut child, mut reader) = start_shell("sleep 1000 & sleep 1000", place.clone()).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    child.signal_group(Signal::SIGKILL).unwrap();
    assert_eq!(wait(&mut child).signal(), Some(libc::SIGKILL));
    // The sleepers have the pipe, too.
    reader.read_to_end(&mut Vec::new()).unwrap();
    let script =
        format!("sh -c 'trap \"\" TERM; touch {}/there; sleep 1000 & wait; sleep 1000' & wait", directory.display());
    let (mut child, mut reader) = start_shell(&script, Place::default()).unwrap();
    assert!(comes(|| directory.join("there").exists()));
    child.signal_tree(Signal::SIGTERM).unwrap();
    assert_eq!(wait(&mut child).signal(), Some(libc::SIGTERM));
    assert!(child.tree_runs().unwrap());
    child.signal_tree(Signal::SIGKILL).unwrap();
    assert!(comes(|| !child.tree_runs().unwrap()));
    reader.read_to_end(&mut Vec::new()).unwrap();
    // Of many at a time some are refused, and none of them is in the way later.
    let many: Vec<_> = (0..100).map(|_| start_shell("sleep 1000", place.clone())).collect();
    let is_late = |error: &io::Error| error.raw_os_error() == Some(libc::EAGAIN);
    assert!(many.iter().flat_map(|got| got.as_ref().err()).all(is_late) && many.iter().any(Result::is_err));
    for (mut child, _) in many.into_iter().flatten() {
        child.signal_group(Signal::SIGKILL).unwrap();
        wait(&mut child);
    }
    assert_eq!(shell("exit 7").1.code(), Some(7));
}

fn null() -> OwnedFd {
    fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into()
}

#[test]
fn an_assistant_ends_with_its_step_and_not_by_the_groups_signals() {
    part("ends", tempfile::tempdir().unwrap().path());
}

#[test]
#[ignore = "the process of the test before"]
fn ends() {
    // The assistant's parent is a step that is killed.
    let (mut reader, writer) = io::pipe().unwrap();
    let Some(step) = kernel::fork::fork().unwrap() else {
        fork(Table { programs: vec![SHELL], ..Table::default() }).unwrap();
        let (said, _) = shell("kill -TERM $PPID; kill -INT $PPID; echo $PPID");
        // Still there.
        let (again, _) = shell("echo $PPID");
        let text = if said == again { said } else { format!("{said} then {again}") };
        io::Write::write_all(&mut &writer, text.as_bytes()).unwrap();
        nix::sys::signal::raise(Signal::SIGKILL).unwrap();
        kernel::fork::exit()
    };
    drop(writer);
    let mut said = String::new();
    // Until nobody has the other end: neither the step nor its assistant.
    reader.read_to_string(&mut said).unwrap();
    let assistant: i32 = said.trim().parse().unwrap();
    nix::sys::wait::waitpid(step, None).unwrap();
    // Its files are closed a moment before it has ended.
    assert!(comes(|| tree::Process::read(assistant).is_none()));
}

#[test]
fn what_is_not_a_request_ends_the_assistant() {
    for garbage in [&b"{}"[..], b"[", br#"{"Status":-1}"#, br#"{"Remount":{"path":"/","flags":0,"more":1}}"#, b"\0"] {
        let (step, assistant) = server::pair().unwrap();
        nix::sys::socket::send(std::os::fd::AsRawFd::as_raw_fd(&step), garbage, nix::sys::socket::MsgFlags::empty())
            .unwrap();
        let table = Table::default();
        let ended = server::Server::new(&table, false).serve(std::os::fd::AsFd::as_fd(&assistant));
        assert!(ended.is_err(), "{garbage:?}");
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn partitions_are_mounted_where_only_the_step_and_its_programs_see_them() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("disk");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
    let disk = Loop::over(&image, &[]);
    let partition = Loop::over(disk.node(), &[]);
    fs::create_dir(directory.path().join("mnt")).unwrap();
    fs::write(directory.path().join("devices"), format!("{} {}", disk.node().display(), partition.node().display()))
        .unwrap();
    part("mounts", directory.path());
    assert!(run("debugfs", &["-R", "cat /file", partition.node().to_str().unwrap()]).ends_with("content"));
}

#[test]
#[ignore = "the process of the test before"]
fn mounts() {
    let directory = directory();
    let devices = fs::read_to_string(directory.join("devices")).unwrap();
    let (disk, partition) = devices.split_once(' ').unwrap();
    let table = Table { programs: vec![SHELL], disks: vec![disk.into()], mount_points: &["/tmp"], ..Table::default() };
    // Opened before, as rules let a step open its own disk.
    let [opened, other] = [disk, partition].map(|path| fs::File::open(path).unwrap());
    fork(table).unwrap();
    confine(&[&directory, Path::new("/dev/null")]);
    let refused = bind_loop(&other, 0, 4096).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "another disk");
    let (path, bound) = bind_loop(&opened, 4096, 8192).unwrap();
    assert_eq!(std::os::unix::fs::FileExt::read_at(&bound, &mut [0; 1 << 14], 0).unwrap(), 8192, "{}", path.display());
    drop(bound);
    let at = directory.join("mnt");
    assert_eq!(
        nix::mount::mount(Some(partition), &at, Some("ext4"), MsFlags::empty(), None::<&str>),
        Err(Errno::EPERM)
    );
    let inside = || {
        let mounts = PrivateMounts::enter().unwrap();
        let mount = |device: &str, at: &Path| mounts.mount(Path::new(device), at, "ext4", MsFlags::MS_NODEV);
        assert_eq!(mount(disk, &at), Err(Errno::EPERM), "the disk itself is no part of it");
        assert_eq!(mount("/dev/loop-control", &at), Err(Errno::EPERM));
        assert_eq!(mount(partition, Path::new("/etc")), Err(Errno::EPERM));
        mount(partition, &at).unwrap();
        fs::write(at.join("file"), "content").unwrap();
        let (seen, _) = shell(&format!("cat {}/file", at.display()));
        assert_eq!(mounts.unmount(Path::new("/proc")), Err(Errno::EPERM), "only what it has mounted");
        let open = fs::File::open(at.join("file")).unwrap();
        assert_eq!(mounts.unmount(&at), Err(Errno::EBUSY));
        drop(open);
        mounts.unmount(&at).unwrap();
        (seen, at.join("file").exists())
    };
    let outside = || shell(&format!("ls {}", at.display())).0;
    let before = outside();
    let got = thread::scope(|scope| scope.spawn(inside).join().unwrap());
    assert_eq!(got, ("content".to_owned(), false));
    assert_eq!((before, outside()), (String::new(), String::new()));
}

#[test]
fn private_mounts_keep_a_chroot() {
    if is_root() {
        part("chrooted", tempfile::tempdir().unwrap().path());
    }
}

#[test]
#[ignore = "the process of the test before"]
fn chrooted() {
    use nix::{
        mount::mount,
        sched::{CloneFlags, unshare},
        unistd::chroot,
    };
    const NONE: Option<&str> = None;
    let directory = directory();
    let inside = move || {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).unwrap();
        mount(Some("/"), &directory, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE).unwrap();
        mount(Some("none"), &directory.join("mnt"), Some("tmpfs"), MsFlags::empty(), NONE).unwrap();
        fs::write(directory.join("mnt/mark"), "").unwrap();
        chroot(&directory).unwrap();
        env::set_current_dir("/").unwrap();
        fork(Table { mount_points: &["/tmp"], ..Table::default() }).unwrap();
        let marked = || PrivateMounts::enter().map(|_| Path::new("/mnt/mark").exists());
        thread::scope(|scope| scope.spawn(marked).join().unwrap()).unwrap()
    };
    assert!(thread::spawn(inside).join().unwrap());
}
