//! The description of what is served, in OpenAPI 3.0: made of the table of endpoints, so that it describes what there is and
//! nothing else.
//!
//! `operations.txt` has a line for each operation of the published API: method and path; query parameters; body; successful
//! answers; errors of its own. `models.txt` has the models: a name, with members below it. A type is `string`, `uuid`, `time`,
//! `int`, `number`, `bool`, `any`, `@model`, `[list]`, `{map}` or `=one|of|these`; `!` marks what is required, `?` what may be
//! null; `: model` takes over another's members.

mod swagger;

use crate::handlers;
use crate::http::{Answer, Call, Refusal};
use crate::service::Service;
use api::media::Media;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

const OPERATIONS: &str = include_str!("operations.txt");
const MODELS: &str = include_str!("models.txt");
/// What any request may be refused with.
const ERRORS: [&str; 10] = ["400", "401", "403", "404", "408", "413", "414", "429", "431", "500"];
/// And where this service lacks a part of an operation, or a place for a request.
const LATER: [&str; 2] = ["501", "503"];

/// GET /openapi, GET /v2/openapi.
pub fn show(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let made = MADE.get_or_init(|| document(&service.settings.url).to_string().into_bytes());
    Ok(Answer::made(made.clone()))
}

/// GET /swagger.json.
pub fn show_swagger(service: &Service, _: &Call) -> Result<Answer, Refusal> {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let made = MADE.get_or_init(|| swagger::document(&document(&service.settings.url)).to_string().into_bytes());
    Ok(Answer::made(made.clone()))
}

/// The description, for a service at `url`.
pub fn document(url: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS.lines().filter_map(Operation::parse).filter(Operation::is_served) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(operation.method.to_lowercase(), operation.document());
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

struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    body: &'a str,
    answers: &'a str,
    errors: &'a str,
}

impl<'a> Operation<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.split(" ; ");
        let (method, path) = parts.next()?.split_once(' ')?;
        let (query, body, answers, errors) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some(Self { method, path, query, body, answers, errors })
    }

    fn is_served(&self) -> bool {
        let fits = |method: &axum::http::Method, path: &str| method.as_str() == self.method && path == self.path;
        handlers::served().any(|(method, path, _)| fits(method, path))
    }

    fn document(&self) -> Value {
        let in_path = self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = in_path.map(|name| {
            let kind = if matches!(name, "operator_name" | "validation_id" | "id") { "string" } else { "uuid" };
            json!({"name": name, "in": "path", "required": true, "schema": schema(kind)})
        });
        let in_query = self.query.split(' ').filter_map(|parameter| {
            let (name, kind) = parameter.split_once(':')?;
            let (name, required) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
            // Lists in a query are joined by commas.
            let joined = kind.starts_with('[').then_some(("explode", json!(false)));
            let fields = [("name", json!(name)), ("in", json!("query")), ("required", json!(required))];
            let fields = fields.into_iter().chain([("schema", schema(kind))]).chain(joined);
            Some(fields.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into())
        });
        let parameters: Vec<Value> = in_path.chain(in_query).collect();
        let mut responses = Map::new();
        for answer in self.answers.split(' ') {
            let (status, content) =
                answer.split_once('=').map_or((answer, None), |(status, kind)| (status, Some(kind)));
            let mut response = json!({"description": "Done."});
            if let (Some(kind), Value::Object(response)) = (content, &mut response) {
                response.insert("content".into(), self.content(kind));
            }
            responses.insert(status.to_owned(), response);
        }
        let own = self.errors.split(' ').filter(|status| *status != "-");
        for status in ERRORS.into_iter().chain(LATER).chain(own) {
            let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/refusal"}}});
            responses.insert(status.to_owned(), json!({"description": "Refused, and why.", "content": content}));
        }
        let mut document = Map::from_iter([
            ("operationId".to_owned(), Value::from(self.id())),
            ("parameters".to_owned(), Value::Array(parameters)),
            ("responses".to_owned(), Value::Object(responses)),
        ]);
        let body = match self.body {
            "-" => None,
            "upload" => Some(json!({"multipart/form-data": {"schema": {
                "type": "object",
                "required": ["upfile"],
                "properties": {"upfile": {"type": "string", "format": "binary"}},
            }}})),
            kind => Some(json!({"application/json": {"schema": schema(kind)}})),
        };
        if let Some(content) = body {
            document.insert("requestBody".into(), json!({"required": true, "content": content}));
        }
        Value::Object(document)
    }

    fn content(&self, kind: &str) -> Value {
        let fits = |method: &axum::http::Method, path: &str| method.as_str() == self.method && path == self.path;
        let produces = handlers::served().find(|(method, path, _)| fits(method, path));
        let produces = produces.map_or(Media::Json, |(.., exchange)| exchange.produces);
        let schema = match produces {
            Media::OctetStream => json!({"type": "string", "format": "binary"}),
            Media::Json | Media::Multipart => schema(kind),
        };
        json!({produces.as_str(): {"schema": schema}})
    }

    fn id(&self) -> String {
        let words = self.path.split(['/', '-', '_', '{', '}']).filter(|word| !word.is_empty());
        words.fold(self.method.to_lowercase(), |id, word| format!("{id}-{word}"))
    }
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
        let mut count = 0;
        for (method, path, _) in handlers::served() {
            let operation = &document["paths"][path][method.as_str().to_lowercase()];
            assert!(operation["responses"].is_object(), "{method} {path} is not described");
            count += 1;
        }
        let described: usize =
            document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(described, count);
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

    #[test]
    fn every_operation_is_here_or_said_not_to_be() {
        for operation in OPERATIONS.lines() {
            let operation = Operation::parse(operation).unwrap();
            let fits = |(method, path): &&(axum::http::Method, &str)| {
                method.as_str() == operation.method && *path == operation.path
            };
            let absent = handlers::NOT_HERE.iter().any(|own| fits(&own));
            assert!(operation.is_served() != absent, "{} {}", operation.method, operation.path);
        }
    }
}
