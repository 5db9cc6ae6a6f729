//! Every row of the table of clusters, by id.

use super::*;
use crate::state::coverage::Section;
use ClusterState as S;
use FinalizingStage as F;
use HostState as H;
use Trigger as T;

const M: HostRole = HostRole::Master;
const W: HostRole = HostRole::Worker;

fn fine() -> Facts {
    Facts {
        checks: ClusterChecks { vips_defined: true, inputs_given: true, installable: true },
        day1: true,
        control_plane_count: 1,
        preparation: Preparation::Success,
        finalized: true,
        ..Facts::default()
    }
}

fn with(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = fine();
    change(&mut facts);
    facts
}

fn hosts(hosts: &[(HostState, HostRole)]) -> Facts {
    with(|f| f.hosts = hosts.to_vec())
}

fn checks(dhcp: bool, vips: bool, inputs: bool, installable: bool) -> Facts {
    with(|f| {
        f.dhcp_vips = dhcp;
        f.checks = ClusterChecks { vips_defined: vips, inputs_given: inputs, installable };
    })
}

/// Row, trigger, states, facts, new state: none stays.
type Case = (&'static str, Trigger, &'static [ClusterState], Facts, Option<ClusterState>);

const BEFORE: &[ClusterState] = &[S::Insufficient, S::Ready, S::PendingForInput];
const PREPARING: &[ClusterState] = &[S::PreparingForInstallation];
const ACTION: &[ClusterState] = &[S::InstallingPendingUserAction];
const FINALIZING: &[ClusterState] = &[S::Finalizing];
const INSTALLING: &[ClusterState] = &[S::Installing];

fn actions() -> Vec<Case> {
    const RUNNING: &[ClusterState] = &[S::Installing, S::InstallingPendingUserAction, S::Error, S::Finalizing];
    vec![
        ("3.1.1", T::Install, &[S::Ready], fine(), Some(S::PreparingForInstallation)),
        ("", T::Install, &[S::Insufficient, S::Installed, S::AddingHosts], fine(), None),
        ("3.1.2", T::Cancel, RUNNING, fine(), Some(S::Cancelled)),
        ("3.1.3", T::Cancel, PREPARING, fine(), Some(S::Ready)),
        ("", T::Cancel, &[S::Installed, S::Cancelled, S::Ready], fine(), None),
        ("3.1.4", T::Reset, RUNNING, fine(), Some(S::Insufficient)),
        ("3.1.4", T::Reset, &[S::PreparingForInstallation, S::Cancelled], fine(), Some(S::Insufficient)),
        ("", T::Reset, &[S::Ready, S::Installed], fine(), None),
        ("3.1.5", T::AllowAddHosts, &[S::Installed], fine(), Some(S::AddingHosts)),
        ("", T::AllowAddHosts, &[S::Installed], with(|f| f.day1 = false), None),
        ("", T::AllowAddHosts, &[S::Finalizing, S::AddingHosts], fine(), None),
    ]
}

fn before() -> Vec<Case> {
    let prepared = |preparation| with(|f| (f.hosts, f.preparation) = (vec![(H::PreparingSuccessful, M)], preparation));
    let late = |state| with(|f| (f.hosts, f.in_state) = (vec![(state, M)], limits::CLUSTER_PREPARATION + 1));
    let waiting =
        |preparation| with(|f| (f.hosts, f.preparation) = (vec![(H::PreparingForInstallation, M)], preparation));
    let (pending, insufficient, ready) = (Some(S::PendingForInput), Some(S::Insufficient), Some(S::Ready));
    vec![
        ("3.2.1", T::Refresh, BEFORE, checks(false, false, true, true), pending),
        ("3.2.1", T::Refresh, BEFORE, checks(false, true, false, false), pending),
        ("3.2.2", T::Refresh, BEFORE, checks(false, true, true, false), insufficient),
        ("3.2.3", T::Refresh, BEFORE, checks(true, false, false, false), pending),
        ("3.2.4", T::Refresh, BEFORE, checks(true, false, true, true), insufficient),
        ("3.2.4", T::Refresh, BEFORE, checks(true, true, true, false), insufficient),
        ("3.2.5", T::Refresh, BEFORE, checks(true, true, true, true), ready),
        ("3.2.5", T::Refresh, BEFORE, fine(), ready),
        ("3.2.6", T::Refresh, PREPARING, late(H::PreparingForInstallation), ready),
        ("3.2.7", T::Refresh, PREPARING, prepared(Preparation::Success), Some(S::Installing)),
        ("3.2.7", T::Refresh, PREPARING, prepared(Preparation::NotStarted), Some(S::Installing)),
        ("", T::Refresh, PREPARING, Facts { awaits_files: true, ..prepared(Preparation::NotStarted) }, None),
        ("3.2.8", T::Refresh, PREPARING, hosts(&[(H::PreparingSuccessful, M), (H::Disconnected, W)]), insufficient),
        ("3.2.9", T::Refresh, PREPARING, hosts(&[(H::PreparingFailed, M)]), ready),
        ("3.2.9", T::Refresh, PREPARING, late(H::PreparingFailed), ready),
        ("3.2.9", T::Refresh, PREPARING, waiting(Preparation::Failed), ready),
        ("", T::Refresh, PREPARING, hosts(&[(H::PreparingSuccessful, M), (H::Known, W)]), None),
        ("", T::Refresh, PREPARING, hosts(&[]), None),
    ]
}

fn installing() -> Vec<Case> {
    let error = Some(S::Error);
    let aged = |seconds| with(|f| (f.hosts, f.in_state) = (vec![(H::InstallingPendingUserAction, M)], seconds));
    let soft = |seconds| with(|f| (f.hosts, f.soft_timeouts, f.in_install) = (vec![(H::Installing, M)], true, seconds));
    let finalizing = |change: &dyn Fn(&mut Facts)| {
        with(|f| {
            f.hosts = vec![(H::Installed, M), (H::InstallingInProgress, W)];
            change(f);
        })
    };
    let stage = |stage, seconds: i64, soft| {
        finalizing(&|f| (f.finalizing_stage, f.in_finalizing_stage, f.soft_timeouts) = (Some(stage), seconds, soft))
    };
    let three = |state| {
        let mut facts = hosts(&[(H::Installed, M), (H::Installed, M), (state, M)]);
        facts.control_plane_count = 3;
        facts
    };
    let ended = |change: fn(&mut Facts)| {
        with(|f| {
            f.hosts = vec![(H::Installed, M), (H::Error, W)];
            change(f);
        })
    };
    vec![
        ("3.2.10", T::Refresh, ACTION, hosts(&[(H::Error, M)]), error),
        ("3.2.11", T::Refresh, ACTION, aged(86401), error),
        ("3.2.16a", T::Refresh, ACTION, aged(86400), None),
        ("3.2.12", T::Refresh, &[S::Installing, S::Finalizing], soft(86401), error),
        ("3.2.18b", T::Refresh, INSTALLING, soft(86400), None),
        ("3.2.13", T::Refresh, FINALIZING, finalizing(&|f| f.in_state = 18001), error),
        ("", T::Refresh, FINALIZING, finalizing(&|f| (f.in_state, f.soft_timeouts) = (18001, true)), None),
        ("3.2.14", T::Refresh, FINALIZING, stage(F::RouterCa, 4201, false), error),
        ("", T::Refresh, FINALIZING, stage(F::RouterCa, 4200, false), None),
        ("3.2.15", T::Refresh, FINALIZING, stage(F::RouterCa, 4201, true), None),
        ("3.2.15", T::Refresh, FINALIZING, stage(F::OlmManifests, 601, false), None),
        (
            "",
            T::Refresh,
            FINALIZING,
            finalizing(&|f| {
                (f.finalizing_stage, f.in_finalizing_stage, f.stage_flagged) = (Some(F::OlmManifests), 601, true);
            }),
            None,
        ),
        ("3.2.16b", T::Refresh, ACTION, hosts(&[(H::InstallingInProgress, M)]), Some(S::Installing)),
        ("3.2.16b", T::Refresh, ACTION, hosts(&[(H::Installed, M)]), Some(S::Installing)),
        (
            "3.2.17",
            T::Refresh,
            &[S::Installing, S::Finalizing],
            hosts(&[(H::Installed, M), (H::InstallingPendingUserAction, W)]),
            Some(S::InstallingPendingUserAction),
        ),
        ("3.2.18a", T::Refresh, INSTALLING, hosts(&[(H::Installed, M)]), Some(S::Finalizing)),
        ("3.2.18a", T::Refresh, INSTALLING, three(H::Installed), Some(S::Finalizing)),
        ("3.2.18b", T::Refresh, INSTALLING, three(H::InstallingInProgress), None),
        ("3.2.18b", T::Refresh, INSTALLING, hosts(&[(H::Installing, M), (H::Error, W)]), None),
        ("3.2.19a", T::Refresh, FINALIZING, ended(|f| f.failed_operators = vec!["odf".into()]), Some(S::Installed)),
        ("3.2.19b", T::Refresh, FINALIZING, ended(|_| ()), Some(S::Installed)),
        ("", T::Refresh, FINALIZING, ended(|f| f.finalized = false), None),
        ("", T::Refresh, FINALIZING, finalizing(&|_| ()), None),
        ("3.2.20a", T::Refresh, INSTALLING, three(H::Error), error),
        ("3.2.20a", T::Refresh, INSTALLING, hosts(&[(H::Installing, M), (H::Error, W), (H::Installing, W)]), error),
        ("3.2.20b", T::Refresh, &[S::Error, S::Cancelled], with(|f| f.logs_overdue = true), None),
        ("", T::Refresh, &[S::Error, S::Cancelled, S::Installed, S::AddingHosts, S::Unmonitored], fine(), None),
    ]
}

#[test]
fn every_row_does_what_it_says() {
    let mut hit = Vec::new();
    for (id, on, states, facts, to) in [actions(), before(), installing()].concat() {
        for state in states {
            let found = step(on, *state, &facts);
            let (row, outcome) = found.map_or(("", None), |step| (step.id, step.to));
            assert_eq!((row, outcome), (id, to), "{on:?} {state} {facts:?}");
        }
        hit.push(id);
    }
    let rows: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
    Section::new("3.1", 5).check(&rows, &hit, &[]);
    Section::new("3.2", 20).check(&rows, &hit, &[]);
}

#[test]
fn finalizing_stages_have_their_limits() {
    let limits = |soft, olm| F::ALL.map(|stage| limits::FinalizingLimits::default().stage(stage, soft, olm) / 60);
    assert_eq!(limits(false, 0), [600, 70, 10, 70, 70, 10, 70]);
    assert_eq!(limits(true, 5400), [70, 70, 10, 90, 90, 90, 70]);
    for (stage, name) in F::NAMES.iter().map(|name| (serde_json::from_value::<F>((*name).into()).unwrap(), *name)) {
        assert_eq!(stage.as_str(), name);
    }
}

#[test]
fn workers_that_did_not_join_are_reported() {
    let info = |hosts: &[(HostState, HostRole)]| step(T::Refresh, S::Finalizing, &self::hosts(hosts)).unwrap().info;
    assert_eq!(info(&[(H::Installed, M)]).as_deref(), Some(info::INSTALLED));
    assert_eq!(info(&[(H::Installed, M), (H::Error, W)]).as_deref(), Some(info::WITHOUT_WORKERS));
}

#[test]
fn what_took_too_long_is_named_with_its_limit() {
    let late = |change: &dyn Fn(&mut Facts)| {
        let mut facts = Facts { finalizing_stage: Some(F::ClusterOperators), ..hosts(&[(H::Installed, M)]) };
        facts.in_finalizing_stage = 100 * 3600;
        change(&mut facts);
        step(T::Refresh, S::Finalizing, &facts).unwrap().info.unwrap()
    };
    assert_eq!(
        late(&|_| ()),
        "Cluster finalizing stage 'Waiting for cluster operators' has been timed out after timeout duration of 600 minutes"
    );
    assert_eq!(
        late(&|f| f.soft_timeouts = true),
        "Cluster finalizing stage 'Waiting for cluster operators' is taking longer than the expected duration (70 minutes). \
         To troubleshoot use kubeconfig or connect to any node using ssh"
    );
    let expired = late(&|f| (f.soft_timeouts, f.in_install) = (true, limits::INSTALLATION + 1));
    assert_eq!(expired, "cluster installation timeout (1440 minutes) has expired");
}
