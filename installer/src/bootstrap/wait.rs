//! Waits until the control plane has become one of other hosts (docs/compatibility.md#waiting-for-the-control-plane). None of these waits
//! has its own limit: the service has one for each stage, and there is no user to press a key.

use super::{
    BootstrapError, Context, Report, controller, files::below, machine_configs, nodes, services, services::Failed,
    taints::Policy, workers,
};
use crate::{host::Host, kube};
use api::{HostStage, LogsState};
use kernel::Cancel;
use std::error::Error;

const KUBECONFIG: &str = "/opt/openshift/auth/kubeconfig";
const BOOTKUBE_DONE: &str = "/opt/openshift/.bootkube.done";
/// Reports the bootstrap's progress; ends when etcd is of the masters alone.
const PROGRESS: &str = "progress.service";

/// Waits until the temporary control plane has done its work and this host may go: masters have joined, etcd is theirs, the
/// controller runs in the cluster, and machine configs have settled. `report` gets this host's stages; those of others
/// are reported to the service directly.
///
/// Names are looked up by the live system's own resolver each time, so that nothing needs to be read again for it.
pub fn wait_for_control_plane(
    host: &dyn Host,
    ctx: &Context<'_>,
    report: &mut Report<'_>,
    cancel: &Cancel,
) -> Result<(), BootstrapError> {
    let kube = kube::Client::open(&below(host.root(), KUBECONFIG), cancel)?;
    report(HostStage::WaitingForControlPlane, "Waiting for masters to join bootstrap control plane");
    let id = ctx.request.cluster_id;
    // Without it only the platform's peculiarities are lost.
    let cluster = ctx.patient.session().cluster_without_hosts(id).unwrap_or_else(|error| {
        tracing::warn!(error = &error as &dyn Error, "cannot get the cluster from the service, continuing without it");
        api::Cluster::default()
    });
    let policy = Policy::new(&cluster, ctx.request.openshift_version.as_deref());
    nodes::wait(&kube, ctx, &policy, cancel)?;
    report(HostStage::WaitingForBootkube, "");
    wait_for_bootkube(host, ctx, cancel)?;
    report(HostStage::WaitingForBootkube, "waiting for ETCD bootstrap to be complete");
    services::wait_for_state(host, PROGRESS, "inactive", Failed::MayPass, ctx.pace.poll, cancel)?;
    report(HostStage::WaitingForController, "waiting for controller pod ready event");
    controller::wait(&kube, ctx, cancel)?;
    if let Err(error) = ctx.patient.session().put_cluster_logs_progress(id, LogsState::Requested) {
        tracing::warn!(error = &error as &dyn Error, "cannot announce the controller's logs to the service");
    }
    controller::upload_logs(&kube, ctx);
    if nodes::wait_for_invoker(&kube, ctx, cancel)?.as_deref() == Some(nodes::AGENT_INSTALLER) {
        workers::wait(ctx, cancel)?;
    }
    machine_configs::wait(&kube, ctx, cancel)
}

/// Waits until bootkube says that it is done.
pub fn wait_for_bootkube(host: &dyn Host, ctx: &Context<'_>, cancel: &Cancel) -> Result<(), BootstrapError> {
    let done = below(host.root(), BOOTKUBE_DONE);
    while !done.exists() {
        if cancel.sleep(ctx.pace.poll) {
            return Err(BootstrapError::Cancelled("waiting for bootkube"));
        }
    }
    Ok(())
}
