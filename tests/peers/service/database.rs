//! PostgreSQL of a scenario's own: in a temporary directory, as an unprivileged user, reached by a socket in that directory.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

const NOBODY: u32 = 65534;
pub(crate) const USER: &str = "admin";
pub(crate) const PORT: &str = "5432";

pub(crate) struct Database {
    server: Child,
    directory: TempDir,
}

/// The newest of Debian's directories with its programs.
fn programs() -> Option<PathBuf> {
    let entries = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    entries.filter(|bin| bin.join("initdb").exists() && bin.join("postgres").exists()).max()
}

/// Whether it is installed here.
pub(crate) fn is_there() -> bool {
    programs().is_some()
}

fn command(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY).current_dir(directory).env_clear().env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null());
    command
}

impl Database {
    pub(crate) fn start() -> Self {
        let programs = programs().expect("PostgreSQL is installed");
        // A socket's path must be short.
        let directory = tempfile::Builder::new().prefix("peers-pg-").tempdir_in("/tmp").unwrap();
        std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let (data, log) = (directory.path().join("data"), directory.path().join("log"));
        let mut initdb = command(&programs.join("initdb"), directory.path());
        initdb.args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--username", USER, "--pgdata"]).arg(&data);
        let output = initdb.output().unwrap();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let mut postgres = command(&programs.join("postgres"), directory.path());
        postgres.arg("-D").arg(&data).arg("-k").arg(directory.path()).args(["-c", "listen_addresses=", "-F"]);
        let log_file = File::create(&log).unwrap();
        let server = postgres.stdout(log_file.try_clone().unwrap()).stderr(log_file).spawn().unwrap();
        let mut database = Self { server, directory };
        for _ in 0..3000 {
            if fs::read_to_string(&log).unwrap().contains("database system is ready to accept connections") {
                database.create(&programs);
                return database;
            }
            assert!(database.server.try_wait().unwrap().is_none(), "{}", fs::read_to_string(&log).unwrap());
            thread::sleep(Duration::from_millis(20));
        }
        panic!("PostgreSQL does not start: {}", fs::read_to_string(&log).unwrap());
    }

    fn create(&self, programs: &Path) {
        let mut createdb = command(&programs.join("createdb"), self.directory.path());
        createdb.arg("-h").arg(self.directory.path()).args(["-p", PORT, "-U", USER, "installer"]);
        assert!(createdb.status().unwrap().success());
    }

    /// What a client calls its host.
    pub(crate) fn socket_directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Its own processes end with it at once.
        let pid = nix::unistd::Pid::from_raw(self.server.id().try_into().unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT);
        let _ = self.server.wait();
    }
}
