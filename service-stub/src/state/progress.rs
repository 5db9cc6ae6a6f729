//! Progress a host reports: which stages it may report when, and what that makes of its state (docs/compatibility.md#stages).

use super::HostState;
use api::{ClusterProgressInfo, HostProgressInfo, HostStage, Timestamp};

/// What a report changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Nothing new.
    Same,
    /// The detail of the current stage.
    Detail(HostProgressInfo),
    Stage(HostProgressInfo),
    /// The installation failed: new status text; the stage stays.
    Failed(String),
}

/// A report that can't be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReportError {
    /// The host is not being installed.
    #[error("Can't set progress <{stage}> to host in status <{state}>")]
    State { stage: HostStage, state: HostState },
    /// A host of its role does not pass this stage.
    #[error("Stage <{stage}> is not one of the stages of this host")]
    NotOurs { stage: HostStage },
    #[error("Can't assign lower stage <{stage}> after host has been in stage <{current}>")]
    Back { stage: HostStage, current: HostStage },
}

/// Decides on a report. `stages` are those of the host's role; where they end with the reboot, that is all there is to
/// report, and the host is done.
pub(crate) fn report(
    state: HostState,
    progress: Option<&HostProgressInfo>,
    stages: &[HostStage],
    reported: HostStage,
    detail: &str,
    now: Timestamp,
) -> Result<Report, ReportError> {
    let last = stages.last() == Some(&HostStage::Rebooting);
    let stage = if last && reported == HostStage::Rebooting { HostStage::Done } else { reported };
    let current = progress.and_then(|progress| progress.current_stage);
    if let Some(progress) = progress.filter(|_| current == Some(stage)) {
        if progress.progress_info == detail {
            return Ok(Report::Same);
        }
        return Ok(Report::Detail(HostProgressInfo {
            progress_info: detail.to_owned(),
            stage_updated_at: now,
            ..progress.clone()
        }));
    }
    let installing = [HostState::Installing, HostState::InstallingInProgress, HostState::InstallingPendingUserAction];
    if !installing.contains(&state) {
        return Err(ReportError::State { stage: reported, state });
    }
    if stage == HostStage::Failed {
        let info = if detail.is_empty() { "Failed".to_owned() } else { format!("Failed - {detail}") };
        return Ok(Report::Failed(info));
    }
    let position = |wanted| stages.iter().position(|stage| *stage == wanted);
    let index = position(reported).ok_or(ReportError::NotOurs { stage: reported })?;
    if let Some(current) = current
        && position(current).is_some_and(|reached| reached > index)
    {
        return Err(ReportError::Back { stage, current });
    }
    let info = HostProgressInfo {
        current_stage: Some(stage),
        installation_percentage: percent(index, stages.len()),
        progress_info: detail.to_owned(),
        stage_started_at: now,
        stage_timed_out: false,
        stage_updated_at: now,
    };
    Ok(Report::Stage(info))
}

fn percent(index: usize, stages: usize) -> u64 {
    let done = index.saturating_add(1).saturating_mul(100).checked_div(stages).unwrap_or(0);
    u64::try_from(done).unwrap_or(100).min(100)
}

/// The cluster's "installing" percentage: stages passed of stages to pass, over all hosts.
pub(crate) fn installing_percent<'a>(hosts: impl Iterator<Item = (Option<HostStage>, &'a [HostStage])>) -> u64 {
    let (mut passed, mut all) = (0_usize, 0_usize);
    for (current, stages) in hosts {
        all += stages.len();
        let index = current.and_then(|current| stages.iter().position(|stage| *stage == current));
        passed += index.map_or(0, |index| index + 1);
    }
    let percent = passed.saturating_mul(100).checked_div(all).unwrap_or(0);
    u64::try_from(percent).unwrap_or(100)
}

/// The cluster's total: a tenth for preparing, seven for installing, one and a half for finalizing. The rest comes with the
/// cluster's being installed.
pub(crate) fn total_percent(info: &ClusterProgressInfo) -> u64 {
    let part = |percent: u64, weight: u64| percent.saturating_mul(weight) / 100;
    part(info.preparing_for_installation_stage_percentage, 10)
        + part(info.installing_stage_percentage, 70)
        + part(info.finalizing_stage_percentage, 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::StageList;

    fn at(stage: HostStage, detail: &str) -> HostProgressInfo {
        HostProgressInfo {
            current_stage: Some(stage),
            progress_info: detail.into(),
            stage_started_at: Timestamp::from_unix_seconds(1),
            stage_updated_at: Timestamp::from_unix_seconds(1),
            installation_percentage: 1,
            stage_timed_out: false,
        }
    }

    fn put(
        state: HostState,
        progress: Option<&HostProgressInfo>,
        stage: HostStage,
        detail: &str,
    ) -> Result<Report, ReportError> {
        report(state, progress, StageList::Master.stages(), stage, detail, Timestamp::from_unix_seconds(9))
    }

    #[test]
    fn stages_go_forward_only() {
        use HostStage as G;
        let state = HostState::InstallingInProgress;
        let Ok(Report::Stage(info)) = put(HostState::Installing, None, G::StartingInstallation, "master") else {
            panic!("the first stage is taken");
        };
        assert_eq!(info.installation_percentage, 12);
        let writing = at(G::WritingImageToDisk, "40%");
        assert_eq!(put(state, Some(&writing), G::WritingImageToDisk, "40%"), Ok(Report::Same));
        let Ok(Report::Detail(info)) = put(HostState::Error, Some(&writing), G::WritingImageToDisk, "55%") else {
            panic!("a detail is taken in any state");
        };
        assert_eq!((info.stage_started_at.unix_seconds(), info.stage_updated_at.unix_seconds()), (1, 9));
        let back = ReportError::Back { stage: G::Installing, current: G::WritingImageToDisk };
        assert_eq!(put(state, Some(&writing), G::Installing, ""), Err(back));
        let foreign = ReportError::NotOurs { stage: G::WaitingForBootkube };
        assert_eq!(put(state, Some(&writing), G::WaitingForBootkube, ""), Err(foreign));
        assert!(matches!(put(state, Some(&writing), G::Rebooting, ""), Ok(Report::Stage(..))), "stages may be skipped");
    }

    #[test]
    fn ends() {
        use HostStage as G;
        let reboot = at(G::Rebooting, "");
        for state in [HostState::InstallingInProgress, HostState::InstallingPendingUserAction] {
            let Ok(Report::Stage(info)) = put(state, Some(&reboot), G::Done, "") else { panic!("{state}") };
            assert_eq!(info.installation_percentage, 100);
        }
        assert_eq!(
            put(HostState::Installing, None, G::Failed, "no disk"),
            Ok(Report::Failed("Failed - no disk".into()))
        );
        let refused = put(HostState::Error, None, G::Installing, "").unwrap_err();
        assert_eq!(refused.to_string(), "Can't set progress <Installing> to host in status <error>");
        assert!(put(HostState::Known, None, G::Failed, "").is_err());
    }

    #[test]
    fn a_host_that_is_added_is_done_when_it_reboots() {
        use HostStage as G;
        let cut = &StageList::Worker.stages()[..5];
        let state = HostState::InstallingInProgress;
        let put = |progress: Option<&HostProgressInfo>, stage| report(state, progress, cut, stage, "", Timestamp::ZERO);
        let Ok(Report::Stage(info)) = put(Some(&at(G::Installing, "")), G::Rebooting) else { panic!("it reboots") };
        assert_eq!((info.current_stage, info.installation_percentage), (Some(G::Done), 100));
        assert_eq!(put(Some(&info), G::Rebooting), Ok(Report::Same), "said twice");
        assert_eq!(put(Some(&info), G::Joined), Err(ReportError::NotOurs { stage: G::Joined }));
    }

    #[test]
    fn totals() {
        let info = |preparing, installing, finalizing| ClusterProgressInfo {
            preparing_for_installation_stage_percentage: preparing,
            installing_stage_percentage: installing,
            finalizing_stage_percentage: finalizing,
            ..ClusterProgressInfo::default()
        };
        assert_eq!(
            [(100, 0, 0), (100, 99, 0), (100, 100, 50), (100, 100, 100)].map(|(p, i, f)| total_percent(&info(p, i, f))),
            [10, 79, 87, 95]
        );
    }

    #[test]
    fn cluster_percent_counts_hosts_without_a_stage() {
        let stages = StageList::Master.stages();
        let hosts = [(Some(HostStage::Done), stages), (None, stages)];
        assert_eq!(installing_percent(hosts.into_iter()), 50);
        assert_eq!(installing_percent([].into_iter()), 0);
    }
}
