//! The assistant itself: one thread that does one request after the other.

use crate::{
    client::{self, Connection},
    program::Running,
    table::Table,
    wire::{self, Mount, Reply, Request, Start},
};
use kernel::DevNumber;
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::{
        signal::Signal,
        socket::{AddressFamily, SockFlag, SockType, socketpair},
        stat::Mode,
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            fs::{FileTypeExt, MetadataExt},
            process::ExitStatusExt,
        },
    },
    path::{Path, PathBuf},
};

/// Programs at a time, including those whose end was not queried.
const MAX_RUNNING: usize = 64;
/// Name spaces at a time.
const MAX_PRIVATE: usize = 4;

/// Forks an assistant that does what `table` allows. From now on this process starts programs and mounts through it. It ends with
/// this process.
///
/// To be called while this process has one thread, and before it confines itself.
pub fn fork(table: Table) -> io::Result<()> {
    let (ours, theirs) = pair()?;
    match kernel::fork::fork()? {
        None => {
            drop(ours);
            serve_to_the_end(&theirs, &table, false)
        }
        Some(_) => client::set(Connection::new(ours)),
    }
}

pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

fn serve_to_the_end(socket: &OwnedFd, table: &Table, private: bool) -> ! {
    // The step acts on signals for the group: it may need its assistant until its end.
    kernel::fork::outlive_signals();
    if let Err(error) = Server::new(table, private).serve(socket.as_fd()) {
        tracing::warn!(%error, "the step's assistant ends early");
    }
    kernel::fork::exit()
}

pub(crate) struct Server<'a> {
    table: &'a Table,
    /// Whether this one has its own mount name space.
    private: bool,
    running: BTreeMap<u32, Running>,
    last: u32,
    /// Forgotten while they ran.
    detached: Vec<Running>,
    privates: Vec<Pid>,
    mounted: Vec<PathBuf>,
}

impl<'a> Server<'a> {
    pub(crate) fn new(table: &'a Table, private: bool) -> Self {
        Self {
            table,
            private,
            running: BTreeMap::new(),
            last: 0,
            detached: Vec::new(),
            privates: Vec::new(),
            mounted: Vec::new(),
        }
    }

    pub(crate) fn serve(&mut self, socket: BorrowedFd) -> io::Result<()> {
        while let Some((request, descriptors)) = wire::receive(socket)? {
            self.reap();
            let (reply, descriptor) = match self.act(request, descriptors) {
                Ok(answer) => answer,
                Err(error) => (Reply::Failed(error.raw_os_error().unwrap_or(libc::EIO)), None),
            };
            let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
            wire::send(socket, &reply, &descriptors)?;
        }
        Ok(())
    }

    fn reap(&mut self) {
        self.detached.retain_mut(|program| matches!(program.status(), Ok(None)));
        let ended = |private: &Pid| waitpid(*private, Some(WaitPidFlag::WNOHANG)).is_ok_and(|how| how.pid().is_none());
        self.privates.retain(ended);
    }

    fn act(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> io::Result<(Reply, Option<OwnedFd>)> {
        let reply = match request {
            Request::Start(start) => self.start(start, descriptors)?,
            Request::Status(id) => Reply::Status(self.program(id)?.status()?.map(ExitStatusExt::into_raw)),
            Request::SignalGroup(id, signal) => done(self.program(id)?.signal_group(ending(signal)?))?,
            Request::SignalTree(id, signal) => done(self.program(id)?.signal_tree(ending(signal)?))?,
            Request::TreeRuns(id) => Reply::Runs(self.program(id)?.tree_runs()?),
            Request::Forget(id) => {
                self.detached.extend(self.running.remove(&id));
                Reply::Done
            }
            Request::Remount { path, flags } => {
                if !self.table.allows_remount(&path, flags) {
                    return Err(refused(&format_args!("make {} writable", path.display())));
                }
                let flags = MsFlags::from_bits(flags).unwrap_or(MsFlags::MS_REMOUNT);
                done(client::mount_again(&path, flags))?
            }
            Request::Private => return self.private().map(|socket| (Reply::Done, Some(socket))),
            Request::Mount(mount) => self.mount(mount)?,
            Request::Unmount(at) => {
                if !self.mounted.contains(&at) {
                    return Err(refused(&format_args!("unmount {}", at.display())));
                }
                umount2(&at, MntFlags::empty())?;
                self.mounted.retain(|other| *other != at);
                Reply::Done
            }
            Request::Loop { offset, len } => return self.bind_loop(descriptors, offset, len),
        };
        Ok((reply, None))
    }

    fn program(&mut self, id: u32) -> io::Result<&mut Running> {
        self.running.get_mut(&id).ok_or_else(|| Errno::ESRCH.into())
    }

    fn start(&mut self, start: Start, descriptors: Vec<OwnedFd>) -> io::Result<Reply> {
        if !self.table.allows_start(&start) {
            return Err(refused(&format_args!("start {} with {:?}", start.program, start.arguments)));
        }
        let outputs = descriptors.try_into().map_err(|_| Errno::EBADF)?;
        if self.running.len() + self.detached.len() >= MAX_RUNNING {
            return Err(Errno::EAGAIN.into());
        }
        let program = Running::start(start, outputs)?;
        self.last = self.last.checked_add(1).ok_or(Errno::EOVERFLOW)?;
        self.running.insert(self.last, program);
        Ok(Reply::Started(self.last))
    }

    /// An assistant in its own mount name space, whose mounts no other process sees. It first reports that it has started.
    fn private(&mut self) -> io::Result<OwnedFd> {
        if self.private || !self.table.has_private_mounts() {
            return Err(refused(&"create a mount name space"));
        }
        if self.privates.len() >= MAX_PRIVATE {
            return Err(Errno::EAGAIN.into());
        }
        let (ours, theirs) = pair()?;
        match kernel::fork::fork()? {
            None => {
                drop(ours);
                let entered = leave().and_then(|()| Ok((File::open("/proc/self/ns/mnt")?, root()?)));
                let sent = match &entered {
                    Ok((space, root)) => wire::send(theirs.as_fd(), &Reply::Done, &[space.as_fd(), root.as_fd()]),
                    Err(error) => {
                        wire::send(theirs.as_fd(), &Reply::Failed(error.raw_os_error().unwrap_or(libc::EIO)), &[])
                    }
                };
                if entered.is_err() || sent.is_err() {
                    kernel::fork::exit()
                }
                serve_to_the_end(&theirs, self.table, true)
            }
            Some(pid) => {
                self.privates.push(pid);
                Ok(ours)
            }
        }
    }

    fn bind_loop(&self, descriptors: Vec<OwnedFd>, offset: u64, len: u64) -> io::Result<(Reply, Option<OwnedFd>)> {
        let [disk] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| Errno::EBADF)?;
        let disk = File::from(disk);
        let found = disk.metadata()?;
        let number = found.file_type().is_block_device().then(|| DevNumber::from_raw(found.rdev()));
        if number.is_none() || !self.table.disks.iter().any(|allowed| DevNumber::of_block_device(allowed) == number) {
            return Err(refused(&"bind a loop device to another disk"));
        }
        let (path, device) = kernel::disk::bind_loop(&disk, offset, len)?;
        Ok((Reply::Loop(path), Some(device.into())))
    }

    fn mount(&mut self, mount: Mount) -> io::Result<Reply> {
        if !self.private || !self.table.allows_mount(&mount, is_of_disk) {
            return Err(refused(&format_args!("mount {} at {}", mount.device.display(), mount.at.display())));
        }
        let flags = MsFlags::from_bits(mount.flags).unwrap_or(MsFlags::empty());
        client::mount_device(&mount.device, &mount.at, &mount.kind, flags)?;
        self.mounted.push(mount.at);
        Ok(Reply::Done)
    }
}

/// Leaves the shared mounts.
pub(crate) fn leave() -> io::Result<()> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
    Ok(mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?)
}

/// This process's root directory, which need not be the name space's.
fn root() -> io::Result<OwnedFd> {
    Ok(open("/", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?)
}

fn done(result: io::Result<()>) -> io::Result<Reply> {
    result.map(|()| Reply::Done)
}

/// A step ends programs, and sends no other signals.
fn ending(signal: i32) -> io::Result<Signal> {
    let signal = Signal::try_from(signal)?;
    if [Signal::SIGTERM, Signal::SIGKILL].contains(&signal) { Ok(signal) } else { Err(Errno::EINVAL.into()) }
}

fn refused(what: &dyn std::fmt::Display) -> io::Error {
    tracing::warn!("refused: the step's assistant was asked to {what}, which is not in its table");
    Errno::EPERM.into()
}

/// Whether the block device is a part of one of the disks: a partition, a map of one, or a loop device over a part of it.
fn is_of_disk(path: &Path, disks: &[PathBuf]) -> bool {
    let Some(device) = DevNumber::of_block_device(path) else { return false };
    let disks: Vec<_> = disks.iter().filter_map(|disk| DevNumber::of_block_device(disk)).collect();
    let Ok(about) = fs::canonicalize(format!("/sys/dev/block/{device}")) else { return false };
    let read = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned());
    let number_in = |about: &Path| DevNumber::parse(&read(&about.join("dev"))?);
    let is_disk = |about: &Path| number_in(about).is_some_and(|number| disks.contains(&number));
    let is_partition = about.join("partition").exists() && about.parent().is_some_and(is_disk);
    // Not by sysfs, where a path of another mount table may stand.
    let backing = File::open(path).and_then(|device| kernel::disk::loop_backing(&device));
    let is_loop = backing.is_ok_and(|number| number.is_some_and(|number| disks.contains(&number)));
    let slaves = fs::read_dir(about.join("slaves")).into_iter().flatten().flatten();
    is_partition || is_loop || slaves.map(|slave| slave.path()).any(|slave| is_disk(&slave))
}
