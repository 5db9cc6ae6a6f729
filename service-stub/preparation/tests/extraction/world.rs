//! A release in a registry of the test, and the programs that are taken out of it.

use api::Secret;
use base64::{Engine, prelude::BASE64_STANDARD};
use kernel::clock::Clock;
use netcheck::image::{ImageOptions, registries};
use preparation::cache::{
    ExtractionBounds, InstallerArgs, InstallerCacheArgs, InstallerError, InstallerGuard, Installers, ReleaseRequest,
    Size,
};
use serde_json::json;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};
use tar::{EntryType, Header};
use testkit::{
    http::{Request, Server, ServerConfig},
    registry::{Images, PASSWORD, layer},
};

pub(crate) const PROGRAM_PATH: &str = "usr/bin/openshift-install";

/// What a release and its registry are made of.
pub(crate) struct Parts {
    /// Of the image with the program.
    pub tag: &'static str,
    /// Instead of the image's name in the references.
    pub name: Option<&'static str>,
    /// Whether it is named by digest.
    pub pinned: bool,
    /// Where the references say that images are; None: at the registry's address.
    pub home: Option<&'static str>,
    pub layers: Vec<Vec<u8>>,
    /// Whether the release is an index.
    pub index: bool,
    pub bounds: ExtractionBounds,
    pub capacity: Size,
    pub given: Vec<String>,
    pub tls: Option<Arc<ServerConfig>>,
}

impl Default for Parts {
    fn default() -> Self {
        let base = layer(&[("etc/os-release", b"NAME=x"), (PROGRAM_PATH, b"of an older base")]);
        Self {
            tag: "installer",
            name: None,
            pinned: true,
            home: None,
            layers: vec![base, layer(&[(PROGRAM_PATH, &program("amd64"))])],
            index: true,
            bounds: ExtractionBounds::default(),
            capacity: Size(0),
            given: Vec::new(),
            tls: None,
        }
    }
}

type Fault = dyn Fn(&Request, &Images) -> Option<Vec<u8>> + Send + Sync;

pub(crate) struct World {
    pub address: String,
    /// Of what the release's tag leads to.
    pub release_digest: String,
    pub request: ReleaseRequest,
    server: Arc<Server>,
    clock: Clock,
    options: ImageOptions,
    registries: String,
    bounds: ExtractionBounds,
    directory: tempfile::TempDir,
    installers: Installers,
}

impl World {
    pub(crate) fn new(parts: Parts) -> Self {
        Self::with(parts, |_, _| None)
    }

    /// `fault` answers in the registry's place where it wants to.
    pub(crate) fn with(
        parts: Parts,
        fault: impl Fn(&Request, &Images) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Self::with_clock(parts, Clock::simulated(), fault)
    }

    pub(crate) fn with_clock(
        parts: Parts,
        clock: Clock,
        fault: impl Fn(&Request, &Images) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (images, release_digest) = release(&parts, &address);
        let fault: Box<Fault> = Box::new(fault);
        let server = Server::on(listener, parts.tls.clone(), move |request| {
            fault(request, &images).unwrap_or_else(|| images.answer(request))
        });
        let directory = tempfile::tempdir().unwrap();
        Self {
            request: request(&address),
            installers: installers(&address, directory.path(), &parts, clock.clone()),
            registries: insecure(&address),
            options: options(&insecure(&address)),
            address,
            release_digest,
            server: Arc::new(server),
            clock,
            bounds: parts.bounds,
            directory,
        }
    }

    /// The same registry, and another service.
    pub(crate) fn again(&self) -> Self {
        self.with_options(self.options.clone())
    }

    pub(crate) fn with_options(&self, options: ImageOptions) -> Self {
        let (directory, clock) = (tempfile::tempdir().unwrap(), Clock::simulated());
        let options = ImageOptions { architecture: "amd64".into(), ..options };
        let args = InstallerArgs::default();
        let installers =
            Installers::open(&args, directory.path(), options.clone(), self.bounds, clock.clone()).unwrap();
        Self {
            address: self.address.clone(),
            release_digest: self.release_digest.clone(),
            request: self.request.clone(),
            server: self.server.clone(),
            clock,
            options,
            registries: self.registries.clone(),
            bounds: self.bounds,
            directory,
            installers,
        }
    }

    pub(crate) fn set_registries(&mut self, text: &str) {
        *self = Self { request: self.request.clone(), ..self.with_options(options(text)) };
    }

    /// Lets another registry be asked too.
    pub(crate) fn allow(&mut self, address: &str) {
        self.registries.push_str(&insecure(address));
        self.set_registries(&self.registries.clone());
    }

    pub(crate) fn get(&self) -> Result<InstallerGuard, InstallerError> {
        self.get_until(never())
    }

    pub(crate) fn get_until(&self, stop: &dyn Fn() -> bool) -> Result<InstallerGuard, InstallerError> {
        self.installers.get(&self.request, stop)
    }

    /// Paths that the registry was asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.server.requests().iter().map(|request| request.path().to_owned()).collect()
    }

    pub(crate) fn slept(&self) -> Duration {
        self.clock.slept()
    }

    /// Names of all files in the cache.
    pub(crate) fn files(&self) -> Vec<String> {
        let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        files(self.directory.path()).into_iter().map(name).collect()
    }
}

/// All files below a directory.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flatten().flat_map(|entry| below(entry.path())).collect()
}

pub(crate) fn never() -> &'static dyn Fn() -> bool {
    &|| false
}

fn insecure(address: &str) -> String {
    format!("[[registry]]\nlocation = '{address}'\ninsecure = true\n")
}

fn options(registries: &str) -> ImageOptions {
    ImageOptions {
        registries: registries::parse(registries).unwrap(),
        architecture: "amd64".into(),
        // An end is noticed when something comes, or so long after the last that came.
        stall_timeout: Duration::from_secs(15),
        ..ImageOptions::default()
    }
}

pub(crate) fn installers(address: &str, directory: &Path, parts: &Parts, clock: Clock) -> Installers {
    let args = InstallerArgs {
        openshift_install: parts.given.iter().map(|text| text.parse().unwrap()).collect(),
        cache: match parts.capacity {
            Size(0) => InstallerCacheArgs::default(),
            capacity => InstallerCacheArgs { capacity, max_release_size: capacity },
        },
        ..InstallerArgs::default()
    };
    Installers::open(&args, directory, options(&insecure(address)), parts.bounds, clock).unwrap()
}

pub(crate) fn request(address: &str) -> ReleaseRequest {
    ReleaseRequest {
        image: format!("{address}/ocp/release:4.22.9"),
        version: "4.22.9".into(),
        architecture: "x86_64".into(),
        own_image: None,
        pull_secret: Secret::new(r#"{"auths":{}}"#),
    }
}

/// By path and user; all have the same password.
pub(crate) fn pull_secret(logins: &[(String, String)]) -> Secret {
    let entry =
        |(path, user): &(String, String)| (path.clone(), json!({"auth": base64(&format!("{user}:{PASSWORD}"))}));
    Secret::new(json!({"auths": serde_json::Map::from_iter(logins.iter().map(entry))}).to_string())
}

pub(crate) fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

pub(crate) fn references(tag: &str, image: &str) -> String {
    let named = |tag: &str, image: &str| json!({"name": tag, "from": {"kind": "DockerImage", "name": image}});
    let tags = [named("must-gather", "r.io/mg:1"), named(tag, image)];
    json!({"kind": "ImageStream", "metadata": {"name": "4.22.9"}, "spec": {"tags": tags}}).to_string()
}

/// The release under two tags, and the image with its program.
fn release(parts: &Parts, address: &str) -> (Images, String) {
    let mut images = Images::default();
    let home = parts.home.map_or_else(|| format!("{address}/ocp"), str::to_owned);
    let program = images.image("ocp/art:program", &parts.layers);
    let name = match (parts.name, parts.pinned) {
        (Some(name), _) => name.to_owned(),
        (None, true) => format!("{home}/art@{program}"),
        (None, false) => format!("{home}/art:program"),
    };
    let references = references(parts.tag, &name);
    let manifests = layer(&[("release-manifests/image-references", references.as_bytes())]);
    let mut digest = String::new();
    for tag in ["4.22.9", "4.22.9-wrong", "latest"] {
        let name = format!("ocp/release:{tag}");
        digest = if parts.index {
            let own = images.image("ocp/release:own", std::slice::from_ref(&manifests));
            let other = images.image("ocp/release:other", &[layer(&[("a", b"another architecture's")])]);
            images.index(&name, &[("arm64", &other), ("amd64", &own)])
        } else {
            images.image(&name, &[layer(&[("a", name.as_bytes())]), manifests.clone()])
        };
    }
    (images, digest)
}

const PLACEHOLDERS: [(&str, &str, usize); 3] = [
    ("image", "_RELEASE_IMAGE_LOCATION_", 300),
    ("version", "_RELEASE_VERSION_LOCATION_", 64),
    ("architecture", "_RELEASE_ARCHITECTURE_LOCATION_", 64),
];

/// A program with all placeholders, which does not run.
pub(crate) fn program(architecture: &str) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    bytes[18] = if architecture == "amd64" { 62 } else { 183 };
    for (what, name, room) in PLACEHOLDERS {
        bytes.extend(
            [b"<", what.as_bytes(), b">\0", name.as_bytes(), b"\0", "X".repeat(room).as_bytes(), b"\0"].concat(),
        );
    }
    bytes
}

/// What a placeholder of it was filled with.
pub(crate) fn text_after(program: &[u8], what: &str) -> String {
    let sign = format!("<{what}>");
    let at = program.windows(sign.len()).position(|found| found == sign.as_bytes()).unwrap() + sign.len();
    String::from_utf8(program[at..].split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
}

/// A layer that is not packed; any names and kinds.
pub(crate) fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        let (target, content): (&[u8], &[u8]) = if is_link { (content, b"") } else { (b"", content) };
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A server that begins a layer with the program, and never ends it.
pub(crate) struct Stalling {
    address: SocketAddr,
    over: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stalling {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (over, wait) = mpsc::channel::<()>();
        let serve = move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if wait.try_recv() != Err(mpsc::TryRecvError::Empty) {
                    return;
                }
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                    line.clear();
                }
                let layer = Self::layer();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", layer.len());
                // The client may be gone.
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&layer[..1 << 20]));
                open.push(stream);
            }
        };
        Self { address, over: Some(over), thread: Some(thread::spawn(serve)) }
    }

    /// What it begins: the first quarter comes.
    pub(crate) fn layer() -> Vec<u8> {
        archive(&[(PROGRAM_PATH, EntryType::Regular, &vec![7; 4 << 20])])
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/layer", self.address)
    }
}

impl Drop for Stalling {
    fn drop(&mut self) {
        drop(self.over.take());
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
