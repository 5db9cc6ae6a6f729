//! Asks the kernel for whole tables by netlink. The only file of this part with side effects.

use super::netlink::{Frame, Request, frames};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::sys::{
    socket::{setsockopt, sockopt::ReceiveTimeout},
    time::TimeVal,
};
use std::io;

/// The kernel's dump datagrams are 32 KiB at most, or as large as the largest message.
const DATAGRAM_BYTES: usize = 256 << 10;
/// A table beyond this is not a host's but a router's, and no inventory.
const MAX_DUMP_BYTES: usize = 64 << 20;
/// The kernel answers at once; this is for one that never does.
const TIMEOUT_S: i64 = 10;
/// How often to start over when the table changed under the dump.
const ATTEMPTS: u32 = 5;

/// Why a table could not be had.
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
    #[error("netlink answer for {what} holds a message of {len_bytes} bytes")]
    Truncated { what: &'static str, len_bytes: usize },
}

/// The payloads of all messages the kernel answers with, each behind its length (`u32`, little endian).
pub(crate) fn dump(request: Request) -> Result<Vec<u8>, DumpError> {
    let mut table = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let (messages, changed) = dump_once(request, attempt)?;
        table = messages;
        if !changed {
            break;
        }
        tracing::debug!(table = request.name(), attempt, "table changed while it was read");
    }
    Ok(table)
}

fn push_message(table: &mut Vec<u8>, payload: &[u8]) {
    // A datagram, and so a message, is far below 4 GiB.
    table.extend(u32::try_from(payload.len()).unwrap_or(0).to_le_bytes());
    table.extend(payload);
}

/// The messages of a dumped table, up to one that is cut.
pub(super) fn messages(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = table;
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk()?;
        let (message, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        rest = after;
        Some(message)
    })
}

fn dump_once(request: Request, sequence: u32) -> Result<(Vec<u8>, bool), DumpError> {
    let what = request.name();
    let fail = |source| DumpError::Io { what, source };
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(fail)?;
    socket.bind_auto().map_err(fail)?;
    setsockopt(&socket, ReceiveTimeout, &TimeVal::new(TIMEOUT_S, 0)).map_err(|errno| fail(errno.into()))?;
    // Lets the kernel filter by table. Kernels before 4.20 don't know it; what they send is filtered again anyway.
    if let Err(error) = socket.set_netlink_get_strict_chk(true) {
        tracing::debug!(%error, "kernel without strict netlink checks");
    }
    socket.send_to(&request.encode(sequence), &SocketAddr::new(0, 0), 0).map_err(fail)?;

    let (mut table, mut total, mut changed) = (Vec::new(), 0usize, false);
    let mut datagram = Vec::with_capacity(DATAGRAM_BYTES);
    loop {
        datagram.clear();
        let mut window = &mut datagram;
        let (len_bytes, sender) = match socket.recv_from(&mut window, libc::MSG_TRUNC) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(fail)?,
        };
        if len_bytes > datagram.len() {
            return Err(DumpError::Truncated { what, len_bytes });
        }
        if sender.port_number() != 0 {
            continue;
        }
        total = total.saturating_add(len_bytes);
        if total > MAX_DUMP_BYTES {
            return Err(DumpError::TooLong { what });
        }
        for frame in frames(&datagram, sequence) {
            match frame {
                Frame::Message { payload, inconsistent } => {
                    changed |= inconsistent;
                    push_message(&mut table, payload);
                }
                Frame::End { inconsistent } => return Ok((table, changed || inconsistent)),
                // A namespace that never had a route has no table yet.
                Frame::Error(libc::ENOENT) => return Ok((table, changed)),
                Frame::Error(errno) => return Err(fail(io::Error::from_raw_os_error(errno))),
            }
        }
    }
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
