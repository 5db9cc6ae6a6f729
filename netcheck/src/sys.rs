//! The system calls that nix has no safe wrapper for.
#![allow(unsafe_code)]

use api::Mac;
use nix::errno::Errno;
use std::{
    ffi::c_int,
    io,
    mem::{self, size_of},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};
use tokio::io::unix::AsyncFd;

/// One classic BPF instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub code: u16,
    pub if_true: u8,
    pub if_false: u8,
    pub operand: u32,
}

/// Hands a non-blocking socket to the event loop.
pub(crate) fn watch(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open, always the same descriptor, and closed only when it is dropped.
    unsafe { AsyncFd::register(socket) }.map_err(io::Error::from)
}

/// Sets an option whose value is an array of 32-bit words.
pub(crate) fn set_words<const N: usize>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &[u32; N],
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<[u32; N]>()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `value`, which outlives the call; the kernel only reads it.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Lets only packets through that the program accepts.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let mut program: Vec<libc::sock_filter> = program
        .iter()
        .map(|i| libc::sock_filter { code: i.code, jt: i.if_true, jf: i.if_false, k: i.operand })
        .collect();
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    let size = libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).map_err(io::Error::other)?;
    // SAFETY: `filter` points to `length` instructions in `program`; both outlive the call, and the kernel copies them.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const filter).cast(), size)
    };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Binds a packet socket to one interface and one EtherType (host byte order).
pub(crate) fn bind_packet(socket: BorrowedFd<'_>, interface: u32, ethertype: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain integers, for which all zeroes is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = c_int::try_from(interface).map_err(io::Error::other)?;
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `address`, which outlives the call; the kernel only reads it.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Frames a packet socket makes its interface let in, until it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Those for a group.
    Multicast(Mac),
    /// All (PACKET_MR_PROMISC).
    Everything,
}

/// Widens what an interface lets in.
pub(crate) fn join(socket: BorrowedFd<'_>, interface: u32, membership: Membership) -> io::Result<()> {
    let (kind, group) = match membership {
        Membership::Multicast(Mac(group)) => (libc::PACKET_MR_MULTICAST, group),
        Membership::Everything => (libc::PACKET_MR_PROMISC, [0; 6]),
    };
    let mut request = libc::packet_mreq {
        mr_ifindex: c_int::try_from(interface).map_err(io::Error::other)?,
        mr_type: u16::try_from(kind).map_err(io::Error::other)?,
        mr_alen: 6,
        mr_address: [0; 8],
    };
    for (to, from) in request.mr_address.iter_mut().zip(group) {
        *to = from;
    }
    let length = libc::socklen_t::try_from(size_of::<libc::packet_mreq>()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length describe `request`, which outlives the call; the kernel only reads it.
    let result = unsafe {
        let option = libc::PACKET_ADD_MEMBERSHIP;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, (&raw const request).cast(), length)
    };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// An interface's MTU, from the network namespace of `socket` (sysfs may show another's).
pub(crate) fn interface_mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    // SAFETY: ifreq is plain integers and a union of such, for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // The request's type differs between C libraries (unsigned long, int); the number fits both.
    #[allow(clippy::useless_conversion)]
    let number = libc::SIOCGIFMTU.try_into().map_err(io::Error::other)?;
    // SAFETY: SIOCGIFMTU reads the NUL-terminated name and writes ifru_mtu, both inside `request`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut request) };
    Errno::result(result)?;
    // SAFETY: the call succeeded, so the kernel has written this member of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(io::Error::other)
}
