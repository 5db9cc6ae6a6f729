//! What fuzzers call: each function takes hostile bytes and does all that is done with them. No part of the API.

use crate::gpt;

/// Reads the partition table at the start of an image.
pub fn fuzz_gpt(disk: &[u8]) {
    for sector_bytes in [512, 4096] {
        let _ = gpt::partitions(disk, sector_bytes);
    }
}
