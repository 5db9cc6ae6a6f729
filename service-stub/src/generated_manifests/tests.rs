//! What settings and hosts make of manifests, and what the manifests do on a node.

use super::*;
use crate::generated_manifests::{dnsmasq, iscsi, options::ManifestOptions};
use crate::manifest_files::Name;
use crate::model::{HostKey, InfraEnvRecord};
use crate::state::ClusterState;
use api::{Cluster, ClusterId, HostId, InfraEnv, InfraEnvId, MachineNetwork, Secret};
use ignition::data_url;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

const TANG: &str = r#"[{"url":"http://a:7500","thumbprint":"x"},{"URL":"http://b","Thumbprint":"y: z"}]"#;
const CONTROL_PLANE: [HostRole; 3] = [HostRole::Master; 3];
const WORKERS: [HostRole; 2] = [HostRole::Worker; 2];

/// A cluster with hosts of these roles.
struct World {
    cluster: ClusterRecord,
    hosts: Vec<Arc<HostRecord>>,
    model: Model,
    options: ManifestOptions,
    url: &'static str,
}

impl World {
    fn new(roles: &[HostRole]) -> Self {
        let network = MachineNetwork { cidr: "192.0.2.0/24".into(), cluster_id: None };
        let cluster = Cluster {
            id: ClusterId::random(),
            name: "lab".into(),
            base_dns_domain: "example.com".into(),
            control_plane_count: if roles.len() == 1 { 1 } else { 3 },
            machine_networks: vec![network],
            kind: "Cluster".into(),
            ..Cluster::default()
        };
        let cluster = ClusterRecord::new(ClusterState::Ready, cluster, Secret::default());
        let infra_env = InfraEnvId::random();
        let host = |role: &HostRole| {
            let mut record = HostRecord::new(
                HostKey { infra_env, host: HostId::random() },
                Some(cluster.cluster.id),
                Default::default(),
            );
            record.host.role = *role;
            let nic = json!({"name": "eth0", "ipv4_addresses": ["198.51.100.7/24", "192.0.2.7/24"]});
            record.set_inventory(json!({"interfaces": [nic]}).to_string());
            Arc::new(record)
        };
        let hosts = roles.iter().map(host).collect();
        Self { cluster, hosts, model: Model::default(), options: ManifestOptions::default(), url: "http://s:8090" }
    }

    fn set(mut self, name: &str, value: Value) -> Self {
        self.cluster.settings.insert(name.into(), value);
        self
    }

    fn host(&mut self, at: usize) -> &mut HostRecord {
        Arc::make_mut(&mut self.hosts[at])
    }

    fn all(&self) -> Vec<Generated> {
        generate(&self.cluster, &self.hosts, &self.model, &self.options, self.url)
    }

    fn files(&self) -> Vec<String> {
        self.all().into_iter().map(|own| own.file).collect()
    }

    fn manifest(&self, file: &str) -> Value {
        let found = self.all().into_iter().find(|own| own.file == file).unwrap_or_else(|| panic!("no {file}"));
        assert_eq!(found.folder, "openshift");
        serde_norway::from_str(&found.content).unwrap()
    }
}

/// The contents of the files in a config, by path, each with its mode.
fn contents(config: &Value) -> BTreeMap<String, (u64, String)> {
    let files = config["storage"]["files"].as_array().cloned().unwrap_or_default();
    let content = |file: &Value| {
        let data = data_url::decode(file["contents"]["source"].as_str().unwrap()).unwrap().data.into_owned();
        let mode = file["mode"].as_u64().unwrap();
        (file["path"].as_str().unwrap().to_owned(), (mode, String::from_utf8(data).unwrap()))
    };
    files.iter().map(content).collect()
}

#[test]
fn settings_and_hosts_decide_which_there_are() {
    let [chrony, iscsi] = ["chrony-configuration", "iscsi-nic-reapply"]
        .map(|what| ["master", "worker", "arbiter"].map(|role| format!("50-{role}s-{what}.yaml")));
    let patch = "cluster-scheduler-02-config.yml.patch_ai_set_masters_schedulable";
    let names = |between: &[&str], roles: usize| {
        let between = between.iter().map(|name| (*name).to_owned());
        chrony[..roles].iter().cloned().chain(between).chain(iscsi[..roles].iter().cloned()).collect::<Vec<_>>()
    };
    let full = [CONTROL_PLANE.as_slice(), &WORKERS].concat();
    let with_arbiter = [&full[..], &[HostRole::Arbiter]].concat();
    let lock = |enable_on: &str, mode: &str| json!({"enable_on": enable_on, "mode": mode, "tang_servers": TANG});
    for (world, expected) in [
        (World::new(&full), names(&[], 2)),
        (World::new(&with_arbiter), names(&[], 3)),
        (World::new(&CONTROL_PLANE), names(&[patch], 2)),
        (World::new(&full[..4]), names(&[patch], 2)),
        (World::new(&full).set("schedulable_masters", json!(true)), names(&[patch], 2)),
        (World::new(&full).set("schedulable_masters", json!(false)), names(&[], 2)),
        (World { url: "https://api.stage.openshift.com", ..World::new(&full) }, names(&["redirect-telemeter.yaml"], 2)),
        (World { url: "https://api.stage.openshift.com/", ..World::new(&full) }, names(&[], 2)),
        (
            World::new(&full).set("disk_encryption", lock("all", "tpmv2")),
            names(&["99-openshift-master-tpm-encryption.yaml", "99-openshift-worker-tpm-encryption.yaml"], 2),
        ),
        (
            World::new(&with_arbiter).set("disk_encryption", lock("arbiters,workers", "tang")),
            names(&["99-openshift-arbiter-tang-encryption.yaml", "99-openshift-worker-tang-encryption.yaml"], 3),
        ),
        (
            World::new(&full).set("disk_encryption", lock("arbiters,masters", "tang")),
            names(&["99-openshift-master-tang-encryption.yaml"], 2),
        ),
        (World::new(&full).set("disk_encryption", lock("none", "tpmv2")), names(&[], 2)),
    ] {
        assert_eq!(world.files(), expected);
    }
    let mut single = World::new(&[HostRole::Master]);
    assert_eq!(single.files(), names(&[patch], 2));
    single.options.single_node_dnsmasq = true;
    assert_eq!(single.files(), names(&["dnsmasq-bootstrap-in-place.yaml", patch], 2));
    single.host(0).set_inventory(String::new());
    assert_eq!(single.files(), names(&[patch], 2), "its address is not known");
    let mut several = World::new(&CONTROL_PLANE);
    several.options.single_node_dnsmasq = true;
    assert_eq!(several.files(), names(&[patch], 2));
}

#[test]
fn machine_configs_have_their_roles_and_configs_that_can_be_read() {
    let mut single = World::new(&[HostRole::Master])
        .set("disk_encryption", json!({"enable_on": "all", "mode": "tang", "tang_servers": TANG}));
    single.options.single_node_dnsmasq = true;
    let arbiters = World::new(&[CONTROL_PLANE.as_slice(), &[HostRole::Arbiter]].concat());
    for manifest in single.all().into_iter().chain(arbiters.all()) {
        let document: Value = serde_norway::from_str(&manifest.content).unwrap();
        if document["kind"] != "MachineConfig" {
            continue;
        }
        assert_eq!(document["apiVersion"], "machineconfiguration.openshift.io/v1");
        let role = document["metadata"]["labels"]["machineconfiguration.openshift.io/role"].as_str().unwrap();
        let name = document["metadata"]["name"].as_str().unwrap();
        let (of_role, of_file) = match manifest.file.as_str() {
            "dnsmasq-bootstrap-in-place.yaml" => (role == "master", name == "50-master-dnsmasq-configuration"),
            file if file.starts_with("50-") => (file.contains(role), file == format!("{name}.yaml")),
            file => (file.contains(role), name == format!("{role}-tang")),
        };
        assert!(of_role && of_file, "{} {name} {role}", manifest.file);
        let config = document["spec"]["config"].to_string();
        let (_, _, report) = ignition::parse(config.as_bytes()).unwrap();
        assert!(!report.is_fatal(), "{}: {report}", manifest.file);
    }
}

#[test]
fn disks_are_encrypted_with_the_lock_and_cipher_that_are_set() {
    let full = [CONTROL_PLANE.as_slice(), &WORKERS].concat();
    let mut world =
        World::new(&full).set("disk_encryption", json!({"enable_on": "workers", "mode": "tang", "tang_servers": TANG}));
    let tang = world.manifest("99-openshift-worker-tang-encryption.yaml");
    assert_eq!(tang["spec"]["kernelArguments"], json!(["rd.neednet=1"]));
    let luks = &tang["spec"]["config"]["storage"]["luks"][0];
    let servers = json!([{"url": "http://a:7500", "thumbprint": "x"}, {"url": "http://b", "thumbprint": "y: z"}]);
    assert_eq!(luks["clevis"], json!({"tang": servers}));
    assert_eq!(luks["options"], json!(["--cipher", "aes-cbc-essiv:sha256"]));
    world.options.disk_encryption_cipher = Some("aes-xts-plain64".into());
    world = world.set("disk_encryption", json!({"enable_on": "masters", "mode": "tpmv2"}));
    let tpm = world.manifest("99-openshift-master-tpm-encryption.yaml");
    assert_eq!(tpm["spec"]["kernelArguments"], Value::Null);
    let luks = &tpm["spec"]["config"]["storage"]["luks"][0];
    assert_eq!(luks["clevis"], json!({"tpm2": true}));
    assert_eq!(luks["options"], json!(["--cipher", "aes-xts-plain64"]));
    assert_eq!(tpm["spec"]["config"]["storage"]["filesystems"][0]["device"], "/dev/mapper/root");
}

#[test]
fn time_sources_are_those_of_all_hosts() {
    const HEAD: &str = "\npool 0.rhel.pool.ntp.org iburst\n";
    const SETTINGS: &str =
        "sourcedir /run/chrony-dhcp\ndriftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony";
    let conf = |world: &World| {
        let manifest = world.manifest("50-masters-chrony-configuration.yaml");
        assert_eq!(manifest["spec"]["config"]["storage"]["files"][0]["overwrite"], true);
        contents(&manifest["spec"]["config"])["/etc/chrony.conf"].clone()
    };
    let reports = |world: &mut World, at: usize, names: &[&str]| {
        let sources: Vec<_> =
            names.iter().map(|name| json!({"source_name": name, "source_state": "unreachable"})).collect();
        world.host(at).set_text("ntp_sources", Value::from(sources).to_string());
    };
    let mut world = World::new(&CONTROL_PLANE);
    assert_eq!(conf(&world), (0o644, format!("{HEAD}{SETTINGS}")));
    reports(&mut world, 0, &["b.example.com", "192.0.2.1"]);
    reports(&mut world, 1, &["b.example.com", "fd00::1", "evil\nserver x", "", "a b"]);
    let reported = "server b.example.com iburst\nserver 192.0.2.1 iburst\nserver fd00::1 iburst";
    assert_eq!(conf(&world).1, format!("{HEAD}{SETTINGS}\n{reported}"));

    let infra_env = InfraEnv { additional_ntp_sources: "c,192.0.2.1".into(), ..InfraEnv::default() };
    let infra_env = InfraEnvRecord { infra_env, ..InfraEnvRecord::default() };
    let key = world.hosts[0].host.infra_env_id;
    Arc::make_mut(&mut world.model.infra_envs).insert(key, Arc::new(infra_env));
    let with_own = "server b.example.com iburst\nserver 192.0.2.1 iburst\nserver c iburst\nserver fd00::1 iburst";
    assert_eq!(conf(&world).1, format!("{HEAD}{SETTINGS}\n{with_own}"));
    world = world.set("additional_ntp_source", json!("d"));
    assert_eq!(conf(&world).1, format!("{HEAD}{SETTINGS}\n{}", with_own.replace("server c", "server d")));
    world.cluster.settings.clear();
    world = world.set("ntp_sources", json!("e,f"));
    let only = with_own.replace("server c iburst", "server e iburst\nserver f iburst");
    assert_eq!(conf(&world).1, format!("\n{SETTINGS}\n{only}"));
}

#[test]
fn telemetry_of_trials_goes_elsewhere() {
    for (url, server) in [
        ("https://api.stage.openshift.com", "https://infogw.api.stage.openshift.com"),
        ("https://api.integration.openshift.com", "https://dummy.invalid"),
    ] {
        let world = World { url, ..World::new(&CONTROL_PLANE) };
        let manifest = world.manifest("redirect-telemeter.yaml");
        assert_eq!(
            manifest["metadata"],
            json!({"name": "cluster-monitoring-config", "namespace": "openshift-monitoring"})
        );
        let config: Value = serde_norway::from_str(manifest["data"]["config.yaml"].as_str().unwrap()).unwrap();
        assert_eq!(config, json!({"telemeterClient": {"telemeterServerURL": server}}));
    }
}

/// The script, with a directory in place of the root.
fn run(script: &str, root: &Path, words: &[&str], path: Option<&Path>) -> String {
    let root = root.display();
    let script = script.replace("/etc/", &format!("{root}/etc/")).replace("/run/", &format!("{root}/run/"));
    let mut command = Command::new("bash");
    command.args(["-c", &script, "script"]).args(words);
    if let Some(path) = path {
        command.env("PATH", format!("{}:{}", path.display(), std::env::var("PATH").unwrap()));
    }
    let output = command.output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn can_run(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|name| Command::new(name).arg("--version").output().is_err());
    if let Some(name) = missing {
        testkit::skip::because(format_args!("no {name}"));
    }
    missing.is_none()
}

#[test]
fn a_single_node_answers_for_its_names_and_asks_itself_first() {
    let mut single = World::new(&[HostRole::Master]);
    single.options.single_node_dnsmasq = true;
    let manifest = single.manifest("dnsmasq-bootstrap-in-place.yaml");
    let config = &manifest["spec"]["config"];
    let files = contents(config);
    let modes: Vec<_> = files.iter().map(|(path, (mode, _))| (path.as_str(), *mode)).collect();
    let expected = [
        ("/etc/NetworkManager/conf.d/single-node.conf", 0o644),
        ("/etc/NetworkManager/dispatcher.d/forcedns", 0o555),
        ("/usr/local/bin/dnsmasq_config.sh", 0o555),
    ];
    assert_eq!(modes, expected);
    assert_eq!(files[expected[0].0].1, "[main]\nrc-manager=unmanaged\n");
    let unit = &config["systemd"]["units"][0];
    assert_eq!((&unit["name"], &unit["enabled"]), (&json!("dnsmasq.service"), &json!(true)));
    let [names, dispatcher] = dnsmasq::scripts(&single.cluster, "192.0.2.7".parse().unwrap(), false);
    assert_eq!((&files[expected[2].0].1, &files[expected[1].0].1), (&names, &dispatcher));
    if !can_run(&["bash", "awk"]) {
        return;
    }

    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    for directory in ["etc/default", "etc/dnsmasq.d", "run/NetworkManager"] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    run(&names, root.path(), &[], None);
    let lines = |domain: &str, address: &str, names: &[&str]| {
        names.iter().map(|name| format!("address=/{name}.{domain}/{address}\n")).collect::<String>()
    };
    let plain = ["apps", "api-int", "api"];
    assert_eq!(read("etc/dnsmasq.d/single-node.conf"), lines("lab.example.com", "192.0.2.7", &plain));
    let [with_dashboard, _] = dnsmasq::scripts(&single.cluster, "fd00::7".parse().unwrap(), true);
    run(&with_dashboard, root.path(), &[], None);
    let all = ["apps", "api-int", "api", "rhods-dashboard-redhat-ods-applications.apps"];
    assert_eq!(read("etc/dnsmasq.d/single-node.conf"), lines("lab.example.com", "fd00::7", &all));

    let given = "# made\nsearch a.example lab.example.com b.example\nnameserver 192.0.2.53\nnameserver 192.0.2.54\n";
    let source = at("run/NetworkManager/resolv.conf");
    fs::write(&source, given).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
    run(&dispatcher, root.path(), &["eth0", "down"], None);
    assert!(!at("etc/resolv.conf").exists(), "nothing that concerns names has happened");
    for event in ["up", "dhcp4-change", "dhcp6-change", "connectivity-change"] {
        let _ = fs::remove_file(at("etc/resolv.conf"));
        run(&dispatcher, root.path(), &["eth0", event], None);
        let expected = "# made\nsearch lab.example.com a.example b.example\nnameserver 192.0.2.7\nnameserver 192.0.2.53\nnameserver 192.0.2.54\n";
        assert_eq!(read("etc/resolv.conf"), expected, "{event}");
    }
    assert_eq!(fs::metadata(at("etc/resolv.conf")).unwrap().permissions().mode() & 0o777, 0o640);
    let overrides = "SNO_CLUSTER_NAME_OVERRIDE=new\nSNO_BASE_DOMAIN_OVERRIDE=test\nSNO_DNSMASQ_IP_OVERRIDE=192.0.2.9\n";
    fs::write(at("etc/default/sno_dnsmasq_configuration_overrides"), overrides).unwrap();
    fs::write(&source, "search a\n").unwrap();
    run(&names, root.path(), &[], None);
    assert_eq!(read("etc/dnsmasq.d/single-node.conf"), lines("new.test", "192.0.2.9", &plain));
    run(&dispatcher, root.path(), &["eth0", "up"], None);
    assert_eq!(read("etc/resolv.conf"), "search new.test a\nnameserver 192.0.2.9\n");
    let left: Vec<_> = fs::read_dir(at("etc")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn connections_are_applied_again_where_the_root_is_on_iscsi() {
    let command = iscsi::UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=-/bin/sh -c '")).unwrap();
    let command = command.strip_suffix('\'').unwrap();
    assert!(!command.contains(['$', '%', '\'']), "systemd would expand them");
    let command = command.replace(r"\\", "\\");
    if !can_run(&["bash", "jq"]) {
        return;
    }
    let part = |mounted: &str| json!({"name": "p", "tran": null, "mountpoints": [mounted]});
    let disk = |tran: Value, children: Value| {
        json!({"blockdevices": [
        {"name": "sr0", "tran": "sata", "mountpoints": [null]},
        {"name": "sda", "tran": tran, "mountpoints": [null], "children": children}]})
    };
    let multipath = |mounted: &str| json!([{"name": "mpatha", "tran": null, "mountpoints": [null], "children": [part("/boot"), part(mounted)]}]);
    for (disks, applied) in [
        (disk(json!("iscsi"), json!([part("/boot"), part("/sysroot")])), true),
        (disk(json!("iscsi"), multipath("/sysroot")), true),
        (disk(json!("iscsi"), multipath("/var")), false),
        (disk(json!("iscsi"), json!([part("/var")])), false),
        (disk(json!("nvme"), json!([part("/sysroot")])), false),
        (disk(json!(null), multipath("/sysroot")), false),
        (json!({"blockdevices": [{"name": "sda", "tran": "iscsi", "mountpoints": [null]}]}), false),
    ] {
        let root = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            testkit::process::place(&root.path().join(name), format!("#!/bin/sh\n{text}\n"));
        };
        fs::write(root.path().join("disks"), disks.to_string()).unwrap();
        program("lsblk", &format!("cat {}/disks", root.path().display()));
        let log = root.path().join("log");
        program(
            "nmcli",
            &format!("case \"$*\" in *status) echo eth0; echo bond0 ;; *) echo \"$*\" >> {} ;; esac", log.display()),
        );
        run(&command, root.path(), &[], Some(root.path()));
        let done = fs::read_to_string(&log).unwrap_or_default();
        let expected = if applied { "device reapply eth0\ndevice reapply bond0\n" } else { "" };
        assert_eq!(done, expected, "{disks}");
    }
}

#[test]
fn a_ready_made_bootstrap_has_what_the_first_boot_needs() {
    let full = [CONTROL_PLANE.as_slice(), &WORKERS].concat();
    let world = World::new(&full).set("schedulable_masters", json!(true));
    let generated = world.all();
    let name = |file: &str| Name::parse("openshift", file).unwrap();
    let users = [
        (name("one.yaml"), b"# mine\nkind: MachineConfig\n".to_vec()),
        (
            name("three.yaml"),
            b"---\n---\nkind: MachineConfig\nmetadata: {name: a}\n---\nkind: ConfigMap\n---\nkind: MachineConfig\n"
                .to_vec(),
        ),
        (name("other.yaml"), b"kind: ConfigMap\ndata: {x: MachineConfig}\n".to_vec()),
        (name("bad.yaml"), b"kind: MachineConfig\n}".to_vec()),
        (name("one.yaml.patch_1"), b"[{op: remove, path: /kind, value: MachineConfig}]".to_vec()),
    ];
    let scheduler = |folder: &str, encoded: &str| {
        let path = format!("/opt/openshift/{folder}/cluster-scheduler-02-config.yml");
        json!({"path": path, "mode": 384, "contents": {"source": encoded}})
    };
    let object = data_url::base64(b"kind: Scheduler\nspec:\n  mastersSchedulable: false\n  policy: {name: x}\n");
    let old = json!({"path": "/opt/openshift/openshift/one.yaml", "mode": 420, "contents": {"source": "data:,old"}});
    let own = json!({"path": "/opt/openshift/openshift/50-masters-chrony-configuration.yaml", "mode": 420, "contents": {"source": "data:,own"}});
    let config =
        json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [old, own, scheduler("manifests", &object)]}});
    let config = config.to_string().into_bytes();
    assert_eq!(with_manifests(config.clone(), &[], &users[2..]).unwrap(), config, "nothing to put in");
    let once = with_manifests(config.clone(), &generated, &users).unwrap();
    assert_eq!(with_manifests(once.clone(), &generated, &users).unwrap().len(), once.len());
    let (_, _, report) = ignition::parse(&once).unwrap();
    assert!(!report.is_fatal(), "{report}");
    let files = contents(&serde_json::from_slice(&once).unwrap());
    let paths: Vec<&str> = files.keys().map(|path| path.strip_prefix("/opt/openshift/").unwrap()).collect();
    assert_eq!(
        paths,
        [
            "manifests/cluster-scheduler-02-config.yml",
            "openshift/50-masters-chrony-configuration.yaml",
            "openshift/50-masters-iscsi-nic-reapply.yaml",
            "openshift/50-workers-chrony-configuration.yaml",
            "openshift/50-workers-iscsi-nic-reapply.yaml",
            "openshift/one.yaml",
            "openshift/three-00.yaml",
            "openshift/three-02.yaml",
        ]
    );
    let content = |path: &str| files[&format!("/opt/openshift/{path}")].1.as_str();
    assert_eq!(content("openshift/one.yaml"), "# mine\nkind: MachineConfig\n", "a user's replaces, word for word");
    assert_eq!(content("openshift/50-masters-chrony-configuration.yaml"), "own", "a generated one does not");
    let patched: Value = serde_norway::from_str(content("manifests/cluster-scheduler-02-config.yml")).unwrap();
    assert_eq!(patched["spec"], json!({"mastersSchedulable": true, "policy": {"name": "x"}}));

    for (config, has) in [
        (config.as_slice(), true),
        (br#"{"ignition":{"version":"3.2.0"}}"#, false),
        (b"[]", false),
        (b"{\"storage\":7}", false),
        (b"", false),
    ] {
        assert_eq!(has_scheduler(config), has);
    }
    assert!(with_manifests(b"[]".to_vec(), &generated, &[]).is_err());
}
