//! Captured machines replayed: `captures/NAME/capture.tar.gz` gives what `captures/NAME/expected.json` says. A new odd
//! machine is a new directory. UPDATE_EXPECTED=1 writes the expected files anew; read the difference before it is committed.

#![allow(clippy::unwrap_used)]

use inventory::{Root, collect, identity, report};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn machines() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut machines: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    machines.sort();
    machines
}

fn facts(machine: &Path) -> Value {
    let root = Root::open(machine.join("capture.tar.gz")).unwrap();
    let identity = identity::host_id(&root);
    let mut report = serde_json::to_value(report::collect(&root)).unwrap();
    // The same machine for each of our versions.
    report.as_object_mut().unwrap().remove("tool_version");
    json!({
        "host_id": identity.id.to_string(),
        "host_id_source": identity.source.as_str(),
        "inventory": collect(&root),
        "report": report,
    })
}

/// The places where two documents differ, each with both values.
fn differences(place: &str, expected: &Value, found: &Value, to: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                differences(
                    &format!("{place}.{key}"),
                    a.get(key).unwrap_or(&Value::Null),
                    b.get(key).unwrap_or(&Value::Null),
                    to,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{place}[{index}]"), a, b, to);
            }
        }
        _ if expected == found => {}
        _ => to.push(format!("{place}: expected {expected}, found {found}")),
    }
}

#[test]
fn every_captured_machine_is_what_it_was() {
    let mut wrong = Vec::new();
    let machines = machines();
    for machine in &machines {
        let name = machine.file_name().unwrap().to_string_lossy();
        let (found, file) = (facts(machine), machine.join("expected.json"));
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            fs::write(&file, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
        }
        let expected: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        differences(&name, &expected, &found, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!machines.is_empty());
    println!("{} machines", machines.len());
}

#[test]
fn a_replay_is_the_same_every_time() {
    for machine in machines() {
        assert_eq!(facts(&machine).to_string(), facts(&machine).to_string(), "{}", machine.display());
    }
}
