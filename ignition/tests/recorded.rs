//! Discovery configs as the real service gave them, against what is built here from the same inputs: the same units, files,
//! users and settings, and the same data in them. Texts of scripts are our own; these differences are listed.
#![allow(clippy::unwrap_used)]

use api::Secret;
use ignition::discovery::assisted::{self, Assisted, StaticNetwork};
use ignition::model::{Document, File, Unit};
use ignition::network::{self, Flow, HostNetwork};
use ignition::{Discovery, data_url, parse};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The recorded configs, where this machine has them.
fn recorded() -> Option<PathBuf> {
    testkit::recordings::path("data/wire/api")
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    // Some answers were stored with their status behind them.
    serde_json::Deserializer::from_str(&text).into_iter().next().unwrap().unwrap()
}

/// The word behind `flag` in the agent's unit: a setting of the service that stands nowhere else.
fn flag<'c>(config: &'c Document<'_>, flag: &str) -> &'c str {
    let words: Vec<_> = contents(unit(config, "agent.service")).split([' ', '\n']).collect();
    words[words.iter().position(|word| *word == flag).unwrap() + 1]
}

fn unit<'c, 'a>(config: &'c Document<'a>, name: &str) -> &'c Unit<'a> {
    config.systemd.units.iter().find(|unit| unit.name == name).unwrap()
}

fn contents<'c>(unit: &'c Unit<'_>) -> &'c str {
    unit.contents.as_deref().unwrap_or_default()
}

fn content(file: &File<'_>) -> Vec<u8> {
    data_url::decode(file.contents.source.as_deref().unwrap()).unwrap().data.into_owned()
}

/// A unit's settings, in sections.
fn settings(unit: &Unit<'_>) -> BTreeSet<(String, String)> {
    let mut section = "";
    let mut settings = BTreeSet::new();
    for line in contents(unit).lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_once('=') {
            _ if line.starts_with('[') => section = line,
            Some((key, value)) => drop(settings.insert((format!("{section} {key}"), value.replace('"', "")))),
            None => panic!("{line}"),
        }
    }
    settings
}

/// What differs of one unit. Values that differ only in wording, or that may be secret, are not shown.
fn unit_differences(theirs: &Unit<'_>, ours: &Unit<'_>) -> Vec<String> {
    let (their_settings, our_settings) = (settings(theirs), settings(ours));
    let keys: BTreeSet<_> = their_settings.symmetric_difference(&our_settings).map(|(key, _)| key).collect();
    keys.into_iter().map(|key| format!("{}: {key}", ours.name)).collect()
}

fn file_differences(theirs: &File<'_>, ours: &File<'_>) -> Vec<String> {
    let encoding = |file: &File<'_>| file.contents.source.as_deref().unwrap().split_once(',').unwrap().0.to_owned();
    let mut differences = Vec::new();
    if theirs.overwrite != ours.overwrite {
        differences.push("overwrite");
    }
    if encoding(theirs) != encoding(ours) {
        differences.push("encoding");
    }
    if content(theirs) != content(ours) {
        differences.push("text");
    }
    differences.into_iter().map(|what| format!("{}: {what}", ours.path)).collect()
}

/// What differs, once all that must be the same is found to be.
fn differences(theirs: &Document<'_>, ours: &Document<'_>) -> Vec<String> {
    assert!(theirs.ignition == ours.ignition && theirs.passwd == ours.passwd);
    let units = |config: &Document<'_>| -> Vec<_> {
        config.systemd.units.iter().map(|unit| (unit.name.to_string(), unit.enabled, unit.mask)).collect()
    };
    assert_eq!(units(theirs), units(ours));
    let files = |config: &Document<'_>| -> BTreeMap<_, _> {
        let of = |file: &File<'_>| (file.mode, file.user.name.as_ref().map(ToString::to_string));
        config.storage.files.iter().map(|file| (file.path.to_string(), of(file))).collect()
    };
    assert_eq!(files(theirs), files(ours));
    let mut differences = Vec::new();
    for (theirs, ours) in theirs.systemd.units.iter().zip(&ours.systemd.units) {
        assert_eq!(theirs.dropins.len(), ours.dropins.len());
        differences.extend(unit_differences(theirs, ours));
    }
    for ours in &ours.storage.files {
        let theirs = theirs.storage.files.iter().find(|file| file.path == ours.path).unwrap();
        differences.extend(file_differences(theirs, ours));
    }
    differences
}

/// Of all of them: words for people, and how scripts and configs of programs are written.
const ALWAYS: [&str; 14] = [
    "agent.service: [Unit] Description",
    "selinux.service: [Unit] Description",
    "iscsistart.service: [Unit] Description",
    "oci-eval-user-data.service: [Service] StandardError",
    "oci-eval-user-data.service: [Service] StandardOutput",
    "oci-eval-user-data.service: [Unit] Description",
    "/usr/local/bin/agent-fix-bz1964591: text",
    "/usr/local/bin/agent-pull-image: text",
    "/etc/motd: text",
    "/etc/multipath.conf: text",
    "/usr/local/bin/oci-eval-user-data.sh: overwrite",
    "/usr/local/bin/oci-eval-user-data.sh: text",
    "/etc/NetworkManager/conf.d/01-ipv6.conf: text",
    "/root/assisted.te: text",
];
/// With static network settings.
const NETWORK: [&str; 5] = [
    "pre-network-manager-config.service: [Service] StandardError",
    "pre-network-manager-config.service: [Service] StandardOutput",
    "pre-network-manager-config.service: [Unit] Description",
    "/usr/local/bin/pre-network-manager-config.sh: text",
    "/usr/local/bin/common_network_script.sh: text",
];

#[test]
fn recorded_discovery_configs_are_rebuilt_from_their_inputs() {
    let Some(dir) = recorded() else { return };
    let image = json(&dir.join("component-versions.json"))["versions"]["discovery-agent"].as_str().unwrap().to_owned();
    for (name, request, answer) in [
        ("sno", "sno-infraenv-req.json", Some("sno-infraenv-resp.json")),
        ("static", "static-infraenv-req.json", Some("static-infraenv-resp.txt")),
        // What it was made from was not stored; its pull secret is known to be that of the others and a line's end.
        ("localauth", "sno-infraenv-req.json", None),
    ] {
        let text = fs::read(dir.join(format!("{name}-discovery.ign"))).unwrap();
        let (theirs, _, report) = parse(&text).unwrap();
        assert_eq!(report.to_string(), "", "{name}");
        let request = json(&dir.join(request));
        let answer = answer.map(|answer| json(&dir.join(answer)));
        let id =
            answer.as_ref().map_or_else(|| flag(&theirs, "--infra-env-id"), |answer| answer["id"].as_str().unwrap());
        let token = settings(unit(&theirs, "agent.service"))
            .into_iter()
            .find_map(|(_, value)| value.strip_prefix("PULL_SECRET_TOKEN=").map(Secret::new));
        assert_eq!(token.is_some(), name == "localauth");
        let end = if token.is_some() { "\n" } else { "" };
        let discovery = Discovery {
            service_url: flag(&theirs, "--url").to_owned(),
            infra_env_id: id.parse().unwrap(),
            agent_version: image.clone(),
            token,
            ..Discovery::default()
        };
        let version = request["openshift_version"].as_str().unwrap();
        let assisted = Assisted {
            pull_secret: Secret::new(format!("{}{end}", request["pull_secret"].as_str().unwrap())),
            static_network: request.get("static_network_config").map(|list| static_network(list, version)),
            ..Assisted::default()
        };
        let ours = assisted::build(&discovery, &assisted).unwrap();
        let found = differences(&theirs, &ours);
        println!(
            "{name}-discovery.ign: {} units, {} files, as recorded but for",
            ours.systemd.units.len(),
            ours.storage.files.len()
        );
        found.iter().for_each(|difference| println!("  {difference}"));
        let mut expected: BTreeSet<_> = ALWAYS.into();
        expected.extend(NETWORK.iter().filter(|_| name == "static"));
        assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{name}");
    }
}

/// What is made of the request's list.
fn static_network(list: &Value, version: &str) -> StaticNetwork {
    let list: Vec<HostNetwork> = serde_json::from_value(list.clone()).unwrap();
    let flow = Flow::of_version(version);
    StaticNetwork { flow, files: network::files(&list, flow).unwrap(), discovery_delay_s: 0 }
}
