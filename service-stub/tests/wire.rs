//! Traffic of the real service, replayed against ours: same statuses, same shapes, same words where words were recorded.
//! Where ours differs on purpose, the reason stands in the test.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod common;
#[path = "wire/media_types.rs"]
mod media_types;
#[path = "wire/validations.rs"]
mod validations;

use api::{Cluster, ClusterId, ClusterNetwork, Host, HostId, InfraEnv, InfraEnvId, MachineNetwork, Platform, Secret};
use common::{Answer, Files, Running, recorded};
use serde_json::{Value, json};
use service_stub::instructions::options::StepOptions;
use service_stub::model::{ClusterRecord, HostKey, HostRecord, InfraEnvRecord};
use service_stub::state::{ClusterState, HostState};
use service_stub::store::{Store, StoreError};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

struct Exchange {
    number: u32,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    status: u16,
    answer: Value,
}

fn exchanges(folder: &Path) -> Vec<Exchange> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let load = |path: &std::path::PathBuf| {
        let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let request = &document["request"];
        let mut line = request["line"].as_str().unwrap().split(' ');
        // How the bytes travelled is the client's business.
        let skipped = ["Host", "Content-Length", "Transfer-Encoding", "Accept-Encoding"];
        let headers = request["headers"].as_array().unwrap().iter();
        let headers = headers.map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned()));
        let body = match &request["body"] {
            Value::Null => Vec::new(),
            Value::Object(fields) if fields.contains_key("_base64") => decode(fields["_base64"].as_str().unwrap()),
            body => body.to_string().into_bytes(),
        };
        Exchange {
            number: document["seq"].as_u64().unwrap().try_into().unwrap(),
            method: line.next().unwrap().to_owned(),
            target: line.next().unwrap().to_owned(),
            headers: headers.filter(|(name, _)| !skipped.contains(&name.as_str())).collect(),
            body,
            status: document["response"]["status"].as_u64().unwrap().try_into().unwrap(),
            answer: document["response"]["body"].clone(),
        }
    };
    paths.iter().map(load).collect()
}

fn decode(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = ALPHABET.iter().position(|own| *own == byte).unwrap();
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

fn replay(running: &Running, exchange: &Exchange) -> Answer {
    let headers: Vec<(&str, &str)> =
        exchange.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    running.request(&exchange.method, &exchange.target, &headers, &exchange.body)
}

/// Every path in a document with the kind of what is there; lists by their first item.
fn shape(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(items) => {
            items.iter().take(1).for_each(|item| shape(item, &format!("{path}[]"), into));
            "list"
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| shape(value, &format!("{path}.{name}"), into));
            "object"
        }
    };
    into.insert(format!("{path}: {kind}"));
}

/// What one has and the other hasn't: `-` only in the recording, `+` only in ours.
fn differences(recorded: &Value, ours: &Value) -> Vec<String> {
    let (mut theirs, mut own) = (BTreeSet::new(), BTreeSet::new());
    shape(recorded, "", &mut theirs);
    shape(ours, "", &mut own);
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>, sign| {
        a.difference(b).map(|line| format!("{sign}{line}")).collect::<Vec<_>>()
    };
    [only(&theirs, &own, '-'), only(&own, &theirs, '+')].concat()
}

fn id(text: &str) -> uuid::Uuid {
    text.parse().unwrap()
}

fn put(store: &Store, cluster: ClusterRecord, infra_env: InfraEnvRecord, host: Option<HostRecord>) {
    store
        .change("", |change| {
            change.put_cluster(cluster);
            change.put_infra_env(infra_env);
            if let Some(host) = host {
                change.put_host(host);
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

fn cluster(id: ClusterId, state: ClusterState) -> ClusterRecord {
    let cluster = Cluster {
        id,
        name: "sno4".into(),
        base_dns_domain: "example.com".into(),
        control_plane_count: 1,
        pull_secret_set: true,
        user_managed_networking: true,
        openshift_version: "4.22.9".into(),
        platform: Some(Platform { external: json!({}), kind: "none".into() }),
        network_type: "OVNKubernetes".into(),
        cluster_networks: vec![ClusterNetwork { cidr: "10.128.0.0/14".into(), cluster_id: None, host_prefix: 23 }],
        service_networks: vec![MachineNetwork { cidr: "172.30.0.0/16".into(), cluster_id: None }],
        ..Cluster::default()
    };
    ClusterRecord::new(state, cluster, Secret::new("{}"))
}

fn infra_env(id: InfraEnvId, cluster: ClusterId) -> InfraEnvRecord {
    let infra_env = InfraEnv { id, cluster_id: Some(cluster), name: "sno4".into(), ..InfraEnv::default() };
    InfraEnvRecord {
        infra_env,
        pull_secret: Secret::new("{}"),
        agent_token: Secret::default(),
        signing_key: String::new(),
    }
}

#[test]
fn what_the_real_service_refuses_we_refuse_alike() {
    let Some(folder) = recorded("errors") else { return };
    let cluster_id = ClusterId(id("75cc4f33-a7f9-4045-ab80-d57a9996a0f6"));
    let key = HostKey {
        infra_env: InfraEnvId(id("d05d3200-9716-4f27-9e8f-21d86a11f9b9")),
        host: HostId(id("69396def-4192-dbc7-5c01-819e7f27b01b")),
    };
    let running = Running::start_with(Files::default(), |store| {
        let mut host = HostRecord::new(key, Some(cluster_id), api::Timestamp::now());
        host.state = HostState::Error;
        // Its logs have come, so only the stop is asked for.
        let logs_collected_at = api::Timestamp::now();
        host.host = Host { status_info: "Failed".into(), logs_collected_at, ..host.host };
        put(store, cluster(cluster_id, ClusterState::Error), infra_env(key.infra_env, cluster_id), Some(host));
    });
    let mut seen = 0;
    for exchange in exchanges(&folder) {
        let answer = replay(&running, &exchange);
        let number = exchange.number;
        let what = format!("{number} {} {}", exchange.method, exchange.target);
        seen += 1;
        match number {
            // Install-time files of a control plane: there is none here.
            22 | 23 => {
                assert_eq!(answer.status, 501, "{what}");
                continue;
            }
            // The config recorded there is a user's override.
            20 => {
                assert_eq!(
                    (answer.status, differences(&exchange.answer, &answer.document())),
                    (200, Vec::new()),
                    "{what}"
                );
                continue;
            }
            _ => assert_eq!(answer.status, exchange.status, "{what}: {:?}", String::from_utf8_lossy(&answer.body)),
        }
        if exchange.answer.is_null() {
            assert_eq!(answer.body, b"", "{what}");
            continue;
        }
        let document = answer.document();
        let found = differences(&exchange.answer, &document);
        match number {
            // The recording shows the record before the service wrote it: without status, and with a role's empty list of
            // stages where every later answer has null. Ours is the record as it is.
            6 => {
                let expected = [
                    "-.progress_stages: list",
                    "-.status: null",
                    "-.status_info: null",
                    "+.progress_stages: null",
                    "+.status: text",
                    "+.status_info: text",
                ];
                assert_eq!(found, expected, "{what}");
            }
            _ => assert_eq!(found, Vec::<String>::new(), "{what}"),
        }
        match number {
            // Another JSON parser, other words for the same place.
            10 => assert!(document["reason"].as_str().unwrap().contains("line 1 column 2"), "{what}: {document}"),
            // A host's own times and a step's random id.
            6 | 8 => {}
            _ => assert_eq!(document, exchange.answer, "{what}"),
        }
    }
    assert_eq!(seen, 24);
}

#[test]
fn an_unknown_infra_env_is_refused_alike() {
    let Some(folder) = recorded("unknown-infra-env") else { return };
    let running = Running::start(Files::default());
    for exchange in exchanges(&folder) {
        let answer = replay(&running, &exchange);
        assert_eq!((answer.status, answer.document()), (exchange.status, exchange.answer));
    }
}

/// Differences from the recorded installation: of which exchange, what, and why.
const OF_INSTALLATION: &[(u32, &str, &str)] = &[
    (1, "+.validations_info: text", "a host is judged before it is shown"),
    (
        11,
        "install -.mco_image: text",
        "our installer applies bootstrap.ign by itself; --mco-image names one for others",
    ),
    (11, "install -.must_gather_image: text", "there is no release catalogue that names it"),
];

/// What the real service answered and what ours did, as lines: nothing where they agree.
fn compared(exchange: &Exchange, answer: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if answer.status != exchange.status {
        found.push(format!("status {} instead of {}", answer.status, exchange.status));
    }
    let ours = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    // Configs are the user's own; what is compared of them is that they are configs.
    if exchange.answer["ignition"].is_object() {
        found.extend((!ours["ignition"].is_object()).then(|| "no config".to_owned()));
        return found;
    }
    let steps = |document: &Value| -> BTreeMap<String, Value> {
        let list = document["instructions"].as_array().cloned().unwrap_or_default();
        list.into_iter().map(|step| (step["step_type"].as_str().unwrap().to_owned(), step["args"].clone())).collect()
    };
    let (recorded_steps, own_steps) = (steps(&exchange.answer), steps(&ours));
    for (kind, args) in &recorded_steps {
        let Some(own) = own_steps.get(kind) else {
            found.push(format!("-step {kind}"));
            continue;
        };
        let parsed = |args: &Value| -> Vec<Value> {
            let texts = args.as_array().into_iter().flatten().map(|arg| arg.as_str().unwrap_or_default());
            texts.map(|text| serde_json::from_str(text).unwrap_or_else(|_| text.into())).collect()
        };
        let (recorded_args, own_args) = (parsed(args), parsed(own));
        for (recorded, own) in recorded_args.iter().zip(&own_args) {
            found.extend(differences(recorded, own).into_iter().map(|line| format!("{kind} {line}")));
        }
        if recorded_args.len() != own_args.len() {
            found.push(format!("{kind}: {} arguments instead of {}", own_args.len(), recorded_args.len()));
        }
    }
    found.extend(
        own_steps.keys().filter(|kind| !recorded_steps.contains_key(*kind)).map(|kind| format!("+step {kind}")),
    );
    found.extend(differences(&exchange.answer, &ours));
    found
}

/// The real agent and the real installer against ours: a single node with a control plane in place.
#[test]
fn a_recorded_installation_goes_through() {
    let Some(folder) = recorded("sno-install") else { return };
    let cluster_id = ClusterId(id("ddaf61bf-f4b1-4c28-be67-7c58fd873f9b"));
    let infra_env_id = InfraEnvId(id("f50d5921-f36e-44ff-a729-499c2d26fe3d"));
    let files = tempfile::tempdir().unwrap();
    for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
        std::fs::write(files.path().join(name), r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
    }
    let recorded = exchanges(&folder);
    // The release's images, which only the real service knows by itself.
    let asked: Value = recorded
        .iter()
        .flat_map(|exchange| exchange.answer["instructions"].as_array().into_iter().flatten())
        .find(|step| step["step_type"] == "container-image-availability")
        .map(|step| serde_json::from_str(step["args"][0].as_str().unwrap()).unwrap())
        .unwrap();
    let images = asked["images"].as_array().unwrap().iter().map(|image| image.as_str().unwrap().to_owned());
    let steps = StepOptions { disk_speed_check: true, check_images: images.collect(), ..StepOptions::default() };
    let offered = Files { cluster: Some(files.path().to_owned()), steps, ..Files::default() };
    let running = Running::start_with(offered, |store| {
        let mut record = cluster(cluster_id, ClusterState::Insufficient);
        record.cluster.machine_networks = vec![MachineNetwork { cidr: "192.168.131.0/24".into(), cluster_id: None }];
        put(store, record, infra_env(infra_env_id, cluster_id), None);
    });
    let mut found = Vec::new();
    let mut seen = 0;
    for mut exchange in recorded {
        if exchange.number == 8 {
            // The user says so between two polls.
            let state = running.client().cluster(cluster_id).unwrap();
            let host = &state.hosts[0];
            assert_eq!((state.status.as_str(), host.status.as_str()), ("ready", "known"), "{}", host.status_info);
            running.client().install_cluster(cluster_id).unwrap();
        }
        if let Some((path, _)) = exchange.target.clone().split_once("?timestamp=") {
            exchange.target = format!("{path}?timestamp={}", api::Timestamp::now().unix_seconds());
        }
        let answer = replay(&running, &exchange);
        seen += 1;
        found.extend(compared(&exchange, &answer).into_iter().map(|what| (exchange.number, what)));
    }
    for (number, what) in &found {
        let reason = OF_INSTALLATION.iter().find(|(of, known, _)| of == number && known == what);
        println!("| {number} | {what} | {} |", reason.map_or("NO REASON", |(_, _, reason)| reason));
    }
    println!("{seen} exchanges, {} differences", found.len());
    let known: Vec<(u32, String)> =
        OF_INSTALLATION.iter().map(|(number, what, _)| (*number, (*what).to_owned())).collect();
    assert_eq!(found, known);
    let host = running.client().hosts(infra_env_id).unwrap().remove(0);
    assert_eq!((host.status.as_str(), host.status_info.as_str()), ("installing-in-progress", "Rebooting"));
    assert_eq!(host.logs_info, "completed");
    let logs =
        running.get(&format!("{}/v2/clusters/{cluster_id}/logs?logs_type=host&host_id={}", common::API, host.id));
    assert_eq!((logs.status, &logs.body[..2]), (200, &b"\x1f\x8b"[..]), "the uploaded archive comes back");
}

/// Creation answers: what the recording has and ours lacks, and why.
#[test]
fn created_records_look_like_the_real_ones() {
    let Some(folder) = recorded("api") else { return };
    let load = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap() };
    let running = Running::start(Files::default());
    let answer = running.json("POST", "/v2/clusters", &load("sno-cluster-req.json"));
    assert_eq!(answer.status, 201);
    let ours = answer.document();
    let found = differences(&load("sno-cluster-resp.json"), &ours);
    // Operators are a control plane's: ours has none in its list.
    let found: Vec<&str> =
        found.iter().map(String::as_str).filter(|line| !line.starts_with("-.monitored_operators[]")).collect();
    // No release catalogue: only an image the user names is known. And ours is judged before it is shown.
    assert_eq!(found, ["-.ocp_release_image: text", "+.validations_info: text"]);
    let mut request = load("sno-infraenv-req.json");
    request["cluster_id"] = ours["id"].clone();
    let answer = running.json("POST", "/v2/infra-envs", &request);
    assert_eq!(answer.status, 201);
    // A fixed word of the hosted service, about an account nobody has here.
    assert_eq!(differences(&load("sno-infraenv-resp.json"), &answer.document()), ["-.email_domain: text"]);
}
