//! The life of the agent: register, poll, and again.

use crate::{
    notify::Notifier,
    outbox::Outbox,
    pace::jittered,
    poll::{End, poll},
    register::{RegisterError, Registered, register},
    scheduler::Scheduler,
    settings::Settings,
    status::Status,
    upgrade,
};
use api::{Client, RetryPolicy, StepType};
use kernel::Cancel;
use std::{io, sync::Arc};

/// Why the agent can't work at all.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It can't register, now or later.
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error("cannot start the thread that posts replies")]
    Thread { source: io::Error },
}

/// Runs until stopped, for a host that is `registered` already, or until the service wants it to register again.
pub fn poll_only(settings: &Settings, registered: &Registered, stop: &Cancel) -> Result<(), AgentError> {
    let settings = Arc::new(settings.clone());
    let status = Arc::new(Status::new(&settings, Notifier::from_env()));
    let outbox = Arc::new(Outbox::start(settings.pace).map_err(|source| AgentError::Thread { source })?);
    let mut steps = Scheduler::new(settings.clone(), outbox.clone(), status.clone(), stop.clone());
    let client = Client::new(&settings.client_config(&registered.agent_version), RetryPolicy::Agent);
    let client = client.map_err(RegisterError::Client)?;
    status.ready();
    status.registered(registered.infra_env_id, registered.host_id, &registered.agent_version);
    loop {
        let end = poll(&client, registered, &mut steps, &outbox, &status, settings.pace, stop);
        tracing::info!(?end, "polling ended");
        // Our registrar gets the same answer; until then nothing may change.
        if end != End::Unknown || status.wait(stop, jittered(settings.pace.refused, 20)) {
            return Ok(());
        }
    }
}

/// Runs until stopped, or until another program is staged to replace this one ([`upgrade::become_staged`]).
pub fn run(settings: &Settings, stop: &Cancel) -> Result<End, AgentError> {
    let pace = settings.pace;
    let settings = Arc::new(settings.clone());
    let status = Arc::new(Status::new(&settings, Notifier::from_env()));
    let outbox = Arc::new(Outbox::start(pace).map_err(|source| AgentError::Thread { source })?);
    // Steps outlive a registration: the service asks to register again while an installation may run.
    let mut steps = Scheduler::new(settings.clone(), outbox.clone(), status.clone(), stop.clone());
    status.ready();
    while let Some(registered) = register(&settings, &status, stop)? {
        // For the service a registered host starts from nothing.
        outbox.flush_cache();
        let client = Client::new(&settings.client_config(&registered.agent_version), RetryPolicy::Agent);
        let client = client.map_err(RegisterError::Client)?;
        let end = poll(&client, &registered, &mut steps, &outbox, &status, pace, stop);
        tracing::info!(?end, "polling ended");
        // An unknown host was deleted on purpose, or the service lost its memory: it comes back, but not at once.
        if end == End::Unknown && status.wait(stop, jittered(pace.refused, 20)) {
            break;
        }
        // A running installation belongs to its thread here, and would end unreported in another program.
        if end == End::Upgraded && upgrade::is_staged() && !steps.runs(&StepType::Install) {
            return Ok(End::Upgraded);
        }
        if stop.is_cancelled() {
            break;
        }
    }
    Ok(End::Stopped)
}
