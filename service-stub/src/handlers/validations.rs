//! Validations: ignoring, resetting, and requirements for preflight.

use crate::check;
use crate::find::{find_cluster, find_host};
use crate::http::body::{BodyShape, shape, text};
use crate::http::{Answer, Call, Refusal};
use crate::model::{ClusterRecord, HostRecord, HostTexts, IgnoredValidations};
use crate::operators::{self, Roles, Situation};
use crate::pass;
use crate::service::Service;
use api::HostRole;
use axum::http::StatusCode;
use kernel::order::Gather;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;

/// An installation needs these.
const HOST_NEEDED: [&str; 6] = [
    "connected",
    "has-inventory",
    "inventory-not-fully-truncated",
    "machine-cidr-defined",
    "hostname-unique",
    "hostname-valid",
];
/// The same for clusters.
const CLUSTER_NEEDED: [&str; 5] = [
    "api-vips-defined",
    "ingress-vips-defined",
    "all-hosts-are-ready-to-install",
    "sufficient-masters-count",
    "pull-secret-set",
];

pub(crate) const IGNORED: BodyShape =
    shape("ignoredValidations", "IgnoredValidations", &[text("cluster-validation-ids"), text("host-validation-ids")]);

/// `ignored-validations`: lists as JSON texts.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Ignored {
    #[serde(default, rename = "cluster-validation-ids", skip_serializing_if = "String::is_empty")]
    cluster: String,
    #[serde(default, rename = "host-validation-ids", skip_serializing_if = "String::is_empty")]
    host: String,
}

fn published(record: &ClusterRecord) -> Ignored {
    let Some(ignored) = &record.ignored_validations else { return Ignored::default() };
    let text = |ids: &BTreeSet<String>| serde_json::to_string(ids).unwrap_or_default();
    Ignored { cluster: text(&ignored.cluster), host: text(&ignored.host) }
}

/// GET …/ignored-validations.
pub(crate) fn ignored(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_cluster(&service.store.model(), call.cluster_id()?)?;
    Ok(Answer::json(StatusCode::OK, &published(&record)))
}

/// PUT …/ignored-validations: replaces the list.
pub(crate) fn set_ignored(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let wanted: Ignored = call.json(&IGNORED)?;
    let known = |ids: &mut dyn Iterator<Item = String>| ids.gather::<BTreeSet<_>>();
    let ignored = IgnoredValidations {
        host: parse(&wanted.host, "host", &known(&mut check::host::ids()), &HOST_NEEDED)?,
        cluster: parse(&wanted.cluster, "cluster", &known(&mut check::cluster::ids()), &CLUSTER_NEEDED)?,
    };
    let record = service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        record.ignored_validations = Some(ignored);
        change.put_cluster(record);
        pass::settle_soon(&service.rules(), change, Some(id));
        find_cluster(change.model(), id)
    })?;
    Ok(Answer::json(StatusCode::CREATED, &published(&record)))
}

/// `["all"]` stands for all that can be ignored.
fn parse(text: &str, kind: &str, known: &BTreeSet<String>, needed: &[&str]) -> Result<BTreeSet<String>, Refusal> {
    if text.is_empty() {
        return Ok(BTreeSet::new());
    }
    let ids: BTreeSet<String> = serde_json::from_str(text).map_err(|error| {
        Refusal::invalid(format!("{kind}-validation-ids is not a JSON list of names, such as [\"mtu-valid\"]: {error}"))
    })?;
    if ids.iter().eq(["all"]) {
        return Ok(known.iter().filter(|id| !needed.contains(&id.as_str())).cloned().collect());
    }
    if let Some(unknown) = ids.iter().find(|id| !known.contains(*id)) {
        return Err(Refusal::invalid(format!("unknown {kind} validation '{}'", crate::http::call::shortened(unknown))));
    }
    if let Some(needed) = ids.iter().find(|id| needed.contains(&id.as_str())) {
        return Err(Refusal::invalid(format!(
            "the {kind} validation '{needed}' cannot be ignored: the installation needs it"
        )));
    }
    Ok(ids)
}

/// Lists of the service's operator; `ids` are names of hosts' or clusters' checks.
pub(crate) fn parse_ignored(ids: &[String]) -> Result<IgnoredValidations, String> {
    let mut ignored = IgnoredValidations::default();
    let (host, cluster): (BTreeSet<_>, BTreeSet<_>) = (check::host::ids().collect(), check::cluster::ids().collect());
    for id in ids {
        if !host.contains(id) && !cluster.contains(id) {
            let known: Vec<&str> = host.union(&cluster).map(String::as_str).collect();
            return Err(format!("unknown validation '{id}'; known: {}", known.join(", ")));
        }
        let free = |needed: &[&str]| !needed.contains(&id.as_str());
        if host.contains(id) && free(&HOST_NEEDED) {
            ignored.host.insert(id.clone());
        }
        if cluster.contains(id) && free(&CLUSTER_NEEDED) {
            ignored.cluster.insert(id.clone());
        }
    }
    Ok(ignored)
}

/// GET …/preflight-requirements: hardware needed per role, and what each operator would need besides.
pub(crate) fn preflight(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let record = find_cluster(&model, call.cluster_id()?)?;
    let of = |role| {
        let needs =
            service.settings.requirements.role_needs(&record.cluster.openshift_version, role, record.single_node());
        json!({"quantitative": needs.document()})
    };
    let roles = Roles::of(&model.hosts_of_cluster(record.cluster.id));
    let operators = operators::preflight(&Situation { cluster: &record, roles });
    let document =
        json!({"ocp": {"master": of(HostRole::Master), "worker": of(HostRole::Worker)}, "operators": operators});
    Ok(Answer::json(StatusCode::OK, &document))
}

/// PATCH …/actions/reset-validation/{id}: forgets the measurement, and has the host repeat it.
pub(crate) fn reset(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    if find_host(&service.store.model(), key)?.host.cluster_id.is_none() {
        let reason = format!("host {} is not bound to any cluster, reset validation", key.host);
        return Err(Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, reason));
    }
    let forget: fn(&mut HostTexts) = match call.path("validation_id") {
        "sufficient-installation-disk-speed" => |texts| texts.disks_info = None,
        "container-images-available" => |texts| texts.images_status = None,
        id => {
            let id = crate::http::call::shortened(id);
            return Err(Refusal::invalid(format!("Validation \"{id}\" cannot be reset or does not exist")));
        }
    };
    service.change(call.request_id(), |change| {
        let mut record = HostRecord::clone(find_host(change.model(), key)?.as_ref());
        forget(&mut record.texts);
        let cluster = record.host.cluster_id;
        change.put_host(record);
        pass::settle_soon(&service.rules(), change, cluster);
        Ok(())
    })?;
    super::hosts::answer(service, key, StatusCode::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_ignored_is() {
        let host: BTreeSet<String> = check::host::ids().collect();
        let parse = |text| parse(text, "host", &host, &HOST_NEEDED);
        assert_eq!(parse("").unwrap(), BTreeSet::new());
        assert_eq!(parse(r#"["mtu-valid"]"#).unwrap().len(), 1);
        let all = parse(r#"["all"]"#).unwrap();
        assert_eq!(all.len(), host.len() - HOST_NEEDED.len());
        for bad in [r#"["connected"]"#, r#"["no-such-thing"]"#, "mtu-valid", r#"{"a":1}"#, r#"["all","connected"]"#] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for needed in HOST_NEEDED {
            assert!(host.contains(needed), "{needed}");
        }
        let cluster: BTreeSet<String> = check::cluster::ids().collect();
        for needed in CLUSTER_NEEDED {
            assert!(cluster.contains(needed), "{needed}");
        }
    }

    #[test]
    fn the_operator_names_checks_of_either_kind() {
        let ids = |list: &[&str]| parse_ignored(&list.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        let ignored = ids(&["dns-wildcard-not-configured", "ntp-server-configured"]).unwrap();
        assert_eq!((ignored.host.len(), ignored.cluster.len()), (1, 1));
        assert!(ids(&["nothing"]).unwrap_err().contains("mtu-valid"));
    }
}
