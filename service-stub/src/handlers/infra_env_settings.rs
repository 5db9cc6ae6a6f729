//! What users set on an infra-env, held against the rules before anything of it is kept (service contract §1.2.5, §7.4).

use super::clusters::check_pull_secret;
use crate::documents::chain;
use crate::http::Refusal;
use crate::model::InfraEnvRecord;
use api::{InfraEnvUpdateParams, Proxy};
use ignition::network::{self, HostNetwork, MacInterface};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Longest bundle of certificates, bytes.
const MAX_BUNDLE_BYTES: usize = 65_535;
/// A longer wait than an hour is a typing error.
const MAX_DELAY_S: u64 = 3600;

/// Sets what is given; what isn't stays.
pub fn apply(record: &mut InfraEnvRecord, params: InfraEnvUpdateParams) -> Result<(), Refusal> {
    let own = &mut record.infra_env;
    if let Some(proxy) = params.proxy {
        check_proxy(&proxy)?;
        own.proxy = proxy;
    }
    if let Some(sources) = params.additional_ntp_sources {
        own.additional_ntp_sources = checked_sources("additional_ntp_sources", sources)?;
    }
    if let Some(sources) = params.ntp_sources {
        own.ntp_sources = checked_sources("ntp_sources", sources)?;
    }
    if !own.ntp_sources.is_empty() && !own.additional_ntp_sources.is_empty() {
        return Err(Refusal::invalid("ntp_sources and additional_ntp_sources exclude each other: give one of them"));
    }
    if let Some(key) = params.ssh_authorized_key {
        own.ssh_authorized_key = key;
    }
    if let Some(pull_secret) = params.pull_secret.filter(|secret| !secret.is_empty()) {
        check_pull_secret(pull_secret.expose())?;
        record.pull_secret = pull_secret;
        own.pull_secret_set = true;
    }
    if let Some(list) = params.static_network_config {
        own.static_network_config = if list.is_empty() { String::new() } else { checked_networks(list)? };
    }
    if let Some(address) = params.rendezvous_ip {
        own.rendezvous_ip = checked_address(address)?;
    }
    if let Some(kind) = params.image_type {
        if !matches!(kind.as_str(), "full-iso" | "minimal-iso") {
            return Err(Refusal::not_implemented(&format!("image_type {kind}")));
        }
        own.kind_of_image = kind;
    }
    if let Some(text) = params.ignition_config_override {
        own.ignition_config_override = text;
    }
    if let Some(arguments) = params.kernel_arguments {
        own.kernel_arguments = checked_arguments(arguments)?;
    }
    if let Some(bundle) = params.additional_trust_bundle {
        check_bundle(&bundle)?;
        own.additional_trust_bundle = bundle;
    }
    if let Some(version) = params.openshift_version {
        own.openshift_version = version;
    }
    if let Some(delay) = params.network_discovery_delay_seconds {
        if delay > MAX_DELAY_S {
            return Err(Refusal::invalid(format!(
                "network_discovery_delay_seconds {delay} is more than an hour: give at most {MAX_DELAY_S}"
            )));
        }
        own.network_discovery_delay_seconds = Some(delay);
    }
    Ok(())
}

/// Schemes by field; a URL may hold a password and is in no message.
pub fn check_proxy(proxy: &Proxy) -> Result<(), Refusal> {
    let fields: [(&str, &Option<String>, &[&str]); 2] = [
        ("http_proxy", &proxy.http_proxy, &["http://"]),
        ("https_proxy", &proxy.https_proxy, &["http://", "https://"]),
    ];
    for (name, url, schemes) in fields {
        let Some(url) = url.as_deref().filter(|url| !url.is_empty()) else { continue };
        let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
        let plain = !url.chars().any(|c| c.is_whitespace() || c.is_control());
        if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/')) || !plain {
            let schemes = schemes.join(" or ");
            return Err(Refusal::invalid(format!("{name} must be a URL that starts with {schemes} and names a host")));
        }
    }
    Ok(())
}

/// A comma list of addresses and names (service contract §9).
pub fn checked_sources(field: &str, list: String) -> Result<String, Refusal> {
    let bad = list.split(',').map(str::trim).find(|source| !list.is_empty() && !is_source(source));
    match bad {
        None => Ok(list),
        Some(bad) => Err(Refusal::invalid(format!(
            "{field}: '{}' is neither an IP address nor a host name",
            crate::http::call::shortened(bad)
        ))),
    }
}

fn is_source(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let outer = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    let is_name = (2..=63).contains(&bytes.len())
        && bytes.iter().all(|b| inner(*b))
        && outer(bytes.first())
        && outer(bytes.last());
    is_name || text.parse::<IpAddr>().is_ok()
}

fn checked_address(text: String) -> Result<Option<String>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<IpAddr>() {
        Ok(_) => Ok(Some(text)),
        Err(_) => {
            let text = crate::http::call::shortened(&text);
            Err(Refusal::invalid(format!("rendezvous_ip '{text}' is not an IP address")))
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelArgument {
    operation: String,
    value: String,
}

/// Only what is appended can be written into an ISO's argument area without knowing what is there.
fn checked_arguments(list: Vec<Value>) -> Result<Option<String>, Refusal> {
    let mut kept = Vec::new();
    for item in list {
        let argument: KernelArgument = serde_json::from_value(item).map_err(|error| {
            Refusal::bad_request(format!("kernel_arguments in body: each has an operation and a value: {error}"))
        })?;
        if argument.operation != "append" {
            return Err(Refusal::invalid(format!(
                "kernel_arguments: operation '{}' can't be done: only append can",
                crate::http::call::shortened(&argument.operation)
            )));
        }
        if !is_argument(&argument.value) {
            return Err(Refusal::invalid(format!(
                "kernel_arguments: '{}' is not one argument: quote blanks in it",
                crate::http::call::shortened(&argument.value)
            )));
        }
        kept.push(json!({"operation": "append", "value": argument.value}));
    }
    Ok((!kept.is_empty()).then(|| Value::Array(kept).to_string()))
}

/// Runs of characters that are no blanks, and quoted ones that may be; the published pattern.
fn is_argument(text: &str) -> bool {
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_control() => return false,
            ' ' if !quoted => return false,
            _ => {}
        }
    }
    !text.is_empty() && !quoted && text.len() <= 1024
}

/// The appended arguments of an infra-env.
pub fn appended(kernel_arguments: Option<&str>) -> Vec<String> {
    let list: Vec<KernelArgument> =
        kernel_arguments.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    list.into_iter().map(|argument| argument.value).collect()
}

fn checked_networks(list: Vec<Value>) -> Result<String, Refusal> {
    let networks: Vec<HostNetwork> = serde_json::from_value(Value::Array(list))
        .map_err(|error| Refusal::bad_request(format!("static_network_config in body: {error}")))?;
    network::check(&networks).map_err(|error| Refusal::invalid(chain(&error)))?;
    // Members in the order the service writes them.
    let member =
        |entry: &MacInterface| json!({"logical_nic_name": entry.logical_nic_name, "mac_address": entry.mac_address});
    let host = |host: &HostNetwork| {
        let map: Vec<Value> = host.mac_interface_map.iter().map(member).collect();
        json!({"mac_interface_map": map, "network_yaml": host.network_yaml})
    };
    Ok(Value::Array(networks.iter().map(host).collect()).to_string())
}

/// The networks of an infra-env's hosts; they were checked when they were set.
pub fn networks(static_network_config: &str) -> Vec<HostNetwork> {
    serde_json::from_str(static_network_config).unwrap_or_default()
}

fn check_bundle(bundle: &str) -> Result<(), Refusal> {
    if bundle.len() > MAX_BUNDLE_BYTES {
        return Err(Refusal::bad_request(format!(
            "additional_trust_bundle in body should be at most {MAX_BUNDLE_BYTES} chars long"
        )));
    }
    let begin = bundle.matches("-----BEGIN CERTIFICATE-----").count();
    if !bundle.is_empty() && (begin == 0 || begin != bundle.matches("-----END CERTIFICATE-----").count()) {
        return Err(Refusal::invalid("additional_trust_bundle holds no PEM certificate, or one without its end"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::InfraEnv;

    fn set(params: Value) -> Result<InfraEnv, String> {
        let mut record = InfraEnvRecord::default();
        let params: InfraEnvUpdateParams = serde_json::from_value(params).unwrap();
        match apply(&mut record, params) {
            Ok(()) => Ok(record.infra_env),
            Err(Refusal::Request(_, text) | Refusal::Application(_, text)) => Err(text),
        }
    }

    #[test]
    fn good_settings_are_kept_as_the_service_shows_them() {
        let set = set(json!({
            "proxy": {"http_proxy": "http://p:3128", "https_proxy": "https://p:3129", "no_proxy": "a,b"},
            "ntp_sources": "ntp.example.com, 192.0.2.1",
            "kernel_arguments": [{"operation": "append", "value": "rd.net.timeout.carrier=60"},
                                 {"operation": "append", "value": "a=\"b c\""}],
            "rendezvous_ip": "192.0.2.80",
            "network_discovery_delay_seconds": 5,
            "additional_trust_bundle": "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
            "static_network_config": [{
                "network_yaml": "interfaces: [{name: eth0, type: ethernet, state: up}]",
                "mac_interface_map": [{"mac_address": "52:54:00:00:00:0a", "logical_nic_name": "eth0"}],
            }],
        }))
        .unwrap();
        assert_eq!(appended(set.kernel_arguments.as_deref()), ["rd.net.timeout.carrier=60", "a=\"b c\""]);
        assert_eq!(set.rendezvous_ip.as_deref(), Some("192.0.2.80"));
        assert_eq!(networks(&set.static_network_config)[0].mac_interface_map[0].logical_nic_name, "eth0");
    }

    #[test]
    fn bad_settings_are_named() {
        for (params, said) in [
            (
                json!({"proxy": {"http_proxy": "https://u:hunter2@p"}}),
                "http_proxy must be a URL that starts with http://",
            ),
            (json!({"proxy": {"https_proxy": "p:3128"}}), "https_proxy must be"),
            (json!({"ntp_sources": "a b"}), "ntp_sources: 'a b' is neither"),
            (json!({"ntp_sources": "n1", "additional_ntp_sources": "n2"}), "ntp_sources and additional_ntp_sources"),
            (json!({"rendezvous_ip": "host"}), "rendezvous_ip 'host' is not"),
            (
                json!({"kernel_arguments": [{"operation": "delete", "value": "a"}]}),
                "kernel_arguments: operation 'delete'",
            ),
            (
                json!({"kernel_arguments": [{"operation": "append", "value": "a b"}]}),
                "kernel_arguments: 'a b' is not one",
            ),
            (json!({"kernel_arguments": [{"operation": "append", "value": "a\nb"}]}), "kernel_arguments: 'a\nb'"),
            (json!({"kernel_arguments": ["a"]}), "kernel_arguments in body"),
            (json!({"additional_trust_bundle": "PEM"}), "additional_trust_bundle holds no"),
            (json!({"network_discovery_delay_seconds": 3601}), "network_discovery_delay_seconds 3601"),
            (json!({"static_network_config": [{"network_yaml": "x"}]}), "host0: mac_interface_map is empty"),
            (json!({"static_network_config": [1]}), "static_network_config in body"),
            (json!({"pull_secret": "{}"}), "pull secret validation failed"),
        ] {
            let text = set(params.clone()).unwrap_err();
            assert!(text.starts_with(said) && !text.contains("hunter2"), "{params}: {text}");
        }
    }
}
