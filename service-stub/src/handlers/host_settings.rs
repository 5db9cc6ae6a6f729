//! Users' settings of a host before it is installed (docs/compatibility.md#user-endpoints).

use super::hosts::{answer, before_installation, change_host};
use super::models;
use crate::check::{disks, host::valid_hostname};
use crate::cluster_files::ClusterFiles;
use crate::http::body::{BodyShape, list, object, one_of, shape, text};
use crate::http::{Answer, Call, Refusal, call::shortened};
use crate::model::{ChosenDisk, HostKey, HostRecord};
use crate::planned::listed;
use crate::rules;
use crate::service::Service;
use crate::store::Change;
use api::{
    DiskConfigParams, DiskSkipFormattingParams, FencingCredentials, HostRole, HostUpdateParams, HttpHeader, NodeLabel,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest token, and longest value of a header, bytes.
const MAX_SECRET_BYTES: usize = 16 << 10;
/// Maximum number of headers or labels.
const MAX_ENTRIES: usize = 256;

pub(crate) const BODY: BodyShape = shape(
    "hostUpdateParams",
    "HostUpdateParams",
    &[
        list("disks_selected_config", &models::DISK_CONFIG).nullable(),
        list("disks_skip_formatting", &models::DISK_SKIP_FORMATTING).nullable(),
        object("fencing_credentials", &models::FENCING_CREDENTIALS).nullable(),
        text("host_name").nullable(),
        one_of("host_role", &["auto-assign", "master", "arbiter", "worker"]).nullable(),
        list("ignition_endpoint_http_headers", &models::HTTP_HEADER).nullable(),
        text("ignition_endpoint_token").nullable(),
        text("machine_config_pool_name").nullable(),
        list("node_labels", &models::NODE_LABEL).nullable(),
    ],
);

/// PATCH /v2/infra-envs/{id}/hosts/{id}.
pub(crate) fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let params: HostUpdateParams = call.json(&BODY)?;
    let key = change_host(service, call, |change, record| {
        before_installation(record)?;
        apply(service, change, record, &params)
    })?;
    answer(service, key, StatusCode::CREATED)
}

/// Sets what is given; the rest stays.
fn apply(
    service: &Service,
    change: &Change,
    record: &mut HostRecord,
    params: &HostUpdateParams,
) -> Result<(), Refusal> {
    if let Some(name) = &params.host_name {
        if !valid_hostname(name) {
            return Err(Refusal::invalid(format!(
                "hostname '{}' is not allowed: use lower-case letters, digits, hyphens and dots, at most 63",
                shortened(name)
            )));
        }
        record.host.requested_hostname = name.clone();
    }
    if let Some(role) = params.host_role {
        set_role(service, change, record, role)?;
    }
    if let Some(disks) = &params.disks_selected_config {
        select_disk(record, disks)?;
    }
    if let Some(disks) = &params.disks_skip_formatting {
        skip_formatting(record, disks)?;
    }
    if let Some(pool) = &params.machine_config_pool_name {
        if !pool.is_empty() && !is_pool(pool) {
            return Err(Refusal::invalid(format!(
                "machine_config_pool_name '{}' is not a pool name: use lower-case letters, digits and hyphens, at most 63",
                shortened(pool)
            )));
        }
        record.texts.machine_config_pool_name = Some(pool.clone()).filter(|pool| !pool.is_empty());
    }
    if let Some(token) = &params.ignition_endpoint_token {
        check_header("ignition_endpoint_token", "authorization", token.expose())?;
        record.ignition_endpoint_token = token.clone();
    }
    if let Some(credentials) = &params.fencing_credentials {
        check_fencing(change, record, credentials)?;
        record.fencing = Some(credentials.clone());
    }
    if let Some(headers) = &params.ignition_endpoint_http_headers {
        record.ignition_endpoint_headers = checked_headers(headers)?;
    }
    if let Some(labels) = &params.node_labels {
        record.texts.node_labels = Some(checked_labels(labels)?).filter(|labels| !labels.is_empty());
    }
    Ok(())
}

/// Another role may need a larger disk, or accept a smaller one.
fn set_role(service: &Service, change: &Change, record: &mut HostRecord, role: HostRole) -> Result<(), Refusal> {
    if role == HostRole::Arbiter && service.settings.cluster_files.is_some() {
        let cluster = record.host.cluster_id.and_then(|id| change.model().clusters.get(&id));
        let files = cluster.and_then(|cluster| ClusterFiles::of_cluster(service, cluster));
        let config = files.map(|files| files.read("arbiter.ign")).transpose();
        if config.map_err(|error| Refusal::internal(&error))?.flatten().is_none() {
            return Err(Refusal::invalid("no host can be an arbiter: arbiter.ign is missing from --cluster-files"));
        }
    }
    record.host.role = role;
    if role != HostRole::AutoAssign {
        record.host.suggested_role = role;
    }
    let Some(mut inventory) = record.facts().inventory.clone() else { return Ok(()) };
    let cluster = record.host.cluster_id.and_then(|id| change.model().clusters.get(&id));
    let wanted =
        disks::Wanted::for_host(&service.settings.requirements, record, cluster.map(AsRef::as_ref), &inventory);
    disks::judge(&mut inventory, wanted);
    let text = serde_json::to_string(&inventory).map_err(|error| Refusal::internal(&error))?;
    record.set_disk(&inventory);
    record.set_inventory(text);
    Ok(())
}

/// The real service's words. Added hosts may have credentials, which nothing uses.
fn check_fencing(change: &Change, record: &HostRecord, credentials: &FencingCredentials) -> Result<(), Refusal> {
    let FencingCredentials { address, certificate_verification: _, mac_address, password, username } = credentials;
    let texts = [address, username, password.expose(), mac_address.as_deref().unwrap_or_default()];
    if texts.iter().any(|text| text.len() > MAX_SECRET_BYTES) {
        return Err(Refusal::invalid(format!("fencing_credentials: a text is longer than {MAX_SECRET_BYTES} bytes")));
    }
    let cluster = record.host.cluster_id.and_then(|id| change.model().clusters.get(&id));
    let Some(cluster) = cluster.filter(|cluster| !cluster.day2()) else { return Ok(()) };
    let HostKey { host, infra_env } = record.key();
    rules::fencing::check(&cluster.cluster).map_err(|why| {
        Refusal::invalid(format!("Cannot set fencing credentials to host {host} in infra-env {infra_env}: {why}"))
    })
}

fn select_disk(record: &mut HostRecord, disks: &[DiskConfigParams]) -> Result<(), Refusal> {
    let mut chosen = disks.iter().filter(|disk| disk.role == "install");
    let Some(wanted) = chosen.next() else {
        return match disks.first() {
            None => Ok(()),
            // A disk can't be withdrawn: another one takes its place.
            Some(_) => Err(Refusal::conflict("Requested installation disk is not part of the host's valid disks")),
        };
    };
    if chosen.next().is_some() {
        return Err(Refusal::conflict("more than one disk has the role 'install'"));
    }
    let inventory = record.facts().inventory.as_ref();
    let disk = inventory.and_then(|inventory| inventory.disks.iter().find(|disk| disks::answers_to(disk, &wanted.id)));
    let Some(disk) = disk else {
        let there = inventory.map_or_else(String::new, |inventory| listed(inventory.disks.iter()));
        return Err(Refusal::conflict(format!("the host has no disk '{}': it has {there}", shortened(&wanted.id))));
    };
    if !disk.installation_eligibility.eligible {
        let reasons = disk.installation_eligibility.not_eligible_reasons.as_deref().unwrap_or_default().join("; ");
        return Err(Refusal::conflict(format!("cannot install to disk '{}': {reasons}", wanted.id)));
    }
    let (id, path) = (disks::identifier(disk), disks::node(disk));
    record.chosen_disk = Some(ChosenDisk { id: id.clone(), path: path.clone(), name: disk.name.clone() });
    record.host.installation_disk_id = id;
    record.host.installation_disk_path = path;
    Ok(())
}

/// The list of disks to leave unformatted: additions and removals, by the inventory's identifiers.
fn skip_formatting(record: &mut HostRecord, disks: &[DiskSkipFormattingParams]) -> Result<(), Refusal> {
    let before = record.texts.skip_formatting_disks.as_deref().unwrap_or_default();
    let mut list: Vec<String> = before.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
    for DiskSkipFormattingParams { disk_id, skip_formatting } in disks {
        list.retain(|id| id != disk_id);
        if !skip_formatting {
            continue;
        }
        let inventory = record.facts().inventory.as_ref();
        let known =
            inventory.is_some_and(|inventory| inventory.disks.iter().any(|disk| disks::answers_to(disk, disk_id)));
        if !known || disk_id.is_empty() || disk_id.contains(',') {
            return Err(Refusal::invalid(format!(
                "disks_skip_formatting: the host has no disk '{}' in its inventory",
                shortened(disk_id)
            )));
        }
        list.push(disk_id.clone());
    }
    record.texts.skip_formatting_disks = Some(list.join(",")).filter(|list| !list.is_empty());
    Ok(())
}

fn is_pool(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 63 && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Messages never contain values, which may be secrets.
fn check_header(field: &str, name: &str, value: &str) -> Result<(), Refusal> {
    if HeaderName::try_from(name).is_err() {
        return Err(Refusal::invalid(format!("{field}: '{}' is not an HTTP header name", shortened(name))));
    }
    if value.len() > MAX_SECRET_BYTES || HeaderValue::from_str(value).is_err() {
        return Err(Refusal::invalid(format!(
            "{field}: the value of '{}' is not text that an HTTP header can carry, of at most {MAX_SECRET_BYTES} bytes",
            shortened(name)
        )));
    }
    Ok(())
}

fn check_count(field: &str, count: usize) -> Result<(), Refusal> {
    if count > MAX_ENTRIES {
        return Err(Refusal::invalid(format!("{field} has {count} entries, more than {MAX_ENTRIES}")));
    }
    Ok(())
}

fn checked_headers(headers: &[HttpHeader]) -> Result<Vec<(String, api::Secret)>, Refusal> {
    const FIELD: &str = "ignition_endpoint_http_headers";
    check_count(FIELD, headers.len())?;
    let checked = headers.iter().map(|HttpHeader { key, value }| {
        check_header(FIELD, key, value.expose())?;
        Ok((key.clone(), value.clone()))
    });
    checked.collect()
}

/// The labels as the published text, a JSON object; empty for none.
pub(crate) fn checked_labels(labels: &[NodeLabel]) -> Result<String, Refusal> {
    check_count("node_labels", labels.len())?;
    let mut by_key = BTreeMap::new();
    for NodeLabel { key, value } in labels {
        if !is_label_key(key) {
            return Err(Refusal::invalid(format!(
                "node_labels: '{}' is not a label key: write [PREFIX/]NAME with at most 63 letters, digits, '-', '_' and '.'",
                shortened(key)
            )));
        }
        if !value.is_empty() && !is_label_text(value) {
            return Err(Refusal::invalid(format!(
                "node_labels: '{}' is not a label value: use at most 63 letters, digits, '-', '_' and '.'",
                shortened(value)
            )));
        }
        by_key.insert(key.clone(), Value::from(value.as_str()));
    }
    if by_key.is_empty() {
        return Ok(String::new());
    }
    serde_json::to_string(&by_key).map_err(|error| Refusal::internal(&error))
}

/// Kubernetes' rule: a name, optionally after a DNS name.
fn is_label_key(key: &str) -> bool {
    let Some((prefix, name)) = key.split_once('/') else { return is_label_text(key) };
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    prefix.len() <= 253 && prefix.split('.').all(label) && is_label_text(name)
}

fn is_label_text(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_by_kubernetes_rules() {
        let long = ["a".repeat(63), "a".repeat(64), format!("{}/a", "a".repeat(254))];
        for (key, good) in [
            ("gpu", true),
            ("node-role.kubernetes.io/infra", true),
            ("A_b.c-9", true),
            (&long[0], true),
            (&long[1], false),
            (&long[2], false),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a b", false),
            ("Upper.example.com/a", false),
            ("example..com/a", false),
            ("example.com/", false),
            ("a/b/c", false),
            ("ümlaut", false),
        ] {
            assert_eq!(is_label_key(key), good, "{key}");
        }
        let label = |key: &str, value: &str| NodeLabel { key: key.into(), value: value.into() };
        assert_eq!(checked_labels(&[label("b", ""), label("a", "1")]).unwrap(), r#"{"a":"1","b":""}"#);
        assert_eq!(checked_labels(&[]).unwrap(), "");
        assert!(checked_labels(&[label("a", "-")]).is_err());
        assert!(checked_labels(&vec![label("a", ""); MAX_ENTRIES + 1]).is_err());
    }

    #[test]
    fn pools_and_headers() {
        for (pool, good) in [("gpu-large", true), ("worker", true), ("a/../b", false), ("Gpu", false), ("-a", false)] {
            assert_eq!(is_pool(pool), good, "{pool}");
        }
        assert!(check_header("f", "X-Key", "a b").is_ok());
        for (name, value) in [("X Key", "a"), ("", "a"), ("X-Key", "a\r\nb: c")] {
            let Err(Refusal::Application(_, said)) = check_header("f", name, value) else { panic!("{name}: {value}") };
            assert!(said.starts_with("f: ") && !said.contains('\n'), "{said}");
        }
    }
}
