//! Every role of a cluster with a control plane: a bootstrap host with two more masters and a worker, and a single node that bootstraps in
//! place. The API server is a real one, before which a stand-in is, and the controller in the cluster is ours. The service makes the
//! install-time files, with a double of `openshift-install`. On the way, the effect of a cut cable on the mesh, an installation that survives
//! a kill of the service, and an image whose server stops while it is written, and comes back.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;

use api::{Host, HostId, HostRole, HostStage, Timestamp};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use common::{LIMIT, finish_installation, ok, rack_with_control_plane, start_installation, turn};
use qemu_tests::{
    images::{Compression, Drivers, SectorSize},
    media,
    rack::{NodeFacts, Rack, sha256},
    stand_in::{MACHINE_CONFIG_NAMESPACE, ROLE_FILE, Role, cluster_files::ControlPlane, rendered_name},
    switch::Link,
    table,
    view::HostView,
    vm::Bus,
};
use serde_json::{Value, json};
use simulator::{ApiServer, Client, Cluster, Recorded, certificates};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread::{self, sleep},
    time::{Duration, Instant},
};

/// All that the controller of a single node tells the service.
const SINGLE_NODE_CHANGES: [&str; 14] = [
    r#"PUT infra-envs/hosts/progress "Joined""#,
    r#"PUT infra-envs/hosts/progress "Done""#,
    r#"PUT clusters/progress "Waiting for cluster operators""#,
    PROGRESSING,
    r#"PUT clusters/monitored-operators "available""#,
    r#"PUT clusters/progress "Adding router ca""#,
    "POST clusters/uploads/ingress-cert",
    r#"PUT clusters/progress "Waiting for olm operators csv initialization""#,
    r#"PUT clusters/progress "Done""#,
    "POST clusters/actions/complete-installation true",
    r#"PUT clusters/logs-progress "requested""#,
    "POST clusters/logs",
    r#"PUT clusters/logs-progress "completed""#,
    BOOTS_COUNTED,
];
const BOOTS_COUNTED: &str = "POST events";
const PROGRESSING: &str = r#"PUT clusters/monitored-operators "progressing""#;
/// A file that a user's manifests add to all nodes.
const USERS_FILE: &str = "/etc/landfall-test/user";
/// One that manifests of the service do.
const SERVICES_FILE: &str = "/etc/chrony.conf";
const STAND_IN: &str = env!("CARGO_BIN_EXE_stand-in-control-plane");

#[test]
fn a_bootstrap_host_two_masters_and_a_worker() {
    let _turn = turn();
    let Some(api) = api_server(3) else { return };
    let mut rack = rack_with_control_plane("roles", 4, 3, Bus::Virtio, Compression::Zstd, control_plane(&api));
    follow_controller(api.client(), rack.logs());
    ok(rack.discover(LIMIT));
    mesh(&mut rack, "every host reaches every other", [3, 3, 3, 3]);
    let ports = rack.ports().to_vec();
    rack.switch().partition(&ports[..1], &ports[1..2]);
    mesh(&mut rack, "the cut between node-0 and node-1", [2, 2, 3, 3]);
    rack.switch().heal();
    mesh(&mut rack, "the mesh whole again", [3, 3, 3, 3]);

    add_manifests(&mut rack);
    start_installation(&mut rack);
    ok(rack.wait("a host writes", LIMIT, |views| {
        views.iter().any(|view| view.stage == Some(HostStage::WritingImageToDisk))
    }));
    let before = ok(rack.hosts());
    ok(rack.service().kill());
    ok(rack.service().restart());
    let after = ok(rack.hosts());
    assert_eq!(before.len(), after.len());
    before.iter().zip(&after).for_each(|(before, after)| nothing_lost(before, after));

    let facts = finish_installation(&mut rack);
    finish_cluster(&mut rack, &api);
    let hosts = stages(&mut rack);
    tell("roles", &rack, &hosts, Compression::Zstd);
    tell_controller("roles", &rack, &api);
    let counts = rack.controller_requests().into_iter().filter(|request| kind(request) == BOOTS_COUNTED).count();
    assert_eq!(counts, hosts.len());
    check(&mut rack, &hosts, &facts);

    let bootstraps: Vec<&Passed> = hosts.iter().filter(|host| host.role == HostRole::Bootstrap).collect();
    let masters: Vec<&Passed> = hosts.iter().filter(|host| host.role == HostRole::Master).collect();
    let workers: Vec<&Passed> = hosts.iter().filter(|host| host.role == HostRole::Worker).collect();
    assert_eq!((bootstraps.len(), masters.len(), workers.len()), (1, 2, 1));
    for master in &masters {
        assert!(bootstraps[0].at(HostStage::Rebooting) > master.at(HostStage::Joined), "the bootstrap host goes last");
        assert!(workers[0].at(HostStage::Rebooting) > master.at(HostStage::Done), "a worker needs two masters");
    }
    // The bootstrap host had the cluster's address, then a master, from which the bootstrap host got its config.
    let mut serves = |host: &Passed, text: &str| {
        let index = hosts.iter().position(|other| other.id == host.id).unwrap();
        rack.vms()[index].markers().iter().any(|marker| marker.text.contains(text))
    };
    assert!(serves(bootstraps[0], "bootstrap serves"));
    assert_eq!(masters.iter().filter(|master| serves(master, &format!("{} serves", master.name))).count(), 1);
    println!("roles: {:.0} s", rack.elapsed().as_secs_f64());
}

#[test]
fn a_single_node_in_place_whose_image_comes_in_halves() {
    let _turn = turn();
    let Some(api) = api_server(1) else { return };
    let mut rack = rack_with_control_plane("single-node", 1, 1, Bus::Scsi, Compression::Gzip, control_plane(&api));
    follow_controller(api.client(), rack.logs());
    let image_bytes = ok(os_image(Compression::Gzip).metadata()).len();
    ok(rack.discover(LIMIT));
    add_manifests(&mut rack);
    start_installation(&mut rack);
    // Slow enough that the middle can't be missed.
    let slow = Link { delay: Duration::from_millis(10), ..Link::default() };
    rack.switch().set_port(rack.uplink_port(), slow);
    let half = |view: &HostView| view.written().is_some_and(|percent| percent >= 50);
    let past = |view: &HostView| matches!(view.stage, Some(HostStage::Rebooting | HostStage::Joined | HostStage::Done));
    ok(rack.wait("half of the image on the disk", LIMIT, |views| views.iter().any(|view| half(view) || past(view))));
    let views = ok(rack.views());
    assert_eq!(
        views[0].stage,
        Some(HostStage::WritingImageToDisk),
        "the image was written before the server could be stopped"
    );
    ok(rack.service().kill());
    let before = rack.switch().counters(rack.uplink_port()).received_bytes;
    rack.switch().heal();
    sleep(Duration::from_secs(20));
    ok(rack.service().restart());
    // Later the installed system fetches other things.
    ok(rack.wait("the rest on the disk", LIMIT, |views| views.iter().any(past)));
    let fetched_after = rack.switch().counters(rack.uplink_port()).received_bytes - before;
    assert!(
        fetched_after < image_bytes * 3 / 4,
        "{fetched_after} bytes came after half of an image of {image_bytes} was there: it was fetched from its start again"
    );

    let facts = finish_installation(&mut rack);
    finish_cluster(&mut rack, &api);
    let hosts = stages(&mut rack);
    tell("single-node", &rack, &hosts, Compression::Gzip);
    tell_controller("single-node", &rack, &api);
    let changes = rack.controller_requests().into_iter().filter(|request| request.method != "GET");
    let mut changes: Vec<String> = changes.map(|request| kind(&request)).collect();
    // Counted beside all else.
    let boots = changes.iter().position(|change| change == BOOTS_COUNTED).unwrap();
    let boots = changes.remove(boots);
    changes.push(boots);
    assert_eq!(changes, SINGLE_NODE_CHANGES);
    check(&mut rack, &hosts, &facts);
    println!(
        "single-node: {:.0} s, {fetched_after} of {image_bytes} bytes after the interruption",
        rack.elapsed().as_secs_f64()
    );
}

/// An API server, and in it what operators make at the beginning.
fn api_server(masters: u8) -> Option<ApiServer> {
    let api = ControlPlane::api_server()?;
    let cluster = api.cluster();
    for namespace in
        [MACHINE_CONFIG_NAMESPACE, "openshift-config", "openshift-config-managed", "openshift-dns-operator"]
    {
        cluster.namespace(namespace);
    }
    cluster.proxy("", "", "");
    cluster.invoker("assisted-service");
    cluster.install_config(&format!(
        "controlPlane:\n  name: master\n  replicas: {masters}\nnetworking:\n  serviceNetwork: [172.30.0.0/16]\n"
    ));
    for role in [Role::Master, Role::Worker] {
        cluster.resource("machineconfigs", None, &rendered_name(role), json!({"spec": {}}));
    }
    operators(&cluster, &[("Progressing", "True", "the console is being rolled out")]);
    Some(api)
}

fn control_plane(api: &ApiServer) -> ControlPlane {
    ControlPlane::new(STAND_IN.as_ref(), &testkit::process::program("openshift-install-double"), api)
}

/// A user's, which add a file to the nodes of each role.
fn add_manifests(rack: &mut Rack) {
    let url =
        format!("{}/api/assisted-install/v2/clusters/{}/manifests", rack.service().local_url(), ok(rack.cluster()).id);
    for role in [Role::Master, Role::Worker] {
        let name = format!("90-{}-user", role.as_str());
        let file = json!({"path": USERS_FILE, "mode": 0o644, "contents": {"source": format!("data:,{name}")}});
        let manifest = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": role}},
            "spec": {"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}}},
        });
        let content = BASE64.encode(manifest.to_string());
        let body = json!({"folder": "openshift", "file_name": format!("{name}.yaml"), "content": content});
        let mut curl = Command::new("curl");
        let output = curl.args(["--silent", "--fail-with-body", "--json", &body.to_string(), &url]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// How the version and the console are.
fn operators(cluster: &Cluster, conditions: &[simulator::Condition<'_>]) {
    cluster.cluster_version(conditions, "4.22.0", &["Console"], &["Console"]);
    cluster.cluster_operator("console", conditions, "4.22.0");
}

/// The controller's log beside the others, as long as the API server runs.
fn follow_controller(api: Client, logs: &Path) {
    let file = logs.join("controller.log");
    thread::spawn(move || {
        let pods = "/api/v1/namespaces/assisted-installer/pods";
        while let Ok(list) = api.list(&format!("{pods}?labelSelector=job-name")) {
            let names = list.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
            for log in names.filter_map(|name| api.text(&format!("{pods}/{name}/log")).ok()) {
                let _ = fs::write(&file, log);
            }
            sleep(Duration::from_secs(1));
        }
    });
}

/// From installed hosts to an installed cluster, by what the controller reports alone.
fn finish_cluster(rack: &mut Rack, api: &ApiServer) {
    ok(rack.wait_cluster("finalizing", LIMIT));
    // The controller must have seen the operators at work, so that what it reports does not depend on who is faster.
    let deadline = Instant::now() + LIMIT;
    while !rack.controller_requests().iter().any(|request| kind(request) == PROGRESSING) {
        ok(rack.check());
        assert!(Instant::now() < deadline, "the controller has not reported the operators within {LIMIT:?}");
        sleep(Duration::from_secs(1));
    }
    operators(&api.cluster(), &[("Available", "True", "All is well")]);
    api.cluster().ingress_ca(api.ca_pem());
    ok(rack.wait_cluster("installed", LIMIT));
    let ended = |_: &[HostView]| {
        let pods = api.client().list("/api/v1/namespaces/assisted-installer/pods").unwrap();
        pods[0]["status"]["phase"] == "Succeeded"
    };
    ok(rack.wait("the end of the controller", LIMIT, ended));
    assert!(!ok(rack.cluster()).controller_logs_collected_at.is_zero(), "the controller's logs came");
    let completion =
        rack.controller_requests().into_iter().find(|request| request.target.ends_with("/complete-installation"));
    assert_eq!(completion.and_then(|request| request.status), Some(202));
}

fn os_image(compression: Compression) -> PathBuf {
    ok(media::os_image(SectorSize::B512, compression, Drivers::Cloud))
}

/// What a host has passed, by the service's events.
struct Passed {
    id: HostId,
    name: String,
    role: HostRole,
    stages: Vec<(HostStage, Timestamp)>,
    /// With what was said about them.
    told: Vec<(String, Timestamp)>,
}

impl Passed {
    fn at(&self, stage: HostStage) -> Timestamp {
        self.stages.iter().find(|(passed, _)| *passed == stage).unwrap_or_else(|| panic!("{}: no {stage}", self.name)).1
    }

    fn leaves_for_reboot(&self, index: usize) -> bool {
        self.stages.get(index + 1).is_some_and(|(next, _)| *next == HostStage::Rebooting)
    }

    fn seconds(&self, index: usize) -> Option<f64> {
        Some(seconds_between(self.stages[index].1, self.stages.get(index + 1)?.1))
    }
}

/// What the controller said to the service, in order, and whose certificate requests were approved by whom.
fn tell_controller(run: &str, rack: &Rack, api: &ApiServer) {
    println!("{run}: the controller's requests to the service; the cluster is {}", ok(rack.cluster()).status);
    let mut rows: Vec<(String, usize)> = Vec::new();
    for request in rack.controller_requests() {
        let status = request.status.map_or("no reply".to_owned(), |status| status.to_string());
        let row = format!("{}: {status}", kind(&request));
        match rows.last_mut() {
            Some((last, count)) if *last == row => *count += 1,
            _ => rows.push((row, 1)),
        }
    }
    rows.iter().for_each(|(row, count)| println!("{run}:   {count:3} x {row}"));
    for request in api.client().list(certificates::REQUESTS).unwrap() {
        let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (signer, user) = (text("/spec/signerName"), text("/spec/username"));
        println!("{run}:   {signer} for {user}: {}", text("/status/conditions/0/message"));
        assert!(certificates::is_approved(&request), "{request}");
    }
}

/// A request by its method and path, and what matters of its body.
fn kind(request: &Recorded) -> String {
    // Those of clusters, infra-envs and hosts.
    let is_id = |word: &&str| word.len() >= 36;
    let words = request.target.trim_start_matches("/api/assisted-install/v2/").split('/').filter(|word| !is_id(word));
    let target: Vec<&str> = words.map(|word| word.split('?').next().unwrap()).collect();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let told = ["current_stage", "finalizing_stage", "logs_state", "status", "is_success"];
    let told = told.iter().find_map(|name| body.get(name)).map(|told| format!(" {told}")).unwrap_or_default();
    format!("{} {}{told}", request.method, target.join("/"))
}

/// In order of the machines.
fn stages(rack: &mut Rack) -> Vec<Passed> {
    let (cluster, url, file) = (ok(rack.cluster()).id, rack.service().url(), rack.logs().join("events.json"));
    ok(rack.service().fetch(&format!("{url}/api/assisted-install/v2/events?cluster_id={cluster}"), &file));
    let events: Vec<Value> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let mut hosts: Vec<Passed> = ok(rack.hosts())
        .into_iter()
        .map(|host| Passed {
            id: host.id,
            name: host.requested_hostname,
            role: if host.bootstrap { HostRole::Bootstrap } else { host.role },
            stages: Vec::new(),
            told: Vec::new(),
        })
        .collect();
    for event in events.iter().filter(|event| event["name"] == "host_install_progress_updated") {
        let props: Value = serde_json::from_str(event["props"].as_str().unwrap()).unwrap();
        // "reached installation stage STAGE" or "… STAGE: DETAIL".
        let text = props["event"].as_str().unwrap().trim_start_matches("reached installation stage ");
        let (stage, at) = (json!(text.split(": ").next().unwrap()), event["event_time"].clone());
        let (stage, at) = (serde_json::from_value(stage).unwrap(), serde_json::from_value(at).unwrap());
        let host = hosts.iter_mut().find(|host| event["host_id"] == host.id.to_string()).unwrap();
        host.told.push((text.to_owned(), at));
        // Details of the same stage are events too.
        if host.stages.last().is_none_or(|(last, _)| *last != stage) {
            host.stages.push((stage, at));
        }
    }
    hosts
}

/// Every stage of its role (docs/compatibility.md#stages), in its order, but for those that need what isn't here; each disk has the config
/// of its role with the manifests of the user and of the service, and the logs have come.
fn check(rack: &mut Rack, hosts: &[Passed], facts: &[NodeFacts]) {
    use HostStage as S;
    for ((host, facts), record) in hosts.iter().zip(facts).zip(ok(rack.hosts())) {
        let passed: Vec<HostStage> = host.stages.iter().map(|(stage, _)| *stage).collect();
        let listed = record.progress_stages.unwrap();
        let list: Vec<HostStage> = listed
            .into_iter()
            // No registry on the medium; and the bootstrap host's watcher, which alone reports this one, is gone when a
            // worker asks.
            .filter(|stage| !matches!(stage, S::CopyingRegistryDataToDisk | S::WaitingForIgnition))
            .collect();
        assert_eq!(passed, list, "{} ({})", host.name, host.role);
        let role = if host.role == HostRole::Worker { "worker" } else { "master" };
        let written = |path: &str| facts.get(&format!("file:{path} sha256"));
        for (path, text) in [(ROLE_FILE, role), (USERS_FILE, &format!("90-{role}-user"))] {
            assert_eq!(written(path), Some(sha256(text).as_str()), "{}", host.name);
        }
        assert!(written(SERVICES_FILE).is_some(), "{}", host.name);
        // The bootstrap host's own key lets it into the masters.
        let keys = facts.get("keys").unwrap().split(' ').filter(|word| word.starts_with("AAAA")).count();
        assert_eq!(
            keys,
            if hosts.len() > 1 && role == "master" { 2 } else { 1 },
            "{}: {:?}",
            host.name,
            facts.get("keys")
        );
        assert_eq!(record.logs_info, "completed", "{}", host.name);
    }
}

const STARTING_BOOTSTRAP: &str = "bootstrap.ign fetched and applied, units started";

/// How long each host was in each stage, and what bounds it.
fn tell(run: &str, rack: &Rack, hosts: &[Passed], compression: Compression) {
    let megabytes =
        u32::try_from(fs::metadata(os_image(compression)).unwrap().len() / 1000).map_or(0.0, f64::from) / 1000.0;
    let mut rows = vec![["HOST", "ROLE", "STAGE", "SECONDS", "BOUND BY"].map(str::to_owned).to_vec()];
    for host in hosts {
        for (index, (stage, _)) in host.stages.iter().enumerate() {
            let seconds = host.seconds(index);
            let bootstraps = host.role == HostRole::Bootstrap;
            let bound = match (stage, seconds) {
                (HostStage::StartingInstallation, _) if bootstraps && hosts.len() > 1 => STARTING_BOOTSTRAP.to_owned(),
                (HostStage::StartingInstallation, _) => "clean-up of the disk".to_owned(),
                (HostStage::Installing, _) if bootstraps && hosts.len() == 1 => STARTING_BOOTSTRAP.to_owned(),
                (HostStage::Installing, _) => "fetching the config".to_owned(),
                (HostStage::WritingImageToDisk, Some(seconds)) => {
                    let then = if host.leaves_for_reboot(index) { ", then the logs" } else { "" };
                    format!("{megabytes:.1} MB of image at {:.2} MB/s{then}", megabytes / seconds.max(0.001))
                }
                (HostStage::WaitingForControlPlane, _) => "the masters' boot; polls of 5 s".to_owned(),
                (HostStage::WaitingForBootkube | HostStage::WaitingForController, _) => "polls of 5 s".to_owned(),
                (HostStage::Rebooting, _) if bootstraps && hosts.len() > 1 => {
                    "60 s before it; firmware, kernel, Ignition".to_owned()
                }
                (HostStage::Rebooting, _) => "10 s before it; firmware, kernel, Ignition".to_owned(),
                (HostStage::Configuring, _) => {
                    "the boot from disk; where the controller runs, 60 s more before the kubelet".to_owned()
                }
                (HostStage::Joined, _) => "the kubelet, 5 s until it is ready; the controller, 2 s".to_owned(),
                _ => String::new(),
            };
            let seconds = seconds.map_or("-".to_owned(), |seconds| format!("{seconds:7.1}"));
            rows.push(vec![host.name.clone(), host.role.to_string(), stage.to_string(), seconds, bound]);
        }
    }
    println!("{run}: the stages ({:.0} s after the rack's start)", rack.elapsed().as_secs_f64());
    table::columns(&rows).iter().for_each(|line| println!("{run}:   {line}"));
    for host in hosts.iter().filter(|host| host.role == HostRole::Bootstrap) {
        println!("{run}: what the bootstrap host waited for");
        for pair in host.told.windows(2).filter(|pair| pair[0].0.starts_with("Waiting for")) {
            println!("{run}:   {:7.1} s  {}", seconds_between(pair[0].1, pair[1].1), pair[0].0);
        }
    }
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    let milliseconds = u32::try_from(to.unix_milliseconds() - from.unix_milliseconds()).unwrap_or_default();
    f64::from(milliseconds) / 1000.0
}

fn mesh(rack: &mut Rack, what: &str, reached: [usize; 4]) {
    let seen = |views: &[HostView]| views.iter().map(|view| view.reachable).collect::<Vec<_>>();
    ok(rack.wait(what, LIMIT, |views| seen(views) == reached));
}

/// What was recorded is still there; only a stage may have advanced, since the machines continue meanwhile.
fn nothing_lost(before: &Host, after: &Host) {
    let record = |host: &Host| {
        let host = host.clone();
        (host.id, host.cluster_id, host.inventory, host.requested_hostname, host.role, host.installation_disk_id)
    };
    assert_eq!(record(before), record(after));
    assert_eq!((before.created_at, before.registered_at), (after.created_at, after.registered_at));
    let stage = |host: &Host| {
        let current = host.progress.as_ref().and_then(|progress| progress.current_stage)?;
        host.progress_stages.as_ref()?.iter().position(|stage| *stage == current)
    };
    assert!(stage(after) >= stage(before), "{:?} became {:?}", before.progress, after.progress);
}
