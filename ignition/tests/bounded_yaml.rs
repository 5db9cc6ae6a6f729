//! YAML is parsed in one place, behind its bounds.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Parses without a bound on depth, aliases and open brackets.
const PARSERS: [&str; 6] = [
    "serde_norway::from_slice",
    "serde_norway::from_str",
    "serde_norway::from_reader",
    "serde_norway::Deserializer",
    "serde_yaml",
    "new_from_yaml",
];
/// The reader itself, and what is given to the NMState library, which the reader was through before.
const ALLOWED: [(&str, &str); 4] = [
    ("ignition/src/yaml/mod.rs", "serde_norway::from_slice"),
    ("ignition/src/yaml/mod.rs", "serde_norway::from_slice"),
    ("ignition/src/yaml/mod.rs", "serde_norway::Deserializer"),
    ("ignition/src/network/state.rs", "new_from_yaml"),
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

#[test]
fn only_the_bounded_reader_parses_yaml() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = fs::read_dir(workspace).unwrap().map(|entry| entry.unwrap().path());
    // What qemu-tests reads is made by the tests themselves.
    let programs = crates.filter(|path| path.join("Cargo.toml").is_file() && !path.ends_with("qemu-tests"));
    let mut paths = Vec::new();
    for directory in programs.chain([workspace.to_owned(), workspace.join("netcheck/resolve")]) {
        sources(&directory.join("src"), &mut paths);
    }
    assert!(paths.len() > 300, "only {} sources are found", paths.len());
    let mut found = Vec::new();
    for path in paths {
        let name = path.strip_prefix(workspace).unwrap().to_str().unwrap().to_owned();
        if name.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // Modules of tests are the last of a file.
        let program = text.split("\nmod tests {").next().unwrap();
        for parser in PARSERS {
            found.extend((0..program.matches(parser).count()).map(|_| (name.clone(), parser)));
        }
    }
    found.sort();
    let mut allowed = ALLOWED.map(|(name, parser)| (name.to_owned(), parser)).to_vec();
    allowed.sort();
    assert_eq!(found, allowed, "YAML from outside goes through ignition::yaml");
}
