//! The description of what is served, in OpenAPI 3.0: made of the table of endpoints, so that it describes what there is and
//! nothing else.
//!
//! `models.txt` has the models that are in replies only: a name, with members below it. Types are written as in [`crate::endpoints`]; `?` marks what may be
//! null; `: model` takes over another's members.

mod swagger;

use crate::course::OperatorStatus;
use crate::endpoints::{Body, ENDPOINTS, Endpoint};
use crate::handlers::models;
use crate::http::body::{Field, Rule};
use crate::http::{Answer, Call, Refusal};
use crate::service::Service;
use crate::state::cluster::FinalizingStage;
use api::{HostStage, StepType, media::Media};
use kernel::order;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    sync::{LazyLock, OnceLock},
};

/// Texts that a field may have, by the name of their type.
const TEXTS: [(&str, &[&str]); 9] = [
    ("disk-role", models::DISK_ROLES),
    ("finalizing-stage", &FinalizingStage::NAMES),
    ("host-stage", &HostStage::NAMES),
    ("image_type", models::IMAGE_TYPES),
    ("logs_state", models::LOGS_STATES),
    ("operator-status", &OperatorStatus::NAMES),
    ("platform_type", models::PLATFORM_TYPES),
    ("step-type", &StepType::NAMES),
    ("vip_verification", models::VERIFICATION),
];

/// The models: those of `models.txt`, those of the bodies that endpoints take, and of the objects in these.
pub static MODELS: LazyLock<String> = LazyLock::new(|| {
    let mut bodies = BTreeMap::new();
    for endpoint in ENDPOINTS.iter() {
        if let Body::Object(shape) = endpoint.body {
            add(&mut bodies, model_name(shape.model), shape.fields);
        }
    }
    let mut text = include_str!("models.txt").to_owned();
    text.extend(TEXTS.map(|(name, texts)| format!("{name} = {}\n", texts.join("|"))));
    text.extend(bodies.into_iter().map(|(name, lines)| format!("{name}\n{}\n", lines.join("\n"))));
    text
});

/// Adds a model, and those of the objects in it.
fn add(models: &mut BTreeMap<String, Vec<String>>, name: String, fields: &[Field]) {
    let mut lines: Vec<String> = fields.iter().filter_map(Field::line).collect();
    order::sort(&mut lines);
    models.insert(name, lines);
    for field in fields {
        if let (None | Some(""), Rule::Object(model) | Rule::List(model)) = (field.described, &field.rule) {
            add(models, model.described_name.to_owned(), model.fields);
        }
    }
}

/// What any request may be refused with.
const ERRORS: [u16; 10] = [400, 401, 403, 404, 408, 413, 414, 429, 431, 500];
/// And where this service lacks a part of an operation, or a place for a request.
const LATER: [u16; 2] = [501, 503];

/// GET /openapi, GET /v2/openapi.
pub(crate) fn show(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let made = MADE.get_or_init(|| document(&service.settings.url).to_string().into_bytes());
    Ok(Answer::made(made.clone()))
}

/// GET /swagger.json.
pub(crate) fn show_swagger(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let made = MADE.get_or_init(|| swagger::document(&document(&service.settings.url)).to_string().into_bytes());
    Ok(Answer::made(made.clone()))
}

/// The description, for a service at `url`.
pub fn document(url: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in ENDPOINTS.iter() {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(endpoint.method.as_str().to_lowercase(), operation(endpoint));
        }
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Landfall",
            "description": "The part of the assisted-installer API that landfall serve has.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0"},
        },
        "servers": [{"url": format!("{url}{}", api::API_PATH)}],
        "paths": paths,
        "components": {"schemas": models()},
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let kind = if matches!(name, "operator_name" | "validation_id" | "id") { "string" } else { "uuid" };
        json!({"name": name, "in": "path", "required": true, "schema": schema(kind)})
    });
    let in_query = endpoint.query.split(' ').filter_map(|parameter| {
        let (name, kind) = parameter.split_once(':')?;
        let (name, required) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
        let mut parameter = json!({"name": name, "in": "query", "required": required, "schema": schema(kind)});
        if kind.starts_with('[') {
            // Lists in a query are joined by commas.
            parameter["explode"] = Value::Bool(false);
        }
        Some(parameter)
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let mut responses = Map::new();
    for (status, kind) in &endpoint.replies {
        let mut response = json!({"description": "Done."});
        if !kind.is_empty() {
            let produces = endpoint.exchange.produces;
            let schema = match produces {
                Media::OctetStream => json!({"type": "string", "format": "binary"}),
                Media::Json | Media::Multipart => schema(kind),
            };
            response["content"] = json!({produces.as_str(): {"schema": schema}});
        }
        responses.insert(status.to_string(), response);
    }
    for status in ERRORS.iter().chain(&LATER).chain(endpoint.refusals) {
        let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/refusal"}}});
        responses.insert(status.to_string(), json!({"description": "Refused, and why.", "content": content}));
    }
    let words = endpoint.path.split(['/', '-', '_', '{', '}']).filter(|word| !word.is_empty());
    let id = words.fold(endpoint.method.as_str().to_lowercase(), |id, word| format!("{id}-{word}"));
    let tags = [tag(endpoint.path)];
    let mut document = json!({"operationId": id, "tags": tags, "parameters": parameters, "responses": responses});
    let content = match endpoint.body {
        Body::None => return document,
        Body::File => json!({"multipart/form-data": {"schema": {
            "type": "object",
            "required": ["upfile"],
            "properties": {"upfile": {"type": "string", "format": "binary"}},
        }}}),
        Body::Text | Body::Object(_) => json!({"application/json": {"schema": schema(&body_type(endpoint))}}),
    };
    document["requestBody"] = json!({"required": true, "content": content});
    document
}

/// The part of the API that a path belongs to: clients are generated with a class for each.
fn tag(path: &str) -> &'static str {
    const PARTS: [(&str, &str); 6] = [
        ("/manifests", "manifests"),
        ("/v2/events", "events"),
        ("/v2/domains", "managed_domains"),
        ("operators", "operators"),
        ("-versions", "versions"),
        ("/v2/release-sources", "versions"),
    ];
    PARTS.iter().find(|(part, _)| path.contains(part)).map_or("installer", |(_, tag)| tag)
}

/// The type of a request's body; empty where there is none, or a file.
pub fn body_type(endpoint: &Endpoint) -> String {
    match endpoint.body {
        Body::None | Body::File => String::new(),
        Body::Text => "string".to_owned(),
        Body::Object(shape) => format!("@{}", model_name(shape.model)),
    }
}

/// A model's name in the description: `host-create-params` for `HostCreateParams`.
fn model_name(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

fn schema(kind: &str) -> Value {
    let (kind, nullable) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    let inner = |open: char, close: char| kind.strip_prefix(open).and_then(|kind| kind.strip_suffix(close));
    let mut made = match kind {
        "string" => json!({"type": "string"}),
        "uuid" => json!({"type": "string", "format": "uuid"}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "int" => json!({"type": "integer", "format": "int64"}),
        "number" => json!({"type": "number"}),
        "bool" => json!({"type": "boolean"}),
        _ => {
            if let Some(name) = kind.strip_prefix('@') {
                let reference = json!({"$ref": format!("#/components/schemas/{name}")});
                // Nothing may stand beside a reference.
                return if nullable { json!({"allOf": [reference], "nullable": true}) } else { reference };
            }
            if let Some(texts) = kind.strip_prefix('=') {
                let mut texts: Vec<Value> = texts.split('|').map(Value::from).collect();
                texts.extend(nullable.then_some(Value::Null));
                json!({"type": "string", "enum": texts})
            } else if let Some(kind) = inner('[', ']') {
                json!({"type": "array", "items": schema(kind)})
            } else if let Some(kind) = inner('{', '}') {
                json!({"type": "object", "additionalProperties": schema(kind)})
            } else {
                json!({})
            }
        }
    };
    if let (true, Value::Object(fields)) = (nullable && made != json!({}), &mut made) {
        fields.insert("nullable".into(), Value::Bool(true));
    }
    made
}

fn models() -> Value {
    let mut models: Map<String, Value> = Map::new();
    let mut current: Option<(String, Map<String, Value>, Vec<Value>)> = None;
    let finish = |current: &mut Option<(String, Map<String, Value>, Vec<Value>)>, models: &mut Map<String, Value>| {
        let Some((name, properties, required)) = current.take() else { return };
        let mut model = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if let (false, Value::Object(fields)) = (required.is_empty(), &mut model) {
            fields.insert("required".into(), Value::Array(required));
        }
        models.insert(name, model);
    };
    for line in MODELS.lines() {
        if let Some(member) = line.strip_prefix("  ") {
            let (name, kind) = member.split_once(' ').unwrap_or((member, "any"));
            let (name, is_required) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
            if let Some((_, properties, required)) = &mut current {
                properties.insert(name.to_owned(), schema(kind));
                required.extend(is_required.then(|| Value::from(name)));
            }
            continue;
        }
        finish(&mut current, &mut models);
        if let Some((name, texts)) = line.split_once(" = ") {
            models.insert(name.to_owned(), schema(&format!("={texts}")));
            continue;
        }
        let (name, base) = line.split_once(" : ").map_or((line, None), |(name, base)| (name, Some(base)));
        let base = base.and_then(|base| models.get(base));
        let properties = base.and_then(|base| base.get("properties")?.as_object().cloned()).unwrap_or_default();
        let required = base.and_then(|base| base.get("required")?.as_array().cloned()).unwrap_or_default();
        current = Some((name.to_owned(), properties, required));
    }
    finish(&mut current, &mut models);
    models.sort_keys();
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    models.insert("refusal".into(), json!({"anyOf": [reference("error"), reference("infra_error")]}));
    Value::Object(models)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn everything_served_is_described_and_nothing_else() {
        let document = document("http://x");
        let mut described = Vec::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            described
                .extend(operations.as_object().unwrap().keys().map(|method| (path.as_str(), method.to_uppercase())));
        }
        let mut served: Vec<_> =
            ENDPOINTS.iter().map(|endpoint| (endpoint.path, endpoint.method.to_string())).collect();
        described.sort_unstable();
        served.sort_unstable();
        assert_eq!(described, served, "each endpoint is declared and described once");
    }

    #[test]
    fn references_lead_somewhere_and_names_are_used_once() {
        let document = document("http://x");
        let text = document.to_string();
        let models = document["components"]["schemas"].as_object().unwrap();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(models.contains_key(name), "{name}");
        }
        let ids: Vec<&str> = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|path| path.as_object().unwrap().values())
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert_eq!(models["steps"]["properties"]["instructions"]["nullable"], true);
        assert!(models["host_registration_response"]["properties"]["inventory"].is_object());
    }
}
