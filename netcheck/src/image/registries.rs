//! Where an image is fetched from: containers-registries.conf(5), version 2, with its drop-in directory.

use super::reference::{Name, Reference, ReferenceError, check_registry};
use crate::files::read_text;
use kernel::order;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// The longest in the wild have some KiB.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A place to fetch an image from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The image's name there.
    pub reference: Reference,
    /// The certificate need not be good, and plain HTTP will do.
    pub insecure: bool,
    /// The administrator forbids it.
    pub blocked: bool,
    /// Stands in for the registry that the image's name tells.
    pub mirror: bool,
}

/// What the files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registries {
    search: Option<Vec<String>>,
    aliases: BTreeMap<String, String>,
    /// By prefix.
    registries: BTreeMap<String, Registry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Registry {
    source: Location,
    blocked: bool,
    mirrors: Vec<(Location, PullFromMirror)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Location {
    /// Takes the prefix's place; empty under a prefix `*.domain`, which then stays as it is.
    location: String,
    insecure: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PullFromMirror {
    #[default]
    #[serde(alias = "")]
    All,
    DigestOnly,
    TagOnly,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    unqualified_search_registries: Option<Vec<String>>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
    #[serde(default)]
    registry: Vec<RegistryTable>,
    /// Version 1's tables.
    registries: Option<toml::Table>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RegistryTable {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<MirrorTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MirrorTable {
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    pull_from_mirror: PullFromMirror,
}

/// What is wrong with a text in the form of registries.conf.
#[derive(Debug, thiserror::Error)]
pub enum RegistriesFault {
    /// Not TOML, or other fields.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// Deprecated since 2019, without mirrors.
    #[error("version 1 of the format is not supported: write [[registry]] tables in place of [registries.*]")]
    Version1,
    #[error("a [[registry]] table has neither prefix nor location")]
    Nameless,
    /// Neither host nor host with path.
    #[error("location '{location}' is not of the form host[:port][/path]")]
    Location { location: String },
}

/// Why the files can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistriesError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not a registries.conf", path.display())]
    Form { path: PathBuf, source: RegistriesFault },
}

/// Why a name leads nowhere.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No registry in it, and none to search.
    #[error(
        "'{path}' names no registry, and registries.conf has neither an alias for it nor unqualified-search-registries: write the full name"
    )]
    Short {
        /// The name without tag and digest.
        path: String,
    },
    /// What registries.conf makes of it is not a name.
    #[error("registries.conf rewrites it to '{name}'")]
    Rewritten {
        name: String,
        /// Why it is none.
        source: ReferenceError,
    },
    /// What registries.conf makes of it has no registry.
    #[error("registries.conf rewrites it to '{name}', which names no registry")]
    NoRegistry { name: String },
}

/// Reads the text of one file.
pub fn parse(text: &str) -> Result<Registries, RegistriesFault> {
    let file: File = toml::from_str(text)?;
    if file.registries.is_some() {
        return Err(RegistriesFault::Version1);
    }
    let mut registries = BTreeMap::new();
    for table in file.registry {
        let location = check_location(&table.location)?;
        let prefix = if table.prefix.is_empty() { location.clone() } else { table.prefix.trim_end_matches('/').into() };
        if prefix.is_empty() {
            return Err(RegistriesFault::Nameless);
        }
        let location = if location.is_empty() && !prefix.starts_with("*.") { prefix.clone() } else { location };
        let mut mirrors = Vec::new();
        for mirror in table.mirror {
            let location = check_location(&mirror.location)?;
            let pull = if table.mirror_by_digest_only { PullFromMirror::DigestOnly } else { mirror.pull_from_mirror };
            mirrors.push((Location { location, insecure: mirror.insecure }, pull));
        }
        let source = Location { location, insecure: table.insecure };
        registries.insert(prefix, Registry { source, blocked: table.blocked, mirrors });
    }
    Ok(Registries { search: file.unqualified_search_registries, aliases: file.aliases, registries })
}

fn check_location(location: &str) -> Result<String, RegistriesFault> {
    let trimmed = location.trim_end_matches('/');
    let host = trimmed.split('/').next().unwrap_or_default();
    if !trimmed.is_empty() && check_registry(host).is_err() {
        return Err(RegistriesFault::Location { location: location.to_owned() });
    }
    Ok(trimmed.to_owned())
}

impl Registries {
    /// Reads `path`, then the files `*.conf` of `path` + `.d` in the order of their names. A missing directory is not an
    /// error, and neither is a missing file unless it `must_exist`.
    pub fn load(path: &Path, must_exist: bool) -> Result<Self, RegistriesError> {
        let mut registries = Self::default();
        let read = |path: &Path, source| RegistriesError::Read { path: path.to_owned(), source };
        let mut add = |path: &Path| {
            let text = read_text(path, MAX_FILE_BYTES).map_err(|source| read(path, source))?;
            let later = parse(&text).map_err(|source| RegistriesError::Form { path: path.to_owned(), source })?;
            registries.overlay(later);
            Ok(())
        };
        if must_exist || path.exists() {
            add(path)?;
        }
        let mut directory = OsString::from(path);
        directory.push(".d");
        let directory = PathBuf::from(directory);
        let mut drop_ins = match fs::read_dir(&directory) {
            Ok(entries) => entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|source| read(&directory, source))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(read(&directory, source)),
        };
        drop_ins.retain(|path| path.extension().is_some_and(|extension| extension == "conf") && path.is_file());
        order::sort(&mut drop_ins);
        drop_ins.iter().try_for_each(|path| add(path))?;
        Ok(registries)
    }

    /// Sources and the places of their images that are asked for by digest, for programs that read the mirrors in another form.
    pub fn digest_mirrors(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.registries.iter().filter_map(|(prefix, registry)| {
            let by_digest = registry.mirrors.iter().filter(|(_, pull)| *pull != PullFromMirror::TagOnly);
            let mirrors: Vec<_> = by_digest.map(|(place, _)| place.location.as_str()).collect();
            let source = if registry.source.location.is_empty() { prefix } else { &registry.source.location };
            (!mirrors.is_empty()).then_some((source.as_str(), mirrors))
        })
    }

    /// What a later file says replaces what the earlier one said of the same prefix, alias or list.
    pub fn overlay(&mut self, later: Self) {
        if later.search.is_some() {
            self.search = later.search;
        }
        self.aliases.extend(later.aliases);
        self.registries.extend(later.registries);
    }

    /// Where the image may be, in the order in which to look.
    ///
    /// Of the `[[registry]]` tables the one with the longest prefix counts: its mirrors, then the source. A blocked registry
    /// blocks its own name only, so that mirrors of it work. A name without registry goes by its alias, else by all search
    /// registries: `short-name-mode` has no effect here.
    pub fn endpoints(&self, name: &Name) -> Result<Vec<Endpoint>, ResolveError> {
        let candidates = match name {
            Name::Full(reference) => vec![reference.clone()],
            Name::Short { path, version } => match self.aliases.get(path).filter(|alias| !alias.is_empty()) {
                Some(alias) => vec![full(&format!("{alias}{version}"))?],
                None => {
                    let search = self.search.iter().flatten();
                    search.map(|host| full(&format!("{host}/{path}{version}"))).collect::<Result<_, _>>()?
                }
            },
        };
        if let (Name::Short { path, .. }, []) = (name, candidates.as_slice()) {
            return Err(ResolveError::Short { path: path.clone() });
        }
        let mut endpoints = Vec::new();
        for reference in candidates {
            self.add_endpoints(&reference, &mut endpoints)?;
        }
        Ok(endpoints)
    }

    fn add_endpoints(&self, reference: &Reference, endpoints: &mut Vec<Endpoint>) -> Result<(), ResolveError> {
        let Some((matched_bytes, registry)) = self.find(reference) else {
            endpoints.push(Endpoint { reference: reference.clone(), insecure: false, blocked: false, mirror: false });
            return Ok(());
        };
        let name = reference.to_string();
        let rest = &name[matched_bytes..];
        let by_digest = reference.version.digest.is_some();
        let at = |place: &Location| match place.location.as_str() {
            "" => Ok(reference.clone()),
            location => full(&format!("{location}{rest}")),
        };
        for (mirror, pull) in &registry.mirrors {
            if matches!((pull, by_digest), (PullFromMirror::DigestOnly, false) | (PullFromMirror::TagOnly, true)) {
                continue;
            }
            let reference = at(mirror)?;
            let blocked = self.find(&reference).is_some_and(|(_, registry)| registry.blocked);
            endpoints.push(Endpoint { reference, insecure: mirror.insecure, blocked, mirror: true });
        }
        let insecure = registry.source.insecure;
        endpoints.push(Endpoint {
            reference: at(&registry.source)?,
            insecure,
            blocked: registry.blocked,
            mirror: false,
        });
        Ok(())
    }

    /// The table with the longest matching prefix, and how much of the name its location replaces.
    fn find(&self, reference: &Reference) -> Option<(usize, &Registry)> {
        let name = reference.to_string();
        let matching = self.registries.iter().filter_map(|(prefix, registry)| {
            let matched_bytes = match prefix.strip_prefix('*') {
                Some(domain) => host(&reference.registry).ends_with(domain).then_some(reference.registry.len())?,
                None => {
                    let rest = name.strip_prefix(prefix.as_str())?;
                    // A colon after a host is a port, and another registry.
                    let ends = if prefix.contains('/') { &['/', ':', '@'][..] } else { &['/'] };
                    (rest.is_empty() || rest.starts_with(ends)).then_some(prefix.len())?
                }
            };
            Some((prefix.len(), matched_bytes, registry))
        });
        matching.max_by_key(|(prefix_bytes, _, _)| *prefix_bytes).map(|(_, matched, registry)| (matched, registry))
    }
}

fn host(registry: &str) -> &str {
    registry.rsplit_once(':').map_or(registry, |(host, _)| host)
}

fn full(name: &str) -> Result<Reference, ResolveError> {
    match name.parse() {
        Ok(Name::Full(reference)) => Ok(reference),
        // A mirror may be a host without a domain, which a person's name of an image may not.
        Ok(Name::Short { path, version }) => match path.split_once('/') {
            Some((registry, path)) => Ok(Reference::new(registry, path, version)),
            None => Err(ResolveError::NoRegistry { name: name.to_owned() }),
        },
        Err(source) => Err(ResolveError::Rewritten { name: name.to_owned(), source }),
    }
}

#[cfg(test)]
#[path = "registries_tests.rs"]
mod tests;
