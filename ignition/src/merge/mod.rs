//! Merging of a child config over a parent, by the rules of Ignition's `config/merge`.
//!
//! It works on JSON, so that what the model doesn't know merges too. Objects merge key by key; of two scalars the child's wins; lists
//! whose items have a key (a file's path, a unit's name) merge the items of equal key in the parent's order and append the
//! others; lists without a key are put end to end.

mod schema;

use crate::config::Config;
use schema::{CONFIG, Field, Key, Kind};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Versions an override may have: those the service's own parser takes.
const OVERRIDE_VERSIONS: [&str; 2] = [crate::config::V3_1, crate::config::V3_2];

/// Why configs can't be merged. No text of the configs is shown, they may hold secrets.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Not JSON.
    #[error("the config is not valid JSON")]
    Json(#[from] serde_json::Error),
    /// A version that can't be merged.
    #[error("the config's ignition.version is {found}; 3.1.0 and 3.2.0 can be merged")]
    Version {
        /// As found, or `missing`.
        found: String,
    },
    /// A value of another type than the specification's.
    #[error("{path} in the config must be {expected}")]
    Type {
        /// Path from the root, `$.storage.files.0.mode`.
        path: String,
        /// What the specification asks for.
        expected: &'static str,
    },
    /// A number that can't be.
    #[error("the merged config has a number out of its range (a negative mode?)")]
    Range,
}

/// `child` merged over `parent`. The result's version is the child's.
pub fn merge(mut parent: Value, mut child: Value) -> Result<Value, MergeError> {
    normalise(&CONFIG, &mut parent, &mut Path::default())?;
    normalise(&CONFIG, &mut child, &mut Path::default())?;
    merge_value(&CONFIG, &mut parent, child);
    Ok(parent)
}

/// `config` with the JSON text of an override merged over it; empty text changes nothing.
pub fn merge_override(config: Config, text: &str) -> Result<Config, MergeError> {
    if text.trim().is_empty() {
        return Ok(config);
    }
    let child: Value = serde_json::from_str(text)?;
    let mut child_checked = child;
    normalise(&CONFIG, &mut child_checked, &mut Path::default())?;
    let version = child_checked.pointer("/ignition/version").and_then(Value::as_str);
    if !version.is_some_and(|version| OVERRIDE_VERSIONS.contains(&version)) {
        let found = version.map_or("missing".to_owned(), |version| version.chars().take(32).collect());
        return Err(MergeError::Version { found });
    }
    let mut merged = config.to_value();
    merge_value(&CONFIG, &mut merged, child_checked);
    serde_json::from_value(merged).map_err(|_| MergeError::Range)
}

/// Where in a config, for messages.
#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn error(&self, expected: &'static str) -> MergeError {
        let mut path = String::from("$");
        for part in &self.0 {
            path.push('.');
            path.extend(part.chars().take(64));
        }
        MergeError::Type { path, expected }
    }
}

/// Checks types, gives keys the specification's spelling (Ignition's decoder takes any case) and drops nulls, which mean absent.
fn normalise(kind: &Kind, value: &mut Value, path: &mut Path) -> Result<(), MergeError> {
    match (kind, value) {
        (Kind::Object(fields), Value::Object(map)) => normalise_object(fields, map, path),
        (Kind::Keyed { item, .. }, Value::Array(items)) => {
            for (index, value) in items.iter_mut().enumerate() {
                path.0.push(index.to_string());
                match value {
                    Value::Object(map) => normalise_object(item, map, path)?,
                    _ => return Err(path.error("an object")),
                }
                path.0.pop();
            }
            Ok(())
        }
        (Kind::Strings { .. } | Kind::Texts, Value::Array(items)) => {
            match items.iter().position(|item| !item.is_string()) {
                Some(index) => {
                    path.0.push(index.to_string());
                    Err(path.error("text"))
                }
                None => Ok(()),
            }
        }
        (Kind::Resources, value @ Value::Array(_)) => {
            normalise(&Kind::Keyed { key: Key::Field("source"), item: schema::RESOURCE, shared: &[] }, value, path)
        }
        (Kind::Text, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => Ok(()),
        (Kind::Number, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(()),
        (Kind::Object(_), _) => Err(path.error("an object")),
        (Kind::Text, _) => Err(path.error("text")),
        (Kind::Bool, _) => Err(path.error("true or false")),
        (Kind::Number, _) => Err(path.error("a whole number")),
        _ => Err(path.error("a list")),
    }
}

fn normalise_object(fields: &[Field], map: &mut Map<String, Value>, path: &mut Path) -> Result<(), MergeError> {
    for (name, mut value) in std::mem::take(map) {
        let field = find(fields, &name);
        let name = field.map_or(name, |field| field.name.to_owned());
        if value.is_null() && field.is_some() {
            continue;
        }
        if let Some(field) = field {
            path.0.push(name.clone());
            normalise(&field.kind, &mut value, path)?;
            path.0.pop();
        }
        map.insert(name, value);
    }
    Ok(())
}

fn find<'a>(fields: &'a [Field], name: &str) -> Option<&'a Field> {
    fields.iter().find(|field| field.name == name).or_else(|| fields.iter().find(|f| f.name.eq_ignore_ascii_case(name)))
}

/// Merges normalised values; those of an unexpected type, which there are none of, are the child's.
fn merge_value(kind: &Kind, parent: &mut Value, child: Value) {
    match (kind, parent, child) {
        (Kind::Object(fields), Value::Object(parent), Value::Object(child)) => merge_object(fields, parent, child),
        (Kind::Keyed { key, item, .. }, Value::Array(parent), Value::Array(child)) => {
            merge_keyed(*key, item, parent, child);
        }
        (Kind::Strings { .. }, Value::Array(parent), Value::Array(child)) => {
            let known: HashSet<String> = parent.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            parent.extend(child.into_iter().filter(|item| !item.as_str().is_some_and(|text| known.contains(text))));
        }
        (Kind::Texts | Kind::Resources, Value::Array(parent), Value::Array(child)) => parent.extend(child),
        (_, parent, child) => *parent = child,
    }
}

fn merge_object(fields: &[Field], parent: &mut Map<String, Value>, mut child: Map<String, Value>) {
    for field in fields {
        drop_moved(field, fields, parent, &child);
    }
    for (name, value) in std::mem::take(&mut child) {
        match (parent.get_mut(&name), fields.iter().find(|field| field.name == name)) {
            (Some(old), Some(field)) => merge_value(&field.kind, old, value),
            _ => drop(parent.insert(name, value)),
        }
    }
}

/// Drops the parent's items of `field` whose key the child has in another list of the group: a file that became a link.
fn drop_moved(field: &Field, fields: &[Field], parent: &mut Map<String, Value>, child: &Map<String, Value>) {
    let shared = match &field.kind {
        Kind::Keyed { shared, .. } | Kind::Strings { shared } => *shared,
        _ => return,
    };
    let Some(Value::Array(items)) = parent.get_mut(field.name).filter(|_| !shared.is_empty()) else {
        return;
    };
    let keys = |name: &str| -> HashSet<String> {
        let list = child.get(name).and_then(Value::as_array);
        let kind = fields.iter().find(|field| field.name == name).map(|field| &field.kind);
        list.into_iter()
            .flatten()
            .zip(std::iter::repeat(kind))
            .filter_map(|(item, kind)| Some(kind?.key_of(item)))
            .collect()
    };
    let own = keys(field.name);
    let moved: HashSet<String> =
        shared.iter().filter(|name| **name != field.name).flat_map(|name| keys(name)).collect();
    items.retain(|item| {
        let key = field.kind.key_of(item);
        own.contains(&key) || !moved.contains(&key)
    });
}

fn merge_keyed(key: Key, fields: &[Field], parent: &mut Vec<Value>, child: Vec<Value>) {
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (index, item) in parent.iter().enumerate() {
        positions.entry(key.of(item)).or_insert(index);
    }
    let mut removed = HashSet::new();
    for item in child {
        let Some(&index) = positions.get(&key.of(&item)) else {
            parent.push(item);
            continue;
        };
        if matches!(key, Key::Header) && item.get("value").is_none() {
            removed.insert(index);
        } else if let (Some(Value::Object(old)), Value::Object(new)) = (parent.get_mut(index), item) {
            merge_object(fields, old, new);
        }
    }
    let mut index = 0;
    parent.retain(|_| {
        index += 1;
        !removed.contains(&(index - 1))
    });
}

#[cfg(test)]
mod tests;
