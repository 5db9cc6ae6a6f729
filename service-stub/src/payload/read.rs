//! Reads the references in a release image.

use super::known::{Payload, Wanted};
use netcheck::image::{
    ImageOptions,
    auth::{self, AuthFault, Credentials},
    file::{FileError, Image},
    reference::Digest,
};
use preparation::cache::references::{REFERENCES, References, ReferencesError};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Time for the manifest and the layers together.
const TIME: Duration = Duration::from_secs(120);

/// Why a release image can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The cluster's credentials are invalid.
    #[error("the cluster's pull secret is invalid")]
    PullSecret(#[from] AuthFault),
    /// It can't be fetched.
    #[error(transparent)]
    File(#[from] FileError),
    /// It has no valid references.
    #[error(transparent)]
    References(#[from] ReferencesError),
    #[error("its {REFERENCES} has neither machine-config-operator nor must-gather nor a system for nodes")]
    Neither,
}

/// Reads the text of the ImageStream.
pub fn parse(text: &[u8]) -> Result<Payload, PayloadError> {
    choose(&References::parse(text)?)
}

fn choose(references: &References) -> Result<Payload, PayloadError> {
    let coreos = match references.image("rhel-coreos")? {
        Some(image) => Some(image),
        None => references.image("stream-coreos")?,
    };
    let payload = Payload {
        machine_config_operator: references.image("machine-config-operator")?,
        must_gather: references.image("must-gather")?,
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
    let payload = choose(&References::read(&image, &options, deadline)?)?;
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
        assert!(matches!(read(json!([tag("must-gather", "--privileged x")])), Err(PayloadError::References(_))));
        assert!(matches!(parse(b"[]"), Err(PayloadError::References(_))));
    }
}
