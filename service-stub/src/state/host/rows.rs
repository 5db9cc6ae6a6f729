//! The table of a host's transitions (docs/compatibility.md#host-states), in the service's order: the first row that matches wins.
//!
//! Ids count the service's rules, section by section; a letter is a part of one of its rules, a plus one of ours.

use super::super::table::{Cond, Info, Row, To, rows};
use super::{Effect as E, Facts, Hosts, Trigger, info, message_list};
use crate::state::{ClusterState, HostState as S, InventoryState, Outcome, limits};
use Info::{Keep, Made, Text};
use To::{Enter, Refuse, Stay};
use api::HostStage;

type C = Cond<Hosts>;

const BOUND: C = C::new("the infra-env has a cluster", |f| f.cluster.is_some());
const UNBOUND: C = BOUND.not();
const REBOOTING: C = C::new("stage Rebooting", |f| f.stage == Some(HostStage::Rebooting));
const NOT_REBOOTING: C = REBOOTING.not();
const WRONG_BOOT: C = C::new("stage Rebooting, or day 2 and stage Done", |f| {
    f.stage == Some(HostStage::Rebooting) || f.day2 && f.stage == Some(HostStage::Done)
});
const DAY2: C = C::new("day 2", |f| f.day2);
const DAY1: C = DAY2.not();
const DONE: C = C::new("stage Done", |f| f.stage == Some(HostStage::Done));
const CONN: C = C::new("connected", Facts::connected);
const NOT_CONN: C = CONN.not();
const HEARD: C = C::new("heard from recently", |f| f.checks.connected);
const NOT_HEARD: C = HEARD.not();
const ROLE: C = C::new("role decided", |f| f.role_set);
const PREPARING: C = C::new("cluster preparing", |f| f.cluster == Some(ClusterState::PreparingForInstallation));
const NOT_PREPARING: C = PREPARING.not();
const INSTALLING: C = C::new("cluster installing", |f| f.cluster == Some(ClusterState::Installing));
const NOT_INSTALLING: C = INSTALLING.not();
// What a host says until the monitor comes still counts: a bad answer of one undoes a good one of before.
const MONITOR: C = C::new("at the monitor's turn", |f| f.monitored);
const PREPARED: C = C::new("disk speed and images passed", |f| {
    f.checks.disk_speed == Outcome::Success && f.checks.images == Outcome::Success
});
const UNKNOWN: C = C::new("disk speed or images unknown", |f| f.preparation(Outcome::Unknown));
const NONE_FAILED: C = C::new("disk speed or images failed", |f| f.preparation(Outcome::Failure)).not();
const SLOW_DISK: C = C::new("disk speed failed", |f| f.checks.disk_speed == Outcome::Failure);
const IMAGES_FAILED: C = C::new("images failed", |f| f.checks.images == Outcome::Failure);
const PREPARATION_OVERDUE: C = C::new("older than 17m", |f| f.in_state > limits::PREPARATION);
const START_OVERDUE: C = C::new("older than 20m", |f| f.in_state > limits::START);
const HOUR: C = C::new("older than 60m", |f| f.in_state > limits::PENDING_USER_ACTION);
const RECLAIM_OVERDUE: C = C::new("older than 60m", |f| f.in_state > limits::RECLAIM);
const CLUSTER_ERROR: C = C::new("cluster in error", |f| f.cluster == Some(ClusterState::Error));
const CLUSTER_FINE: C = CLUSTER_ERROR.not();
const SOFT: C = C::new("soft timeouts", |f| f.soft_timeouts);
const HARD: C = SOFT.not();
const CONNECTION_FLAGGED: C = C::new("connection flagged", |f| f.connection_flagged);
const CONNECTION_CLEAR: C = CONNECTION_FLAGGED.not();
const STAGE_CLEAR: C = C::new("stage flagged", |f| f.stage_flagged).not();
const WAITS_FOR_PEERS: C = C::new("a stage that waits for peers, or Rebooting", |f| {
    matches!(
        f.stage,
        Some(
            HostStage::WaitingForControlPlane
                | HostStage::WaitingForController
                | HostStage::WaitingForBootkube
                | HostStage::Rebooting
        )
    )
});
const PEER_STUCK: C =
    C::new("cluster pending user action", |f| f.cluster == Some(ClusterState::InstallingPendingUserAction));
const STAGE_OVERDUE: C = C::new("stage over its limit", Facts::stage_overdue);
const DISPENSABLE: C = C::new("enough others are installed", |f| f.dispensable);
const CLUSTER_OPEN: C = C::new("cluster installed or adding hosts", |f| {
    matches!(f.cluster, Some(ClusterState::Installed | ClusterState::AddingHosts))
})
.not();
const NO_INVENTORY: C = C::new("no usable inventory", |f| f.checks.inventory != InventoryState::Usable);
const INVENTORY: C = NO_INVENTORY.not();
const MIN_HW: C = C::new("minimum hardware", |f| f.checks.min_hardware.is_empty());
const BELOW_MIN_HW: C = MIN_HW.not();
const MIN_HW_OR_TRUNCATED: C = C::new("minimum hardware, or inventory cut to nothing", |f| {
    f.checks.min_hardware.is_empty() || f.checks.inventory == InventoryState::FullyTruncated
});
const VSPHERE: C = C::new("vSphere disk UUIDs", |f| f.checks.vsphere_disk_uuid.is_empty());
const NO_CIDR: C = C::new("machine network undefined", |f| !f.checks.machine_cidr.is_empty());
const UNFIT: C = C::new("no vSphere disk UUIDs, or machine network defined and a check fails", |f| {
    !f.checks.vsphere_disk_uuid.is_empty() || f.checks.machine_cidr.is_empty() && !f.checks.sufficient.is_empty()
});
const FITS: C = C::new("all checks pass", Facts::fits);
const LOGS_OVERDUE: C = C::new("logs overdue", |f| f.logs_overdue);
const UNBOUND_UNFIT: C = C::new("a check for unbound hosts fails", |f| !f.checks.unbound.is_empty());

type I = Info<Hosts>;
const WRONG_BOOT_INFO: I = Made("names the disk to boot from", |f: &Facts| {
    let ask = "Expected the host to boot from disk, but it booted the installation image - please reboot and fix boot order \
        to boot from disk";
    let parts = [ask, &f.disk.maker, &f.disk.place];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
});
const WRONG_BOOT_AGAIN: I =
    Made("names the disk to boot from", |f: &Facts| format!("Host is required to be booted from disk {}", f.disk.id));
const MEDIA_AFTER_ERROR: I = Made("the media, then what was wrong before", |f: &Facts| {
    let failed = format!("{} - {}", HostStage::Failed, info::MEDIA);
    match f.info.as_str() {
        "" => failed,
        before if before.contains(&failed) => before.to_owned(),
        before => format!("{failed}. {before}"),
    }
});
const STAGE_INFO: I = Made("the stage", |f: &Facts| f.reason.clone());
const REASON: I = Made("the reason given", |f: &Facts| f.reason.clone());
const HARDWARE_INFO: I = Made("lists what fails", |f: &Facts| {
    format!("Host does not meet the minimum hardware requirements: {}", message_list(&f.checks.min_hardware))
});
const INPUT_INFO: I = Made("lists what is missing", |f: &Facts| {
    format!("Waiting for user input: {}", message_list(&f.checks.machine_cidr))
});
const FAILING_INFO: I = Made("lists what fails", |f: &Facts| {
    let failing = [f.checks.vsphere_disk_uuid.as_slice(), &f.checks.sufficient].concat();
    format!("Host cannot be installed due to following failing validation(s): {}", message_list(&failing))
});
const SLOW_INFO: I = Made("lists what fails", |f: &Facts| {
    format!("Host cannot be installed due to following failing validation(s): {}", message_list(&f.checks.preparation))
});
const PREPARATION_INFO: I = Made("lists what failed", |f: &Facts| {
    format!(
        "Host failed to prepare for installation due to following failing validation(s): {}",
        message_list(&f.checks.preparation)
    )
});
const PREPARATION_TIMEOUT: I = Made("names what is unfinished", |f: &Facts| {
    let checks = [
        (f.checks.disk_speed, "the installation disk speed check did not complete within the timeout."),
        (f.checks.images, "container availability was not determined within the timeout."),
    ];
    let open = checks.iter().filter(|(outcome, _)| *outcome == Outcome::Unknown).map(|(_, text)| *text);
    let open = open.collect::<Vec<_>>().join("\n");
    format!("The host has encountered a preparation timeout, the following conditions failed: {open}")
});
const STAGE_LATE: I = Made("names the stage and its limit", |f: &Facts| {
    let (limit, stage) = (f.stage_limit(), f.stage.map(|stage| stage.to_string()).unwrap_or_default());
    match f.stage {
        Some(HostStage::WritingImageToDisk | HostStage::CopyingRegistryDataToDisk) => format!(
            "Host failed to install because its installation stage {stage} did not sufficiently progress in the last {limit}."
        ),
        _ => format!("Host failed to install because its installation stage {stage} took longer than expected {limit}"),
    }
});
const STAGE_LATE_SOFT: I = Made("names the stage and its limit", |f: &Facts| {
    let (limit, stage) = (f.stage_limit(), f.stage.map(|stage| stage.to_string()).unwrap_or_default());
    match f.stage {
        Some(HostStage::WritingImageToDisk | HostStage::CopyingRegistryDataToDisk) => format!(
            "Host installation stage {stage} is not progressing sufficiently in the last {limit}. To troubleshoot use \
             kubeconfig or connect to the node using ssh"
        ),
        _ => format!("Host installation stage {stage} is taking longer than expected {limit}"),
    }
});
const REBOOT_LATE: I = Made("names the disk to boot from", |f: &Facts| {
    format!(
        "Host timed out when pulling the configuration files. Verify in the host console that the host boots from the \
         OpenShift installation disk {} and has network access to the cluster API. The installation will resume after the \
         host successfully boots and can access the cluster API",
        f.disk.place
    )
});
/// Also while the host keeps polling from memory.
const DISCONNECTED_INFO: I = Made("stopped communicating, or its media are lost", |f: &Facts| {
    if f.checks.media_connected { info::DISCONNECTED } else { info::MEDIA }.to_owned()
});
const UNBOUND_INFO: I = Made("lists what fails", |f: &Facts| {
    format!("Host does not meet the minimum hardware requirements: {}", message_list(&f.checks.unbound))
});

/// Every transition of a host.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row<Hosts>] = rows![
    "2.3.1" Register [] if [BOUND] => Enter(S::Discovering), Text(info::DISCOVERING), [E::JoinCluster];
    "2.3.2" Register [] if [UNBOUND] => Enter(S::DiscoveringUnbound), Text(info::DISCOVERING), [];
    "2.3.3" Register [PreparingForInstallation PreparingSuccessful] if [] => Enter(S::Known), Text(info::KNOWN), [E::RestartPreparation];
    "2.3.4" Register [Discovering Known Disconnected Insufficient ResettingPendingUserAction Binding PendingForInput] if []
        => Enter(S::Discovering), Text(info::DISCOVERING), [E::FullReset];
    "2.3.5" Register [Resetting] if [REBOOTING] => Enter(S::Resetting), Keep, [];
    "2.3.6" Register [Resetting] if [NOT_REBOOTING] => Enter(S::Discovering), Text(info::DISCOVERING), [E::FullReset];
    "2.3.7a" Register [InstallingPendingUserAction] if [WRONG_BOOT] => Refuse(400), WRONG_BOOT_AGAIN, [];
    "2.3.7b" Register [InstallingInProgress AddedToExistingCluster] if [WRONG_BOOT] => Enter(S::InstallingPendingUserAction), WRONG_BOOT_INFO, [];
    "2.3.8" Register [Installing InstallingInProgress] if [] => Enter(S::Error), Text(info::RESTARTED), [];
    "2.3.9" Register [Error] if [] => Enter(S::Error), Keep, [];
    "2.3.10" Register [Installed] if [] => Refuse(409), Text(info::INSTALLED_ALREADY), [];
    "2.3.11" Register [DiscoveringUnbound DisconnectedUnbound InsufficientUnbound KnownUnbound Unbinding UnbindingPendingUserAction ReclaimingRebooting] if []
        => Enter(S::DiscoveringUnbound), Text(info::DISCOVERING), [E::FullReset];

    "2.4.2" Progress [Installing InstallingInProgress InstallingPendingUserAction] if [DAY2 DONE] => Enter(S::AddedToExistingCluster), Text(info::ADDED), [];
    "2.4.3" Progress [Installing InstallingInProgress] if [DONE] => Enter(S::Installed), STAGE_INFO, [];
    // In the real service such a host would stay in progress for ever.
    "2.4.3+" Progress [InstallingPendingUserAction] if [DONE] => Enter(S::Installed), STAGE_INFO, [];
    "2.4.4" Progress [Installing InstallingInProgress InstallingPendingUserAction] if [] => Enter(S::InstallingInProgress), STAGE_INFO, [];
    "2.4.5" Progress [Installed InstallingPendingUserAction ResettingPendingUserAction] if [] => Stay, Keep, [];
    "4.7" Failed [Installing InstallingInProgress InstallingPendingUserAction] if [] => Enter(S::Error), REASON, [];

    "2.5.1" InstallationFailed [Installing InstallingInProgress] if [] => Enter(S::Error), Text(info::STEP_FAILED), [];
    "2.5.2" Cancel [InstallingPendingUserAction Installing InstallingInProgress Installed Error] if [] => Enter(S::Cancelled), Text(info::CANCELLED), [E::TellCancelled];
    "2.5.3" Cancel [PreparingForInstallation PreparingSuccessful] if [] => Enter(S::Known), Text(info::KNOWN), [];
    "2.5.4" Cancel [Known] if [] => Enter(S::Known), Text(info::KNOWN), [];
    "2.5.5" Install [Known] if [DAY2] => Enter(S::Installing), Text(info::INSTALLING), [E::TellStarted];
    "2.5.6" Reset [Resetting Discovering Known PendingForInput PreparingForInstallation PreparingSuccessful PreparingFailed Installing
        InstallingInProgress InstallingPendingUserAction Installed Error Cancelled AddedToExistingCluster ResettingPendingUserAction] if []
        => Enter(S::ResettingPendingUserAction), Text(info::RESETTING), [E::TellReset];
    "2.5.7" Unbind [Known Discovering Disconnected Insufficient PendingForInput] if [] => Enter(S::Unbinding), Text(info::UNBINDING), [E::TellUnbound, E::LeaveCluster];
    "2.5.8" Unbind [PreparingForInstallation PreparingSuccessful PreparingFailed Installing InstallingInProgress InstallingPendingUserAction
        Installed AddedToExistingCluster Error Cancelled] if []
        => Enter(S::UnbindingPendingUserAction), Text(info::UNBINDING), [E::TellUnbound, E::LeaveCluster];
    "2.5.9" Reclaim [Installed AddedToExistingCluster] if [] => Enter(S::Reclaiming), Text(info::UNBINDING), [E::TellUnbound, E::LeaveCluster];
    "2.5.10" Reclaim [Known Discovering Disconnected Insufficient PendingForInput] if [] => Enter(S::Unbinding), Text(info::UNBINDING), [E::TellUnbound, E::LeaveCluster];
    "2.5.11" Reclaim [Error Cancelled] if [] => Enter(S::UnbindingPendingUserAction), Text(info::UNBINDING), [E::TellUnbound, E::LeaveCluster];
    "2.5.12" RebootForReclaim [Reclaiming] if [] => Enter(S::ReclaimingRebooting), Text(info::RECLAIM_REBOOTING), [];
    "2.5.13" ReclaimFailed [Reclaiming ReclaimingRebooting] if [] => Enter(S::UnbindingPendingUserAction), Text(info::UNBINDING), [];
    "2.5.14" Bind [KnownUnbound] if [] => Enter(S::Binding), Text(info::BINDING), [E::JoinCluster, E::TellBound];
    "2.5.15" MediaDisconnect [Discovering Insufficient Known PendingForInput Disconnected Binding] if [] => Enter(S::Disconnected), Text(info::MEDIA), [E::MediaLost];
    "2.5.16a" MediaDisconnect [PreparingForInstallation PreparingSuccessful PreparingFailed Installing InstallingInProgress] if []
        => Enter(S::Error), Text(info::MEDIA), [E::MediaLost];
    "2.5.16b" MediaDisconnect [Error] if [] => Enter(S::Error), MEDIA_AFTER_ERROR, [E::MediaLost];
    "2.5.17" MediaDisconnect [DiscoveringUnbound KnownUnbound InsufficientUnbound DisconnectedUnbound] if []
        => Enter(S::DisconnectedUnbound), Text(info::MEDIA), [E::MediaLost];

    "2.6.1" Refresh [Reclaiming ReclaimingRebooting] if [RECLAIM_OVERDUE] => Enter(S::UnbindingPendingUserAction), Text(info::UNBINDING), [];
    "2.6.2a" Refresh [Known] if [ROLE CONN PREPARING IMAGES_FAILED] => Enter(S::PreparingForInstallation), Text(info::PREPARED), [E::ClearLogs, E::ClearImages];
    "2.6.2b" Refresh [Known] if [ROLE CONN PREPARING] => Enter(S::PreparingForInstallation), Text(info::PREPARED), [E::ClearLogs];
    "2.6.3" Refresh [PreparingForInstallation] if [CONN PREPARED PREPARING MONITOR] => Enter(S::PreparingSuccessful), Text(info::PREPARED), [];
    "2.6.4" Refresh [PreparingSuccessful] if [CONN PREPARING] => Stay, Keep, [];
    "2.6.5" Refresh [PreparingSuccessful] if [CONN INSTALLING] => Enter(S::Installing), Text(info::INSTALLING), [];
    "2.6.6" Refresh [PreparingForInstallation] if [CONN NONE_FAILED NOT_PREPARING] => Enter(S::Known), Text(info::KNOWN), [];
    "2.6.7" Refresh [PreparingForInstallation PreparingFailed Known] if [CONN SLOW_DISK] => Enter(S::Insufficient), SLOW_INFO, [];
    "2.6.8" Refresh [PreparingForInstallation] if [CONN PREPARATION_OVERDUE UNKNOWN NONE_FAILED] => Enter(S::PreparingFailed), PREPARATION_TIMEOUT, [];
    "2.6.9" Refresh [PreparingForInstallation] if [CONN IMAGES_FAILED] => Enter(S::PreparingFailed), PREPARATION_INFO, [];
    "2.6.10" Refresh [PreparingForInstallation] if [CONN UNKNOWN NONE_FAILED PREPARING] => Stay, Keep, [];
    "2.6.11" Refresh [PreparingFailed] if [CONN NOT_PREPARING] => Enter(S::Known), Text(info::KNOWN), [];
    "2.6.12" Refresh [PreparingSuccessful] if [CONN NOT_PREPARING NOT_INSTALLING] => Enter(S::Known), Text(info::KNOWN), [];
    "2.6.13" Refresh [Discovering Insufficient Known PendingForInput Disconnected PreparingFailed] if [NOT_CONN] => Enter(S::Disconnected), DISCONNECTED_INFO, [];
    "2.6.14" Refresh [Installing InstallingInProgress Installed ResettingPendingUserAction InstallingPendingUserAction] if [CLUSTER_ERROR DAY1]
        => Enter(S::Error), Text(info::CLUSTER_ERROR), [];
    "2.6.15" Refresh [Installing] if [START_OVERDUE] => Enter(S::Error), Text(info::START_TIMEOUT), [];
    "2.6.16" Refresh [PreparingForInstallation PreparingSuccessful] if [NOT_CONN] => Enter(S::Disconnected), Text(info::LOST_PREPARING), [];
    "2.6.17a" Refresh [Installing InstallingInProgress] if [NOT_HEARD HARD] => Enter(S::Error), Text(info::LOST), [];
    "2.6.17b" Refresh [Installing InstallingInProgress] if [NOT_HEARD SOFT CONNECTION_CLEAR] => Stay, Text(info::CONNECTION_TIMED_OUT), [E::ConnectionTimedOut];
    "2.6.17c" Refresh [Installing InstallingInProgress] if [HEARD SOFT CONNECTION_FLAGGED] => Stay, Text(info::RECONNECTED), [E::Reconnected];
    "2.6.18" Refresh [InstallingInProgress] if [WAITS_FOR_PEERS PEER_STUCK] => Stay, Keep, [E::ExtendStage];
    "2.6.19a" Refresh [InstallingInProgress] if [STAGE_OVERDUE NOT_REBOOTING HARD] => Enter(S::Error), STAGE_LATE, [];
    "2.6.19b" Refresh [InstallingInProgress] if [STAGE_OVERDUE NOT_REBOOTING SOFT STAGE_CLEAR] => Stay, STAGE_LATE_SOFT, [E::StageTimedOut];
    "2.6.20" Refresh [InstallingInProgress] if [STAGE_OVERDUE REBOOTING] => Enter(S::InstallingPendingUserAction), REBOOT_LATE, [];
    "2.6.21" Refresh [InstallingPendingUserAction] if [HOUR DISPENSABLE CLUSTER_OPEN] => Enter(S::Error), Text(info::USER_ACTION_TIMEOUT), [];
    "2.6.22" Refresh [Installing InstallingInProgress Installed InstallingPendingUserAction ResettingPendingUserAction] if [CLUSTER_FINE] => Stay, Keep, [];
    "2.6.23" Refresh [Disconnected Discovering] if [CONN NO_INVENTORY] => Enter(S::Discovering), Text(info::DISCOVERING), [];
    "2.6.24" Refresh [Disconnected Discovering Insufficient Known PendingForInput] if [CONN INVENTORY BELOW_MIN_HW] => Enter(S::Insufficient), HARDWARE_INFO, [];
    "2.6.25" Refresh [Disconnected Discovering Insufficient Known PendingForInput] if [CONN MIN_HW VSPHERE NO_CIDR] => Enter(S::PendingForInput), INPUT_INFO, [];
    "2.6.26" Refresh [Disconnected Discovering Insufficient Known PendingForInput] if [CONN MIN_HW_OR_TRUNCATED UNFIT] => Enter(S::Insufficient), FAILING_INFO, [];
    "2.6.27a" Refresh [Disconnected Insufficient PendingForInput Discovering] if [CONN INVENTORY MIN_HW FITS] => Enter(S::Known), Text(info::KNOWN), [];
    "2.6.27b" Refresh [Known] if [CONN INVENTORY MIN_HW FITS NOT_PREPARING] => Stay, Text(info::KNOWN), [];
    "2.6.28a" Refresh [Error Cancelled] if [LOGS_OVERDUE] => Stay, Keep, [E::LogsTimedOut];
    "2.6.28b" Refresh [Error Cancelled Resetting] if [] => Stay, Keep, [];
    "2.6.29a" Refresh [AddedToExistingCluster] if [] => Stay, Keep, [];
    "2.6.29b" Refresh [Reclaiming ReclaimingRebooting] if [] => Stay, Keep, [];
    "2.6.30a" Refresh [DiscoveringUnbound KnownUnbound InsufficientUnbound DisconnectedUnbound Unbinding] if [NOT_CONN] => Enter(S::DisconnectedUnbound), DISCONNECTED_INFO, [];
    "2.6.30b" Refresh [Binding Unbinding] if [] => Stay, Keep, [];
    "2.6.30c" Refresh [DiscoveringUnbound KnownUnbound InsufficientUnbound DisconnectedUnbound] if [NO_INVENTORY] => Enter(S::DiscoveringUnbound), Text(info::DISCOVERING), [];
    "2.6.30d" Refresh [DiscoveringUnbound KnownUnbound InsufficientUnbound DisconnectedUnbound] if [UNBOUND_UNFIT] => Enter(S::InsufficientUnbound), UNBOUND_INFO, [];
    "2.6.30e" Refresh [DiscoveringUnbound KnownUnbound InsufficientUnbound DisconnectedUnbound] if [] => Enter(S::KnownUnbound), Text(info::KNOWN_UNBOUND), [];
];
