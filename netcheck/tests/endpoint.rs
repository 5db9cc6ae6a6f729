//! Configs fetched from a real web server: good ones, other things, and none.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

use api::{ApiVipConnectivityRequest, RequestHeader};
use base64::{Engine, prelude::BASE64_STANDARD};
use netcheck::endpoint::{EndpointOptions, fetch, judge};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command, time::Duration};
use testkit::{
    net::{
        Host, Segment,
        programs::{Server, command, listens, packages},
    },
    wire,
};

const FAILED: &str = "ignition file download failed: ";

/// A client and nginx at 10.9.1.1, ports 80 and 443.
struct Lab {
    _server: Server,
    _server_host: Host,
    client: Host,
    directory: tempfile::TempDir,
    _segment: Segment,
}

const CONFIGURATION: &str = r#"
daemon off; master_process off; user root; worker_processes 1; pid DIR/pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4;
  scgi_temp_path DIR/t5;
  server {
    listen 10.9.1.1:80; listen 10.9.1.1:443 ssl; ssl_certificate DIR/server.crt; ssl_certificate_key DIR/server.key;
    root DIR/www;
    location /empty { return 200; }
    location /garbage { return 200 "<html>"; }
    location /gone { return 404 "not found"; }
    location /loop { return 302 http://10.9.1.1/loop; }
    location /moved { return 302 http://10.9.1.1/config; }
    location /slow { limit_rate_after 4000; limit_rate 20; }
    location /what-came { return 200 "[$http_accept|$http_authorization|$http_x_key]"; }
    location /for-members { if ($http_authorization != "Bearer s3cret") { return 403 "no"; } try_files /config =404; }
  }
}
"#;

impl Lab {
    fn new() -> Option<Self> {
        let packages = packages()?;
        let segment = Segment::new()?;
        let server_host = segment.host("server", "02:00:00:00:0a:01", &["10.9.1.1/24"]);
        let client = segment.host("client", "02:00:00:00:0a:10", &["10.9.1.10/24"]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        make_certificates(path);
        fs::create_dir(path.join("www")).unwrap();
        let write = |name: &str, text: &str| fs::write(path.join("www").join(name), text).unwrap();
        write("config", &config().to_string());
        write("slow", &"x".repeat(10_000));
        write("new", &json!({"ignition": {"version": "3.3.0"}}).to_string());
        let configuration = path.join("nginx.conf");
        fs::write(&configuration, CONFIGURATION.replace("DIR", path.to_str().unwrap())).unwrap();
        let mut nginx = command(&packages, &server_host.namespace, "usr/sbin/nginx");
        nginx.arg("-p").arg(path).arg("-e").arg("stderr").arg("-c").arg(configuration);
        let mut server = Server::start(nginx, &path.join("nginx.log"));
        server.await_ready(|| listens(&client.namespace, "10.9.1.1:443".parse().unwrap()));
        Some(Self { _server: server, _server_host: server_host, client, directory, _segment: segment })
    }

    /// The step's reply.
    fn fetch(&self, request: &ApiVipConnectivityRequest) -> Value {
        self.fetch_within(Duration::from_secs(300), request)
    }

    fn fetch_within(&self, timeout: Duration, request: &ApiVipConnectivityRequest) -> Value {
        let options = EndpointOptions { connect_timeout: timeout, timeout, ..EndpointOptions::default() };
        let (fetched, document) = self.client.namespace.enter(|| fetch(request, &options).unwrap());
        let response = fetched.response(&document.and_then(|json| judge(&json, only_version_3_2(&json))));
        let document = serde_json::to_value(response).unwrap();
        wire::assert_fits("api_vip_connectivity_response", &document);
        document
    }

    fn get(&self, url: &str) -> Value {
        self.fetch(&ApiVipConnectivityRequest { url: url.into(), ..Default::default() })
    }

    fn ca(&self, name: &str) -> Option<String> {
        Some(BASE64_STANDARD.encode(fs::read(self.directory.path().join(name)).unwrap()))
    }
}

/// What the crate that knows configs does, in short.
fn only_version_3_2(json: &[u8]) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let config: Value = serde_json::from_slice(json)?;
    match config["ignition"]["version"].as_str() {
        Some("3.2.0") => Ok(config.to_string()),
        other => Err(format!("version {other:?}").into()),
    }
}

fn config() -> Value {
    json!({"ignition": {"version": "3.2.0"}, "storage": {"luks": [{"name": "root"}]}})
}

/// A CA that signs the server's certificate, and another that does not.
fn make_certificates(directory: &Path) {
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    for name in ["ca", "other"] {
        openssl(&format!("req -x509 {key} -subj /CN={name} -keyout {name}.key -out {name}.crt"));
    }
    openssl(&format!(
        "req -x509 {key} -subj /CN=server -addext subjectAltName=IP:10.9.1.1 -addext basicConstraints=critical,CA:FALSE \
         -CA ca.crt -CAkey ca.key -keyout server.key -out server.crt"
    ));
}

#[test]
fn a_config_comes_over_http_and_through_redirects() {
    let Some(lab) = Lab::new() else { return };
    for url in ["http://10.9.1.1/config", "http://10.9.1.1/moved"] {
        let expected = json!({"is_success": true, "url": url, "ignition": config().to_string()});
        assert_eq!(lab.get(url), expected);
    }
}

#[test]
fn what_is_not_a_config_is_reported_in_the_real_agents_words() {
    let Some(lab) = Lab::new() else { return };
    for (path, error) in [
        ("gone", format!("{FAILED}bad status code: 404. server response: not found")),
        ("empty", format!("{FAILED}server responsed with status code 200 but the response was empty")),
        (
            "garbage",
            format!("{FAILED}response is not valid json:\n<html>\nparse error is: expected value at line 1 column 1"),
        ),
        ("loop", format!("{FAILED}request failed: stopped after 10 redirects")),
        (
            "new",
            "response is not a valid ignition file:\n{\"ignition\":{\"version\":\"3.3.0\"}}\n\
             parse error is: version Some(\"3.3.0\")"
                .to_owned(),
        ),
    ] {
        let url = format!("http://10.9.1.1/{path}");
        assert_eq!(lab.get(&url), json!({"url": url, "download_error": error}));
    }
}

#[test]
fn no_wait_is_endless() {
    let Some(lab) = Lab::new() else { return };
    let error = |url: &str| lab.get(url)["download_error"].as_str().unwrap().to_owned();
    // The server takes five minutes for all of it.
    let slow = ApiVipConnectivityRequest { url: "http://10.9.1.1/slow".into(), ..Default::default() };
    let slow = lab.fetch_within(Duration::from_secs(10), &slow);
    let slow = slow["download_error"].as_str().unwrap();
    assert!(slow.starts_with(&format!("{FAILED}error while reading response body, read ")), "{slow}");
    assert!(slow.ends_with(" out of 10000 bytes: timeout: global"), "{slow}");
    assert_eq!(
        error("http://10.9.1.1:81/"),
        format!("{FAILED}request failed: io: cannot connect to 10.9.1.1:81: Connection refused (os error 111)")
    );
    assert!(error("http://10.9.1.99/").starts_with(&format!("{FAILED}request failed: ")));
    assert_eq!(error("10.9.1.1/config"), format!("{FAILED}failed to create request: invalid format"));
    assert!(error("http://[").starts_with(&format!("{FAILED}failed to create request: ")));
}

#[test]
fn only_the_given_ca_is_trusted() {
    let Some(lab) = Lab::new() else { return };
    let url = "https://10.9.1.1/config".to_owned();
    let with = |ca_certificate| {
        lab.fetch(&ApiVipConnectivityRequest { url: url.clone(), ca_certificate, ..Default::default() })
    };
    let expected = json!({"is_success": true, "url": url, "ignition": config().to_string()});
    assert_eq!(with(lab.ca("ca.crt")), expected);
    let url = "https://10.9.1.1/moved".to_owned();
    let down = lab.fetch(&ApiVipConnectivityRequest { url, ca_certificate: lab.ca("ca.crt"), ..Default::default() });
    let expected = format!("{FAILED}request failed: redirected to http://10.9.1.1/config, which is not https");
    assert_eq!(down["download_error"], expected);
    for other in [lab.ca("other.crt"), None] {
        let reply = with(other);
        let error = reply["download_error"].as_str().unwrap();
        assert!(error.starts_with(&format!("{FAILED}request failed: ")) && error.contains("UnknownIssuer"), "{error}");
    }
}

#[test]
fn token_and_headers_are_sent_and_never_shown() {
    let Some(lab) = Lab::new() else { return };
    let request = |url: &str, token: &str| ApiVipConnectivityRequest {
        url: url.into(),
        ignition_endpoint_token: Some(token.into()),
        request_headers: vec![RequestHeader { key: "x-key".into(), value: "v".into() }],
        ..Default::default()
    };
    let url = "http://10.9.1.1/what-came";
    let reply = lab.fetch(&request(url, "s3cret"));
    let sent = "[application/vnd.coreos.ignition+json; version=3.2.0|Bearer s3cret|v]";
    let expected =
        format!("{FAILED}response is not valid json:\n{sent}\nparse error is: expected value at line 1 column 2");
    assert_eq!(reply["download_error"], expected, "the server sees them");
    let url = "http://10.9.1.1/for-members";
    assert_eq!(lab.fetch(&request(url, "s3cret"))["is_success"], true);
    let expected = json!({"url": url, "download_error": format!("{FAILED}bad status code: 403. server response: no")});
    assert_eq!(lab.fetch(&request(url, "0ther")), expected);
}
