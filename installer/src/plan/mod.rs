//! From the service's request to a list of actions, without touching anything.

mod show;

use crate::{
    args::{self, ArgsError, InstallerArgs},
    network::{FirstBoot, LiveNetwork},
};
use api::{ClusterId, HostId, HostRole, HostStage, InfraEnvId, InstallRequest};
use diskwrite::{Changes, Source};
use serde::{Serialize, Serializer};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Masters that must be done before a worker reboots into the cluster (docs/compatibility.md#waiting-for-masters).
const READY_MASTERS: usize = 2;
/// Attempts of writing the image when the cause may pass.
const WRITE_ATTEMPTS: u32 = 3;
/// How long a bootstrap host lets the new control plane run before it leaves (docs/compatibility.md#reboot).
const BOOTSTRAP_REBOOT_DELAY: Duration = Duration::from_secs(60);

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Image {
    /// http or https. Shown and serialized without user, password and query, which may be secret.
    Url(#[serde(serialize_with = "public_url")] String),
    /// A file of the running system.
    File(PathBuf),
    /// The one inside the live system, or where it has none the newest of the stream `stable`.
    Live,
}

fn public_url<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Source::Url(url.to_owned()))
}

/// Writing one disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageWrite {
    /// The disk, as named in the request; resolved just before writing.
    pub device: PathBuf,
    /// Source.
    pub image: Image,
    #[serde(flatten)]
    pub changes: Changes,
    /// Leave a half-written disk as it is.
    pub preserve_on_error: bool,
    /// Attempts in all when the cause may pass.
    pub attempts: u32,
}

/// Installing into the root of the running system, which is on a disk already (docs/compatibility.md#installing-into-the-running-system).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RootDeploy {
    /// Container image with the system.
    pub image: String,
    /// Kernel arguments to add.
    pub append_kargs: Vec<String>,
    /// Kernel arguments to remove, where they are.
    pub delete_kargs: Vec<String>,
    /// Network profiles to copy.
    pub network_dir: Option<PathBuf>,
    /// Attempts in all.
    pub attempts: u32,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum Action {
    /// Zero the first 512 bytes of a disk, so that firmware does not boot it. Failures are only logged.
    ClearBootSector {
        device: PathBuf,
    },
    /// Tell the service.
    Report {
        /// Stage reached.
        stage: HostStage,
        info: String,
    },
    /// Take down volumes, arrays and maps on a disk and wipe their signatures. A failure is reported to the service, and
    /// the installation continues: the image writer refuses a disk that is in use.
    CleanDisk {
        device: PathBuf,
    },
    /// Apply the bootstrap config to the live system and start what it brings: the temporary control plane.
    StartBootstrap {
        cluster_id: ClusterId,
        /// No other host will join.
        single_node: bool,
    },
    /// From now on report other hosts that fetch their config from this one to the service.
    WatchConfiguring {
        cluster_id: ClusterId,
    },
    /// Wait until the temporary control plane has made what the installed node needs.
    WaitForBootkube,
    /// Get the host's Ignition config.
    FetchIgnition {
        infra_env_id: InfraEnvId,
        host_id: HostId,
    },
    /// Get the host's Ignition config and merge it over the one that the temporary control plane made.
    MergeIgnition {
        infra_env_id: InfraEnvId,
        host_id: HostId,
    },
    WriteImage(ImageWrite),
    /// Install into the running system's root.
    DeployToRoot(RootDeploy),
    /// Wait until this many masters are done.
    WaitForMasters {
        cluster_id: ClusterId,
        ready: usize,
    },
    /// Put the cluster's own version of the system on the new disk, which saves a reboot later. Failures are only logged.
    SkipMcoReboot {
        device: PathBuf,
        /// Kernel arguments that the system on the disk was given.
        append_kargs: Vec<String>,
    },
    /// Make the firmware start from the disk. Failures are only logged.
    SetBootOrder {
        device: PathBuf,
    },
    /// Where the live medium carries a registry: tell the service, and copy its data to the new disk.
    CopyRegistryData {
        device: PathBuf,
    },
    /// Wait until the control plane runs without this host.
    WaitForControlPlane {
        cluster_id: ClusterId,
    },
    /// Send the host's logs to the service. Failures are only logged.
    SendLogs {
        /// With those of the temporary control plane.
        bootstrap: bool,
    },
    /// Tell the service and reboot.
    Reboot {
        /// Pause before it, so that the reply of this step gets out.
        delay_seconds: u64,
        /// Whether it may be done; otherwise it is only announced.
        allowed: bool,
    },
}

/// The actions, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub actions: Vec<Action>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A disk that is not below `/dev`.
    #[error("{field} '{device}' must start with /dev/")]
    Device {
        /// Field of the request.
        field: &'static str,
        device: String,
    },
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// Not a role that can be installed.
    #[error("role {0} can't be installed: the service must choose bootstrap, master, arbiter or worker first")]
    Role(HostRole),
}

/// What a host does in its cluster's installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Carries the temporary control plane, then joins the real one.
    Bootstrap,
    /// The same, alone: what it makes goes to its own disk (bootstrap in place).
    SingleNode,
    /// Joins the control plane.
    Master,
    /// Waits for the control plane.
    Worker,
}

impl Part {
    fn new(role: HostRole, control_plane_count: u32) -> Result<Self, PlanError> {
        match (role, control_plane_count) {
            (HostRole::AutoAssign, _) => Err(PlanError::Role(role)),
            // A worker of a single-node cluster exists: the count says nothing about it.
            (HostRole::Worker, _) => Ok(Self::Worker),
            (_, 1) => Ok(Self::SingleNode),
            (HostRole::Bootstrap, _) => Ok(Self::Bootstrap),
            _ => Ok(Self::Master),
        }
    }

    fn is_bootstrap(self) -> bool {
        matches!(self, Self::Bootstrap | Self::SingleNode)
    }
}

/// Plans `request` (docs/compatibility.md#installation-order). `reboot` says whether the machine may be rebooted.
pub fn plan(request: &InstallRequest, reboot: bool, reboot_delay: Duration) -> Result<Plan, PlanError> {
    check_device("boot_device", &request.boot_device)?;
    for disk in &request.disks_to_format {
        check_device("disks_to_format", disk)?;
    }
    let part = Part::new(request.role, request.control_plane_count)?;
    let args = args::parse(request.installer_args.as_deref())?;
    let coreos_image = request.coreos_image.clone().filter(|image| !image.is_empty());
    let device = || PathBuf::from(&request.boot_device);
    // Their signatures must not be wiped, whether the service says so too or not.
    let keeps_partitions = !(args.changes.save_partlabels.is_empty() && args.changes.save_partindexes.is_empty());
    let cluster_id = request.cluster_id;
    let report = |stage, info: &str| Action::Report { stage, info: info.to_owned() };
    let mut actions = Vec::new();

    if coreos_image.is_none() {
        actions.extend(request.disks_to_format.iter().map(|disk| Action::ClearBootSector { device: disk.into() }));
    }
    actions.push(report(HostStage::StartingInstallation, request.role.as_str()));
    if coreos_image.is_none() && !request.skip_installation_disk_cleanup && !keeps_partitions {
        actions.push(Action::CleanDisk { device: device() });
    }
    if part == Part::Bootstrap {
        actions.push(Action::StartBootstrap { cluster_id, single_node: false });
        actions.push(Action::WatchConfiguring { cluster_id });
    }
    let becomes = if part == Part::Bootstrap { HostRole::Master } else { request.role };
    actions.push(report(HostStage::Installing, becomes.as_str()));
    let (infra_env_id, host_id) = (request.infra_env_id, request.host_id);
    if part == Part::SingleNode {
        actions.push(Action::StartBootstrap { cluster_id, single_node: true });
        actions.push(report(HostStage::WaitingForBootkube, ""));
        actions.extend([Action::WaitForBootkube, Action::MergeIgnition { infra_env_id, host_id }]);
    } else {
        actions.push(Action::FetchIgnition { infra_env_id, host_id });
    }
    actions.push(report(HostStage::WritingImageToDisk, ""));
    actions.push(match &coreos_image {
        Some(image) => deploy_to_root(image, &args),
        None => write_image(device(), &args),
    });
    if part == Part::Worker {
        actions.push(report(HostStage::WaitingForControlPlane, ""));
        actions.push(Action::WaitForMasters { cluster_id, ready: READY_MASTERS });
    }
    if coreos_image.is_none() {
        if request.enable_skip_mco_reboot {
            actions.push(Action::SkipMcoReboot { device: device(), append_kargs: args.changes.append_kargs });
        }
        actions.push(Action::SetBootOrder { device: device() });
        if matches!(request.role, HostRole::Bootstrap | HostRole::Master) {
            actions.push(Action::CopyRegistryData { device: device() });
        }
    }
    if part == Part::Bootstrap {
        actions.push(report(HostStage::WaitingForControlPlane, "Waiting for bootstrap node preparation"));
        actions.push(Action::WaitForControlPlane { cluster_id });
    }
    actions.push(Action::SendLogs { bootstrap: part.is_bootstrap() });
    let delay = if part == Part::Bootstrap { reboot_delay.max(BOOTSTRAP_REBOOT_DELAY) } else { reboot_delay };
    actions.push(Action::Reboot { delay_seconds: delay.as_secs(), allowed: reboot });
    Ok(Plan { actions })
}

impl Plan {
    /// Lets the installed system have the address by which the service knows this host. Says what was added and why.
    pub fn keep_address(&mut self, live: &LiveNetwork) -> Option<String> {
        self.actions.iter_mut().find_map(|action| match action {
            Action::WriteImage(ImageWrite { changes: Changes { append_kargs, network_dir, .. }, .. })
            | Action::DeployToRoot(RootDeploy { append_kargs, network_dir, .. }) => {
                live.carry_over(FirstBoot { append_kargs, network_dir })
            }
            _ => None,
        })
    }
}

fn write_image(device: PathBuf, args: &InstallerArgs) -> Action {
    Action::WriteImage(ImageWrite {
        device,
        image: args.image.clone().unwrap_or(Image::Live),
        changes: args.changes.clone(),
        preserve_on_error: false,
        attempts: WRITE_ATTEMPTS,
    })
}

fn deploy_to_root(image: &str, args: &InstallerArgs) -> Action {
    Action::DeployToRoot(RootDeploy {
        image: image.to_owned(),
        append_kargs: args.changes.append_kargs.clone(),
        delete_kargs: args.changes.delete_kargs.clone(),
        network_dir: args.changes.network_dir.clone(),
        attempts: WRITE_ATTEMPTS,
    })
}

fn check_device(field: &'static str, device: &str) -> Result<(), PlanError> {
    // `..` would walk out of /dev again; no service sends it.
    let below_dev = device.starts_with("/dev/") && !Path::new(device).components().any(|part| part.as_os_str() == "..");
    if below_dev { Ok(()) } else { Err(PlanError::Device { field, device: device.to_owned() }) }
}

#[cfg(test)]
pub(crate) mod tests;
