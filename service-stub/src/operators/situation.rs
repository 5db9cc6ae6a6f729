//! What the rules of operators look at: a cluster, the roles of its hosts, and one host.

use crate::check::{Status, Verdict, disks::answers_to};
use crate::model::{ClusterRecord, HostRecord};
use crate::releases::version::older;
use api::{Disk, HostRole, Inventory};
use std::sync::Arc;

/// Storage needs so many hosts with a disk each.
pub(crate) const STORAGE_HOSTS: usize = 3;
/// The smallest disk for storage, GB (10^9 bytes).
const STORAGE_DISK_GB: u64 = 25;
/// What the volumes of multicluster engine take together, and the largest of them, GB.
const ENGINE_VOLUMES_GB: (u64, u64) = (70, 50);
/// From so many workers on, the control plane's nodes run nothing of users.
const WORKERS_ENOUGH: usize = 2;
/// Volume that backs virtual machines on a single node, GiB.
pub(crate) const MACHINES_POOL_GIB: u64 = 50;

/// How many hosts have each role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    pub(crate) hosts: usize,
    masters: usize,
    arbiters: usize,
    workers: usize,
    unassigned: usize,
    /// With those for whom the service suggests it.
    pub(crate) effective_workers: usize,
}

impl Roles {
    /// Counts hosts by the role that the user gave, and the role that counts.
    pub(crate) fn count(hosts: impl Iterator<Item = (HostRole, HostRole)>) -> Self {
        let mut roles = Self::default();
        for (given, effective) in hosts {
            roles.hosts += 1;
            *match given {
                HostRole::Master | HostRole::Bootstrap => &mut roles.masters,
                HostRole::Arbiter => &mut roles.arbiters,
                HostRole::Worker => &mut roles.workers,
                HostRole::AutoAssign => &mut roles.unassigned,
            } += 1;
            roles.effective_workers += usize::from(effective == HostRole::Worker);
        }
        roles
    }

    pub(crate) fn of(hosts: &[Arc<HostRecord>]) -> Self {
        Self::count(hosts.iter().map(|host| (host.host.role, host.effective_role())))
    }
}

/// Which hosts run the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageMode {
    /// The control plane's, for there are no others.
    Compact,
    /// Workers.
    Standard,
    /// The cluster has no form yet that storage can be in.
    Unknown,
}

impl StorageMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compact => "Compact",
            Self::Standard => "Standard",
            Self::Unknown => "Unknown",
        }
    }
}

/// A cluster as operators see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) cluster: &'a ClusterRecord,
    pub(crate) roles: Roles,
}

impl<'a> Situation<'a> {
    pub(crate) fn version(&self) -> &'a str {
        &self.cluster.cluster.openshift_version
    }

    pub(crate) fn has(&self, operator: &str) -> bool {
        self.cluster.course.olm_operators().any(|own| own.name == operator)
    }

    /// The verdict about an operator that asks nothing of this cluster and its hosts.
    pub(crate) fn unasked(&self, operator: &str) -> Option<Verdict> {
        let message = match (self.has(operator), self.cluster.day2()) {
            (false, _) => format!("{operator} is disabled"),
            // It is there already.
            (true, true) => format!("{operator} validation is disabled when adding hosts to an existing cluster."),
            (true, false) => return None,
        };
        Some((Status::Success, message))
    }

    /// The control plane's nodes run what users bring, for there are too few others.
    pub(crate) fn masters_must_work(&self) -> bool {
        self.cluster.single_node() || self.roles.effective_workers < WORKERS_ENOUGH
    }

    /// The same, or the user wants it.
    pub(crate) fn masters_work(&self) -> bool {
        self.masters_must_work()
            || self.cluster.settings.get("schedulable_masters") == Some(&serde_json::Value::Bool(true))
    }

    pub(crate) fn storage_mode(&self) -> StorageMode {
        let Roles { masters, arbiters, workers, unassigned, .. } = self.roles;
        let three_of_one_kind = workers == 0 && masters + unassigned == 3;
        if three_of_one_kind || workers == 0 && unassigned == 0 && masters + arbiters >= STORAGE_HOSTS {
            return StorageMode::Compact;
        }
        let control_plane = masters >= 3 || masters >= 2 && arbiters > 0;
        if control_plane && workers >= STORAGE_HOSTS { StorageMode::Standard } else { StorageMode::Unknown }
    }

    /// Whether a host of that role runs the storage; none while it can't be told.
    pub(crate) fn runs_storage(&self, role: HostRole) -> Option<bool> {
        if self.storage_needs_role(role) {
            return None;
        }
        match self.storage_mode() {
            StorageMode::Compact => {
                Some(matches!(role, HostRole::Master | HostRole::Bootstrap | HostRole::Arbiter | HostRole::AutoAssign))
            }
            StorageMode::Standard => Some(role == HostRole::Worker),
            StorageMode::Unknown => None,
        }
    }

    /// A host without a role that is not one of three.
    pub(crate) fn storage_needs_role(&self, role: HostRole) -> bool {
        role == HostRole::AutoAssign && self.roles.hosts != 3
    }

    /// The smallest disk for storage, GB; `with_engine` counts what multicluster engine keeps there.
    pub(crate) fn storage_disk_gb(&self, with_engine: bool) -> u64 {
        STORAGE_DISK_GB + if with_engine { self.engine_gb() } else { 0 }
    }

    /// What multicluster engine needs of a disk for storage or volumes, GB.
    pub(crate) fn engine_gb(&self) -> u64 {
        match (self.has("mce") && (self.has("lvm") || self.has("odf")), self.cluster.single_node()) {
            (false, _) => 0,
            (true, true) => ENGINE_VOLUMES_GB.0,
            (true, false) => ENGINE_VOLUMES_GB.1,
        }
    }

    /// Virtual machines on a single node keep their disks in a pool of their own, until Logical Volume Management has them.
    pub(crate) fn pools_machines(&self) -> bool {
        self.cluster.single_node() && !older(self.version(), "4.10.0") && older(self.version(), "4.12.0")
    }

    /// Disks of the hosts that run the storage, and how many hosts have one.
    pub(crate) fn storage_disks<'h>(&self, machines: impl Iterator<Item = Machine<'h>>) -> (usize, usize) {
        let least = self.storage_disk_gb(false);
        let running = machines.filter(|machine| self.runs_storage(machine.effective) == Some(true));
        let disks = running.map(|machine| machine.spare_disks(least).0).filter(|count| *count > 0);
        disks.fold((0, 0), |(disks, hosts), count| (disks + count, hosts + 1))
    }
}

/// One host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'a> {
    /// As the user gave it.
    pub(crate) role: HostRole,
    /// With the service's suggestion.
    pub(crate) effective: HostRole,
    pub(crate) inventory: Option<&'a Inventory>,
    /// Identifier of the disk that it is installed to.
    installation_disk: &'a str,
}

impl<'a> Machine<'a> {
    pub(crate) fn of(record: &'a HostRecord) -> Self {
        Self {
            role: record.host.role,
            effective: record.effective_role(),
            inventory: record.facts().inventory.as_ref(),
            installation_disk: &record.host.installation_disk_id,
        }
    }

    /// The same in another role.
    pub(crate) fn in_role(self, role: HostRole) -> Self {
        Self { role, effective: role, ..self }
    }

    /// Disks that are not installed to: how many have at least so many GB, and how many are smaller.
    pub(crate) fn spare_disks(&self, least_gb: u64) -> (usize, usize) {
        let least = least_gb.saturating_mul(1_000_000_000);
        let (large, small): (Vec<&Disk>, Vec<&Disk>) = self.spare().partition(|disk| disk.size_bytes >= least);
        (large.len(), small.len())
    }

    /// Disks that are not installed to, of the kinds that storage is made of.
    pub(crate) fn spare(&self) -> impl Iterator<Item = &'a Disk> {
        let installed = self.installation_disk;
        self.inventory.into_iter().flat_map(|inventory| &inventory.disks).filter(move |disk| {
            let is_installed = !installed.is_empty() && answers_to(disk, installed);
            matches!(disk.drive_type.as_str(), "SSD" | "HDD") && disk.size_bytes > 0 && !is_installed
        })
    }
}
