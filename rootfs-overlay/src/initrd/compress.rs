//! Compressed forms the kernel's unpacker reads.

use flate2::write::GzEncoder;
use liblzma::stream::{Check, Stream};
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

pub(super) fn compress(content: Vec<u8>, compression: Compression) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(content),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(&content)?;
            encoder.finish()
        }
        Compression::Xz => {
            let stream = Stream::new_easy_encoder(9, Check::Crc32)?;
            let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
            encoder.write_all(&content)?;
            encoder.finish()
        }
    }
}
