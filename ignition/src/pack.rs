//! The packed form of a config in a live ISO.

use flate2::{Compression, write::GzEncoder};
use kernel::newc;
use std::io::Write;

/// The gzip-compressed archive whose only member is `config.ign`, padded with zeros to a multiple of four bytes: what goes to the
/// start of the embed area, or to the end of an initrd.
pub fn pack(config: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut archive = Vec::with_capacity(config.len() + 512);
    newc::append(&mut archive, 1, newc::REGULAR | 0o644, "config.ign", config).map_err(std::io::Error::other)?;
    newc::finish(&mut archive);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&archive)?;
    let mut packed = encoder.finish()?;
    newc::pad(&mut packed);
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn packing_is_deterministic_and_unpacks_to_one_member() {
        let packed = pack(b"{}").unwrap();
        assert_eq!(packed, pack(b"{}").unwrap());
        assert_eq!(packed.len() % 4, 0);
        let mut archive = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut archive).unwrap();
        let mut expected = Vec::new();
        newc::append(&mut expected, 1, 0o100_644, "config.ign", b"{}").unwrap();
        newc::finish(&mut expected);
        assert_eq!(archive, expected);
    }
}
