//! Agents as the service sees them: they register, poll, and answer every step with documents of a real size.

use crate::load::{
    API,
    http::{Answer, Connection},
    measure::Latencies,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use uuid::Uuid;

pub(crate) const HOSTS_PER_CLUSTER: usize = 50;
const DISKS: usize = 12;

pub(crate) struct Fleet {
    address: String,
    interval: u64,
    agents: Vec<Arc<Agent>>,
    infra_envs: Vec<String>,
}

pub(crate) struct Agent {
    id: Uuid,
    /// Within its cluster.
    place: usize,
    infra_env: String,
    /// Of the last inventory it sent, and of the last that was acknowledged.
    sent: AtomicU64,
    acknowledged: AtomicU64,
    /// What it says is worked out once: a fleet that is slow to speak measures itself. Its inventory before and after the serial
    /// number, and its last output of other steps with what was asked, all as they stand within a reply.
    inventory: OnceLock<(String, String)>,
    outputs: Mutex<HashMap<String, (String, Arc<str>)>>,
}

/// The answer to a poll, as far as an agent looks at it.
#[derive(Deserialize)]
struct Steps<'a> {
    next_instruction_seconds: u64,
    #[serde(borrow, default)]
    instructions: Vec<Step<'a>>,
}

#[derive(Deserialize)]
struct Step<'a> {
    step_type: &'a str,
    step_id: &'a str,
    #[serde(borrow, default)]
    args: Vec<Cow<'a, str>>,
}

pub(crate) async fn create_cluster(connection: &mut Connection, name: &str) -> String {
    let pull_secret = json!({"auths": {"quay.io": {"auth": "dXNlcjpwYXNz"}}}).to_string();
    let cluster = json!({"name": name, "openshift_version": "4.22", "pull_secret": pull_secret, "base_dns_domain": "example.com",
        "control_plane_count": 3, "user_managed_networking": true});
    let answer = connection.json("POST", &format!("{API}/v2/clusters"), &cluster).await.unwrap();
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    answer.document()["id"].as_str().unwrap().to_owned()
}

impl Fleet {
    pub(crate) async fn create(address: &str, agents: usize, interval: u64) -> Self {
        let pull_secret = json!({"auths": {"quay.io": {"auth": "dXNlcjpwYXNz"}}}).to_string();
        let mut connection = Connection::open(address).await;
        let mut fleet = Self { address: address.to_owned(), interval, agents: Vec::new(), infra_envs: Vec::new() };
        for number in 0..agents.div_ceil(HOSTS_PER_CLUSTER) {
            let cluster = create_cluster(&mut connection, &format!("rack-{number}")).await;
            let infra_env =
                json!({"name": format!("rack-{number}"), "pull_secret": pull_secret, "cluster_id": cluster});
            let answer = connection.json("POST", &format!("{API}/v2/infra-envs"), &infra_env).await.unwrap();
            assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
            let infra_env = answer.document()["id"].as_str().unwrap().to_owned();
            let hosts = (agents - fleet.agents.len()).min(HOSTS_PER_CLUSTER);
            fleet.agents.extend((0..hosts).map(|place| {
                Arc::new(Agent {
                    id: Uuid::new_v4(),
                    place,
                    infra_env: infra_env.clone(),
                    sent: AtomicU64::new(0),
                    acknowledged: AtomicU64::new(0),
                    inventory: OnceLock::new(),
                    outputs: Mutex::default(),
                })
            }));
            fleet.infra_envs.push(infra_env);
        }
        fleet
    }

    /// All agents, until then; what fails is noted.
    pub(crate) async fn run(&self, latencies: &Arc<Latencies>, end: Instant) {
        self.start(latencies, Some(end)).await;
    }

    /// All agents, until the service is gone.
    pub(crate) async fn run_until_lost(&self, latencies: &Arc<Latencies>) {
        self.start(latencies, None).await;
    }

    async fn start(&self, latencies: &Arc<Latencies>, end: Option<Instant>) {
        let spread = Duration::from_millis(self.interval * 1000).div_f64(self.agents.len() as f64);
        let tasks: Vec<_> = (0..)
            .zip(&self.agents)
            .map(|(number, agent)| {
                let (agent, address, latencies) = (agent.clone(), self.address.clone(), latencies.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(spread * number).await;
                    let mut session = Session { agent, latencies, end };
                    if let Err(error) = session.live(&address).await
                        && end.is_some()
                    {
                        session.latencies.fail("connection", &error);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }

    pub(crate) async fn count_known(&self, address: &str) -> usize {
        let mut known = 0;
        for infra_env in &self.infra_envs {
            known += self.hosts(address, infra_env).await.iter().filter(|host| host["status"] == "known").count();
        }
        known
    }

    async fn hosts(&self, address: &str, infra_env: &str) -> Vec<Value> {
        let path = format!("{API}/v2/infra-envs/{infra_env}/hosts");
        let answer = Connection::open(address).await.send("GET", &path, b"").await.unwrap();
        assert_eq!(answer.status, 200);
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// How many acknowledged writes were looked for, and which are not there; of a few racks, or of all.
    pub(crate) async fn verify(&self, address: &str, all: bool, random: &mut fastrand::Rng) -> (usize, Vec<String>) {
        let (mut looked_at, mut missing) = (0, Vec::new());
        let racks = if all { self.infra_envs.len() } else { 4 };
        for infra_env in random.choose_multiple(&self.infra_envs, racks) {
            let hosts = self.hosts(address, infra_env).await;
            for agent in self.agents.iter().filter(|agent| agent.infra_env == *infra_env) {
                let acknowledged = agent.acknowledged.load(Ordering::SeqCst);
                if acknowledged == 0 {
                    continue;
                }
                looked_at += 1;
                let id = agent.id.to_string();
                let found = hosts.iter().find(|host| host["id"] == *id);
                let serial = found.and_then(|host| {
                    let inventory: Value = serde_json::from_str(host["inventory"].as_str()?).ok()?;
                    inventory["system_vendor"]["serial_number"].as_str()?.parse::<u64>().ok()
                });
                // Registered, and an inventory that is no older; one that was sent and not answered may be there.
                let registered_only = acknowledged == 1 && found.is_some();
                let sent = agent.sent.load(Ordering::SeqCst);
                if !registered_only && serial.is_none_or(|serial| serial < acknowledged || serial > sent) {
                    missing.push(format!("host {id}: inventory {serial:?} instead of {acknowledged}"));
                }
            }
        }
        (looked_at, missing)
    }
}

/// An agent from its registration on.
struct Session {
    agent: Arc<Agent>,
    latencies: Arc<Latencies>,
    end: Option<Instant>,
}

impl Session {
    async fn live(&mut self, address: &str) -> std::io::Result<()> {
        let mut connection = Connection::try_open(address).await?;
        let hosts = format!("{API}/v2/infra-envs/{}/hosts", self.agent.infra_env);
        // One that is known goes on where it was: to register again would be to forget its inventory.
        if self.agent.acknowledged.load(Ordering::SeqCst) == 0 {
            let registration = json!({"host_id": self.agent.id, "discovery_agent_version": "quay.io/landfall/agent:1"});
            let registration = registration.to_string();
            let answer = self.timed("register", &mut connection, "POST", &hosts, registration.as_bytes()).await?;
            if answer.status != 201 {
                return Ok(());
            }
            self.agent.sent.fetch_max(1, Ordering::SeqCst);
            self.agent.acknowledged.fetch_max(1, Ordering::SeqCst);
        }
        let instructions = format!("{hosts}/{}/instructions", self.agent.id);
        while self.end.is_none_or(|end| Instant::now() < end) {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
            let poll = format!("{instructions}?timestamp={now}");
            let answer = self.timed("poll", &mut connection, "GET", &poll, b"").await?;
            if answer.status != 200 {
                return Ok(());
            }
            let steps: Steps = serde_json::from_slice(&answer.body).unwrap();
            for step in &steps.instructions {
                self.carry_out(&mut connection, &instructions, step).await?;
            }
            let pause = Duration::from_secs(steps.next_instruction_seconds);
            let left = self.end.map_or(pause, |end| end.saturating_duration_since(Instant::now()));
            tokio::time::sleep(pause.min(left)).await;
        }
        Ok(())
    }

    async fn carry_out(&self, connection: &mut Connection, instructions: &str, step: &Step<'_>) -> std::io::Result<()> {
        let Step { step_type: kind, step_id, args } = step;
        let mut serial = 0;
        let output: Arc<str> = match *kind {
            "inventory" => {
                serial = self.agent.sent.fetch_add(1, Ordering::SeqCst) + 1;
                let (before, after) = self.agent.inventory.get_or_init(|| self.agent.inventory());
                format!("{before}{serial}{after}").into()
            }
            "connectivity-check" | "domain-resolution" | "ntp-synchronizer" | "free-network-addresses" => {
                self.agent.output(kind, args.first().map_or("", |argument| argument))
            }
            _ => return Ok(()),
        };
        let reply =
            format!(r#"{{"step_type":"{kind}","step_id":"{step_id}","exit_code":0,"output":{output},"error":""}}"#);
        let answer = self.timed(kind, connection, "POST", instructions, reply.as_bytes()).await?;
        if *kind == "inventory" && answer.status == 204 {
            self.agent.acknowledged.fetch_max(serial, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn timed(
        &self,
        kind: &str,
        connection: &mut Connection,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> std::io::Result<Answer> {
        let began = Instant::now();
        let answer = connection.send(method, path, body).await?;
        self.latencies.note(kind, began.elapsed(), answer.status, body.len().max(answer.body.len()));
        Ok(answer)
    }
}

/// In one network of all hosts of a cluster, and one of storage.
fn address(network: usize, place: usize) -> String {
    format!("10.{network}.0.{}", place + 1)
}

fn mac(network: usize, place: usize) -> String {
    format!("52:54:00:0{network}:00:{place:02x}")
}

impl Agent {
    /// The output of a step, a JSON string.
    fn output(&self, kind: &str, argument: &str) -> Arc<str> {
        let mut outputs = self.outputs.lock().unwrap();
        if let Some((_, output)) = outputs.get(kind).filter(|(asked, _)| asked == argument) {
            return output.clone();
        }
        let output = match kind {
            "connectivity-check" => connectivity(argument),
            "domain-resolution" => resolutions(argument),
            "ntp-synchronizer" => json!({"ntp_sources": [{"source_name": "10.0.0.1", "source_state": "synced"}]}),
            _ => {
                let networks: Vec<String> = serde_json::from_str(argument).unwrap();
                networks.iter().map(|network| json!({"network": network, "free_addresses": []})).collect()
            }
        };
        let output: Arc<str> = Value::from(output.to_string()).to_string().into();
        outputs.insert(kind.to_owned(), (argument.to_owned(), output.clone()));
        output
    }

    /// Of a server with a dozen disks and four ports: a JSON string, before and after the serial number.
    fn inventory(&self) -> (String, String) {
        const SERIAL: &str = "@SERIAL@";
        let inventory = Value::from(self.inventory_of(SERIAL).to_string()).to_string();
        let (before, after) = inventory.split_once(SERIAL).unwrap();
        (before.to_owned(), after.to_owned())
    }

    fn inventory_of(&self, serial: &str) -> Value {
        let disks: Vec<Value> = (0..DISKS)
            .map(|disk| {
                let letter = char::from(b'a' + u8::try_from(disk).unwrap());
                json!({
                    "name": format!("sd{letter}"), "path": format!("/dev/sd{letter}"),
                    "id": format!("/dev/disk/by-id/wwn-0x5000c500a1b2{:02x}{disk:02x}", self.place),
                    "by_id": format!("/dev/disk/by-id/wwn-0x5000c500a1b2{:02x}{disk:02x}", self.place),
                    "by_path": format!("/dev/disk/by-path/pci-0000:5e:00.0-scsi-0:2:{disk}:0"), "hctl": format!("0:2:{disk}:0"),
                    "drive_type": "SSD", "model": "SAMSUNG MZ7LH960HAJR-00005", "vendor": "ATA", "serial": format!("S45NNA0N{disk:06}"),
                    "wwn": format!("0x5000c500a1b2{:02x}{disk:02x}", self.place), "size_bytes": 960_197_124_096_u64, "bootable": disk == 0,
                    "smart": "{\"smart_status\":{\"passed\":true},\"temperature\":{\"current\":31},\"power_on_time\":{\"hours\":21354}}",
                    "installation_eligibility": {"eligible": true, "not_eligible_reasons": null},
                    "io_perf": {"sync_duration": 3}, "removable": false,
                })
            })
            .collect();
        let interfaces: Vec<Value> = (0..4)
            .map(|port| {
                let addresses: Vec<String> = (port < 2).then(|| format!("{}/24", address(port, self.place))).into_iter().collect();
                json!({
                    "name": format!("ens{}f{}", 1 + port / 2, port % 2), "type": "physical", "flags": ["up", "broadcast", "multicast"],
                    "has_carrier": port < 2, "mac_address": mac(port, self.place), "mtu": 9000, "speed_mbps": 25000,
                    "product": "0x1017", "vendor": "0x15b3", "client_id": "", "biosdevname": "",
                    "ipv4_addresses": addresses, "ipv6_addresses": [],
                })
            })
            .collect();
        json!({
            "hostname": format!("node-{}", self.place), "bmc_address": format!("10.9.0.{}", self.place + 1), "bmc_v6address": "::/0",
            "boot": {"current_boot_mode": "uefi", "command_line": "BOOT_IMAGE=/images/pxeboot/vmlinuz coreos.liveiso=rhcos ignition.firstboot ignition.platform.id=metal"},
            "cpu": {"architecture": "x86_64", "count": 96, "frequency": 3200.0, "model_name": "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz",
                "flags": (0..120).map(|flag| format!("feature_{flag}")).collect::<Vec<_>>()},
            "disks": disks, "interfaces": interfaces, "gpus": [],
            "memory": {"physical_bytes": 549_755_813_888_u64, "physical_bytes_method": "dmidecode", "usable_bytes": 540_000_000_000_u64},
            "routes": [{"destination": "0.0.0.0", "family": 2, "gateway": "10.0.0.254", "interface": "ens1f0", "metric": 100}],
            "system_vendor": {"manufacturer": "Dell Inc.", "product_name": "PowerEdge R650", "serial_number": serial},
            "timestamp": 1_800_000_000, "tpm_version": "2.0",
        })
    }
}

/// Everybody reaches everybody it is asked for.
fn connectivity(argument: &str) -> Value {
    let asked: Vec<Value> = serde_json::from_str(argument).unwrap();
    let remote_hosts: Vec<Value> = asked
        .iter()
        .map(|host| {
            let nics = host["nics"].as_array().into_iter().flatten();
            let addresses = nics.flat_map(|nic| {
                nic["ip_addresses"].as_array().into_iter().flatten().map(move |address| (nic, address))
            });
            let (mut l2, mut l3, mut mtu) = (Vec::new(), Vec::new(), Vec::new());
            for (nic, address) in addresses {
                l2.push(
                    json!({"outgoing_ip_address": "10.0.0.1", "outgoing_nic": "ens1f0", "remote_ip_address": address,
                    "remote_mac": nic["mac"], "successful": true}),
                );
                l3.push(json!({"average_rtt_ms": 0.21, "outgoing_nic": "ens1f0", "packet_loss_percentage": 0,
                    "remote_ip_address": address, "successful": true}));
                mtu.push(json!({"mtu_successful": true, "outgoing_nic": "ens1f0", "remote_ip_address": address}));
            }
            json!({"host_id": host["host_id"], "l2_connectivity": l2, "l3_connectivity": l3, "mtu_report": mtu})
        })
        .collect();
    json!({ "remote_hosts": remote_hosts })
}

fn resolutions(argument: &str) -> Value {
    let asked: Value = serde_json::from_str(argument).unwrap_or_default();
    let domains = asked["domains"].as_array().into_iter().flatten();
    let answers: Vec<Value> = domains
        .map(|domain| {
            let wildcard = domain["domain_name"].as_str().unwrap_or_default().contains("validateNoWildcard");
            let addresses = if wildcard { json!([]) } else { json!(["10.0.0.200"]) };
            json!({"domain_name": domain["domain_name"], "ipv4_addresses": addresses, "ipv6_addresses": []})
        })
        .collect();
    json!({ "resolutions": answers })
}
