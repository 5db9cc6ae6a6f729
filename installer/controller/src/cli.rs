//! `landfall controller`.

use crate::{
    Surroundings, boots,
    clock::{End, Reason},
    cluster::Login,
    config::{Config, TOKEN_FILE},
    sent,
};
use anyhow::Context;
use node_certificates::Approval;
use std::{
    io::{BufWriter, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

/// The name by which the image's entry point calls this program.
pub const NAME: &str = "assisted-installer-controller";

/// What is under way has so long after SIGTERM: the node may be going down.
const LAST_MOMENT: Duration = Duration::from_millis(800);

/// Finish a cluster from inside: certificates, nodes, operators, logs
///
/// A Job in the cluster runs it; the installer on the bootstrap host writes that Job. It approves the certificate requests of the cluster's
/// hosts, tells the service when they have joined and are ready, waits for the cluster's operators, applies manifests of further ones, and
/// sends logs. Its settings are the environment of that Job.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Environment: CLUSTER_ID, INVENTORY_URL, OPENSHIFT_VERSION (required), CONTROL_PLANE_COUNT, CHECK_CLUSTER_VERSION, MUST_GATHER_IMAGE, \
NOTIFY_NUM_REBOOTS, SKIP_CERT_VERIFICATION, CA_CERT_PATH, NAMESPACE. The token is in /etc/assisted-installer-controller/token, or else in \
PULL_SECRET_TOKEN.

Examples:
  landfall controller   # in its pod
  landfall controller --kubeconfig admin.kubeconfig   # from outside

Exit codes: 0 the cluster has reached its end, 1 it could not begin, 2 wrong usage, 143 SIGTERM.")]
pub struct Controller {
    /// Certificate requests to approve: those of the cluster's hosts, or any of
    /// the two kubelet signers
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t, env = "LANDFALL_APPROVE")]
    approve: Approval,
    /// Log in to the cluster with this kubeconfig [default: the pod's service
    /// account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Print how often a node has booted, by its log of boots
    #[arg(long, value_name = "FILE", hide = true, exclusive = true)]
    count_boots: Option<PathBuf>,
    /// Print a directory as lines for a pod's log
    #[arg(long, value_name = "DIR", hide = true, exclusive = true)]
    send_directory: Option<PathBuf>,
}

impl Controller {
    /// Where its log goes beside the standard stream: in its pod, whose `/tmp` no other user shares, so that it can be sent where the API server
    /// does not give it.
    pub fn own_log(&self) -> Option<PathBuf> {
        let works = self.count_boots.is_none() && self.send_directory.is_none();
        (works && self.kubeconfig.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some())
            .then(|| crate::OWN_LOG.into())
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// Why it cannot begin.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(log) = &self.count_boots {
            println!("{}", boots::count(log).with_context(|| format!("cannot read {}", log.display()))?);
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(directory) = &self.send_directory {
            sent::write(directory, BufWriter::new(stdout()))
                .with_context(|| format!("cannot send {}", directory.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let config = Config::from_variables(|name| std::env::var(name).ok(), Path::new(TOKEN_FILE), self.approve)?;
        let mut surroundings = Surroundings::default();
        if let Some(path) = self.kubeconfig {
            surroundings.login = Login::Kubeconfig(path);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let code = runtime.block_on(async {
            let end = End::default();
            let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            let stop = end.clone();
            let signals = async {
                let code = tokio::select! {
                    _ = terminate.recv() => 143,
                    _ = interrupt.recv() => 130,
                };
                tracing::info!("asked to end: another run continues");
                stop.set(Reason::Stopped);
                code
            };
            let work = crate::run(config, surroundings, end.clone());
            let (mut signals, mut work) = (std::pin::pin!(signals), std::pin::pin!(work));
            tokio::select! {
                result = &mut work => result.map(|()| ExitCode::SUCCESS),
                code = &mut signals => {
                    // What is under way may end on its own.
                    match tokio::time::timeout(LAST_MOMENT, work).await {
                        Ok(result) => result?,
                        Err(_) => tracing::info!("a call is still under way: it is broken off"),
                    }
                    Ok(ExitCode::from(code))
                }
            }
        });
        // A call that the service does not answer must not keep this process.
        runtime.shutdown_background();
        code
    }
}
