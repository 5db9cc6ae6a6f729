//! The key that signs tokens: created once and stored, or given.

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use std::{
    fmt,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Name of the stored key in the state directory.
pub const FILE: &str = "auth-key.pem";
/// What comes before the point: algorithm ecPublicKey with curve P-256, and a bit string.
const SPKI_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7, 3,
    0x42, 0,
];
/// A key's file is not larger, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A key that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Can't be read or written.
    #[error("cannot use the key file {}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// Holds no key, or one of another kind.
    #[error("{} has no P-256 private key in PEM: create one with openssl ecparam -name prime256v1 -genkey -noout", path.display())]
    Kind { path: PathBuf },
    #[error("cannot create a key: the system has no random numbers")]
    Random,
}

/// A private key on curve P-256.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(*****)")
    }
}

impl SigningKey {
    /// A new key, and its PKCS#8 form.
    pub fn generate() -> Option<(Self, Vec<u8>)> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).ok()?;
        Some((Self::from_pkcs8(document.as_ref())?, document.as_ref().to_vec()))
    }

    fn from_pkcs8(document: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &random).ok()?;
        Some(Self { pair, random })
    }

    /// The first key in PEM text, in the form of PKCS#8 or SEC 1.
    fn from_pem(text: &[u8]) -> Option<Self> {
        match PrivateKeyDer::from_pem_slice(text).ok()? {
            PrivateKeyDer::Pkcs8(document) => Self::from_pkcs8(document.secret_pkcs8_der()),
            PrivateKeyDer::Sec1(document) => Self::from_pkcs8(&wrapped(document.secret_sec1_der())?),
            _ => None,
        }
    }

    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let at = |source| KeyError::File { path: path.into(), source };
        let mut text = Vec::new();
        File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text)).map_err(at)?;
        Self::from_pem(&text).ok_or_else(|| KeyError::Kind { path: path.into() })
    }

    /// Reads the key in the state directory; creates it if missing (mode 0600).
    pub fn load_or_create(directory: &Path) -> Result<Self, KeyError> {
        let path = directory.join(FILE);
        match Self::read(&path) {
            Err(KeyError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let (key, document) = Self::generate().ok_or(KeyError::Random)?;
        let write = || {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            write_new(&path, pem("PRIVATE KEY", &document).as_bytes())
        };
        write().map_err(|source| KeyError::File { path: path.clone(), source })?;
        tracing::info!(path = %path.display(), "created a key to sign tokens");
        Ok(key)
    }

    /// The signature of `message`, 64 bytes.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.pair.sign(&self.random, message).ok().map(|signature| signature.as_ref().to_vec())
    }

    /// Whether `signature` is this key's of `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.public()).verify(message, signature).is_ok()
    }

    /// The public key, an uncompressed point.
    pub fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// The public key for others: SubjectPublicKeyInfo (RFC 5480) in base64, as `openssl ec -pubout` writes it.
    pub fn public_text(&self) -> String {
        STANDARD.encode([SPKI_HEAD.as_slice(), self.public()].concat())
    }
}

/// A SEC 1 key (RFC 5915) as PKCS#8 (RFC 5208), which is the one form ring reads.
fn wrapped(key: &[u8]) -> Option<Vec<u8>> {
    // version 0; algorithm ecPublicKey with curve P-256.
    const HEAD: [u8; 24] =
        [2, 1, 0, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    // DER wants the shortest form of a length: one byte below 128, else 0x81 and one byte. This key needs no longer one.
    let tagged = |tag: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).ok()?;
        let length = if length < 0x80 { vec![length] } else { vec![0x81, length] };
        Some([&[tag], length.as_slice(), content].concat())
    };
    tagged(0x30, &[&HEAD, tagged(4, key)?.as_slice()].concat())
}

/// DER as PEM text (RFC 7468).
pub fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem + "-----END " + label + "-----\n"
}

/// Writes a file of mode 0600 atomically; it is on disk when this returns. An existing one is replaced.
pub fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".new");
    let partial = PathBuf::from(partial);
    match std::fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&partial, path)?;
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_only_we_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let first = SigningKey::load_or_create(&state).unwrap();
        let again = SigningKey::load_or_create(&state).unwrap();
        assert_eq!(first.public(), again.public());
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&state.join(FILE))), (0o700, 0o600));
        assert!(again.verifies(b"x", &first.sign(b"x").unwrap()));
        assert!(!again.verifies(b"y", &first.sign(b"x").unwrap()));
    }

    #[test]
    fn both_forms_are_read_and_others_named() {
        let (key, document) = SigningKey::generate().unwrap();
        // PKCS#8 is a head of 29 bytes here, and then what SEC 1 has.
        for (label, der) in [("PRIVATE KEY", document.as_slice()), ("EC PRIVATE KEY", &document[29..])] {
            let text = format!("Key of a service\n{}", pem(label, der));
            assert_eq!(SigningKey::from_pem(text.as_bytes()).unwrap().public(), key.public(), "{label}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        for text in ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(SigningKey::read(&path), Err(KeyError::Kind { .. })), "{text}");
        }
        assert!(matches!(SigningKey::read(directory.path()), Err(KeyError::File { .. })));
        assert!(wrapped(&[0; 300]).is_none());
    }
}
