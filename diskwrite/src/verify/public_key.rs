//! OpenPGP public keys, and whether one of them made a signature of a digest (RFC 9580, sections 5.2.3, 5.5 and 9). Anyone may
//! know what is computed here, so it need not take the same time for all of it.

use super::packet::{PacketError, Reader};
use num_bigint::BigUint;
use p256::ecdsa::signature::hazmat::PrehashVerifier;
use ring::digest::{self, Context};

/// Shorter ones can be factored; longer ones only take time.
const RSA_BITS: std::ops::RangeInclusive<u64> = 2048..=8192;
/// All that are in use are 65537 or less.
const RSA_EXPONENT_BITS: u64 = 33;

/// Identifiers of algorithms (section 9.1).
mod algorithm {
    pub(super) const RSA: u8 = 1;
    pub(super) const RSA_SIGN: u8 = 3;
    pub(super) const ECDSA: u8 = 19;
    pub(super) const EDDSA_LEGACY: u8 = 22;
    pub(super) const ED25519: u8 = 27;
}

/// Object identifiers of curves (section 9.2).
mod curve {
    pub(super) const P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07];
    pub(super) const P384: &[u8] = &[0x2B, 0x81, 0x04, 0x00, 0x22];
    pub(super) const ED25519_LEGACY: &[u8] = &[0x2B, 0x06, 0x01, 0x04, 0x01, 0xDA, 0x47, 0x0F, 0x01];
}

/// A digest that signatures are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// By its identifier (section 9.5); its name otherwise.
    pub(super) fn new(id: u8) -> Result<Self, &'static str> {
        Ok(match id {
            2 => Self::Sha1,
            8 => Self::Sha256,
            9 => Self::Sha384,
            10 => Self::Sha512,
            1 => return Err("MD5"),
            3 => return Err("RIPEMD160"),
            11 => return Err("SHA224"),
            12 => return Err("SHA3-256"),
            14 => return Err("SHA3-512"),
            _ => return Err("an unknown one"),
        })
    }

    /// It is infeasible to make another text with the same digest.
    pub(super) fn is_strong(self) -> bool {
        self != Self::Sha1
    }

    /// Bytes of the salt that a signature of version 6 has.
    pub(super) fn salt_len(self) -> Option<usize> {
        match self {
            Self::Sha1 => None,
            Self::Sha256 => Some(16),
            Self::Sha384 => Some(24),
            Self::Sha512 => Some(32),
        }
    }

    pub(super) fn context(self) -> Context {
        Context::new(match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        })
    }

    /// What is before a digest in an RSA signature: the DER of a DigestInfo (RFC 8017, section 9.2, note 1).
    fn der(self) -> &'static [u8] {
        match self {
            Self::Sha1 => b"\x30\x21\x30\x09\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00\x04\x14",
            Self::Sha256 => b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20",
            Self::Sha384 => b"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30",
            Self::Sha512 => b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40",
        }
    }
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        modulus: BigUint,
        exponent: BigUint,
    },
    P256(Box<p256::ecdsa::VerifyingKey>),
    P384(Box<p384::ecdsa::VerifyingKey>),
    Ed25519([u8; 32]),
    /// It can't be used; why.
    Unusable(&'static str),
}

/// A primary key or subkey.
#[derive(Clone, Debug)]
pub(crate) struct PublicKey {
    pub version: u8,
    /// Seconds since 1970.
    pub created: u32,
    /// 20 bytes in version 4, 32 in version 6.
    pub fingerprint: Vec<u8>,
    /// As signatures of it are over it.
    pub framed: Vec<u8>,
    algorithm: u8,
    material: Material,
}

impl PublicKey {
    /// Reads the body of a key's packet.
    pub(super) fn parse(body: &[u8]) -> Result<Self, PacketError> {
        let mut reader = Reader(body);
        let version = reader.u8()?;
        let is_six = version == 6;
        if !(is_six || version == 4) {
            return Err(PacketError::Version { what: "a key", version });
        }
        let created = reader.u32()?;
        let algorithm = reader.u8()?;
        if is_six {
            let material = reader.block(true)?;
            reader.end()?;
            reader = Reader(material);
        }
        let material = Material::parse(algorithm, reader)?;
        let mut framed = Vec::with_capacity(body.len().saturating_add(5));
        if is_six {
            framed.push(0x9B);
            framed.extend(u32::try_from(body.len()).map_err(|_| PacketError::Rest(body.len()))?.to_be_bytes());
        } else {
            framed.push(0x99);
            framed.extend(u16::try_from(body.len()).map_err(|_| PacketError::Rest(body.len()))?.to_be_bytes());
        }
        framed.extend_from_slice(body);
        let hash = if is_six { &digest::SHA256 } else { &digest::SHA1_FOR_LEGACY_USE_ONLY };
        let fingerprint = digest::digest(hash, &framed).as_ref().to_vec();
        Ok(Self { version, created, fingerprint, framed, algorithm, material })
    }

    /// The eight bytes of the fingerprint that older signatures name it by.
    pub(super) fn id(&self) -> Option<&[u8]> {
        if self.version == 6 { self.fingerprint.get(..8) } else { self.fingerprint.get(12..) }
    }

    /// As messages name it.
    pub(super) fn algorithm(&self) -> &'static str {
        match self.material {
            Material::Rsa { .. } => "RSA",
            Material::P256(_) | Material::P384(_) => "ECDSA",
            Material::Ed25519(_) => "EdDSA",
            Material::Unusable(_) => "unusable",
        }
    }

    /// Why it can't have made any signature that counts.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        if let Material::Unusable(flaw) = self.material { Some(flaw) } else { None }
    }

    /// Whether it made this signature, `material` of the algorithm `algorithm`, of a digest.
    pub(super) fn verify(&self, hash: Hash, digest: &[u8], algorithm: u8, material: &[u8]) -> bool {
        let is_rsa = |algorithm| matches!(algorithm, algorithm::RSA | algorithm::RSA_SIGN);
        if algorithm != self.algorithm && !(is_rsa(algorithm) && is_rsa(self.algorithm)) {
            return false;
        }
        self.check(hash, digest, Reader(material)).unwrap_or(false)
    }

    fn check(&self, hash: Hash, digest: &[u8], mut reader: Reader<'_>) -> Result<bool, PacketError> {
        Ok(match &self.material {
            Material::Unusable(_) => false,
            Material::Rsa { modulus, exponent } => {
                let signature = BigUint::from_bytes_be(reader.mpi()?);
                reader.end()?;
                signature < *modulus && is_padded(&signature.modpow(exponent, modulus), modulus, hash, digest)
            }
            Material::P256(key) => {
                let [r, s] = scalars(&mut reader)?.map(p256::FieldBytes::from);
                let signature = p256::ecdsa::Signature::from_scalars(r, s);
                signature.is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok())
            }
            Material::P384(key) => {
                let [r, s] = scalars(&mut reader)?.map(p384::FieldBytes::from);
                let signature = p384::ecdsa::Signature::from_scalars(r, s);
                signature.is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok())
            }
            Material::Ed25519(key) => {
                let signature = if self.algorithm == algorithm::ED25519 {
                    let signature = reader.array::<64>()?;
                    reader.end()?;
                    signature
                } else {
                    let mut both = [0; 64];
                    let (halves, _) = both.as_chunks_mut::<32>();
                    scalars(&mut reader)?.into_iter().zip(halves).for_each(|(scalar, half)| *half = scalar);
                    both
                };
                // EdDSA signs the digest itself, as its message.
                let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, key);
                key.verify(digest, &signature).is_ok()
            }
        })
    }
}

impl Material {
    fn parse(algorithm: u8, mut reader: Reader<'_>) -> Result<Self, PacketError> {
        const CURVE: Material = Material::Unusable("its curve is not supported: P-256, P-384 and Ed25519 are");
        let material =
            match algorithm {
                algorithm::RSA | algorithm::RSA_SIGN => {
                    let [modulus, exponent] = [reader.mpi()?, reader.mpi()?].map(BigUint::from_bytes_be);
                    if !RSA_BITS.contains(&modulus.bits()) || !modulus.bit(0) {
                        Self::Unusable("its RSA modulus is not an odd number of 2048 to 8192 bits")
                    } else if !(2..=RSA_EXPONENT_BITS).contains(&exponent.bits()) || !exponent.bit(0) {
                        Self::Unusable("its RSA exponent is not an odd number of 2 to 33 bits")
                    } else {
                        Self::Rsa { modulus, exponent }
                    }
                }
                algorithm::ECDSA | algorithm::EDDSA_LEGACY => {
                    let len = reader.u8()?;
                    let curve = reader.take(len.into())?;
                    let point = reader.mpi()?;
                    const POINT: Material = Material::Unusable("it is not a point of its curve");
                    match (algorithm, curve) {
                        (algorithm::ECDSA, curve::P256) => p256::ecdsa::VerifyingKey::from_sec1_bytes(point)
                            .map_or(POINT, |key| Self::P256(key.into())),
                        (algorithm::ECDSA, curve::P384) => p384::ecdsa::VerifyingKey::from_sec1_bytes(point)
                            .map_or(POINT, |key| Self::P384(key.into())),
                        (algorithm::EDDSA_LEGACY, curve::ED25519_LEGACY) => match point.split_first() {
                            Some((0x40, point)) => point.try_into().map_or(POINT, Self::Ed25519),
                            _ => POINT,
                        },
                        _ => CURVE,
                    }
                }
                algorithm::ED25519 => Self::Ed25519(reader.array()?),
                _ => return Ok(Self::Unusable("its algorithm is not supported: RSA, ECDSA and Ed25519 are")),
            };
        reader.end()?;
        Ok(material)
    }
}

/// Two numbers, each filled up with zeros in front; nothing may follow.
fn scalars<const N: usize>(reader: &mut Reader<'_>) -> Result<[[u8; N]; 2], PacketError> {
    let mut both = [[0; N]; 2];
    for scalar in &mut both {
        let number = reader.mpi()?;
        let start = N.checked_sub(number.len()).ok_or(PacketError::Rest(number.len()))?;
        scalar.get_mut(start..).ok_or(PacketError::End)?.copy_from_slice(number);
    }
    reader.end()?;
    Ok(both)
}

/// EMSA-PKCS1-v1_5 (RFC 8017, section 9.2), made anew and compared, so that no other form of it passes.
fn is_padded(number: &BigUint, modulus: &BigUint, hash: Hash, digest: &[u8]) -> bool {
    let Ok(len) = usize::try_from(modulus.bits().div_ceil(8)) else { return false };
    let tail = [hash.der(), digest].concat();
    // The number has no zeros in front, and the padding begins with one.
    let Some(ones) = len.checked_sub(tail.len().saturating_add(3)) else { return false };
    let expected = [&[1][..], &vec![0xFF; ones], &[0], &tail].concat();
    number.to_bytes_be() == expected
}
