//! Steps of a certification (docs/agent.md#certification): an extension of Landfall's, for agents that announce it
//! ([`crate::EXTENSIONS_HEADER`]).

use crate::json::null_is_default;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::IpAddr;

/// A reply's document has at most so many bytes as JSON.
pub const MAX_DOCUMENT_BYTES: usize = 8 << 20;
/// No action takes longer.
pub const MAX_SECONDS: u64 = 7 * 86_400;

/// One step of a certification on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertifyRequest {
    /// The certification. Echoed, as are the next two.
    pub run: String,
    /// Index in the plan.
    pub step: u32,
    pub attempt: u32,
    pub action: CertifyAction,
}

/// What the host is to do. Each is a command of the program, whose JSON is the reply's document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum CertifyAction {
    /// `landfall report --json`
    Report,
    /// `landfall capture --json`. The document is a [`Capture`].
    Capture,
    /// `landfall burnin serve-net`: the other end of a peer's [`CertifyAction::NetworkTest`], for so long. No document.
    NetworkServe { seconds: u64 },
    /// `landfall burnin --only net --json`: traffic with a peer that serves.
    NetworkTest { peer: IpAddr, seconds: u64 },
    /// `landfall netcheck doctor --json`
    Doctor,
    /// `landfall disk speed --json`. The disk goes by a path below /dev; the seconds are the limit.
    DiskSpeed { disk: String, seconds: u64 },
    /// `landfall burnin --json`
    Burnin {
        seconds: u64,
        /// `cpu`, `memory`, `disk`; none stands for all.
        #[serde(default, deserialize_with = "null_is_default")]
        only: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_bytes: Option<u64>,
        /// Paths of disks to read, below /dev; none stands for all, or for none beside disks to destroy.
        #[serde(default, deserialize_with = "null_is_default")]
        disks: Vec<String>,
        /// Paths of disks that are written: their contents are lost. A disk in use is refused.
        #[serde(default, deserialize_with = "null_is_default")]
        destroy: Vec<String>,
    },
    /// Into whatever the firmware starts. The reply comes first.
    Reboot,
    /// The management controller turns the machine off and on again, so long after the reply.
    PowerCut { after_seconds: u64 },
}

impl CertifyAction {
    /// As on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Capture => "capture",
            Self::NetworkServe { .. } => "network-serve",
            Self::NetworkTest { .. } => "network-test",
            Self::Doctor => "doctor",
            Self::DiskSpeed { .. } => "disk-speed",
            Self::Burnin { .. } => "burnin",
            Self::Reboot => "reboot",
            Self::PowerCut { .. } => "power-cut",
        }
    }
}

/// What became of a [`CertifyRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CertifyReply {
    pub run: String,
    pub step: u32,
    pub attempt: u32,
    /// Of the command; -1 when it was killed or never ran.
    pub exit_code: i32,
    /// What the command printed, also where it failed; `null` if that is not JSON.
    #[serde(default)]
    pub document: Value,
    /// The end of the command's log where it failed, or why there is none.
    #[serde(default, deserialize_with = "null_is_default")]
    pub error: String,
}

/// A capture in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// The archive (.tar.gz), in base64.
    pub tar_gz: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn actions_have_these_names_and_fields() {
        let text = json!({"run": "r1", "step": 2, "attempt": 1,
            "action": {"do": "burnin", "seconds": 60, "only": ["cpu"], "disks": null}});
        let request: CertifyRequest = serde_json::from_value(text).unwrap();
        assert_eq!(request.action.name(), "burnin");
        let CertifyAction::Burnin { seconds: 60, only, memory_bytes: None, disks, destroy } = request.action else {
            panic!("another action")
        };
        assert_eq!((only, disks.len(), destroy.len()), (vec!["cpu".to_owned()], 0, 0));
        for (action, name) in [
            (CertifyAction::Report, "report"),
            (CertifyAction::Capture, "capture"),
            (CertifyAction::NetworkServe { seconds: 1 }, "network-serve"),
            (CertifyAction::NetworkTest { peer: "fd00::1".parse().unwrap(), seconds: 1 }, "network-test"),
            (CertifyAction::Doctor, "doctor"),
            (CertifyAction::DiskSpeed { disk: "/dev/sda".into(), seconds: 1 }, "disk-speed"),
            (CertifyAction::Reboot, "reboot"),
            (CertifyAction::PowerCut { after_seconds: 1 }, "power-cut"),
        ] {
            let value = serde_json::to_value(&action).unwrap();
            assert_eq!((value["do"].as_str(), action.name()), (Some(name), name));
            assert_eq!(serde_json::from_value::<CertifyAction>(value).unwrap(), action);
        }
    }
}
