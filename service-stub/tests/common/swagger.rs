//! Every JSON answer the tests see, held against the published description when it is there: declared status, types,
//! required members, enums, formats, and no member it doesn't know.

use super::Answer;
use serde_json::Value;
use std::{path::Path, sync::OnceLock};

/// Where ours differs on purpose: part of the finding, and why.
const ALLOWED: &[(&str, &str)] = &[
    (
        "undeclared status 400",
        "the service itself answers 400 to what its schema refuses, whatever the operation declares",
    ),
    ("undeclared status 401", "with authentication any operation may ask for a token"),
    ("undeclared status 403", "or say that it is not for this caller"),
    ("undeclared status 404", "so it does with 404 for what isn't there"),
    ("undeclared status 405", "a method a path doesn't have"),
    ("undeclared status 408", "a body that stopped coming"),
    ("undeclared status 409", "a conflict tells more than the 400 declared for it"),
    ("undeclared status 413", "a body is bounded here"),
    ("undeclared status 414", "so is an address"),
    ("undeclared status 422", "names of manifests, by the service's own handler"),
    ("undeclared status 429", "requests are bounded here"),
    ("undeclared status 431", "so are headers"),
    ("undeclared status 500", "our own fault, or a foreign file's"),
    ("undeclared status 501", "what is not here says so"),
    ("undeclared status 503", "no place for a request at the moment"),
    ("undeclared status 507", "the disk is nearly full"),
    ("infra_error.code: 4", "this shape is seen with 400, 404 and 405 too, though 401 to 403 are described"),
    ("infra_error.code: 5", "and with 503"),
    ("host_registration_response.status: null", "of a host that registers again, as recorded"),
    ("host_registration_response.status_info: null", "as recorded"),
    ("\"numaresources\" is not one of", "the operator's name has no hyphen, in the service"),
    ("bundle.optional_operators: null", "no optional operators, as the service writes it"),
    ("cluster.hosts: null", "of a cluster that was asked for without its hosts, as the service writes it"),
    ("steps.instructions: null", "null and not an empty list, as the service writes it"),
    ("monitored-operator.bundles: null", "as recorded"),
    ("monitored-operator.source_bundles: null", "as recorded"),
    ("not an RFC 3339 time", "an event's time is kept as it was given"),
];

/// The published description, where it is there.
pub fn description() -> Option<&'static Value> {
    static LOADED: OnceLock<Option<Value>> = OnceLock::new();
    let load = || {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/contract/swagger.yaml");
        let Ok(text) = std::fs::read_to_string(&path) else {
            testkit::skip::because(format_args!("{} is not there", path.display()));
            return None;
        };
        Some(serde_norway::from_str(&text).unwrap())
    };
    LOADED.get_or_init(load).as_ref()
}

/// Panics on an answer that the description doesn't allow.
pub fn check(method: &str, target: &str, answer: &Answer) {
    let is_json = answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    let path = target.split('?').next().unwrap_or_default();
    let (Some(path), true) = (path.strip_prefix(super::API), is_json && answer.header("content-encoding").is_none())
    else {
        return;
    };
    let Some(description) = description() else { return };
    let Some(operation) = operation(description, method, path) else { return };
    let mut found = Vec::new();
    let document: Value = serde_json::from_slice(&answer.body).unwrap();
    let declared = &operation["responses"][answer.status.to_string()];
    let checker = Checker { definitions: &description["definitions"], found: &mut found };
    let mut checker = checker;
    if declared.is_null() {
        checker.found.push(format!("undeclared status {}", answer.status));
    }
    if answer.status >= 400 {
        let name = if document.get("message").is_some() { "infra_error" } else { "error" };
        checker.named(name, &document);
    } else if declared["schema"]["type"] != "file" {
        checker.check(&declared["schema"], &document, path);
    }
    let bad: Vec<&String> =
        found.iter().filter(|line| !ALLOWED.iter().any(|(allowed, _)| line.contains(allowed))).collect();
    assert!(bad.is_empty(), "{method} {target}: {} is not as published: {bad:#?}", answer.status);
}

fn operation<'a>(description: &'a Value, method: &str, path: &str) -> Option<&'a Value> {
    let paths = description["paths"].as_object()?;
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &&String| {
        let own: Vec<&str> = template.split('/').collect();
        own.len() == parts.len() && own.iter().zip(&parts).all(|(own, given)| own.starts_with('{') || own == given)
    };
    // The one with the fewest variables.
    let template = paths.keys().filter(fits).min_by_key(|template| template.matches('{').count())?;
    paths[template].get(method.to_lowercase())
}

struct Checker<'a> {
    definitions: &'a Value,
    found: &'a mut Vec<String>,
}

impl Checker<'_> {
    fn named(&mut self, name: &str, value: &Value) {
        let schema = self.definitions[name].clone();
        assert!(!schema.is_null(), "no definition {name}");
        self.check(&schema, value, name);
    }

    fn check(&mut self, schema: &Value, value: &Value, at: &str) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap();
            let inner = self.definitions[name].clone();
            let at = if inner["type"] == "object" || inner.get("allOf").is_some() { name } else { at };
            return self.check(&inner, value, at);
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut properties = serde_json::Map::new();
            for part in parts {
                let name = part["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
                let part = name.map_or(part, |name| &self.definitions[name]);
                properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
            }
            return self.check(&serde_json::json!({"type": "object", "properties": properties}), value, at);
        }
        if value.is_null() {
            // `deleted_at` has no type at all; lists and optional members are often null in Go's JSON.
            let nullable = schema["x-nullable"] == true || schema.get("type").is_none();
            if !nullable {
                self.found.push(format!("{at}: null"));
            }
            return;
        }
        let kind = schema["type"].as_str().unwrap_or(if schema.get("properties").is_some() { "object" } else { "" });
        let fits = match kind {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        };
        if !fits {
            return self.found.push(format!("{at}: {value} is no {kind}"));
        }
        if let Some(texts) = schema["enum"].as_array().filter(|texts| !texts.contains(value)) {
            self.found.push(format!("{at}: {value} is not one of {texts:?}"));
        }
        self.format(schema, value, at);
        for (bound, above) in [("minimum", false), ("maximum", true)] {
            if let (Some(bound), Some(number)) = (schema[bound].as_f64(), value.as_f64())
                && (if above { number > bound } else { number < bound })
            {
                self.found.push(format!("{at}: {value} is beyond {bound}"));
            }
        }
        for item in value.as_array().into_iter().flatten() {
            self.check(&schema["items"], item, &format!("{at}[]"));
        }
        if kind == "object" {
            self.object(schema, value, at);
        }
    }

    fn format(&mut self, schema: &Value, value: &Value, at: &str) {
        let Some(text) = value.as_str() else { return };
        let fits = match schema["format"].as_str() {
            Some("uuid") => text.parse::<uuid::Uuid>().is_ok(),
            Some("date-time") => serde_json::from_value::<api::Timestamp>(value.clone()).is_ok(),
            _ => true,
        };
        if !fits {
            self.found.push(format!("{at}: {value} is no {}", schema["format"]));
        }
    }

    fn object(&mut self, schema: &Value, value: &Value, at: &str) {
        let members = value.as_object().unwrap();
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            if !members.contains_key(name) {
                self.found.push(format!("{at}.{name}: required and absent"));
            }
        }
        let properties = schema["properties"].as_object();
        for (name, value) in members {
            match (properties.and_then(|own| own.get(name)), schema.get("additionalProperties")) {
                (Some(own), _) => self.check(own, value, &format!("{at}.{name}")),
                (None, Some(own)) => self.check(own, value, &format!("{at}.*")),
                (None, None) if properties.is_some() => self.found.push(format!("{at}.{name}: not described")),
                (None, None) => {}
            }
        }
    }
}

#[test]
fn what_is_not_as_published_is_found() {
    let Some(description) = description() else { return };
    let mut found = Vec::new();
    let mut checker = Checker { definitions: &description["definitions"], found: &mut found };
    let bad = serde_json::json!({"kind": "Cluster", "id": "x", "name": 7, "deleted_at": null, "made_up": 1,
        "status": "asleep", "hosts": [{"kind": "Host"}]});
    checker.named("cluster", &bad);
    for part in [
        "cluster.id: \"x\" is no",
        "cluster.name: 7 is no string",
        "cluster.made_up: not described",
        "cluster.status: \"asleep\" is not one of",
        "cluster.href: required and absent",
        "host.id: required and absent",
    ] {
        assert!(found.iter().any(|line| line.contains(part)), "{part} in {found:#?}");
    }
    assert!(!found.iter().any(|line| line.contains("deleted_at")), "{found:#?}");
}
