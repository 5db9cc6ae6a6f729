//! The cluster's own operators, and the version as a whole.

use super::INTERVAL;
use crate::{
    Context,
    clock::{Ended, Look, until},
    cluster::{
        CallError,
        objects::{self, CLUSTER_OPERATOR, CLUSTER_VERSION, text},
    },
    service::{MonitoredOperator, OperatorReport, ServiceError},
};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::time::Duration;

/// The service gives up earlier.
const LIMIT: Duration = Duration::from_secs(10 * 3600);
const CONSOLE: &str = "console";
/// The cluster's version, by the service's name.
const CVO: &str = "cvo";
/// Its object has this name.
const VERSION: &str = "version";

/// How an operator is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// `available`, `progressing` or `failed`.
    pub status: &'static str,
    pub message: String,
    pub version: String,
}

impl State {
    /// By an object's conditions: the first that says something counts.
    pub(crate) fn of_conditions(object: &DynamicObject, version: &str) -> Self {
        let telling = objects::conditions(object).into_iter().find_map(|condition| {
            let status = match (condition.kind.as_str(), condition.status.as_str()) {
                ("Available", "True") => "available",
                ("Progressing", "True") => "progressing",
                ("Degraded", "True") | ("Available", "False") => "failed",
                _ => return None,
            };
            Some((status, condition.message))
        });
        let (status, message) = telling.unwrap_or(("progressing", String::new()));
        Self { status, message, version: version.to_owned() }
    }
}

/// Brings the service's knowledge of an operator up to date. True once both know that it is available.
pub(super) async fn tell(ctx: &Context, known: Option<&MonitoredOperator>, name: &str, state: &State) -> bool {
    // The service does not wait for it.
    let Some(known) = known else { return state.status == "available" };
    let has_news = !known.is(state.status)
        || !state.message.is_empty() && known.status_info.as_deref().unwrap_or_default() != state.message;
    if has_news {
        let report = OperatorReport {
            name: reported_name(name),
            status: state.status.to_owned(),
            status_info: state.message.clone(),
            version: state.version.clone(),
        };
        if let Err(error) = ctx.service.report_operator(&report).await {
            tracing::warn!(
                operator = name,
                error = &error as &dyn std::error::Error,
                "the service did not take the operator's state"
            );
            return false;
        }
        tracing::info!(operator = name, status = state.status, "reported");
        ctx.follow.look_soon();
    }
    state.status == "available"
}

/// An early version of an operator had another name.
pub(super) fn reported_name(name: &str) -> String {
    if name == "ocs" { "odf".to_owned() } else { name.to_owned() }
}

/// Waits until the console, where the cluster has it, and the version, where it is asked for, are available.
pub(super) async fn wait(ctx: &Context) -> Result<(), Ended> {
    let look = || async {
        let version = ctx.cluster.read(CLUSTER_VERSION, None, VERSION).await;
        let version = version
            .inspect_err(|error| tracing::warn!(error = error as &dyn std::error::Error, "no ClusterVersion"))
            .ok();
        let console = match version.as_ref().map(has_console) {
            None => false,
            Some(false) => true,
            Some(true) => is_up(ctx, CONSOLE, console(ctx)).await,
        };
        let whole = !ctx.config.check_cluster_version
            || match version {
                None => false,
                Some(version) => is_up(ctx, CVO, async { Ok(whole(&version)) }).await,
            };
        Look::from(console && whole)
    };
    let result = until(&ctx.clock, &ctx.end, INTERVAL, Some(LIMIT), look).await;
    for entry in overview(ctx).await.into_iter().flatten() {
        tracing::info!(operator = %entry["name"], status = %entry["status"], info = %entry["status_info"], "cluster operator");
    }
    result
}

/// A cluster can be without a console. What it does not know, it can't be without.
fn has_console(version: &DynamicObject) -> bool {
    let lists = |pointer: &str| {
        let list = version.data.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        list.into_iter().any(|capability| capability == "Console")
    };
    lists("/status/capabilities/enabledCapabilities") || !lists("/status/capabilities/knownCapabilities")
}

async fn console(ctx: &Context) -> Result<State, CallError> {
    let operator = ctx.cluster.read(CLUSTER_OPERATOR, None, CONSOLE).await?;
    Ok(State::of_conditions(&operator, text(&operator, "/status/versions/0/version")))
}

fn whole(version: &DynamicObject) -> State {
    State::of_conditions(version, text(version, "/status/desired/version"))
}

async fn is_up(ctx: &Context, name: &str, state: impl Future<Output = Result<State, CallError>>) -> bool {
    let operators = match ctx.service.operators().await {
        Ok(operators) => operators,
        Err(error) => {
            unknown(&error);
            return false;
        }
    };
    let known = operators.iter().find(|operator| operator.name == name);
    if known.is_some_and(|known| known.is("available")) {
        return true;
    }
    match state.await {
        Ok(state) => tell(ctx, known, name, &state).await,
        Err(error) => {
            tracing::warn!(operator = name, error = &error as &dyn std::error::Error, "its state can't be read");
            false
        }
    }
}

pub(super) fn unknown(error: &ServiceError) {
    tracing::warn!(error = error as &dyn std::error::Error, "the service's operators can't be read");
}

/// All operators of the cluster with their states; none if they can't be read.
pub(super) async fn overview(ctx: &Context) -> Option<Vec<Value>> {
    let operators = ctx.cluster.list(CLUSTER_OPERATOR, None, "").await;
    let operators =
        operators.inspect_err(|error| tracing::warn!(error = error as &dyn std::error::Error, "no operators")).ok()?;
    let entry = |operator: &DynamicObject| {
        let state = State::of_conditions(operator, "");
        json!({"name": objects::name(&operator.metadata), "status": state.status, "status_info": state.message})
    };
    Some(operators.iter().map(entry).collect())
}
