//! What a release image says of its release: `release-manifests/image-references`, an ImageStream in one of its last layers.

use netcheck::image::{
    ImageOptions,
    file::{Bounds, FileError, Image},
    reference::{Name, ReferenceError},
};
use serde::Deserialize;
use std::time::Instant;

/// The file in a release image.
pub const REFERENCES: &str = "release-manifests/image-references";
/// The manifests are in the last layer; custom builds may add some.
const LAYERS: usize = 4;
/// A layer of manifests has a few MB; larger ones hold programs, and are skipped.
const LAYER_BYTES: u64 = 128 << 20;
const UNPACKED_BYTES: u64 = 1 << 30;
/// The references of a release have about 200 KB.
const FILE_BYTES: u64 = 8 << 20;

/// The images of a release by tag.
#[derive(Debug, Deserialize)]
pub struct References {
    #[serde(default)]
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct Spec {
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Debug, Deserialize)]
struct Tag {
    name: String,
    from: Option<ImageName>,
}

#[derive(Debug, Deserialize)]
struct ImageName {
    #[serde(default)]
    name: String,
}

/// Why a release image says nothing usable.
#[derive(Debug, thiserror::Error)]
pub enum ReferencesError {
    /// It can't be fetched, or does not have the file.
    #[error(transparent)]
    File(#[from] FileError),
    #[error("its {REFERENCES} is not an ImageStream (line {line}, column {column})")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    #[error("its {REFERENCES} has no valid image for '{tag}'")]
    Reference { tag: String, source: ReferenceError },
}

impl References {
    /// Reads the text of the ImageStream.
    pub fn parse(text: &[u8]) -> Result<Self, ReferencesError> {
        serde_json::from_slice(text)
            .map_err(|error| ReferencesError::Json { line: error.line(), column: error.column() })
    }

    /// Reads them out of a release image.
    pub fn read(image: &Image, options: &ImageOptions, deadline: Instant) -> Result<Self, ReferencesError> {
        let bounds = Bounds {
            layers: LAYERS,
            layer_bytes: LAYER_BYTES,
            unpacked_bytes: UNPACKED_BYTES,
            file_bytes: FILE_BYTES,
            deadline,
        };
        Self::parse(&image.read(REFERENCES, options, &bounds)?)
    }

    /// The image of a tag, if it is named.
    pub fn image(&self, wanted: &str) -> Result<Option<String>, ReferencesError> {
        let tag = self.spec.tags.iter().find(|tag| tag.name == wanted);
        let Some(name) = tag.and_then(|tag| tag.from.as_ref()).map(|from| &from.name) else { return Ok(None) };
        let parsed = name.parse::<Name>();
        parsed.map_err(|source| ReferencesError::Reference { tag: wanted.to_owned(), source })?;
        Ok(Some(name.clone()))
    }

    /// The release's version; empty where the release image does not say.
    pub(super) fn version(&self) -> &str {
        &self.metadata.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn images_are_found_by_tag() {
        let tag = |name: &str, image: &str| json!({"name": name, "from": {"kind": "DockerImage", "name": image}});
        let tags = [tag("cli", "r.io/cli:1"), tag("bad", "--privileged x"), json!({"name": "bare"})];
        let document = json!({"kind": "ImageStream", "metadata": {"name": "4.22.9"}, "spec": {"tags": tags}});
        let references = References::parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(references.version(), "4.22.9");
        assert_eq!(references.image("cli").unwrap().as_deref(), Some("r.io/cli:1"));
        assert_eq!(references.image("bare").unwrap(), None);
        assert_eq!(references.image("other").unwrap(), None);
        assert!(matches!(references.image("bad"), Err(ReferencesError::Reference { .. })));
        assert!(matches!(References::parse(b"[]"), Err(ReferencesError::Json { .. })));
        assert!(matches!(References::parse(b"{\"spec\":"), Err(ReferencesError::Json { .. })));
    }
}
