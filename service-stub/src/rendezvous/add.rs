//! Adds this machine to a cluster that exists: imports the cluster, and installs the host once its checks pass.

use super::{ExistingCluster, PlannedHost};
use crate::handlers::{cluster_settings, day2};
use crate::http::{Call, Refusal};
use crate::model::HostRecord;
use crate::service::Service;
use crate::state::HostState;
use api::{ClusterId, Timestamp};
use serde_json::{Value, json};

/// Imports the cluster, unless an earlier start did, and sets where its machines get their configs.
pub(crate) fn import(
    service: &Service,
    id: ClusterId,
    existing: &ExistingCluster,
    call: impl Fn(&[(&str, String)], Value) -> Call,
) -> Result<(), Refusal> {
    if !service.store.model().clusters.contains_key(&id) {
        let params = json!({
            "name": existing.names().0,
            "api_vip_dnsname": existing.api_name,
            "openshift_cluster_id": existing.id,
            "openshift_version": existing.version,
        });
        day2::import_as(service, &call(&[], params), id)?;
    }
    let settings = json!({
        "user_managed_networking": existing.is_user_managed(),
        "ignition_endpoint": existing.endpoint(),
    });
    cluster_settings::update(service, &call(&[("cluster_id", id.to_string())], settings)).map(drop)
}

/// What a host waits for; none once it is being installed. `install` starts that.
pub(crate) fn advance(
    existing: &ExistingCluster,
    plan: Option<&PlannedHost>,
    record: &HostRecord,
    now: Timestamp,
    install: impl FnOnce() -> Result<(), Refusal>,
) -> Option<String> {
    if record.facts().inventory.is_none() {
        return Some("it has not reported its hardware yet".to_owned());
    }
    if record.state.settings_open() {
        if let Some(expired) = expired(existing, now) {
            return Some(expired);
        }
        if plan.is_none() {
            return Some("none of its MAC addresses is in nodes-config.yaml: it is left as it is".to_owned());
        }
    }
    match record.state {
        HostState::Known => install().err().map(|refusal| refusal.message().to_owned()),
        HostState::AddedToExistingCluster => Some(
            "it is installed, and joins the cluster when it has booted from its disk. Approve its certificate requests there: `oc get csr`, \
             `oc adm certificate approve`"
                .to_owned(),
        ),
        _ => Some(format!("{}: {}", record.state, record.host.status_info)),
    }
}

/// That the ISO is too old: its credentials and certificates may no longer be those of the cluster.
pub(crate) fn expired(existing: &ExistingCluster, now: Timestamp) -> Option<String> {
    let at = existing.expires_at.filter(|at| now.seconds_since(*at) >= 0)?;
    Some(format!("this ISO expired at {at}, and adds no node: make a new one with `landfall node-iso`, and boot it"))
}
