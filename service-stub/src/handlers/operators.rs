//! Operators that can be added to clusters, their bundles, and the choice of a cluster.

use super::support_levels::{self, ARCHITECTURES};
use crate::features;
use crate::http::{Answer, Call, Refusal};
use crate::model::ClusterRecord;
use crate::operators::{self, BundleChoice, OPERATORS, OperatorChoice, Target};
use crate::service::Service;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// GET /v2/supported-operators.
pub(crate) fn supported(_: &Service, _: &Call) -> Result<Answer, Refusal> {
    let names: Vec<&str> = OPERATORS.iter().map(|operator| operator.name).collect();
    Ok(Answer::json(StatusCode::OK, &names))
}

/// GET /v2/supported-operators/{name}: none has settings. The real service says nothing about an unknown one.
pub(crate) fn properties(_: &Service, call: &Call) -> Result<Answer, Refusal> {
    match operators::find(call.path("operator_name")) {
        Some(_) => Ok(Answer::json(StatusCode::OK, &json!([]))),
        None => Ok(Answer::empty(StatusCode::NOT_FOUND)),
    }
}

/// GET /v2/operators/bundles.
pub(crate) fn bundles(_: &Service, call: &Call) -> Result<Answer, Refusal> {
    let version = call.query("openshift_version");
    let query = support_levels::query(call, version.unwrap_or_default(), &ARCHITECTURES)?;
    let single_node = single_node(call)?;
    let query = version.map(|_| query);
    query.as_ref().map(features::check_query).transpose().map_err(Refusal::invalid)?;
    Ok(Answer::json(StatusCode::OK, &operators::bundles(query.as_ref(), single_node)))
}

/// GET /v2/operators/bundles/{id}.
pub(crate) fn bundle(_: &Service, call: &Call) -> Result<Answer, Refusal> {
    let bundle = operators::bundle(call.path("id"), single_node(call)?);
    // The real service's status.
    bundle.map(|bundle| Answer::json(StatusCode::OK, &bundle)).map_err(|unknown| Refusal::internal(&unknown))
}

/// The features that a bundle is for: the published API has one.
fn single_node(call: &Call) -> Result<bool, Refusal> {
    let mut features = call.query.iter().filter(|(name, _)| name == "feature_ids").map(|(_, value)| value.as_str());
    match features.clone().position(|feature| feature != "SNO") {
        None => Ok(features.next().is_some()),
        Some(at) => Err(Refusal::bad_request(format!("feature_ids.{at} in query should be one of [SNO]"))),
    }
}

/// Sets the operators of a cluster where some are given; `architecture` is the one that was asked for.
pub(crate) fn choose(
    record: &mut ClusterRecord,
    architecture: &str,
    operators: Option<Vec<Value>>,
    bundles: Option<Vec<Value>>,
) -> Result<(), Refusal> {
    if operators.is_none() && bundles.is_none() {
        return Ok(());
    }
    let operators: Vec<OperatorChoice> = typed("olm_operators", operators)?;
    let bundles: Vec<BundleChoice> = typed("operator_bundles", bundles)?;
    let version = record.cluster.openshift_version.clone();
    let target = Target { version: &version, architecture, single_node: record.single_node() };
    let chosen = operators::select(target, &operators, &bundles).map_err(Refusal::invalid)?;
    if let Some(what) = operators::not_carried(target, &chosen) {
        return Err(Refusal::not_implemented(what));
    }
    record.course.set_olm_operators(chosen);
    Ok(())
}

fn typed<T: DeserializeOwned>(name: &str, list: Option<Vec<Value>>) -> Result<Vec<T>, Refusal> {
    api::json::from_value(Value::from(list.unwrap_or_default()))
        .map_err(|error| Refusal::bad_request(format!("{name} in body: {error}")))
}
