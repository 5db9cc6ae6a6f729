//! The kinds of rules that operators have; the table says which operator has which.

/// Processors and memory that an operator takes of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Logical processors.
    pub(crate) cpu_cores: u64,
    /// Memory, MiB.
    pub(crate) ram_mib: u64,
}

impl Amount {
    pub(crate) const NONE: Self = Self::new(0, 0);

    pub(crate) const fn new(cpu_cores: u64, ram_mib: u64) -> Self {
        Self { cpu_cores, ram_mib }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu_cores: self.cpu_cores.saturating_add(other.cpu_cores),
            ram_mib: self.ram_mib.saturating_add(other.ram_mib),
        }
    }

    /// So many times as much.
    pub(crate) fn times(self, count: u64) -> Self {
        Self { cpu_cores: self.cpu_cores.saturating_mul(count), ram_mib: self.ram_mib.saturating_mul(count) }
    }
}

/// What hosts of each role give; an arbiter runs no operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// The only node of its cluster.
    pub(crate) single_node: Amount,
    pub(crate) master: Amount,
    pub(crate) worker: Amount,
    /// A host whose role is not known yet.
    pub(crate) unassigned: Amount,
}

impl Amounts {
    pub(crate) const fn everywhere(amount: Amount) -> Self {
        Self { single_node: amount, master: amount, worker: amount, unassigned: amount }
    }
}

/// How much an operator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hardware {
    Nothing,
    Amounts {
        amounts: Amounts,
        /// The requirements say it in words too.
        described: bool,
    },
    /// Of OpenShift Virtualization: these, and more for each device that virtual machines may be given.
    Machines(Amounts),
    /// Of Logical Volume Management, by version.
    Volumes,
    /// Of OpenShift Data Foundation, by the number of disks.
    Storage,
}

/// What an operator asks of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostRule {
    Nothing,
    /// It has what the operator takes.
    Enough {
        /// What is said while its inventory is missing.
        unknown: &'static str,
    },
    /// The same for OpenShift AI, in its own words.
    Models,
    /// Hardware for virtual machines.
    Machines,
    /// A disk for volumes.
    Volumes,
    /// Disks for storage.
    Storage,
    /// The operator loads modules that are not signed.
    NoSecureBoot {
        /// Only with a GPU of this vendor, by its PCI id.
        vendor: Option<&'static str>,
        /// What is loaded.
        loads: &'static str,
    },
}

/// What an operator asks of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterRule {
    Nothing,
    /// A version at least; with how the refusal begins.
    Since(&'static str, &'static str),
    /// An architecture that it works on.
    Architecture,
    /// An architecture that it works on, and a version at least.
    ArchitectureSince(&'static str),
    /// A version that has Logical Volume Management, on so many nodes.
    Volumes,
    /// Enough hosts with disks for storage.
    Storage,
    /// A GPU of a vendor, by its PCI id, in a host that runs what users bring.
    Gpu {
        vendor: &'static str,
        title: &'static str,
    },
    /// Workers for OpenShift AI.
    Models,
}
