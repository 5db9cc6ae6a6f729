//! Every JSON answer the tests see, held against the published description when it is there: declared status, types,
//! required members, enums, formats, and no member it doesn't know.

use super::Answer;
use serde_json::Value;
use std::sync::OnceLock;
use testkit::wire::Swagger;

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
    ("mirror_registry_configuration: not described", "a setting of this service, shown where it is set"),
    ("cluster.hosts: null", "of a cluster that was asked for without its hosts, as the service writes it"),
    ("steps.instructions: null", "null and not an empty list, as the service writes it"),
    ("monitored-operator.bundles: null", "as recorded"),
    ("monitored-operator.source_bundles: null", "as recorded"),
    ("not an RFC 3339 time", "an event's time is kept as it was given"),
];

/// The published description, where it is there.
pub(crate) fn description() -> Option<&'static Value> {
    static LOADED: OnceLock<Option<Value>> = OnceLock::new();
    LOADED.get_or_init(testkit::wire::newest).as_ref()
}

fn definitions() -> Option<&'static Swagger> {
    static LOADED: OnceLock<Option<Swagger>> = OnceLock::new();
    let load = || Some(Swagger { definitions: description()?["definitions"].clone(), null_lists: false });
    LOADED.get_or_init(load).as_ref()
}

/// Panics on an answer that the description doesn't allow.
pub(crate) fn check(method: &str, target: &str, answer: &Answer) {
    let is_json = answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    let path = target.split('?').next().unwrap_or_default();
    let (Some(path), true) = (path.strip_prefix(super::API), is_json && answer.header("content-encoding").is_none())
    else {
        return;
    };
    let (Some(description), Some(definitions)) = (description(), definitions()) else { return };
    let Some(operation) = operation(description, method, path) else { return };
    let mut found = Vec::new();
    let document: Value = serde_json::from_slice(&answer.body).unwrap();
    let declared = &operation["responses"][answer.status.to_string()];
    if declared.is_null() {
        found.push(format!("undeclared status {}", answer.status));
    }
    if answer.status >= 400 {
        let name = if document.get("message").is_some() { "infra_error" } else { "error" };
        found.extend(definitions.faults(name, &document));
    } else if declared["schema"]["type"] != "file" {
        definitions.check(&declared["schema"], &document, path, &mut found);
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

#[test]
fn what_is_not_as_published_is_found() {
    let Some(definitions) = definitions() else { return };
    let bad = serde_json::json!({"kind": "Cluster", "id": "x", "name": 7, "deleted_at": null, "made_up": 1,
        "status": "asleep", "hosts": [{"kind": "Host"}]});
    let found = definitions.faults("cluster", &bad);
    for part in [
        "cluster.id: \"x\" is no",
        "cluster.name: 7 is not of type string",
        "cluster.made_up: not described",
        "cluster.status: \"asleep\" is not one of",
        "cluster.href: required and absent",
        "host.id: required and absent",
    ] {
        assert!(found.iter().any(|line| line.contains(part)), "{part} in {found:#?}");
    }
    assert!(!found.iter().any(|line| line.contains("deleted_at")), "{found:#?}");
}
