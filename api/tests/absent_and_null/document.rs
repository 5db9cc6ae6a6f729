//! Documents made from the description, and what may become of them.

use serde_json::{Map, Value, json};

/// What was done to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Absent,
    Null,
    /// An enum's text is one that is not in the description.
    NewText,
    /// An object has a field that is not in the description.
    NewName,
}

/// A document with one change.
pub(crate) struct Variant {
    /// Where, as a JSON pointer.
    pub at: String,
    /// The innermost named definition there.
    pub definition: String,
    /// Of the field.
    pub name: String,
    pub is_required: bool,
    pub change: Change,
    pub document: Value,
    /// The document without the field.
    pub absent: Value,
}

/// A field of the full document.
struct Place {
    object: String,
    definition: String,
    name: String,
    is_required: bool,
    is_enum: bool,
}

impl Place {
    fn at(&self) -> String {
        format!("{}/{}", self.object, self.name.replace('~', "~0").replace('/', "~1"))
    }
}

pub(crate) struct Description(Value);

impl Description {
    pub(crate) fn new(description: Value) -> Self {
        Self(description)
    }

    fn definition(&self, name: &str) -> &Value {
        let definition = &self.0["definitions"][name];
        assert!(definition.is_object(), "no definition {name}");
        definition
    }

    /// A schema with what it refers to: its name, if it is a named one of an object, and itself.
    fn resolve(&self, schema: &Value, name: &str) -> (String, Value) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/definitions/").unwrap();
            return self.resolve(self.definition(name), name);
        }
        let Some(parts) = schema["allOf"].as_array() else { return (name.to_owned(), schema.clone()) };
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for part in parts {
            let (_, part) = self.resolve(part, name);
            properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
            required.extend(part["required"].as_array().cloned().unwrap_or_default());
        }
        (name.to_owned(), json!({"type": "object", "properties": properties, "required": required}))
    }

    /// The document with everything in it.
    pub(crate) fn example(&self, definition: &str) -> Value {
        self.value(self.definition(definition), definition)
    }

    fn value(&self, schema: &Value, name: &str) -> Value {
        let (name, schema) = self.resolve(schema, name);
        if let Some(first) = schema["enum"].as_array().and_then(|texts| texts.first()) {
            return first.clone();
        }
        let kind = schema["type"].as_str().unwrap_or(if schema["properties"].is_object() { "object" } else { "" });
        match (kind, schema["format"].as_str()) {
            ("string", Some("uuid")) => json!("7e5ff6df-e038-4103-bbb2-90433ded3e50"),
            ("string", Some("date-time")) => json!("2026-11-24T04:14:20.127Z"),
            ("string", Some("mac")) => json!("52:54:00:aa:bb:01"),
            ("string", Some("ipv4")) => json!("10.0.0.1"),
            ("string", Some("ipv6")) => json!("fd00::1"),
            // Addresses are named by patterns, which fit networks too.
            ("string", _) if name.contains("ip") => json!("10.0.0.1"),
            ("string", _) => json!("text"),
            ("integer", _) => schema.get("minimum").cloned().unwrap_or(json!(1)),
            ("number", _) => json!(1.5),
            ("boolean", _) => json!(true),
            ("array", _) => json!([self.value(&schema["items"], &name)]),
            ("object", _) => {
                let properties = schema["properties"].as_object();
                let mut fields: Map<String, Value> = properties
                    .into_iter()
                    .flatten()
                    .map(|(name, schema)| (name.clone(), self.value(schema, name)))
                    .collect();
                if let Some(schema) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
                    fields.insert("key".into(), self.value(schema, &name));
                }
                Value::Object(fields)
            }
            ("", _) => Value::Null,
            other => panic!("{name}: a type of schema that is not known here: {other:?}"),
        }
    }

    fn places(&self, schema: &Value, name: &str, value: &Value, object: String, places: &mut Vec<Place>) {
        let (definition, schema) = self.resolve(schema, name);
        match value {
            Value::Array(items) => {
                for (number, item) in items.iter().enumerate() {
                    self.places(&schema["items"], &definition, item, format!("{object}/{number}"), places);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let own = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                    let required = schema["required"].as_array();
                    let place = Place {
                        object: object.clone(),
                        definition: definition.clone(),
                        name: name.clone(),
                        is_required: required.is_some_and(|required| required.contains(&json!(name))),
                        is_enum: value.is_string() && self.resolve(own, "").1["enum"].is_array(),
                    };
                    let inner = place.at();
                    places.push(place);
                    self.places(own, &definition, value, inner, places);
                }
            }
            _ => {}
        }
    }

    fn all_places(&self, definition: &str, full: &Value) -> Vec<Place> {
        let mut places = Vec::new();
        self.places(self.definition(definition), definition, full, String::new(), &mut places);
        places
    }

    /// Each with one change.
    pub(crate) fn variants(&self, definition: &str, full: &Value) -> Vec<Variant> {
        let mut variants = Vec::new();
        for place in self.all_places(definition, full) {
            let changed = |change: &dyn Fn(&mut Map<String, Value>)| {
                let mut document = full.clone();
                change(document.pointer_mut(&place.object).unwrap().as_object_mut().unwrap());
                document
            };
            let set = |name: &str, value: Value| changed(&|fields| drop(fields.insert(name.to_owned(), value.clone())));
            let absent = changed(&|fields| drop(fields.remove(&place.name)));
            let mut push = |change, document| {
                variants.push(Variant {
                    at: place.at(),
                    definition: place.definition.clone(),
                    name: place.name.clone(),
                    is_required: place.is_required,
                    change,
                    document,
                    absent: absent.clone(),
                });
            };
            push(Change::Absent, absent.clone());
            push(Change::Null, set(&place.name, Value::Null));
            push(Change::NewName, set("a_field_of_next_year", json!({"a": [1]})));
            if place.is_enum {
                push(Change::NewText, set(&place.name, json!("a text of next year")));
            }
        }
        variants
    }

    /// The document with everything absent, and null, that may be: at the top, and all within.
    pub(crate) fn bare(
        &self,
        definition: &str,
        full: &Value,
        is_argument: bool,
        essential: &[(&str, &str, &str)],
    ) -> Vec<(&'static str, Value)> {
        let places = self.all_places(definition, full);
        let stays = |place: &Place| {
            let listed = essential.iter().any(|(d, n, _)| (*d, *n) == (&*place.definition, &*place.name));
            listed || is_argument && place.is_required
        };
        let bare = |new: Option<&Value>, is_leaf_only: bool| {
            let mut document = full.clone();
            for place in places.iter().filter(|place| !stays(place)) {
                // An outer field may be gone already.
                let Some(Value::Object(fields)) = document.pointer_mut(&place.object) else { continue };
                if is_leaf_only && fields.get(&place.name).is_some_and(|value| value.is_object() || value.is_array()) {
                    continue;
                }
                match new {
                    Some(value) => drop(fields.insert(place.name.clone(), value.clone())),
                    None => drop(fields.remove(&place.name)),
                }
            }
            document
        };
        vec![
            ("absent", bare(None, false)),
            ("null", bare(Some(&Value::Null), false)),
            ("within absent", bare(None, true)),
            ("within null", bare(Some(&Value::Null), true)),
        ]
    }
}

/// The same without fields that are null.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
