//! Butane: Ignition configs as people write them (docs/compatibility.md#butane).
//!
//! A document is read by Ignition's own schema under Butane's names of keys, and checked. What it says in short becomes configs
//! that its own is merged into by Ignition's rules; the result is validated as any config, and each finding is shown where it comes
//! from in the document.

mod check;
mod edition;
mod local;
mod openshift;
mod sugar;
mod value;

use crate::json::{MAX_VALUES, Value as Json, parse as parse_json};
use crate::model::part::{Part, Sequence};
use crate::model::shape::Shape;
use crate::model::{Disk, Document};
use crate::report::{DUPLICATE, Report, Severity};
use crate::yaml::{Content, NodeError, first_document};
use edition::Edition;
pub use edition::EditionError;
use local::Files;
use std::{collections::HashSet, io, path::Path};
use value::{At, Data, Findings, Value};

/// Larger documents are not written by people; what they embed is not in them.
const MAX_BYTES: usize = 32 << 20;
/// The root needs so much for updates.
const MIN_ROOT_MIB: i64 = 8192;
/// Labels of partitions of the system's image, and their numbers there.
const RESERVED_LABELS: [(&str, i64); 5] =
    [("BIOS-BOOT", 1), ("PowerPC-PReP-boot", 1), ("EFI-SYSTEM", 2), ("boot", 3), ("root", 4)];

/// How a document is translated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'o> {
    /// Where local files are; without it a document can't name any.
    pub files_dir: Option<&'o Path>,
    /// A document of OpenShift becomes a MachineConfig, not the Ignition config alone.
    pub machine_config: bool,
}

/// What a document became.
#[derive(Clone, Debug)]
pub struct Translated {
    /// Variant and version of the document.
    pub edition: String,
    /// An Ignition config, or a MachineConfig as YAML.
    pub text: Vec<u8>,
    /// Warnings alone.
    pub report: Report,
}

/// Why a document is not translated.
#[derive(Debug, thiserror::Error)]
pub enum ButaneError {
    /// Not YAML.
    #[error("{0}")]
    Yaml(String),
    /// Variant and version are not known.
    #[error(transparent)]
    Edition(#[from] EditionError),
    #[error("the directory of local files can't be opened")]
    Files(#[source] io::Error),
    #[error("the document is not valid:\n{0}")]
    Invalid(Report),
}

impl From<NodeError> for ButaneError {
    fn from(error: NodeError) -> Self {
        Self::Yaml(error.to_string())
    }
}

/// Translates a document, in UTF-8 or, behind a byte order mark, in UTF-16.
pub fn translate(text: &[u8], options: &Options<'_>) -> Result<Translated, ButaneError> {
    let text = &*kernel::butane::plain(text);
    let root = first_document(text, MAX_BYTES)?.ok_or(EditionError::NoVariant)?;
    let word = |key: &str| match &root.content {
        Content::Mapping(members) => members.iter().find(|member| &*member.key == key).and_then(|member| {
            if let Content::Scalar { text, .. } = &member.value.content { Some(text.to_string()) } else { None }
        }),
        _ => None,
    };
    let edition = Edition::find(&word("variant").unwrap_or_default(), &word("version").unwrap_or_default())?;
    let (mut findings, at) = Findings::new(root.at);
    let document = value::read(&root, Document::SHAPE, edition, at, &mut findings);
    let whole = options.machine_config && edition.openshift.is_some();
    let mut files = Files::open(options.files_dir).map_err(ButaneError::Files)?;
    let mut job = Job { edition, whole, findings, layers: Vec::new() };
    let text = document.and_then(|document| job.run(document, &mut files));
    let report = job.findings.report;
    match text {
        Some(text) if !report.is_fatal() => Ok(Translated { edition: edition.to_string(), text, report }),
        _ => Err(ButaneError::Invalid(report)),
    }
}

struct Job {
    edition: Edition,
    /// Whether a MachineConfig is made.
    whole: bool,
    findings: Findings,
    /// Configs in the order in which they are merged; the last is the document's own.
    layers: Vec<Value>,
}

impl Job {
    /// The text, unless there are errors by then.
    fn run(&mut self, mut document: Value, files: &mut Files) -> Option<Vec<u8>> {
        let is_fatal = |job: &Self| job.findings.report.is_fatal();
        if is_fatal(self) {
            return None;
        }
        if self.edition.openshift.is_some() && document.get("metadata").is_none() {
            let at = self.findings.member(&document, "metadata");
            document.set("metadata", Value { at, data: Data::Object("Metadata", Vec::new()) });
        }
        check::check(&document, self.edition, &mut self.findings);
        if is_fatal(self) {
            return None;
        }
        local::embed(&mut document, self.edition, files, &mut self.findings);
        let (metadata, spec) = (document.take("metadata"), document.take("openshift"));
        self.layers = sugar::layers(&mut document, self.edition);
        for key in ["variant", "version"] {
            document.take(key);
        }
        self.layers.push(document);
        if is_fatal(self) {
            return None;
        }
        let config = self.merge(spec.as_ref())?;
        self.validate(&config, spec.as_ref());
        if is_fatal(self) || !self.whole {
            return Some(config);
        }
        match openshift::machine_config(metadata.as_ref(), spec.as_ref(), &config) {
            Ok(text) => Some(text.into_bytes()),
            Err(error) => {
                self.findings.error(self.layers.last()?.at, error);
                None
            }
        }
    }

    /// The config that the layers make, as JSON.
    fn merge(&mut self, spec: Option<&Value>) -> Option<Vec<u8>> {
        let version = self.edition.ignition;
        let at = self.layers.last()?.at;
        for layer in &mut self.layers {
            let mut ignition = layer.take("ignition").unwrap_or_else(|| at.object([]));
            ignition.set("version", at.text(version.name()));
            layer.set("ignition", ignition);
        }
        let text = |layer: &Value| {
            let mut text = Vec::new();
            layer.write(&mut text);
            text
        };
        let texts: Vec<Vec<u8>> = self.layers.iter().map(text).collect();
        let mut merged: Option<Document<'_>> = None;
        for text in texts.iter().rev() {
            let config = match crate::parse(text) {
                Ok((config, ..)) => config,
                Err(error) => {
                    self.findings.error(at, error);
                    return None;
                }
            };
            merged = Some(match merged {
                Some(child) => config.merge(child),
                None => config,
            });
        }
        let mut merged = merged?;
        if let Some(minor) = self.edition.openshift {
            for luks in &mut merged.storage.luks {
                let options: Vec<&str> = luks.options.iter().map(|option| &**option).collect();
                if let Some(added) = openshift::fips_options(minor, spec, &options) {
                    let options = std::mem::take(&mut luks.options).0;
                    luks.options = Sequence(options.into_iter().chain(added.map(Into::into)).collect());
                }
            }
        }
        let json = merged.to_json();
        self.partitions(&merged.storage.disks, &json);
        Some(json)
    }

    /// Says what will keep the root file system from growing, or make a second one.
    fn partitions(&mut self, disks: &[Disk<'_>], json: &[u8]) {
        let mut found = Vec::new();
        for (index, disk) in disks.iter().enumerate() {
            for (place, partition) in disk.partitions.iter().enumerate() {
                let at = format!("$.storage.disks.{index}.partitions.{place}");
                let label = partition.label.as_deref().unwrap_or_default();
                if label == "root" && self.edition.fcos >= 3 {
                    let floats = |start: Option<i64>| start.unwrap_or_default() == 0;
                    // Partitions are made in their order, each in the first place that is large enough.
                    let mut later = disk.partitions.iter().skip(place + 1);
                    match partition.size_mib.unwrap_or_default() {
                        0 if later.any(|other| floats(other.start_mib)) => {
                            found.push((
                                format!("{at}.label"),
                                "the root partition can't grow: another one has no start and may follow it",
                            ));
                        }
                        0 => {}
                        size if size < MIN_ROOT_MIB => {
                            found.push((format!("{at}.sizeMiB"), "the root partition should have 8 GiB"));
                        }
                        _ => {}
                    }
                }
                let reserved = RESERVED_LABELS.into_iter().find(|(reserved, _)| *reserved == label);
                if disk.wipe_table != Some(true) && reserved.is_some_and(|(_, number)| number != partition.number) {
                    found.push((
                        format!("{at}.label"),
                        "this label is of another partition of the image: a second one would get it",
                    ));
                }
            }
        }
        let Ok(json) = parse_json(json, MAX_VALUES) else { return };
        for (path, message) in found {
            let at = self.locate(&path, json.root());
            self.findings.warning(at, message);
        }
    }

    /// Checks the config as Ignition and the machine config operator do.
    fn validate(&mut self, config: &[u8], spec: Option<&Value>) {
        let mut found: Vec<(Severity, String, String)> = Vec::new();
        let Ok(json) = parse_json(config, MAX_VALUES) else { return };
        if let Some(minor) = self.edition.openshift {
            openshift::refused(json.root(), minor, self.whole, &mut |path, message| {
                found.push((Severity::Error, path, message.to_owned()));
            });
        }
        if found.is_empty() {
            match crate::parse(config) {
                Ok((_, _, report)) => {
                    let entries = report.entries.into_iter();
                    found.extend(entries.map(|entry| (entry.severity, entry.path.unwrap_or_default(), entry.message)));
                }
                Err(error) => found.push((Severity::Error, "$".to_owned(), error.to_string())),
            }
        }
        for (severity, path, message) in found {
            let at = self.locate(&path, json.root());
            self.findings.add(severity, at, message);
        }
        let Some(Value { data: Data::Object(_, members), .. }) = spec else { return };
        for (_, value) in members {
            if !self.whole {
                self.findings.warning(value.at, "it is not part of the Ignition config and left out");
                continue;
            }
            let mut seen = HashSet::new();
            for item in value.items().iter().filter(|item| !seen.insert(item.text())) {
                self.findings.error(item.at, DUPLICATE);
            }
        }
    }

    /// Where a value of the merged config comes from, or the deepest one around it. Entries of lists are found by their keys, since
    /// merging moves them.
    fn locate(&mut self, path: &str, root: Json<'_, '_>) -> At {
        let Self { layers, findings, .. } = self;
        let mut candidates: Vec<&Value> = layers.iter().rev().collect();
        let (mut shape, mut json) = (Document::SHAPE, root);
        let mut steps = path.split('.').skip(1).peekable();
        while let Some(step) = steps.peek() {
            let (next, below): (Vec<&Value>, _) = match shape {
                Shape::List(of, keys) => {
                    let index = step.parse().unwrap_or(usize::MAX);
                    let Some(item) = json.items().nth(index) else { break };
                    let next = candidates.iter().filter_map(|list| entry(list.items(), index, item, keys));
                    (next.collect(), Some((*of, item)))
                }
                Shape::Object { fields, .. } => {
                    let next = candidates.iter().filter_map(|object| object.get(step));
                    let field = fields.iter().find(|field| field.key == *step);
                    (next.collect(), field.and_then(|field| Some((field.shape, json.member(step)?))))
                }
                _ => break,
            };
            let Some(below) = below.filter(|_| !next.is_empty()) else { break };
            steps.next();
            (candidates, (shape, json)) = (next, below);
        }
        match (candidates.first(), steps.next()) {
            // The document could have what is missing here.
            (Some(found), Some(key)) if found.is_named() => findings.member(found, key),
            (Some(found), _) => found.at,
            (None, _) => findings.root(),
        }
    }
}

/// The entry of a list with the same keys; the one in the same place if there are several.
fn entry<'v>(list: &'v [Value], index: usize, item: Json<'_, '_>, keys: &[&str]) -> Option<&'v Value> {
    let is_same = |value: &&Value| match value.text() {
        Some(text) => item.text().is_some_and(|other| other == text),
        None => keys.iter().all(|key| same(value.get(key), item.member(key))),
    };
    let in_place = list.get(index).filter(|value| is_same(value));
    in_place.or_else(|| list.iter().find(|value| !keys.is_empty() && is_same(value)))
}

/// Whether a key's field is the same; nothing is as good as missing.
fn same(value: Option<&Value>, json: Option<Json<'_, '_>>) -> bool {
    match value.map(|value| &value.data) {
        Some(Data::Text(text)) => json.and_then(|json| json.text()).is_some_and(|other| other == **text),
        Some(Data::Number(number)) if *number != 0 => {
            json.is_some_and(|json| json.source() == number.to_string().as_bytes())
        }
        _ => json.is_none_or(|json| json.text().is_some_and(|text| text.is_empty())),
    }
}

#[cfg(test)]
mod tests;
