//! What only one test at a time may do, in whichever process it runs.

use nix::fcntl::{Flock, FlockArg};
use std::{
    fs::{self, File},
    path::PathBuf,
};

/// Until it is dropped, or its process ends, others wait.
#[derive(Debug)]
#[must_use]
pub struct Turn(#[expect(dead_code, reason = "dropping it ends the turn")] Flock<File>);

impl Turn {
    /// Waits for one of this name, which stands for what is used in turn.
    pub fn take(name: &str) -> Self {
        let directory = directory().join("turns");
        fs::create_dir_all(&directory).unwrap();
        let file = File::create(directory.join(name)).unwrap();
        Self(Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error).unwrap())
    }
}

/// Where Cargo lets tests put what outlives them.
pub fn directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/PROFILE/deps/TEST
    test.ancestors().nth(3).unwrap().join("tmp")
}
