//! The role flow: carries out a plan against the machine and the service.

use crate::{
    cancel::Cancel,
    document::Document,
    host::{Host, HostError, WriteError},
    plan::{Action, ImageWrite, PlanError, plan},
    report::{Reporter, ReporterError},
};
use api::{Client, ClientError, ClusterId, HostRole, HostStage, RetryPolicy};
use diskwrite::Event;
use std::{error::Error, path::PathBuf, time::Duration};

/// The longest text sent as the info of `Failed`: the service keeps 2048 characters, and people read one line.
const MAX_FAILURE_CHARS: usize = 1000;
/// The kind of a cluster that exists already and gets more hosts.
const ADD_HOSTS_KIND: &str = "AddHostsCluster";

/// How long things take; tests make it short.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between attempts of writing.
    pub write_retry: Duration,
    /// Between looks at the masters.
    pub masters_poll: Duration,
    /// How long reports may take to get out at the end; a restarting service is retried for about half an hour.
    pub flush: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            write_retry: Duration::from_secs(1),
            masters_poll: Duration::from_secs(5),
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
    /// No reports possible.
    #[error(transparent)]
    Reporter(#[from] ReporterError),
    /// No client.
    #[error(transparent)]
    Client(ClientError),
    /// No Ignition config.
    #[error("cannot get this host's Ignition config from the service")]
    Ignition {
        /// Cause.
        source: ClientError,
    },
    /// Something else came.
    #[error("what the service sent as this host's Ignition config ({len} bytes) is none: {reason}")]
    NotIgnition {
        /// Size in bytes.
        len: usize,
        /// What is missing.
        reason: &'static str,
    },
    /// The image.
    #[error("cannot write {image} to {} (attempt {attempt} of {attempts})", device.display())]
    Write {
        /// The image, without secrets.
        image: String,
        /// The disk.
        device: PathBuf,
        /// Which attempt it was.
        attempt: u32,
        /// Attempts that a cause which may pass is worth.
        attempts: u32,
        /// Cause.
        source: WriteError,
    },
    /// SIGINT or SIGTERM while writing; the cause tells what is left on the disk.
    #[error("cancelled by a signal while writing the disk")]
    WriteCancelled {
        /// Cause.
        source: WriteError,
    },
    /// SIGINT or SIGTERM.
    #[error("cancelled by a signal while {0}")]
    Cancelled(&'static str),
    /// The reboot.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Installs as `document` asks. An error has been reported to the service as stage `Failed`.
pub fn run(
    document: &Document,
    host: &dyn Host,
    cancel: &Cancel,
    pace: Pace,
    on_event: &mut dyn FnMut(&Event),
) -> Result<(), FlowError> {
    let request = &document.request;
    let config = document.service.client_config();
    let mut reporter = Reporter::start(&config, request.infra_env_id, request.host_id)?;
    if let Some(path) = &document.stage_file {
        reporter.tell(path);
    }
    if request.proxy.as_ref().is_some_and(|proxy| proxy.http_proxy.is_some() || proxy.https_proxy.is_some()) {
        tracing::warn!(
            "the request's proxy is not used for the image: this version takes proxies from its environment only"
        );
    }
    let result = (|| {
        let plan = plan(request, document.reboot, document.reboot_delay())?;
        let client = |retry| match Client::new(&config, retry) {
            Ok(client) => Ok(client.stopped_by(cancel.flag())),
            Err(error) => Err(FlowError::Client(error)),
        };
        let (patient, brief) = (client(RetryPolicy::Installer)?, client(RetryPolicy::Never)?);
        let mut flow = Flow { host, patient, brief, cancel, pace, reporter: &mut reporter, on_event, ignition: None };
        plan.actions.iter().try_for_each(|action| flow.carry_out(action))
    })();
    if let Err(error) = &result {
        reporter.stage(HostStage::Failed, &failure_text(error));
    }
    reporter.finish(pace.flush, cancel);
    result
}

/// Writes one disk, with as many attempts as it may have. Each looks the disk up by the name given: kernel names move when
/// a controller resets between two attempts, stable links move with the disk.
pub fn write_disk(
    host: &dyn Host,
    write: &ImageWrite,
    ignition: Option<&[u8]>,
    cancel: &Cancel,
    pace: Pace,
    on_event: &mut dyn FnMut(&Event),
) -> Result<(), FlowError> {
    let mut attempt = 1;
    loop {
        let source = match host.write_image(write, ignition, cancel, on_event) {
            Ok(()) => return Ok(()),
            Err(source) if cancel.is_cancelled() => return Err(FlowError::WriteCancelled { source }),
            Err(error) => error,
        };
        let (transient, device, attempts) = (source.transient, write.device.clone(), write.attempts);
        let error = FlowError::Write { image: write.image.to_string(), device, attempt, attempts, source };
        if !transient || attempt >= attempts {
            return Err(error);
        }
        tracing::warn!(error = &error as &dyn Error, "trying again");
        if cancel.sleep(pace.write_retry) {
            return Err(FlowError::Cancelled("waiting to write the disk again"));
        }
        attempt += 1;
    }
}

struct Flow<'a> {
    host: &'a dyn Host,
    patient: Client,
    /// For what a loop of ours repeats anyway.
    brief: Client,
    cancel: &'a Cancel,
    pace: Pace,
    reporter: &'a mut Reporter,
    on_event: &'a mut dyn FnMut(&Event),
    ignition: Option<Vec<u8>>,
}

impl Flow<'_> {
    fn carry_out(&mut self, action: &Action) -> Result<(), FlowError> {
        if self.cancel.is_cancelled() {
            return Err(FlowError::Cancelled("installing"));
        }
        tracing::debug!(%action, "next");
        match action {
            Action::ClearBootSector { device } => {
                if let Err(error) = self.host.clear_boot_sector(device) {
                    tracing::warn!(error = &error as &dyn Error, "going on without");
                }
            }
            Action::Report { stage, info } => self.reporter.stage(*stage, info),
            Action::FetchIgnition { infra_env_id, host_id } => {
                let fetched = self.patient.session().host_ignition(*infra_env_id, *host_id);
                let config = fetched.map_err(|source| FlowError::Ignition { source })?;
                check_ignition(&config)?;
                self.ignition = Some(config);
            }
            Action::WriteImage(write) => {
                let (reporter, on_event) = (&mut *self.reporter, &mut *self.on_event);
                let mut observe = |event: &Event| {
                    if let Event::Progress { percent: Some(percent), .. } = event {
                        reporter.written(*percent);
                    }
                    on_event(event);
                };
                write_disk(self.host, write, self.ignition.as_deref(), self.cancel, self.pace, &mut observe)?;
            }
            Action::WaitForMasters { cluster_id, ready } => self.wait_for_masters(*cluster_id, *ready)?,
            Action::Reboot { delay_seconds, allowed } => {
                // The service must know of the reboot, or it takes the silence for a failure.
                self.reporter.flush(self.pace.flush, self.cancel);
                if *allowed {
                    tracing::info!(delay_seconds, "rebooting");
                    self.host.reboot(Duration::from_secs(*delay_seconds))?;
                } else {
                    tracing::info!("installed; would reboot now, but that was not asked for");
                }
            }
        }
        Ok(())
    }

    /// Without a limit, as the service has its own for this stage: nobody is there to press a key.
    fn wait_for_masters(&self, cluster: ClusterId, needed: usize) -> Result<(), FlowError> {
        let mut kind = None;
        let mut last = None;
        loop {
            match self.ready_masters(cluster, &mut kind) {
                Ok(None) => return Ok(()),
                Ok(Some(ready)) => {
                    if last.replace(ready) != Some(ready) {
                        tracing::info!(ready, needed, "waiting for masters");
                    }
                    if ready >= needed {
                        return Ok(());
                    }
                }
                Err(error) => tracing::warn!(error = &error as &dyn Error, "cannot ask for the masters, trying again"),
            }
            if self.cancel.sleep(self.pace.masters_poll) {
                return Err(FlowError::Cancelled("waiting for the control plane"));
            }
        }
    }

    /// Masters and arbiters that are done, or none where a running cluster is added to. The cluster's kind is asked for once.
    fn ready_masters(&self, cluster: ClusterId, kind: &mut Option<String>) -> Result<Option<usize>, ClientError> {
        let client = self.brief.session();
        let kind = match kind {
            Some(kind) => kind,
            None => kind.insert(client.cluster_without_hosts(cluster)?.kind),
        };
        if kind == ADD_HOSTS_KIND {
            return Ok(None);
        }
        let done = |hosts: Vec<api::Host>| {
            let stage = |host: &api::Host| host.progress.as_ref().and_then(|progress| progress.current_stage);
            hosts.iter().filter(|host| stage(host) == Some(HostStage::Done)).count()
        };
        // An older service doesn't know arbiters.
        let arbiters = client.cluster_hosts(cluster, HostRole::Arbiter).map(done).unwrap_or(0);
        Ok(Some(done(client.cluster_hosts(cluster, HostRole::Master)?) + arbiters))
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
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let text: Vec<char> = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
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
