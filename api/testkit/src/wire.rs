//! The published description of the service, and what it was seen to send.

use crate::skip;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
};

/// What lies beside the repository, wherever in it the test's crate is.
pub fn shared(name: &str) -> Option<PathBuf> {
    let places = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|directory| directory.join("shared").join(name));
    places.into_iter().find(|place| place.exists())
}

/// The published description, where this machine has it.
pub fn document<T: serde::de::DeserializeOwned>() -> Option<T> {
    let Some(path) = shared("contract/swagger.yaml") else {
        skip::because("the service's description is not here");
        return None;
    };
    let text = fs::read_to_string(path).unwrap();
    Some(serde_norway::from_str(&text).unwrap())
}

/// The definitions of a Swagger 2 document.
#[derive(serde::Deserialize)]
pub struct Swagger {
    definitions: BTreeMap<String, Value>,
}

impl Swagger {
    /// Those of the published description, where this machine has it.
    pub fn read() -> Option<Self> {
        document()
    }

    /// All that is wrong with a value.
    pub fn faults(&self, definition: &str, value: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        self.check(&self.definitions[definition], value, definition, &mut faults);
        faults
    }

    fn check(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/definitions/").unwrap();
            return self.check(&self.definitions[name], value, at, faults);
        }
        let kind = schema["type"].as_str().unwrap_or("object");
        let fits = match kind {
            "object" => value.is_object(),
            // The service's language makes null of an empty list.
            "array" => value.is_array() || value.is_null(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "number" => value.is_number(),
            "integer" if schema["format"] == "int32" => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            "integer" => value.is_i64() || value.is_u64(),
            other => panic!("{at}: a type of schema that is not known here: {other}"),
        };
        if !fits {
            faults.push(format!("{at} is no {kind}: {value}"));
        }
        let formatted = match (schema["format"].as_str(), value.as_str()) {
            (Some("ipv4"), Some(text)) => text.parse::<Ipv4Addr>().is_ok(),
            (Some("ipv6"), Some(text)) => text.parse::<Ipv6Addr>().is_ok(),
            _ => true,
        };
        if !formatted {
            faults.push(format!("{at} is not of its format: {value}"));
        }
        if let Some(known) = schema["enum"].as_array()
            && !known.contains(value)
        {
            faults.push(format!("{at} is none of its enum: {value}"));
        }
        for key in schema["required"].as_array().into_iter().flatten() {
            if value.get(key.as_str().unwrap()).is_none() {
                faults.push(format!("{at} lacks {key}"));
            }
        }
        for (key, value) in value.as_object().into_iter().flatten() {
            match schema["properties"].get(key) {
                Some(property) => self.check(property, value, &format!("{at}.{key}"), faults),
                None => faults.push(format!("{at}.{key} is not in the schema")),
            }
        }
        for value in value.as_array().into_iter().flatten() {
            self.check(&schema["items"], value, &format!("{at}[]"), faults);
        }
    }
}

/// Panics unless the document is as the service defines it. Proves nothing where the description is absent.
pub fn assert_fits(definition: &str, document: &Value) {
    if let Some(swagger) = Swagger::read() {
        assert_eq!(swagger.faults(definition, document), Vec::<String>::new(), "{document}");
    }
}

/// The only argument of a step, as the real service sent it; `None`, with the reason printed, where there is no recording.
pub fn recorded_argument(step_type: &str) -> Option<String> {
    let Some(path) = shared(&format!("data/wire/steps/step-{step_type}.json")) else {
        skip::because("there is no recorded traffic here");
        return None;
    };
    let recorded: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let steps = recorded["instructions"].as_array().unwrap();
    let step = steps.iter().find(|step| step["step_type"] == step_type).unwrap();
    Some(step["args"][0].as_str().unwrap().to_owned())
}
