//! How long things may take (docs/compatibility.md#time-limits), seconds.

use super::cluster::FinalizingStage;
use api::HostStage;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, str::FromStr};

/// A host not heard of for so long counts as disconnected.
pub(crate) const DISCONNECTED_AFTER: i64 = 3 * 60;
/// The same for a host that carries the temporary control plane.
pub(crate) const BOOTSTRAP_DISCONNECTED_AFTER: i64 = 5 * 60;
/// A host's checks before an installation may take so long: the longer of its steps, and a minute.
pub(crate) const PREPARATION: i64 = 17 * 60;
/// Its cluster waits a minute more.
pub(crate) const CLUSTER_PREPARATION: i64 = 18 * 60;
/// An installation must show its first stage in this time.
pub(crate) const START: i64 = 20 * 60;
/// A host that waits for a person does so for this long.
pub(crate) const PENDING_USER_ACTION: i64 = 60 * 60;
/// A cluster that waits for a person does so for this long.
pub(crate) const CLUSTER_PENDING_USER_ACTION: i64 = 24 * 60 * 60;

/// A host on its way back to the pool may take so long.
pub(crate) const RECLAIM: i64 = 60 * 60;
/// An installation may take so long where time limits are soft.
pub(crate) const INSTALLATION: i64 = 24 * 60 * 60;
/// A cluster may finalize for so long where they are not.
pub(crate) const FINALIZING: i64 = 5 * 60 * 60;
/// A host's logs may take so long to begin, and then to come.
pub(crate) const HOST_LOGS: (i64, i64) = (2 * 60, 10 * 60);
/// The same for a controller's.
pub(crate) const CLUSTER_LOGS: (i64, i64) = (10 * 60, 60 * 60);

/// Whether logs that were asked for are overdue. `asked` and `moved` are ages in seconds.
pub(crate) fn logs_overdue(state: &str, asked: i64, moved: i64, (begin, come): (i64, i64)) -> bool {
    match state {
        "requested" => asked > begin,
        "collecting" => moved > come,
        _ => false,
    }
}

/// The operator's own limits of finalizing stages, seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FinalizingLimits(BTreeMap<FinalizingStage, i64>);

impl FinalizingLimits {
    /// Limits that are set, of which the last of a stage counts.
    pub(crate) fn new(limits: impl IntoIterator<Item = FinalizingLimit>) -> Self {
        Self(limits.into_iter().map(|FinalizingLimit(stage, seconds)| (stage, seconds)).collect())
    }

    /// How long a controller may stay in a stage. Those in which OLM operators come up last as long as the slowest may.
    pub(crate) fn stage(&self, stage: FinalizingStage, soft: bool, olm_timeout: i64) -> i64 {
        use FinalizingStage as F;
        const MINUTE: i64 = 60;
        let usual = match stage {
            F::ClusterOperators if !soft => 600 * MINUTE,
            F::OlmManifests | F::OlmSetupJobs => 10 * MINUTE,
            _ => 70 * MINUTE,
        };
        let limit = self.0.get(&stage).copied().unwrap_or(usual);
        match stage {
            F::OlmCsvInitialization | F::OlmCsv | F::OlmSetupJobs => limit.max(olm_timeout),
            _ => limit,
        }
    }

    /// Those in the environment, by the names that the published service reads; and those that are not durations.
    pub(crate) fn from_environment(read: impl Fn(&str) -> Option<String>) -> (Vec<FinalizingLimit>, Vec<String>) {
        let (mut limits, mut bad) = (Vec::new(), Vec::new());
        for stage in FinalizingStage::ALL {
            let name = format!("FINALIZING_STAGE_{}_TIMEOUT", stage.as_str().to_uppercase().replace(' ', "_"));
            let Some(text) = read(&name).filter(|text| !text.is_empty()) else { continue };
            match go_seconds(&text) {
                Some(seconds) => limits.push(FinalizingLimit(stage, seconds)),
                None => bad.push(name),
            }
        }
        (limits, bad)
    }

    pub(crate) fn is_usual(&self) -> bool {
        self.0.is_empty()
    }
}

/// `STAGE=DURATION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinalizingLimit(FinalizingStage, i64);

impl FromStr for FinalizingLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, duration) = text.rsplit_once('=').ok_or("write STAGE=DURATION")?;
        let stage = FinalizingStage::ALL.into_iter().find(|stage| stage.as_str().eq_ignore_ascii_case(name.trim()));
        let known =
            || format!("'{name}' is not a finalizing stage: it is one of {}", FinalizingStage::NAMES.join(", "));
        let seconds =
            go_seconds(duration).ok_or_else(|| format!("'{duration}' is not a duration such as 90m or 1h30m"))?;
        Ok(Self(stage.ok_or_else(known)?, seconds))
    }
}

/// How long a host may stay in a stage without any progress.
pub(crate) fn stage(stage: HostStage, single_node: bool) -> i64 {
    const MINUTE: i64 = 60;
    match stage {
        HostStage::StartingInstallation | HostStage::WritingImageToDisk => 30 * MINUTE,
        HostStage::CopyingRegistryDataToDisk => 90 * MINUTE,
        HostStage::Rebooting if single_node => 80 * MINUTE,
        HostStage::Rebooting => 40 * MINUTE,
        HostStage::WaitingForIgnition => 24 * 60 * MINUTE,
        _ => 60 * MINUTE,
    }
}

/// Seconds as Go prints a duration: `30m0s`, `1h20m0s`.
pub(crate) fn go_duration(seconds: i64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Whole seconds of a duration as Go reads it: `90m`, `1h30m`, `1.5h`. None for any other text, for less than a second, and for more
/// than ten years.
pub(crate) fn go_seconds(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 7] =
        [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let (unit, seconds) = UNITS.iter().find(|(unit, _)| behind.starts_with(unit))?;
        total += number.parse::<f64>().ok()? * seconds;
        rest = behind.strip_prefix(unit)?;
    }
    const LONGEST: i64 = 10 * 366 * 86_400;
    // Whole numbers of this size are exact; there is no conversion without a cast.
    let whole = std::time::Duration::try_from_secs_f64(total).ok()?.as_secs();
    i64::try_from(whole).ok().filter(|seconds| (1..=LONGEST).contains(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, seconds) in [
            ("90m", Some(5400)),
            ("1h30m", Some(5400)),
            ("1.5h", Some(5400)),
            ("1h0m30s", Some(3630)),
            ("1500ms", Some(1)),
            ("", None),
            ("0", None),
            ("0s", None),
            ("10", None),
            ("h", None),
            ("-1h", None),
            ("1d", None),
            ("1..5h", None),
            ("999999999h", None),
        ] {
            assert_eq!(go_seconds(text), seconds, "{text}");
        }
    }

    #[test]
    fn limits_of_stages_are_set_by_option_and_environment() {
        use FinalizingStage as F;
        let limit: FinalizingLimit = "adding router ca=2h".parse().unwrap();
        assert_eq!(limit, FinalizingLimit(F::RouterCa, 7200));
        for bad in ["Adding router ca", "x=1h", "Done=soon", "Done=0s"] {
            assert!(bad.parse::<FinalizingLimit>().is_err(), "{bad}");
        }
        let (limits, bad) = FinalizingLimits::from_environment(|name| match name {
            "FINALIZING_STAGE_WAITING_FOR_OLM_OPERATOR_SETUP_JOBS_TIMEOUT" => Some("20m".to_owned()),
            "FINALIZING_STAGE_DONE_TIMEOUT" => Some("never".to_owned()),
            "FINALIZING_STAGE_ADDING_ROUTER_CA_TIMEOUT" => Some(String::new()),
            _ => None,
        });
        assert_eq!((limits.len(), bad), (1, vec!["FINALIZING_STAGE_DONE_TIMEOUT".to_owned()]));
        let own = FinalizingLimits::new(limits.into_iter().chain([limit]));
        let minutes = |stage, olm| own.stage(stage, false, olm) / 60;
        assert_eq!(
            [minutes(F::RouterCa, 0), minutes(F::OlmSetupJobs, 0), minutes(F::OlmSetupJobs, 1800)],
            [120, 20, 30]
        );
        assert_eq!([minutes(F::Done, 0), minutes(F::OlmManifests, 9999)], [70, 10]);
        let stored = serde_json::to_string(&own).unwrap();
        assert_eq!(serde_json::from_str::<FinalizingLimits>(&stored).unwrap(), own);
    }

    #[test]
    fn stages_have_their_limits() {
        use HostStage as G;
        let minutes = |stages: &[HostStage]| stages.iter().map(|own| stage(*own, false) / 60).collect::<Vec<_>>();
        let waits = [G::WaitingForControlPlane, G::WaitingForBootkube, G::WaitingForController];
        assert_eq!(minutes(&[G::StartingInstallation, G::Installing, G::WritingImageToDisk]), [30, 60, 30]);
        assert_eq!(minutes(&[G::CopyingRegistryDataToDisk, G::Rebooting, G::WaitingForIgnition]), [90, 40, 1440]);
        assert_eq!(minutes(&waits), [60, 60, 60]);
        assert_eq!(minutes(&[G::Configuring, G::Joined, G::Done]), [60, 60, 60]);
        assert_eq!(stage(G::Rebooting, true) / 60, 80);
    }

    #[test]
    fn logs_may_take_long_to_begin_and_longer_to_come() {
        let overdue = |state, asked, moved| logs_overdue(state, asked, moved, HOST_LOGS);
        assert_eq!([overdue("requested", 120, 0), overdue("requested", 121, 0)], [false, true]);
        assert_eq!([overdue("collecting", 9999, 600), overdue("collecting", 9999, 601)], [false, true]);
        assert_eq!(
            [overdue("", 9999, 9999), overdue("completed", 9999, 9999), overdue("timeout", 9999, 9999)],
            [false; 3]
        );
    }

    #[test]
    fn durations_read_like_go() {
        assert_eq!(go_duration(1800), "30m0s");
        assert_eq!(go_duration(stage(HostStage::Rebooting, true)), "1h20m0s");
        assert_eq!(go_duration(59), "59s");
    }
}
