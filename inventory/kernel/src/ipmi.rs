//! Requests to the management controller through the kernel's driver (linux/ipmi.h).
#![allow(unsafe_code)]

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

/// How long the controller may take for a reply.
const LIMIT: Duration = Duration::from_secs(1);

/// `struct ipmi_system_interface_addr` of linux/ipmi.h.
#[repr(C)]
struct SystemInterface {
    kind: i32,
    channel: i16,
    lun: u8,
}

/// `struct ipmi_msg`.
#[repr(C)]
struct IpmiMessage {
    netfn: u8,
    command: u8,
    data_len: u16,
    data: *mut u8,
}

/// `struct ipmi_req`.
#[repr(C)]
struct IpmiRequest {
    address: *mut SystemInterface,
    address_len: u32,
    id: libc::c_long,
    message: IpmiMessage,
}

/// `struct ipmi_recv`.
#[repr(C)]
struct IpmiReceived {
    kind: i32,
    address: *mut u8,
    address_len: u32,
    id: libc::c_long,
    message: IpmiMessage,
}

mod ioctl {
    use super::{IpmiReceived, IpmiRequest};
    nix::ioctl_read!(send, b'i', 13, IpmiRequest);
    nix::ioctl_readwrite!(receive_truncated, b'i', 11, IpmiReceived);
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<SystemInterface>() == 8);
    assert!(size_of::<IpmiMessage>() == 16);
    assert!(size_of::<IpmiRequest>() == 40);
    assert!(size_of::<IpmiReceived>() == 48);
};

const IPMI_SYSTEM_INTERFACE: i32 = 0x0c;
const IPMI_BMC_CHANNEL: i16 = 0xf;
const IPMI_RESPONSE: i32 = 1;
/// `sizeof(struct ipmi_addr)`, and the longest message of the driver.
const IPMI_ADDRESS_BYTES: u32 = 40;
const IPMI_MESSAGE_BYTES: u16 = 272;

/// Sends a request to the controller behind the node and waits for the reply to it; other messages are dropped.
pub fn ipmi(node: &File, netfn: u8, command: u8, data: &[u8]) -> io::Result<Vec<u8>> {
    static NEXT_ID: AtomicI64 = AtomicI64::new(1);
    let id = libc::c_long::try_from(NEXT_ID.fetch_add(1, Ordering::Relaxed)).unwrap_or(1);
    let mut data = data.to_vec();
    let mut address = SystemInterface { kind: IPMI_SYSTEM_INTERFACE, channel: IPMI_BMC_CHANNEL, lun: 0 };
    let data_len = u16::try_from(data.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut request = IpmiRequest {
        address: &raw mut address,
        address_len: 8,
        id,
        message: IpmiMessage { netfn, command, data_len, data: data.as_mut_ptr() },
    };
    // SAFETY: address and data are of the lengths given and outlive the call, which copies them.
    unsafe { ioctl::send(node.as_raw_fd(), &raw mut request) }?;
    let sent = Instant::now();
    loop {
        let left = LIMIT.saturating_sub(sent.elapsed());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        match poll(&mut [PollFd::new(node.as_fd(), PollFlags::POLLIN)], left) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no reply from the management controller")),
            Ok(_) => {
                if let Some(reply) = receive(node.as_raw_fd(), id, netfn, command)? {
                    return Ok(reply);
                }
            }
        }
        if sent.elapsed() >= LIMIT {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no reply from the management controller"));
        }
    }
}

/// One message, if it is the reply to that request.
fn receive(node: RawFd, id: libc::c_long, netfn: u8, command: u8) -> io::Result<Option<Vec<u8>>> {
    let mut address = [0; 40];
    let mut data = vec![0; usize::from(IPMI_MESSAGE_BYTES)];
    let mut received = IpmiReceived {
        kind: 0,
        address: address.as_mut_ptr(),
        address_len: IPMI_ADDRESS_BYTES,
        id: 0,
        message: IpmiMessage { netfn: 0, command: 0, data_len: IPMI_MESSAGE_BYTES, data: data.as_mut_ptr() },
    };
    // SAFETY: both buffers are of the lengths given and outlive the call; the driver cuts what is longer.
    match unsafe { ioctl::receive_truncated(node, &raw mut received) } {
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
        Ok(_) => {}
    }
    let message = &received.message;
    if received.kind != IPMI_RESPONSE
        || received.id != id
        || message.netfn != (netfn | 1)
        || message.command != command
        || message.data_len == 0
    {
        return Ok(None);
    }
    data.truncate(usize::from(message.data_len));
    Ok(Some(data))
}
