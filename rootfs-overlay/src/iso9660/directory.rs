//! Directory records (ECMA-119 §9.1), and the walk through all of them.

use super::{Extent, Iso, IsoError, SECTOR_BYTES};
use serde::Serialize;
use std::io::{Read, Seek};

/// A larger directory is refused; the largest of live ISOs are a few sectors.
const MAX_DIRECTORY_BYTES: u64 = 4 << 20;
/// Deeper ones are a loop, or meant to be trouble.
const MAX_DEPTH: usize = 64;
/// As many files and directories at most.
const MAX_RECORDS: usize = 1 << 20;
/// Flag of a record: it is a directory.
const DIRECTORY: u8 = 0x02;
/// Flag of a record: the file continues in the next record.
const CONTINUED: u8 = 0x80;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Directory {
    pub name: String,
    /// The sector it starts at.
    pub address: u32,
    /// Its length in bytes.
    pub length: u32,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name, without version.
    pub name: String,
    /// The sector it starts at.
    pub address: u32,
    /// Its length in bytes.
    pub length: u32,
    pub is_directory: bool,
    /// Whether the file continues in the next record.
    pub continued: bool,
}

impl Record {
    /// Its bytes in the image.
    pub fn extent(&self) -> Extent {
        Extent { offset: u64::from(self.address) * SECTOR_BYTES, len: u64::from(self.length) }
    }

    pub(crate) fn directory(&self) -> Directory {
        Directory { name: self.name.clone(), address: self.address, length: self.length }
    }
}

impl Directory {
    fn extent(&self) -> Extent {
        Extent { offset: u64::from(self.address) * SECTOR_BYTES, len: u64::from(self.length) }
    }
}

impl<R: Read + Seek> Iso<R> {
    /// The entries of a directory, without `.` and `..`.
    pub fn list(&mut self, directory: &Directory) -> Result<Vec<Record>, IsoError> {
        let records = self.records(directory)?.into_iter().map(|(_, record)| record);
        Ok(records.filter(|record| !matches!(record.name.as_str(), "." | "..")).collect())
    }

    /// The entries of a directory with the byte offset of each, `.` and `..` among them.
    pub fn records(&mut self, directory: &Directory) -> Result<Vec<(u64, Record)>, IsoError> {
        let extent = directory.extent();
        let failed = |source| IsoError::List { name: directory.name.clone(), source: Box::new(source) };
        if extent.len > MAX_DIRECTORY_BYTES {
            return Err(failed(IsoError::Directory { offset: extent.offset }));
        }
        let bytes = self.read(extent).map_err(failed)?;
        let mut records = Vec::new();
        let mut offset = extent.offset;
        // Records don't cross sectors; a length of zero ends the sector's.
        for sector in bytes.chunks(2048) {
            let mut rest = sector;
            let mut at = offset;
            while let Some(&length) = rest.first().filter(|length| **length != 0) {
                let bytes = rest.get(..usize::from(length));
                let found = bytes.and_then(record).ok_or(IsoError::Directory { offset: at })?;
                records.push((at, found));
                rest = rest.get(usize::from(length)..).unwrap_or_default();
                at += u64::from(length);
            }
            offset += SECTOR_BYTES;
        }
        Ok(records)
    }

    /// Every file and directory with its path, each directory before what is in it.
    pub fn walk(&mut self) -> Result<Vec<(String, Record)>, IsoError> {
        let mut found = Vec::new();
        let root = self.root().clone();
        let mut open = vec![(String::new(), self.list(&root)?.into_iter())];
        while let Some((path, records)) = open.last_mut() {
            let Some(record) = records.next() else {
                open.pop();
                continue;
            };
            let path = if path.is_empty() { record.name.clone() } else { format!("{path}/{}", record.name) };
            if record.is_directory {
                if open.len() >= MAX_DEPTH {
                    return Err(IsoError::Directory { offset: record.extent().offset });
                }
                let inside = self.list(&record.directory())?;
                open.push((path.clone(), inside.into_iter()));
            }
            found.push((path, record));
            if found.len() > MAX_RECORDS {
                return Err(IsoError::Directory { offset: root.extent().offset });
            }
        }
        Ok(found)
    }

    /// The record of a file or directory at `path`. Case doesn't matter, nor whether names are cut to eight and three characters.
    pub fn get(&mut self, path: &str) -> Result<Record, IsoError> {
        self.look_up(path).map(|(records, at)| records.get(at).cloned()).and_then(|record| match record {
            Some(record) => Ok(record),
            None => Err(IsoError::NotFound { name: path.to_owned(), directory: String::new() }),
        })
    }

    /// The directory at `path`.
    pub fn directory(&mut self, path: &str) -> Result<Directory, IsoError> {
        let record = self.get(path)?;
        if record.is_directory { Ok(record.directory()) } else { Err(IsoError::NotADirectory { name: record.name }) }
    }

    /// The entries of the directory `path` is in, and which of them it is.
    pub(super) fn look_up(&mut self, path: &str) -> Result<(Vec<Record>, usize), IsoError> {
        let parts = components(path);
        let mut directory = self.root().clone();
        let Some((last, parents)) = parts.split_last() else {
            let Directory { name, address, length } = directory;
            return Ok((vec![Record { name, address, length, is_directory: true, continued: false }], 0));
        };
        for part in parents {
            let records = self.list(&directory)?;
            let missing = || IsoError::NoParent { name: (*part).to_owned() };
            let record = position(&records, part).and_then(|at| records.get(at)).ok_or_else(missing)?;
            if !record.is_directory {
                return Err(IsoError::BelowFile { name: (*part).to_owned(), path: path.to_owned() });
            }
            directory = record.directory();
        }
        let records = self.list(&directory)?;
        let missing = || IsoError::NotFound { name: (*last).to_owned(), directory: parents.join("/") };
        let at = position(&records, last).ok_or_else(missing)?;
        Ok((records, at))
    }

    /// The extent of the file whose first record is `records[at]`; larger files than 4 GiB have several, one after the other.
    pub(super) fn whole(&self, records: &[Record], at: usize) -> Result<Extent, IsoError> {
        let mut rest = records.iter().skip(at);
        let Some(first) = rest.next() else {
            return Err(IsoError::NotFound { name: String::new(), directory: String::new() });
        };
        if first.is_directory {
            return Err(IsoError::IsDirectory { name: first.name.clone() });
        }
        let mut extent = first.extent();
        let mut continued = first.continued;
        while continued {
            match rest.next() {
                Some(next) if next.name == first.name && next.extent().offset == extent.end() => {
                    extent.len += next.extent().len;
                    continued = next.continued;
                }
                _ => return Err(IsoError::InPieces { name: first.name.clone() }),
            }
        }
        if extent.end() > self.len() {
            return Err(IsoError::Outside { name: first.name.clone(), end: extent.end(), image: self.len() });
        }
        Ok(extent)
    }
}

/// The names on the way, with `.` and `..` resolved.
fn components(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// The record called `name`, as it is or cut to eight and three characters.
fn position(records: &[Record], name: &str) -> Option<usize> {
    let called = |name: &str| records.iter().position(|record| record.name.eq_ignore_ascii_case(name));
    called(name).or_else(|| called(&cut(name)))
}

/// The name as interchange level 1 has it: `igninfo.json` is `IGNINFO.JSO`.
fn cut(name: &str) -> String {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let stem: String = stem.chars().take(8).collect();
    let extension: String = extension.chars().take(3).collect();
    if extension.is_empty() { stem } else { format!("{stem}.{extension}") }
}

/// Parses a record; `bytes` is at least as long as it says it is.
pub(super) fn record(bytes: &[u8]) -> Option<Record> {
    let number = |at: usize| kernel::bytes::le32(bytes, at);
    let name_len = usize::from(*bytes.get(32)?);
    let flags = *bytes.get(25)?;
    let name = match bytes.get(33..33 + name_len)? {
        [0] => ".".to_owned(),
        [1] => "..".to_owned(),
        name => file_name(name),
    };
    Some(Record {
        name,
        address: number(2)?,
        length: number(10)?,
        is_directory: flags & DIRECTORY != 0,
        continued: flags & CONTINUED != 0,
    })
}

/// Without the version `;1`, without the dot a name without extension may end in; what separates is a dot, as for the kernel.
fn file_name(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b";1").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).replace([';', '/'], ".")
}
