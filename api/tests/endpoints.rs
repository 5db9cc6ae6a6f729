//! The client's declarations are those of the published description.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
use api::endpoint::{ALL, Endpoint, Produces};
use serde_json::Value;
use std::collections::BTreeSet;

/// All that differs from the description.
fn faults(description: &Value, endpoint: &Endpoint) -> Vec<String> {
    let operation = &description["paths"][endpoint.path][endpoint.method.as_str().to_lowercase()];
    if operation.is_null() {
        return vec![format!("{} {} is not described", endpoint.method, endpoint.path)];
    }
    let mut faults = Vec::new();
    let mut expect = |what: &str, declared: Value, described: Value| {
        if declared != described {
            faults.push(format!("{}: {what} is declared {declared}, described {described}", endpoint.operation));
        }
    };
    let list = |name: &str| operation.get(name).unwrap_or(&description[name]).clone();
    let parameters = || operation["parameters"].as_array().into_iter().flatten();
    let named = |place: &'static str| parameters().filter(move |parameter| parameter["in"] == place);
    let names = |place: &'static str| named(place).map(|parameter| parameter["name"].as_str().unwrap());

    expect("the operation", endpoint.operation.into(), operation["operationId"].clone());
    expect("what it produces", vec![endpoint.produces.media().as_str()].into(), list("produces"));
    let has_body = names("body").chain(names("formData")).next().is_some();
    let consumed = endpoint.consumes.map(|media| vec![media.as_str()]);
    expect("what it consumes", consumed.into(), if has_body { list("consumes") } else { Value::Null });
    let successes: Vec<(&String, &Value)> =
        operation["responses"].as_object().unwrap().iter().filter(|(status, _)| status.starts_with('2')).collect();
    let [(status, response)] = successes[..] else { panic!("{}: {successes:?}", endpoint.operation) };
    expect("success", endpoint.success.to_string().into(), status.as_str().into());
    let produces = match (&response["schema"], &response["schema"]["type"]) {
        (Value::Null, _) => Produces::Nothing,
        (_, kind) if kind == "file" => Produces::File,
        _ => Produces::Json,
    };
    expect("the answer", format!("{:?}", endpoint.produces).into(), format!("{produces:?}").into());
    let known: BTreeSet<&str> = names("query").collect();
    for name in endpoint.query {
        expect("a query parameter", (*name).into(), known.get(name).map_or(Value::Null, |name| (*name).into()));
    }
    for parameter in named("query").filter(|parameter| parameter["required"] == true) {
        let name = parameter["name"].as_str().unwrap();
        let declared = endpoint.query.iter().find(|own| **own == name).map_or(Value::Null, |name| (*name).into());
        expect("a required parameter", declared, name.into());
    }
    faults
}

#[test]
fn every_endpoint_is_declared_as_it_is_described() {
    let Some(description) = testkit::wire::document() else { return };
    let faults: Vec<String> = ALL.iter().flat_map(|endpoint| faults(&description, endpoint)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let operations: BTreeSet<&str> = ALL.iter().map(|endpoint| endpoint.operation).collect();
    assert_eq!(operations.len(), ALL.len(), "each is declared once");
    println!("{} endpoints", ALL.len());
}

#[test]
fn a_declaration_that_differs_is_a_fault() {
    let Some(description) = testkit::wire::document() else { return };
    let file = &api::endpoint::DOWNLOAD_CLUSTER_FILES;
    let wrong = Endpoint { method: file.method.clone(), produces: Produces::Json, query: &["name"], ..*file };
    let faults = faults(&description, &wrong).join("\n");
    for what in ["what it produces", "the answer", "a query parameter", "a required parameter"] {
        assert!(faults.contains(what), "{what} in {faults}");
    }
}
