//! docker-registry itself, from packages that `make setup` unpacks beside the build.

use crate::{port::Held, wait};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::{
    fs::File,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub const USER: &str = "tester";
pub const PASSWORD: &str = "right horse";
/// bcrypt of it, with little work to do.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuuLK4yYxcGJwQr33yKnQTmKjI1WQSUD2K";
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A registry that wants a password; it ends when dropped.
pub struct Registry {
    pub address: String,
    agent: ureq::Agent,
    child: Child,
    _directory: tempfile::TempDir,
    _port: Held,
}

fn packages(target_tmpdir: &str) -> Option<PathBuf> {
    let target = Path::new(target_tmpdir).parent().unwrap();
    let places = [target.join("vm/packages/servers"), target.join("../vm/packages/servers")];
    let found = places.into_iter().find(|place| place.join(".done").exists());
    if found.is_none() {
        crate::skip::because("the servers' packages are not there (make setup unpacks them)");
    }
    found
}

impl Registry {
    /// None, with the reason printed, where it was not unpacked. The argument is `env!("CARGO_TARGET_TMPDIR")`.
    pub fn start(target_tmpdir: &str) -> Option<Self> {
        let packages = packages(target_tmpdir)?;
        let directory = tempfile::tempdir().unwrap();
        let passwords = directory.path().join("htpasswd");
        std::fs::write(&passwords, format!("{USER}:{HASH}\n")).unwrap();
        let port = Held::default();
        let address = port.address().to_string();
        // JSON is YAML.
        let configuration = json!({
            "version": "0.1", "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": directory.path().join("registry")}},
            "http": {"addr": address, "secret": "s"},
            "auth": {"htpasswd": {"realm": "it", "path": passwords}},
        });
        let file = directory.path().join("registry.yml");
        std::fs::write(&file, configuration.to_string()).unwrap();
        let log_path = directory.path().join("registry.log");
        let log = File::create(&log_path).unwrap();
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|name| packages.join(name));
        let mut child = Command::new(packages.join("usr/bin/docker-registry"))
            .arg("serve")
            .arg(file)
            .env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let said = || std::fs::read_to_string(&log_path).unwrap();
        let is_ready = wait::comes(|| {
            assert!(child.try_wait().unwrap().is_none(), "the registry ended: {}", said());
            TcpStream::connect(&address).is_ok()
        });
        assert!(is_ready, "the registry does not get ready: {}", said());
        let agent = ureq::Agent::config_builder().proxy(None).http_status_as_error(false).build().into();
        Some(Self { address, agent, child, _directory: directory, _port: port })
    }

    fn send(&self, method: &str, url: &str, content_type: &str, body: &[u8], status: u16) -> String {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(url)
            .header("Content-Type", content_type)
            .header("Authorization", format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"))));
        let response = self.agent.run(request.body(body).unwrap()).unwrap();
        assert_eq!(response.status(), status, "{method} {url}");
        response.headers().get("Location").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    /// Pushes an image of these layers; gives the digest of its manifest.
    pub fn push(&self, repository: &str, tag: &str, layers: &[Vec<u8>]) -> String {
        let base = format!("http://{}/v2/{repository}", self.address);
        let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}});
        let push = |blob: &[u8], kind: &str| -> Value {
            let digest = super::images::digest(blob);
            let upload = self.send("POST", &format!("{base}/blobs/uploads/"), "", b"", 202);
            self.send("PUT", &format!("{upload}&digest={digest}"), "application/octet-stream", blob, 201);
            json!({"mediaType": kind, "digest": digest, "size": blob.len()})
        };
        let config = push(config.to_string().as_bytes(), "application/vnd.docker.container.image.v1+json");
        let layers: Vec<Value> =
            layers.iter().map(|layer| push(layer, "application/vnd.docker.image.rootfs.diff.tar.gzip")).collect();
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        let manifest = manifest.to_string();
        self.send("PUT", &format!("{base}/manifests/{tag}"), MANIFEST, manifest.as_bytes(), 201);
        super::images::digest(manifest.as_bytes())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
