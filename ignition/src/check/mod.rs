//! What the specification says of values: each type's own check (docs/compatibility.md#ignition-validation), in the order of Ignition's
//! reports.

mod storage;
mod systemd;
pub(crate) mod text;
mod unit;
pub(crate) mod url;

use crate::json::{JsonError, Kind, Lines, MAX_VALUES, Position, Value, parse as parse_json};
use crate::model::go_types::{CONFIG, STUB};
use crate::model::part::{Check, Decoder, Mismatch, Part, Seen, parts};
use crate::model::{
    Cex, Document, HttpHeader, Ignition, KernelArguments, Owner, Passwd, PasswdGroup, PasswdUser, Proxy, Reference,
    References, Resource, Security, Text, Timeouts, Tls, Verification, Version, VersionError,
};
use crate::report::{Entry, Report, Severity, Step, Walk};
use url::{Scheme, UrlError, scheme};

/// Why a config can't even be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("not a config (empty)")]
    Empty,
    /// No version, or none that is known.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// Not JSON, or JSON of another shape; the report says where.
    #[error("config is not valid")]
    Invalid(Report),
}

/// Reads a config and says all that is wrong with it. An error in the report means that Ignition would reject it; the
/// config is returned in any case.
pub fn parse(text: &[u8]) -> Result<(Document<'_>, Version, Report), ParseError> {
    parse_bounded(text, MAX_VALUES)
}

/// The same of a config that has no more than `max_values` values, keys among them. An empty object in a list is three bytes of
/// text and some hundred of memory, so that a limit of the text alone bounds nothing.
pub(crate) fn parse_bounded(text: &[u8], max_values: usize) -> Result<(Document<'_>, Version, Report), ParseError> {
    if text.is_empty() {
        return Err(ParseError::Empty);
    }
    let json = parse_json(text, max_values).map_err(|error| invalid_json(text, &error))?;
    let lines = Lines::index(text);
    let version = version(&json).map_err(|fault| match fault {
        Fault::Shape(mismatch) => invalid_shape(text, &mismatch),
        Fault::Version(error) => error.into(),
    })?;
    let mut decoder = Decoder::new(CONFIG, version);
    let mut config = Document::default();
    config.decode(json.root(), &mut decoder);
    if let Some(mismatch) = decoder.mismatch {
        return Err(invalid_shape(text, &mismatch));
    }
    let mut walk = Walk::new(version, &json, &lines);
    config.walk(&mut walk);
    config.duplicates("", &mut Seen::new(), &mut walk);
    <Document<'_> as Part<'_>>::unused(json.root(), &mut walk);
    let report = std::mem::take(&mut walk.report);
    Ok((config, version, report))
}

/// Why a version is unknown.
enum Fault {
    Shape(Mismatch),
    Version(VersionError),
}

/// The version in a config, known or unknown; None if it has none.
pub(crate) fn version_text(text: &[u8]) -> Option<String> {
    let json = parse_json(text, MAX_VALUES).ok()?;
    let mut stub = Stub::default();
    stub.decode(json.root(), &mut Decoder::new(STUB, Version::V3_0));
    Some(stub.ignition.version.into_owned()).filter(|version| !version.is_empty())
}

/// The version a document says it is of. Nothing else is looked at: its shape depends on it.
fn version(json: &crate::json::Document<'_>) -> Result<Version, Fault> {
    let mut decoder = Decoder::new(STUB, Version::V3_0);
    let mut stub = Stub::default();
    stub.decode(json.root(), &mut decoder);
    match decoder.mismatch {
        Some(mismatch) => Err(Fault::Shape(mismatch)),
        None => Version::parse(&stub.ignition.version).map_err(Fault::Version),
    }
}

parts! {
    /// `ignition.version` and nothing else.
    struct Stub<'a> {
        ignition: StubIgnition<'a> = "ignition",
    }

    struct StubIgnition<'a> {
        version: Text<'a> = "version",
    }
}

impl Check for Stub<'_> {}
impl Check for StubIgnition<'_> {}

/// Go counts the bytes it has read, the offending one included.
fn invalid_json(text: &[u8], error: &JsonError) -> ParseError {
    let read_bytes = match error {
        JsonError::Size { .. } => None,
        error => Some(error.offset().map_or(text.len(), |offset| offset.saturating_add(1))),
    };
    invalid(text, read_bytes, error.to_string())
}

fn invalid_shape(text: &[u8], mismatch: &Mismatch) -> ParseError {
    invalid(text, Some(mismatch.end), mismatch.message.clone())
}

/// One finding, at the byte that follows what was read.
fn invalid(text: &[u8], read_bytes: Option<usize>, message: String) -> ParseError {
    let position = read_bytes.map(|offset| match offset < text.len() {
        true => Lines::index(text).position(offset),
        false => Position::END,
    });
    ParseError::Invalid(Report { entries: vec![Entry { severity: Severity::Error, path: None, position, message }] })
}

macro_rules! nothing_to_check {
    ($($name:ty),*) => { $(impl Check for $name {})* };
}
nothing_to_check!(
    References<'_>,
    Security<'_>,
    Timeouts,
    KernelArguments<'_>,
    Passwd<'_>,
    PasswdGroup<'_>,
    PasswdUser<'_>,
    Cex
);

impl Check for Document<'_> {
    /// Paths of files and of units may not meet.
    fn check(&self, walk: &mut Walk<'_, '_>) {
        systemd::check_paths(self, walk);
    }
}

impl Check for Ignition<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        for (place, reference) in self.config.merge.iter().enumerate() {
            if walk.version >= Version::V3_1 {
                required_source(reference, &["config".into(), "merge".into(), place.into()], walk);
            }
        }
    }
}

impl Check for Tls<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        for (place, reference) in self.certificate_authorities.iter().enumerate() {
            let at: [Step<'_>; 3] = ["certificateAuthorities".into(), place.into(), "source".into()];
            match reference.source.as_deref().unwrap_or_default() {
                // 3.0 can't express a missing source.
                "" if walk.version == Version::V3_0 => walk.error(&at, UrlError::Scheme),
                _ if walk.version == Version::V3_0 => {}
                _ => required_source(reference, &at[..2], walk),
            }
        }
    }
}

fn required_source(reference: &Reference<'_>, at: &[Step<'_>], walk: &mut Walk<'_, '_>) {
    let source = reference.source.as_deref().unwrap_or_default();
    if source.is_empty() {
        walk.error(at, "source is required");
    } else if let Err(error) = url::check(source, walk.version) {
        walk.error(at, error);
    }
}

impl Check for Reference<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let Self { compression, http_headers, source, verification } = self;
        // Only from 3.1 on is it a resource like any other.
        let anything = Some("".into());
        let named = if walk.version == Version::V3_0 && source.is_none() { &anything } else { source };
        check_resource(compression, http_headers, named, verification, walk);
    }
}

impl Check for Resource<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let Self { compression, http_headers, source, verification } = self;
        check_resource(compression, http_headers, source, verification, walk);
    }
}

fn check_resource(
    compression: &Option<Text<'_>>,
    headers: &[HttpHeader<'_>],
    source: &Option<Text<'_>>,
    verification: &Verification<'_>,
    walk: &mut Walk<'_, '_>,
) {
    if !matches!(compression.as_deref(), None | Some("" | "gzip")) {
        walk.error(&["compression".into()], "invalid compression method");
    }
    if verification.hash.is_some() && source.is_none() {
        walk.error(&["verification".into(), "hash".into()], "source must be specified if verification is specified");
    }
    let named = source.as_deref().filter(|source| !source.is_empty());
    if let Some(Err(error)) = named.map(|source| url::check(source, walk.version)) {
        walk.error(&["source".into()], error);
    }
    if !headers.is_empty() {
        match named.map(scheme) {
            Some(Ok(Scheme::Http | Scheme::Https)) => {}
            Some(Ok(_)) => walk.error(&["httpHeaders".into()], "cannot use HTTP headers with this source scheme"),
            Some(Err(_)) | None => walk.error(&["httpHeaders".into()], "unable to parse url"),
        }
    }
}

impl Check for HttpHeader<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        if self.name.is_empty() {
            walk.error(&["name".into()], "HTTP header name can't be empty");
        }
        if self.value.as_deref() == Some("") {
            walk.error(&["value".into()], "unable to parse HTTP header");
        }
    }
}

impl Check for Verification<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        let Some(hash) = self.hash.as_deref() else { return };
        let fault = match hash.split_once('-') {
            Some(("sha512", sum)) => (sum.len() != 128).then_some("incorrect size for hash sum"),
            Some(("sha256", sum)) if walk.version >= Version::V3_1 => {
                (sum.len() != 64).then_some("incorrect size for hash sum")
            }
            Some(_) => Some("unrecognized hash function"),
            None => Some("malformed hash specifier"),
        };
        fault.into_iter().for_each(|fault| walk.error(&["hash".into()], fault));
    }
}

impl Check for Proxy<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        for (key, proxy) in [("httpProxy", &self.http_proxy), ("httpsProxy", &self.https_proxy)] {
            let Some(proxy) = proxy.as_deref() else { continue };
            match scheme(proxy) {
                Ok(Scheme::Http) if key == "httpsProxy" => {
                    walk.warning(&[key.into()], "insecure plaintext HTTP proxy specified for HTTPS resources");
                }
                Ok(Scheme::Http | Scheme::Https) => {}
                Ok(_) => walk.error(&[key.into()], "proxies must be http(s)"),
                Err(_) => walk.error(&[key.into()], "unable to parse url"),
            }
        }
    }
}

impl Check for Owner<'_> {
    fn check(&self, walk: &mut Walk<'_, '_>) {
        if self.id.is_some() && self.name.as_deref().is_some_and(|name| !name.is_empty()) {
            walk.error(&[], "cannot set both id and name");
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
