//! How often an event is recorded.

use super::kinds;
use crate::state::limits::go_seconds;
use std::{collections::BTreeMap, str::FromStr};

const HOUR: i64 = 3600;

/// The least time between two events of a name that are of the same host, cluster and infra-env, seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLimits {
    limits: BTreeMap<String, i64>,
    /// There are others than the usual ones.
    pub(crate) has_own: bool,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { limits: kinds::HOURLY.iter().map(|kind| (kind.name.to_owned(), HOUR)).collect(), has_own: false }
    }
}

impl EventLimits {
    /// The limit of an event's name, if it has one.
    pub(crate) fn of(&self, name: &str) -> Option<i64> {
        self.limits.get(name).copied()
    }
}

/// A JSON object of names and durations over the usual limits.
impl FromStr for EventLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        if text.trim().is_empty() {
            return Ok(all);
        }
        let own: BTreeMap<String, String> = serde_json::from_str(text)
            .map_err(|error| format!("it is not a JSON object of names and durations: {error}"))?;
        for (name, duration) in own {
            let seconds = go_seconds(&duration)
                .ok_or_else(|| format!("'{duration}' of event '{name}' is not a duration such as 30m or 1h30m"))?;
            all.limits.insert(name, seconds);
            all.has_own = true;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn own_limits_are_laid_over_the_usual_ones() {
        let limits: EventLimits =
            r#"{"upgrade_agent_failed": "2h", "infra_env_deregister_failed": "30m"}"#.parse().unwrap();
        let of = |name| limits.of(name);
        assert_eq!([of("upgrade_agent_failed"), of("upgrade_agent_started")], [Some(7200), Some(3600)]);
        assert_eq!([of("infra_env_deregister_failed"), of("host_registration_succeeded")], [Some(1800), None]);
        assert_eq!("".parse(), Ok(EventLimits::default()));
        for bad in ["{", "[]", r#"{"a": 1}"#, r#"{"a": "soon"}"#] {
            assert!(bad.parse::<EventLimits>().is_err(), "{bad}");
        }
    }
}
