//! The kernel's tables of links, addresses and routes, read whole.

use kernel::{
    netlink::{Limits, NetlinkError, Request, Scope, ask},
    rtnetlink::{self, Family},
};
use std::{io, ops::ControlFlow};

/// A table beyond this belongs to a router, not to a host.
const MAX_DUMP_BYTES: usize = 64 << 20;
const TIMEOUT_S: i64 = 10;
/// How often to start over when the table changed under the dump.
const ATTEMPTS: u32 = 5;

/// Why a table could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    /// No socket, or the kernel refused.
    #[error("netlink request for {what} failed")]
    Io {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    /// More than a host has.
    #[error("netlink answer for {what} exceeds {MAX_DUMP_BYTES} bytes")]
    TooLong { what: &'static str },
    /// A datagram that does not fit.
    #[error("netlink answer for {what} contains a message of {len_bytes} bytes")]
    Truncated { what: &'static str, len_bytes: usize },
}

/// A table of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    /// `RTM_GETLINK`.
    Links,
    /// `RTM_GETADDR`, both families.
    Addresses,
    /// `RTM_GETROUTE`, main table.
    Ipv4Routes,
    /// `RTM_GETROUTE`, main table.
    Ipv6Routes,
}

impl Table {
    /// For messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Addresses => "addresses",
            Self::Ipv4Routes => "IPv4 routes",
            Self::Ipv6Routes => "IPv6 routes",
        }
    }

    fn request(self) -> Request {
        match self {
            Self::Links => rtnetlink::links(),
            Self::Addresses => rtnetlink::addresses(),
            Self::Ipv4Routes => rtnetlink::main_routes(Family::Inet),
            Self::Ipv6Routes => rtnetlink::main_routes(Family::Inet6),
        }
    }
}

/// The payloads of all messages the kernel answers with, each behind its length (`u32`, little endian).
pub(crate) fn dump(table: Table) -> Result<Vec<u8>, DumpError> {
    let what = table.name();
    let limits = Limits { timeout_s: TIMEOUT_S, bytes: MAX_DUMP_BYTES };
    let mut bytes = Vec::new();
    for attempt in 1..=ATTEMPTS {
        bytes.clear();
        let push = |payload: &[u8]| {
            push_message(&mut bytes, payload);
            ControlFlow::Continue(())
        };
        let changed = ask(&table.request(), Scope::Table, attempt, limits, push).map_err(|error| match error {
            NetlinkError::Io(source) => DumpError::Io { what, source },
            NetlinkError::TooLong { .. } => DumpError::TooLong { what },
            NetlinkError::Truncated { len_bytes } => DumpError::Truncated { what, len_bytes },
        })?;
        if !changed {
            break;
        }
        tracing::debug!(table = what, attempt, "table changed while it was read");
    }
    Ok(bytes)
}

fn push_message(table: &mut Vec<u8>, payload: &[u8]) {
    // A datagram, and so a message, is far below 4 GiB.
    table.extend(u32::try_from(payload.len()).unwrap_or(0).to_le_bytes());
    table.extend(payload);
}

/// The messages of a dumped table, up to one that is cut.
pub(crate) fn messages(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = table;
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk()?;
        let (message, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        rest = after;
        Some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        let mut table = Vec::new();
        push_message(&mut table, b"one");
        push_message(&mut table, b"");
        push_message(&mut table, b"three");
        assert_eq!(messages(&table).collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        assert_eq!(messages(&table[..table.len() - 1]).count(), 2);
        assert_eq!(messages(&[255; 9]).count(), 0);
    }
}
