//! Roles and the stages of an installation.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostRole {
    /// The service decides.
    #[default]
    AutoAssign,
    /// Control plane.
    Master,
    /// Control plane without workloads or etcd data beyond quorum.
    Arbiter,
    Worker,
    /// The master that carries the temporary control plane.
    Bootstrap,
}

impl HostRole {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::AutoAssign => "auto-assign",
            Self::Master => "master",
            Self::Arbiter => "arbiter",
            Self::Worker => "worker",
            Self::Bootstrap => "bootstrap",
        }
    }
}

impl fmt::Display for HostRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for HostRole {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        [Self::AutoAssign, Self::Master, Self::Arbiter, Self::Worker, Self::Bootstrap]
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| format!("'{text}' is not a role: use bootstrap, master, arbiter, worker or auto-assign"))
    }
}

/// `host-stage`: the progress of an installation. Texts are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostStage {
    #[serde(rename = "Starting installation")]
    StartingInstallation,
    #[serde(rename = "Waiting for control plane")]
    WaitingForControlPlane,
    #[serde(rename = "Waiting for bootkube")]
    WaitingForBootkube,
    #[serde(rename = "Waiting for controller")]
    WaitingForController,
    Installing,
    #[serde(rename = "Writing image to disk")]
    WritingImageToDisk,
    #[serde(rename = "Copying registry data to disk")]
    CopyingRegistryDataToDisk,
    Rebooting,
    #[serde(rename = "Waiting for ignition")]
    WaitingForIgnition,
    Configuring,
    Joined,
    Done,
    Failed,
}

impl HostStage {
    /// All stages, in the order of the published enum (error texts list them so).
    pub const ALL: [Self; 13] = [
        Self::StartingInstallation,
        Self::WaitingForControlPlane,
        Self::WaitingForBootkube,
        Self::WaitingForController,
        Self::Installing,
        Self::WritingImageToDisk,
        Self::CopyingRegistryDataToDisk,
        Self::Rebooting,
        Self::WaitingForIgnition,
        Self::Configuring,
        Self::Joined,
        Self::Done,
        Self::Failed,
    ];

    /// Their texts, in the same order.
    pub const NAMES: [&'static str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut index = 0;
        while index < names.len() {
            names[index] = Self::ALL[index].as_str();
            index += 1;
        }
        names
    };

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::StartingInstallation => "Starting installation",
            Self::WaitingForControlPlane => "Waiting for control plane",
            Self::WaitingForBootkube => "Waiting for bootkube",
            Self::WaitingForController => "Waiting for controller",
            Self::Installing => "Installing",
            Self::WritingImageToDisk => "Writing image to disk",
            Self::CopyingRegistryDataToDisk => "Copying registry data to disk",
            Self::Rebooting => "Rebooting",
            Self::WaitingForIgnition => "Waiting for ignition",
            Self::Configuring => "Configuring",
            Self::Joined => "Joined",
            Self::Done => "Done",
            Self::Failed => "Failed",
        }
    }
}

impl fmt::Display for HostStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for HostStage {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|s| s.as_str()).join(", ");
        Self::ALL
            .into_iter()
            .find(|s| s.as_str() == text)
            .ok_or_else(|| format!("'{text}' is not a stage: use one of {}", known()))
    }
}

/// The ordered stages of one kind of host (docs/compatibility.md#stages).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageList {
    /// Bootstrap of a multi-node cluster.
    Bootstrap,
    /// Master or arbiter.
    Master,
    Worker,
    /// Bootstrap in place on a single node.
    SingleNode,
    /// Role not known yet.
    None,
}

impl StageList {
    /// The stages a host of `role` passes.
    pub fn for_role(role: HostRole, bootstrap: bool, single_node: bool) -> Self {
        match role {
            HostRole::Bootstrap | HostRole::Master if bootstrap && single_node => Self::SingleNode,
            HostRole::Bootstrap => Self::Bootstrap,
            HostRole::Master if bootstrap => Self::Bootstrap,
            HostRole::Master | HostRole::Arbiter => Self::Master,
            HostRole::Worker => Self::Worker,
            HostRole::AutoAssign => Self::None,
        }
    }

    /// The stages in order; percent of one is `(index + 1) * 100 / len`.
    pub fn stages(&self) -> &'static [HostStage] {
        use HostStage::*;
        match self {
            Self::Bootstrap => &[
                StartingInstallation,
                Installing,
                WritingImageToDisk,
                CopyingRegistryDataToDisk,
                WaitingForControlPlane,
                WaitingForBootkube,
                WaitingForController,
                Rebooting,
                Configuring,
                Joined,
                Done,
            ],
            Self::Master => &[
                StartingInstallation,
                Installing,
                WritingImageToDisk,
                CopyingRegistryDataToDisk,
                Rebooting,
                Configuring,
                Joined,
                Done,
            ],
            Self::Worker => &[
                StartingInstallation,
                Installing,
                WritingImageToDisk,
                WaitingForControlPlane,
                Rebooting,
                WaitingForIgnition,
                Configuring,
                Joined,
                Done,
            ],
            Self::SingleNode => &[
                StartingInstallation,
                Installing,
                WaitingForBootkube,
                WritingImageToDisk,
                CopyingRegistryDataToDisk,
                Rebooting,
                Joined,
                Done,
            ],
            Self::None => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_serialized_ones() {
        for stage in HostStage::ALL {
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.as_str());
            assert_eq!(stage.as_str().parse(), Ok(stage));
        }
        for role in ["auto-assign", "master", "arbiter", "worker", "bootstrap"] {
            assert_eq!(serde_json::to_value(role.parse::<HostRole>().unwrap()).unwrap(), role);
        }
    }

    #[test]
    fn each_role_passes_its_stages_in_order() {
        let (begin, written) = ("Starting installation, Installing", "Writing image to disk");
        let copied = format!("{written}, Copying registry data to disk");
        let waits = "Waiting for control plane, Waiting for bootkube, Waiting for controller";
        let end = "Configuring, Joined, Done";
        for (role, bootstrap, single_node, expected) in [
            (HostRole::Master, false, false, format!("{begin}, {copied}, Rebooting, {end}")),
            (HostRole::Arbiter, false, false, format!("{begin}, {copied}, Rebooting, {end}")),
            (HostRole::Master, true, false, format!("{begin}, {copied}, {waits}, Rebooting, {end}")),
            (
                HostRole::Worker,
                false,
                false,
                format!("{begin}, {written}, Waiting for control plane, Rebooting, Waiting for ignition, {end}"),
            ),
            (HostRole::Master, true, true, format!("{begin}, Waiting for bootkube, {copied}, Rebooting, Joined, Done")),
            (HostRole::AutoAssign, false, false, String::new()),
        ] {
            let stages = StageList::for_role(role, bootstrap, single_node).stages();
            let names: Vec<&str> = stages.iter().map(HostStage::as_str).collect();
            assert_eq!(names.join(", "), expected);
        }
    }
}
