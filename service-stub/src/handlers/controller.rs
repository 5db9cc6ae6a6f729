//! Reports of a cluster's controller while it finishes the installation (docs/compatibility.md#controller-endpoints).

use super::clusters;
use crate::course::OperatorStatus;
use crate::events::{self, kinds};
use crate::find::find_cluster;
use crate::http::body::{BodyShape, any, flag, one_of, shape, text};
use crate::http::{Answer, Call, Refusal};
use crate::kubeconfig;
use crate::model::ClusterRecord;
use crate::pass;
use crate::service::Service;
use crate::state::{ClusterState, cluster::FinalizingStage};
use crate::store::Change;
use api::{ClusterId, ClusterProgressInfo};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

/// A longer text about an operator is cut, in characters.
const MAX_TEXT_CHARS: usize = 2048;
/// A larger report about all operators is left out, in bytes.
const MAX_REPORT_BYTES: usize = 256 << 10;

/// Changes the course of an installation and updates the cluster's state.
fn change_course(
    service: &Service,
    call: &Call,
    work: impl FnOnce(&mut Change, &mut ClusterRecord) -> Result<(), Refusal>,
) -> Result<ClusterId, Refusal> {
    let id = call.cluster_id()?;
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        work(change, &mut record)?;
        change.put_cluster(record);
        pass::settle_soon(&service.rules(), change, Some(id));
        Ok(id)
    })
}

pub(crate) const PROGRESS: BodyShape = shape(
    "finalizingProgress",
    "ClusterFinalizingProgress",
    &[one_of("finalizing_stage", &FinalizingStage::NAMES).or_zero().described("@finalizing-stage")],
);

#[derive(Deserialize)]
struct Progress {
    finalizing_stage: Option<FinalizingStage>,
}

/// PUT /v2/clusters/{id}/progress.
pub(crate) fn progress(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    use ClusterState as S;
    let Progress { finalizing_stage } = call.json(&PROGRESS)?;
    change_course(service, call, |change, record| {
        if !matches!(record.state, S::Installing | S::Finalizing | S::InstallingPendingUserAction) {
            return Err(Refusal::invalid(format!(
                "cluster is {}, not in one of allowed statuses: [installing finalizing installing-pending-user-action]",
                record.state
            )));
        }
        let Some(stage) = finalizing_stage.filter(|stage| record.course.finalizing_stage != Some(*stage)) else {
            return Ok(());
        };
        record.course.finalizing_stage = Some(stage);
        let progress = record.cluster.progress.get_or_insert_with(ClusterProgressInfo::default);
        progress.finalizing_stage_started_at = change.now;
        progress.finalizing_stage_timed_out = false;
        let details = json!({"finalizing_stage": stage.as_str()});
        events::cluster(change, record, kinds::CLUSTER_FINALIZING_STAGE_UPDATED, details);
        Ok(())
    })?;
    Ok(Answer::empty(StatusCode::OK))
}

/// GET /v2/clusters/{id}/monitored-operators.
pub(crate) fn operators(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let record = find_cluster(&service.store.model(), id)?;
    let wanted = call.query("operator_name").filter(|name| !name.is_empty());
    let operators = record.course.operators.iter().filter(|operator| wanted.is_none_or(|name| operator.name == name));
    let documents: Vec<Value> = operators.map(|operator| operator.document(id)).collect();
    match wanted {
        Some(name) if documents.is_empty() => Err(unknown_operator(id, name)),
        _ => Ok(Answer::json(StatusCode::OK, &documents)),
    }
}

fn unknown_operator(id: ClusterId, name: &str) -> Refusal {
    let name: String = name.chars().take(100).collect();
    Refusal::not_found(format!("operator '{name}' of cluster {id} was not found"))
}

pub(crate) const OPERATOR: BodyShape = shape(
    "reportParams",
    "OperatorMonitorReport",
    &[
        text("name"),
        one_of("status", &OperatorStatus::NAMES).or_zero().described("@operator-status"),
        text("status_info"),
        text("version"),
    ],
);

#[derive(Deserialize)]
struct OperatorReport {
    #[serde(default)]
    name: String,
    status: Option<OperatorStatus>,
    #[serde(default)]
    status_info: String,
    #[serde(default)]
    version: String,
}

/// PUT /v2/clusters/{id}/monitored-operators.
pub(crate) fn set_operator(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let report: OperatorReport = call.json(&OPERATOR)?;
    if report.name.is_empty() {
        return Err(Refusal::invalid("an operator's name is needed"));
    }
    let cut = |text: &str| text.chars().take(MAX_TEXT_CHARS).collect::<String>();
    change_course(service, call, |change, record| {
        let id = record.cluster.id;
        let operator = record.course.operators.iter_mut().find(|operator| operator.name == report.name);
        let operator = operator.ok_or_else(|| unknown_operator(id, &report.name))?;
        operator.status = report.status.or(operator.status);
        operator.status_info = cut(&report.status_info);
        if !report.version.is_empty() {
            operator.version = cut(&report.version);
        }
        operator.status_updated_at = change.now;
        let status = operator.status.map_or("", OperatorStatus::as_str);
        let details = json!({"operator_name": operator.name, "status": status, "status_info": operator.status_info});
        events::cluster(change, record, kinds::CLUSTER_OPERATOR_STATUS, details);
        Ok(())
    })?;
    Ok(Answer::empty(StatusCode::OK))
}

/// POST /v2/clusters/{id}/uploads/ingress-cert: the authority that signs the cluster's ingress, a JSON text with PEM.
pub(crate) fn ingress_cert(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let text: String = serde_json::from_slice(&call.body).map_err(|error| {
        Refusal::bad_request(format!("parsing ingressCertParams body from \"\" failed, because {error}"))
    })?;
    change_course(service, call, |_, record| {
        if !matches!(record.state, ClusterState::Finalizing | ClusterState::Installed) {
            return Err(Refusal::invalid(format!(
                "Cluster {} is in {} state, upload ingress ca can be done only in finalizing or installed state",
                record.cluster.id, record.state
            )));
        }
        // The real service answers so.
        kubeconfig::check_pem(&text).map_err(|error| Refusal::internal(&error))?;
        record.course.ingress_ca = text;
        Ok(())
    })?;
    Ok(Answer::empty(StatusCode::CREATED))
}

/// Names of the operators that a report tells as failed, joined by commas.
fn failing_operators(report: &Value) -> String {
    let failed = report.as_array().into_iter().flatten().filter(|operator| operator["status"] == "failed");
    failed.filter_map(|operator| operator["name"].as_str()).collect::<Vec<_>>().join(", ")
}

pub(crate) const COMPLETION: BodyShape =
    shape("completionParams", "CompletionParams", &[any("data"), text("error_info"), flag("is_success").required()]);

#[derive(Deserialize)]
struct Completion {
    is_success: bool,
    #[serde(default)]
    error_info: String,
    #[serde(default)]
    data: serde_json::Map<String, Value>,
}

/// POST /v2/clusters/{id}/actions/complete-installation: the controller's last request. Its earlier reports decide whether the
/// cluster is installed.
pub(crate) fn complete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let Completion { is_success, error_info, mut data } = call.json(&COMPLETION)?;
    let id = change_course(service, call, |change, record| {
        tracing::info!(cluster = %record.cluster.id, is_success, error_info, "the controller has finished");
        let report = data.remove("CLUSTER_OPERATORS_REPORT").unwrap_or_default();
        if report.is_null() || report.to_string().len() > MAX_REPORT_BYTES {
            return Ok(());
        }
        let details = json!({"report": failing_operators(&report)});
        events::cluster(change, record, kinds::CLUSTER_OPERATOR_REPORT, details);
        record.course.operators_report = report;
        Ok(())
    })?;
    clusters::answer(service, id, StatusCode::ACCEPTED)
}
