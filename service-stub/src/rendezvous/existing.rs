//! A cluster that exists, as far as new nodes must know it. `landfall node-iso` reads it from the cluster, the node finds it in its ISO.

use super::{
    PlanError,
    read::{self, Fields},
};
use crate::{ignition_endpoint, rules};
use api::{Proxy, Secret, Timestamp};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use std::{cell::RefCell, net::IpAddr};
use uuid::Uuid;

/// The kind of its document.
pub(crate) const KIND: &str = "ExistingCluster";
/// Its name where that of its API says none.
const NAME: &str = "cluster";
/// Maximum length of a word: a version, a platform, an image's reference.
const MAX_WORD_BYTES: usize = 1024;
/// Maximum length of certificates.
const MAX_CERTIFICATES_BYTES: usize = 1 << 20;
/// Maximum number of registries that have mirrors.
const MAX_MIRRORS: usize = 1000;

/// A cluster to which nodes are added.
#[derive(Clone, Debug, Default)]
pub struct ExistingCluster {
    /// Host name of its API.
    pub api_name: String,
    /// Its own id.
    pub id: Uuid,
    pub version: String,
    pub release_image: String,
    pub architecture: String,
    /// As its Infrastructure says: `BareMetal`, `None` and so on.
    pub platform: String,
    /// Where its machines get their configs, without the pool.
    pub endpoint_url: String,
    /// The authority of that server, PEM; may be empty.
    pub endpoint_ca: String,
    pub pull_secret: Secret,
    pub proxy: Proxy,
    /// Certificates that its hosts trust, PEM; may be empty.
    pub trust_bundle: String,
    /// Public keys of user `core`, one a line; may be empty.
    pub ssh_key: String,
    pub fips: bool,
    pub time_sources: Vec<String>,
    pub mirrors: Vec<Mirror>,
    /// The live ISO of its release; may be empty.
    pub live_iso: String,
    /// From then on the ISO is of no use.
    pub expires_at: Option<Timestamp>,
}

/// A registry, or a repository of one, and those that have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    pub source: String,
    pub mirrors: Vec<String>,
}

impl Mirror {
    /// The list of this name.
    pub(crate) fn read(fields: &mut Fields, name: &str) -> Result<Vec<Self>, PlanError> {
        let mut mirrors = Vec::new();
        for mut entry in fields.objects(name)? {
            let source = required(&mut entry, "source")?;
            let list = entry.texts("mirrors")?;
            if let Some(bad) = list.iter().chain([&source]).find(|name| !is_word(name)) {
                return Err(
                    entry.error("mirrors", format!("'{}' is not a registry or repository", bad.escape_default()))
                );
            }
            mirrors.push(Self { source, mirrors: list });
        }
        if mirrors.len() > MAX_MIRRORS {
            return Err(fields.error(name, format!("has {} entries; the limit is {MAX_MIRRORS}", mirrors.len())));
        }
        Ok(mirrors)
    }

    /// They as `registries.conf`: images are pulled from the mirrors by their digests.
    pub fn registries_conf(mirrors: &[Self]) -> String {
        let mut text = String::new();
        for Self { source, mirrors } in mirrors {
            text += &format!("[[registry]]\nprefix = \"\"\nlocation = \"{source}\"\nmirror-by-digest-only = true\n");
            for location in mirrors {
                text += &format!("[[registry.mirror]]\nlocation = \"{location}\"\n");
            }
        }
        text
    }
}

impl ExistingCluster {
    /// Reads and checks the text of a file.
    ///
    /// # Errors
    /// It is not such a document, or something in it cannot be.
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let documents = read::parse(file, text)?;
        let unknown = RefCell::default();
        let missing =
            || PlanError::Missing { what: "cluster", hint: format!("{file} must be one document of the kind {KIND}") };
        let [document] = documents.as_slice() else { return Err(missing()) };
        let mut fields = Fields::from_document(document, &unknown)?;
        if fields.text("kind")?.as_deref() != Some(KIND) {
            return Err(missing());
        }
        Self::take(fields)
    }

    /// Reads and checks a document.
    pub(crate) fn take(mut fields: Fields) -> Result<Self, PlanError> {
        let id_text = required(&mut fields, "id")?;
        let id = id_text.parse().map_err(|_| fields.error("id", "is not a UUID"))?;
        let expires_at = fields.text("expiresAt")?.map(|text| {
            api::json::from_value::<Timestamp>(text.into())
                .map_err(|_| fields.error("expiresAt", "is not a time (RFC 3339)"))
        });
        let (endpoint_url, endpoint_ca) = endpoint(fields.object("ignitionEndpoint")?)?;
        let mut own_proxy = fields.object("proxy")?;
        let proxy = Proxy {
            http_proxy: own_proxy.text("httpProxy")?,
            https_proxy: own_proxy.text("httpsProxy")?,
            no_proxy: own_proxy.text("noProxy")?,
        };
        drop(own_proxy);
        let mirrors = Mirror::read(&mut fields, "mirrors")?;
        let cluster = Self {
            api_name: required(&mut fields, "apiName")?,
            id,
            version: required(&mut fields, "version")?,
            release_image: word(&mut fields, "releaseImage")?,
            architecture: required(&mut fields, "architecture")?,
            platform: required(&mut fields, "platform")?,
            endpoint_url,
            endpoint_ca,
            pull_secret: Secret::new(fields.text("pullSecret")?.unwrap_or_default()),
            proxy,
            trust_bundle: fields.text("additionalTrustBundle")?.unwrap_or_default(),
            ssh_key: fields.text("sshKey")?.unwrap_or_default().trim().to_owned(),
            fips: fields.flag("fips")?.unwrap_or_default(),
            time_sources: fields.texts("additionalNTPSources")?,
            mirrors,
            live_iso: word(&mut fields, "liveISO")?,
            expires_at: expires_at.transpose()?,
        };
        cluster.check(&fields)?;
        fields.finish()?;
        Ok(cluster)
    }

    fn check(&self, fields: &Fields) -> Result<(), PlanError> {
        let failed = |field: &'static str| move |reason: String| fields.error(field, reason);
        let api = &self.api_name;
        if api.parse::<IpAddr>().is_err() {
            rules::text::domain(api).map_err(failed("apiName"))?;
        }
        rules::text::cluster_name(self.names().0, rules::platform::BAREMETAL).map_err(failed("apiName"))?;
        rules::text::pull_secret(self.pull_secret.expose()).map_err(failed("pullSecret"))?;
        if !self.ssh_key.is_empty() {
            rules::ssh_key::check(&self.ssh_key).map_err(failed("sshKey"))?;
        }
        if !self.time_sources.is_empty() {
            rules::text::ntp_sources(&self.time_sources.join(",")).map_err(failed("additionalNTPSources"))?;
        }
        if !self.trust_bundle.is_empty() {
            if self.trust_bundle.len() > MAX_CERTIFICATES_BYTES {
                return Err(
                    fields.error("additionalTrustBundle", format!("is longer than {MAX_CERTIFICATES_BYTES} bytes"))
                );
            }
            rules::text::certificates(&self.trust_bundle).map_err(failed("additionalTrustBundle"))?;
        }
        Ok(())
    }

    /// Name and base domain.
    pub fn names(&self) -> (&str, &str) {
        ignition_endpoint::names(&self.api_name).unwrap_or((NAME, ""))
    }

    /// Whether its user manages load balancers and DNS.
    pub(crate) fn is_user_managed(&self) -> bool {
        matches!(self.platform.as_str(), "None" | "External")
    }

    /// The endpoint as a setting of a cluster on a service.
    pub(crate) fn endpoint(&self) -> Value {
        let ca = (!self.endpoint_ca.is_empty()).then(|| BASE64_STANDARD.encode(&self.endpoint_ca));
        json!({"url": self.endpoint_url, "ca_certificate": ca})
    }

    /// The document that such a plan is read from. It has the pull secret.
    pub fn document(&self) -> Value {
        let mirrors = self.mirrors.iter().map(|one| json!({"source": one.source, "mirrors": one.mirrors}));
        let proxy = [
            ("httpProxy", &self.proxy.http_proxy),
            ("httpsProxy", &self.proxy.https_proxy),
            ("noProxy", &self.proxy.no_proxy),
        ];
        let proxy = proxy.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.as_deref()?.into())));
        let mut document = json!({
            "kind": KIND,
            "apiName": self.api_name,
            "id": self.id,
            "version": self.version,
            "releaseImage": self.release_image,
            "architecture": self.architecture,
            "platform": self.platform,
            "ignitionEndpoint": {"url": self.endpoint_url, "caCertificate": self.endpoint_ca},
            "pullSecret": self.pull_secret.expose(),
            "proxy": proxy.collect::<Map<String, Value>>(),
            "additionalTrustBundle": self.trust_bundle,
            "sshKey": self.ssh_key,
            "fips": self.fips,
            "additionalNTPSources": self.time_sources,
            "mirrors": mirrors.collect::<Vec<_>>(),
            "liveISO": self.live_iso,
        });
        if let Some(at) = self.expires_at {
            document["expiresAt"] = at.to_string().into();
        }
        document
    }
}

fn endpoint(mut fields: Fields) -> Result<(String, String), PlanError> {
    let url = required(&mut fields, "url")?;
    let ca = fields.text("caCertificate")?.unwrap_or_default();
    ignition_endpoint::checked(&json!({"url": url})).map_err(|reason| fields.error("url", reason))?;
    if !ca.is_empty() {
        if ca.len() > MAX_CERTIFICATES_BYTES {
            return Err(fields.error("caCertificate", format!("is longer than {MAX_CERTIFICATES_BYTES} bytes")));
        }
        rules::text::certificates(&ca).map_err(|reason| fields.error("caCertificate", reason))?;
    }
    Ok((url, ca))
}

fn is_word(text: &str) -> bool {
    text.len() <= MAX_WORD_BYTES
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'))
}

/// A text without blanks and quotes; may be missing.
fn word(fields: &mut Fields, name: &str) -> Result<String, PlanError> {
    let text = fields.text(name)?.unwrap_or_default();
    if is_word(&text) {
        Ok(text)
    } else {
        Err(fields.error(name, "has blanks, quotes or control characters, or is too long"))
    }
}

fn required(fields: &mut Fields, name: &str) -> Result<String, PlanError> {
    match word(fields, name)? {
        text if text.is_empty() => Err(fields.error(name, "is missing")),
        text => Ok(text),
    }
}

#[cfg(test)]
#[path = "existing_tests.rs"]
mod tests;
