//! Keys and signatures as GnuPG makes them, in a directory of their own.

use crate::skip;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// True, with a word about it, where a program is missing.
pub fn lacks(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    !skip::unless(program, found)
}

pub struct Gpg {
    home: TempDir,
}

impl Default for Gpg {
    fn default() -> Self {
        // A socket's path must be short.
        Self { home: tempfile::Builder::new().prefix("gpg-").tempdir_in("/tmp").unwrap() }
    }
}

impl Gpg {
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Runs gpg; it must succeed.
    pub fn run(&self, args: &[&str]) -> Vec<u8> {
        let mut gpg = Command::new("gpg");
        gpg.arg("--homedir").arg(self.home.path()).args(["--batch", "--yes", "--pinentry-mode", "loopback"]);
        let output = gpg.args(["--passphrase", ""]).args(args).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "gpg {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// A new key; returns its fingerprint. `more` may set a time.
    pub fn key(&self, user: &str, algorithm: &str, usage: &str, expire: &str, more: &[&str]) -> String {
        self.run(&[more, &["--quick-gen-key", user, algorithm, usage, expire]].concat());
        self.fingerprints(user).remove(0)
    }

    /// Fingerprints of the primary key and its subkeys.
    pub fn fingerprints(&self, user: &str) -> Vec<String> {
        let list = String::from_utf8(self.run(&["--with-colons", "--list-keys", user])).unwrap();
        let all = list.lines().filter_map(|line| line.strip_prefix("fpr:"));
        all.map(|line| line.trim_matches(':').to_owned()).collect()
    }

    pub fn export(&self, users: &[&str], armored: bool) -> Vec<u8> {
        let armor: &[&str] = if armored { &["--armor"] } else { &[] };
        self.run(&[armor, &["--export"], users].concat())
    }

    /// A detached signature of a file.
    pub fn sign(&self, key: &str, file: &Path, more: &[&str]) -> Vec<u8> {
        let file = file.display().to_string();
        self.run(&[&["--local-user", key], more, &["--detach-sign", "--output", "-", &file]].concat())
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").arg("--homedir").arg(self.home.path()).args(["--kill", "all"]).status();
    }
}
