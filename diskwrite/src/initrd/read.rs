//! Reads archives: detects each one's compression, unpacks it, walks its members. All of it is limited, as the input is untrusted.

use super::{Archive, ArchiveError, Member, clean_name};
use kernel::newc;
use std::collections::HashMap;
use std::io::{self, Read};

/// As the kernel's PATH_MAX.
pub(super) const MAX_NAME_BYTES: usize = 4096;
/// What xz may use; a dictionary of 64 MiB, the largest preset's, needs 65 MiB.
const XZ_MEMORY_BYTES: u64 = 256 << 20;
/// The largest window of zstd, as a power of two: 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 27;

/// The most that is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all archives together, decompressed.
    pub total_bytes: u64,
    /// Members of all archives together.
    pub members: u64,
}

impl Default for Limits {
    /// Enough for anything in an embed area, and for small initrds: 64 MiB, 65536 members.
    fn default() -> Self {
        Self { total_bytes: 64 << 20, members: 1 << 16 }
    }
}

pub(super) fn unpack(bytes: &[u8], limits: Limits) -> Result<Archive, ArchiveError> {
    let mut unpacker = Unpacker { archive: Archive::new(), limits, bytes: 0, members: 0 };
    let mut at = 0;
    loop {
        at += byte_scan::leading_zeros(&bytes[at..]);
        let rest = &bytes[at..];
        if rest.is_empty() {
            return Ok(unpacker.archive);
        }
        at += match Format::detect(rest) {
            Some(Format::Newc) => unpacker.newc(rest, at)?,
            Some(format) => {
                let (content, consumed) = unpacker.decompress(format, rest, at)?;
                unpacker.content(&content)?;
                consumed
            }
            None => return Err(unknown(rest, at)),
        };
    }
}

/// By its first bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Newc,
    Gzip,
    Xz,
    Zstd,
}

impl Format {
    fn detect(bytes: &[u8]) -> Option<Self> {
        const MAGICS: [(&[u8], Format); 5] = [
            (b"070701", Format::Newc),
            (b"070702", Format::Newc),
            (b"\x1f\x8b", Format::Gzip),
            (b"\xfd7zXZ\0", Format::Xz),
            (b"\x28\xb5\x2f\xfd", Format::Zstd),
        ];
        MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, format)| *format)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Newc => "cpio",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }
}

fn unknown(bytes: &[u8], offset: usize) -> ArchiveError {
    ArchiveError::Format { offset, found: kernel::hex::lower(bytes.get(..6).unwrap_or(bytes)) }
}

struct Unpacker {
    archive: Archive,
    limits: Limits,
    /// Decompressed so far.
    bytes: u64,
    /// Seen so far.
    members: u64,
}

impl Unpacker {
    /// Decompresses the stream at the start of `bytes`; returns its content and its length.
    fn decompress(&mut self, format: Format, bytes: &[u8], offset: usize) -> Result<(Vec<u8>, usize), ArchiveError> {
        let room = self.limits.total_bytes.saturating_sub(self.bytes);
        let mut content = Vec::new();
        let unread = match format {
            Format::Newc => Ok(0),
            Format::Gzip => {
                let mut decoder = flate2::bufread::GzDecoder::new(bytes);
                read_up_to(&mut decoder, room, &mut content).map(|()| decoder.into_inner().len())
            }
            Format::Xz => xz(bytes, room, &mut content),
            Format::Zstd => zstd(bytes, room, &mut content),
        };
        let unread = unread.map_err(|source| ArchiveError::Decompress { format: format.name(), offset, source })?;
        let len = u64::try_from(content.len()).unwrap_or(u64::MAX);
        if len > room {
            return Err(ArchiveError::Limit { limit: self.limits.total_bytes, what: "bytes" });
        }
        self.bytes += len;
        Ok((content, bytes.len() - unread))
    }

    /// What was in a compressed stream: cpio archives, not compressed again.
    fn content(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let mut at = 0;
        loop {
            at += byte_scan::leading_zeros(&bytes[at..]);
            let rest = &bytes[at..];
            match Format::detect(rest) {
                _ if rest.is_empty() => return Ok(()),
                Some(Format::Newc) => at += self.newc(rest, at)?,
                _ => return Err(unknown(rest, at)),
            }
        }
    }

    /// Counts `len` bytes more against the limit: each name of a hard-linked file holds a copy of the content.
    fn charge(&mut self, len: usize) -> Result<(), ArchiveError> {
        self.bytes = self.bytes.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        if self.bytes > self.limits.total_bytes {
            return Err(ArchiveError::Limit { limit: self.limits.total_bytes, what: "bytes" });
        }
        Ok(())
    }

    /// Walks the cpio archive at the start of `bytes` up to its trailer; returns its length.
    fn newc(&mut self, bytes: &[u8], offset: usize) -> Result<usize, ArchiveError> {
        // Hard links: all but the last have no content. Names by inode, until the content comes.
        let mut waiting: HashMap<(u32, u32, u32), Vec<String>> = HashMap::new();
        let mut at = 0;
        loop {
            let member = RawMember::read(bytes, at, offset)?;
            at = member.end;
            if member.name == newc::TRAILER.as_bytes() {
                return Ok(at);
            }
            self.members += 1;
            if self.members > self.limits.members {
                return Err(ArchiveError::Limit { limit: self.limits.members, what: "members" });
            }
            let name = String::from_utf8_lossy(member.name);
            if matches!(&*name, "." | "./" | "/") {
                continue;
            }
            let name = clean_name(name.trim_end_matches('/'))?;
            let mode = member.mode & 0o7777;
            match member.mode & newc::TYPE_MASK {
                newc::REGULAR => {
                    if member.links > 1 {
                        let names = waiting.entry(member.inode).or_default();
                        if member.data.is_empty() {
                            names.push(name.clone());
                        } else {
                            for name in std::mem::take(names) {
                                self.charge(member.data.len())?;
                                self.archive.put(name, Member::File { mode, data: member.data.to_vec() });
                            }
                        }
                    }
                    self.archive.put(name, Member::File { mode, data: member.data.to_vec() });
                }
                newc::SYMLINK => {
                    let target = String::from_utf8_lossy(member.data).into_owned();
                    self.archive.put(name, Member::Symlink { target });
                }
                newc::DIRECTORY => self.archive.put(name, Member::Directory { mode }),
                _ => {}
            }
        }
    }
}

/// A member as it lies in an archive.
struct RawMember<'a> {
    /// Inode and the device it is on.
    inode: (u32, u32, u32),
    mode: u32,
    links: u32,
    name: &'a [u8],
    data: &'a [u8],
    /// Where the next one starts.
    end: usize,
}

impl<'a> RawMember<'a> {
    /// Reads the member `at` bytes from the start of the archive, which starts at `offset`.
    fn read(bytes: &'a [u8], at: usize, offset: usize) -> Result<Self, ArchiveError> {
        let bad = |what| ArchiveError::Member { offset: offset + at, what };
        let header = bytes.get(at..at + newc::HEADER_BYTES).ok_or_else(|| bad("the header"))?;
        if Format::detect(header) != Some(Format::Newc) {
            return Err(bad("the magic number"));
        }
        let field = |index: usize| {
            let digits = header.get(6 + index * 8..14 + index * 8)?;
            digits.iter().try_fold(0_u32, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
        };
        let number = |index, what| field(index).ok_or_else(|| bad(what));
        let size = |index, what| number(index, what).and_then(|size| usize::try_from(size).map_err(|_| bad(what)));
        let data_len = size(6, "the length")?;
        let name_len = size(11, "the name's length")?;
        if name_len == 0 || name_len > MAX_NAME_BYTES {
            return Err(bad("the name's length"));
        }
        let name_at = at + newc::HEADER_BYTES;
        let name = bytes.get(name_at..name_at + name_len).ok_or_else(|| bad("the name"))?;
        let data_at = (name_at + name_len).next_multiple_of(4);
        let data_end = data_at.checked_add(data_len).ok_or_else(|| bad("the length"))?;
        let data = bytes.get(data_at..data_end).ok_or_else(|| bad("the content"));
        Ok(Self {
            inode: (number(0, "the inode")?, number(7, "the device")?, number(8, "the device")?),
            mode: number(1, "the mode")?,
            links: number(4, "the link count")?,
            name: name.split(|byte| *byte == 0).next().unwrap_or_default(),
            // An archive may end right after its trailer, without padding.
            data: if data_len == 0 { &[] } else { data? },
            end: data_end.next_multiple_of(4).min(bytes.len()),
        })
    }
}

/// Reads all of `decoder`, but no more than one byte beyond `room`.
fn read_up_to(decoder: &mut impl Read, room: u64, content: &mut Vec<u8>) -> io::Result<()> {
    decoder.take(room.saturating_add(1)).read_to_end(content).map(drop)
}

/// Decompresses one xz stream; returns how many bytes are left after it.
fn xz(bytes: &[u8], room: u64, content: &mut Vec<u8>) -> io::Result<usize> {
    let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, 0)?;
    let mut decoder = liblzma::bufread::XzDecoder::new_stream(bytes, stream);
    read_up_to(&mut decoder, room, content)?;
    Ok(decoder.into_inner().len())
}

/// Decompresses one zstd frame; returns how many bytes are left after it.
fn zstd(bytes: &[u8], room: u64, content: &mut Vec<u8>) -> io::Result<usize> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?.single_frame();
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    read_up_to(&mut decoder, room, content)?;
    Ok(decoder.finish().len())
}
