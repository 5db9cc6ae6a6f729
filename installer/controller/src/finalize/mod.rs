//! From the last installed host to a finished cluster: stages in their order, each told to the service before its work.

mod completion;
mod olm;
mod operators;

pub(crate) use olm::{apply_of, are_initialized};

use crate::{
    Context,
    clock::{Ended, Look, Reason, until},
    cluster::objects::{self, CONFIG_MAP},
};
use std::time::Duration;

/// Between two tries of anything here.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30);
const CA_INTERVAL: Duration = Duration::from_secs(10);
/// Where the cluster keeps the authority that signs its ingress.
const INGRESS_CA: (&str, &str, &str) = ("openshift-config-managed", "default-ingress-cert", "ca-bundle.crt");

/// Stages by the service's names for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    ClusterOperators,
    RouterCa,
    CsvInitialization,
    OlmManifests,
    Csv,
    Done,
}

impl Stage {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ClusterOperators => "Waiting for cluster operators",
            Self::RouterCa => "Adding router ca",
            Self::CsvInitialization => "Waiting for olm operators csv initialization",
            Self::OlmManifests => "Applying olm manifests",
            Self::Csv => "Waiting for olm operators csv",
            Self::Done => "Done",
        }
    }
}

/// Runs once the service says that the cluster is finalizing. The service gets one completion at most.
pub(crate) async fn run(ctx: &Context) {
    let mut seen = ctx.follow.subscribe();
    let is_finalizing = async {
        let wanted =
            seen.wait_for(|snapshot| snapshot.as_ref().is_some_and(|snapshot| snapshot.status == "finalizing"));
        wanted.await.is_ok()
    };
    let is_finalizing = tokio::select! {
        is_finalizing = is_finalizing => is_finalizing,
        () = ctx.end.wait() => false,
    };
    if !is_finalizing {
        return;
    }
    let result = stages(ctx).await;
    let result = match ctx.end.reason() {
        None => Some(result),
        Some(Reason::Finished) => {
            let last = ctx.follow.last();
            last_word(last.as_ref().map_or("", |last| last.status.as_str()), result)
        }
        // Another run of this program takes over.
        Some(Reason::Stopped) => None,
    };
    if let Some(result) = result {
        completion::send(ctx, result).await;
    }
}

/// What is left to say of a cluster whose status ended the work: why a failed one is not finished, but not that it is.
fn last_word(status: &str, result: Result<(), Unfinished>) -> Option<Result<(), Unfinished>> {
    match status {
        "installed" | "adding-hosts" => Some(Ok(())),
        "error" | "cancelled" => result.is_err().then_some(result),
        // The service knows the cluster no more.
        _ => None,
    }
}

/// Why the cluster is not finished, for the service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfinished {
    #[error("Stopped waiting for cluster operators to be available: {0}")]
    Operators(Ended),
    #[error("Stopped waiting for router ca data: {0}")]
    RouterCa(Ended),
}

async fn stages(ctx: &Context) -> Result<(), Unfinished> {
    report(ctx, Stage::ClusterOperators).await;
    operators::wait(ctx).await.map_err(Unfinished::Operators)?;
    report(ctx, Stage::RouterCa).await;
    until(&ctx.clock, &ctx.end, CA_INTERVAL, None, || send_router_ca(ctx)).await.map_err(Unfinished::RouterCa)?;
    // Neither their trouble nor the end of the work makes the cluster unfinished.
    if olm::run(ctx).await.is_ok() {
        report(ctx, Stage::Done).await;
    }
    Ok(())
}

/// Tells the service which stage begins. What follows does not depend on it where the service refuses: the cluster is past that stage, or at
/// its end. Where it does not answer, it is asked again. Nothing begins after the end of the work.
pub(crate) async fn report(ctx: &Context, stage: Stage) {
    if ctx.end.is_set() {
        return;
    }
    let look = || async {
        match ctx.service.put_finalizing_stage(stage.as_str()).await {
            Ok(()) => {
                tracing::info!(stage = stage.as_str(), "stage");
                Look::Done
            }
            Err(error) => {
                tracing::warn!(
                    stage = stage.as_str(),
                    error = &error as &dyn std::error::Error,
                    "the service did not take the stage"
                );
                Look::from(matches!(error.status(), Some(400 | 409)))
            }
        }
    };
    // Cancelled: what is left is what the end asks for.
    let _ = until(&ctx.clock, &ctx.end, INTERVAL, None, look).await;
}

/// As [`until`], as long as the service gives the stage time.
pub(crate) async fn while_in<F: Future<Output = bool>>(
    ctx: &Context,
    stage: Stage,
    interval: Duration,
    mut look: impl FnMut() -> F,
) -> Result<(), Ended> {
    let look = || {
        let look = look();
        async {
            match look.await {
                true => Look::Done,
                false if is_timed_out(ctx, stage) => Look::Over(Ended::StageTimedOut),
                false => Look::Again,
            }
        }
    };
    until(&ctx.clock, &ctx.end, interval, None, look).await
}

fn is_timed_out(ctx: &Context, stage: Stage) -> bool {
    ctx.follow.last().is_some_and(|seen| seen.stage_timed_out && seen.finalizing_stage == stage.as_str())
}

/// Sends the authority of the cluster's ingress: kubeconfigs need it.
async fn send_router_ca(ctx: &Context) -> Look {
    let (namespace, name, key) = INGRESS_CA;
    let ca = match ctx.cluster.read(CONFIG_MAP, Some(namespace), name).await {
        Ok(map) => objects::entry(&map, key),
        Err(error) => {
            tracing::info!(error = &error as &dyn std::error::Error, "no authority of the ingress yet");
            return Look::Again;
        }
    };
    let Some(ca) = ca.filter(|ca| !ca.is_empty()) else { return Look::Again };
    match ctx.service.upload_ingress_ca(&ca).await {
        Ok(()) => Look::Done,
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the service did not take the authority of the ingress"
            );
            Look::Again
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_has_failed_is_never_said_to_be_complete() {
        let stopped = || Err(Unfinished::RouterCa(Ended::Cancelled));
        for (status, result, said) in [
            ("installed", Ok(()), Some(true)),
            ("installed", stopped(), Some(true)),
            ("adding-hosts", stopped(), Some(true)),
            ("error", stopped(), Some(false)),
            ("error", Ok(()), None),
            ("cancelled", stopped(), Some(false)),
            ("cancelled", Ok(()), None),
            ("finalizing", stopped(), None),
        ] {
            assert_eq!(last_word(status, result).map(|result| result.is_ok()), said, "{status}");
        }
    }
}
