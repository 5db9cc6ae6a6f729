//! `landfall cluster`, `infra-env`, `host`, `event` and `wait`: clients of our service or the real one.

pub mod apply;
mod ask;
pub mod certify;
pub mod cluster;
mod cluster_show;
pub mod culprit;
pub(crate) mod download;
pub mod event;
mod explain;
mod fields;
pub mod host;
mod host_show;
pub mod infra_env;
mod mirror_args;
pub mod names;
pub(crate) mod pick;
pub mod table;
pub mod wait;

pub(crate) use cluster_show::{host_percent, role};
pub(crate) use culprit::stage;
pub(crate) use wait::on_interrupt;

use crate::text;
use anyhow::Context;
use api::endpoint::{Endpoint, GET_CLUSTER, LIST_CLUSTERS, LIST_HOSTS, LIST_INFRA_ENVS, Target};
use api::{API_PATH, Client, ClientConfig, RetryPolicy, Secret, http::HttpConfig};
use kernel::order;
use pick::pick;
use serde_json::Value;
use std::{
    io::{self, Write},
    os::fd::AsFd,
    path::PathBuf,
};

/// A longer value is cut in a list of values; `--json` has the whole.
const MAX_VALUE_CHARS: usize = 1000;
/// A larger file is not a token.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// The service, and how to connect to it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct Reach {
    /// Base URL of the service
    #[arg(long, global = true, value_name = "URL", env = "LANDFALL_URL", default_value = "http://127.0.0.1:8090")]
    url: String,
    /// File with a user's token, sent as a bearer token. Default: the token in the variable LANDFALL_TOKEN
    #[arg(long, global = true, value_name = "FILE", env = "LANDFALL_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// PEM bundle trusted in addition to the system's roots
    #[arg(long, global = true, value_name = "FILE", env = "LANDFALL_CACERT")]
    cacert: Option<PathBuf>,
    /// Accept untrusted certificates of the service
    #[arg(long, global = true, env = "LANDFALL_INSECURE", value_parser = kernel::spelling::parse_switch)]
    insecure: bool,
    /// Print the service's own JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
}

/// The output, and its width.
pub struct Console<'a> {
    pub out: &'a mut dyn Write,
    /// Characters per line; `None` without a terminal.
    pub width: Option<usize>,
}

impl Console<'_> {
    /// Runs `work` on standard output.
    pub(crate) fn standard<T>(work: impl FnOnce(&mut Console) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut out = io::stdout().lock();
        let done = work(&mut Console { out: &mut out, width: width(&io::stdout()) }).map_err(explain::explain)?;
        out.flush()?;
        Ok(done)
    }

    pub(crate) fn say(&mut self, line: impl AsRef<str>) -> anyhow::Result<()> {
        Ok(writeln!(self.out, "{}", line.as_ref())?)
    }

    pub fn json(&mut self, document: &Value) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(document)?;
        self.say(text)
    }

    /// Prints a document in the format that is asked for; else what `text` prints.
    fn document(
        &mut self,
        session: &Session,
        format: Output,
        document: &Value,
        text: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match format.output.or(session.json.then_some(Format::Json)) {
            Some(Format::Json) => self.json(document),
            Some(Format::Yaml) => Ok(self.out.write_all(serde_norway::to_string(document)?.as_bytes())?),
            Some(Format::Wide) => {
                self.width = None;
                text(self)
            }
            None => text(self),
        }
    }

    pub fn table(&mut self, table: &table::Table) -> anyhow::Result<()> {
        Ok(self.out.write_all(table.text(self.width).as_bytes())?)
    }

    /// Prints names and values, aligned; entries without a value are left out.
    pub fn list(&mut self, pairs: &[(&str, String)]) -> anyhow::Result<()> {
        let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
            let (head, value) = (format!("{name:<width$}  "), text::cut(&text::plain(value), MAX_VALUE_CHARS));
            let columns = self.width.unwrap_or(usize::MAX);
            self.out.write_all(kernel::wrapped(&head, &value, width + 2, columns).as_bytes())?;
        }
        Ok(())
    }
}

/// The format of what is listed or shown.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Output {
    /// Format: json or yaml for the service's own document, wide for tables that are not cut
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Json,
    Yaml,
    Wide,
}

/// Characters in a line of a terminal.
pub fn width(terminal: &impl AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(terminal).map(|(width, _)| usize::from(width.0))
}

/// A service to talk to.
pub struct Session {
    pub(crate) client: Client,
    /// Where this client reaches the service.
    url: String,
    http: HttpConfig,
    json: bool,
}

impl Reach {
    /// Does not connect yet.
    pub(crate) fn session(&self) -> anyhow::Result<Session> {
        let token = match &self.token_file {
            Some(path) => read_small(path, MAX_TOKEN_BYTES)?,
            None => std::env::var("LANDFALL_TOKEN").unwrap_or_default(),
        };
        let http = HttpConfig { ca_cert: self.cacert.clone(), insecure: self.insecure, proxies: None };
        let config = ClientConfig {
            url: self.url.clone(),
            token: Secret::new(token.trim()),
            http: http.clone(),
            ..ClientConfig::default()
        };
        let client = Client::new(&config, RetryPolicy::Never)?.as_user();
        Ok(Session { client, url: self.url.clone(), http, json: self.json })
    }
}

/// Public SSH keys, a line each. What is not one is not sent: it may be a private key.
pub(crate) fn read_ssh_key(path: &std::path::Path) -> anyhow::Result<String> {
    const MAX_BYTES: u64 = 64 << 10;
    const TYPES: [&str; 3] = ["ssh-", "ecdsa-", "sk-"];
    let text = read_small(path, MAX_BYTES)?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    let is_key = lines.peek().is_some()
        && lines.all(|line| line.split_whitespace().any(|word| TYPES.iter().any(|kind| word.starts_with(kind))));
    anyhow::ensure!(
        is_key,
        "{} is not a public SSH key: a line of one begins with ssh-ed25519, ssh-rsa or ecdsa-sha2 (its file ends in .pub)",
        path.display()
    );
    Ok(text.trim().to_owned())
}

/// A small text file, or standard input for `-`.
pub(crate) fn read_small(path: &std::path::Path, max: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = |from: &mut dyn io::Read, text: &mut String| io::Read::take(from, max + 1).read_to_string(text);
    let len = match path.as_os_str() == "-" {
        true => read(&mut io::stdin().lock(), &mut text),
        false => std::fs::File::open(path).and_then(|mut file| read(&mut file, &mut text)),
    };
    use io::Read as _;
    let len = len.with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(u64::try_from(len)? <= max, "{} is larger than {}", path.display(), kernel::units::binary(max));
    Ok(text)
}

/// The name the service reports.
pub(crate) fn display_name(document: &Value) -> String {
    text::at(document, "/name").to_owned()
}

/// A host's name: the one set by the user, else the one it reports, else its id.
pub fn host_name(host: &Value) -> String {
    let requested = text::at(host, "/requested_hostname");
    if !requested.is_empty() {
        return requested.to_owned();
    }
    let said = inventory(host).map(|inventory| inventory.hostname).unwrap_or_default();
    if said.is_empty() { text::at(host, "/id").to_owned() } else { said }
}

/// The hosts of a cluster, by name.
pub(crate) fn hosts(cluster: &Value) -> Vec<&Value> {
    let mut hosts: Vec<&Value> = cluster.get("hosts").and_then(Value::as_array).into_iter().flatten().collect();
    order::sort_by_key(&mut hosts, |host| host_name(host));
    hosts
}

fn host_target(host: &Value, endpoint: &'static Endpoint) -> Target {
    endpoint.at(&[&text::at(host, "/infra_env_id"), &text::at(host, "/id")])
}

/// A host's inventory, if it has sent a valid one.
pub fn inventory(host: &Value) -> Option<api::Inventory> {
    serde_json::from_str(text::at(host, "/inventory")).ok()
}

impl Session {
    /// A session with a user's token, for one caller of this program.
    pub(crate) fn to(url: &str, token: &str) -> anyhow::Result<Self> {
        let http = HttpConfig::default();
        let config = ClientConfig {
            url: url.to_owned(),
            token: Secret::new(token),
            http: http.clone(),
            ..ClientConfig::default()
        };
        let client = Client::new(&config, RetryPolicy::Never)?.as_user();
        Ok(Self { client, url: config.url, http, json: false })
    }

    fn list(&self, target: &Target) -> anyhow::Result<Vec<Value>> {
        match self.client.document(target)? {
            Value::Array(documents) => Ok(documents),
            Value::Null => Ok(Vec::new()),
            _ => anyhow::bail!("GET {API_PATH}{}: the answer is not a list", target.path()),
        }
    }

    /// The identifier of the cluster that `wanted` names.
    fn cluster_id(&self, wanted: &str) -> anyhow::Result<String> {
        // A full identifier needs no list.
        if let Ok(id) = wanted.parse::<api::ClusterId>() {
            return Ok(id.to_string());
        }
        let all = self.list(&LIST_CLUSTERS.at(&[]))?;
        Ok(text::at(pick("cluster", &all, display_name, wanted)?, "/id").to_owned())
    }

    fn infra_env_id(&self, wanted: &str) -> anyhow::Result<String> {
        if let Ok(id) = wanted.parse::<api::InfraEnvId>() {
            return Ok(id.to_string());
        }
        let all = self.list(&LIST_INFRA_ENVS.at(&[]))?;
        Ok(text::at(pick("infra-env", &all, display_name, wanted)?, "/id").to_owned())
    }

    /// Every host of one infra-env, or of all.
    fn hosts(&self, infra_env: Option<&str>) -> anyhow::Result<Vec<Value>> {
        let ids = match infra_env {
            Some(wanted) => vec![self.infra_env_id(wanted)?],
            None => {
                let all = self.list(&LIST_INFRA_ENVS.at(&[]))?;
                all.iter().map(|infra_env| text::at(infra_env, "/id").to_owned()).collect()
            }
        };
        let mut hosts = Vec::new();
        for id in ids {
            hosts.extend(self.list(&LIST_HOSTS.at(&[&id]))?);
        }
        order::sort_by_key(&mut hosts, host_name);
        Ok(hosts)
    }

    /// The host that `wanted` names.
    fn host(&self, wanted: &str, infra_env: Option<&str>) -> anyhow::Result<Value> {
        let all = self.hosts(infra_env)?;
        Ok(pick("host", &all, host_name, wanted)?.clone())
    }

    /// The same, of a cluster if it has such a host: another rack may have one of that name.
    fn host_of(&self, cluster: &str, wanted: &str) -> anyhow::Result<Value> {
        let document = self.client.document(&GET_CLUSTER.at(&[&cluster]))?;
        let own: Vec<Value> = hosts(&document).into_iter().cloned().collect();
        match pick("host", &own, host_name, wanted) {
            Ok(host) => Ok(host.clone()),
            Err(_) => self.host(wanted, None),
        }
    }
}
