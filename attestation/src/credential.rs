//! A secret that only the TPM with a certain endorsement key and a certain attestation key can read (TCG TPM 2.0 Library, part 1, 24).

use crate::public::{Numbers, Public, padded};
use aes::{
    Aes128,
    cipher::{BlockEncrypt, KeyInit, generic_array::GenericArray},
};
use num_bigint::BigUint;
use ring::{
    agreement::{self, ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey},
    digest::{SHA256, digest},
    hmac,
    rand::{SecureRandom, SystemRandom},
};

/// Bytes of SHA-256.
const DIGEST: usize = 32;
/// Part 1, B.4 and C.6.1: what the secret behind the secret is for.
const IDENTITY: &[u8] = b"IDENTITY\0";

/// Why no credential can be made for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the key cannot be an endorsement key: it is not {0}")]
    Key(&'static str),
    #[error("endorsement keys of P-384 are not supported; RSA and P-256 are")]
    Curve,
    #[error("the point of the endorsement key is not on its curve")]
    Point,
    #[error("the system has no random numbers")]
    Random,
}

/// What TPM2_ActivateCredential takes: TPM2B_ID_OBJECT and TPM2B_ENCRYPTED_SECRET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub blob: Vec<u8>,
    pub secret: Vec<u8>,
}

/// Makes a credential for the key of that name, beside the endorsement key. `secret` has at most 32 bytes.
pub fn make(endorsement: &Public, name: &[u8], secret: &[u8]) -> Result<Credential, Fault> {
    if let Some(missing) = endorsement.missing_of_an_endorsement_key() {
        return Err(Fault::Key(missing));
    }
    let random = SystemRandom::new();
    let (seed, encrypted) = match &endorsement.numbers {
        Numbers::Rsa { modulus, exponent } => {
            let mut seed = [0; DIGEST];
            let mut mask = [0; DIGEST];
            random.fill(&mut seed).and_then(|()| random.fill(&mut mask)).map_err(|_| Fault::Random)?;
            (seed.to_vec(), oaep(modulus, *exponent, &seed, &mask))
        }
        Numbers::Point { x, y } => agree(x, y, &random)?,
    };
    // The cipher: CFB from zeros on.
    let mut identity = sized(secret);
    let cipher = Aes128::new_from_slice(&kdfa(&seed, b"STORAGE", name, 16)).map_err(|_| Fault::Random)?;
    let mut block = GenericArray::default();
    for chunk in identity.chunks_mut(16) {
        cipher.encrypt_block(&mut block);
        for (byte, mask) in chunk.iter_mut().zip(block.iter_mut()) {
            *byte ^= *mask;
            *mask = *byte;
        }
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, &kdfa(&seed, b"INTEGRITY", &[], DIGEST));
    let tag = hmac::sign(&key, &[&identity, name].concat());
    let blob = [sized(tag.as_ref()), identity].concat();
    Ok(Credential { blob: sized(&blob), secret: sized(&encrypted) })
}

/// With its length of two bytes.
fn sized(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes(), bytes].concat()
}

/// The first `len` bytes of KDFa (part 1, 11.4.10.2), which one digest is enough for.
fn kdfa(key: &[u8], label: &[u8], context: &[u8], len: usize) -> Vec<u8> {
    let bits = u32::try_from(len * 8).unwrap_or_default().to_be_bytes();
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let tag = hmac::sign(&key, &[&1_u32.to_be_bytes(), label, &[0], context, &bits].concat());
    tag.as_ref().iter().copied().take(len).collect()
}

/// RSAES-OAEP with SHA-256 (RFC 8017, 7.1.1), as long as the modulus.
fn oaep(modulus: &[u8], exponent: u32, message: &[u8], seed: &[u8; DIGEST]) -> Vec<u8> {
    let data_len = modulus.len().saturating_sub(DIGEST + 1);
    let mut data = digest(&SHA256, IDENTITY).as_ref().to_vec();
    data.resize(data_len.saturating_sub(message.len() + 1), 0);
    data.push(1);
    data.extend(message);
    let masked: Vec<u8> = data.iter().zip(mgf1(seed, data.len())).map(|(byte, mask)| byte ^ mask).collect();
    let masked_seed: Vec<u8> = seed.iter().zip(mgf1(&masked, DIGEST)).map(|(byte, mask)| byte ^ mask).collect();
    let number = BigUint::from_bytes_be(&[masked_seed, masked].concat());
    let number = number.modpow(&exponent.into(), &BigUint::from_bytes_be(modulus));
    padded(&number.to_bytes_be(), modulus.len()).unwrap_or_default()
}

fn mgf1(seed: &[u8], len: usize) -> Vec<u8> {
    let block = |counter: u32| digest(&SHA256, &[seed, &counter.to_be_bytes()].concat());
    (0..).flat_map(|counter| block(counter).as_ref().to_vec()).take(len).collect()
}

/// A key that both sides get from the points, and the point that the TPM needs for it (part 1, C.6.1).
fn agree(x: &[u8], y: &[u8], random: &SystemRandom) -> Result<(Vec<u8>, Vec<u8>), Fault> {
    if x.len() != 32 {
        return Err(Fault::Curve);
    }
    let private = EphemeralPrivateKey::generate(&ECDH_P256, random).map_err(|_| Fault::Random)?;
    let public = private.compute_public_key().map_err(|_| Fault::Random)?;
    let (own_x, own_y) = public.as_ref().get(1..).and_then(|point| point.split_at_checked(32)).ok_or(Fault::Point)?;
    let theirs = UnparsedPublicKey::new(&ECDH_P256, [&[4], x, y].concat());
    // KDFe (part 1, 11.4.10.3).
    let seed = agreement::agree_ephemeral(private, &theirs, |shared| {
        digest(&SHA256, &[&1_u32.to_be_bytes(), shared, IDENTITY, own_x, x].concat()).as_ref().to_vec()
    });
    Ok((seed.map_err(|_| Fault::Point)?, [sized(own_x), sized(own_y)].concat()))
}
