//! How often a host polls, and how long a step may take before it is handed out again.

use crate::state::HostState;
use crate::steps;
use api::{StepType, Timestamp};
use std::time::Duration;

/// A host is on its way to `known` for this long. One that stays longer needs a person, and then a poll now and then will do.
const SOON_FOR_S: u64 = 60;
/// Each time this much has passed, the pause grows by a second, so that a stuck host is not kept busy with its inventory.
const SLOWER_AFTER_S: u64 = 10;

/// All other steps. The slowest of those with a limit asks for time sources, 30 s. It is less than the published interval: an agent
/// does not send a result that is the same as before, so silence must not keep a step from the next poll.
const SHORT_S: u64 = 50;
/// The same for an agent that hurries: it leaves out a step while one of its type runs, so asking again does no harm.
const HURRIED_S: u64 = 5;
/// A reply may take this long to arrive.
const GRACE_S: u64 = 20;

/// How long after a step was handed out it counts as running, when no reply comes. `hurries`: see [`steps::Situation::hurries`].
pub(crate) fn deadline(kind: &StepType, hurries: bool) -> Duration {
    let limit_s = steps::find(kind).and_then(|kind| kind.limit_s);
    let short_s = if hurries { HURRIED_S } else { SHORT_S };
    Duration::from_secs(limit_s.map_or(short_s, |limit_s| limit_s + GRACE_S))
}

/// Whether a step may outlast a poll.
pub(crate) fn is_long(kind: &StepType) -> bool {
    deadline(kind, false) > Duration::from_secs(SHORT_S)
}

/// Seconds until the next poll of a host that has been in `state` since then. `hurries`: see [`steps::Situation::hurries`].
pub(crate) fn pause(state: HostState, since: Timestamp, now: Timestamp, interval: u64, hurries: bool) -> u64 {
    use HostState as S;
    match state {
        S::Binding | S::Unbinding | S::UnbindingPendingUserAction => 0,
        S::Resetting | S::Disabled | S::DisabledUnbound | S::ReclaimingRebooting => interval.saturating_mul(2),
        S::Disconnected | S::DisconnectedUnbound | S::Error | S::Cancelled => interval.saturating_mul(2),
        S::Discovering | S::Insufficient | S::PendingForInput | S::DiscoveringUnbound | S::InsufficientUnbound
            if hurries =>
        {
            match u64::try_from(now.seconds_since(since)) {
                Ok(age @ ..SOON_FOR_S) => interval.min(1 + age / SLOWER_AFTER_S),
                _ => interval,
            }
        }
        _ => interval,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED_INTERVAL: Duration = Duration::from_secs(60);

    #[test]
    fn only_what_takes_minutes_outlasts_a_poll() {
        let long: Vec<&str> = StepType::NAMES
            .into_iter()
            .filter(|name| {
                deadline(&serde_json::from_value::<StepType>((*name).into()).unwrap(), false) >= PUBLISHED_INTERVAL
            })
            .collect();
        assert_eq!(
            long,
            [
                "install",
                "installation-disk-speed-check",
                "container-image-availability",
                "logs-gather",
                "upgrade-agent",
                "download-boot-artifacts"
            ]
        );
        assert!(deadline(&StepType::InstallationDiskSpeedCheck, true) > Duration::from_secs(480));
        assert!(deadline(&StepType::ContainerImageAvailability, true) > Duration::from_secs(960));
    }

    #[test]
    fn only_agents_that_hurry_come_sooner_and_less_and_less_so() {
        use HostState as S;
        let since = Timestamp::from_unix_seconds(1000);
        let after = |state, age: i64, interval, hurries| {
            pause(state, since, Timestamp::from_unix_seconds(1000 + age), interval, hurries)
        };
        for state in
            [S::Discovering, S::Insufficient, S::PendingForInput, S::DiscoveringUnbound, S::InsufficientUnbound]
        {
            for (age, seconds) in [(0, 1), (9, 1), (10, 2), (59, 6), (60, 60), (3600, 60), (-5, 60)] {
                assert_eq!(after(state, age, 60, true), seconds, "{state} {age}");
                assert_eq!(after(state, age, 60, false), 60, "{state} {age}");
            }
            assert_eq!(after(state, 59, 2, true), 2, "{state}");
            assert_eq!(after(state, 0, 2, false), 2, "{state}");
        }
        for state in [S::Known, S::PreparingForInstallation, S::Installing, S::InstallingInProgress, S::KnownUnbound] {
            assert_eq!(after(state, 0, 60, true), 60, "{state}");
        }
        for state in [S::Disconnected, S::Error, S::Cancelled, S::Disabled, S::Resetting] {
            assert_eq!((after(state, 0, 60, true), after(state, 0, 60, false)), (120, 120), "{state}");
        }
    }
}
