//! What is baked in: the program, its units, its configuration; as an Ignition config for existing live systems, or as files of a
//! root file system in the making.

use super::manifest::{FileFacts, ProgramFacts};
use super::program::{Machine, Program};
use crate::initrd::{Archive, ArchiveError};
use api::{InfraEnvId, Secret};
use ignition::model::{Document, File, Unit, Version};
use ignition::{BuildError, Discovery, Encoding, Environment, ParseError, resource};
use kernel::order;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Where the program is on a live host whose /usr is read-only.
pub const LIVE_PROGRAM: &str = "/usr/local/bin/landfall";
/// Where it is in a root file system in the making.
pub const ROOT_PROGRAM: &str = "/usr/bin/landfall";
const CA_PATH: &str = "/etc/landfall/ca.pem";
const CONFIG_PATH: &str = "/etc/landfall/agent.toml";
/// Where a rack's plan is.
pub const RENDEZVOUS_DIR: &str = "/etc/landfall/rendezvous";
const RENDEZVOUS_ENV: &str = "/etc/landfall/rendezvous.env";

/// Units as they are on a host whose program is in /usr/bin.
const AGENT_UNIT: (&str, &str) = ("agent.service", include_str!("../../overlay/usr/lib/systemd/system/agent.service"));
const SERVE_UNIT: (&str, &str) =
    ("landfall-serve.service", include_str!("../../overlay/usr/lib/systemd/system/landfall-serve.service"));
const STATUS_UNIT: (&str, &str) =
    ("landfall-status.service", include_str!("../../overlay/usr/lib/systemd/system/landfall-status.service"));
const CONSOLE_UNIT: (&str, &str) =
    ("landfall-console.service", include_str!("../../overlay/usr/lib/systemd/system/landfall-console.service"));

/// Why there is no overlay.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The agent's settings are invalid.
    #[error("the agent's settings")]
    Settings(#[from] BuildError),
    #[error("Ignition would refuse the config to bake in: {0}")]
    Config(String),
    /// It can't be a member of an archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It is for another machine.
    #[error(
        "the program is for {program}, but the live system for {base}: give the landfall for {base} with --binary FILE"
    )]
    Machine { program: Machine, base: Machine },
}

/// The service that the agent reports to.
#[derive(Clone, Debug)]
pub struct Service {
    pub url: String,
    /// Infra-env in which hosts are discovered.
    pub infra_env_id: InfraEnvId,
    /// Sent with every request.
    pub token: Option<Secret>,
}

/// What to bake in.
#[derive(Clone, Debug)]
pub struct Ingredients {
    pub program: Program,
    /// Whether the agent starts at boot, if it knows a service.
    pub agent: bool,
    /// Its service.
    pub service: Option<Service>,
    /// CA certificates that verify the service's certificate, PEM.
    pub ca_pem: Option<String>,
    /// The agent's configuration file.
    pub agent_toml: Option<Vec<u8>>,
    /// A rack's plan: names below its directory, contents.
    pub rendezvous: BTreeMap<String, Vec<u8>>,
    /// Further options of `landfall serve --rendezvous`.
    pub rendezvous_options: Option<String>,
}

/// A file on the live host, other than the program. It may contain secrets, so `Debug` hides its content.
struct Entry {
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

pub struct Content {
    program: Program,
    /// Sorted by path.
    entries: Vec<Entry>,
    units: Vec<(&'static str, &'static str)>,
    /// Without user and query.
    service_url: Option<String>,
    rendezvous: bool,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let paths: Vec<&str> = self.entries.iter().map(|entry| entry.path.as_str()).collect();
        f.debug_struct("Content").field("program", &self.program).field("files", &paths).finish_non_exhaustive()
    }
}

impl Content {
    /// Lays out `ingredients`.
    pub fn new(ingredients: Ingredients) -> Result<Self, ContentError> {
        let Ingredients { program, agent, service, ca_pem, agent_toml, rendezvous, rendezvous_options } = ingredients;
        let has_plan = !rendezvous.is_empty();
        let mut entries = Vec::new();
        let mut add = |path: &str, mode, bytes: Vec<u8>| entries.push(Entry { path: path.to_owned(), mode, bytes });
        let service_url = service.as_ref().map(|service| ignition::redact_url(&service.url));
        if let Some(service) = service {
            add(ignition::discovery::ENVIRONMENT_PATH, 0o600, settings(service, ca_pem.clone())?);
        }
        if let Some(pem) = ca_pem {
            add(CA_PATH, 0o644, pem.into_bytes());
        }
        if let Some(toml) = agent_toml {
            add(CONFIG_PATH, 0o600, toml);
        }
        for (name, bytes) in rendezvous {
            add(&format!("{RENDEZVOUS_DIR}/{name}"), 0o600, bytes);
        }
        if let Some(options) = rendezvous_options {
            let mut environment = Environment::default();
            environment.set("LANDFALL_RENDEZVOUS_OPTIONS", &options)?;
            add(RENDEZVOUS_ENV, 0o600, environment.into_text().into_bytes());
        }
        order::sort_by(&mut entries, |a, b| a.path.cmp(&b.path));
        // With the agent even without a plan, which may come with the config in the ISO's embed area.
        let served = agent || has_plan;
        let units = [(agent, AGENT_UNIT), (served, SERVE_UNIT), (served, STATUS_UNIT), (served, CONSOLE_UNIT)];
        let units = units.into_iter().filter(|(wanted, _)| *wanted).map(|(_, unit)| unit).collect();
        Ok(Self { program, entries, units, service_url, rendezvous: has_plan })
    }

    /// Refuses a program for another processor than `base`, if that is known.
    pub(crate) fn check_machine(&self, base: Option<Machine>) -> Result<(), ContentError> {
        match base {
            Some(base) if base != self.program.machine => {
                Err(ContentError::Machine { program: self.program.machine, base })
            }
            _ => Ok(()),
        }
    }

    /// The Ignition config that writes it all to writable places; spec 3.2.0, the oldest with all it needs.
    pub fn config(&self) -> Result<Vec<u8>, ContentError> {
        let mut config = Document::default();
        config.ignition.version = Version::V3_2.name().into();
        let file = |path: &str, mode: u32, bytes: &[u8], encoding| File {
            path: path.to_owned().into(),
            overwrite: Some(true),
            mode: Some(i64::from(mode)),
            contents: resource(bytes, encoding),
            ..File::default()
        };
        config.storage.files.push(file(LIVE_PROGRAM, 0o755, &self.program.bytes, Encoding::Gzip));
        for Entry { path, mode, bytes } in &self.entries {
            config.storage.files.push(file(path, *mode, bytes, Encoding::Smallest));
        }
        for (name, text) in &self.units {
            let contents = Some(text.replace(ROOT_PROGRAM, LIVE_PROGRAM).into());
            config.systemd.units.push(Unit { name: (*name).into(), enabled: Some(true), contents, ..Unit::default() });
        }
        let json = config.to_json();
        match ignition::parse(&json) {
            Ok(_) => Ok(json),
            Err(ParseError::Invalid(report)) => Err(ContentError::Config(report.to_string())),
            Err(error) => Err(ContentError::Config(error.to_string())),
        }
    }

    /// The files as they lie in a root file system.
    pub fn root(&self) -> Result<Archive, ContentError> {
        let mut root = Archive::new();
        root.add(relative(ROOT_PROGRAM), 0o755, self.program.bytes.as_slice())?;
        let mut preset = String::new();
        for (name, text) in &self.units {
            let directory = "usr/lib/systemd/system";
            root.add(&format!("{directory}/{name}"), 0o644, *text)?;
            root.add_symlink(&format!("{directory}/multi-user.target.wants/{name}"), &format!("../{name}"))?;
            preset.push_str(&format!("enable {name}\n"));
        }
        if !preset.is_empty() {
            root.add("usr/lib/systemd/system-preset/50-landfall.preset", 0o644, preset)?;
        }
        for Entry { path, mode, bytes } in &self.entries {
            root.add(relative(path), *mode, bytes.as_slice())?;
        }
        Ok(root)
    }

    pub(crate) fn program_facts(&self) -> ProgramFacts {
        let Program { version, machine, sha256, .. } = &self.program;
        ProgramFacts { version: version.clone(), architecture: machine.name().to_owned(), sha256: sha256.clone() }
    }

    /// The files on the live host, sorted by path.
    pub(crate) fn file_facts(&self) -> Vec<FileFacts> {
        let facts = |path: &str, mode: u32, bytes: &[u8], sha256: String| FileFacts {
            path: path.to_owned(),
            mode: format!("{mode:04o}"),
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            sha256,
        };
        let program = facts(LIVE_PROGRAM, 0o755, &self.program.bytes, self.program.sha256.clone());
        let others = self.entries.iter().map(|Entry { path, mode, bytes }| {
            let sha256 = kernel::hex::lower(Sha256::digest(bytes));
            facts(path, *mode, bytes, sha256)
        });
        let mut all: Vec<FileFacts> = others.chain([program]).collect();
        order::sort_by(&mut all, |a, b| a.path.cmp(&b.path));
        all
    }

    pub(crate) fn unit_names(&self) -> Vec<String> {
        self.units.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    /// The service's URL without secrets.
    pub fn service_url(&self) -> Option<&str> {
        self.service_url.as_deref()
    }

    /// Whether it has a rack's plan.
    pub(crate) fn has_rendezvous(&self) -> bool {
        self.rendezvous
    }
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// The agent's environment file, as the service writes it.
fn settings(service: Service, ca_pem: Option<String>) -> Result<Vec<u8>, ContentError> {
    let Service { url, infra_env_id, token } = service;
    let agent_version = concat!("landfall-", env!("CARGO_PKG_VERSION")).to_owned();
    let discovery = Discovery { service_url: url, infra_env_id, agent_version, ca_pem, token, ..Discovery::default() };
    let config = ignition::discovery::build(&discovery)?;
    let file = config.storage.files.iter().find(|file| file.path == ignition::discovery::ENVIRONMENT_PATH);
    let source = file.and_then(|file| file.contents.source.as_deref()).unwrap_or_default();
    match ignition::data_url::decode(source) {
        Ok(url) => Ok(url.data.into_owned()),
        Err(error) => Err(ContentError::Config(error.to_string())),
    }
}
