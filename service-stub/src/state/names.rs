//! The states of hosts and clusters, parsed where they enter.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $(#[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every state, in the order of the published enum.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

states! {
    HostState {
        Discovering = "discovering",
        Known = "known",
        Disconnected = "disconnected",
        Insufficient = "insufficient",
        Disabled = "disabled",
        PreparingForInstallation = "preparing-for-installation",
        PreparingFailed = "preparing-failed",
        PreparingSuccessful = "preparing-successful",
        PendingForInput = "pending-for-input",
        Installing = "installing",
        InstallingInProgress = "installing-in-progress",
        InstallingPendingUserAction = "installing-pending-user-action",
        ResettingPendingUserAction = "resetting-pending-user-action",
        Installed = "installed",
        Error = "error",
        Resetting = "resetting",
        AddedToExistingCluster = "added-to-existing-cluster",
        Cancelled = "cancelled",
        Binding = "binding",
        Unbinding = "unbinding",
        UnbindingPendingUserAction = "unbinding-pending-user-action",
        KnownUnbound = "known-unbound",
        DisconnectedUnbound = "disconnected-unbound",
        InsufficientUnbound = "insufficient-unbound",
        DisabledUnbound = "disabled-unbound",
        DiscoveringUnbound = "discovering-unbound",
        Reclaiming = "reclaiming",
        ReclaimingRebooting = "reclaiming-rebooting",
    }
}

impl HostState {
    /// In the pool of hosts without a cluster, and checked there.
    pub(crate) fn unbound(self) -> bool {
        matches!(
            self,
            Self::KnownUnbound | Self::DisconnectedUnbound | Self::InsufficientUnbound | Self::DiscoveringUnbound
        )
    }

    /// Before any installation: its checks are worked out on every pass.
    pub fn checked(self) -> bool {
        matches!(
            self,
            Self::Discovering
                | Self::Known
                | Self::Disconnected
                | Self::Insufficient
                | Self::PendingForInput
                | Self::PreparingForInstallation
                | Self::PreparingSuccessful
                | Self::PreparingFailed
        ) || self.unbound()
    }

    /// Before the install is ordered: hostname, role and installation disk may still change.
    pub(crate) fn settings_open(self) -> bool {
        self.checked()
            && !matches!(self, Self::PreparingForInstallation | Self::PreparingSuccessful | Self::PreparingFailed)
    }

    /// May take a new inventory, in the order the real service lists them.
    pub(crate) const TAKES_INVENTORY: [Self; 10] = [
        Self::Discovering,
        Self::Known,
        Self::Disconnected,
        Self::Insufficient,
        Self::PendingForInput,
        Self::InstallingInProgress,
        Self::DisconnectedUnbound,
        Self::InsufficientUnbound,
        Self::DiscoveringUnbound,
        Self::KnownUnbound,
    ];
}

states! {
    ClusterState {
        Insufficient = "insufficient",
        Ready = "ready",
        Error = "error",
        PreparingForInstallation = "preparing-for-installation",
        PendingForInput = "pending-for-input",
        Installing = "installing",
        Finalizing = "finalizing",
        Installed = "installed",
        AddingHosts = "adding-hosts",
        Cancelled = "cancelled",
        InstallingPendingUserAction = "installing-pending-user-action",
        Unmonitored = "unmonitored",
    }
}

impl ClusterState {
    /// New hosts may register and settings may change.
    pub(crate) fn accepts_hosts(self) -> bool {
        matches!(self, Self::Insufficient | Self::Ready | Self::PendingForInput | Self::AddingHosts)
    }

    /// What its installation is made of may still change.
    pub(crate) fn is_before_installation(self) -> bool {
        matches!(self, Self::Insufficient | Self::Ready | Self::PendingForInput)
    }

    /// Before any installation: its checks are worked out on every pass.
    pub fn checked(self) -> bool {
        matches!(self, Self::Insufficient | Self::Ready | Self::PendingForInput | Self::PreparingForInstallation)
    }

    /// Install-time files may be downloaded (docs/compatibility.md#installer-endpoints).
    pub(crate) fn files_available(self) -> bool {
        Self::WITH_FILES.contains(&self)
    }

    /// The states in which they may, in the published order.
    pub(crate) const WITH_FILES: [Self; 7] = [
        Self::Installing,
        Self::Finalizing,
        Self::Installed,
        Self::Error,
        Self::AddingHosts,
        Self::Cancelled,
        Self::InstallingPendingUserAction,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_serialized_ones() {
        for state in HostState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        for state in ClusterState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }
}
