//! A segment with the machine that serves: names, time, images, and the service behind the relay.

use crate::{
    disk::Image,
    host::{Host, Plan},
    net::{
        self, Segment,
        programs::{Server, command, packages},
        time_server::TimeServer,
    },
    report::Peers,
    service::{RealService, ServiceOptions},
    wire::Relay,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    thread,
};
use tempfile::TempDir;

pub(crate) const SERVER: &str = "192.168.131.1";
const RELAY_PORT: u16 = 8090;
pub(crate) const SERVICE_PORT: u16 = 8091;
const IMAGE_PORT: u16 = 8088;
pub(crate) const AGENT_IMAGE: &str = "quay.io/edge-infrastructure/assisted-installer-agent:latest";

pub(crate) struct Site {
    // It leaves the server's namespace before that goes.
    pub relay: Relay,
    pub server: net::Host,
    pub image: Image,
    packages: PathBuf,
    names: Server,
    _time: TimeServer,
    logs: TempDir,
    // Last: the namespaces of the others hang on its switch.
    pub segment: Segment,
}

/// A host's client of time, ended before the host is.
pub(crate) struct Clock {
    _server: Server,
    _directory: TempDir,
}

impl Site {
    /// None, with the reason printed, where a server's package is not unpacked.
    pub(crate) fn new(names: &[(&str, &str)]) -> Option<Self> {
        let (segment, packages) = (Segment::new()?, packages()?);
        let server = segment.host("server", "52:54:00:aa:13:f0", &[&format!("{SERVER}/24")]);
        let logs = tempfile::tempdir().unwrap();
        let mut dnsmasq = command(&packages, &server.namespace, "usr/sbin/dnsmasq");
        dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file="]);
        dnsmasq.args(["--user=root", "--bind-interfaces", &format!("--listen-address={SERVER}")]);
        dnsmasq.args(["--log-queries", "--log-facility=-"]);
        dnsmasq.args(names.iter().map(|(name, address)| format!("--address=/{name}/{address}")));
        let mut names = Server::start(dnsmasq, &logs.path().join("dnsmasq"));
        names.await_ready(|| net::programs::listens(&server.namespace, SocketAddr::new(SERVER.parse().unwrap(), 53)));
        let time = TimeServer::ahead(&server.namespace, SERVER, 0);
        let image = Image::new(512);
        serve_image(&server.namespace, &image.packed(Some("gzip")));
        let at = |port| SocketAddr::new(SERVER.parse().unwrap(), port);
        let relay = Relay::start(&server.namespace, at(RELAY_PORT), at(SERVICE_PORT));
        Some(Self { server, relay, image, packages, names, _time: time, logs, segment })
    }

    /// Questions and answers of the name server so far. It has no upstream, so it refuses what it does not know, AAAA above all.
    pub(crate) fn name_server_log(&self) -> String {
        self.names.output()
    }

    /// What hosts call the service.
    pub(crate) fn url(&self) -> String {
        format!("http://{SERVER}:{RELAY_PORT}")
    }

    pub(crate) fn real_service(&self, peers: &Peers, options: ServiceOptions) -> RealService {
        let base_url = if options.base_url.is_empty() { self.url() } else { options.base_url.clone() };
        RealService::start(peers, &self.server.namespace, SERVICE_PORT, ServiceOptions { base_url, ..options })
    }

    /// A host with our agent; `more` are options of it.
    pub(crate) fn our_host(&self, number: u8, infra_env: &str, url: &str, more: &[&str]) -> (Host, Clock) {
        let words = ["agent", "--url", url, "--infra-env-id", infra_env, "--agent-version", AGENT_IMAGE, "--no-reboot"];
        let words = words.iter().chain(more).map(|word| (*word).to_owned());
        let landfall = landfall();
        let service = std::iter::once(landfall.display().to_string()).chain(words).collect();
        let environment = [("PULL_SECRET_TOKEN", "dummy")];
        let programs = [("landfall", landfall)];
        self.host(Plan { number, programs: &programs, scripts: &[], service, environment: &environment })
    }

    pub(crate) fn host(&self, plan: Plan) -> (Host, Clock) {
        let host = Host::start(&self.segment, plan);
        let clock = self.clock(&host);
        (host, clock)
    }

    /// chronyd, which takes the time from the server and leaves this machine's clock alone.
    fn clock(&self, host: &Host) -> Clock {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o750)).unwrap();
        let here = directory.path().display();
        let conf = format!(
            "bindcmdaddress {here}/chronyd.sock\nbindcmdaddress 127.0.0.1\npidfile {here}/pid\nuser root\nserver {SERVER} iburst\n"
        );
        fs::write(directory.path().join("conf"), conf).unwrap();
        let mut chronyd = command(&self.packages, host.namespace(), "usr/sbin/chronyd");
        chronyd.args(["-x", "-d", "-f"]).arg(directory.path().join("conf"));
        let mut server = Server::start(chronyd, &directory.path().join("log"));
        server.await_ready(|| directory.path().join("chronyd.sock").exists());
        Clock { _server: server, _directory: directory }
    }

    /// A host with the real agent and installer, and our program as coreos-installer.
    pub(crate) fn real_host(&self, peers: &Peers, number: u8, infra_env: &str) -> (Host, Clock) {
        const AGENT_NAMES: [&str; 6] =
            ["agent", "disk_speed_check", "free_addresses", "inventory", "logs_sender", "next_step_runner"];
        let mut programs = AGENT_NAMES.map(|name| (name, peers.program("agent"))).to_vec();
        programs.push(("installer", peers.program("installer")));
        programs.push(("coreos-installer", landfall()));
        let libraries = self.packages.join("usr/lib/x86_64-linux-gnu");
        let chronyc = format!(
            "#!/bin/sh\nLD_LIBRARY_PATH={} exec {} \"$@\"\n",
            libraries.display(),
            self.packages.join("usr/bin/chronyc").display()
        );
        let words = ["agent", "--url", &self.url(), "--infra-env-id", infra_env, "--agent-version", AGENT_IMAGE];
        let environment = [("PULL_SECRET_TOKEN", "dummy")];
        let scripts = [("chronyc", chronyc)];
        let service = words.map(str::to_owned).to_vec();
        self.host(Plan { number, programs: &programs, scripts: &scripts, service, environment: &environment })
    }

    /// Answers what clients of an address ask for.
    pub(crate) fn serve(&self, address: &str, of: impl Fn(&str) -> (&'static str, Vec<u8>) + Send + Sync + 'static) {
        let listener = self.server.namespace.enter(|| TcpListener::bind(address).unwrap());
        serve(listener, of);
    }

    /// A real Tang server with new keys; the thumbprint of the one it signs with.
    pub(crate) fn tang(&self, address: &str) -> String {
        let (packages, keys) = (self.packages.clone(), self.logs.path().join("tang"));
        fs::create_dir(&keys).unwrap();
        let path = format!("{}:/usr/bin:/bin", packages.join("usr/bin").display());
        let run = |program: &str, words: &[&str]| {
            let mut command = command(&packages, &self.server.namespace, program);
            let output = command.args(words).env("PATH", &path).output().unwrap();
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        run("usr/libexec/tangd-keygen", &[&keys.display().to_string(), "sig", "exc"]);
        let thumbprint = run("usr/bin/jose", &["jwk", "thp", "-i", &keys.join("sig.jwk").display().to_string()]);
        let listener = self.server.namespace.enter(|| TcpListener::bind(address).unwrap());
        let inside = std::mem::ManuallyDrop::new(net::Namespace(self.server.namespace.0.clone()));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut tangd = command(&packages, &inside, "usr/libexec/tangd");
                let output = OwnedFd::from(client.try_clone().unwrap());
                tangd.arg(&keys).stdin(OwnedFd::from(client)).stdout(output).stderr(Stdio::null());
                let _ = tangd.status();
            }
        });
        thumbprint.trim().to_owned()
    }

    /// A DHCP server with these addresses.
    pub(crate) fn leases(&self, range: &str) -> Server {
        let mut dnsmasq = command(&self.packages, &self.server.namespace, "usr/sbin/dnsmasq");
        dnsmasq.args(["-k", "-C", "/dev/null", "--port=0", "--bind-interfaces", "--interface=ens3", "--no-ping"]);
        dnsmasq.args(["--user=root", "--pid-file=", "--log-dhcp", "--log-facility=-"]);
        dnsmasq.arg(format!("--dhcp-range={range},255.255.255.0,1h"));
        let log = self.logs.path().join("dhcp");
        dnsmasq.arg(format!("--dhcp-leasefile={}", log.with_extension("leases").display()));
        let mut server = Server::start(dnsmasq, &log);
        server.await_ready(|| fs::read_to_string(&log).unwrap().contains("sockets bound"));
        server
    }
}

/// The program under test.
pub(crate) fn landfall() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_landfall").into();
    fs::canonicalize(std::env::var_os("LANDFALL_BIN").map_or_else(built, PathBuf::from)).unwrap()
}

fn serve_image(namespace: &net::Namespace, path: &Path) {
    let image = fs::read(path).unwrap();
    let address = SocketAddr::new(SERVER.parse().unwrap(), IMAGE_PORT);
    let listener = namespace.enter(|| TcpListener::bind(address).unwrap());
    serve(
        listener,
        move |line| {
            if line.contains(".raw.gz ") { ("200 OK", image.clone()) } else { ("404 Not Found", Vec::new()) }
        },
    );
}

/// By the first line of each request. Its thread ends with the process.
fn serve(listener: TcpListener, of: impl Fn(&str) -> (&'static str, Vec<u8>) + Send + Sync + 'static) {
    let of = Arc::new(of);
    thread::spawn(move || {
        for client in listener.incoming() {
            let of = of.clone();
            thread::spawn(move || client.and_then(|client| answer(client, &*of)));
        }
    });
}

fn answer(mut client: TcpStream, of: &dyn Fn(&str) -> (&'static str, Vec<u8>)) -> std::io::Result<()> {
    let mut head = String::new();
    let mut reader = BufReader::new(client.try_clone()?).take(64 << 10);
    while reader.read_line(&mut head)? > 0 && !head.ends_with("\r\n\r\n") {}
    let line = head.lines().next().unwrap_or_default();
    let (status, body) = of(line);
    let length = body.len();
    let kind = if body.starts_with(b"{") { "application/json" } else { "application/octet-stream" };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes())?;
    if line.starts_with("HEAD ") { Ok(()) } else { client.write_all(&body) }
}
