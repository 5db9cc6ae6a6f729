//! Request bodies: the fields of each operation and their rules, with the real service's error texts.
//!
//! A body is checked in two passes, as clients expect: first whether every field is known and has its type, then each field's
//! rule, in alphabetical order.

use super::{Refusal, call};
use kernel::order;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The shape of one operation's body.
pub struct BodyShape {
    /// The parameter's name, as errors give it.
    pub name: &'static str,
    /// The type's name, as errors give it.
    pub model: &'static str,
    pub fields: &'static [Field],
}

/// An object within a body.
pub struct Model {
    /// The type's name, as errors give it.
    pub name: &'static str,
    /// The same, as the API's description gives it.
    pub described_name: &'static str,
    pub fields: &'static [Field],
}

/// A form of text.
pub struct Pattern {
    /// The regular expression, as errors give it.
    pub text: &'static str,
    /// Whether a text matches.
    pub fits: fn(&str) -> bool,
}

pub struct Field {
    pub name: &'static str,
    /// Must be there.
    pub required: bool,
    /// An empty text or 0 counts as absent.
    pub zero_is_absent: bool,
    /// What it must be.
    pub rule: Rule,
    /// Its type in the API's description, if not the rule's. If empty, the description omits the field: it is in the published API,
    /// but here it has no effect that a client could rely on.
    pub described: Option<&'static str>,
    /// The description allows null.
    pub nullable: bool,
    /// The description requires it, though a request without it is accepted.
    pub described_as_required: bool,
}

/// The rule of a field.
pub enum Rule {
    /// Anything of its type.
    Any,
    Text,
    Flag,
    /// A whole number between two bounds.
    Integer(i64, i64),
    Uuid,
    /// One of a few texts.
    OneOf(&'static [&'static str]),
    /// Text of a length.
    Length(usize, usize),
    /// Text of a form.
    Form(&'static Pattern),
    Object(&'static Model),
    /// A list of objects.
    List(&'static Model),
    /// A list of texts.
    Texts,
}

impl Field {
    const fn new(name: &'static str, rule: Rule) -> Self {
        let (required, zero_is_absent, described, nullable, described_as_required) = (false, false, None, false, false);
        Self { name, required, zero_is_absent, rule, described, nullable, described_as_required }
    }

    /// The same, required.
    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// The same, described with this type.
    pub const fn described(self, kind: &'static str) -> Self {
        Self { described: Some(kind), ..self }
    }

    /// The same, omitted from the description.
    pub const fn undescribed(self) -> Self {
        self.described("")
    }

    /// The same, described as nullable.
    pub const fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }

    /// The same, described as required.
    pub const fn described_as_required(self) -> Self {
        Self { described_as_required: true, ..self }
    }

    /// A line of the description: its name and type; `None` if omitted.
    pub fn line(&self) -> Option<String> {
        let kind = match (self.described, &self.rule) {
            (Some(""), _) => return None,
            (Some(kind), _) => kind.to_owned(),
            (None, Rule::Any) => "any".to_owned(),
            (None, Rule::Text | Rule::Length(..) | Rule::Form(_)) => "string".to_owned(),
            (None, Rule::Flag) => "bool".to_owned(),
            (None, Rule::Integer(..)) => "int".to_owned(),
            (None, Rule::Uuid) => "uuid".to_owned(),
            (None, Rule::OneOf(texts)) => format!("={}", texts.join("|")),
            (None, Rule::Object(model)) => format!("@{}", model.described_name),
            (None, Rule::List(model)) => format!("[@{}]", model.described_name),
            (None, Rule::Texts) => "[string]".to_owned(),
        };
        let required = if self.required || self.described_as_required { "!" } else { "" };
        let nullable = if self.nullable { "?" } else { "" };
        Some(format!("  {}{required} {kind}{nullable}", self.name))
    }

    /// The same; an empty one counts as absent.
    pub const fn or_zero(self) -> Self {
        Self { zero_is_absent: true, ..self }
    }
}

/// A body's shape: the parameter's name, the type's, the fields.
pub(crate) const fn shape(name: &'static str, model: &'static str, fields: &'static [Field]) -> BodyShape {
    BodyShape { name, model, fields }
}

/// An object: its type's name, the same in the description, the fields.
pub(crate) const fn model(name: &'static str, described_name: &'static str, fields: &'static [Field]) -> Model {
    Model { name, described_name, fields }
}

/// An optional field with any value of its type.
pub(crate) const fn any(name: &'static str) -> Field {
    Field::new(name, Rule::Any)
}

pub(crate) const fn text(name: &'static str) -> Field {
    Field::new(name, Rule::Text)
}

pub(crate) const fn flag(name: &'static str) -> Field {
    Field::new(name, Rule::Flag)
}

/// A whole number between two bounds.
pub(crate) const fn integer(name: &'static str, least: i64, most: i64) -> Field {
    Field::new(name, Rule::Integer(least, most))
}

pub(crate) const fn uuid(name: &'static str) -> Field {
    Field::new(name, Rule::Uuid)
}

/// One of a few texts.
pub(crate) const fn one_of(name: &'static str, texts: &'static [&'static str]) -> Field {
    Field::new(name, Rule::OneOf(texts))
}

/// Text of a length.
pub(crate) const fn length(name: &'static str, least: usize, most: usize) -> Field {
    Field::new(name, Rule::Length(least, most))
}

/// Text of a form.
pub(crate) const fn form(name: &'static str, pattern: &'static Pattern) -> Field {
    Field::new(name, Rule::Form(pattern))
}

pub(crate) const fn object(name: &'static str, model: &'static Model) -> Field {
    Field::new(name, Rule::Object(model))
}

/// A list of objects.
pub(crate) const fn list(name: &'static str, model: &'static Model) -> Field {
    Field::new(name, Rule::List(model))
}

/// A list of texts.
pub(crate) const fn texts(name: &'static str) -> Field {
    Field::new(name, Rule::Texts)
}

/// Parses a body: first the fields' names and types, then required fields and each field's rule.
pub(crate) fn parse<T: DeserializeOwned>(shape: &BodyShape, body: &[u8]) -> Result<T, Refusal> {
    let failed =
        |why: String| Refusal::bad_request(format!("parsing {} body from \"\" failed, because {why}", shape.name));
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Refusal::bad_request(format!("{} in body is required", shape.name)));
    }
    let document: Value = serde_json::from_slice(body).map_err(|error| failed(error.to_string()))?;
    let Value::Object(mut document) = document else {
        return Err(failed(wrong_type(&document, shape.model)));
    };
    let place = Place { model: shape.model, path: String::new() };
    type_check(&place, shape.fields, &document).map_err(failed)?;
    judge("", shape.fields, &mut document)?;
    api::json::from_value(Value::Object(document)).map_err(|error| failed(error.to_string()))
}

/// Where in a body a field is, as Go names it.
struct Place<'a> {
    model: &'a str,
    path: String,
}

impl Place<'_> {
    fn wrong(&self, field: &str, value: &Value, wanted: &str) -> String {
        let (model, path) = (self.model, &self.path);
        format!("json: cannot unmarshal {} into Go struct field {model}.{path}{field} of type {wanted}", kind(value))
    }

    fn within(&self, field: &str) -> Self {
        Self { model: self.model, path: format!("{}{field}.", self.path) }
    }
}

fn type_check(place: &Place, fields: &[Field], document: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in document {
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            return Err(format!("json: unknown field {name:?}"));
        };
        let wrong = |wanted: &str| Err(place.wrong(name, value, wanted));
        match (&field.rule, value) {
            (_, Value::Null) | (Rule::Any, _) => {}
            (Rule::Text | Rule::Uuid | Rule::OneOf(_) | Rule::Length(..) | Rule::Form(_), Value::String(_))
            | (Rule::Flag, Value::Bool(_)) => {}
            (Rule::Text | Rule::Uuid | Rule::OneOf(_) | Rule::Length(..) | Rule::Form(_), _) => return wrong("string"),
            (Rule::Flag, _) => return wrong("bool"),
            (Rule::Integer(..), Value::Number(number)) if number.as_i64().is_some() => {}
            (Rule::Integer(..), Value::Number(number)) => {
                let (model, path) = (place.model, &place.path);
                return Err(format!(
                    "json: cannot unmarshal number {number} into Go struct field {model}.{path}{name} of type int64"
                ));
            }
            (Rule::Integer(..), _) => return wrong("int64"),
            (Rule::Object(model), Value::Object(inner)) => type_check(&place.within(name), model.fields, inner)?,
            (Rule::Object(model), _) => return wrong(&format!("models.{}", model.name)),
            (Rule::List(model), Value::Array(items)) => {
                for item in items {
                    match item {
                        Value::Null => {}
                        Value::Object(inner) => type_check(&place.within(name), model.fields, inner)?,
                        other => return Err(place.wrong(name, other, &format!("models.{}", model.name))),
                    }
                }
            }
            (Rule::List(model), _) => return wrong(&format!("[]*models.{}", model.name)),
            (Rule::Texts, Value::Array(items)) => {
                if let Some(other) = items.iter().find(|item| !item.is_string() && !item.is_null()) {
                    return Err(place.wrong(name, other, "string"));
                }
            }
            (Rule::Texts, _) => return wrong("[]string"),
        }
    }
    Ok(())
}

/// Applies each field's rule; removes nulls.
fn judge(path: &str, fields: &[Field], document: &mut Map<String, Value>) -> Result<(), Refusal> {
    document.retain(|_, value| !value.is_null());
    let mut ordered: Vec<&Field> = fields.iter().collect();
    order::sort_by_key(&mut ordered, |field| field.name);
    for field in ordered {
        let name = format!("{path}{}", field.name);
        let zero = |value: &Value| value.as_str() == Some("") || value.as_i64() == Some(0);
        if document.get(field.name).is_none_or(|value| field.zero_is_absent && zero(value)) {
            if field.required {
                return Err(Refusal::bad_request(format!("{name} in body is required")));
            }
            document.remove(field.name);
            continue;
        }
        match &field.rule {
            Rule::Object(model) => {
                if let Some(Value::Object(inner)) = document.get_mut(field.name) {
                    judge(&format!("{name}."), model.fields, inner)?;
                }
            }
            Rule::List(model) => {
                if let Some(Value::Array(items)) = document.get_mut(field.name) {
                    for (index, item) in items.iter_mut().enumerate() {
                        let Value::Object(inner) = item else { continue };
                        judge(&format!("{name}.{index}."), model.fields, inner)?;
                    }
                    items.retain(|item| !item.is_null());
                }
            }
            Rule::Texts => {
                if let Some(Value::Array(items)) = document.get_mut(field.name) {
                    items.iter_mut().filter(|item| item.is_null()).for_each(|item| *item = Value::from(""));
                }
            }
            rule => {
                if let Some(value) = document.get(field.name) {
                    judge_value(&name, rule, value)?;
                }
            }
        }
    }
    Ok(())
}

fn judge_value(name: &str, rule: &Rule, value: &Value) -> Result<(), Refusal> {
    let refused = |why: String| Err(Refusal::bad_request(format!("{name} in body {why}")));
    let text = value.as_str().unwrap_or_default();
    match rule {
        Rule::Uuid => call::uuid(name, "body", text).map(drop),
        Rule::OneOf(allowed) if !allowed.contains(&text) => {
            refused(format!("should be one of [{}]", allowed.join(" ")))
        }
        Rule::Length(least, most) => match text.chars().count() {
            length if length < *least => refused(format!("should be at least {least} chars long")),
            length if length > *most => refused(format!("should be at most {most} chars long")),
            _ => Ok(()),
        },
        Rule::Form(pattern) if !(pattern.fits)(text) => refused(format!("should match '{}'", pattern.text)),
        Rule::Integer(least, most) => match value.as_i64() {
            Some(number) if number < *least => refused(format!("should be greater than or equal to {least}")),
            Some(number) if number > *most => refused(format!("should be less than or equal to {most}")),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Go's words for a document of the wrong kind.
pub(crate) fn wrong_type(value: &Value, model: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type models.{model}", kind(value))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    const LOWER: Pattern =
        Pattern { text: "^[a-z]*$", fits: |text| text.bytes().all(|byte| byte.is_ascii_lowercase()) };
    const NETWORK: Model = Model {
        name: "Network",
        described_name: "network",
        fields: &[
            form("cidr", &LOWER).or_zero(),
            integer("host_prefix", 1, 128).or_zero(),
            uuid("cluster_id").or_zero(),
        ],
    };
    const SHAPE: BodyShape = BodyShape {
        name: "newHostParams",
        model: "HostCreateParams",
        fields: &[
            uuid("host_id").required(),
            any("discovery_agent_version"),
            one_of("kind", &["a", "b"]),
            one_of("type", &["c"]).or_zero(),
            length("name", 1, 3),
            form("word", &LOWER),
            flag("good"),
            integer("count", 1, 5),
            object("network", &NETWORK),
            list("networks", &NETWORK),
            texts("words"),
        ],
    };

    fn message(body: &str) -> String {
        match parse::<Value>(&SHAPE, body.as_bytes()) {
            Err(Refusal::Request(StatusCode::BAD_REQUEST, message)) => message,
            Err(Refusal::Application(status, reason)) => format!("{status} {reason}"),
            other => format!("{other:?}"),
        }
    }

    const ID: &str = r#""host_id":"7e5ff6df-e038-4103-bbb2-90433ded3e50""#;

    #[test]
    fn rules_in_the_real_services_words() {
        for (fields, expected) in [
            (r#""kind":"c""#, "kind in body should be one of [a b]"),
            (r#""kind":"""#, "kind in body should be one of [a b]"),
            (r#""type":"d""#, "type in body should be one of [c]"),
            (r#""name":"""#, "name in body should be at least 1 chars long"),
            (r#""name":"abcd""#, "name in body should be at most 3 chars long"),
            (r#""word":"A""#, "word in body should match '^[a-z]*$'"),
            (r#""count":0"#, "count in body should be greater than or equal to 1"),
            (r#""count":6"#, "count in body should be less than or equal to 5"),
            (r#""network":{"cidr":"A"}"#, "network.cidr in body should match '^[a-z]*$'"),
            (
                r#""networks":[null,{"host_prefix":129}]"#,
                "networks.1.host_prefix in body should be less than or equal to 128",
            ),
            (r#""networks":[{"cluster_id":"x"}]"#, "networks.0.cluster_id in body must be of type uuid: \"x\""),
            (r#""word":"A","count":9"#, "count in body should be less than or equal to 5"),
        ] {
            assert_eq!(message(&format!("{{{ID},{fields}}}")), expected, "{fields}");
        }
        assert_eq!(message("{}"), "host_id in body is required");
        assert_eq!(message(r#"{"host_id":null}"#), "host_id in body is required");
        assert_eq!(message(r#"{"host_id":"bad"}"#), "host_id in body must be of type uuid: \"bad\"");
        assert_eq!(message(" "), "newHostParams in body is required");
    }

    #[test]
    fn types_and_names_in_gos_words() {
        for (fields, expected) in [
            (r#""unknown_field":1"#, r#"json: unknown field "unknown_field""#),
            (r#""network":{"mask":1}"#, r#"json: unknown field "mask""#),
            (r#""name":1"#, "json: cannot unmarshal number into Go struct field HostCreateParams.name of type string"),
            (r#""good":"x""#, "json: cannot unmarshal string into Go struct field HostCreateParams.good of type bool"),
            (
                r#""count":true"#,
                "json: cannot unmarshal bool into Go struct field HostCreateParams.count of type int64",
            ),
            (
                r#""count":1.5"#,
                "json: cannot unmarshal number 1.5 into Go struct field HostCreateParams.count of type int64",
            ),
            (
                r#""words":"x""#,
                "json: cannot unmarshal string into Go struct field HostCreateParams.words of type []string",
            ),
            (
                r#""networks":{}"#,
                "json: cannot unmarshal object into Go struct field HostCreateParams.networks of type []*models.Network",
            ),
            (
                r#""networks":[{"cidr":[]}]"#,
                "json: cannot unmarshal array into Go struct field HostCreateParams.networks.cidr of type string",
            ),
        ] {
            let expected = format!("parsing newHostParams body from \"\" failed, because {expected}");
            assert_eq!(message(&format!("{{{ID},{fields}}}")), expected, "{fields}");
        }
        assert!(message("[]").ends_with("json: cannot unmarshal array into Go value of type models.HostCreateParams"));
        assert!(message("{").starts_with("parsing newHostParams body"));
    }

    #[test]
    fn what_is_absent_null_or_empty_is_taken() {
        let body = format!(
            r#"{{{ID},"kind":null,"type":"","network":{{"cidr":"","host_prefix":0}},"networks":[null],"words":["a",null]}}"#
        );
        let parsed: Value = parse(&SHAPE, body.as_bytes()).unwrap();
        assert_eq!(parsed["networks"], serde_json::json!([]));
        assert_eq!(parsed["words"], serde_json::json!(["a", ""]));
        assert!(parsed.get("kind").is_none());
    }
}
