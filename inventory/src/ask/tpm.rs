//! What a TPM 2.0 is asked: each answer is the contents of one thing, in as many commands as it takes. Pure but for what
//! exchanges a command for a reply.

use crate::tpm::wire::{Command, nv_len};
use std::io;

/// Bytes of an index that are read at once: what the smallest buffer of a TPM holds.
const STEP: u16 = 512;
/// Certificates have one to two thousand bytes.
const MAX_BYTES: u16 = 16 << 10;

/// Sends a command and gives its reply.
pub(crate) type Exchange<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<Vec<u8>>;

/// A group of capabilities, from a property on: the group's number, a count, and the items.
pub(super) fn capability(exchange: Exchange<'_>, capability: u32, property: u32) -> io::Result<Vec<u8>> {
    run(exchange, Command::GetCapability { capability, property })
}

/// The contents of an index of the non-volatile memory.
pub(crate) fn nv(exchange: Exchange<'_>, index: u32) -> io::Result<Vec<u8>> {
    let public = run(exchange, Command::NvReadPublic { index })?;
    let len = nv_len(&public).ok_or_else(|| refused("an index without a length"))?.min(MAX_BYTES);
    let mut contents = Vec::new();
    while let Some(left) = usize::from(len).checked_sub(contents.len()).filter(|left| *left > 0) {
        let step = STEP.min(u16::try_from(left).unwrap_or(STEP));
        let at = u16::try_from(contents.len()).map_err(io::Error::other)?;
        let part = run(exchange, Command::NvRead { index, len: step, at })?;
        if part.is_empty() {
            return Err(refused("an index that ends early"));
        }
        contents.extend(part);
    }
    contents.truncate(len.into());
    Ok(contents)
}

/// The public area of a key that is in the TPM.
pub(super) fn public(exchange: Exchange<'_>, handle: u32) -> io::Result<Vec<u8>> {
    run(exchange, Command::ReadPublic { handle })
}

fn run(exchange: Exchange<'_>, command: Command) -> io::Result<Vec<u8>> {
    let reply = exchange(&command.encode())?;
    let parameters = command.parameters(&reply).map_err(|code| refused(&format!("code {code:#x}")))?;
    Ok(parameters.to_vec())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("the TPM refused: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::bytes::{be16, be32};
    use proptest::prelude::*;

    fn reply(parameters: &[u8]) -> Vec<u8> {
        [&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0], parameters].concat()
    }

    fn sized(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    #[test]
    fn an_index_is_read_in_steps() {
        let certificate: Vec<u8> = (0..1200_u16).map(|at| at.to_le_bytes()[0]).collect();
        let mut asked = 0;
        let found = nv(
            &mut |command| {
                asked += 1;
                Ok(match be32(command, 6) {
                    Some(0x169) => {
                        let public = [&[1, 0xc0, 0, 2, 0, 0xb, 0, 0, 0, 0, 0, 0][..], &1200_u16.to_be_bytes()].concat();
                        reply(&sized(&public))
                    }
                    _ => {
                        let (len, at) = (be16(command, 31).unwrap(), be16(command, 33).unwrap());
                        let part = &certificate[usize::from(at)..usize::from(at + len)];
                        reply(&[&[0; 4], &sized(part)[..]].concat())
                    }
                })
            },
            0x01c0_0002,
        );
        assert_eq!((found.unwrap(), asked), (certificate, 4));
        let none = nv(&mut |_| Ok(vec![0x80, 1, 0, 0, 0, 10, 0, 0, 1, 0x8b]), 1).unwrap_err();
        assert_eq!(
            (none.kind(), none.to_string().as_str()),
            (io::ErrorKind::Unsupported, "the TPM refused: code 0x18b")
        );
    }

    proptest! {
        #[test]
        fn noise_ends(noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..9)) {
            let mut replies = noise.iter().cycle();
            let mut exchange = |_: &[u8]| Ok(reply(replies.next().map_or(&[][..], Vec::as_slice)));
            let _ = nv(&mut exchange, 1);
            let _ = public(&mut exchange, 1);
            let _ = capability(&mut exchange, 6, 0x100);
        }
    }
}
