//! Reads large initrds sequentially and returns only some files, using as much memory as these.

use super::{Archive, Member, clean_name, read::MAX_NAME_BYTES};
use kernel::newc;
use std::io::{self, BufRead, Read};

/// Bytes read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Enough for root file systems in an initrd, which pass through unread otherwise.
const LARGE: Bounds = Bounds { matched_bytes: 4 << 30, unpacked_bytes: u64::MAX };
/// What xz may use; a dictionary of 64 MiB, the largest preset's, needs 65 MiB.
const XZ_MEMORY_BYTES: u64 = 256 << 20;
/// The largest window of zstd, as a power of two: 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Which files to return: those that match any pattern. `*` also matches `/`.
#[derive(Clone, Debug)]
pub struct Names {
    patterns: Vec<glob::Pattern>,
    refuses_traversal: bool,
}

/// An invalid pattern.
#[derive(Debug, thiserror::Error)]
#[error("parsing glob patterns")]
pub struct NamesError(#[from] glob::PatternError);

impl Names {
    /// By patterns of the shell; all when there are none.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<Self, NamesError> {
        let all = if patterns.is_empty() { Some("*") } else { None };
        let patterns = patterns.iter().map(S::as_ref).chain(all);
        let patterns = patterns.map(glob::Pattern::new).collect::<Result<_, _>>()?;
        Ok(Self { patterns, refuses_traversal: false })
    }

    /// The same, for files that are put into a directory: a matching name that leads out of it is an error.
    pub fn into_extracted(self) -> Self {
        Self { refuses_traversal: true, ..self }
    }

    fn matches(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// Why an initrd can't be read. Texts are those of coreos-installer.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// Reading fails, or it is not an archive.
    #[error("{doing}")]
    Read {
        /// What was being done.
        doing: &'static str,
        source: io::Error,
    },
    /// Something else follows an archive.
    #[error("found trailing garbage inside compressed archive")]
    Garbage,
    /// A name that is absolute, or leads upwards.
    #[error("path {name} contains path traversal")]
    Traversal {
        /// As it is in the archive.
        name: String,
    },
    #[error("the matching files exceed {limit} bytes together")]
    TooLarge { limit: u64 },
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> ScanError {
    move |source| ScanError::Read { doing, source }
}

fn bad(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Reads consecutive archives, each compressed or not, with zeros between and after them, and returns the regular files whose names
/// match. Of files of the same name the last wins, as in the kernel.
pub fn scan(source: impl Read, names: &Names) -> Result<Archive, ScanError> {
    scan_within(source, names, LARGE)
}

/// The most that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Of all returned files together.
    pub matched_bytes: u64,
    /// Of all that was compressed; what exceeds them counts as cut off.
    pub unpacked_bytes: u64,
}

/// [`scan`] of an untrusted initrd.
pub(crate) fn scan_within(mut source: impl Read, names: &Names, bounds: Bounds) -> Result<Archive, ScanError> {
    // One type from here on: the code below, with its decoders, would be there for each type of source.
    scan_source(Source { inner: &mut source, buffer: Vec::new(), at: 0 }, names, bounds)
}

fn scan_source(mut source: Source<'_>, names: &Names, bounds: Bounds) -> Result<Archive, ScanError> {
    let mut found = Found { archive: Archive::new(), bytes: 0, bounds };
    loop {
        source.ahead(1).map_err(failed("checking for data in initrd"))?;
        let start = source.ahead(6).map_err(failed("sniffing input"))?;
        match start {
            [] => return Ok(found.archive),
            [0x1f, 0x8b, ..] => found.compressed(&mut flate2::bufread::GzDecoder::new(&mut source), names)?,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
                let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, 0);
                let stream = stream.map_err(|error| failed("decompressing input")(error.into()))?;
                found.compressed(&mut liblzma::bufread::XzDecoder::new_stream(&mut source, stream), names)?;
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let decoder = zstd::stream::read::Decoder::with_buffer(&mut source);
                let mut decoder = decoder.map_err(failed("decompressing input"))?.single_frame();
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(failed("decompressing input"))?;
                found.compressed(&mut decoder, names)?;
            }
            _ => found.cpio(&mut source, names)?,
        }
        source.skip_zeros().map_err(failed("checking for padding in initrd"))?;
    }
}

struct Found {
    archive: Archive,
    bytes: u64,
    /// What may still be unpacked.
    bounds: Bounds,
}

impl Found {
    /// One archive, and nothing but zeros after it in its stream.
    fn compressed(&mut self, stream: &mut dyn Read, names: &Names) -> Result<(), ScanError> {
        let mut stream = stream.take(self.bounds.unpacked_bytes);
        self.cpio(&mut stream, names)?;
        let mut buffer = vec![0; 4096];
        loop {
            match stream.read(&mut buffer).map_err(failed("finishing reading compressed archive"))? {
                0 => break,
                count if buffer[..count].iter().any(|byte| *byte != 0) => return Err(ScanError::Garbage),
                _ => {}
            }
        }
        self.bounds.unpacked_bytes = stream.limit();
        Ok(())
    }

    /// One archive, up to its trailer.
    fn cpio(&mut self, source: &mut dyn Read, names: &Names) -> Result<(), ScanError> {
        loop {
            let Header { name, mode, len } = Header::read(source).map_err(failed("reading CPIO entry"))?;
            let is_trailer = name == newc::TRAILER;
            let clean = clean_name(&name);
            let wanted = !is_trailer && mode & newc::TYPE_MASK == newc::REGULAR && names.matches(&name);
            if wanted && names.refuses_traversal && leads_out(&name) {
                return Err(ScanError::Traversal { name });
            }
            if let (true, Ok(name)) = (wanted, clean) {
                self.bytes = self.bytes.saturating_add(len);
                let limit = self.bounds.matched_bytes;
                if self.bytes > limit {
                    return Err(ScanError::TooLarge { limit });
                }
                let mut data = Vec::new();
                let reading = failed("reading CPIO entry contents");
                source.take(len).read_to_end(&mut data).map_err(reading)?;
                if u64::try_from(data.len()).is_ok_and(|found| found < len) {
                    return Err(failed("reading CPIO entry contents")(io::ErrorKind::UnexpectedEof.into()));
                }
                self.archive.put(name, Member::File { mode: 0o600, data });
            } else {
                let doing = if is_trailer { "finishing reading CPIO trailer" } else { "finishing reading CPIO entry" };
                io::copy(&mut source.take(len), &mut io::sink()).map_err(failed(doing))?;
            }
            let mut padding = [0; 4];
            let missing = usize::try_from(len.next_multiple_of(4) - len).unwrap_or_default();
            source.read_exact(&mut padding[..missing]).map_err(failed("finishing reading CPIO entry"))?;
            if is_trailer {
                return Ok(());
            }
        }
    }
}

fn leads_out(name: &str) -> bool {
    name.starts_with('/') || name.split('/').any(|part| part == "..")
}

struct Header {
    name: String,
    mode: u32,
    len: u64,
}

impl Header {
    fn read(source: &mut dyn Read) -> io::Result<Self> {
        let mut bytes = [0; newc::HEADER_BYTES];
        let (magic, fields) = bytes.split_at_mut(6);
        source.read_exact(magic)?;
        if !matches!(&*magic, b"070701" | b"070702") {
            return Err(bad("Invalid magic number"));
        }
        source.read_exact(fields)?;
        let field = |index: usize| {
            let digits = fields.get(index * 8..index * 8 + 8)?;
            digits.iter().try_fold(0_u32, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
        };
        let number = |index| field(index).ok_or_else(|| bad("Invalid hex u32 header field"));
        let (mode, len, name_len) = (number(1)?, number(6)?, number(11)?);
        let name_len = usize::try_from(name_len).ok().filter(|len| (1..=MAX_NAME_BYTES).contains(len));
        let name_len = name_len.ok_or_else(|| bad("Entry name is too long or empty"))?;
        let mut name = vec![0; (newc::HEADER_BYTES + name_len).next_multiple_of(4) - newc::HEADER_BYTES];
        source.read_exact(&mut name)?;
        name.truncate(name_len);
        if name.pop() != Some(0) {
            return Err(bad("Entry name was not NUL-terminated"));
        }
        // Some writers fill names up.
        while name.last() == Some(&0) {
            name.pop();
        }
        let name = String::from_utf8(name).map_err(|_| bad("Entry name was not valid UTF-8"))?;
        Ok(Self { name, mode, len: len.into() })
    }
}

/// A buffer that can peek as far as requested, so that what a decoder leaves is still available.
struct Source<'a> {
    inner: &'a mut dyn Read,
    buffer: Vec<u8>,
    at: usize,
}

impl Source<'_> {
    /// At least `len` bytes that come next, or all that are left.
    fn ahead(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.at < len {
            self.buffer.drain(..self.at);
            self.at = 0;
            let start = self.buffer.len();
            self.buffer.resize(start.max(len) + BUFFER_BYTES, 0);
            let read = self.inner.read(&mut self.buffer[start..]);
            self.buffer.truncate(start + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => break,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(&self.buffer[self.at..])
    }

    fn skip_zeros(&mut self) -> io::Result<()> {
        loop {
            let ahead = self.ahead(1)?;
            let zeros = byte_scan::leading_zeros(ahead);
            let is_end = zeros < ahead.len() || ahead.is_empty();
            self.consume(zeros);
            if is_end {
                return Ok(());
            }
        }
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.ahead(1)
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let ahead = self.ahead(1)?;
        let count = ahead.len().min(buf.len());
        buf[..count].copy_from_slice(&ahead[..count]);
        self.consume(count);
        Ok(count)
    }
}
