//! Transitions of a host: registration, user actions, and the periodic refresh.

use super::{ClusterState, HostState, limits};
use HostState as S;
use api::HostStage;

/// Status texts that never vary (service contract §2.2).
pub mod info {
    #![allow(missing_docs)]
    pub const DISCOVERING: &str = "Waiting for host to send hardware details";
    pub const KNOWN: &str = "Host is ready to be installed";
    pub const KNOWN_UNBOUND: &str = "Host is ready to be bound to a cluster";
    pub const PREPARED: &str = "Host finished successfully to prepare for installation";
    pub const INSTALLING: &str = "Installation is in progress";
    pub const DISCONNECTED: &str = "Host has stopped communicating with the installation service";
    pub const CLUSTER_ERROR: &str = "Host is part of a cluster that failed to install";
    pub const RESTARTED: &str = "The host unexpectedly restarted during the installation";
    pub const RESETTING: &str = "Host requires booting into the discovery image to complete resetting the installation";
    pub const START_TIMEOUT: &str = "Host failed to install due to timeout while starting installation";
    pub const LOST: &str =
        "Host failed to install due to timeout while connecting to host during the installation phase.";
    pub const LOST_PREPARING: &str =
        "Host failed to prepare for installation due to timeout while connecting to host during the preparation phase.";
    pub const USER_ACTION_TIMEOUT: &str =
        "Host failed to install because it failed to boot from the installation disk within the expected time";
}

/// A new state with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The state to enter; may be the one the host is in, then only the text changes.
    pub to: HostState,
    /// Its text.
    pub info: String,
    /// Forget what was learnt from an earlier boot.
    pub reset: bool,
}

fn step(to: HostState, info: impl Into<String>) -> Option<Step> {
    Some(Step { to, info: info.into(), reset: false })
}

/// Why a registration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// It was installed and booted the discovery image once more.
    #[error("the host is installed: fix its boot order so that it boots from its installation disk, then restart it")]
    Installed,
    /// It booted the discovery image again although it was told so.
    #[error("the host is still to boot from its installation disk: fix its boot order, then restart it")]
    WrongBootAgain,
    /// No rule lets a host of this state register.
    #[error("a host in status {0} can't register: reset the cluster, or delete the host")]
    State(HostState),
}

/// A known host registers again (§2.3). `disk` describes its installation disk for people.
pub fn register(
    state: HostState,
    stage: Option<HostStage>,
    status_info: &str,
    disk: &str,
) -> Result<Step, RegisterError> {
    let rebooting = stage == Some(HostStage::Rebooting);
    let to = |to, info: &str, reset| Ok(Step { to, info: info.into(), reset });
    match state {
        S::PreparingForInstallation | S::PreparingSuccessful => to(S::Known, info::KNOWN, false),
        S::Discovering
        | S::Known
        | S::Disconnected
        | S::Insufficient
        | S::ResettingPendingUserAction
        | S::PendingForInput => to(S::Discovering, info::DISCOVERING, true),
        S::InstallingInProgress if rebooting => to(
            S::InstallingPendingUserAction,
            &format!(
                "The host booted the discovery image again instead of its installation disk {disk}: \
                 fix its boot order so that this disk comes first, then restart it"
            ),
            false,
        ),
        S::InstallingPendingUserAction => Err(RegisterError::WrongBootAgain),
        S::Installing | S::InstallingInProgress => to(S::Error, info::RESTARTED, false),
        S::Error => to(S::Error, status_info, false),
        S::Installed => Err(RegisterError::Installed),
        S::DiscoveringUnbound | S::DisconnectedUnbound | S::InsufficientUnbound | S::KnownUnbound => {
            to(S::DiscoveringUnbound, info::DISCOVERING, true)
        }
        _ => Err(RegisterError::State(state)),
    }
}

/// The install step failed on the host; `None` when the host isn't installing (the reply came too late).
pub fn install_failed(state: HostState, reason: &str) -> Option<Step> {
    matches!(state, S::Installing | S::InstallingInProgress)
        .then_some(())
        .and_then(|()| step(S::Error, format!("installation command failed: {reason}")))
}

/// The user cancels the cluster's installation; `Err` when a host of this state can't be cancelled.
pub fn cancel(state: HostState) -> Result<Step, HostState> {
    match state {
        S::InstallingPendingUserAction | S::Installing | S::InstallingInProgress | S::Installed | S::Error => {
            step(S::Cancelled, "Installation was cancelled by user").ok_or(state)
        }
        S::PreparingForInstallation | S::PreparingSuccessful | S::Known => step(S::Known, info::KNOWN).ok_or(state),
        _ => Err(state),
    }
}

/// The user resets the cluster; `Err` when a host of this state can't be reset (the whole reset then fails, as published).
pub fn reset(state: HostState) -> Result<Step, HostState> {
    match state {
        S::Insufficient | S::Disconnected => Err(state),
        state if state.unbound() => Err(state),
        _ => step(S::ResettingPendingUserAction, info::RESETTING).ok_or(state),
    }
}

/// What a refresh decides on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Current state.
    pub state: HostState,
    /// Current stage.
    pub stage: Option<HostStage>,
    /// State of its cluster.
    pub cluster: Option<ClusterState>,
    /// Heard of lately.
    pub connected: bool,
    /// Its role is decided.
    pub role_set: bool,
    /// Seconds in the current state.
    pub in_state: i64,
    /// Seconds since the stage last moved.
    pub in_stage: i64,
    /// The only node of its cluster.
    pub single_node: bool,
    /// It has sent an inventory.
    pub has_inventory: bool,
    /// Failing checks of minimum hardware, as messages.
    pub hardware_failures: &'a [String],
    /// Other failing checks that keep it from being known, as messages.
    pub failures: &'a [String],
    /// The cluster has enough installed hosts without this one.
    pub dispensable: bool,
    /// Name of its installation disk, for people.
    pub disk: &'a str,
}

/// The periodic pass over one host (§2.6); `None` leaves it as it is. Rules are in the contract's order.
pub fn refresh(f: &Facts) -> Option<Step> {
    if f.state.unbound() {
        return refresh_unbound(f);
    }
    let preparing = f.cluster == Some(ClusterState::PreparingForInstallation);
    match f.state {
        S::Known if f.role_set && f.connected && preparing => return step(S::PreparingForInstallation, info::PREPARED),
        // No disk speed or image steps are handed out: there is nothing to wait for.
        S::PreparingForInstallation if f.connected && preparing => return step(S::PreparingSuccessful, info::PREPARED),
        S::PreparingSuccessful if f.connected && preparing => return None,
        S::PreparingSuccessful if f.connected && f.cluster == Some(ClusterState::Installing) => {
            return step(S::Installing, info::INSTALLING);
        }
        S::PreparingForInstallation | S::PreparingSuccessful if f.connected => return step(S::Known, info::KNOWN),
        S::PreparingForInstallation | S::PreparingSuccessful => return step(S::Disconnected, info::LOST_PREPARING),
        S::Discovering | S::Insufficient | S::Known | S::PendingForInput | S::Disconnected if !f.connected => {
            return step(S::Disconnected, info::DISCONNECTED);
        }
        S::Installing
        | S::InstallingInProgress
        | S::Installed
        | S::ResettingPendingUserAction
        | S::InstallingPendingUserAction
            if f.cluster == Some(ClusterState::Error) =>
        {
            return step(S::Error, info::CLUSTER_ERROR);
        }
        S::Installing if f.in_state > limits::START => return step(S::Error, info::START_TIMEOUT),
        S::Installing | S::InstallingInProgress if !f.connected => return step(S::Error, info::LOST),
        S::InstallingInProgress => return refresh_stage(f),
        S::InstallingPendingUserAction if f.in_state > limits::PENDING_USER_ACTION && f.dispensable => {
            return step(S::Error, info::USER_ACTION_TIMEOUT);
        }
        S::Discovering | S::Insufficient | S::Known | S::PendingForInput | S::Disconnected => {}
        _ => return None,
    }
    if !f.has_inventory {
        return step(S::Discovering, info::DISCOVERING);
    }
    if !f.hardware_failures.is_empty() {
        let list = message_list(f.hardware_failures);
        return step(S::Insufficient, format!("Host does not meet the minimum hardware requirements: {list}"));
    }
    if !f.failures.is_empty() {
        let list = message_list(f.failures);
        return step(
            S::Insufficient,
            format!("Host cannot be installed due to following failing validation(s): {list}"),
        );
    }
    step(S::Known, info::KNOWN)
}

fn refresh_stage(f: &Facts) -> Option<Step> {
    let stage = f.stage?;
    let limit = limits::stage(stage, f.single_node);
    // While a peer waits for a person, stages that depend on the peers must not run out.
    let waits_for_peers = matches!(
        stage,
        HostStage::WaitingForControlPlane
            | HostStage::WaitingForController
            | HostStage::WaitingForBootkube
            | HostStage::Rebooting
    );
    if f.in_stage <= limit || waits_for_peers && f.cluster == Some(ClusterState::InstallingPendingUserAction) {
        return None;
    }
    let limit = limits::go_duration(limit);
    match stage {
        HostStage::Rebooting => step(
            S::InstallingPendingUserAction,
            format!(
                "Host timed out when rebooting ({limit}). Make sure that it boots from its installation disk {}; \
                 the installation goes on once it has.",
                f.disk
            ),
        ),
        HostStage::WritingImageToDisk | HostStage::CopyingRegistryDataToDisk => step(
            S::Error,
            format!(
                "Host failed to install because its installation stage {stage} did not sufficiently progress in the last {limit}."
            ),
        ),
        _ => step(
            S::Error,
            format!("Host failed to install because its installation stage {stage} took longer than expected {limit}"),
        ),
    }
}

fn refresh_unbound(f: &Facts) -> Option<Step> {
    if !f.connected {
        return step(S::DisconnectedUnbound, info::DISCONNECTED);
    }
    if !f.has_inventory {
        return step(S::DiscoveringUnbound, info::DISCOVERING);
    }
    let all: Vec<String> = f.hardware_failures.iter().chain(f.failures).cloned().collect();
    if !all.is_empty() {
        let list = message_list(&all);
        return step(S::InsufficientUnbound, format!("Host does not meet the minimum hardware requirements: {list}"));
    }
    step(S::KnownUnbound, info::KNOWN_UNBOUND)
}

/// Messages, sorted and joined; cut so that a status text stays a text.
pub fn message_list(messages: &[String]) -> String {
    const MAX_CHARS: usize = 2040;
    let mut sorted: Vec<&str> = messages.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.join(" ; ").chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_table() {
        const REBOOTING: Option<HostStage> = Some(HostStage::Rebooting);
        type Row = (HostState, Option<HostStage>, Result<(HostState, bool), RegisterError>);
        let rows: &[Row] = &[
            (S::Discovering, None, Ok((S::Discovering, true))),
            (S::Known, None, Ok((S::Discovering, true))),
            (S::Disconnected, None, Ok((S::Discovering, true))),
            (S::Insufficient, None, Ok((S::Discovering, true))),
            (S::PendingForInput, None, Ok((S::Discovering, true))),
            (S::ResettingPendingUserAction, REBOOTING, Ok((S::Discovering, true))),
            (S::PreparingForInstallation, None, Ok((S::Known, false))),
            (S::PreparingSuccessful, None, Ok((S::Known, false))),
            (S::InstallingInProgress, REBOOTING, Ok((S::InstallingPendingUserAction, false))),
            (S::InstallingInProgress, Some(HostStage::Installing), Ok((S::Error, false))),
            (S::Installing, None, Ok((S::Error, false))),
            (S::InstallingPendingUserAction, REBOOTING, Err(RegisterError::WrongBootAgain)),
            (S::Error, None, Ok((S::Error, false))),
            (S::Installed, Some(HostStage::Done), Err(RegisterError::Installed)),
            (S::Cancelled, None, Err(RegisterError::State(S::Cancelled))),
            (S::KnownUnbound, None, Ok((S::DiscoveringUnbound, true))),
            (S::DisconnectedUnbound, None, Ok((S::DiscoveringUnbound, true))),
        ];
        for (state, stage, expected) in rows {
            let found = register(*state, *stage, "why", "vda").map(|step| (step.to, step.reset));
            assert_eq!(found, *expected, "{state} {stage:?}");
        }
        assert_eq!(register(S::Error, None, "why", "").unwrap().info, "why", "the first reason stays");
    }

    fn facts(state: HostState) -> Facts<'static> {
        Facts {
            state,
            stage: None,
            cluster: Some(ClusterState::Insufficient),
            connected: true,
            role_set: true,
            in_state: 0,
            in_stage: 0,
            single_node: false,
            has_inventory: true,
            hardware_failures: &[],
            failures: &[],
            dispensable: false,
            disk: "vda",
        }
    }

    #[test]
    fn refresh_before_installation() {
        let failing = ["too small".to_owned()];
        let pass = |facts: Facts| refresh(&facts).map(|step| step.to);
        for state in [S::Discovering, S::Insufficient, S::Known, S::Disconnected, S::PendingForInput] {
            let f = facts(state);
            assert_eq!(pass(f.clone()), Some(S::Known), "{state}");
            assert_eq!(pass(Facts { connected: false, ..f.clone() }), Some(S::Disconnected), "{state}");
            assert_eq!(pass(Facts { has_inventory: false, ..f.clone() }), Some(S::Discovering), "{state}");
            assert_eq!(pass(Facts { hardware_failures: &failing, ..f.clone() }), Some(S::Insufficient), "{state}");
            assert_eq!(pass(Facts { failures: &failing, ..f }), Some(S::Insufficient), "{state}");
        }
        let unbound = Facts { cluster: None, ..facts(S::DiscoveringUnbound) };
        assert_eq!(pass(unbound.clone()), Some(S::KnownUnbound));
        assert_eq!(pass(Facts { failures: &failing, ..unbound.clone() }), Some(S::InsufficientUnbound));
        assert_eq!(pass(Facts { connected: false, ..unbound }), Some(S::DisconnectedUnbound));
    }

    #[test]
    fn refresh_around_installation() {
        let preparing = Some(ClusterState::PreparingForInstallation);
        let installing = Some(ClusterState::Installing);
        let failed = Some(ClusterState::Error);
        let rows: &[(Facts, Option<HostState>)] = &[
            (Facts { cluster: preparing, ..facts(S::Known) }, Some(S::PreparingForInstallation)),
            (Facts { cluster: preparing, role_set: false, ..facts(S::Known) }, Some(S::Known)),
            (Facts { cluster: preparing, ..facts(S::PreparingForInstallation) }, Some(S::PreparingSuccessful)),
            (Facts { cluster: preparing, ..facts(S::PreparingSuccessful) }, None),
            (Facts { cluster: installing, ..facts(S::PreparingSuccessful) }, Some(S::Installing)),
            (facts(S::PreparingSuccessful), Some(S::Known)),
            (Facts { connected: false, cluster: preparing, ..facts(S::PreparingSuccessful) }, Some(S::Disconnected)),
            (Facts { cluster: installing, ..facts(S::Installing) }, None),
            (Facts { cluster: installing, in_state: limits::START + 1, ..facts(S::Installing) }, Some(S::Error)),
            (Facts { cluster: installing, connected: false, ..facts(S::Installing) }, Some(S::Error)),
            (Facts { cluster: failed, ..facts(S::InstallingInProgress) }, Some(S::Error)),
            (Facts { cluster: failed, ..facts(S::Installed) }, Some(S::Error)),
            (Facts { cluster: installing, ..facts(S::Installed) }, None),
            (Facts { in_state: 1_000_000, ..facts(S::Error) }, None),
            (Facts { in_state: 1_000_000, ..facts(S::Cancelled) }, None),
            (Facts { in_state: 1_000_000, connected: false, ..facts(S::ResettingPendingUserAction) }, None),
            (Facts { in_state: 3601, ..facts(S::InstallingPendingUserAction) }, None),
            (Facts { in_state: 3601, dispensable: true, ..facts(S::InstallingPendingUserAction) }, Some(S::Error)),
        ];
        for (facts, expected) in rows {
            assert_eq!(refresh(facts).map(|step| step.to), *expected, "{facts:?}");
        }
    }

    #[test]
    fn stage_limits() {
        let rows: &[(HostStage, i64, ClusterState, Option<HostState>)] = &[
            (HostStage::WritingImageToDisk, 1800, ClusterState::Installing, None),
            (HostStage::WritingImageToDisk, 1801, ClusterState::Installing, Some(S::Error)),
            (HostStage::Rebooting, 2401, ClusterState::Installing, Some(S::InstallingPendingUserAction)),
            (HostStage::Rebooting, 2401, ClusterState::InstallingPendingUserAction, None),
            (HostStage::Installing, 3601, ClusterState::InstallingPendingUserAction, Some(S::Error)),
            (HostStage::Joined, 3601, ClusterState::Installing, Some(S::Error)),
        ];
        for (stage, in_stage, cluster, expected) in rows {
            let f = Facts {
                stage: Some(*stage),
                in_stage: *in_stage,
                cluster: Some(*cluster),
                ..facts(S::InstallingInProgress)
            };
            assert_eq!(refresh(&f).map(|step| step.to), *expected, "{stage} {in_stage} {cluster}");
        }
    }

    #[test]
    fn cancel_and_reset_tables() {
        let cancels = |state| cancel(state).map(|step| step.to);
        assert_eq!(cancels(S::Installing), Ok(S::Cancelled));
        assert_eq!(cancels(S::PreparingSuccessful), Ok(S::Known));
        assert_eq!(cancels(S::Discovering), Err(S::Discovering));
        let resets = |state| reset(state).map(|step| step.to);
        assert_eq!(resets(S::Installed), Ok(S::ResettingPendingUserAction));
        assert_eq!(resets(S::Disconnected), Err(S::Disconnected));
        assert_eq!(install_failed(S::Installing, "x").unwrap().to, S::Error);
        assert_eq!(install_failed(S::Installed, "x"), None);
    }

    #[test]
    fn long_lists_are_cut() {
        let many: Vec<String> = (0..500).map(|i| format!("message {i}")).collect();
        assert_eq!(message_list(&many).chars().count(), 2040);
        assert_eq!(message_list(&["b".into(), "a".into()]), "a ; b");
    }
}
