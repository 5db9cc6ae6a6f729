//! The role flow: carries out a plan against the machine and the service.

mod masters;
mod write;

pub use write::write_disk;

use crate::{
    bootstrap::{self, BootstrapError, Context, configuring::Watcher},
    host::{Host, HostError, WriteError},
    network::LiveNetwork,
    plan::{Action, Plan, PlanError, RootDeploy, plan},
    programs::Program,
    report::{Reporter, ReporterError},
    root_deploy::{self, DeployError},
    target::{self, TargetError, copy_registry_data, skip_mco_reboot},
};
use api::{Client, ClientError, HostProgress, HostStage, InstallDocument, LogsState, RetryPolicy};
use diskwrite::Event;
use kernel::Cancel;
use std::{
    error::Error,
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

/// The longest text sent as the info of `Failed`: the service keeps 2048 characters, and people read one line.
const MAX_FAILURE_CHARS: usize = 1000;
/// A service that does not answer delays nothing for longer.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);
/// Where a live medium that carries a registry has it.
const LIVE_REGISTRY: &str = "run/media/iso/registry";
/// On hosts that bare-metal provisioning started: it reboots them itself.
const IRONIC_AGENT: &str = "ironic-agent.service";

/// How long things take; tests make it short.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between attempts of writing.
    pub write_retry: Duration,
    /// Between looks at the masters.
    pub masters_poll: Duration,
    /// What a bootstrap host waits for.
    pub bootstrap: bootstrap::Pace,
    /// What the disk that was written waits for.
    pub target: target::Pace,
    /// How long reports may take to get out at the end; a restarting service is retried for about half an hour.
    pub flush: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            write_retry: Duration::from_secs(1),
            masters_poll: Duration::from_secs(5),
            bootstrap: bootstrap::Pace::default(),
            target: target::Pace::default(),
            flush: Duration::from_secs(35 * 60),
        }
    }
}

/// Why an installation failed.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The request can't be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Reporter(#[from] ReporterError),
    #[error(transparent)]
    Client(ClientError),
    #[error("cannot get this host's Ignition config from the service")]
    Ignition { source: ClientError },
    #[error("the service's reply ({len} bytes) is not this host's Ignition config: {reason}")]
    NotIgnition { len: usize, reason: &'static str },
    #[error("cannot write {image} to {} (attempt {attempt} of {attempts})", device.display())]
    Write {
        /// The image, without secrets.
        image: String,
        device: PathBuf,
        attempt: u32,
        /// Attempts that a cause which may pass is worth.
        attempts: u32,
        source: WriteError,
    },
    /// The temporary control plane, or what becomes of it.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The image, into the running root.
    #[error("cannot deploy {image} to the running system's root (attempt {attempt} of {attempts})")]
    Deploy { image: String, attempt: u32, attempts: u32, source: DeployError },
    /// SIGINT or SIGTERM while writing; the cause has the disk's state.
    #[error("cancelled by a signal while writing the disk")]
    WriteCancelled { source: WriteError },
    /// The disk that was written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// SIGINT or SIGTERM.
    #[error("cancelled by a signal while {0}")]
    Cancelled(&'static str),
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Events for observers.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A stage is reached, as reported to the service.
    Stage(&'a HostProgress),
    /// The image is being written.
    Image(&'a Event),
}

/// Installs as `document` asks. An error has been reported to the service as stage `Failed`.
pub fn run(
    document: &InstallDocument,
    host: &dyn Host,
    cancel: &Cancel,
    pace: Pace,
    on_news: &mut dyn FnMut(News),
) -> Result<(), FlowError> {
    let request = &document.request;
    let config = document.service.client_config();
    let mut reporter = Reporter::start(&config, request.infra_env_id, request.host_id, cancel)?;
    if let Some(path) = &document.stage_file {
        reporter.tell(path);
    }
    let result = (|| {
        let plan = planned(document, host.root())?;
        for (index, action) in plan.actions.iter().enumerate() {
            tracing::info!("plan: {}. {action}", index + 1);
        }
        let client =
            |retry| Ok::<_, FlowError>(Client::new(&config, retry).map_err(FlowError::Client)?.stopped_by(cancel));
        let (patient, brief) = (client(RetryPolicy::Installer)?, client(RetryPolicy::Never)?);
        let mut flow = Flow {
            document,
            host,
            patient,
            brief,
            cancel,
            pace,
            reporter: &mut reporter,
            on_news: &mut *on_news,
            ignition: None,
            watcher: None,
        };
        plan.actions.iter().try_for_each(|action| flow.carry_out(action))
    })();
    if let Err(error) = &result {
        tell(&reporter, on_news, HostStage::Failed, &failure_text(error));
    }
    reporter.finish(pace.flush, cancel);
    result
}

/// The plan for the host whose root is `root`.
pub fn planned(document: &InstallDocument, root: &Path) -> Result<Plan, PlanError> {
    let mut plan = plan(&document.request, document.reboot, document.reboot_delay())?;
    if let Some(reason) = plan.keep_address(&LiveNetwork::read(root, &document.service.url)) {
        tracing::warn!("{reason}");
    }
    Ok(plan)
}

fn tell(reporter: &Reporter, on_news: &mut dyn FnMut(News), stage: HostStage, info: &str) {
    let progress = HostProgress { current_stage: stage, progress_info: info.to_owned() };
    reporter.stage(stage, info);
    on_news(News::Stage(&progress));
}

struct Flow<'a> {
    document: &'a InstallDocument,
    host: &'a dyn Host,
    patient: Client,
    /// For requests that a loop repeats.
    brief: Client,
    cancel: &'a Cancel,
    pace: Pace,
    reporter: &'a mut Reporter,
    on_news: &'a mut dyn FnMut(News),
    ignition: Option<Vec<u8>>,
    /// Of a bootstrap host.
    watcher: Option<Watcher>,
}

impl Flow<'_> {
    fn carry_out(&mut self, action: &Action) -> Result<(), FlowError> {
        if self.cancel.is_cancelled() {
            return Err(FlowError::Cancelled("installing"));
        }
        tracing::debug!(%action, "next");
        // Requests to the service follow the pending reports, so that its records are in order. Writing doesn't wait:
        // it requests nothing.
        if !matches!(action, Action::Report { .. } | Action::WriteImage(_)) {
            self.reporter.flush(ORDER_PATIENCE, self.cancel);
        }
        match action {
            Action::ClearBootSector { device } => {
                warn(self.host.clear_boot_sector(device), "cannot clear a disk's boot sector, continuing");
            }
            Action::Report { stage, info } => self.tell(*stage, info),
            Action::CleanDisk { device } => self.clean(device),
            Action::FetchIgnition { infra_env_id, host_id } => {
                let fetched = self.patient.session().host_ignition(*infra_env_id, *host_id);
                let config = fetched.map_err(|source| FlowError::Ignition { source })?;
                check_ignition(&config)?;
                self.ignition = Some(config);
            }
            Action::WriteImage(write) => {
                let (reporter, on_news) = (&mut *self.reporter, &mut *self.on_news);
                let mut observe = |event: &Event| {
                    reporter.image(event);
                    on_news(News::Image(event));
                };
                write_disk(self.host, write, self.ignition.as_deref(), self.cancel, self.pace, &mut observe)?;
            }
            Action::DeployToRoot(deploy) => self.deploy(deploy)?,
            Action::WaitForMasters { cluster_id, ready } => {
                masters::wait(&self.brief, *cluster_id, *ready, self.cancel, self.pace)?;
            }
            Action::SetBootOrder { device } => {
                warn(self.host.set_boot_order(device, self.cancel), "cannot set the firmware's boot order, continuing");
            }
            Action::CopyRegistryData { device } => self.copy_registry_data(device)?,
            Action::SkipMcoReboot { device, append_kargs } => {
                let ignition = self.ignition.as_deref().unwrap_or_default();
                let done = skip_mco_reboot(self.host, device, ignition, append_kargs, &self.pace.target, self.cancel);
                warn(done, "cannot skip a reboot: the host will reboot once more after the installation");
            }
            Action::SendLogs { bootstrap } => self.send_logs(*bootstrap),
            Action::Reboot { delay_seconds, allowed } => self.reboot(Duration::from_secs(*delay_seconds), *allowed)?,
            Action::StartBootstrap { .. } => bootstrap::start(self.host, &self.bootstrap(), self.cancel)?,
            Action::WatchConfiguring { .. } => {
                self.watcher = Some(Watcher::start(self.host.root(), &self.bootstrap(), self.cancel)?);
            }
            Action::WaitForBootkube => bootstrap::wait_for_bootkube(self.host, &self.bootstrap(), self.cancel)?,
            Action::MergeIgnition { .. } => {
                self.ignition = Some(bootstrap::single_node_ignition(self.host, &self.bootstrap(), self.cancel)?);
            }
            Action::WaitForControlPlane { .. } => {
                let context = Context {
                    request: &self.document.request,
                    service: &self.document.service,
                    patient: &self.patient,
                    brief: &self.brief,
                    pace: self.pace.bootstrap,
                };
                let (reporter, on_news) = (&*self.reporter, &mut *self.on_news);
                let mut report = |stage, info: &str| tell(reporter, on_news, stage, info);
                bootstrap::wait_for_control_plane(self.host, &context, &mut report, self.cancel)?;
            }
        }
        Ok(())
    }

    fn bootstrap(&self) -> Context<'_> {
        Context {
            request: &self.document.request,
            service: &self.document.service,
            patient: &self.patient,
            brief: &self.brief,
            pace: self.pace.bootstrap,
        }
    }

    fn tell(&mut self, stage: HostStage, info: &str) {
        tell(self.reporter, self.on_news, stage, info);
    }

    /// In the words that people look for (docs/compatibility.md#installation-order).
    fn clean(&mut self, device: &Path) {
        let Err(error) = self.host.clean_disk(device, self.cancel) else { return };
        let device = device.display();
        tracing::warn!("failed to prepare install device {device}, err {}", failure_text(&error));
        let info = format!(
            "Could not clean install device {device}. The installation will continue. If the installation fails, clean the \
             disk and try again"
        );
        self.tell(HostStage::StartingInstallation, &info);
    }

    fn deploy(&self, deploy: &RootDeploy) -> Result<(), FlowError> {
        let ignition = self.ignition.as_deref().unwrap_or_default();
        let mut attempt = 1;
        loop {
            let source = match root_deploy::deploy(self.host, deploy, ignition, self.cancel) {
                Ok(()) => return Ok(()),
                Err(_) if self.cancel.is_cancelled() => return Err(FlowError::Cancelled("deploying the system")),
                Err(source) => source,
            };
            let error = FlowError::Deploy { image: deploy.image.clone(), attempt, attempts: deploy.attempts, source };
            if attempt >= deploy.attempts {
                return Err(error);
            }
            tracing::warn!(error = &error as &dyn Error, "trying again");
            if self.cancel.sleep(self.pace.write_retry) {
                return Err(FlowError::Cancelled("waiting to deploy the system again"));
            }
            attempt += 1;
        }
    }

    /// Only live media for installations without a registry have one.
    fn copy_registry_data(&mut self, device: &Path) -> Result<(), FlowError> {
        if !self.host.root().join(LIVE_REGISTRY).exists() {
            return Ok(());
        }
        self.tell(HostStage::CopyingRegistryDataToDisk, "");
        let (reporter, on_news) = (&*self.reporter, &mut *self.on_news);
        let mut on_percent = |percent: u64| {
            tell(reporter, on_news, HostStage::CopyingRegistryDataToDisk, &format!("{percent}%"));
        };
        Ok(copy_registry_data(self.host, device, &self.pace.target, &mut on_percent, self.cancel)?)
    }

    /// The logs are there before the reboot, which a host may not come back from.
    fn send_logs(&self, bootstrap: bool) {
        let request = &self.document.request;
        let asked =
            self.patient.session().put_logs_progress(request.infra_env_id, request.host_id, LogsState::Requested);
        warn(asked, "cannot announce the logs to the service");
        warn(self.host.send_logs(bootstrap), "cannot send the logs, continuing");
    }

    /// The delay and the words of docs/compatibility.md#reboot.
    fn reboot(&mut self, delay: Duration, allowed: bool) -> Result<(), FlowError> {
        if let Some(watcher) = self.watcher.take() {
            watcher.finish();
        }
        let ironic = self.ironic_reboots();
        self.tell(HostStage::Rebooting, if ironic { "Ironic will reboot the node shortly" } else { "" });
        // The service must know of the reboot, or it takes the silence for a failure.
        self.reporter.flush(self.pace.flush, self.cancel);
        match (allowed, ironic) {
            (false, _) => tracing::info!("installed; not rebooting, as the request does not allow it"),
            // Ironic takes over from here, and our agent must stop asking for steps.
            (true, true) => {
                let stop = ["--no-block", "stop", "agent.service"].map(OsStr::new);
                self.host.run(Program::Systemctl, &stop, self.cancel).map_err(HostError::from)?;
            }
            (true, false) => {
                tracing::info!(delay_seconds = delay.as_secs(), "rebooting");
                self.host.reboot(delay)?;
            }
        }
        Ok(())
    }

    fn ironic_reboots(&self) -> bool {
        let ask = ["list-units", "--no-legend", IRONIC_AGENT].map(OsStr::new);
        match self.host.run(Program::Systemctl, &ask, self.cancel) {
            Ok(units) => units.contains(IRONIC_AGENT),
            Err(error) => {
                tracing::debug!(error = &error as &dyn Error, "cannot look for {IRONIC_AGENT}");
                false
            }
        }
    }
}

/// Logs an error that stops nothing.
fn warn<E: Error + 'static>(result: Result<(), E>, what: &str) {
    if let Err(error) = result {
        tracing::warn!(error = &error as &dyn Error, "{what}");
    }
}

/// A proxy's or captive portal's page must not end up on the disk.
fn check_ignition(config: &[u8]) -> Result<(), FlowError> {
    let fail = |reason| FlowError::NotIgnition { len: config.len(), reason };
    let value: serde_json::Value = serde_json::from_slice(config).map_err(|_| fail("not JSON"))?;
    match value.pointer("/ignition/version") {
        Some(serde_json::Value::String(_)) => Ok(()),
        _ => Err(fail("no ignition.version")),
    }
}

/// The error and its causes in one line; of a long one the start and, more of it, the end.
fn failure_text(error: &dyn Error) -> String {
    let text: Vec<char> = kernel::in_full(error).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.len() <= MAX_FAILURE_CHARS {
        return text.into_iter().collect();
    }
    let head = MAX_FAILURE_CHARS / 4;
    let tail = text.len() - (MAX_FAILURE_CHARS - head - 3);
    text[..head].iter().chain(['.'; 3].iter()).chain(&text[tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ignition_configs_pass() {
        assert!(check_ignition(br#"{"ignition":{"version":"3.2.0"}}"#).is_ok());
        for other in [&b"<html>"[..], b"", b"{}", b"[]", br#"{"ignition":{}}"#, br#"{"ignition":{"version":3}}"#] {
            assert!(matches!(check_ignition(other), Err(FlowError::NotIgnition { .. })));
        }
    }

    #[test]
    fn failures_are_one_line_with_causes_and_keep_both_ends() {
        let source = WriteError { transient: false, cause: "no space\nleft".into() };
        let error = FlowError::Write { image: "i".into(), device: "/dev/x".into(), attempt: 1, attempts: 3, source };
        assert_eq!(failure_text(&error), "cannot write i to /dev/x (attempt 1 of 3): no space left");
        let source = WriteError { transient: false, cause: format!("{}END", "x".repeat(5000)).into() };
        let error = FlowError::Write { image: "i".into(), device: "/dev/x".into(), attempt: 1, attempts: 3, source };
        let text = failure_text(&error);
        assert_eq!(text.chars().count(), MAX_FAILURE_CHARS);
        assert!(text.starts_with("cannot write i") && text.ends_with("END"));
    }
}
