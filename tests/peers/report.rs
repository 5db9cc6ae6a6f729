//! Which programs are there, and what came of each scenario.

use std::{
    cell::RefCell,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

/// The folder with the real programs.
const FOLDER: &str = "LANDFALL_PEERS";

pub(crate) struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// The folder, if it has all these programs, on a machine where they can run. What can't run is reported by its name.
    pub(crate) fn with(scenario: &str, programs: &[&str]) -> Option<Self> {
        let peers = Self::in_folder(scenario, programs)?;
        match peers.missing_of_machine() {
            None => Some(peers),
            Some(missing) => not_run(scenario, &format!("missing: {missing}")),
        }
    }

    /// The same of programs that run anywhere.
    pub(crate) fn in_folder(scenario: &str, programs: &[&str]) -> Option<Self> {
        let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
            testkit::skip::because(format_args!("{FOLDER} names no folder with the real programs"));
            return not_run(scenario, &format!("{FOLDER} is not set"));
        };
        let peers = Self { folder: fs::canonicalize(&folder).unwrap_or(folder) };
        let missing: Vec<_> = programs.iter().copied().filter(|name| !peers.program(name).is_file()).collect();
        match missing.is_empty() {
            true => Some(peers),
            false => not_run(scenario, &format!("missing: {}", missing.join(", "))),
        }
    }

    fn missing_of_machine(&self) -> Option<String> {
        if !nix::unistd::geteuid().is_root() {
            return Some("root's power to make namespaces and loop devices".into());
        }
        (!crate::service::database::is_there()).then(|| "PostgreSQL below /usr/lib/postgresql".into())
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where the service finds its library: inside of the folder or beside it.
    pub(crate) fn libraries(&self) -> String {
        let places = [self.folder.join("lib"), self.folder.parent().unwrap_or(Path::new("/")).join("lib")];
        places.map(|place| place.display().to_string()).join(":")
    }
}

fn not_run(scenario: &str, why: &str) -> Option<Peers> {
    line(scenario, "not run", why);
    None
}

/// A line of the report, printed and kept for the table at the end.
pub(crate) fn line(scenario: &str, result: &str, what: &str) {
    let what: String = what.chars().take(600).collect();
    println!("peers: {scenario}: {result}; {what}");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(directory).unwrap();
    let file = fs::OpenOptions::new().create(true).append(true).open(directory.join("peers.tsv"));
    // One write appends it whole, whoever else writes.
    file.unwrap().write_all(format!("{scenario}\t{result}\t{what}\n").as_bytes()).unwrap();
}

thread_local! {
    /// The scenario that runs on this thread.
    static SCENARIO: RefCell<String> = const { RefCell::new(String::new()) };
}

pub(crate) fn begin(scenario: &str) {
    SCENARIO.set(scenario.split(':').next().unwrap_or_default().to_owned());
}

/// Where the scenario's logs and exchanges are kept, for who looks for the cause of a failure.
pub(crate) fn traces() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers").join(SCENARIO.with_borrow(String::clone));
    fs::create_dir_all(&directory).unwrap();
    directory
}

pub(crate) fn keep(file: &Path, name: &str) {
    let _ = fs::copy(file, traces().join(name));
}
