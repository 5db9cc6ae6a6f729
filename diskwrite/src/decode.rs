//! Tells formats apart by their first bytes, and unpacks gzip and zstd in bounded memory.

use crate::source::SourceError;
use crate::verify::VerifyError;
use flate2::bufread::GzDecoder;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    io::{self, BufRead, Read},
};
use zstd::stream::read::Decoder as ZstdDecoder;

/// Windows up to 128 MiB, the format's recommended limit and what `zstd --ultra -22` makes.
const ZSTD_WINDOW_LOG: u32 = 27;

/// How an image is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Not at all.
    Raw,
    /// gzip, one member.
    Gzip,
    /// xz, one stream of any number of blocks.
    Xz,
    /// Zstandard, any number of frames.
    Zstd,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        })
    }
}

/// Why no (more) of the image can be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The source ended within the compressed stream.
    #[error("the {format} image is truncated: it ends at byte {offset}, within the compressed stream")]
    Truncated {
        /// How it is packed.
        format: Format,
        /// Bytes of packed image there are.
        offset: u64,
    },
    /// The compressed stream is not what its format allows.
    #[error("the {format} image is damaged near byte {offset}")]
    Corrupt {
        /// How it is packed.
        format: Format,
        /// Bytes of packed image used so far.
        offset: u64,
        /// What the decoder says.
        source: io::Error,
    },
    /// Something follows the compressed stream.
    #[error("the {format} image ends at byte {offset}, but more data follows")]
    Trailing {
        /// How it is packed.
        format: Format,
        /// Where the compressed stream ends.
        offset: u64,
    },
    /// The decoder can't be set up.
    #[error("cannot set up the {format} decoder")]
    Setup {
        /// How the image is packed.
        format: Format,
        source: io::Error,
    },
    /// The image is complete, but its signature or sum is missing or wrong.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The decoding thread can't be started or died.
    #[error("the decoding thread {0}")]
    Thread(&'static str),
}

/// Tells the format by its magic number; zstd may begin with a skippable frame.
pub(crate) fn detect(start: &[u8]) -> Format {
    match start {
        [0x1F, 0x8B, ..] => Format::Gzip,
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Format::Xz,
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Format::Zstd,
        _ => Format::Raw,
    }
}

/// Counts the bytes the decoder has used.
struct Input<R> {
    inner: R,
    used: u64,
}

impl<R: BufRead> BufRead for Input<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
        self.used = self.used.saturating_add(u64::try_from(amount).unwrap_or(u64::MAX));
    }
}

impl<R: BufRead> Read for Input<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buf)?;
        self.consume(count);
        Ok(count)
    }
}

enum Codec<R: BufRead> {
    Gzip(Box<GzDecoder<Input<R>>>),
    Zstd(ZstdDecoder<'static, Input<R>>),
}

/// The unpacked image, of a format that one thread unpacks from start to end.
pub(crate) struct Decoder<R: BufRead> {
    codec: Codec<R>,
    format: Format,
    ended: bool,
}

impl<R: BufRead> Decoder<R> {
    /// For gzip or else zstd.
    pub(crate) fn new(source: R, format: Format) -> Result<Self, DecodeError> {
        let input = Input { inner: source, used: 0 };
        let setup = |source| DecodeError::Setup { format, source };
        let codec = if format == Format::Gzip {
            Codec::Gzip(Box::new(GzDecoder::new(input)))
        } else {
            let mut decoder = ZstdDecoder::with_buffer(input).map_err(setup)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(setup)?;
            Codec::Zstd(decoder)
        };
        Ok(Self { codec, format, ended: false })
    }

    /// Fills `buf` as far as the image goes; less than all of it means the image, and the source, ended well.
    pub(crate) fn fill(&mut self, buf: &mut [u8]) -> Result<usize, DecodeError> {
        let mut filled = 0;
        while filled < buf.len() && !self.ended {
            let rest = buf.get_mut(filled..).unwrap_or_default();
            let count = match &mut self.codec {
                Codec::Gzip(decoder) => decoder.read(rest),
                Codec::Zstd(decoder) => decoder.read(rest),
            };
            match count {
                Ok(0) => {
                    self.expect_end()?;
                    self.ended = true;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(classify(error, self.format, self.offset())),
            }
        }
        Ok(filled)
    }

    fn offset(&self) -> u64 {
        match &self.codec {
            Codec::Gzip(decoder) => decoder.get_ref().used,
            Codec::Zstd(decoder) => decoder.get_ref().used,
        }
    }

    fn expect_end(&mut self) -> Result<(), DecodeError> {
        let (format, offset) = (self.format, self.offset());
        let input = match &mut self.codec {
            Codec::Gzip(decoder) => decoder.get_mut(),
            Codec::Zstd(decoder) => decoder.get_mut(),
        };
        match input.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err(DecodeError::Trailing { format, offset }),
            Err(error) => Err(classify(error, format, offset)),
        }
    }
}

/// Decoders pass on a source's error as it is, and have two kinds of their own.
pub(crate) fn classify(error: io::Error, format: Format, offset: u64) -> DecodeError {
    match error.downcast::<SourceError>() {
        Ok(error) => DecodeError::Source(error),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => DecodeError::Truncated { format, offset },
        Err(source) => DecodeError::Corrupt { format, offset, source },
    }
}
