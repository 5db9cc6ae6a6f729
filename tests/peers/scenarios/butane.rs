//! Documents of Butane through both programs: the configs are the same, compressed contents compared unpacked, and both refuse the
//! same documents, with and without --strict.

use crate::{
    report::{Peers, line},
    site::landfall,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use std::{
    fs,
    io::Read,
    path::Path,
    process::{Command, Output},
};

#[path = "../../../ignition/src/butane/tests/cases.rs"]
mod cases;

/// Cases in which the programs may differ with --strict, and why.
const STRICT: [(&str, &str); 1] =
    [("aliases and merge keys", "Butane warns that it does not look for unknown keys in aliases")];
/// Cases that one program refuses, and why.
const REFUSED: [(&str, &str); 0] = [];

#[test]
fn documents_become_the_same_configs() {
    let name = "butane: documents of fcos and openshift";
    let Some(peers) = Peers::in_folder(name, &["butane"]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("files");
    cases::files(&files);
    let (mut same, mut refused, mut wrong) = (0, 0, Vec::new());
    for case in cases::all() {
        let document = directory.path().join("case.bu");
        fs::write(&document, &case.document).unwrap();
        let run = |program: &Path, words: &[&str], more: &[&str]| -> Output {
            let mut command = Command::new(program);
            command.args(words).args(more).arg("--files-dir").arg(&files).arg(&document);
            command.output().unwrap()
        };
        let raw: &[&str] = if case.raw { &["--raw"] } else { &[] };
        let both = |more: &[&str]| {
            let more = [raw, more].concat();
            let theirs = run(&peers.program("butane"), &[], &more);
            (theirs, run(&landfall(), &["ignition", "translate"], &more))
        };
        let (theirs, ours) = both(&[]);
        let is_allowed = |allowed: &[(&str, &str)]| allowed.iter().any(|(name, _)| *name == case.name);
        if theirs.status.success() != ours.status.success() {
            if !is_allowed(&REFUSED) {
                wrong.push(format!("{}: {theirs:?}\n{ours:?}", case.name));
            }
            continue;
        }
        let (strict_theirs, strict_ours) = both(&["--strict"]);
        if strict_theirs.status.success() != strict_ours.status.success() && !is_allowed(&STRICT) {
            wrong.push(format!("{}, strictly: {strict_theirs:?}\n{strict_ours:?}", case.name));
        }
        if !theirs.status.success() {
            refused += 1;
            continue;
        }
        let (theirs, ours) = (config(&theirs.stdout), config(&ours.stdout));
        if theirs == ours {
            same += 1;
        } else {
            wrong.push(format!("{}:\n{theirs}\n{ours}", case.name));
        }
    }
    line(name, if wrong.is_empty() { "passed" } else { "FAILED" }, &format!("{same} alike, {refused} refused by both"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// JSON or YAML, with packed contents unpacked.
fn config(text: &[u8]) -> Value {
    // YAML has line breaks that JSON has not.
    let json = serde_json::from_slice(text);
    let mut config: Value = json.unwrap_or_else(|_| serde_norway::from_slice(text).unwrap());
    unpack(&mut config);
    config
}

fn unpack(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(unpack),
        Value::Object(members) => {
            let is_packed = members.get("compression").is_some_and(|compression| compression == "gzip");
            let packed =
                members.get("source").and_then(Value::as_str).and_then(|url| url.strip_prefix("data:;base64,"));
            if let Some(packed) = packed.filter(|_| is_packed).and_then(|packed| STANDARD.decode(packed).ok()) {
                let mut contents = String::new();
                // What the document brings as gzip need not be gzip.
                if flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut contents).is_ok() {
                    members.insert("source".to_owned(), contents.into());
                }
            }
            members.values_mut().for_each(unpack);
        }
        _ => {}
    }
}
