//! Registries: docker-registry itself, and servers that do what it would not.

mod fake;

use base64::{Engine, prelude::BASE64_STANDARD};
pub(crate) use fake::{Answer, FakeRegistry};
use netcheck::image::reference::Digest;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::net::{Host, programs};

pub(crate) const USER: &str = "tester";
pub(crate) const PASSWORD: &str = "right horse";
/// bcrypt of it, with little work to do.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuuLK4yYxcGJwQr33yKnQTmKjI1WQSUD2K";
const ADDRESS: &str = "192.168.126.2:5000";

/// Bytes that do not compress, the same for the same seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.u8(..)).collect()
}

/// A certification authority and a server's certificate by it.
pub(crate) struct Authority {
    pub certificate: PathBuf,
    pub server_certificate: PathBuf,
    pub server_key: PathBuf,
}

impl Authority {
    pub(crate) fn new(directory: &Path, addresses: [&str; 2]) -> Self {
        let path = |name: &str| directory.join(name);
        let openssl = |key: &Path, certificate: &Path, more: &[&str]| {
            let mut command = Command::new("openssl");
            command.args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ]);
            command.arg("-keyout").arg(key).arg("-out").arg(certificate).args(more);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let (certificate, key) = (path("ca.crt"), path("ca.key"));
        openssl(&key, &certificate, &["-subj", "/CN=test CA"]);
        let (server_certificate, server_key) = (path("server.crt"), path("server.key"));
        let name = format!("subjectAltName=IP:{},IP:{}", addresses[0], addresses[1]);
        let by = ["-CA", certificate.to_str().unwrap(), "-CAkey", key.to_str().unwrap()];
        let mut arguments =
            vec!["-subj", "/CN=registry", "-addext", &name, "-addext", "basicConstraints=critical,CA:FALSE"];
        arguments.extend(by);
        openssl(&server_key, &server_certificate, &arguments);
        Self { certificate, server_certificate, server_key }
    }
}

/// An image: its configuration and layers, and the manifest that names them.
#[derive(Clone)]
pub(crate) struct Image {
    pub blobs: Vec<Vec<u8>>,
    pub manifest: Vec<u8>,
}

impl Image {
    pub(crate) fn new(layers: &[&[u8]]) -> Self {
        let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}});
        let mut blobs = vec![config.to_string().into_bytes()];
        blobs.extend(layers.iter().map(|layer| layer.to_vec()));
        let kind = "application/vnd.docker.distribution.manifest.v2+json";
        let descriptor = |blob: &Vec<u8>| {
            let kind = "application/vnd.docker.image.rootfs.diff.tar.gzip";
            json!({"mediaType": kind, "digest": Digest::compute(blob).to_string(), "size": blob.len()})
        };
        let layers: Vec<_> = blobs[1..].iter().map(descriptor).collect();
        let mut config = descriptor(&blobs[0]);
        config["mediaType"] = "application/vnd.docker.container.image.v1+json".into();
        let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers});
        Self { blobs, manifest: manifest.to_string().into_bytes() }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.blobs.iter().map(|blob| blob.len() as u64).sum()
    }
}

/// docker-registry with TLS and passwords.
pub(crate) struct RealRegistry<'a> {
    host: &'a Host,
    agent: ureq::Agent,
    _server: programs::Server,
}

impl<'a> RealRegistry<'a> {
    pub(crate) fn start(host: &'a Host, authority: &Authority, directory: &Path) -> Option<Self> {
        let packages = programs::packages()?;
        let passwords = directory.join("htpasswd");
        fs::write(&passwords, format!("{USER}:{HASH}\n")).unwrap();
        // JSON is YAML.
        let configuration = json!({
            "version": "0.1", "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": directory.join("registry")}},
            "http": {"addr": ADDRESS, "secret": "s",
                "tls": {"certificate": authority.server_certificate, "key": authority.server_key}},
            "auth": {"htpasswd": {"realm": "it", "path": passwords}},
        });
        let file = directory.join("registry.yml");
        fs::write(&file, configuration.to_string()).unwrap();
        let mut command = programs::command(&packages, &host.namespace, "usr/bin/docker-registry");
        command.arg("serve").arg(file);
        let mut server = programs::Server::start(command, &directory.join("registry.log"));
        server.await_ready(|| programs::listens(&host.namespace, ADDRESS.parse().unwrap()));
        let configuration = api::http::configuration(std::slice::from_ref(&authority.certificate), false).unwrap();
        let agent = api::http::build(configuration, api::proxy::ProxyVariables::default());
        Some(Self { host, agent, _server: server })
    }

    /// Sends a request and panics unless it is met with the status. Gives the `Location`.
    fn send(&self, method: &str, url: &str, content_type: &str, body: &[u8], status: u16) -> String {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(url)
            .header("Content-Type", content_type)
            .header("Authorization", format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"))))
            .body(body)
            .unwrap();
        let response = self.host.namespace.enter(|| self.agent.run(request)).unwrap();
        assert_eq!(response.status(), status, "{method} {url}");
        let location = response.headers().get("Location");
        location.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    fn push_manifest(&self, repository: &str, selector: &str, content_type: &str, manifest: &[u8]) {
        let url = format!("https://{ADDRESS}/v2/{repository}/manifests/{selector}");
        self.send("PUT", &url, content_type, manifest, 201);
    }

    fn push_as(&self, repository: &str, selector: &str, image: &Image) {
        for blob in &image.blobs {
            let upload = self.send("POST", &format!("https://{ADDRESS}/v2/{repository}/blobs/uploads/"), "", b"", 202);
            self.send(
                "PUT",
                &format!("{upload}&digest={}", Digest::compute(blob)),
                "application/octet-stream",
                blob,
                201,
            );
        }
        let kind = "application/vnd.docker.distribution.manifest.v2+json";
        self.push_manifest(repository, selector, kind, &image.manifest);
    }

    pub(crate) fn push(&self, repository: &str, tag: &str, image: &Image) {
        self.push_as(repository, tag, image);
    }

    /// Pushes an image for each architecture, and gives the digest of the list.
    pub(crate) fn push_index(&self, repository: &str, tag: &str, images: &[(&str, &Image)]) -> Digest {
        let kind = "application/vnd.docker.distribution.manifest.list.v2+json";
        let mut manifests: Vec<Value> = Vec::new();
        for (architecture, image) in images {
            let digest = Digest::compute(&image.manifest).to_string();
            self.push_as(repository, &digest, image);
            manifests
                .push(json!({"mediaType": "application/vnd.docker.distribution.manifest.v2+json", "digest": digest,
                "size": image.manifest.len(), "platform": {"architecture": architecture, "os": "linux"}}));
        }
        let list = json!({"schemaVersion": 2, "mediaType": kind, "manifests": manifests}).to_string();
        self.push_manifest(repository, tag, kind, list.as_bytes());
        Digest::compute(list.as_bytes())
    }
}
