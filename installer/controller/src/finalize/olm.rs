//! Operators that the user chose. Trouble with them leaves the cluster installed, and is told.

use super::{
    INTERVAL, Stage,
    operators::{self, State},
    report, while_in,
};
use crate::{
    Context,
    clock::{Ended, Look, until},
    cluster::{
        CallError,
        objects::{self, CSV, INSTALL_PLAN, JOB, Kind, SUBSCRIPTION, text},
    },
    manifests::{self, CustomManifest},
    service::{MonitoredOperator, OperatorReport},
};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const FETCH_INTERVAL: Duration = Duration::from_secs(10);
/// A failed operator may recover for five minutes: so many looks after the first.
const TOLERATED_FAILURES: u32 = 10;
const GIVING_UP_LIMIT: Duration = Duration::from_secs(9 * 30);
const TIMED_OUT: &str = "Waiting for operator timed out";
const MARKETPLACE: &str = "openshift-marketplace";
/// Of the Job with which a service sets an operator up; its value is the operator's name. The Job starts a script in this image.
const SETUP_JOB: &str = "agent-install.openshift.io/setup-job";

/// Goes through the stages of these operators. The error is that of the work's end.
pub(super) async fn run(ctx: &Context) -> Result<(), Ended> {
    let operators = Mutex::new(None);
    report(ctx, Stage::CsvInitialization).await;
    let fetched = while_in(ctx, Stage::CsvInitialization, FETCH_INTERVAL, || async {
        let list = ctx.service.operators().await.inspect_err(operators::unknown).ok();
        let is_there = list.is_some();
        *lock(&operators) = list;
        is_there
    });
    let mut is_whole = in_time(fetched.await)?;
    let mut operators = lock(&operators).take().unwrap_or_default();
    operators.retain(|operator| operator.operator_type == "olm");
    if is_whole && operators.is_empty() {
        return Ok(());
    }
    let are_jobs_known = AtomicBool::new(false);
    let initialized = while_in(ctx, Stage::CsvInitialization, INTERVAL, || async {
        if !are_jobs_known.load(Ordering::Relaxed) {
            are_jobs_known.store(tell_of_setup_jobs(ctx).await, Ordering::Relaxed);
        }
        are_initialized(ctx, &operators).await
    });
    is_whole &= in_time(initialized.await)?;
    report(ctx, Stage::OlmManifests).await;
    is_whole &= in_time(while_in(ctx, Stage::OlmManifests, INTERVAL, || apply(ctx, &operators)).await)?;
    report(ctx, Stage::Csv).await;
    let failures = Mutex::new(HashMap::new());
    is_whole &= in_time(while_in(ctx, Stage::Csv, INTERVAL, || are_up(ctx, &failures)).await)?;
    if !is_whole {
        give_up(ctx).await;
    }
    Ok(())
}

/// Whether the stage was over before its time was.
fn in_time(result: Result<(), Ended>) -> Result<bool, Ended> {
    match result {
        Err(Ended::Cancelled) => Err(Ended::Cancelled),
        result => Ok(result.is_ok()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// False if it is not known which there are: no operator waits for that.
async fn tell_of_setup_jobs(ctx: &Context) -> bool {
    let jobs = match ctx.cluster.list(JOB, None, SETUP_JOB).await {
        Ok(jobs) => jobs,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "setup jobs of operators can't be read");
            return false;
        }
    };
    for job in &jobs {
        let operator = job.metadata.labels.as_ref().and_then(|labels| labels.get(SETUP_JOB));
        let message = format!(
            "The setup job of operator {} runs a script with bash and oc, which are not in this controller's image: run the script of job \
             {} in namespace {} by hand, or set CONTROLLER_IMAGE of the service to an image that has them",
            operator.map_or("", String::as_str),
            objects::name(&job.metadata),
            objects::namespace(&job.metadata),
        );
        tracing::warn!("{message}");
        if let Err(error) = ctx.service.event("controller_setup_job_refused", "warning", &message, json!({})).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the service did not take the event");
        }
    }
    true
}

/// True once each has a current version that exists.
pub(crate) async fn are_initialized(ctx: &Context, operators: &[MonitoredOperator]) -> bool {
    let mut all = true;
    for operator in operators {
        let initialized = async {
            clean_up(ctx, operator).await;
            current(ctx, operator).await
        };
        match initialized.await {
            Ok(Some(_)) => {}
            Ok(None) => all = false,
            Err(error) => {
                tracing::info!(
                    operator = operator.name,
                    error = &error as &dyn std::error::Error,
                    "not initialized yet"
                );
                all = false;
            }
        }
    }
    all
}

/// The version that its subscription names, if it exists.
async fn current(ctx: &Context, operator: &MonitoredOperator) -> Result<Option<DynamicObject>, CallError> {
    let (namespace, subscription) = place(operator);
    let subscription = ctx.cluster.read(SUBSCRIPTION, Some(namespace), subscription).await?;
    match text(&subscription, "/status/currentCSV") {
        "" => Ok(None),
        name => Ok(Some(ctx.cluster.read(CSV, Some(namespace), name).await?)),
    }
}

fn place(operator: &MonitoredOperator) -> (&str, &str) {
    (operator.namespace.as_deref().unwrap_or_default(), operator.subscription_name.as_deref().unwrap_or_default())
}

/// Jobs that failed to unpack a bundle, and plans that failed, are in the way of another try.
async fn clean_up(ctx: &Context, operator: &MonitoredOperator) {
    let (namespace, subscription) = place(operator);
    let has_failed = |job: &DynamicObject| {
        let count = job.data.pointer("/status/failed").and_then(Value::as_u64).unwrap_or_default();
        count > 0 || objects::conditions(job).iter().any(|c| c.kind == "Failed" && c.status == "True")
    };
    let is_in_the_way = |plan: &DynamicObject| {
        let mut owners = plan.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.name == subscription) && text(plan, "/status/phase") == "Failed"
    };
    delete_some(ctx, JOB, MARKETPLACE, has_failed).await;
    delete_some(ctx, INSTALL_PLAN, namespace, is_in_the_way).await;
}

/// One that can't be deleted keeps no other.
async fn delete_some(ctx: &Context, kind: Kind, namespace: &str, is_meant: impl Fn(&DynamicObject) -> bool) {
    let failed = |error: &CallError| {
        tracing::info!(namespace, error = error as &dyn std::error::Error, "not cleaned up");
    };
    let list = ctx.cluster.list(kind, Some(namespace), "").await.inspect_err(failed).unwrap_or_default();
    for object in list.iter().filter(|object| is_meant(object)) {
        let _ = ctx.cluster.delete(kind, Some(namespace), objects::name(&object.metadata)).await.inspect_err(failed);
    }
}

/// Applies the manifests of operators that are initialized. True once all are applied.
async fn apply(ctx: &Context, operators: &[MonitoredOperator]) -> bool {
    let list = match ctx.service.custom_manifests().await {
        Ok(list) => list,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the operators' manifests can't be read");
            return false;
        }
    };
    let list: Vec<CustomManifest> = match serde_json::from_slice::<Option<_>>(&list) {
        Ok(list) => list.unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "the operators' manifests are not a list");
            return false;
        }
    };
    let mut initialized = HashSet::new();
    for operator in operators {
        if are_initialized(ctx, std::slice::from_ref(operator)).await {
            initialized.insert(operator.name.as_str());
        }
    }
    apply_of(ctx, &list, &initialized).await && initialized.len() == operators.len()
}

/// Applies the manifests of these operators; one that fails stops no other.
pub(crate) async fn apply_of(ctx: &Context, list: &[CustomManifest], operators: &HashSet<&str>) -> bool {
    if list.is_empty() {
        return true;
    }
    let cluster = match ctx.admin.cluster().await {
        Ok(cluster) => cluster,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "no administrator's access yet");
            return false;
        }
    };
    let mut all = true;
    for manifest in list.iter().filter(|manifest| operators.contains(manifest.name.as_str())) {
        if let Err(error) = manifests::apply(&cluster, manifest).await {
            tracing::warn!(operator = manifest.name, error = &error as &dyn std::error::Error, "manifests not applied");
            all = false;
        }
    }
    all
}

/// True once none is pending.
async fn are_up(ctx: &Context, failures: &Mutex<HashMap<String, u32>>) -> bool {
    let Ok(operators) = ctx.service.operators_now().await.inspect_err(operators::unknown) else { return false };
    let mut pending = 0;
    for operator in operators.iter().filter(|operator| operator.operator_type == "olm" && operator.is_pending()) {
        pending += 1;
        let version = match current(ctx, operator).await {
            Ok(Some(version)) => version,
            Ok(None) => continue,
            Err(error) => {
                tracing::info!(
                    operator = operator.name,
                    error = &error as &dyn std::error::Error,
                    "its state can't be read"
                );
                continue;
            }
        };
        let state = State {
            status: match text(&version, "/status/phase") {
                "Succeeded" => "available",
                "Failed" => "failed",
                _ => "progressing",
            },
            message: text(&version, "/status/message").to_owned(),
            version: text(&version, "/spec/version").to_owned(),
        };
        if state.status == "failed" {
            let mut failures = lock(failures);
            let count = failures.entry(operator.name.clone()).or_default();
            *count += 1;
            if *count <= TOLERATED_FAILURES {
                continue;
            }
            ctx.faults.add_operator(&operator.name);
        } else {
            lock(failures).remove(&operator.name);
        }
        if operators::tell(ctx, Some(operator), &operator.name, &state).await {
            pending -= 1;
        }
    }
    pending == 0
}

/// Those that are still pending have failed; the installation has not.
async fn give_up(ctx: &Context) {
    let look = || async {
        let Ok(operators) = ctx.service.operators_now().await.inspect_err(operators::unknown) else {
            return Look::Again;
        };
        let mut all = true;
        for operator in operators.iter().filter(|operator| operator.operator_type == "olm" && operator.is_pending()) {
            ctx.faults.add_operator(&operator.name);
            let report = OperatorReport {
                name: operators::reported_name(&operator.name),
                status: "failed".to_owned(),
                status_info: TIMED_OUT.to_owned(),
                version: operator.version.clone().unwrap_or_default(),
            };
            if let Err(error) = ctx.service.report_operator(&report).await {
                tracing::warn!(operator = operator.name, error = &error as &dyn std::error::Error, "not reported");
                all = false;
            }
        }
        Look::from(all)
    };
    if until(&ctx.clock, &ctx.end, INTERVAL, Some(GIVING_UP_LIMIT), look).await.is_err() {
        tracing::warn!("the service does not know of all operators that failed");
    }
}
