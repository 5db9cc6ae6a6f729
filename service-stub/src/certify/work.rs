//! What a step of a plan is made of: the actions that a host is asked for, one after the other.

use super::rounds::Part;
use api::certify::CertifyAction;
use certify::{Plan, Step};
use std::net::IpAddr;

/// A host that is to come back is waited for this long, seconds: an operator may have to attach its medium.
pub(super) const ABSENCE_S: i64 = 24 * 3600;
/// From a reboot until the live system registers.
const BOOT_S: u64 = 1800;
/// From its start until an installation is written, or the installed system is up.
pub(super) const INSTALL_S: i64 = 3 * 3600;
/// A peer serves this much longer than it is tested: it is asked first.
const SERVE_LONGER_S: u64 = 30;
/// Limit of a disk's measurement.
const DISK_SPEED_S: u64 = 480;
/// A TPM makes two keys first, which takes some a minute.
const ATTEST_S: u64 = 600;
/// Between the reply to a power cut and the cut.
const POWER_CUT_AFTER_S: u64 = 5;

/// A step of a plan, with what it depends on of those before it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    step: Step,
    /// A boot of what was just installed; else of the live system.
    is_installed: bool,
}

/// How the end of an action shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By its reply.
    Reply,
    /// By the host's next registration; its reply comes before.
    Registration,
}

/// Facts that an action depends on.
pub(super) struct Place<'a> {
    /// Its installation disk; empty if there is none yet.
    pub disk: &'a str,
    /// The part in a round of the network, and the peer's address.
    pub part: Part,
    pub peer: Option<IpAddr>,
}

impl Work {
    /// All of a plan.
    pub(crate) fn all(plan: &Plan) -> Vec<Self> {
        let mut is_installed = false;
        let mut all = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            all.push(Self { step: step.clone(), is_installed });
            is_installed = *step == Step::Install;
        }
        all
    }

    pub(super) fn step(&self) -> &Step {
        &self.step
    }

    /// Whether a host is asked for it in the live system.
    pub(super) fn is_asked(&self) -> bool {
        !matches!((&self.step, self.is_installed), (Step::Install | Step::Attest, _) | (Step::Boot, true))
    }

    /// Whether the machine starts anew, or is written to: not done with one that failed before.
    pub(super) fn needs_sound_host(&self) -> bool {
        matches!(self.step, Step::Install | Step::Boot | Step::PowerCut)
    }

    /// How many actions it has for a host.
    pub(super) fn phases(&self, rounds: u32) -> u32 {
        match self.step {
            Step::Report => 2,
            Step::Network { .. } => rounds.max(1),
            _ => 1,
        }
    }

    pub(super) fn end(&self) -> End {
        match self.step {
            Step::Boot | Step::PowerCut => End::Registration,
            _ => End::Reply,
        }
    }

    /// What is asked for, or what it lacks.
    pub(super) fn action(&self, phase: u32, place: &Place) -> Result<CertifyAction, &'static str> {
        Ok(match &self.step {
            Step::Report if phase == 0 => CertifyAction::Report,
            Step::Report => CertifyAction::Capture,
            Step::Network { seconds, .. } => match (place.part, place.peer) {
                (Part::Alone, _) => CertifyAction::Doctor,
                (Part::Serve, _) => CertifyAction::NetworkServe { seconds: seconds.saturating_add(SERVE_LONGER_S) },
                (_, Some(peer)) => CertifyAction::NetworkTest { peer, seconds: *seconds },
                (_, None) => return Err("waits for its peer to report an address"),
            },
            Step::DiskSpeed { disk, seconds, .. } => match disk.as_deref().unwrap_or(place.disk) {
                "" => return Err("waits for an eligible disk: see `landfall host show`"),
                disk => CertifyAction::DiskSpeed { disk: disk.to_owned(), seconds: DISK_SPEED_S.max(*seconds) },
            },
            Step::Burnin { seconds, only, memory_bytes, disks, destroy } => CertifyAction::Burnin {
                seconds: *seconds,
                only: only.clone(),
                memory_bytes: *memory_bytes,
                disks: disks.clone(),
                destroy: destroy.clone(),
            },
            Step::PowerCut => CertifyAction::PowerCut { after_seconds: POWER_CUT_AFTER_S },
            Step::Boot | Step::Install => CertifyAction::Reboot,
            Step::Attest => return Err("waits for the TPM"),
        })
    }

    /// How long the action may take until it counts as lost, seconds.
    pub(super) fn limit_s(&self) -> i64 {
        let limit_s = match self.step {
            // Of an emulated machine.
            Step::Report => 300,
            Step::Network { seconds, .. } => seconds.saturating_add(SERVE_LONGER_S + 120),
            Step::DiskSpeed { seconds, .. } => DISK_SPEED_S.max(seconds).saturating_add(60),
            // It begins once every part has what it needs.
            Step::Burnin { seconds, .. } => seconds.saturating_add(900),
            Step::Boot | Step::PowerCut | Step::Install => BOOT_S,
            Step::Attest => ATTEST_S,
        };
        i64::try_from(limit_s).unwrap_or(i64::MAX)
    }
}
