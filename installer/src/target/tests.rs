//! The machine-config server, space, and copies.

use super::{machine_config, space, *};
use base64::{Engine, prelude::BASE64_STANDARD};
use diskwrite::{Layout, LayoutPartition};
use flate2::{Compression, write::GzEncoder};
use kernel::Cancel;
use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    time::Duration,
};
use testkit::http::Server;

const QUICK: Pace =
    Pace { retry: Duration::from_millis(1), poll: Duration::from_millis(1), patience: Duration::from_secs(60) };

fn answer(status: u16, body: &str) -> Vec<u8> {
    testkit::http::reply(&format!("{status} x"), "", body)
}

fn data(text: &[u8]) -> String {
    format!("data:text/plain;base64,{}", BASE64_STANDARD.encode(text))
}

/// A host's config that points to another.
fn pointer(source: &str) -> Vec<u8> {
    json!({"ignition": {"version": "3.2.0", "config": {"merge": [{"source": ""}, {"source": source}]}}})
        .to_string()
        .into_bytes()
}

/// What the server says, with a machine config in it.
fn rendered(spec: Value) -> Value {
    let machine_config = json!({"kind": "MachineConfig", "spec": spec}).to_string();
    let file = json!({
        "path": "/etc/ignition-machine-config-encapsulated.json",
        "contents": {"source": data(machine_config.as_bytes())}
    });
    json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/x"}, file]}})
}

fn good() -> Value {
    rendered(json!({"osImageURL": "quay.io/os@sha256:1", "kernelArguments": ["a=1", "b"]}))
}

#[test]
fn the_server_is_asked_until_it_answers() {
    let server = Server::in_order([
        answer(500, "starting"),
        b"nonsense\r\nConnection: close\r\n\r\n".to_vec(),
        answer(200, &json!({"storage": {"files": []}}).to_string()),
        // The status says nothing.
        answer(503, &good().to_string()),
    ]);
    let found = machine_config::wait(&pointer(&server.url("/config/master")), &QUICK, &Cancel::default()).unwrap();
    let kernel_arguments = vec!["a=1".to_owned(), "b".into()];
    assert_eq!(found, MachineConfig { os_image_url: "quay.io/os@sha256:1".into(), kernel_arguments });
    let asked = server.finish();
    assert_eq!((asked[0].method(), asked[0].target()), ("GET", "/config/master"));
    let accept = Some("application/vnd.coreos.ignition+json; version=3.4.0");
    assert!(asked.iter().all(|asked| asked.header("accept") == accept), "{asked:?}");
}

#[test]
fn patience_ends_and_so_does_a_cancelled_wait() {
    let nowhere = pointer("http://127.0.0.1:1/config/master?token=secret");
    let pace = Pace { patience: Duration::from_millis(20), ..QUICK };
    let error = machine_config::wait(&nowhere, &pace, &Cancel::default()).unwrap_err();
    assert_eq!(error.to_string(), "cannot fetch http://127.0.0.1:1/config/master");
    let cancel = Cancel::default();
    cancel.cancel();
    let error = machine_config::wait(&nowhere, &QUICK, &cancel).unwrap_err();
    assert!(matches!(error, MachineConfigError::Cancelled), "{error}");
}

#[test]
fn a_config_may_be_in_its_own_address() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(good().to_string().as_bytes()).unwrap();
    for text in [packed.finish().unwrap(), good().to_string().into_bytes()] {
        let found = machine_config::fetch(&pointer(&data(&text))).unwrap();
        assert_eq!(found.os_image_url, "quay.io/os@sha256:1");
    }
    let plain = rendered(json!({"osImageURL": "x", "kernelArguments": null}));
    let found = machine_config::fetch(&pointer(&data(plain.to_string().as_bytes()))).unwrap();
    assert_eq!(found, MachineConfig { os_image_url: "x".into(), kernel_arguments: Vec::new() });
}

#[test]
fn what_is_missing_is_named() {
    let error = |config: &[u8]| machine_config::fetch(config).unwrap_err().to_string();
    let merged = |config: Value| error(&pointer(&data(config.to_string().as_bytes())));
    assert_eq!(error(b"{}"), "the host's Ignition config has no config to be merged");
    assert_eq!(error(b"x"), "the host's Ignition config is invalid");
    assert_eq!(error(&pointer("data:;base64,%")), "the config to be merged is not a good data URL");
    assert_eq!(
        error(&pointer("s3://bucket/x?key=secret")),
        "the host's Ignition config is merged with s3://bucket/x, which can't be fetched"
    );
    assert_eq!(error(&pointer("https://h:22623/config/master")), "the certificate authority is not a good data URL");
    let mut config: Value = serde_json::from_slice(&pointer("https://h:22623/config/master")).unwrap();
    config["ignition"]["security"]["tls"]["certificateAuthorities"] = json!([{"source": "data:,none"}]);
    assert_eq!(
        error(config.to_string().as_bytes()),
        "the host's Ignition config names no certificate authority for https://h:22623/config/master"
    );
    assert_eq!(merged(json!({})), "the cluster's config for this host has no machine config");
    assert_eq!(
        merged(rendered(json!({}))),
        "the cluster's config for this host has no system's image (spec.osImageURL)"
    );
}

#[test]
fn free_space_is_counted_as_the_real_installer_counts_it() {
    let partition = |number, len| LayoutPartition {
        number,
        type_guid: [1; 16],
        guid: [2; 16],
        name: String::new(),
        first_lba: 0,
        sectors: 0,
        start: 0,
        len,
    };
    let layout = Layout { size_bytes: 1000, sector_bytes: 512, partitions: vec![partition(3, 100), partition(4, 200)] };
    let percent = |requested| space::free_percent(&layout, requested);
    assert_eq!([200, 0, 690, 691, 700, 701, u64::MAX].map(percent), [50, 70, 1, 0, 0, 0, 0]);
}

#[test]
fn every_five_percent_are_reported_and_the_last_once() {
    let mut steps = space::Steps::default();
    let percents: Vec<_> = (0..=1000).chain([1000, 1001]).filter_map(|done| steps.report(done, 1000)).collect();
    assert_eq!(percents, (1..=20).map(|step| step * 5).collect::<Vec<_>>());
    assert_eq!(space::Steps::default().report(0, 0), Some(100));
}

#[test]
fn a_copy_has_what_the_original_had() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "deep/down/to"].map(|name| dir.path().join(name));
    fs::create_dir_all(from.join("a/b")).unwrap();
    let content: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    fs::write(from.join("a/large"), &content).unwrap();
    fs::write(from.join("a/b/empty"), "").unwrap();
    fs::hard_link(from.join("a/large"), from.join("a/b/again")).unwrap();
    symlink("../nowhere", from.join("a/link")).unwrap();
    fs::set_permissions(from.join("a/large"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(from.join("a/b"), fs::Permissions::from_mode(0o1500)).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for path in ["a/large", "a/b", "a"] {
        fs::File::open(from.join(path)).unwrap().set_times(fs::FileTimes::new().set_modified(old)).unwrap();
    }
    let bytes = copy::size(&from).unwrap();
    let mut seen = Vec::new();
    copy::tree(&from, &to, &Cancel::default(), &mut |done| seen.push(done)).unwrap();
    assert!(seen.is_sorted() && *seen.last().unwrap() > 3 << 20 && *seen.last().unwrap() <= bytes, "{bytes} {seen:?}");
    // Again, as after a copy that was cut off.
    fs::remove_file(to.join("a/large")).unwrap();
    fs::write(to.join("a/large"), "cut off").unwrap();
    copy::tree(&from, &to, &Cancel::default(), &mut |_| ()).unwrap();
    let [large, again, b] = ["a/large", "a/b/again", "a/b"].map(|path| fs::metadata(to.join(path)).unwrap());
    assert_eq!(fs::read(to.join("a/large")).unwrap(), content);
    assert_eq!((large.mode() & 0o7777, b.mode() & 0o7777, large.ino()), (0o4751, 0o1500, again.ino()));
    assert_eq!((large.modified().unwrap(), b.modified().unwrap()), (old, old));
    assert_eq!(fs::read_link(to.join("a/link")).unwrap(), Path::new("../nowhere"));
    let cancel = Cancel::default();
    cancel.cancel();
    assert!(matches!(copy::tree(&from, &to, &cancel, &mut |_| ()), Err(TargetError::Cancelled)));
}

#[test]
fn a_step_is_tried_three_times() {
    let mut tries = 0;
    let mut step = |good_at: u32| {
        tries = 0;
        retry::thrice(&QUICK, &Cancel::default(), || {
            tries += 1;
            if tries >= good_at { Ok(tries) } else { Err(TargetError::NoPartition { device: "/d".into(), number: 4 }) }
        })
        .map_err(|error| error.to_string())
    };
    assert_eq!(step(3), Ok(3));
    assert_eq!(step(4), Err("/d has no partition 4, which every CoreOS image has".into()));
    assert_eq!(tries, 3);
    assert_eq!(
        TargetError::TooSmall { device: "/dev/sda".into(), bytes: 7 }.to_string(),
        "device /dev/sda is not large enough to fit the registry data (7 bytes)"
    );
}
