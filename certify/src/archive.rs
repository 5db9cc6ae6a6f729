//! The archive: a tar in which every byte is determined by names and contents (POSIX.1-2017, `pax`, ustar interchange format), so that no
//! byte can be altered unseen.

use crate::{
    manifest::{self, Entry, Manifest},
    result::{HostResult, Run},
    sign::SecretKey,
};
use inventory::report::printable;
use kernel::hex;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

const BLOCK: usize = 512;
/// More members than this are not read.
const MAX_MEMBERS: usize = 1 << 16;
/// Largest member: its size has eleven octal digits.
const MAX_BYTES: u64 = (1 << 33) - 1;

/// An archive that cannot be read or written, and where.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("member {number} ({name}) at byte {at}: {what}")]
    Member { number: usize, name: String, at: u64, what: String },
    #[error("the end of the archive, after {name}, at byte {at}: {what}")]
    End { name: String, at: u64, what: String },
    #[error(
        "'{0}' cannot be the path of a member: it needs parts of letters, digits and ._-%, of at most 100 bytes, not beginning with a dot"
    )]
    Path(String),
    #[error("{path} has {found} bytes, but {expected} were announced")]
    Size { path: String, expected: u64, found: u64 },
    #[error("the run cannot be archived: {0}")]
    Run(String),
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("cannot write the archive: {0}")]
    Write(io::Error),
    #[error(transparent)]
    Sign(#[from] crate::sign::SignError),
}

/// Opens a host's file: its length, and what to read it from.
pub type Open<'a> = dyn FnMut(&HostResult, &str) -> io::Result<(u64, Box<dyn Read>)> + 'a;

/// Writes the signed archive of a run. `open` gives the files that the steps name.
pub fn pack(
    out: &mut dyn Write,
    run: &Run,
    key: &SecretKey,
    signed_unix_seconds: u64,
    open: &mut Open<'_>,
) -> Result<(), ArchiveError> {
    if let Some(fault) = run.fault() {
        return Err(ArchiveError::Run(fault));
    }
    let mut writer = Writer { out, files: Vec::new() };
    let document = |value: serde_json::Result<Vec<u8>>| value.map_err(|error| ArchiveError::Write(error.into()));
    let result = document(serde_json::to_vec_pretty(run))?;
    writer.add(manifest::RESULT, size(&result), &mut result.as_slice())?;
    let mut files = BTreeMap::new();
    for host in &run.hosts {
        let names = host.steps.iter().flat_map(|step| &step.files);
        files.extend(names.map(|name| (format!("{}/{name}", host.folder()), (host, name.as_str()))));
    }
    for (path, (host, name)) in files {
        let (bytes, mut content) =
            open(host, name).map_err(|source| ArchiveError::Read { path: path.clone(), source })?;
        writer.add(&path, bytes, &mut content)?;
    }
    let files = std::mem::take(&mut writer.files);
    let manifest = Manifest { schema_version: manifest::SCHEMA_VERSION, key: key.public().to_string(), files };
    let manifest = document(serde_json::to_vec_pretty(&manifest))?;
    let signature =
        key.sign(&manifest, &format!("timestamp:{signed_unix_seconds}\tfile:{}\thashed", manifest::NAME))?;
    writer.add(manifest::NAME, size(&manifest), &mut manifest.as_slice())?;
    writer.add(manifest::SIGNATURE, size(signature.as_bytes()), &mut signature.as_bytes())?;
    writer.out.write_all(&[0; 2 * BLOCK]).and_then(|()| writer.out.flush()).map_err(ArchiveError::Write)
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    files: Vec<Entry>,
}

impl Writer<'_> {
    fn add(&mut self, path: &str, bytes: u64, content: &mut dyn Read) -> Result<(), ArchiveError> {
        self.out.write_all(&header(path, bytes)?).map_err(ArchiveError::Write)?;
        let mut is_unwritable = false;
        let copied = hashed(&mut content.take(bytes.saturating_add(1)), &mut |piece| {
            self.out.write_all(piece).inspect_err(|_| is_unwritable = true)
        });
        let (found, sha256) = copied.map_err(|source| match is_unwritable {
            true => ArchiveError::Write(source),
            false => ArchiveError::Read { path: path.to_owned(), source },
        })?;
        if found != bytes {
            return Err(ArchiveError::Size { path: path.to_owned(), expected: bytes, found });
        }
        self.files.push(Entry { path: path.to_owned(), bytes, sha256 });
        self.out.write_all(&[0; BLOCK][..padding(bytes)]).map_err(ArchiveError::Write)
    }
}

/// Reads to the end: how much there was, and its SHA-256.
pub(crate) fn hashed(input: &mut dyn Read, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<(u64, String)> {
    let (mut hash, mut total) = (Sha256::new(), 0);
    let mut piece = vec![0; 64 << 10];
    loop {
        match input.read(&mut piece) {
            Ok(0) => return Ok((total, hex::lower(hash.finalize()))),
            Ok(bytes) => {
                let read = piece.get(..bytes).unwrap_or_default();
                each(read)?;
                hash.update(read);
                total += size(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Zeros between a member and the next block.
fn padding(bytes: u64) -> usize {
    let used = usize::try_from(bytes % 512).unwrap_or(0);
    (BLOCK - used) % BLOCK
}

/// The only header that a member of this path and size may have.
fn header(path: &str, bytes: u64) -> Result<[u8; BLOCK], ArchiveError> {
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-%".contains(&byte);
        !part.is_empty() && part.len() <= 100 && !part.starts_with('.') && part.bytes().all(plain)
    };
    let (prefix, name) = path.rsplit_once('/').unwrap_or(("", path));
    if !path.split('/').all(part) || prefix.len() > 155 || bytes > MAX_BYTES {
        return Err(ArchiveError::Path(path.to_owned()));
    }
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{bytes:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    put(345, prefix);
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// What a header says: path and size. Only if it is the very header that these have.
fn parse(block: &[u8; BLOCK]) -> (String, Option<u64>) {
    let text = |from: usize, len: usize| {
        let field = &block[from..from + len];
        String::from_utf8_lossy(field.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    };
    let (prefix, name) = (text(345, 155), text(0, 100));
    let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
    let bytes = u64::from_str_radix(&text(124, 12), 8).ok();
    let bytes = bytes.filter(|bytes| header(&path, *bytes).is_ok_and(|header| header == *block));
    (path, bytes)
}

/// Reads an archive: each member's path, length and content go to `visit`. Returns how many there are.
pub(crate) fn read(
    input: &mut dyn Read,
    visit: &mut dyn FnMut(&str, u64, &mut dyn Read) -> io::Result<()>,
) -> Result<usize, ArchiveError> {
    let (mut at, mut last) = (0, String::new());
    for number in 1..=MAX_MEMBERS {
        let mut block = [0; BLOCK];
        let fault = |name: &str, what: String| {
            let name = if name.is_empty() { "without a name".to_owned() } else { printable(name) };
            ArchiveError::Member { number, name, at, what }
        };
        let cut = |name: &str, error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => fault(name, "the archive is cut off here".to_owned()),
            _ => fault(name, error.to_string()),
        };
        input.read_exact(&mut block).map_err(|error| cut("", error))?;
        if block == [0; BLOCK] {
            return end(input, at, &last).map(|()| number - 1);
        }
        let (path, bytes) = parse(&block);
        let Some(bytes) = bytes else {
            return Err(fault(
                &path,
                format!("its header was altered, or another program wrote it; the member before is '{last}'"),
            ));
        };
        if path <= last {
            return Err(fault(&path, format!("it must not follow '{last}': members are sorted by path")));
        }
        let mut content = Read::take(&mut *input, bytes);
        visit(&path, bytes, &mut content).map_err(|error| cut(&path, error))?;
        io::copy(&mut content, &mut io::sink()).map_err(|error| cut(&path, error))?;
        if content.limit() > 0 {
            return Err(cut(&path, io::ErrorKind::UnexpectedEof.into()));
        }
        let mut zeros = [0; BLOCK];
        let zeros = &mut zeros[..padding(bytes)];
        input.read_exact(zeros).map_err(|error| cut(&path, error))?;
        if zeros.iter().any(|byte| *byte != 0) {
            return Err(fault(&path, "the bytes between it and the next block are not zero".to_owned()));
        }
        at += size(&block) + bytes + size(zeros);
        last = path;
    }
    Err(ArchiveError::End { name: last, at, what: format!("there are more than {MAX_MEMBERS} members") })
}

/// After the first block of zeros there is one more, and nothing else.
fn end(input: &mut dyn Read, at: u64, last: &str) -> Result<(), ArchiveError> {
    let mut rest = Vec::new();
    let limit = size(&[0; BLOCK]) + 1;
    let what = match input.take(limit).read_to_end(&mut rest) {
        Ok(_) if rest == [0; BLOCK] => return Ok(()),
        Ok(BLOCK) => "it is not zero".to_owned(),
        Ok(bytes) if bytes < BLOCK => "it is cut off".to_owned(),
        Ok(_) => "bytes follow it".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ArchiveError::End { name: last.to_owned(), at, what })
}
