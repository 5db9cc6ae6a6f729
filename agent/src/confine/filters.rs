//! Filters of system calls, for seccomp(2).

use super::calls::{EVERY_STEP, EVERY_STEP_OLDER, NO_STEP};
use crate::privileges::{Rules, Socket};
use kernel::order::Gather;
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// `ioctl` requests that the C library and the runtime make: is this a terminal, and how wide; do not wait; close at exec.
const EVERY_STEP_IOCTLS: [u64; 4] = [0x5401, 0x5413, 0x5421, 0x5451];

/// New name spaces, which threads never ask for (`CLONE_NEW…` of clone(2)).
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Of the second argument of `socket`: the type, without the flags beside it.
const SOCKET_TYPE: u64 = 0xf;

/// Filters of what a step may call.
#[derive(Debug)]
pub(super) struct Filters {
    /// Has the C library start threads by clone, whose flags can be looked at, as on kernels without clone3. To be added first: the
    /// other one forbids adding filters.
    pub no_clone3: BpfProgram,
    /// Refuses with EPERM.
    pub main: BpfProgram,
}

/// What a step with these rules may call, and `more`; all else fails with EPERM.
pub(super) fn allowing(rules: &Rules, more: &[&[c_long]], arch: TargetArch) -> Result<Filters, BackendError> {
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in [EVERY_STEP, EVERY_STEP_OLDER].iter().chain(more).copied().flatten() {
        calls.insert(*call, Vec::new());
    }
    let equals = |argument, value| SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value);
    let masked = |argument, mask, value| SeccompCondition::new(argument, Dword, SeccompCmpOp::MaskedEq(mask), value);
    let mut sockets = Vec::new();
    for (domain, kind, protocol) in rules.sockets.iter().chain(&[Socket::Journal]).copied().flat_map(endpoints) {
        let mut conditions = vec![equals(0, number(*domain))?, masked(1, SOCKET_TYPE, number(*kind))?];
        if let Some(protocol) = protocol {
            conditions.push(equals(2, number(*protocol))?);
        }
        sockets.push(SeccompRule::new(conditions)?);
    }
    calls.insert(libc::SYS_socket, sockets);
    let requests = EVERY_STEP_IOCTLS.iter().chain(rules.ioctls);
    let requests: Result<_, BackendError> =
        requests.map(|request| SeccompRule::new(vec![equals(1, *request)?])).collect();
    calls.insert(libc::SYS_ioctl, requests?);
    calls.insert(libc::SYS_clone3, Vec::new());
    calls.insert(libc::SYS_clone, vec![SeccompRule::new(vec![masked(0, number(NAMESPACES), 0)?])?]);
    let refuse = SeccompAction::Errno(number_u32(libc::EPERM));
    let main = SeccompFilter::new(calls, refuse, SeccompAction::Allow, arch)?.try_into()?;
    let none = SeccompAction::Errno(number_u32(libc::ENOSYS));
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let no_clone3 = SeccompFilter::new(clone3, SeccompAction::Allow, none, arch)?.try_into()?;
    Ok(Filters { no_clone3, main })
}

/// All calls but those no step makes, and those of `more`.
pub(super) fn refusing(more: &[&[c_long]], arch: TargetArch) -> Result<BpfProgram, BackendError> {
    let calls = NO_STEP.iter().chain(more.iter().copied().flatten()).map(|call| (*call, Vec::new())).gather();
    let refuse = SeccompAction::Errno(number_u32(libc::EPERM));
    SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Domain, type and, where that matters, protocol.
fn endpoints(socket: Socket) -> &'static [(i32, i32, Option<i32>)] {
    match socket {
        Socket::Journal => &[(libc::AF_UNIX, libc::SOCK_DGRAM, None)],
        Socket::Udp => &[(libc::AF_INET, libc::SOCK_DGRAM, None), (libc::AF_INET6, libc::SOCK_DGRAM, None)],
        Socket::Tcp => &[(libc::AF_INET, libc::SOCK_STREAM, None), (libc::AF_INET6, libc::SOCK_STREAM, None)],
        Socket::Echo => &[
            (libc::AF_INET, libc::SOCK_RAW, Some(libc::IPPROTO_ICMP)),
            (libc::AF_INET6, libc::SOCK_RAW, Some(libc::IPPROTO_ICMPV6)),
        ],
        Socket::Packet => &[(libc::AF_PACKET, libc::SOCK_RAW, None)],
        Socket::Route => &[
            (libc::AF_NETLINK, libc::SOCK_RAW, Some(libc::NETLINK_ROUTE)),
            (libc::AF_NETLINK, libc::SOCK_DGRAM, Some(libc::NETLINK_ROUTE)),
        ],
        Socket::Generic => &[(libc::AF_NETLINK, libc::SOCK_RAW, Some(libc::NETLINK_GENERIC))],
    }
}

/// A constant of the C library's, none of which is negative.
fn number(constant: libc::c_int) -> u64 {
    number_u32(constant).into()
}

fn number_u32(constant: libc::c_int) -> u32 {
    constant.unsigned_abs()
}
