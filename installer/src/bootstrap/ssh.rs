//! The key by which the bootstrap host, and log gathering on it, gets access to the other masters.
//!
//! It is of the curve P-256, which nodes in FIPS mode take too. The file is called `id_rsa`, as scripts look for it there; what kind
//! of key is in a file OpenSSH sees by itself.

use super::{BootstrapError, files};
use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    rand::{SecureRandom, SystemRandom},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use std::path::Path;

const PRIVATE: &str = "/root/.ssh/id_rsa";
const PUBLIC: &str = "/root/.ssh/id_rsa.pub";
const KIND: &str = "ecdsa-sha2-nistp256";
const CURVE: &str = "nistp256";
/// Bytes of a private key of this curve.
const SCALAR_BYTES: usize = 32;
/// Bytes of a public one: 4, then two coordinates.
const POINT_BYTES: usize = 65;
/// Characters of base64 on a line.
const LINE: usize = 70;

/// The public key's line; both keys are created if missing.
pub(super) fn ensure(root: &Path) -> Result<String, BootstrapError> {
    let (private, public) = (files::below(root, PRIVATE), files::below(root, PUBLIC));
    // The public one is written last: where it is, the other is too.
    if let (Some(_), Some(line)) = (files::read(&private)?, files::read(&public)?)
        && let Ok(line) = String::from_utf8(line)
        && !line.trim().is_empty()
    {
        return Ok(line.trim().to_owned());
    }
    let key = Key::random().ok_or(BootstrapError::Key)?;
    files::write(&private, key.private_file().as_bytes(), 0o600)?;
    let line = key.public_line();
    files::write(&public, format!("{line}\n").as_bytes(), 0o644)?;
    Ok(line)
}

struct Key {
    scalar: [u8; SCALAR_BYTES],
    point: [u8; POINT_BYTES],
    check: [u8; 4],
}

impl Key {
    fn random() -> Option<Self> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).ok()?;
        let (scalar, point) = from_pkcs8(document.as_ref())?;
        // Where the numbers stand is known; that they are a pair is checked.
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        EcdsaKeyPair::from_private_key_and_public_key(algorithm, &scalar, &point, &random).ok()?;
        let mut check = [0; 4];
        random.fill(&mut check).ok()?;
        Some(Self { scalar, point, check })
    }

    /// RFC 5656, 3.1.
    fn public_blob(&self) -> Vec<u8> {
        [text(KIND.as_bytes()), text(CURVE.as_bytes()), text(&self.point)].concat()
    }

    fn public_line(&self) -> String {
        format!("{KIND} {} bootstrap", STANDARD.encode(self.public_blob()))
    }

    /// OpenSSH's PROTOCOL.key, without a passphrase.
    fn private_file(&self) -> String {
        let mut private = [self.check, self.check].concat();
        private.extend(self.public_blob());
        private.extend(text(&positive(&self.scalar)));
        private.extend(text(b"bootstrap"));
        // To full blocks of eight.
        private.extend((1u8..).take(private.len().wrapping_neg() % 8));
        let number_of_keys = 1u32.to_be_bytes();
        let file = [
            b"openssh-key-v1\0".to_vec(),
            text(b"none"),
            text(b"none"),
            text(b""),
            number_of_keys.to_vec(),
            text(&self.public_blob()),
            text(&private),
        ]
        .concat();
        let packed = STANDARD.encode(file);
        let mut armored = String::from("-----BEGIN OPENSSH PRIVATE KEY-----\n");
        for line in packed.as_bytes().chunks(LINE) {
            armored.push_str(&String::from_utf8_lossy(line));
            armored.push('\n');
        }
        armored + "-----END OPENSSH PRIVATE KEY-----\n"
    }
}

/// The numbers in a key as ring writes it (RFC 5915 in RFC 5208): an octet string of 32 bytes, and a bit string of 65 at the end.
fn from_pkcs8(document: &[u8]) -> Option<([u8; SCALAR_BYTES], [u8; POINT_BYTES])> {
    const SCALAR: [u8; 2] = [0x04, 0x20];
    let (head, point) = document.split_last_chunk::<POINT_BYTES>()?;
    let at = head.windows(SCALAR.len()).position(|pair| pair == SCALAR)?;
    let scalar = head.get(at + SCALAR.len()..)?.first_chunk::<SCALAR_BYTES>()?;
    Some((*scalar, *point))
}

/// `string` of RFC 4251.
fn text(bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&len.to_be_bytes(), bytes].concat()
}

/// The bytes of an `mpint` of RFC 4251: no zeros in front but one that keeps it positive.
fn positive(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let digits = number.get(zeros..).unwrap_or_default();
    let sign = digits.first().is_some_and(|byte| byte & 0x80 != 0).then_some(0);
    sign.into_iter().chain(digits.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn numbers_are_positive_and_short() {
        assert_eq!(positive(&[0, 0, 5, 0]), [5, 0]);
        assert_eq!(positive(&[0x80, 1]), [0, 0x80, 1]);
        assert_eq!(positive(&[0, 0]), [0u8; 0]);
    }

    #[test]
    fn the_parts_of_a_key_are_where_openssh_reads_them() {
        for _ in 0..50 {
            let key = Key::random().unwrap();
            let file = key.private_file();
            let packed: String = file.lines().filter(|line| !line.starts_with('-')).collect();
            let file = STANDARD.decode(packed).unwrap();
            let mut rest = file.strip_prefix(b"openssh-key-v1\0").unwrap();
            let next = |rest: &mut &[u8]| {
                let (len, tail) = rest.split_first_chunk::<4>().unwrap();
                let (text, tail) = tail.split_at(usize::try_from(u32::from_be_bytes(*len)).unwrap());
                *rest = tail;
                text.to_vec()
            };
            assert_eq!([next(&mut rest), next(&mut rest), next(&mut rest)], [&b"none"[..], b"none", b""]);
            rest = rest.strip_prefix(&[0, 0, 0, 1]).unwrap();
            let public = next(&mut rest);
            let private = next(&mut rest);
            assert!(rest.is_empty() && private.len() % 8 == 0);
            assert_eq!(key.public_line().split(' ').nth(1).unwrap(), STANDARD.encode(&public));
            let mut rest = &private[8..];
            assert_eq!(private[..4], private[4..8]);
            rest = rest.strip_prefix(&public[..]).unwrap();
            let scalar = next(&mut rest);
            assert!(scalar[0] < 0x80 && scalar.len() <= 33, "{scalar:?}");
            assert_eq!(next(&mut rest), b"bootstrap");
            assert!(rest.iter().copied().eq(1..=u8::try_from(rest.len()).unwrap()) && rest.len() < 8);
        }
    }

    #[test]
    fn a_key_that_is_there_stays() {
        let root = tempfile::tempdir().unwrap();
        let line = ensure(root.path()).unwrap();
        assert!(line.starts_with("ecdsa-sha2-nistp256 AAAA"));
        let mode = |path| std::fs::metadata(files::below(root.path(), path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(PRIVATE), mode(PUBLIC)), (0o600, 0o644));
        assert_eq!(ensure(root.path()).unwrap(), line);
        // Killed between the two.
        std::fs::remove_file(files::below(root.path(), PUBLIC)).unwrap();
        let other = ensure(root.path()).unwrap();
        assert_ne!(other, line);
    }
}
