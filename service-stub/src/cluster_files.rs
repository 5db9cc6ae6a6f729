//! The install-time files of clusters with a control plane, in an operator's directory (docs/compatibility.md#cluster-file-names).

use api::HostRole;
use serde_json::Value;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use uuid::Uuid;

/// A control plane needs these.
const REQUIRED: [&str; 3] = ["bootstrap.ign", "master.ign", "worker.ign"];
/// A larger file is a mistake: configs have a few MB at most.
const MAX_BYTES: u64 = 64 << 20;

/// Files that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterFilesError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Larger than any such file.
    #[error("{} is larger than {}", path.display(), kernel::units::binary(MAX_BYTES))]
    TooLarge { path: PathBuf },
    /// A required file is missing.
    #[error("{} is missing: a control plane needs {}", path.display(), REQUIRED.join(", "))]
    Missing { path: PathBuf },
    /// Ignition would refuse it.
    #[error("{} is not a usable Ignition config: {reason}", path.display())]
    Config { path: PathBuf, reason: String },
}

/// A directory of such files, shared by all clusters of the service. They are reread for each request, so that they can be
/// replaced while the service runs.
#[derive(Clone, Debug)]
pub struct ClusterFiles {
    directory: PathBuf,
}

impl ClusterFiles {
    /// Checks that the required files exist and are Ignition configs.
    pub fn open(directory: &Path) -> Result<Self, ClusterFilesError> {
        let files = Self { directory: directory.to_owned() };
        for name in REQUIRED {
            let path = directory.join(name);
            let Some(config) = files.read(name)? else { return Err(ClusterFilesError::Missing { path }) };
            let reason = match ignition::parse(&config) {
                Ok((_, _, report)) if report.is_fatal() => report.to_string(),
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            return Err(ClusterFilesError::Config { path, reason });
        }
        Ok(files)
    }

    /// The contents of an install-time file, if it exists. `name` must not come from a client.
    pub fn read(&self, name: &'static str) -> Result<Option<Vec<u8>>, ClusterFilesError> {
        let path = self.directory.join(name);
        let failed = |source| ClusterFilesError::Read { path: path.clone(), source };
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let mut contents = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut contents).map_err(failed)?;
        if u64::try_from(contents.len()).is_ok_and(|len| len > MAX_BYTES) {
            return Err(ClusterFilesError::TooLarge { path });
        }
        Ok(Some(contents))
    }

    /// The identity of the future control plane, from `metadata.json`.
    pub fn cluster_id(&self) -> Option<Uuid> {
        let metadata: Value = serde_json::from_slice(&self.read("metadata.json").ok()??).ok()?;
        metadata["clusterID"].as_str()?.parse().ok()
    }

    /// The file with the config of a role.
    pub fn file_name(role: HostRole) -> &'static str {
        match role {
            HostRole::Worker | HostRole::AutoAssign => "worker.ign",
            HostRole::Arbiter => "arbiter.ign",
            HostRole::Master | HostRole::Bootstrap => "master.ign",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn missing_files_and_invalid_configs_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let error = || ClusterFiles::open(directory.path()).unwrap_err().to_string();
        write("bootstrap.ign", r#"{"ignition":{"version":"3.2.0"}}"#);
        write("master.ign", r#"{"ignition":{"version":"3.1.0"}}"#);
        assert!(error().contains("worker.ign is missing"), "{}", error());
        write("worker.ign", r#"{"ignition":{"version":"9.0.0"}}"#);
        assert!(error().contains("worker.ign is not a usable Ignition config"), "{}", error());
        write("worker.ign", r#"{"ignition":{"version":"3.4.0"}}"#);
        let files = ClusterFiles::open(directory.path()).unwrap();
        assert_eq!(files.read("arbiter.ign").unwrap(), None);
        for metadata in ["{", r#"{"clusterID":"x"}"#, "{}"] {
            write("metadata.json", metadata);
            assert_eq!(files.cluster_id(), None, "{metadata}");
        }
        let id = Uuid::from_u128(7);
        write("metadata.json", &format!(r#"{{"clusterID":"{id}"}}"#));
        assert_eq!(files.cluster_id(), Some(id));
        assert_eq!(files.read("worker.ign").unwrap().unwrap(), br#"{"ignition":{"version":"3.4.0"}}"#);
    }
}
