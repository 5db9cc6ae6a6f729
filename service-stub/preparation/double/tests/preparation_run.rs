//! Runs of the double: what comes of them, and what is left of them.
#![allow(clippy::unwrap_used)]

use api::{ClusterId, Secret};
use ignition::data_url;
use installer_double::{Behaviour, Call, Double, Fault};
use preparation::{
    Bounds, DirectoryError, Files, Folder, Job, Manifest, Node, NodeSettings, Phase, PreparationError, ProgramError,
    Source, clean, run,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use testkit::wait;

const BUILT: &str = env!("CARGO_BIN_EXE_openshift-install-double");
const MINUTE_MS: u64 = 60_000;
/// Where a test wants this file's test to run.
const ELSEWHERE: &str = "PREPARATION_RUN_DIRECTORY";

/// A double, and a place for its runs.
struct Stage {
    directory: TempDir,
    double: Double,
    bounds: Bounds,
}

impl Stage {
    fn new(faults: Vec<Fault>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let behaviour = Behaviour { faults, ..Behaviour::default() };
        let double = Double::place(Path::new(BUILT), directory.path(), &behaviour).unwrap();
        Self { directory, double, bounds: Bounds { time: Duration::from_secs(600), directory_bytes: 1 << 30 } }
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    fn run(&self, job: &Job) -> Result<Files, PreparationError> {
        self.run_until(job, &|| false)
    }

    /// Whatever comes, nothing is left.
    fn run_until(&self, job: &Job, stop: &dyn Fn() -> bool) -> Result<Files, PreparationError> {
        let result = run(job, self.double.program(), &self.work(), &self.bounds, stop, &mut |_| {});
        assert_eq!(fs::read_dir(self.work()).unwrap().count(), 0, "{result:?}");
        for call in self.calls() {
            assert!(!has_running(&call), "{call:?}");
        }
        result
    }

    fn refused(&self, job: &Job) -> String {
        kernel::in_full(&self.run(job).unwrap_err())
    }

    fn calls(&self) -> Vec<Call> {
        self.double.calls().unwrap()
    }
}

/// Whether the double of a call, or another process of its group, still runs.
fn has_running(call: &Call) -> bool {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok()).any(|stat| {
        // After the program's name: state, parent, group.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[2] == call.pid.to_string() && !matches!(fields[0], "Z" | "X")
    })
}

fn install_config(masters: u32, workers: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "baseDomain": "example.com",
        "metadata": {"name": "lab"},
        "compute": [{"name": "worker", "replicas": workers}],
        "controlPlane": {"name": "master", "replicas": masters},
        "networking": {"networkType": "OVNKubernetes"},
        "platform": {"baremetal": {"hosts": [
            {"name": "m0", "role": "master", "bootMACAddress": "52:54:00:00:00:01"},
            {"name": "a0", "role": "arbiter", "bootMACAddress": "52:54:00:00:00:02"},
        ]}},
        "pullSecret": "{\"auths\": {\"quay.io\": {\"auth\": \"c2VjcmV0\"}}}",
        "sshKey": "ssh-ed25519 AAAA",
    })
}

fn job(install_config: &Value) -> Job {
    let replicas = |pointer: &str| install_config.pointer(pointer).and_then(Value::as_u64).unwrap();
    Job {
        cluster: ClusterId::random(),
        install_config: Secret::new(install_config.to_string()),
        openshift_version: "4.22.9".to_owned(),
        release_image: "registry.example.com/release@sha256:1".to_owned(),
        invoker: "landfall".to_owned(),
        bootstrap_address: Some("192.0.2.5".parse().unwrap()),
        platform: "baremetal".to_owned(),
        workers: usize::try_from(replicas("/compute/0/replicas")).unwrap(),
        manifests: Vec::new(),
        signers: None,
        nodes: NodeSettings {
            openshift_version: "4.22.9".to_owned(),
            single_node: replicas("/controlPlane/replicas") == 1,
            nodes: nodes(install_config),
            ..NodeSettings::default()
        },
    }
}

/// The hosts that the install-config names.
fn nodes(install_config: &Value) -> Vec<Node> {
    let hosts = install_config.pointer("/platform/baremetal/hosts").and_then(Value::as_array);
    let node = |host: &Value| Node {
        role: serde_json::from_value(host["role"].clone()).unwrap(),
        name: host["name"].as_str().unwrap().to_owned(),
        ..Node::default()
    };
    hosts.into_iter().flatten().map(node).collect()
}

fn user(folder: Folder, file: &str, content: &str) -> Manifest {
    Manifest { folder, file: file.to_owned(), content: content.into(), source: Source::User }
}

fn names(files: &Files) -> Vec<&str> {
    files.keys().map(String::as_str).collect()
}

fn config(files: &Files, name: &str) -> Value {
    serde_json::from_slice(&files[name]).unwrap()
}

/// The files that a config writes.
fn written(config: &Value) -> BTreeMap<String, Vec<u8>> {
    let file = |file: &Value| {
        let source = file["contents"]["source"].as_str().unwrap_or("data:,");
        (file["path"].as_str().unwrap().to_owned(), data_url::decode(source).unwrap().data.into_owned())
    };
    config["storage"]["files"].as_array().unwrap().iter().map(file).collect()
}

fn yaml(text: &[u8]) -> Value {
    serde_norway::from_slice(text).unwrap()
}

fn fault(command: &str) -> Fault {
    Fault { command: Some(command.to_owned()), ..Fault::default() }
}

#[test]
fn a_cluster_gets_its_files() {
    let stage = Stage::new(Vec::new());
    let config_text = install_config(3, 2);
    let mut job = job(&config_text);
    let openshift = Folder::Openshift;
    job.manifests = vec![
        user(openshift, "three.yaml", "a: 1\n---\nb: 0644\n---\nc: 3\n"),
        user(Folder::Manifests, "one.yml", "# kept\na: 1\n"),
        user(openshift, "empty.yaml", ""),
        user(Folder::Manifests, "cluster-network-02-config.yml", "kind: Ours\n"),
        user(Folder::Manifests, "cluster-scheduler-02-config.yml.patch_2", "[{op: test, path: /spec/x, value: 1}]"),
        user(openshift, "cluster-scheduler-02-config.yml.patch_1", "- {op: add, path: /spec/x, value: 1}"),
    ];
    let mut phases = Vec::new();
    let files =
        run(&job, stage.double.program(), &stage.work(), &stage.bounds, &|| false, &mut |phase| phases.push(phase))
            .unwrap();
    assert_eq!(phases, [Phase::Manifests, Phase::Additions, Phase::Ignition, Phase::Edits]);
    let expected = [
        "bootstrap.ign",
        "install-config.yaml",
        "kubeadmin-password",
        "kubeconfig-noingress",
        "master.ign",
        "metadata.json",
        "worker.ign",
    ];
    assert_eq!(names(&files), expected);
    assert_eq!(files["install-config.yaml"], config_text.to_string().as_bytes());
    let bootstrap = written(&config(&files, "bootstrap.ign"));
    let own = |name: &str| yaml(&bootstrap[&format!("/opt/openshift/manifests/{name}")]);
    assert_eq!(own("cvo-overrides.yaml")["spec"]["clusterID"], config(&files, "metadata.json")["clusterID"]);
    assert_eq!(own("cluster-network-02-config.yml"), json!({"kind": "Ours"}));
    assert_eq!(own("cluster-scheduler-02-config.yml")["spec"]["x"], 1);
    assert_eq!(own("cluster-infrastructure-02-config.yml")["status"]["infrastructureTopology"], "HighlyAvailable");
    assert_eq!(bootstrap["/opt/openshift/manifests/one.yml"], b"# kept\na: 1\n");
    let split = bootstrap.iter().filter(|(path, _)| path.contains("/openshift/three-"));
    let split: Vec<_> = split.map(|(path, content)| (&path[path.len() - 8..], yaml(content))).collect();
    assert_eq!(split, [("-00.yaml", json!({"a": 1})), ("-01.yaml", json!({"b": 420})), ("-02.yaml", json!({"c": 3}))]);
    assert!(
        !bootstrap.keys().any(|path| path.contains("patch") || path.contains("empty") || path.ends_with("three.yaml"))
    );

    let calls = stage.calls();
    let command = |command: &str, call: &Call| {
        let directory = call.directory.as_ref().unwrap();
        let run = directory.strip_prefix(stage.work()).unwrap().iter().next().unwrap().to_str().unwrap();
        assert!(run.starts_with(&format!("{}.", job.cluster)) && run.len() > 50, "{run}");
        assert_eq!(call.arguments, ["create", command, "--dir", directory.to_str().unwrap()]);
        directory.clone()
    };
    let [first, second] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(command("manifests", first), command("ignition-configs", second));
    assert_eq!((&first.install_config, &second.install_config), (&config_text, &Value::Null));
    assert_eq!(first.files, ["install-config.yaml"]);
    let environment = &first.environment;
    assert_eq!(environment["OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"], job.release_image);
    assert_eq!(environment["OPENSHIFT_INSTALL_INVOKER"], "landfall");
    assert_eq!(environment["OPENSHIFT_INSTALL_BOOTSTRAP_NODE_IP"], "192.0.2.5");
    for place in ["HOME", "TMPDIR"] {
        assert!(
            Path::new(&environment[place]).starts_with(first.directory.as_ref().unwrap().parent().unwrap()),
            "{place}"
        );
    }
    let known = |name: &str| name == "PATH" || name.to_lowercase().ends_with("_proxy");
    let others = environment.keys().filter(|name| !known(name) && !name.starts_with("OPENSHIFT_INSTALL_"));
    assert_eq!(others.collect::<Vec<_>>(), ["HOME", "TMPDIR"]);
}

#[test]
fn a_single_worker_does_not_make_the_infrastructure_single() {
    for (workers, expected) in [(0, "HighlyAvailable"), (1, "HighlyAvailable"), (2, "HighlyAvailable")] {
        let stage = Stage::new(Vec::new());
        let files = stage.run(&job(&install_config(3, workers))).unwrap();
        let bootstrap = written(&config(&files, "bootstrap.ign"));
        let infrastructure = yaml(&bootstrap["/opt/openshift/manifests/cluster-infrastructure-02-config.yml"]);
        assert_eq!(infrastructure["status"]["infrastructureTopology"], expected, "{workers}");
    }
}

#[test]
fn a_single_node_bootstraps_in_place() {
    let stage = Stage::new(Vec::new());
    let mut text = install_config(1, 0);
    text["platform"] = json!({"none": {}});
    assert!(stage.refused(&job(&text)).starts_with("Failed to create single node ignitions: error running"));
    text["bootstrapInPlace"] = json!({"installationDisk": "/dev/vda"});
    let files = stage.run(&job(&text)).unwrap();
    for role in ["master.ign", "worker.ign"] {
        assert_eq!(config(&files, role), json!({"ignition": {"version": "3.2.0"}}));
    }
    assert!(written(&config(&files, "bootstrap.ign")).contains_key("/opt/openshift/manifests/cvo-overrides.yaml"));
    assert_eq!(stage.calls().last().unwrap().arguments[1], "single-node-ignition-config");
}

#[test]
fn an_arbiter_has_its_config() {
    let stage = Stage::new(Vec::new());
    let mut text = install_config(2, 0);
    text["arbiter"] = json!({"name": "arbiter", "replicas": 1});
    let mut job = job(&text);
    job.nodes.has_arbiter = true;
    let files = stage.run(&job).unwrap();
    assert!(config(&files, "arbiter.ign").to_string().contains("/config/arbiter"));
    let bootstrap = written(&config(&files, "bootstrap.ign"));
    assert!(bootstrap.contains_key("/opt/openshift/openshift/99_openshift-cluster-api_arbiter_hosts-1.yaml"));
}

#[test]
fn platforms_make_no_machines() {
    let stage = Stage::new(Vec::new());
    let mut text = install_config(3, 2);
    text["platform"] = json!({"vsphere": {}});
    let mut job = job(&text);
    for (platform, expected) in [("vsphere", 0), ("external", 5)] {
        job.platform = platform.to_owned();
        let bootstrap = written(&config(&stage.run(&job).unwrap(), "bootstrap.ign"));
        let machines = bootstrap.keys().filter(|path| path.contains("-api_")).count();
        assert_eq!(machines, expected, "{platform}");
    }
}

#[test]
fn a_cluster_with_its_own_registry_is_looked_for_there() {
    let stage = Stage::new(Vec::new());
    let mut text = install_config(3, 2);
    text["imageDigestSources"] = json!([{"source": "quay.io/a", "mirrors": ["mirror.example.com/a"]}]);
    let mut job = job(&text);
    let set = "kind: ImageDigestMirrorSet\nmetadata: {name: m}\nspec: {imageDigestMirrors: [{mirrors: [r/b]}]}\n";
    let image = "kind: InternalReleaseImage\nmetadata: {name: cluster}\n";
    job.manifests = vec![user(Folder::Openshift, "set.yaml", set), user(Folder::Openshift, "image.yaml", image)];
    let bootstrap = written(&config(&stage.run(&job).unwrap(), "bootstrap.ign"));
    let mirrors = &yaml(&bootstrap["/opt/openshift/openshift/set.yaml"])["spec"]["imageDigestMirrors"][0]["mirrors"];
    assert_eq!(mirrors, &json!(["r/b", "api-int.lab.example.com:22625/b", "localhost:22625/b"]));
    let registries = String::from_utf8_lossy(&bootstrap["/etc/containers/registries.conf"]).into_owned();
    assert!(registries.contains("\"mirror.example.com/a\""), "{registries}");
}

#[test]
fn ready_made_keys_are_used() {
    let stage = Stage::new(Vec::new());
    let keys = stage.directory.path().join("keys");
    fs::create_dir_all(keys.join("folder")).unwrap();
    fs::write(keys.join("root-ca.crt"), "the authority").unwrap();
    symlink("/etc/passwd", keys.join("link")).unwrap();
    let mut job = job(&install_config(3, 2));
    job.signers = Some(keys.clone());
    let files = stage.run(&job).unwrap();
    let source =
        config(&files, "master.ign")["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"].clone();
    assert_eq!(&*data_url::decode(source.as_str().unwrap()).unwrap().data, b"the authority");
    let first = stage.calls().remove(0);
    assert_eq!(first.environment["OPENSHIFT_INSTALL_LOAD_CLUSTER_CERTS"], "true");
    assert_eq!(first.files, ["install-config.yaml", "tls", "tls/root-ca.crt"]);
    job.signers = Some(keys.join("missing"));
    stage.run(&job).unwrap();
}

#[test]
fn the_double_takes_configs_of_others() {
    let stage = Stage::new(Vec::new());
    let (base, replacement) = (stage.directory.path().join("base"), stage.directory.path().join("replacement"));
    let unit = json!({"name": "own.service", "contents": "[Service]\nExecStart=/bin/true\n"});
    fs::write(&base, json!({"ignition": {"version": "3.4.0"}, "systemd": {"units": [unit]}}).to_string()).unwrap();
    fs::write(&replacement, json!({"ignition": {"version": "3.1.0"}}).to_string()).unwrap();
    let behaviour = Behaviour {
        bases: [("bootstrap.ign".to_owned(), base)].into(),
        replacements: ["worker.ign", "kubeconfig"].map(|name| (name.to_owned(), replacement.clone())).into(),
        ..Behaviour::default()
    };
    stage.double.behave(&behaviour).unwrap();
    let files = stage.run(&job(&install_config(3, 2))).unwrap();
    let bootstrap = config(&files, "bootstrap.ign");
    assert_eq!(bootstrap["systemd"]["units"][0], unit);
    assert!(written(&bootstrap).contains_key("/opt/openshift/manifests/cvo-overrides.yaml"));
    let replaced = json!({"ignition": {"version": "3.1.0"}});
    assert_eq!(config(&files, "worker.ign"), replaced);
    assert_eq!(written(&bootstrap)["/opt/openshift/auth/kubeconfig"], replaced.to_string().into_bytes());
}

#[test]
fn the_double_logs_manifests_on_request() {
    let stage = Stage::new(Vec::new());
    stage.run(&job(&install_config(3, 2))).unwrap();
    stage.double.behave(&Behaviour { logs_manifests: true, ..Behaviour::default() }).unwrap();
    stage.run(&job(&install_config(3, 2))).unwrap();
    let logged: Vec<bool> = stage.calls().iter().map(|call| !call.manifests.is_empty()).collect();
    assert_eq!(logged, [false, false, false, true]);
    assert!(stage.calls()[3].manifests["manifests/cvo-overrides.yaml"].contains("clusterID"));
}

#[test]
fn a_failure_shows_the_begin_of_the_output() {
    let failing = |command: &str, output_chars| Fault { output_chars, exit_code: Some(4), ..fault(command) };
    for (command, output_chars, output) in
        [("manifests", 5000, format!("{} <TRUNCATED>", "x".repeat(500))), ("ignition-configs", 524, "x".repeat(524))]
    {
        let stage = Stage::new(vec![failing(command, output_chars)]);
        let expected = format!("error running openshift-install {command},  {output}: exit status 4");
        assert_eq!(stage.refused(&job(&install_config(3, 2))), expected);
    }
    let stage = Stage::new(vec![Fault { signal: Some(10), output: "before".to_owned(), ..fault("manifests") }]);
    let expected = "openshift-install create manifests was ended by SIGUSR1; its output: before";
    assert_eq!(stage.refused(&job(&install_config(3, 2))), expected);
}

#[test]
fn refused_configs_are_refused_as_by_the_real_program() {
    let stage = Stage::new(Vec::new());
    for (pointer, value, word) in [
        ("/apiVersion", json!("v2"), "apiVersion"),
        ("/baseDomain", json!(""), "baseDomain"),
        ("/metadata/name", json!(null), "metadata.name"),
        ("/pullSecret", json!("text"), "pullSecret"),
        ("/platform", json!({"tin": {}}), "platform"),
        ("/controlPlane/replicas", json!(0), "controlPlane.replicas"),
    ] {
        let good = install_config(3, 2);
        let mut job = job(&good);
        let mut bad = good;
        *bad.pointer_mut(pointer).unwrap() = value;
        job.install_config = Secret::new(bad.to_string());
        let refused = stage.refused(&job);
        assert!(refused.contains(word) && refused.ends_with(": exit status 3"), "{refused}");
        assert!(!refused.contains("c2VjcmV0"), "{refused}");
    }
    let mut odd = install_config(3, 2);
    odd["oddity"] = json!(1);
    stage.run(&job(&odd)).unwrap();
}

#[test]
fn a_cancelled_run_leaves_nothing() {
    let slow =
        Fault { sleep_before_ms: MINUTE_MS, ignores_sigterm: true, has_child: true, ..fault("ignition-configs") };
    let stage = Stage::new(vec![slow]);
    let result = stage.run_until(&job(&install_config(3, 2)), &|| stage.calls().len() == 2);
    assert!(matches!(result, Err(PreparationError::Cancelled)), "{result:?}");
    let result = stage.run_until(&job(&install_config(3, 2)), &|| true);
    assert!(matches!(result, Err(PreparationError::Cancelled)), "{result:?}");
    assert_eq!(stage.calls().len(), 2);
}

#[test]
fn what_an_installer_may_take_is_bounded() {
    let slow = || Fault { sleep_within_ms: MINUTE_MS, ..fault("manifests") };
    let job = job(&install_config(3, 2));
    let mut stage = Stage::new(vec![slow()]);
    stage.bounds.time = Duration::from_millis(300);
    let result = stage.run(&job);
    assert!(matches!(result, Err(PreparationError::Program(ProgramError::TookTooLong { .. }))), "{result:?}");
    for fault in [Fault { fill_bytes: 8 << 20, ..slow() }, Fault { fill_bytes: 8 << 20, ..fault("manifests") }] {
        let mut stage = Stage::new(vec![fault]);
        stage.bounds.directory_bytes = 4 << 20;
        let result = stage.run(&job);
        assert!(matches!(result, Err(PreparationError::Program(ProgramError::TooManyBytes { .. }))), "{result:?}");
    }
    let stage = Stage::new(vec![Fault { fill_files: 5000, ..slow() }]);
    let result = stage.run(&job);
    assert!(matches!(result, Err(PreparationError::Program(ProgramError::TooManyFiles { .. }))), "{result:?}");
}

#[test]
fn planted_links_are_not_followed() {
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("secret"), "secret").unwrap();
    let link = |command, name: &str, target: PathBuf| {
        Stage::new(vec![Fault { links: [(name.to_owned(), target)].into(), ..fault(command) }])
    };
    let mut job = job(&install_config(3, 1));
    job.manifests = vec![user(Folder::Openshift, "secret", "ours")];
    let stage = link("ignition-configs", "bootstrap.ign", elsewhere.path().join("secret"));
    let result = stage.run(&job);
    assert!(matches!(result, Err(PreparationError::Directory(DirectoryError::Link { .. }))), "{result:?}");
    assert!(link("manifests", "openshift", elsewhere.path().to_owned()).run(&job).is_err());
    assert!(link("ignition-configs", "auth", elsewhere.path().to_owned()).run(&job).is_err());
    // A link of a manifest's name is replaced.
    link("manifests", "openshift/secret", elsewhere.path().join("secret")).run(&job).unwrap();
    assert_eq!(fs::read_to_string(elsewhere.path().join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

#[test]
fn unusable_results_are_named() {
    for (name, content, expected) in [
        ("bootstrap.ign", "text", "bootstrap.ign, which openshift-install made, is not usable: config is not valid"),
        ("worker.ign", "{}", "worker.ign, which openshift-install made, is not usable: "),
        ("metadata.json", "{", "metadata.json, which openshift-install made, is not usable: "),
    ] {
        let contents = [(name.to_owned(), content.to_owned())].into();
        let stage = Stage::new(vec![Fault { contents, ..fault("ignition-configs") }]);
        let refused = stage.refused(&job(&install_config(3, 2)));
        assert!(refused.starts_with(expected), "{refused}");
    }
}

#[test]
fn a_program_that_cannot_start_is_named() {
    let mut stage = Stage::new(Vec::new());
    let job = job(&install_config(3, 2));
    fs::remove_file(stage.double.program()).unwrap();
    let refused = stage.refused(&job);
    assert!(refused.contains("openshift-install can't be started: No such file"), "{refused}");
    fs::write(stage.double.program(), "#!/missing/interpreter\n").unwrap();
    let refused = stage.refused(&job);
    assert!(refused.contains("can't be started: Permission denied"), "{refused}");
    fs::set_permissions(stage.double.program(), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = stage.refused(&job);
    assert!(refused.contains("can't be started: this machine lacks the interpreter that it names"), "{refused}");
    stage = Stage::new(Vec::new());
    let mut job = job;
    job.manifests = vec![user(Folder::Manifests, "../../x.yaml", "a: 1")];
    assert!(stage.refused(&job).contains("is not the name of a manifest"));
}

/// The process of [`nothing_outlives_a_killed_process`].
#[test]
fn a_run_for_a_process_that_is_killed() {
    let Some(directory) = env::var_os(ELSEWHERE).map(PathBuf::from) else { return };
    let bounds = Bounds { time: Duration::from_secs(600), directory_bytes: 1 << 30 };
    let program = directory.join(installer_double::NAME);
    let _ = run(&job(&install_config(3, 2)), &program, &directory.join("work"), &bounds, &|| false, &mut |_| {});
}

#[test]
fn nothing_outlives_a_killed_process() {
    let stage = Stage::new(vec![Fault { sleep_before_ms: MINUTE_MS, ignores_sigterm: true, ..fault("manifests") }]);
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_run_for_a_process_that_is_killed"])
        .env(ELSEWHERE, stage.directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let called = wait::comes(|| {
        assert!(process.try_wait().unwrap().is_none());
        !stage.calls().is_empty()
    });
    assert!(called);
    process.kill().unwrap();
    process.wait().unwrap();
    let call = stage.calls().remove(0);
    assert!(wait::comes(|| !has_running(&call)));
    assert_eq!(fs::read_dir(stage.work()).unwrap().count(), 1);
    clean(&stage.work()).unwrap();
    assert_eq!(fs::read_dir(stage.work()).unwrap().count(), 0);
}

#[test]
fn the_double_answers_by_itself() {
    let stage = Stage::new(vec![Fault { output: "odd ".to_owned(), ..fault("version") }]);
    let link = stage.directory.path().join("ln_0000-00_openshift-install");
    fs::hard_link(stage.double.program(), &link).unwrap();
    let version = Command::new(&link).arg("version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("odd openshift-install 4."), "{version:?}");
    fs::write(stage.directory.path().join("agent-config.yaml"), "rendezvousIP: 192.0.2.9\n").unwrap();
    let agent = |directory: &Path| {
        let arguments = ["agent", "create", "unconfigured-ignition", "--dir"];
        Command::new(stage.double.program()).args(arguments).arg(directory).output().unwrap()
    };
    assert!(agent(stage.directory.path()).status.success());
    let made: Value =
        serde_json::from_slice(&fs::read(stage.directory.path().join("unconfigured-agent.ign")).unwrap()).unwrap();
    assert_eq!(written(&made)["/etc/assisted/rendezvous-host.env"], b"NODE_ZERO_IP=192.0.2.9\n");
    fs::write(stage.directory.path().join("agent-config.yaml"), "hosts: []\n").unwrap();
    assert!(String::from_utf8_lossy(&agent(stage.directory.path()).stderr).contains("hosts"));
    let unknown = Command::new(stage.double.program()).args(["destroy", "cluster"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(stage.calls().len(), 4);
}
