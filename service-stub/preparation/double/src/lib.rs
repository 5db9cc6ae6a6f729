//! A program that behaves as `openshift-install` does, as far as its caller can see, for tests: placed into a directory, with a
//! behaviour in a file beside it and a log of its calls.

mod behaviour;
mod call;

pub use behaviour::{Behaviour, Fault};
pub use call::Call;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The program's usual name.
pub const NAME: &str = "openshift-install";

/// One that was placed.
#[derive(Clone, Debug)]
pub struct Double {
    program: PathBuf,
    log: PathBuf,
}

impl Double {
    /// Puts `built`, which `testkit::process::program("openshift-install-double")` finds, into a directory.
    pub fn place(built: &Path, directory: &Path, behaviour: &Behaviour) -> io::Result<Self> {
        let program = directory.join(NAME);
        // A link is not written to: a program that some process has open for writing can't be started.
        if fs::hard_link(built, &program).is_err() {
            fs::copy(built, &program)?;
        }
        let log = behaviour.log.clone().unwrap_or_else(|| directory.join(format!("{NAME}.log")));
        let double = Self { program, log };
        double.behave(behaviour)?;
        Ok(double)
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Changes the behaviour of all later calls.
    pub fn behave(&self, behaviour: &Behaviour) -> io::Result<()> {
        let behaviour = Behaviour { log: Some(self.log.clone()), ..behaviour.clone() };
        fs::write(Behaviour::beside(&self.program), serde_json::to_vec_pretty(&behaviour)?)
    }

    /// All calls so far, the first first.
    pub fn calls(&self) -> io::Result<Vec<Call>> {
        match fs::read_to_string(&self.log) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            // The last line may be half written.
            text => {
                let text = text?;
                let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
                lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
            }
        }
    }
}
