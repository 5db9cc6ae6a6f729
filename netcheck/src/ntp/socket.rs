//! A socket that chronyd answers to.

use nix::unistd::{Uid, setfsuid};
use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

static SOCKETS: AtomicU32 = AtomicU32::new(0);

/// A datagram socket connected to chronyd's, with a name of its own beside it, where chronyd sends its replies. The name is
/// removed at the end.
///
/// Only chronyd's own user may enter that directory. The thread becomes this user as far as files go, and itself again at the
/// end: so the name can be removed by a thread that has lost all its capabilities, and none need be kept for it. To be
/// dropped on the thread that made it.
#[derive(Debug)]
pub(super) struct ClientSocket {
    pub socket: UnixDatagram,
    // Dropped in this order: the name must go while the thread may still enter the directory.
    _name: Name,
    _user: FileUser,
}

impl ClientSocket {
    pub(super) fn connect(server: &Path) -> io::Result<Self> {
        let directory = server.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let user = FileUser::become_owner_of(directory)?;
        let number = SOCKETS.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("landfall.{}.{number}.sock", process::id()));
        // Left by a process that had our number before us and was killed.
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path)?;
        let name = Name(path);
        // chronyd may run as another user than the directory's owner; nobody else can enter.
        fs::set_permissions(&name.0, Permissions::from_mode(0o666))?;
        socket.connect(server)?;
        Ok(Self { socket, _name: name, _user: user })
    }
}

#[derive(Debug)]
struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a socket's name could not be removed");
        }
    }
}

/// Who this thread was for files before (setfsuid(2)).
#[derive(Debug)]
struct FileUser(Uid);

impl FileUser {
    /// Without `CAP_SETUID` nothing changes and nothing fails: then the thread's own rights decide.
    fn become_owner_of(directory: &Path) -> io::Result<Self> {
        let owner = fs::metadata(directory)?.uid();
        Ok(Self(setfsuid(Uid::from_raw(owner))))
    }
}

impl Drop for FileUser {
    fn drop(&mut self) {
        setfsuid(self.0);
    }
}
