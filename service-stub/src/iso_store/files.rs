//! The files of the store: `NAME.iso` with the record `NAME.json`, and while it is downloaded `NAME.part` with `NAME.part.json`.

use crate::releases::OsImage;
use crate::text::{hex, url_part};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MAX_RECORD_BYTES: u64 = 64 << 10;
const READ_BYTES: usize = 1 << 20;
/// Ends of names: of an ISO and its record, of an unfinished one and its record.
const ENDS: [&str; 4] = [".iso", ".json", ".part", ".part.json"];

/// The store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}", path.display())]
pub struct StoreError {
    path: PathBuf,
    source: io::Error,
}

/// Where an image's files are.
#[derive(Clone, Debug)]
pub(super) struct Place {
    directory: PathBuf,
    name: String,
}

/// What is known of a stored ISO.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Without what may be secret.
    pub(super) source: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// What is known of an unfinished one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unfinished {
    /// ETag or date.
    pub(super) validator: String,
    /// The run of this machine: what a file had in memory only is lost with its power.
    pub(super) boot: String,
}

impl Place {
    pub(super) fn new(directory: &Path, image: &OsImage) -> Self {
        let kind = if image.offline { "disconnected-iso" } else { "full-iso" };
        let address = hex(&Sha256::digest(&image.url)[..4]);
        let mut version = url_part(&image.version);
        version.truncate(100);
        Self { directory: directory.to_owned(), name: format!("{kind}-{version}-{}-{address}", image.cpu_architecture) }
    }

    fn file(&self, end: &str) -> PathBuf {
        self.directory.join(format!("{}{end}", self.name))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn iso(&self) -> PathBuf {
        self.file(".iso")
    }

    pub(super) fn part(&self) -> PathBuf {
        self.file(".part")
    }

    pub(super) fn record(&self) -> Option<Record> {
        read(&self.file(".json"))
    }

    /// What continues the unfinished file, if anything.
    pub(super) fn validator(&self) -> Option<String> {
        let unfinished: Unfinished = read(&self.file(".part.json"))?;
        (unfinished.boot == boot()).then_some(unfinished.validator)
    }

    /// Remembers what continues the unfinished file.
    pub(super) fn note(&self, validator: Option<&str>) -> io::Result<()> {
        match validator {
            Some(validator) => {
                let unfinished = Unfinished { validator: validator.to_owned(), boot: boot() };
                self.write(".part.json", &unfinished)
            }
            None => self.remove(".part.json"),
        }
    }

    /// Makes the unfinished file the stored one. The record comes first: without its file it counts for nothing.
    pub(super) fn finish(&self, record: &Record) -> io::Result<()> {
        File::open(self.part())?.sync_all()?;
        self.write(".json", record)?;
        fs::rename(self.part(), self.iso())?;
        File::open(&self.directory)?.sync_all()?;
        self.remove(".part.json")
    }

    pub(super) fn remove_unfinished(&self) -> io::Result<()> {
        self.remove(".part").and_then(|()| self.remove(".part.json"))
    }

    pub(super) fn remove_stored(&self) -> io::Result<()> {
        self.remove(".iso").and_then(|()| self.remove(".json"))
    }

    fn remove(&self, end: &str) -> io::Result<()> {
        match fs::remove_file(self.file(end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, end: &str, document: &impl Serialize) -> io::Result<()> {
        let mut draft = tempfile::NamedTempFile::new_in(&self.directory)?;
        draft.write_all(&serde_json::to_vec(document)?)?;
        draft.as_file().sync_all()?;
        draft.persist(self.file(end))?;
        Ok(())
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_RECORD_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn boot() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// SHA-256 of a file, hexadecimal, unless `go_on` ends it.
pub(super) fn digest(mut file: &File, mut go_on: impl FnMut() -> io::Result<()>) -> io::Result<String> {
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; READ_BYTES]);
    loop {
        go_on()?;
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&digest.finalize())),
            Ok(count) => digest.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes the directory, and removes from it what was downloaded for images that are no longer listed. Files of others stay.
pub(super) fn prepare(directory: &Path, places: &[&Place]) -> Result<(), StoreError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError { path, source }
    };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed(directory))?;
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        let Some(name) = name_of(&path) else { continue };
        let is_listed = places.iter().any(|place| place.name == name);
        if is_listed || !is_ours(directory, &name) {
            continue;
        }
        tracing::info!(file = %path.display(), "removing a download of an OS image that is no longer listed");
        let place = Place { directory: directory.to_owned(), name };
        place.remove_stored().and_then(|()| place.remove_unfinished()).map_err(failed(&path))?;
    }
    Ok(())
}

/// The name that a file's name begins with, of those that end as ours do.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name().map(OsString::from)?.into_string().ok()?;
    ENDS.iter().rev().find_map(|end| name.strip_suffix(end)).map(str::to_owned)
}

/// Whether a record shows that we downloaded it.
fn is_ours(directory: &Path, name: &str) -> bool {
    let at = |end: &str| directory.join(format!("{name}{end}"));
    read::<Record>(&at(".json")).is_some() || read::<Unfinished>(&at(".part.json")).is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_our_own_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let image = OsImage { url: "https://a/b.iso".into(), version: "4.22/..".into(), ..OsImage::default() };
        let listed = Place::new(dir.path(), &image);
        assert_eq!(listed.iso().parent(), Some(dir.path()), "{listed:?}");
        let record = Record { source: "s".into(), bytes: 1, sha256: "d".into() };
        let gone = Place { directory: dir.path().to_owned(), name: "gone".into() };
        let unfinished = Place { directory: dir.path().to_owned(), name: "half".into() };
        for place in [&listed, &gone] {
            fs::write(place.part(), b"1").unwrap();
            place.note(Some("\"tag\"")).unwrap();
            assert_eq!(place.validator().as_deref(), Some("\"tag\""));
            place.finish(&record).unwrap();
            assert_eq!(
                (place.validator(), place.record()),
                (None, Some(Record { source: "s".into(), bytes: 1, sha256: "d".into() }))
            );
        }
        fs::write(unfinished.part(), b"1").unwrap();
        unfinished.note(Some("x")).unwrap();
        for (name, text) in [("mine.iso", "iso"), ("notes.json", "{}"), ("other.txt", "")] {
            fs::write(at(name), text).unwrap();
        }
        prepare(dir.path(), &[&listed]).unwrap();
        let mut names: Vec<String> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let mut expected = ["mine.iso", "notes.json", "other.txt"].map(str::to_owned).to_vec();
        expected.extend([format!("{}.iso", listed.name), format!("{}.json", listed.name)]);
        expected.sort();
        assert_eq!(names, expected);
    }
}
