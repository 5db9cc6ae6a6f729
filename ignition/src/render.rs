//! A config and all that it refers to as one (docs/compatibility.md#ignition-merge).
//!
//! `ignition.config.replace` takes the config's place; configs in `ignition.config.merge` are merged into it in order, each after
//! those it refers to itself. What is fetched later is fetched by the settings known so far: timeouts, proxies, certificates.
//!
//! Hostile configs may refer to themselves, or to ever more others: depth, number and bytes are limited.

use crate::check::{ParseError, parse};
use crate::fetch::{FetchError, Fetcher, Location};
use crate::model::part::Part;
use crate::model::{Document, Reference, References, Version, VersionError};
use crate::report::Report;
use crate::translate::{TranslateError, merged_json, upgrade};
use std::cell::{Cell, OnceCell};
use std::fmt;

/// How deep configs may refer to others. People do so three deep.
const MAX_DEPTH: usize = 32;
/// How many configs may be fetched for one.
const MAX_CONFIGS: usize = 256;
/// How many bytes they may have together.
const MAX_BYTES: u64 = 128 << 20;
/// How many warnings of a config are logged.
const MAX_WARNINGS: usize = 20;

/// Why a config can't be rendered, and which of its parts is at fault.
#[derive(Debug, thiserror::Error)]
pub struct RenderError {
    /// The way there from the config itself, for people: each a reference's place and URL, without what may be secret.
    pub way: Vec<String>,
    pub source: RenderFault,
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.way.is_empty() { f.write_str("the config itself") } else { f.write_str(&self.way.join(", there ")) }
    }
}

/// Why a config can't be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderFault {
    /// It, or a certificate it names, can't be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It is empty. Ignition takes that as the whole config, and boots the host without any config.
    #[error("not a config (empty): Ignition would drop all the others, too, and continue without a config")]
    Empty,
    /// It is of no version.
    #[error(transparent)]
    Version(VersionError),
    /// Ignition would reject it.
    #[error("config is not valid:\n{0}")]
    Invalid(Report),
    /// A config on the way there was fetched from the same URL.
    #[error("the config refers to itself")]
    Itself,
    #[error("configs refer to each other more than {MAX_DEPTH} deep")]
    Depth,
    #[error("more than {MAX_CONFIGS} configs are referred to")]
    Configs,
    #[error("the configs have more than {MAX_BYTES} bytes together")]
    Bytes,
    /// Each is valid, but the result is not.
    #[error("merging configs resulted in an invalid config:\n{0}")]
    Merged(Report),
}

impl From<ParseError> for RenderFault {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Empty => Self::Empty,
            ParseError::Version(error) => Self::Version(error),
            ParseError::Invalid(report) => Self::Invalid(report),
        }
    }
}

/// `config` with all that it refers to, in the newest version among them. The result refers to no configs; certificates
/// and contents of files are not fetched, and `fetcher` gets the result's settings for them.
pub fn render(config: &[u8], fetcher: &mut Fetcher) -> Result<Vec<u8>, RenderError> {
    let texts = Texts::new();
    let mut renderer = Renderer { fetcher, texts: &texts, bytes: 0, way: Vec::new() };
    let result = renderer.render_whole(config);
    result.map_err(|source| RenderError { way: renderer.way.into_iter().map(|step| step.label).collect(), source })
}

/// Texts of configs, held until the last of them is no longer needed.
struct Texts {
    slots: Vec<OnceCell<Vec<u8>>>,
    used: Cell<usize>,
}

impl Texts {
    fn new() -> Self {
        Self { slots: vec![OnceCell::new(); MAX_CONFIGS], used: Cell::new(0) }
    }

    /// None if the limit is reached.
    fn keep(&self, text: Vec<u8>) -> Option<&[u8]> {
        let slot = self.slots.get(self.used.replace(self.used.get().saturating_add(1)))?;
        Some(slot.get_or_init(|| text))
    }
}

/// A reference that is being followed.
struct Step {
    label: String,
    source: String,
}

struct Renderer<'r> {
    fetcher: &'r mut Fetcher,
    texts: &'r Texts,
    /// Fetched so far.
    bytes: u64,
    /// Where we are; after a fault, where it is.
    way: Vec<Step>,
}

/// A config, and the version it is of.
struct Versioned<'a> {
    config: Document<'a>,
    version: Version,
}

impl Versioned<'_> {
    fn upgrade(&mut self, to: Version) {
        upgrade(&mut self.config, self.version, to);
        self.version = to;
    }

    fn merge(mut self, mut child: Self) -> Self {
        let to = self.version.max(child.version);
        self.upgrade(to);
        child.upgrade(to);
        Self { config: self.config.merge(child.config), version: to }
    }
}

impl<'r> Renderer<'r> {
    fn render_whole(&mut self, text: &'r [u8]) -> Result<Vec<u8>, RenderFault> {
        let config = self.read(text)?;
        self.fetcher.configure(&config.config.ignition)?;
        let mut rendered = self.render(config)?.config;
        rendered.ignition.config = References::default();
        let json = merged_json(&rendered).map_err(|error| match error {
            TranslateError::Invalid(report) => RenderFault::Merged(report),
            TranslateError::Parse(error) => error.into(),
            TranslateError::Lost { dropped, .. } => RenderFault::Merged(Report { entries: dropped }),
        })?;
        self.fetcher.configure(&rendered.ignition)?;
        Ok(json)
    }

    fn read(&self, text: &'r [u8]) -> Result<Versioned<'r>, RenderFault> {
        let (config, version, report) = parse(text)?;
        if report.is_fatal() {
            return Err(RenderFault::Invalid(report));
        }
        let label = self.way.last().map_or("the config itself", |step| &step.label);
        for warning in report.entries.iter().take(MAX_WARNINGS) {
            tracing::warn!(config = label, "{warning}");
        }
        Ok(Versioned { config, version })
    }

    fn render(&mut self, config: Versioned<'r>) -> Result<Versioned<'r>, RenderFault> {
        let References { merge, replace } = config.config.ignition.config.clone();
        if replace.source.is_some() {
            let replacement = self.fetch("replace".to_owned(), &replace)?;
            self.fetcher.configure(&replacement.config.ignition)?;
            let rendered = self.render(replacement)?;
            self.way.pop();
            return Ok(rendered);
        }
        let mut merged = config;
        for (place, reference) in merge.iter().enumerate() {
            let child = self.fetch(format!("merge.{place}"), reference)?;
            let settings = merged.config.ignition.clone().merge(child.config.ignition.clone());
            self.fetcher.configure(&settings)?;
            let child = self.render(child)?;
            merged = merged.merge(child);
            self.way.pop();
        }
        Ok(merged)
    }

    /// Fetches the config that is referred to, which becomes the last on the way.
    fn fetch(&mut self, place: String, reference: &Reference<'_>) -> Result<Versioned<'r>, RenderFault> {
        let location = Location::from(reference);
        let is_known = self.way.iter().any(|step| step.source == location.source);
        let step = Step {
            label: format!("$.ignition.config.{place} ({})", location.public_name()),
            source: location.source.to_owned(),
        };
        self.way.push(step);
        if is_known {
            return Err(RenderFault::Itself);
        }
        if self.way.len() > MAX_DEPTH {
            return Err(RenderFault::Depth);
        }
        let text = self.fetcher.fetch(&location)?.into_owned();
        self.bytes = self.bytes.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        if self.bytes > MAX_BYTES {
            return Err(RenderFault::Bytes);
        }
        tracing::info!(resource = location.public_name(), bytes = text.len(), "fetched a config");
        let text = self.texts.keep(text).ok_or(RenderFault::Configs)?;
        self.read(text)
    }
}
