//! A service that makes clusters' files, its program's double, and hosts that answer.

use crate::preparing::{
    common::{API, REQUIREMENTS, connectivity, inventory, pull_secret},
    server::Served,
};
use api::{
    Client, ClientConfig, ClientError, Cluster, ClusterCreateParams, ClusterId, HostCreateParams, HostId,
    InfraEnvCreateParams, InfraEnvId, MachineNetwork, RetryPolicy, Secret, StepReply, StepType,
};
use installer_double::{Behaviour, Double, Fault};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};
use testkit::wait;

/// The service, over several of its lives.
pub(crate) struct Site {
    pub double: Double,
    directory: tempfile::TempDir,
    /// Options for where openshift-install comes from.
    programs: Vec<String>,
    served: Option<Served>,
}

impl Site {
    /// The double is given to the service.
    pub(crate) fn start(behaviour: &Behaviour) -> Self {
        Self::start_with(behaviour, |double, _| vec![option("openshift-install", double)])
    }

    /// `programs` are the options for where it comes from, made of its path and a directory.
    pub(crate) fn start_with(behaviour: &Behaviour, programs: impl FnOnce(&Path, &Path) -> Vec<String>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let built = testkit::process::program("openshift-install-double");
        let double = Double::place(&built, directory.path(), behaviour).unwrap();
        fs::write(directory.path().join("requirements.json"), REQUIREMENTS).unwrap();
        let programs = programs(double.program(), directory.path());
        let mut site = Self { double, directory, programs, served: None };
        site.resume();
        site
    }

    pub(crate) fn resume(&mut self) {
        let mut more = vec![
            "--generate".to_owned(),
            option("requirements", &self.directory.path().join("requirements.json")),
            "--monitor-interval=1".to_owned(),
            "--disable-validations=api-domain-name-resolved-correctly,api-int-domain-name-resolved-correctly,\
             apps-domain-name-resolved-correctly,dns-wildcard-not-configured,ntp-synced,container-images-available"
                .to_owned(),
        ];
        more.extend_from_slice(&self.programs);
        self.served = Some(Served::start_with(&self.state(), 0, 1, &more));
    }

    pub(crate) fn kill(&mut self) {
        self.served.take().unwrap().kill();
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub(crate) fn client(&self) -> Client {
        let url = format!("http://{}", self.served.as_ref().unwrap().address);
        Client::new(&ClientConfig { url, ..ClientConfig::default() }, RetryPolicy::Never).unwrap()
    }

    pub(crate) fn client_url(&self) -> String {
        format!("http://{}{API}", self.served.as_ref().unwrap().address)
    }

    /// What runs have left.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("preparation")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, u16> {
        Self::fetch(&format!("{}{path}", self.client_url()))
    }

    pub(crate) fn fetch(url: &str) -> Result<Vec<u8>, u16> {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut reply = agent.get(url).call().unwrap();
        match reply.status().as_u16() {
            200 => Ok(reply.body_mut().read_to_vec().unwrap()),
            status => Err(status),
        }
    }

    /// Waits until a cluster is as it should be.
    pub(crate) fn until(&self, what: &str, rack: &Rack, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut cluster = Value::Null;
        let came = wait::comes(|| {
            cluster = serde_json::from_slice(&self.get(&format!("/v2/clusters/{}", rack.cluster)).unwrap()).unwrap();
            let came = is_so(&cluster);
            if !came {
                rack.answer(&self.client());
            }
            came
        });
        assert!(came, "{what}: {} {}", cluster["status"], cluster["last-installation-preparation"]);
        cluster
    }

    pub(crate) fn file(&self, rack: &Rack, name: &str) -> Result<Vec<u8>, u16> {
        self.get(&format!("/v2/clusters/{}/downloads/files?file_name={name}", rack.cluster))
    }

    pub(crate) fn json(&self, rack: &Rack, name: &str) -> Value {
        serde_json::from_slice(&self.file(rack, name).unwrap()).unwrap()
    }

    /// The events of a cluster by name, in order.
    pub(crate) fn events(&self, rack: &Rack) -> Vec<(String, String)> {
        let events: Vec<Value> = serde_json::from_slice(
            &self.get(&format!("/v2/events?cluster_id={}&order=ascending", rack.cluster)).unwrap(),
        )
        .unwrap();
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(event, "name"), text(event, "message"))).collect()
    }
}

fn option(name: &str, file: &Path) -> String {
    format!("--{name}={}", file.display())
}

/// A cluster with hosts.
pub(crate) struct Rack {
    pub cluster: ClusterId,
    pub infra_env: InfraEnvId,
    pub hosts: Vec<HostId>,
    network: u8,
}

impl Rack {
    /// One whose hosts are known: it can be installed. `network` tells its addresses from those of others.
    pub(crate) fn ready(site: &Site, network: u8, masters: u32, hosts: usize) -> Self {
        Self::ready_with(site, network, masters, hosts, |_| {})
    }

    pub(crate) fn ready_with(
        site: &Site,
        network: u8,
        masters: u32,
        hosts: usize,
        change: impl FnOnce(&mut ClusterCreateParams),
    ) -> Self {
        let rack = Self::new(site, network, masters, hosts, change);
        site.until("ready", &rack, |cluster| cluster["status"] == "ready");
        rack
    }

    pub(crate) fn new(
        site: &Site,
        network: u8,
        masters: u32,
        hosts: usize,
        change: impl FnOnce(&mut ClusterCreateParams),
    ) -> Self {
        let client = site.client();
        let mut params = ClusterCreateParams {
            name: format!("rack-{network}"),
            openshift_version: "4.22.9".into(),
            base_dns_domain: Some("example.com".into()),
            control_plane_count: Some(masters.into()),
            machine_networks: Some(vec![MachineNetwork { cidr: format!("10.0.{network}.0/24"), cluster_id: None }]),
            user_managed_networking: Some(true),
            ssh_public_key: None,
            pull_secret: Secret::new(secret(network)),
            ..ClusterCreateParams::default()
        };
        change(&mut params);
        let cluster: Cluster = client.create_cluster(&params).unwrap();
        let infra_env = client
            .create_infra_env(&InfraEnvCreateParams {
                name: format!("rack-{network}"),
                cluster_id: Some(cluster.id),
                pull_secret: Secret::new(secret(network)),
                ..InfraEnvCreateParams::default()
            })
            .unwrap();
        let rack = Self {
            cluster: cluster.id,
            infra_env: infra_env.id,
            hosts: (0..hosts).map(|_| HostId::random()).collect(),
            network,
        };
        for host in &rack.hosts {
            let params = HostCreateParams { host_id: *host, discovery_agent_version: "localhost/agent:1".into() };
            client.register_host(rack.infra_env, &params).unwrap();
        }
        rack
    }

    /// What hosts answer to the steps they are given.
    pub(crate) fn answer(&self, client: &Client) {
        for (index, host) in self.hosts.iter().enumerate() {
            let steps = client.next_steps(self.infra_env, *host).unwrap().instructions.unwrap_or_default();
            for step in steps {
                let output = match step.step_type {
                    StepType::Inventory => {
                        let (network, index) = (self.network, index + 1);
                        let address = format!("10.0.{network}.{index}");
                        inventory(&format!("node-{index}"), &address, &format!("52:54:00:00:{network:02x}:{index:02x}"))
                    }
                    StepType::ConnectivityCheck => connectivity(&step),
                    _ => continue,
                };
                let (step_id, step_type) = (step.step_id, step.step_type);
                let reply =
                    StepReply { error: String::new(), exit_code: 0, output: output.to_string(), step_id, step_type };
                match client.post_reply(self.infra_env, *host, &reply) {
                    // The installation began since the host asked for its steps.
                    Err(ClientError::Status { message, .. }) if message.contains("can be updated only in one of") => {}
                    result => result.unwrap(),
                }
            }
        }
    }

    pub(crate) fn install(&self, site: &Site) {
        site.client().install_cluster(self.cluster).unwrap();
    }

    pub(crate) fn host_config(&self, site: &Site, host: HostId) -> Value {
        serde_json::from_slice(&site.client().host_ignition(self.infra_env, host).unwrap()).unwrap()
    }
}

/// Each rack has its own.
pub(crate) fn secret(network: u8) -> String {
    pull_secret().replace("quay.io", &format!("registry-{network}.example.com"))
}

/// The preparation's status.
pub(crate) fn preparation(cluster: &Value) -> &str {
    cluster["last-installation-preparation"]["status"].as_str().unwrap_or_default()
}

/// A double that works this long before a command does anything.
pub(crate) fn slow(command: &str, milliseconds: u64) -> Behaviour {
    let fault = Fault { command: Some(command.to_owned()), sleep_before_ms: milliseconds, ..Fault::default() };
    Behaviour { faults: vec![fault], ..Behaviour::default() }
}
