//! Answers against recorded ones: the status, the value of each header, every leaf of the body. Documents inside of texts count as
//! documents. What differs is named in a table with its reason, and what is named must differ.

use crate::common::Answer;
use crate::wire::exchange::Exchange;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How the bytes travelled.
const TRANSPORT: [&str; 5] = ["date", "content-length", "transfer-encoding", "content-encoding", "connection"];

/// A difference that is meant: in which recordings, of which exchange, where, and why. Names end where theirs end, or go on after a
/// `*`.
pub(crate) struct Meant {
    pub exchange: &'static str,
    pub place: &'static str,
    pub reason: &'static str,
}

pub(crate) const fn meant(exchange: &'static str, place: &'static str, reason: &'static str) -> Meant {
    Meant { exchange, place, reason }
}

/// Whether a name fits a pattern with at most some `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => {
            let Some(after) = name.strip_prefix(start) else { return false };
            rest.is_empty() || (0..=after.len()).any(|at| after.is_char_boundary(at) && fits(rest, &after[at..]))
        }
    }
}

/// One leaf that differs: where, what was recorded, what ours is.
#[derive(Debug)]
pub(crate) struct Difference {
    pub number: u32,
    pub exchange: String,
    pub place: String,
    pub recorded: String,
    pub ours: String,
}

/// A moment, or none at all.
fn time(text: &str) -> Option<bool> {
    let time: api::Timestamp = serde_json::from_value(text.into()).ok()?;
    (text.len() >= 20 && text.as_bytes()[10] == b'T').then(|| time.is_zero())
}

/// What is random in a step's id.
fn without_random(text: &str) -> &str {
    match text.rsplit_once('-') {
        Some((kind, random)) if random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit()) => kind,
        _ => text,
    }
}

fn leaves(value: &Value, path: &str, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{path}.{name}"), into));
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                // Steps, hosts and findings are known by their names, whatever their place.
                let name = ["step_type", "host_id", "id"].into_iter().find_map(|name| item[name].as_str());
                let place = name.map_or_else(|| index.to_string(), str::to_owned);
                leaves(item, &format!("{path}[{place}]"), into);
            }
        }
        Value::String(text) if text.starts_with(['{', '[']) => match serde_json::from_str(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => leaves(&inner, &format!("{path}:"), into),
            _ => drop(into.insert(path.to_owned(), value.clone())),
        },
        value => drop(into.insert(path.to_owned(), value.clone())),
    }
}

fn same(path: &str, recorded: &Value, ours: &Value) -> bool {
    match (recorded, ours) {
        (Value::String(recorded), Value::String(ours)) => {
            if path.ends_with(".step_id") {
                return without_random(recorded) == without_random(ours);
            }
            match (time(recorded), time(ours)) {
                (Some(recorded), Some(ours)) => recorded == ours,
                _ => recorded == ours,
            }
        }
        // A host's clock.
        (Value::Number(_), Value::Number(_)) if path.ends_with(".timestamp") => true,
        _ => recorded == ours,
    }
}

/// Where two documents differ.
pub(crate) fn documents(recorded: &Value, ours: &Value) -> Vec<(String, String, String)> {
    let (mut theirs, mut own) = (BTreeMap::new(), BTreeMap::new());
    leaves(recorded, "", &mut theirs);
    leaves(ours, "", &mut own);
    let text = |value: Option<&Value>| value.map_or_else(|| "(absent)".to_owned(), Value::to_string);
    let places: BTreeSet<&String> = theirs.keys().chain(own.keys()).collect();
    let differ = places.into_iter().filter(|place| match (theirs.get(*place), own.get(*place)) {
        (Some(recorded), Some(ours)) => !same(place, recorded, ours),
        _ => true,
    });
    differ.map(|place| (place.clone(), text(theirs.get(place)), text(own.get(place)))).collect()
}

/// Where an answer differs from the recorded one.
pub(crate) fn answers(exchange: &Exchange, answer: &Answer) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut push = |place: String, recorded: String, ours: String| {
        found.push(Difference { number: exchange.number, exchange: exchange.what(), place, recorded, ours });
    };
    if answer.status != exchange.status {
        push("status".into(), exchange.status.to_string(), answer.status.to_string());
    }
    let by_name = |list: &[(String, String)]| -> BTreeMap<String, String> {
        let own = list.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
        own.filter(|(name, _)| !TRANSPORT.contains(&name.as_str())).collect()
    };
    let (theirs, own) = (by_name(&exchange.answer_headers), by_name(&answer.headers));
    for name in theirs.keys().chain(own.keys()).collect::<BTreeSet<_>>() {
        let text = |list: &BTreeMap<String, String>| list.get(name).cloned().unwrap_or_else(|| "(absent)".to_owned());
        if theirs.get(name) != own.get(name) {
            push(format!("header {name}"), text(&theirs), text(&own));
        }
    }
    let ours = match serde_json::from_slice(&answer.body) {
        Ok(document) => document,
        Err(_) if answer.body.is_empty() => Value::Null,
        Err(_) => Value::from(String::from_utf8_lossy(&answer.body).into_owned()),
    };
    documents(&exchange.answer, &ours).into_iter().for_each(|(place, recorded, ours)| push(place, recorded, ours));
    found
}

/// Prints all differences, and panics where one has no reason or a reason no difference.
pub(crate) fn settle(recording: &str, exchanges: usize, found: &[Difference], table: &[&[Meant]]) {
    let rows: Vec<&Meant> = table.iter().flat_map(|rows| rows.iter()).collect();
    let mut used = BTreeSet::new();
    let mut unexplained = Vec::new();
    let cut = |text: &str| text.chars().take(160).collect::<String>();
    for difference in found {
        let Difference { number, exchange, place, recorded, ours } = difference;
        let numbered = format!("{number} {exchange}");
        let row = rows
            .iter()
            .position(|row| (fits(row.exchange, exchange) || fits(row.exchange, &numbered)) && fits(row.place, place));
        let line = format!("{numbered} {place}: recorded {}, ours {}", cut(recorded), cut(ours));
        match row {
            Some(row) => drop(used.insert(row)),
            None => unexplained.push(line),
        }
    }
    let unused: Vec<String> = rows
        .iter()
        .enumerate()
        .filter(|(index, _)| !used.contains(index))
        .map(|(_, row)| format!("{} {}", row.exchange, row.place))
        .collect();
    println!("{recording}: {exchanges} exchanges, {} differences, by {} reasons:", found.len(), used.len());
    for index in &used {
        println!("| {} | {} | {} |", rows[*index].exchange, rows[*index].place, rows[*index].reason);
    }
    assert!(unexplained.is_empty(), "{recording}: differences without a reason:\n{}", unexplained.join("\n"));
    assert!(unused.is_empty(), "{recording}: reasons without a difference:\n{}", unused.join("\n"));
}

#[test]
fn every_leaf_counts_and_times_and_random_parts_do_not() {
    use serde_json::json;
    let recorded = json!({"a": 1, "t": "2026-11-21T03:17:55.587Z", "z": "0001-01-01T00:00:00Z", "n": null, "l": [],
        "text": r#"{"b":[1,2]}"#, "instructions": [{"step_id": "inventory-0f0f0f0f", "step_type": "inventory"}]});
    let same = json!({"a": 1, "t": "2026-11-24T03:17:55.587Z", "z": "0001-01-01T00:00:00.000Z", "n": null, "l": [],
        "text": r#"{"b": [1, 2]}"#, "instructions": [{"step_id": "inventory-abcdef01", "step_type": "inventory"}]});
    assert_eq!(documents(&recorded, &same), []);
    for (place, value) in [
        ("/a", json!(2)),
        ("/a", json!("1")),
        ("/t", json!("0001-01-01T00:00:00.000Z")),
        ("/n", json!("")),
        ("/l", json!(null)),
        ("/text", json!(r#"{"b":[1,3]}"#)),
        ("/instructions/0/step_id", json!("install-abcdef01")),
    ] {
        let mut other = same.clone();
        *other.pointer_mut(place).unwrap() = value;
        assert_eq!(documents(&recorded, &other).len(), 1, "{place}");
    }
    let mut more = same;
    more["new"] = json!(1);
    assert_eq!(documents(&recorded, &more)[0].1, "(absent)");
    assert!(fits("GET */instructions", "GET infra-envs/*/hosts/*/instructions") && fits("a", "a") && fits("*", "x"));
    assert!(!fits("GET */hosts", "GET infra-envs/*/hosts/*") && !fits("a", "ab"));
}
