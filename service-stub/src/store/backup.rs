//! Backups: a snapshot of all records as stored, encrypted, with the keys, manifests, install-time files and runs of
//! certifications beside them.
//!
//! A backup is a line with its version, frames (a letter, a name and its content, each with its length), and finally the SHA-256
//! of all before: a truncated or changed backup is refused as a whole. It holds secrets, as the state directory does. A running
//! service writes it to a Unix socket in its state directory, from one read transaction.

use super::error::StoreError;
use super::file::DatabaseFile;
use super::key::{Row, RowKey, walk};
use super::layout::FILE;
use super::open::{Health, inspect};
use super::{Store, salvage, seal, seal::Seal};
use crate::auth::keys::{self, write_new};
use crate::certify;
use crate::cluster_files::prepared;
use crate::manifest_files;
use crate::model::{ClusterRecord, Event, HostRecord, InfraEnvRecord};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use redb::ReadTransaction;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, DirBuilder, File},
    io::{self, BufReader, BufWriter, Read, Write},
    os::fd::AsRawFd,
    os::unix::{
        fs::DirBuilderExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

const MAGIC: &[u8] = b"landfall backup 1\n";
/// The socket's name in the state directory.
const SOCKET: &str = "backup.sock";
const ROW: u8 = b'R';
const OTHER_FILE: u8 = b'F';
const END: u8 = b'E';
/// Names are keys and short paths.
const MAX_NAME_BYTES: u32 = 1024;
/// A longer record is not one of ours.
const MAX_CONTENT_BYTES: u32 = 256 << 20;
/// A client that reads nothing for this long is disconnected: while it is connected, no page of the store can be reused.
const STALL: Duration = Duration::from_secs(60);
/// How often to retry a store that a starting service holds.
const STARTING_TRIES: u32 = 50;
const STARTING_PAUSE: Duration = Duration::from_millis(100);
/// Files beside the store.
const FILES: [&str; 6] = [seal::FILE, keys::FILE, "tls-ca.pem", "tls-ca-key.pem", "tls-cert.pem", "tls-key.pem"];
/// No file beside the store is larger. A backup has one of them in memory at a time.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Reading or writing a file failed.
    #[error("{}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The file is not a backup, or not a complete one.
    #[error("not a complete backup: {0}")]
    Damaged(String),
    /// A store exists already.
    #[error("{} already exists: choose another --state-dir, or give --replace, which renames the old one", .0.display())]
    Occupied(PathBuf),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::File { path, source }
}

/// The content of a backup, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clusters, infra-envs and hosts.
    pub records: u64,
    pub events: u64,
    /// Keys, certificates, manifests, and runs of certifications with what their hosts sent.
    pub files: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} records, {} events, {} files", self.records, self.events, self.files)
    }
}

/// Hashes all it passes on.
struct Hashed<T> {
    inner: T,
    hash: Sha256,
}

impl<W: Write> Hashed<W> {
    fn frame(&mut self, kind: u8, name: &[u8], content: &[u8]) -> io::Result<()> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput);
        self.put(&[kind])?;
        self.put(&length(name)?.to_le_bytes())?;
        self.put(name)?;
        self.put(&length(content)?.to_le_bytes())?;
        self.put(content)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.inner.write_all(bytes)
    }
}

impl<R: Read> Hashed<R> {
    fn take(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.hash.update(&*bytes);
        Ok(())
    }

    fn text(&mut self, most: u32) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.take(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > most {
            return Err(io::Error::other("a length is impossible"));
        }
        // Allocates no more than is read.
        let mut bytes = Vec::new();
        (&mut self.inner).take(length.into()).read_to_end(&mut bytes)?;
        if u32::try_from(bytes.len()) != Ok(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.hash.update(&bytes);
        Ok(bytes)
    }
}

/// A part of a backup.
enum Frame {
    Row(RowKey, Vec<u8>),
    File(String, Vec<u8>),
}

/// Reads a backup to its end, and only then reports whether it is complete.
fn read(input: impl Read, each: &mut dyn FnMut(Frame) -> Result<(), BackupError>) -> Result<(), BackupError> {
    let damaged = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => BackupError::Damaged("it is truncated".into()),
        _ => BackupError::Damaged(error.to_string()),
    };
    let mut input = Hashed { inner: BufReader::new(input), hash: Sha256::new() };
    let mut magic = vec![0; MAGIC.len()];
    input.take(&mut magic).map_err(damaged)?;
    if magic != MAGIC {
        return Err(BackupError::Damaged("its first line is not a backup's".into()));
    }
    loop {
        let digest = input.hash.clone().finalize();
        let mut kind = [0];
        input.take(&mut kind).map_err(damaged)?;
        let name = input.text(MAX_NAME_BYTES).map_err(damaged)?;
        let content = input.text(MAX_CONTENT_BYTES).map_err(damaged)?;
        let strange = || BackupError::Damaged("a name is impossible".into());
        match kind[0] {
            ROW => each(Frame::Row(RowKey::from_bytes(&name).ok_or_else(strange)?, content))?,
            OTHER_FILE => {
                let name = String::from_utf8(name).ok().filter(|name| is_file(name)).ok_or_else(strange)?;
                each(Frame::File(name, content))?;
            }
            END if content == digest.as_slice() => return Ok(()),
            _ => return Err(BackupError::Damaged("its checksum is wrong: it was changed or damaged".into())),
        }
    }
}

/// Whether it is one of our files: a key, or a manifest or an install-time file in its place.
fn is_file(name: &str) -> bool {
    let manifest = |name: &str| {
        let (cluster, rest) = name.strip_prefix("manifests/")?.split_once('/')?;
        uuid::Uuid::parse_str(cluster).ok()?;
        let users = || rest.split_once('/').and_then(|(folder, file)| manifest_files::Name::parse(folder, file));
        Some(rest == manifest_files::GENERATED || users().is_some())
    };
    FILES.contains(&name) || manifest(name) == Some(true) || prepared::is_file(name) || certify::is_file(name)
}

/// The content of a file of the state directory; none if there is no such file.
fn content(directory: &Path, name: &str) -> Result<Option<Vec<u8>>, BackupError> {
    let path = directory.join(name);
    let mut content = Vec::new();
    match File::open(&path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => drop(read.map_err(file_error(&path))?),
    }
    if u64::try_from(content.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
        let large = format!("it is larger than {MAX_FILE_BYTES} bytes, which no file of the service is: move it away");
        return Err(file_error(&path)(io::Error::other(large)));
    }
    Ok(Some(content))
}

/// Writes a backup of a state directory from one read transaction of its store.
fn write(directory: &Path, transaction: &ReadTransaction, output: impl Write) -> Result<Counts, BackupError> {
    let mut counts = Counts::default();
    let mut output = Hashed { inner: BufWriter::new(output), hash: Sha256::new() };
    let written = |error: io::Error| BackupError::File { path: "the backup".into(), source: error };
    output.put(MAGIC).map_err(written)?;
    let mut names: Vec<String> = FILES.iter().map(|name| (*name).to_owned()).collect();
    let clusters = match fs::read_dir(directory.join("manifests")) {
        Ok(entries) => entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect(),
        Err(_) => Vec::new(),
    };
    for cluster in clusters {
        let manifests = manifest_files::list(directory, cluster).map_err(file_error(directory))?;
        names.extend(manifests.iter().map(|name| format!("manifests/{cluster}/{}", name.path_text())));
        names.push(format!("manifests/{cluster}/{}", manifest_files::GENERATED));
    }
    names.extend(prepared::list(directory));
    let mut put = |name: &str, content: &[u8]| {
        counts.files += 1;
        output.frame(OTHER_FILE, name.as_bytes(), content).map_err(written)
    };
    for name in names {
        if let Some(content) = content(directory, &name)? {
            put(&name, &content)?;
        }
    }
    for record in certify::records(directory) {
        // It names documents that were there before it.
        let Some(run) = content(directory, &record)? else { continue };
        for document in certify::documents(directory, &record) {
            if let Some(content) = content(directory, &document)? {
                put(&document, &content)?;
            }
        }
        // One that was removed meanwhile has lost documents.
        if directory.join(&record).exists() {
            put(&record, &run)?;
        }
    }
    let mut failed = None;
    walk(
        transaction,
        &mut |key, value| {
            match key {
                RowKey::Event(_) => counts.events += 1,
                _ => counts.records += 1,
            }
            output.frame(ROW, &key.to_bytes(), value).map_err(|error| {
                failed = Some(error);
                StoreError::Order(key.kind())
            })
        },
        &mut |_, error| Err(error),
    )
    .map_err(|error| failed.map_or(BackupError::Store(error), written))?;
    let digest = output.hash.clone().finalize();
    output.frame(END, b"", &digest).and_then(|()| output.inner.flush()).map_err(written)?;
    Ok(counts)
}

impl Store {
    /// Writes a snapshot; changes continue meanwhile.
    pub fn back_up(&self, output: impl Write) -> Result<Counts, BackupError> {
        let transaction = self.file.begin_read()?;
        write(&self.directory, &transaction, output)
    }
}

/// The socket's address, by the open directory: a path may be too long for an address.
fn socket(directory: &Path) -> io::Result<(File, PathBuf)> {
    let open = File::open(directory)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", open.as_raw_fd());
    Ok((open, path.into()))
}

/// Listens for requests for backups.
pub fn listen(directory: &Path) -> io::Result<UnixListener> {
    let (_open, path) = socket(directory)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Sends a backup to a client that is root or our own user.
pub fn serve(store: &Store, stream: UnixStream) {
    let is_ours = getsockopt(&stream, PeerCredentials)
        .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == nix::unistd::geteuid().as_raw());
    let ready = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(STALL)));
    if !is_ours || ready.is_err() {
        return;
    }
    match store.back_up(&stream) {
        Ok(counts) => tracing::info!(%counts, "backup written"),
        Err(error) => tracing::error!(?error, "backup failed"),
    }
}

/// Writes a backup to `output`: from the running service, or from its store.
fn fetch(directory: &Path, mut output: impl Write) -> Result<(), BackupError> {
    // A starting service holds the store, and does not listen yet.
    for _ in 0..STARTING_TRIES {
        match socket(directory).and_then(|(_open, path)| UnixStream::connect(path)) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(STALL)).map_err(file_error(directory))?;
                return io::copy(&mut stream, &mut output).map(drop).map_err(file_error(&directory.join(SOCKET)));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
            Err(error) => return Err(file_error(&directory.join(SOCKET))(error)),
        }
        match back_up_closed(directory, &mut output) {
            Err(BackupError::Store(StoreError::Locked { .. })) => std::thread::sleep(STARTING_PAUSE),
            done => return done,
        }
    }
    Err(StoreError::Locked { path: directory.join(FILE) }.into())
}

fn back_up_closed(directory: &Path, output: impl Write) -> Result<(), BackupError> {
    let path = directory.join(FILE);
    if !path.exists() {
        return Err(file_error(&path)(io::ErrorKind::NotFound.into()));
    }
    match inspect(&path)? {
        Health::Good => {}
        Health::New => return Err(StoreError::Unreadable { path, reason: "it is empty".into() }.into()),
        Health::Damaged(_, reason) => return Err(StoreError::Unreadable { path, reason }.into()),
    }
    let database = DatabaseFile::open(Box::new(move || super::open::open_file(&path)))?;
    write(directory, &database.begin_read()?, output).map(drop)
}

/// Backs up a state directory, in use or not. The file appears only when complete.
pub fn back_up(directory: &Path, to: &Path) -> Result<Counts, BackupError> {
    let at = file_error(to);
    let folder = to.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Mode 0600, and removed unless it is persisted.
    let partial = tempfile::Builder::new().prefix(".landfall-backup-").tempfile_in(folder).map_err(file_error(to))?;
    fetch(directory, partial.as_file())?;
    partial.as_file().sync_all().map_err(file_error(to))?;
    let counts = count(&File::open(partial.path()).map_err(file_error(to))?)?;
    partial.persist(to).map_err(|error| at(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(file_error(folder))?;
    Ok(counts)
}

fn count(file: &File) -> Result<Counts, BackupError> {
    let mut counts = Counts::default();
    read(file, &mut |frame| {
        match frame {
            Frame::Row(RowKey::Event(_), _) => counts.events += 1,
            Frame::Row(..) => counts.records += 1,
            Frame::File(..) => counts.files += 1,
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Restores a backup. What it replaces is renamed.
pub fn restore(directory: &Path, from: &Path, replace: bool) -> Result<Counts, BackupError> {
    let open = || File::open(from).map_err(file_error(from));
    // All of it is read before anything is written.
    let counts = count(&open()?)?;
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(file_error(directory))?;
    let path = directory.join(FILE);
    if path.metadata().is_ok_and(|found| found.len() > 0) {
        if !replace {
            return Err(BackupError::Occupied(path));
        }
        // Damaged or not: it must not be in use.
        if let Err(error @ StoreError::Locked { .. }) = inspect(&path) {
            return Err(error.into());
        }
    }
    let mut differ = Vec::new();
    read(open()?, &mut |frame| {
        if let Frame::File(name, content) = frame
            && fs::read(directory.join(&name)).is_ok_and(|there| there != content)
        {
            differ.push(name);
        }
        Ok(())
    })?;
    if let Some(name) = differ.first().filter(|_| !replace) {
        return Err(BackupError::Occupied(directory.join(name)));
    }
    for name in &differ {
        let old = directory.join(name);
        let mut renamed = old.clone().into_os_string();
        renamed.push(".replaced");
        fs::rename(&old, renamed).map_err(file_error(&old))?;
    }
    let mut rows: Vec<Row> = Vec::new();
    read(open()?, &mut |frame| {
        match frame {
            Frame::Row(key, value) => rows.push((key, value)),
            Frame::File(name, content) => {
                let path = directory.join(&name);
                let folder = path.parent().unwrap_or(directory);
                DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(file_error(folder))?;
                write_new(&path, &content).map_err(file_error(&path))?;
            }
        }
        Ok(())
    })?;
    // The store comes last: keys without a store are refused.
    salvage::replace(&path, rows.into_iter().collect(), "replaced")?;
    Ok(counts)
}

/// What a check found.
#[derive(Debug, Default)]
pub struct Checked {
    pub counts: Counts,
    /// What cannot be read.
    pub damage: Vec<String>,
}

/// Opens every record of a state directory, in use or not, or of a backup.
pub fn check(place: &Path, key: Option<&Path>) -> Result<Checked, BackupError> {
    let file = if place.is_dir() {
        let mut whole = tempfile::tempfile().map_err(file_error(place))?;
        match fetch(place, &whole) {
            Ok(()) => {}
            Err(BackupError::Store(StoreError::Unreadable { path, reason })) => {
                return Ok(Checked { damage: vec![format!("{}: {reason}", path.display())], ..Checked::default() });
            }
            Err(error) => return Err(error),
        }
        io::Seek::rewind(&mut whole).map_err(file_error(place))?;
        whole
    } else {
        File::open(place).map_err(file_error(place))?
    };
    let mut checked = Checked::default();
    let mut seal = key.map(Seal::read).transpose().map_err(StoreError::from)?;
    read(file, &mut |frame| {
        match frame {
            Frame::File(name, content) => {
                checked.counts.files += 1;
                if name == seal::FILE && seal.is_none() {
                    seal = Seal::new(&content);
                }
            }
            Frame::Row(row, value) => {
                match row {
                    RowKey::Event(_) => checked.counts.events += 1,
                    _ => checked.counts.records += 1,
                }
                let Some(seal) = &seal else {
                    return Err(BackupError::Damaged("it has no key: give the key with --secrets-key".into()));
                };
                if let Err(reason) = opens(seal, row, &value) {
                    checked.damage.push(format!("{} {}: {reason}", row.kind(), row.name()));
                }
            }
        }
        Ok(())
    })?;
    Ok(checked)
}

fn opens(seal: &Seal, row: RowKey, value: &[u8]) -> Result<(), String> {
    let document = seal.open(row.kind(), &row.name(), value).map_err(|error| error.to_string())?;
    let read = match row {
        RowKey::Cluster(_) => serde_json::from_slice::<ClusterRecord>(&document).map(drop),
        RowKey::InfraEnv(_) => serde_json::from_slice::<InfraEnvRecord>(&document).map(drop),
        RowKey::Host(..) => serde_json::from_slice::<HostRecord>(&document).map(drop),
        RowKey::Event(_) => serde_json::from_slice::<Event>(&document).map(drop),
    };
    read.map_err(|error| error.to_string())
}
