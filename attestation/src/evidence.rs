//! What a host sends, and what of it is proven.

use crate::{
    event_log::{self, Event},
    public::{self, Public},
    quote::{self, Quote},
    values::{Bytes, Digest, Pcr},
};
use kernel::hex;
use serde::{Deserialize, Serialize};

/// Registers that are quoted, of the bank of SHA-256: firmware (0 to 7), boot loader (8, 9), systemd's stub (11 to 13), shim (14), and 15.
/// Not 10: the kernel extends it at any time (IMA).
pub const QUOTED: [u8; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15];
/// Registers that only firmware and boot loaders extend: the event log explains them whole.
pub(crate) const LOGGED: [u8; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14];
/// What a host's TPM says of its boot. Nothing of it is proven before [`Evidence::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Public area of the endorsement key (TPMT_PUBLIC).
    pub ek_public: Bytes,
    /// Certificate of that key, DER, if the TPM has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ek_certificate: Option<Bytes>,
    /// Public area of the key that signs the quote.
    pub ak_public: Bytes,
    /// The quote (TPMS_ATTEST).
    pub attest: Bytes,
    /// Its signature (TPMT_SIGNATURE).
    pub signature: Bytes,
    /// The registers that are quoted.
    pub pcrs: Vec<Pcr>,
    /// The firmware's log of what it measured; empty if the host has none.
    #[serde(default)]
    pub event_log: Bytes,
}

/// What evidence proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// SHA-256 of the endorsement key's public area.
    pub ek: Digest,
    /// Name of the key that signed (part 1, 16), hexadecimal.
    pub ak_name: String,
    /// The registers.
    pub pcrs: Vec<Pcr>,
    /// What was measured, in its order; empty without a log.
    pub events: Vec<Event>,
    /// How often the machine was started, as the TPM counts.
    pub resets: u32,
}

/// Why evidence proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the endorsement key: {0}")]
    Endorsement(public::Fault),
    #[error("the attestation key: {0}")]
    Key(public::Fault),
    #[error("the attestation key can sign anything, not only what the TPM says: it is not {0}")]
    Unrestricted(&'static str),
    #[error("the quote: {0}")]
    Quote(#[from] quote::Fault),
    #[error("the quote has another nonce: it was made for another request, or is replayed")]
    Nonce,
    #[error("the quote does not select the SHA-256 registers {QUOTED:?}")]
    Selection,
    #[error("the register values differ from the quoted ones")]
    Registers,
    #[error("the event log: {0}")]
    Log(#[from] event_log::Fault),
    #[error(
        "the event log does not lead to the quoted value of register {0}: the log was altered, or something was measured outside of it"
    )]
    Replay(u8),
}

impl Evidence {
    /// What is proven, if the quote is over `nonce`.
    pub fn check(&self, nonce: &[u8]) -> Result<Facts, Fault> {
        Public::parse(&self.ek_public.0).map_err(Fault::Endorsement)?;
        let key = Public::parse(&self.ak_public.0).map_err(Fault::Key)?;
        if let Some(missing) = key.missing_of_a_signer() {
            return Err(Fault::Unrestricted(missing));
        }
        quote::verify(&key, &self.attest.0, &self.signature.0)?;
        let quote = Quote::parse(&self.attest.0)?;
        if quote.nonce != nonce {
            return Err(Fault::Nonce);
        }
        if quote.selected != QUOTED || !self.pcrs.iter().map(|pcr| pcr.index).eq(QUOTED) {
            return Err(Fault::Selection);
        }
        if quote.digest != key.signed_digest(&self.pcrs.iter().flat_map(|pcr| pcr.sha256.0).collect::<Vec<_>>()) {
            return Err(Fault::Registers);
        }
        let events = event_log::parse(&self.event_log.0)?;
        if !events.is_empty() {
            let replayed = event_log::replay(&events);
            let differing = self
                .pcrs
                .iter()
                .find(|pcr| LOGGED.contains(&pcr.index) && replayed.get(&pcr.index) != Some(&pcr.sha256));
            if let Some(pcr) = differing {
                return Err(Fault::Replay(pcr.index));
            }
        }
        Ok(Facts {
            ek: public::sha256(&self.ek_public.0),
            ak_name: hex::lower(key.name()),
            pcrs: self.pcrs.clone(),
            events,
            resets: quote.resets,
        })
    }
}
