//! Where the cluster pulls images from, and which authorities it trusts.

use crate::install_config::facts::Facts;
use crate::mirrors::Mirrors;
use serde_json::{Map, Value, json};

/// Since when mirrors are for digests alone.
const DIGESTS_SINCE: &str = "4.14";

/// Puts the mirrors in. Those that are for tags have no place here.
pub(crate) fn add_sources(facts: &Facts, mirrors: Option<&Mirrors>, config: &mut Map<String, Value>) {
    let Some(mirrors) = mirrors else { return };
    let name = if facts.is_older(DIGESTS_SINCE) { "imageContentSources" } else { "imageDigestSources" };
    let sources = mirrors.digest.iter().map(|(source, mirrors)| json!({"source": source, "mirrors": mirrors}));
    config.insert(name.to_owned(), sources.collect());
}

/// All certificates: of the override, the service's own, its mirrors', the infra-envs'.
pub(crate) fn bundle(facts: &Facts, overridden: &str, root_ca: &str, mirrors: Option<&Mirrors>) -> String {
    let of_mirrors = mirrors.map_or("", |mirrors| mirrors.ca_pem.as_str());
    let of_infra_envs = facts.infra_envs.iter().map(|record| record.infra_env.additional_trust_bundle.as_str());
    let all = [overridden, root_ca, of_mirrors].into_iter().chain(of_infra_envs);
    all.filter(|bundle| !bundle.is_empty()).collect::<Vec<_>>().join("\n").trim().to_owned()
}
