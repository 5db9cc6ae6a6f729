//! Patches of manifests: a list of operations, in YAML, after RFC 6902, in the dialect of the program that users write them for.
//!
//! A part `key=value` of a path stands for every mapping below that has this text under this key. `move` and `copy` set what is at
//! their target, also in a list, where RFC 6902 would insert. Copying what is missing gives null.

use super::tree;
use ignition::yaml::NodeError;
use serde_json::Value;

/// A longer list is not written by hand.
const MAX_OPERATIONS: usize = 10_000;
/// Of the patched manifest in memory, counted as if nothing were removed.
const MAX_WEIGHT: usize = 64 << 20;
/// What a value weighs beside its text.
const VALUE_WEIGHT: usize = 32;
/// Levels of lists and mappings.
const MAX_DEPTH: usize = 128;
/// Values looked at for parts `key=value`.
const MAX_VISITS: usize = 20_000_000;
/// How far beyond its end a list may be set.
const MAX_GAP: usize = 1000;

/// Why a patch doesn't apply.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error("the manifest is not YAML")]
    Manifest(#[source] NodeError),
    #[error("the patch is not YAML")]
    Patch(#[source] NodeError),
    #[error("the manifest is not a mapping or a list")]
    NoContainer,
    #[error("the patch is not a list of operations")]
    NoList,
    #[error("operation {number} of the patch is not a mapping with the texts op and path")]
    NoOperation { number: usize },
    #[error("Unexpected op: {op}")]
    UnknownOperation { op: String },
    #[error("{verb} operation does not apply: doc is missing {what}: {path}")]
    Missing { verb: &'static str, what: &'static str, path: String },
    #[error("Unable to remove nonexistent key: {key}")]
    NoKey { key: String },
    #[error("Unable to access invalid index: {index}")]
    Index { index: String },
    #[error("Unable to remove invalid index: {index}")]
    RemovedIndex { index: String },
    #[error("could not expand pointer: {path}")]
    NoMatch { path: String },
    #[error("test failed")]
    TestFailed,
    #[error("the patch makes the manifest too large, or nests it too deeply")]
    TooLarge,
    #[error("the patch has more than {max} operations")]
    TooMany { max: usize },
    #[error("the patch's paths match too much")]
    TooMuchWork,
}

/// The first document of `manifest` patched; others stay as they are.
pub(super) fn apply(manifest: &[u8], patch: &[u8]) -> Result<Vec<u8>, PatchError> {
    let mut documents = tree::documents(manifest).map_err(PatchError::Manifest)?;
    let operations = operations(patch)?;
    let document = documents.first_mut().filter(|document| document.is_object() || document.is_array());
    let document = document.ok_or(PatchError::NoContainer)?;
    let mut bounds = Bounds { weight: MAX_WEIGHT, visits: MAX_VISITS };
    bounds.admit(document, 0)?;
    for operation in &operations {
        operation.apply(document, &mut bounds)?;
    }
    Ok(tree::text(&documents).into_bytes())
}

struct Operation {
    verb: Verb,
    path: String,
    from: String,
    value: Value,
}

#[derive(Clone, Copy)]
enum Verb {
    Add,
    Remove,
    Replace,
    Move,
    Copy,
    Test,
}

impl Verb {
    const ALL: [Self; 6] = [Self::Add, Self::Remove, Self::Replace, Self::Move, Self::Copy, Self::Test];

    fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace => "replace",
            Self::Move => "move",
            Self::Copy => "copy",
            Self::Test => "test",
        }
    }

    fn in_errors(self) -> &'static str {
        match self {
            Self::Add => "yamlpatch add",
            Self::Remove => "yamlpatch remove",
            Self::Replace => "yamlpatch replace",
            Self::Move => "yamlpatch move",
            Self::Copy => "copy",
            Self::Test => "test",
        }
    }
}

fn operations(patch: &[u8]) -> Result<Vec<Operation>, PatchError> {
    let listed = match tree::documents(patch).map_err(PatchError::Patch)?.into_iter().next() {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(listed)) => listed,
        Some(_) => return Err(PatchError::NoList),
    };
    if listed.len() > MAX_OPERATIONS {
        return Err(PatchError::TooMany { max: MAX_OPERATIONS });
    }
    (1..)
        .zip(listed)
        .map(|(number, listed)| operation(listed).map_err(|error| error.unwrap_or(PatchError::NoOperation { number })))
        .collect()
}

/// An error of none is that of its shape.
fn operation(listed: Value) -> Result<Operation, Option<PatchError>> {
    let Value::Object(mut listed) = listed else { return Err(None) };
    let mut text = |key: &str| match listed.remove(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(None),
    };
    let (op, path, from) = (text("op")?, text("path")?, text("from")?);
    let verb = Verb::ALL.into_iter().find(|verb| verb.as_str() == op);
    let verb = verb.ok_or(PatchError::UnknownOperation { op })?;
    Ok(Operation { verb, path, from, value: listed.remove("value").unwrap_or_default() })
}

/// A path's parts, unescaped (RFC 6901).
type Path = Vec<String>;

impl Operation {
    fn apply(&self, document: &mut Value, bounds: &mut Bounds) -> Result<(), PatchError> {
        let path = parts(&self.path).ok_or_else(|| self.missing("path", &self.path))?;
        if !self.path.contains('=') {
            return self.apply_at(&path, document, bounds);
        }
        let found = expand(&path, document, bounds)?;
        if found.is_empty() {
            return Err(PatchError::NoMatch { path: self.path.clone() });
        }
        // The last first: what is removed from a list must not move what is removed next.
        found.iter().rev().try_for_each(|path| self.apply_at(path, document, bounds))
    }

    fn apply_at(&self, path: &Path, document: &mut Value, bounds: &mut Bounds) -> Result<(), PatchError> {
        let verb = self.verb;
        match verb {
            Verb::Add => {
                bounds.admit(&self.value, path.len())?;
                let (container, key) = self.container(path, document)?;
                add(container, key, self.value.clone())
            }
            Verb::Remove => {
                let (container, key) = self.container(path, document)?;
                remove(container, key).map(drop)
            }
            Verb::Replace => {
                bounds.admit(&self.value, path.len())?;
                let (container, key) = self.container(path, document)?;
                if !matches!(get(container, key), Ok(Some(_))) {
                    return Err(self.missing("key", &self.path));
                }
                set(container, key, self.value.clone())
            }
            Verb::Move => {
                let from = self.from()?;
                let (container, key) =
                    self.container(&from, document).map_err(|_| self.missing("from path", &self.from))?;
                let value = remove(container, key)?;
                bounds.admit(&value, path.len())?;
                let (container, key) =
                    self.container(path, document).map_err(|_| self.missing("destination path", &self.path))?;
                set(container, key, value)
            }
            Verb::Copy => {
                let from = self.from()?;
                let (container, key) =
                    self.container(&from, document).map_err(|_| self.missing("from path", &self.from))?;
                let value = get(container, key)?.cloned().unwrap_or_default();
                bounds.admit(&value, path.len())?;
                let (container, key) =
                    self.container(path, document).map_err(|_| self.missing("destination path", &self.path))?;
                set(container, key, value)
            }
            Verb::Test => {
                let (container, key) = self.container(path, document)?;
                let is_same = get(container, key)?.map_or(self.value.is_null(), |found| *found == self.value);
                if is_same { Ok(()) } else { Err(PatchError::TestFailed) }
            }
        }
    }

    fn from(&self) -> Result<Path, PatchError> {
        parts(&self.from).ok_or_else(|| self.missing("from path", &self.from))
    }

    /// The list or mapping that a path's last part is in, and that part.
    fn container<'d, 'p>(
        &self,
        path: &'p Path,
        document: &'d mut Value,
    ) -> Result<(&'d mut Value, &'p str), PatchError> {
        let missing = || self.missing("path", &self.path);
        let (key, parents) = path.split_last().ok_or_else(missing)?;
        let mut container = document;
        for part in parents {
            container = match container {
                Value::Object(members) => members.get_mut(part),
                Value::Array(items) => items.get_mut(index(part).map_err(|_| missing())?),
                _ => None,
            }
            .ok_or_else(missing)?;
        }
        if container.is_object() || container.is_array() { Ok((container, key)) } else { Err(missing()) }
    }

    fn missing(&self, what: &'static str, path: &str) -> PatchError {
        PatchError::Missing { verb: self.verb.in_errors(), what, path: path.to_owned() }
    }
}

fn parts(path: &str) -> Option<Path> {
    let rest = path.strip_prefix('/')?;
    Some(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

fn index(part: &str) -> Result<usize, PatchError> {
    part.strip_prefix('+').unwrap_or(part).parse().map_err(|_| invalid(part))
}

fn invalid(index: &str) -> PatchError {
    PatchError::Index { index: index.to_owned() }
}

/// None where a mapping has no such key.
fn get<'d>(container: &'d Value, key: &str) -> Result<Option<&'d Value>, PatchError> {
    match container {
        Value::Object(members) => Ok(members.get(key)),
        Value::Array(items) => items.get(index(key)?).map(Some).ok_or_else(|| invalid(key)),
        _ => Ok(None),
    }
}

/// Inserts into a list, or sets a mapping's key.
fn add(container: &mut Value, key: &str, value: Value) -> Result<(), PatchError> {
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => match index(key)? {
            index if index <= items.len() => items.insert(index, value),
            _ => return Err(invalid(key)),
        },
        container => return set(container, key, value),
    }
    Ok(())
}

/// Sets an item, up to which a list that is shorter is filled with null, or a key.
fn set(container: &mut Value, key: &str, value: Value) -> Result<(), PatchError> {
    match container {
        Value::Object(members) => {
            members.insert(key.to_owned(), value);
        }
        Value::Array(items) => {
            let index = index(key)?;
            if index >= items.len().saturating_add(MAX_GAP) {
                return Err(invalid(key));
            }
            if index >= items.len() {
                items.resize(index + 1, Value::Null);
            }
            *items.get_mut(index).ok_or_else(|| invalid(key))? = value;
        }
        _ => {}
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, PatchError> {
    match container {
        Value::Object(members) => members.remove(key).ok_or_else(|| PatchError::NoKey { key: key.to_owned() }),
        Value::Array(items) => match index(key)? {
            index if index < items.len() => Ok(items.remove(index)),
            _ => Err(PatchError::RemovedIndex { index: key.to_owned() }),
        },
        _ => Err(PatchError::NoKey { key: key.to_owned() }),
    }
}

/// What is found on the way down a path, and its path.
type Route<'d> = (Path, &'d Value);

/// All paths that a path with parts `key=value` stands for, in the document's order.
fn expand(path: &Path, document: &Value, bounds: &mut Bounds) -> Result<Vec<Path>, PatchError> {
    let mut routes: Vec<Route<'_>> = vec![(Path::new(), document)];
    for part in path {
        let mut next = Vec::new();
        for (prefix, value) in routes {
            bounds.visit()?;
            let step = |value| ([&prefix[..], std::slice::from_ref(part)].concat(), value);
            match part.split_once('=') {
                Some((key, text)) if !text.contains('=') => find(&prefix, value, key, text, &mut next, bounds)?,
                // The end of a list, or a key that will be added.
                _ if part == "-" => next.push(step(value)),
                _ if value.is_object() || value.is_array() => {
                    next.extend(get(value, part).ok().map(|found| step(found.unwrap_or(value))));
                }
                _ => {}
            }
        }
        routes = next;
    }
    Ok(routes.into_iter().map(|(path, _)| path).collect())
}

/// The outermost mappings of `value`, itself among them, that have this text under this key.
fn find<'d>(
    prefix: &Path,
    value: &'d Value,
    key: &str,
    text: &str,
    found: &mut Vec<Route<'d>>,
    bounds: &mut Bounds,
) -> Result<(), PatchError> {
    bounds.visit()?;
    let below = |part: String| [&prefix[..], &[part]].concat();
    match value {
        Value::Object(members) if members.get(key).and_then(Value::as_str) == Some(text) => {
            found.push((prefix.clone(), value));
            Ok(())
        }
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| value.is_object() || value.is_array())
            .try_for_each(|(name, value)| find(&below(name.clone()), value, key, text, found, bounds)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_object() || value.is_array())
            .try_for_each(|(index, value)| find(&below(index.to_string()), value, key, text, found, bounds)),
        _ => Ok(()),
    }
}

/// What is left of the bounds.
struct Bounds {
    weight: usize,
    visits: usize,
}

impl Bounds {
    fn visit(&mut self) -> Result<(), PatchError> {
        self.visits = self.visits.checked_sub(1).ok_or(PatchError::TooMuchWork)?;
        Ok(())
    }

    fn take(&mut self, text_bytes: usize) -> Result<(), PatchError> {
        let left = self.weight.checked_sub(text_bytes.saturating_add(VALUE_WEIGHT));
        self.weight = left.ok_or(PatchError::TooLarge)?;
        Ok(())
    }

    /// Counts a value that is put in at this depth.
    fn admit(&mut self, value: &Value, depth: usize) -> Result<(), PatchError> {
        if depth > MAX_DEPTH {
            return Err(PatchError::TooLarge);
        }
        self.take(value.as_str().map_or(0, str::len))?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.admit(item, depth + 1)),
            Value::Object(members) => members.iter().try_for_each(|(key, value)| {
                self.take(key.len())?;
                self.admit(value, depth + 1)
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
