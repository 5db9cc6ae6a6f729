//! A quote (TPMS_ATTEST) and its signature (TPMT_SIGNATURE); TCG TPM 2.0 Library, part 2, 10.12 and 11.3.

use crate::public::{self, ECDSA, Hash, Numbers, Public, RSASSA, SHA256, number, padded, sized};
use kernel::bytes::Reader;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RsaPublicKeyComponents, UnparsedPublicKey,
};

/// `\xffTCG`: no TPM signs anything else that begins so with a restricted key.
const MAGIC: [u8; 4] = *b"\xffTCG";
const QUOTE: u16 = 0x8018;
/// Bits of registers that a TPM may have.
const MAX_SELECT_BYTES: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is cut off, or bytes follow its end")]
    Unsound,
    #[error("it was not made by a TPM: its first bytes are not those of one")]
    Magic,
    #[error("it is another statement of the TPM, of type {0:#06x}, not a quote (0x8018)")]
    Kind(u16),
    #[error("the attestation key did not sign this quote")]
    Signature,
    #[error(
        "its signature scheme is not the attestation key's; RSASSA and ECDSA with SHA-256 or SHA-384 are understood"
    )]
    Scheme,
}

/// What the TPM says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quote<'a> {
    pub nonce: &'a [u8],
    /// Starts of the machine.
    pub resets: u32,
    /// Registers of the bank of SHA-256; empty if other banks are quoted, too.
    pub selected: Vec<u8>,
    pub digest: &'a [u8],
}

impl<'a> Quote<'a> {
    pub(crate) fn parse(attest: &'a [u8]) -> Result<Self, Fault> {
        let mut reader = Reader(attest);
        if reader.array() != Some(MAGIC) {
            return Err(Fault::Magic);
        }
        let kind = number(&mut reader).ok_or(Fault::Unsound)?;
        if kind != QUOTE {
            return Err(Fault::Kind(kind));
        }
        Self::rest(reader).ok_or(Fault::Unsound)
    }

    fn rest(mut reader: Reader<'a>) -> Option<Self> {
        // The name of the signer.
        sized(&mut reader)?;
        let nonce = sized(&mut reader)?;
        // The clock.
        reader.bytes(8)?;
        let resets = u32::from_be_bytes(reader.array()?);
        // Restarts, whether the clock is safe, and the firmware's version.
        reader.bytes(4 + 1 + 8)?;
        let banks = u32::from_be_bytes(reader.array()?);
        let mut selected = Vec::new();
        for _ in 0..(banks <= 16).then_some(banks)? {
            let bank = number(&mut reader)?;
            let [len] = reader.array()?;
            let bits = reader.bytes(usize::from(len).min(usize::from(MAX_SELECT_BYTES) + 1))?;
            if len > MAX_SELECT_BYTES {
                return None;
            }
            let is_set = |index: u8| bits.get(usize::from(index / 8)).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            if bank == SHA256 && banks == 1 {
                selected = (0..len * 8).filter(|index| is_set(*index)).collect();
            }
        }
        let digest = sized(&mut reader)?;
        reader.0.is_empty().then_some(Self { nonce, resets, selected, digest })
    }
}

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature<'a> {
    scheme: (u16, u16),
    /// One number of RSA, two of an elliptic curve.
    numbers: Vec<&'a [u8]>,
}

impl<'a> Signature<'a> {
    pub(crate) fn parse(signature: &'a [u8]) -> Result<Self, Fault> {
        let mut reader = Reader(signature);
        let scheme = number(&mut reader).zip(number(&mut reader)).ok_or(Fault::Unsound)?;
        let count = match scheme.0 {
            RSASSA => 1,
            ECDSA => 2,
            _ => return Err(Fault::Scheme),
        };
        let numbers = (0..count).map(|_| sized(&mut reader)).collect::<Option<Vec<_>>>().ok_or(Fault::Unsound)?;
        if reader.0.is_empty() { Ok(Self { scheme, numbers }) } else { Err(Fault::Unsound) }
    }
}

/// Whether the key made the signature over the quote.
pub(crate) fn verify(key: &Public, attest: &[u8], signature: &[u8]) -> Result<(), Fault> {
    let signature = Signature::parse(signature)?;
    if key.scheme != Some(signature.scheme) {
        return Err(Fault::Scheme);
    }
    let hash = Hash::parse(signature.scheme.1).map_err(|_: public::Fault| Fault::Scheme)?;
    let verified = match (&key.numbers, signature.scheme.0, signature.numbers.as_slice()) {
        (Numbers::Rsa { modulus, exponent }, RSASSA, [number]) => {
            let algorithm = match hash {
                Hash::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
                Hash::Sha384 => &RSA_PKCS1_2048_8192_SHA384,
            };
            let exponent = exponent.to_be_bytes();
            let zeros = exponent.iter().take_while(|byte| **byte == 0).count();
            let e = exponent.get(zeros..).unwrap_or_default();
            RsaPublicKeyComponents { n: modulus.as_slice(), e }.verify(algorithm, attest, number)
        }
        (Numbers::Point { x, y }, ECDSA, [r, s]) => {
            let algorithm = match (x.len(), hash) {
                (32, Hash::Sha256) => &ECDSA_P256_SHA256_FIXED,
                (48, Hash::Sha384) => &ECDSA_P384_SHA384_FIXED,
                _ => return Err(Fault::Scheme),
            };
            let point = [&[4], x.as_slice(), y].concat();
            let (r, s) = padded(r, x.len()).zip(padded(s, x.len())).ok_or(Fault::Signature)?;
            UnparsedPublicKey::new(algorithm, point).verify(attest, &[r, s].concat())
        }
        _ => return Err(Fault::Scheme),
    };
    verified.map_err(|_| Fault::Signature)
}
