//! What the checks say, as far as states depend on it: the border between checks and state machines.

/// How a check that takes a step on the host came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    #[default]
    Success,
    /// The host has not answered yet.
    Unknown,
    Failure,
}

/// How much of its inventory a host has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InventoryState {
    /// None.
    #[default]
    Missing,
    /// One of which nothing but its being there is left: the agent cut it to fit.
    FullyTruncated,
    /// One that the checks can work on.
    Usable,
}

/// The checks of a host (docs/compatibility.md#host-states). Lists hold the messages of checks that do not pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostChecks {
    pub(crate) connected: bool,
    pub(crate) media_connected: bool,
    /// `has-inventory` and `inventory-not-fully-truncated`.
    pub(crate) inventory: InventoryState,
    /// Those of *minHW*.
    pub(crate) min_hardware: Vec<String>,
    /// `vsphere-disk-uuid-enabled`; without the platform, none.
    pub(crate) vsphere_disk_uuid: Vec<String>,
    /// `machine-cidr-defined`.
    pub(crate) machine_cidr: Vec<String>,
    pub(crate) sufficient: Vec<String>,
    /// `sufficient-installation-disk-speed`, by the answer to the step. Success while no such step is handed out.
    pub(crate) disk_speed: Outcome,
    /// `container-images-available`, by the answer to the step. Success while no such step is handed out.
    pub(crate) images: Outcome,
    /// Messages of these two where they failed.
    pub(crate) preparation: Vec<String>,
    /// For hosts without a cluster: disks, processors, memory, `hostname-valid`.
    pub(crate) unbound: Vec<String>,
}

/// The checks of a cluster (docs/compatibility.md#cluster-states).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterChecks {
    /// `api-vips-defined` and `ingress-vips-defined` pass, or the cluster needs none.
    pub(crate) vips_defined: bool,
    /// All of *pending* pass.
    pub(crate) inputs_given: bool,
    /// All of *install* pass.
    pub(crate) installable: bool,
}
