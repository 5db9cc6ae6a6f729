//! Unpacks gzip, xz and zstd, told apart by their first bytes, in bounded memory.

use crate::event::Format;
use crate::source::SourceError;
use crate::verify::VerifyError;
use flate2::bufread::GzDecoder;
use liblzma::{bufread::XzDecoder, stream::Stream};
use std::{
    io::{self, BufRead, BufReader, Chain, Cursor, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use zstd::stream::read::Decoder as ZstdDecoder;

/// Read from the source at once.
const INPUT_BYTES: usize = 256 << 10;
/// `xz -9` needs 65 MiB; a stream that asks for more than this is refused.
const XZ_MEMORY_BYTES: u64 = 256 << 20;
/// Windows up to 128 MiB, the format's recommended limit and what `zstd --ultra -22` makes.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Why no (more) of the image can be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The source failed.
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
        /// Cause.
        source: io::Error,
    },
    /// All came, but nothing vouches for it, or not for this.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The decoding thread can't be started or died.
    #[error("the decoding thread {0}")]
    Thread(&'static str),
}

/// Tells the format by its magic number; zstd may begin with a skippable frame.
fn detect(start: &[u8]) -> Format {
    match start {
        [0x1F, 0x8B, ..] => Format::Gzip,
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Format::Xz,
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Format::Zstd,
        _ => Format::Raw,
    }
}

/// Buffered source bytes; counts those the decoder has used.
struct Input<R> {
    inner: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    used: Arc<AtomicU64>,
}

impl<R: Read> BufRead for Input<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
        self.used.fetch_add(u64::try_from(amount).unwrap_or(0), Ordering::Relaxed);
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buf)?;
        self.consume(count);
        Ok(count)
    }
}

enum Codec<R: Read> {
    Raw(Input<R>),
    Gzip(Box<GzDecoder<Input<R>>>),
    Xz(XzDecoder<Input<R>>),
    Zstd(ZstdDecoder<'static, Input<R>>),
}

/// The unpacked image.
pub(crate) struct Decoder<R: Read> {
    codec: Codec<R>,
    format: Format,
    used: Arc<AtomicU64>,
    ended: bool,
}

impl<R: Read> Decoder<R> {
    /// Looks at the first bytes of `source`; `used` counts the source's bytes as they are unpacked.
    pub fn new(mut source: R, used: Arc<AtomicU64>) -> Result<Self, DecodeError> {
        let mut start = Vec::new();
        // Raw has no errors of its own, so anything here is the source's.
        source.by_ref().take(6).read_to_end(&mut start).map_err(|error| classify(error, Format::Raw, 0))?;
        let format = detect(&start);
        let chained = Cursor::new(start).chain(source);
        let input = Input { inner: BufReader::with_capacity(INPUT_BYTES, chained), used: used.clone() };
        let setup = |source| DecodeError::Setup { format, source };
        let codec = match format {
            Format::Raw => Codec::Raw(input),
            Format::Gzip => Codec::Gzip(Box::new(GzDecoder::new(input))),
            Format::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, 0).map_err(|error| setup(error.into()))?;
                Codec::Xz(XzDecoder::new_stream(input, stream))
            }
            Format::Zstd => {
                let mut decoder = ZstdDecoder::with_buffer(input).map_err(setup)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(setup)?;
                Codec::Zstd(decoder)
            }
        };
        Ok(Self { codec, format, used, ended: false })
    }

    /// How the image is packed.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Fills `buf` as far as the image goes; less than all of it means the image, and the source, ended well.
    pub fn fill(&mut self, buf: &mut [u8]) -> Result<usize, DecodeError> {
        let mut filled = 0;
        while filled < buf.len() && !self.ended {
            let rest = &mut buf[filled..];
            let count = match &mut self.codec {
                Codec::Raw(input) => input.read(rest),
                Codec::Gzip(decoder) => decoder.read(rest),
                Codec::Xz(decoder) => decoder.read(rest),
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

    /// What it read from.
    pub fn into_source(self) -> R {
        let input = match self.codec {
            Codec::Raw(input) => input,
            Codec::Gzip(decoder) => decoder.into_inner(),
            Codec::Xz(decoder) => decoder.into_inner(),
            Codec::Zstd(decoder) => decoder.finish(),
        };
        input.inner.into_inner().into_inner().1
    }

    fn offset(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn expect_end(&mut self) -> Result<(), DecodeError> {
        let (format, offset) = (self.format, self.offset());
        let input = match &mut self.codec {
            Codec::Raw(input) => input,
            Codec::Gzip(decoder) => decoder.get_mut(),
            Codec::Xz(decoder) => decoder.get_mut(),
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
fn classify(error: io::Error, format: Format, offset: u64) -> DecodeError {
    match error.downcast::<SourceError>() {
        Ok(error) => DecodeError::Source(error),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => DecodeError::Truncated { format, offset },
        Err(source) => DecodeError::Corrupt { format, offset, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(data: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn zst(data: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn pack(format: Format, data: &[u8]) -> Vec<u8> {
        match format {
            Format::Raw => data.to_vec(),
            Format::Gzip => gzip(data),
            Format::Xz => xz(data),
            Format::Zstd => zst(data),
        }
    }

    fn unpack(source: impl Read) -> Result<(Format, Vec<u8>), DecodeError> {
        let mut decoder = Decoder::new(source, Arc::default())?;
        let mut data = Vec::new();
        let mut buf = [0; 1000];
        loop {
            let count = decoder.fill(&mut buf)?;
            data.extend_from_slice(&buf[..count]);
            if count < buf.len() {
                return Ok((decoder.format(), data));
            }
        }
    }

    /// Text that compresses, with runs and noise.
    fn sample(len: usize) -> Vec<u8> {
        (0u32..).map(|n| (n.wrapping_mul(2_654_435_761) >> (24 + n % 5)).to_le_bytes()[0]).take(len).collect()
    }

    const PACKED: [Format; 3] = [Format::Gzip, Format::Xz, Format::Zstd];

    #[test]
    fn unpacks_each_format() {
        let data = sample(100_000);
        for format in [Format::Raw, Format::Gzip, Format::Xz, Format::Zstd] {
            assert_eq!(unpack(&*pack(format, &data)).unwrap(), (format, data.clone()));
            assert!(unpack(&*pack(format, &[])).unwrap().1.is_empty());
        }
        assert_eq!(unpack(io::empty()).unwrap(), (Format::Raw, vec![]));
    }

    #[test]
    fn multi_frame_zstd_is_one_image() {
        let mut packed = zst(b"one ");
        packed.extend([0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        packed.extend(zst(b"two"));
        assert_eq!(unpack(&*packed).unwrap().1, b"one two");
        packed.drain(..zst(b"one ").len());
        assert_eq!(unpack(&*packed).unwrap(), (Format::Zstd, b"two".to_vec()));
    }

    #[test]
    fn trailing_data_is_an_error() {
        let data = sample(5000);
        for format in PACKED {
            let mut packed = pack(format, &data);
            let end = u64::try_from(packed.len()).unwrap();
            packed.extend(b"garbage");
            match unpack(&*packed) {
                Err(DecodeError::Trailing { offset, .. }) => assert_eq!(offset, end),
                // zstd looks for another frame and finds none.
                Err(DecodeError::Corrupt { format: Format::Zstd, .. }) => {}
                other => panic!("{format}: {other:?}"),
            }
        }
        let two_members = [gzip(&data), gzip(&data)].concat();
        assert!(matches!(unpack(&*two_members), Err(DecodeError::Trailing { format: Format::Gzip, .. })));
    }

    #[test]
    fn source_errors_come_through_unchanged() {
        struct Broken<'a>(&'a [u8]);
        impl Read for Broken<'_> {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                match self.0.read(buf)? {
                    0 => Err(io::Error::other(SourceError::Cancelled { offset: 77 })),
                    count => Ok(count),
                }
            }
        }
        let data = sample(50_000);
        for format in [Format::Raw, Format::Gzip, Format::Xz, Format::Zstd] {
            let packed = pack(format, &data);
            for len in [0, 3, 7, 11, packed.len() / 2, packed.len() - 3] {
                match unpack(Broken(&packed[..len])) {
                    Err(DecodeError::Source(SourceError::Cancelled { offset: 77 })) => {}
                    other => panic!("{format} cut at {len}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        // To make such a stream takes gigabytes, so the dictionary size in the block header of a small one is patched.
        let mut packed = xz(&sample(1000));
        let filter = packed.windows(2).position(|pair| pair == [0x21, 0x01]).unwrap();
        packed[filter + 2] = 40;
        let header_len = (usize::from(packed[12]) + 1) * 4;
        let crc = crc32fast::hash(&packed[12..12 + header_len - 4]).to_le_bytes();
        packed[12 + header_len - 4..12 + header_len].copy_from_slice(&crc);
        match unpack(&*packed) {
            Err(DecodeError::Corrupt { format: Format::Xz, source, .. }) => {
                assert!(source.to_string().contains("memory limit"), "{source}");
            }
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn truncation_is_found(which in 0usize..3, keep in any::<prop::sample::Index>()) {
            let packed = pack(PACKED[which], &sample(20_000));
            let len = 6 + keep.index(packed.len() - 6);
            match unpack(&packed[..len]) {
                Err(DecodeError::Truncated { offset, .. }) => prop_assert_eq!(offset, u64::try_from(len).unwrap()),
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn damage_never_panics_nor_passes_for_good(which in 0usize..3, at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let data = sample(20_000);
            let mut packed = pack(PACKED[which], &data);
            let at = at.index(packed.len());
            packed[at] ^= 1 << bit;
            // A flipped bit may land where it changes nothing (a gzip time stamp) or turn the magic into no magic; it must
            // not yield other data under the same format.
            if let Ok((format, found)) = unpack(&*packed) {
                prop_assert!(format == Format::Raw || found == data);
            }
        }

        #[test]
        fn noise_never_panics(which in 0usize..3, noise in prop::collection::vec(any::<u8>(), 0..2000)) {
            let magic: &[u8] = [&[0x1F, 0x8B, 8][..], &[0xFD, b'7', b'z', b'X', b'Z', 0], &[0x28, 0xB5, 0x2F, 0xFD]][which];
            let _ = unpack(&*[magic, &noise].concat());
        }
    }
}
