//! The catalogue's lists: JSON in the form that is in use for them.

use super::{CatalogueError, MULTI, MustGather, OsImage, Release, SupportLevel, normal_architecture, version};
use crate::infra_env::DISCONNECTED_ISO;
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
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
    os_stream: String,
    default_os_stream: bool,
    #[serde(rename = "type")]
    kind: String,
    sha256: String,
}

/// Where a list is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    File(PathBuf),
    /// The list itself, as the published service has it in its environment.
    Text(String),
}

impl Listing {
    /// For errors.
    pub(super) fn name(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Text(_) => "the list given as text".into(),
        }
    }
}

impl From<OsString> for Listing {
    fn from(text: OsString) -> Self {
        match text.to_str().filter(|text| text.trim_start().starts_with(['[', '{'])) {
            Some(json) => Self::Text(json.to_owned()),
            None => Self::File(text.into()),
        }
    }
}

impl From<PathBuf> for Listing {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

/// `[{"openshift_version": …, "cpu_architecture": …, "cpu_architectures": […], "url": …, "version": …}]`.
pub(crate) fn releases(list: &Listing) -> Result<Vec<Release>, CatalogueError> {
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
    entries(list, "a JSON list of release images", release)
}

/// `[{"openshift_version": …, "cpu_architecture": …, "url": …, "version": …, "os_stream": …, "default_os_stream": …, "type": …}]`.
pub(crate) fn os_images(list: &Listing) -> Result<Vec<OsImage>, CatalogueError> {
    entries(list, "a JSON list of OS images", |entry: Entry| {
        check(&entry, false)?;
        let offline = match entry.kind.as_str() {
            "" | "full-iso" => false,
            DISCONNECTED_ISO => true,
            other => return Err(format!("type: '{}' is neither full-iso nor {DISCONNECTED_ISO}", shortened(other))),
        };
        let is_digest = entry.sha256.len() == 64 && entry.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !entry.sha256.is_empty() && !is_digest {
            return Err("sha256: it has not 64 hexadecimal digits".to_owned());
        }
        Ok(OsImage {
            cpu_architecture: normal_architecture(&entry.cpu_architecture).to_owned(),
            openshift_version: entry.openshift_version,
            url: entry.url,
            version: entry.version,
            os_stream: entry.os_stream,
            default_os_stream: entry.default_os_stream,
            offline,
            sha256: entry.sha256,
        })
    })
}

/// A JSON list of versions, `x.y` or `x.y.z`.
pub(crate) fn versions(list: &Listing) -> Result<Vec<String>, CatalogueError> {
    let all: Vec<String> = parse(list, "a JSON list of versions")?;
    bound(list, all.len())?;
    let is_bad = |text: &str| version::minor(text).is_none() || version::form(text).is_none();
    match all.iter().enumerate().find(|(_, text)| is_bad(text)) {
        None => Ok(all),
        Some((index, text)) => {
            let why = format!("'{}' is not a version such as 4.22 or 4.22.9", shortened(text));
            Err(CatalogueError::Entry { path: list.name(), index: index + 1, why })
        }
    }
}

/// A JSON object whose values are texts.
pub(crate) fn string_map(list: &Listing) -> Result<BTreeMap<String, String>, CatalogueError> {
    let map: BTreeMap<String, String> = parse(list, "a JSON object with texts")?;
    bound(list, map.len())?;
    Ok(map)
}

/// `{"4.22-x86_64": {"ocp": "IMAGE", …}}`; a key may be a full version with an architecture, a minor release with one, or a minor
/// release.
pub(crate) fn must_gather(list: &Listing) -> Result<BTreeMap<String, MustGather>, CatalogueError> {
    let all: BTreeMap<String, MustGather> = parse(list, "a JSON object of versions with objects of images")?;
    bound(list, all.values().map(BTreeMap::len).sum())?;
    for (index, (key, images)) in all.iter().enumerate() {
        let bad =
            images.iter().find(|(name, image)| name.is_empty() || image.is_empty() || image.len() > MAX_TEXT_BYTES);
        let why = match bad {
            Some((name, _)) => format!("{}: the image of '{}' is empty or too long", shortened(key), shortened(name)),
            None if version::minor(key).is_none() => format!("'{}' begins with no version", shortened(key)),
            None => continue,
        };
        return Err(CatalogueError::Entry { path: list.name(), index: index + 1, why });
    }
    Ok(all)
}

fn check(entry: &Entry, multi: bool) -> Result<(), String> {
    let texts = [
        ("openshift_version", &entry.openshift_version),
        ("cpu_architecture", &entry.cpu_architecture),
        ("url", &entry.url),
        ("version", &entry.version),
        ("os_stream", &entry.os_stream),
    ];
    for (name, text) in texts {
        if text.is_empty() && name != "os_stream" {
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

pub(super) fn is_architecture(name: &str, multi: bool) -> bool {
    ARCHITECTURES.contains(&name) || multi && name == MULTI
}

fn entries<T>(
    list: &Listing,
    expected: &'static str,
    mut convert: impl FnMut(Entry) -> Result<T, String>,
) -> Result<Vec<T>, CatalogueError> {
    let all: Vec<Entry> = parse(list, expected)?;
    bound(list, all.len())?;
    let refused = |index: usize, why| CatalogueError::Entry { path: list.name(), index: index + 1, why };
    let converted = all.into_iter().enumerate();
    converted.map(|(index, entry)| convert(entry).map_err(|why| refused(index, why))).collect()
}

pub(super) fn bound(list: &Listing, count: usize) -> Result<(), CatalogueError> {
    if count > MAX_ENTRIES {
        return Err(CatalogueError::TooMany { path: list.name(), count, limit: MAX_ENTRIES });
    }
    Ok(())
}

pub(super) fn parse<T: DeserializeOwned>(list: &Listing, expected: &'static str) -> Result<T, CatalogueError> {
    let read = |path: &Path| {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = match list {
        Listing::File(path) => read(path).map_err(|source| CatalogueError::Read { path: path.clone(), source })?,
        Listing::Text(text) => text.clone().into_bytes(),
    };
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(CatalogueError::TooLarge { path: list.name(), limit: MAX_BYTES });
    }
    serde_json::from_slice(&bytes).map_err(|source| CatalogueError::Json { path: list.name(), expected, source })
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
