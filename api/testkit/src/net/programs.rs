//! Real servers, from packages that `make setup` unpacks beside the build. Each runs in a namespace of ours and ends with its test.

use super::Namespace;
use crate::{skip, wait};
use std::{
    ffi::OsStr,
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Where the packages are; `None`, with the reason printed, if they are not unpacked.
pub fn packages() -> Option<PathBuf> {
    packages_of("servers")
}

/// The same of another group of packages.
pub fn packages_of(group: &str) -> Option<PathBuf> {
    // A test's program lies in the directory that all is built in.
    let program = std::env::current_exe().unwrap();
    let mut places = program.ancestors().map(|directory| directory.join("vm/packages").join(group));
    let found = places.find(|place| place.join(".done").exists());
    if found.is_none() {
        skip::because("the servers' packages are not there (make setup unpacks them)");
    }
    found
}

/// A program of the packages in a namespace of ours, with its libraries found; arguments are the caller's to add.
///
/// `ip netns exec` gives it its own mount namespace, where /etc/netns/NAME covers /etc.
pub fn command(packages: &Path, namespace: &Namespace, program: &str) -> Command {
    let mut command = Command::new("ip");
    let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|name| packages.join(name));
    let libraries = std::env::join_paths(&libraries).unwrap();
    command.args(["netns", "exec", &namespace.0, "env"]).arg(env_pair("LD_LIBRARY_PATH", &libraries));
    command.arg(packages.join(program));
    command
}

fn env_pair(name: &str, value: &OsStr) -> std::ffi::OsString {
    let mut pair = std::ffi::OsString::from(name);
    pair.push("=");
    pair.push(value);
    pair
}

pub struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts it with what it says in `log`.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let output = File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        Self { child, log: log.to_owned() }
    }

    /// Waits until `ready` says so; panics with the log when the server has ended.
    pub fn await_ready(&mut self, ready: impl Fn() -> bool) {
        let is_ready = wait::comes(|| {
            let is_ready = ready();
            let ended = self.child.try_wait().unwrap().filter(|_| !is_ready);
            assert!(ended.is_none(), "the server ended ({ended:?}): {}", self.output());
            is_ready
        });
        assert!(is_ready, "the server does not get ready: {}", self.output());
    }

    /// What it has said so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether something takes TCP connections there, asked from inside `namespace`.
pub fn listens(namespace: &Namespace, address: SocketAddr) -> bool {
    namespace.enter(|| std::net::TcpStream::connect_timeout(&address, wait::LIMIT).is_ok())
}
