//! The agent's configuration, from all sources: the most deliberate source wins, and each value has its source.

pub mod cli;
mod resolve;
mod sources;

pub use resolve::{CaCert, Resolved};

use crate::rendezvous::{Found, Place, Trust};
use api::{Secret, http::public_url};
use inventory::Root;
use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// The file, unless another is named.
pub const CONFIG_FILE: &str = "/etc/landfall/agent.toml";
/// A file of the same form, which only `landfall console` writes.
pub const CONSOLE_FILE: &str = "/etc/landfall/console.toml";

/// A longer value is refused, except certificates.
const MAX_VALUE_BYTES: usize = 8 << 10;
/// Bundles of a whole organisation are below this.
const MAX_PEM_BYTES: usize = 1 << 20;

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Base URL of the service.
    Url,
    /// Infra-env to register with.
    InfraEnvId,
    /// Sent as `X-Secret-Key`.
    Token,
    /// PEM text, or the path of a bundle.
    CaCert,
    /// Whether the service's certificate is not checked.
    Insecure,
    /// Reported agent image.
    AgentVersion,
    HostId,
    /// Seconds between registrations.
    Interval,
    /// Proxy for both schemes.
    Proxy,
    HttpProxy,
    HttpsProxy,
    /// Hosts and networks reached without a proxy.
    NoProxy,
    /// Where to ask for the service, and for the infra-env.
    Rendezvous,
    /// Public key of the rendezvous' signature: text, or the path of a file.
    RendezvousKey,
    /// Whether any host's announcement is trusted.
    RendezvousUnsigned,
}

impl Key {
    /// Each of them.
    pub const ALL: [Self; 15] = [
        Self::Url,
        Self::InfraEnvId,
        Self::Token,
        Self::CaCert,
        Self::Insecure,
        Self::AgentVersion,
        Self::HostId,
        Self::Interval,
        Self::Proxy,
        Self::HttpProxy,
        Self::HttpsProxy,
        Self::NoProxy,
        Self::Rendezvous,
        Self::RendezvousKey,
        Self::RendezvousUnsigned,
    ];

    /// Its name in the file, and after a prefix everywhere else.
    pub fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::InfraEnvId => "infra_env_id",
            Self::Token => "token",
            Self::CaCert => "cacert",
            Self::Insecure => "insecure",
            Self::AgentVersion => "agent_version",
            Self::HostId => "host_id",
            Self::Interval => "interval",
            Self::Proxy => "proxy",
            Self::HttpProxy => "http_proxy",
            Self::HttpsProxy => "https_proxy",
            Self::NoProxy => "no_proxy",
            Self::Rendezvous => "rendezvous",
            Self::RendezvousKey => "rendezvous_key",
            Self::RendezvousUnsigned => "rendezvous_unsigned",
        }
    }

    /// Dashes count as underscores, as in the kernel.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name.replace('-', "_"))
    }

    /// Its variables in the environment, the first that is set wins.
    pub fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Url => &["LANDFALL_URL"],
            Self::InfraEnvId => &["LANDFALL_INFRA_ENV_ID"],
            Self::Token => &["PULL_SECRET_TOKEN"],
            Self::CaCert => &["LANDFALL_CACERT"],
            Self::Insecure => &["LANDFALL_INSECURE"],
            Self::AgentVersion => &["LANDFALL_AGENT_VERSION"],
            Self::HostId => &["LANDFALL_HOST_ID"],
            Self::Interval => &["LANDFALL_INTERVAL"],
            Self::Proxy => &[],
            Self::HttpProxy => &["HTTP_PROXY", "http_proxy"],
            Self::HttpsProxy => &["HTTPS_PROXY", "https_proxy"],
            Self::NoProxy => &["NO_PROXY", "no_proxy"],
            Self::Rendezvous => &["LANDFALL_RENDEZVOUS"],
            Self::RendezvousKey => &["LANDFALL_RENDEZVOUS_KEY"],
            Self::RendezvousUnsigned => &["LANDFALL_RENDEZVOUS_UNSIGNED"],
        }
    }

    /// Whether it is a truth value, which a bare name sets.
    fn is_switch(self) -> bool {
        matches!(self, Self::Insecure | Self::RendezvousUnsigned)
    }

    /// Whether its value may be PEM text, of several lines.
    fn may_be_pem(self) -> bool {
        matches!(self, Self::CaCert | Self::RendezvousKey)
    }

    fn max_bytes(self) -> usize {
        if self == Self::CaCert { MAX_PEM_BYTES } else { MAX_VALUE_BYTES }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a value is from, best first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    CommandLine,
    /// A form of `landfall console`.
    Console,
    Environment(&'static str),
    File(PathBuf),
    /// An argument of the kernel, by name.
    KernelArgument(String),
    /// An SMBIOS OEM string, by its start.
    OemString(String),
    /// A file of QEMU's fw_cfg.
    FwCfg(PathBuf),
    /// The rack's own service.
    Rendezvous,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("the command line"),
            Self::Console => write!(f, "the console ({CONSOLE_FILE})"),
            Self::Environment(name) => write!(f, "the environment variable {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::KernelArgument(name) => write!(f, "the kernel argument {name}"),
            Self::OemString(name) => write!(f, "the SMBIOS OEM string {name}"),
            Self::FwCfg(path) => write!(f, "QEMU's fw_cfg file {}", path.display()),
            Self::Rendezvous => f.write_str("the rendezvous"),
        }
    }
}

/// A value and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Of any key may be secret: a proxy has a password.
    text: Secret,
    /// Where it is from.
    pub source: Source,
}

impl Value {
    /// The part of it that may be shown.
    pub fn display(&self, key: Key) -> String {
        let text = self.text.expose();
        match key {
            Key::Token => format!("(a secret of {} bytes)", text.len()),
            _ if key.may_be_pem() && is_pem(text) => format!("(PEM text of {} bytes)", text.len()),
            Key::Url | Key::Proxy | Key::HttpProxy | Key::HttpsProxy => public_url(text),
            _ => text.to_owned(),
        }
    }
}

fn is_pem(text: &str) -> bool {
    text.trim_start().starts_with("-----BEGIN ")
}

/// Why there is no configuration. Values of the firmware and of the kernel's command line are untrusted.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Can't be read, or is too large.
    #[error("cannot read the agent's configuration file {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Not TOML, or not of this form. The line is named, not shown: it may hold the token.
    #[error("the agent's configuration file {} is not usable{}: {reason}", path.display(), line.map_or_else(String::new, |line| format!(" (line {line})")))]
    Syntax { path: PathBuf, line: Option<usize>, reason: String },
    /// A name of ours that is none.
    #[error("{from} is not usable: {reason}")]
    Name {
        /// Where it is from.
        from: Source,
        reason: String,
    },
    /// An invalid value.
    #[error("{key} from {from} is not usable: {reason}")]
    Value {
        key: Key,
        /// Where it is from.
        from: Source,
        reason: String,
    },
    #[error("no {}: looked {}", missing.iter().map(|key| key.name()).collect::<Vec<_>>().join(" and no "), places.join("; "))]
    Missing {
        missing: Vec<Key>,
        /// Where it was looked for.
        places: Vec<String>,
    },
    /// The certificate can't be put where the installer finds it.
    #[error("cannot write the CA certificate to {}", path.display())]
    CaFile { path: PathBuf, source: io::Error },
}

pub struct Sources<'a> {
    /// Options and their values.
    pub command_line: Vec<(Key, String)>,
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// A file that must exist, instead of [`CONFIG_FILE`].
    pub file: Option<PathBuf>,
    pub root: &'a Root,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    values: BTreeMap<Key, Value>,
    file: PathBuf,
    has_file: bool,
}

impl Config {
    /// Looks everywhere. Empty values count as absent: units set variables to nothing.
    pub fn read(sources: &Sources) -> Result<Self, ConfigError> {
        let console = sources::file(sources.root, Path::new(CONSOLE_FILE), false)?;
        Self::read_with(sources, &console.unwrap_or_default())
    }

    /// The same, with `console` in the place of what was set at the console before.
    pub fn read_with(sources: &Sources, console: &[(Key, String)]) -> Result<Self, ConfigError> {
        let path = sources.file.clone().unwrap_or_else(|| CONFIG_FILE.into());
        let mut config = Self { values: BTreeMap::new(), file: path.clone(), has_file: false };
        for (key, text) in &sources.command_line {
            config.put(*key, text, Source::CommandLine);
        }
        for (key, text) in console {
            config.put(*key, text, Source::Console);
        }
        for key in Key::ALL {
            for &name in key.variables() {
                config.put(key, &(sources.environment)(name).unwrap_or_default(), Source::Environment(name));
            }
        }
        if let Some(values) = sources::file(sources.root, &path, sources.file.is_some())? {
            config.has_file = true;
            for (key, text) in values {
                config.put(key, &text, Source::File(path.clone()));
            }
        }
        let given = sources::kernel_arguments(sources.root)
            .into_iter()
            .chain(sources::oem_strings(sources.root))
            .chain(sources::fw_cfg(sources.root));
        for given in given {
            let (key, text, source) = given?;
            config.put(key, &text, source);
        }
        config.check()?;
        Ok(config)
    }

    /// The first value counts.
    fn put(&mut self, key: Key, text: &str, source: Source) {
        let text = text.trim();
        if !text.is_empty() {
            self.values.entry(key).or_insert_with(|| Value { text: Secret::new(text), source });
        }
    }

    /// What no value may be, whatever it means.
    fn check(&self) -> Result<(), ConfigError> {
        for (&key, value) in &self.values {
            let text = value.text.expose();
            let fail = |reason| Err(ConfigError::Value { key, from: value.source.clone(), reason });
            if text.len() > key.max_bytes() {
                return fail(format!("it has {} bytes, more than the limit of {}", text.len(), key.max_bytes()));
            }
            let allowed = |c: char| !c.is_control() || (key.may_be_pem() && matches!(c, '\n' | '\r' | '\t'));
            if let Some(c) = text.chars().find(|&c| !allowed(c) || c == char::REPLACEMENT_CHARACTER) {
                return fail(format!("it contains the character {c:?}"));
            }
        }
        Ok(())
    }

    /// The value of `key`.
    pub fn get(&self, key: Key) -> Option<&Value> {
        self.values.get(&key)
    }

    pub fn values(&self) -> impl Iterator<Item = (Key, &Value)> {
        self.values.iter().map(|(key, value)| (*key, value))
    }

    /// Whether the agent is configured to run here.
    pub fn is_configured(&self) -> bool {
        self.values.contains_key(&Key::Url) || self.values.contains_key(&Key::Rendezvous)
    }

    /// Where to ask for the service, and what must prove the answer; none if the service is configured, unless the rendezvous is
    /// set at the console and the service elsewhere.
    pub fn rendezvous(&self) -> Result<Option<(Place, Trust)>, ConfigError> {
        if self.values.contains_key(&Key::Url) && !self.overrules(Key::Url) {
            return Ok(None);
        }
        let Some(place) = self.parsed(Key::Rendezvous)? else { return Ok(None) };
        let trust = self.trust(&place)?;
        Ok(Some((place, trust)))
    }

    /// Whether a rendezvous that was set at the console replaces the value of `key`, which is from elsewhere.
    fn overrules(&self, key: Key) -> bool {
        let source = |key| self.values.get(&key).map(|value| &value.source);
        source(Key::Rendezvous) == Some(&Source::Console) && source(key).is_some_and(|from| *from > Source::Console)
    }

    /// Takes what was found there.
    pub fn found(&mut self, found: &Found) {
        for key in [Key::Url, Key::InfraEnvId] {
            if self.overrules(key) {
                self.values.remove(&key);
            }
        }
        self.put(Key::Url, &found.url, Source::Rendezvous);
        self.put(Key::InfraEnvId, &found.infra_env_id.to_string(), Source::Rendezvous);
        self.put(Key::CaCert, found.ca_pem.as_deref().unwrap_or_default(), Source::Rendezvous);
    }

    /// Where `key` was looked for.
    pub fn places(&self, key: Key) -> Vec<String> {
        let name = key.name();
        let file = if self.has_file { "" } else { " (which does not exist)" };
        let mut places = vec![format!("on the command line (--{})", name.replace('_', "-"))];
        places.extend(key.variables().iter().map(|variable| format!("in the environment ({variable})")));
        places.push(format!("in {}{file}", self.file.display()));
        places.extend(sources::places(name));
        places
    }

    fn missing(&self, missing: Vec<Key>) -> ConfigError {
        let places = missing.first().map(|key| self.places(*key)).unwrap_or_default();
        ConfigError::Missing { missing, places }
    }
}

/// Replaces what was set at the console of the system below `root`.
pub fn set_at_console(root: &Path, values: &[(Key, String)]) -> io::Result<()> {
    let path = root.join(CONSOLE_FILE.trim_start_matches('/'));
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let draft = path.with_extension("draft");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    for (key, text) in values {
        writeln!(file, "{key} = {}", toml::Value::String(text.clone()))?;
    }
    fs::rename(draft, path)
}

/// Puts a certificate where it can be named, readable by all; it is public.
pub(crate) fn write_ca(path: &Path, pem: &str) -> Result<(), ConfigError> {
    let write = || {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let draft = path.with_extension("draft");
        fs::write(&draft, pem)?;
        fs::rename(draft, path)
    };
    write().map_err(|source| ConfigError::CaFile { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
