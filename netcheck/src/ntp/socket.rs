//! A socket that chronyd answers to.

use nix::{
    fcntl::AT_FDCWD,
    sys::stat::{FchmodatFlags, Mode, fchmodat},
    unistd::{Uid, setfsuid},
};
use std::{
    fs, io,
    os::unix::{fs::MetadataExt, net::UnixDatagram},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

static SOCKETS: AtomicU32 = AtomicU32::new(0);

/// A datagram socket connected to chronyd's, with its own name beside it, where chronyd sends its replies. The name is
/// removed at the end.
///
/// Only chronyd's own user may enter that directory. The thread becomes this user as far as files go, and itself again at the
/// end: so the name can be removed by a thread that has lost all its capabilities, and none must be retained for it. To be
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
        name.let_everybody_write()?;
        socket.connect(server)?;
        Ok(Self { socket, _name: name, _user: user })
    }
}

#[derive(Debug)]
struct Name(PathBuf);

impl Name {
    /// chronyd may run as another user than the directory's owner; no other user can enter.
    ///
    /// A user who may write there could put a link in the socket's place: it is not followed.
    fn let_everybody_write(&self) -> io::Result<()> {
        let everybody = Mode::from_bits_truncate(0o666);
        Ok(fchmodat(AT_FDCWD, &self.0, everybody, FchmodatFlags::NoFollowSymlink)?)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "could not remove a socket");
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_link_in_the_sockets_place_opens_nothing_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let (secret, link) = (directory.path().join("secret"), directory.path().join("link"));
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&secret, &link).unwrap();
        let name = Name(link.clone());
        assert!(name.let_everybody_write().is_err());
        assert_eq!(mode(&secret), 0o600);
        drop(name);
        assert!(secret.exists() && link.symlink_metadata().is_err(), "only the link goes");
    }

    #[test]
    fn the_socket_is_open_to_chronyd_and_gone_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let server = directory.path().join("chronyd.sock");
        assert!(ClientSocket::connect(&server).is_err());
        let _chronyd = UnixDatagram::bind(&server).unwrap();
        let client = ClientSocket::connect(&server).unwrap();
        let ours = || {
            let paths = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
            paths.filter(|path| *path != server).map(|path| mode(&path)).collect::<Vec<_>>()
        };
        assert_eq!(ours(), [0o666], "and nothing is left of the failure");
        drop(client);
        assert_eq!(ours(), [0; 0]);
    }
}
