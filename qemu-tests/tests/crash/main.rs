//! Installations interrupted by signals and power cuts, at every boundary between two stages and at random moments: no disk boots
//! half a system, and the next installation completes.
//!
//! A handful of moments by default. LANDFALL_CRASH_MOMENTS=50 adds that many random ones to every boundary in every kind;
//! LANDFALL_SEED gives the same ones again, LANDFALL_CRASH_MINUTES ends it early, and LANDFALL_CRASH_FROM=75 continues
//! where it ended. What losing power does at every single write is tested where the writes are, in the suite `faults`.
#![allow(clippy::unwrap_used)]

mod bench;
mod check;
mod medium;
mod moment;
mod service;

use bench::Bench;
use check::Checker;
use medium::{MIB, State, System, judge, saved_partition};
use qemu_tests::{
    images::{Minimal, minimal_image},
    paths,
};
use std::time::{Duration, Instant};

/// At different places, so that the table of one never leads to the other.
const SYSTEMS: [Minimal; 2] = [Minimal { name: "alpha", shift_mib: 0 }, Minimal { name: "omega", shift_mib: 3 }];
/// Slow enough to hit what is meant.
const BYTES_PER_SECOND: u64 = 16 << 20;

fn systems() -> [System; 2] {
    SYSTEMS.map(|minimal| System::new(&minimal, &minimal_image(&minimal).unwrap_or_else(|error| panic!("{error:#}"))))
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn an_interrupted_installation_never_half_boots_and_the_next_one_completes() {
    let began = Instant::now();
    let seed = testkit::seed::of_run();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bench = Bench::start(systems(), BYTES_PER_SECOND);
    let moments = match number("LANDFALL_CRASH_MOMENTS") {
        Some(count) => {
            println!("an installation takes {:.1} s", bench.measure().as_secs_f64());
            moment::all(usize::try_from(count).unwrap(), &mut random)
        }
        None => moment::some(),
    };
    let end = began + Duration::from_secs(60 * number("LANDFALL_CRASH_MINUTES").unwrap_or(120));
    let from = usize::try_from(number("LANDFALL_CRASH_FROM").unwrap_or(1)).unwrap();
    let checker = Checker::start(from);
    let planned = moments.len();
    for moment in moments.into_iter().skip(from - 1) {
        if Instant::now() > end {
            break;
        }
        checker.take(bench.run(&moment, &mut random));
    }
    let totals = checker.finish();
    println!(
        "{} moments of {planned}: {} could not half-boot, {} second installations, {} booted; {:.0} s",
        totals.moments,
        totals.could_not_half_boot,
        totals.second_installations,
        totals.booted,
        began.elapsed().as_secs_f64()
    );
    assert!(totals.problems.is_empty(), "LANDFALL_SEED={seed}\n{}", totals.problems.join("\n"));
    assert!(totals.moments > 0);
}

/// The judge of all this must see what is wrong.
#[test]
fn half_a_system_is_distinguished_from_a_whole_one() {
    let [old, new] = systems();
    let dir = paths::scratch_dir().unwrap();
    let before = bench::prepare(&dir, &dir.path().join("disk"), &old, "{}", true);
    let after = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut medium = before.clone();
        change(&mut medium);
        judge(&medium, &before, &old, &new)
    };
    let place = saved_partition(&before).unwrap();
    let tail = before.len() - MIB..before.len();
    assert_eq!(after(&|_| ()), Ok(State::Untouched));
    assert_eq!(after(&|medium| medium[tail.clone()].fill(0)), Ok(State::NoWayIn));
    let problem = |change: &dyn Fn(&mut Vec<u8>)| after(change).unwrap_err();
    assert!(problem(&|medium| medium[5 * MIB] ^= 1).contains("of which something is gone"));
    assert!(problem(&|medium| medium[place.start] ^= 1).contains("has changed"));
    let both_ends = |medium: &mut Vec<u8>| [0..MIB, tail.clone()].into_iter().for_each(|end| medium[end].fill(0));
    assert!(problem(&both_ends).contains("no table lists"));
    let install = |medium: &mut Vec<u8>| medium[..new.image.len()].copy_from_slice(&new.image);
    assert!(problem(&install).contains("no table lists"));
    // Without a partition to keep.
    let plain = bench::prepare(&dir, &dir.path().join("plain"), &old, "{}", false);
    let mut medium = plain.clone();
    medium[510..512].fill(0);
    assert_eq!(judge(&medium, &plain, &old, &new), Ok(State::NoTable));
    install(&mut medium);
    assert!(judge(&medium, &plain, &old, &new).unwrap_err().contains("one table leads to"));
    medium[tail.clone()].fill(0);
    assert_eq!(judge(&medium, &plain, &old, &new), Ok(State::Complete));
    medium[new.boot.end + 4096] ^= 1;
    assert!(judge(&medium, &plain, &old, &new).unwrap_err().contains("of which something is missing"));
    medium[..MIB].fill(0);
    assert_eq!(judge(&medium, &plain, &old, &new), Ok(State::NoTable));
}
