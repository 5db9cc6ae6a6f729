//! The packed form of a config in a live ISO, and the room there is for it.

use crate::newc;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// Size of the embed area of every CoreOS live ISO so far: `images/ignition.img`.
pub const AREA_BYTES: u64 = 256 * 1024;

/// A config that does not fit.
#[derive(Debug, thiserror::Error)]
#[error(
    "the Ignition config is too large for the ISO: {packed_bytes} bytes packed, of {area_bytes}; \
     deliver large files from a web server (contents.source) instead of inside the config"
)]
pub struct TooLarge {
    /// Length of the compressed archive.
    pub packed_bytes: u64,
    /// Length of the area.
    pub area_bytes: u64,
}

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

/// Whether `packed_bytes` fit an area of [`AREA_BYTES`].
pub fn check_budget(packed_bytes: u64) -> Result<(), TooLarge> {
    if packed_bytes > AREA_BYTES { Err(TooLarge { packed_bytes, area_bytes: AREA_BYTES }) } else { Ok(()) }
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

    #[test]
    fn the_area_may_be_full_but_not_more() {
        assert!(check_budget(AREA_BYTES).is_ok());
        let error = check_budget(AREA_BYTES + 1).unwrap_err();
        assert!(error.to_string().contains("262145 bytes packed, of 262144"), "{error}");
    }
}
