//! Container images with only this program (OCI image-spec 1.1, image-layout and layer): the agent's and the controller's, with the
//! names of the real programs, and the service's.
//!
//! The same program and time give the same bytes.

use api::image::{AGENT_LABEL, AGENT_LINKS, AGENT_PATH};
use flate2::{Compression, write::GzEncoder};
use kernel::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};
use tar::{Builder, EntryType, Header};

/// A larger program is not ours.
const MAX_PROGRAM_BYTES: u64 = 1 << 30;
/// Enough of an ELF header to know the machine.
const ELF_BYTES: usize = 20;
const BLOBS: &str = "blobs/sha256";

/// Directories of each image that programs in containers rely on, with their modes.
const DIRECTORIES: [(&str, u32); 9] = [
    ("etc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("usr/bin", 0o755),
    ("var", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];
/// The program in the images of the service and the controller.
const PROGRAM_PATH: &str = "/usr/bin/landfall";
/// Additional names of the program in the controller's image, sorted: the real one's, and the shell that services look for there.
const CONTROLLER_LINKS: [&str; 2] = ["assisted-installer-controller", "bash"];
const CONTROLLER_PATH: &str = "/usr/bin/assisted-installer-controller";
/// Records, keys and logs of the service: the only place it writes to, which outlives the container.
const SERVE_STATE: &str = "/var/lib/landfall";
/// Its port.
const SERVE_PORT: u16 = 8090;
/// User in the images of the service and the controller, and the service's group. Distroless images use this number for an
/// unprivileged user, and clusters' rules about root and low numbers accept it.
const USER_ID: u64 = 65532;

/// The purpose of an image's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Purpose {
    /// The agent of a discovered host, and its steps
    Agent,
    /// The service (`landfall serve`)
    Serve,
    /// The controller of a cluster (assisted-installer-controller)
    Controller,
}

/// The content of an image.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub program: PathBuf,
    pub purpose: Purpose,
    /// Name and tag, as `localhost/landfall-agent:1.0`.
    pub reference: String,
    /// Version, in its labels.
    pub version: String,
    /// For an agent's image: the entry point; without it, containers start the agent if no command is given.
    pub entrypoint: Option<String>,
    /// Creation time, seconds since 1970.
    pub created_s: u64,
    /// The same as text (RFC 3339).
    pub created: String,
}

/// Identification of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Digest of its manifest.
    pub digest: String,
    /// Go's name of the architecture.
    pub architecture: &'static str,
    /// Compressed size of its layer, bytes.
    pub layer_bytes: u64,
}

/// Why the image could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OciError {
    /// The program can't be read.
    #[error("cannot read the program {}", path.display())]
    Program { path: PathBuf, source: io::Error },
    /// It can't be started in an image.
    #[error("{} is not a program for an image: {reason}", path.display())]
    NotAProgram { path: PathBuf, reason: &'static str },
    #[error("cannot write the image")]
    Write {
        #[from]
        source: io::Error,
    },
    /// Its documents can't be created.
    #[error("cannot write the image's documents")]
    Document {
        #[from]
        source: serde_json::Error,
    },
}

/// A blob by its content: media type, digest, size.
struct Blob {
    media_type: &'static str,
    digest: String,
    size_bytes: u64,
}

impl Blob {
    fn new(media_type: &'static str, bytes: &[u8]) -> Self {
        Self {
            media_type,
            digest: hex::lower(Sha256::digest(bytes)),
            size_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        }
    }

    fn path(&self) -> String {
        format!("{BLOBS}/{}", self.digest)
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": format!("sha256:{}", self.digest), "size": self.size_bytes})
    }
}

/// Writes the archive of an image layout, which container engines load as it is.
pub(crate) fn write(image: &Image, out: impl Write) -> Result<Written, OciError> {
    let mut program =
        File::open(&image.program).map_err(|source| OciError::Program { path: image.program.clone(), source })?;
    let architecture = architecture(&image.program, &mut program)?;
    let (mut layer, layer_blob, diff_id) = layer(image, program)?;

    let labels = labels(image);
    let config = serde_json::to_vec(&json!({
        "architecture": architecture,
        "config": execution(image, &labels),
        "created": image.created,
        "history": [{"created": image.created, "created_by": "landfall image oci"}],
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff_id}")]},
    }))?;
    let config_blob = Blob::new("application/vnd.oci.image.config.v1+json", &config);
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_blob.descriptor(),
        "layers": [layer_blob.descriptor()],
        "annotations": labels,
    }))?;
    let manifest_blob = Blob::new("application/vnd.oci.image.manifest.v1+json", &manifest);
    let mut entry = manifest_blob.descriptor();
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("annotations".into(), json!({"org.opencontainers.image.ref.name": image.reference}));
        entry.insert("platform".into(), json!({"architecture": architecture, "os": "linux"}));
    }
    let index = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    }))?;

    let mut archive = Archive::new(out, image.created_s);
    archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    archive.file("index.json", 0o644, &index)?;
    archive.directory("blobs", 0o755)?;
    archive.directory(BLOBS, 0o755)?;
    archive.file(&config_blob.path(), 0o644, &config)?;
    archive.file(&manifest_blob.path(), 0o644, &manifest)?;
    layer.seek(SeekFrom::Start(0))?;
    archive.member(&layer_blob.path(), 0o644, layer_blob.size_bytes, &mut layer)?;
    archive.finish()?.flush()?;
    Ok(Written { digest: format!("sha256:{}", manifest_blob.digest), architecture, layer_bytes: layer_blob.size_bytes })
}

/// Labels for registries and users; an agent also recognises this project's agent images by them.
fn labels(image: &Image) -> Value {
    let description = match image.purpose {
        Purpose::Agent => "Agent of a discovered host, replaces the assisted installer's agent",
        Purpose::Serve => "Service that discovers and installs hosts, replaces the assisted installer's service",
        Purpose::Controller => {
            "Controller that finishes a cluster from inside, replaces the assisted installer's controller"
        }
    };
    let mut labels = serde_json::Map::new();
    if image.purpose == Purpose::Agent {
        labels.insert(AGENT_LABEL.into(), image.version.as_str().into());
    }
    for (name, value) in [
        ("title", "landfall"),
        ("description", description),
        ("licenses", "Apache-2.0"),
        ("version", image.version.as_str()),
    ] {
        labels.insert(format!("org.opencontainers.image.{name}"), value.into());
    }
    labels.into()
}

/// How a container of the image is started (OCI image-spec 1.1, image configuration).
fn execution(image: &Image, labels: &Value) -> Value {
    const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    match image.purpose {
        Purpose::Agent => {
            let program_name = AGENT_PATH.rsplit('/').next().unwrap_or_default();
            // Units give the agent's program as the command; the installer gets only arguments.
            let (start, start_with) = match &image.entrypoint {
                Some(name) => ("Entrypoint", name.as_str()),
                None => ("Cmd", program_name),
            };
            json!({start: [start_with], "Env": [PATH], "Labels": labels})
        }
        // With tokens, since other machines can reach a container's port. The service then listens on all addresses.
        Purpose::Serve => json!({
            "Entrypoint": [PROGRAM_PATH, "serve"],
            "Env": [PATH, format!("LANDFALL_STATE_DIR={SERVE_STATE}"), "LANDFALL_AUTH=local"],
            "ExposedPorts": {format!("{SERVE_PORT}/tcp"): {}},
            "Labels": labels,
            "User": format!("{USER_ID}:{USER_ID}"),
            "Volumes": {SERVE_STATE: {}},
            "WorkingDir": SERVE_STATE,
        }),
        // A cluster gives it any user; what is in the image is readable by group 0, and by all.
        Purpose::Controller => json!({
            "Entrypoint": [CONTROLLER_PATH],
            "Env": [PATH],
            "Labels": labels,
            "User": format!("{USER_ID}:0"),
        }),
    }
}

/// The users and groups that the container engine looks up.
fn accounts(purpose: Purpose) -> [(&'static str, String); 2] {
    let (mut groups, mut users) = ("root:x:0:\n".to_owned(), "root:x:0:0:root:/root:/usr/bin/landfall\n".to_owned());
    if purpose == Purpose::Serve {
        groups += &format!("landfall:x:{USER_ID}:\n");
        users += &format!("landfall:x:{USER_ID}:{USER_ID}:landfall:{SERVE_STATE}:/usr/bin/landfall\n");
    }
    [("etc/group", groups), ("etc/passwd", users)]
}

/// The compressed layer, its blob, and the digest of what was compressed.
fn layer(image: &Image, mut program: File) -> Result<(File, Blob, String), OciError> {
    let unreadable = |source| OciError::Program { path: image.program.clone(), source };
    let len_bytes = program.metadata().map_err(unreadable)?.len();
    let mut plain = Hashed::new(GzEncoder::new(Hashed::new(tempfile::tempfile()?), Compression::best()));
    let mut archive = Archive::new(&mut plain, image.created_s);
    for (path, mode) in DIRECTORIES {
        archive.directory(path, mode)?;
    }
    for (path, content) in accounts(image.purpose) {
        archive.file(path, 0o644, content.as_bytes())?;
    }
    let (path, links): (_, &[&str]) = match image.purpose {
        Purpose::Agent => (AGENT_PATH, &AGENT_LINKS),
        Purpose::Serve => (PROGRAM_PATH, &[]),
        Purpose::Controller => (PROGRAM_PATH, &CONTROLLER_LINKS),
    };
    let path = path.trim_start_matches('/');
    archive.member(path, 0o755, len_bytes, &mut program)?;
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    for link in links {
        archive.link(&format!("{directory}/{link}"), name)?;
    }
    if image.purpose == Purpose::Serve {
        archive.directory("var/lib", 0o755)?;
        // An engine gives a new volume the owner and mode of the directory it covers.
        archive.directory_of(SERVE_STATE.trim_start_matches('/'), 0o700, USER_ID)?;
    }
    archive.finish()?;
    let diff_id = hex::lower(plain.hash.finalize());
    let compressed = plain.inner.finish()?;
    let digest = hex::lower(compressed.hash.finalize());
    let media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
    Ok((compressed.inner, Blob { media_type, digest, size_bytes: compressed.len_bytes }, diff_id))
}

/// Go's name of the architecture in an ELF file (elf(5), e_machine).
fn architecture(path: &Path, program: &mut File) -> Result<&'static str, OciError> {
    let bad = |reason| OciError::NotAProgram { path: path.to_owned(), reason };
    let unreadable = |source| OciError::Program { path: path.to_owned(), source };
    if program.metadata().map_err(unreadable)?.len() > MAX_PROGRAM_BYTES {
        return Err(bad("it is larger than 1 GiB"));
    }
    let mut start = [0; ELF_BYTES];
    program.read_exact(&mut start).map_err(|_| bad("it is shorter than an ELF header"))?;
    program.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    match start {
        [0x7f, b'E', b'L', b'F', 2, 1, .., 62, 0] => Ok("amd64"),
        [0x7f, b'E', b'L', b'F', 2, 1, .., 183, 0] => Ok("arm64"),
        [0x7f, b'E', b'L', b'F', 2, 1, .., 21, 0] => Ok("ppc64le"),
        [0x7f, b'E', b'L', b'F', 2, 2, .., 0, 22] => Ok("s390x"),
        [0x7f, b'E', b'L', b'F', ..] => Err(bad("its architecture is not supported")),
        _ => Err(bad("it is not an ELF file")),
    }
}

/// A tar archive without traces of its creator.
pub(crate) struct Archive<W: Write> {
    builder: Builder<W>,
    mtime_s: u64,
}

impl<W: Write> Archive<W> {
    /// An empty one, whose members are all of `mtime_s`, seconds since 1970.
    pub(crate) fn new(out: W, mtime_s: u64) -> Self {
        Self { builder: Builder::new(out), mtime_s }
    }

    fn header(&self, kind: EntryType, mode: u32, size_bytes: u64) -> Header {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(self.mtime_s);
        header.set_size(size_bytes);
        header
    }

    pub(crate) fn directory(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.directory_of(path, mode, 0)
    }

    /// The same, of the user and the group of this number.
    fn directory_of(&mut self, path: &str, mode: u32, id: u64) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, mode, 0);
        header.set_uid(id);
        header.set_gid(id);
        self.builder.append_data(&mut header, format!("{path}/"), io::empty())
    }

    /// Adds a file.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.member(path, mode, u64::try_from(content.len()).map_err(io::Error::other)?, &mut &*content)
    }

    /// Exactly this many bytes, or an error.
    fn member(&mut self, path: &str, mode: u32, size_bytes: u64, content: &mut dyn Read) -> io::Result<()> {
        let mut header = self.header(EntryType::Regular, mode, size_bytes);
        let mut counted = Counted { inner: content.take(size_bytes), len_bytes: 0 };
        self.builder.append_data(&mut header, path, &mut counted)?;
        if counted.len_bytes != size_bytes {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{path} was truncated while it was read"),
            ));
        }
        Ok(())
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let mut header = self.header(EntryType::Symlink, 0o777, 0);
        self.builder.append_link(&mut header, path, target)
    }

    /// Ends it.
    pub(crate) fn finish(self) -> io::Result<W> {
        self.builder.into_inner()
    }
}

struct Counted<R> {
    inner: R,
    len_bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.len_bytes += u64::try_from(count).map_err(io::Error::other)?;
        Ok(count)
    }
}

/// Computes digest and length of what passes through.
pub(crate) struct Hashed<W> {
    inner: W,
    hash: Sha256,
    len_bytes: u64,
}

impl<W> Hashed<W> {
    /// Writes to `inner`.
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), len_bytes: 0 }
    }

    /// Where it went, and its digest in hexadecimal.
    pub(crate) fn finish(self) -> (W, String) {
        (self.inner, hex::lower(self.hash.finalize()))
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        self.len_bytes += u64::try_from(count).map_err(io::Error::other)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
#[path = "oci_tests.rs"]
mod tests;
