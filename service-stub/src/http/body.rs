//! Request bodies: which fields an operation knows and what they must be, with the real service's words when one isn't.

use super::{Refusal, call};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The shape of one operation's body.
pub struct BodyShape {
    /// The parameter's name, as errors give it.
    pub name: &'static str,
    /// The type's name, as errors give it.
    pub model: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

/// One field.
pub struct Field {
    /// Name.
    pub name: &'static str,
    /// Must be there.
    pub required: bool,
    /// What it must be.
    pub rule: Rule,
}

/// What a field must be.
pub enum Rule {
    /// Anything its type takes.
    Any,
    /// An identifier.
    Uuid,
    /// One of a few texts.
    OneOf(&'static [&'static str]),
    /// Text of a length.
    Length(usize, usize),
    /// Known to the contract, not handled here: refused unless it is absent, null or empty.
    NotHere,
}

/// A field that may be absent and is whatever its type takes.
pub const fn any(name: &'static str) -> Field {
    Field { name, required: false, rule: Rule::Any }
}

/// A field that must be there.
pub const fn required(name: &'static str) -> Field {
    Field { name, required: true, rule: Rule::Any }
}

/// A field of the contract that this service does not act on.
pub const fn not_here(name: &'static str) -> Field {
    Field { name, required: false, rule: Rule::NotHere }
}

/// Parses a body: first the fields' names, then what is required, then each field's rule, then the types.
pub fn parse<T: DeserializeOwned>(shape: &BodyShape, body: &[u8]) -> Result<T, Refusal> {
    let failed =
        |why: String| Refusal::bad_request(format!("parsing {} body from \"\" failed, because {why}", shape.name));
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Refusal::bad_request(format!("{} in body is required", shape.name)));
    }
    let document: Value = serde_json::from_slice(body).map_err(|error| failed(error.to_string()))?;
    let Value::Object(mut document) = document else {
        return Err(failed(wrong_type(&document, shape.model)));
    };
    if let Some(unknown) = document.keys().find(|key| !shape.fields.iter().any(|field| field.name == *key)) {
        return Err(failed(format!("json: unknown field {unknown:?}")));
    }
    for field in shape.fields {
        check(field, &mut document)?;
    }
    serde_json::from_value(Value::Object(document)).map_err(|error| failed(error.to_string()))
}

fn check(field: &Field, document: &mut Map<String, Value>) -> Result<(), Refusal> {
    let name = field.name;
    let value = document.get(name).filter(|value| !value.is_null());
    let Some(value) = value else {
        document.remove(name);
        return match field.required {
            true => Err(Refusal::bad_request(format!("{name} in body is required"))),
            false => Ok(()),
        };
    };
    match &field.rule {
        Rule::Uuid => {
            if let Some(text) = value.as_str() {
                call::uuid(name, "body", text)?;
            }
        }
        Rule::OneOf(allowed) => {
            if value.as_str().is_some_and(|text| !allowed.contains(&text)) {
                return Err(Refusal::bad_request(format!("{name} in body should be one of [{}]", allowed.join(" "))));
            }
        }
        Rule::Length(least, most) => {
            let length = value.as_str().map_or(*least, |text| text.chars().count());
            if length < *least {
                return Err(Refusal::bad_request(format!("{name} in body should be at least {least} chars long")));
            }
            if length > *most {
                return Err(Refusal::bad_request(format!("{name} in body should be at most {most} chars long")));
            }
        }
        Rule::NotHere => {
            let empty = match value {
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            if !empty {
                return Err(Refusal::not_implemented(&format!("field {name}")));
            }
            document.remove(name);
        }
        Rule::Any => {}
    }
    Ok(())
}

/// Go's words for a document of the wrong kind.
pub fn wrong_type(value: &Value, model: &str) -> String {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {kind} into Go value of type models.{model}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    const SHAPE: BodyShape = BodyShape {
        name: "newHostParams",
        model: "HostCreateParams",
        fields: &[
            Field { name: "host_id", required: true, rule: Rule::Uuid },
            any("discovery_agent_version"),
            Field { name: "kind", required: false, rule: Rule::OneOf(&["a", "b"]) },
            Field { name: "name", required: false, rule: Rule::Length(1, 3) },
            not_here("labels"),
        ],
    };

    fn message(body: &str) -> String {
        match parse::<Value>(&SHAPE, body.as_bytes()) {
            Err(Refusal::Request(StatusCode::BAD_REQUEST, message)) => message,
            Err(Refusal::Application(status, reason)) => format!("{status} {reason}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_real_services_words() {
        const ID: &str = r#""host_id":"7e5ff6df-e038-4103-bbb2-90433ded3e50""#;
        assert_eq!(message("{}"), "host_id in body is required");
        assert_eq!(message(r#"{"host_id":null}"#), "host_id in body is required");
        assert_eq!(message(r#"{"host_id":"bad"}"#), "host_id in body must be of type uuid: \"bad\"");
        let unknown = message(&format!(r#"{{{ID},"unknown_field":1}}"#));
        assert_eq!(
            unknown,
            r#"parsing newHostParams body from "" failed, because json: unknown field "unknown_field""#
        );
        assert_eq!(message(&format!(r#"{{{ID},"kind":"c"}}"#)), "kind in body should be one of [a b]");
        assert_eq!(message(&format!(r#"{{{ID},"name":""}}"#)), "name in body should be at least 1 chars long");
        assert_eq!(message(&format!(r#"{{{ID},"name":"abcd"}}"#)), "name in body should be at most 3 chars long");
        assert!(message(&format!(r#"{{{ID},"labels":[1]}}"#)).starts_with("501"));
        assert!(message("[]").ends_with("json: cannot unmarshal array into Go value of type models.HostCreateParams"));
        assert!(message("{").starts_with("parsing newHostParams body"));
        assert_eq!(message(" "), "newHostParams in body is required");
        assert!(parse::<Value>(&SHAPE, format!(r#"{{{ID},"labels":[],"kind":null}}"#).as_bytes()).is_ok());
    }
}
