//! The files of all hosts, read.

use super::{ApplyError, Mac};
use crate::network::MAP_NAME;
use kernel::order;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// No profile and no map of real networks comes near it.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// One `hostN` directory.
#[derive(Clone)]
pub struct HostDir {
    pub(super) path: PathBuf,
    /// `host0`
    pub name: String,
    pub(super) map: Vec<(Mac, String)>,
    /// Keyfiles (`.nmconnection`) and policies (`.yml`), texts by name.
    pub(super) files: BTreeMap<String, String>,
}

/// The directories `host*` below `dir`, in the order of their numbers. One without a map is skipped, as by the service's
/// script; its name is in the second list.
pub fn read_hosts(dir: &Path) -> Result<(Vec<HostDir>, Vec<String>), ApplyError> {
    let (mut hosts, mut passed_over) = (Vec::new(), Vec::new());
    for (name, path) in entries(dir)? {
        if !name.starts_with("host") || !path.is_dir() {
            continue;
        }
        let map_path = path.join(MAP_NAME);
        if !map_path.exists() {
            passed_over.push(name);
            continue;
        }
        let map = parse_map(&map_path, &read(&map_path)?)?;
        let mut files = BTreeMap::new();
        for (file, path) in entries(&path)? {
            if file.ends_with(".nmconnection") || file.ends_with(".yml") {
                files.insert(file, read(&path)?);
            }
        }
        hosts.push(HostDir { path, name, map, files });
    }
    let number = |name: &str| name.trim_start_matches("host").parse::<u64>().unwrap_or(u64::MAX);
    order::sort_by(&mut hosts, |a, b| number(&a.name).cmp(&number(&b.name)).then_with(|| a.name.cmp(&b.name)));
    order::sort(&mut passed_over);
    Ok((hosts, passed_over))
}

fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>, ApplyError> {
    let failed = |source| ApplyError::Read { path: dir.to_owned(), source };
    let name = |entry: io::Result<fs::DirEntry>| {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        name.map(|name| (name, path.clone())).ok_or(ApplyError::Text { path })
    };
    fs::read_dir(dir).map_err(failed)?.map(name).collect()
}

fn read(path: &Path) -> Result<String, ApplyError> {
    let failed = |source| ApplyError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(failed)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
        return Err(ApplyError::TooLong { path: path.to_owned(), max: MAX_FILE_BYTES });
    }
    String::from_utf8(bytes).map_err(|_| ApplyError::Text { path: path.to_owned() })
}

fn parse_map(path: &Path, text: &str) -> Result<Vec<(Mac, String)>, ApplyError> {
    let mut map = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |reason: String| ApplyError::Map { path: path.to_owned(), line: index.saturating_add(1), reason };
        let (mac, name) = line.split_once('=').ok_or_else(|| wrong("expected MAC=name".to_owned()))?;
        let mac = mac.trim().parse().map_err(|error: crate::network::mac::MacError| wrong(error.to_string()))?;
        map.push((mac, name.trim().to_owned()));
    }
    Ok(map)
}
