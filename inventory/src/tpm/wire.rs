//! Commands to a TPM 2.0 and what its replies hold (TCG TPM 2.0 Library, parts 2 and 3). Pure; replies are hostile.
//!
//! The commands here only read. Those of [`crate::attest`] make keys, too, and only `landfall attest` sends them.

use kernel::bytes::{Reader, be32};

const NO_SESSIONS: u16 = 0x8001;
const SESSIONS: u16 = 0x8002;
const NV_READ: u32 = 0x014e;
const NV_READ_PUBLIC: u32 = 0x0169;
const READ_PUBLIC: u32 = 0x0173;
const GET_CAPABILITY: u32 = 0x017a;
/// The session of an empty password.
const PASSWORD: u32 = 0x4000_0009;
/// Tag, length, code.
const HEADER_BYTES: usize = 10;
/// As many as any TPM gives at once.
const ALL: u32 = 254;

/// Groups of capabilities.
pub(crate) const ALGORITHMS: u32 = 0;
pub(crate) const HANDLES: u32 = 1;
pub(crate) const PROPERTIES: u32 = 6;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// What the TPM is and has, from `property` on.
    GetCapability { capability: u32, property: u32 },
    /// What an index of the non-volatile memory is.
    NvReadPublic { index: u32 },
    /// Part of its contents, by its own empty password.
    NvRead { index: u32, len: u16, at: u16 },
    /// The public part of a key that is in the TPM.
    ReadPublic { handle: u32 },
}

impl Command {
    /// As it is sent.
    pub(crate) fn encode(self) -> Vec<u8> {
        match self {
            Self::GetCapability { capability, property } => {
                command(NO_SESSIONS, GET_CAPABILITY, &[capability, property, ALL].map(u32::to_be_bytes).concat())
            }
            Self::NvReadPublic { index } => command(NO_SESSIONS, NV_READ_PUBLIC, &index.to_be_bytes()),
            Self::ReadPublic { handle } => command(NO_SESSIONS, READ_PUBLIC, &handle.to_be_bytes()),
            Self::NvRead { index, len, at } => {
                // Who permits it and what is read; the session: its handle, no nonce, no attributes, no password.
                let mut body = [index, index, 9, PASSWORD].map(u32::to_be_bytes).concat();
                body.extend([0; 5]);
                body.extend([len, at].map(u16::to_be_bytes).concat());
                command(SESSIONS, NV_READ, &body)
            }
        }
    }

    /// What the reply to it holds; its code, if the TPM refused.
    pub(crate) fn parameters(self, reply: &[u8]) -> Result<&[u8], u32> {
        const UNSOUND: u32 = u32::MAX;
        let code = be32(reply, 6).unwrap_or(UNSOUND);
        if code != 0 {
            return Err(code);
        }
        let body = reply.get(HEADER_BYTES..).ok_or(UNSOUND)?;
        let found = match self {
            // Behind the length of the parameters.
            Self::NvRead { .. } => sized(body.get(4..).unwrap_or_default()),
            Self::NvReadPublic { .. } | Self::ReadPublic { .. } => sized(body),
            // Behind "more data".
            Self::GetCapability { .. } => body.get(1..),
        };
        found.ok_or(UNSOUND)
    }
}

fn command(tag: u16, code: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(0);
    [&tag.to_be_bytes()[..], &len.to_be_bytes(), &code.to_be_bytes(), body].concat()
}

/// What stands behind its length of two bytes.
fn sized(bytes: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader(bytes);
    let len = u16::from_be_bytes(reader.array()?);
    reader.bytes(len.into())
}

/// Length of the contents of an index, from its public area.
pub(crate) fn nv_len(public: &[u8]) -> Option<u16> {
    let mut reader = Reader(public);
    // Index, hash, attributes, policy.
    reader.bytes(10)?;
    let policy = u16::from_be_bytes(reader.array()?);
    reader.bytes(policy.into())?;
    Some(u16::from_be_bytes(reader.array()?))
}

/// Properties and their values.
pub(crate) fn properties(capability: &[u8]) -> Vec<(u32, u32)> {
    let items = list(capability, PROPERTIES).unwrap_or_default();
    let (pairs, _) = items.as_chunks::<8>();
    pairs.iter().filter_map(|pair| Some((be32(pair, 0)?, be32(pair, 4)?))).collect()
}

/// Handles of what is there.
pub(crate) fn handles(capability: &[u8]) -> Vec<u32> {
    let (handles, _) = list(capability, HANDLES).unwrap_or_default().as_chunks::<4>();
    handles.iter().map(|handle| u32::from_be_bytes(*handle)).collect()
}

/// Numbers of algorithms.
pub(crate) fn algorithms(capability: &[u8]) -> Vec<u16> {
    let (pairs, _) = list(capability, ALGORITHMS).unwrap_or_default().as_chunks::<6>();
    pairs.iter().map(|[high, low, ..]| u16::from_be_bytes([*high, *low])).collect()
}

/// The items of a capability of that group; their number is that which fits.
fn list(capability: &[u8], group: u32) -> Option<&[u8]> {
    let size = match group {
        ALGORITHMS => 6,
        HANDLES => 4,
        _ => 8,
    };
    let count = usize::try_from(be32(capability, 4).filter(|_| be32(capability, 0) == Some(group))?).ok()?;
    let items = capability.get(8..)?;
    Some(items.get(..count.checked_mul(size)?).unwrap_or(items))
}

/// A key's public area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Public<'a> {
    /// Such as `RSA 2048` or `ECC P-256`.
    pub kind: String,
    /// The modulus; of an elliptic curve the point's coordinates.
    pub unique: Vec<&'a [u8]>,
}

/// TPMT_PUBLIC of a key (part 2, 12.2).
pub(crate) fn public(area: &[u8]) -> Option<Public<'_>> {
    const RSA: u16 = 1;
    const ECC: u16 = 0x23;
    const NULL: u16 = 0x10;
    fn number(reader: &mut Reader<'_>) -> Option<u16> {
        Some(u16::from_be_bytes(reader.array()?))
    }
    fn sized<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
        let len = number(reader)?;
        reader.bytes(len.into())
    }
    let mut reader = Reader(area);
    let kind = number(&mut reader)?;
    // Hash and attributes.
    reader.bytes(6)?;
    sized(&mut reader)?;
    // The algorithm for what it protects, with its length and mode.
    if number(&mut reader)? != NULL {
        reader.bytes(4)?;
    }
    // The scheme has its hash behind it.
    if number(&mut reader)? != NULL {
        reader.bytes(2)?;
    }
    let size = number(&mut reader)?;
    match kind {
        RSA => {
            reader.bytes(4)?;
            Some(Public { kind: format!("RSA {size}"), unique: vec![sized(&mut reader)?] })
        }
        ECC => {
            if number(&mut reader)? != NULL {
                reader.bytes(2)?;
            }
            let unique = vec![sized(&mut reader)?, sized(&mut reader)?];
            Some(Public { kind: format!("ECC {}", curve(size)), unique })
        }
        _ => None,
    }
}

/// Name of a curve (part 2, table 10).
fn curve(number: u16) -> String {
    match number {
        1 => "P-192".to_owned(),
        2 => "P-224".to_owned(),
        3 => "P-256".to_owned(),
        4 => "P-384".to_owned(),
        5 => "P-521".to_owned(),
        0x10 => "BN P256".to_owned(),
        0x20 => "SM2 P256".to_owned(),
        other => format!("curve {other:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_the_specification() {
        let capability = Command::GetCapability { capability: 6, property: 0x100 };
        let wanted = "80010000001600000 17a00000006 00000100 000000fe".replace(' ', "");
        assert_eq!(kernel::hex::lower(capability.encode()), wanted);
        let read = Command::NvRead { index: 0x01c0_0002, len: 512, at: 256 };
        let wanted = "8002000000230000014e01c0000201c00002000000094000000900000000000 2000100".replace(' ', "");
        assert_eq!(kernel::hex::lower(read.encode()), wanted);
        assert_eq!(read.encode().len(), 0x23);
    }

    #[test]
    fn replies() {
        let capability = Command::GetCapability { capability: 6, property: 0x100 };
        let mut reply = vec![0x80, 1, 0, 0, 0, 27, 0, 0, 0, 0, 0];
        reply.extend([6_u32, 1, 0x105, u32::from_be_bytes(*b"IFX\0")].map(u32::to_be_bytes).concat());
        let found = capability.parameters(&reply).unwrap();
        assert_eq!(properties(found), [(0x105, 0x4946_5800)]);
        assert_eq!((handles(found), algorithms(found)), (vec![], vec![]));
        // Initialize first; and nothing.
        assert_eq!(capability.parameters(&[0x80, 1, 0, 0, 0, 10, 0, 0, 1, 0]), Err(0x100));
        assert_eq!(capability.parameters(&[]), Err(u32::MAX));
        let list = [[1_u32, 9].map(u32::to_be_bytes).concat(), vec![1, 0xc0, 0, 2, 1, 0xc0, 0]].concat();
        assert_eq!(handles(&list), [0x01c0_0002]);
        let read = Command::NvRead { index: 1, len: 2, at: 0 };
        assert_eq!(
            read.parameters(&[0x80, 2, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0, 4, 0, 2, 7, 8, 0, 0, 1, 0, 0]),
            Ok(&[7, 8][..])
        );
        assert_eq!(nv_len(&[1, 0xc0, 0, 2, 0, 0xb, 0, 0, 0, 0, 0, 2, 9, 9, 4, 0x65]), Some(0x465));
    }

    #[test]
    fn public_areas() {
        // RSA, SHA-256, attributes, a policy of two bytes, AES 128 CFB, no scheme, 2048 bits, exponent, modulus.
        let mut rsa =
            vec![0, 1, 0, 0xb, 0, 3, 0, 0xb2, 0, 2, 9, 9, 0, 6, 0, 0x80, 0, 0x43, 0, 0x10, 8, 0, 0, 0, 0, 0, 0, 3];
        rsa.extend([7, 8, 9]);
        assert_eq!(public(&rsa).unwrap(), Public { kind: "RSA 2048".to_owned(), unique: vec![&[7, 8, 9]] });
        let ecc = [0, 0x23, 0, 0xb, 0, 3, 0, 0xb2, 0, 0, 0, 0x10, 0, 0x10, 0, 4, 0, 0x10, 0, 1, 5, 0, 1, 6];
        assert_eq!(public(&ecc).unwrap(), Public { kind: "ECC P-384".to_owned(), unique: vec![&[5], &[6]] });
        for len in 0..ecc.len() {
            assert_eq!(public(&ecc[..len]), None);
        }
    }
}
