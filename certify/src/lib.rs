//! Certification: is this the machine, does it work, and can it be proved?
//!
//! `plan` says what is done, `result` what came of it. `archive` makes one signed file of a result and its files, `verify` checks it
//! anywhere, `export` turns it into what others read. Nothing here talks to a service or a machine.

mod archive;
pub mod cli;
mod export;
pub mod manifest;
pub mod plan;
pub mod result;
mod sign;
#[cfg(test)]
mod testing;
mod verify;

pub use archive::{ArchiveError, Open, pack};
pub use plan::{Plan, Sku, Step};
pub use sign::{PublicKey, SecretKey, SignError};
pub use verify::{Check, Verified, verify};

/// Reads the bytes as everything that comes from outside.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    let _ = archive::read(&mut &bytes[..], &mut |_, _, _| Ok(()));
    let _ = verify(&mut &bytes[..], None);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<PublicKey>();
    let _ = text.parse::<sign::Signature>().map(|signature| assert_eq!(signature.to_string(), text));
    // A key with a password takes the time of scrypt.
    let _ = SecretKey::parse(text, &mut || Err(std::io::ErrorKind::Other.into()));
    let _ = Plan::parse("plan.toml", text, &|_| Ok(String::new()))
        .map(|plan| Plan::from_json(&plan.to_json()).expect("a plan"));
    let _ = Plan::from_json(bytes);
}
