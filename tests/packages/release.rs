//! A release made for these tests, and what its packages have in them.

use crate::packages::{root::Root, run};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

/// Made once for all tests of a run; `None`, with the reason printed, where it can't be.
pub(crate) static RELEASE: LazyLock<Option<Release>> = LazyLock::new(Release::make);

pub(crate) struct Release(PathBuf);

/// A file of a package, by what both kinds of packages say of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    File { mode: u32, sha256: String },
    Link { target: String },
}

impl Release {
    fn make() -> Option<Self> {
        let program = std::env::var_os("LANDFALL_BIN").map(PathBuf::from);
        let able = program.is_some() && nix::unistd::geteuid().is_root();
        if !testkit::skip::unless("LANDFALL_BIN, the static program, and root", able) {
            return None;
        }
        let found =
            |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
        if !["dpkg", "rpm", "rpmbuild"].into_iter().all(|tool| testkit::skip::unless(tool, found(tool))) {
            return None;
        }
        // All that the tests need is there, or none of them runs.
        Root::source()?;
        let program = program?;
        // Each of its tests may be a process of its own.
        let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
        let work = testkit::kept::directory_of("packages", &[run.as_bytes()], |work| Self::make_in(work, &program));
        Some(Self(work.join("dist")))
    }

    fn make_in(work: &Path, program: &Path) {
        let programs = work.join("programs/x86_64-unknown-linux-musl/release");
        fs::create_dir_all(&programs).unwrap();
        // Where the host's program has not been built, the whole one is put in its place.
        let beside = program.with_file_name("landfall-host");
        fs::copy(program, programs.join("landfall")).unwrap();
        fs::copy(if beside.is_file() { &beside } else { program }, programs.join("landfall-host")).unwrap();

        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut dist = Command::new(top.join(".ci/dist"));
        dist.arg(work.join("dist")).env("DIST_PROFILE", "quick").env("DIST_PROGRAMS", work.join("programs"));
        // The tests' own build is there, with what makes the bills.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        run(dist.env("CARGO_TARGET_DIR", target));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn deb(&self, name: &str) -> String {
        format!("{name}_{}-1_amd64.deb", env!("CARGO_PKG_VERSION"))
    }

    pub(crate) fn rpm(&self, name: &str) -> String {
        format!("{name}-{}-1.x86_64.rpm", env!("CARGO_PKG_VERSION"))
    }

    /// All but directories, each of which is root's.
    pub(crate) fn deb_entries(&self, name: &str) -> BTreeMap<String, Entry> {
        let dir = tempfile::tempdir().unwrap();
        run(Command::new("dpkg-deb").arg("-x").arg(self.path(&self.deb(name))).arg(dir.path()));
        for line in run(Command::new("dpkg-deb").arg("-c").arg(self.path(&self.deb(name)))).lines() {
            assert_eq!(line.split_whitespace().nth(1), Some("root/root"), "{line}");
        }
        let mut entries = BTreeMap::new();
        collect(dir.path(), dir.path(), &mut entries);
        entries
    }

    /// The same, by what rpm has written down.
    pub(crate) fn rpm_entries(&self, name: &str) -> BTreeMap<String, Entry> {
        let format = "[%{FILENAMES}\\t%{FILEMODES:octal}\\t%{FILEUSERNAME}/%{FILEGROUPNAME}\\t%{FILEDIGESTS}\\t%{FILELINKTOS}\\n]";
        let list = run(Command::new("rpm").args(["-qp", "--queryformat", format]).arg(self.path(&self.rpm(name))));
        let entry = |line: &str| {
            let fields: Vec<_> = line.split('\t').collect();
            let [path, mode, owner, sha256, target] = fields[..] else { panic!("{line}") };
            assert_eq!(owner, "root/root", "{line}");
            let mode = u32::from_str_radix(mode, 8).unwrap();
            match mode >> 12 {
                0o10 => Some((path.to_owned(), Entry::File { mode: mode & 0o7777, sha256: sha256.to_owned() })),
                0o12 => Some((path.to_owned(), Entry::Link { target: target.to_owned() })),
                _ => None,
            }
        };
        list.lines().filter_map(entry).collect()
    }
}

fn collect(top: &Path, directory: &Path, entries: &mut BTreeMap<String, Entry>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let name = format!("/{}", path.strip_prefix(top).unwrap().display());
        if meta.is_dir() {
            collect(top, &path, entries);
        } else if meta.is_symlink() {
            entries.insert(name, Entry::Link { target: fs::read_link(&path).unwrap().display().to_string() });
        } else {
            let sha256 = crate::packages::sha256(&fs::read(&path).unwrap());
            entries.insert(name, Entry::File { mode: meta.permissions().mode() & 0o7777, sha256 });
        }
    }
}
