//! The description of bodies, queries and answers that `landfall serve` publishes: `service_stub::endpoints` says how it is
//! written.

use crate::answer::Form;
use api::endpoint::Endpoint;
use serde_json::{Map, Value};
use service_stub::{endpoints::ENDPOINTS, openapi};
use std::collections::BTreeMap;

/// What no version of the service has yet.
const NEW_FIELD: &str = "a_field_of_next_year";

struct Operation {
    /// Name, whether it is required, and type.
    query: Vec<(&'static str, bool, &'static str)>,
    body: String,
    answer: &'static str,
}

struct Member {
    name: &'static str,
    is_required: bool,
    kind: &'static str,
}

/// What is published.
pub struct Description {
    operations: BTreeMap<(&'static str, &'static str), Operation>,
    models: BTreeMap<&'static str, Vec<Member>>,
    enums: BTreeMap<&'static str, &'static str>,
}

fn required(name: &'static str) -> (&'static str, bool) {
    name.strip_suffix('!').map_or((name, false), |name| (name, true))
}

impl Description {
    pub fn new() -> Self {
        let operations = ENDPOINTS.iter().map(|endpoint| {
            let pairs = endpoint.query.split(' ').filter_map(|parameter| parameter.split_once(':'));
            let query = pairs.map(|(name, kind)| {
                let (name, is_required) = required(name);
                (name, is_required, kind)
            });
            let answer = endpoint.replies.first().map_or("", |(_, kind)| kind);
            let operation = Operation { query: query.collect(), body: openapi::body_type(endpoint), answer };
            ((endpoint.method.as_str(), endpoint.path), operation)
        });
        let (mut models, mut enums) = (BTreeMap::new(), BTreeMap::new());
        let mut current = "";
        for line in openapi::MODELS.lines() {
            if let Some(member) = line.strip_prefix("  ") {
                let (name, kind) = member.split_once(' ').unwrap_or((member, "any"));
                let (name, is_required) = required(name);
                let members: &mut Vec<Member> = models.entry(current).or_default();
                members.push(Member { name, is_required, kind });
            } else if let Some((name, texts)) = line.split_once(" = ") {
                enums.insert(name, texts);
            } else {
                let (name, base) = line.split_once(" : ").map_or((line, None), |(name, base)| (name, Some(base)));
                current = name;
                let inherited = base.and_then(|base| models.get(base)).into_iter().flatten();
                let copy =
                    |member: &Member| Member { name: member.name, is_required: member.is_required, kind: member.kind };
                let inherited: Vec<Member> = inherited.map(copy).collect();
                models.insert(name, inherited);
            }
        }
        Self { operations: operations.collect(), models, enums }
    }

    fn operation(&self, endpoint: &'static Endpoint) -> &Operation {
        let found = self.operations.get(&(endpoint.method.as_str(), endpoint.path));
        found.unwrap_or_else(|| panic!("{} is not described", endpoint.operation))
    }

    /// Parameters of a query, decoded enough for their types.
    pub fn check_query(&self, endpoint: &'static Endpoint, pairs: &[(&str, &str)]) -> Result<(), String> {
        for (name, is_required, kind) in &self.operation(endpoint).query {
            match pairs.iter().find(|(own, _)| own == name) {
                None if *is_required => return Err(format!("{name} in query is required")),
                None => {}
                Some((_, text)) => self.check_text(kind, text).map_err(|what| format!("{name} in query {what}"))?,
            }
        }
        Ok(())
    }

    fn check_text(&self, kind: &str, text: &str) -> Result<(), String> {
        if let Some(kind) = inner(kind, '[', ']') {
            return text.split(',').try_for_each(|text| self.check_text(kind, text));
        }
        let value = match kind {
            "int" => text.parse::<i64>().map(Value::from).ok(),
            "bool" => text.parse::<bool>().map(Value::from).ok(),
            _ => Some(Value::from(text)),
        };
        let value = value.ok_or_else(|| format!("must be of type {kind}: {text:?}"))?;
        self.fault(kind, &value, "").map_or(Ok(()), Err)
    }

    /// The body of a request: unknown fields, missing ones, and types.
    pub fn check_body(&self, endpoint: &'static Endpoint, body: &Value) -> Result<(), String> {
        self.fault(&self.operation(endpoint).body, body, "").map_or(Ok(()), Err)
    }

    fn fault(&self, kind: &str, value: &Value, at: &str) -> Option<String> {
        let kind = kind.trim_end_matches('?');
        let wrong = || Some(format!("{at} in body must be of type {kind}: {value}").trim_start().to_owned());
        let is_one = |texts: &str| value.as_str().is_some_and(|text| texts.split('|').any(|own| own == text));
        if value.is_null() {
            return None;
        }
        if let Some(texts) = kind.strip_prefix('=') {
            return if is_one(texts) { None } else { wrong() };
        }
        if let Some(kind) = inner(kind, '[', ']') {
            let Some(items) = value.as_array() else { return wrong() };
            return items.iter().find_map(|item| self.fault(kind, item, at));
        }
        if let Some(kind) = inner(kind, '{', '}') {
            let Some(fields) = value.as_object() else { return wrong() };
            return fields.values().find_map(|value| self.fault(kind, value, at));
        }
        if let Some(name) = kind.strip_prefix('@') {
            if let Some(texts) = self.enums.get(name) {
                return if is_one(texts) { None } else { wrong() };
            }
            let Some(fields) = value.as_object() else { return wrong() };
            return self.object_fault(name, fields, at);
        }
        let fits = match kind {
            "string" | "time" => value.is_string(),
            "uuid" => value.as_str().is_some_and(|text| uuid::Uuid::try_parse(text).is_ok()),
            "int" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "bool" => value.is_boolean(),
            "any" => true,
            other => panic!("{at}: a type that is not known here: {other}"),
        };
        if fits { None } else { wrong() }
    }

    fn object_fault(&self, model: &str, fields: &Map<String, Value>, at: &str) -> Option<String> {
        let members = self.models.get(model).unwrap_or_else(|| panic!("no model {model}"));
        for name in fields.keys() {
            if !members.iter().any(|member| member.name == name) {
                return Some(format!("parsing body from \"\" failed, because json: unknown field {name:?}"));
            }
        }
        members.iter().find_map(|member| {
            let at = if at.is_empty() { member.name.to_owned() } else { format!("{at}.{}", member.name) };
            match fields.get(member.name) {
                None | Some(Value::Null) if member.is_required => Some(format!("{at} in body is required")),
                None => None,
                Some(value) => self.fault(member.kind, value, &at),
            }
        })
    }

    /// Gives a successful answer one of the forms that the service is free to choose. What it says stays the same.
    pub fn shape(&self, endpoint: &'static Endpoint, answer: &mut Value, form: Form) {
        self.shape_value(self.operation(endpoint).answer, answer, form);
        if let (Form::Full, Value::Object(fields)) = (form, answer) {
            fields.insert(NEW_FIELD.into(), serde_json::json!({"a": [1]}));
        }
    }

    fn shape_value(&self, kind: &str, value: &mut Value, form: Form) {
        let kind = kind.trim_end_matches('?');
        match value {
            Value::Array(items) => {
                let kind = inner(kind, '[', ']').unwrap_or("any");
                items.iter_mut().for_each(|item| self.shape_value(kind, item, form));
            }
            Value::Object(fields) => {
                let Some(members) = kind.strip_prefix('@').and_then(|name| self.models.get(name)) else { return };
                self.shape_object(members, fields, form);
            }
            _ => {}
        }
    }

    fn shape_object(&self, members: &[Member], fields: &mut Map<String, Value>, form: Form) {
        for member in members {
            if let Some(value) = fields.get_mut(member.name) {
                self.shape_value(member.kind, value, form);
            }
            if !fields.get(member.name).is_none_or(says_nothing) {
                continue;
            }
            match (form, empty(member.kind)) {
                (Form::Absent, _) => drop(fields.remove(member.name)),
                (Form::Null, _) => drop(fields.insert(member.name.into(), Value::Null)),
                (Form::Full, Some(empty)) => drop(fields.insert(member.name.into(), empty)),
                (Form::Full, None) => {}
            }
        }
    }
}

fn inner(kind: &str, open: char, close: char) -> Option<&str> {
    kind.strip_prefix(open).and_then(|kind| kind.strip_suffix(close))
}

/// What the service's language leaves out.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => false,
    }
}

/// The value that says nothing, where a type has one.
fn empty(kind: &str) -> Option<Value> {
    Some(match kind.trim_end_matches('?') {
        "string" => "".into(),
        "int" => 0.into(),
        "number" => 0.0.into(),
        "bool" => false.into(),
        kind if kind.starts_with('[') => Value::Array(Vec::new()),
        _ => return None,
    })
}
