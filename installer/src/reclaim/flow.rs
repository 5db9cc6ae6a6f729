//! The two steps: prepare the boot file system, and reboot.

use super::{Architecture, EntryError, Host, HostError, loader_entry, zipl_options};
use api::{
    BootArtifactsRequest,
    download::{Download, DownloadError, DownloadOptions},
    http::{HttpConfig, HttpConfigError},
};
use kernel::units::beside;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

const KERNEL: &str = "vmlinuz";
const INITRD: &str = "initrd";
const ENTRY: &str = "00-assisted-discovery.conf";
/// An initramfs with all its firmware has a few hundred megabytes.
const MAX_BYTES: u64 = 4 << 30;
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
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error(transparent)]
    Http(#[from] HttpConfigError),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Host(#[from] HostError),
    /// Not the root of a node.
    #[error("host_fs_mount_dir {} must be the absolute path of a directory that contains boot", path.display())]
    NoNode { path: PathBuf },
    #[error("cannot make the directory {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    /// Another user could change its contents.
    #[error(
        "{} belongs to user {uid} and has mode {mode:o}: downloads would not be safe there. Remove it, or choose another \
         directory with --scratch",
        path.display()
    )]
    Foreign { path: PathBuf, uid: u32, mode: u32 },
    #[error("cannot put {} in place", path.display())]
    Place { path: PathBuf, source: io::Error },
    /// Also after the rollback was removed.
    #[error("the boot file system at {} has {} free, but {} are needed", boot.display(), beside(*free_bytes, *needed_bytes), beside(*needed_bytes, *free_bytes))]
    NoSpace { boot: PathBuf, free_bytes: u64, needed_bytes: u64 },
}

/// Where things go, below the node's root.
#[derive(Debug)]
struct Places {
    boot: PathBuf,
    discovery: PathBuf,
    entries: PathBuf,
}

impl Places {
    fn new(node: &Path) -> Result<Self, ReclaimError> {
        let boot = node.join("boot");
        if !node.is_absolute() || !boot.is_dir() {
            return Err(ReclaimError::NoNode { path: node.to_owned() });
        }
        Ok(Self { discovery: boot.join("discovery"), entries: boot.join("loader/entries"), boot })
    }

    /// Kernel, initramfs and loader entry. The entry is the last: with it the others are booted.
    fn files(&self) -> [PathBuf; 3] {
        [self.discovery.join(KERNEL), self.discovery.join(INITRD), self.entries.join(ENTRY)]
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
    let places = Places::new(&request.host_fs_mount_dir)?;
    let entry = loader_entry(&request.rootfs_url, architecture)?;
    let [kernel, initrd, entry_path] = places.files();
    if [&kernel, &initrd, &entry_path].iter().all(|target| target.is_file()) {
        tracing::info!(boot = %places.boot.display(), "everything is already in place");
        return Ok(());
    }
    patiently(pace.retry, "prepare the boot file system", || prepare(&places, host))?;
    private_directory(scratch)?;
    let agent = api::http::agent(http)?;
    let mut downloads = Vec::new();
    for (url, target) in [(&request.kernel_url, kernel), (&request.initrd_url, initrd)] {
        // Without a name no other process can replace it, and it goes with this process.
        let file = tempfile::tempfile_in(scratch)
            .map_err(|source| ReclaimError::Directory { path: scratch.to_owned(), source })?;
        let options = DownloadOptions { attempt: Some(pace.attempt), ..DownloadOptions::new(MAX_BYTES) };
        let mut download = Download::new(agent.clone(), url, file, options);
        let (bytes, _) = patiently(pace.retry, "download", || download.attempt(&mut |_| Ok(())))?;
        tracing::info!(url = api::http::public_url(url), bytes, "downloaded");
        downloads.push((download.into_file(), bytes, target));
    }
    let bytes: u64 = downloads.iter().map(|(_, bytes, _)| bytes).sum();
    make_room(&places, host, bytes.saturating_add(u64::try_from(entry.len()).unwrap_or(u64::MAX)))?;
    for (mut file, _, target) in downloads {
        let placed = file.rewind().and_then(|()| place(&mut file, &target));
        placed.map_err(|source| ReclaimError::Place { path: target, source })?;
    }
    place(&mut entry.as_bytes(), &entry_path).map_err(|source| ReclaimError::Place { path: entry_path, source })
}

/// Reboots the node, on s390x with a boot record of the discovery kernel.
pub fn reboot(node: &Path, host: &dyn Host, architecture: Architecture) -> Result<(), ReclaimError> {
    if architecture == Architecture::S390x {
        let path = Places::new(node)?.entries.join(ENTRY);
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
    for path in [&places.discovery, &places.entries] {
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
        made.map_err(|source| ReclaimError::Directory { path: path.clone(), source })?;
    }
    Ok(())
}

/// Makes a directory that no other user can access. An existing one must be this user's.
fn private_directory(path: &Path) -> Result<(), ReclaimError> {
    let failed = |source| ReclaimError::Directory { path: path.to_owned(), source };
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    if let Some(parent) = parent {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(failed)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made.map_err(failed),
    }
    let found = fs::symlink_metadata(path).map_err(failed)?;
    let (uid, mode) = (found.uid(), found.mode() & 0o7777);
    if !found.is_dir() || uid != nix::unistd::geteuid().as_raw() || mode & 0o077 != 0 {
        return Err(ReclaimError::Foreign { path: path.to_owned(), uid, mode });
    }
    Ok(())
}

/// Ensures more space than the files need.
fn make_room(places: &Places, host: &dyn Host, needed_bytes: u64) -> Result<(), ReclaimError> {
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

/// Copies aside and renames: under its name is all of it or nothing, also after a power failure.
fn place(from: &mut impl Read, to: &Path) -> io::Result<()> {
    let draft = to.with_extension("part");
    let mut copy = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&draft)?;
        io::copy(from, &mut file)?;
        file.sync_all()?;
        fs::rename(&draft, to)?;
        to.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    };
    copy().inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}
