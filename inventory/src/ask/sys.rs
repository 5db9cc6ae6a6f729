//! ioctls of devices, network interfaces and the terminal: the one place with unsafe code. Every request is
//! bounded in bytes; in time by who asks.
#![allow(unsafe_code)]

use super::scsi::sense_key;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
    unistd::{ForkResult, Pid, fork, pipe2},
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    panic::{self, AssertUnwindSafe},
    ptr,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

/// What the kernel gives a device for one command: its own default. A shorter time would end in a reset of the device, by a
/// program that only wants to look; who asks loses patience before.
const COMMAND_MS: u32 = 60_000;
/// What the management controller is given for one reply.
const IPMI_LIMIT: Duration = Duration::from_secs(1);

nix::ioctl_readwrite_bad!(sg_io, 0x2285, SgIo);
nix::ioctl_readwrite!(nvme_admin, b'N', 0x41, NvmeCommand);
nix::ioctl_read!(ipmi_send, b'i', 13, IpmiRequest);
nix::ioctl_readwrite!(ipmi_receive_truncated, b'i', 11, IpmiReceived);
nix::ioctl_readwrite_bad!(siocethtool, 0x8946, InterfaceRequest);
nix::ioctl_read_bad!(window_size, libc::TIOCGWINSZ, libc::winsize);

/// `struct sg_io_hdr` of scsi/sg.h.
#[repr(C)]
pub struct SgIo {
    interface_id: i32,
    direction: i32,
    command_len: u8,
    sense_capacity: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
pub struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11_to_15: [u32; 5],
    timeout_ms: u32,
    result: u32,
}

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
pub struct IpmiRequest {
    address: *mut SystemInterface,
    address_len: u32,
    id: libc::c_long,
    message: IpmiMessage,
}

/// `struct ipmi_recv`.
#[repr(C)]
pub struct IpmiReceived {
    kind: i32,
    address: *mut u8,
    address_len: u32,
    id: libc::c_long,
    message: IpmiMessage,
}

/// `struct ifreq` as `SIOCETHTOOL` takes it.
#[repr(C)]
pub struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u8,
    rest: [u8; 16],
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<SgIo>() == 88);
    assert!(size_of::<NvmeCommand>() == 72);
    assert!(size_of::<SystemInterface>() == 8);
    assert!(size_of::<IpmiMessage>() == 16);
    assert!(size_of::<IpmiRequest>() == 40);
    assert!(size_of::<IpmiReceived>() == 48);
    assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());
};

// SCSI.

const SG_DXFER_NONE: i32 = -1;
const SG_DXFER_FROM_DEV: i32 = -3;
/// `DID_TIME_OUT`, and the driver byte of the same meaning.
const TIMED_OUT: u16 = 3;
const DRIVER_TIMEOUT: u16 = 6;
const CHECK_CONDITION: u8 = 2;
const ILLEGAL_REQUEST: u8 = 5;
/// What a device said of a command.
pub(super) struct ScsiReply {
    /// Bytes it sent.
    pub len: usize,
    pub sense: Vec<u8>,
}

/// A command that reads into `data`, or has no data.
pub(super) fn scsi(disk: &File, command: &[u8], data: &mut [u8]) -> io::Result<ScsiReply> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut sense = [0; 64];
    let mut request = SgIo {
        interface_id: i32::from(b'S'),
        direction: if data.is_empty() { SG_DXFER_NONE } else { SG_DXFER_FROM_DEV },
        command_len: u8::try_from(command.len()).map_err(invalid)?,
        sense_capacity: 64,
        iovec_count: 0,
        data_len: u32::try_from(data.len()).map_err(invalid)?,
        data: data.as_mut_ptr(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: COMMAND_MS,
        flags: 0,
        pack_id: 0,
        user: ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_len: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: the lengths in the request are those of the three buffers, which outlive the call, and the kernel writes to no
    // others; it keeps none of the pointers once it has returned.
    unsafe { sg_io(disk.as_raw_fd(), &raw mut request) }?;
    let sense = sense.get(..usize::from(request.sense_len)).unwrap_or(&sense).to_vec();
    if request.host_status == TIMED_OUT || request.driver_status & 0xf == DRIVER_TIMEOUT {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "no reply to a SCSI command"));
    }
    // With sense data of "recovered" or "no" error the command was done: that is how ATA results are told.
    let key = sense_key(&sense);
    let is_done = request.status == 0 || (request.status == CHECK_CONDITION && matches!(key, Some((0 | 1, _))));
    if request.host_status != 0 || !is_done {
        let text = format!(
            "a SCSI command failed: status {:02x}h, host status {:02x}h, sense key and code {:x?}",
            request.status, request.host_status, key
        );
        let kind = match key {
            Some((ILLEGAL_REQUEST, _)) => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        return Err(io::Error::new(kind, text));
    }
    let missing = usize::try_from(request.residual).unwrap_or(0);
    Ok(ScsiReply { len: data.len().saturating_sub(missing), sense })
}

// NVMe.

/// Identify, of the controller itself (NVMe base 2.0 5.17).
pub(super) fn nvme_controller(controller: &File) -> io::Result<Vec<u8>> {
    nvme(controller, 0x06, 0, 1, 4096)
}

/// Get Log Page 02h, of all namespaces (NVMe base 2.0 5.16).
pub(super) fn nvme_health(controller: &File) -> io::Result<Vec<u8>> {
    nvme(controller, 0x02, u32::MAX, 0x02 | (512 / 4 - 1) << 16, 512)
}

fn nvme(controller: &File, opcode: u8, namespace: u32, cdw10: u32, len: u32) -> io::Result<Vec<u8>> {
    let mut data = vec![0; usize::try_from(len).unwrap_or(0)];
    let mut command = NvmeCommand {
        opcode,
        namespace,
        address: u64::try_from(data.as_mut_ptr().expose_provenance()).unwrap_or(0),
        data_len: len,
        cdw10,
        timeout_ms: COMMAND_MS,
        ..NvmeCommand::default()
    };
    // SAFETY: `address` and `data_len` are those of `data`, which outlives the call; the commands read at most as much.
    match unsafe { nvme_admin(controller.as_raw_fd(), &raw mut command) }? {
        0 => Ok(data),
        status => Err(io::Error::other(format!("an NVMe admin command failed: status {status:x}h"))),
    }
}

// IPMI.

const IPMI_SYSTEM_INTERFACE: i32 = 0x0c;
const IPMI_BMC_CHANNEL: i16 = 0xf;
const IPMI_RESPONSE: i32 = 1;
/// `sizeof(struct ipmi_addr)`, and the longest message of the driver.
const IPMI_ADDRESS_BYTES: u32 = 40;
const IPMI_MESSAGE_BYTES: u16 = 272;

/// Sends a request to the controller behind the node and waits for the reply to it; other messages are dropped.
pub(super) fn ipmi(node: &File, netfn: u8, command: u8, data: &[u8]) -> io::Result<Vec<u8>> {
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
    unsafe { ipmi_send(node.as_raw_fd(), &raw mut request) }?;
    let sent = Instant::now();
    loop {
        let left = IPMI_LIMIT.saturating_sub(sent.elapsed());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        match poll(&mut [PollFd::new(node.as_fd(), PollFlags::POLLIN)], left) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no reply of the management controller")),
            Ok(_) => {
                if let Some(reply) = ipmi_receive(node.as_raw_fd(), id, netfn, command)? {
                    return Ok(reply);
                }
            }
        }
        if sent.elapsed() >= IPMI_LIMIT {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no reply of the management controller"));
        }
    }
}

/// One message, if it is the reply to that request.
fn ipmi_receive(node: RawFd, id: libc::c_long, netfn: u8, command: u8) -> io::Result<Option<Vec<u8>>> {
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
    match unsafe { ipmi_receive_truncated(node, &raw mut received) } {
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

// ethtool.

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GPERMADDR: u32 = 0x20;
const ETHTOOL_GPFLAGS: u32 = 0x27;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
const ETH_SS_PRIV_FLAGS: u32 = 2;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
const DRVINFO_BYTES: usize = 196;
const LINK_SETTINGS_BYTES: usize = 48;
const LINK_MODE_WORDS_AT: usize = 15;
/// No set of names is larger, and the kernel does not ask how many there is room for.
const MAX_NAMES: usize = 1024;
/// `MAX_ADDR_LEN`
const ADDRESS_BYTES: u32 = 32;

/// `struct ethtool_drvinfo`
pub(super) fn ethtool_driver(interface: &str) -> io::Result<Vec<u8>> {
    ethtool(interface, &[ETHTOOL_GDRVINFO], DRVINFO_BYTES)
}

pub(super) fn ethtool_feature_names(interface: &str) -> io::Result<Vec<u8>> {
    ethtool_names(interface, ETH_SS_FEATURES)
}

pub(super) fn ethtool_features(interface: &str) -> io::Result<Vec<u8>> {
    let blocks = name_count(interface, ETH_SS_FEATURES)?.div_ceil(32);
    let size = u32::try_from(blocks).unwrap_or(0);
    let reply = ethtool(interface, &[ETHTOOL_GFEATURES, size], 8 + blocks * 16)?;
    Ok(reply.get(8..).unwrap_or_default().to_vec())
}

pub(super) fn ethtool_private_flag_names(interface: &str) -> io::Result<Vec<u8>> {
    ethtool_names(interface, ETH_SS_PRIV_FLAGS)
}

pub(super) fn ethtool_private_flags(interface: &str) -> io::Result<Vec<u8>> {
    Ok(ethtool(interface, &[ETHTOOL_GPFLAGS], 8)?.split_off(4))
}

pub(super) fn ethtool_permanent_address(interface: &str) -> io::Result<Vec<u8>> {
    let reply = ethtool(interface, &[ETHTOOL_GPERMADDR, ADDRESS_BYTES], 8 + 32)?;
    let len = usize::try_from(u32_at(&reply, 4)).unwrap_or(0);
    Ok(reply.get(8..8 + len.min(32)).unwrap_or_default().to_vec())
}

/// `struct ethtool_link_settings` without its masks. The kernel first wants to hear how long they are.
pub(super) fn ethtool_link_settings(interface: &str) -> io::Result<Vec<u8>> {
    let reply = ethtool(interface, &[ETHTOOL_GLINKSETTINGS], LINK_SETTINGS_BYTES)?;
    let wanted = reply.get(LINK_MODE_WORDS_AT).map_or(0, |byte| byte.wrapping_neg());
    // Three masks of that many words.
    let mut request = vec![0; LINK_SETTINGS_BYTES + usize::from(wanted) * 12];
    request[..4].copy_from_slice(&ETHTOOL_GLINKSETTINGS.to_ne_bytes());
    request[LINK_MODE_WORDS_AT] = wanted;
    let mut reply = ethtool_raw(interface, request)?;
    reply.truncate(LINK_SETTINGS_BYTES);
    Ok(reply)
}

fn ethtool_names(interface: &str, set: u32) -> io::Result<Vec<u8>> {
    let count = name_count(interface, set)?;
    // The kernel writes as many as there are by then, so there is room for all that there can be.
    let reply = ethtool(interface, &[ETHTOOL_GSTRINGS, set], 12 + MAX_NAMES * ETH_GSTRING_LEN)?;
    let now = usize::try_from(u32_at(&reply, 8)).unwrap_or(0);
    Ok(reply.get(12..12 + now.min(count) * ETH_GSTRING_LEN).unwrap_or_default().to_vec())
}

/// How many names a set has; an error if the driver has no such set.
fn name_count(interface: &str, set: u32) -> io::Result<usize> {
    // The mask is a `u64`, which begins with the low word only where that is the machine's order.
    let [low, high] = if cfg!(target_endian = "little") { [1 << set, 0] } else { [0, 1 << set] };
    let reply = ethtool(interface, &[ETHTOOL_GSSET_INFO, 0, low, high], 16 + 4)?;
    if reply.get(8..16).is_none_or(|mask| mask.iter().all(|byte| *byte == 0)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    match usize::try_from(u32_at(&reply, 16)) {
        Ok(count) if count <= MAX_NAMES => Ok(count),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A request that begins with these words, in a buffer for an answer of so many bytes.
fn ethtool(interface: &str, words: &[u32], len: usize) -> io::Result<Vec<u8>> {
    let mut buffer: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    buffer.resize(len.max(buffer.len()), 0);
    ethtool_raw(interface, buffer)
}

fn ethtool_raw(interface: &str, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut name = [0; libc::IFNAMSIZ];
    let fits = !interface.is_empty() && interface.len() < name.len() && !interface.contains('\0');
    match name.get_mut(..interface.len()) {
        Some(start) if fits => start.copy_from_slice(interface.as_bytes()),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an interface's name")),
    }
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = InterfaceRequest { name, data: buffer.as_mut_ptr(), rest: [0; 16] };
    // SAFETY: the name ends with a zero, and every caller gives a buffer as long as the longest answer to its request.
    unsafe { siocethtool(socket.as_raw_fd(), &raw mut request) }?;
    Ok(buffer)
}

/// Has the work done by a process of its own, which gets one end of a pipe and ends after it. Gives the process and the other
/// end, which never makes its reader wait.
pub(super) fn apart(work: impl FnOnce(File)) -> io::Result<(Pid, OwnedFd)> {
    let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // SAFETY: this process may have other threads, so the child has whatever locks they held. Both C libraries hold their
    // allocators' over a fork; the work writes no log, and the child never returns from here.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok((child, ours)),
        ForkResult::Child => {
            close_all_but(theirs.as_raw_fd());
            // To unwind would be to go on as the parent.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| work(File::from(theirs))));
            // SAFETY: runs nothing of ours.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Leaves a child nothing of its parent but one descriptor: nobody who waits for the end of the parent's output shall wait
/// for the child's too, nor for another child's pipe.
fn close_all_but(kept: RawFd) {
    // SAFETY: the child is alone with its descriptors, and ends without using any other.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..3 {
            if standard != kept && (null < 0 || libc::dup2(null, standard) < 0) {
                libc::close(standard);
            }
        }
        let close_range = |first: RawFd, last: libc::c_uint| {
            let Ok(first) = libc::c_uint::try_from(first.max(3)) else { return };
            if first <= last && libc::syscall(libc::SYS_close_range, first, last, 0) < 0 {
                // Kernels before 5.9.
                for descriptor in first..=last.min(1023) {
                    libc::close(RawFd::try_from(descriptor).unwrap_or(-1));
                }
            }
        };
        close_range(3, libc::c_uint::try_from(kept.saturating_sub(1)).unwrap_or(0));
        close_range(kept.saturating_add(1), libc::c_uint::MAX);
    }
}

/// Columns of a terminal; `None` of what is none, and of one that does not know.
pub(crate) fn terminal_columns(terminal: BorrowedFd<'_>) -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel writes one `struct winsize`, which this is.
    unsafe { window_size(terminal.as_raw_fd(), &raw mut size) }.ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}
