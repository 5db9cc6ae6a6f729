//! The public area of a key (TPMT_PUBLIC; TCG TPM 2.0 Library, part 2, 12.2.4).

use crate::Digest;
use kernel::bytes::Reader;
use ring::digest::{self, Algorithm};

// Algorithms (part 2, 6.3).
pub(crate) const RSA: u16 = 1;
const AES: u16 = 6;
pub(crate) const SHA256: u16 = 0x0b;
const SHA384: u16 = 0x0c;
const NULL: u16 = 0x10;
pub(crate) const RSASSA: u16 = 0x14;
const RSAES: u16 = 0x15;
pub(crate) const ECDSA: u16 = 0x18;
const ECDAA: u16 = 0x1a;
const ECC: u16 = 0x23;
const CFB: u16 = 0x43;
const P256: u16 = 3;
const P384: u16 = 4;

// Attributes (part 2, 8.3).
const FIXED_TPM: u32 = 1 << 1;
const FIXED_PARENT: u32 = 1 << 4;
const SENSITIVE_DATA_ORIGIN: u32 = 1 << 5;
const RESTRICTED: u32 = 1 << 16;
const DECRYPT: u32 = 1 << 17;
const SIGN: u32 = 1 << 18;

/// Why bytes are not a usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("its public area is cut off, is followed by other bytes, or is neither RSA nor an elliptic curve")]
    Unsound,
    #[error("its hash is {0:#06x}; SHA-256 (0x000b) and SHA-384 (0x000c) are understood")]
    Hash(u16),
    #[error("it is RSA of {0} bits; 2048 to 4096 are understood, with a modulus of that length and an odd exponent")]
    Rsa(u16),
    #[error("its curve is {0:#06x}; P-256 (0x0003) and P-384 (0x0004) are understood")]
    Curve(u16),
}

/// The numbers of a public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Rsa {
        modulus: Vec<u8>,
        exponent: u32,
    },
    /// Both coordinates, each as long as the curve wants.
    Point {
        x: Vec<u8>,
        y: Vec<u8>,
    },
}

/// A key's public area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Public {
    area: Vec<u8>,
    hash: Hash,
    attributes: u32,
    /// What it encrypts its children and credentials with: algorithm, bits, mode.
    symmetric: Option<[u16; 3]>,
    pub(crate) scheme: Option<(u16, u16)>,
    pub(crate) numbers: Numbers,
}

/// A hash that keys and signatures may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha384,
}

impl Hash {
    pub(crate) fn parse(number: u16) -> Result<Self, Fault> {
        match number {
            SHA256 => Ok(Self::Sha256),
            SHA384 => Ok(Self::Sha384),
            other => Err(Fault::Hash(other)),
        }
    }

    fn number(self) -> u16 {
        match self {
            Self::Sha256 => SHA256,
            Self::Sha384 => SHA384,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
        }
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    let mut found = [0; 32];
    found.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    Digest(found)
}

pub(crate) fn number(reader: &mut Reader<'_>) -> Option<u16> {
    Some(u16::from_be_bytes(reader.array()?))
}

/// What stands behind its length of two bytes.
pub(crate) fn sized<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = number(reader)?;
    reader.bytes(len.into())
}

/// With zeros before it.
pub(crate) fn padded(bytes: &[u8], len: usize) -> Option<Vec<u8>> {
    let zeros = len.checked_sub(bytes.len())?;
    Some([vec![0; zeros], bytes.to_vec()].concat())
}

impl Public {
    /// All of `area` must be the public area.
    pub fn parse(area: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader(area);
        let (found, size) = Self::read(&mut reader).ok_or(Fault::Unsound)?;
        if !reader.0.is_empty() {
            return Err(Fault::Unsound);
        }
        let Raw { kind, hash, attributes, symmetric, scheme, exponent, unique } = found;
        let numbers = match kind {
            RSA => {
                let modulus = unique.first().copied().unwrap_or_default();
                let is_full =
                    modulus.len() == usize::from(size / 8) && modulus.first().is_some_and(|byte| byte & 0x80 != 0);
                let is_odd = modulus.last().is_some_and(|byte| byte & 1 == 1);
                // 0 means 65537 (part 2, 12.2.3.5).
                let exponent = if exponent == 0 { 65537 } else { exponent };
                if !(2048..=4096).contains(&size) || !is_full || !is_odd || exponent & 1 == 0 || exponent < 3 {
                    return Err(Fault::Rsa(size));
                }
                Numbers::Rsa { modulus: modulus.to_vec(), exponent }
            }
            _ => {
                let len = match size {
                    P256 => 32,
                    P384 => 48,
                    other => return Err(Fault::Curve(other)),
                };
                let coordinate = |at: usize| padded(unique.get(at)?, len);
                let (x, y) = coordinate(0).zip(coordinate(1)).ok_or(Fault::Unsound)?;
                Numbers::Point { x, y }
            }
        };
        Ok(Self { area: area.to_vec(), hash: Hash::parse(hash)?, attributes, symmetric, scheme, numbers })
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Option<(Raw<'a>, u16)> {
        let kind = number(reader).filter(|kind| [RSA, ECC].contains(kind))?;
        let hash = number(reader)?;
        let attributes = u32::from_be_bytes(reader.array()?);
        // Its policy.
        sized(reader)?;
        let symmetric = match number(reader)? {
            NULL => None,
            algorithm => Some([algorithm, number(reader)?, number(reader)?]),
        };
        let scheme = match number(reader)? {
            NULL => None,
            RSAES => Some((RSAES, NULL)),
            ECDAA => {
                let hash = number(reader)?;
                number(reader)?;
                Some((ECDAA, hash))
            }
            scheme => Some((scheme, number(reader)?)),
        };
        // Bits, or a curve.
        let size = number(reader)?;
        let (exponent, unique) = if kind == RSA {
            (u32::from_be_bytes(reader.array()?), vec![sized(reader)?])
        } else {
            if number(reader)? != NULL {
                number(reader)?;
            }
            (0, vec![sized(reader)?, sized(reader)?])
        };
        Some((Raw { kind, hash, attributes, symmetric, scheme, exponent, unique }, size))
    }

    /// Its name: the hash's number, then the hash of the public area (part 1, 16).
    pub fn name(&self) -> Vec<u8> {
        let hash = digest::digest(self.hash.algorithm(), &self.area);
        [&self.hash.number().to_be_bytes(), hash.as_ref()].concat()
    }

    /// What it lacks of a key that signs only what the TPM says, and that is in no other TPM.
    pub(crate) fn missing_of_a_signer(&self) -> Option<&'static str> {
        self.missing(&[(RESTRICTED, "restricted"), (SIGN, "a signing key")])
            .or((self.attributes & DECRYPT != 0).then_some("a signing key alone"))
    }

    /// What it lacks of a key that credentials are made for, and that is in no other TPM.
    pub fn missing_of_an_endorsement_key(&self) -> Option<&'static str> {
        let has_cipher = self.symmetric == Some([AES, 128, CFB]) && self.hash == Hash::Sha256;
        self.missing(&[(RESTRICTED, "restricted"), (DECRYPT, "a decryption key")])
            .or((self.attributes & SIGN != 0).then_some("a decryption key alone"))
            .or((!has_cipher).then_some("of AES-128 in CFB mode with SHA-256"))
    }

    fn missing(&self, more: &[(u32, &'static str)]) -> Option<&'static str> {
        let always = [
            (FIXED_TPM, "fixed to its TPM (fixedTPM)"),
            (FIXED_PARENT, "fixed to its parent (fixedParent)"),
            (SENSITIVE_DATA_ORIGIN, "made by its TPM (sensitiveDataOrigin)"),
        ];
        let mut wanted = more.iter().chain(&always);
        wanted.find(|(bit, _)| self.attributes & bit == 0).map(|(_, name)| *name)
    }

    /// The digest of bytes by the hash that it signs with.
    pub(crate) fn signed_digest(&self, bytes: &[u8]) -> Vec<u8> {
        let hash = self.scheme.and_then(|(_, hash)| Hash::parse(hash).ok()).unwrap_or(Hash::Sha256);
        digest::digest(hash.algorithm(), bytes).as_ref().to_vec()
    }
}

struct Raw<'a> {
    kind: u16,
    hash: u16,
    attributes: u32,
    symmetric: Option<[u16; 3]>,
    scheme: Option<(u16, u16)>,
    exponent: u32,
    unique: Vec<&'a [u8]>,
}
