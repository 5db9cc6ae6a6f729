//! What the service defines and what it was seen to send.

#[path = "../../../api/tests/common/swagger.rs"]
mod swagger;

use serde_json::Value;
use std::fs;

/// Panics unless the document is as the service defines it. Proves nothing where the description is absent.
pub fn assert_fits(definition: &str, document: &Value) {
    if let Some(swagger) = swagger::Swagger::read() {
        assert_eq!(swagger.faults(definition, document), Vec::<String>::new(), "{document}");
    }
}

/// The only argument of a step, as the real service sent it; `None`, with the reason printed, where there is no recording.
pub fn recorded_argument(step_type: &str) -> Option<String> {
    let Some(path) = swagger::shared(&format!("data/wire/steps/step-{step_type}.json")) else {
        skip::because("there is no recorded traffic here");
        return None;
    };
    let recorded: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let steps = recorded["instructions"].as_array().unwrap();
    let step = steps.iter().find(|step| step["step_type"] == step_type).unwrap();
    Some(step["args"][0].as_str().unwrap().to_owned())
}
