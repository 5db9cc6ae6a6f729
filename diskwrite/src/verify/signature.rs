//! OpenPGP signatures (RFC 9580, section 5.2).

use super::packet::{PacketError, Reader};
use super::public_key::{Hash, PublicKey};
use ring::digest::Context;

/// What is signed (section 5.2.1).
pub(super) mod kind {
    pub(crate) const BINARY: u8 = 0x00;
    pub(crate) const SUBKEY_BINDING: u8 = 0x18;
    pub(crate) const PRIMARY_KEY_BINDING: u8 = 0x19;
    pub(crate) const DIRECT_KEY: u8 = 0x1F;
    pub(crate) const KEY_REVOCATION: u8 = 0x20;
    pub(crate) const SUBKEY_REVOCATION: u8 = 0x28;
    pub(crate) const CERTIFICATION_REVOCATION: u8 = 0x30;
    /// Of a user id, from "generic" to "positive".
    pub(crate) const CERTIFICATIONS: std::ops::RangeInclusive<u8> = 0x10..=0x13;
}

/// Types of subpackets (section 5.2.3.7).
mod subpacket {
    pub(super) const CREATED: u8 = 2;
    pub(super) const EXPIRES: u8 = 3;
    pub(super) const KEY_EXPIRES: u8 = 9;
    pub(super) const ISSUER_ID: u8 = 16;
    pub(super) const NOTATION: u8 = 20;
    pub(super) const PRIMARY_USER_ID: u8 = 25;
    pub(super) const KEY_FLAGS: u8 = 27;
    pub(super) const EMBEDDED_SIGNATURE: u8 = 32;
    pub(super) const ISSUER_FINGERPRINT: u8 = 33;
    /// A reader that does not understand it must not accept the signature.
    pub(super) const CRITICAL: u8 = 0x80;
    /// These say nothing against a signature, whatever is in them: exportable, revocable, preferences, policy, features, reason of a
    /// revocation.
    pub(super) const HARMLESS: [u8; 12] = [4, 7, 11, 21, 22, 23, 24, 26, 28, 29, 30, 34];
}

/// A key flag: may sign data.
const MAY_SIGN: u8 = 0x02;
/// Of other signatures in a signature, and of names of its maker.
const MANY: usize = 8;

/// A signature of version 4 or 6; of version 3, which is refused later, only who made it.
#[derive(Clone, Debug, Default)]
pub(super) struct Signature {
    pub version: u8,
    pub kind: u8,
    /// Seconds since 1970.
    pub created: i64,
    /// Seconds after that.
    pub expires_after: Option<i64>,
    /// Seconds after the key was made.
    pub key_expires_after: Option<i64>,
    /// None where nothing is said.
    pub may_sign: Option<bool>,
    pub is_primary_user: bool,
    /// The type of a subpacket that must be understood, and is not.
    pub not_understood: Option<u8>,
    pub issuer_ids: Vec<[u8; 8]>,
    pub issuer_fingerprints: Vec<Vec<u8>>,
    embedded: Vec<Vec<u8>>,
    hash: u8,
    algorithm: u8,
    /// From the version to the end of what is signed of it.
    hashed: Vec<u8>,
    digest_start: [u8; 2],
    salt: Vec<u8>,
    material: Vec<u8>,
}

impl Signature {
    /// Reads the body of a signature's packet.
    pub(super) fn parse(body: &[u8]) -> Result<Self, PacketError> {
        let mut reader = Reader(body);
        let version = reader.u8()?;
        let mut signature = Self { version, ..Self::default() };
        let is_six = match version {
            3 => {
                let _len = reader.u8()?;
                signature.kind = reader.u8()?;
                signature.created = reader.u32()?.into();
                signature.issuer_ids.push(reader.array()?);
                return Ok(signature);
            }
            4 => false,
            6 => true,
            version => return Err(PacketError::Version { what: "a signature", version }),
        };
        [signature.kind, signature.algorithm, signature.hash] = reader.array()?;
        let hashed = reader.block(is_six)?;
        let signed = body.len().saturating_sub(reader.0.len());
        signature.hashed = Reader(body).take(signed)?.to_vec();
        let unhashed = reader.block(is_six)?;
        signature.digest_start = reader.array()?;
        if is_six {
            let len = reader.u8()?;
            signature.salt = reader.take(len.into())?.to_vec();
        }
        signature.material = reader.0.to_vec();
        signature.subpackets(hashed, true)?;
        signature.subpackets(unhashed, false)?;
        Ok(signature)
    }

    /// Of what is not signed only that counts which proves itself.
    fn subpackets(&mut self, area: &[u8], is_signed: bool) -> Result<(), PacketError> {
        let mut area = Reader(area);
        while !area.0.is_empty() {
            let (kind, body) = area.subpacket()?;
            let mut reader = Reader(body);
            match kind & !subpacket::CRITICAL {
                subpacket::ISSUER_ID if self.issuer_ids.len() < MANY => self.issuer_ids.push(reader.array()?),
                subpacket::ISSUER_FINGERPRINT if self.issuer_fingerprints.len() < MANY => {
                    let _version = reader.u8()?;
                    self.issuer_fingerprints.push(reader.0.to_vec());
                }
                subpacket::EMBEDDED_SIGNATURE if self.embedded.len() < MANY => self.embedded.push(body.to_vec()),
                _ if !is_signed => {}
                subpacket::CREATED => self.created = reader.u32()?.into(),
                subpacket::EXPIRES => self.expires_after = duration(reader.u32()?),
                subpacket::KEY_EXPIRES => self.key_expires_after = duration(reader.u32()?),
                subpacket::KEY_FLAGS => self.may_sign = Some(body.first().is_some_and(|flags| flags & MAY_SIGN != 0)),
                subpacket::PRIMARY_USER_ID => self.is_primary_user = reader.u8()? != 0,
                unknown if kind & subpacket::CRITICAL != 0 && !subpacket::HARMLESS.contains(&unknown) => {
                    self.not_understood = Some(unknown);
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn hash(&self) -> Result<Hash, &'static str> {
        Hash::new(self.hash)
    }

    /// Whether it is by a strong digest.
    pub(super) fn is_strong(&self) -> bool {
        self.hash().is_ok_and(Hash::is_strong)
    }

    /// As messages name a subpacket that is not understood.
    pub(super) fn objection(&self) -> Option<String> {
        self.not_understood.map(|kind| match kind {
            subpacket::NOTATION => "it has a critical notation, which is not supported".to_owned(),
            kind => format!("it has a critical subpacket of type {kind}, which is not supported"),
        })
    }

    /// Whether it says that this key made it, or nothing of who did.
    pub(super) fn names(&self, key: &PublicKey) -> bool {
        if self.issuer_fingerprints.is_empty() && self.issuer_ids.is_empty() {
            return true;
        }
        self.is_by(key)
    }

    /// Whether it says that this key made it. A fingerprint says more than an id.
    pub(super) fn is_by(&self, key: &PublicKey) -> bool {
        if self.issuer_fingerprints.is_empty() {
            self.issuer_ids.iter().any(|id| key.id() == Some(id))
        } else {
            self.issuer_fingerprints.contains(&key.fingerprint)
        }
    }

    /// The signatures in it: a subkey's of its primary key.
    pub(super) fn embedded(&self) -> impl Iterator<Item = Self> {
        self.embedded.iter().filter_map(|body| Self::parse(body).ok())
    }

    /// A digest ready for what is signed.
    pub(super) fn context(&self) -> Result<Context, &'static str> {
        let hash = self.hash()?;
        let mut context = hash.context();
        if self.version == 6 {
            if hash.salt_len() != Some(self.salt.len()) {
                return Err("its salt is not as long as its digest requires");
            }
            context.update(&self.salt);
        }
        Ok(context)
    }

    /// The one of `keys` that made the signature of what `context` has seen.
    pub(super) fn maker<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a PublicKey>,
        mut context: Context,
    ) -> Option<&'a PublicKey> {
        let hash = self.hash().ok()?;
        context.update(&self.hashed);
        context.update(&[self.version, 0xFF]);
        context.update(&u32::try_from(self.hashed.len()).ok()?.to_be_bytes());
        let digest = context.finish();
        let digest = digest.as_ref();
        if !digest.starts_with(&self.digest_start) {
            return None;
        }
        let made =
            |key: &&PublicKey| key.version == self.version && key.verify(hash, digest, self.algorithm, &self.material);
        keys.into_iter().find(made)
    }

    /// Whether `key` made this signature of keys or user ids.
    pub(super) fn certifies(&self, key: &PublicKey, parts: &[&[u8]]) -> bool {
        if !self.names(key) || self.not_understood.is_some() {
            return false;
        }
        let Ok(mut context) = self.context() else { return false };
        parts.iter().for_each(|part| context.update(part));
        self.maker([key], context).is_some()
    }
}

/// Zero and none both mean for ever.
fn duration(seconds: u32) -> Option<i64> {
    (seconds > 0).then_some(seconds.into())
}
