//! The form of a report: its JSON Schema, and what that says of a path, so that a misspelt one is noticed.

use flate2::read::DeflateDecoder;
use kernel::{order::Gather, spelling::nearest};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, io::Read};

/// The JSON Schema of a report, as the types give it: a test holds the file to them. `build.rs` packs it.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/report.schema.json"));

/// The same, read.
pub(super) fn report() -> Value {
    let mut text = Vec::new();
    DeflateDecoder::new(PACKED).read_to_end(&mut text).expect("the build packed it");
    serde_json::from_slice(&text).expect("the file is JSON")
}

/// The part of a schema that describes one place of the document.
#[derive(Clone, Debug)]
pub(super) struct Shape<'a> {
    whole: &'a Value,
    /// What may be there, references followed; more than one where the schema has alternatives.
    forms: Vec<&'a Map<String, Value>>,
}

impl<'a> Shape<'a> {
    /// The shape of a whole document of the schema.
    pub(super) fn new(schema: &'a Value) -> Self {
        Self::at(schema, schema)
    }

    fn at(whole: &'a Value, part: &'a Value) -> Self {
        let mut shape = Self { whole, forms: Vec::new() };
        shape.add(part);
        shape
    }

    fn add(&mut self, part: &'a Value) {
        let Value::Object(form) = part else { return };
        if let Some(target) = form.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.whole.pointer(pointer));
            target.into_iter().for_each(|target| self.add(target));
        }
        for alternatives in ["anyOf", "oneOf", "allOf"] {
            form.get(alternatives).and_then(Value::as_array).into_iter().flatten().for_each(|part| self.add(part));
        }
        self.forms.push(form);
    }

    /// The shape of a named field, or of a value of a map.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let named = self.forms.iter().find_map(|form| form.get("properties")?.get(name));
        named.or_else(|| self.map_values()).map(|part| Self::at(self.whole, part))
    }

    /// Names of the fields, sorted.
    pub(super) fn fields(&self) -> BTreeSet<&'a str> {
        self.forms
            .iter()
            .filter_map(|form| form.get("properties")?.as_object())
            .flat_map(Map::keys)
            .map(String::as_str)
            .gather()
    }

    /// Whether fields may be named below it.
    pub(super) fn has_fields(&self) -> bool {
        self.map_values().is_some() || !self.fields().is_empty()
    }

    fn map_values(&self) -> Option<&'a Value> {
        self.forms.iter().find_map(|form| form.get("additionalProperties")).filter(|part| part.is_object())
    }

    /// The shape of the elements of a list.
    pub(super) fn element(&self) -> Option<Self> {
        self.forms.iter().find_map(|form| form.get("items")).map(|part| Self::at(self.whole, part))
    }

    /// Whether a value of this JSON type may stand there.
    pub(super) fn may_be(&self, kind: &str) -> bool {
        self.forms.iter().any(|form| match form.get("type") {
            Some(Value::String(name)) => name == kind,
            Some(Value::Array(names)) => names.iter().any(|name| name == kind),
            _ => kind == "string" && (form.contains_key("enum") || form.contains_key("const")),
        })
    }

    /// The field that was probably meant.
    pub(super) fn nearest_field(&self, name: &str) -> Option<&'a str> {
        nearest(name, self.fields())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Report, by_name},
        *,
    };

    #[test]
    fn the_checked_in_schema_is_the_current_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/report.schema.json");
        let now = by_name(&schemars::schema_for!(Report).to_value());
        let now = serde_json::to_string_pretty(&now).unwrap() + "\n";
        if std::env::var_os("LANDFALL_WRITE_SCHEMA").is_some() {
            std::fs::write(file, &now).unwrap();
        }
        let checked_in = std::fs::read_to_string(file).unwrap_or_default();
        let how = "LANDFALL_WRITE_SCHEMA=1 cargo test -p inventory the_checked_in_schema";
        assert!(checked_in == now, "{file} does not match the types; to regenerate it: {how}");
    }

    #[test]
    fn fields_are_found_through_references_and_alternatives() {
        let schema = serde_json::json!({
            "$defs": {"Tpm": {"type": "object", "properties": {"banks": {"type": "array", "items": {"type": "string"}}}}},
            "properties": {
                "tpm": {"anyOf": [{"$ref": "#/$defs/Tpm"}, {"type": "null"}]},
                "flaws": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
                "gone": {"$ref": "#/$defs/None"},
            }
        });
        let shape = Shape::new(&schema);
        let banks = shape.field("tpm").unwrap().field("banks").unwrap();
        assert!(banks.may_be("array") && banks.element().unwrap().may_be("string") && banks.field("x").is_none());
        assert!(shape.field("flaws").unwrap().field("anything").unwrap().may_be("string"));
        assert!(shape.field("flaws").unwrap().has_fields() && !banks.has_fields());
        assert!(!shape.field("gone").unwrap().has_fields() && shape.field("none").is_none());
        assert_eq!((shape.nearest_field("tmp"), shape.nearest_field("flawz")), (Some("tpm"), Some("flaws")));
    }
}
