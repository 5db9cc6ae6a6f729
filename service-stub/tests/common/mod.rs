//! A service in this process, and a plain HTTP client to talk to it.
#![allow(dead_code)] // each test binary uses its part

pub(crate) mod swagger;

use api::{Client, ClientConfig, RetryPolicy};
use ignition::discovery::assisted::Mirror;
use serde_json::{Value, json};
use service_stub::attest::Attest;
use service_stub::auth::Auth;
use service_stub::check::requirements::Requirements;
use service_stub::cluster_files::GivenFiles;
use service_stub::disk_images::DiskImage;
use service_stub::event_limits::EventLimits;
use service_stub::http::hosts::Hosts;
use service_stub::http::limits::Limits;
use service_stub::http::tls::Tls;
use service_stub::instructions::options::StepOptions;
use service_stub::iso_store::{Access, IsoStore};
use service_stub::media::Media;
use service_stub::payload::ImageArgs;
use service_stub::preparing::Generation;
use service_stub::releases::{Catalogue, ReleaseSources};
use service_stub::rendezvous::{self, Rendezvous};
use service_stub::retention::Retention;
use service_stub::server;
use service_stub::service::{ManifestOptions, Service, Settings};
use service_stub::store::Store;
use std::{path::PathBuf, sync::Arc, thread::JoinHandle, time::Duration};

pub(crate) const API: &str = "/api/assisted-install";

/// Small enough for test machines.
pub(crate) const REQUIREMENTS: &[u8] = br#"[{"version":"default",
    "master":{"cpu_cores":2,"ram_mib":1024,"disk_size_gb":1},
    "worker":{"cpu_cores":1,"ram_mib":512,"disk_size_gb":1},
    "arbiter":{"cpu_cores":1,"ram_mib":512,"disk_size_gb":1},
    "sno":{"cpu_cores":2,"ram_mib":1024,"disk_size_gb":1}}]"#;

#[derive(Default)]
pub(crate) struct Files {
    pub iso: Option<PathBuf>,
    pub images: Vec<PathBuf>,
    pub agent: Option<PathBuf>,
    pub cluster: Option<PathBuf>,
    pub generation: Option<Generation>,
    pub await_controller: bool,
    pub soft_timeouts: bool,
    pub attest: Attest,
    pub auth: Auth,
    pub tls: bool,
    pub limits: Limits,
    pub manifests: ManifestOptions,
    pub steps: StepOptions,
    pub retention: Retention,
    pub rendezvous: Option<Arc<Rendezvous>>,
    pub image_args: ImageArgs,
    pub registry: Option<Arc<netcheck::image::ImageOptions>>,
    pub catalogue: Option<Arc<Catalogue>>,
    pub release_sources: ReleaseSources,
    pub disconnected_ignition: Option<Arc<[u8]>>,
    /// Downloads the catalogue's images.
    pub downloads: Option<Access>,
    pub allowed_origins: Vec<String>,
    pub mirror: Option<Arc<Mirror>>,
    pub event_limits: EventLimits,
}

/// A running service; it stops when dropped.
pub(crate) struct Running {
    pub url: String,
    /// The port without TLS beside it, when there is TLS.
    pub plain: Option<String>,
    pub service: Arc<Service>,
    pub state: tempfile::TempDir,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    http: ureq::Agent,
}

impl Running {
    pub(crate) fn start(files: Files) -> Self {
        Self::start_with(files, |_| {})
    }

    /// Lets `prepare` put records into the store first.
    pub(crate) fn start_with(files: Files, prepare: impl FnOnce(&Store)) -> Self {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        prepare(&store);
        let runtime = server::runtime().unwrap();
        let listen = || {
            let listener = server::listen(([127, 0, 0, 1], 0).into()).unwrap();
            runtime.block_on(async { tokio::net::TcpListener::from_std(listener).unwrap() })
        };
        let listener = listen();
        let tls = files.tls.then(|| Tls::with_local_authority(state.path(), &["127.0.0.1".to_owned()]).unwrap());
        let scheme = if files.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let plain = files.tls.then(listen);
        let plain_url = plain.as_ref().map(|plain| format!("http://{}", plain.local_addr().unwrap()));
        let settings = Settings {
            url: url.clone(),
            hosts: Hosts::new(&url, &[]),
            boot_url: plain_url.clone().unwrap_or_else(|| url.clone()),
            poll_interval: 60,
            // Tests give the monitor its turns.
            monitor_interval: Duration::from_secs(3600),
            requirements: Requirements::parse(REQUIREMENTS).unwrap(),
            agent_image: "quay.io/edge-infrastructure/assisted-installer-agent:latest".into(),
            installer_image: "quay.io/edge-infrastructure/assisted-installer:latest".into(),
            controller_image: "quay.io/edge-infrastructure/assisted-installer-controller:latest".into(),
            deliver_agent: false,
            cluster_files: files.cluster.as_deref().map(|path| GivenFiles::open(path).unwrap()),
            generation: files.generation,
            image_args: files.image_args,
            manifests: files.manifests,
            registry: files.registry,
            attest: files.attest,
            auth: files.auth,
            ca_pem: tls.as_ref().and_then(|tls| tls.ca_pem.clone()),
            await_controller: files.await_controller,
            soft_timeouts: files.soft_timeouts,
            disabled_validations: Default::default(),
            limits: files.limits,
            openshift_versions: vec!["4.21.3".into(), "4.22.9".into()],
            catalogue: files.catalogue.clone(),
            disconnected_ignition: files.disconnected_ignition,
            steps: files.steps,
            retention: files.retention,
            mirror: files.mirror,
            cluster_ca_pem: String::new(),
            insecure_policy: true,
            allowed_origins: files.allowed_origins,
            event_limits: files.event_limits,
            finalizing: Default::default(),
            release_sources: files.release_sources,
            rendezvous: files.rendezvous.clone(),
        };
        let images: Vec<DiskImage> = files.images.into_iter().map(DiskImage::from).collect();
        let media = Media::open(files.iso.as_slice(), &images, files.agent.as_slice()).unwrap();
        let listed = files.catalogue.as_deref().map(Catalogue::os_images).unwrap_or_default();
        let media = media.with_listed(listed).unwrap();
        let mut service = Service::new(settings, store, media);
        if let Some(access) = files.downloads {
            service = service.with_iso_store(IsoStore::open(state.path(), listed.iter(), access).unwrap());
        }
        let service = Arc::new(service);
        if let Some(rack) = &files.rendezvous {
            rendezvous::begin(&service, rack).unwrap();
        }
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let running = service.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let listeners = server::Listeners { main: listener, tls: tls.map(|tls| tls.acceptor), plain };
                server::run(running, listeners, async { drop(stopped.await) }).await.unwrap();
            });
        });
        let ca = files.tls.then(|| state.path().join("tls-ca.pem"));
        let http = api::http::configuration(ca.as_slice(), false).unwrap().http_status_as_error(false).build().into();
        Self { url, plain: plain_url, service, state, stop: Some(stop), thread: Some(thread), http }
    }

    /// The monitor's turn.
    pub(crate) fn monitor(&self) {
        self.service.refresh().unwrap();
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&ClientConfig { url: self.url.clone(), ..ClientConfig::default() }, RetryPolicy::Never).unwrap()
    }

    /// A request as it is written; `path` starts after the address.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        send(&self.http, &self.url, method, path, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/json")];
        self.request(method, &format!("{API}{path}"), &headers, body.to_string().as_bytes())
    }
}

pub(crate) fn send(
    http: &ureq::Agent,
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut request = ureq::http::Request::builder().method(method).uri(format!("{url}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if !body.is_empty() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        request = request.header("content-type", "application/json");
    }
    let mut response = match body.is_empty() && matches!(method, "GET" | "HEAD" | "DELETE") {
        true => http.run(request.body(()).unwrap()).unwrap(),
        false => http.run(request.body(body).unwrap()).unwrap(),
    };
    let headers = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
        .collect();
    let body = response.body_mut().with_config().limit(1 << 30).read_to_vec().unwrap();
    let answer = Answer { status: response.status().as_u16(), headers, body };
    swagger::check(method, path, &answer);
    answer
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the server must end without a panic");
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn document(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&self.body)))
    }
}

pub(crate) fn pull_secret() -> String {
    json!({"auths": {"quay.io": {"auth": "dXNlcjpwYXNz"}}}).to_string()
}

/// The recorded traffic, where this machine has it.
pub(crate) fn recorded(folder: &str) -> Option<PathBuf> {
    testkit::recordings::path(&format!("data/wire/{folder}"))
}

/// An inventory of a small machine.
pub(crate) fn inventory(name: &str, address: &str, mac: &str) -> Value {
    json!({
        "bmc_address": "0.0.0.0",
        "boot": {"current_boot_mode": "bios"},
        "cpu": {"architecture": "x86_64", "count": 2},
        "disks": [
            {"name": "vda", "path": "/dev/vda", "id": "/dev/disk/by-path/virtio-0", "by_path": "/dev/disk/by-path/virtio-0",
             "drive_type": "HDD", "size_bytes": 20_000_000_000_u64, "installation_eligibility": {"eligible": true, "not_eligible_reasons": null}},
            {"name": "sr0", "path": "/dev/sr0", "id": "/dev/sr0", "drive_type": "ODD", "size_bytes": 0,
             "installation_eligibility": {"not_eligible_reasons": ["Disk is removable"]}},
        ],
        "gpus": [],
        "hostname": name,
        "interfaces": [
            {"name": "lo", "type": "device", "flags": ["up", "loopback"], "ipv4_addresses": ["127.0.0.1/8"], "ipv6_addresses": []},
            {"name": "eth0", "type": "physical", "flags": ["up"], "has_carrier": true, "mac_address": mac,
             "ipv4_addresses": [format!("{address}/24")], "ipv6_addresses": [], "mtu": 1500},
        ],
        "memory": {"physical_bytes": 2_147_483_648_u64, "physical_bytes_method": "dmidecode", "usable_bytes": 2_000_000_000_u64},
        "routes": [{"destination": "0.0.0.0", "family": 2, "gateway": "10.0.0.254", "interface": "eth0"}],
        "system_vendor": {"manufacturer": "QEMU", "virtual": true},
        "tpm_version": "none",
    })
}

/// A certificate that can be read.
pub(crate) fn certificate_pem() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a".into()]).unwrap().self_signed(&key).unwrap();
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, certificate.der());
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----")
}

/// What a host replies to a check of connectivity: it reaches the first address of each other host.
pub(crate) fn connectivity(step: &api::Step) -> Value {
    let others: Vec<api::ConnectivityCheckHost> = serde_json::from_str(&step.args[0]).unwrap();
    let reached = others.iter().map(|other| {
        let (ip, mac) = (&other.nics[0].ip_addresses[0], &other.nics[0].mac);
        json!({
            "host_id": other.host_id,
            "l2_connectivity": [{"outgoing_nic": "eth0", "remote_ip_address": ip, "remote_mac": mac, "successful": true}],
            "l3_connectivity": [{"remote_ip_address": ip, "successful": true}],
            "mtu_report": null,
        })
    });
    json!({"remote_hosts": reached.collect::<Vec<_>>()})
}
