//! What the checks say, as far as states depend on it: the border between checks and state machines.

/// How a check that takes a step on the host came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    #[default]
    Success,
    /// The host has not answered yet.
    Unknown,
    Failure,
}

/// How much of its inventory a host has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InventoryState {
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
pub struct HostChecks {
    pub connected: bool,
    pub media_connected: bool,
    /// `has-inventory` and `inventory-not-fully-truncated`.
    pub inventory: InventoryState,
    /// Those of *minHW*.
    pub min_hardware: Vec<String>,
    /// `vsphere-disk-uuid-enabled`; without the platform, none.
    pub vsphere_disk_uuid: Vec<String>,
    /// `machine-cidr-defined`.
    pub machine_cidr: Vec<String>,
    pub sufficient: Vec<String>,
    /// `sufficient-installation-disk-speed`, by the answer to the step. Success while no such step is handed out.
    pub disk_speed: Outcome,
    /// `container-images-available`, by the answer to the step. Success while no such step is handed out.
    pub images: Outcome,
    /// Messages of these two where they failed.
    pub preparation: Vec<String>,
    /// For hosts without a cluster: disks, processors, memory, `hostname-valid`.
    pub unbound: Vec<String>,
}

/// The checks of a cluster (docs/compatibility.md#cluster-states).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterChecks {
    /// `api-vips-defined` and `ingress-vips-defined` pass, or the cluster needs none.
    pub vips_defined: bool,
    /// All of *pending* pass.
    pub inputs_given: bool,
    /// All of *install* pass.
    pub installable: bool,
}
