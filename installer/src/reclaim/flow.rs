//! The two steps: prepare the boot file system, and reboot.

use super::{Architecture, Download, DownloadError, EntryError, Host, HostError, loader_entry, zipl_options};
use api::{BootArtifactsRequest, http::HttpConfig};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

const KERNEL: &str = "vmlinuz";
const INITRD: &str = "initrd";
const ENTRY: &str = "00-assisted-discovery.conf";
/// Of each part.
const ATTEMPTS: u32 = 5;

/// How long things take; tests make it short.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between attempts.
    pub retry: Duration,
    /// One attempt of one file.
    pub attempt: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { retry: Duration::from_secs(60), attempt: Duration::from_secs(600) }
    }
}

/// Why the host isn't reclaimed.
#[derive(Debug, thiserror::Error)]
pub enum ReclaimError {
    /// A file.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// The loader entry.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The node.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Not the root of a node.
    #[error("host_fs_mount_dir {} must be an absolute path of a directory with boot in it", path.display())]
    NoNode {
        /// As given.
        path: PathBuf,
    },
    /// A directory.
    #[error("cannot make the directory {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A copy.
    #[error("cannot put {} in its place", path.display())]
    Place {
        /// Which.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Also after the rollback was removed.
    #[error("the boot file system at {} has {free_bytes} bytes left, and {needed_bytes} are needed", boot.display())]
    NoSpace {
        /// Its mount point.
        boot: PathBuf,
        /// Left.
        free_bytes: u64,
        /// Needed.
        needed_bytes: u64,
    },
}

/// Where things go, all below the node's root but the first.
#[derive(Debug)]
struct Places {
    scratch: PathBuf,
    boot: PathBuf,
    discovery: PathBuf,
    entries: PathBuf,
}

impl Places {
    fn new(node: &Path, scratch: &Path) -> Result<Self, ReclaimError> {
        let boot = node.join("boot");
        if !node.is_absolute() || !boot.is_dir() {
            return Err(ReclaimError::NoNode { path: node.to_owned() });
        }
        Ok(Self {
            scratch: scratch.to_owned(),
            discovery: boot.join("discovery"),
            entries: boot.join("loader/entries"),
            boot,
        })
    }

    /// Each file, from where it is put together to where it goes. The entry is the last: with it the others are booted.
    fn files(&self) -> [(PathBuf, PathBuf); 3] {
        let file = |name, directory: &Path| (self.scratch.join(name), directory.join(name));
        [file(KERNEL, &self.discovery), file(INITRD, &self.discovery), file(ENTRY, &self.entries)]
    }
}

/// Makes the node boot into discovery the next time. Done already is done.
pub fn download(
    request: &BootArtifactsRequest,
    http: &HttpConfig,
    host: &dyn Host,
    architecture: Architecture,
    scratch: &Path,
    pace: Pace,
) -> Result<(), ReclaimError> {
    let places = Places::new(&request.host_fs_mount_dir, scratch)?;
    let entry = loader_entry(&request.rootfs_url, architecture)?;
    let files = places.files();
    if files.iter().all(|(_, target)| target.is_file()) {
        tracing::info!(boot = %places.boot.display(), "everything is there already");
        return Ok(());
    }
    patiently(pace.retry, "prepare the boot file system", || prepare(&places, host))?;
    let [(kernel, _), (initrd, _), (entry_path, _)] = &files;
    for (url, path) in [(&request.kernel_url, kernel), (&request.initrd_url, initrd)] {
        let mut download = Download::new(http, url, path, pace.attempt)?;
        let bytes = patiently(pace.retry, "download", || download.attempt())?;
        tracing::info!(url = api::http::public_url(url), bytes, "downloaded");
    }
    write_new(entry_path, &entry).map_err(|source| ReclaimError::Place { path: entry_path.clone(), source })?;
    make_room(&places, host, &files)?;
    for (from, to) in &files {
        place(from, to).map_err(|source| ReclaimError::Place { path: to.clone(), source })?;
    }
    // Nobody needs them any more, and their memory may be the node's.
    for (from, _) in &files {
        let _ = fs::remove_file(from);
    }
    Ok(())
}

/// Reboots the node, on s390x with a boot record of the discovery kernel.
pub fn reboot(node: &Path, host: &dyn Host, architecture: Architecture) -> Result<(), ReclaimError> {
    if architecture == Architecture::S390x {
        let path = Places::new(node, Path::new("/"))?.entries.join(ENTRY);
        let entry = fs::read_to_string(&path).map_err(|source| ReclaimError::Place { path, source })?;
        host.write_boot_record(&zipl_options(&entry, &host.command_line()?)?)?;
    }
    Ok(host.reboot()?)
}

/// Tries again what may pass.
fn patiently<T, E: std::error::Error + 'static>(
    retry: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut tries = 1;
    loop {
        match attempt() {
            Err(error) if tries < ATTEMPTS => {
                let cause = &error as &dyn std::error::Error;
                tracing::warn!(error = cause, tries, retry_in_s = retry.as_secs(), "cannot {what}, trying again");
                thread::sleep(retry);
                tries += 1;
            }
            result => return result,
        }
    }
}

fn prepare(places: &Places, host: &dyn Host) -> Result<(), ReclaimError> {
    host.make_writable(&places.boot)?;
    for path in [&places.discovery, &places.entries, &places.scratch] {
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
        made.map_err(|source| ReclaimError::Directory { path: path.clone(), source })?;
    }
    Ok(())
}

/// Sees to it that there is more space than the files need.
fn make_room(places: &Places, host: &dyn Host, files: &[(PathBuf, PathBuf)]) -> Result<(), ReclaimError> {
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let needed_bytes = files.iter().map(|(from, _)| size(from)).sum();
    if host.free_bytes(&places.boot)? > needed_bytes {
        return Ok(());
    }
    tracing::warn!(needed_bytes, "too little space on the boot file system: removing the rollback deployment");
    host.remove_rollback()?;
    match host.free_bytes(&places.boot)? {
        free_bytes if free_bytes > needed_bytes => Ok(()),
        free_bytes => Err(ReclaimError::NoSpace { boot: places.boot.clone(), free_bytes, needed_bytes }),
    }
}

/// Never through a link: the directory may be one that others can write to.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new();
    file.write(true).create(true).truncate(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
    file.open(path)?.write_all(text.as_bytes())
}

/// Copies aside and renames: under its name is all of it or nothing, also after a power failure.
fn place(from: &Path, to: &Path) -> io::Result<()> {
    let draft = to.with_extension("part");
    let copy = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&draft)?;
        io::copy(&mut File::open(from)?, &mut file)?;
        file.sync_all()?;
        fs::rename(&draft, to)?;
        to.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    };
    copy().inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}
