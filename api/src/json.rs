//! How the service's documents are read: null counts as absent, and unknown texts of an enum are accepted.
//!
//! Every field of a type that reads such documents, except indispensable identities, has `default` with `null_is_default` or is an
//! `Option`; an enum that the service may extend has `unknown_is_default` or `only_known`.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error, IntoDeserializer, value::StringDeserializer},
};
use serde_json::Value;

/// A value as a typed document. It is parsed from text, since the library's direct way would generate a second parser for each of
/// many types.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_slice(&serde_json::to_vec(&value)?).map_err(|error| {
        // The position is in a text that no user has seen.
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        serde_json::Error::custom(text.strip_suffix(&place).unwrap_or(&text))
    })
}

/// A document as a value, through its text for the same reason.
pub fn to_value<T: Serialize>(document: T) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(&serde_json::to_vec(&document)?)
}

/// Reads `null` as the type's default: programs in Go write empty lists as `null`, and the service treats `null`, `[]` and absence alike.
pub fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the text of an enum; `null` and unknown texts as the default.
pub(crate) fn unknown_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    Ok(Option::<String>::deserialize(deserializer)?.and_then(known).unwrap_or_default())
}

/// As [`unknown_is_default`], with `None` as the default.
pub(crate) fn unknown_is_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(Option::<String>::deserialize(deserializer)?.and_then(known))
}

/// Reads texts of an enum, without unknown ones.
pub(crate) fn only_known<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let texts = Option::<Vec<Option<String>>>::deserialize(deserializer)?;
    Ok(texts.map(|texts| texts.into_iter().flatten().filter_map(known).collect()))
}

fn known<T: DeserializeOwned>(text: String) -> Option<T> {
    let text: StringDeserializer<serde::de::value::Error> = text.into_deserializer();
    T::deserialize(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_read_as_the_library_reads_them() {
        type Pair = (u8, String);
        for value in [json!([1, "a"]), json!([1]), json!([300, "a"]), json!({"a": null}), json!("at line 1 column 2")] {
            let expected = serde_json::from_value::<Pair>(value.clone()).map_err(|error| error.to_string());
            assert_eq!(from_value::<Pair>(value).map_err(|error| error.to_string()), expected);
        }
    }
}
