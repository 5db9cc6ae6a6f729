//! The same description in Swagger 2.0, which clients of the published API are generated from.

use serde_json::{Map, Value, json};

const JSON: &str = "application/json";

/// Turns a description in OpenAPI 3.0 into one in Swagger 2.0.
pub(crate) fn document(description: &Value) -> Value {
    let paths = description["paths"].as_object().into_iter().flatten();
    let paths: Map<String, Value> =
        paths.map(|(path, operations)| (path.clone(), all(operations, operation))).collect();
    json!({
        "swagger": "2.0",
        "info": description["info"],
        "basePath": api::API_PATH,
        "schemes": ["http", "https"],
        "consumes": [JSON],
        "produces": [JSON],
        "paths": paths,
        "definitions": all(&description["components"]["schemas"], schema),
    })
}

/// Applies `change` to each member of an object.
fn all(object: &Value, change: impl Fn(&Value) -> Value) -> Value {
    object.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), change(value))).collect()
}

fn operation(operation: &Value) -> Value {
    let mut parameters: Vec<Value> = operation["parameters"].as_array().into_iter().flatten().map(parameter).collect();
    let body = operation["requestBody"]["content"].as_object().and_then(|content| content.iter().next());
    let consumes = body.map_or(JSON, |(media, _)| media.as_str());
    match body {
        Some((media, _)) if media != JSON => {
            parameters.push(json!({"name": "upfile", "in": "formData", "type": "file", "required": true}));
        }
        Some((_, body)) => {
            parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": schema(&body["schema"])}));
        }
        None => {}
    }
    let mut produces = JSON;
    let mut responses = Map::new();
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let mut made = json!({"description": response["description"]});
        let content = response["content"].as_object().and_then(|content| content.iter().next());
        if let (Some((media, content)), Value::Object(made)) = (content, &mut made) {
            let is_file = media != JSON;
            if is_file {
                produces = media;
            }
            let schema = if is_file { json!({"type": "file"}) } else { schema(&content["schema"]) };
            made.insert("schema".into(), schema);
        }
        responses.insert(status.clone(), made);
    }
    json!({
        "operationId": operation["operationId"],
        "tags": operation["tags"],
        "consumes": [consumes],
        "produces": [produces],
        "parameters": parameters,
        "responses": responses,
    })
}

/// A parameter's type stands in the parameter itself.
fn parameter(parameter: &Value) -> Value {
    let mut made = schema(&parameter["schema"]);
    if let Value::Object(fields) = &mut made {
        if fields.is_empty() {
            fields.insert("type".into(), "string".into());
        }
        if parameter["explode"] == false {
            fields.insert("collectionFormat".into(), "csv".into());
        }
        fields.extend(["name", "in", "required"].map(|name| (name.to_owned(), parameter[name].clone())));
    }
    made
}

/// References, values that may be null, and alternatives are written in another way.
fn schema(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(schema).collect(),
        Value::Object(fields) if fields.contains_key("anyOf") => json!({"type": "object"}),
        Value::Object(fields) => {
            let changed = fields.iter().map(|(name, value)| match (name.as_str(), value) {
                ("$ref", Value::String(target)) => {
                    (name.clone(), target.replace("#/components/schemas/", "#/definitions/").into())
                }
                ("nullable", value) => ("x-nullable".to_owned(), value.clone()),
                _ => (name.clone(), schema(value)),
            });
            changed.collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_description_has_the_older_form() {
        let newer = super::super::document("http://x");
        let older = document(&newer);
        let text = older.to_string();
        for word in ["#/components", "\"nullable\"", "requestBody", "anyOf", "\"content\":{\"application"] {
            assert!(!text.contains(word), "{word}");
        }
        let paths = older["paths"].as_object().unwrap();
        assert_eq!(paths.len(), newer["paths"].as_object().unwrap().len());
        for operation in paths.values().flat_map(|path| path.as_object().unwrap().values()) {
            for parameter in operation["parameters"].as_array().unwrap() {
                let typed = parameter["type"].is_string() || parameter["schema"].is_object();
                assert!(typed && parameter["name"].is_string(), "{parameter}");
            }
        }
        for reference in text.split("\"#/definitions/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(older["definitions"][name].is_object(), "{name}");
        }
    }

    #[test]
    fn files_uploads_and_bodies_are_distinguished() {
        let older = document(&super::super::document("http://x"));
        let logs = &older["paths"]["/v2/clusters/{cluster_id}/logs"];
        assert_eq!(logs["get"]["produces"], json!(["application/octet-stream"]));
        assert_eq!(logs["post"]["consumes"], json!(["multipart/form-data"]));
        let create = &older["paths"]["/v2/clusters"]["post"];
        assert_eq!(create["parameters"][0]["in"], "body");
        assert_eq!(create["responses"]["201"]["schema"]["$ref"], "#/definitions/cluster");
    }
}
