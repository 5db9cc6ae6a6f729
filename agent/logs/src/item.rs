//! What goes into the archive: a name, and where its bytes come from. An item writes the same bytes each time, so that it need
//! not lie anywhere: first its length is counted, then it is sent.

use journal::{Journal, Query, Range, SHORT_FIELDS, Short};
use std::{
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
};

/// Where an item's bytes come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Text(Vec<u8>),
    File(PathBuf),
    Journal {
        directories: Vec<PathBuf>,
        query: Query,
        range: Range,
    },
    /// A crash as systemd-coredump stores it, packed.
    Core(PathBuf),
}

/// One file of the archive.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Below the archive's directory.
    pub name: String,
    pub source: Source,
    pub len: u64,
    /// Bytes at its start that are left out.
    pub skip: u64,
}

impl Item {
    pub(crate) fn text(name: &str, text: impl Into<Vec<u8>>) -> Self {
        let text = text.into();
        let len = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Self { name: name.to_owned(), source: Source::Text(text), len, skip: 0 }
    }

    /// Bytes of it in the archive.
    pub(crate) fn sent(&self) -> u64 {
        self.len.saturating_sub(self.skip)
    }

    /// Whether a part of it is of use without the rest.
    pub(crate) fn is_divisible(&self) -> bool {
        !matches!(self.source, Source::Core(_)) && !self.name.ends_with(".gz") && !self.name.starts_with("coredump_")
    }

    /// Writes what is sent of it: as many bytes as announced, whatever has become of its source.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut exact = Exact { out, skip: self.skip, remaining: self.sent() };
        self.source.write(&mut exact)?;
        let Exact { out, remaining, .. } = exact;
        io::copy(&mut io::repeat(0).take(remaining), out).map(drop)
    }
}

impl Source {
    /// Writes all of it. Faults of a journal are reported when it is counted.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<Vec<String>> {
        match self {
            Self::Text(text) => out.write_all(text)?,
            Self::File(path) => {
                io::copy(&mut File::open(path)?, out)?;
            }
            Self::Core(path) => {
                io::copy(&mut super::cores::open(path)?, out)?;
            }
            Self::Journal { directories, query, range } => {
                let mut journal = Journal::open(directories, query, *range, SHORT_FIELDS);
                let mut out = io::BufWriter::with_capacity(32 << 10, out);
                Short::write_all(&mut journal, &mut out)?;
                out.flush()?;
                return Ok(journal.faults());
            }
        }
        Ok(Vec::new())
    }
}

/// Passes on this many bytes and drops the others.
struct Exact<'a> {
    out: &'a mut dyn Write,
    skip: u64,
    remaining: u64,
}

impl Write for Exact<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let skipped = self.skip.min(len);
        self.skip -= skipped;
        let rest = bytes.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default();
        let sent = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rest.len());
        self.out.write_all(rest.get(..sent).unwrap_or_default())?;
        self.remaining -= u64::try_from(sent).unwrap_or(self.remaining);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Counts bytes on their way.
pub(crate) struct Counting<W> {
    pub out: W,
    pub count: u64,
    /// More are refused.
    pub limit: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.count.saturating_add(len) > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.out.write_all(bytes)?;
        self.count += len;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
