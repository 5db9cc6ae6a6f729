//! Every row of the table of hosts, by id.

use super::*;
use crate::state::{InventoryState, coverage::Section};
use HostState as S;
use Trigger as T;
use api::HostStage as G;

/// What is expected of a trigger.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    To(HostState),
    Stay,
    Refuse(u16),
    NoRow,
}
use Then::{NoRow, Refuse, Stay, To};

/// Healthy, bound, of a role, in a cluster that is being gathered.
fn fine() -> Facts {
    Facts {
        cluster: Some(ClusterState::Insufficient),
        role_set: true,
        monitored: true,
        checks: HostChecks {
            connected: true,
            media_connected: true,
            inventory: InventoryState::Usable,
            ..HostChecks::default()
        },
        ..Facts::default()
    }
}

fn with(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = fine();
    change(&mut facts);
    facts
}

fn preparing(change: impl FnOnce(&mut HostChecks)) -> Facts {
    with(|f| {
        f.cluster = Some(ClusterState::PreparingForInstallation);
        change(&mut f.checks);
    })
}

fn failing() -> Vec<String> {
    vec!["it is too small".to_owned()]
}

fn in_progress(stage: HostStage, change: impl FnOnce(&mut Facts)) -> Facts {
    with(|f| {
        f.cluster = Some(ClusterState::Installing);
        f.stage = Some(stage);
        change(f);
    })
}

/// Row, trigger, states, facts, outcome.
type Case = (&'static str, Trigger, &'static [HostState], Facts, Then);

const PRE: &[HostState] = &[S::Discovering, S::Insufficient, S::Known, S::PendingForInput, S::Disconnected];
const POOL: &[HostState] = &[S::DiscoveringUnbound, S::KnownUnbound, S::InsufficientUnbound, S::DisconnectedUnbound];
const RUNNING: &[HostState] = &[S::Installing, S::InstallingInProgress, S::InstallingPendingUserAction];

fn registration() -> Vec<Case> {
    let rebooting = || with(|f| f.stage = Some(G::Rebooting));
    let joined = |stage| with(|f| (f.day2, f.stage) = (true, Some(stage)));
    vec![
        ("2.3.3", T::Register, &[S::PreparingForInstallation, S::PreparingSuccessful], fine(), To(S::Known)),
        ("2.3.4", T::Register, PRE, fine(), To(S::Discovering)),
        ("2.3.4", T::Register, &[S::ResettingPendingUserAction, S::Binding], rebooting(), To(S::Discovering)),
        ("2.3.5", T::Register, &[S::Resetting], rebooting(), To(S::Resetting)),
        ("2.3.6", T::Register, &[S::Resetting], fine(), To(S::Discovering)),
        ("2.3.7a", T::Register, &[S::InstallingPendingUserAction], rebooting(), Refuse(400)),
        ("2.3.7b", T::Register, &[S::InstallingInProgress], rebooting(), To(S::InstallingPendingUserAction)),
        ("2.3.7b", T::Register, &[S::AddedToExistingCluster], joined(G::Done), To(S::InstallingPendingUserAction)),
        ("2.3.8", T::Register, &[S::Installing, S::InstallingInProgress], fine(), To(S::Error)),
        ("2.3.9", T::Register, &[S::Error], fine(), To(S::Error)),
        ("2.3.10", T::Register, &[S::Installed], fine(), Refuse(409)),
        ("2.3.11", T::Register, POOL, fine(), To(S::DiscoveringUnbound)),
        (
            "2.3.11",
            T::Register,
            &[S::Unbinding, S::UnbindingPendingUserAction, S::ReclaimingRebooting],
            fine(),
            To(S::DiscoveringUnbound),
        ),
        ("", T::Register, &[S::Cancelled, S::PreparingFailed, S::Reclaiming, S::Disabled], fine(), NoRow),
        ("", T::Register, &[S::InstallingPendingUserAction, S::AddedToExistingCluster], joined(G::Joined), NoRow),
    ]
}

fn progress() -> Vec<Case> {
    let at = |stage, day2| with(|f| (f.stage, f.day2) = (Some(stage), day2));
    vec![
        ("2.4.2", T::Progress, RUNNING, at(G::Done, true), To(S::AddedToExistingCluster)),
        ("2.4.3", T::Progress, &[S::Installing, S::InstallingInProgress], at(G::Done, false), To(S::Installed)),
        ("2.4.3+", T::Progress, &[S::InstallingPendingUserAction], at(G::Done, false), To(S::Installed)),
        ("2.4.4", T::Progress, RUNNING, at(G::WritingImageToDisk, true), To(S::InstallingInProgress)),
        ("2.4.5", T::Progress, &[S::Installed, S::ResettingPendingUserAction], at(G::Done, false), Stay),
        ("4.7", T::Failed, RUNNING, fine(), To(S::Error)),
        ("", T::Progress, &[S::Known, S::Error, S::Cancelled], at(G::Installing, false), NoRow),
        ("", T::Failed, &[S::Known, S::Installed], fine(), NoRow),
    ]
}

fn actions() -> Vec<Case> {
    const PREPARED: &[HostState] = &[S::PreparingForInstallation, S::PreparingSuccessful];
    const OUT: &[HostState] = &[
        S::PreparingForInstallation,
        S::PreparingSuccessful,
        S::PreparingFailed,
        S::Installing,
        S::InstallingInProgress,
        S::InstallingPendingUserAction,
        S::Installed,
        S::AddedToExistingCluster,
        S::Error,
        S::Cancelled,
    ];
    const RESET: &[HostState] = &[
        S::Resetting,
        S::Discovering,
        S::Known,
        S::PendingForInput,
        S::PreparingForInstallation,
        S::PreparingSuccessful,
        S::PreparingFailed,
        S::Installing,
        S::InstallingInProgress,
        S::InstallingPendingUserAction,
        S::Installed,
        S::Error,
        S::Cancelled,
        S::AddedToExistingCluster,
        S::ResettingPendingUserAction,
    ];
    const ENDED: &[HostState] = &[S::Installed, S::AddedToExistingCluster];
    let day2 = || with(|f| f.day2 = true);
    vec![
        ("2.5.1", T::InstallationFailed, &[S::Installing, S::InstallingInProgress], fine(), To(S::Error)),
        ("", T::InstallationFailed, &[S::Installed, S::Known, S::Cancelled], fine(), NoRow),
        ("2.5.2", T::Cancel, RUNNING, fine(), To(S::Cancelled)),
        ("2.5.2", T::Cancel, &[S::Installed, S::Error], fine(), To(S::Cancelled)),
        ("2.5.3", T::Cancel, PREPARED, fine(), To(S::Known)),
        ("2.5.4", T::Cancel, &[S::Known], fine(), To(S::Known)),
        ("", T::Cancel, &[S::Discovering, S::Cancelled, S::Insufficient], fine(), NoRow),
        ("2.5.5", T::Install, &[S::Known], day2(), To(S::Installing)),
        ("", T::Install, &[S::Known], fine(), NoRow),
        ("", T::Install, &[S::Insufficient], day2(), NoRow),
        ("2.5.6", T::Reset, RESET, fine(), To(S::ResettingPendingUserAction)),
        ("", T::Reset, &[S::Insufficient, S::Disconnected, S::Binding], fine(), NoRow),
        ("2.5.7", T::Unbind, PRE, fine(), To(S::Unbinding)),
        ("2.5.8", T::Unbind, OUT, fine(), To(S::UnbindingPendingUserAction)),
        ("", T::Unbind, POOL, fine(), NoRow),
        ("2.5.9", T::Reclaim, ENDED, fine(), To(S::Reclaiming)),
        ("2.5.10", T::Reclaim, PRE, fine(), To(S::Unbinding)),
        ("2.5.11", T::Reclaim, &[S::Error, S::Cancelled], fine(), To(S::UnbindingPendingUserAction)),
        ("", T::Reclaim, RUNNING, fine(), NoRow),
        ("2.5.12", T::RebootForReclaim, &[S::Reclaiming], fine(), To(S::ReclaimingRebooting)),
        (
            "2.5.13",
            T::ReclaimFailed,
            &[S::Reclaiming, S::ReclaimingRebooting],
            fine(),
            To(S::UnbindingPendingUserAction),
        ),
        ("2.5.14", T::Bind, &[S::KnownUnbound], fine(), To(S::Binding)),
        ("", T::Bind, &[S::InsufficientUnbound, S::Known], fine(), NoRow),
        ("2.5.15", T::MediaDisconnect, PRE, fine(), To(S::Disconnected)),
        ("2.5.15", T::MediaDisconnect, &[S::Binding], fine(), To(S::Disconnected)),
        ("2.5.16a", T::MediaDisconnect, PREPARED, fine(), To(S::Error)),
        (
            "2.5.16a",
            T::MediaDisconnect,
            &[S::PreparingFailed, S::Installing, S::InstallingInProgress],
            fine(),
            To(S::Error),
        ),
        ("2.5.16b", T::MediaDisconnect, &[S::Error], fine(), To(S::Error)),
        ("2.5.17", T::MediaDisconnect, POOL, fine(), To(S::DisconnectedUnbound)),
        ("", T::MediaDisconnect, &[S::Installed, S::InstallingPendingUserAction], fine(), NoRow),
    ]
}

fn refresh_preparing() -> Vec<Case> {
    const PREPARING: &[HostState] = &[S::PreparingForInstallation];
    const PREPARED: &[HostState] = &[S::PreparingSuccessful];
    use Outcome::{Failure, Unknown};
    let in_cluster = |state| with(|f| f.cluster = Some(state));
    let apart = |change: fn(&mut HostChecks)| with(|f| change(&mut f.checks));
    let late = |change: fn(&mut HostChecks)| {
        let mut facts = preparing(change);
        facts.in_state = limits::PREPARATION + 1;
        facts
    };
    vec![
        (
            "2.6.1",
            T::Refresh,
            &[S::Reclaiming, S::ReclaimingRebooting],
            with(|f| f.in_state = 3601),
            To(S::UnbindingPendingUserAction),
        ),
        ("2.6.2a", T::Refresh, &[S::Known], preparing(|c| c.images = Failure), To(S::PreparingForInstallation)),
        ("2.6.2b", T::Refresh, &[S::Known], preparing(|_| ()), To(S::PreparingForInstallation)),
        ("2.6.3", T::Refresh, PREPARING, preparing(|_| ()), To(S::PreparingSuccessful)),
        ("", T::Refresh, PREPARING, Facts { monitored: false, ..preparing(|_| ()) }, NoRow),
        ("2.6.4", T::Refresh, PREPARED, preparing(|_| ()), Stay),
        ("2.6.5", T::Refresh, PREPARED, in_cluster(ClusterState::Installing), To(S::Installing)),
        ("2.6.6", T::Refresh, PREPARING, apart(|c| c.images = Unknown), To(S::Known)),
        ("2.6.6", T::Refresh, PREPARING, fine(), To(S::Known)),
        ("2.6.7", T::Refresh, PREPARING, preparing(|c| c.disk_speed = Failure), To(S::Insufficient)),
        ("2.6.7", T::Refresh, &[S::PreparingFailed, S::Known], apart(|c| c.disk_speed = Failure), To(S::Insufficient)),
        ("2.6.8", T::Refresh, PREPARING, late(|c| c.disk_speed = Unknown), To(S::PreparingFailed)),
        (
            "2.6.9",
            T::Refresh,
            PREPARING,
            late(|c| (c.disk_speed, c.images) = (Unknown, Failure)),
            To(S::PreparingFailed),
        ),
        ("2.6.10", T::Refresh, PREPARING, preparing(|c| c.images = Unknown), Stay),
        ("2.6.11", T::Refresh, &[S::PreparingFailed], fine(), To(S::Known)),
        ("", T::Refresh, &[S::PreparingFailed], preparing(|_| ()), NoRow),
        ("2.6.12", T::Refresh, PREPARED, fine(), To(S::Known)),
        ("2.6.13", T::Refresh, PRE, apart(|c| c.connected = false), To(S::Disconnected)),
        ("2.6.13", T::Refresh, &[S::PreparingFailed], apart(|c| c.media_connected = false), To(S::Disconnected)),
        (
            "2.6.16",
            T::Refresh,
            &[S::PreparingForInstallation, S::PreparingSuccessful],
            preparing(|c| c.connected = false),
            To(S::Disconnected),
        ),
    ]
}

fn refresh_installing() -> Vec<Case> {
    const PROGRESS: &[HostState] = &[S::InstallingInProgress];
    const BOTH: &[HostState] = &[S::Installing, S::InstallingInProgress];
    const ACTION: &[HostState] = &[S::InstallingPendingUserAction];
    const ALL: &[HostState] = &[
        S::Installing,
        S::InstallingInProgress,
        S::Installed,
        S::InstallingPendingUserAction,
        S::ResettingPendingUserAction,
    ];
    let silent = |soft, flagged| {
        in_progress(G::Installing, |f| {
            (f.checks.connected, f.soft_timeouts, f.connection_flagged) = (false, soft, flagged);
        })
    };
    let stuck = |state| in_progress(G::WaitingForBootkube, |f| (f.cluster, f.in_stage) = (Some(state), 3601));
    let overdue = |stage, seconds| in_progress(stage, |f| f.in_stage = seconds);
    let soft =
        |flagged| in_progress(G::Joined, |f| (f.in_stage, f.soft_timeouts, f.stage_flagged) = (3601, true, flagged));
    let single = |seconds| in_progress(G::Rebooting, |f| (f.in_stage, f.single_node) = (seconds, true));
    let waits =
        |seconds, dispensable| in_progress(G::Rebooting, |f| (f.in_state, f.dispensable) = (seconds, dispensable));
    let open = with(|f| (f.in_state, f.dispensable, f.cluster) = (3601, true, Some(ClusterState::AddingHosts)));
    let failed = || with(|f| f.cluster = Some(ClusterState::Error));
    vec![
        ("2.6.14", T::Refresh, ALL, failed(), To(S::Error)),
        ("", T::Refresh, &[S::Installed], with(|f| (f.cluster, f.day2) = (Some(ClusterState::Error), true)), NoRow),
        ("2.6.15", T::Refresh, &[S::Installing], with(|f| f.in_state = 1201), To(S::Error)),
        ("2.6.17a", T::Refresh, BOTH, silent(false, false), To(S::Error)),
        ("2.6.17b", T::Refresh, BOTH, silent(true, false), Stay),
        ("2.6.22", T::Refresh, BOTH, silent(true, true), Stay),
        (
            "2.6.17c",
            T::Refresh,
            BOTH,
            in_progress(G::Installing, |f| (f.soft_timeouts, f.connection_flagged) = (true, true)),
            Stay,
        ),
        ("2.6.18", T::Refresh, PROGRESS, stuck(ClusterState::InstallingPendingUserAction), Stay),
        ("2.6.19a", T::Refresh, PROGRESS, stuck(ClusterState::Installing), To(S::Error)),
        ("2.6.22", T::Refresh, PROGRESS, overdue(G::WritingImageToDisk, 1800), Stay),
        ("2.6.19a", T::Refresh, PROGRESS, overdue(G::WritingImageToDisk, 1801), To(S::Error)),
        ("2.6.19b", T::Refresh, PROGRESS, soft(false), Stay),
        ("2.6.22", T::Refresh, PROGRESS, soft(true), Stay),
        ("2.6.20", T::Refresh, PROGRESS, overdue(G::Rebooting, 2401), To(S::InstallingPendingUserAction)),
        ("2.6.22", T::Refresh, PROGRESS, single(4800), Stay),
        ("2.6.20", T::Refresh, PROGRESS, single(4801), To(S::InstallingPendingUserAction)),
        ("2.6.21", T::Refresh, ACTION, waits(3601, true), To(S::Error)),
        ("2.6.22", T::Refresh, ACTION, waits(3601, false), Stay),
        ("2.6.22", T::Refresh, ACTION, waits(3600, true), Stay),
        ("2.6.22", T::Refresh, ACTION, open, Stay),
        ("2.6.22", T::Refresh, ALL, in_progress(G::Rebooting, |_| ()), Stay),
    ]
}

fn refresh_discovering() -> Vec<Case> {
    use InventoryState::{FullyTruncated, Missing};
    const EARLY: &[HostState] = &[S::Disconnected, S::Discovering];
    const LATER: &[HostState] = &[S::Insufficient, S::Known, S::PendingForInput];
    const UNKNOWN: &[HostState] = &[S::Disconnected, S::Insufficient, S::PendingForInput, S::Discovering];
    let checks = |change: fn(&mut HostChecks)| with(|f| change(&mut f.checks));
    vec![
        ("2.6.23", T::Refresh, EARLY, checks(|c| c.inventory = Missing), To(S::Discovering)),
        ("2.6.23", T::Refresh, EARLY, checks(|c| c.inventory = FullyTruncated), To(S::Discovering)),
        ("2.6.24", T::Refresh, PRE, checks(|c| c.min_hardware = failing()), To(S::Insufficient)),
        (
            "2.6.25",
            T::Refresh,
            PRE,
            checks(|c| (c.machine_cidr, c.sufficient) = (failing(), failing())),
            To(S::PendingForInput),
        ),
        (
            "2.6.26",
            T::Refresh,
            PRE,
            checks(|c| (c.machine_cidr, c.vsphere_disk_uuid) = (failing(), failing())),
            To(S::Insufficient),
        ),
        ("2.6.26", T::Refresh, PRE, checks(|c| c.sufficient = failing()), To(S::Insufficient)),
        (
            "2.6.26",
            T::Refresh,
            LATER,
            checks(|c| (c.inventory, c.min_hardware, c.sufficient) = (FullyTruncated, failing(), failing())),
            To(S::Insufficient),
        ),
        ("2.6.27a", T::Refresh, UNKNOWN, fine(), To(S::Known)),
        ("2.6.27b", T::Refresh, &[S::Known], fine(), Stay),
        (
            "",
            T::Refresh,
            &[S::Known],
            with(|f| (f.cluster, f.role_set) = (Some(ClusterState::PreparingForInstallation), false)),
            NoRow,
        ),
        ("2.6.28a", T::Refresh, &[S::Error, S::Cancelled], with(|f| f.logs_overdue = true), Stay),
        ("2.6.28b", T::Refresh, &[S::Error, S::Cancelled, S::Resetting], with(|f| f.in_state = 1_000_000), Stay),
        ("2.6.29a", T::Refresh, &[S::AddedToExistingCluster], with(|f| f.checks.connected = false), Stay),
        ("2.6.29b", T::Refresh, &[S::Reclaiming, S::ReclaimingRebooting], with(|f| f.in_state = 3600), Stay),
        ("2.6.30a", T::Refresh, POOL, checks(|c| c.connected = false), To(S::DisconnectedUnbound)),
        ("2.6.30a", T::Refresh, &[S::Unbinding], checks(|c| c.connected = false), To(S::DisconnectedUnbound)),
        ("2.6.30b", T::Refresh, &[S::Binding], checks(|c| c.connected = false), Stay),
        ("2.6.30b", T::Refresh, &[S::Unbinding], fine(), Stay),
        ("2.6.30c", T::Refresh, POOL, checks(|c| c.inventory = Missing), To(S::DiscoveringUnbound)),
        ("2.6.30d", T::Refresh, POOL, checks(|c| c.unbound = failing()), To(S::InsufficientUnbound)),
        ("2.6.30e", T::Refresh, POOL, fine(), To(S::KnownUnbound)),
        ("", T::Refresh, &[S::UnbindingPendingUserAction, S::Disabled], fine(), NoRow),
    ]
}

fn cases() -> Vec<Case> {
    [registration(), progress(), actions(), refresh_preparing(), refresh_installing(), refresh_discovering()].concat()
}

#[test]
fn every_row_does_what_it_says() {
    let mut hit = Vec::new();
    for (id, on, states, facts, then) in cases() {
        for state in states {
            let found = step(on, Some(*state), &facts);
            let (row, outcome) = match &found {
                Ok(step) => (step.id, step.to.map_or(Stay, To)),
                Err(table::Refused::Row(id, status, _)) => (*id, Refuse(*status)),
                Err(table::Refused::NoRow) => ("", NoRow),
            };
            assert_eq!((row, outcome), (id, then), "{on:?} {state} {facts:?}");
        }
        hit.push(id);
    }
    for (id, cluster, state) in [("2.3.1", fine().cluster, S::Discovering), ("2.3.2", None, S::DiscoveringUnbound)] {
        let found = step(T::Register, None, &Facts { cluster, ..fine() }).unwrap();
        assert_eq!((found.id, found.to), (id, Some(state)));
        hit.push(id);
    }
    let rows: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
    let kube = [("2.4.1", "kube-api mode only: here a host of day 2 that reports Rebooting is done")];
    for (section, left_out) in [
        (Section::new("2.3", 11), &[][..]),
        (Section::new("2.4", 5), &kube),
        (Section::new("2.5", 17), &[]),
        // The last paragraph, on the unbound pool, is counted as a rule.
        (Section::new("2.6", 30), &[]),
    ] {
        section.check(&rows, &hit, left_out);
    }
}

#[test]
fn texts_name_what_a_person_needs() {
    let info = |on, state, facts: &Facts| step(on, Some(state), facts).unwrap().info.unwrap_or_default();
    let names =
        DiskNames { id: "/dev/disk/by-id/x".into(), place: "(vda, /dev/disk/by-id/x)".into(), maker: "QEMU 7".into() };
    let disk = Facts { disk: names, ..in_progress(G::Rebooting, |f| f.in_stage = 2401) };
    assert_eq!(
        info(T::Refresh, S::InstallingInProgress, &disk),
        "Host timed out when pulling the configuration files. Verify in the host console that the host boots from the \
         OpenShift installation disk (vda, /dev/disk/by-id/x) and has network access to the cluster API. The installation \
         will resume after the host successfully boots and can access the cluster API"
    );
    assert_eq!(
        info(T::Register, S::InstallingInProgress, &disk),
        "Expected the host to boot from disk, but it booted the installation image - please reboot and fix boot order to \
         boot from disk QEMU 7 (vda, /dev/disk/by-id/x)"
    );
    let Err(table::Refused::Row(_, _, again)) = step(T::Register, Some(S::InstallingPendingUserAction), &disk) else {
        panic!("a second wrong boot is refused")
    };
    assert_eq!(again, "Host is required to be booted from disk /dev/disk/by-id/x");
    let late = in_progress(G::WritingImageToDisk, |f| f.in_stage = 1801);
    assert_eq!(
        info(T::Refresh, S::InstallingInProgress, &late),
        "Host failed to install because its installation stage Writing image to disk did not sufficiently progress in the \
         last 30m0s."
    );
    assert_eq!(
        info(T::Refresh, S::InstallingInProgress, &Facts { soft_timeouts: true, ..late }),
        "Host installation stage Writing image to disk is not progressing sufficiently in the last 30m0s. To troubleshoot \
         use kubeconfig or connect to the node using ssh"
    );
    let mut open = preparing(|c| (c.disk_speed, c.images) = (Outcome::Unknown, Outcome::Success));
    open.in_state = limits::PREPARATION + 1;
    assert_eq!(
        info(T::Refresh, S::PreparingForInstallation, &open),
        "The host has encountered a preparation timeout, the following conditions failed: the installation disk speed \
         check did not complete within the timeout."
    );
    let lost = with(|f| f.checks.media_connected = false);
    assert_eq!(info(T::Refresh, S::Known, &lost), info::MEDIA);
    let failed = format!("Failed - {}", info::MEDIA);
    let after = Facts { info: "x".into(), ..fine() };
    assert_eq!(info(T::MediaDisconnect, S::Error, &after), format!("{failed}. x"));
    let again = Facts { info: format!("{failed}. x"), ..fine() };
    assert_eq!(info(T::MediaDisconnect, S::Error, &again), again.info);
    assert_eq!(info(T::InstallationFailed, S::Installing, &fine()), "installation command failed");
    assert_eq!(step(T::Register, Some(S::Error), &fine()).unwrap().info, None, "the first reason stays");
}

#[test]
fn a_row_never_hides_what_it_does() {
    let effects = |id: &str| ROWS.iter().find(|row| row.id == id).unwrap().effects;
    assert_eq!(effects("2.3.4"), [Effect::FullReset]);
    assert_eq!(effects("2.5.7"), [Effect::TellUnbound, Effect::LeaveCluster], "the event still names the cluster");
    assert_eq!(effects("2.6.28a"), [Effect::LogsTimedOut]);
}

#[test]
fn long_lists_are_cut() {
    let many: Vec<String> = (0..500).map(|i| format!("message {i}")).collect();
    assert_eq!(message_list(&many).chars().count(), 2040);
    assert_eq!(message_list(&["b".into(), "a".into()]), "a ; b");
}
