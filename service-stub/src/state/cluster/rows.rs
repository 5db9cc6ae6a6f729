//! The table of a cluster's transitions (docs/compatibility.md#cluster-states), in the service's order: the first row that matches wins.
//! For ids see the hosts'.

use super::super::table::{Cond, Info, Row, To, rows};
use super::{Clusters, Effect as E, Facts, FinalizingStage, Preparation, Trigger, info};
use crate::state::{ClusterState as S, HostState as H, host, limits};
use Info::{Keep, Made, Text};
use To::{Enter, Stay};

type C = Cond<Clusters>;

const DAY1: C = C::new("kind Cluster", |f| f.day1);
const DHCP: C = C::new("virtual addresses by DHCP", |f| f.dhcp_vips);
const STATIC: C = DHCP.not();
const INPUTS: C = C::new("inputs given", |f| f.checks.inputs_given);
const INPUTS_MISSING: C = INPUTS.not();
const INPUTS_OR_VIPS_MISSING: C =
    C::new("virtual addresses or inputs missing", |f| !f.checks.vips_defined || !f.checks.inputs_given);
const NOT_INSTALLABLE: C = C::new("installable", |f| f.checks.installable).not();
const NOT_INSTALLABLE_BY_DHCP: C =
    C::new("virtual addresses missing, or not installable", |f| !f.checks.vips_defined || !f.checks.installable);
const PREPARING_OVERDUE: C = C::new("older than 18m", |f| f.in_state > limits::CLUSTER_PREPARATION);
const SOME_FAILED: C = C::new("a host failed to prepare", |f| f.any(H::PreparingFailed));
const NONE_FAILED: C = SOME_FAILED.not();
const ALL_PREPARED: C = C::new("every host prepared", |f| f.all(&[H::PreparingSuccessful]));
const FILES_FINE: C = C::new("preparation did not fail and its files are there", |f| {
    f.preparation != Preparation::Failed && !f.awaits_files
});
const STRAY: C = C::new("a host stopped preparing", stray);
const NOT_PREPARABLE: C = C::new("a host failed to prepare, or preparation failed", |f| {
    f.any(H::PreparingFailed) || !stray(f) && f.preparation == Preparation::Failed
});
const INSTALLING: C = C::new("enough hosts install", Facts::installing);
const NOT_INSTALLING: C = INSTALLING.not();
const FINALIZING: C = C::new("enough hosts are installed", Facts::finalizing);
const NOT_FINALIZING: C = FINALIZING.not();
const GOING_ON: C = C::new("enough hosts install or are installed", |f| f.installing() || f.finalizing());
const PENDING: C = C::new("a host pending user action", |f| f.any(H::InstallingPendingUserAction));
const NOT_PENDING: C = PENDING.not();
const DAY_OLD: C = C::new("older than 24h", |f| f.in_state > limits::CLUSTER_PENDING_USER_ACTION);
const INSTALL_OVERDUE: C = C::new("installation older than 24h", |f| f.in_install > limits::INSTALLATION);
const FINALIZING_OVERDUE: C = C::new("older than 5h", |f| f.in_state > limits::FINALIZING);
const SOFT: C = C::new("soft timeouts", |f| f.soft_timeouts);
const HARD: C = SOFT.not();
const STAGE_OVERDUE: C = C::new("finalizing stage over its limit", Facts::stage_overdue);
const OF_OLM: C =
    C::new("a stage of OLM operators", |f| f.finalizing_stage.is_some_and(FinalizingStage::waits_for_olm));
const NOT_OF_OLM: C = OF_OLM.not();
const SOFT_OR_OLM: C = C::new("soft timeouts, or a stage of OLM operators", |f| {
    f.soft_timeouts || f.finalizing_stage.is_some_and(FinalizingStage::waits_for_olm)
});
const STAGE_CLEAR: C = C::new("stage flagged", |f| f.stage_flagged).not();
const ALL_ENDED: C = C::new("every host installed or in error", |f| f.all(&[H::Installed, H::Error]));
const FINALIZED: C = C::new("finalized", |f| f.finalized);
const DEGRADED: C = C::new("an OLM operator failed", |f| !f.failed_operators.is_empty());
const LOGS_OVERDUE: C = C::new("logs overdue", |f| f.logs_overdue);

fn stray(f: &Facts) -> bool {
    let preparing = [H::PreparingForInstallation, H::PreparingSuccessful, H::PreparingFailed, H::Known];
    f.hosts.iter().any(|(state, _)| !preparing.contains(state))
}

type I = Info<Clusters>;
const INSTALLED: I = Made("installed, and whether workers did not join", |f: &Facts| {
    if f.any(H::Error) { info::WITHOUT_WORKERS } else { info::INSTALLED }.to_owned()
});
const DEGRADED_INFO: I = Made("degraded, and by which operators", |f: &Facts| {
    format!("{}. Failed OLM operators: {}", info::DEGRADED, f.failed_operators.join(", "))
});
const INSTALLATION_TIMEOUT: I = Made("names the limit", |_: &Facts| {
    format!("cluster installation timeout ({} minutes) has expired", limits::INSTALLATION / 60)
});
const STAGE_LATE: I = Made("names the stage and its limit", |f: &Facts| {
    let (stage, minutes) = stage_limit(f);
    format!("Cluster finalizing stage '{stage}' has been timed out after timeout duration of {minutes} minutes")
});
const STAGE_LATE_SOFT: I = Made("names the stage and its limit", |f: &Facts| {
    let (stage, minutes) = stage_limit(f);
    format!(
        "Cluster finalizing stage '{stage}' is taking longer than the expected duration ({minutes} minutes). To troubleshoot \
         use kubeconfig or connect to any node using ssh"
    )
});

/// The finalizing stage and its limit, minutes.
fn stage_limit(f: &Facts) -> (&'static str, i64) {
    let limit = f.finalizing_stage.map_or(0, |stage| f.finalizing.stage(stage, f.soft_timeouts, f.olm_timeout));
    (f.finalizing_stage.map_or("", FinalizingStage::as_str), limit / 60)
}

/// Every transition of a cluster.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row<Clusters>] = rows![
    "3.1.1" Install [Ready] if [] => Enter(S::PreparingForInstallation), Text(info::PREPARING), [E::Start, E::TellStarted];
    "3.1.2" Cancel [Installing InstallingPendingUserAction Error Finalizing] if [] => Enter(S::Cancelled), Text(info::CANCELLED),
        [E::Complete, E::EachHost(host::Trigger::Cancel), E::TellCancelled];
    "3.1.3" Cancel [PreparingForInstallation] if [] => Enter(S::Ready), Text(info::READY), [E::EachHost(host::Trigger::Cancel), E::TellCancelled];
    "3.1.4" Reset [PreparingForInstallation Installing InstallingPendingUserAction Error Cancelled Finalizing] if []
        => Enter(S::Insufficient), Text(info::RESET), [E::EachHost(host::Trigger::Reset), E::Clear, E::TellReset];
    "3.1.5" AllowAddHosts [Installed] if [DAY1] => Enter(S::AddingHosts), Text(info::ADDING), [E::AddHosts];

    "3.2.1" Refresh [Insufficient Ready PendingForInput] if [STATIC INPUTS_OR_VIPS_MISSING] => Enter(S::PendingForInput), Text(info::PENDING), [];
    "3.2.2" Refresh [Insufficient Ready PendingForInput] if [STATIC NOT_INSTALLABLE] => Enter(S::Insufficient), Text(info::INSUFFICIENT), [];
    "3.2.3" Refresh [Insufficient Ready PendingForInput] if [DHCP INPUTS_MISSING] => Enter(S::PendingForInput), Text(info::PENDING), [];
    "3.2.4" Refresh [Insufficient Ready PendingForInput] if [DHCP INPUTS NOT_INSTALLABLE_BY_DHCP] => Enter(S::Insufficient), Text(info::INSUFFICIENT), [];
    "3.2.5" Refresh [Insufficient Ready PendingForInput] if [] => Enter(S::Ready), Text(info::READY), [];
    "3.2.6" Refresh [PreparingForInstallation] if [PREPARING_OVERDUE NONE_FAILED] => Enter(S::Ready), Text(info::PREPARING_TIMEOUT),
        [E::PreparationFailed, E::TellPreparingTimedOut];
    "3.2.7" Refresh [PreparingForInstallation] if [ALL_PREPARED FILES_FINE] => Enter(S::Installing), Text(info::INSTALLING), [E::Prepared, E::SingleNodeVips];
    "3.2.8" Refresh [PreparingForInstallation] if [STRAY] => Enter(S::Insufficient), Text(info::STOPPED_PREPARING), [];
    "3.2.9" Refresh [PreparingForInstallation] if [NOT_PREPARABLE] => Enter(S::Ready), Text(info::PREPARING_FAILED), [E::PreparationFailed];
    "3.2.10" Refresh [InstallingPendingUserAction] if [NOT_INSTALLING NOT_FINALIZING] => Enter(S::Error), Text(info::HOSTS_IN_ERROR), [E::Complete, E::TellFailed];
    "3.2.11" Refresh [InstallingPendingUserAction] if [DAY_OLD] => Enter(S::Error), Text(info::USER_ACTION_TIMEOUT), [E::Complete, E::TellFailed];
    "3.2.12" Refresh [Installing Finalizing] if [SOFT INSTALL_OVERDUE] => Enter(S::Error), INSTALLATION_TIMEOUT, [E::Complete, E::TellFailed];
    "3.2.13" Refresh [Finalizing] if [HARD FINALIZING_OVERDUE] => Enter(S::Error), Text(info::FINALIZING_TIMEOUT), [E::Complete, E::TellFailed];
    "3.2.14" Refresh [Finalizing] if [HARD STAGE_OVERDUE NOT_OF_OLM] => Enter(S::Error), STAGE_LATE, [E::Complete, E::TellFailed];
    "3.2.15" Refresh [Finalizing] if [STAGE_OVERDUE STAGE_CLEAR SOFT_OR_OLM] => Stay, STAGE_LATE_SOFT, [E::StageTimedOut];
    "3.2.16a" Refresh [InstallingPendingUserAction] if [PENDING GOING_ON] => Stay, Keep, [];
    "3.2.16b" Refresh [InstallingPendingUserAction] if [NOT_PENDING INSTALLING] => Enter(S::Installing), Text(info::INSTALLING), [];
    "3.2.17" Refresh [Installing Finalizing] if [PENDING] => Enter(S::InstallingPendingUserAction), Text(info::USER_ACTION), [];
    "3.2.18a" Refresh [Installing] if [FINALIZING] => Enter(S::Finalizing), Text(info::FINALIZING), [];
    "3.2.18b" Refresh [Installing] if [INSTALLING] => Stay, Keep, [];
    "3.2.19a" Refresh [Finalizing] if [ALL_ENDED FINALIZED DEGRADED] => Enter(S::Installed), DEGRADED_INFO, [E::Complete, E::TellDegraded, E::TellCompleted];
    "3.2.19b" Refresh [Finalizing] if [ALL_ENDED FINALIZED] => Enter(S::Installed), INSTALLED, [E::Complete, E::TellCompleted];
    "3.2.20a" Refresh [Installing] if [] => Enter(S::Error), Text(info::HOSTS_IN_ERROR), [E::Complete, E::TellFailed];
    "3.2.20b" Refresh [Error Cancelled] if [LOGS_OVERDUE] => Stay, Keep, [E::LogsTimedOut];
];
