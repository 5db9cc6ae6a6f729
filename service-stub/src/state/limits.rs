//! How long things may take (docs/compatibility.md#time-limits), seconds.

use super::cluster::FinalizingStage;
use api::HostStage;

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

/// How long a controller may stay in a finalizing stage. Stages of OLM operators last as long as the slowest operator may.
pub(crate) fn finalizing_stage(stage: FinalizingStage, soft: bool, olm_timeout: i64) -> i64 {
    use FinalizingStage as F;
    const MINUTE: i64 = 60;
    let limit = match stage {
        F::ClusterOperators if !soft => 600 * MINUTE,
        F::OlmManifests | F::OlmSetupJobs => 10 * MINUTE,
        _ => 70 * MINUTE,
    };
    if stage.waits_for_olm() { limit.max(olm_timeout) } else { limit }
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

#[cfg(test)]
mod tests {
    use super::*;

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
