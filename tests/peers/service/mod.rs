//! The real service in a namespace, with what it needs: a database, a catalogue, files of an installation.

pub(crate) mod database;
pub(crate) mod ours;

use crate::{net::Namespace, report::Peers, user::Api};
use base64::{Engine, prelude::BASE64_STANDARD};
use database::Database;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tempfile::TempDir;

/// Answers what the service wants to know of a release image.
const OC: &str = include_str!("oc");
pub(crate) const VERSIONS: [(&str, &str); 2] = [("4.22", "4.22.9"), ("4.14", "4.14.71")];
/// Where a bootstrap host finds the control plane that it has started.
pub(crate) const CONTROL_PLANE: &str = "192.168.131.1:6443";
/// Where hosts get the image of the disk.
pub(crate) const IMAGE_URL: &str = "http://192.168.131.1:8088/metal.raw.gz";

/// What an installation of ours and of the real program needs of a bootstrap config; the service's dummies have less.
pub(crate) fn bootstrap_config() -> Value {
    let file = |path: &str, content: &str| {
        let source = format!("data:text/plain;charset=utf-8;base64,{}", BASE64_STANDARD.encode(content));
        json!({"path": path, "mode": 0o600, "contents": {"source": source}})
    };
    json!({
        "ignition": {"version": "3.1.0"},
        "storage": {"files": [
            file("/opt/openshift/manifests/cvo-overrides.yaml", "kind: ClusterVersion\nspec:\n  clusterID: 2f6c0a5e-7b1d-4c83-9e24-5d0b8a1f3c76\n"),
            file("/opt/openshift/auth/kubeconfig", &kubeconfig().to_string()),
            file("/root/.docker/config.json", r#"{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}"#),
        ]},
        "systemd": {}
    })
}

/// Of the control plane that a scenario plays.
pub(crate) fn kubeconfig() -> Value {
    json!({
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{CONTROL_PLANE}")}}],
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}], "current-context": "admin",
        "users": [{"name": "u", "user": {"token": "t0ken"}}],
    })
}

pub(crate) fn host_config() -> Value {
    json!({
        "ignition": {
            "version": "3.2.0",
            "config": {"merge": [{"source": "https://192.168.131.100:22623/config/master"}]},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:text/plain;charset=utf-8;base64,Q0E="}]}}
        },
        "storage": {"files": [{
            "path": "/etc/hostname", "mode": 420, "overwrite": true,
            "contents": {"source": "data:text/plain;charset=utf-8;base64,aA=="}
        }]}
    })
}

pub(crate) struct RealService {
    pub api: Api,
    process: Child,
    store: Arc<Store>,
    replacer: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

/// What a service keeps between two of its lives.
pub(crate) struct Store {
    database: Database,
    directory: TempDir,
}

impl Store {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("peers-service-").tempdir_in("/tmp").unwrap();
        for new in ["bin", "files"] {
            fs::create_dir(directory.path().join(new)).unwrap();
        }
        fs::write(directory.path().join("bin/oc"), OC).unwrap();
        fs::set_permissions(directory.path().join("bin/oc"), fs::Permissions::from_mode(0o755)).unwrap();
        Self { database: Database::start(), directory }
    }
}

/// How a service differs from the others.
#[derive(Default)]
pub(crate) struct ServiceOptions<'a> {
    /// Named to the hosts.
    pub base_url: String,
    pub environment: &'a [(&'a str, String)],
    /// Of an agent, for a service that knows no users.
    pub token: Option<String>,
    /// Of an earlier service.
    pub store: Option<Arc<Store>>,
    /// Whether users come by TLS, with this certificate.
    pub certificate: Option<Vec<u8>>,
}

pub(crate) fn catalogue() -> (Value, Value) {
    let os = |(minor, _): (&str, &str)| {
        json!({"openshift_version": minor, "cpu_architecture": "x86_64", "version": format!("{minor}.0"),
               "url": format!("http://192.168.131.1:8088/live-{minor}.iso")})
    };
    let release = |(minor, full): (&str, &str)| {
        json!({"openshift_version": minor, "cpu_architecture": "x86_64", "cpu_architectures": ["x86_64"], "version": full,
               "url": format!("quay.io/openshift-release-dev/ocp-release:{full}-x86_64"), "default": minor == "4.22"})
    };
    (VERSIONS.into_iter().map(os).collect(), VERSIONS.into_iter().map(release).collect())
}

/// This machine has two processors and no fast disk: the hosts are good enough.
pub(crate) fn requirements() -> Value {
    let role = json!({"cpu_cores": 1, "ram_mib": 1024, "disk_size_gb": 10, "installation_disk_speed_threshold_ms": 10_000,
                      "network_latency_threshold_ms": 10_000, "packet_loss_percentage": 100});
    json!([{"version": "default", "master": role, "arbiter": role, "worker": role, "sno": role, "edge-worker": role}])
}

impl RealService {
    /// Listens at a port of every address of the namespace.
    pub(crate) fn start(peers: &Peers, namespace: &Namespace, port: u16, options: ServiceOptions) -> Self {
        let store = options.store.unwrap_or_else(|| Arc::new(Store::new()));
        let at = |name: &str| store.directory.path().join(name);
        let (os_images, release_images) = catalogue();
        let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap_or_default());
        let socket = store.database.socket_directory().display().to_string();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.0]).arg(peers.program("assisted-service"));
        command.arg(format!("--port={port}")).current_dir(store.directory.path()).env_clear();
        for (name, value) in [
            ("AMD_REQUIRE_GPU", "false"),
            ("AUTH_TYPE", "none"),
            ("CLUSTER_MONITOR_INTERVAL", "1s"),
            ("DB_HOST", &socket),
            ("DB_NAME", "installer"),
            ("DB_PASS", "none"),
            ("DB_PORT", database::PORT),
            ("DB_USER", database::USER),
            ("DEPLOYMENT_TYPE", "Podman"),
            ("DEPLOY_TARGET", "onprem"),
            ("DISK_ENCRYPTION_SUPPORT", "true"),
            ("DUMMY_IGNITION", "true"),
            ("ENABLE_SINGLE_NODE_DNSMASQ", "true"),
            ("ENABLE_SKIP_MCO_REBOOT", "false"),
            ("HOST_MONITOR_INTERVAL", "1s"),
            ("HW_VALIDATOR_REQUIREMENTS", &requirements().to_string()),
            ("IMAGE_SERVICE_BASE_URL", "http://192.168.131.1:8888"),
            ("IPV6_SUPPORT", "true"),
            ("ISO_IMAGE_TYPE", "full-iso"),
            ("LD_LIBRARY_PATH", &peers.libraries()),
            ("LISTEN_PORT", &port.to_string()),
            ("LOG_FORMAT", "text"),
            ("MUST_GATHER_IMAGES", "{}"),
            ("NTP_DEFAULT_SERVER", ""),
            ("NVIDIA_REQUIRE_GPU", "false"),
            ("OS_IMAGES", &os_images.to_string()),
            ("PATH", &path),
            ("PUBLIC_CONTAINER_REGISTRIES", "quay.io,registry.ci.openshift.org"),
            ("RELEASE_IMAGES", &release_images.to_string()),
            ("RELEASE_SOURCES", ""),
            ("SERVICE_BASE_URL", &options.base_url),
            ("STORAGE", "filesystem"),
            ("TMPDIR", &store.directory.path().display().to_string()),
            ("WORK_DIR", &format!("{}/", at("files").display())),
        ] {
            command.env(name, value);
        }
        command.envs(options.environment.iter().map(|(name, value)| (name, value)));
        let log = File::options().append(true).create(true).open(at("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let api = Api::new(namespace, address, options.token, options.certificate.as_deref());
        let mut service = Self { api, process, store, replacer: None, ended: Arc::new(AtomicBool::new(false)) };
        service.await_ready();
        service
    }

    fn await_ready(&mut self) {
        for _ in 0..1200 {
            if self.api.answers() {
                return;
            }
            assert!(self.process.try_wait().unwrap().is_none(), "the real service has ended: {}", self.log_end());
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the real service does not get ready: {}", self.log_end());
    }

    /// What another service can go on with once this one has ended.
    pub(crate) fn store(&self) -> Arc<Store> {
        self.store.clone()
    }

    /// Where it looks for programs first.
    pub(crate) fn programs(&self) -> PathBuf {
        self.store.directory.path().join("bin")
    }

    /// Where it keeps a file of a cluster.
    pub(crate) fn file(&self, cluster: &str, name: &str) -> PathBuf {
        self.store.directory.path().join("files").join(cluster).join(name)
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.store.directory.path().join("log")).unwrap()).into_owned()
    }

    pub(crate) fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Puts configs that can be installed in the place of the dummies, as soon as the service has written those: no program of
    /// OpenShift's is here that would make real ones.
    pub(crate) fn replace_dummies(&mut self, cluster: &str) {
        let (directory, ended) = (self.store.directory.path().join("files").join(cluster), self.ended.clone());
        self.replacer = Some(thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let is_host = ["master-", "worker-", "arbiter-"].iter().any(|role| name.starts_with(role));
                    let config = match name.as_str() {
                        "bootstrap.ign" => bootstrap_config(),
                        name if is_host && name.ends_with(".ign") => host_config(),
                        _ => continue,
                    };
                    let text = config.to_string();
                    // The service may still be at it.
                    let age = entry.metadata().ok().and_then(|meta| meta.modified().ok()?.elapsed().ok());
                    if age.is_none_or(|age| age < Duration::from_secs(2)) {
                        continue;
                    }
                    if fs::read_to_string(entry.path()).is_ok_and(|old| old != text && !old.is_empty()) {
                        let new = directory.with_extension("new");
                        fs::write(&new, &text).unwrap();
                        fs::rename(&new, entry.path()).unwrap();
                    }
                }
                thread::sleep(Duration::from_millis(20));
            }
        }));
    }
}

impl Drop for RealService {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.replacer.take() {
            let _ = thread.join();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        crate::report::keep(&self.store.directory.path().join("log"), "service");
    }
}
