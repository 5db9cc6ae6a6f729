//! The published description of the service, and what it was seen to send.

use crate::{kept, recordings};
use serde_json::{Map, Value, json};
use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// The published description, where this machine has it.
pub fn document<T: serde::de::DeserializeOwned>() -> Option<T> {
    let text = fs::read(recordings::path("contract/swagger.yaml")?).unwrap();
    // Reading YAML takes seconds where nothing is optimised, and each test may be a process of its own.
    let kept = kept::directory_of("description", &[&text], |directory| {
        let description: Value = serde_norway::from_slice(&text).unwrap();
        fs::write(directory.join("swagger.json"), description.to_string()).unwrap();
    });
    Some(serde_json::from_slice(&fs::read(kept.join("swagger.json")).unwrap()).unwrap())
}

/// The same with what the API's version 2.56 adds to it.
pub fn newest() -> Option<Value> {
    let mut description: Value = document()?;
    let paths = &mut description["paths"];
    let mut offline = paths["/v2/openshift-versions"].clone();
    offline["get"]["operationId"] = "v2ListSupportedOfflineOpenshiftVersions".into();
    paths["/v2/offline-openshift-versions"] = offline;
    for name in [
        "cluster",
        "cluster-create-params",
        "v2-cluster-update-params",
        "infra-env",
        "infra-env-create-params",
        "infra-env-update-params",
    ] {
        description["definitions"][name]["properties"]["os_stream"] = json!({"type": "string"});
    }
    Some(description)
}

/// The definitions of a Swagger 2 document.
pub struct Swagger {
    pub definitions: Value,
    /// A list may be null: the service's language makes that of an empty one.
    pub null_lists: bool,
}

/// What a schema refers to.
fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/definitions/")
}

impl Swagger {
    /// Those of the published description, where this machine has it.
    pub fn read() -> Option<Self> {
        Some(Self { definitions: document::<Value>()?["definitions"].take(), null_lists: true })
    }

    /// All that is wrong with a value.
    pub fn faults(&self, definition: &str, value: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        let schema = &self.definitions[definition];
        assert!(!schema.is_null(), "no definition {definition}");
        self.check(schema, value, definition, &mut faults);
        faults
    }

    /// The same of a schema; members are named from their definition on.
    pub fn check(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        if let Some(name) = referred(schema) {
            let inner = &self.definitions[name];
            let at = if inner["type"] == "object" || inner.get("allOf").is_some() { name } else { at };
            return self.check(inner, value, at, faults);
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let parts = parts.iter().map(|part| referred(part).map_or(part, |name| &self.definitions[name]));
            let properties: Map<String, Value> =
                parts.filter_map(|part| part["properties"].as_object().cloned()).flatten().collect();
            return self.check(&json!({"type": "object", "properties": properties}), value, at, faults);
        }
        let kind = schema["type"].as_str().unwrap_or(if schema.get("properties").is_some() { "object" } else { "" });
        if value.is_null() {
            // `deleted_at` has no type at all.
            if !kind.is_empty() && schema["x-nullable"] != true && !(kind == "array" && self.null_lists) {
                faults.push(format!("{at}: null"));
            }
            return;
        }
        let fits = match kind {
            "" => true,
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "number" => value.is_number(),
            "integer" if schema["format"] == "int32" => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            "integer" => value.is_i64() || value.is_u64(),
            other => panic!("{at}: a type of schema that is not known here: {other}"),
        };
        if !fits {
            return faults.push(format!("{at}: {value} is not of type {kind}"));
        }
        if let Some(texts) = schema["enum"].as_array().filter(|texts| !texts.contains(value)) {
            faults.push(format!("{at}: {value} is not one of {texts:?}"));
        }
        let text = value.as_str().unwrap_or_default();
        let has_format = match schema["format"].as_str() {
            Some("ipv4") => text.parse::<Ipv4Addr>().is_ok(),
            Some("ipv6") => text.parse::<Ipv6Addr>().is_ok(),
            Some("uuid") => text.parse::<uuid::Uuid>().is_ok(),
            Some("date-time") => OffsetDateTime::parse(text, &Rfc3339).is_ok(),
            _ => true,
        };
        if !has_format {
            faults.push(format!("{at}: {value} is not in format {}", schema["format"]));
        }
        for (bound, above) in [("minimum", false), ("maximum", true)] {
            if let (Some(bound), Some(number)) = (schema[bound].as_f64(), value.as_f64())
                && (if above { number > bound } else { number < bound })
            {
                faults.push(format!("{at}: {value} is beyond {bound}"));
            }
        }
        for item in value.as_array().into_iter().flatten() {
            self.check(&schema["items"], item, &format!("{at}[]"), faults);
        }
        if kind == "object" {
            self.check_members(schema, value, at, faults);
        }
    }

    fn check_members(&self, schema: &Value, object: &Value, at: &str, faults: &mut Vec<String>) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if object.get(name).is_none() {
                faults.push(format!("{at}.{name}: required and absent"));
            }
        }
        let properties = schema.get("properties");
        for (name, value) in object.as_object().into_iter().flatten() {
            match (properties.and_then(|known| known.get(name)), schema.get("additionalProperties")) {
                (Some(member), _) => self.check(member, value, &format!("{at}.{name}"), faults),
                (None, Some(member)) => self.check(member, value, &format!("{at}.*"), faults),
                (None, None) if properties.is_some() => faults.push(format!("{at}.{name}: not described")),
                (None, None) => {}
            }
        }
    }
}

/// Panics unless the document is as the service defines it. Proves nothing where the description is absent.
pub fn assert_fits(definition: &str, document: &Value) {
    if let Some(swagger) = Swagger::read() {
        assert_eq!(swagger.faults(definition, document), Vec::<String>::new(), "{document}");
    }
}

/// The only argument of a step, as the real service sent it; `None`, with a skip reported, where there is no recording.
pub fn recorded_argument(step_type: &str) -> Option<String> {
    let path = recordings::path(&format!("data/wire/steps/step-{step_type}.json"))?;
    let recorded: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let steps = recorded["instructions"].as_array().unwrap();
    let step = steps.iter().find(|step| step["step_type"] == step_type).unwrap();
    Some(step["args"][0].as_str().unwrap().to_owned())
}
