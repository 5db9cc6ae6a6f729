//! A network to break: we, a gateway, and behind it whatever a test wants there.

use netcheck::doctor::{DoctorOptions, ProxyVariables, Report, diagnose};
use serde_json::json;
use std::{
    fs,
    io::{Read, Write, copy},
    net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket},
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tempfile::TempDir;
use testkit::net::{
    Host, Segment,
    programs::{Server, command, listens, packages},
};
use time::{OffsetDateTime, macros::format_description};

pub(crate) const OUR_MAC: &str = "52:54:00:aa:bb:01";
pub(crate) const OTHER_MAC: &str = "52:54:00:aa:bb:02";
pub(crate) const GATEWAY: &str = "10.0.0.254";
pub(crate) const GATEWAY_MAC: &str = "52:54:00:aa:bb:fe";
/// Behind the gateway.
pub(crate) const SERVICE: &str = "203.0.113.7";
pub(crate) const NAME_SERVER: &str = "203.0.113.53";
pub(crate) const TIME_SERVER: &str = "203.0.113.123";
/// The same of a network without IPv4.
pub(crate) const GATEWAY_V6: &str = "fe80::fe";
pub(crate) const SERVICE_V6: &str = "2001:db8:7::7";
pub(crate) const NAME_SERVER_V6: &str = "2001:db8:7::53";
pub(crate) const NAME: &str = "api.example.com";
pub(crate) const DAY_S: i64 = 86_400;
pub(crate) const ANSWER: &str = r#"{"versions":{"assisted-installer":"x"},"release_tag":"v2.40.0"}"#;

/// We, and a gateway that holds all of the service's network.
pub(crate) struct Lab {
    pub us: Host,
    pub gateway: Host,
    pub segment: Segment,
    pub directory: TempDir,
    service: IpAddr,
    name_server: IpAddr,
}

impl Lab {
    pub(crate) fn new() -> Option<Self> {
        let segment = Segment::new()?;
        let us = segment.host("us", OUR_MAC, &["10.0.0.1/24"]);
        let gateway = segment.host("gateway", GATEWAY_MAC, &["10.0.0.254/24"]);
        gateway.answer_for("203.0.113.0/24");
        us.route("default", GATEWAY);
        Some(Self::with_hosts(segment, us, gateway, SERVICE, NAME_SERVER))
    }

    /// The same without any IPv4 address.
    pub(crate) fn of_ipv6() -> Option<Self> {
        let segment = Segment::new()?;
        let us = segment.host("us", OUR_MAC, &["2001:db8:1::1/64"]);
        let [gateway, service, names] =
            [(GATEWAY_V6, 64), (SERVICE_V6, 128), (NAME_SERVER_V6, 128)].map(|(ip, bits)| format!("{ip}/{bits}"));
        let addresses = ["2001:db8:1::fe/64", &gateway, &service, &names];
        let gateway = segment.host("gateway", GATEWAY_MAC, &addresses);
        us.route("default", &format!("{GATEWAY_V6} dev ens3"));
        Some(Self::with_hosts(segment, us, gateway, SERVICE_V6, NAME_SERVER_V6))
    }

    fn with_hosts(segment: Segment, us: Host, gateway: Host, service: &str, name_server: &str) -> Self {
        let [service, name_server] = [service, name_server].map(|address| address.parse().unwrap());
        Self { us, gateway, segment, directory: tempfile::tempdir().unwrap(), service, name_server }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Nothing of the machine that the test runs on.
    pub(crate) fn options(&self, url: &str) -> DoctorOptions {
        let (resolv_conf, hosts) = (self.path("resolv.conf"), self.path("hosts"));
        fs::write(&resolv_conf, format!("nameserver {}\nsearch lab.example.com\n", self.name_server)).unwrap();
        fs::write(&hosts, "").unwrap();
        DoctorOptions {
            proxy: ProxyVariables::default(),
            resolv_conf,
            hosts,
            chrony_conf: "/nonexistent".into(),
            sysfs: "/nonexistent".into(),
            timeout: Duration::from_secs(60),
            ..DoctorOptions::new(url)
        }
    }

    pub(crate) fn diagnose(&self, options: &DoctorOptions) -> Report {
        let report = self.us.namespace.enter(|| diagnose(options)).unwrap();
        println!("{}", report.to_text(usize::MAX));
        assert_eq!(serde_json::to_value(&report).unwrap()["schema_version"], json!(1));
        report
    }

    /// A web server in the gateway; `servers` are its `server` blocks.
    pub(crate) fn nginx(&self, port: u16, servers: &str) -> Option<Server> {
        let packages = packages()?;
        let root = self.directory.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|kind| format!("{kind}_temp_path {root}/{kind};")).join(" ");
        let conf = format!(
            "daemon off; master_process off; user root root; worker_processes 1; pid {root}/nginx.pid; error_log stderr;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log off; {temporary}\n{servers} }}\n"
        );
        let path = self.path("nginx.conf");
        fs::write(&path, conf).unwrap();
        let mut nginx = command(&packages, &self.gateway.namespace, "usr/sbin/nginx");
        nginx.arg("-p").arg(self.directory.path()).arg("-c").arg(&path).args(["-e", "stderr"]);
        let mut server = Server::start(nginx, &self.path("nginx.log"));
        server.await_ready(|| listens(&self.us.namespace, (self.service, port).into()));
        Some(server)
    }

    /// The service over TLS, with this certificate.
    pub(crate) fn tls_service(&self, certificate: &Certificate) -> Option<Server> {
        let Certificate { chain, key, .. } = certificate;
        let (chain, key) = (chain.display(), key.display());
        self.nginx(
            443,
            &format!("server {{ listen 443 ssl; listen [::]:443 ssl; ssl_certificate {chain}; ssl_certificate_key {key}; {} }}", service()),
        )
    }

    pub(crate) fn name_server(&self) -> Option<Server> {
        let mut dnsmasq = command(&packages()?, &self.gateway.namespace, "usr/sbin/dnsmasq");
        dnsmasq.args(["-k", "-C", "/dev/null", "--user=root", "--pid-file=", "--no-resolv", "--no-hosts"]);
        dnsmasq.args(["--log-facility=-", "--bind-interfaces", "--local=/example.com/"]);
        let Self { service, name_server, .. } = self;
        dnsmasq.args([format!("--listen-address={name_server}"), format!("--host-record={NAME},{service}")]);
        let mut server = Server::start(dnsmasq, &self.path("dnsmasq.log"));
        server.await_ready(|| listens(&self.us.namespace, (self.name_server, 53).into()));
        Some(server)
    }

    /// A certificate by a CA of the lab, valid for the service from so many days from now on, for so many days.
    pub(crate) fn certificate(&self, from_days: i64, days: i64) -> Certificate {
        let format = format_description!("[year][month][day]000000Z");
        // Read once, since a day may end meanwhile.
        let now = OffsetDateTime::now_utc();
        let moment = |days| now + time::Duration::days(days);
        let stamp = |days| moment(days).format(&format).unwrap();
        let conf = format!(
            "[ca]\ndefault_ca=lab\n[lab]\nnew_certs_dir=.\ndatabase=index\nserial=serial\ndefault_md=sha256\npolicy=any\n\
             x509_extensions=names\n[any]\ncommonName=supplied\n[names]\nsubjectAltName=DNS:{NAME},IP:{}\n",
            self.service
        );
        fs::write(self.path("ca.conf"), conf).unwrap();
        fs::write(self.path("index"), "").unwrap();
        fs::write(self.path("serial"), "01\n").unwrap();
        let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        let subject = ["-subj", "/CN=Lab CA"];
        self.openssl(&format!("req -x509 {new_key} -keyout ca.key -out ca.pem -days 3650"), &subject);
        let subject = ["-subj", &format!("/CN={NAME}")];
        self.openssl(&format!("req -new {new_key} -keyout key.pem -out request.pem"), &subject);
        let (from, until) = (stamp(from_days), stamp(from_days + days));
        let ca = "ca -batch -config ca.conf -cert ca.pem -keyfile ca.key -in request.pem -out leaf.pem -notext";
        self.openssl(&format!("{ca} -startdate {from} -enddate {until}"), &[]);
        let day = |days| moment(days).format(format_description!("[year]-[month]-[day] 00:00:00Z")).unwrap();
        Certificate {
            ca: self.path("ca.pem"),
            chain: self.path("leaf.pem"),
            key: self.path("key.pem"),
            from: day(from_days),
            until: day(from_days + days),
        }
    }

    pub(crate) fn openssl(&self, arguments: &str, more: &[&str]) {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(self.directory.path()).args(arguments.split_whitespace()).args(more);
        let output = openssl.output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

pub(crate) struct Certificate {
    pub ca: PathBuf,
    pub chain: PathBuf,
    pub key: PathBuf,
    pub from: String,
    pub until: String,
}

/// What the service does, as nginx says it.
pub(crate) fn service() -> String {
    format!(
        "location = /api/assisted-install/v2/component-versions {{ default_type application/json; return 200 '{ANSWER}'; }}"
    )
}

pub(crate) fn plain_service() -> String {
    format!("server {{ listen 8090; {} }}", service())
}

/// A server of the test's own, in the gateway.
pub(crate) struct Fake {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Calls `turn` again and again; it must not block for long.
    pub(crate) fn run(mut turn: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                turn();
            }
        };
        Self { stop, thread: Some(thread::spawn(work)) }
    }

    /// A TCP server that reads what comes, says `answer`, and hangs up.
    pub(crate) fn saying(host: &Host, port: u16, answer: &'static str) -> Self {
        let listener = host.namespace.enter(|| TcpListener::bind(("203.0.113.8", port)).unwrap());
        listener.set_nonblocking(true).unwrap();
        Self::run(move || match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(testkit::wait::LIMIT)).unwrap();
                let _ = stream.read(&mut [0; 2048]);
                let _ = stream.write_all(answer.as_bytes());
            }
            Err(_) => thread::sleep(Duration::from_millis(10)),
        })
    }
}

impl Fake {
    /// A proxy that lets one who knows the password through to `upstream`, once.
    pub(crate) fn proxy(host: &Host, port: u16, upstream: &str) -> Self {
        let (listener, upstream) = host
            .namespace
            .enter(|| (TcpListener::bind(("203.0.113.8", port)).unwrap(), TcpStream::connect(upstream).unwrap()));
        listener.set_nonblocking(true).unwrap();
        Self::run(move || {
            let Ok((mut stream, _)) = listener.accept() else { return thread::sleep(Duration::from_millis(10)) };
            stream.set_nonblocking(false).unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.starts_with("CONNECT 203.0.113.7:443 HTTP/1.1\r\nHost: 203.0.113.7:443\r\n"), "{head}");
            assert!(head.contains("\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{head}");
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let (mut from_us, mut to_service) = (stream.try_clone().unwrap(), upstream.try_clone().unwrap());
            thread::scope(|scope| {
                scope.spawn(move || {
                    let _ = copy(&mut from_us, &mut to_service);
                    let _ = to_service.shutdown(Shutdown::Both);
                });
                let _ = copy(&mut &upstream, &mut stream);
                let _ = stream.shutdown(Shutdown::Both);
            });
        })
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

pub(crate) fn bound(host: &Host, address: &str) -> UdpSocket {
    let socket = host.namespace.enter(|| UdpSocket::bind(address).unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    socket
}
