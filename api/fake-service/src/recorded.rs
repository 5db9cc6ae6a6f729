//! Traffic of the real programs, where this machine has recordings of it, and how ours is held against it: header by header and leaf by leaf.

use crate::{Request, check::endpoint_at};
use api::{API_PATH, endpoint::Endpoint};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The recorded traffic, when it is there.
pub fn wire() -> Option<PathBuf> {
    testkit::recordings::path("data/wire")
}

/// A recorded document.
pub fn recorded(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// A recorded exchange: what was asked, in our terms, and what was answered.
pub struct Exchange {
    pub name: String,
    /// As sent.
    pub method: String,
    /// Below the API's path, without the query.
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// All of it.
    pub raw: Value,
}

/// All of a directory, in order.
pub fn exchanges(directory: &Path) -> Vec<Exchange> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| Exchange::read(file)).collect()
}

impl Exchange {
    /// The one in `file`.
    pub fn read(file: &Path) -> Self {
        let raw = recorded(file);
        let mut words = raw["request"]["line"].as_str().unwrap().split(' ');
        let method = words.next().unwrap().to_owned();
        let target = words.next().unwrap().strip_prefix(API_PATH).unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        Self { name: file.file_name().unwrap().to_string_lossy().into_owned(), method, path, query, raw }
    }

    /// Whether it has this method, and a path with this end.
    pub fn is(&self, method: &str, path_end: &str) -> bool {
        self.method == method && self.path.ends_with(path_end)
    }

    /// What it was for.
    pub fn endpoint(&self) -> Option<&'static Endpoint> {
        endpoint_at(&self.method, &self.path)
    }

    /// Of the answer.
    pub fn status(&self) -> u16 {
        self.raw["response"]["status"].as_u64().unwrap().try_into().unwrap()
    }

    /// The body of the request.
    pub fn asked(&self) -> &Value {
        &self.raw["request"]["body"]
    }

    /// The body of the answer.
    pub fn answered(&self) -> &Value {
        &self.raw["response"]["body"]
    }

    /// The steps in the answer.
    pub fn instructions(&self) -> Vec<Value> {
        self.answered()["instructions"].as_array().cloned().unwrap_or_default()
    }

    /// Headers of the request by their names in lower case.
    pub fn headers(&self) -> BTreeMap<String, String> {
        let pairs = self.raw["request"]["headers"].as_array().unwrap().iter();
        pairs.map(|pair| (pair[0].as_str().unwrap().to_lowercase(), pair[1].as_str().unwrap().to_owned())).collect()
    }
}

/// How a header that is not the same each time is compared.
enum Volatile {
    /// Both have one, of any value.
    Both,
    /// Ours starts so, theirs otherwise.
    OursStarts(&'static str),
    /// Theirs has it, ours has not.
    TheirsOnly,
    /// Ours has it, theirs has not.
    OursOnly,
    /// Both are identifiers; ours may have one where theirs has none.
    Identifier,
    /// Ours is the length of the body.
    Length,
    /// The same up to this, which is another each time.
    UpTo(&'static str),
}

/// Headers whose values are not compared as they are, and why.
const VOLATILE: &[(&str, Volatile, &str)] = &[
    ("host", Volatile::Both, "the address of the service"),
    ("user-agent", Volatile::OursStarts("landfall/"), "each program names itself"),
    ("accept-encoding", Volatile::TheirsOnly, "Go's client unpacks gzip by itself; ours asks for none"),
    ("landfall-steps", Volatile::OursOnly, "extensions of Landfall's that the agent carries out; services overlook it"),
    ("x-request-id", Volatile::Identifier, "random; the real installer sends none with the progress of logs"),
    ("content-length", Volatile::Length, "the body's, which is compared itself"),
    ("content-type", Volatile::UpTo("boundary="), "the boundary of a form is random"),
];

/// What differs between our headers and the recorded ones.
pub fn header_faults(ours: &Request, theirs: &Exchange) -> Vec<String> {
    let recorded = theirs.headers();
    let own: BTreeMap<String, &str> =
        ours.headers.iter().map(|(name, value)| (name.to_lowercase(), value.as_str())).collect();
    let names: BTreeSet<&String> = own.keys().chain(recorded.keys()).collect();
    let mut faults = Vec::new();
    for name in names {
        let (own, theirs) = (own.get(name).copied(), recorded.get(name).map(String::as_str));
        let is_uuid = |text: &str| uuid::Uuid::try_parse(text).is_ok();
        let how = VOLATILE.iter().find(|(volatile, ..)| volatile == name).map(|(_, how, _)| how);
        let is_alike = match (how, own, theirs) {
            (Some(Volatile::Both), Some(_), Some(_)) | (Some(Volatile::TheirsOnly), None, Some(_)) => true,
            (Some(Volatile::OursOnly), Some(_), None) => true,
            (Some(Volatile::OursStarts(start)), Some(own), Some(_)) => own.starts_with(start),
            (Some(Volatile::Identifier), Some(own), theirs) => is_uuid(own) && theirs.is_none_or(is_uuid),
            (Some(Volatile::Length), Some(own), Some(_)) => own == ours.bytes.len().to_string(),
            (Some(Volatile::UpTo(mark)), Some(own), Some(theirs)) => {
                own.split(mark).next() == theirs.split(mark).next()
            }
            _ => own == theirs,
        };
        if !is_alike {
            let shown = |value: Option<&str>| value.map_or("absent".to_owned(), |value| format!("{value:?}"));
            faults.push(format!("header {name} is {}, recorded {}", shown(own), shown(theirs)));
        }
    }
    faults
}

/// Leaves that are not the same each time: a pointer, in which `*` is any name or number and `**` at its end all below, and why.
pub type Leaves<'a> = &'a [(&'a str, &'a str)];

/// What differs between two documents, leaf by leaf. JSON in a text is compared as JSON. Those leaves of `volatile` that differ
/// are noted in `used`.
pub fn leaf_faults<'a>(
    ours: &Value,
    theirs: &Value,
    volatile: Leaves<'a>,
    used: &mut BTreeSet<&'a str>,
) -> Vec<String> {
    let (ours, theirs) = (leaves(ours), leaves(theirs));
    let places: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut faults = Vec::new();
    for place in places.into_iter().filter(|place| ours.get(*place) != theirs.get(*place)) {
        if let Some((pattern, _)) = volatile.iter().find(|(pattern, _)| is_below(pattern, place)) {
            used.insert(pattern);
            continue;
        }
        let shown = |leaf: Option<&Value>| leaf.map_or("absent".to_owned(), |leaf| shortened(&leaf.to_string()));
        faults.push(format!("{place} is {}, recorded {}", shown(ours.get(place)), shown(theirs.get(place))));
    }
    faults
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

fn is_below(pattern: &str, place: &str) -> bool {
    let (mut pattern, mut place) = (pattern.split('/'), place.split('/'));
    loop {
        match (pattern.next(), place.next()) {
            (Some("**"), _) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(own), Some(given)) if own == given => {}
            _ => return false,
        }
    }
}

/// Every leaf by its pointer; an empty list or object is one.
fn leaves(document: &Value) -> BTreeMap<String, Value> {
    fn collect(value: &Value, at: &str, leaves: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields.iter().for_each(|(name, value)| collect(value, &format!("{at}/{name}"), leaves));
            }
            Value::Array(items) if !items.is_empty() => {
                items.iter().enumerate().for_each(|(number, value)| collect(value, &format!("{at}/{number}"), leaves));
            }
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => collect(&inner, at, leaves),
                _ => drop(leaves.insert(at.to_owned(), value.clone())),
            },
            _ => drop(leaves.insert(at.to_owned(), value.clone())),
        }
    }
    let mut all = BTreeMap::new();
    collect(document, "", &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_leaf_that_differs_is_reported_unless_it_is_volatile() {
        let ours = json!({"a": "{\"b\":[1,2],\"c\":{}}", "d": 1, "e": {"f": 1}});
        let theirs = json!({"a": "{\"b\":[1,3],\"c\":{}}", "d": null, "e": {"f": 2}});
        let mut used = BTreeSet::new();
        let faults = leaf_faults(&ours, &theirs, &[], &mut used);
        assert_eq!(faults, ["/a/b/1 is 2, recorded 3", "/d is 1, recorded null", "/e/f is 1, recorded 2"]);
        let volatile = [("/a/b/*", "x"), ("/e/**", "x"), ("/none", "x")];
        assert_eq!(leaf_faults(&ours, &theirs, &volatile, &mut used), ["/d is 1, recorded null"]);
        assert_eq!(used, BTreeSet::from(["/a/b/*", "/e/**"]));
    }
}
