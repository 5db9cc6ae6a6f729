//! Parses files into documents, and documents into fields: unknown fields are listed.

use super::PlanError;
use ignition::yaml::{self, YamlError};
use kernel::order;
use serde_json::{Map, Value};
use std::{cell::RefCell, fs, io::Read, path::Path};

/// A larger file is not a manifest.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of files in a directory.
const MAX_FILES: usize = 1000;

/// One document of a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Name of its file, in its directory.
    pub(crate) file: String,
    pub(crate) value: Value,
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
    let syntax = |kind, line: Option<usize>| PlanError::Syntax { file: file.to_owned(), kind, line };
    let values = if file.ends_with(".toml") {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let start = error.span().and_then(|span| text.get(..span.start));
            syntax("TOML", start.map(|start| start.bytes().filter(|&byte| byte == b'\n').count() + 1))
        })?;
        vec![api::json::to_value(table).map_err(|_| syntax("TOML", None))?]
    } else if file.ends_with(".json") {
        vec![serde_json::from_str(text).map_err(|error| syntax("JSON", Some(error.line())))?]
    } else {
        let max_bytes = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
        yaml::documents(text.as_bytes(), max_bytes).map_err(|error| match error {
            YamlError::Syntax { line, .. } => syntax("YAML", line),
            reason => PlanError::Yaml { file: file.to_owned(), reason },
        })?
    };
    let values = values.into_iter().filter(|value| !value.is_null());
    Ok(values.map(|value| Document { file: file.to_owned(), value }).collect())
}

/// An object whose fields are taken one by one. Fields left when it is dropped are added to `unknown`.
pub(crate) struct Fields<'a> {
    pub(crate) file: &'a str,
    path: String,
    map: Map<String, Value>,
    unknown: &'a RefCell<Vec<String>>,
}

impl<'a> Fields<'a> {
    /// The fields of a document.
    pub(crate) fn from_document(document: &'a Document, unknown: &'a RefCell<Vec<String>>) -> Result<Self, PlanError> {
        Self::new(&document.file, String::new(), document.value.clone(), unknown)
    }

    fn new(file: &'a str, path: String, value: Value, unknown: &'a RefCell<Vec<String>>) -> Result<Self, PlanError> {
        match value {
            Value::Object(map) => Ok(Self { file, path, map, unknown }),
            other => Err(wrong(file, if path.is_empty() { "the document" } else { &path }, "an object", &other)),
        }
    }

    /// The path of a field, for messages.
    pub(crate) fn place(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// An error about a field.
    pub(crate) fn error(&self, name: &str, reason: impl ToString) -> PlanError {
        PlanError::Field { file: self.file.to_owned(), field: self.place(name), reason: reason.to_string() }
    }

    /// Whether the field exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// Whether the field is an empty text, unlike a missing one.
    pub(crate) fn is_empty_text(&self, name: &str) -> bool {
        self.map.get(name).and_then(Value::as_str) == Some("")
    }

    /// A field as it is; null counts as absent.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Skips known fields that have no use here.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.map.remove(*name)));
    }

    /// A text; numbers and booleans count as the text they were written as.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, PlanError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
            Some(other) => Err(wrong(self.file, &self.place(name), "a text", &other)),
        }
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, PlanError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| wrong(self.file, &self.place(name), "a number", &value))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, PlanError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| wrong(self.file, &self.place(name), "true or false", &value))
    }

    /// An object in it; empty if missing.
    pub(crate) fn object(&mut self, name: &str) -> Result<Self, PlanError> {
        let value = self.value(name).unwrap_or_else(|| Value::Object(Map::new()));
        Self::new(self.file, self.place(name), value, self.unknown)
    }

    /// A list of objects in it; empty if missing.
    pub(crate) fn objects(&mut self, name: &str) -> Result<Vec<Self>, PlanError> {
        let items = self.list(name)?.into_iter().enumerate();
        items
            .map(|(index, value)| Self::new(self.file, format!("{}[{index}]", self.place(name)), value, self.unknown))
            .collect()
    }

    /// A list of texts in it; empty if missing.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>, PlanError> {
        let list = self.list(name)?.into_iter();
        list.map(|value| match value {
            Value::String(text) => Ok(text),
            other => Err(wrong(self.file, &self.place(name), "a list of texts", &other)),
        })
        .collect()
    }

    fn list(&mut self, name: &str) -> Result<Vec<Value>, PlanError> {
        match self.value(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(wrong(self.file, &self.place(name), "a list", &other)),
        }
    }

    /// Refuses what was not taken, of it and of the objects in it.
    pub(crate) fn finish(self) -> Result<(), PlanError> {
        let (place, unknown) = (format!("{}: ", self.file), self.unknown);
        drop(self);
        match unknown.borrow().iter().find(|field| field.starts_with(&place)) {
            Some(field) => Err(PlanError::Unknown { field: field.clone() }),
            None => Ok(()),
        }
    }

    /// All fields, with their names.
    pub(crate) fn all(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.map)
    }
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        let left = self.map.keys().map(|name| format!("{}: {}", self.file, self.place(name)));
        self.unknown.borrow_mut().extend(left);
    }
}

/// The value is not shown: it may be a secret.
fn wrong(file: &str, field: &str, wanted: &str, found: &Value) -> PlanError {
    let found = match found {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    PlanError::Field {
        file: file.to_owned(),
        field: field.to_owned(),
        reason: format!("expected {wanted}, found {found}"),
    }
}
