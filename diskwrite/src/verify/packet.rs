//! OpenPGP's outer layers: ASCII armor, packets, and the numbers in them (RFC 9580, sections 3, 4 and 6).

use base64::{Engine, engine::general_purpose::STANDARD};

/// All of Fedora's keys are fewer.
const BLOCKS: usize = 1000;

/// Packet types (section 5).
pub(super) mod tag {
    pub(crate) const SIGNATURE: u8 = 2;
    pub(crate) const PUBLIC_KEY: u8 = 6;
    pub(crate) const MARKER: u8 = 10;
    pub(crate) const TRUST: u8 = 12;
    pub(crate) const USER_ID: u8 = 13;
    pub(crate) const PUBLIC_SUBKEY: u8 = 14;
    pub(crate) const PADDING: u8 = 21;
}

/// Bytes that are not OpenPGP, or not in a form that keys and signatures have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PacketError {
    #[error("it ends too early")]
    End,
    #[error("it has {0} bytes too many")]
    Rest(usize),
    #[error("the armor is not Base64: {0}")]
    Armor(#[from] base64::DecodeError),
    #[error("byte {0:#04x} does not begin a packet")]
    Tag(u8),
    #[error("a packet of type {0} has partial lengths, which only messages may have")]
    Partial(u8),
    #[error("a packet of type {0} is neither a key nor a signature")]
    Type(u8),
    #[error("{what} has version {version}; 4 and 6 are supported")]
    Version { what: &'static str, version: u8 },
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub tag: u8,
    pub body: &'a [u8],
}

/// Takes from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], PacketError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(PacketError::End)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(PacketError::End)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, PacketError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, PacketError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, PacketError> {
        self.array().map(u32::from_be_bytes)
    }

    /// As many bytes as a length of two bytes, or in version 6 of four, says.
    pub(super) fn block(&mut self, wide: bool) -> Result<&'a [u8], PacketError> {
        let len = if wide { self.u32()? } else { self.u16()?.into() };
        self.take(usize::try_from(len).map_err(|_| PacketError::End)?)
    }

    /// A number of any length (section 3.2), big-endian.
    pub(super) fn mpi(&mut self) -> Result<&'a [u8], PacketError> {
        let bits = usize::from(self.u16()?);
        self.take(bits.div_ceil(8))
    }

    /// A length of one, two or five bytes, as new packets (section 4.2.1) and subpackets have it.
    fn len(&mut self, first: u8) -> Result<usize, PacketError> {
        Ok(match first {
            0..192 => first.into(),
            255 => usize::try_from(self.u32()?).map_err(|_| PacketError::End)?,
            _ => ((usize::from(first) - 192) << 8) + usize::from(self.u8()?) + 192,
        })
    }

    /// The next subpacket of a signature (section 5.2.3.7): its type, with the bit that says it must be understood, and its body.
    pub(super) fn subpacket(&mut self) -> Result<(u8, &'a [u8]), PacketError> {
        let first = self.u8()?;
        let len = self.len(first)?;
        let (kind, body) = self.take(len)?.split_first().ok_or(PacketError::End)?;
        Ok((*kind, body))
    }

    fn packet(&mut self) -> Result<Packet<'a>, PacketError> {
        let first = self.u8()?;
        if first & 0x80 == 0 {
            return Err(PacketError::Tag(first));
        }
        let (tag, len) = if first & 0x40 != 0 {
            let tag = first & 0x3F;
            let len = self.u8()?;
            if (224..255).contains(&len) {
                return Err(PacketError::Partial(tag));
            }
            (tag, self.len(len)?)
        } else {
            let len = match first & 3 {
                0 => self.u8()?.into(),
                1 => self.u16()?.into(),
                2 => usize::try_from(self.u32()?).map_err(|_| PacketError::End)?,
                _ => self.0.len(),
            };
            (first >> 2 & 0x0F, len)
        };
        Ok(Packet { tag, body: self.take(len)? })
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), PacketError> {
        if self.0.is_empty() { Ok(()) } else { Err(PacketError::Rest(self.0.len())) }
    }
}

/// The packets, up to the first that is cut off or is not one.
pub(super) fn packets(bytes: &[u8]) -> impl Iterator<Item = Result<Packet<'_>, PacketError>> {
    let mut reader = Reader(bytes);
    std::iter::from_fn(move || {
        if reader.0.is_empty() {
            return None;
        }
        let packet = reader.packet();
        if packet.is_err() {
            reader.0 = &[];
        }
        Some(packet)
    })
    .filter(|packet| !matches!(packet, Ok(Packet { tag: tag::MARKER | tag::PADDING, .. })))
}

/// The binary pieces of a file: a binary file is one, an armored one has one for each of its whole blocks. What is between
/// them, as `gpg --list-keys` writes it there, does not matter.
pub(super) fn blocks(bytes: &[u8]) -> Vec<Result<Vec<u8>, PacketError>> {
    const BEGIN: &[u8] = b"-----BEGIN PGP ";
    const END: &[u8] = b"-----END PGP ";
    if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        return vec![Ok(bytes.to_vec())];
    }
    let mut blocks = Vec::new();
    let mut block: Option<Vec<u8>> = None;
    let mut in_checksum = false;
    for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        let is_rule = line.ends_with(b"-----");
        if is_rule && line.starts_with(BEGIN) {
            (block, in_checksum) = (Some(Vec::new()), false);
        } else if is_rule && line.starts_with(END) {
            blocks.extend(block.take().map(|text| STANDARD.decode(text).map_err(PacketError::from)));
        } else if let Some(text) = &mut block {
            // The checksum is optional and protects nothing (section 6.1); headers have a colon, which Base64 has not.
            in_checksum |= line.starts_with(b"=");
            if !in_checksum && !line.contains(&b':') {
                text.extend_from_slice(line);
            }
        }
        if blocks.len() == BLOCKS {
            break;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all(bytes: &[u8]) -> Vec<(u8, usize)> {
        packets(bytes).map_while(Result::ok).map(|packet| (packet.tag, packet.body.len())).collect()
    }

    #[test]
    fn every_form_of_length_is_read() {
        let with = |head: &[u8], len: usize| [head, &vec![0; len]].concat();
        for (bytes, expected) in [
            (with(&[0xC2, 191], 191), (2, 191)),
            (with(&[0xC2, 192, 0], 192), (2, 192)),
            (with(&[0xC2, 223, 255], 8383), (2, 8383)),
            (with(&[0xC6, 255, 0, 0, 1, 0], 256), (6, 256)),
            (with(&[0x88, 7], 7), (2, 7)),
            (with(&[0x99, 1, 0], 256), (6, 256)),
            (with(&[0x8A, 0, 0, 0, 9], 9), (2, 9)),
            (with(&[0x8B], 12), (2, 12)),
        ] {
            assert_eq!(all(&bytes), [expected]);
            assert_eq!(all(&bytes[..bytes.len() - 1]), if expected.1 == 12 { vec![(2, 11)] } else { vec![] });
        }
        assert_eq!(all(&[0xCA, 3, b'P', b'G', b'P', 0xD5, 1, 0, 0xC2, 0]), [(2, 0)], "a marker and padding");
    }

    #[test]
    fn what_is_not_a_packet_is_named() {
        let error = |bytes: &[u8]| packets(bytes).last().unwrap().unwrap_err().to_string();
        assert_eq!(error(b"<"), "byte 0x3c does not begin a packet");
        assert_eq!(error(&[0xCB, 0xE1, 0, 0]), "a packet of type 11 has partial lengths, which only messages may have");
        assert_eq!(error(&[0xC2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), "it ends too early");
        assert_eq!(packets(&[0xC2, 0xFF, 1]).count(), 1, "nothing is read after it");
    }

    #[test]
    fn armor_is_taken_off() {
        let text = "words\n-----BEGIN PGP SIGNATURE-----\r\nVersion: x\r\n\r\nwgEB\r\n  \nwgEC\n=AAAA\nbetween\n-----END PGP SIGNATURE-----\n\
                    -----BEGIN PGP X-----\nwgE\n-----END PGP X-----\n-----BEGIN PGP SIGNATURE-----\n\nwgEB\n";
        let blocks = blocks(text.as_bytes());
        assert_eq!(blocks[0].as_ref().unwrap(), &[0xC2, 1, 1, 0xC2, 1, 2]);
        assert!(blocks[1].as_ref().unwrap_err().to_string().starts_with("the armor is not Base64"));
        assert_eq!(blocks.len(), 2, "one has no end");
    }
}
