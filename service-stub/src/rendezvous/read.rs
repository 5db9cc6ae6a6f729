//! Parses files into documents, and documents into fields. What a reader does not ask for is unknown, and named with its line.

use super::PlanError;
use ignition::{
    json_tree,
    yaml::{self, Content, Member, Node, NodeError, WordedError, YamlError},
};
use kernel::{order, spelling};
use serde_json::{Map, Value};
use std::{cell::RefCell, fs, io::Read, path::Path};
use toml::de::{DeTable, DeValue};

/// A larger file is not a manifest.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of files in a directory.
const MAX_FILES: usize = 1000;
/// Places in which nothing may be left unread: they say which machines are installed, on which disks, and how safely.
const GUARDED: [&str; 8] =
    ["rootDeviceHints", "disk", "machine", "hosts", "interfaces", "diskEncryption", "fips", "annotations"];

/// One document of a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Name of its file, in its directory.
    pub(crate) file: String,
    root: Node,
}

/// Every document of every `*.yaml`, `*.yml`, `*.json` and `*.toml` in a directory, sorted by file name.
pub fn documents(path: &Path) -> Result<Vec<Document>, PlanError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| PlanError::Read { path, source }
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(failed(path))? {
        let path = entry.map_err(failed(path))?.path();
        let known = path.extension().is_some_and(|end| ["yaml", "yml", "json", "toml"].iter().any(|own| end == *own));
        if known && path.is_file() {
            paths.push(path);
        }
    }
    if paths.len() > MAX_FILES {
        return Err(PlanError::TooMuch { what: format!("{}: {} files", path.display(), paths.len()), most: MAX_FILES });
    }
    order::sort(&mut paths);
    if paths.is_empty() {
        let hint = format!("{} has no *.yaml, *.yml, *.json or *.toml", path.display());
        return Err(PlanError::Missing { what: "documents", hint });
    }
    let mut documents = Vec::new();
    for path in paths {
        let mut text = String::new();
        let file = fs::File::open(&path).map_err(failed(&path))?;
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed(&path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
            return Err(PlanError::TooMuch { what: format!("{name}: bytes"), most: 4 << 20 });
        }
        documents.extend(parse(&name, &text)?);
    }
    Ok(documents)
}

/// The documents of one file, whose format follows from its extension. A parser's message may quote a secret, so errors give only
/// the line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Document>, PlanError> {
    let max_bytes = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
    let roots = if file.ends_with(".toml") {
        vec![toml_tree(file, text)?]
    } else if file.ends_with(".json") {
        vec![json_tree(text.as_bytes(), max_bytes).map_err(|error| no_tree(file, "JSON", error))?]
    } else {
        yaml::trees(text.as_bytes(), max_bytes).map_err(|error| no_tree(file, "YAML", error))?
    };
    let roots = roots.into_iter().filter(|root| !is_null(root));
    Ok(roots.flat_map(items).map(|root| Document { file: file.to_owned(), root }).collect())
}

fn no_tree(file: &str, kind: &'static str, error: NodeError) -> PlanError {
    let file = file.to_owned();
    let syntax = |line| PlanError::Syntax { file: file.clone(), kind, line };
    match error {
        NodeError::Twice { first, at, key } => PlanError::Twice { file, key, first: Some(first.line), line: at.line },
        NodeError::Here { at, what } => PlanError::Unusual { file, what, line: at.line },
        NodeError::Yaml(WordedError::Parser(error)) => syntax(error.location().map(|at| at.line())),
        NodeError::Yaml(WordedError::Bound(YamlError::Syntax { line, .. })) => syntax(line),
        NodeError::Yaml(WordedError::Bound(reason)) => PlanError::Yaml { file, reason },
    }
}

/// A list of Kubernetes' own kind, as `kubectl get` prints it, is what is in it.
fn items(root: Node) -> Vec<Node> {
    let Content::Mapping(members) = &root.content else { return vec![root] };
    let member = |name: &str| members.iter().find(|member| &*member.key == name).map(|member| &member.value.content);
    match (member("kind"), member("items")) {
        (Some(Content::Scalar { text, .. }), Some(Content::Sequence(items))) if &**text == "List" => items.to_vec(),
        _ => vec![root],
    }
}

fn toml_tree(file: &str, text: &str) -> Result<Node, PlanError> {
    let at = |offset: usize| ignition::Position {
        line: text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1,
        column: 1,
    };
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| at(span.start).line);
        match error.message() {
            "duplicate key" => {
                let key = error.span().and_then(|span| text.get(span)).unwrap_or_default().to_owned();
                PlanError::Twice { file: file.to_owned(), key, first: None, line: line.unwrap_or_default() }
            }
            _ => PlanError::Syntax { file: file.to_owned(), kind: "TOML", line },
        }
    })?;
    Ok(of_table(table.get_ref(), at(0), &at))
}

fn of_table(table: &DeTable, place: ignition::Position, at: &dyn Fn(usize) -> ignition::Position) -> Node {
    let members = table.iter().map(|(key, value)| Member {
        key: key.get_ref().as_ref().into(),
        at: at(key.span().start),
        value: of_value(value.get_ref(), at(value.span().start), at),
    });
    Node { at: place, content: Content::Mapping(members.collect::<Vec<_>>().into()) }
}

fn of_value(value: &DeValue, place: ignition::Position, at: &dyn Fn(usize) -> ignition::Position) -> Node {
    let scalar = |text: &str, is_plain| Content::Scalar { text: text.into(), is_plain };
    let content = match value {
        DeValue::Table(table) => return of_table(table, place, at),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| of_value(item.get_ref(), at(item.span().start), at));
            Content::Sequence(items.collect::<Vec<_>>().into())
        }
        DeValue::String(text) => scalar(text, false),
        DeValue::Integer(number) if number.radix() == 10 => scalar(number.as_str(), true),
        DeValue::Integer(number) => {
            let read = i128::from_str_radix(number.as_str(), number.radix());
            scalar(&read.map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()), true)
        }
        DeValue::Float(number) => scalar(number.as_str(), true),
        DeValue::Boolean(flag) => scalar(if *flag { "true" } else { "false" }, true),
        DeValue::Datetime(time) => scalar(&time.to_string(), false),
    };
    Node { at: place, content }
}

fn is_null(node: &Node) -> bool {
    matches!(&node.content, Content::Scalar { text, is_plain: true } if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
}

/// Nothing is said by it: null, or nothing in it.
fn is_empty(node: &Node) -> bool {
    match &node.content {
        Content::Scalar { text, .. } => is_null(node) || text.trim().is_empty(),
        Content::Sequence(items) => items.iter().all(is_empty),
        Content::Mapping(members) => members.iter().all(|member| is_empty(&member.value)),
    }
}

/// As JSON. Plain text is what YAML takes it for.
fn to_value(node: &Node) -> Value {
    match &node.content {
        Content::Scalar { text, is_plain: true } => yaml::document(text.as_bytes(), text.len())
            .ok()
            .filter(|read: &Value| !read.is_object() && !read.is_array())
            .unwrap_or_else(|| (**text).into()),
        Content::Scalar { text, .. } => (**text).into(),
        Content::Sequence(items) => items.iter().map(to_value).collect(),
        Content::Mapping(members) => {
            members.iter().map(|member| (member.key.to_string(), to_value(&member.value))).collect::<Map<_, _>>().into()
        }
    }
}

/// What reading documents left over.
#[derive(Default)]
pub(crate) struct Rest {
    unknown: Vec<Unknown>,
    /// What does nothing here, each with its reason.
    pub(crate) idle: Vec<String>,
}

/// A field that no reader asked for.
struct Unknown {
    place: String,
    /// It may be no warning.
    is_guarded: bool,
}

impl Rest {
    /// Refuses unknown fields. With `ignored` they are warnings, but for those that could cost somebody a disk.
    pub(crate) fn warnings(&self, ignored: bool) -> Result<Vec<String>, PlanError> {
        let refused: Vec<&str> = self
            .unknown
            .iter()
            .filter(|field| !ignored || field.is_guarded)
            .map(|field| field.place.as_str())
            .collect();
        if !refused.is_empty() {
            return Err(PlanError::Unknown { fields: refused.join("; ") });
        }
        Ok(self.unknown.iter().map(|field| format!("ignored as asked: {}", field.place)).collect())
    }
}

/// An object whose fields are taken one by one. Fields left when it is dropped are added to the rest.
pub(crate) struct Fields<'a> {
    pub(crate) file: &'a str,
    path: String,
    left: Vec<Member>,
    /// The names and lines of those that were there.
    lines: Vec<(String, usize)>,
    /// What was asked for.
    asked: Vec<String>,
    rest: &'a RefCell<Rest>,
}

impl<'a> Fields<'a> {
    /// The fields of a document.
    pub(crate) fn from_document(document: &'a Document, rest: &'a RefCell<Rest>) -> Result<Self, PlanError> {
        Self::new(&document.file, String::new(), &document.root, rest)
    }

    fn new(file: &'a str, path: String, node: &Node, rest: &'a RefCell<Rest>) -> Result<Self, PlanError> {
        let left = match &node.content {
            Content::Mapping(members) => members.to_vec(),
            _ if is_null(node) => Vec::new(),
            _ => {
                let place = if path.is_empty() { "the document" } else { &path };
                return Err(wrong(file, place, "an object", node));
            }
        };
        let lines = left.iter().map(|member| (member.key.to_string(), member.at.line)).collect();
        Ok(Self { file, path, left, lines, asked: Vec::new(), rest })
    }

    /// The path of a field, for messages.
    pub(crate) fn place(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Its file and path.
    pub(crate) fn full_place(&self, name: &str) -> String {
        format!("{}: {}", self.file, self.place(name))
    }

    /// An error about a field.
    pub(crate) fn error(&self, name: &str, reason: impl ToString) -> PlanError {
        let first = name.split(['.', '[']).next().unwrap_or(name);
        let line = self.lines.iter().find(|(known, _)| known == first || known == name).map(|(_, line)| *line);
        PlanError::Field { file: self.file.to_owned(), field: self.place(name), reason: reason.to_string(), line }
    }

    /// Whether the field exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.left.iter().any(|member| &*member.key == name)
    }

    /// Whether the field is an empty text, unlike a missing one.
    pub(crate) fn is_empty_text(&self, name: &str) -> bool {
        self.left.iter().any(|member| {
            &*member.key == name
                && matches!(&member.value.content, Content::Scalar { text, is_plain: false } if text.is_empty())
        })
    }

    fn take(&mut self, name: &str) -> Option<Node> {
        if !self.asked.iter().any(|asked| asked == name) {
            self.asked.push(name.to_owned());
        }
        let at = self.left.iter().position(|member| &*member.key == name)?;
        Some(self.left.remove(at).value).filter(|value| !is_null(value))
    }

    /// A field as it is; null counts as absent.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        self.take(name).as_ref().map(to_value)
    }

    /// Takes fields that do nothing here, each with the reason. Those that say something are listed.
    pub(crate) fn idle(&mut self, fields: &[(&str, &str)]) {
        for (name, reason) in fields {
            if self.take(name).is_some_and(|value| !is_empty(&value)) {
                let text = format!("{}: does nothing here: {reason}", self.full_place(name));
                self.rest.borrow_mut().idle.push(text);
            }
        }
    }

    /// Refuses fields that ask for what this service does not do, each with the reason. Empty ones ask for nothing.
    pub(crate) fn refuse(&mut self, fields: &[(&str, &str)]) -> Result<(), PlanError> {
        for (name, reason) in fields {
            let asks = |value: &Node| !is_empty(value) && to_value(value) != Value::Bool(false);
            if self.take(name).as_ref().is_some_and(asks) {
                return Err(self.error(name, format!("is not supported: {reason}")));
            }
        }
        Ok(())
    }

    /// Names something of the documents that does nothing here.
    pub(crate) fn note(&self, text: String) {
        self.rest.borrow_mut().idle.push(format!("{}: {text}", self.file));
    }

    /// A text; numbers and booleans count as the text they were written as.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, PlanError> {
        let Some(node) = self.take(name) else { return Ok(None) };
        match &node.content {
            Content::Scalar { text, .. } => Ok(Some(text.to_string()).filter(|text| !text.trim().is_empty())),
            _ => Err(wrong(self.file, &self.place(name), "a text", &node)),
        }
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, PlanError> {
        let Some(node) = self.take(name) else { return Ok(None) };
        let number =
            if let Content::Scalar { is_plain: true, .. } = &node.content { to_value(&node).as_u64() } else { None };
        number.map(Some).ok_or_else(|| wrong(self.file, &self.place(name), "a number", &node))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, PlanError> {
        let Some(node) = self.take(name) else { return Ok(None) };
        to_value(&node).as_bool().map(Some).ok_or_else(|| wrong(self.file, &self.place(name), "true or false", &node))
    }

    /// An object in it; empty if missing.
    pub(crate) fn object(&mut self, name: &str) -> Result<Self, PlanError> {
        let nothing =
            || Node { at: ignition::Position { line: 0, column: 0 }, content: Content::Mapping(Vec::new().into()) };
        let node = self.take(name).unwrap_or_else(nothing);
        Self::new(self.file, self.place(name), &node, self.rest)
    }

    /// A list of objects in it; empty if missing.
    pub(crate) fn objects(&mut self, name: &str) -> Result<Vec<Self>, PlanError> {
        let items = self.list(name)?.into_iter().enumerate();
        items
            .map(|(index, node)| Self::new(self.file, format!("{}[{index}]", self.place(name)), &node, self.rest))
            .collect()
    }

    /// A list of texts in it; empty if missing.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>, PlanError> {
        let list = self.list(name)?.into_iter();
        list.map(|node| match &node.content {
            Content::Scalar { text, .. } if to_value(&node).is_string() => Ok(text.to_string()),
            _ => Err(wrong(self.file, &self.place(name), "a list of texts", &node)),
        })
        .collect()
    }

    fn list(&mut self, name: &str) -> Result<Vec<Node>, PlanError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Node { content: Content::Sequence(list), .. }) => Ok(list.to_vec()),
            Some(other) => Err(wrong(self.file, &self.place(name), "a list", &other)),
        }
    }

    /// Refuses what was not taken, of it and of the objects in it.
    pub(crate) fn finish(self) -> Result<(), PlanError> {
        let (place, rest) = (format!("{}: ", self.file), self.rest);
        drop(self);
        let rest = rest.borrow();
        match rest.unknown.iter().find(|field| field.place.starts_with(&place)) {
            Some(field) => Err(PlanError::Unknown { fields: field.place.clone() }),
            None => Ok(()),
        }
    }

    /// The names of what is left.
    pub(crate) fn names(&self) -> Vec<String> {
        self.left.iter().map(|member| member.key.to_string()).collect()
    }

    /// All fields, whatever they are.
    pub(crate) fn all(&mut self) {
        self.left.clear();
    }
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        let mut rest = self.rest.borrow_mut();
        for member in &self.left {
            let place = self.full_place(&member.key.escape_default().to_string());
            let meant = spelling::nearest(&member.key, self.asked.iter().map(String::as_str));
            let hint = meant.map_or_else(String::new, |name| format!(": did you mean '{name}'?"));
            let is_guarded = self.path.split(['.', '[']).chain(meant).any(|part| GUARDED.contains(&part));
            let text = format!("{place}, line {}: is not a field of this document{hint}", member.at.line);
            rest.unknown.push(Unknown { place: text, is_guarded });
        }
    }
}

/// The value is not shown: it may be a secret.
fn wrong(file: &str, field: &str, wanted: &str, found: &Node) -> PlanError {
    let what = match &found.content {
        Content::Sequence(_) => "a list",
        Content::Mapping(_) => "an object",
        Content::Scalar { .. } => match to_value(found) {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            _ => "a text",
        },
    };
    PlanError::Field {
        file: file.to_owned(),
        field: field.to_owned(),
        reason: format!("expected {wanted}, found {what}"),
        line: Some(found.at.line).filter(|line| *line > 0),
    }
}
