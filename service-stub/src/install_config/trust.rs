//! Where the cluster pulls images from, and which authorities it trusts.

use crate::install_config::facts::Facts;
use crate::mirrors::Mirrors;
use serde_json::{Map, Value, json};

/// Since when mirrors are for digests alone.
const DIGESTS_SINCE: &str = "4.14";

/// Puts the mirrors in: the cluster's own, else the service's. Those that are for tags have no place here.
pub(crate) fn add_sources(facts: &Facts, of_service: Option<&Mirrors>, config: &mut Map<String, Value>) {
    let conf = facts.record.cluster.mirror_registry_configuration.registries_conf.as_str();
    // It was checked when it was set.
    let own = (!conf.is_empty()).then(|| Mirrors::read(conf, "").unwrap_or_default());
    let Some(mirrors) = own.as_ref().or(of_service) else { return };
    let name = if facts.is_older(DIGESTS_SINCE) { "imageContentSources" } else { "imageDigestSources" };
    let sources = mirrors.digest.iter().map(|(source, mirrors)| json!({"source": source, "mirrors": mirrors}));
    config.insert(name.to_owned(), sources.collect());
}

/// All certificates: of the override, the service's own, its mirrors', the cluster's mirrors', and for each infra-env its own and its
/// mirrors'.
pub(crate) fn bundle(facts: &Facts, overridden: &str, root_ca: &str, of_service: Option<&Mirrors>) -> String {
    let of_mirrors = of_service.map_or("", |mirrors| mirrors.ca_pem.as_str());
    let of_cluster = facts.record.cluster.mirror_registry_configuration.ca_bundle.as_str();
    let of_infra_envs = facts.infra_envs.iter().flat_map(|record| {
        let own = &record.infra_env;
        [own.additional_trust_bundle.as_str(), own.mirror_registry_configuration.ca_bundle.as_str()]
    });
    let all = [overridden, root_ca, of_mirrors, of_cluster].into_iter().chain(of_infra_envs);
    all.filter(|bundle| !bundle.is_empty()).collect::<Vec<_>>().join("\n").trim().to_owned()
}
