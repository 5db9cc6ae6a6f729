//! `bootstrap.ign`: fetched, and applied to this system.

use super::{BootstrapError, Context, files, services};
use crate::{host::Host, programs::ProgramError};
use api::{Client, ClientError};
use ignition::{
    apply::{ApplyError, Now, Root, Running, apply_running, newest, plan},
    fetch::{FetchOptions, Fetcher, Location},
    model::Document,
};
use kernel::Cancel;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// In errors, and at the service.
pub(super) const NAME: &str = "bootstrap.ign";
const CREDENTIALS: &str = "/root/.docker/config.json";
/// As many as the machine-config daemon gets (docs/compatibility.md#bootstrap).
const ATTEMPTS: u32 = 3;

/// Asks the service for a file until it has it: hosts get their orders while it still makes them. `what` is for errors.
pub(super) fn fetch(
    ctx: &Context<'_>,
    what: &'static str,
    get: impl Fn(&Client) -> Result<Vec<u8>, ClientError>,
    cancel: &Cancel,
) -> Result<Vec<u8>, BootstrapError> {
    let (began, mut waited) = (Instant::now(), Duration::ZERO);
    loop {
        let source = match get(&ctx.patient.session()) {
            Ok(file) => return Ok(file),
            Err(_) if cancel.is_cancelled() => {
                return Err(BootstrapError::Cancelled("getting a file from the service"));
            }
            Err(error) => error,
        };
        let may_come = matches!(source.status(), Some(404 | 409 | 423 | 425));
        // Its client has slept too; where time is simulated only what is slept here counts.
        if !may_come || waited.max(began.elapsed()) >= ctx.pace.file_patience {
            return Err(BootstrapError::Download { what, source });
        }
        tracing::warn!(what, error = &source as &dyn std::error::Error, "the service does not have it yet");
        if cancel.sleep(ctx.pace.file_retry) {
            return Err(BootstrapError::Cancelled("waiting for a file of the service"));
        }
        waited = waited.saturating_add(ctx.pace.file_retry);
    }
}

/// Reads a config, of the newest version from then on. `what` is for errors.
pub(super) fn parse<'a>(what: &'static str, text: &'a [u8]) -> Result<Document<'a>, BootstrapError> {
    let not = |source| BootstrapError::NotIgnition { what, len: text.len(), source };
    let (config, version, report) = ignition::parse(text).map_err(not)?;
    if report.is_fatal() {
        return Err(BootstrapError::Invalid { what, summary: report.summary() });
    }
    Ok(newest(config, version))
}

/// Puts the registry credentials where podman looks for them, before anything else of the config is done.
pub(super) fn write_credentials(root: &Path, config: &Document<'_>) -> Result<(), BootstrapError> {
    let file = config.storage.files.iter().find(|file| file.path == CREDENTIALS && file.contents.source.is_some());
    let file = file.ok_or(BootstrapError::NoCredentials { path: CREDENTIALS })?;
    let fetcher = Fetcher::new(FetchOptions { offline: true, ..FetchOptions::default() });
    let fetched = fetcher.fetch(&Location::from(&file.contents));
    let text = fetched.map_err(|source| BootstrapError::Credentials { path: CREDENTIALS, source: Box::new(source) })?;
    files::write(&files::below(root, CREDENTIALS), &text, 0o600)
}

/// Applies the config to the running system, as the machine-config daemon does with `once-from`.
pub(super) fn apply(host: &dyn Host, config: &Document<'_>, cancel: &Cancel) -> Result<(), BootstrapError> {
    let mut attempt = 1;
    let done = loop {
        if cancel.is_cancelled() {
            return Err(BootstrapError::Cancelled("applying bootstrap.ign"));
        }
        let source = match try_apply(host.root(), config) {
            Ok(done) => break done,
            Err(error) => Box::new(error),
        };
        let error = BootstrapError::Apply { attempt, attempts: ATTEMPTS, source };
        if attempt >= ATTEMPTS {
            return Err(error);
        }
        tracing::warn!(error = &error as &dyn std::error::Error, "trying again");
        attempt += 1;
    };
    for error in &done.accounts {
        tracing::warn!(error, "cannot set up the users of bootstrap.ign, continuing without them");
    }
    let mut systemctl = |args: &[&str]| services::systemctl(host, args, cancel);
    switch(&mut systemctl, "enable", &done.enable)?;
    switch(&mut systemctl, "disable", &done.disable)
}

fn try_apply(root: &Path, config: &Document<'_>) -> Result<Running, ApplyError> {
    let root = Root::open(root).map_err(|source| ApplyError::Root { path: root.to_owned(), source })?;
    let (actions, skipped) = plan(&root, config)?;
    tracing::info!(actions = actions.len(), "applying bootstrap.ign to this system");
    for action in &actions {
        tracing::debug!(%action, "bootstrap.ign");
    }
    // Labels are those of the directories, which is what the scripts and units in there have to live with in either case.
    for skipped in &skipped {
        tracing::warn!(at = skipped.at, why = skipped.why, "skipped a part of bootstrap.ign");
    }
    apply_running(&root, config.clone(), &Now::read(), &Fetcher::new(FetchOptions::default()))
}

type Systemctl<'a> = dyn FnMut(&[&str]) -> Result<String, ProgramError> + 'a;

/// All at once; one by one where that fails, to know which. What must run is started by name later.
fn switch(systemctl: &mut Systemctl<'_>, verb: &str, units: &[String]) -> Result<(), BootstrapError> {
    if units.is_empty() {
        return Ok(());
    }
    let args: Vec<&str> = [verb].into_iter().chain(units.iter().map(String::as_str)).collect();
    match systemctl(&args) {
        Err(ProgramError::Failed { .. }) => {}
        done => return Ok(done.map(drop)?),
    }
    for unit in units {
        match systemctl(&[verb, unit]) {
            Err(error @ ProgramError::Failed { .. }) => {
                tracing::warn!(unit, error = &error as &dyn std::error::Error, "cannot {verb} a unit of bootstrap.ign");
            }
            done => done.map(drop)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{Program, run};

    #[test]
    fn a_unit_that_cannot_be_enabled_keeps_no_other_from_it() {
        let units = ["a.service", "bad.service", "c.service"].map(str::to_owned);
        let mut did = Vec::new();
        let mut systemctl = |args: &[&str]| {
            did.push(args.join(" "));
            let status = if args.contains(&"bad.service") { "exit 1" } else { "exit 0" };
            run(Program::Shell, &["-c".as_ref(), status.as_ref()], &[], &Cancel::default())
        };
        switch(&mut systemctl, "enable", &units).unwrap();
        switch(&mut systemctl, "disable", &[]).unwrap();
        let expected =
            ["enable a.service bad.service c.service", "enable a.service", "enable bad.service", "enable c.service"];
        assert_eq!(did, expected);
        let cancelled = Cancel::default();
        cancelled.cancel();
        let mut systemctl = |_: &[&str]| run(Program::Shell, &["-c".as_ref(), "sleep 60".as_ref()], &[], &cancelled);
        let error = switch(&mut systemctl, "enable", &units).unwrap_err();
        assert!(matches!(error, BootstrapError::Program(ProgramError::Cancelled { .. })), "{error}");
    }
}
