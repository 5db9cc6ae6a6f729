//! Transitions of a cluster: user actions and the periodic refresh (service contract §3), for clusters whose control
//! plane nobody brings up: when all hosts are installed there is nothing left to finalize.

use super::{ClusterState, HostState, limits};
use ClusterState as S;
use api::HostRole;

/// Status texts.
pub mod info {
    #![allow(missing_docs)]
    pub const INSUFFICIENT: &str = "Cluster is not ready for install";
    pub const PENDING: &str = "User input required";
    pub const READY: &str = "Cluster ready to be installed";
    pub const PREPARING: &str = "Preparing cluster for installation";
    pub const INSTALLING: &str = "Installation in progress";
    pub const USER_ACTION: &str = "Cluster has hosts pending user action";
    pub const FINALIZING: &str = "Finalizing cluster installation";
    pub const INSTALLED: &str = "Cluster is installed";
    pub const HOSTS_IN_ERROR: &str = "cluster has hosts in error";
    pub const STOPPED_PREPARING: &str = "At least one host has stopped preparing for installation";
    pub const CANCELLED: &str = "Cluster installation was cancelled";
    pub const RESET: &str = "cluster was reset by user";
    pub const USER_ACTION_TIMEOUT: &str = "cluster installation timed out while pending user action";
}

/// What a refresh decides on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Current state.
    pub state: ClusterState,
    /// Seconds in it.
    pub in_state: i64,
    /// Its hosts: state and effective role.
    pub hosts: &'a [(HostState, HostRole)],
    /// Control-plane hosts wanted.
    pub control_plane_count: usize,
    /// A check on what the user must still give fails.
    pub input_missing: bool,
    /// A check on readiness fails.
    pub not_ready: bool,
}

/// The periodic pass over one cluster (§3.2); `None` leaves it as it is.
pub fn refresh(f: &Facts) -> Option<(ClusterState, &'static str)> {
    let installed = enough(f.hosts, f.control_plane_count, |state| state == HostState::Installed);
    let installing = enough(f.hosts, f.control_plane_count, |state| {
        matches!(
            state,
            HostState::Installing
                | HostState::InstallingInProgress
                | HostState::Installed
                | HostState::InstallingPendingUserAction
                | HostState::PreparingSuccessful
        )
    });
    let pending = f.hosts.iter().any(|(state, _)| *state == HostState::InstallingPendingUserAction);
    let unfinished = f.hosts.iter().any(|(state, _)| !matches!(state, HostState::Installed | HostState::Error));
    match f.state {
        S::Insufficient | S::Ready | S::PendingForInput if f.input_missing => Some((S::PendingForInput, info::PENDING)),
        S::Insufficient | S::Ready | S::PendingForInput if f.not_ready => Some((S::Insufficient, info::INSUFFICIENT)),
        S::Insufficient | S::Ready | S::PendingForInput => Some((S::Ready, info::READY)),
        S::PreparingForInstallation if f.hosts.iter().all(|(state, _)| *state == HostState::PreparingSuccessful) => {
            Some((S::Installing, info::INSTALLING))
        }
        S::PreparingForInstallation => {
            let preparing = [HostState::PreparingForInstallation, HostState::PreparingSuccessful, HostState::Known];
            let stray = f.hosts.iter().any(|(state, _)| !preparing.contains(state));
            stray.then_some((S::Insufficient, info::STOPPED_PREPARING))
        }
        S::InstallingPendingUserAction | S::Installing | S::Finalizing if !installing && !installed => {
            Some((S::Error, info::HOSTS_IN_ERROR))
        }
        S::InstallingPendingUserAction if f.in_state > limits::CLUSTER_PENDING_USER_ACTION => {
            Some((S::Error, info::USER_ACTION_TIMEOUT))
        }
        S::InstallingPendingUserAction if pending => None,
        S::InstallingPendingUserAction if installed => Some((S::Finalizing, info::FINALIZING)),
        S::InstallingPendingUserAction => Some((S::Installing, info::INSTALLING)),
        S::Installing | S::Finalizing if pending => Some((S::InstallingPendingUserAction, info::USER_ACTION)),
        S::Installing if installed => Some((S::Finalizing, info::FINALIZING)),
        S::Finalizing if installed && !unfinished => Some((S::Installed, info::INSTALLED)),
        _ => None,
    }
}

/// Whether the hosts whose state counts carry the cluster: all wanted control-plane hosts, and two workers where two or
/// more were to be installed.
pub fn enough(hosts: &[(HostState, HostRole)], control_plane_count: usize, counts: impl Fn(HostState) -> bool) -> bool {
    let having = |worker: bool, all: bool| {
        hosts.iter().filter(|(state, role)| (*role == HostRole::Worker) == worker && (all || counts(*state))).count()
    };
    let workers_needed = if having(true, true) >= 2 { 2 } else { 0 };
    having(false, false) >= control_plane_count.max(1) && having(true, false) >= workers_needed
}

/// The user cancels; `Err` in a state without anything to cancel.
pub fn cancel(state: ClusterState) -> Result<(ClusterState, &'static str), ClusterState> {
    match state {
        S::Installing | S::InstallingPendingUserAction | S::Error | S::Finalizing => {
            Ok((S::Cancelled, info::CANCELLED))
        }
        S::PreparingForInstallation => Ok((S::Ready, info::READY)),
        state => Err(state),
    }
}

/// The user resets; `Err` in a state without anything to reset.
pub fn reset(state: ClusterState) -> Result<(ClusterState, &'static str), ClusterState> {
    match state {
        S::PreparingForInstallation
        | S::Installing
        | S::InstallingPendingUserAction
        | S::Error
        | S::Cancelled
        | S::Finalizing => Ok((S::Insufficient, info::RESET)),
        state => Err(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HostState as H;

    const M: HostRole = HostRole::Master;
    const W: HostRole = HostRole::Worker;

    fn pass(state: ClusterState, hosts: &[(HostState, HostRole)], masters: usize) -> Option<ClusterState> {
        let facts =
            Facts { state, in_state: 0, hosts, control_plane_count: masters, input_missing: false, not_ready: false };
        refresh(&facts).map(|(state, _)| state)
    }

    #[test]
    fn before_installation() {
        let facts = Facts {
            state: S::Insufficient,
            in_state: 0,
            hosts: &[],
            control_plane_count: 3,
            input_missing: false,
            not_ready: true,
        };
        let to = |facts: Facts| refresh(&facts).map(|(state, _)| state);
        assert_eq!(to(facts.clone()), Some(S::Insufficient));
        assert_eq!(to(Facts { not_ready: false, ..facts.clone() }), Some(S::Ready));
        assert_eq!(to(Facts { input_missing: true, ..facts }), Some(S::PendingForInput));
    }

    #[test]
    fn installation_table() {
        type Row<'a> = (ClusterState, &'a [(HostState, HostRole)], usize, Option<ClusterState>);
        let rows: &[Row] = &[
            (S::PreparingForInstallation, &[(H::PreparingSuccessful, M)], 1, Some(S::Installing)),
            (S::PreparingForInstallation, &[(H::PreparingSuccessful, M), (H::Known, W)], 1, None),
            (S::PreparingForInstallation, &[(H::Disconnected, M)], 1, Some(S::Insufficient)),
            (S::Installing, &[(H::Installing, M)], 1, None),
            (S::Installing, &[(H::Installed, M)], 1, Some(S::Finalizing)),
            (S::Installing, &[(H::Installed, M), (H::InstallingInProgress, M)], 2, None),
            (S::Installing, &[(H::Error, M)], 1, Some(S::Error)),
            (S::Installing, &[(H::Installing, M), (H::Error, W), (H::Installing, W)], 1, Some(S::Error)),
            (S::Installing, &[(H::Installing, M), (H::Error, W)], 1, None),
            (S::Installing, &[(H::InstallingPendingUserAction, M)], 1, Some(S::InstallingPendingUserAction)),
            (S::InstallingPendingUserAction, &[(H::InstallingPendingUserAction, M)], 1, None),
            (S::InstallingPendingUserAction, &[(H::InstallingInProgress, M)], 1, Some(S::Installing)),
            (S::Finalizing, &[(H::Installed, M), (H::InstallingInProgress, W)], 1, None),
            (S::Finalizing, &[(H::Installed, M), (H::Error, W)], 1, Some(S::Installed)),
            (S::Finalizing, &[(H::Installed, M)], 1, Some(S::Installed)),
            (S::Installed, &[(H::Installed, M)], 1, None),
            (S::Error, &[(H::Error, M)], 1, None),
        ];
        for (state, hosts, masters, expected) in rows {
            assert_eq!(pass(*state, hosts, *masters), *expected, "{state} {hosts:?}");
        }
    }

    #[test]
    fn actions() {
        assert_eq!(cancel(S::Installing).unwrap().0, S::Cancelled);
        assert_eq!(cancel(S::PreparingForInstallation).unwrap().0, S::Ready);
        assert_eq!(cancel(S::Installed), Err(S::Installed));
        assert_eq!(reset(S::Error).unwrap().0, S::Insufficient);
        assert_eq!(reset(S::Ready), Err(S::Ready));
    }
}
