//! A small certification for tests.

use crate::{
    archive::pack,
    plan::{Plan, Sku, Step},
    result::{HostResult, Run, SCHEMA_VERSION, State, StepResult},
    sign::SecretKey,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the files of all hosts hold, by their names.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The facts of a host with so much memory.
pub(crate) fn report(gigabytes: u64) -> Value {
    json!({
        "schema_version": 1,
        "firmware": { "bios": { "vendor": "B<i>OS", "version": "1.2" } },
        "system": { "baseboards": [{ "product": "Board", "manufacturer": "Maker", "serial_number": "B1" }] },
        "memory": {
            "installed_bytes": gigabytes << 30,
            "devices": [{ "part_number": "M-1", "manufacturer": "Maker", "locator": "A1", "serial_number": "S1" }, { "installed": false }]
        },
        "network": { "interfaces": [{ "name": "eth0", "pci_address": "0000:01:00.0", "permanent_mac_address": "52:54:00:00:00:01", "firmware_version": "7.1" }] },
        "pci": [{ "address": "0000:01:00.0", "vendor": "Maker", "device": "Card", "vpd": { "serial_number": "N1" } }],
        "management_controller": { "firmware_version": "3.4" }
    })
}

/// Two hosts, of which the second has too little memory and failed its burn-in.
pub(crate) fn run() -> (Run, Files) {
    let sku = Sku { name: "X".to_owned(), matches: None, expect: "memory.installed_bytes = '64 GiB'".to_owned() };
    let burnin =
        Step::Burnin { seconds: 60, only: Vec::new(), memory_bytes: None, disks: Vec::new(), destroy: Vec::new() };
    let plan =
        Plan { name: "Model <X>".to_owned(), skus: vec![sku], steps: vec![Step::Report, burnin], ..Plan::default() };
    let mut files = Files::new();
    let mut host = |serial: &str, gigabytes: u64, state: State| {
        let step = |index: u32, name: &str, state: State, file: &str| StepResult {
            index,
            action: name.to_owned(),
            state,
            attempts: 1,
            started_unix_seconds: Some(1_700_000_000),
            ended_unix_seconds: Some(1_700_000_060),
            files: vec![file.to_owned()],
            ..StepResult::default()
        };
        let report = report(gigabytes);
        let compared = plan.compare(&report);
        let mut host = HostResult {
            serial: serial.to_owned(),
            manufacturer: Some("Maker".to_owned()),
            product: Some("X 100".to_owned()),
            host_id: "00000000-0000-0000-0000-000000000001".to_owned(),
            sku: compared.sku,
            differences: compared.differences,
            steps: vec![step(0, "report", State::Passed, "report.json"), step(1, "burnin", state, "burnin.json")],
            ..HostResult::default()
        };
        host.steps[1].measurements.insert("read_bytes_per_second".to_owned(), 2.5e9);
        if state == State::Failed {
            host.steps[1].findings.push("memory: <script>alert(1)</script>\u{1b}[2J".to_owned());
        }
        files.insert(format!("{}/report.json", host.folder()), report.to_string().into_bytes());
        files.insert(format!("{}/burnin.json", host.folder()), format!("{{\"host\":\"{serial}\"}}").into_bytes());
        host
    };
    let hosts = vec![host("A 1", 64, State::Passed), host("B2", 32, State::Failed)];
    let plan_sha256 = plan.sha256();
    let mut run = Run {
        schema_version: SCHEMA_VERSION,
        id: "run-1".to_owned(),
        plan,
        plan_sha256,
        tool_version: "0.2.0".to_owned(),
        started_unix_seconds: 1_700_000_000,
        ended_unix_seconds: Some(1_700_000_100),
        hosts,
        ..Run::default()
    };
    run.judge();
    (run, files)
}

/// Its archive, signed by `key`.
pub(crate) fn archive(run: &Run, files: &Files, key: &SecretKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack(&mut bytes, run, key, 1_700_000_200, &mut |host, name| {
        let content = files[&format!("{}/{name}", host.folder())].clone();
        Ok((content.len().try_into().unwrap(), Box::new(std::io::Cursor::new(content))))
    })
    .unwrap();
    bytes
}
