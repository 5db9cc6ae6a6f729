//! What cargo knows of the crates that are linked: its tree, its metadata, its lock file.

use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};
use thiserror::Error;

/// Name and version, as `cargo tree` and the lock file have them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub name: String,
    pub version: String,
}

/// A package that is linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// An SPDX expression, as its manifest has it.
    pub license: Option<String>,
    /// In one line or more.
    pub description: Option<String>,
    /// Where its sources are.
    pub repository: Option<String>,
    /// SHA-256 of the `.crate` file, in hexadecimal; of none that is in this workspace.
    pub sha256: Option<String>,
    pub manifest: PathBuf,
    /// The packages it is linked with.
    pub needs: BTreeSet<Id>,
}

/// All that is linked, sorted.
pub(crate) type Linked = BTreeMap<Id, Package>;

/// Why what cargo printed can't be understood.
#[derive(Debug, Error)]
pub(crate) enum CargoError {
    /// A line of the tree has another form.
    #[error("line {line} of cargo's tree is not a depth, name and version: {seen:?}")]
    Tree { line: usize, seen: String },
    /// The metadata is no JSON of the form we know.
    #[error("cargo's metadata can't be read")]
    Metadata(#[from] serde_json::Error),
    /// The lock file is of another form.
    #[error("Cargo.lock can't be read")]
    Lock(#[from] toml::de::Error),
    #[error("{name} {version} is in cargo's tree and not in its metadata")]
    Unknown { name: String, version: String },
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    name: String,
    version: String,
    license: Option<String>,
    description: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// The packages of `tree` (`cargo tree --prefix depth --format {p}`), with what `metadata` and `lock` say of each.
pub(crate) fn linked(tree: &str, metadata: &str, lock: &str) -> Result<Linked, CargoError> {
    let metadata: Metadata = serde_json::from_str(metadata)?;
    let lock: Lock = toml::from_str(lock)?;
    let id = |name: &str, version: &str| Id { name: name.to_owned(), version: version.to_owned() };
    let checksums: BTreeMap<Id, Option<String>> =
        lock.package.into_iter().map(|package| (id(&package.name, &package.version), package.checksum)).collect();
    let mut described: BTreeMap<Id, Described> =
        metadata.packages.into_iter().map(|package| (id(&package.name, &package.version), package)).collect();
    needs(tree)?
        .into_iter()
        .map(|(id, needs)| {
            let Described { license, description, repository, manifest_path, .. } = described
                .remove(&id)
                .ok_or_else(|| CargoError::Unknown { name: id.name.clone(), version: id.version.clone() })?;
            let sha256 = checksums.get(&id).cloned().flatten();
            Ok((id, Package { license, description, repository, sha256, manifest: manifest_path, needs }))
        })
        .collect()
}

/// Who needs whom: each line's package is needed by the nearest line above it that is one less deep.
fn needs(tree: &str) -> Result<BTreeMap<Id, BTreeSet<Id>>, CargoError> {
    let mut all: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
    let mut above: Vec<Id> = Vec::new();
    for (number, line) in tree.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let (depth, id) = parse(line).ok_or_else(|| CargoError::Tree { line: number + 1, seen: line.to_owned() })?;
        if depth > above.len() {
            return Err(CargoError::Tree { line: number + 1, seen: line.to_owned() });
        }
        above.truncate(depth);
        if let Some(user) = above.last() {
            all.entry(user.clone()).or_default().insert(id.clone());
        }
        all.entry(id.clone()).or_default();
        above.push(id);
    }
    Ok(all)
}

/// `3zstd-sys v2.1.2+zstd.1.5.7 (*)`; what is in parentheses is a place, or says that it was shown before.
fn parse(line: &str) -> Option<(usize, Id)> {
    let at = line.find(|character: char| !character.is_ascii_digit())?;
    let (depth, rest) = line.split_at_checked(at)?;
    let mut words = rest.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some((depth.parse().ok()?, Id { name: name.to_owned(), version: version.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str, version: &str) -> Id {
        Id { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn each_is_needed_by_the_one_above_it() {
        let tree = "0top v0.1.0 (/any/where)\n1a v1.0.0\n2c v2.1.2+lib.1.5 (*)\n1b v0.3.0\n2c v2.1.2+lib.1.5\n";
        let needs = needs(tree).unwrap();
        let c = id("c", "2.1.2+lib.1.5");
        assert_eq!(needs[&id("top", "0.1.0")], [id("a", "1.0.0"), id("b", "0.3.0")].into());
        assert_eq!((&needs[&id("a", "1.0.0")], &needs[&id("b", "0.3.0")]), (&[c.clone()].into(), &[c.clone()].into()));
        assert!(needs[&c].is_empty());
    }

    #[test]
    fn other_forms_are_refused() {
        for tree in ["top v1.0.0", "0top", "0top 1.0.0", "0top v1.0.0\n2a v1.0.0"] {
            assert!(matches!(needs(tree), Err(CargoError::Tree { .. })), "{tree}");
        }
        let error = linked("0top v1.0.0", r#"{"packages":[]}"#, "version = 4\npackage = []\n").unwrap_err();
        assert_eq!(error.to_string(), "top 1.0.0 is in cargo's tree and not in its metadata");
    }
}
