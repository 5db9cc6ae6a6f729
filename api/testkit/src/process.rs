//! Programs that tests start.

use crate::wait;
use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// One that ends with its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that a supervisor started last and has not replaced: of `landfall serve`, the one that works.
pub fn worker(supervisor: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Kills a supervisor, and waits until the process that worked for it has ended too: until then it has its port and its files.
pub fn kill_with_worker(supervisor: &mut Child) {
    let worker = worker(supervisor.id());
    let _ = supervisor.kill();
    let _ = supervisor.wait();
    // One that nobody waits for stays as a zombie.
    let has_ended =
        |worker: u32| fs::read_to_string(format!("/proc/{worker}/stat")).map_or(true, |stat| stat.contains(") Z "));
    let _ = worker.is_none_or(|worker| wait::comes(|| has_ended(worker)));
}

/// A program of the workspace that `cargo test --workspace` builds beside the tests.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(name);
    assert!(
        path.exists(),
        "{} is missing: cargo test --workspace builds it, as does cargo build -p of its package",
        path.display()
    );
    path
}

/// The name of a test of the module `module_path!()`, as a test program's `--exact` takes it: it is the module's without its program's. One
/// that is wrong starts no test, and that is a success.
pub fn own_test(module: &str, test: &str) -> String {
    module.split_once("::").map_or_else(|| test.to_owned(), |(_, module)| format!("{module}::{test}"))
}

/// Writes a program that tests start. Another process writes it: a child that another thread's fork makes meanwhile would have the file
/// open for writing until it is replaced by its program, and until then nothing could start this one.
pub fn place(path: &Path, content: impl AsRef<[u8]>) {
    let file = format!("of={}", path.display());
    let mut child = Command::new("dd").args([&file, "status=none"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content.as_ref()).unwrap();
    assert!(child.wait().unwrap().success(), "{} could not be written", path.display());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
