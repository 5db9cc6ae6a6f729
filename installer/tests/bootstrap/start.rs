//! Making the live system a bootstrap host.

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD};
use installer::bootstrap::{BootstrapError, start};
use testkit::process::own_test;

const FILES: &str = "/v2/clusters/11111111-2222-3333-4444-555555555555/downloads/files";
const OPENSHIFT: &str = "/opt/openshift";

fn data(text: &str) -> String {
    format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(text))
}

/// A config like a real one: files, units in all their states, users.
fn config(mark: &str) -> Value {
    let file =
        |path: &str, mode: u32, text: &str| json!({"path": path, "mode": mode, "contents": {"source": data(text)}});
    json!({
        "ignition": {"version": "3.2.0"},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA mine"]}]},
        "storage": {
            "directories": [{"path": "/etc/kept", "mode": 493, "overwrite": true}],
            "files": [
                file("/root/.docker/config.json", 384, r#"{"auths":{"quay.io":{}}}"#),
                file("/opt/openshift/auth/kubeconfig", 384, "not used here"),
                file("/usr/local/bin/bootkube.sh", 365, mark),
                {"path": "/etc/there", "contents": {"source": data("new")}},
            ],
            "links": [{"path": "/etc/link", "target": "there"}],
        },
        "systemd": {"units": [
            {"name": "bootkube.service", "enabled": false, "contents": "[Service]\nExecStart=/usr/local/bin/bootkube.sh\n"},
            {"name": "kubelet.service", "enabled": true, "contents": "[Install]\nWantedBy=multi-user.target\n",
                "dropins": [{"name": "10-x.conf", "contents": "[Service]\n"}]},
            {"name": "crio.service", "enabled": true},
            {"name": "zincati.service", "mask": true, "enabled": true},
        ]},
    })
}

fn service(config: &Value) -> FakeService {
    let config: &'static str = config.to_string().leak();
    FakeService::start(move |request| match request.path.as_str() {
        FILES if request.query == "file_name=bootstrap.ign" => Answer::Text(200, config),
        _ => not_found(request),
    })
}

/// A live system with what is looked for there.
fn live() -> FakeHost<'static> {
    let host = host();
    put(&host, "/proc/sys/kernel/hostname", "node-1.example.com\n");
    put(&host, "/usr/bin/oc", "");
    put(&host, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000::/home/core:/bin/bash\n");
    put(&host, "/etc/group", "root:x:0:\ncore:x:1000:\n");
    put(&host, "/etc/shadow", "root:*:1::::::\ncore:*:1::::::\n");
    put(&host, "/etc/gshadow", "root:::\ncore:::\n");
    put(&host, "/etc/there", "old");
    put(&host, "/etc/kept/file", "kept");
    host.says("systemctl show", "inactive");
    host
}

const COMMANDS: [&str; 7] = [
    "systemctl enable kubelet.service crio.service",
    "systemctl disable bootkube.service",
    "systemctl daemon-reload",
    "systemctl restart NetworkManager.service",
    "systemctl start bootkube.service",
    "systemctl start approve-csr.service",
    "systemctl start progress.service",
];

fn yaml(host: &FakeHost<'_>, name: &str) -> Value {
    serde_norway::from_str(&text(host, &format!("{OPENSHIFT}/manifests/assisted-installer-controller-{name}.yaml")))
        .unwrap()
}

#[test]
fn a_live_system_becomes_a_bootstrap_host() {
    let service = service(&config("one"));
    let setup = Setup::new(&service, |request| request["service_ips"] = json!(["10.0.0.9", "fd00::9"]));
    let host = live();
    start(&host, &setup.context(), &Cancel::default()).unwrap();
    assert_eq!(host.did(), COMMANDS);
    assert_eq!(text(&host, "/root/.docker/config.json"), r#"{"auths":{"quay.io":{}}}"#);
    for secret in ["/root/.docker/config.json", "/opt/install-dir/bootstrap.ign", "/root/.ssh/id_rsa"] {
        assert_eq!(mode(&host, secret), 0o600, "{secret}");
    }
    assert_eq!(text(&host, "/opt/install-dir/bootstrap.ign"), config("one").to_string());
    assert_eq!(
        (text(&host, "/usr/local/bin/bootkube.sh"), mode(&host, "/usr/local/bin/bootkube.sh")),
        ("one".into(), 0o555)
    );
    assert_eq!((text(&host, "/etc/there"), text(&host, "/etc/kept/file")), ("new".into(), "kept".into()));
    assert_eq!(fs::read_link(path(&host, "/etc/link")).unwrap().to_str(), Some("there"));
    assert_eq!(text(&host, "/etc/systemd/system/kubelet.service.d/10-x.conf"), "[Service]\n");
    assert_eq!(fs::read_link(path(&host, "/etc/systemd/system/zincati.service")).unwrap().to_str(), Some("/dev/null"));
    assert!(!path(&host, "/etc/systemd/system-preset").exists(), "this is no first boot");
    assert!(!path(&host, "/etc/.ignition-result.json").exists());

    let key: Value = serde_norway::from_str(&text(
        &host,
        &format!("{OPENSHIFT}/openshift/99_openshift-machineconfig_99-assisted-installer-master-ssh.yaml"),
    ))
    .unwrap();
    let public = text(&host, "/root/.ssh/id_rsa.pub");
    assert_eq!(key["metadata"]["labels"]["machineconfiguration.openshift.io/role"], "master");
    assert_eq!(
        key["spec"]["config"]["passwd"]["users"][0],
        json!({"name": "core", "sshAuthorizedKeys": [public.trim()]})
    );

    let map = &yaml(&host, "cm")["data"];
    let expected = json!({
        "cluster-id": CLUSTER, "inventory-url": service.url, "skip-cert-verification": "true", "ca-cert-path": "",
        "check-cluster-version": "true", "control-plane-count": "3", "must-gather-image": "{\"ocp\":\"r.io/mg:1\"}"
    });
    assert_eq!(map, &expected);
    assert_eq!(yaml(&host, "secret")["stringData"]["pull-secret-token"], "t0ken: '\"#");
    assert_eq!(mode(&host, &format!("{OPENSHIFT}/manifests/assisted-installer-controller-secret.yaml")), 0o600);
    let container = &yaml(&host, "pod")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "r.io/controller:1");
    for name in ["nm", "sa", "network-policy", "role", "role-binding", "role-kube-system", "role-binding-kube-system"] {
        assert!(yaml(&host, name)["kind"].is_string(), "{name}");
    }
}

#[test]
fn a_single_node_gets_no_key_and_keeps_its_network() {
    let service = service(&config("one"));
    let setup = Setup::new(&service, |request| request["control_plane_count"] = 1.into());
    let host = live();
    start(&host, &setup.context(), &Cancel::default()).unwrap();
    let commands: Vec<_> = COMMANDS.into_iter().filter(|command| !command.contains("NetworkManager")).collect();
    assert_eq!(host.did(), commands);
    assert!(path(&host, "/root/.ssh").is_dir() && !path(&host, "/root/.ssh/id_rsa").exists());
    assert!(!path(&host, &format!("{OPENSHIFT}/openshift")).exists());
    let pod = yaml(&host, "pod").to_string();
    assert!(pod.contains(r#""path":"/etc/kubernetes/bootstrap-secrets""#));
}

#[test]
fn a_run_that_fails_anywhere_is_made_good_by_the_next() {
    let service = service(&config("one"));
    let setup = Setup::new(&service, |_| {});
    for (number, command) in COMMANDS.iter().enumerate() {
        let host = live();
        // A run before any of it, whose drafts are still there.
        for draft in [
            "/opt/install-dir/.bootstrap.ign.draft",
            "/root/.ssh/.id_rsa.draft",
            "/run/landfall/.bootstrap-started.draft",
        ] {
            put(&host, draft, "torn");
        }
        put(&host, &format!("{OPENSHIFT}/.bootkube.done"), "");
        put(&host, &format!("{OPENSHIFT}/cvo-bootstrap.done"), "");
        put(&host, &format!("{OPENSHIFT}/master.ign"), "");
        put(&host, &format!("{OPENSHIFT}/manifests/.landfall-0123"), "torn");
        host.fail(command, 1);
        let first = start(&host, &setup.context(), &Cancel::default());
        assert!(first.is_err(), "{command}");
        let key = fs::read(path(&host, "/root/.ssh/id_rsa")).ok();
        host.did.lock().unwrap().clear();
        start(&host, &setup.context(), &Cancel::default()).unwrap();
        let expected = if number >= 4 { &COMMANDS[4..] } else { &COMMANDS[..] };
        assert_eq!(host.did(), expected, "{command}");
        assert_eq!(key.is_some(), number >= 2, "{command}");
        assert!(
            key.is_none_or(|key| fs::read(path(&host, "/root/.ssh/id_rsa")).unwrap() == key),
            "{command}: it stays"
        );
        for gone in [".bootkube.done", "cvo-bootstrap.done", "master.ign", "manifests/.landfall-0123"] {
            assert!(!path(&host, &format!("{OPENSHIFT}/{gone}")).exists(), "{gone}");
        }
        let left = |dir: &str| {
            fs::read_dir(path(&host, dir))
                .unwrap()
                .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".draft"))
                .count()
        };
        assert_eq!(left("/opt/install-dir") + left("/root/.ssh") + left("/run/landfall"), 0);
    }
}

#[test]
fn a_control_plane_that_has_been_started_is_left_alone() {
    let service = service(&config("one"));
    let setup = Setup::new(&service, |_| {});
    let host = live();
    start(&host, &setup.context(), &Cancel::default()).unwrap();
    put(&host, &format!("{OPENSHIFT}/.bootkube.done"), "");
    put(&host, "/usr/local/bin/bootkube.sh", "being run");
    start(&host, &setup.context(), &Cancel::default()).unwrap();
    assert!(path(&host, &format!("{OPENSHIFT}/.bootkube.done")).exists(), "it is this one's");
    assert_eq!(text(&host, "/usr/local/bin/bootkube.sh"), "being run");
}

#[test]
fn another_control_plane_is_stopped_and_its_signs_go() {
    let (old, new) = (service(&config("one")), service(&config("two")));
    let host = live();
    start(&host, &Setup::new(&old, |_| {}).context(), &Cancel::default()).unwrap();
    put(&host, &format!("{OPENSHIFT}/.bootkube.done"), "");
    put(&host, "/opt/install-dir/master-bootkube.ign", "old");
    host.did.lock().unwrap().clear();
    host.says("systemctl show -P ActiveState approve-csr.service", "x");
    host.says("systemctl show", "active");
    start(&host, &Setup::new(&new, |_| {}).context(), &Cancel::default()).unwrap();
    let stopped: Vec<_> = host.did().into_iter().filter(|did| did.contains(" stop ")).collect();
    assert_eq!(stopped, ["progress", "approve-csr", "bootkube"].map(|unit| format!("systemctl stop {unit}.service")));
    assert!(!path(&host, &format!("{OPENSHIFT}/.bootkube.done")).exists());
    assert!(!path(&host, "/opt/install-dir/master-bootkube.ign").exists());
    assert_eq!(text(&host, "/usr/local/bin/bootkube.sh"), "two");
}

#[test]
fn a_name_the_cluster_cannot_use_is_replaced() {
    let service = service(&config("one"));
    let setup = Setup::new(&service, |_| {});
    for name in ["localhost\n", "Node_1\n", ""] {
        let host = live();
        put(&host, "/proc/sys/kernel/hostname", name);
        start(&host, &setup.context(), &Cancel::default()).unwrap();
        let did = host.did();
        let set = did[3].strip_prefix("hostnamectl set-hostname random-hostname-").unwrap();
        assert_eq!((set.len(), set.as_bytes()[14]), (36, b'4'), "{set}");
        assert_eq!(did[4], "systemctl restart NetworkManager.service");
    }
}

#[test]
fn the_node_image_is_awaited_where_there_is_no_oc() {
    let service = service(&config("one"));
    let setup = Setup::new(&service, |_| {});
    let bare = || {
        let host = live();
        fs::remove_file(path(&host, "/usr/bin/oc")).unwrap();
        host
    };
    let host = bare();
    host.says("systemctl show -P ActiveState node-image-pull.service", "active");
    host.says("systemctl show -P ActiveState node-image-overlay.service", "failed");
    let error = start(&host, &setup.context(), &Cancel::default()).unwrap_err();
    assert!(matches!(error, BootstrapError::UnitFailed { unit: "node-image-overlay.service" }), "{error}");
    assert!(
        host.did().contains(&"systemctl start --no-block node-image-pull.service node-image-overlay.service".into())
    );
    assert!(!host.did().contains(&"systemctl start bootkube.service".into()));

    let host = bare();
    host.says("systemctl show", "active");
    let error = start(&host, &setup.context(), &Cancel::default()).unwrap_err();
    assert!(matches!(error, BootstrapError::NoOc { .. }), "{error}");

    let host = Arc::new(bare());
    host.says("systemctl show", "activating");
    let other = host.clone();
    let later = thread::spawn(move || {
        let asked = || other.did().iter().filter(|did| did.contains("node-image-pull")).count();
        let is_waited_for = testkit::wait::comes(|| asked() >= 4);
        put(&other, "/usr/bin/oc", "");
        other.says("systemctl show -P", "active");
        other.says("systemctl show", "active");
        assert!(is_waited_for);
    });
    start(&*host, &setup.context(), &Cancel::default()).unwrap();
    later.join().unwrap();

    let host = bare();
    host.says("systemctl show", "activating");
    let setup = Setup { pace: SLOW, ..Setup::new(&service, |_| {}) };
    ends_when_cancelled(
        || true,
        |cancel| matches!(start(&host, &setup.context(), cancel), Err(BootstrapError::Cancelled(_))),
    );
}

#[test]
fn a_file_that_the_service_still_makes_is_waited_for() {
    let asked = Shared::new(0);
    let (count, config) = (asked.clone(), config("one").to_string().leak() as &'static str);
    let service = FakeService::start(move |request| {
        count.change(|count| *count += 1);
        if count.get() < 4 { not_found(request) } else { Answer::Text(200, config) }
    });
    start(&live(), &Setup::new(&service, |_| {}).context(), &Cancel::default()).unwrap();
    assert_eq!(asked.get(), 4);

    for (status, waits) in [(404, true), (409, true), (401, false), (400, false)] {
        let service = FakeService::start(move |_| Answer::Status(status));
        let host = live();
        let pace = Pace { file_patience: Duration::from_secs(3), ..PACE };
        let setup = Setup { pace, ..Setup::new(&service, |_| {}) };
        let error = start(&host, &setup.context(), &Cancel::default()).unwrap_err();
        assert!(matches!(error, BootstrapError::Download { what: "bootstrap.ign", .. }), "{error}");
        assert_eq!(service.requests().len() > 1, waits, "{status}");
        assert_eq!(host.did(), [""; 0]);
    }
    let service = FakeService::start(not_found);
    let setup = Setup { pace: SLOW, ..Setup::new(&service, |_| {}) };
    ends_when_cancelled(
        || true,
        |cancel| matches!(start(&live(), &setup.context(), cancel), Err(BootstrapError::Cancelled(_))),
    );
}

#[test]
fn what_is_no_bootstrap_config_changes_nothing() {
    let mut no_credentials = config("one");
    no_credentials["storage"]["files"].as_array_mut().unwrap().remove(0);
    let mut bad_path = config("one");
    bad_path["storage"]["files"][2]["path"] = "relative".into();
    let html = "<html>login</html>";
    for (text, expected) in [
        (html.to_owned(), "is not an Ignition config"),
        ("data".to_owned(), "is not an Ignition config"),
        (bad_path.to_string(), "is not a valid Ignition config"),
        (no_credentials.to_string(), "has no file /root/.docker/config.json"),
    ] {
        let text: &'static str = text.leak();
        let service = FakeService::start(move |_| Answer::Text(200, text));
        let host = live();
        let error = start(&host, &Setup::new(&service, |_| {}).context(), &Cancel::default()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(host.did(), [""; 0]);
        assert_eq!(super::text(&host, "/etc/there"), "old");
    }
}

#[test]
fn a_config_that_cannot_be_applied_is_tried_three_times() {
    let mut config = config("one");
    config["storage"]["files"][3]["path"] = "/etc/passwd/below-a-file".into();
    let service = service(&config);
    let error = start(&live(), &Setup::new(&service, |_| {}).context(), &Cancel::default()).unwrap_err();
    assert!(matches!(error, BootstrapError::Apply { attempt: 3, attempts: 3, .. }), "{error}");
}

/// Where a run of this very program is to be made a bootstrap host, when it is one that will be killed.
const KILLED: &str = "LANDFALL_TEST_BOOTSTRAP_SERVICE";

/// All files of a tree with their modes and contents, but for keys and what has them in it.
fn tree(root: &std::path::Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let (mut found, mut pending) = (Vec::new(), vec![root.to_owned()]);
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let has_key = name.to_string_lossy().contains("id_rsa") || name.to_string_lossy().contains("master-ssh");
            if metadata.is_dir() {
                pending.push(path);
            } else {
                let text = if metadata.is_symlink() || has_key { Vec::new() } else { fs::read(&path).unwrap() };
                found.push((name, metadata.permissions().mode(), text));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_run_that_is_killed_at_any_moment_is_made_good_by_the_next() {
    if let Ok(url) = std::env::var(KILLED) {
        // Its root is in a directory of the parent's.
        let host = live();
        let service = json!({"url": url, "token": "t0ken: '\"#", "insecure": true});
        let service: ServiceDocument = serde_json::from_value(service).unwrap();
        let client = Client::new(&service.client_config(), RetryPolicy::Never).unwrap();
        let parent = FakeService::start(not_found);
        let setup = Setup { service, client, ..Setup::new(&parent, |_| {}) };
        fs::write(std::env::temp_dir().join("begins"), "").unwrap();
        let _ = start(&host, &setup.context(), &Cancel::default());
        thread::sleep(testkit::wait::LIMIT);
    }
    let mut config = config("one");
    // Enough for a killer to hit them.
    let files = config["storage"]["files"].as_array_mut().unwrap();
    files.extend((0..60).map(|n| json!({"path": format!("/etc/many/{n}"), "contents": {"source": data("x")}})));
    let service = service(&config);
    let setup = Setup::new(&service, |_| {});
    let whole = live();
    start(&whole, &setup.context(), &Cancel::default()).unwrap();
    let whole = tree(whole.root.path());
    let mut torn = 0;
    // Whether one is killed in the middle of its work is chance.
    for round in 0..200 {
        if round >= 8 && torn > 0 {
            break;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let test = own_test(module_path!(), "a_run_that_is_killed_at_any_moment_is_made_good_by_the_next");
        child.args(["--exact", &test, "--nocapture"]);
        child.env(KILLED, &service.url).env("TMPDIR", dir.path()).stdout(std::process::Stdio::null());
        let mut child = child.spawn().unwrap();
        while !dir.path().join("begins").exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it began");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(2 * (round % 8)));
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
        let host = live();
        fs::remove_dir_all(host.root.path()).unwrap();
        fs::rename(killed.unwrap(), host.root.path()).unwrap();
        torn += usize::from(tree(host.root.path()) != whole);
        start(&host, &setup.context(), &Cancel::default()).unwrap();
        let after = tree(host.root.path());
        let drafts = after.iter().filter(|(name, ..)| name.to_string_lossy().contains("/.landfall-")).count();
        assert!(drafts <= 1, "of the file it was killed in");
        let after: Vec<_> =
            after.into_iter().filter(|(name, ..)| !name.to_string_lossy().contains("/.landfall-")).collect();
        assert_eq!(after.len(), whole.len(), "round {round}");
        assert!(after == whole, "round {round}");
        assert_eq!(host.did().last().unwrap(), "systemctl start progress.service");
    }
    assert!(torn > 0, "none was killed in the middle of its work");
}
