//! What configs refer to, fetched from real servers on loopback.
#![allow(clippy::unwrap_used)]

mod certificates;
mod fetch;
mod oracle;
mod render;

use flate2::{Compression, write::GzEncoder};
use ignition::model::Document;
use sha2::{Digest, Sha512};
use std::io::Write;

/// A config that is valid.
fn parsed(config: &str) -> Document<'_> {
    let (config, _, report) = ignition::parse(config.as_bytes()).unwrap();
    assert!(!report.is_fatal(), "{report}");
    config
}

/// A resource's packed bytes.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A resource's hash, as configs have it.
fn sha512(bytes: &[u8]) -> String {
    format!("sha512-{}", hex(&Sha512::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error with its causes, as people see it.
fn error_text(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}
