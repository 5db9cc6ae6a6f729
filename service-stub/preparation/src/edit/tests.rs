//! Every edit of the Ignition files, and configs that are refused.

use super::*;
use crate::job::{Folder, Source};
use api::{HostRole, Mac};
use ignition::data_url;
use proptest::prelude::*;
use serde_json::{Value, json};

const BMH: &str = "kind: BareMetalHost\nmetadata:\n  name: m-1\n";
const CONF: &str = "[[registry]]\nlocation = \"quay.io/a\"\n[[registry.mirror]]\nlocation = \"mirror/a\"\n";

fn file(path: &str, text: &str) -> Value {
    json!({"path": path, "mode": 420, "contents": {"source": data_url::base64(text.as_bytes())}})
}

fn config(version: &str, files: Value) -> Vec<u8> {
    json!({"ignition": {"version": version}, "storage": {"files": files}}).to_string().into_bytes()
}

/// Files as `openshift-install` makes them.
fn made(version: &str) -> Files {
    let motd = json!({"path": "/etc/motd", "append": [{"source": "data:,hello"}]});
    let bootstrap = json!([
        file("/opt/openshift/manifests/baremetal-provisioning-config.yaml", "kind: Provisioning\n"),
        file("/etc/NetworkManager/system-connections/nmconnection", "x"),
        file("/etc/NetworkManager/system-connections/eth0.nmconnection", "x"),
        motd,
        file("/etc/containers/registries.conf", CONF),
        file("/opt/openshift/openshift/99_openshift-cluster-api_hosts-0.yaml", BMH),
    ]);
    let pointer = |role: &str| {
        let merge = json!([{"source": format!("https://api-int:22623/config/{role}")}]);
        json!({"ignition": {"version": version, "config": {"merge": merge}}}).to_string().into_bytes()
    };
    let roles = ["master", "worker", "arbiter"].map(|role| (format!("{role}.ign"), pointer(role)));
    let others = [(BOOTSTRAP.to_owned(), config(version, bootstrap)), ("kubeadmin-password".to_owned(), b"x".to_vec())];
    roles.into_iter().chain(others).collect()
}

fn vip(last: u8) -> Vip {
    Vip {
        mac: Mac([0, 0x1a, 0x4a, 1, 2, last]),
        address: Some([192, 0, 2, last].into()),
        lease: "lease { a b; }".into(),
    }
}

/// Everything that can be set.
fn everything() -> NodeSettings {
    NodeSettings {
        openshift_version: "4.22.9".into(),
        has_arbiter: true,
        has_ipv6: true,
        service_ca_pem: Some("PEM 1".into()),
        dhcp: Some(Vips { api: vip(9), ingress: vip(10) }),
        internal_registry: Some("api-int.c.example".into()),
        nodes: vec![Node { role: HostRole::Master, name: "m-1".into(), ..Node::default() }],
        ..NodeSettings::default()
    }
}

fn plain() -> NodeSettings {
    NodeSettings { nodes: everything().nodes, openshift_version: "4.22.9".into(), ..NodeSettings::default() }
}

fn edited(settings: &NodeSettings) -> Files {
    let mut files = made("3.2.0");
    apply(&mut files, settings).unwrap();
    files
}

fn document(files: &Files, name: &str) -> Value {
    serde_json::from_slice(&files[name]).unwrap()
}

fn paths(files: &Files, name: &str) -> Vec<String> {
    let document = document(files, name);
    let list = document["storage"]["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

/// The file's JSON with its contents decoded.
fn found(files: &Files, name: &str, path: &str) -> (Value, String) {
    let document = document(files, name);
    let file = document["storage"]["files"].as_array().unwrap().iter().find(|file| file["path"] == path).unwrap();
    let data = data_url::decode(file["contents"]["source"].as_str().unwrap()).unwrap().data.into_owned();
    (file.clone(), String::from_utf8(data).unwrap())
}

const MARKER: &str = "/opt/openshift/assisted-install-bootstrap";
const KNI: &str = "/etc/NetworkManager/conf.d/99-kni.conf";
const IPV6: &str = "/etc/NetworkManager/conf.d/01-ipv6.conf";
const CA: &str = "/etc/assisted-service/service-ca-cert.crt";

#[test]
fn the_bootstrap_is_edited() {
    let files = edited(&plain());
    let expected = [
        "/opt/openshift/manifests/baremetal-provisioning-config.yaml",
        "/etc/NetworkManager/system-connections/eth0.nmconnection",
        "/etc/motd",
        "/etc/containers/registries.conf",
        "/opt/openshift/openshift/99_openshift-cluster-api_hosts-0.yaml",
        MARKER,
        KNI,
    ];
    assert_eq!(paths(&files, BOOTSTRAP), expected);
    let marker = json!({"path": MARKER, "mode": 420, "overwrite": false, "user": {"name": "root"}, "contents": {"source": "data:,"}});
    assert_eq!(found(&files, BOOTSTRAP, MARKER).0, marker);
    assert_eq!(found(&files, BOOTSTRAP, KNI).1, "[main]\nrc-manager=unmanaged\n");
    let motd = json!({"path": "/etc/motd", "contents": {"source": "data:,hello"}});
    assert_eq!(found(&files, BOOTSTRAP, "/etc/motd").0, motd);
    assert_eq!(found(&files, BOOTSTRAP, "/etc/containers/registries.conf").1, CONF);
    let (host, text) = found(&files, BOOTSTRAP, expected[4]);
    assert!(host["contents"]["source"].as_str().unwrap().starts_with("data:text/plain;charset=utf-8;base64,"));
    assert!(text.contains("baremetalhost.metal3.io/status"), "{text}");
    assert_eq!(files["kubeadmin-password"], b"x");
}

#[test]
fn what_is_edited_in_the_bootstrap_depends_on_the_cluster() {
    let older = NodeSettings { openshift_version: "4.6.9".into(), ..plain() };
    assert!(!paths(&edited(&older), BOOTSTRAP).iter().any(|path| path.contains("provisioning")));
    let single = edited(&NodeSettings { single_node: true, ..plain() });
    assert!(!paths(&single, BOOTSTRAP).iter().any(|path| path == MARKER || path == KNI));
    let internal = edited(&everything());
    let text = found(&internal, BOOTSTRAP, "/etc/containers/registries.conf").1;
    assert!(text.contains("\"api-int.c.example:22625/a\"") && text.contains("\"localhost:22625/a\""), "{text}");
}

#[test]
fn a_motd_that_is_whole_stays() {
    for motd in [
        json!({"path": "/etc/motd", "contents": {"source": "data:,x"}, "append": [{"source": "data:,y"}]}),
        json!({"path": "/etc/motd", "append": [{"source": "data:,x"}, {"source": "data:,y"}]}),
        json!({"path": "/etc/motd", "mode": 420}),
    ] {
        let mut files = made("3.2.0");
        files.insert(BOOTSTRAP.into(), config("3.2.0", json!([motd])));
        apply(&mut files, &NodeSettings { single_node: true, ..plain() }).unwrap();
        assert_eq!(document(&files, BOOTSTRAP)["storage"]["files"][0], motd);
    }
}

#[test]
fn roles_get_what_is_theirs() {
    let keepalived =
        ["unsupported-monitor.conf", "lease-api", "lease-ingress"].map(|name| format!("/etc/keepalived/{name}"));
    let [monitor, api, ingress] = &keepalived;
    let set = |change: fn(&mut NodeSettings)| {
        let mut settings = plain();
        change(&mut settings);
        settings
    };
    for (settings, master, others) in [
        (plain(), &[][..], &[][..]),
        (set(|s| s.service_ca_pem = Some("x".into())), &[CA], &[CA]),
        (set(|s| s.has_ipv6 = true), &[IPV6], &[IPV6]),
        (set(|s| s.dhcp = everything().dhcp), &[&**monitor, api, ingress], &[]),
        (everything(), &[CA, monitor, api, ingress, IPV6], &[CA, IPV6]),
    ] {
        let files = edited(&settings);
        assert_eq!(paths(&files, "master.ign"), master);
        assert_eq!(paths(&files, "worker.ign"), others);
        let of_arbiter = if settings.has_arbiter { others } else { &[] };
        assert_eq!(paths(&files, "arbiter.ign"), of_arbiter);
    }
    let files = edited(&everything());
    let source = |path| found(&files, "worker.ign", path).0["contents"]["source"].clone();
    assert_eq!(source(CA), "data:,PEM%201");
    let merge = json!([{"source": "https://api-int:22623/config/worker"}]);
    assert_eq!(document(&files, "worker.ign")["ignition"]["config"]["merge"], merge);
}

#[test]
fn ipv6_is_set_up_by_version() {
    for (version, has_keyfile) in [("4.9.59", true), ("4.10.0-0.alpha", false), ("4.22.9", false)] {
        let settings = NodeSettings { has_ipv6: true, openshift_version: version.into(), ..plain() };
        let text = found(&edited(&settings), "worker.ign", IPV6).1;
        assert!(text.starts_with("[connection]\nipv6.dhcp-iaid=mac\nipv6.dhcp-duid=ll\n"), "{text}");
        let keyfile = "\n[keyfile]\npath=/etc/NetworkManager/system-connections-merged\n";
        assert_eq!(text.ends_with(keyfile), has_keyfile, "{version}: {text}");
    }
}

#[test]
fn configs_stay_of_their_version() {
    for version in ["3.1.0", "3.2.0", "3.4.0"] {
        let mut files = made(version);
        apply(&mut files, &everything()).unwrap();
        for name in [BOOTSTRAP, "master.ign", "worker.ign", "arbiter.ign"] {
            assert_eq!(document(&files, name)["ignition"]["version"], version, "{name}");
        }
    }
}

#[test]
fn a_second_edit_changes_nothing() {
    let once = edited(&everything());
    let mut twice = once.clone();
    apply(&mut twice, &everything()).unwrap();
    assert_eq!(once, twice);
    let vips = everything().dhcp.unwrap();
    let master = with_vips(&once["master.ign"], &vips).unwrap();
    assert_eq!(with_vips(&master, &vips).unwrap(), master);
    let mut sorted = [paths(&once, "master.ign"), paths(&[("m".to_owned(), master)].into(), "m")];
    sorted.iter_mut().for_each(|paths| paths.sort());
    assert_eq!(sorted[0], sorted[1]);
}

#[test]
fn what_is_not_a_config_is_refused() {
    let settings = NodeSettings { single_node: true, ..plain() };
    let many = format!("[{}]", "{},".repeat(3 << 20));
    for (text, expected) in [
        ("", "not a config (empty)"),
        ("{", "unexpected end of JSON input"),
        ("[]", "bootstrap.ign is not an Ignition config: "),
        ("{}", "couldn't parse"),
        (r#"{"ignition":{"version":"2.2.0"}}"#, "unsupported config version"),
        (r#"{"ignition":{"version":"3.0.0"}}"#, "it is of version 3.0.0, older than 3.1.0"),
        (r#"{"ignition":{"version":"3.2.0"},"storage":{"files":"x"}}"#, "cannot unmarshal string"),
        (r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"x"}]}}"#, "path not absolute"),
        (r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/a"},{"path":"/a"}]}}"#, "duplicate"),
        (&"[".repeat(100_000), "bootstrap.ign is not an Ignition config: "),
        (&many, "bootstrap.ign is not an Ignition config: "),
    ] {
        let mut files = made("3.2.0");
        files.insert(BOOTSTRAP.into(), text.into());
        let error = apply(&mut files, &settings).unwrap_err().to_string();
        assert!(error.contains(expected) && error.len() < 1000, "{error:.1000}");
    }
    let link = r#"{"ignition":{"version":"3.2.0"},"storage":{"links":[{"path":"/etc/NetworkManager/conf.d/99-kni.conf","target":"/x"}]}}"#;
    let mut files = made("3.2.0");
    files.insert(BOOTSTRAP.into(), link.into());
    assert!(apply(&mut files, &plain()).unwrap_err().to_string().contains("duplicate"), "a link is at a path of ours");
}

#[test]
fn what_is_missing_is_named() {
    for name in [BOOTSTRAP, "master.ign", "worker.ign", "arbiter.ign"] {
        let mut files = made("3.2.0");
        files.remove(name);
        assert_eq!(apply(&mut files, &everything()).unwrap_err().to_string(), format!("{name} is missing"));
    }
    let mut files = made("3.2.0");
    files.insert(BOOTSTRAP.into(), config("3.2.0", json!([])));
    let error = apply(&mut files, &everything()).unwrap_err().to_string();
    assert_eq!(error, "cannot find /etc/containers/registries.conf in bootstrap.ign");
    let mut files = made("3.2.0");
    let error = apply(&mut files, &NodeSettings { nodes: Vec::new(), ..plain() }).unwrap_err().to_string();
    assert_eq!(error, "Not enough registered hosts in role worker to match with BareMetalHosts");
}

#[test]
fn what_must_be_known_before_is_checked() {
    let pool = Manifest {
        folder: Folder::Openshift,
        file: "pool.yaml".into(),
        content: b"kind: MachineConfigPool\nmetadata:\n  name: gpu\n".to_vec(),
        source: Source::User,
    };
    let with_pool = |pool: &str| {
        let node = Node { pool: Some(pool.into()), ..Node::default() };
        NodeSettings { nodes: vec![Node::default(), node], ..NodeSettings::default() }
    };
    check(&with_pool("gpu"), std::slice::from_ref(&pool)).unwrap();
    let error = check(&with_pool("infra"), &[pool]).unwrap_err().to_string();
    assert_eq!(error, "machine config pool infra was not found");
    let mut settings = everything();
    check(&settings, &[]).unwrap();
    if let Some(vips) = &mut settings.dhcp {
        vips.ingress.address = None;
    }
    assert!(check(&settings, &[]).is_err() && apply(&mut made("3.2.0"), &settings).is_err());
}

proptest! {
    /// A path that the service looks for, with whatever in it.
    #[test]
    fn no_config_makes_it_panic(
        path in prop::sample::select(vec![
            "/etc/motd", "/a/openshift-cluster-api_hosts-0", "/b/baremetal-provisioning-config", "/etc/containers/registries.conf",
        ]),
        source in "(data:(text/plain)?(;base64)?,)?[a-zA-Z0-9%/+=:\\[\\]{} -]{0,40}",
        version in "3\\.[0-6]\\.0",
        is_internal in any::<bool>(),
    ) {
        let settings = NodeSettings { internal_registry: everything().internal_registry.filter(|_| is_internal), ..everything() };
        let mut files = made("3.2.0");
        files.insert(BOOTSTRAP.into(), config(&version, json!([{"path": path, "contents": {"source": source}}])));
        if apply(&mut files, &settings).is_ok() {
            let once = files.clone();
            apply(&mut files, &settings).unwrap();
            prop_assert_eq!(once, files);
        }
    }
}
