//! Installations, requests of the real agent, installer and controller and of our own: recorded at the real service, every answer is
//! compared with it; recorded at ours, every status is.

use super::*;
use std::{collections::BTreeMap, path::Path};

/// What people did beside the recorded requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// Hosts of the infra-env's cluster, which is installed.
    Install,
    /// Hosts that are bound to a cluster, which is installed.
    BindAndInstall,
    /// Hosts that are added to a cluster that is there.
    Add,
}

/// A recording, and the service that it is replayed at.
struct Recording {
    exchanges: Vec<Exchange>,
    running: Running,
    cluster: ClusterId,
    infra_env: InfraEnvId,
    course: Course,
    installer_args: Value,
    bootstrap: Option<HostId>,
    _files: tempfile::TempDir,
}

/// The arguments of the first step of a kind, as documents.
fn args(exchanges: &[Exchange], kind: &str) -> Option<Value> {
    let step = exchanges.iter().flat_map(Exchange::steps).find(|step| step["step_type"] == kind)?;
    serde_json::from_str(step["args"][0].as_str().unwrap()).ok()
}

impl Recording {
    fn open(folder: &Path, course: Course) -> Self {
        let exchanges = exchanges(folder);
        let find = |name: &str| exchanges.iter().find_map(|exchange| exchange.id(name)?.parse::<uuid::Uuid>().ok());
        let infra_env = InfraEnvId(find("infra-envs").unwrap());
        let install = args(&exchanges, "install").unwrap_or_default();
        let registered = exchanges.iter().rev().find_map(|exchange| exchange.answer["cluster_id"].as_str());
        let cluster = ClusterId(id(install["cluster_id"].as_str().or(registered).unwrap()));
        let names = args(&exchanges, "domain-resolution").unwrap_or_default();
        let api = names["domains"][0]["domain_name"].as_str().unwrap_or("api.sno.example.com").to_owned();
        let mut name = api.splitn(3, '.').skip(1);
        let (name, base) = (name.next().unwrap().to_owned(), name.next().unwrap().to_owned());

        let files = tempfile::tempdir().unwrap();
        for (file, target) in [("bootstrap.ign", "downloads/files"), ("master.ign", "downloads/ignition")] {
            let config = exchanges.iter().find(|exchange| exchange.what().ends_with(target) && exchange.status == 200);
            let config = config.map_or_else(|| json!({"ignition": {"version": "3.2.0"}}), |found| found.answer.clone());
            std::fs::write(files.path().join(file), config.to_string()).unwrap();
        }
        std::fs::write(files.path().join("worker.ign"), r#"{"ignition":{"version":"3.2.0"}}"#).unwrap();
        let images = args(&exchanges, "container-image-availability").unwrap_or_default();
        let images = images["images"].as_array().into_iter().flatten();
        let steps = StepOptions {
            disk_speed_check: true,
            // Two images of the recording release are one and the same.
            check_images: images.map(|image| image.as_str().unwrap().to_owned()).collect(),
            ..StepOptions::default()
        };
        let mut offered = Files { cluster: Some(files.path().to_owned()), steps, ..Files::default() };
        // As the recorded service: a single node needs no names in DNS.
        offered.manifests.single_node_dnsmasq = true;
        let named = |name: &str| install[name].as_str().map(|image| image.parse().unwrap());
        offered.image_args.mco_images = named("mco_image").into_iter().collect();
        offered.image_args.must_gather_images = named("must_gather_image").into_iter().collect();

        let masters = install["control_plane_count"].as_u64().unwrap_or(1);
        let running = Running::start_with(offered, |store| {
            let mut record = super::cluster(cluster, ClusterState::Insufficient);
            record.cluster.name = name;
            record.cluster.base_dns_domain = base;
            record.cluster.control_plane_count = u32::try_from(masters).unwrap();
            record.cluster.machine_networks =
                vec![MachineNetwork { cidr: "192.168.131.0/24".into(), cluster_id: Some(cluster) }];
            if masters > 1 {
                record.cluster.user_managed_networking = false;
                record.cluster.platform = Some(Platform { external: json!({}), kind: "baremetal".into() });
                let vip = |address: &str| vec![json!({"cluster_id": cluster, "ip": address})];
                record.cluster.api_vips = vip("192.168.131.100");
                record.cluster.ingress_vips = vip("192.168.131.101");
            }
            if course == Course::Add {
                record.cluster.kind = "AddHostsCluster".into();
                record.state = ClusterState::AddingHosts;
                record.cluster.control_plane_count = 0;
                record.course.api_vip_dns_name = api.clone();
            }
            let mut pool = super::infra_env(infra_env, cluster);
            if course == Course::BindAndInstall {
                pool.infra_env.cluster_id = None;
            }
            put(store, record, pool, None);
        });
        let installer_args = install["installer_args"].as_str().map(|text| serde_json::from_str(text).unwrap());
        let installer_args = installer_args.unwrap_or(Value::Null);
        let installs = exchanges.iter().flat_map(Exchange::steps).filter(|step| step["step_type"] == "install");
        let mut installs =
            installs.map(|step| serde_json::from_str::<Value>(step["args"][0].as_str().unwrap()).unwrap());
        let bootstrap = installs.find(|install| install["role"] == "bootstrap");
        let bootstrap = bootstrap.map(|install| HostId(id(install["host_id"].as_str().unwrap())));
        Self { exchanges, running, cluster, infra_env, course, installer_args, bootstrap, _files: files }
    }

    /// What people do before an exchange.
    fn act_before(&self, exchange: &Exchange) {
        let prepares = ["installation-disk-speed-check", "container-image-availability", "install"];
        if self.course == Course::BindAndInstall && exchange.answer["post_step_action"] == "exit" {
            for host in self.running.client().hosts(self.infra_env).unwrap() {
                let path = format!("/v2/infra-envs/{}/hosts/{}/actions/bind", self.infra_env, host.id);
                let body = json!({"cluster_id": self.cluster});
                assert_eq!(self.running.json("POST", &path, &body).status, 200);
            }
        }
        if prepares.iter().any(|kind| exchange.gives(kind)) {
            let state = self.running.client().cluster(self.cluster).unwrap();
            if state.status != "ready" {
                return self.running.monitor();
            }
            // The user's own image; what follows it in the request is the service's part.
            if self.installer_args[0] == "--image-url" {
                for host in &state.hosts {
                    let path = format!("/v2/infra-envs/{}/hosts/{}/installer-args", self.infra_env, host.id);
                    let own = json!({"args": [self.installer_args[0], self.installer_args[1]]});
                    assert_eq!(self.running.json("PATCH", &path, &own).status, 201);
                }
            }
            self.set_bootstrap();
            self.running.client().install_cluster(self.cluster).unwrap();
            self.running.monitor();
        }
    }

    /// Which master carries the temporary control plane is each service's choice; one that was to before stays the one.
    fn set_bootstrap(&self) {
        let Some(elected) = self.bootstrap else { return };
        let chosen = self.running.service.store.change("", |change| {
            let key = HostKey { infra_env: self.infra_env, host: elected };
            let mut record = HostRecord::clone(&change.model().hosts[&key]);
            record.host.bootstrap = true;
            change.put_host(record);
            Ok::<_, StoreError>(())
        });
        chosen.unwrap();
    }

    /// Replays all exchanges, with the time between polls that there was, and gives what `look` makes of each.
    fn replay<T>(&mut self, mut look: impl FnMut(&Exchange, &common::Answer) -> Vec<T>) -> Vec<T> {
        let mut polled: BTreeMap<String, f64> = BTreeMap::new();
        let mut found = Vec::new();
        for mut exchange in std::mem::take(&mut self.exchanges) {
            self.act_before(&exchange);
            if exchange.is_poll() {
                let before = polled.insert(exchange.id("hosts").unwrap().to_owned(), exchange.time);
                // By then a step that was not answered, its result being the same as before, is over.
                if before.is_some_and(|before| exchange.time - before > 50.0) {
                    self.running
                        .service
                        .outstanding
                        .retain(|key| key.host.to_string() != exchange.id("hosts").unwrap());
                }
                let (path, _) = exchange.target.split_once("?timestamp=").unwrap();
                exchange.target = format!("{path}?timestamp={}", api::Timestamp::now().unix_seconds());
            }
            let answer = replay(&self.running, &exchange);
            found.extend(look(&exchange, &answer));
        }
        found
    }
}

const HOST_NAME: Meant = meant(
    "GET v2/infra-env/*/hosts/*/downloads/ignition",
    ".storage.files[0].contents.source",
    "the recorded config is a dummy with a dummy's name; ours has the host's",
);
const SINGLE_NODE: Meant = meant(
    "GET v2/infra-env/*/hosts/*/downloads/ignition",
    ".storage.files[1].*",
    "ours tells a single node's kubelet its network; a dummy does not",
);
const OUR_AGENT: &[Meant] = &[meant(
    "GET v2/infra-envs/*/hosts/*/instructions",
    ".next_instruction_seconds",
    "our own agent may come sooner while its host is new",
)];
const HOSTS_BY_ID: &str = "hosts are listed by id, the real service's by time";
const CLUSTER_FIELDS: &[Meant] = &[
    meant("GET v2/clusters/*", ".host_networks[0].host_ids[*]", HOSTS_BY_ID),
    meant("GET v2/clusters/*", ".feature_usage:.Cluster managed networking with VMs.data.VM Hosts[*]", HOSTS_BY_ID),
    meant("GET v2/clusters/*", ".ocp_release_image", NO_CATALOGUE),
    meant("GET v2/clusters/*", ".org_soft_timeouts_enabled", "ours says what --soft-timeouts is"),
];
const NULLS_PATCHED: &[Meant] = &[
    meant("8 POST v2/infra-envs/*/hosts", ".status", "a proxy put the text in place of null"),
    meant("8 POST v2/infra-envs/*/hosts", ".status_info", "a proxy put the text in place of null"),
];

/// Replays a recording of the real service and compares every answer.
fn compared(name: &str, course: Course, tables: &[&[Meant]]) {
    let Some(folder) = recorded(name) else { return };
    let mut recording = Recording::open(&folder, course);
    let count = recording.exchanges.len();
    let found = recording.replay(compare::answers);
    compare::settle(name, count, &found, tables);
}

#[test]
fn the_real_agent_and_installer_install_a_node() {
    compared("sno-install", Course::Install, &[&[VARY, NOSNIFF, HOST_NAME, SINGLE_NODE], &MANIFESTS[1..]]);
}

#[test]
fn our_agent_and_installer_install_a_node() {
    compared(
        "ours-at-the-real-service/sno-with-accept-patched",
        Course::Install,
        &[&[VARY, NOSNIFF, HOST_NAME, SINGLE_NODE], &MANIFESTS[1..], OUR_AGENT],
    );
}

#[test]
fn our_agent_is_refused_a_download() {
    compared("ours-at-the-real-service/sno-download-refused", Course::Install, &[&[VARY, NOSNIFF], OUR_AGENT]);
}

#[test]
fn our_agents_and_installers_install_three_nodes() {
    compared(
        "ours-at-the-real-service/ha-with-accept-patched",
        Course::Install,
        &[&[VARY, NOSNIFF, HOST_NAME], &MANIFESTS[1..5], OUR_AGENT, CLUSTER_FIELDS],
    );
}

#[test]
fn our_agent_is_bound_and_installs() {
    compared(
        "ours-at-the-real-service/bind-with-nulls-patched",
        Course::BindAndInstall,
        &[&[VARY, NOSNIFF], &MANIFESTS[..5], OUR_AGENT, NULLS_PATCHED],
    );
}

#[test]
fn our_agent_is_bound_and_registers_again_and_again() {
    compared(
        "ours-at-the-real-service/bind-never-registers-again",
        Course::BindAndInstall,
        &[&[VARY, NOSNIFF], OUR_AGENT],
    );
}

#[test]
fn our_agent_is_added() {
    compared("ours-at-the-real-service/day2", Course::Add, &[&[VARY, NOSNIFF], OUR_AGENT]);
}

/// Recorded at an earlier version of ours: what was answered then is no measure, but the statuses are. That each body is as published
/// is looked at with every request.
fn taken(name: &str) {
    let Some(folder) = recorded(name) else { return };
    let mut recording = Recording::open(&folder, Course::Install);
    let count = recording.exchanges.len();
    let refused = recording.replay(|exchange, answer| {
        let said = String::from_utf8_lossy(&answer.body);
        let line = format!("{} {}: {} {said}", exchange.number, exchange.what(), answer.status);
        (answer.status != exchange.status).then_some(line).into_iter().collect()
    });
    assert!(refused.is_empty(), "{name}: of {count} exchanges\n{}", refused.join("\n"));
}

#[test]
fn what_the_real_agent_and_installer_of_a_node_send_is_taken() {
    taken("the-real-ones-at-ours/sno");
}

#[test]
fn what_three_real_agents_and_their_controller_send_is_taken() {
    taken("the-real-ones-at-ours/ha-with-controller");
}
