//! What differs between two reports: of two machines, or of one before and after.

use super::{
    expect::{join, told},
    fields,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// One fact that is in one report only, or not the same in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    /// Where, with dots between names; an element of a list is named by what it is known by, not by its place.
    pub path: String,
    /// What the first report has; null when nothing.
    pub before: Value,
    /// What the second report has; null when nothing.
    pub after: Value,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.before, &self.after) {
            (before, Value::Null) => write!(f, "- {}: {}", self.path, summary(before)),
            (Value::Null, after) => write!(f, "+ {}: {}", self.path, summary(after)),
            (before, after) => write!(f, "~ {}: {} -> {}", self.path, summary(before), summary(after)),
        }
    }
}

/// The changes from one report to another, sorted by path. What is measured counts only when `measured`.
pub(super) fn changes(before: &Value, after: &Value, measured: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    Walk { measured, changes: &mut changes }.value("", before, after);
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    changes
}

struct Walk<'a> {
    measured: bool,
    changes: &'a mut Vec<Change>,
}

impl Walk<'_> {
    fn value(&mut self, path: &str, before: &Value, after: &Value) {
        match (before, after) {
            (Value::Object(a), Value::Object(b)) => {
                let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                for name in names {
                    if self.measured || !fields::is_measured(name) {
                        let of =
                            |object: &serde_json::Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                        self.value(&join(path, name), &of(a), &of(b));
                    }
                }
            }
            (Value::Array(a), Value::Array(b)) => self.list(path, a, b),
            // A list that is missing where it is empty.
            (Value::Array(a), Value::Null) => self.list(path, a, &[]),
            (Value::Null, Value::Array(b)) => self.list(path, &[], b),
            (before, after) if before != after => {
                self.changes.push(Change { path: path.to_owned(), before: before.clone(), after: after.clone() });
            }
            _ => {}
        }
    }

    fn list(&mut self, path: &str, before: &[Value], after: &[Value]) {
        if let Some(names) = fields::telling([before, after]) {
            let of = |list: &[Value]| -> BTreeMap<String, Value> {
                list.iter().filter_map(|element| Some((fields::known_as(names, element)?, element.clone()))).collect()
            };
            let (before, after) = (of(before), of(after));
            let known: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in known {
                let of = |list: &BTreeMap<String, Value>| list.get(name).cloned().unwrap_or_default();
                self.value(&format!("{path}[{name}]"), &of(&before), &of(&after));
            }
            return;
        }
        // Nothing tells them apart: what is in both is the same, the rest came or went.
        let stripped = |list: &[Value]| -> Vec<Value> { list.iter().map(|value| self.stripped(value)).collect() };
        let (mut gone, mut new) = (stripped(before), Vec::new());
        for value in stripped(after) {
            match gone.iter().position(|other| *other == value) {
                Some(at) => drop(gone.remove(at)),
                None => new.push(value),
            }
        }
        let path = format!("{path}[]");
        for value in gone {
            self.changes.push(Change { path: path.clone(), before: value, after: Value::Null });
        }
        for value in new {
            self.changes.push(Change { path: path.clone(), before: Value::Null, after: value });
        }
    }

    /// Without what is measured, unless that counts.
    fn stripped(&self, value: &Value) -> Value {
        match value {
            Value::Object(object) => object
                .iter()
                .filter(|(name, value)| (self.measured || !fields::is_measured(name)) && !value.is_null())
                .map(|(name, value)| (name.clone(), self.stripped(value)))
                .collect(),
            Value::Array(values) => values.iter().map(|value| self.stripped(value)).collect(),
            plain => plain.clone(),
        }
    }
}

/// A value on one line: of a table, its plain values.
fn summary(value: &Value) -> String {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(_, value)| !value.is_object() && !value.is_array())
            .map(|(name, value)| format!("{name} {value}"))
            .collect::<Vec<_>>()
            .join(", "),
        other => told(other),
    }
}
