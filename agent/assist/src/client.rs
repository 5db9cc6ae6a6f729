//! The step's side, which is also what a process without an assistant uses.

use crate::{
    program::{Place, Running},
    server,
    wire::{self, Mount, Reply, Request, Start},
};
use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, setns, unshare},
    sys::signal::Signal,
    unistd::{chroot, fchdir},
};
use std::{
    cell::RefCell,
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

/// How often a program that must end is checked.
const LOOK: Duration = Duration::from_millis(20);

static ASSISTANT: OnceLock<Arc<Connection>> = OnceLock::new();
thread_local! {
    /// Of a thread that is inside of [`PrivateMounts`].
    static PRIVATE: RefCell<Option<Arc<Connection>>> = const { RefCell::new(None) };
}

/// To an assistant, which has one request at a time.
#[derive(Debug)]
pub(crate) struct Connection(Mutex<OwnedFd>);

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Arc<Self> {
        Arc::new(Self(Mutex::new(socket)))
    }

    /// The assistant of this thread; `None` where this process does everything itself.
    fn current() -> Option<Arc<Self>> {
        PRIVATE.with_borrow(Clone::clone).or_else(|| ASSISTANT.get().cloned())
    }

    fn ask(&self, request: &Request, descriptors: &[BorrowedFd]) -> io::Result<(Reply, Vec<OwnedFd>)> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(socket.as_fd(), request, descriptors)?;
        reply(socket.as_fd())
    }

    fn do_it(&self, request: &Request) -> io::Result<()> {
        self.ask(request, &[]).map(drop)
    }
}

fn reply(socket: BorrowedFd) -> io::Result<(Reply, Vec<OwnedFd>)> {
    match wire::receive(socket)? {
        Some((Reply::Failed(errno), _)) => Err(io::Error::from_raw_os_error(errno)),
        Some(reply) => Ok(reply),
        None => Err(io::Error::other("the step's assistant has ended")),
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the step's assistant gave an unexpected answer")
}

pub(crate) fn set(connection: Arc<Connection>) -> io::Result<()> {
    ASSISTANT.set(connection).map_err(|_| io::ErrorKind::AlreadyExists.into())
}

/// A started program. Dropping it neither ends it nor waits for it.
#[derive(Debug)]
pub struct Child(By);

#[derive(Debug)]
enum By {
    Us(Box<Running>),
    Assistant(u32, Arc<Connection>),
}

/// Starts a program without input, of which `command` gives name, arguments and variables, all of them UTF-8.
pub fn start(command: &Command, place: Place, outputs: [OwnedFd; 2]) -> io::Result<Child> {
    let text = |text: &OsStr| text.to_str().map(str::to_owned).ok_or(io::ErrorKind::InvalidInput);
    let start = Start {
        program: text(command.get_program())?,
        arguments: command.get_args().map(text).collect::<Result<_, _>>()?,
        environment: command
            .get_envs()
            .map(|(name, value)| Ok((text(name)?, value.map(text).transpose()?)))
            .collect::<Result<_, io::ErrorKind>>()?,
        place,
    };
    let Some(assistant) = Connection::current() else {
        return Ok(Child(By::Us(Box::new(Running::start(start, outputs)?))));
    };
    match assistant.ask(&Request::Start(start), &outputs.each_ref().map(AsFd::as_fd))? {
        (Reply::Started(id), _) => Ok(Child(By::Assistant(id, assistant))),
        _ => Err(unexpected()),
    }
}

impl Child {
    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.0 {
            By::Us(program) => program.status(),
            By::Assistant(id, assistant) => match assistant.ask(&Request::Status(*id), &[])? {
                (Reply::Status(status), _) => Ok(status.map(ExitStatus::from_raw)),
                _ => Err(unexpected()),
            },
        }
    }

    /// Signals its group, if it has its own, else itself.
    pub fn signal_group(&mut self, signal: Signal) -> io::Result<()> {
        match &mut self.0 {
            By::Us(program) => program.signal_group(signal),
            By::Assistant(id, assistant) => assistant.do_it(&Request::SignalGroup(*id, signal as i32)),
        }
    }

    /// Signals it and all it has started, also what earlier signals have made orphans.
    pub fn signal_tree(&mut self, signal: Signal) -> io::Result<()> {
        match &mut self.0 {
            By::Us(program) => program.signal_tree(signal),
            By::Assistant(id, assistant) => assistant.do_it(&Request::SignalTree(*id, signal as i32)),
        }
    }

    /// Sends SIGTERM to its group, or with `tree` to it and all that it started; after `grace` SIGKILL, and waits as long again.
    /// A process that is blocked by a device is not waited for.
    pub fn end(&mut self, tree: bool, grace: Duration) -> io::Result<()> {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if tree {
                self.signal_tree(signal)?
            } else {
                self.signal_group(signal)?
            }
            let start = Instant::now();
            while start.elapsed() < grace {
                let runs = if tree { self.tree_runs()? } else { self.try_wait()?.is_none() };
                if !runs {
                    return Ok(());
                }
                sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Whether any process that was signalled so still runs.
    pub fn tree_runs(&mut self) -> io::Result<bool> {
        match &mut self.0 {
            By::Us(program) => program.tree_runs(),
            By::Assistant(id, assistant) => match assistant.ask(&Request::TreeRuns(*id), &[])? {
                (Reply::Runs(runs), _) => Ok(runs),
                _ => Err(unexpected()),
            },
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let By::Assistant(id, assistant) = &self.0 {
            // An assistant that has ended has forgotten it.
            let _ = assistant.do_it(&Request::Forget(*id));
        }
    }
}

/// Mounts what is mounted at `path` with other flags.
pub fn remount(path: &Path, flags: MsFlags) -> io::Result<()> {
    match Connection::current() {
        Some(assistant) => assistant.do_it(&Request::Remount { path: path.to_owned(), flags: flags.bits() }),
        None => mount_again(path, flags),
    }
}

/// Binds a free loop device to a part of `disk`, offset and length in bytes; it unbinds itself when its last user closes it.
pub fn bind_loop(disk: &File, offset: u64, len: u64) -> io::Result<(PathBuf, File)> {
    let Some(assistant) = Connection::current() else { return kernel::disk::bind_loop(disk, offset, len) };
    match assistant.ask(&Request::Loop { offset, len }, &[disk.as_fd()])? {
        (Reply::Loop(path), descriptors) => {
            let [device] = <[_; 1]>::try_from(descriptors).map_err(|_| unexpected())?;
            Ok((path, device.into()))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) fn mount_again(path: &Path, flags: MsFlags) -> io::Result<()> {
    Ok(mount(None::<&str>, path, None::<&str>, flags | MsFlags::MS_REMOUNT, None::<&str>)?)
}

pub(crate) fn mount_device(device: &Path, at: &Path, kind: &str, flags: MsFlags) -> Result<(), Errno> {
    mount(Some(device), at, Some(kind), flags, None::<&str>)
}

/// Mounts that only the thread that made this sees, and the programs that it starts. They are gone when the thread has ended.
#[derive(Debug)]
pub struct PrivateMounts(Option<Arc<Connection>>);

impl PrivateMounts {
    /// Gives this thread its own mount name space. It must end afterwards.
    pub fn enter() -> io::Result<Self> {
        let Some(assistant) = Connection::current() else { return server::leave().map(|()| Self(None)) };
        let (_, sockets) = assistant.ask(&Request::Private, &[])?;
        let [socket] = <[_; 1]>::try_from(sockets).map_err(|_| unexpected())?;
        let (_, places) = reply(socket.as_fd())?;
        let [space, root] = <[_; 2]>::try_from(places).map_err(|_| unexpected())?;
        unshare(CloneFlags::CLONE_FS)?;
        setns(space, CloneFlags::CLONE_NEWNS)?;
        // That went to the root of the name space, past a chroot.
        fchdir(&root)?;
        chroot(".")?;
        let connection = Connection::new(socket);
        PRIVATE.set(Some(connection.clone()));
        Ok(Self(Some(connection)))
    }

    /// Mounts a file system of this kind.
    pub fn mount(&self, device: &Path, at: &Path, kind: &str, flags: MsFlags) -> Result<(), Errno> {
        let Some(assistant) = &self.0 else { return mount_device(device, at, kind, flags) };
        let (device, at) = (device.to_owned(), at.to_owned());
        errno(assistant.do_it(&Request::Mount(Mount { device, at, kind: kind.to_owned(), flags: flags.bits() })))
    }

    /// Unmounts it, once.
    pub fn unmount(&self, at: &Path) -> Result<(), Errno> {
        match &self.0 {
            Some(assistant) => errno(assistant.do_it(&Request::Unmount(at.to_owned()))),
            None => umount2(at, MntFlags::empty()),
        }
    }
}

fn errno(result: io::Result<()>) -> Result<(), Errno> {
    result.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}
