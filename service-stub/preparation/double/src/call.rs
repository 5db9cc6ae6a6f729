//! The record of a call.

use crate::Behaviour;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    env,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

/// A call of the double.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    pub pid: u32,
    pub arguments: Vec<String>,
    /// All of it.
    pub environment: BTreeMap<String, String>,
    pub directory: Option<PathBuf>,
    /// The names in the directory, those of its folders with them.
    pub files: Vec<String>,
    /// What the files of the folders `manifests` and `openshift` contain, if the double is asked to log it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub manifests: BTreeMap<String, String>,
    /// As found; null where there was none.
    pub install_config: Value,
}

impl Call {
    /// This process's own.
    pub fn own(arguments: &[String], directory: Option<&Path>, behaviour: &Behaviour) -> Self {
        let text = directory.and_then(|directory| fs::read(directory.join("install-config.yaml")).ok());
        Self {
            pid: process::id(),
            arguments: arguments.to_vec(),
            environment: env::vars_os()
                .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
                .collect(),
            directory: directory.map(Path::to_owned),
            files: directory.map(names).unwrap_or_default(),
            manifests: directory.filter(|_| behaviour.logs_manifests).map(manifests).unwrap_or_default(),
            install_config: text.and_then(|text| serde_norway::from_slice(&text).ok()).unwrap_or_default(),
        }
    }

    pub fn append(&self, log: &Path) -> io::Result<()> {
        let line = format!("{}\n", serde_json::to_string(self)?);
        OpenOptions::new().create(true).append(true).open(log)?.write_all(line.as_bytes())
    }
}

fn manifests(directory: &Path) -> BTreeMap<String, String> {
    let names = names(directory).into_iter();
    let names = names.filter(|name| name.starts_with("manifests/") || name.starts_with("openshift/"));
    let content = |name: String| Some((name.clone(), fs::read(directory.join(&name)).ok()?));
    let lossy = |(name, content): (String, Vec<u8>)| (name, String::from_utf8_lossy(&content).into_owned());
    names.filter_map(content).map(lossy).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let inner = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        names.extend(inner.map(|inner| format!("{name}/{}", inner.file_name().to_string_lossy())));
        names.push(name);
    }
    names.sort_unstable();
    names
}
