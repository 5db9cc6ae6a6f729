//! Manifests and indexes of images: OCI image specification, and Docker's image manifest version 2, schema 2.

use super::reference::Digest;
use serde::Deserialize;

/// What we support, as HTTP's `Accept`.
pub const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A thing in a registry, by content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub digest: Digest,
    pub size_bytes: u64,
}

/// What a reference leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// One for each platform.
    Index(Vec<Variant>),
    /// An image: its configuration, then its layers.
    Image(Vec<Descriptor>),
}

/// An element of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Of its manifest.
    pub digest: Digest,
    /// Operating system and architecture in Go's words, as far as it is for one.
    pub platform: Option<(String, String)>,
}

/// Why a document is not a manifest that we support.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON, or fields missing.
    #[error("the manifest can't be read (line {line}, column {column})")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// Docker's first, without sizes; registries convert no more.
    #[error(
        "the manifest is of schema 1, which podman no longer reads either: push the image again with a current tool"
    )]
    Schema1,
    /// Signatures, charts and so on.
    #[error("'{media_type}' is not an image")]
    Kind {
        /// As stated by the document or the registry.
        media_type: String,
    },
    /// SHA-256 only.
    #[error("the manifest has an invalid digest '{digest}'")]
    Digest {
        /// Shortened.
        digest: String,
        /// Why it is none.
        source: super::reference::ReferenceError,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<Vec<DescriptorDocument>>,
    config: Option<DescriptorDocument>,
    layers: Option<Vec<DescriptorDocument>>,
}

#[derive(Deserialize)]
struct DescriptorDocument {
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

/// Reads a document. Its own `mediaType` decides what it is, else the registry's `content_type`, else its fields. An error does
/// not quote it: serde's would, however long it is.
pub fn parse(content_type: Option<&str>, bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let document: Document = serde_json::from_slice(bytes)
        .map_err(|error| ManifestError::Json { line: error.line(), column: error.column() })?;
    if document.schema_version == Some(1) {
        return Err(ManifestError::Schema1);
    }
    let content_type = content_type.and_then(|value| value.split(';').next()).map(str::trim);
    let media_type = document
        .media_type
        .as_deref()
        .or(content_type.filter(|media_type| media_type.contains("manifest") || media_type.contains("index")));
    let is_index = match media_type {
        Some(OCI_INDEX | DOCKER_LIST) => true,
        Some(OCI_MANIFEST | DOCKER_MANIFEST) => false,
        None => document.manifests.is_some(),
        Some(other) => return Err(ManifestError::Kind { media_type: super::reference::shorten(other) }),
    };
    let descriptor = |found: DescriptorDocument| {
        let digest = parse_digest(&found.digest)?;
        Ok(Descriptor { digest, size_bytes: found.size })
    };
    match (is_index, document.manifests, document.config, document.layers) {
        (true, Some(manifests), _, _) => {
            let variant = |found: DescriptorDocument| {
                let platform = found.platform.map(|platform| (platform.os, platform.architecture));
                Ok(Variant { digest: parse_digest(&found.digest)?, platform })
            };
            Ok(Manifest::Index(manifests.into_iter().map(variant).collect::<Result<_, ManifestError>>()?))
        }
        (false, _, Some(config), Some(layers)) => {
            let all = [config].into_iter().chain(layers).map(descriptor);
            Ok(Manifest::Image(all.collect::<Result<_, ManifestError>>()?))
        }
        _ => Err(ManifestError::Kind { media_type: "a document without config and layers".to_owned() }),
    }
}

fn parse_digest(text: &str) -> Result<Digest, ManifestError> {
    text.parse().map_err(|source| ManifestError::Digest { digest: super::reference::shorten(text), source })
}

/// The element of an index for Linux on `architecture` (Go's word). One without a platform is taken when there is no other.
pub fn choose<'a>(variants: &'a [Variant], architecture: &str) -> Option<&'a Variant> {
    let fits = |variant: &&Variant| {
        variant.platform.as_ref().is_some_and(|(os, found)| os == "linux" && found == architecture)
    };
    variants.iter().find(fits).or_else(|| variants.iter().find(|variant| variant.platform.is_none()))
}

/// What Go, and so every registry, calls the architecture of this program.
pub fn own_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn digest(content: &str) -> Digest {
        Digest::compute(content.as_bytes())
    }

    fn entry(content: &str) -> Value {
        json!({"mediaType": "x", "digest": digest(content).to_string(), "size": content.len()})
    }

    fn read(content_type: Option<&str>, document: &Value) -> Result<Manifest, ManifestError> {
        parse(content_type, document.to_string().as_bytes())
    }

    #[test]
    fn an_image_is_its_config_and_layers() {
        let image = json!({"schemaVersion": 2, "config": entry("c"), "layers": [entry("one"), entry("two")]});
        let descriptor = |content: &str| Descriptor { digest: digest(content), size_bytes: content.len() as u64 };
        let expected = Manifest::Image(["c", "one", "two"].map(descriptor).into());
        for content_type in [
            None,
            Some(OCI_MANIFEST),
            Some("application/json"),
            Some("application/vnd.docker.distribution.manifest.v2+json; charset=utf-8"),
        ] {
            assert_eq!(read(content_type, &image).unwrap(), expected, "{content_type:?}");
        }
        let mut labelled = image.clone();
        labelled["mediaType"] = DOCKER_MANIFEST.into();
        assert_eq!(read(Some(OCI_INDEX), &labelled).unwrap(), expected, "the document knows better");
    }

    #[test]
    fn an_index_gives_our_platform() {
        let variant = |content: &str, os: &str, architecture: &str| {
            let mut entry = entry(content);
            entry["platform"] = json!({"os": os, "architecture": architecture});
            entry
        };
        let index = json!({"schemaVersion": 2, "manifests": [entry("any"), variant("w", "windows", "amd64"),
            variant("a", "linux", "amd64"), variant("b", "linux", "arm64")]});
        let Manifest::Index(variants) = read(None, &index).unwrap() else { panic!() };
        let chosen = |architecture| choose(&variants, architecture).map(|variant| variant.digest.clone());
        assert_eq!(chosen("amd64"), Some(digest("a")));
        assert_eq!(chosen("arm64"), Some(digest("b")));
        assert_eq!(chosen("s390x"), Some(digest("any")));
        assert_eq!(choose(&variants[1..], "s390x"), None);
    }

    #[test]
    fn what_is_no_image_is_named() {
        let error = |document: Value| read(None, &document).unwrap_err().to_string();
        assert!(error(json!({"schemaVersion": 1, "fsLayers": []})).starts_with("the manifest is of schema 1"));
        assert_eq!(error(json!({"mediaType": "application/vnd.x"})), "'application/vnd.x' is not an image");
        assert_eq!(error(json!({"errors": []})), "'a document without config and layers' is not an image");
        assert!(error(json!([])).starts_with("the manifest can't be read (line 1, column "));
        let long = error(json!({"layers": "x".repeat(1 << 20)}));
        assert_eq!(long, "the manifest can't be read (line 1, column 1048588)");
        let negative = json!({"config": {"digest": digest("").to_string(), "size": -1}, "layers": []});
        assert!(error(negative).starts_with("the manifest can't be read (line 1, column "));
        let sha512 = json!({"config": {"digest": "sha512:00", "size": 1}, "layers": []});
        assert_eq!(error(sha512), "the manifest has an invalid digest 'sha512:00'");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, content_type: Option<String>) {
            let _ = parse(content_type.as_deref(), &bytes);
        }
    }
}
