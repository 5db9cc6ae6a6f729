//! Real Tang servers with real keys, and web servers that are none.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use api::TangServer;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use netcheck::tang::{self, TangOptions};
use serde_json::{Value, json};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use testkit::{
    http,
    net::{
        Host, Namespace, Segment,
        programs::{command, packages},
    },
    wire,
};

/// Takes connections inside a namespace and has each served on a thread, as inetd does.
struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Listener {
    fn start(namespace: &Namespace, address: &str, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = namespace.enter(|| TcpListener::bind(address).unwrap());
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            thread::scope(|scope| {
                while !stopped.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((stream, _)) => {
                            stream.set_nonblocking(false).unwrap();
                            scope.spawn(|| serve(stream));
                        }
                        Err(_) => thread::sleep(Duration::from_millis(5)),
                    }
                }
            });
        };
        Self { stop, thread: Some(thread::spawn(work)) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Makes keys and says their signing key's thumbprint.
fn make_keys(packages: &Path, namespace: &Namespace, directory: &Path) -> String {
    let path = format!("{}:/usr/bin:/bin", packages.join("usr/bin").display());
    let run = |mut command: Command| {
        let output = command.env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut keygen = command(packages, namespace, "usr/libexec/tangd-keygen");
    keygen.arg(directory).args(["sig", "exc"]);
    run(keygen);
    let mut thumbprint = command(packages, namespace, "usr/bin/jose");
    thumbprint.args(["jwk", "thp", "-i"]).arg(directory.join("sig.jwk"));
    run(thumbprint).trim().to_owned()
}

struct Lab {
    _tang: Listener,
    thumbprint: String,
    server_host: Host,
    client: Host,
    _segment: Segment,
    _directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Option<Self> {
        let packages = packages()?;
        let segment = Segment::new()?;
        let server_host = segment.host("server", "02:00:00:00:0b:01", &["10.9.2.1/24"]);
        let client = segment.host("client", "02:00:00:00:0b:10", &["10.9.2.10/24"]);
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("keys");
        fs::create_dir(&keys).unwrap();
        let thumbprint = make_keys(&packages, &server_host.namespace, &keys);
        let inside = Namespace(server_host.namespace.0.clone());
        let inside = std::mem::ManuallyDrop::new(inside); // the host removes it
        let serve = move |stream: TcpStream| {
            let mut tangd = command(&packages, &inside, "usr/libexec/tangd");
            let output = OwnedFd::from(stream.try_clone().unwrap());
            tangd.arg(&keys).stdin(OwnedFd::from(stream)).stdout(output).stderr(Stdio::null());
            tangd.status().unwrap();
        };
        let tang = Listener::start(&server_host.namespace, "10.9.2.1:7500", serve);
        Some(Self { _tang: tang, thumbprint, server_host, client, _segment: segment, _directory: directory })
    }

    /// The step's output and error.
    fn check(&self, servers: &[TangServer]) -> (Value, Option<String>) {
        // One of them says nothing, and so long it is waited for.
        let options = TangOptions { timeout: Duration::from_secs(20), connect_timeout: Duration::from_secs(20) };
        let findings = self.client.namespace.enter(|| tang::check(servers, &options).unwrap());
        (serde_json::to_value(tang::response(&findings)).unwrap(), tang::report(&findings))
    }
}

fn server(url: &str, thumbprint: &str) -> TangServer {
    TangServer { url: url.into(), thumbprint: thumbprint.into() }
}

const TANG: &str = "http://10.9.2.1:7500";

#[test]
fn a_real_server_advertises_its_keys() {
    let Some(lab) = Lab::new() else { return };
    let (document, report) = lab.check(&[server(TANG, &lab.thumbprint)]);
    assert_eq!(report, None);
    wire::assert_fits("tang_connectivity_response", &document);
    let answer = &document["tang_server_response"][0];
    let payload = BASE64_URL_SAFE_NO_PAD.decode(answer["payload"].as_str().unwrap()).unwrap();
    let keys: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2, "one to sign and one to exchange");
    let signatures = answer["signatures"].as_array().map(Vec::len);
    assert!(signatures.is_some_and(|count| count > 0), "{answer}");
    let expected = json!({"is_success": true, "tang_server_response": [{
        "tang_url": format!("{TANG}/adv/{}", lab.thumbprint),
        "payload": answer["payload"],
        "signatures": answer["signatures"],
    }]});
    assert_eq!(document, expected);
}

#[test]
fn one_bad_server_spoils_the_reply_and_all_are_named() {
    let Some(lab) = Lab::new() else { return };
    let inside = &lab.server_host.namespace;
    let listener = |address: &str| inside.enter(|| TcpListener::bind(address).unwrap());
    let _nonsense =
        http::Server::on(listener("10.9.2.1:81"), None, |_| http::ok(format!("\"{}\"", "x".repeat(10_000))));
    let _empty = http::Server::on(listener("10.9.2.1:82"), None, |_| http::ok(""));
    let _silent = listener("10.9.2.1:83");
    let url = |port: u16| format!("http://10.9.2.1:{port}");
    let (document, report) = lab.check(&[
        server(TANG, &lab.thumbprint),
        server(TANG, "AAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        server(&url(81), "x"),
        server(&url(82), "x"),
        server(&url(83), "x"),
        server(&url(84), "x"),
        server(TANG, ""),
    ]);
    assert_eq!(document, json!({"tang_server_response": null}));
    wire::assert_fits("tang_connectivity_response", &document);
    let expected = "6 errors occurred:\n\
        \t* HTTP GET failure. Status Code: 404\n\
        \t* Get \"http://10.9.2.1:81/adv/x\": the response is not an advertisement of a Tang server \
        (line 1, column 10002)\n\
        \t* Get \"http://10.9.2.1:82/adv/x\": the response is empty\n\
        \t* Get \"http://10.9.2.1:83/adv/x\": timeout: global\n\
        \t* Get \"http://10.9.2.1:84/adv/x\": io: cannot connect to 10.9.2.1:84: Connection refused (os error 111)\n\
        \t* Tang thumbprint isn't set for server: http://10.9.2.1:7500\n\n";
    assert_eq!(report.as_deref(), Some(expected));
}

#[test]
fn an_unknown_key_makes_the_real_agents_error() {
    let Some(lab) = Lab::new() else { return };
    let (_, report) = lab.check(&[server(TANG, "AAAAAAAAAAAAAAAAAAAAAAAAAAA")]);
    assert_eq!(report.as_deref(), Some("1 error occurred:\n\t* HTTP GET failure. Status Code: 404\n\n"));
}
