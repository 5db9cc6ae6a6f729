//! Configs made at random, most of them wrong somewhere, as ignition-validate judges them and as we do: the same verdict, and
//! the same findings at the same places.
//!
//! `LANDFALL_CONFIGS=10000` makes so many.
#![allow(clippy::unwrap_used)]

mod configs;
mod damage;
mod judge;

use judge::{Judge, ours};
use std::{collections::BTreeMap, fs, thread};

const CONFIGS: u64 = 600;
const VERSIONS: [&str; 8] = ["3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0", "3.6.0", "3.7.0-experimental"];

#[test]
fn configs_are_judged_as_ignition_judges_them() {
    let Some(judge) = &Judge::find() else { return };
    let count = std::env::var("LANDFALL_CONFIGS").map_or(CONFIGS, |count| count.parse().unwrap());
    let differences = thread::scope(|scope| {
        let work = |part: u64| {
            move || {
                let dir = tempfile::tempdir().unwrap();
                let file = dir.path().join("config.ign");
                let mut found = Vec::new();
                for seed in (part..count).step_by(2) {
                    let text = damage::config_text(seed, judge.versions);
                    fs::write(&file, &text).unwrap();
                    let (ours, theirs) = (ours(text.as_bytes()), judge.verdict(&file));
                    if !judge.is_same(&ours, &theirs) {
                        let (ours, theirs) = (judge.lines(&ours.1), judge.lines(&theirs.1));
                        let only = |who: &str, some: &[String], others: &[String]| -> String {
                            let others_lack = some.iter().filter(|line| !others.contains(line));
                            others_lack.map(|line| format!("{who} {line}\n")).collect()
                        };
                        let (ours, theirs) = (only("ours", &ours, &theirs), only("theirs", &theirs, &ours));
                        found.push(format!("seed {seed}: {}\n{ours}{theirs}", text.replace('\n', " ")));
                    }
                }
                found
            }
        };
        let threads = [0, 1].map(|part| scope.spawn(work(part)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for difference in &differences {
        let message = |line: &str| line.split(": ").last().unwrap_or_default().to_owned();
        for line in difference.lines().skip(1) {
            let kind = line.split(' ').next().unwrap_or_default().to_owned() + " " + &message(line);
            *kinds.entry(kind).or_default() += 1;
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {count} differ: {kinds:#?}\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
    println!("{count} configs, each judged alike");
}
