//! Where the service runs on the bootstrap host itself, workers need it until they have what they install.

use super::{BootstrapError, Context};
use api::{Host, HostRole, HostStage};
use kernel::Cancel;
use std::error::Error;

/// Waits until no worker needs the service any more.
pub(super) fn wait(ctx: &Context<'_>, cancel: &Cancel) -> Result<(), BootstrapError> {
    let mut last = None;
    loop {
        match ctx.brief.session().cluster_hosts(ctx.request.cluster_id, HostRole::Worker) {
            Ok(workers) => {
                let waiting = workers.iter().filter(|worker| needs_service(worker)).count();
                if waiting == 0 {
                    return Ok(());
                }
                if last.replace(waiting) != Some(waiting) {
                    tracing::info!(waiting, "waiting for workers that still need the service on this host");
                }
            }
            Err(error) => tracing::warn!(error = &error as &dyn Error, "cannot get the workers, trying again"),
        }
        if cancel.sleep(ctx.pace.workers_poll) {
            return Err(BootstrapError::Cancelled("waiting for workers"));
        }
    }
}

fn needs_service(worker: &Host) -> bool {
    use HostStage::{Installing, StartingInstallation, WaitingForControlPlane};
    let stage = worker.progress.as_ref().and_then(|progress| progress.current_stage);
    matches!(stage, Some(WaitingForControlPlane | Installing | StartingInstallation))
}
