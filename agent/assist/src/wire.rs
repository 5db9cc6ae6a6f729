//! Messages between a step and its assistant: one JSON text per packet, descriptors beside it.

use crate::program::Place;
use nix::{
    cmsg_space,
    errno::Errno,
    sys::socket::{ControlMessage, MsgFlags, recvmsg, sendmsg},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
};

/// Far more than any program's arguments here.
const MAX_BYTES: usize = 128 << 10;
/// Standard output and error; a name space and a root directory.
const MAX_DESCRIPTORS: usize = 2;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Request {
    Start(Start),
    /// How the program ended, if it has.
    Status(u32),
    SignalGroup(u32, i32),
    SignalTree(u32, i32),
    /// Whether any process that [`Request::SignalTree`] has signalled still runs.
    TreeRuns(u32),
    Forget(u32),
    Remount {
        path: PathBuf,
        flags: u64,
    },
    Private,
    Mount(Mount),
    Unmount(PathBuf),
    /// A loop device over a part of the disk whose descriptor comes with it.
    Loop {
        offset: u64,
        len: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    pub program: String,
    pub arguments: Vec<String>,
    /// Variables to set, and to remove.
    pub environment: Vec<(String, Option<String>)>,
    pub place: Place,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mount {
    pub device: PathBuf,
    pub at: PathBuf,
    pub kind: String,
    pub flags: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Reply {
    Done,
    Started(u32),
    /// As wait(2) has it.
    Status(Option<i32>),
    Runs(bool),
    /// Its descriptor comes with it.
    Loop(PathBuf),
    /// An errno.
    Failed(i32),
}

/// `None`: the other end is closed.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MAX_BYTES];
    let mut space = cmsg_space!([i32; MAX_DESCRIPTORS]);
    let (len, descriptors, flags) = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
            Ok(message) => break (message.bytes, kernel::socket::descriptors(&message)?, message.flags),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    if len == 0 && descriptors.is_empty() {
        return Ok(None);
    }
    if flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let value = serde_json::from_slice(bytes.get(..len).unwrap_or_default())?;
    Ok(Some((value, descriptors)))
}

pub(crate) fn send(socket: BorrowedFd, value: &impl Serialize, descriptors: &[BorrowedFd]) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    if bytes.len() > MAX_BYTES {
        return Err(Errno::E2BIG.into());
    }
    let raw: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let rights: &[_] = if raw.is_empty() { &[] } else { &rights };
    loop {
        match sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&bytes)], rights, MsgFlags::MSG_NOSIGNAL, None) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
