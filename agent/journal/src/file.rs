//! One journal file: its header, objects, and what is in them.

use super::hash;
use kernel::bytes;
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    rc::Rc,
};

/// What a journal file is read from.
pub trait Bytes {
    /// Its length now, bytes.
    fn len_bytes(&self) -> io::Result<u64>;
    /// Reads from `offset`; fewer bytes than asked for only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Bytes for File {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl Bytes for Vec<u8> {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(u64::try_from(self.len()).unwrap_or(u64::MAX))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.get(start..).unwrap_or_default().read(buffer)
    }
}

/// What is wrong with a file, or at a place in it.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Refused by the file system.
    #[error("cannot be read at byte {offset}")]
    Read { offset: u64, source: io::Error },
    /// Another kind of file, or too short for one.
    #[error("is not a journal file")]
    NotAJournal,
    /// Written by a newer journald.
    #[error("needs features {flags:#x}, which are not supported")]
    Unknown {
        /// Incompatible flags without the known ones.
        flags: u32,
    },
    /// Against the format.
    #[error("is damaged at byte {offset}: {what}")]
    Damaged {
        offset: u64,
        /// Which rule is broken.
        what: &'static str,
    },
}

const SIGNATURE: &[u8; 8] = b"LPKSHHRH";
/// Incompatible flags (header, byte 12): XZ, LZ4, keyed hash, ZSTD, compact.
const KNOWN_FLAGS: u32 = 0x1f;
const FLAG_KEYED: u32 = 4;
const FLAG_COMPACT: u32 = 16;
/// Up to the entry count: all that every version has and we need.
const MIN_HEADER_BYTES: u64 = 208;
const TYPE_DATA: u8 = 1;
const TYPE_ENTRY: u8 = 3;
const TYPE_ENTRY_ARRAY: u8 = 6;
/// Object flags of compressed data.
const PACKED: u8 = 7;
/// journald's own limit of fields in an entry.
const MAX_ITEMS: u64 = 1024;
/// An LZ4 block can only be unpacked whole.
const MAX_LZ4_BYTES: u64 = 8 << 20;
/// What is read of packed data.
const MAX_PACKED_BYTES: u64 = 16 << 20;
const WINDOW_BYTES: u64 = 16 << 10;
const WINDOWS: usize = 6;
/// Remembered fields: most are the same in many entries.
const MAX_KNOWN: usize = 2048;
const MAX_KNOWN_BYTES: usize = 256;

/// A field of an entry, `NAME=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub bytes: Rc<[u8]>,
    /// Whether there is more than was asked for.
    pub cut: bool,
}

/// An entry without its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub seqnum: u64,
    pub realtime_us: u64,
    pub monotonic_us: u64,
    pub boot_id: [u8; 16],
    pub xor_hash: u64,
    /// Where its fields are, in no useful order.
    pub items: Vec<u64>,
}

/// A list of entries' offsets: one in the data object itself, the others in chained arrays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub first: u64,
    pub array: u64,
    pub count: u64,
}

/// An array's place in its chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub next: u64,
    pub items: u64,
}

struct Window {
    start: u64,
    bytes: Vec<u8>,
}

/// An open file. Reads through a few windows: most objects are tiny, and their neighbours are wanted next.
pub(super) struct JournalFile<B> {
    source: B,
    len: u64,
    flags: u32,
    header_bytes: u64,
    file_id: [u8; 16],
    pub seqnum_id: [u8; 16],
    table: u64,
    buckets: u64,
    pub entries: Chain,
    windows: Vec<Window>,
    oldest: usize,
    known: HashMap<u64, Option<Data>>,
}

impl<B: Bytes> JournalFile<B> {
    pub(crate) fn open(source: B) -> Result<Self, Fault> {
        let len = source.len_bytes().map_err(|source| Fault::Read { offset: 0, source })?;
        let mut file = Self {
            source,
            len,
            flags: 0,
            header_bytes: 0,
            file_id: [0; 16],
            seqnum_id: [0; 16],
            table: 0,
            buckets: 0,
            entries: Chain { first: 0, array: 0, count: u64::MAX },
            windows: Vec::new(),
            oldest: 0,
            known: HashMap::new(),
        };
        if len < MIN_HEADER_BYTES {
            return Err(Fault::NotAJournal);
        }
        let mut header = [0; 208];
        file.read(0, &mut header)?;
        if header.get(..8) != Some(SIGNATURE) {
            return Err(Fault::NotAJournal);
        }
        file.flags = le32(&header, 12);
        let unknown = file.flags & !KNOWN_FLAGS;
        if unknown != 0 {
            return Err(Fault::Unknown { flags: unknown });
        }
        file.file_id = id(&header, 24);
        file.seqnum_id = id(&header, 72);
        file.header_bytes = le64(&header, 88);
        let damaged = |offset, what| Err(Fault::Damaged { offset, what });
        if file.header_bytes < MIN_HEADER_BYTES || file.header_bytes > len {
            return damaged(88, "the header has an impossible size");
        }
        (file.table, file.buckets) = (le64(&header, 104), le64(&header, 112) / 16);
        if file.table.checked_add(file.buckets.saturating_mul(16)).is_none_or(|end| end > len) {
            // A cut file: its entries may still be walked through.
            file.buckets = 0;
        }
        file.entries.array = le64(&header, 176);
        Ok(file)
    }

    fn is_compact(&self) -> bool {
        self.flags & FLAG_COMPACT != 0
    }

    /// Size of an offset in an array of entries.
    fn item_bytes(&self) -> u64 {
        if self.is_compact() { 4 } else { 8 }
    }

    /// Fills `buffer`, or says that the file ends before.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        let wanted = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        if offset.checked_add(wanted).is_none_or(|end| end > self.len) {
            return Err(Fault::Damaged { offset, what: "an object extends beyond the end of the file" });
        }
        if wanted > WINDOW_BYTES {
            return self.read_past_windows(offset, buffer);
        }
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + u64::try_from(done).unwrap_or(u64::MAX);
            let window = self.window(at - at % WINDOW_BYTES)?;
            let from = usize::try_from(at % WINDOW_BYTES).unwrap_or(usize::MAX);
            let source = window.bytes.get(from..).unwrap_or_default();
            let count = source.len().min(rest.len());
            if count == 0 {
                return Err(Fault::Damaged { offset: at, what: "the file became shorter" });
            }
            for (to, from) in rest.iter_mut().zip(source) {
                *to = *from;
            }
            done += count;
        }
        Ok(())
    }

    fn read_past_windows(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + u64::try_from(done).unwrap_or(u64::MAX);
            match self.source.read_at(at, rest) {
                Ok(0) => return Err(Fault::Damaged { offset: at, what: "the file became shorter" }),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Fault::Read { offset: at, source }),
            }
        }
        Ok(())
    }

    fn window(&mut self, start: u64) -> Result<&Window, Fault> {
        let there = self.windows.iter().position(|window| window.start == start);
        let index = match there {
            Some(index) => index,
            None => {
                let len = usize::try_from(WINDOW_BYTES.min(self.len.saturating_sub(start))).unwrap_or(0);
                let mut bytes = vec![0; len];
                self.read_past_windows(start, &mut bytes)?;
                let window = Window { start, bytes };
                if self.windows.len() < WINDOWS {
                    self.windows.push(window);
                    self.windows.len() - 1
                } else {
                    let index = self.oldest;
                    self.oldest = (index + 1) % WINDOWS;
                    if let Some(place) = self.windows.get_mut(index) {
                        *place = window;
                    }
                    index
                }
            }
        };
        self.windows.get(index).ok_or(Fault::Damaged { offset: start, what: "a window is missing" })
    }

    /// Flags and size of the object at `offset`, which must be of this type.
    fn object(&mut self, offset: u64, kind: u8, min_bytes: u64) -> Result<(u8, u64), Fault> {
        let damaged = |what| Err(Fault::Damaged { offset, what });
        if offset < self.header_bytes || !offset.is_multiple_of(8) {
            return damaged("an object at an impossible place");
        }
        let mut header = [0; 16];
        self.read(offset, &mut header)?;
        let [found, flags, ..] = header;
        if found != kind {
            return damaged("an object has the wrong type");
        }
        let size = le64(&header, 8);
        if size < min_bytes || offset.checked_add(size).is_none_or(|end| end > self.len) {
            return damaged("an object has an impossible size");
        }
        Ok((flags, size))
    }

    pub(crate) fn entry(&mut self, offset: u64) -> Result<Entry, Fault> {
        let (_, size) = self.object(offset, TYPE_ENTRY, 64)?;
        // In compact files a bare offset, else an offset and a hash.
        let item_bytes = if self.is_compact() { 4 } else { 16 };
        let count = (size - 64) / item_bytes;
        if count == 0 || count > MAX_ITEMS {
            return Err(Fault::Damaged { offset, what: "an entry has no fields, or too many" });
        }
        let mut bytes = vec![0; usize::try_from(64 + count * item_bytes).unwrap_or(64)];
        self.read(offset, &mut bytes)?;
        let items = bytes.get(64..).unwrap_or_default();
        let items = match self.is_compact() {
            true => items.chunks_exact(4).map(|item| u64::from(le32(item, 0))).collect(),
            false => items.chunks_exact(16).map(|item| le64(item, 0)).collect(),
        };
        Ok(Entry {
            seqnum: le64(&bytes, 16),
            realtime_us: le64(&bytes, 24),
            monotonic_us: le64(&bytes, 32),
            boot_id: id(&bytes, 40),
            xor_hash: le64(&bytes, 56),
            items,
        })
    }

    pub(crate) fn array(&mut self, offset: u64) -> Result<Array, Fault> {
        let (_, size) = self.object(offset, TYPE_ENTRY_ARRAY, 24)?;
        let mut next = [0; 8];
        self.read(offset + 16, &mut next)?;
        let next = u64::from_le_bytes(next);
        if next != 0 && next <= offset {
            return Err(Fault::Damaged { offset, what: "a chain of arrays leads back" });
        }
        Ok(Array { next, items: (size - 24) / self.item_bytes() })
    }

    /// An item of an array that [`Self::array`] has looked at; 0 is an unused one.
    pub(crate) fn array_item(&mut self, array: u64, index: u64) -> Result<u64, Fault> {
        let at = array + 24 + index * self.item_bytes();
        if self.is_compact() {
            let mut item = [0; 4];
            self.read(at, &mut item)?;
            return Ok(u32::from_le_bytes(item).into());
        }
        let mut item = [0; 8];
        self.read(at, &mut item)?;
        Ok(u64::from_le_bytes(item))
    }

    /// Looks `NAME=value` up in the hash table: where its object is, and which entries have it.
    pub(crate) fn find(&mut self, wanted: &[u8]) -> Result<Option<(u64, Chain)>, Fault> {
        if self.buckets == 0 {
            return Ok(None);
        }
        let keyed = self.flags & FLAG_KEYED != 0;
        let hash = if keyed { hash::keyed(self.file_id, wanted) } else { hash::jenkins(wanted) };
        let mut bucket = [0; 8];
        self.read(self.table + hash % self.buckets * 16, &mut bucket)?;
        let mut offset = u64::from_le_bytes(bucket);
        while offset != 0 {
            self.object(offset, TYPE_DATA, 64)?;
            let mut object = [0; 64];
            self.read(offset, &mut object)?;
            if le64(&object, 16) == hash && *self.data(offset, wanted.len())?.bytes == *wanted {
                let chain = Chain { first: le64(&object, 40), array: le64(&object, 48), count: le64(&object, 56) };
                return Ok(Some((offset, chain)));
            }
            let next = le64(&object, 24);
            if next != 0 && next <= offset {
                return Err(Fault::Damaged { offset, what: "a hash chain leads back" });
            }
            offset = next;
        }
        Ok(None)
    }

    /// The field at `offset`, its first `limit` bytes.
    pub(crate) fn data(&mut self, offset: u64, limit: usize) -> Result<Data, Fault> {
        let start = if self.is_compact() { 72 } else { 64 };
        let (flags, size) = self.object(offset, TYPE_DATA, start)?;
        let stored = size - start;
        let limit_bytes = u64::try_from(limit).unwrap_or(u64::MAX);
        if flags & PACKED == 0 {
            let mut bytes = vec![0; usize::try_from(stored.min(limit_bytes)).unwrap_or(0)];
            self.read(offset + start, &mut bytes)?;
            return Ok(Data { bytes: bytes.into(), cut: stored > limit_bytes });
        }
        if stored > MAX_PACKED_BYTES {
            return Err(Fault::Damaged { offset, what: "a packed field is too large to be read" });
        }
        let mut packed = vec![0; usize::try_from(stored).unwrap_or(0)];
        self.read(offset + start, &mut packed)?;
        let mut bytes = Vec::new();
        let unpack = limit_bytes.saturating_add(1);
        let unpacked = match flags & PACKED {
            1 => {
                liblzma::stream::Stream::new_stream_decoder(64 << 20, 0).map_err(io::Error::other).and_then(|stream| {
                    liblzma::read::XzDecoder::new_stream(packed.as_slice(), stream).take(unpack).read_to_end(&mut bytes)
                })
            }
            2 => unpack_lz4(&packed, &mut bytes),
            4 => zstd::stream::read::Decoder::new(packed.as_slice()).and_then(|mut decoder| {
                decoder.window_log_max(26)?;
                decoder.take(unpack).read_to_end(&mut bytes)
            }),
            _ => Err(io::Error::other("packed in two ways")),
        };
        if unpacked.is_err() {
            return Err(Fault::Damaged { offset, what: "a packed field can't be unpacked" });
        }
        let cut = bytes.len() > limit;
        bytes.truncate(limit);
        Ok(Data { bytes: bytes.into(), cut })
    }

    /// The field at `offset` if it is one of `wanted`. Remembers small ones, and those that aren't wanted.
    pub(crate) fn field(&mut self, offset: u64, wanted: &[&str], limit: usize) -> Result<Option<Data>, Fault> {
        if let Some(known) = self.known.get(&offset) {
            return Ok(known.clone());
        }
        let longest = wanted.iter().map(|name| name.len()).max().unwrap_or(0);
        let start = self.data(offset, longest + 1)?;
        let name = start.bytes.split(|byte| *byte == b'=').next().unwrap_or_default();
        let is_wanted = wanted.iter().any(|wanted| wanted.as_bytes() == name);
        let data = match is_wanted {
            true if start.cut => Some(self.data(offset, limit)?),
            true => Some(start.clone()),
            false => None,
        };
        if data.as_ref().is_none_or(|data| data.bytes.len() <= MAX_KNOWN_BYTES && name != b"MESSAGE") {
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            self.known.insert(offset, data.clone());
        }
        Ok(data)
    }
}

/// The unpacked size, then a block (`compress_blob_lz4` in systemd).
fn unpack_lz4(packed: &[u8], into: &mut Vec<u8>) -> io::Result<usize> {
    let (size, block) = packed.split_at_checked(8).ok_or(io::ErrorKind::UnexpectedEof)?;
    let size = le64(size, 0);
    if size > MAX_LZ4_BYTES {
        return Err(io::Error::other("too large"));
    }
    into.resize(usize::try_from(size).unwrap_or(0), 0);
    let len = lz4_flex::block::decompress_into(block, into).map_err(io::Error::other)?;
    into.truncate(len);
    Ok(len)
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    bytes::le64(bytes, at).unwrap_or_default()
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes::le32(bytes, at).unwrap_or_default()
}

fn id(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes.get(at..at.saturating_add(16)).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
}
