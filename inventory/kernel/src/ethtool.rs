//! Requests to a network card's driver (`SIOCETHTOOL`, linux/ethtool.h). Replies are the driver's bytes.
#![allow(unsafe_code)]

use crate::bytes::ne32;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::{io, os::fd::AsRawFd};

/// `struct ifreq` as `SIOCETHTOOL` takes it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u8,
    rest: [u8; 16],
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());

mod ioctl {
    nix::ioctl_readwrite_bad!(siocethtool, 0x8946, super::InterfaceRequest);
}

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
/// No set of names is larger, and the kernel does not ask for the size of the buffer.
const MAX_NAMES: usize = 1024;
/// `MAX_ADDR_LEN`
const ADDRESS_BYTES: u32 = 32;

/// `struct ethtool_drvinfo`
pub fn driver(interface: &str) -> io::Result<Vec<u8>> {
    request(interface, &[ETHTOOL_GDRVINFO], DRVINFO_BYTES)
}

/// `ETHTOOL_GSTRINGS` of features.
pub fn feature_names(interface: &str) -> io::Result<Vec<u8>> {
    names(interface, ETH_SS_FEATURES)
}

/// `struct ethtool_get_features_block` of all features.
pub fn features(interface: &str) -> io::Result<Vec<u8>> {
    let blocks = name_count(interface, ETH_SS_FEATURES)?.div_ceil(32);
    let size = u32::try_from(blocks).unwrap_or(0);
    let reply = request(interface, &[ETHTOOL_GFEATURES, size], 8 + blocks * 16)?;
    Ok(reply.get(8..).unwrap_or_default().to_vec())
}

/// `ETHTOOL_GSTRINGS` of the driver's own flags.
pub fn private_flag_names(interface: &str) -> io::Result<Vec<u8>> {
    names(interface, ETH_SS_PRIV_FLAGS)
}

/// The driver's own flags.
pub fn private_flags(interface: &str) -> io::Result<Vec<u8>> {
    Ok(request(interface, &[ETHTOOL_GPFLAGS], 8)?.split_off(4))
}

/// The hardware address that the card came with.
pub fn permanent_address(interface: &str) -> io::Result<Vec<u8>> {
    let reply = request(interface, &[ETHTOOL_GPERMADDR, ADDRESS_BYTES], 8 + 32)?;
    let len = usize::try_from(ne32(&reply, 4).unwrap_or(0)).unwrap_or(0);
    Ok(reply.get(8..8 + len.min(32)).unwrap_or_default().to_vec())
}

/// `struct ethtool_link_settings` without its masks. The kernel must first be given their length.
pub fn link_settings(interface: &str) -> io::Result<Vec<u8>> {
    let reply = request(interface, &[ETHTOOL_GLINKSETTINGS], LINK_SETTINGS_BYTES)?;
    let wanted = reply.get(LINK_MODE_WORDS_AT).map_or(0, |byte| byte.wrapping_neg());
    // Three masks of that many words.
    let mut request = vec![0; LINK_SETTINGS_BYTES + usize::from(wanted) * 12];
    request[..4].copy_from_slice(&ETHTOOL_GLINKSETTINGS.to_ne_bytes());
    request[LINK_MODE_WORDS_AT] = wanted;
    let mut reply = raw(interface, request)?;
    reply.truncate(LINK_SETTINGS_BYTES);
    Ok(reply)
}

fn names(interface: &str, set: u32) -> io::Result<Vec<u8>> {
    let count = name_count(interface, set)?;
    // The kernel writes as many as there are by then, so there is room for all that there can be.
    let reply = request(interface, &[ETHTOOL_GSTRINGS, set], 12 + MAX_NAMES * ETH_GSTRING_LEN)?;
    let now = usize::try_from(ne32(&reply, 8).unwrap_or(0)).unwrap_or(0);
    Ok(reply.get(12..12 + now.min(count) * ETH_GSTRING_LEN).unwrap_or_default().to_vec())
}

/// How many names a set has; an error if the driver has no such set.
fn name_count(interface: &str, set: u32) -> io::Result<usize> {
    // The mask is a `u64`, which begins with the low word only where that is the machine's order.
    let [low, high] = if cfg!(target_endian = "little") { [1 << set, 0] } else { [0, 1 << set] };
    let reply = request(interface, &[ETHTOOL_GSSET_INFO, 0, low, high], 16 + 4)?;
    if reply.get(8..16).is_none_or(|mask| mask.iter().all(|byte| *byte == 0)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    match usize::try_from(ne32(&reply, 16).unwrap_or(0)) {
        Ok(count) if count <= MAX_NAMES => Ok(count),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A request that begins with these words, in a buffer for an answer of so many bytes.
fn request(interface: &str, words: &[u32], len: usize) -> io::Result<Vec<u8>> {
    let mut buffer: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    buffer.resize(len.max(buffer.len()), 0);
    raw(interface, buffer)
}

fn raw(interface: &str, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut name = [0; libc::IFNAMSIZ];
    let fits = !interface.is_empty() && interface.len() < name.len() && !interface.contains('\0');
    match name.get_mut(..interface.len()) {
        Some(start) if fits => start.copy_from_slice(interface.as_bytes()),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an interface's name")),
    }
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = InterfaceRequest { name, data: buffer.as_mut_ptr(), rest: [0; 16] };
    // SAFETY: the name ends with a zero, and every caller gives a buffer as long as the longest answer to its request.
    unsafe { ioctl::siocethtool(socket.as_raw_fd(), &raw mut request) }?;
    Ok(buffer)
}
