//! An operator's directory of install-time files.

use super::error::ClusterFilesError;
use super::reading::{REQUIRED, read};
use crate::model::ClusterRecord;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A directory of such files for all clusters of the service, and directories in it with those of one cluster: `ID` or `NAME.DOMAIN`.
#[derive(Clone, Debug)]
pub struct GivenFiles {
    directory: PathBuf,
}

impl GivenFiles {
    /// Checks that the required files exist and are Ignition configs.
    pub fn open(directory: &Path) -> Result<Self, ClusterFilesError> {
        let is_shared = REQUIRED.iter().any(|name| directory.join(name).exists());
        let entries = fs::read_dir(directory)
            .map_err(|source| ClusterFilesError::Read { path: directory.to_owned(), source })?
            .filter_map(Result::ok);
        let inside = entries.map(|entry| entry.path()).filter(|path| path.join(REQUIRED[0]).is_file());
        let mut all: Vec<PathBuf> = inside.collect();
        if is_shared || all.is_empty() {
            all.push(directory.to_owned());
        }
        all.iter().try_for_each(|directory| check(directory))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// The directory with the files of a cluster: its own, else the shared one.
    pub(super) fn of_cluster(&self, record: &ClusterRecord) -> Option<PathBuf> {
        let cluster = &record.cluster;
        let names = [cluster.id.to_string(), format!("{}.{}", cluster.name, cluster.base_dns_domain)];
        let plain = names.iter().filter(|name| !name.contains('/') && !name.starts_with('.'));
        let own = plain.map(|name| self.directory.join(name)).find(|path| path.join(REQUIRED[0]).is_file());
        own.or_else(|| self.directory.join(REQUIRED[0]).is_file().then(|| self.directory.clone()))
    }
}

fn check(directory: &Path) -> Result<(), ClusterFilesError> {
    for name in REQUIRED {
        let path = directory.join(name);
        let Some(config) = read(&path)? else { return Err(ClusterFilesError::Missing { path }) };
        let reason = match ignition::parse(&config) {
            Ok((_, _, report)) if report.is_fatal() => report.to_string(),
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        return Err(ClusterFilesError::Config { path, reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{ClusterFiles, identity};
    use super::*;
    use crate::state::ClusterState;
    use api::{Cluster, ClusterId, Secret};
    use serde_json::json;
    use uuid::Uuid;

    const NOTHING: &str = r#"{"ignition":{"version":"3.2.0"}}"#;

    #[test]
    fn missing_files_and_invalid_configs_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let error = || GivenFiles::open(directory.path()).unwrap_err().to_string();
        assert!(error().contains("bootstrap.ign is missing"), "{}", error());
        write("bootstrap.ign", NOTHING);
        write("master.ign", r#"{"ignition":{"version":"3.1.0"}}"#);
        assert!(error().contains("worker.ign is missing"), "{}", error());
        write("worker.ign", r#"{"ignition":{"version":"9.0.0"}}"#);
        assert!(error().contains("worker.ign is not a usable Ignition config"), "{}", error());
        write("worker.ign", r#"{"ignition":{"version":"3.4.0"}}"#);
        GivenFiles::open(directory.path()).unwrap();
        let files = ClusterFiles::Given(directory.path().to_owned());
        assert_eq!(files.read("arbiter.ign").unwrap(), None);
        for metadata in ["{", r#"{"clusterID":"x"}"#, "{}"] {
            write("metadata.json", metadata);
            assert_eq!(files.cluster_id().unwrap(), None, "{metadata}");
        }
        let id = Uuid::from_u128(7);
        write("metadata.json", &format!(r#"{{"clusterID":"{id}"}}"#));
        assert_eq!(files.cluster_id().unwrap(), Some(id));
        assert_eq!(files.read("worker.ign").unwrap().unwrap(), br#"{"ignition":{"version":"3.4.0"}}"#);
    }

    #[test]
    fn a_clusters_own_directory_comes_first() {
        let directory = tempfile::tempdir().unwrap();
        let cluster = Cluster {
            id: ClusterId::random(),
            name: "edge".into(),
            base_dns_domain: "example.com".into(),
            ..Cluster::default()
        };
        let record = ClusterRecord::new(ClusterState::Ready, cluster, Secret::default());
        let fill = |path: &Path| {
            fs::create_dir_all(path).unwrap();
            REQUIRED.iter().for_each(|name| fs::write(path.join(name), NOTHING).unwrap());
        };
        let (named, shared) = (directory.path().join("edge.example.com"), directory.path().to_owned());
        fill(&directory.path().join("other.example.com"));
        let files = GivenFiles::open(directory.path()).unwrap();
        assert_eq!(files.of_cluster(&record), None);
        fill(&shared);
        assert_eq!(files.of_cluster(&record), Some(shared.clone()));
        fill(&named);
        assert_eq!(files.of_cluster(&record), Some(named));
        let by_id = shared.join(record.cluster.id.to_string());
        fill(&by_id);
        assert_eq!(files.of_cluster(&record), Some(by_id));
        fs::write(shared.join("other.example.com/master.ign"), "{").unwrap();
        assert!(GivenFiles::open(directory.path()).is_err());
    }

    #[test]
    fn the_identity_is_in_the_bootstraps_config() {
        let id = Uuid::from_u128(9);
        let config = |content: &str| {
            let source = ignition::data_url::base64(content.as_bytes());
            json!({"storage": {"files": [{"path": "/other"}, {"path": super::super::IDENTITY, "contents": {"source": source}}]}})
                .to_string()
        };
        assert_eq!(identity(config(&format!("kind: ClusterVersion\nspec:\n  clusterID: {id}\n")).as_bytes()), Some(id));
        for bad in ["spec: {}", "spec: {clusterID: 7}", "a: [", ""] {
            assert_eq!(identity(config(bad).as_bytes()), None, "{bad}");
        }
        assert_eq!(identity(NOTHING.as_bytes()), None);
    }
}
