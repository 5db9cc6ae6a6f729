//! What the service's shape contains, and under which conditions.

use super::*;
use crate::data_url;
use api::Proxy;
use std::{collections::BTreeMap, fs, path::Path, process::Command};
use testkit::tree::put;

fn discovery() -> Discovery {
    Discovery {
        service_url: "https://service:8090/a%20b".into(),
        agent_version: "quay.io/agent:latest".into(),
        ..Discovery::default()
    }
}

fn content(config: &Document<'_>, path: &str) -> String {
    let file = config.storage.files.iter().find(|file| file.path == path).unwrap();
    String::from_utf8(data_url::decode(file.contents.source.as_deref().unwrap()).unwrap().data.into_owned()).unwrap()
}

fn unit<'c>(config: &'c Document<'_>, name: &str) -> &'c str {
    config.systemd.units.iter().find(|unit| unit.name == name).unwrap().contents.as_deref().unwrap()
}

/// Names of units, and paths of files with their modes.
fn shape(config: &Document<'_>) -> (Vec<String>, BTreeMap<String, i64>) {
    let units = config.systemd.units.iter().map(|unit| unit.name.to_string()).collect();
    (units, config.storage.files.iter().map(|file| (file.path.to_string(), file.mode.unwrap())).collect())
}

#[test]
fn each_condition_adds_its_own() {
    let (discovery, plain) = (discovery(), Assisted::default());
    let (units, files) = shape(&build(&discovery, &plain).unwrap());
    assert_eq!(
        units,
        ["agent.service", "selinux.service", "multipathd.service", "iscsistart.service", "oci-eval-user-data.service"]
    );
    assert_eq!(files.len(), 8);
    let added = |discovery: &Discovery, assisted: &Assisted| {
        let (all_units, all_files) = shape(&build(discovery, assisted).unwrap());
        let units: Vec<_> = all_units.into_iter().filter(|unit| !units.contains(unit)).collect();
        let files: Vec<_> = all_files.into_iter().filter(|(path, _)| !files.contains_key(path)).collect();
        let files: Vec<_> = files.into_iter().map(|(path, mode)| format!("{path} {mode:o}")).collect();
        [units, files].concat().join(", ")
    };
    let text = || Some("PEM".to_owned());
    let ca = Discovery { ca_pem: text(), ..discovery.clone() };
    assert_eq!(added(&ca, &plain), "/etc/assisted-service/service-ca-cert.crt 644");
    let proxy = Proxy { http_proxy: Some("http://p".into()), ..Proxy::default() };
    let proxied = Discovery { proxy, ..discovery.clone() };
    assert_eq!(added(&proxied, &plain), "/etc/profile.d/proxy.sh 1204");
    let with = |assisted: Assisted| added(&discovery, &assisted);
    assert_eq!(
        with(Assisted { company_ca_pem: text(), ..plain.clone() }),
        "/etc/pki/ca-trust/source/anchors/rh-it-root-ca.crt 644"
    );
    assert_eq!(
        with(Assisted { trust_bundle_pem: text(), ..plain.clone() }),
        "/etc/pki/ca-trust/source/anchors/assisted-infraenv-additional-trust-bundle.pem 644"
    );
    let mirror = Mirror { registries_conf: "x".into(), ca_pem: text(), policy_json: text() };
    assert_eq!(
        with(Assisted { mirror: Some(mirror), ..plain.clone() }),
        "/etc/containers/policy.json 644, /etc/containers/registries.conf 644, \
         /etc/pki/ca-trust/source/anchors/domain.crt 644"
    );
    let ntp = Ntp { sources: vec!["a".into()], only: true };
    assert_eq!(
        with(Assisted { ntp: Some(ntp), ..plain.clone() }),
        "add-ntp-sources.service, /usr/local/bin/add-ntp-sources.sh 755"
    );
    assert_eq!(with(Assisted { ntp: Some(Ntp::default()), ..plain.clone() }), "");
    let network = StaticNetwork {
        flow: Flow::Policy,
        files: vec![NetworkFile {
            path: "/etc/assisted/network/host0/mac_interface.ini".into(),
            mode: 0o600,
            bytes: b"x".to_vec(),
        }],
        discovery_delay_s: 0,
    };
    assert_eq!(
        with(Assisted { static_network: Some(network), ..plain.clone() }),
        "pre-network-manager-config.service, /etc/assisted/network/host0/mac_interface.ini 600, \
         /usr/local/bin/common_network_script.sh 755, /usr/local/bin/pre-network-manager-config.sh 755"
    );
}

#[test]
fn the_agents_unit_says_all_of_the_service() {
    let proxy = Proxy { http_proxy: Some("http://u:a%20b@p".into()), https_proxy: None, no_proxy: Some("a, b".into()) };
    let discovery = Discovery {
        insecure: true,
        ca_pem: Some("PEM".into()),
        token: Some(Secret::new("a.b.c")),
        proxy,
        ssh_authorized_key: "ssh-rsa A".into(),
        ..discovery()
    };
    let assisted = Assisted { pull_secret: Secret::new("{}"), ..Assisted::default() };
    let config = build(&discovery, &assisted).unwrap();
    let agent = unit(&config, "agent.service");
    for line in [
        "Environment=HTTP_PROXY=http://u:a%%20b@p\n",
        "Environment=https_proxy=\n",
        "Environment=\"no_proxy=a, b\"\n",
        "Environment=PULL_SECRET_TOKEN=a.b.c\n",
        "TimeoutStartSec=600\n",
        "ExecStartPre=/usr/local/bin/agent-pull-image quay.io/agent:latest\n",
        "ExecStart=/usr/local/bin/agent --url https://service:8090/a%%20b --infra-env-id 00000000-0000-0000-0000-000000000000 \
         --agent-version quay.io/agent:latest --insecure=true --cacert /etc/assisted-service/service-ca-cert.crt\n",
    ] {
        assert!(agent.contains(line), "{line} in {agent}");
    }
    assert_eq!(content(&config, "/root/.docker/config.json"), "{}");
    assert_eq!(
        content(&config, "/etc/profile.d/proxy.sh"),
        "export HTTP_PROXY=http://u:a%20b@p\nexport http_proxy=http://u:a%20b@p\nexport NO_PROXY=\"a, b\"\nexport no_proxy=\"a, b\"\n"
    );
    let user = &config.passwd.users[0];
    assert_eq!((user.password_hash.as_deref(), &*user.groups[0]), (Some("!"), "sudo"));
    assert!(
        config
            .storage
            .files
            .iter()
            .all(|file| file.overwrite == Some(true) && file.user.name.as_deref() == Some("root"))
    );
}

#[test]
fn the_operators_override_comes_first_and_leaves_the_agent_alone() {
    let over = |mode: u32| {
        format!(r#"{{"ignition":{{"version":"3.2.0"}},"storage":{{"files":[{{"path":"/x","mode":{mode}}}]}}}}"#)
    };
    let discovery = Discovery { ignition_override: over(2), ..discovery() };
    let assisted = Assisted { internal_override: over(1), ..Assisted::default() };
    let config = build(&discovery, &assisted).unwrap();
    assert_eq!(config.systemd.units[0].enabled, Some(false));
    assert_eq!(config.storage.files.last().unwrap().mode, Some(2));
    assert_eq!(config.ignition.version, "3.2.0");
}

#[test]
fn what_no_unit_can_say_is_refused() {
    for (discovery, assisted, expected) in [
        (
            Discovery { agent_version: "a b".into(), ..discovery() },
            Assisted::default(),
            "the agent's image must be one word, without blanks, quotes, ';' and '\\': see byte 1",
        ),
        (
            Discovery { token: Some(Secret::new("hunter2\nx")), ..discovery() },
            Assisted::default(),
            "PULL_SECRET_TOKEN has a control character at byte 7; it must be one line of text",
        ),
        (
            discovery(),
            Assisted { ntp: Some(Ntp { sources: vec!["$(reboot)".into()], only: false }), ..Assisted::default() },
            "a time source must be a host's name or address; one of 9 characters is neither",
        ),
    ] {
        assert_eq!(build(&discovery, &assisted).unwrap_err().to_string(), expected);
    }
}

/// Runs a script of a config with bash; its standard output.
fn run(script: &Path, variables: &[(&str, &Path)]) -> (bool, String) {
    let output = Command::new("bash").arg(script).envs(variables.iter().copied()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn time_sources_are_added_once_or_stand_alone() {
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("chrony.conf");
    let before = "pool pool.example iburst\nmakestep 1.0 3\nserver a iburst\nrtcsync\n";
    for (only, expected) in [
        (false, "pool pool.example iburst\nserver a iburst\nrtcsync\nmakestep 1.0 -1\nserver b iburst\n"),
        (true, "rtcsync\nmakestep 1.0 -1\nserver a iburst\nserver b iburst\n"),
    ] {
        fs::write(&conf, before).unwrap();
        let script = dir.path().join("add");
        fs::write(&script, ntp_script(&Ntp { sources: vec!["a".into(), "b".into()], only }).unwrap()).unwrap();
        assert_eq!(run(&script, &[("CHRONY_CONF", &conf)]), (true, String::new()));
        assert_eq!(fs::read_to_string(&conf).unwrap(), expected);
    }
}

/// A root with these interfaces, with hosts' settings, and with programs that take no time or print how they were called.
fn live_root(interfaces: &[(&str, &str)], settings: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| put(dir.path(), path, text);
    for (name, mac) in interfaces {
        put(&format!("sys/class/net/{name}/address"), mac);
    }
    for (path, text) in settings {
        put(&format!("etc/assisted/network/{path}"), text);
    }
    put("common.sh", include_str!("files/common_network_script.sh"));
    for (name, script) in [("sleep", "#!/bin/sh\n"), ("nmstatectl", "#!/bin/sh\necho nmstatectl \"$@\"\n")] {
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        testkit::process::place(&dir.path().join("bin").join(name), script);
    }
    dir
}

fn configure(root: &Path, flow: Flow) -> (bool, String) {
    let script = root.join("script");
    let text = match flow {
        Flow::Keyfiles => include_str!("files/pre-network-manager-config-keyfiles.sh"),
        Flow::Policy => include_str!("files/pre-network-manager-config-nmpolicy.sh"),
    };
    fs::write(&script, text).unwrap();
    let path = format!("{}:{}", root.join("bin").display(), std::env::var("PATH").unwrap());
    run(&script, &[("PATH_PREFIX", root), ("COMMON_SCRIPT_PATH", &root.join("common.sh")), ("PATH", Path::new(&path))])
}

#[test]
fn keyfiles_get_the_names_that_interfaces_have() {
    let interfaces =
        [("lo", "00:00:00:00:00:00"), ("eth0", "52:54:00:00:00:02"), ("enp0s31f6abcd", "52:54:00:00:00:aa")];
    let root = live_root(
        &interfaces,
        &[
            ("host0/mac_interface.ini", "52:54:00:00:00:99=eth0\n"),
            ("host0/eth0.nmconnection", "[connection]\ninterface-name=eth0\n"),
            // What is eth0 here is called eth1 there, and the other way round.
            ("host1/mac_interface.ini", "52:54:00:00:00:02=eth1\n52:54:00:00:00:AA=eth0"),
            ("host1/eth0.nmconnection", "[connection]\nid=eth0\ninterface-name=eth0\nautoconnect=true"),
            ("host1/eth1.nmconnection", "[connection]\ninterface-name=eth1\n"),
            ("host1/eth0.1234.nmconnection", "[connection]\ninterface-name=eth0.1234\n[vlan]\nparent=eth0\n"),
            ("host1/bond0.nmconnection", "[connection]\ninterface-name=bond0\n"),
        ],
    );
    let connections = root.path().join("etc/NetworkManager/system-connections");
    fs::create_dir_all(&connections).unwrap();
    fs::write(connections.join("old"), "").unwrap();
    assert_eq!(configure(root.path(), Flow::Keyfiles), (true, "Network settings are those of host1\n".into()));
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&connections).unwrap() {
        let entry = entry.unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        found.insert(entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap());
    }
    let expected = [
        ("bond0.nmconnection", "[connection]\ninterface-name=bond0\n"),
        (
            "enp0s31f6a.1234.nmconnection",
            "[connection]\ninterface-name=enp0s31f6a.1234\n[vlan]\nparent=enp0s31f6abcd\n",
        ),
        (
            "enp0s31f6abcd.nmconnection",
            "[connection]\nid=enp0s31f6abcd\ninterface-name=enp0s31f6abcd\nautoconnect=true\n",
        ),
        ("eth0.nmconnection", "[connection]\ninterface-name=eth0\n"),
    ];
    assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
}

#[test]
fn policies_are_given_to_nmstate_and_strangers_are_left_alone() {
    let settings = [("host0/mac_interface.ini", "52:54:00:aa:00:01=eth0"), ("host0/ymlFile0.yml", "capture: {}\n")];
    let root = live_root(&[("ens3", "52:54:00:AA:00:01")], &settings);
    assert_eq!(
        configure(root.path(), Flow::Policy),
        (true, "Network settings are those of host0\nnmstatectl service\n".into())
    );
    assert!(root.path().join("etc/nmstate/ymlFile0.yml").exists());
    let root = live_root(&[("ens3", "52:54:00:AA:00:02")], &settings);
    for flow in [Flow::Policy, Flow::Keyfiles] {
        assert_eq!(configure(root.path(), flow), (true, String::new()));
    }
    assert!(!root.path().join("etc/nmstate").exists());
}
