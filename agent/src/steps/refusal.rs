//! What the service gets for a step that isn't run.

use api::{HostId, StepType};

/// Why a step isn't run; the text is the reply's.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A type without an action here. The service looks for the start of this text.
    #[error("failed to find action for step type {0}")]
    Unknown(StepType),
    /// Arguments missing or too many.
    #[error("{step} cmd accepts {expected} params in args, given args [{}]", given.join(" "))]
    ArgCount {
        /// Type of the step.
        step: StepType,
        /// How many it takes.
        expected: usize,
        /// What came.
        given: Vec<String>,
    },
    /// An argument that is not what it should be.
    #[error("validation failure list:\n{what} in body must be of type {kind}: \"{value}\"")]
    Type {
        /// Its name.
        what: &'static str,
        /// Its type.
        kind: &'static str,
        /// As given, cut.
        value: String,
    },
    /// What the request lacks, or has in another form.
    #[error("validation failure list:\n{}", .0.join("\n"))]
    Fields(Vec<String>),
    /// JSON that doesn't fit.
    #[error("validation failure list:\n{what}: {error}")]
    Json {
        /// What it should be.
        what: &'static str,
        /// Cause. Part of the text, since the text is all the service gets.
        error: serde_json::Error,
    },
    /// No such disk.
    #[error("validation failure list:\n{what} {device} {reason}")]
    Device {
        /// Its name.
        what: &'static str,
        /// As given.
        device: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A step that would disturb what runs.
    #[error("{0} is not done while an installation runs on this host")]
    Installing(StepType),
    /// What this agent was started without.
    #[error("this agent may not reboot its host (--no-reboot)")]
    NoReboot,
    /// Meant for another host.
    #[error("validation failure list:\nhost_id {asked} is not this host, which is {ours}")]
    OtherHost {
        /// In the request.
        asked: HostId,
        /// Ours.
        ours: HostId,
    },
}
