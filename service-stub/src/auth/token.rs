//! JSON Web Tokens (RFC 7519), of one kind only: signed with ES256 (RFC 7515, RFC 7518 §3.4).

use super::keys::SigningKey;
use api::{ClusterId, InfraEnvId};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

/// A longer text is not one of our tokens.
pub const MAX_TOKEN_BYTES: usize = 2048;
/// The clocks of two machines may differ by this much, in seconds.
const LEEWAY_S: i64 = 60;

/// What a token allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    /// Agents, installers and controllers of one infra-env or cluster. The real service's tokens lack this claim.
    #[default]
    AgentAuth,
    UserAuth,
    /// Read-only users.
    WatcherAuth,
    UrlAuth,
    /// Images of one infra-env.
    ImageAuth,
}

/// The claims of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Valid for this infra-env.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_env_id: Option<InfraEnvId>,
    /// Valid for this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    /// What it allows.
    #[serde(default, skip_serializing_if = "is_agent")]
    pub auth_scheme: Scheme,
    /// Expiry, Unix seconds; absent if it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// Not valid before, Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    /// Valid for this path and query, without the token in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Valid while the infra-env has this signing key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,
    /// An agent's token is valid while the infra-env's signing key has been regenerated this many times. The real service's tokens
    /// lack this claim, as do those created before the infra-env.
    #[serde(default, skip_serializing_if = "api::is_zero")]
    pub key_generation: u64,
}

fn is_agent(scheme: &Scheme) -> bool {
    *scheme == Scheme::AgentAuth
}

/// Why a token is refused. It holds nothing of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is malformed")]
    Malformed,
    /// Another algorithm, or critical headers this program doesn't know.
    #[error("the token is not signed with ES256")]
    Algorithm,
    /// By another key, or changed.
    #[error("the token's signature is wrong: it was signed by another service, or with another key")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    Early,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

const HEADER: &[u8] = br#"{"alg":"ES256","typ":"JWT"}"#;

/// Signs `claims`; `None` if the system has no random numbers.
pub fn sign(key: &SigningKey, claims: &Claims) -> Option<String> {
    let payload = serde_json::to_vec(claims).ok()?;
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(payload));
    let signature = key.sign(signed.as_bytes())?;
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The claims of `token`, if `key` signed it and it is valid `now` (Unix seconds). The signature is checked first.
pub fn verify(key: &SigningKey, token: &str, now: i64) -> Result<Claims, TokenError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenError::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
    let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed)?;
    if header.alg != "ES256" || header.crit.is_some() {
        return Err(TokenError::Algorithm);
    }
    if !key.verifies(signed.as_bytes(), &decode(signature)?) {
        return Err(TokenError::Signature);
    }
    let claims: Claims = serde_json::from_slice(&decode(payload)?).map_err(|_| TokenError::Malformed)?;
    if claims.exp.is_some_and(|exp| exp <= now) {
        return Err(TokenError::Expired);
    }
    if claims.nbf.is_some_and(|nbf| nbf > now.saturating_add(LEEWAY_S)) {
        return Err(TokenError::Early);
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate().unwrap().0);

    fn claims() -> Claims {
        Claims { infra_env_id: Some(InfraEnvId::random()), exp: Some(1000), ..Claims::default() }
    }

    fn forged(header: &str, payload: &str, signature: &[u8]) -> String {
        [header.as_bytes(), payload.as_bytes(), signature].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
    }

    #[test]
    fn what_is_signed_is_read_until_it_expires() {
        let claims = claims();
        let token = sign(&KEY, &claims).unwrap();
        assert_eq!(verify(&KEY, &token, 999), Ok(claims.clone()));
        assert_eq!(verify(&KEY, &token, 1000), Err(TokenError::Expired));
        let other = SigningKey::generate().unwrap().0;
        assert_eq!(verify(&other, &token, 0), Err(TokenError::Signature));
        let early = sign(&KEY, &Claims { nbf: Some(500), ..claims }).unwrap();
        assert_eq!(verify(&KEY, &early, 400), Err(TokenError::Early));
        assert!(verify(&KEY, &early, 450).is_ok(), "within what clocks differ by");
    }

    #[test]
    fn an_agents_token_says_what_the_real_ones_say() {
        let id = InfraEnvId::random();
        let claims = Claims { infra_env_id: Some(id), ..Claims::default() };
        assert_eq!(serde_json::to_value(claims).unwrap(), serde_json::json!({"infra_env_id": id}));
    }

    #[test]
    fn no_other_algorithm_is_taken() {
        let payload = r#"{"auth_scheme":"userAuth"}"#;
        // HMAC with the public key as its secret is what a verifier that believes the header would check.
        let public = KEY.public();
        let signed = forged(r#"{"alg":"HS256"}"#, payload, &[]).trim_end_matches('.').to_owned();
        let hmac = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public), signed.as_bytes());
        for (header, signature) in [
            (r#"{"alg":"none"}"#, [].as_slice()),
            (r#"{"alg":"None"}"#, &[]),
            (r#"{"alg":"HS256"}"#, hmac.as_ref()),
            (r#"{"alg":"es256"}"#, &[0; 64]),
            (r#"{"alg":"ES384"}"#, &[0; 96]),
            (r#"{"alg":"ES256","crit":["b64"],"b64":false}"#, &[0; 64]),
        ] {
            assert_eq!(verify(&KEY, &forged(header, payload, signature), 0), Err(TokenError::Algorithm), "{header}");
        }
        for (header, signature, expected) in [
            (r#"{"alg":"ES256"}"#, [0; 64].as_slice(), TokenError::Signature),
            (r#"{"alg":"ES256"}"#, &[], TokenError::Signature),
            (r#"{"typ":"JWT"}"#, &[0; 64], TokenError::Malformed),
            ("[]", &[0; 64], TokenError::Malformed),
        ] {
            assert_eq!(verify(&KEY, &forged(header, payload, signature), 0), Err(expected), "{header}");
        }
        for text in ["", ".", "..", "a.b", "a.b.c.d", &"a".repeat(5000)] {
            assert_eq!(verify(&KEY, text, 0), Err(TokenError::Malformed), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn noise_is_refused(noise in "\\PC{0,200}", parts in "[A-Za-z0-9_.=-]{0,300}") {
            prop_assert!(verify(&KEY, &noise, 0).is_err());
            prop_assert!(verify(&KEY, &parts, 0).is_err());
        }

        #[test]
        fn a_changed_byte_is_seen(at: prop::sample::Index, byte in "[A-Za-z0-9_.-]") {
            let token = sign(&KEY, &claims()).unwrap();
            let at = at.index(token.len());
            prop_assume!(token[at..=at] != byte);
            let changed = format!("{}{byte}{}", &token[..at], &token[at + 1..]);
            prop_assert!(verify(&KEY, &changed, 0).is_err(), "{}", changed);
        }
    }
}
