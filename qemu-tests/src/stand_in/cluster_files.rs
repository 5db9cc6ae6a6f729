//! The install-time files of a cluster whose control plane is a stand-in before a real API server: the double of `openshift-install` adds
//! its own to them when the service has them made.

use super::{CONFIG_PORT, CONTROLLER, LIBRARY, PROGRAM, Role, Settings, machine_config as machine};
use crate::{images, uplink};
use anyhow::{Context, Result, ensure};
use installer_double::{Behaviour, Double};
use serde_json::{Value, json};
use simulator::ApiServer;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

/// The cluster's address: in the machines' segment, beyond what DHCP gives.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 200);

const NOTHING: &str = r#"{"ignition":{"version":"3.2.0"}}"#;
const CONFIGS: [&str; 3] = ["bootstrap.ign", "master.ign", "worker.ign"];
/// Names of the cluster do not resolve; this one has its address.
const KUBECONFIG: &str = "kubeconfig";

/// What a cluster's control plane is made of.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    /// The stand-in as it was built.
    program: PathBuf,
    api_port: u16,
    authority: String,
    server: [String; 2],
    token: String,
    /// The double of `openshift-install`, likewise.
    installer: PathBuf,
}

impl ControlPlane {
    /// A real API server on this host, whose certificate is good where machines reach it; `None`, with the reason printed, where it is
    /// not built.
    pub fn api_server() -> Option<ApiServer> {
        ApiServer::start_as(&[ADDRESS, uplink::HOST].map(|address| address.to_string()).each_ref().map(String::as_str))
    }

    /// One with this API server.
    pub fn new(program: &Path, installer: &Path, api: &ApiServer) -> Self {
        Self {
            program: program.to_owned(),
            installer: installer.to_owned(),
            api_port: api.port(),
            authority: api.ca_pem().to_owned(),
            server: api.identity(),
            token: api.admin_token().to_owned(),
        }
    }
}

/// The program that makes the files, what it adds its own to, and what the machines fetch beside them.
#[derive(Debug)]
pub struct ClusterFiles {
    directory: PathBuf,
    installer: Double,
    settings: Settings,
    offered: Vec<PathBuf>,
}

impl ClusterFiles {
    /// Packs the programs, and makes files that say nothing yet; `directory` must not exist. `controller` is a program that is the
    /// installer's controller by its name.
    pub fn prepare(directory: &Path, control_plane: &ControlPlane, controller: &Path, replicas: u8) -> Result<Self> {
        fs::create_dir(directory)?;
        for name in CONFIGS {
            fs::write(directory.join(name), NOTHING)?;
        }
        let bases = CONFIGS.map(|name| (name.to_owned(), directory.join(name))).into();
        let replacements = [(KUBECONFIG.to_owned(), directory.join(KUBECONFIG))].into();
        let behaviour = Behaviour { bases, replacements, ..Behaviour::default() };
        let built = &control_plane.installer;
        let placed = Double::place(built, directory, &behaviour);
        let installer = placed.with_context(|| format!("placing {}", built.display()))?;
        let named = |path: &str| directory.join(path.rsplit('/').next().unwrap_or_default());
        let packed = [PROGRAM, LIBRARY, CONTROLLER].map(named);
        let [stripped, library, copy] = &packed;
        run(Command::new("strip").arg("-o").arg(stripped).arg(&control_plane.program))?;
        fs::copy(images::unused_library("libgcc_s.so.1")?, library)?;
        fs::copy(controller, copy).with_context(|| format!("copying {}", controller.display()))?;
        run(Command::new("gzip").args(["--no-name", "--fast"]).args(&packed))?;
        let settings = Settings {
            role: Role::Bootstrap,
            address: ADDRESS,
            replicas: usize::from(replicas),
            files_url: String::new(),
            api: SocketAddr::from((uplink::HOST, control_plane.api_port)),
            authority: control_plane.authority.clone(),
            server: control_plane.server.clone(),
            token: control_plane.token.clone(),
            kubelet_port: 0,
            service_url: String::new(),
        };
        Ok(Self {
            directory: directory.to_owned(),
            installer,
            settings,
            offered: packed.map(|file| PathBuf::from(format!("{}.gz", file.display()))).into(),
        })
    }

    /// The `openshift-install` for the service.
    pub fn installer(&self) -> &Path {
        self.installer.program()
    }

    /// Files that the service must offer like images, packed as images may be.
    pub fn offered(&self) -> &[PathBuf] {
        &self.offered
    }

    /// Writes what the files of a service at `url` begin with; the controller reaches it at another. The kubelet of the machine that serves
    /// is at this port of the host's loopback.
    pub fn write(&mut self, url: &str, for_controller: &str, kubelet_port: u16) -> Result<()> {
        self.settings.files_url = format!("{url}/boot-artifacts/os");
        self.settings.service_url = for_controller.to_owned();
        self.settings.kubelet_port = kubelet_port;
        let write = |name: &str, config: Value| fs::write(self.directory.join(name), config.to_string());
        write("bootstrap.ign", self.bootstrap())?;
        write("master.ign", self.pointer(Role::Master))?;
        write("worker.ign", self.pointer(Role::Worker))?;
        fs::write(self.directory.join(KUBECONFIG), self.settings.kubeconfig())?;
        Ok(())
    }

    /// As `openshift-install` makes them; on a single node there is no server to point to.
    fn pointer(&self, role: Role) -> Value {
        if self.settings.is_single_node() {
            return json!({"ignition": {"version": "3.2.0"}});
        }
        let source = format!("https://{}:{CONFIG_PORT}/config/{}", self.settings.address, role.as_str());
        let authorities = json!([{"source": machine::data_url(&self.settings.authority)}]);
        json!({"ignition": {
            "version": "3.2.0",
            "config": {"merge": [{"source": source}]},
            "security": {"tls": {"certificateAuthorities": authorities}},
        }})
    }

    fn bootstrap(&self) -> Value {
        let mut files = machine::programs(&self.settings);
        files.push(machine::file("/root/.docker/config.json", 0o600, r#"{"auths":{}}"#));
        // The real one needs a D-Bus that the test machines don't have.
        let hostnamectl = "#!/bin/sh\n[ \"$1\" = set-hostname ] && exec hostname \"$2\"\n";
        files.push(machine::file("/usr/bin/hostnamectl", 0o755, hostnamectl));
        let unit = |name: &str, service: &str| {
            let contents = format!("[Unit]\nDescription=Stand-in for {name}\n[Service]\n{service}");
            json!({"name": name, "contents": contents})
        };
        let once = |command: &str| format!("Type=oneshot\nRemainAfterExit=yes\nExecStart={command}\n");
        let said = |text: &str| once(&format!("/usr/lib/landfall-test/say stand-in {text}"));
        let units = json!([
            unit("NetworkManager.service", &said("NetworkManager restarted")),
            unit("node-image-pull.service", &said("node image pulled")),
            unit("node-image-overlay.service", &once("/bin/ln -sf busybox /usr/bin/oc")),
            unit("bootkube.service", &machine::service("bootkube")),
            unit("approve-csr.service", &said("approve-csr")),
            unit("progress.service", &machine::service("progress")),
        ]);
        json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}, "systemd": {"units": units}})
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
