//! The flow of the service from OpenShift 4.18 on: NMState whose interfaces are captured by MAC address when nmstatectl applies it
//! (NMPolicy, <https://nmstate.io/nmpolicy/user-guide/102-policy-syntax.html>).

use super::schema::{self, Named};
use super::state::MAX_YAML_BYTES;
use super::{HostNetwork, Mac, NetworkError};
use crate::yaml::{self, YamlError};
use kernel::order;
use serde_norway::{Mapping, Value};
use std::collections::BTreeMap;

/// The file nmstatectl applies, in the service's own layout: members sorted, no end of line.
pub(super) fn text(host: usize, config: &HostNetwork) -> Result<String, NetworkError> {
    let parse = |error: YamlError| NetworkError::Parse { host, text: error.to_string() };
    let mut desired: Value = yaml::document(config.network_yaml.as_bytes(), MAX_YAML_BYTES).map_err(parse)?;
    // A name that needs no quotes and is nowhere in the text.
    let token =
        (0..).map(|n: u64| format!("captured-{n}-")).find(|token| !config.network_yaml.contains(token.as_str()));
    let token = token.unwrap_or_default();
    let mut names = BTreeMap::new();
    let mut capture = Mapping::new();
    for (index, entry) in config.mac_interface_map.iter().enumerate() {
        let mac: Mac = entry.mac_address.parse().map_err(|source| NetworkError::Mac {
            host,
            interface: entry.logical_nic_name.clone(),
            source,
        })?;
        names.insert(entry.logical_nic_name.as_str(), format!("{token}{index}-"));
        capture.insert(format!("iface{index}").into(), format!("interfaces.mac-address == \"{mac}\"").into());
    }
    settle_addresses(&mut desired);
    rename(&mut desired, &names);
    let policy = Mapping::from_iter([("capture".into(), capture.into()), ("desiredState".into(), sorted(desired))]);
    let mut text = serde_norway::to_string(&policy).map_err(|error| parse(error.into()))?;
    for index in 0..config.mac_interface_map.len() {
        let reference = format!("{{{{ capture.iface{index}.interfaces.0.name }}}}");
        // Behind an address it is a part of a text that needs no quotes.
        text = text.replace(&format!("%{token}{index}-"), &format!("%{reference}"));
        text = text.replace(&format!("{token}{index}-"), &format!("\"{reference}\""));
    }
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// A static address disables automatic ones, unless they are enabled: nmstatectl would leave existing settings.
fn settle_addresses(desired: &mut Value) {
    let interfaces = desired.get_mut("interfaces").and_then(Value::as_sequence_mut);
    for interface in interfaces.into_iter().flatten() {
        for (family, defaults) in [("ipv4", &["dhcp"][..]), ("ipv6", &["autoconf", "dhcp"])] {
            let Some(settings) = interface.get_mut(family).and_then(Value::as_mapping_mut) else { continue };
            if settings.get("enabled").and_then(Value::as_bool) != Some(true) {
                continue;
            }
            for member in defaults {
                settings.entry((*member).into()).or_insert_with(|| false.into());
            }
        }
    }
}

/// Replaces the names of interfaces, and nothing that only reads like one.
fn rename(desired: &mut Value, names: &BTreeMap<&str, String>) {
    let document = desired.clone();
    for Named { steps, name, .. } in schema::read(&document).named {
        if let (Some(new), Some(Value::String(text))) = (names.get(name), schema::at(desired, &steps)) {
            text.truncate(text.len().saturating_sub(name.len()));
            text.push_str(new);
        }
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Sequence(items) => items.into_iter().map(sorted).collect(),
        Value::Mapping(members) => {
            let mut members: Vec<(Value, Value)> =
                members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            order::sort_by(&mut members, |(a, _), (b, _)| a.as_str().cmp(&b.as_str()));
            Value::Mapping(members.into_iter().collect())
        }
        scalar => scalar,
    }
}

/// Why a policy can't be converted to plain NMState.
#[derive(Debug)]
pub(super) enum ResolveError {
    /// No interface has the address.
    NotHere(Mac),
    /// It isn't one of those made here.
    Shape(String),
}

/// The NMState of a policy, with each captured interface named as `find` says. Other NMPolicy expressions are refused.
pub(super) fn resolve<'a>(text: &str, find: impl Fn(Mac) -> Option<&'a str>) -> Result<String, ResolveError> {
    let shape = |reason: &str| ResolveError::Shape(reason.to_owned());
    // With its captures, which the service adds.
    let unreadable = |error: YamlError| ResolveError::Shape(error.to_string());
    let policy: Value = yaml::document(text.as_bytes(), 4 * MAX_YAML_BYTES).map_err(unreadable)?;
    let mut captures = BTreeMap::new();
    for (name, condition) in policy.get("capture").and_then(Value::as_mapping).into_iter().flatten() {
        let (Some(name), Some(condition)) = (name.as_str(), condition.as_str()) else {
            return Err(shape("a capture is not text"));
        };
        let mac = condition
            .split_once("==")
            .filter(|(left, _)| left.trim() == "interfaces.mac-address")
            .and_then(|(_, mac)| mac.trim().trim_matches(['"', '\'']).parse::<Mac>().ok())
            .ok_or_else(|| {
                ResolveError::Shape(format!("the capture {name:?} is not `interfaces.mac-address == \"MAC\"`"))
            })?;
        captures.insert(name.to_owned(), mac);
    }
    let mut desired = policy.get("desiredState").cloned().ok_or_else(|| shape("it has no desiredState"))?;
    resolve_names(&mut desired, &|capture| {
        let mac =
            captures.get(capture).ok_or_else(|| ResolveError::Shape(format!("no capture {capture:?} is defined")))?;
        find(*mac).ok_or(ResolveError::NotHere(*mac))
    })?;
    serde_norway::to_string(&desired).map_err(|error| unreadable(error.into()))
}

fn resolve_names<'a>(
    value: &mut Value,
    find: &dyn Fn(&str) -> Result<&'a str, ResolveError>,
) -> Result<(), ResolveError> {
    match value {
        Value::String(text) => {
            let reference = text.trim().strip_suffix("}}").and_then(|text| text.split_once("{{"));
            let Some((before, inner)) = reference.filter(|(before, _)| before.is_empty() || before.ends_with('%'))
            else {
                return Ok(());
            };
            let capture =
                inner.trim().strip_prefix("capture.").and_then(|rest| rest.strip_suffix(".interfaces.0.name"));
            let capture = capture
                .ok_or_else(|| ResolveError::Shape(format!("{:?} is not the name of a capture", inner.trim())))?;
            *text = format!("{before}{}", find(capture)?);
        }
        Value::Sequence(items) => items.iter_mut().try_for_each(|item| resolve_names(item, find))?,
        Value::Mapping(members) => members.iter_mut().try_for_each(|(_, value)| resolve_names(value, find))?,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
