//! The install-time files of a cluster whose control plane is a stand-in, made with their own certificates.

use super::{API_PORT, CONFIG_PORT, Role, Settings, machine_config as machine};
use crate::images;
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
};

/// The cluster's address: in the machines' segment, beyond what DHCP gives.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 200);

const NOTHING: &str = r#"{"ignition":{"version":"3.2.0"}}"#;

/// The files, and what the machines fetch beside them.
#[derive(Debug)]
pub struct ClusterFiles {
    directory: PathBuf,
    settings: Settings,
    offered: Vec<PathBuf>,
}

impl ClusterFiles {
    /// Makes certificates, and files that say nothing yet; `directory` must not exist. `program` is the stand-in as it
    /// was built.
    pub fn prepare(directory: &Path, program: &Path, replicas: u8) -> Result<Self> {
        fs::create_dir(directory)?;
        for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
            fs::write(directory.join(name), NOTHING)?;
        }
        let named = |path: &str| directory.join(path.rsplit('/').next().unwrap_or_default());
        let (stripped, library) = (named(super::PROGRAM), named(super::LIBRARY));
        run(Command::new("strip").arg("-o").arg(&stripped).arg(program))?;
        fs::copy(images::unused_library("libgcc_s.so.1")?, &library)?;
        run(Command::new("gzip").arg("--no-name").args([&stripped, &library]))?;
        let [authority, _] = certificate(directory, "authority", None)?;
        let settings = Settings {
            role: Role::Bootstrap,
            address: ADDRESS,
            replicas: usize::from(replicas),
            files_url: String::new(),
            authority,
            server: certificate(directory, "server", Some(ADDRESS))?,
            client: certificate(directory, "client", Some(ADDRESS))?,
            objects: None,
        };
        Ok(Self {
            directory: directory.to_owned(),
            settings,
            offered: [stripped, library].map(|file| PathBuf::from(format!("{}.gz", file.display()))).into(),
        })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Files that the service must offer like images, packed as images may be.
    pub fn offered(&self) -> &[PathBuf] {
        &self.offered
    }

    /// Writes what a service at `url` hands out.
    pub fn write(&mut self, url: &str) -> Result<()> {
        self.settings.files_url = format!("{url}/boot-artifacts/os");
        let write = |name: &str, config: Value| fs::write(self.directory.join(name), config.to_string());
        write("bootstrap.ign", self.bootstrap())?;
        write("master.ign", self.pointer(Role::Master))?;
        write("worker.ign", self.pointer(Role::Worker))?;
        fs::write(self.directory.join("kubeconfig-noingress"), self.kubeconfig())?;
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
        files.push(machine::file("/opt/openshift/auth/kubeconfig", 0o600, &self.kubeconfig()));
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

    /// JSON, which is YAML too.
    fn kubeconfig(&self) -> String {
        let Settings { address, authority, client: [certificate, key], .. } = &self.settings;
        let cluster = json!({
            "server": format!("https://{address}:{API_PORT}"),
            "certificate-authority-data": BASE64.encode(authority),
        });
        let user = json!({
            "client-certificate-data": BASE64.encode(certificate),
            "client-key-data": BASE64.encode(key),
        });
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "rack", "cluster": cluster}],
            "users": [{"name": "admin", "user": user}],
            "contexts": [{"name": "admin", "context": {"cluster": "rack", "user": "admin"}}],
            "current-context": "admin",
        })
        .to_string()
    }
}

/// A certificate and its key, both PEM: of an authority, or by it for an address.
pub(super) fn certificate(directory: &Path, name: &str, address: Option<Ipv4Addr>) -> Result<[String; 2]> {
    let (certificate, key) = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    command.args(["-subj", &format!("/CN={name}")]).arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    if let Some(address) = address {
        command.args(["-addext", &format!("subjectAltName=IP:{address}")]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-CA").arg(directory.join("authority.crt")).arg("-CAkey").arg(directory.join("authority.key"));
    }
    run(&mut command)?;
    Ok([fs::read_to_string(certificate)?, fs::read_to_string(key)?])
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
