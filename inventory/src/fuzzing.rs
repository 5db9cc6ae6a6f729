//! What fuzzers call: each function takes hostile bytes and does all that is done with them. No part of the API.

use crate::{bmc, smbios::Smbios};

/// Decodes an SMBIOS table and writes down every fact of it.
pub fn fuzz_smbios(table: &[u8]) {
    let smbios = Smbios::parse(table.to_vec());
    let _ = smbios.memory_bytes();
    let _ = serde_json::to_string(&smbios.facts());
}

/// Asks a management controller whose replies are cut from the bytes for all that is asked of one.
pub fn fuzz_ipmi(replies: &[u8]) {
    bmc::fuzz(replies);
}
