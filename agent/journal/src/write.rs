//! Records for journald, in its native protocol (systemd's `docs/JOURNAL_NATIVE_PROTOCOL.md`).

use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::{
        memfd::{MFdFlags, memfd_create},
        socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg},
    },
};
use std::{
    fs::File,
    io::{self, Write},
    os::{fd::AsRawFd, linux::fs::MetadataExt, unix::net::UnixDatagram},
    path::{Path, PathBuf},
    time::Duration,
};

/// Where journald listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";
/// A journald that accepts nothing for this long misses the record: logging must not block.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Sender {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Sender {
    /// For a journald that listens at `path`; an error where there is none.
    pub fn new(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        // By path each time: it may be another journald's by then.
        let probe = UnixDatagram::unbound()?;
        probe.connect(path)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    /// Sends a record. One too large for a datagram goes as a sealed file in memory.
    pub fn send(&self, fields: &[(&str, &[u8])]) -> io::Result<()> {
        let record = encode(fields);
        match self.socket.send_to(&record, &self.path) {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::ENOBUFS)) => {
                self.send_in_memory(&record)
            }
            Err(error) => Err(error),
        }
    }

    fn send_in_memory(&self, record: &[u8]) -> io::Result<()> {
        let flags = MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC;
        let mut file = File::from(memfd_create(c"journal record", flags)?);
        file.write_all(record)?;
        // journald maps only what can't change under it.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let descriptors = [file.as_raw_fd()];
        let address = UnixAddr::new(&self.path)?;
        let message = [ControlMessage::ScmRights(&descriptors)];
        sendmsg(self.socket.as_raw_fd(), &[], &message, MsgFlags::empty(), Some(&address))?;
        Ok(())
    }
}

/// `NAME=value` where the value is a line, else the name, the length and the value.
fn encode(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut record = Vec::new();
    for (name, value) in fields {
        record.extend(name.bytes());
        if value.contains(&b'\n') {
            record.push(b'\n');
            record.extend(u64::try_from(value.len()).unwrap_or(0).to_le_bytes());
        } else {
            record.push(b'=');
        }
        record.extend(*value);
        record.push(b'\n');
    }
    record
}

/// Whether what we write to standard error goes to the journal anyhow: systemd names that stream in `JOURNAL_STREAM`
/// (systemd.exec(5)), for the children of a service too, whose standard error may be something else.
pub fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stderr) = std::fs::metadata("/proc/self/fd/2") else { return false };
    stream == format!("{}:{}", stderr.st_dev(), stderr.st_ino())
}
