//! Contents that a document brings itself or names in the directory of local files: texts, files, trees.

use super::edition::Edition;
use super::value::{At, Data, Findings, Value};
use crate::apply::{Place, Root, is_directory, is_link, is_regular};
use crate::check::text::clean;
use crate::model::VersionError;
use crate::{ParseError, data_url, resource};
use std::{collections::HashMap, io, path::Path};

/// What stands in a `data:` URL as it is, beside letters and digits (RFC 2396, "unreserved").
const PLAIN: &[u8] = b"-_.!~*'()";
/// What local files may have together.
const MAX_BYTES: u64 = 128 << 20;
/// How many entries trees may have together, and how deep they may be.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 128;

const NO_DIRECTORY: &str = "local files need a directory: name it with --files-dir";
const EXISTS: &str = "the config has this entry with contents, or as something else";

/// Why a local file is not read.
#[derive(Debug, thiserror::Error)]
enum LocalError {
    #[error("{NO_DIRECTORY}")]
    NoDirectory,
    #[error("'{}' leads out of the directory of local files", .0.escape_debug())]
    Outside(String),
    #[error("'{}' can't be read: {error}", path.escape_debug())]
    Io { path: String, error: io::Error },
    #[error("'{}' is not UTF-8", .0.escape_debug())]
    NotText(String),
}

/// The directory of local files, if there is one.
pub(super) struct Files {
    root: Option<Root>,
    bytes_left: u64,
    entries_left: usize,
}

impl Files {
    pub(super) fn open(directory: Option<&Path>) -> io::Result<Self> {
        let root = directory.map(Root::open).transpose()?;
        Ok(Self { root, bytes_left: MAX_BYTES, entries_left: MAX_ENTRIES })
    }

    /// Where a path leads. No link and no `..` leads out of the directory.
    fn find(&self, path: &str) -> Result<(&Root, Place), LocalError> {
        let root = self.root.as_ref().ok_or(LocalError::NoDirectory)?;
        let mut depth = 0_usize;
        for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
            let next = if part == ".." { depth.checked_sub(1) } else { Some(depth + 1) };
            depth = next.ok_or_else(|| LocalError::Outside(path.to_owned()))?;
        }
        let place =
            root.follow(clean(&format!("/{path}"))).map_err(|error| LocalError::Io { path: path.to_owned(), error })?;
        Ok((root, place))
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, LocalError> {
        let (root, place) = self.find(path)?;
        let bytes =
            root.read_at(&place, self.bytes_left).map_err(|error| LocalError::Io { path: path.to_owned(), error })?;
        self.bytes_left = self.bytes_left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(bytes)
    }

    fn read_text(&mut self, path: &str) -> Result<String, LocalError> {
        String::from_utf8(self.read(path)?).map_err(|_| LocalError::NotText(path.to_owned()))
    }
}

/// How contents become URLs in this version.
#[derive(Clone, Copy)]
pub(super) struct Encoder {
    /// Later versions take the shortest of several forms.
    chooses: bool,
    packs: bool,
}

impl Encoder {
    pub(super) fn of(edition: Edition) -> Self {
        // The machine config operator of these unpacked nothing.
        let packs = edition.openshift.is_none_or(|minor| minor >= 10);
        Self { chooses: edition.fcos >= 1, packs }
    }

    /// Gives a resource its source, and says how it is compressed.
    pub(super) fn set(self, resource: &mut Value, bytes: &[u8], at: At) {
        let escaped = data_url::percent_but(bytes, PLAIN);
        if !self.chooses {
            resource.set("source", at.text(escaped));
            return;
        }
        let base64 = data_url::base64(bytes);
        let mut url = if base64.len() < escaped.len() { base64 } else { escaped };
        if resource.text_at("compression").is_empty() {
            let mut compression = "";
            let packed = self.packs.then(|| data_url::base64(&resource::gzip(bytes)));
            if let Some(packed) = packed.filter(|packed| packed.len() + "gzip".len() < url.len()) {
                (url, compression) = (packed, "gzip");
            }
            // An empty one keeps a parent's from being inherited.
            resource.set("compression", at.text(compression));
        }
        resource.set("source", at.text(url));
    }
}

/// Puts everything that a document brings or names into it.
pub(super) fn embed(document: &mut Value, edition: Edition, files: &mut Files, findings: &mut Findings) {
    let encoder = Encoder::of(edition);
    document.each_object_mut(&mut |name, object| match name {
        "References" => {
            if let Some(Value { data: Data::List(merge), .. }) = object.get_mut("merge") {
                merge.iter_mut().for_each(|config| contents(config, true, encoder, files, findings));
            }
            if let Some(replace) = object.get_mut("replace") {
                contents(replace, true, encoder, files, findings);
            }
        }
        "Resource" | "Reference" => contents(object, false, encoder, files, findings),
        "Unit" | "Dropin" => {
            let Some(local) = object.take("contentsLocal") else { return };
            match local.text().filter(|path| !path.is_empty()).map(|path| files.read_text(path)) {
                Some(Ok(text)) => object.set("contents", local.at.text(text)),
                Some(Err(error)) => findings.error(local.at, error),
                None => {}
            }
        }
        "PasswdUser" => {
            let Some(local) = object.take("sshAuthorizedKeysLocal") else { return };
            for file in local.items() {
                match files.read_text(file.text().unwrap_or_default()) {
                    Ok(text) => {
                        let keys = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
                        let keys = keys.filter(|key| !key.is_empty()).map(|key| file.at.text(key));
                        if let Some(list) = object.list_mut("sshAuthorizedKeys", local.at) {
                            list.extend(keys);
                        }
                    }
                    Err(error) => findings.error(file.at, error),
                }
            }
        }
        _ => {}
    });
    trees(document, encoder, files, findings);
}

fn contents(object: &mut Value, is_config: bool, encoder: Encoder, files: &mut Files, findings: &mut Findings) {
    let (local, inline) = (object.take("local"), object.take("inline"));
    let Some(source) = local.as_ref().or(inline.as_ref()) else { return };
    let text = source.text().unwrap_or_default();
    let bytes = match local.is_some() {
        true => files.read(text),
        false => Ok(text.as_bytes().to_vec()),
    };
    match bytes {
        Ok(bytes) => {
            // What is compressed is not looked into.
            if is_config && (local.is_none() || object.text_at("compression").is_empty()) {
                config(&bytes, source.at, findings);
            }
            encoder.set(object, &bytes, source.at);
        }
        Err(error) => findings.error(source.at, error),
    }
}

/// What Ignition would say of a config within this one.
fn config(text: &[u8], at: At, findings: &mut Findings) {
    let report = match crate::parse(text) {
        Ok((_, _, report)) | Err(ParseError::Invalid(report)) => report,
        Err(ParseError::Version(VersionError::Unsupported)) => {
            findings.warning(at, "the config in it is of an unknown version and is not checked");
            return;
        }
        Err(error) => {
            findings.error(at, error);
            return;
        }
    };
    for entry in report.entries {
        let place = entry.path.unwrap_or_else(|| "JSON".to_owned());
        findings.add(entry.severity, at, format!("in the config, at {}: {}", place.escape_debug(), entry.message));
    }
}

/// A kind of entry, by the list it is in.
type Kind = &'static str;
const KINDS: [Kind; 3] = ["directories", "files", "links"];

/// Where each path is in the lists of a config.
struct Nodes(HashMap<(Kind, String), usize>);

impl Nodes {
    fn of(storage: &Value) -> Self {
        let entries = KINDS.into_iter().flat_map(|kind| {
            let paths = storage.items_at(&[kind]).iter().enumerate();
            paths.map(move |(place, entry)| ((kind, entry.text_at("path").to_owned()), place))
        });
        Self(entries.collect())
    }

    fn find(&self, kind: Kind, path: &str) -> Option<usize> {
        self.0.get(&(kind, path.to_owned())).copied()
    }

    fn exists(&self, path: &str) -> bool {
        KINDS.into_iter().any(|kind| self.find(kind, path).is_some())
    }
}

fn trees(document: &mut Value, encoder: Encoder, files: &mut Files, findings: &mut Findings) {
    let Some(storage) = document.get_mut("storage") else { return };
    let Some(trees) = storage.take("trees") else { return };
    let mut nodes = Nodes::of(storage);
    for tree in trees.items() {
        let local = tree.text_at("local");
        let place = match files.find(local) {
            Ok((root, place)) => match root.stat(&place) {
                Ok(Some(stat)) if is_directory(&stat) => place,
                Ok(_) => {
                    findings.error_at(tree, "local", format!("'{}' is not a directory", local.escape_debug()));
                    continue;
                }
                Err(error) => {
                    findings.error_at(tree, "local", LocalError::Io { path: local.to_owned(), error });
                    continue;
                }
            },
            Err(error) => {
                findings.error_at(tree, "local", error);
                continue;
            }
        };
        let base = Some(tree.text_at("path")).filter(|path| !path.is_empty()).unwrap_or("/");
        let mut walk = Walk { tree, encoder, files, findings, storage, nodes: &mut nodes };
        walk.entry(&place, &clean(base), 0);
    }
}

struct Walk<'w> {
    tree: &'w Value,
    encoder: Encoder,
    files: &'w mut Files,
    findings: &'w mut Findings,
    storage: &'w mut Value,
    nodes: &'w mut Nodes,
}

impl Walk<'_> {
    /// Takes an entry of the tree, and all that is in it, by name. After a fault, the others are taken all the same.
    fn entry(&mut self, place: &Place, path: &str, depth: usize) {
        if let Err(fault) = self.take(place, path, depth) {
            self.findings.error(self.tree.at, format!("{}: {fault}", path.escape_debug()));
        }
    }

    fn take(&mut self, place: &Place, path: &str, depth: usize) -> Result<(), String> {
        let Some(left) = self.files.entries_left.checked_sub(1) else {
            return if depth == 1 { Err(format!("trees have more than {MAX_ENTRIES} entries")) } else { Ok(()) };
        };
        self.files.entries_left = left;
        let root = self.files.root.as_ref().ok_or(NO_DIRECTORY)?;
        let stat = root.stat(place).map_err(|error| error.to_string())?.ok_or("it is missing")?;
        if is_directory(&stat) {
            if depth >= MAX_DEPTH {
                return Err(format!("the tree is deeper than {MAX_DEPTH} directories"));
            }
            let names = root.names(place).map_err(|error| error.to_string())?;
            // Otherwise directories are created where files need them.
            if ["dirMode", "user", "group"].into_iter().any(|key| self.tree.get(key).is_some_and(is_given)) {
                let mode = self.tree.number_at("dirMode").unwrap_or(0o755);
                let entry = self.add("directories", path)?;
                entry.set("mode", entry.at.number(mode));
            }
            for name in names {
                let below = name.to_str().ok_or("a name in it is not UTF-8")?;
                self.entry(&place.join(&name), &clean(&format!("{path}/{below}")), depth + 1);
            }
            return Ok(());
        }
        if is_regular(&stat) {
            let bytes = root.read_at(place, self.files.bytes_left).map_err(|error| error.to_string())?;
            self.files.bytes_left =
                self.files.bytes_left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            let is_program = stat.st_mode & 0o111 != 0;
            let mode = self.tree.number_at("fileMode").unwrap_or(if is_program { 0o755 } else { 0o644 });
            let (encoder, at) = (self.encoder, self.tree.at);
            let file = self.known_or_new("files", path, &["contents", "source"])?;
            let mut contents = file.take("contents").unwrap_or_else(|| at.object([]));
            encoder.set(&mut contents, &bytes, at);
            file.set("contents", contents);
            if file.get("mode").is_none() {
                file.set("mode", at.number(mode));
            }
        } else if is_link(&stat) {
            let target = root.link_target(place).map_err(|error| error.to_string())?;
            let target = target.into_string().map_err(|_| "its target is not UTF-8")?;
            let at = self.tree.at;
            self.known_or_new("links", path, &["target"])?.set("target", at.text(target));
        } else {
            return Err("it is not a file, directory or link".to_owned());
        }
        Ok(())
    }

    /// The entry of the config that a tree's entry completes, or a new one.
    fn known_or_new(&mut self, kind: Kind, path: &str, filled: &[&str]) -> Result<&mut Value, String> {
        let Some(place) = self.nodes.find(kind, path) else { return self.add(kind, path) };
        let known = self.storage.list_mut(kind, self.tree.at).and_then(|list| list.get_mut(place)).ok_or(EXISTS)?;
        let is_filled = known.find(filled).and_then(Value::text).is_some_and(|text| !text.is_empty());
        if is_filled { Err(EXISTS.to_owned()) } else { Ok(known) }
    }

    fn add(&mut self, kind: Kind, path: &str) -> Result<&mut Value, String> {
        if self.nodes.exists(path) {
            return Err(EXISTS.to_owned());
        }
        let owner = |key: &str| self.tree.get(key).filter(|owner| is_given(owner)).cloned();
        let at = self.tree.at;
        let entry = at.object([("path", Some(at.text(path))), ("user", owner("user")), ("group", owner("group"))]);
        let list = self.storage.list_mut(kind, at).ok_or(EXISTS)?;
        self.nodes.0.insert((kind, path.to_owned()), list.len());
        list.push(entry);
        list.last_mut().ok_or_else(|| EXISTS.to_owned())
    }
}

fn is_given(value: &Value) -> bool {
    !matches!(&value.data, Data::Object(_, members) if members.is_empty())
}
