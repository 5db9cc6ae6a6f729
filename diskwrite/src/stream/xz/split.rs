//! Finds the blocks of an xz stream as its bytes pass, by the lengths of LZMA2's chunks, and checks all that is not in a
//! block: headers, index, footer. Needs a few hundred bytes whatever the stream says.

use super::format::{self, BlockHeader, Number, STREAM_HEADER_BYTES, XzError};
use sha2::{Digest, Sha256};

/// What a stream has at the place reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A block's header has just been passed, and is in [`Splitter::held`].
    Start(BlockHeader),
    /// A block has just been passed. Its unpacked size in bytes.
    End(u64),
    /// The stream has just been passed.
    Done,
}

enum State {
    StreamHeader,
    /// At the first byte of a block or of the index.
    Next,
    BlockHeader(usize),
    /// At the first byte of a chunk.
    Control,
    /// Amid the lengths that follow a chunk's first byte.
    Lengths(u8, usize),
    /// This many bytes of the chunk are left.
    Data(u64),
    /// This many bytes of padding and check are left.
    Tail(u64),
    Index(Field),
    /// Amid the index's checksum.
    IndexSum,
    Footer,
    Done,
}

/// What of the index comes next.
enum Field {
    Count,
    Unpadded,
    Unpacked(u64),
    Padding,
}

/// The walk over one stream.
pub(super) struct Splitter {
    state: State,
    /// The header being gathered.
    held: Vec<u8>,
    stream_header: [u8; STREAM_HEADER_BYTES],
    check_bytes: u64,
    /// Of the block: its header, LZMA2's part, and that unpacked.
    header_bytes: u64,
    packed_bytes: u64,
    unpacked_bytes: u64,
    /// What the index must list. A digest serves as well as the list, and is bounded.
    blocks: u64,
    sizes: Sha256,
    /// The index so far.
    number: Number,
    records_left: u64,
    records: Sha256,
    index_bytes: u64,
    index_crc: crc32fast::Hasher,
}

impl Default for Splitter {
    fn default() -> Self {
        Self {
            state: State::StreamHeader,
            held: Vec::new(),
            stream_header: [0; STREAM_HEADER_BYTES],
            check_bytes: 0,
            header_bytes: 0,
            packed_bytes: 0,
            unpacked_bytes: 0,
            blocks: 0,
            sizes: Sha256::new(),
            number: Number::default(),
            records_left: 0,
            records: Sha256::new(),
            index_bytes: 0,
            index_crc: crc32fast::Hasher::new(),
        }
    }
}

fn record(sizes: &mut Sha256, unpadded: u64, unpacked: u64) {
    sizes.update(unpadded.to_le_bytes());
    sizes.update(unpacked.to_le_bytes());
}

impl Splitter {
    /// Walks on to the next part or the end of `input`; returns how many bytes it passed. After [`Part::Done`] it passes none.
    pub(super) fn next(&mut self, input: &[u8]) -> Result<(usize, Option<Part>), XzError> {
        let mut rest = input;
        let mut part = None;
        while part.is_none() && !rest.is_empty() && !self.is_done() {
            part = self.step(&mut rest)?;
        }
        Ok((input.len() - rest.len(), part))
    }

    /// The header last gathered, whole.
    pub(super) fn held(&self) -> &[u8] {
        &self.held
    }

    /// What the stream began with.
    pub(super) fn stream_header(&self) -> [u8; STREAM_HEADER_BYTES] {
        self.stream_header
    }

    /// Whether the stream has been passed, and all of it outside its blocks is good.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    fn step(&mut self, rest: &mut &[u8]) -> Result<Option<Part>, XzError> {
        match self.state {
            State::StreamHeader => {
                if self.gather(rest, STREAM_HEADER_BYTES) {
                    self.check_bytes = format::stream_header(&self.held)?;
                    self.stream_header = self.held.as_slice().try_into().map_err(|_| XzError::StreamHeader)?;
                    self.expect_next();
                }
            }
            State::Next => match rest.first() {
                Some(0) => self.state = State::Index(Field::Count),
                Some(size) => self.state = State::BlockHeader((usize::from(*size) + 1) * 4),
                None => {}
            },
            State::BlockHeader(bytes) => {
                if self.gather(rest, bytes) {
                    let header = format::block_header(&self.held)?;
                    self.header_bytes = len(&self.held);
                    (self.packed_bytes, self.unpacked_bytes) = (0, 0);
                    self.state = State::Control;
                    return Ok(Some(Part::Start(header)));
                }
            }
            State::Control => {
                let Some(control) = take(rest) else { return Ok(None) };
                self.packed_bytes = add(self.packed_bytes, 1)?;
                self.held.clear();
                match control {
                    0 => {
                        let padding = self.packed_bytes.wrapping_neg() % 4;
                        return Ok(self.tail(padding + self.check_bytes));
                    }
                    1 | 2 => self.state = State::Lengths(control, 2),
                    0x80..=0xBF => self.state = State::Lengths(control, 4),
                    0xC0..=0xFF => self.state = State::Lengths(control, 5),
                    _ => return Err(XzError::Chunk(control)),
                }
            }
            State::Lengths(control, bytes) => {
                if self.gather(rest, bytes) {
                    let (unpacked, packed) = lengths(control, &self.held).ok_or(XzError::Chunk(control))?;
                    self.unpacked_bytes = add(self.unpacked_bytes, unpacked)?;
                    self.packed_bytes = add(self.packed_bytes, add(len(&self.held), packed)?)?;
                    self.state = State::Data(packed);
                }
            }
            State::Data(remaining) => {
                self.state = match skip(rest, remaining) {
                    0 => State::Control,
                    remaining => State::Data(remaining),
                }
            }
            State::Tail(remaining) => return Ok(self.tail(skip(rest, remaining))),
            State::Index(_) => {
                let Some(byte) = take(rest) else { return Ok(None) };
                self.index_bytes = add(self.index_bytes, 1)?;
                self.index_crc.update(&[byte]);
                self.index(byte)?;
            }
            State::IndexSum => {
                if self.gather(rest, 4) {
                    let sum = std::mem::take(&mut self.index_crc).finalize();
                    if self.held != sum.to_le_bytes() {
                        return Err(XzError::Index);
                    }
                    self.held.clear();
                    self.state = State::Footer;
                }
            }
            State::Footer => {
                if self.gather(rest, STREAM_HEADER_BYTES) {
                    format::stream_footer(&self.held, &self.stream_header, add(self.index_bytes, 4)?)?;
                    self.state = State::Done;
                    return Ok(Some(Part::Done));
                }
            }
            State::Done => {}
        }
        Ok(None)
    }

    fn expect_next(&mut self) {
        self.held.clear();
        self.state = State::Next;
    }

    /// Adds to what is held; whether it is `want` bytes now.
    fn gather(&mut self, rest: &mut &[u8], want: usize) -> bool {
        let missing = want.saturating_sub(self.held.len()).min(rest.len());
        let (bytes, after) = rest.split_at(missing);
        self.held.extend_from_slice(bytes);
        *rest = after;
        self.held.len() >= want
    }

    /// So much is left of the block.
    fn tail(&mut self, remaining: u64) -> Option<Part> {
        if remaining > 0 {
            self.state = State::Tail(remaining);
            return None;
        }
        let unpadded = self.header_bytes.saturating_add(self.packed_bytes).saturating_add(self.check_bytes);
        record(&mut self.sizes, unpadded, self.unpacked_bytes);
        self.blocks = self.blocks.saturating_add(1);
        self.expect_next();
        Some(Part::End(self.unpacked_bytes))
    }

    /// Takes one byte of the index (section 4).
    fn index(&mut self, byte: u8) -> Result<(), XzError> {
        let field = match &self.state {
            // The indicator itself, which is zero.
            State::Index(Field::Count) if self.index_bytes == 1 => return Ok(()),
            State::Index(Field::Padding) if byte != 0 => return Err(XzError::Index),
            State::Index(Field::Padding) => Field::Padding,
            State::Index(field) => match (field, self.number.push(byte)?) {
                (_, None) => return Ok(()),
                (Field::Count, Some(count)) if count == self.blocks => {
                    self.records_left = count;
                    Field::Unpadded
                }
                (Field::Unpadded, Some(unpadded)) => Field::Unpacked(unpadded),
                (Field::Unpacked(unpadded), Some(unpacked)) => {
                    record(&mut self.records, *unpadded, unpacked);
                    self.records_left = self.records_left.saturating_sub(1);
                    Field::Unpadded
                }
                _ => return Err(XzError::Index),
            },
            _ => return Err(XzError::Index),
        };
        let more = matches!(field, Field::Unpacked(_)) || self.records_left > 0;
        self.state = if more {
            State::Index(field)
        } else if !self.index_bytes.is_multiple_of(4) {
            State::Index(Field::Padding)
        } else {
            if std::mem::take(&mut self.records).finalize() != std::mem::take(&mut self.sizes).finalize() {
                return Err(XzError::Index);
            }
            State::IndexSum
        };
        Ok(())
    }
}

/// Unpacked and packed size in bytes of a chunk (liblzma's lzma2_decoder.c, the format's only definition).
fn lengths(control: u8, bytes: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = bytes.split_first_chunk::<2>()?;
    let first = u64::from(u16::from_be_bytes(*first));
    if control < 0x80 {
        return Some((first + 1, first + 1));
    }
    let packed = u64::from(u16::from_be_bytes(*rest.first_chunk::<2>()?));
    Some(((u64::from(control & 0x1F) << 16) + first + 1, packed + 1))
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn add(a: u64, b: u64) -> Result<u64, XzError> {
    a.checked_add(b).ok_or(XzError::Size)
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (byte, after) = rest.split_first()?;
    *rest = after;
    Some(*byte)
}

/// Passes up to `left` bytes; what is left then.
fn skip(rest: &mut &[u8], remaining: u64) -> u64 {
    let here = usize::try_from(remaining).unwrap_or(usize::MAX).min(rest.len());
    *rest = rest.get(here..).unwrap_or_default();
    remaining - u64::try_from(here).unwrap_or(0)
}
