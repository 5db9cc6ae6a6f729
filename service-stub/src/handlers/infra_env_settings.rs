//! What users set on an infra-env, held against the rules before anything of it is kept (docs/compatibility.md#user-endpoints).

use crate::http::Refusal;
use crate::infra_env::{DISCONNECTED_ISO, KernelArgument};
use crate::mirrors::Mirrors;
use crate::model::InfraEnvRecord;
use crate::rules;
use crate::text::chain;
use api::{InfraEnv, InfraEnvUpdateParams, Proxy};
use ignition::network::{self, HostNetwork, MacInterface, Note};
use serde_json::{Value, json};

/// No argument is longer, bytes.
const MAX_ARGUMENT_BYTES: usize = 1024;

/// Sets what is given, in the order clients know refusals in; what isn't stays. Gives what of it has no effect.
pub(crate) fn apply(record: &mut InfraEnvRecord, params: InfraEnvUpdateParams) -> Result<Vec<Note>, Refusal> {
    let mut without_effect = Vec::new();
    let own = &mut record.infra_env;
    if let Some(pull_secret) = params.pull_secret.filter(|secret| !secret.is_empty()) {
        rules::text::pull_secret(pull_secret.expose()).map_err(Refusal::invalid)?;
        record.pull_secret = pull_secret;
        own.pull_secret_set = true;
    }
    if let Some(key) = params.ssh_authorized_key.filter(|key| !key.is_empty()) {
        let key = key.trim();
        rules::ssh_key::check(key).map_err(Refusal::invalid)?;
        own.ssh_authorized_key = key.to_owned();
    }
    if let Some(proxy) = params.proxy {
        set_proxy(own, proxy)?;
    }
    if let Some(text) = params.ignition_config_override.filter(|text| !text.is_empty()) {
        own.ignition_config_override = text;
    }
    if let Some(list) = params.static_network_config {
        (own.static_network_config, without_effect) =
            if list.is_empty() { (String::new(), Vec::new()) } else { checked_networks(list)? };
    }
    if let Some(bundle) = params.additional_trust_bundle {
        // What is behind the last certificate is a trap for others.
        let bundle = bundle.trim();
        if !bundle.is_empty() {
            rules::text::certificates(bundle).map_err(Refusal::invalid)?;
        }
        own.additional_trust_bundle = bundle.to_owned();
    }
    if let Some(mirrors) = params.mirror_registry_configuration {
        Mirrors::own(&mirrors).map_err(|error| Refusal::invalid(error.to_string()))?;
        own.mirror_registry_configuration = mirrors;
    }
    if let Some(arguments) = params.kernel_arguments {
        own.kernel_arguments = checked_arguments(arguments)?;
    }
    if let Some(kind) = params.image_type {
        own.kind_of_image = kind;
    }
    set_rendezvous(own, params.rendezvous_ip)?;
    if let Some(version) = params.openshift_version.filter(|version| !version.is_empty()) {
        own.openshift_version = version;
    }
    if let Some(stream) = params.os_stream {
        own.os_stream = stream;
    }
    set_sources(own, params.additional_ntp_sources, params.ntp_sources)?;
    if let Some(delay) = params.network_discovery_delay_seconds {
        own.network_discovery_delay_seconds = Some(delay);
    }
    Ok(without_effect)
}

fn set_proxy(own: &mut InfraEnv, proxy: Proxy) -> Result<(), Refusal> {
    rules::proxy::check(proxy.http_proxy.as_deref(), proxy.https_proxy.as_deref(), proxy.no_proxy.as_deref(), None)
        .map_err(Refusal::invalid)?;
    let Proxy { http_proxy, https_proxy, no_proxy } = proxy;
    own.proxy.http_proxy = http_proxy.or(own.proxy.http_proxy.take());
    own.proxy.https_proxy = https_proxy.or(own.proxy.https_proxy.take());
    own.proxy.no_proxy = no_proxy.or(own.proxy.no_proxy.take());
    Ok(())
}

fn set_sources(own: &mut InfraEnv, additional: Option<String>, only: Option<String>) -> Result<(), Refusal> {
    let after = |given: &Option<String>, own: &str| given.as_deref().unwrap_or(own).is_empty();
    if !after(&additional, &own.additional_ntp_sources) && !after(&only, &own.ntp_sources) {
        return Err(Refusal::invalid("ntp_sources and additional_ntp_sources are mutually exclusive"));
    }
    for (given, own) in [(additional, &mut own.additional_ntp_sources), (only, &mut own.ntp_sources)] {
        let Some(list) = given else { continue };
        if !list.is_empty() {
            rules::text::ntp_sources(&list).map_err(Refusal::invalid)?;
        }
        *own = list;
    }
    Ok(())
}

/// Reasons that have other words where an infra-env is made.
pub(crate) fn check_new(ssh_authorized_key: Option<&str>, pull_secret: &str) -> Result<(), Refusal> {
    if ssh_authorized_key.is_some_and(|key| !key.is_empty() && rules::ssh_key::check(key).is_err()) {
        return Err(Refusal::invalid("SSH key is not valid"));
    }
    rules::text::pull_secret(pull_secret)
        .map_err(|why| Refusal::invalid(format!("pull secret for new infraEnv is invalid: {why}")))
}

/// Only hosts of an ISO that carries the service itself have an address to meet at.
fn set_rendezvous(own: &mut InfraEnv, address: Option<String>) -> Result<(), Refusal> {
    let disconnected = own.kind_of_image == DISCONNECTED_ISO;
    match address {
        Some(address) if !address.is_empty() && !disconnected => {
            return Err(Refusal::invalid("RendezvousIP is only supported for disconnected ISO infra-envs"));
        }
        Some(address) => own.rendezvous_ip = Some(address).filter(|address| !address.is_empty()),
        None if !disconnected => own.rendezvous_ip = None,
        None => {}
    }
    Ok(())
}

/// Only what is appended can be written into an ISO's argument area without knowing what is there.
fn checked_arguments(list: Vec<Value>) -> Result<Option<String>, Refusal> {
    let mut appended = Vec::new();
    for item in list {
        let argument: KernelArgument = api::json::from_value(item).map_err(|error| {
            Refusal::bad_request(format!("kernel_arguments in body: each has an operation and a value: {error}"))
        })?;
        if argument.operation != "append" {
            return Err(Refusal::invalid(format!(
                "Only kernel argument operation append is supported.  Got {}",
                argument.operation
            )));
        }
        if argument.value.len() > MAX_ARGUMENT_BYTES || argument.value.contains(char::is_control) {
            return Err(Refusal::invalid(format!(
                "kernel_arguments: '{}' is longer than {MAX_ARGUMENT_BYTES} bytes, or has control characters",
                crate::http::call::shortened(&argument.value)
            )));
        }
        appended.push(json!({"operation": "append", "value": argument.value}));
    }
    Ok((!appended.is_empty()).then(|| Value::Array(appended).to_string()))
}

/// The networks as they are stored, and what of them their files don't have.
fn checked_networks(list: Vec<Value>) -> Result<(String, Vec<Note>), Refusal> {
    let networks: Vec<HostNetwork> = api::json::from_value(Value::Array(list))
        .map_err(|error| Refusal::bad_request(format!("static_network_config in body: {error}")))?;
    let states = network::check(&networks).map_err(|error| Refusal::invalid(chain(&error)))?;
    let notes = states.iter().flat_map(|state| state.notes().iter().cloned()).collect();
    // Members in the order the service writes them.
    let member =
        |entry: &MacInterface| json!({"logical_nic_name": entry.logical_nic_name, "mac_address": entry.mac_address});
    let host = |host: &HostNetwork| {
        let map: Vec<Value> = host.mac_interface_map.iter().map(member).collect();
        json!({"mac_interface_map": map, "network_yaml": host.network_yaml})
    };
    Ok((Value::Array(networks.iter().map(host).collect()).to_string(), notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra_env::{appended, networks};
    use api::InfraEnv;

    fn set(params: Value) -> Result<InfraEnv, String> {
        let mut record = InfraEnvRecord::default();
        let params: InfraEnvUpdateParams = serde_json::from_value(params).unwrap();
        match apply(&mut record, params) {
            Ok(_) => Ok(record.infra_env),
            Err(Refusal::Request(_, text) | Refusal::Application(_, text)) => Err(text),
        }
    }

    #[test]
    fn good_settings_are_stored_as_the_service_shows_them() {
        let set = set(json!({
            "proxy": {"http_proxy": "http://p:3128", "https_proxy": "https://p:3129", "no_proxy": "a,b"},
            "ntp_sources": "ntp.example.com,192.0.2.1",
            "kernel_arguments": [{"operation": "append", "value": "rd.net.timeout.carrier=60"},
                                 {"operation": "append", "value": "a=\"b c\""}],
            "image_type": "disconnected-iso",
            "rendezvous_ip": "192.0.2.80",
            "network_discovery_delay_seconds": 5,
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
                "Failed to validate HTTP Proxy: The URL scheme must be http",
            ),
            (json!({"ntp_sources": "a b"}), "Invalid NTP source: a b"),
            (
                json!({"ntp_sources": "n1", "additional_ntp_sources": "n2"}),
                "ntp_sources and additional_ntp_sources are mutually exclusive",
            ),
            (
                json!({"kernel_arguments": [{"operation": "delete", "value": "a"}]}),
                "Only kernel argument operation append is supported.  Got delete",
            ),
            (json!({"kernel_arguments": ["a"]}), "kernel_arguments in body"),
            (json!({"additional_trust_bundle": "PEM"}), "invalid block"),
            (json!({"static_network_config": [{"network_yaml": "x"}]}), "host0: mac_interface_map is empty"),
            (json!({"static_network_config": [1]}), "static_network_config in body"),
            (json!({"pull_secret": "{}"}), "pull secret must contain 'auths' JSON-object field"),
            (json!({"ssh_authorized_key": "garbage"}), "SSH key: garbage does not match"),
        ] {
            let text = set(params.clone()).unwrap_err();
            assert!(text.starts_with(said) && !text.contains("hunter2"), "{params}: {text}");
        }
    }
}
