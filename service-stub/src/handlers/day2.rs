//! Clusters that hosts are added to: installed here, or by somebody else.

use super::{clusters, find_cluster, shapes};
use crate::check::host::valid_hostname;
use crate::course::Course;
use crate::events::{self, kinds};
use crate::http::{Answer, Call, Refusal};
use crate::model::{ClusterRecord, DAY2_CLUSTER};
use crate::pass;
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
pub fn allow_add_hosts(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        pass::trigger_cluster(service, change, &mut record, Trigger::AllowAddHosts)
            .map_err(|error| Refusal::invalid(format!("cluster {id} takes no more hosts: {error}")))?;
        change.put_cluster(record);
        Ok(())
    })?;
    clusters::shown(service, id, StatusCode::ACCEPTED)
}

#[derive(Deserialize)]
struct ImportParams {
    name: String,
    api_vip_dnsname: String,
    openshift_cluster_id: Uuid,
    #[serde(default)]
    openshift_version: String,
}

/// POST /v2/clusters/import: one that is there already.
pub fn import(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let params: ImportParams = call.json(&shapes::IMPORT)?;
    for (what, name) in [("name", &params.name), ("api_vip_dnsname", &params.api_vip_dnsname)] {
        if !name.split('.').all(valid_hostname) {
            return Err(Refusal::invalid(format!("{what} '{name}' is not a DNS name")));
        }
    }
    let record = plan(params);
    let id = record.cluster.id;
    service.change(call.request_id(), |change| {
        let mut record = record;
        record.cluster.created_at = change.now;
        record.cluster.status_updated_at = change.now;
        let details = json!({"cluster_kind": record.cluster.kind});
        events::cluster(change, &record, kinds::CLUSTER_REGISTRATION_SUCCEEDED, details);
        change.put_cluster(record);
        Ok(())
    })?;
    clusters::shown(service, id, StatusCode::CREATED)
}

fn plan(params: ImportParams) -> ClusterRecord {
    let id = ClusterId::random();
    let domain = params.api_vip_dnsname.strip_prefix(&format!("api.{}.", params.name)).unwrap_or_default();
    let cluster = Cluster {
        base_dns_domain: domain.to_owned(),
        cpu_architecture: "x86_64".into(),
        high_availability_mode: "Full".into(),
        href: format!("{}/v2/clusters/{id}", api::API_PATH),
        hyperthreading: "all".into(),
        id,
        image_info: json!({"created_at": Timestamp::ZERO, "expires_at": Timestamp::ZERO}),
        kind: DAY2_CLUSTER.into(),
        name: params.name,
        openshift_version: params.openshift_version,
        status_info: info::ADDING.into(),
        user_managed_networking: true,
        user_name: "admin".into(),
        ..Cluster::default()
    };
    let course = Course {
        operators: Vec::new(),
        openshift_cluster_id: Some(params.openshift_cluster_id),
        api_vip_dns_name: params.api_vip_dnsname,
        imported: true,
        ..Course::default()
    };
    ClusterRecord { course, ..ClusterRecord::new(ClusterState::AddingHosts, cluster, Secret::default()) }
}
