//! What steps print, taken as the published service takes it: fields that are absent or null are empty, unknown ones are dropped,
//! and of a list the entries that say nothing are left out.

use crate::http::{Refusal, body::wrong_type};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub fn object<T: DeserializeOwned>(text: &str, model: &str) -> Result<T, Refusal> {
    typed(Value::Object(fields(text, model)?))
}

pub fn list(text: &str, model: &str) -> Result<Vec<Value>, Refusal> {
    match parsed(text)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) => Ok(entries),
        other => Err(Refusal::invalid(wrong_type(&other, model))),
    }
}

fn parsed(text: &str) -> Result<Value, Refusal> {
    serde_json::from_str(text).map_err(Refusal::invalid)
}

pub fn typed<T: DeserializeOwned>(document: Value) -> Result<T, Refusal> {
    serde_json::from_value(document).map_err(Refusal::invalid)
}

/// The fields of an object that are there. Its kind is looked at first: a list would pass for a structure of as many fields.
pub fn fields(text: &str, model: &str) -> Result<Map<String, Value>, Refusal> {
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
pub const MAX_ENTRIES: usize = 64;

/// The documents stored in a text, by what they are about.
pub fn stored(text: Option<&String>) -> Map<String, Value> {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

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
