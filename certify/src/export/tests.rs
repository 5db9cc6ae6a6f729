use super::*;
use crate::{
    sign::SecretKey,
    testing::{archive, run},
    verify::verify,
};
use serde_json::Value;
use std::collections::BTreeSet;

fn exported(form: Form, serial: Option<&str>) -> Result<String, ExportError> {
    let (run, files) = run();
    let key = SecretKey::generate().unwrap();
    export(&verify(&mut &archive(&run, &files, &key)[..], None), form, serial)
}

#[test]
fn times_are_utc() {
    assert_eq!(timestamp(1_700_000_000), "2023-11-14T22:13:20Z");
    assert_eq!(timestamp(u64::MAX), "1970-01-01T00:00:00Z");
}

#[test]
fn hosts_are_chosen_by_their_serial_numbers() {
    let error = |form, serial| exported(form, serial).unwrap_err().to_string();
    assert_eq!(error(Form::Html, Some("C")), "no host has the serial number C; there are A 1, B2");
    assert_eq!(error(Form::Ocptv, None), "ocptv describes one host: choose one with --host; there are A 1, B2");
    let page = exported(Form::Html, Some("B2")).unwrap();
    assert!(page.contains("B2") && !page.contains("<h2>A 1"), "{page}");
    assert!(matches!(export(&Verified::default(), Form::Html, None), Err(ExportError::Unverified)));
}

/// The artifacts of spec.json, version 2.0.
#[test]
fn ocptv_is_a_numbered_run_with_all_steps() {
    let text = exported(Form::Ocptv, Some("B2")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut order = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(
            (line["sequenceNumber"].as_u64(), line.as_object().unwrap().len()),
            (Some(number as u64), 3),
            "{line}"
        );
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        let artifact = ["testRunArtifact", "testStepArtifact"].into_iter().find_map(|kind| line.get(kind));
        let Some(artifact) = artifact else { continue };
        let kinds: Vec<_> = artifact.as_object().unwrap().keys().filter(|key| *key != "testStepId").collect();
        let id = artifact.get("testStepId").and_then(Value::as_str).map_or("run".to_owned(), str::to_owned);
        assert_eq!(kinds.len(), 1, "{line}");
        order.push(format!("{id} {}", kinds[0]));
    }
    assert_eq!(lines[0]["schemaVersion"], serde_json::json!({ "major": 2, "minor": 0 }));
    let expected = [
        "run testRunStart",
        "0 testStepStart",
        "0 diagnosis",
        "0 diagnosis",
        "0 file",
        "0 testStepEnd",
        "1 testStepStart",
        "1 measurement",
        "1 diagnosis",
        "1 file",
        "1 testStepEnd",
        "run testRunEnd",
    ];
    assert_eq!(order, expected);
    let start = &lines[1]["testRunArtifact"]["testRunStart"];
    assert_eq!((&start["dutInfo"]["dutInfoId"], &start["name"]), (&"B2".into(), &"Model <X>".into()));
    assert_eq!(start["dutInfo"]["softwareInfos"][1]["version"], "3.4");
    let artifact = |line: usize| &lines[line]["testStepArtifact"];
    assert_eq!(
        (&artifact(3)["diagnosis"]["type"], &artifact(4)["diagnosis"]["type"]),
        (&"FAIL".into(), &"PASS".into())
    );
    assert_eq!(artifact(8)["measurement"]["unit"], "B/s");
    assert_eq!(
        lines[12]["testRunArtifact"]["testRunEnd"],
        serde_json::json!({ "status": "COMPLETE", "result": "FAIL" })
    );
}

/// What the schema of CycloneDX 1.6 demands of components and properties.
#[test]
fn cyclonedx_has_parts_with_serial_numbers_and_firmware() {
    let bom: Value = serde_json::from_str(&exported(Form::Cyclonedx, None).unwrap()).unwrap();
    assert_eq!(
        (&bom["bomFormat"], &bom["specVersion"], &bom["version"]),
        (&"CycloneDX".into(), &"1.6".into(), &1.into())
    );
    let (mut refs, mut functions) = (BTreeSet::new(), Vec::new());
    fn check(component: &Value, refs: &mut BTreeSet<String>, functions: &mut Vec<String>) {
        let known = ["type", "bom-ref", "name", "version", "manufacturer", "properties", "components"];
        assert!(component.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{component}");
        assert!(["device", "firmware"].contains(&component["type"].as_str().unwrap()), "{component}");
        assert!(
            !component["name"].as_str().unwrap().is_empty() && refs.insert(component["bom-ref"].to_string()),
            "{component}"
        );
        for property in component["properties"].as_array().into_iter().flatten() {
            assert!(property["name"].is_string() && property["value"].is_string(), "{component}");
            if property["name"] == "cdx:device:function" {
                functions.push(format!(
                    "{} {}",
                    property["value"].as_str().unwrap(),
                    component["name"].as_str().unwrap()
                ));
            }
        }
        let below = component["components"].as_array().into_iter().flatten();
        below.for_each(|component| check(component, refs, functions));
    }
    let machines = bom["components"].as_array().unwrap();
    machines.iter().for_each(|machine| check(machine, &mut refs, &mut functions));
    let parts = [
        "machine X 100",
        "baseboard Board",
        "memory M-1",
        "network Card",
        "management controller management controller",
    ];
    assert_eq!(functions, [parts, parts].concat());
    let card = &machines[0]["components"][3];
    assert_eq!((&card["manufacturer"]["name"], &card["components"][0]["version"]), (&"Maker".into(), &"7.1".into()));
    let properties = card["properties"].to_string();
    assert!(properties.contains("52:54:00:00:00:01") && properties.contains("N1"), "{properties}");
}

#[test]
fn the_page_escapes_every_text_and_needs_nothing_from_elsewhere() {
    let page = exported(Form::Html, None).unwrap();
    assert_eq!(page.matches("<section>").count(), 2);
    for text in [
        "Model &lt;X&gt;",
        "&lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}[2J",
        "@page",
        "PASS",
        "FAIL",
        "64 GiB",
        "2500000000",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    for text in ["<script", "javascript:", "http:", "https:", "url(", "@import", " src=", " href=", "\u{1b}"] {
        assert!(!page.contains(text), "{text}: {page}");
    }
}
