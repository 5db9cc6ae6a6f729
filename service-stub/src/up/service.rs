//! The service that `up` starts, a process of this program.

use super::{
    images::Images,
    place::{SERVICE, make},
    stored::Stored,
};
use crate::auth::{Claims, Scheme, keys, keys::SigningKey, token};
use crate::control::Session;
use anyhow::{Context, bail};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const PORT: u16 = 8090;
/// The rack is small, and somebody looks on.
const POLL_INTERVAL_S: &str = "5";
/// A service that is asked to end does so within this time.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const MAX_LOG_BYTES: u64 = 4096;
/// This machine, from inside a virtual one.
const HOST_OF_GUESTS: &str = "10.0.2.2";

/// What a machine must have to run an operating system, not a control plane.
const REQUIREMENTS: &str = r#"[{"version": "default",
    "master": {"cpu_cores": 1, "ram_mib": 900, "disk_size_gb": 4}, "arbiter": {"cpu_cores": 1, "ram_mib": 900, "disk_size_gb": 4},
    "worker": {"cpu_cores": 1, "ram_mib": 900, "disk_size_gb": 4}, "sno": {"cpu_cores": 1, "ram_mib": 900, "disk_size_gb": 4}}]"#;

/// A service that runs.
#[derive(Clone)]
pub(super) struct Running {
    child: Arc<Mutex<Child>>,
    is_stopping: Arc<AtomicBool>,
    url: String,
    state_dir: PathBuf,
    log: PathBuf,
}

impl Running {
    /// Starts it, and waits until it listens.
    pub(super) fn start(stored: &Stored, directory: &Path, plan: &Path, images: &Images) -> anyhow::Result<Self> {
        let state_dir = directory.join(SERVICE);
        make(&state_dir)?;
        // The service is to have it; people who look on need not know.
        let quiet = tracing::subscriber::NoSubscriber::default();
        tracing::subscriber::with_default(quiet, || SigningKey::load_or_create(&state_dir))?;
        let log = directory.join("service.log");
        let log_file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&log);
        let log_file = log_file.with_context(|| format!("cannot write {}", log.display()))?;
        let listen = stored.listen.context("no address to listen on")?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        command.arg("serve").arg("--state-dir").arg(&state_dir).arg("--rendezvous").arg(plan);
        command.args(["--auth", "local", "--auth-key"]).arg(state_dir.join(keys::FILE));
        command.args(["--listen", &listen.to_string(), "--poll-interval", POLL_INTERVAL_S]);
        command.arg("--iso").arg(&images.iso).arg("--image").arg(&images.image);
        if !images.has_agent {
            command.arg("--deliver-agent");
        }
        let url =
            stored.url.clone().or_else(|| stored.vms.map(|_| format!("http://{HOST_OF_GUESTS}:{}", listen.port())));
        if let Some(url) = url {
            command.args(["--url", &url]);
        }
        match &stored.cluster_files {
            Some(files) => drop(command.arg("--cluster-files").arg(files)),
            None => {
                let requirements = directory.join("requirements.json");
                fs::write(&requirements, REQUIREMENTS)
                    .with_context(|| format!("cannot write {}", requirements.display()))?;
                command.arg("--requirements").arg(requirements);
            }
        }
        command.env_remove("LANDFALL_SERVE_URL").env_remove("LANDFALL_AUTH").env_remove("LANDFALL_LISTEN");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file);
        let mut child = command.spawn().context("cannot start the service")?;
        let listens = child.stdout.take().and_then(listening);
        let Some(address) = listens else {
            let _ = child.wait();
            bail!("the service did not start: {}", last_line(&log));
        };
        let address =
            if address.ip().is_unspecified() { (Ipv4Addr::LOCALHOST, address.port()).into() } else { address };
        let url = format!("http://{address}");
        Ok(Self { child: Arc::new(Mutex::new(child)), is_stopping: Arc::default(), url, state_dir, log })
    }

    /// Where this machine reaches it.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// A session of a user who may do everything.
    pub(super) fn session(&self) -> anyhow::Result<Session> {
        let key = SigningKey::load_or_create(&self.state_dir)?;
        // It does not leave this process, which may wait for days.
        let claims = Claims { auth_scheme: Scheme::UserAuth, exp: None, ..Claims::default() };
        let token = token::sign(&key, &claims).context("the system gives no random numbers")?;
        Session::to(&self.url, &token)
    }

    /// Why it ended by itself; none while it runs, or once it was asked to end.
    pub(super) fn ended(&self) -> Option<String> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_stopping.load(Ordering::SeqCst) {
            return None;
        }
        child.try_wait().ok().flatten().map(|_| last_line(&self.log))
    }

    /// Ends it. What it acknowledged is on disk.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = i32::try_from(child.id()).map(nix::unistd::Pid::from_raw);
        if let (Ok(None), Ok(pid)) = (child.try_wait(), pid) {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = child.kill();
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Ends the service with the scope it is in.
pub(super) struct Stop(pub(super) Running);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The address it says it listens on. Further lines are read, so that it never writes into a closed pipe.
fn listening(stdout: ChildStdout) -> Option<SocketAddr> {
    let mut lines = BufReader::new(stdout).lines();
    let address =
        lines.by_ref().map_while(Result::ok).find_map(|line| line.strip_prefix("listening on http://")?.parse().ok());
    thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    address
}

/// That of the first start; then the usual port if it is free, else a free one.
pub(super) fn listen_address(stored: &Stored) -> anyhow::Result<SocketAddr> {
    if let Some(listen) = stored.listen.filter(|listen| listen.port() != 0) {
        return Ok(listen);
    }
    let any = if stored.vms.is_some() { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let wanted = stored.listen.unwrap_or(SocketAddr::from((any, PORT)));
    let free = TcpListener::bind(wanted).or_else(|_| TcpListener::bind((wanted.ip(), 0)));
    free.and_then(|socket| socket.local_addr()).context("no port to listen on is free")
}

fn last_line(path: &Path) -> String {
    let read = || {
        let mut file = fs::File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(MAX_LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("its log is empty");
    format!("{} ({})", crate::text::plain(line.trim_start_matches("landfall: error: ")), path.display())
}
