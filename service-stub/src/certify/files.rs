//! Runs on disk, below `certify` in the state directory: a file for each run, and beside it a folder with what its hosts sent. A
//! change is on disk before it is seen.

use super::record::{MAX_HOSTS, Run};
use crate::auth::keys::write_new;
use api::Timestamp;
use kernel::order;
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{self, Read},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use uuid::Uuid;

/// The oldest runs that ended make room for further ones.
const MAX_RUNS: usize = 500;
/// No record of a run is longer.
const MAX_RUN_BYTES: u64 = 256 << 20;
/// What the hosts of one run may send in all.
const MAX_DOCUMENTS_BYTES: u64 = 4 << 30;
const DIRECTORY: &str = "certify";
/// Names of documents are short.
const MAX_NAME_BYTES: usize = 64;

/// Records of the runs in a state directory, by their names in it.
pub(crate) fn records(state: &Path) -> Vec<String> {
    names(state, DIRECTORY)
}

/// What hosts sent for the run of that record, by the names in the state directory.
pub(crate) fn documents(state: &Path, record: &str) -> Vec<String> {
    let folder = record.strip_suffix(".json").unwrap_or(record);
    let hosts = (0..MAX_HOSTS).map(|host| format!("{folder}/{host}"));
    hosts.filter(|folder| state.join(folder).is_dir()).flat_map(|folder| names(state, &folder)).collect()
}

/// Files of runs in a folder.
fn names(state: &Path, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(state.join(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| Some(format!("{folder}/{}", entry.file_name().to_str()?)));
    let mut names: Vec<String> = names.filter(|name| is_file(name)).collect();
    order::sort(&mut names);
    names
}

/// Whether a file of that name is one of a run: `certify/RUN.json`, or `certify/RUN/HOST/DOCUMENT`.
pub(crate) fn is_file(name: &str) -> bool {
    let is_run = |name: &str| Uuid::parse_str(name).is_ok_and(|id| id.to_string() == name);
    let is_host = |name: &str| name.parse().is_ok_and(|host: usize| host < MAX_HOSTS && host.to_string() == name);
    let is_document = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.chars().all(is_plain)
            && !name.starts_with('.')
            && !name.ends_with(".new")
    };
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [DIRECTORY, record] => record.strip_suffix(".json").is_some_and(is_run),
        [DIRECTORY, run, host, document] => is_run(run) && is_host(host) && is_document(document),
        _ => false,
    }
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Runs {
    directory: PathBuf,
    runs: Mutex<BTreeMap<Uuid, Arc<Run>>>,
}

impl Runs {
    /// Reads those of a state directory. One that cannot be read is logged and left as it is.
    pub(crate) fn open(state: &Path) -> Self {
        let directory = state.join(DIRECTORY);
        let mut runs = BTreeMap::new();
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read_run(&path) {
                Ok(run) => drop(runs.insert(run.id, Arc::new(run))),
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "ignoring a damaged run of a certification")
                }
            }
        }
        Self { directory, runs: Mutex::new(runs) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Run>> {
        let mut runs: Vec<Arc<Run>> = self.lock().values().cloned().collect();
        order::sort_by_key(&mut runs, |run| (run.created_at, run.id));
        runs
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<Arc<Run>> {
        self.lock().get(&id).cloned()
    }

    /// Those that have not ended.
    pub(crate) fn open_runs(&self) -> Vec<Arc<Run>> {
        self.lock().values().filter(|run| run.is_open()).cloned().collect()
    }

    /// Adds one, unless `conflict` finds one that is in its way.
    pub(crate) fn add(&self, run: Run, conflict: impl Fn(&Run) -> bool) -> io::Result<Result<(), Uuid>> {
        let mut runs = self.lock();
        if let Some(other) = runs.values().find(|other| conflict(other)) {
            return Ok(Err(other.id));
        }
        self.write(&run)?;
        runs.insert(run.id, Arc::new(run));
        while runs.len() > MAX_RUNS {
            let ended = runs.values().filter(|run| !run.is_open());
            let Some(oldest) = ended.min_by_key(|run| run.created_at).map(|run| run.id) else { break };
            runs.remove(&oldest);
            self.forget(oldest);
        }
        Ok(Ok(()))
    }

    /// Changes a run; none if it does not exist. A change that cannot be written did not happen.
    pub(super) fn change<T>(&self, id: Uuid, work: impl FnOnce(&mut Run) -> T) -> io::Result<Option<T>> {
        let mut runs = self.lock();
        let Some(before) = runs.get(&id).cloned() else { return Ok(None) };
        let mut run = Run::clone(&before);
        let result = work(&mut run);
        if run != *before {
            self.write(&run)?;
            runs.insert(id, Arc::new(run));
        }
        Ok(Some(result))
    }

    fn write(&self, run: &Run) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        write_new(&self.path(run.id), &serde_json::to_vec(run)?)
    }

    fn forget(&self, id: Uuid) {
        let gone = fs::remove_file(self.path(id)).and_then(|()| fs::remove_dir_all(self.folder(id)));
        if let Err(error) =
            gone.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
        {
            tracing::warn!(run = %id, %error, "cannot remove an old run of a certification");
        }
    }

    fn path(&self, id: Uuid) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    fn folder(&self, id: Uuid) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// Stores a document of a host, known by its place in the run. Names are our own.
    pub(super) fn put_document(&self, id: Uuid, host: usize, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder(id).join(host.to_string());
        let sizes = fs::read_dir(self.folder(id)).into_iter().flatten().flatten();
        let sizes = sizes.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten());
        let there: u64 = sizes.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
        if there.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX)) > MAX_DOCUMENTS_BYTES {
            return Err(io::Error::other(format!("the documents of the run exceed {MAX_DOCUMENTS_BYTES} bytes")));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        write_new(&folder.join(name), bytes)
    }

    pub(super) fn document(&self, id: Uuid, host: usize, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.folder(id).join(host.to_string()).join(name))
    }

    /// Runs that had this machine, the latest first.
    pub(super) fn history(&self, serial: &str) -> Vec<Arc<Run>> {
        let mut runs = self.list();
        runs.retain(|run| run.hosts.iter().any(|host| host.serial == serial));
        runs.reverse();
        runs
    }
}

fn read_run(path: &Path) -> io::Result<Run> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_RUN_BYTES).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// A moment in seconds since 1970, if there was one.
pub(super) fn unix_seconds(at: Timestamp) -> Option<u64> {
    if at.is_zero() { None } else { u64::try_from(at.unix_seconds()).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_service_finds_its_runs_and_leaves_a_damaged_one_alone() {
        let state = tempfile::tempdir().unwrap();
        let open = || Runs::open(state.path());
        let plan = certify::Plan { name: "x".into(), steps: vec![certify::Step::Report], ..certify::Plan::default() };
        let run = |seconds| Run::new(Uuid::new_v4(), plan.clone(), None, Timestamp::from_unix_seconds(seconds));
        let (first, second) = (run(2), run(1));
        let runs = open();
        assert_eq!(runs.add(first.clone(), |_| false).unwrap(), Ok(()));
        assert_eq!(runs.add(run(3), Run::is_open).unwrap(), Err(first.id));
        runs.change(first.id, |run| run.ended_at = Timestamp::from_unix_seconds(9)).unwrap().unwrap();
        runs.put_document(first.id, 0, "report.json", b"{}").unwrap();
        runs.add(second.clone(), |_| false).unwrap().unwrap();
        fs::write(state.path().join("certify/x.json"), "{").unwrap();
        // What a crash leaves of a write.
        fs::write(state.path().join("certify/y.json.new"), "").unwrap();
        let read = open();
        assert_eq!(read.list().iter().map(|run| run.id).collect::<Vec<_>>(), [second.id, first.id]);
        assert_eq!(read.get(first.id).unwrap().ended_at.unix_seconds(), 9);
        assert_eq!(read.document(first.id, 0, "report.json").unwrap(), b"{}");
        assert!(state.path().join("certify/x.json").exists());
        assert_eq!(read.change(Uuid::new_v4(), |_| ()).unwrap(), None);

        // All of that but what is no run goes into a backup.
        fs::write(state.path().join(format!("certify/{}/0/report.json.new", first.id)), "").unwrap();
        let mut ids = [first.id, second.id];
        ids.sort();
        assert_eq!(records(state.path()), ids.map(|id| format!("certify/{id}.json")));
        let of = |id: Uuid| documents(state.path(), &format!("certify/{id}.json"));
        assert_eq!(of(first.id), [format!("certify/{}/0/report.json", first.id)]);
        assert_eq!(of(second.id), Vec::<String>::new());
    }

    #[test]
    fn names_that_lead_elsewhere_are_no_files_of_runs() {
        let id = Uuid::new_v4();
        for right in [format!("certify/{id}.json"), format!("certify/{id}/255/capture.tar.gz")] {
            assert!(is_file(&right), "{right}");
        }
        for wrong in [
            "certify/x.json".to_owned(),
            format!("certify/{id}"),
            format!("certify/{}.json", id.simple()),
            format!("certify/{id}.json.new"),
            format!("certify/../{id}.json"),
            format!("certify/{id}/../report.json"),
            format!("certify/{id}/256/report.json"),
            format!("certify/{id}/00/report.json"),
            format!("certify/{id}/0/.."),
            format!("certify/{id}/0/"),
            format!("certify/{id}/0/a/b"),
            format!("certify/{id}/0/{}", "x".repeat(65)),
            format!("/certify/{id}.json"),
        ] {
            assert!(!is_file(&wrong), "{wrong}");
        }
    }
}
