//! Compressed forms the kernel's unpacker reads.

use super::xz;
use flate2::write::GzEncoder;
use std::io::{self, Write};

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, which every initramfs kernel reads.
    Gzip,
    /// xz at its highest preset, with the CRC32 check, the only one the kernel knows.
    #[default]
    Xz,
}

/// `ends` are where xz starts another block.
pub(super) fn compress(content: Vec<u8>, ends: &[usize], compression: Compression) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(content),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(&content)?;
            encoder.finish()
        }
        Compression::Xz => xz::compress(&content, ends),
    }
}
