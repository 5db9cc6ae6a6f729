//! The pools of hosts, and how two control-plane hosts power each other off.

use crate::install_config::facts::Facts;
use api::HostRole;
use serde_json::{Map, Value, json};

/// Arbiters are a preview in this release.
const ARBITERS_PREVIEW: &str = "4.19";
/// Fencing is no longer a preview.
const FENCING_SINCE: &str = "4.22";
const PREVIEW: &str = "TechPreviewNoUpgrade";

/// Puts the pools in, and the set of features they need.
pub(crate) fn add(facts: &Facts, config: &mut Map<String, Value>) {
    let mut masters = pool(facts, HostRole::Master);
    let fenced = facts.record.is_fenced_pair(&facts.hosts);
    if fenced {
        masters["fencing"] = json!({"credentials": credentials(facts)});
    }
    config.insert("compute".to_owned(), json!([pool(facts, HostRole::Worker)]));
    config.insert("controlPlane".to_owned(), masters);
    let arbiters = facts.count(HostRole::Arbiter) > 0;
    if arbiters {
        config.insert("arbiter".to_owned(), pool(facts, HostRole::Arbiter));
    }
    if arbiters && facts.is_minor(ARBITERS_PREVIEW) || fenced && facts.is_older(FENCING_SINCE) {
        config.insert("featureSet".to_owned(), PREVIEW.into());
    }
}

fn pool(facts: &Facts, role: HostRole) -> Value {
    let name = role.as_str();
    let threads = match facts.record.cluster.hyperthreading.as_str() {
        "all" => true,
        some => some.split(',').any(|pool| pool.strip_suffix('s') == Some(name)),
    };
    let threads = if threads { "Enabled" } else { "Disabled" };
    json!({"hyperthreading": threads, "name": name, "replicas": facts.count(role)})
}

/// A host is known by the MAC address that its credentials name, else by its name.
fn credentials(facts: &Facts) -> Vec<Value> {
    let masters = facts.hosts.iter().filter(|host| host.effective_role() == HostRole::Master);
    let credential = |host: &std::sync::Arc<crate::model::HostRecord>| {
        let given = host.fencing.as_ref()?;
        let mut fields = json!({
            "address": given.address, "username": given.username, "password": given.password.expose(),
        });
        match given.mac_address.as_deref().filter(|address| !address.is_empty()) {
            Some(address) => fields["macAddress"] = address.into(),
            None => fields["hostname"] = host.name_or_id().into(),
        }
        if let Some(verification) = given.certificate_verification.as_deref().filter(|text| !text.is_empty()) {
            fields["certificateVerification"] = verification.into();
        }
        Some(fields)
    };
    masters.filter_map(credential).collect()
}
