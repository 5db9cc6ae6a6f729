//! The bill of materials of this workspace as it is: what CycloneDX 1.5 requires, and what whoever audits a release looks for.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

fn document(words: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_sbom")).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

fn is_sha256(hash: &Value) -> bool {
    let content = text(hash, "content");
    text(hash, "alg") == "SHA-256" && content.len() == 64 && content.bytes().all(|b| b.is_ascii_hexdigit())
}

#[test]
fn the_document_has_what_is_required_and_nothing_that_changes() {
    let bytes = document(&[]);
    assert_eq!(bytes, document(&[]), "the same sources gave other bytes");
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((text(&document, "bomFormat"), text(&document, "specVersion")), ("CycloneDX", "1.5"));
    assert_eq!(document["version"], 1);
    assert!(document.get("serialNumber").is_none() && document["metadata"].get("timestamp").is_none());
    let place = env!("CARGO_MANIFEST_DIR").strip_suffix("/.ci/sbom").unwrap();
    assert!(!String::from_utf8(bytes).unwrap().contains(place), "where it was made is in it");

    let own = &document["metadata"]["component"];
    assert_eq!((text(own, "type"), text(own, "name")), ("application", "landfall"));
    let components = document["components"].as_array().unwrap();
    let mut known = BTreeMap::from([(text(own, "bom-ref"), own)]);
    for component in components {
        assert_eq!(text(component, "type"), "library");
        assert!(known.insert(text(component, "bom-ref"), component).is_none(), "{component} is there twice");
        assert!(!text(component, "name").is_empty() && !text(component, "version").is_empty(), "{component}");
        let license = text(&component["licenses"][0], "expression");
        assert!(!license.is_empty() && !license.contains('/'), "{component}");
        let purl = text(component, "purl");
        if purl.starts_with("pkg:cargo/") {
            assert!(is_sha256(&component["hashes"][0]), "{component}");
            assert!(!purl.contains('+'), "{purl}");
        } else {
            assert!(purl.starts_with("pkg:generic/"), "{purl}");
        }
    }

    let mut described = BTreeSet::new();
    for dependency in document["dependencies"].as_array().unwrap() {
        assert!(described.insert(text(dependency, "ref")), "{dependency} is there twice");
        for needed in dependency["dependsOn"].as_array().unwrap() {
            assert!(known.contains_key(needed.as_str().unwrap()), "{needed} is no component");
        }
    }
    assert_eq!(described, known.keys().copied().collect());
}

#[test]
fn what_is_linked_is_there_and_what_only_builds_is_not() {
    let document: Value = serde_json::from_slice(&document(&[])).unwrap();
    let names: BTreeSet<_> = document["components"].as_array().unwrap().iter().map(|c| text(c, "name")).collect();
    for linked in ["agent", "ring", "rustls", "zstd-sys", "zstd", "xz", "mimalloc", "musl", "rust-std", "libc"] {
        assert!(names.contains(linked), "{linked} is missing");
    }
    for other in ["cc", "clap_derive", "proptest", "udev", "qemu-tests", "sbom"] {
        assert!(!names.contains(other), "{other} is no part of the binary");
    }
}

#[test]
fn each_program_of_the_package_goes_by_its_own_name() {
    let document: Value = serde_json::from_slice(&document(&["--program", "landfall-host"])).unwrap();
    let own = &document["metadata"]["component"];
    let version = text(own, "version");
    assert_eq!(text(own, "name"), "landfall-host");
    assert_eq!(text(own, "purl"), format!("pkg:generic/landfall/landfall-host@{version}"));
    let names: BTreeSet<_> = document["components"].as_array().unwrap().iter().map(|c| text(c, "name")).collect();
    assert!(names.contains("agent") && !names.contains("service-stub") && !names.contains("redb"), "{names:?}");
}

#[test]
fn a_binary_is_named_by_its_hash() {
    let file = env!("CARGO_BIN_EXE_sbom");
    let document: Value = serde_json::from_slice(&document(&["--binary", file])).unwrap();
    assert!(is_sha256(&document["metadata"]["component"]["hashes"][0]));
    let missing = Command::new(file).args(["--binary", "/nonexistent"]).output().unwrap();
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent"));
}
