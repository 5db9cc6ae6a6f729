//! The install configuration of a cluster, as `openshift-install` takes it.

use crate::events::{self, kinds};
use crate::find::find_cluster;
use crate::http::{Answer, Call, Refusal};
use crate::install_config;
use crate::model::ClusterRecord;
use crate::service::Service;
use api::Secret;
use axum::http::StatusCode;
use serde_json::Value;

/// Longest override, bytes. A list of as many empty elements makes a configuration of some MB.
const MAX_OVERRIDE_BYTES: usize = 64 << 10;

/// GET /v2/clusters/{id}/install-config: a document as a JSON text, with the pull secret: for users alone, who may set it as well.
pub(crate) fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let model = service.store.model();
    let record = find_cluster(&model, call.cluster_id()?)?;
    if record.day2() {
        return Err(Refusal::invalid(
            "The install config is not available because this cluster resource is used only for adding additional hosts to an existing cluster",
        ));
    }
    let text = install_config::text(&record, &model, &service.settings.site()).map_err(|error| {
        let reason = format!("Failed to get cluster {} install config: {error}", record.cluster.id);
        Refusal::Application(StatusCode::INTERNAL_SERVER_ERROR, reason)
    })?;
    Ok(Answer::json(StatusCode::OK, &text))
}

/// PATCH /v2/clusters/{id}/install-config: a JSON text of a JSON object that is decoded over it, in any state of the cluster.
pub(crate) fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let text = call.json_text("installConfigParams")?;
    if text.len() > MAX_OVERRIDE_BYTES {
        return Err(Refusal::invalid(format!("the override is longer than {MAX_OVERRIDE_BYTES} bytes")));
    }
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        install_config::check_override(&record, change.model(), &service.settings.site(), &text)
            .map_err(Refusal::invalid)?;
        record.cluster.install_config_overrides = Secret::new(text);
        record.course.set_console(install_config::has_console(&record));
        events::cluster(change, &record, kinds::INSTALL_CONFIG_APPLIED, Value::Null);
        change.put_cluster(record);
        Ok(Answer::empty(StatusCode::CREATED))
    })
}
