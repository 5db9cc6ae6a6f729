//! Files that were prepared for a cluster: `clusters/ID/ATTEMPT/NAME` in the state directory, sealed as the records are. The cluster's record
//! names the attempt, so a preparation that was interrupted while it wrote is never used.

use super::error::ClusterFilesError;
use super::reading::{MAX_BYTES, read};
use crate::store::seal::Seal;
use api::ClusterId;
use preparation::Files;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};
use uuid::Uuid;

/// Where they are in the state directory.
pub(crate) const DIRECTORY: &str = "clusters";
/// What sealing adds at most.
const SEAL_BYTES: u64 = 64;
/// Names of files are short.
const MAX_NAME_BYTES: usize = 64;

/// The files of one preparation.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    state: PathBuf,
    cluster: ClusterId,
    attempt: Uuid,
    seal: Arc<Seal>,
}

impl Place {
    pub(crate) fn new(state: &Path, seal: Arc<Seal>, cluster: ClusterId, attempt: Uuid) -> Self {
        Self { state: state.to_owned(), cluster, attempt, seal }
    }

    fn path(&self, name: &str) -> PathBuf {
        directory(&self.state, self.cluster).join(self.attempt.to_string()).join(name)
    }

    /// What a sealed file is bound to.
    fn key(&self, name: &str) -> String {
        format!("{}/{}/{name}", self.cluster, self.attempt)
    }

    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ClusterFilesError> {
        if !is_name(name) {
            return Ok(None);
        }
        let path = self.path(name);
        let Some(sealed) = read(&path)? else { return Ok(None) };
        let opened = self.seal.open(DIRECTORY, &self.key(name), &sealed);
        opened.map(Some).map_err(|source| ClusterFilesError::Sealed { path, source })
    }

    /// Writes all of them; they are on disk when this returns. Nothing refers to them yet.
    pub(crate) fn write(&self, files: &Files) -> Result<(), ClusterFilesError> {
        let folder = self.path("");
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ClusterFilesError::Write { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed(&folder))?;
        for (name, content) in files {
            let path = self.path(name);
            if !is_name(name) || u64::try_from(content.len()).is_ok_and(|len| len > MAX_BYTES - SEAL_BYTES) {
                return Err(ClusterFilesError::TooLarge { path });
            }
            let sealed = self.seal.seal(DIRECTORY, &self.key(name), content.clone());
            let sealed = sealed.map_err(|source| ClusterFilesError::Sealed { path: path.clone(), source })?;
            let write = || {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                file.write_all(&sealed)?;
                file.sync_all()
            };
            write().map_err(failed(&path))?;
        }
        for directory in folder.ancestors().take_while(|path| path.starts_with(&self.state)) {
            File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed(directory))?;
        }
        Ok(())
    }

    /// Removes what other attempts have left.
    pub(crate) fn remove_others(&self) {
        let entries = fs::read_dir(directory(&self.state, self.cluster));
        let attempt = self.attempt.to_string();
        for entry in entries.into_iter().flatten().flatten().filter(|entry| *entry.file_name() != *attempt) {
            remove(&entry.path());
        }
    }
}

fn directory(state: &Path, cluster: ClusterId) -> PathBuf {
    state.join(DIRECTORY).join(cluster.to_string())
}

/// A plain name of a file.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.starts_with('.') && name.chars().all(plain)
}

/// Whether a path in the state directory is that of such a file.
pub(crate) fn is_file(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_id = |part: Option<&str>| part.is_some_and(|part| part.parse::<Uuid>().is_ok());
    parts.next() == Some(DIRECTORY)
        && is_id(parts.next())
        && is_id(parts.next())
        && parts.next().is_some_and(is_name)
        && parts.next().is_none()
}

/// The paths of all files in the state directory, sealed as they are.
pub(crate) fn list(state: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    for cluster in names(&state.join(DIRECTORY)) {
        for attempt in names(&state.join(DIRECTORY).join(&cluster)) {
            let files = names(&state.join(DIRECTORY).join(&cluster).join(&attempt));
            all.extend(files.iter().map(|name| format!("{DIRECTORY}/{cluster}/{attempt}/{name}")));
        }
    }
    all.retain(|path| is_file(path));
    all.sort_unstable();
    all
}

/// Removes all files of a deleted cluster.
pub(crate) fn forget(state: &Path, cluster: ClusterId) {
    remove(&directory(state, cluster));
}

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove files that are not needed any more: remove them by hand");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sealed_and_belong_to_one_attempt() {
        let state = tempfile::tempdir().unwrap();
        let seal = Arc::new(Seal::load_or_create(state.path()).unwrap());
        let place = |cluster, attempt| Place { state: state.path().to_owned(), cluster, attempt, seal: seal.clone() };
        let cluster = ClusterId::random();
        let (first, second) = (place(cluster, Uuid::from_u128(1)), place(cluster, Uuid::from_u128(2)));
        let files = Files::from([("kubeadmin-password".to_owned(), b"hunter2".to_vec())]);
        first.write(&files).unwrap();
        assert_eq!(first.read("kubeadmin-password").unwrap().as_deref(), Some(b"hunter2".as_slice()));
        assert_eq!(first.read("../kubeadmin-password").unwrap(), None);
        assert_eq!(second.read("kubeadmin-password").unwrap(), None);
        let stored = fs::read(first.path("kubeadmin-password")).unwrap();
        assert!(!stored.windows(7).any(|window| window == b"hunter2"));
        second.write(&files).unwrap();
        fs::copy(first.path("kubeadmin-password"), second.path("kubeadmin-password")).unwrap();
        assert!(matches!(second.read("kubeadmin-password"), Err(ClusterFilesError::Sealed { .. })), "moved");
        assert_eq!(list(state.path()).len(), 2);
        assert!(list(state.path()).iter().all(|path| is_file(path)));
        second.remove_others();
        assert_eq!(first.read("kubeadmin-password").unwrap(), None);
        forget(state.path(), cluster);
        assert_eq!(list(state.path()), [""; 0]);
        let bad = Files::from([("../x".to_owned(), Vec::new())]);
        assert!(first.write(&bad).is_err());
        for path in ["clusters/x/y/z", "clusters/../a/b/c", "manifests/a/b/c"] {
            assert!(!is_file(path), "{path}");
        }
    }
}
