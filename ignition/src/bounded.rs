//! JSON from strangers: a document may have so many values and no more.
//!
//! An empty object in a list is three bytes of text and some hundred of memory, so that a limit of the text alone bounds nothing.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::{cell::Cell, fmt};

/// `json`, unless it has more than `max_values` values: objects, lists and what is in them. Such a document's error is one of
/// data (see [`serde_json::Error::is_data`]); others are not.
pub(crate) fn parse(json: &[u8], max_values: usize) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Bounded { left: &Cell::new(max_values) }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Bounded<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom("too many values"))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = entries.next_key()? {
            map.insert(name, entries.next_value_seed(self)?);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_counted() {
        let json = br#"{"a": [null, true, -1, 1, 1.5, "x\ny"], "b": {}}"#;
        assert_eq!(parse(json, 9).unwrap(), serde_json::from_slice::<Value>(json).unwrap());
        assert!(parse(json, 8).unwrap_err().is_data());
        assert!(parse(b"{} x", 9).unwrap_err().is_syntax());
    }

    proptest! {
        #[test]
        fn text_is_read_as_ever(text in r#"([\[\]{},:"a0-9.e-]|true|null|"b":){0,20}"#) {
            let plain: Option<Value> = serde_json::from_str(&text).ok();
            prop_assert_eq!(parse(text.as_bytes(), 100).ok(), plain);
        }
    }
}
