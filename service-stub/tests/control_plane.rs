//! Clusters with a control plane: who bootstraps, what each host is given, and the stages of each role.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;

use api::{
    Cluster, ClusterCreateParams, HostCreateParams, HostId, HostProgress, HostRole, HostStage, InfraEnv,
    InfraEnvCreateParams, InfraEnvId, InstallRequest, MachineNetwork, Secret, StageList, StepReply, StepType,
};
use base64::Engine;
use common::{API, Files, Running, connectivity, inventory, pull_secret};
use serde_json::{Value, json};
use std::fs;

/// Where a host is told which address its kubelet is to use.
const NODE_ADDRESS: &str = "/etc/default/nodeip-configuration";

struct World {
    running: Running,
    cluster: Cluster,
    infra_env: InfraEnv,
    hosts: Vec<HostId>,
    files: tempfile::TempDir,
}

fn role_file(role: &str) -> String {
    let merge = json!([{"source": format!("https://192.0.2.5:22623/config/{role}")}]);
    json!({"ignition": {"version": "3.2.0", "config": {"merge": merge}}}).to_string()
}

impl World {
    /// A cluster whose hosts are known.
    fn new(masters: u32, hosts: usize) -> Self {
        Self::start(masters, hosts, false)
    }

    fn start(masters: u32, hosts: usize, await_controller: bool) -> Self {
        Self::of_processors(masters, hosts, await_controller, None)
    }

    /// The same with an architecture of the cluster, where it is not that of the hosts.
    fn of_processors(masters: u32, hosts: usize, await_controller: bool, architecture: Option<&str>) -> Self {
        let files = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(files.path().join(name), text).unwrap();
        write("os.raw.gz", "image");
        write("os-aarch64.raw.gz", "image");
        write("bootstrap.ign", r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/bootstrap"}]}}"#);
        write("master.ign", &role_file("master"));
        write("worker.ign", &role_file("worker"));
        write("kubeconfig-noingress", "apiVersion: v1");
        let running = Running::start(Files {
            images: vec![files.path().join("os.raw.gz"), files.path().join("os-aarch64.raw.gz")],
            cluster: Some(files.path().to_owned()),
            await_controller,
            ..Files::default()
        });
        let client = running.client();
        let cluster = client
            .create_cluster(&ClusterCreateParams {
                name: "rack".into(),
                openshift_version: "4.22".into(),
                base_dns_domain: Some("example.com".into()),
                control_plane_count: Some(masters.into()),
                machine_networks: Some(vec![MachineNetwork { cidr: "10.0.0.0/24".into(), cluster_id: None }]),
                user_managed_networking: Some(true),
                pull_secret: Secret::new(pull_secret()),
                cpu_architecture: architecture.map(str::to_owned),
                ..ClusterCreateParams::default()
            })
            .unwrap();
        let infra_env = client
            .create_infra_env(&InfraEnvCreateParams {
                name: "rack".into(),
                cluster_id: Some(cluster.id),
                pull_secret: Secret::new(pull_secret()),
                ..InfraEnvCreateParams::default()
            })
            .unwrap();
        let world = Self { running, cluster, infra_env, hosts: (0..hosts).map(|_| HostId::random()).collect(), files };
        world.discover();
        world
    }

    fn discover(&self) {
        self.hosts.iter().for_each(|host| self.register(self.infra_env.id, *host));
        for _ in 0..3 {
            for (index, host) in self.hosts.iter().enumerate() {
                self.answer(self.infra_env.id, "x86_64", index, *host);
            }
        }
        assert_eq!(self.running.client().cluster(self.cluster.id).unwrap().status, "ready");
    }

    fn register(&self, infra_env: InfraEnvId, host: HostId) {
        let params = HostCreateParams { host_id: host, discovery_agent_version: "localhost/agent:1".into() };
        self.running.client().register_host(infra_env, &params).unwrap();
    }

    fn answer(&self, infra_env: InfraEnvId, architecture: &str, index: usize, host: HostId) {
        let client = self.running.client();
        for step in client.next_steps(infra_env, host).unwrap().instructions.unwrap_or_default() {
            let output = match step.step_type {
                StepType::Inventory => {
                    let (address, mac) = (format!("10.0.0.{}", index + 1), format!("52:54:00:00:00:{index:02x}"));
                    let mut inventory = inventory(&format!("node-{index}"), &address, &mac);
                    inventory["cpu"]["architecture"] = architecture.into();
                    inventory
                }
                StepType::ConnectivityCheck => connectivity(&step),
                _ => continue,
            };
            let reply = StepReply {
                error: String::new(),
                exit_code: 0,
                output: output.to_string(),
                step_id: step.step_id,
                step_type: step.step_type,
            };
            client.post_reply(infra_env, host, &reply).unwrap();
        }
    }

    fn install(&self) {
        self.running.client().install_cluster(self.cluster.id).unwrap();
        self.running.monitor();
    }

    fn host(&self, id: HostId) -> api::Host {
        let hosts = self.running.client().hosts(self.infra_env.id).unwrap();
        hosts.into_iter().find(|host| host.id == id).unwrap()
    }

    fn request(&self, id: HostId) -> InstallRequest {
        self.request_in(self.infra_env.id, id)
    }

    fn request_in(&self, infra_env: InfraEnvId, id: HostId) -> InstallRequest {
        let steps = self.running.client().next_steps(infra_env, id).unwrap().instructions.unwrap();
        assert_eq!((steps.len(), &steps[0].step_type), (1, &StepType::Install));
        serde_json::from_str(&steps[0].args[0]).unwrap()
    }

    fn config(&self, id: HostId) -> Value {
        serde_json::from_slice(&self.running.client().host_ignition(self.infra_env.id, id).unwrap()).unwrap()
    }

    fn put(&self, id: HostId, current_stage: HostStage) -> Result<(), api::ClientError> {
        let progress = HostProgress { current_stage, progress_info: String::new() };
        self.running.client().put_progress(self.infra_env.id, id, &progress)
    }

    /// Every stage of its list, in order; those of no list of its are refused.
    fn pass_all(&self, id: HostId, list: StageList) {
        assert_eq!(self.host(id).progress_stages.as_deref(), Some(list.stages()));
        for stage in HostStage::ALL {
            if stage != HostStage::Failed && !list.stages().contains(&stage) {
                assert_eq!(self.put(id, stage).unwrap_err().status(), Some(409), "{stage}");
            }
        }
        for stage in list.stages() {
            self.put(id, *stage).unwrap();
        }
        assert_eq!(self.host(id).status, "installed");
    }

    fn file(&self, path: &str) -> common::Answer {
        self.running.get(&format!("{API}/v2/clusters/{}/downloads/{path}", self.cluster.id))
    }

    fn installed(&self) -> bool {
        self.running.client().cluster(self.cluster.id).unwrap().status == "installed"
    }
}

#[test]
fn one_of_three_masters_bootstraps_and_each_role_has_its_stages() {
    let world = World::new(3, 4);
    let early = world.file("files?file_name=bootstrap.ign");
    let reason = format!(
        "cluster {} is in ready state, files can be downloaded only when status is one of: [installing finalizing installed \
         error adding-hosts cancelled installing-pending-user-action]",
        world.cluster.id
    );
    assert_eq!((early.status, &early.document()["reason"]), (409, &json!(reason)));
    assert!(world.hosts.iter().all(|id| !world.host(*id).bootstrap));
    world.install();

    let hosts: Vec<api::Host> = world.hosts.iter().map(|id| world.host(*id)).collect();
    let mut masters: Vec<HostId> =
        hosts.iter().filter(|host| host.role == HostRole::Master).map(|host| host.id).collect();
    masters.sort();
    let bootstrap = *masters.last().unwrap();
    assert_eq!(masters.len(), 3);
    for host in &hosts {
        assert_eq!(host.bootstrap, host.id == bootstrap, "the last of the masters, and nobody else");
        let request = world.request(host.id);
        let role = if host.bootstrap { HostRole::Bootstrap } else { host.role };
        assert_eq!((request.role, request.control_plane_count, request.mco_image), (role, 3, None));
        let config = world.config(host.id);
        let source = format!("https://192.0.2.5:22623/config/{}", host.role);
        assert_eq!(
            config["ignition"]["config"]["merge"],
            json!([{"source": source}]),
            "its role's, and no other pointer"
        );
        let files = config["storage"]["files"].as_array().unwrap();
        let names: Vec<&str> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(names, ["/etc/hostname", NODE_ADDRESS], "no sign of life: the controller reports");
        assert_eq!(files[1]["contents"]["source"], "data:,KUBELET_NODEIP_HINT=10.0.0.0");
    }
    assert!(world.file("files?file_name=bootstrap.ign").document()["storage"].is_object());
    assert_eq!(world.file("files?file_name=custom_manifests.json").status, 404, "not given");
    assert_eq!(world.file("files?file_name=../master.ign").status, 400);
    assert_eq!(world.file("credentials?file_name=kubeconfig-noingress").body, b"apiVersion: v1");
    fs::write(world.files.path().join("custom_manifests.json"), "[]").unwrap();
    assert_eq!(world.file("files?file_name=custom_manifests.json").body, b"[]", "given later");

    let events = world.running.get(&format!("{API}/v2/events?cluster_id={}", world.cluster.id)).document();
    let set: Vec<&Value> =
        events.as_array().unwrap().iter().filter(|event| event["name"] == "host_bootstrap_set").collect();
    assert_eq!((set.len(), &set[0]["host_id"]), (1, &json!(bootstrap)));

    let worker = hosts.iter().find(|host| host.role == HostRole::Worker).unwrap();
    world.pass_all(worker.id, StageList::Worker);
    for id in &masters {
        assert!(!world.installed());
        world.pass_all(*id, if *id == bootstrap { StageList::Bootstrap } else { StageList::Master });
    }
    assert!(world.installed());
}

#[test]
fn a_single_node_bootstraps_itself() {
    let world = World::new(1, 1);
    world.install();
    let id = world.hosts[0];
    let request = world.request(id);
    assert_eq!((request.role, request.control_plane_count), (HostRole::Bootstrap, 1));
    assert!(world.host(id).bootstrap);
    let config = world.config(id);
    let file = config["storage"]["files"].as_array().unwrap().iter().find(|file| file["path"] == NODE_ADDRESS).unwrap();
    assert_eq!(file["contents"]["source"], "data:,KUBELET_NODEIP_HINT=10.0.0.0");
    world.pass_all(id, StageList::SingleNode);
    assert!(world.installed());
}

/// Three masters of one processor, a worker of another: each is installed from the image for its own.
#[test]
fn hosts_of_two_processors_make_one_cluster() {
    let world = World::of_processors(3, 3, false, Some("multi"));
    assert_eq!(world.cluster.cpu_architecture, "multi");
    let params = InfraEnvCreateParams {
        name: "arm".into(),
        cluster_id: Some(world.cluster.id),
        cpu_architecture: Some("aarch64".into()),
        pull_secret: Secret::new(pull_secret()),
        ..InfraEnvCreateParams::default()
    };
    let arm = world.running.client().create_infra_env(&params).unwrap().id;
    let worker = HostId::random();
    world.register(arm, worker);
    for _ in 0..3 {
        world.answer(arm, "aarch64", world.hosts.len(), worker);
        world
            .hosts
            .iter()
            .enumerate()
            .for_each(|(index, host)| world.answer(world.infra_env.id, "x86_64", index, *host));
    }
    assert_eq!(world.running.client().cluster(world.cluster.id).unwrap().status, "ready");
    world.install();
    let image = |request: &InstallRequest| {
        let words: Vec<String> = serde_json::from_str(request.installer_args.as_deref().unwrap()).unwrap();
        words.last().unwrap().rsplit('/').next().unwrap().to_owned()
    };
    assert_eq!(image(&world.request_in(arm, worker)), "os-aarch64.raw.gz");
    for host in &world.hosts {
        assert_eq!(image(&world.request(*host)), "os.raw.gz");
    }
}

#[test]
fn who_was_to_bootstrap_does_so_after_a_reset() {
    let world = World::new(3, 3);
    world.install();
    let bootstraps = |id: &&HostId| world.host(**id).bootstrap;
    let elected = *world.hosts.iter().find(bootstraps).unwrap();
    assert_eq!(
        world.running.json("POST", &format!("/v2/clusters/{}/actions/reset", world.cluster.id), &json!({})).status,
        202
    );
    world.discover();
    assert!(!world.hosts.iter().any(|id| world.host(*id).bootstrap), "forgotten with all else");
    world.install();
    assert_eq!(*world.hosts.iter().find(bootstraps).unwrap(), elected, "the order of the hosts is the same");
}

#[test]
fn a_controller_finishes_the_installation() {
    use service_stub::state::cluster::FinalizingStage;
    let world = World::start(1, 1, true);
    let kubeconfig = "clusters:\n- cluster:\n    certificate-authority-data: b2xk\n";
    fs::write(world.files.path().join("kubeconfig-noingress"), kubeconfig).unwrap();
    let path = format!("/v2/clusters/{}", world.cluster.id);
    let send = |method, what: &str, body: &Value| world.running.json(method, &format!("{path}/{what}"), body).status;
    let document = || world.running.get(&format!("{API}{path}")).document();
    let pem = json!("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n");
    let status =
        |name: &str, status: &str| json!({"name": name, "status": status, "status_info": "fine", "version": "1"});
    world.install();
    assert_eq!(send("POST", "uploads/ingress-cert", &pem), 400, "too early");
    let refused = |path: &str| {
        let answer = world.running.get(&format!("{API}/v2/clusters/{}/{path}", world.cluster.id));
        (answer.status, answer.document()["reason"].as_str().unwrap().to_owned())
    };
    let id = world.cluster.id;
    assert_eq!(
        refused("downloads/credentials?file_name=kubeconfig"),
        (
            409,
            format!(
                "cluster {id} is in installing state, kubeconfig can be downloaded only when status is one of: \
             [finalizing installed error adding-hosts cancelled installing-pending-user-action]"
            )
        )
    );
    let console = "console-url isn't available yet, it will be once console operator is ready as part of cluster finalizing stage";
    assert_eq!(refused("credentials"), (409, console.to_owned()));
    fs::write(world.files.path().join("kubeadmin-password"), "p").unwrap();
    for stage in StageList::SingleNode.stages() {
        world.put(world.hosts[0], *stage).unwrap();
    }
    assert_eq!(document()["status"], "finalizing", "the controller has not told anything yet");
    assert_eq!(send("PUT", "progress", &json!({"finalizing_stage": "Brewing"})), 400);
    for stage in FinalizingStage::NAMES {
        assert_eq!(send("PUT", "progress", &json!({"finalizing_stage": stage})), 200);
        assert_eq!(document()["progress"]["finalizing_stage"], stage);
    }
    let before = document()["progress"]["total_percentage"].as_u64().unwrap();
    assert_eq!(before, 80);
    assert_eq!(send("PUT", "monitored-operators", &status("", "available")), 400);
    assert_eq!(send("PUT", "monitored-operators", &status("gone", "available")), 404);
    assert_eq!(send("PUT", "monitored-operators", &status("console", "sleepy")), 400);
    assert_eq!(send("PUT", "monitored-operators", &status("console", "available")), 200);
    assert_eq!(world.running.get(&format!("{API}{path}/credentials")).document()["password"], "p");
    let list = |query: &str| world.running.get(&format!("{API}{path}/monitored-operators{query}"));
    assert_eq!(list("?operator_name=console").document()[0]["status"], "available");
    assert_eq!(list("?operator_name=gone").status, 404);
    assert_eq!(document()["monitored_operators"], list("").document());
    assert_eq!(
        (&document()["status"], &document()["progress"]["total_percentage"]),
        (&json!("finalizing"), &json!(95))
    );
    assert_eq!(world.file("credentials?file_name=kubeconfig").body, kubeconfig.as_bytes(), "as it was given");
    assert_eq!(send("POST", "uploads/ingress-cert", &json!("no certificate")), 500);
    assert_eq!(send("POST", "uploads/ingress-cert", &pem), 201);
    assert_eq!(
        (&document()["status"], &document()["progress"]["total_percentage"]),
        (&json!("installed"), &json!(100))
    );
    assert_ne!(world.file("credentials?file_name=kubeconfig").body, kubeconfig.as_bytes(), "with the ingress");
    let farewell = json!({"is_success": true, "data": {"CLUSTER_OPERATORS_REPORT": {"items": []}}});
    assert_eq!(send("POST", "actions/complete-installation", &farewell), 202);
    assert_eq!(send("POST", "actions/complete-installation", &json!({})), 400);
    let events = world.running.get(&format!("{API}/v2/events?cluster_id={}", world.cluster.id)).document();
    let count = |name: &str| events.as_array().unwrap().iter().filter(|event| event["name"] == name).count();
    assert_eq!(count("cluster_finalizing_stage_updated"), 7);
    assert_eq!(count("cluster_operator_status"), 1);
    assert_eq!(count("cluster_operator_report"), 1);
    assert_eq!(count("cluster_installation_completed"), 1);
}

#[test]
fn settings_become_manifests_of_the_control_plane() {
    const FILE: &str = "99-openshift-worker-tpm-encryption.yaml";
    let world = World::new(3, 3);
    let cluster = format!("{API}/v2/clusters/{}", world.cluster.id);
    let settings = json!({"schedulable_masters": true, "disk_encryption": {"enable_on": "workers", "mode": "tpmv2"}});
    let changed = world.running.json("PATCH", &format!("/v2/clusters/{}", world.cluster.id), &settings).document();
    assert_eq!(changed["schedulable_masters"], true, "{changed}");
    assert_eq!(changed["disk_encryption"], settings["disk_encryption"]);

    assert_eq!(world.running.get(&format!("{cluster}/manifests")).document(), json!([]));
    let generated = || {
        let all = world.running.get(&format!("{cluster}/manifests?include_system_generated=true")).document();
        let all = all.as_array().unwrap().iter().filter(|own| own["manifest_source"] == "system").cloned();
        all.map(|own| own["file_name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let expected = [
        "50-masters-chrony-configuration.yaml",
        "50-masters-iscsi-nic-reapply.yaml",
        "50-workers-chrony-configuration.yaml",
        "50-workers-iscsi-nic-reapply.yaml",
        FILE,
        "cluster-scheduler-02-config.yml.patch_ai_set_masters_schedulable",
    ];
    assert_eq!(generated(), expected);
    let file = |folder| world.running.get(&format!("{cluster}/manifests/files?folder={folder}&file_name={FILE}"));
    assert!(String::from_utf8(file("openshift").body).unwrap().contains("tpm2: true"));
    assert_eq!(file("manifests").status, 404);

    world.install();
    // (Its files are there once it is installing, which its hosts see.)
    world.request(world.hosts[0]);
    // What it was installed with stays, whatever is set later.
    let infra_env = format!("/v2/infra-envs/{}", world.infra_env.id);
    let later = json!({"additional_ntp_sources": "late.example.com"});
    assert_eq!(world.running.json("PATCH", &infra_env, &later).status, 201);
    assert_eq!(generated(), expected);
    let chrony = world.running.get(&format!("{cluster}/manifests/files?folder=openshift&file_name={}", expected[0]));
    let chrony: Value = serde_norway::from_slice(&chrony.body).unwrap();
    let source = chrony["spec"]["config"]["storage"]["files"][0]["contents"]["source"].as_str().unwrap();
    let conf = ignition::data_url::decode(source).unwrap().data.into_owned();
    assert!(!String::from_utf8(conf).unwrap().contains("late"), "stored when the installation began");

    // A manifest is taken at any time; what is there stays.
    let post = |file: &str, content: &str| {
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        let body = json!({"file_name": file, "folder": "openshift", "content": content});
        world.running.json("POST", &format!("/v2/clusters/{}/manifests", world.cluster.id), &body).status
    };
    assert_eq!([post("mine.yaml", "kind: MachineConfig\n"), post("map.yaml", "kind: ConfigMap\n")], [201, 201]);
    assert_eq!(post("mine.yaml.patch_1", "[]"), 201);
    let path = format!("{cluster}/manifests?folder=openshift&file_name=mine.yaml");
    let deleted = world.running.request("DELETE", &path, &[], b"");
    assert_eq!(deleted.status, 400);
    assert!(deleted.document()["reason"].as_str().unwrap().contains("is not in pre-installation states"));
    let change = json!({"folder": "openshift", "file_name": "mine.yaml", "updated_file_name": "b.yaml"});
    assert_eq!(
        world.running.json("PATCH", &format!("/v2/clusters/{}/manifests", world.cluster.id), &change).status,
        400
    );
    let paths = |name: &str| {
        let config = world.file(&format!("files?file_name={name}")).document();
        let files = config["storage"]["files"].as_array().cloned().unwrap_or_default();
        files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let path = format!("/opt/openshift/openshift/{FILE}");
    let own = "/opt/openshift/openshift/mine.yaml".to_owned();
    let bootstrap = paths("bootstrap.ign");
    assert!(bootstrap.contains(&path) && bootstrap.contains(&own), "{bootstrap:?}");
    assert!(!bootstrap.iter().any(|path| path.contains("map.yaml") || path.contains("patch")), "{bootstrap:?}");
    assert!(!paths("master.ign").contains(&path));
    let custom = world.file("files?file_name=custom_manifests.json").document();
    let names: Vec<_> = custom.as_array().unwrap().iter().map(|own| own["Name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cluster-scheduler-masters-schedulable.yaml", "map.yaml", "mine.yaml"]);
    let manifest = custom[0]["Content"].as_str().unwrap();
    let manifest = base64::engine::general_purpose::STANDARD.decode(manifest).unwrap();
    assert!(String::from_utf8(manifest).unwrap().contains("mastersSchedulable: true"));

    // A bootstrap with the file itself has it changed, and the controller applies nothing.
    let source = ignition::data_url::base64(b"kind: Scheduler\nspec:\n  mastersSchedulable: false\n");
    let file =
        json!({"path": "/opt/openshift/manifests/cluster-scheduler-02-config.yml", "contents": {"source": source}});
    let config = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}});
    fs::write(world.files.path().join("bootstrap.ign"), config.to_string()).unwrap();
    let config = world.file("files?file_name=bootstrap.ign").document();
    let source = config["storage"]["files"][0]["contents"]["source"].as_str().unwrap();
    let object = ignition::data_url::decode(source).unwrap().data.into_owned();
    assert_eq!(object, b"kind: Scheduler\nspec:\n  mastersSchedulable: true\n");
    let custom = world.file("files?file_name=custom_manifests.json").document();
    assert_eq!(custom[0]["Name"], "map.yaml");
}

#[test]
fn operators_become_manifests_of_the_control_plane() {
    const FILES: [&str; 6] = ["ns", "operator_group", "subscription", "prometheus-rolebinding", "prometheus-role", ""];
    let world = World::new(3, 3);
    let cluster = format!("{API}/v2/clusters/{}", world.cluster.id);
    let chosen = json!({"olm_operators": [{"name": "lso"}]});
    let changed = world.running.json("PATCH", &format!("/v2/clusters/{}", world.cluster.id), &chosen);
    assert_eq!(changed.status, 201, "{:?}", changed.document());
    let all = world.running.get(&format!("{cluster}/manifests?include_system_generated=true")).document();
    let named = |end: &&str| match *end {
        "" => "olm_operator_manifests.yaml".to_owned(),
        end => format!("50_openshift-lso_{end}.yaml"),
    };
    let mut names: Vec<String> = FILES.iter().map(named).collect();
    names.sort();
    let shown: Vec<&str> = all.as_array().unwrap().iter().map(|one| one["file_name"].as_str().unwrap()).collect();
    let shown: Vec<&str> = shown.into_iter().filter(|name| name.contains("lso") || name.starts_with("olm")).collect();
    assert_eq!(shown, names);
    world.install();
    world.request(world.hosts[0]);
    let config = world.file("files?file_name=bootstrap.ign").document();
    let files = config["storage"]["files"].as_array().unwrap();
    for name in &names {
        let path = format!("/opt/openshift/openshift/{name}");
        assert!(files.iter().any(|file| file["path"] == path.as_str()), "{path}");
    }
    let custom = || world.file("files?file_name=custom_manifests.json").document();
    let made = custom();
    assert_eq!((&made[0]["Name"], made.as_array().unwrap().len()), (&json!("lso"), 1));
    let content = base64::engine::general_purpose::STANDARD.decode(made[0]["Content"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8(content).unwrap().contains("kind: LocalVolumeSet"));
    // What the directory has for the operator wins.
    let given = json!([{"Name": "lso", "Content": ""}]);
    fs::write(world.files.path().join("custom_manifests.json"), given.to_string()).unwrap();
    assert_eq!(custom(), given);
}

#[test]
fn the_install_configuration_is_a_file_of_the_cluster() {
    let world = World::new(3, 3);
    let path = format!("{API}/v2/clusters/{}/install-config", world.cluster.id);
    let over = json!(r#"{"fips": true}"#);
    let answer = world.running.json("PATCH", &format!("/v2/clusters/{}/install-config", world.cluster.id), &over);
    assert_eq!(answer.status, 201);
    assert_eq!(world.file("files?file_name=install-config.yaml").status, 409, "too early");
    world.install();
    let file = || world.file("files?file_name=install-config.yaml").body;
    let made = file();
    let config: Value = serde_norway::from_slice(&made).unwrap();
    assert_eq!((&config["metadata"]["name"], &config["fips"]), (&json!("rack"), &json!(true)));
    assert_eq!(config["pullSecret"], pull_secret());
    assert_eq!(config["networking"]["machineNetwork"], json!([{"cidr": "10.0.0.0/24"}]));
    assert_eq!(world.running.get(&path).document(), json!(String::from_utf8(made.clone()).unwrap()));
    let write = |text: &str| fs::write(world.files.path().join("install-config.yaml"), text).unwrap();
    write("{baseDomain: example.com, metadata: {name: other}}");
    assert_eq!(file(), made, "the directory's is another cluster's");
    let own = "{baseDomain: example.com, metadata: {name: rack}, capabilities: {baselineCapabilitySet: None}}";
    write(own);
    assert_eq!(file(), own.as_bytes(), "the other files were made of it");
}

#[test]
fn without_a_control_plane_the_install_configuration_is_the_only_file() {
    let running = Running::start(Files::default());
    let body = json!({"name": "rack", "openshift_version": "4.22", "pull_secret": pull_secret()});
    let id = running.json("POST", "/v2/clusters", &body).document()["id"].as_str().unwrap().to_owned();
    let status = |name: &str| running.get(&format!("{API}/v2/clusters/{id}/downloads/files?file_name={name}")).status;
    assert_eq!((status("install-config.yaml"), status("bootstrap.ign")), (409, 501));
}
