//! Reads the references in a release image: `release-manifests/image-references`, an ImageStream in one of its last layers.

use super::known::{Payload, Wanted};
use netcheck::image::{
    ImageOptions,
    auth::{self, AuthFault, Credentials},
    file::{Bounds, FileError, Image},
    reference::{Digest, Name, ReferenceError},
};
use serde::Deserialize;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const REFERENCES: &str = "release-manifests/image-references";
/// Time for the manifest and the layers together.
const TIME: Duration = Duration::from_secs(120);
/// The manifests are in the last layer; custom builds may add some.
const LAYERS: usize = 4;
/// A layer of manifests has a few MB; larger ones hold programs, and are skipped.
const LAYER_BYTES: u64 = 128 << 20;
const UNPACKED_BYTES: u64 = 1 << 30;
/// The references of a release have about 200 KB.
const FILE_BYTES: u64 = 8 << 20;

/// Why a release image can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The cluster's credentials are invalid.
    #[error("the cluster's pull secret is invalid")]
    PullSecret(#[from] AuthFault),
    /// It can't be fetched, or does not have the file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Not an ImageStream.
    #[error("its {REFERENCES} is not an ImageStream (line {line}, column {column})")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A name in it is not an image's.
    #[error("its {REFERENCES} has no valid image for '{tag}'")]
    Reference { tag: String, source: ReferenceError },
    #[error("its {REFERENCES} has neither machine-config-operator nor must-gather nor a system for nodes")]
    Neither,
}

#[derive(Deserialize)]
struct ImageStream {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
    from: Option<ImageName>,
}

#[derive(Deserialize)]
struct ImageName {
    #[serde(default)]
    name: String,
}

/// Reads the text of the ImageStream.
pub fn parse(text: &[u8]) -> Result<Payload, PayloadError> {
    let stream: ImageStream = serde_json::from_slice(text)
        .map_err(|error| PayloadError::Json { line: error.line(), column: error.column() })?;
    let image = |wanted: &str| -> Result<Option<String>, PayloadError> {
        let tag = stream.spec.tags.iter().find(|tag| tag.name == wanted);
        let Some(name) = tag.and_then(|tag| tag.from.as_ref()).map(|from| &from.name) else { return Ok(None) };
        let parsed = name.parse::<Name>();
        parsed.map_err(|source| PayloadError::Reference { tag: wanted.to_owned(), source })?;
        Ok(Some(name.clone()))
    };
    let coreos = match image("rhel-coreos")? {
        Some(image) => Some(image),
        None => image("stream-coreos")?,
    };
    let payload = Payload {
        machine_config_operator: image("machine-config-operator")?,
        must_gather: image("must-gather")?,
        coreos,
    };
    if payload == Payload::default() { Err(PayloadError::Neither) } else { Ok(payload) }
}

/// Reads an image, unless `known` has its digest.
pub(super) fn read(
    wanted: &Wanted,
    options: &ImageOptions,
    known: &dyn Fn(&Digest) -> Option<Arc<Payload>>,
) -> Result<(Digest, Arc<Payload>), PayloadError> {
    let login = auth::parse(wanted.pull_secret.expose().as_bytes())?;
    let options =
        ImageOptions { credentials: Credentials::from_file("the cluster's pull secret", login), ..options.clone() };
    let deadline = Instant::now() + TIME;
    let image = Image::find(&wanted.image, &options, deadline)?;
    if let Some(payload) = known(&image.digest) {
        return Ok((image.digest, payload));
    }
    let bounds = Bounds {
        layers: LAYERS,
        layer_bytes: LAYER_BYTES,
        unpacked_bytes: UNPACKED_BYTES,
        file_bytes: FILE_BYTES,
        deadline,
    };
    let payload = parse(&image.read(REFERENCES, &options, &bounds)?)?;
    Ok((image.digest, Arc::new(payload)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_two_images_are_found_among_all() {
        let tag = |name: &str, image: &str| json!({"name": name, "from": {"kind": "DockerImage", "name": image}});
        let read = |tags: serde_json::Value| {
            parse(json!({"kind": "ImageStream", "spec": {"tags": tags}}).to_string().as_bytes())
        };
        let both = read(json!([
            tag("cli", "r.io/cli:1"),
            tag("must-gather", "r.io/mg:1"),
            tag("machine-config-operator", "r.io/mco:1")
        ]));
        let both = both.unwrap();
        assert_eq!(both.machine_config_operator.as_deref(), Some("r.io/mco:1"));
        assert_eq!(both.must_gather.as_deref(), Some("r.io/mg:1"));
        let systems = [tag("stream-coreos", "r.io/scos:1"), tag("rhel-coreos", "r.io/rhcos:1")];
        assert_eq!(read(json!(systems)).unwrap().coreos.as_deref(), Some("r.io/rhcos:1"));
        assert_eq!(read(json!([systems[0]])).unwrap().coreos.as_deref(), Some("r.io/scos:1"));
        assert_eq!(read(json!([tag("must-gather", "r.io/mg:1")])).unwrap().machine_config_operator, None);
        assert!(matches!(read(json!([tag("cli", "r.io/cli:1")])), Err(PayloadError::Neither)));
        assert!(matches!(read(json!([{"name": "must-gather"}])), Err(PayloadError::Neither)));
        assert!(matches!(read(json!([tag("must-gather", "--privileged x")])), Err(PayloadError::Reference { .. })));
        assert!(matches!(parse(b"[]"), Err(PayloadError::Json { .. })));
        assert!(matches!(parse(b"{\"spec\":"), Err(PayloadError::Json { .. })));
    }
}
