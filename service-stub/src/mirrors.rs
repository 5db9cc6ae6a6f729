//! Mirrors of image registries: what containers' `registries.conf` says of them.

use crate::rules;
use api::MirrorRegistry;
use toml::{Table, Value};

/// Largest `registries.conf`, bytes.
const MAX_BYTES: usize = 1 << 20;

/// Where images are pulled from instead of their own registries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// Sources, each with the mirrors that images are pulled from by their digests.
    pub digest: Vec<(String, Vec<String>)>,
    /// The same by their tags.
    pub tag: Vec<(String, Vec<String>)>,
    /// Mirrors whose certificates are not checked.
    pub insecure: Vec<String>,
    /// Authorities of the mirrors.
    pub ca_pem: String,
    /// The file as it was read.
    pub registries_conf: String,
}

/// A `registries.conf` that names no mirrors.
#[derive(Debug, thiserror::Error)]
pub enum MirrorsError {
    #[error("registries.conf is longer than {MAX_BYTES} bytes")]
    Long,
    #[error("failed to load value of registries.conf into toml tree; incorrectly formatted toml")]
    Toml(#[source] toml::de::Error),
    #[error("failed to find registry key in toml tree")]
    NoRegistry,
    #[error("failed to find any image mirrors in registry.conf")]
    NoMirrors,
    #[error("ca_bundle: {0}")]
    Certificates(String),
    #[error("ca_bundle has no registries.conf to go with")]
    NoFile,
}

impl Mirrors {
    /// Those of a cluster or an infra-env, if it has its own.
    pub(crate) fn own(given: &MirrorRegistry) -> Result<Option<Self>, MirrorsError> {
        match (given.registries_conf.is_empty(), given.ca_bundle.is_empty()) {
            (true, true) => return Ok(None),
            (true, false) => return Err(MirrorsError::NoFile),
            (false, true) => {}
            (false, false) => rules::text::certificates(&given.ca_bundle).map_err(MirrorsError::Certificates)?,
        }
        Self::read(&given.registries_conf, &given.ca_bundle).map(Some)
    }

    /// Reads the file; certificates are taken as they are.
    pub fn read(registries_conf: &str, ca_pem: &str) -> Result<Self, MirrorsError> {
        if registries_conf.len() > MAX_BYTES {
            return Err(MirrorsError::Long);
        }
        let document: Table = registries_conf.parse().map_err(MirrorsError::Toml)?;
        let registries = tables(&document, "registry").ok_or(MirrorsError::NoRegistry)?;
        let mut mirrors =
            Self { ca_pem: ca_pem.to_owned(), registries_conf: registries_conf.to_owned(), ..Self::default() };
        for registry in registries {
            if let (Some(source), Some(given)) = (text(registry, "location"), tables(registry, "mirror")) {
                mirrors.add(source, given);
            }
        }
        match mirrors.digest.is_empty() && mirrors.tag.is_empty() {
            true => Err(MirrorsError::NoMirrors),
            false => Ok(mirrors),
        }
    }

    fn add<'a>(&mut self, source: &str, given: impl Iterator<Item = &'a Table>) {
        let (mut digest, mut tag) = (Vec::new(), Vec::new());
        for mirror in given {
            let Some(location) = text(mirror, "location") else { continue };
            if mirror.get("insecure").and_then(Value::as_bool) == Some(true) {
                self.insecure.push(location.to_owned());
            }
            match text(mirror, "pull-from-mirror") {
                Some("tag-only") => tag.push(location.to_owned()),
                Some("digest-only") | None => digest.push(location.to_owned()),
                Some(_) => {}
            }
        }
        for (list, mirrors) in [(&mut self.digest, digest), (&mut self.tag, tag)] {
            if !mirrors.is_empty() {
                list.push((source.to_owned(), mirrors));
            }
        }
    }
}

fn text<'a>(table: &'a Table, name: &str) -> Option<&'a str> {
    table.get(name).and_then(Value::as_str)
}

/// A list of tables; none if it is something else.
fn tables<'a>(table: &'a Table, name: &str) -> Option<impl Iterator<Item = &'a Table> + use<'a>> {
    let list = table.get(name)?.as_array()?;
    list.iter().all(Value::is_table).then(|| list.iter().filter_map(Value::as_table))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cluster_has_its_own_mirrors_none_or_faulty_ones() {
        const CONF: &str = "[[registry]]\nlocation = 'quay.io'\nmirror = [{location = 'm'}]\n";
        const PEM: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        let own = |registries_conf: &str, ca_bundle: &str| {
            let given = MirrorRegistry { registries_conf: registries_conf.to_owned(), ca_bundle: ca_bundle.to_owned() };
            Mirrors::own(&given).map_err(|error| error.to_string())
        };
        assert_eq!(own("", ""), Ok(None));
        let mirrors = own(CONF, "").unwrap().unwrap();
        assert_eq!(mirrors.digest, [("quay.io".to_owned(), vec!["m".to_owned()])]);
        for (conf, ca, why) in [
            ("", PEM, "ca_bundle has no registries.conf to go with"),
            (CONF, "hunter2", "ca_bundle: invalid block"),
            (CONF, PEM, "ca_bundle: parse failed: x509: malformed certificate"),
            ("[[registry]]", "", "failed to find any image mirrors in registry.conf"),
        ] {
            assert_eq!(own(conf, ca).unwrap_err(), why, "{conf} {ca}");
        }
    }

    #[test]
    fn mirrors_by_how_images_are_pulled() {
        let text = r#"
            unqualified-search-registries = ["quay.io"]
            [[registry]]
            location = "quay.io/openshift-release-dev/ocp-release"
            [[registry.mirror]]
            location = "mirror:5000/release"
            insecure = true
            [[registry.mirror]]
            location = "second:5000/release"
            pull-from-mirror = "digest-only"
            [[registry.mirror]]
            location = "third:5000/release"
            pull-from-mirror = "tag-only"
            [[registry.mirror]]
            location = "fourth:5000/release"
            pull-from-mirror = "all"
            [[registry]]
            prefix = "without a location"
            [[registry]]
            location = "without.mirrors"
            [[registry]]
            location = "tags"
            mirror = [{location = "m", pull-from-mirror = "tag-only", insecure = "no"}, {insecure = true}]
        "#;
        let mirrors = Mirrors::read(text, "PEM").unwrap();
        let pair = |source: &str, mirrors: &[&str]| {
            (source.to_owned(), mirrors.iter().map(|mirror| (*mirror).to_owned()).collect::<Vec<_>>())
        };
        let release = "quay.io/openshift-release-dev/ocp-release";
        assert_eq!(mirrors.digest, [pair(release, &["mirror:5000/release", "second:5000/release"])]);
        assert_eq!(mirrors.tag, [pair(release, &["third:5000/release"]), pair("tags", &["m"])]);
        assert_eq!(mirrors.insecure, ["mirror:5000/release"]);
        assert_eq!((mirrors.ca_pem.as_str(), mirrors.registries_conf.as_str()), ("PEM", text));
    }

    #[test]
    fn files_without_mirrors_are_refused() {
        for (text, why) in [
            ("[[registry", "failed to load value of registries.conf into toml tree; incorrectly formatted toml"),
            ("", "failed to find registry key in toml tree"),
            ("registry = 1", "failed to find registry key in toml tree"),
            ("registry = [1]", "failed to find registry key in toml tree"),
            ("[[registry]]\nlocation = \"a\"", "failed to find any image mirrors in registry.conf"),
            ("[[registry]]\nlocation = \"a\"\nmirror = 1", "failed to find any image mirrors in registry.conf"),
        ] {
            assert_eq!(Mirrors::read(text, "").unwrap_err().to_string(), why, "{text}");
        }
        assert!(Mirrors::read(&"#".repeat(MAX_BYTES + 1), "").is_err());
        let nested = format!("a = {}", "[".repeat(100_000));
        assert!(matches!(Mirrors::read(&nested, ""), Err(MirrorsError::Toml(_))));
    }
}
