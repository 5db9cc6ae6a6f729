//! Asks the service what to do, again and again.

use crate::{
    outbox::{Outbox, Route},
    pace::jittered,
    register::Registered,
    scheduler::Scheduler,
    settings::Pace,
    status::{ServiceState, Status},
};
use api::{Client, PostStepAction, StepType, Steps as Answer};
use kernel::Cancel;
use std::{
    error::Error,
    time::{Duration, Instant},
};

/// How often a running upgrade is looked at.
const UPGRADE_LOOK: Duration = Duration::from_millis(200);

/// Memory from the start, a registration or failures is released at the third poll, and again after this many: a host
/// that waits to be installed needs it for other things.
const RELEASE_AT: u64 = 3;
const RELEASE_EVERY: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The service wants the host to register again.
    Exit,
    /// The service doesn't know the host any more.
    Unknown,
    /// No answer for too long.
    GaveUp,
    /// Another agent's image has arrived, and this was reported to the service.
    Upgraded,
    Stopped,
}

/// Polls until there is a reason to register again.
pub(crate) fn poll(
    client: &Client,
    registered: &Registered,
    steps: &mut Scheduler,
    outbox: &Outbox,
    status: &Status,
    pace: Pace,
    stop: &Cancel,
) -> End {
    let mut polls = 0_u64;
    loop {
        // One request id for the poll and all replies to what it brings.
        let (session, answer) = match ask(client, registered, outbox, status, pace, stop) {
            Ok(answer) => answer,
            Err(end) => return end,
        };
        let exit = answer.post_step_action == PostStepAction::Exit;
        let instructions = answer.instructions.unwrap_or_default();
        tracing::debug!(
            request_id = session.request_id(),
            steps = instructions.iter().map(|s| s.step_id.as_str()).collect::<Vec<_>>().join(" "),
            next_s = answer.next_instruction_seconds,
            exit,
            "instructions"
        );
        let route = Route { client: session, infra_env_id: registered.infra_env_id, host_id: registered.host_id };
        let upgrades = instructions.iter().any(|step| step.step_type == StepType::UpgradeAgent);
        steps.start(instructions, &route);
        let pause = pause(answer.next_instruction_seconds, pace);
        status.next_poll(pause, outbox.waiting());
        polls = polls.wrapping_add(1);
        if polls % RELEASE_EVERY == RELEASE_AT {
            kernel::program::release_code();
        }
        if let Some(end) = wait(pause, upgrades, steps, outbox, status, stop) {
            return end;
        }
        if exit {
            return End::Exit;
        }
    }
}

/// Until the next poll, or until an upgrade has arrived and its reply was sent.
fn wait(
    pause: Duration,
    upgrades: bool,
    steps: &Scheduler,
    outbox: &Outbox,
    status: &Status,
    stop: &Cancel,
) -> Option<End> {
    let until = Instant::now() + pause;
    let mut upgraded = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let watches = upgrades || upgraded || steps.runs(&StepType::UpgradeAgent);
        if status.wait(stop, if watches { left.min(UPGRADE_LOOK) } else { left }) {
            return Some(End::Stopped);
        }
        upgraded |= steps.take_upgrade();
        if upgraded && outbox.waiting() == 0 {
            return Some(End::Upgraded);
        }
        if left.is_zero() && !upgraded {
            return None;
        }
        if left.is_zero() {
            // The service is out of reach; the next polls will tell.
            return Some(End::Upgraded);
        }
    }
}

/// The service's interval, within limits: without them a broken service could cause a busy loop or a lost host.
fn pause(seconds: u64, pace: Pace) -> Duration {
    Duration::from_secs(seconds).clamp(pace.poll_min, pace.poll_max)
}

/// Polls with growing delays until there is an answer, which comes with the session it belongs to.
fn ask(
    client: &Client,
    registered: &Registered,
    outbox: &Outbox,
    status: &Status,
    pace: Pace,
    stop: &Cancel,
) -> Result<(Client, Answer), End> {
    let start = Instant::now();
    let mut delay = pace.poll_retry;
    loop {
        let session = client.session();
        let error = match session.next_steps(registered.infra_env_id, registered.host_id) {
            Ok(answer) => {
                status.service_answered(&session);
                return Ok((session, answer));
            }
            Err(error) => error,
        };
        let cause = &error as &dyn Error;
        // After an outage the service may have lost our replies.
        outbox.flush_cache();
        if error.status() == Some(404) {
            status.service_failed(ServiceState::DoesntKnowThisHost, &error, &session);
            tracing::error!(error = cause, "the service doesn't know this host any more");
            return Err(End::Unknown);
        }
        status.service_failed(ServiceState::Unreachable, &error, &session);
        if start.elapsed() >= pace.poll_give_up {
            tracing::error!(error = cause, "no instructions for too long, registering again");
            return Err(End::GaveUp);
        }
        let pause = jittered(delay, 50);
        tracing::warn!(error = cause, retry_in_ms = pause.as_millis(), "cannot get instructions");
        status.next_poll(pause, outbox.waiting());
        if status.wait(stop, pause) {
            return Err(End::Stopped);
        }
        delay = (delay * 3 / 2).min(pace.poll_retry_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_interval_is_limited() {
        let pace = Pace::default();
        assert_eq!(pause(0, pace), Duration::from_secs(1));
        assert_eq!(pause(60, pace), Duration::from_secs(60));
        assert_eq!(pause(u64::MAX, pace), Duration::from_secs(600));
    }
}
