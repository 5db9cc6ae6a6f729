//! Clusters that are not installed here: hosts are added to them, or they install themselves out of an ISO.

use super::clusters;
use crate::course::Course;
use crate::events::{self, kinds};
use crate::find::find_cluster;
use crate::http::body::{BodyShape, length, shape, text, uuid};
use crate::http::{Answer, Call, Refusal};
use crate::ignition_endpoint::names;
use crate::model::{ClusterRecord, DAY2_CLUSTER, DISCONNECTED_CLUSTER};
use crate::pass;
use crate::rules::{self, platform};
use crate::service::Service;
use crate::state::{
    ClusterState,
    cluster::{Trigger, info},
};
use api::{Cluster, ClusterId, Secret, Timestamp};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// POST /v2/clusters/{id}/actions/allow-add-hosts, and its older name `allow-add-workers`.
pub(crate) fn allow_add_hosts(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        let (state, kind) = (record.state, record.cluster.kind.clone());
        pass::trigger_cluster(&service.rules(), change, &mut record, Trigger::AllowAddHosts).map_err(|_| {
            let (what, wanted, is) = match state {
                ClusterState::Installed => ("kind", "Cluster", kind.as_str()),
                other => ("status", "installed", other.as_str()),
            };
            Refusal::invalid(format!(
                "cannot transform cluster {id} to day2. Expected cluster {what}: {wanted}, but cluster {what} is: {is}"
            ))
        })?;
        change.put_cluster(record);
        Ok(())
    })?;
    clusters::answer(service, id, StatusCode::ACCEPTED)
}

pub(crate) const IMPORT: BodyShape = shape(
    "newImportClusterParams",
    "ImportClusterParams",
    &[
        text("api_vip_dnsname").required(),
        text("name").required(),
        uuid("openshift_cluster_id").required(),
        text("openshift_version"),
    ],
);

#[derive(Deserialize)]
struct ImportParams {
    name: String,
    api_vip_dnsname: String,
    openshift_cluster_id: Uuid,
    #[serde(default)]
    openshift_version: String,
}

/// POST /v2/clusters/import: one that is there already.
pub(crate) fn import(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    import_as(service, call, ClusterId::random())
}

/// The same under a chosen id.
pub(crate) fn import_as(service: &Service, call: &Call, id: ClusterId) -> Result<Answer, Refusal> {
    let params: ImportParams = call.json(&IMPORT)?;
    let record = plan(id, params).map_err(Refusal::invalid)?;
    register(service, call, record)
}

fn register(service: &Service, call: &Call, record: ClusterRecord) -> Result<Answer, Refusal> {
    let id = record.cluster.id;
    service.change(call.request_id(), |change| {
        let mut record = record;
        record.cluster.created_at = change.now;
        record.cluster.updated_at = change.now;
        record.cluster.status_updated_at = change.now;
        let details = json!({"cluster_kind": record.cluster.kind});
        events::cluster(change, &record, kinds::CLUSTER_REGISTRATION_SUCCEEDED, details);
        change.put_cluster(record);
        Ok(())
    })?;
    clusters::answer(service, id, StatusCode::CREATED)
}

pub(crate) const DISCONNECTED: BodyShape = shape(
    "newClusterParams",
    "DisconnectedClusterCreateParams",
    &[length("name", 1, 54).required(), text("openshift_version").required()],
);

#[derive(Deserialize)]
struct DisconnectedParams {
    name: String,
    openshift_version: String,
}

/// POST /v2/clusters/disconnected: nothing of it is watched here.
pub(crate) fn disconnected(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let DisconnectedParams { name, openshift_version } = call.json(&DISCONNECTED)?;
    if openshift_version.is_empty() {
        return Err(Refusal::invalid("OpenShift version is required"));
    }
    let id = ClusterId::random();
    let cluster = Cluster {
        href: format!("{}/v2/clusters/{id}", api::API_PATH),
        id,
        image_info: json!({"created_at": Timestamp::ZERO, "expires_at": Timestamp::ZERO}),
        kind: DISCONNECTED_CLUSTER.into(),
        name,
        openshift_version,
        status_info: "Cluster created for offline installation".into(),
        user_name: "admin".into(),
        ..Cluster::default()
    };
    let course = Course { operators: Vec::new(), ..Course::default() };
    let record = ClusterRecord { course, ..ClusterRecord::new(ClusterState::Unmonitored, cluster, Secret::default()) };
    register(service, call, record)
}

fn plan(id: ClusterId, params: ImportParams) -> Result<ClusterRecord, String> {
    let ImportParams { name: given, api_vip_dnsname, openshift_cluster_id, openshift_version } = params;
    let (name, base) = names(&api_vip_dnsname).unwrap_or((&given, ""));
    rules::text::cluster_name(name, platform::BAREMETAL)?;
    let cluster = Cluster {
        base_dns_domain: base.to_owned(),
        high_availability_mode: "Full".into(),
        href: format!("{}/v2/clusters/{id}", api::API_PATH),
        hyperthreading: "all".into(),
        id,
        image_info: json!({"created_at": Timestamp::ZERO, "expires_at": Timestamp::ZERO}),
        kind: DAY2_CLUSTER.into(),
        name: name.to_owned(),
        openshift_version,
        platform: Some(platform::with_kind(platform::BAREMETAL)),
        status_info: info::ADDING.into(),
        user_managed_networking: true,
        user_name: "admin".into(),
        ..Cluster::default()
    };
    let course = Course {
        operators: Vec::new(),
        openshift_cluster_id: Some(openshift_cluster_id),
        api_vip_dns_name: api_vip_dnsname,
        imported: true,
        ..Course::default()
    };
    Ok(ClusterRecord { course, ..ClusterRecord::new(ClusterState::AddingHosts, cluster, Secret::default()) })
}
