//! Station 4: no other station holds our addresses.

use super::report::{Code, Finding, Station};
use crate::{
    SocketError,
    claim::{self, Duplicate},
};

/// What asking came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// These, or none.
    Found(Vec<Duplicate>),
    /// Not asked, for this reason.
    NotAsked(String),
}

/// Asks for our own addresses on each segment. Leaves the thread without any capability.
pub(super) fn ask() -> Asked {
    match claim::duplicates(&claim::ClaimOptions::default()) {
        Ok(found) => Asked::Found(found),
        Err(claim::Error::Socket(SocketError::Privilege { .. })) => {
            Asked::NotAsked("this needs root or the capability CAP_NET_RAW".to_owned())
        }
        Err(error) => Asked::NotAsked(error.to_string()),
    }
}

/// Are our addresses our own?
pub(super) fn judge(asked: &Asked) -> Finding {
    let station = Station::Duplicate;
    let found = match asked {
        Asked::NotAsked(reason) => {
            let seen = format!("the segment was not probed: {reason}");
            return Finding::warn(station, Code::NotProbed, seen, "run this as root to probe it");
        }
        Asked::Found(found) => found,
    };
    if found.is_empty() {
        return Finding::ok(station, "no other station on the segment has an address of ours");
    }
    let each =
        |Duplicate { address, interface, mac }: &Duplicate| format!("{address} of {interface} is also held by {mac}");
    let seen = found.iter().map(each).collect::<Vec<_>>().join("; ");
    let macs = found.iter().map(|duplicate| duplicate.mac.to_string()).collect::<Vec<_>>().join(", ");
    let next = format!(
        "replies to us may go to the other station: find {macs} in the switch's table and change the address of one of them"
    );
    Finding::broken(station, Code::DuplicateAddress, seen, next)
}
