//! A root file system of its own: Debian's files as `make setup` unpacks them for a live system, and empty databases of packages.

use crate::packages::run;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};
use tempfile::TempDir;

/// What packages do not leave: the databases and the log of dpkg and rpm, and what is gone with the next start.
const NOT_COMPARED: [&str; 4] = ["var/lib/dpkg/", "var/log/dpkg.log", "var/lib/rpm/", "run/"];
/// Where rpm of every distribution finds its database in these roots.
const RPM_DATABASE: &str = "/var/lib/rpm";

/// A package of nothing: rpm looks for a shell in its database alone.
const SHELL_SPEC: &str = "\
Name: shell
Version: 1
Release: 1
Summary: The shell that is there
License: none
BuildArch: noarch
Provides: /bin/sh
%description
%summary
%files
";

/// Starts systemd as the first process of namespaces of its own, with the root `$1`, for the unit `check.service`.
const BOOT: &str = r#"
set -eu
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs dev
mkdir dev/pts dev/shm dev/mqueue dev/hugepages
while read -r name major minor; do mknod -m 666 "dev/$name" c "$major" "$minor"; done << 'END'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
END
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
ip link set lo up
mkdir -p old
pivot_root . old
exec env -i container=test PATH=/usr/sbin:/usr/bin sh -c 'umount -l /old && exec /lib/systemd/systemd --unit=check.target'
"#;
const CHECK_TARGET: &str = "\
[Unit]
DefaultDependencies=no
Wants=check.service dbus.socket systemd-journald.service
After=check.service
";
const CHECK_SERVICE: &str = "\
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh /check
StandardOutput=file:/check.log
StandardError=journal
ExecStopPost=/bin/systemctl --force exit
";

/// Made once for all tests.
static PATTERN: LazyLock<PathBuf> = LazyLock::new(Root::make_pattern);

pub(crate) struct Root(TempDir);

/// Each path with its mode, and what it is: a length, or a link's target.
pub(crate) type Files = BTreeMap<String, (u32, String)>;

impl Root {
    /// Where the files are; `None`, with the reason printed, where nobody has unpacked them.
    pub(crate) fn source() -> Option<PathBuf> {
        testkit::net::programs::packages_of("coreos")
    }

    pub(crate) fn new() -> Self {
        // Links: packages replace files, and write into none that is not theirs.
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        run(Command::new("cp").arg("-al").arg(PATTERN.join(".")).arg(root.path()));
        Self(root)
    }

    /// What all roots are made of.
    fn make_pattern() -> PathBuf {
        let source = Self::source().unwrap();
        let unpacked = fs::metadata(source.join(".done")).unwrap();
        let (seconds, nanoseconds) = (unpacked.mtime().to_le_bytes(), unpacked.mtime_nsec().to_le_bytes());
        let inputs = [source.as_os_str().as_bytes(), &seconds, &nanoseconds, include_bytes!("root.rs")];
        testkit::kept::directory_of("packages-root", &inputs, |pattern| Self::fill_pattern(&source, pattern))
    }

    fn fill_pattern(source: &Path, pattern: &Path) {
        let at = |path: &str| pattern.join(path);
        run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(source.join(".")).arg(pattern));
        // As every distribution of today has it.
        for name in ["bin", "sbin", "lib", "lib64"] {
            let (top, below) = (at(name), at("usr").join(name));
            fs::create_dir_all(&below).unwrap();
            run(Command::new("cp").arg("-al").arg(top.join(".")).arg(&below));
            fs::remove_dir_all(&top).unwrap();
            symlink(Path::new("usr").join(name), &top).unwrap();
        }
        for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/rpm"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        fs::write(at("var/lib/dpkg/status"), "").unwrap();
        fs::write(at("var/lib/dpkg/available"), "").unwrap();
        fs::write(at("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
        run(Command::new("mknod").args(["-m", "666"]).arg(at("dev/null")).args(["c", "1", "3"]));
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, target: &str, path: &str) {
        symlink(target, self.path(path)).unwrap();
    }

    pub(crate) fn dpkg(&self) -> Command {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", self.0.path().display())).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    pub(crate) fn rpm(&self) -> Command {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(self.0.path()).args(["--dbpath", RPM_DATABASE]).env("LC_ALL", "C");
        command
    }

    /// Tells rpm of the shell; the files from then on.
    pub(crate) fn with_shell_in_rpm(&self) -> Files {
        let work = tempfile::tempdir().unwrap();
        let spec = work.path().join("shell.spec");
        fs::write(&spec, SHELL_SPEC).unwrap();
        let mut build = Command::new("rpmbuild");
        build.args(["-bb", "--quiet", "--define"]).arg(format!("_topdir {}", work.path().display()));
        run(build.args(["--define", "_rpmfilename shell.rpm"]).arg(&spec));
        run(self.rpm().arg("--install").arg(work.path().join("RPMS/shell.rpm")));
        self.files()
    }

    /// The first word of a command to run in it is to be added.
    pub(crate) fn chroot(&self) -> Command {
        let mut command = Command::new("chroot");
        command.arg(self.0.path()).args(["env", "-i", "LC_ALL=C", "PATH=/usr/sbin:/usr/bin"]);
        command
    }

    /// What the package has of programs starts there, where there are no libraries of theirs.
    pub(crate) fn check_programs(&self, package: &str) {
        let expected = format!(" {}\n", env!("CARGO_PKG_VERSION"));
        let host = if package == "landfall" { Some("/usr/lib/landfall/landfall-host") } else { None };
        for program in std::iter::once("landfall").chain(host) {
            let version = run(self.chroot().args([program, "--version"]));
            assert!(version.ends_with(&expected), "{package}: {program}: {version}");
        }
    }

    /// systemd has nothing to say of the units.
    pub(crate) fn check_units(&self, units: &[&str]) {
        for unit in units {
            let output = self.chroot().args(["systemd-analyze", "verify", "--man=no", unit]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{unit}: {text}");
            assert!(!text.lines().any(|line| line.contains(unit)), "{text}");
        }
    }

    /// Units that are enabled in /etc.
    pub(crate) fn enabled(&self) -> Vec<String> {
        let wants = fs::read_dir(self.path("etc/systemd/system/multi-user.target.wants"));
        let names = wants.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("landfall") || name.starts_with("agent")).collect()
    }

    pub(crate) fn files(&self) -> Files {
        let mut files = Files::new();
        collect(self.0.path(), self.0.path(), &mut files);
        files
    }

    /// Lines of what came, went, or changed.
    pub(crate) fn difference(&self, before: &Files) -> Vec<String> {
        let after = self.files();
        let gone =
            before.iter().filter(|(path, what)| after.get(*path) != Some(what)).map(|entry| format!("- {entry:?}"));
        let come =
            after.iter().filter(|(path, what)| before.get(*path) != Some(what)).map(|entry| format!("+ {entry:?}"));
        gone.chain(come).collect()
    }

    /// Boots it with systemd, in namespaces of its own, and runs a script there; what it prints.
    pub(crate) fn boot(&self, script: &str) -> String {
        self.write("check", script);
        self.write("etc/systemd/system/check.target", CHECK_TARGET);
        self.write("etc/systemd/system/check.service", CHECK_SERVICE);
        let mut machine = Command::new("timeout");
        machine.args([
            "--signal",
            "KILL",
            "600",
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--uts",
            "--ipc",
            "--net",
        ]);
        machine.args(["--cgroup", "bash", "-c", BOOT, "boot"]).arg(self.0.path());
        run(machine.stdin(Stdio::null()));
        fs::read_to_string(self.path("check.log")).unwrap()
    }
}

fn collect(top: &Path, directory: &Path, files: &mut Files) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(top).unwrap().display().to_string();
        if NOT_COMPARED.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let meta = path.symlink_metadata().unwrap();
        let what = if meta.is_dir() {
            collect(top, &path, files);
            String::new()
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            meta.len().to_string()
        };
        files.insert(name, (meta.mode(), what));
    }
}
