//! A `landfall serve` of our own: started, asked, killed, started again on the same port and state.

use crate::{arch::Arch, paths, process::Process, uplink};
use api::{Client, ClientConfig, ClientError, RetryPolicy, http::HttpConfig};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

/// What the service prints once it is ready.
const LISTENING: &str = "listening on http://127.0.0.1:";
const START_LIMIT: Duration = Duration::from_secs(300);
/// Checks that must not block: the names of a cluster, which no server on the switch resolves.
const NAMES: &str =
    "api-domain-name-resolved-correctly,api-int-domain-name-resolved-correctly,apps-domain-name-resolved-correctly";

/// What went wrong with the service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(
        "no landfall binary of {arch}: looked for {looked_for}; build it with `make {target}`, or name one in {env}"
    )]
    NoBinary { arch: &'static str, looked_for: String, target: &'static str, env: &'static str },
    /// It could not be started.
    #[error("cannot {what} {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// It ended, or said nothing.
    #[error("the service {what}; its log {} ends:\n{tail}", log.display())]
    Failed { what: String, log: PathBuf, tail: String },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot fetch {url}")]
    Fetch { url: String, source: Box<dyn std::error::Error + Send + Sync> },
}

/// The `landfall` under test: the one named by the environment, else the newest build, static first.
pub fn binary() -> Result<PathBuf, ServiceError> {
    binary_of(Arch::X86_64)
}

/// The same, for a test machine's processor.
pub fn binary_of(arch: Arch) -> Result<PathBuf, ServiceError> {
    let env = arch.program_env;
    let target = if arch.is_host() { "binary" } else { "binary-aarch64" };
    let missing = |looked_for| ServiceError::NoBinary { arch: arch.name, looked_for, target, env };
    if let Some(path) = std::env::var_os(env).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return if path.is_file() { Ok(path) } else { Err(missing(path.display().to_string())) };
    }
    let target = paths::target_dir();
    let kinds = if arch.is_host() { &[arch.target, ""][..] } else { &[arch.target] };
    let places = kinds
        .iter()
        .flat_map(|arch| ["release", "debug"].map(|profile| target.join(arch).join(profile).join("landfall")));
    let places: Vec<PathBuf> = places.collect();
    let found = places.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| {
        let list: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        missing(list.join(", "))
    })
}

/// What a service is started with.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    pub state_dir: PathBuf,
    /// Live ISO it hands out with a config inside.
    pub iso: PathBuf,
    /// OS image it hands out.
    pub image: PathBuf,
    /// What hosts of another processor fetch instead of this machine's program.
    pub agent_binary: Option<PathBuf>,
    /// Other files it serves like images.
    pub offered: Vec<PathBuf>,
    /// Clusters have a control plane, and the service makes their files with this program.
    pub openshift_install: Option<PathBuf>,
    /// Seconds between two polls of a host.
    pub poll_interval_s: u32,
    /// JSON of what hardware a role needs, in the service's format.
    pub requirements: String,
    /// Put the agent into the discovery config, for an ISO without one.
    pub deliver_agent: bool,
    pub log: PathBuf,
}

/// A running service. Dropping it kills it.
#[derive(Debug)]
pub struct Service {
    config: ServiceConfig,
    binary: PathBuf,
    port: u16,
    process: Process,
    client: Client,
}

impl Service {
    /// Starts one and waits until it is ready.
    pub fn start(config: ServiceConfig) -> Result<Self, ServiceError> {
        let binary = binary()?;
        let failed = |what: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source| ServiceError::Io { what, path, source }
        };
        std::fs::create_dir_all(&config.state_dir).map_err(failed("make", &config.state_dir))?;
        let requirements = requirements_path(&config);
        std::fs::write(&requirements, &config.requirements).map_err(failed("write", &requirements))?;
        File::create(&config.log).map_err(failed("write", &config.log))?;
        let (process, port) = launch(&binary, &config, 0)?;
        let client = ClientConfig { url: local_url(port), ..ClientConfig::default() };
        let client = Client::new(&client, RetryPolicy::Agent)?;
        Ok(Self { config, binary, port, process, client })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// As machines on the segment reach it.
    pub fn url(&self) -> String {
        base_url(self.port)
    }

    /// As this host does.
    pub fn local_url(&self) -> String {
        local_url(self.port)
    }

    pub fn log(&self) -> &Path {
        &self.config.log
    }

    /// kill -9, as a power cut would.
    pub fn kill(&mut self) -> Result<(), ServiceError> {
        self.process.kill().map(drop).map_err(|source| ServiceError::Io {
            what: "kill",
            path: self.binary.clone(),
            source,
        })
    }

    /// Starts it again after [`Service::kill`]: same port, same state.
    pub fn restart(&mut self) -> Result<(), ServiceError> {
        (self.process, _) = launch(&self.binary, &self.config, self.port)?;
        Ok(())
    }

    /// Fails when it ended.
    pub fn check(&mut self) -> Result<(), ServiceError> {
        match self.process.ended() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(failure(&self.config.log, format!("ended ({status})"))),
            Err(source) => Err(ServiceError::Io { what: "ask after", path: self.binary.clone(), source }),
        }
    }

    /// Downloads `url` to `path`. The address given to hosts is replaced by the one that we use.
    pub fn fetch(&self, url: &str, path: &Path) -> Result<u64, ServiceError> {
        let url = url.replacen(&self.url(), &self.local_url(), 1);
        let failed =
            |source: Box<dyn std::error::Error + Send + Sync>| ServiceError::Fetch { url: url.clone(), source };
        let agent = api::http::agent(&HttpConfig::default()).map_err(|error| failed(error.into()))?;
        let response = agent.get(&url).call().map_err(|error| failed(error.into()))?;
        if !response.status().is_success() {
            let status = response.status();
            let body =
                response.into_body().with_config().limit(1024).lossy_utf8(true).read_to_string().unwrap_or_default();
            return Err(failed(format!("the service answered {status}: {body}").into()));
        }
        let mut file = File::create(path).map_err(|error| failed(error.into()))?;
        let len = io::copy(&mut response.into_body().into_reader(), &mut file).map_err(|error| failed(error.into()))?;
        file.flush().map_err(|error| failed(error.into()))?;
        Ok(len)
    }
}

fn requirements_path(config: &ServiceConfig) -> PathBuf {
    config.state_dir.join("requirements.json")
}

/// As machines on the segment reach it.
fn base_url(port: u16) -> String {
    format!("http://{}:{port}", uplink::HOST)
}

fn local_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Port 0 is a free one, in both addresses; the port it became is given back.
fn launch(binary: &Path, config: &ServiceConfig, port: u16) -> Result<(Process, u16), ServiceError> {
    let io_failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| ServiceError::Io { what, path, source }
    };
    let log = File::options().append(true).create(true).open(&config.log).map_err(io_failed("write", &config.log))?;
    let mut command = Command::new(binary);
    command.arg("serve").args(["--listen", &format!("127.0.0.1:{port}"), "--url", &base_url(port)]);
    command.arg("--state-dir").arg(&config.state_dir).arg("--iso").arg(&config.iso).arg("--image").arg(&config.image);
    command
        .args(["--poll-interval", &config.poll_interval_s.to_string()])
        .arg("--requirements")
        .arg(requirements_path(config));
    for path in &config.offered {
        command.arg("--image").arg(path);
    }
    if let Some(program) = &config.openshift_install {
        command.args(["--generate", "--openshift-install"]).arg(program);
        command.args(["--await-controller", "--disable-validations", NAMES]);
    }
    if let Some(path) = &config.agent_binary {
        command.arg("--agent-binary").arg(path);
    }
    if config.deliver_agent {
        command.arg("--deliver-agent");
    }
    let errors = log.try_clone().map_err(io_failed("write", &config.log))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let mut process = Process::spawn(command).map_err(io_failed("start", binary))?;
    let Some(output) = process.take_stdout() else { return Err(failure(&config.log, "has no stdout".to_owned())) };
    match wait_listening(&follow(output, log)) {
        Ok(port) => Ok((process, port)),
        Err(what) => {
            let status = process.wait(Duration::from_secs(60)).ok().flatten();
            Err(failure(
                &config.log,
                status.map_or(what.to_owned(), |status| format!("ended before it listened ({status})")),
            ))
        }
    }
}

/// Copies the service's stdout into its log; each line is also sent on.
fn follow(output: impl io::Read + Send + 'static, mut log: File) -> Receiver<String> {
    let (lines, received) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            // The log is for people; after the start the lines are not received.
            let _ = writeln!(log, "{line}");
            let _ = lines.send(line);
        }
    });
    received
}

fn wait_listening(lines: &Receiver<String>) -> Result<u16, &'static str> {
    loop {
        match lines.recv_timeout(START_LIMIT) {
            Ok(line) => {
                if let Some(port) = line.strip_prefix(LISTENING).and_then(|port| port.trim().parse().ok()) {
                    return Ok(port);
                }
            }
            Err(RecvTimeoutError::Timeout) => return Err("did not report that it listens"),
            Err(RecvTimeoutError::Disconnected) => return Err("closed its stdout before it listened"),
        }
    }
}

fn failure(log: &Path, what: String) -> ServiceError {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail =
        lines[lines.len().saturating_sub(15)..].iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n");
    ServiceError::Failed { what, log: log.to_owned(), tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listening_line_is_waited_for() {
        let listening = |text: &'static [u8]| wait_listening(&follow(text, tempfile::tempfile().unwrap()));
        assert_eq!(listening(b"state in /x\nlistening on http://127.0.0.1:4711\nmore"), Ok(4711));
        assert_eq!(listening(b"oops\n"), Err("closed its stdout before it listened"));
    }
}
