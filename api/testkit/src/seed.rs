//! Where a test's randomness begins.

use std::{env, time::SystemTime};

/// Gives the same run again.
const SEED: &str = "LANDFALL_SEED";

/// Another one for each run, said in the output of the test, unless the variable has one.
///
/// # Panics
/// Where the variable is not a number.
pub fn of_run() -> u64 {
    let given = env::var(SEED).ok().filter(|text| !text.is_empty());
    let seed = match given {
        Some(text) => text.parse().unwrap_or_else(|_| panic!("{SEED} is '{text}', not a number")),
        None => u64::from(SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos()),
    };
    println!("{SEED}={seed}");
    seed
}
