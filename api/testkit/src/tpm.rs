//! An emulated TPM 2.0 (swtpm), with or without a maker's certificates.

use crate::wait;
use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// Ends with it.
#[derive(Debug)]
pub struct Tpm {
    emulator: Child,
    dir: TempDir,
}

impl Drop for Tpm {
    fn drop(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }
}

/// Whether programs are there, each of which has a version; reports the skip where they are not.
///
/// # Panics
/// Where one is missing, and no test may be skipped.
#[track_caller]
#[must_use]
pub fn has(tools: &[&str]) -> bool {
    let exists = |tool: &&str| Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    crate::skip::unless(tools.join(", "), tools.iter().all(|tool| exists(tool).is_ok()))
}

/// What a program prints.
///
/// # Panics
/// If it fails.
pub fn shown(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().expect("it starts");
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

impl Tpm {
    /// A TPM as a maker ships it, with certificates of its endorsement keys by an authority in [`Tpm::authority`].
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn with_certificates() -> Self {
        Self::start(make)
    }

    /// A TPM without certificates.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn bare() -> Self {
        Self::start(|dir| fs::create_dir(dir.join("state")).expect("an empty directory"))
    }

    fn start(make: impl FnOnce(&Path)) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        make(dir.path());
        let path = |name: &str| format!("{}/{name}", dir.path().display());
        let (state, server) = (format!("dir={}", path("state")), format!("type=unixio,path={}", path("tpm")));
        let control = format!("type=unixio,path={}", path("tpm.ctrl"));
        let arguments = ["socket", "--tpm2", "--tpmstate", &state, "--server", &server, "--ctrl", &control];
        let mut command = Command::new("swtpm");
        command.args(arguments).args(["--flags", "not-need-init,startup-clear"]);
        let tpm = Self { emulator: command.spawn().expect("swtpm starts"), dir };
        drop(tpm.connect());
        tpm
    }

    /// Its only connection.
    ///
    /// # Panics
    /// If it does not listen.
    #[must_use]
    pub fn connect(&self) -> UnixStream {
        wait::found(|| UnixStream::connect(self.path("tpm")).ok()).expect("swtpm listens")
    }

    /// A file beside its state.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Certificates of the authority that signed those of its keys, PEM: the root first.
    ///
    /// # Panics
    /// For one without certificates.
    #[must_use]
    pub fn authority(&self) -> Vec<u8> {
        let read = |name: &str| fs::read(self.path("ca").join(name)).expect("swtpm_localca made it");
        [read("swtpm-localca-rootca-cert.pem"), read("certificate.pem")].concat()
    }

    /// What a program of tpm2-tools prints of it. What that left in the TPM is flushed.
    ///
    /// # Panics
    /// If it fails.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let place = format!("swtpm:path={}", self.path("tpm").display());
        let printed = shown(program, &[&["-T", &place], arguments].concat());
        let _ = shown("tpm2_flushcontext", &["-T", &place, "-t"]);
        printed
    }
}

/// With its own authority.
fn make(dir: &Path) {
    let path = |name: &str| format!("{}/{name}", dir.display());
    let write = |name: &str, text: String| fs::write(path(name), text).expect("an empty directory");
    for name in ["ca", "state"] {
        fs::create_dir(path(name)).expect("an empty directory");
    }
    let authority = format!(
        "statedir = {0}\nsigningkey = {0}/key.pem\nissuercert = {0}/certificate.pem\ncertserial = {0}/serial\n",
        path("ca")
    );
    write("ca.conf", authority);
    write("ca.options", "--platform-manufacturer Acme\n--platform-version 1\n--platform-model M\n".to_owned());
    let tool = shown("sh", &["-c", "command -v swtpm_localca"]);
    let setup = format!(
        "create_certs_tool={}\ncreate_certs_tool_config={}\ncreate_certs_tool_options={}\n",
        tool.trim(),
        path("ca.conf"),
        path("ca.options")
    );
    write("setup.conf", setup);
    let (state, setup) = (path("state"), path("setup.conf"));
    let _ = shown("swtpm_setup", &["--tpm2", "--tpmstate", &state, "--create-ek-cert", "--config", &setup]);
}
