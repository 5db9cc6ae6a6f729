//! What makes an announced service the one that this host's image was made for.

use api::{
    InfraEnvId,
    rendezvous::{Answer, signed_text},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    str::FromStr,
};

/// A key's file is not larger.
const MAX_KEY_BYTES: u64 = 16 << 10;
/// SubjectPublicKeyInfo (RFC 5480) of algorithm ecPublicKey with curve P-256, up to the uncompressed point.
const SPKI_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7, 3,
    0x42, 0,
];
const POINT_BYTES: usize = 65;

/// What an answer must be proven by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// It is signed by the other half of this.
    pub key: Option<PublicKey>,
    /// It comes over HTTPS.
    pub https_only: bool,
    /// The certificate is checked against the configured ones alone, without the system's: a public authority would vouch for
    /// any host that an attacker has a name for.
    pub authority_only: bool,
}

/// A public key on curve P-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

/// Text without such a key.
#[derive(Debug, thiserror::Error)]
#[error("it is not a public key on curve P-256, in PEM or base64, as `openssl ec -in KEY -pubout` prints it")]
pub struct ParseKeyError;

impl FromStr for PublicKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
        let der = BASE64_STANDARD.decode(lines.collect::<String>()).map_err(|_| ParseKeyError)?;
        let point = der.strip_prefix(&SPKI_HEAD).filter(|point| point.len() == POINT_BYTES && point[0] == 4);
        point.map(|point| Self(point.to_vec())).ok_or(ParseKeyError)
    }
}

/// The text of a key's file.
pub fn read_key(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_KEY_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// What an agent needs of its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub url: String,
    /// The infra-env of the rack's hosts.
    pub infra_env_id: InfraEnvId,
    /// PEM certificates to check its own against, if they came with its signature.
    pub ca_pem: Option<String>,
}

/// Why an answer is not believed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    #[error("its answer is not signed (run `landfall serve` with --rendezvous-key or --auth-key)")]
    Unsigned,
    /// Changed, replayed, or of another service.
    #[error("the signature of its answer does not match rendezvous_key and this request")]
    Signature,
    /// Genuine, but passed on by another host.
    #[error("its answer is from the service at {0}, not at this address")]
    Elsewhere(String),
}

impl PublicKey {
    /// What `answer` says, if this key's other half signed it for the service at `url` and for `nonce`.
    pub fn prove(&self, url: &str, nonce: &str, answer: Answer) -> Result<Found, Unproven> {
        let proof = answer.proof.ok_or(Unproven::Unsigned)?;
        let text = signed_text(&proof.name, &proof.url, proof.ca_pem.as_deref(), answer.infra_env_id, nonce);
        let signature = BASE64_STANDARD.decode(&proof.signature).map_err(|_| Unproven::Signature)?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.0);
        key.verify(text.as_bytes(), &signature).map_err(|_| Unproven::Signature)?;
        if proof.url != url {
            return Err(Unproven::Elsewhere(proof.url));
        }
        Ok(Found { url: proof.url, infra_env_id: answer.infra_env_id, ca_pem: proof.ca_pem })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use api::rendezvous::Proof;
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
    };

    const ENV: &str = "bbbbbbbb-0000-0000-0000-000000000001";
    const URL: &str = "http://192.0.2.1:8090";
    const NONCE: &str = "AAAAAAAAAAAAAAAAAAAAAA";

    pub(in super::super) struct Signer(EcdsaKeyPair);

    impl Signer {
        pub(in super::super) fn new() -> Self {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
            Self(pair.unwrap())
        }

        pub(in super::super) fn public_text(&self) -> String {
            BASE64_STANDARD.encode([&SPKI_HEAD, self.0.public_key().as_ref()].concat())
        }

        pub(in super::super) fn answer(&self, url: &str, ca_pem: Option<&str>, nonce: &str) -> Answer {
            let text = signed_text("landfall-1", url, ca_pem, ENV.parse().unwrap(), nonce);
            let signature = self.0.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
            let (name, url, ca_pem) = ("landfall-1".to_owned(), url.to_owned(), ca_pem.map(str::to_owned));
            let proof = Proof { name, url, ca_pem, signature: BASE64_STANDARD.encode(signature.as_ref()) };
            Answer { cluster_id: None, infra_env_id: ENV.parse().unwrap(), proof: Some(proof) }
        }
    }

    #[test]
    fn only_an_answer_to_this_question_at_this_address_is_believed() {
        let signer = Signer::new();
        let key: PublicKey = signer.public_text().parse().unwrap();
        let good = signer.answer(URL, Some("PEM"), NONCE);
        let found = key.prove(URL, NONCE, good.clone()).unwrap();
        assert_eq!((found.url.as_str(), found.ca_pem.as_deref()), (URL, Some("PEM")));
        let changed = |change: fn(&mut Answer, &mut Proof)| {
            let mut answer = good.clone();
            let mut proof = answer.proof.take().unwrap();
            change(&mut answer, &mut proof);
            Answer { proof: Some(proof), ..answer }
        };
        let relayed = signer.answer("http://192.0.2.9:8090", None, NONCE);
        for (what, answer, why) in [
            ("replayed", signer.answer(URL, None, "BAAAAAAAAAAAAAAAAAAAAA"), Unproven::Signature),
            ("relayed", relayed, Unproven::Elsewhere("http://192.0.2.9:8090".into())),
            ("another key's", Signer::new().answer(URL, None, NONCE), Unproven::Signature),
            ("unsigned", Answer { proof: None, ..good.clone() }, Unproven::Unsigned),
            ("its authority", changed(|_, proof| proof.ca_pem = Some("evil".into())), Unproven::Signature),
            ("its authority left out", changed(|_, proof| proof.ca_pem = None), Unproven::Signature),
            ("its name", changed(|_, proof| proof.name = "x".into()), Unproven::Signature),
            ("its URL", changed(|_, proof| proof.url = "http://192.0.2.9".into()), Unproven::Signature),
            ("its infra-env", changed(|answer, _| answer.infra_env_id = InfraEnvId::random()), Unproven::Signature),
            ("its signature", changed(|_, proof| proof.signature = String::new()), Unproven::Signature),
            ("its signature", changed(|_, proof| proof.signature = "?".into()), Unproven::Signature),
        ] {
            assert_eq!(key.prove(URL, NONCE, answer), Err(why), "{what}");
        }
    }

    #[test]
    fn keys_are_read_as_openssl_writes_them() {
        // openssl ecparam -name prime256v1 -genkey -noout | openssl ec -pubout
        let base64 = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==";
        let (first, second) = base64.split_at(64);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{first}\n{second}\n-----END PUBLIC KEY-----\n");
        assert_eq!(pem.parse::<PublicKey>().unwrap(), base64.parse::<PublicKey>().unwrap());
        let p384 = "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE";
        for bad in ["", "x", p384, &base64[..120], &format!("{base64}AAAA"), "/etc/rack.pub"] {
            assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
        }
    }
}
