//! HTTPS with our own authority: who trusts it is served, who dawdles is cut off, and the plain port beside it has boot files
//! only.

use super::common::{API, Files, Running, pull_secret};
use super::iso;
use serde_json::json;
use service_stub::http::limits::Limits;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn client(running: &Running, trusts: bool) -> api::Client {
    let ca_cert = trusts.then(|| running.state.path().join("tls-ca.pem"));
    let http = api::http::HttpConfig { ca_cert, ..api::http::HttpConfig::default() };
    let config = api::ClientConfig { url: running.url.clone(), http, ..api::ClientConfig::default() };
    api::Client::new(&config, api::RetryPolicy::Never).unwrap()
}

#[test]
fn only_hosts_are_given_the_ca_to_trust() {
    let files = tempfile::tempdir().unwrap();
    let live = files.path().join("live.iso");
    iso::write(&live);
    let running = Running::start(Files { tls: true, iso: Some(live), ..Files::default() });
    let answer = running.json("POST", "/v2/infra-envs", &json!({"name": "i", "pull_secret": pull_secret()}));
    let id = answer.document()["id"].as_str().unwrap().to_owned();
    assert!(answer.document()["download_url"].as_str().unwrap().starts_with("https://"));
    let host = json!({"host_id": "69396def-4192-dbc7-5c01-819e7f27b01b", "discovery_agent_version": ""});
    let register = |client: api::Client| {
        client.register_host(id.parse().unwrap(), &serde_json::from_value(host.clone()).unwrap()).map(drop)
    };
    register(client(&running, true)).expect("it trusts our authority");
    let error = register(client(&running, false)).unwrap_err().to_string();
    println!("| our agent without the CA | {error} |");
    let config = running.get(&format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=discovery.ign"));
    let config = config.document();
    let files = config["storage"]["files"].as_array().unwrap();
    let ca = files.iter().find(|file| file["path"] == "/etc/assisted-service/service-ca-cert.crt");
    let ca = ca.or(files.iter().find(|file| file["path"] == "/etc/landfall/ca.pem")).expect("the config has the CA");
    let source = ca["contents"]["source"].as_str().unwrap();
    let text = std::fs::read(running.state.path().join("tls-ca.pem")).unwrap();
    assert_eq!(&*ignition::data_url::decode(source).unwrap().data, text);

    let plain = running.plain.clone().unwrap();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(plain.strip_prefix("http://").unwrap()).unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[9..]).into_owned()
    };
    let script = format!("{API}/v2/infra-envs/{id}/downloads/files?file_name=ipxe-script");
    assert_eq!(get("/boot-artifacts/landfall"), "200");
    assert_eq!(get(&script), "200");
    // Firmware and the initramfs know no authority of ours: all they fetch is named by the plain port.
    let text = String::from_utf8(running.get(&script).body).unwrap();
    assert!(text.contains(&format!("{plain}/boot-artifacts/kernel")) && !text.contains("https://"), "{text}");
    for path in [
        "/health".to_owned(),
        format!("{API}/v2/infra-envs"),
        script.replace("ipxe-script", "discovery.ign"),
        format!("/images/{id}"),
        format!("/byid/{id}/any/any/full.iso"),
    ] {
        assert_eq!(get(&path), "404", "{path} in the clear");
    }
}

#[test]
fn handshakes_that_dawdle_are_in_nobodys_way() {
    let limits = Limits { handshake: Duration::from_secs(15), ..Limits::default() };
    let running = Running::start(Files { tls: true, limits, ..Files::default() });
    let address = running.url.strip_prefix("https://").unwrap().to_owned();
    let connect = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(testkit::wait::LIMIT)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let started = Instant::now();
    // Nothing, and the start of a ClientHello that promises more.
    let mut slow: Vec<TcpStream> = (0..100).map(|_| connect(b"")).collect();
    slow.extend((0..100).map(|_| connect(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")));
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(running.get("/health").status, 200);
            began.elapsed()
        })
        .collect();
    times.sort();
    println!("| 200 handshakes that don't go on | others: p50 {:?}, max {:?} |", times[25], times[49]);
    for stream in &mut slow {
        let mut rest = Vec::new();
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    println!("| each of them | closed after {} ms |", started.elapsed().as_millis());
    let mut clear = connect(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut answer = Vec::new();
    let _ = clear.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "plain HTTP is not answered");
}
