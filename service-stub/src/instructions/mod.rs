//! What a host is told when it polls: a function of its record and its peers (docs/compatibility.md#instructions).

mod asked;
mod install;
pub mod options;
pub mod outstanding;
pub mod pace;
#[cfg(test)]
mod tests;

pub use asked::{disk_to_measure, images_to_try};
pub use install::disks_to_format;

use crate::model::{ClusterRecord, HostRecord, InfraEnvRecord};
use crate::net::Cidr;
use crate::payload::Payload;
use crate::service::Settings;
use crate::state::HostState;
use api::{PostStepAction, Step, StepType, Steps, Timestamp};
use std::sync::Arc;

/// Everything that decides on a host's instructions.
pub struct Situation<'a> {
    pub record: &'a HostRecord,
    pub infra_env: Option<&'a InfraEnvRecord>,
    pub cluster: Option<&'a ClusterRecord>,
    /// All hosts of its cluster.
    pub peers: &'a [Arc<HostRecord>],
    /// Networks of the cluster's machines.
    pub machine_networks: &'a [Cidr],
    /// Its infra-env gives it a network of its own.
    pub static_network: bool,
    /// Settings of the service.
    pub settings: &'a Settings,
    /// Images of the release.
    pub payload: Payload,
    /// File name of the image to install.
    pub image: Option<&'a str>,
    pub now: Timestamp,
    /// Its agent starts no step while one of the same type runs, so it may poll often while its host is on its way to `known`.
    pub hurries: bool,
}

/// The answer to a poll. Steps that can't be built are left out.
pub fn next(situation: &Situation) -> Steps {
    let (record, settings) = (situation.record, situation.settings);
    if upgrades(settings, record) {
        return Steps {
            instructions: step(situation, &StepType::UpgradeAgent).map(|step| vec![step]),
            next_instruction_seconds: settings.poll_interval,
            post_step_action: PostStepAction::Continue,
        };
    }
    let wanted = kinds(record.state, record.day2()).iter().filter(|kind| !settings.steps.disabled.contains(kind));
    let steps: Vec<Step> = wanted.filter_map(|kind| step(situation, kind)).collect();
    Steps {
        instructions: (!steps.is_empty()).then_some(steps),
        next_instruction_seconds: pace::pause(
            record.state,
            record.host.status_updated_at,
            situation.now,
            settings.poll_interval,
            situation.hurries,
        ),
        post_step_action: if registers_again(record.state) { PostStepAction::Exit } else { PostStepAction::Continue },
    }
}

/// The steps of a state, in the order they are handed out in. One that nothing is to be asked by is left out later.
fn kinds(state: HostState, day2: bool) -> &'static [StepType] {
    use HostState as S;
    use StepType as T;
    const INVENTORY: &[T] = &[T::Inventory];
    const POOL: &[T] = &[T::Inventory, T::NtpSynchronizer];
    const END: &[T] = &[T::LogsGather, T::StopInstallation];
    const RECLAIM: &[T] = &[T::DownloadBootArtifacts];
    const REBOOT: &[T] = &[T::RebootForReclaim];
    const ON_ITS_WAY: &[T] = &[
        T::Inventory,
        T::ConnectivityCheck,
        T::TangConnectivityCheck,
        T::FreeNetworkAddresses,
        T::DhcpLeaseAllocate,
        T::NtpSynchronizer,
        T::DomainResolution,
        T::VerifyVips,
    ];
    const KNOWN: &[T] = &[
        T::ConnectivityCheck,
        T::TangConnectivityCheck,
        T::FreeNetworkAddresses,
        T::DhcpLeaseAllocate,
        T::Inventory,
        T::NtpSynchronizer,
        T::DomainResolution,
        T::VerifyVips,
    ];
    const PREPARING: &[T] = &[T::DhcpLeaseAllocate, T::InstallationDiskSpeedCheck, T::ContainerImageAvailability];
    const INSTALLING: &[T] = &[T::Install, T::DhcpLeaseAllocate];
    const IN_PROGRESS: &[T] = &[T::DhcpLeaseAllocate];
    const ADDED_DISCOVERING: &[T] = &[T::Inventory, T::NtpSynchronizer, T::DomainResolution];
    const ADDED_INSUFFICIENT: &[T] = &[
        T::Inventory,
        T::ConnectivityCheck,
        T::ApiVipConnectivityCheck,
        T::TangConnectivityCheck,
        T::NtpSynchronizer,
        T::DomainResolution,
    ];
    const ADDED_PENDING: &[T] =
        &[T::Inventory, T::ConnectivityCheck, T::ApiVipConnectivityCheck, T::TangConnectivityCheck];
    const ADDED_KNOWN: &[T] = &[
        T::ConnectivityCheck,
        T::ApiVipConnectivityCheck,
        T::TangConnectivityCheck,
        T::Inventory,
        T::NtpSynchronizer,
        T::DomainResolution,
    ];
    const ADDED_INSTALLING: &[T] = &[T::Install];
    match (state, day2) {
        (S::Disconnected | S::DisconnectedUnbound, _) | (S::Discovering, false) => INVENTORY,
        (S::DiscoveringUnbound | S::InsufficientUnbound | S::KnownUnbound, _) => POOL,
        (S::Insufficient | S::PendingForInput, false) => ON_ITS_WAY,
        (S::Known, false) => KNOWN,
        (S::PreparingForInstallation, false) => PREPARING,
        (S::Installing, false) => INSTALLING,
        (S::InstallingInProgress, false) => IN_PROGRESS,
        (S::Discovering, true) => ADDED_DISCOVERING,
        (S::Insufficient, true) => ADDED_INSUFFICIENT,
        (S::PendingForInput, true) => ADDED_PENDING,
        (S::Known, true) => ADDED_KNOWN,
        (S::Installing, true) => ADDED_INSTALLING,
        (S::Error | S::Cancelled, _) => END,
        (S::Reclaiming, _) => RECLAIM,
        (S::ReclaimingRebooting, _) => REBOOT,
        _ => &[],
    }
}

/// Whether a host must run another agent first, and be given nothing else.
pub fn upgrades(settings: &Settings, record: &HostRecord) -> bool {
    use HostState as S;
    settings.steps.upgrade_agents
        && record.host.discovery_agent_version != settings.agent_image
        && matches!(
            record.state,
            S::Binding
                | S::Discovering
                | S::Insufficient
                | S::Known
                | S::PendingForInput
                | S::DiscoveringUnbound
                | S::InsufficientUnbound
                | S::KnownUnbound
        )
}

/// A host on its way into a cluster or out of one begins anew.
fn registers_again(state: HostState) -> bool {
    use HostState as S;
    matches!(state, S::Binding | S::Unbinding | S::UnbindingPendingUserAction | S::ReclaimingRebooting)
}

/// One step with its arguments; none where there is nothing to ask.
fn step(situation: &Situation, kind: &StepType) -> Option<Step> {
    let json = |request: Option<String>| request.map(|request| vec![request]);
    let args = match kind {
        StepType::DownloadBootArtifacts => json(text(&asked::boot_artifacts(situation)?)),
        StepType::RebootForReclaim => json(Some(r#"{"host_fs_mount_dir":"/host"}"#.to_owned())),
        StepType::Inventory => json(Some(situation.record.host.id.to_string())),
        StepType::ConnectivityCheck => json(text(&asked::connectivity(situation)?)),
        StepType::FreeNetworkAddresses => json(text(&asked::small_networks(situation)?)),
        StepType::DhcpLeaseAllocate => json(text(&asked::leases(situation)?)),
        StepType::NtpSynchronizer => json(text(&asked::time_sources(situation))),
        StepType::DomainResolution => json(text(&asked::domains(situation)?)),
        StepType::VerifyVips => json(text(&asked::vips(situation)?)),
        StepType::ApiVipConnectivityCheck => json(text(&asked::api_vip(situation)?)),
        StepType::TangConnectivityCheck => json(text(&asked::tang(situation)?)),
        StepType::InstallationDiskSpeedCheck => {
            text(&asked::disk_speed(situation)?).map(|request| vec![request, format!("{}.00", pace::DISK_SPEED_S)])
        }
        StepType::ContainerImageAvailability => json(text(&asked::images(situation)?)),
        StepType::UpgradeAgent => json(text(&serde_json::json!({"agent_image": situation.settings.agent_image}))),
        StepType::Install => json(text(&install::request(situation)?)),
        StepType::LogsGather => {
            let mut request = serde_json::to_value(asked::logs(situation)?).ok()?;
            // The field is there for every host, with null where there is nothing to gather from.
            request.as_object_mut()?.entry("master_ips").or_insert(serde_json::Value::Null);
            json(text(&request))
        }
        _ => Some(Vec::new()),
    }?;
    Some(Step { args, step_id: format!("{kind}-{:08x}", fastrand::u32(..)), step_type: kind.clone() })
}

fn text(request: &impl serde::Serialize) -> Option<String> {
    serde_json::to_string(request).ok()
}
