//! What is stored of a host's TPM, and the operator's settings.

use api::attest::Digest;
use attestation::{boot::Boot, endorsement::Roots};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What becomes of hosts that prove no good boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Policy {
    /// Hosts are not asked
    #[default]
    Off,
    /// It is shown
    Note,
    /// A validation fails, and blocks nothing
    Warn,
    /// A validation fails, and they are not installed
    Refuse,
}

/// What becomes of the first boot that a TPM proves, where the infra-env has no recorded boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FirstBoot {
    /// It waits for `landfall host attest HOST --record`
    #[default]
    Hold,
    /// It is good, for this host alone
    Record,
}

/// The operator's settings of attestation.
#[derive(Clone, Debug, Default)]
pub struct Attest {
    pub policy: Policy,
    pub first_boot: FirstBoot,
    /// Authorities that must have signed the certificates of endorsement keys.
    pub roots: Option<Arc<Roots>>,
}

/// The keys of a host's TPM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// SHA-256 of the endorsement key's public area.
    pub(crate) endorsement: Digest,
    /// SHA-256 of the attestation key's public area, which is known to be in the same TPM.
    pub(crate) signer: Digest,
}

/// What is known of a host by its TPM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attestation {
    /// Once proven, it stays: a host with another TPM is another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Identity>,
    /// What it booted before its last registration, if proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot: Option<Boot>,
    /// The first that was proven, if the operator takes that for good. A recorded boot of the infra-env takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_boot: Option<Boot>,
    /// Why the last boot is not proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}

impl Attestation {
    /// It may have booted something else since.
    pub(crate) fn forget_boot(&mut self) {
        (self.boot, self.fault) = (None, None);
    }

    /// A boot is proven. Whether it was taken for good because it is the first.
    pub(super) fn prove(&mut self, identity: Identity, boot: Boot, takes_first: bool) -> bool {
        let takes = takes_first && self.first_boot.is_none();
        if takes {
            self.first_boot = Some(boot.clone());
        }
        (self.identity, self.boot) = (Some(identity), Some(boot));
        takes
    }

    pub(super) fn is_open(&self) -> bool {
        self.boot.is_none() && self.fault.is_none()
    }
}
