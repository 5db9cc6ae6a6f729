//! The catalogue's files: JSON in the form that is in use for them.

use super::{CatalogueError, MULTI, MustGather, OsImage, Release, SupportLevel, normal_architecture, version};
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::Path,
};

/// The list of all releases there ever were is a tenth of this.
const MAX_BYTES: u64 = 4 << 20;
const MAX_ENTRIES: usize = 4096;
const MAX_TEXT_BYTES: usize = 1024;
pub(crate) const ARCHITECTURES: [&str; 5] = ["x86_64", "aarch64", "arm64", "ppc64le", "s390x"];

/// Members beside these are for other readers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    openshift_version: String,
    cpu_architecture: String,
    cpu_architectures: Option<Vec<String>>,
    url: String,
    version: String,
    default: bool,
    support_level: Option<SupportLevel>,
}

/// `[{"openshift_version": …, "cpu_architecture": …, "cpu_architectures": […], "url": …, "version": …}]`.
pub(crate) fn releases(path: &Path) -> Result<Vec<Release>, CatalogueError> {
    let mut urls = BTreeSet::new();
    let release = |entry: Entry| {
        check(&entry, true)?;
        let architectures = entry.cpu_architectures.filter(|list| !list.is_empty());
        let architectures = architectures.unwrap_or_else(|| vec![entry.cpu_architecture.clone()]);
        if let Some(bad) = architectures.iter().find(|name| !is_architecture(name, true)) {
            return Err(format!("cpu_architectures: '{}' is not an architecture", shortened(bad)));
        }
        if !urls.insert(entry.url.clone()) {
            return Err(format!("url {} is that of an earlier entry", shortened(&entry.url)));
        }
        Ok(Release {
            cpu_architecture: normal_architecture(&entry.cpu_architecture).to_owned(),
            cpu_architectures: architectures.iter().map(|name| normal_architecture(name).to_owned()).collect(),
            openshift_version: entry.openshift_version,
            url: entry.url,
            version: entry.version,
            default: entry.default,
            support_level: entry.support_level,
        })
    };
    entries(path, "a JSON list of release images", release)
}

/// `[{"openshift_version": …, "cpu_architecture": …, "url": …, "version": …}]`.
pub(crate) fn os_images(path: &Path) -> Result<Vec<OsImage>, CatalogueError> {
    entries(path, "a JSON list of OS images", |entry: Entry| {
        check(&entry, false)?;
        Ok(OsImage {
            cpu_architecture: normal_architecture(&entry.cpu_architecture).to_owned(),
            openshift_version: entry.openshift_version,
            url: entry.url,
            version: entry.version,
        })
    })
}

/// `{"4.22-x86_64": {"ocp": "IMAGE", …}}`; a key may be a full version with an architecture, a minor release with one, or a minor
/// release.
pub(crate) fn must_gather(path: &Path) -> Result<BTreeMap<String, MustGather>, CatalogueError> {
    let all: BTreeMap<String, MustGather> = parse(path, "a JSON object of versions with objects of images")?;
    bound(path, all.values().map(BTreeMap::len).sum())?;
    for (index, (key, images)) in all.iter().enumerate() {
        let bad =
            images.iter().find(|(name, image)| name.is_empty() || image.is_empty() || image.len() > MAX_TEXT_BYTES);
        let why = match bad {
            Some((name, _)) => format!("{}: the image of '{}' is empty or too long", shortened(key), shortened(name)),
            None if version::minor(key).is_none() => format!("'{}' begins with no version", shortened(key)),
            None => continue,
        };
        return Err(CatalogueError::Entry { path: path.to_owned(), index: index + 1, why });
    }
    Ok(all)
}

fn check(entry: &Entry, multi: bool) -> Result<(), String> {
    let texts = [
        ("openshift_version", &entry.openshift_version),
        ("cpu_architecture", &entry.cpu_architecture),
        ("url", &entry.url),
        ("version", &entry.version),
    ];
    for (name, text) in texts {
        if text.is_empty() {
            return Err(format!("{name} is missing"));
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(format!("{name} is longer than {MAX_TEXT_BYTES} bytes"));
        }
    }
    if !is_architecture(&entry.cpu_architecture, multi) {
        return Err(format!("cpu_architecture: '{}' is not an architecture", shortened(&entry.cpu_architecture)));
    }
    if version::form(&entry.openshift_version).is_none() {
        return Err(format!("openshift_version: '{}' is not a version", shortened(&entry.openshift_version)));
    }
    if multi && version::form(&entry.version).is_none() {
        return Err(format!("version: '{}' is not a version", shortened(&entry.version)));
    }
    Ok(())
}

fn is_architecture(name: &str, multi: bool) -> bool {
    ARCHITECTURES.contains(&name) || multi && name == MULTI
}

fn entries<T>(
    path: &Path,
    expected: &'static str,
    mut convert: impl FnMut(Entry) -> Result<T, String>,
) -> Result<Vec<T>, CatalogueError> {
    let all: Vec<Entry> = parse(path, expected)?;
    bound(path, all.len())?;
    let refused = |index: usize, why| CatalogueError::Entry { path: path.to_owned(), index: index + 1, why };
    let converted = all.into_iter().enumerate();
    converted.map(|(index, entry)| convert(entry).map_err(|why| refused(index, why))).collect()
}

fn bound(path: &Path, count: usize) -> Result<(), CatalogueError> {
    if count > MAX_ENTRIES {
        return Err(CatalogueError::TooMany { path: path.to_owned(), count, limit: MAX_ENTRIES });
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, CatalogueError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|source| CatalogueError::Read { path: path.to_owned(), source })?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(CatalogueError::TooLarge { path: path.to_owned(), limit: MAX_BYTES });
    }
    serde_json::from_slice(&bytes).map_err(|source| CatalogueError::Json { path: path.to_owned(), expected, source })
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
