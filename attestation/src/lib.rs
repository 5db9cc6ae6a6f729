//! What the TPM 2.0 of a host proves of its boot. Pure: the host's bytes go in, and every one of them may be hostile.
//!
//! A quote is signed by a key that is made in the TPM, and never leaves it (TCG TPM 2.0 Library, part 1, 18.6.3). [`credential`] proves that
//! this key and an endorsement key are in one TPM; the endorsement key has a certificate of the TPM's maker. The firmware's log says what was
//! measured into the quoted registers (TCG PC Client Platform Firmware Profile, 10), and [`boot`] compares that with a good boot.

pub mod appraisal;
pub mod boot;
pub mod credential;
pub mod endorsement;
mod event_log;
mod events;
mod evidence;
mod public;
mod quote;
#[cfg(test)]
mod tests;
mod values;

pub use event_log::{Event, MAX_LOG_BYTES};
pub use evidence::{Evidence, Facts, Fault, QUOTED};
pub use public::{Fault as KeyFault, Public};
pub use values::{Bytes, Digest, Pcr};

/// Reads the bytes as everything that a host sends.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(key) = Public::parse(bytes) {
        let _ = (key.missing_of_a_signer(), key.missing_of_an_endorsement_key(), key.name());
        let _ = credential::make(&key, b"name", b"secret");
        let _ = quote::verify(&key, bytes, bytes);
        let _ = endorsement::check(bytes, &key, None);
    }
    let _ = (quote::Quote::parse(bytes), quote::Signature::parse(bytes));
    let _ = appraisal::Appraisal::read(bytes, &[]);
    events::fuzz(bytes);
}
