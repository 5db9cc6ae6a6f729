//! Compressed forms the kernel's unpacker reads.

use flate2::write::GzEncoder;
use liblzma::stream::{Check, Filters, LzmaOptions, Stream};
use std::io::{self, Write};

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, which every initramfs kernel reads.
    Gzip,
    /// xz with the CRC32 check, the only one the kernel knows.
    #[default]
    Xz,
}

/// The smallest dictionary xz has.
const MIN_DICTIONARY_BYTES: u32 = 4096;

pub(super) fn compress(content: Vec<u8>, compression: Compression) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(content),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(&content)?;
            encoder.finish()
        }
        Compression::Xz => {
            // The kernel allocates the dictionary in one piece while memory is short, so it is no larger than the content.
            let mut options = LzmaOptions::new_preset(9)?;
            let preset_bytes = 64 << 20;
            let dictionary =
                u32::try_from(content.len()).unwrap_or(preset_bytes).clamp(MIN_DICTIONARY_BYTES, preset_bytes);
            options.dict_size(dictionary);
            let mut filters = Filters::new();
            filters.lzma2(&options);
            let stream = Stream::new_stream_encoder(&filters, Check::Crc32)?;
            let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
            encoder.write_all(&content)?;
            encoder.finish()
        }
    }
}
