//! What differs between two reports: of two machines, or of one before and after.

use super::{
    by_name,
    expect::{found_text, join},
    fields,
};
use kernel::order::{self, Gather};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// One fact that is in one report only, or not the same in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
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
            (before, Value::Null) => write!(f, "- {}: {}", self.path, summary(&self.path, before)),
            (Value::Null, after) => write!(f, "+ {}: {}", self.path, summary(&self.path, after)),
            (before, after) => {
                write!(f, "~ {}: {} -> {}", self.path, summary(&self.path, before), summary(&self.path, after))
            }
        }
    }
}

/// The changes from one report to another, sorted by path. What is measured counts only when `measured`.
pub fn changes(before: &Value, after: &Value, measured: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    Walk { measured, changes: &mut changes }.value("", &by_name(before), &by_name(after));
    order::sort_by(&mut changes, |a, b| a.path.cmp(&b.path));
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
                let names: BTreeSet<&String> = a.keys().chain(b.keys()).gather();
                for name in names {
                    if self.measured || !fields::is_passing(name) {
                        let of =
                            |object: &serde_json::Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                        self.value(&join(path, name), &of(a), &of(b));
                    }
                }
            }
            (Value::Array(a), Value::Array(b)) => self.list(path, a, b),
            // A list that is left out if it is empty.
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
                list.iter().filter_map(|element| Some((fields::known_as(names, element)?, element.clone()))).gather()
            };
            let (before, after) = (of(before), of(after));
            let known: BTreeSet<&String> = before.keys().chain(after.keys()).gather();
            for name in known {
                let of = |list: &BTreeMap<String, Value>| list.get(name).cloned().unwrap_or_default();
                self.value(&format!("{path}[{name}]"), &of(&before), &of(&after));
            }
            return;
        }
        // Nothing distinguishes them: what is in both is the same, the rest was added or removed.
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
                .filter(|(name, value)| (self.measured || !fields::is_passing(name)) && !value.is_null())
                .map(|(name, value)| (name.clone(), self.stripped(value)))
                .collect(),
            Value::Array(values) => values.iter().map(|value| self.stripped(value)).collect(),
            plain => plain.clone(),
        }
    }
}

/// A value on one line: of a table, its plain values.
fn summary(path: &str, value: &Value) -> String {
    let Value::Object(object) = value else { return found_text(path, value) };
    let is_plain = |value: &Value| match value {
        Value::Array(values) => !values.is_empty() && values.iter().all(is_scalar),
        plain => is_scalar(plain),
    };
    let plain = object.iter().filter(|(_, value)| is_plain(value));
    plain.map(|(name, value)| format!("{name} {}", found_text(name, value))).collect::<Vec<_>>().join(", ")
}

fn is_scalar(value: &Value) -> bool {
    !value.is_null() && !value.is_object() && !value.is_array()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::toy::{server, toy};
    use proptest::prelude::*;
    use serde_json::json;

    fn lines(before: &Value, after: &Value) -> Vec<String> {
        changes(before, after, false).iter().map(Change::to_string).collect()
    }

    #[test]
    fn elements_are_compared_by_name_not_by_place() {
        let (before, mut after) = (server(), server());
        after["memory"]["devices"].as_array_mut().unwrap().reverse();
        assert_eq!(lines(&before, &after), [""; 0]);
        after["memory"]["devices"][0]["size_bytes"] = json!(16);
        after["memory"]["devices"][2]["locator"] = json!("C1");
        after["memory"]["devices"][1]["ranks"] = json!([2, 4]);
        after["memory"]["ecc"] = Value::Null;
        after["memory"]["installed_bytes"] = json!(5);
        let wanted = [
            "- memory.devices[A1]: locator \"A1\", ranks 1, 2, size_bytes 32 GiB",
            "- memory.devices[A2].ranks[]: 1",
            "+ memory.devices[A2].ranks[]: 4",
            "+ memory.devices[B1].size_bytes: 16",
            "+ memory.devices[C1]: locator \"C1\", ranks 1, 2, size_bytes 32 GiB",
            "- memory.ecc: true",
            "~ memory.installed_bytes: 64 GiB -> 5",
        ];
        assert_eq!(lines(&before, &after), wanted);
    }

    #[test]
    fn what_nothing_tells_apart_is_compared_whole() {
        let before = json!({"caches": [{"level": 1}, {"level": 1}, {"level": 2, "maker": null}]});
        let after = json!({"caches": [{"level": 2}, {"level": 1}, {"level": 3}]});
        assert_eq!(lines(&before, &after), ["- caches[]: level 1", "+ caches[]: level 3"]);
        assert_eq!(lines(&before, &json!({})).len(), 3);
        assert_eq!(lines(&json!({"caches": []}), &json!({})), [""; 0]);
    }

    #[test]
    fn what_changes_by_itself_counts_only_when_asked() {
        for name in ["corrected_errors", "temperature_celsius", "array_handle"] {
            let (before, after) = (json!({name: 1}), json!({name: 2}));
            assert_eq!((changes(&before, &after, false).len(), changes(&before, &after, true).len()), (0, 1));
        }
    }

    proptest! {
        #[test]
        fn the_way_back_is_the_way_there_turned_round(a in toy(), b in toy()) {
            let (a, b) = (serde_json::to_value(a).unwrap(), serde_json::to_value(b).unwrap());
            let turned = |change: Change| Change { path: change.path, before: change.after, after: change.before };
            let key = |change: &Change| serde_json::to_string(change).unwrap();
            let mut back: Vec<Change> = changes(&b, &a, true).into_iter().map(turned).collect();
            let mut there = changes(&a, &b, true);
            back.sort_by_key(key);
            there.sort_by_key(key);
            prop_assert_eq!(there, back);
        }
    }
}
