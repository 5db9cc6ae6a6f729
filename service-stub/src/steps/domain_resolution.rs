//! `domain-resolution`: the names that the host must resolve, and two that it must not.

use super::kind::{Kind, Outcome, Replied, Situation, json};
use super::outputs;
use crate::http::Refusal;
use crate::state::HostState;
use api::{DomainResolutionRequest, DomainResolutionRequestDomain, kinds};
use serde_json::{Map, Value};
use std::net::IpAddr;

/// The registry of releases, unless the cluster names another.
const RELEASE_REGISTRY: &str = "quay.io";
/// The registry of images that name none.
const DEFAULT_REGISTRY: &str = "docker.io";

pub(crate) fn kind() -> Kind {
    Kind { succeeded, ..Kind::new::<kinds::DomainResolution>(asked_in, ask) }
}

fn asked_in(state: HostState, added: bool) -> bool {
    match state {
        HostState::Insufficient | HostState::Known => true,
        HostState::PendingForInput => !added,
        HostState::Discovering => added,
        _ => false,
    }
}

/// The names of a control plane, two names that must not exist, and the registry of the release; none without a control plane.
fn ask(situation: &Situation) -> Option<Vec<String>> {
    let record = situation.cluster.filter(|_| situation.settings.has_control_plane())?;
    let (name, base) = (&record.cluster.name, &record.cluster.base_dns_domain);
    if base.is_empty() {
        return None;
    }
    let names = ["api", "api-int", "console-openshift-console.apps"].map(|what| format!("{what}.{name}.{base}"));
    let wildcard = format!("validateNoWildcardDNS.{name}.{base}");
    let release = record.settings.get("ocp_release_image").and_then(Value::as_str).map_or(RELEASE_REGISTRY, registry);
    let release = Some(release).filter(|host| !record.day2() && host.parse::<IpAddr>().is_err());
    let all = names.into_iter().chain([format!("{wildcard}."), wildcard]).chain(release.map(str::to_owned));
    let domains = all.map(|name| DomainResolutionRequestDomain { domain_name: Some(name) });
    json::<kinds::DomainResolution>(&DomainResolutionRequest { domains: domains.collect() })
}

/// The host part of an image reference, without its port.
fn registry(image: &str) -> &str {
    let Some((host, _)) = image.split_once('/') else { return DEFAULT_REGISTRY };
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    match host.split_once(':') {
        Some((host, _)) => host,
        None if host.contains('.') || host == "localhost" => host,
        None => DEFAULT_REGISTRY,
    }
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    let answer: Map<String, Value> = outputs::object(&replied.reply.output, "DomainResolutionResponse")?;
    let text = Value::Object(answer).to_string();
    Ok(Outcome::set(|record| record.set_domain_name_resolutions(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries() {
        for (image, host) in [
            ("quay.io/openshift-release-dev/ocp-release:4.22.9-x86_64", "quay.io"),
            ("mirror.example.com:5000/ocp/release@sha256:0f", "mirror.example.com"),
            ("192.0.2.1:5000/ocp/release:1", "192.0.2.1"),
            ("[2001:db8::1]:5000/ocp/release:1", "2001:db8::1"),
            ("library/release", "docker.io"),
            ("release", "docker.io"),
        ] {
            assert_eq!(registry(image), host, "{image}");
        }
    }
}
