//! What a host's TPM is asked to prove its boot with: an extension of Landfall's, for agents that announce it
//! ([`crate::EXTENSIONS_HEADER`]).

pub use attestation::{Bytes, Digest, Evidence};
use serde::{Deserialize, Serialize};

/// A quote over a nonce, and the reading of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttestRequest {
    /// What the quote is to be over: 32 bytes as hexadecimal digits.
    pub nonce: Digest,
    /// What only this TPM can read, with both its keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
}

/// A secret for the attestation key beside an endorsement key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// TPM2B_ID_OBJECT
    pub blob: Bytes,
    /// TPM2B_ENCRYPTED_SECRET
    pub secret: Bytes,
}

/// What the TPM says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttestReply {
    pub evidence: Evidence,
    /// The secret, if there was a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Bytes>,
}
