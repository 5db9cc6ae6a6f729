//! Files as values that can be compared: documents instead of texts, and what is in them instead of their encodings.

use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::Read;

/// A file's content: documents of JSON and YAML as such, anything else as text. Empty lines at the ends say nothing.
pub(super) fn content(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let is_structured = |value: &Value| value.is_object() || value.is_array();
    if let Some(value) = serde_json::from_str(&text).ok().filter(is_structured) {
        return plain(value);
    }
    let documents = serde_norway::Deserializer::from_str(&text).map(Value::deserialize).collect::<Result<Vec<_>, _>>();
    match documents {
        Ok(documents) if documents.iter().all(|one| is_structured(one) || one.is_null()) => {
            let mut documents: Vec<Value> = documents.into_iter().filter(is_structured).map(plain).collect();
            match documents.len() {
                0 => text.trim().into(),
                1 => documents.remove(0),
                _ => documents.into(),
            }
        }
        _ => text.trim().into(),
    }
}

/// What a value says: without what is empty, lists of an Ignition config by the names of their parts.
pub(super) fn plain(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_ignition = fields.get("ignition").is_some_and(|ignition| ignition["version"].is_string());
            let fields = fields.into_iter().map(|(name, value)| (untold(&name), plain(value)));
            let mut plain: Map<String, Value> = fields.filter(|(_, value)| !is_empty(value)).collect();
            if is_ignition {
                by_name(&mut plain);
            }
            Value::Object(plain)
        }
        Value::Array(values) => values.into_iter().map(plain).collect(),
        Value::String(text) => string(text),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || *value == json!({}) || *value == json!([])
}

fn string(text: String) -> Value {
    if let Some(data) = text.strip_prefix("data:") {
        let Some((kind, data)) = data.split_once(',') else { return text.into() };
        let bytes = match kind.ends_with(";base64") {
            true => BASE64_STANDARD.decode(data).unwrap_or_else(|error| panic!("{error}: {text}")),
            false => unescaped(data),
        };
        let mut unpacked = Vec::new();
        return match GzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked) {
            Ok(_) => content(&unpacked),
            Err(_) => content(&bytes),
        };
    }
    // The manifests of operators are packed for the cluster's controller.
    let unpacked = BASE64_STANDARD.decode(&text).ok().filter(|bytes| bytes.contains(&b'\n'));
    if let Some(unpacked) = unpacked.filter(|bytes| std::str::from_utf8(bytes).is_ok()) {
        return content(&unpacked);
    }
    match text.starts_with(['{', '[']) || text.contains('\n') {
        true => content(text.as_bytes()),
        false => text.into(),
    }
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%');
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    bytes
}

/// Files, units and users of an Ignition config by their names instead of their places.
fn by_name(config: &mut Map<String, Value>) {
    for (part, list, key) in [
        ("storage", "files", "path"),
        ("storage", "directories", "path"),
        ("storage", "links", "path"),
        ("systemd", "units", "name"),
        ("passwd", "users", "name"),
    ] {
        let Some(all) = config.get_mut(part).and_then(|part| part.get_mut(list)) else { continue };
        let parts = all.as_array().cloned().unwrap_or_default();
        let names = parts.iter().map(|part| untold(part[key].as_str().unwrap_or_default())).collect::<Vec<_>>();
        let count = names.len();
        let named: Map<String, Value> = names.into_iter().zip(parts).collect();
        assert_eq!(named.len(), count, "{list} of the same name");
        *all = named.into_iter().map(|(name, part)| (name, without(part, key))).collect::<Map<_, _>>().into();
    }
}

fn without(mut value: Value, key: &str) -> Value {
    value.as_object_mut().unwrap().remove(key);
    value
}

/// A name without the random part that parts of a file with several documents have: `NAME-TOKEN-00.yaml`.
pub(super) fn untold(name: &str) -> String {
    let Some((stem, extension)) = name.rsplit_once('.') else { return name.to_owned() };
    let parts = stem.rsplit_once('-').and_then(|(rest, number)| Some((rest.rsplit_once('-')?, number)));
    match parts {
        Some(((rest, token), number))
            if number.len() == 2
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && token.len() == 7
                && token.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            format!("{rest}-TOKEN-{number}.{extension}")
        }
        _ => name.to_owned(),
    }
}

/// A text without ids that are made anew each time.
pub(super) fn anonymous(text: &str, known: &[(&str, &str)]) -> String {
    let mut text = known.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id, name));
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('-')).map(|found| at + found) {
        at = found + 1;
        let Some(start) = found.checked_sub(8) else { continue };
        let is_id = text.get(start..start + 36).is_some_and(is_uuid);
        // Those of hosts are chosen here.
        if is_id && !text[start..].starts_with("00000000-0000-4000-8000-") {
            text.replace_range(start..start + 36, "UUID");
            at = start + 4;
        }
    }
    text
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Where two values differ, by the names on the way there.
pub(super) fn differences(path: &str, real: &Value, ours: &Value, into: &mut Vec<(String, Value, Value)>) {
    match (real, ours) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                differences(&format!("{path} > {name}"), &real[name], &ours[name], into);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{path} > {index}"), one, other, into);
            }
        }
        _ if real == ours => {}
        _ => into.push((path.to_owned(), real.clone(), ours.clone())),
    }
}
