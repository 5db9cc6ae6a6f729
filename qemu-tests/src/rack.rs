//! A rack: machines on a switch with a gateway, and the service that installs them.

use crate::{
    arch::Arch,
    paths,
    service::{self, Service, ServiceConfig, ServiceError},
    stand_in::{
        KUBELET_PORT,
        cluster_files::{ADDRESS, ClusterFiles, ControlPlane},
    },
    switch::{PortId, Switch},
    uplink::{self, Uplink, UplinkError},
    view::{self, HostView},
    vm::{Bus, Disk, Firmware, Vm, VmBuilder, VmError},
};
use api::{
    Cluster, ClusterCreateParams, ClusterId, Host, HostUpdateParams, InfraEnvCreateParams, InfraEnvId, Mac, Platform,
    Secret,
};
use serde_json::json;
use service_stub::control::culprit;
use sha2::{Digest, Sha256};
use simulator::{FaultProxy, Recorded};
use std::{
    io,
    net::SocketAddrV4,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use testkit::port::Held;

/// Between two looks at the hosts.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// After a node has joined, its console may still be on the way to `@@ node ready`.
const FACTS_LIMIT: Duration = Duration::from_secs(600);
/// Requirements that test machines meet.
const REQUIREMENTS: &str = r#"[{"version": "default",
    "master": {"cpu_cores": 1, "ram_mib": 512, "disk_size_gb": 1}, "arbiter": {"cpu_cores": 1, "ram_mib": 512, "disk_size_gb": 1},
    "worker": {"cpu_cores": 1, "ram_mib": 512, "disk_size_gb": 1}, "sno": {"cpu_cores": 1, "ram_mib": 512, "disk_size_gb": 1}}]"#;
/// Syntactically a pull secret; it is not used.
const PULL_SECRET: &str = r#"{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNz"}}}"#;

/// A file that the override of each host adds.
pub const SITE_FILE: &str = "/etc/landfall-test/site";

/// What a rack is made of.
#[derive(Clone, Debug)]
pub struct RackConfig {
    /// Names the logs' directory.
    pub run: String,
    /// Machines: 1, or 3 and more.
    pub hosts: u8,
    /// Processor of all.
    pub arch: Arch,
    /// Firmware of all.
    pub firmware: Firmware,
    /// Of the disks: 512 or 4096.
    pub sector_bytes: u32,
    /// Of each machine.
    pub memory_mib: u32,
    /// Of each machine's one disk.
    pub disk_bytes: u64,
    /// What that is attached to.
    pub bus: Bus,
    /// Live ISO, as built or downloaded.
    pub iso: PathBuf,
    pub image: PathBuf,
    /// The ISO has no agent: the service delivers it.
    pub deliver_agent: bool,
    /// Number of masters; all, unless there is a control plane.
    pub masters: u8,
    /// The cluster's control plane, if it has one.
    pub control_plane: Option<ControlPlane>,
    /// The ISO comes before the disk in the firmware's order.
    pub iso_first: bool,
    /// Each machine has the port that [`Vm::shell`] needs.
    pub shell: bool,
    /// The machines belong to no cluster.
    pub in_pool: bool,
}

impl RackConfig {
    /// Machines as the built images need them.
    pub fn new(run: &str, hosts: u8, iso: PathBuf, image: PathBuf) -> Self {
        Self {
            run: run.to_owned(),
            hosts,
            arch: Arch::default(),
            firmware: Firmware::Bios,
            sector_bytes: 512,
            memory_mib: 1024,
            disk_bytes: 4 << 30,
            bus: Bus::default(),
            iso,
            image,
            deliver_agent: false,
            masters: hosts,
            control_plane: None,
            iso_first: false,
            shell: false,
            in_pool: false,
        }
    }
}

/// What went wrong with a rack.
#[derive(Debug, thiserror::Error)]
pub enum RackError {
    #[error(transparent)]
    Vm(#[from] VmError),
    #[error(transparent)]
    Uplink(#[from] UplinkError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// With the files of its control plane.
    #[error("cannot make the cluster's install-time files: {0:#}")]
    ClusterFiles(anyhow::Error),
    #[error(transparent)]
    Client(#[from] api::ClientError),
    #[error("cannot set up the rack")]
    Setup(#[source] io::Error),
    #[error("{host} failed: {info} (state {state}, stage {stage}); consoles and logs are in {}", logs.display())]
    Host { host: String, state: String, info: String, stage: String, logs: PathBuf },
    #[error("not reached within {} s: {what}; last seen:\n{seen}\n  consoles and logs are in {}", limit.as_secs(), logs.display())]
    Limit {
        /// What was waited for.
        what: String,
        limit: Duration,
        seen: String,
        logs: PathBuf,
    },
    #[error("interrupted")]
    Interrupted,
}

/// What an installed machine said of itself on its console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    facts: Vec<(String, String)>,
}

impl NodeFacts {
    /// Takes the `node key=value` markers; of a repeated key the last.
    pub fn parse<'a>(markers: impl IntoIterator<Item = &'a str>) -> Self {
        let facts = markers.into_iter().filter_map(|text| text.strip_prefix("node ")?.split_once('='));
        Self { facts: facts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect() }
    }

    /// The value of `hostname`, `user`, `ignition-result`, `cmdline`, …
    pub fn get(&self, key: &str) -> Option<&str> {
        self.facts.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// What the machine must report after Ignition applied the settings of the host of that name: hostname, a key of user
    /// core, a file. An error names the first difference.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let said = |key: &str| self.get(key).unwrap_or_default();
        if said("hostname") != name {
            return Err(format!("{name} reports the host name '{}'", said("hostname")));
        }
        // Configs of the role may have added others.
        if !said("keys").split_whitespace().any(|word| word == key_comment(name)) {
            return Err(format!(
                "{name}: user core has the keys '{}', not that of {}",
                said("keys"),
                key_comment(name)
            ));
        }
        if self.site_file() != Some(sha256(&site_text(name)).as_str()) {
            return Err(format!("{name}: {SITE_FILE} is {:?}", self.site_file()));
        }
        if self.provisioned().is_none() {
            return Err(format!("{name}: Ignition applied no config on the first boot: '{}'", said("ignition-result")));
        }
        Ok(())
    }

    /// Comment of core's last authorized key.
    pub fn user_key(&self) -> Option<&str> {
        self.get("keys")?.split_whitespace().last()
    }

    /// SHA-256 of the file of this rack's override.
    pub fn site_file(&self) -> Option<&str> {
        self.get(&format!("file:{SITE_FILE} sha256"))
    }

    /// When Ignition ran with a config, by its own record in `/etc/.ignition-result.json`.
    pub fn provisioned(&self) -> Option<String> {
        let result: serde_json::Value = serde_json::from_str(self.get("ignition-result")?).ok()?;
        let provided = result.get("userConfigProvided")?.as_bool()?;
        Some(result.get("provisioningDate")?.as_str()?.to_owned()).filter(|_| provided)
    }

    /// Units that failed to start.
    pub fn failed_units(&self) -> Vec<&str> {
        self.facts.iter().filter(|(key, _)| key == "failed-unit").map(|(_, unit)| unit.as_str()).collect()
    }
}

/// Called at every look at the hosts; an error ends the waiting.
pub type Observer = Box<dyn FnMut(&[HostView]) -> Result<(), RackError>>;

/// A rack with its power on or off. Dropping it ends everything and removes disks; logs stay.
pub struct Rack {
    // Dropped in this order: machines first, then what they are connected to, then the files.
    vms: Vec<Vm>,
    service: Service,
    uplink: Uplink,
    switch: Switch,
    ports: Vec<PortId>,
    config: RackConfig,
    /// Where the cluster's controller finds the service.
    recorder: Option<FaultProxy>,
    cluster: ClusterId,
    infra_env: InfraEnvId,
    iso: PathBuf,
    logs: PathBuf,
    dir: tempfile::TempDir,
    started: Instant,
    observer: Observer,
    _kubelet_port: Held,
}

impl Rack {
    /// Starts all but the machines; creates cluster and infra-env, downloads the ISO.
    pub fn start(config: RackConfig, observer: Observer) -> Result<Self, RackError> {
        let started = Instant::now();
        let logs = paths::log_dir(&config.run).map_err(RackError::Setup)?;
        let dir = paths::scratch_dir().map_err(RackError::Setup)?;
        let mut files = match &config.control_plane {
            Some(control_plane) => {
                let (directory, controller) = (dir.path().join("cluster"), service::binary()?);
                let made = ClusterFiles::prepare(&directory, control_plane, &controller, config.masters);
                Some(made.map_err(RackError::ClusterFiles)?)
            }
            None => None,
        };
        let service = Service::start(ServiceConfig {
            state_dir: dir.path().join("state"),
            iso: config.iso.clone(),
            image: config.image.clone(),
            agent_binary: if config.arch.is_host() { None } else { Some(service::binary_of(config.arch)?) },
            offered: files.as_ref().map(|files| files.offered().to_vec()).unwrap_or_default(),
            openshift_install: files.as_ref().map(|files| files.installer().to_owned()),
            poll_interval_s: 2,
            requirements: REQUIREMENTS.to_owned(),
            deliver_agent: config.deliver_agent,
            log: logs.join("service.log"),
        })?;
        let mut recorder = None;
        let kubelet_port = Held::default();
        if let Some(files) = &mut files {
            let recorder = recorder.insert(FaultProxy::http(&service.local_url()));
            let for_controller = recorder.url().replace("127.0.0.1", &uplink::HOST.to_string());
            files.write(&service.url(), &for_controller, kubelet_port.port()).map_err(RackError::ClusterFiles)?;
        }
        let cluster = service.client().create_cluster(&cluster_params(&config))?;
        let infra_env = service.client().create_infra_env(&InfraEnvCreateParams {
            name: "demo".into(),
            cluster_id: Some(cluster.id).filter(|_| !config.in_pool),
            cpu_architecture: Some(config.arch.name.to_owned()),
            pull_secret: Secret::new(PULL_SECRET),
            ..Default::default()
        })?;
        let iso = dir.path().join("discovery.iso");
        service.fetch(&infra_env.download_url, &iso)?;
        let switch = Switch::start(1).map_err(RackError::Setup)?;
        let uplink = match files {
            Some(_) => {
                let kubelet = SocketAddrV4::new(ADDRESS, KUBELET_PORT);
                Uplink::start_leading(&switch, &logs, kubelet_port.port(), kubelet)?
            }
            None => Uplink::start(&switch, &logs)?,
        };
        let ports: Result<Vec<PortId>, io::Error> =
            (0..config.hosts).map(|index| switch.add_port(&node_name(index))).collect();
        let ports = ports.map_err(RackError::Setup)?;
        let (cluster, infra_env) = (cluster.id, infra_env.id);
        Ok(Self {
            vms: Vec::new(),
            service,
            uplink,
            switch,
            ports,
            config,
            recorder,
            cluster,
            infra_env,
            iso,
            logs,
            dir,
            started,
            observer,
            _kubelet_port: kubelet_port,
        })
    }

    /// Switches all machines on: blank disk first, then the ISO.
    pub fn power_on(&mut self) -> Result<(), RackError> {
        self.power_on_with(|_, machine| machine)
    }

    /// The same, each with other hardware.
    pub fn power_on_with(&mut self, adjust: impl Fn(u8, VmBuilder) -> VmBuilder) -> Result<(), RackError> {
        for index in 0..self.config.hosts {
            let disk = Disk {
                path: self.dir.path().join(format!("{}.img", node_name(index))),
                size_bytes: self.config.disk_bytes,
                serial: format!("LANDFALL-DISK-{index}"),
                sector_bytes: self.config.sector_bytes,
                bus: self.config.bus,
            };
            let builder = Vm::builder(&self.config.run, node_name(index))
                .arch(self.config.arch)
                .memory_mib(self.config.memory_mib)
                .firmware(self.config.firmware)
                .identity(format!("4c616e64-6661-6c6c-8000-0000000000{index:02x}"), format!("LANDFALL-{index}"))
                .disk(disk)
                .iso(&self.iso)
                .iso_first(self.config.iso_first)
                .nic(mac(index), self.switch.port_path(self.ports[usize::from(index)]));
            let builder = if self.config.shell { builder.shell() } else { builder };
            self.vms.push(adjust(index, builder).start()?);
        }
        Ok(())
    }

    /// The machines, in order of their names.
    pub fn vms(&mut self) -> &mut [Vm] {
        &mut self.vms
    }

    pub fn service(&mut self) -> &mut Service {
        &mut self.service
    }

    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The machines' ports.
    pub fn ports(&self) -> &[PortId] {
        &self.ports
    }

    /// The gateway's port.
    pub fn uplink_port(&self) -> PortId {
        self.uplink.port()
    }

    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// For files of the test; removed with the rack.
    pub fn directory(&self) -> &Path {
        self.dir.path()
    }

    /// Since the rack was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The service's records, in order of machines; hosts without inventory last.
    pub fn hosts(&self) -> Result<Vec<Host>, RackError> {
        let mut hosts = self.service.client().hosts(self.infra_env)?;
        hosts.sort_by_key(|host| {
            ((0..self.config.hosts).find(|index| view::has_mac(host, mac(*index))).unwrap_or(u8::MAX), host.id)
        });
        Ok(hosts)
    }

    /// Rows of all hosts.
    pub fn views(&self) -> Result<Vec<HostView>, RackError> {
        let count = usize::from(self.config.hosts);
        Ok(self.hosts()?.iter().map(|host| HostView::new(host, count)).collect())
    }

    /// What the cluster's controller has asked of the service.
    pub fn controller_requests(&self) -> Vec<Recorded> {
        self.recorder.as_ref().map(FaultProxy::requests).unwrap_or_default()
    }

    /// The cluster's record.
    pub fn cluster(&self) -> Result<Cluster, RackError> {
        Ok(self.service.client().cluster(self.cluster)?)
    }

    /// Fails when a machine, the gateway or the service is gone.
    pub fn check(&mut self) -> Result<(), RackError> {
        for vm in &mut self.vms {
            vm.check()?;
        }
        self.uplink.check()?;
        self.service.check()?;
        Ok(())
    }

    /// Looks at the hosts until `done`. Fails when a host does, or after `limit`.
    pub fn wait(
        &mut self,
        what: &str,
        limit: Duration,
        done: impl Fn(&[HostView]) -> bool,
    ) -> Result<Vec<HostView>, RackError> {
        let deadline = Instant::now() + limit;
        loop {
            self.check()?;
            let views = self.views()?;
            (self.observer)(&views)?;
            let failed = views.iter().filter(|view| matches!(view.state.as_str(), "error" | "cancelled"));
            if let Some(failed) = failed.min_by_key(|view| view.urgency) {
                return Err(RackError::Host {
                    host: failed.name.clone(),
                    state: failed.state.clone(),
                    info: failed.reason.clone(),
                    stage: failed.stage_text(),
                    logs: self.logs.clone(),
                });
            }
            if done(&views) {
                return Ok(views);
            }
            if Instant::now() >= deadline {
                return Err(RackError::Limit {
                    what: what.to_owned(),
                    limit,
                    seen: lines(&views),
                    logs: self.logs.clone(),
                });
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Waits until all machines have registered and sent their inventory, and names them node-0, node-1, …
    pub fn discover(&mut self, limit: Duration) -> Result<(), RackError> {
        let count = usize::from(self.config.hosts);
        self.wait("every machine registered with an inventory", limit, |views| {
            views.len() == count && views.iter().all(|view| !view.mac.is_empty())
        })?;
        for (index, host) in self.hosts()?.iter().enumerate() {
            let name = node_name_of(index);
            let params = HostUpdateParams { host_name: Some(name), ..HostUpdateParams::default() };
            self.service.client().update_host(self.infra_env, host.id, &params)?;
            self.service.client().update_host_ignition(
                self.infra_env,
                host.id,
                &site_override(&node_name_of(index)),
            )?;
        }
        Ok(())
    }

    /// Waits until all hosts are known and the cluster may be installed.
    pub fn wait_ready(&mut self, limit: Duration) -> Result<(), RackError> {
        let count = usize::from(self.config.hosts);
        let deadline = Instant::now() + limit;
        self.wait("every host known", limit, |views| {
            views.len() == count && views.iter().all(|view| view.state == "known")
        })?;
        loop {
            let cluster = self.cluster()?;
            if cluster.status == "ready" {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let record = serde_json::to_value(&cluster).unwrap_or_default();
                let mut seen = format!("    {}: {}", cluster.status, cluster.status_info);
                culprit::lines(&record, |_| Vec::new()).iter().for_each(|line| seen.push_str(&format!("\n  {line}")));
                return Err(RackError::Limit {
                    what: "the cluster ready".into(),
                    limit,
                    seen,
                    logs: self.logs.clone(),
                });
            }
            self.check()?;
            let views = self.views()?;
            (self.observer)(&views)?;
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    pub fn install(&mut self) -> Result<(), RackError> {
        self.service.client().install_cluster(self.cluster)?;
        Ok(())
    }

    /// Waits until a host that failed, or was cancelled, has sent its logs, and stores them beside the others.
    pub fn logs_of_failed(&mut self, limit: Duration) -> Result<PathBuf, RackError> {
        let deadline = Instant::now() + limit;
        loop {
            self.check()?;
            let hosts = self.hosts()?;
            let failed = hosts.iter().enumerate();
            let failed = failed
                .filter(|(_, host)| matches!(host.status.as_str(), "error" | "cancelled"))
                .min_by_key(|(_, host)| HostView::new(host, hosts.len()).urgency);
            if let Some((index, host)) = failed.filter(|(_, host)| host.logs_info == "completed") {
                let stored = ["state", "logs", &self.cluster.to_string(), &host.id.to_string(), "logs.tar.gz"];
                let path = self.logs.join(format!("{}-logs.tar.gz", node_name_of(index)));
                std::fs::copy(self.dir.path().join(stored.iter().collect::<PathBuf>()), &path)
                    .map_err(RackError::Setup)?;
                return Ok(path);
            }
            if Instant::now() >= deadline {
                let seen = hosts.iter().map(|host| format!("    {}: logs '{}'\n", host.id, host.logs_info)).collect();
                let what = "a failed host's logs at the service".to_owned();
                return Err(RackError::Limit { what, limit, seen, logs: self.logs.clone() });
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Waits until all hosts are installed.
    pub fn wait_installed(&mut self, limit: Duration) -> Result<Vec<HostView>, RackError> {
        let count = usize::from(self.config.hosts);
        self.wait("every host installed", limit, |views| {
            views.len() == count && views.iter().all(|view| view.state == "installed")
        })
    }

    /// Waits until the cluster is in this state.
    pub fn wait_cluster(&mut self, status: &str, limit: Duration) -> Result<(), RackError> {
        let deadline = Instant::now() + limit;
        loop {
            self.check()?;
            let cluster = self.cluster()?;
            if cluster.status == status {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let seen = format!("    {}: {}", cluster.status, cluster.status_info);
                let what = format!("the cluster {status}");
                return Err(RackError::Limit { what, limit, seen, logs: self.logs.clone() });
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// What each installed machine says of itself.
    pub fn facts(&mut self) -> Result<Vec<NodeFacts>, RackError> {
        let mut all = Vec::new();
        for vm in &mut self.vms {
            vm.wait_for("node ready", FACTS_LIMIT)?;
            let markers = vm.markers();
            all.push(NodeFacts::parse(markers.iter().map(|marker| marker.text.as_str())));
        }
        Ok(all)
    }
}

fn node_name(index: u8) -> String {
    node_name_of(usize::from(index))
}

fn node_name_of(index: usize) -> String {
    format!("node-{index}")
}

/// A user's settings for one host: a file and a key for user core.
fn site_override(name: &str) -> String {
    let key = format!(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEGqD1TGVT2VBMPVmoZ1Nol4RUlvNlZ2ZcT5ZsJvVxQW {}",
        key_comment(name)
    );
    json!({
        "ignition": {"version": "3.2.0"},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]},
        "storage": {"files": [{"path": SITE_FILE, "mode": 0o644, "contents": {"source": format!("data:,{}", site_text(name))}}]}
    })
    .to_string()
}

fn key_comment(name: &str) -> String {
    format!("{name}@demo")
}

fn site_text(name: &str) -> String {
    format!("rack=demo,node={name}")
}

/// As machines report it for files with this text.
pub fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(index: u8) -> Mac {
    Mac([0x52, 0x54, 0x00, 0x4c, 0x46, index])
}

fn cluster_params(config: &RackConfig) -> ClusterCreateParams {
    let count = u32::from(config.masters);
    ClusterCreateParams {
        name: "demo".into(),
        base_dns_domain: Some("example.com".into()),
        openshift_version: "4.22".into(),
        cpu_architecture: Some(config.arch.name.to_owned()),
        control_plane_count: Some(count.into()),
        high_availability_mode: (count == 1).then(|| "None".to_owned()),
        platform: Some(Platform { kind: "none".into(), ..Platform::default() }),
        user_managed_networking: Some(true),
        pull_secret: Secret::new(PULL_SECRET),
        ..ClusterCreateParams::default()
    }
}

fn lines(views: &[HostView]) -> String {
    let line = |view: &HostView| {
        format!("    {}: {} ({}) {} {}", view.name, view.state, view.reason, view.stage_text(), view.links_text())
    };
    if views.is_empty() {
        "    no host registered".to_owned()
    } else {
        views.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_keep_what_follows_the_first_equals_sign() {
        let facts = NodeFacts::parse([
            "live ready",
            "node hostname=node-0",
            "node cmdline=root=LABEL=root quiet",
            "node failed-unit=a.service",
            "node failed-unit=b.service",
            "node ready",
        ]);
        assert_eq!(facts.get("hostname"), Some("node-0"));
        assert_eq!(facts.get("cmdline"), Some("root=LABEL=root quiet"));
        assert_eq!(facts.get("user"), None);
        assert_eq!(facts.failed_units(), ["a.service", "b.service"]);
    }
}
