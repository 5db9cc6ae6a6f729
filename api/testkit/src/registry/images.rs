//! Images that an HTTP server of a test gives out: distribution's HTTP API, version 2, as far as clients that pull use it.

use crate::http::{self, Request};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// As registries write it.
pub fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// A packed layer of these files.
pub fn layer(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(content.len()).unwrap());
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// All repositories of a registry hold the same: what they are asked for decides.
#[derive(Clone, Debug, Default)]
pub struct Images {
    /// Type and content by digest; manifests by `REPOSITORY:TAG` too.
    contents: BTreeMap<String, (&'static str, Vec<u8>)>,
}

impl Images {
    fn add(&mut self, media_type: &'static str, content: Vec<u8>) -> Value {
        let (digest, size) = (digest(&content), content.len());
        self.contents.insert(digest.clone(), (media_type, content));
        json!({"mediaType": media_type, "digest": digest, "size": size})
    }

    fn add_manifest(&mut self, name: &str, media_type: &'static str, manifest: &Value) -> String {
        let content = manifest.to_string().into_bytes();
        self.contents.insert(name.to_owned(), (media_type, content.clone()));
        self.add(media_type, content);
        digest(manifest.to_string().as_bytes())
    }

    /// An image of these layers as `REPOSITORY:TAG`. Gives the digest of its manifest.
    pub fn image(&mut self, name: &str, layers: &[Vec<u8>]) -> String {
        let config =
            self.add(CONFIG, json!({"architecture": "amd64", "os": "linux", "of": name}).to_string().into_bytes());
        let layers: Vec<_> = layers.iter().map(|layer| self.add(LAYER, layer.clone())).collect();
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        self.add_manifest(name, MANIFEST, &manifest)
    }

    /// An index of manifests by architecture. Gives its digest.
    pub fn index(&mut self, name: &str, images: &[(&str, &str)]) -> String {
        let entry = |(architecture, digest): &(&str, &str)| {
            let size = self.contents.get(*digest).map_or(0, |(_, content)| content.len());
            let platform = json!({"os": "linux", "architecture": architecture});
            json!({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform})
        };
        let manifests: Vec<_> = images.iter().map(entry).collect();
        self.add_manifest(name, INDEX, &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
    }

    /// What is under a digest; tests damage it.
    pub fn content_mut(&mut self, digest: &str) -> &mut Vec<u8> {
        &mut self.contents.get_mut(digest).unwrap().1
    }

    /// What the registry answers; 404 for what it does not have.
    pub fn answer(&self, request: &Request) -> Vec<u8> {
        let path = request.path().strip_prefix("/v2/").unwrap_or_default();
        let manifest = path.split_once("/manifests/").map(|(repository, selector)| {
            if selector.contains(':') { selector.to_owned() } else { format!("{repository}:{selector}") }
        });
        let key = manifest.or_else(|| path.split_once("/blobs/").map(|(_, digest)| digest.to_owned()));
        match key.as_deref() {
            None if path.is_empty() => http::ok("{}"),
            key => match key.and_then(|key| self.contents.get(key)) {
                Some((media_type, content)) => {
                    http::reply("200 OK", &format!("Content-Type: {media_type}\r\n"), content)
                }
                None => http::reply("404 Not Found", "", "{}"),
            },
        }
    }
}
