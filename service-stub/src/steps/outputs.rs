//! The output of steps, parsed as the published service parses it: absent and null fields are empty; unknown fields, and list
//! entries without content, are dropped.

use crate::http::{Refusal, body::wrong_type};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// An inventory of 15000 disks has 60000, a connectivity report of 1000 peers with eight addresses fewer.
const MAX_COLLECTIONS: usize = 1 << 16;
/// The same inventory has 400000.
const MAX_VALUES: usize = 1 << 19;
/// The parser's own limit.
const MAX_DEPTH: usize = 127;

pub(crate) fn object<T: DeserializeOwned>(text: &str, model: &str) -> Result<T, Refusal> {
    typed(Value::Object(fields(text, model)?))
}

pub(crate) fn list(text: &str, model: &str) -> Result<Vec<Value>, Refusal> {
    match parsed(text)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) => Ok(entries),
        other => Err(Refusal::invalid(wrong_type(&other, model))),
    }
}

fn parsed(text: &str) -> Result<Value, Refusal> {
    check_extent(text)?;
    serde_json::from_str(text).map_err(Refusal::invalid)
}

/// Refuses an output that would take many times its size once it is parsed.
fn check_extent(text: &str) -> Result<(), Refusal> {
    let (mut collections, mut values, mut depth) = (0_usize, 0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                (collections, depth) = (collections + 1, depth + 1);
                if depth > MAX_DEPTH {
                    return Err(Refusal::invalid(format!("the output is nested more than {MAX_DEPTH} deep")));
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            b',' if !in_string => values += 1,
            _ => {}
        }
    }
    if collections <= MAX_COLLECTIONS && values <= MAX_VALUES {
        return Ok(());
    }
    let message =
        format!("the output has more than {MAX_COLLECTIONS} objects and lists, or more than {MAX_VALUES} values");
    Err(Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message))
}

pub(crate) fn typed<T: DeserializeOwned>(document: Value) -> Result<T, Refusal> {
    api::json::from_value(document).map_err(Refusal::invalid)
}

/// The fields of an object without those that are null. The kind is checked first: a list would pass for a structure of as many
/// fields.
pub(crate) fn fields(text: &str, model: &str) -> Result<Map<String, Value>, Refusal> {
    match parsed(text)? {
        Value::Null => Ok(Map::new()),
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null());
            Ok(fields)
        }
        other => Err(Refusal::invalid(wrong_type(&other, model))),
    }
}

/// No host is asked about more disks or images.
pub(crate) const MAX_ENTRIES: usize = 64;

/// The documents stored in a text, by what they are about.
pub(crate) fn stored(text: Option<&String>) -> Map<String, Value> {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_of_too_many_parts_is_refused_before_it_is_parsed() {
        let status = |text: &str| match object::<Map<String, Value>>(text, "Inventory") {
            Err(Refusal::Request(status, _)) => status.as_u16(),
            other => other.map_or(0, |_| 200),
        };
        assert_eq!(status(&format!(r#"{{"disks":[{}{{}}]}}"#, "{},".repeat(60_000))), 200);
        assert_eq!(status(&format!(r#"{{"disks":[{}{{}}]}}"#, "{},".repeat(70_000))), 413);
        assert_eq!(status(&format!(r#"{{"disks":[{}0]}}"#, "0,".repeat(600_000))), 413);
        // What stands in a string is one value.
        assert_eq!(status(&format!(r#"{{"hostname":"\"{}"}}"#, "[{,".repeat(600_000))), 200);
    }

    #[test]
    fn other_kinds_of_documents_are_refused_in_the_published_words() {
        let refused = |outcome: Result<(), Refusal>| match outcome {
            Err(Refusal::Application(status, reason)) => (status.as_u16(), reason),
            other => panic!("{other:?}"),
        };
        let (status, reason) = refused(object::<Map<String, Value>>("[]", "NtpSynchronizationResponse").map(drop));
        assert_eq!(status, 400);
        assert_eq!(reason, "json: cannot unmarshal array into Go value of type models.NtpSynchronizationResponse");
        let (_, reason) = refused(list("{}", "FreeNetworksAddresses").map(drop));
        assert_eq!(reason, "json: cannot unmarshal object into Go value of type models.FreeNetworksAddresses");
    }
}
