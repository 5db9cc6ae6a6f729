//! Recovers records from a damaged store.
//!
//! Its trees are walked as far as possible. Where a tree is broken the file is searched for leaf pages, whose records are encrypted:
//! whatever the key decrypts was once written there. This may find several versions of a record, of which the newest counts, and
//! deleted records. Layout of a leaf page: <https://github.com/cberner/redb/blob/master/docs/design.md>.

use super::error::StoreError;
use super::key::{KINDS, Row, RowKey, walk_table};
use super::layout::{CACHE_BYTES, FORMAT, META};
use super::open::{PATIENCE, open_file};
use super::seal::Seal;
use kernel::attempt::attempt;
use redb::{Database, ReadableDatabase};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Pages start at multiples of it.
const PAGE_BYTES: u64 = 4096;
const LEAF: u8 = 1;
/// A leaf of small records has a few hundred.
const MAX_ENTRIES: usize = 1024;
/// A longer record is not one of ours.
const MAX_LEAF_BYTES: usize = 256 << 20;

/// Something that was lost, or may have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The kind of record, or the file.
    pub(crate) kind: &'static str,
    pub(crate) key: String,
    pub(crate) reason: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, key, reason } = self;
        write!(f, "{kind} {key}: {reason}")
    }
}

#[derive(Default)]
pub(super) struct Salvaged {
    pub(super) rows: BTreeMap<RowKey, Vec<u8>>,
    pub(super) damage: Vec<Damage>,
}

/// Reads all that can be read; `is_open` says whether the file opens as a database.
pub(super) fn salvage(path: &Path, is_open: bool, seal: &Seal) -> Result<Salvaged, StoreError> {
    let mut found = Salvaged::default();
    let mut damaged = BTreeSet::new();
    // Tables to search the file for.
    let mut broken = BTreeSet::from(KINDS);
    for kind in KINDS.into_iter().filter(|_| is_open) {
        let (rows, is_read) = read_table(path, kind)?;
        let (good, bad): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| is_record(row, seal));
        // One flipped bit can make a full table an empty one, or lead to a tree of other records.
        let is_tree = good.len() > bad.len();
        found.rows.extend(good);
        if is_tree {
            damaged.extend(bad.into_iter().map(|(key, _)| key));
        }
        if is_tree && is_read {
            broken.remove(kind);
        }
    }
    if !broken.is_empty() {
        let (good, bad) = search(path, seal).map_err(|source| StoreError::Directory { path: path.into(), source })?;
        let mut added = 0_u32;
        for (key, (_, value)) in good {
            // An older version is not what is damaged. Events have one: a damaged key may name another event.
            let is_older = damaged.contains(&key) && !matches!(key, RowKey::Event(_));
            if broken.contains(key.kind()) && !is_older && !found.rows.contains_key(&key) {
                found.rows.insert(key, value);
                added += 1;
            }
        }
        damaged.extend(bad.into_iter().filter(|key| broken.contains(key.kind())));
        found.damage.push(Damage {
            kind: "file",
            key: path.display().to_string(),
            reason: format!("{added} records were found outside its trees: they may be outdated or deleted"),
        });
    }
    let lost = damaged.into_iter().filter(|key| !found.rows.contains_key(key));
    let lost: Vec<Damage> =
        lost.map(|key| Damage { kind: key.kind(), key: key.name(), reason: "it cannot be decrypted".into() }).collect();
    found.damage.extend(lost);
    Ok(found)
}

/// Whether a row is a record: what is not sealed opens as it is.
fn is_record((key, value): &Row, seal: &Seal) -> bool {
    let document = seal.open(key.kind(), &key.name(), value);
    document.is_ok_and(|document| serde_json::from_slice::<Map<String, Value>>(&document).is_ok())
}

/// The records of a table, and whether that is all of them. Another process reads them: the library may panic at damage.
fn read_table(path: &Path, kind: &'static str) -> Result<(Vec<Row>, bool), StoreError> {
    let read = attempt(PATIENCE, |out| {
        let database = open_file(path).map_err(io::Error::other)?;
        let transaction = database.begin_read().map_err(io::Error::other)?;
        let mut each = |key: RowKey, value: &[u8]| {
            let key = key.to_bytes();
            let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
            let row = [&len(&key)[..], &len(value), &key, value].concat();
            out.write_all(&row).map_err(|source| StoreError::Process { path: path.into(), source })
        };
        walk_table(&transaction, kind, &mut each).map_err(io::Error::other)
    });
    let read = read.map_err(|source| StoreError::Process { path: path.into(), source })?;
    let mut rest = &read.output[..];
    let mut rows = Vec::new();
    while let Some((row, after)) = next_row(rest) {
        rows.push(row);
        rest = after;
    }
    Ok((rows, read.failure.is_none()))
}

fn next_row(bytes: &[u8]) -> Option<(Row, &[u8])> {
    let (lengths, rest) = bytes.split_first_chunk::<8>()?;
    let len = |bytes: &[u8]| usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok();
    let (key, rest) = rest.split_at_checked(len(&lengths[..4])?)?;
    let (value, rest) = rest.split_at_checked(len(&lengths[4..])?)?;
    Some(((RowKey::from_bytes(key)?, value.to_vec()), rest))
}

/// Each record by its last change, and those that can't be decrypted.
type Search = (BTreeMap<RowKey, (String, Vec<u8>)>, BTreeSet<RowKey>);

fn search(path: &Path, seal: &Seal) -> io::Result<Search> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let (mut good, mut bad): Search = Default::default();
    for offset in (0..len).step_by(usize::try_from(PAGE_BYTES).unwrap_or(usize::MAX)) {
        for (key, value) in leaf(&file, offset, len, seal)? {
            let Ok(document) = seal.open(key.kind(), &key.name(), &value) else {
                bad.insert(key);
                continue;
            };
            let version = version(&document);
            if good.get(&key).is_none_or(|(known, _)| *known <= version) {
                good.insert(key, (version, value));
            }
        }
    }
    Ok((good, bad))
}

/// When it was last changed. Times sort as text.
fn version(document: &[u8]) -> String {
    let document: Value = serde_json::from_slice(document).unwrap_or_default();
    let times = ["cluster", "host", "infra_env"].iter().filter_map(|part| document[part]["updated_at"].as_str());
    times.max().unwrap_or_default().to_owned()
}

/// The sealed records of a page, if it is a leaf of one of our tables.
fn leaf(file: &File, offset: u64, len: u64, seal: &Seal) -> io::Result<Vec<Row>> {
    let mut head = [0; 4];
    // The last page of a truncated file may still have records.
    if len - offset < 4 {
        return Ok(Vec::new());
    }
    file.read_exact_at(&mut head, offset)?;
    let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
    if head[0] != LEAF || count == 0 || count > MAX_ENTRIES {
        return Ok(Vec::new());
    }
    let mut ends = vec![0; 4 * count];
    if file.read_exact_at(&mut ends, offset + 4).is_err() {
        return Ok(Vec::new());
    }
    let ends: Vec<usize> = ends
        .chunks_exact(4)
        .map(|end| usize::try_from(u32::from_le_bytes([end[0], end[1], end[2], end[3]])).unwrap_or(usize::MAX))
        .collect();
    let left = usize::try_from(len - offset).unwrap_or(usize::MAX).min(MAX_LEAF_BYTES);
    // A damaged offset may point anywhere.
    let last = ends.iter().copied().filter(|end| *end <= left).max().unwrap_or(0);
    let mut page = vec![0; last];
    file.read_exact_at(&mut page, offset)?;
    // The width of the keys tells the table; which records decrypt tells the width.
    let mut likely = Vec::new();
    for width in [16, 32, 8] {
        let keys_at = 4 + 4 * count;
        let values_at = keys_at + width * count;
        let mut rows = Vec::new();
        for (index, end) in ends.iter().enumerate() {
            let start = if index == 0 { values_at } else { ends[index - 1] };
            let key = page.get(keys_at + width * index..keys_at + width * (index + 1));
            let (Some(key), Some(value)) = (key, page.get(start..*end)) else { continue };
            if start >= values_at && Seal::is_sealed(value) {
                rows.extend(named(key, value));
            }
        }
        if rows.iter().any(|(key, value)| seal.open(key.kind(), &key.name(), value).is_ok()) {
            return Ok(rows);
        }
        if page.get(values_at) == Some(&1) && likely.is_empty() {
            likely = rows;
        }
    }
    Ok(likely)
}

/// A record under each possible name.
fn named(key: &[u8], value: &[u8]) -> Vec<Row> {
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u128::from_le_bytes);
    let names = match key.len() {
        16 => number(key).map(|id| vec![RowKey::Cluster(id), RowKey::InfraEnv(id)]),
        32 => number(&key[..16]).zip(number(&key[16..])).map(|(infra_env, id)| vec![RowKey::Host(infra_env, id)]),
        _ => key.try_into().ok().map(|bytes| vec![RowKey::Event(u64::from_le_bytes(bytes))]),
    };
    names.unwrap_or_default().into_iter().map(|name| (name, value.to_vec())).collect()
}

/// A new store of these records at `path`, which must not exist.
pub(super) fn build(path: &Path, rows: &mut dyn Iterator<Item = Result<Row, StoreError>>) -> Result<(), StoreError> {
    const AT_ONCE: usize = 1000;
    let database = Database::builder()
        .set_cache_size(CACHE_BYTES)
        .create_file(
            fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(|source| StoreError::Directory { path: path.into(), source })?,
        )
        .map_err(|error| StoreError::Open { path: path.into(), source: Box::new(error) })?;
    let mut is_over = false;
    while !is_over {
        let transaction = database.begin_write()?;
        transaction.open_table(META)?.insert("format", FORMAT)?;
        RowKey::make_tables(&transaction)?;
        is_over = true;
        for row in (&mut *rows).take(AT_ONCE) {
            let (key, value) = row?;
            key.insert(&transaction, &value)?;
            is_over = false;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Replaces a damaged store by a new one; returns the new name of the damaged one.
pub(super) fn replace(path: &Path, rows: BTreeMap<RowKey, Vec<u8>>, aside: &str) -> Result<PathBuf, StoreError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Directory { path, source }
    };
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let new = beside(".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&new)(error)),
        _ => {}
    }
    build(&new, &mut rows.into_iter().map(Ok))?;
    let old = (0..).map(|n: u32| beside(&format!(".{aside}-{n}"))).find(|name| !name.exists()).unwrap_or(beside(aside));
    if path.exists() {
        fs::rename(path, &old).map_err(at(path))?;
    }
    fs::rename(&new, path).map_err(at(&new))?;
    if let Some(directory) = path.parent() {
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(at(directory))?;
    }
    Ok(old)
}
