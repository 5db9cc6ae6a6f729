//! What the double does differently.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// The double's settings: a JSON file `PROGRAM.json` beside it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// Each call is a line of JSON there.
    pub log: Option<PathBuf>,
    /// Whether the log has the contents of the manifests.
    pub logs_manifests: bool,
    pub faults: Vec<Fault>,
    /// The real program, which is run in the double's place.
    pub real: Option<PathBuf>,
    /// For `bootstrap.ign`, `master.ign` and so on: configs that the double adds its own to.
    pub bases: BTreeMap<String, PathBuf>,
    /// Files that are used as they are instead of the double's own configs, or its `kubeconfig`.
    pub replacements: BTreeMap<String, PathBuf>,
}

/// What goes wrong in a command, in the order of the fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// As `manifests` or `ignition-configs`; every command if there is none.
    pub command: Option<String>,
    pub ignores_sigterm: bool,
    /// Starts a process that sleeps for a minute.
    pub has_child: bool,
    /// Before anything is read.
    pub sleep_before_ms: u64,
    /// Then it waits until this file is there.
    pub waits_for: Option<PathBuf>,
    pub output: String,
    /// More output of so many characters.
    pub output_chars: usize,
    /// A file in the directory.
    pub fill_bytes: u64,
    /// So many more, which are empty.
    pub fill_files: usize,
    pub exit_code: Option<u8>,
    /// Ends itself by this signal.
    pub signal: Option<i32>,
    /// Before the result is written.
    pub sleep_within_ms: u64,
    /// Of the result, in the directory: these become links to what is named here.
    pub links: BTreeMap<String, PathBuf>,
    /// The same with this content.
    pub contents: BTreeMap<String, String>,
}

impl Behaviour {
    pub(crate) fn beside(program: &Path) -> PathBuf {
        let mut path = program.as_os_str().to_owned();
        path.push(".json");
        path.into()
    }

    /// That of a program. One that is a link named as `ln_ID_PROGRAM` behaves as PROGRAM does.
    pub fn of(program: &Path) -> io::Result<Self> {
        let mut name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        loop {
            match fs::read(Self::beside(&program.with_file_name(name))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => match name.split_once('_') {
                    Some((_, rest)) => name = rest,
                    None => return Ok(Self::default()),
                },
                text => return Ok(serde_json::from_slice(&text?)?),
            }
        }
    }

    /// The faults of a command.
    pub fn faults_of(&self, command: &str) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(move |fault| fault.command.as_deref().is_none_or(|own| own == command))
    }
}
