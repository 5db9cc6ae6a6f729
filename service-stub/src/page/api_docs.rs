//! The description of the API as a page: operations by tag, then models.

use super::html::{line, list, page, section, table};
use crate::http::{Call, Refusal};
use crate::openapi;
use crate::service::Service;
use maud::{Markup, html};
use serde_json::Value;
use std::{collections::BTreeMap, sync::LazyLock};

const JSON: &str = "application/json";

/// GET /docs.
pub(super) fn render(_: &Service, _: &Call) -> Result<Markup, Refusal> {
    static PAGE: LazyLock<Markup> = LazyLock::new(|| whole(&openapi::document("")));
    Ok(PAGE.clone())
}

fn whole(description: &Value) -> Markup {
    let mut tags: BTreeMap<&str, Vec<Markup>> = BTreeMap::new();
    for (path, operations) in members(&description["paths"]) {
        for (method, operation) in members(operations) {
            tags.entry(text(&operation["tags"][0])).or_default().push(self::operation(method, path, operation));
        }
    }
    let main = html! {
        h1 { "API" }
        p {
            "Paths are below " code { (api::API_PATH) } ". The same for programs: "
            a href={ (api::API_PATH) "/v2/openapi" } { "OpenAPI 3.0" } ", "
            a href={ (api::API_PATH) "/swagger.json" } { "Swagger 2.0" } "."
        }
        ul {
            @for tag in tags.keys() { li { a href={ "#" (tag) } { (tag) } } }
            li { a href="#models" { "models" } }
        }
        @for (tag, operations) in &tags {
            (section(tag, tag, html! { @for operation in operations { (operation) } }))
        }
        (section("models", "models", html! {
            @for (name, schema) in members(&description["components"]["schemas"]) { (model(name, schema)) }
        }))
    };
    page("API", &[("Overview", "/")], main, None)
}

fn operation(method: &str, path: &str, operation: &Value) -> Markup {
    let parameter = |parameter: &Value| {
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        [name_of(name, parameter["required"] == true), line(place), kind(&parameter["schema"])]
    };
    let parameters: Vec<_> = operation["parameters"].as_array().into_iter().flatten().map(parameter).collect();
    let (done, refused): (Vec<_>, Vec<_>) =
        members(&operation["responses"]).partition(|(status, _)| status.starts_with('2'));
    let replies: Vec<_> = done.iter().map(|(status, reply)| [line(status), content(reply)]).collect();
    let refusals: Vec<&str> = refused.iter().map(|(status, _)| status.as_str()).collect();
    html! {
        details {
            summary { code { (method.to_uppercase()) " " (path) } }
            (table("Parameters", ["Name", "In", "Type"], &parameters, "No parameters."))
            (table("Replies", ["Status", "Type"], &replies, ""))
            (list(&[("Body", content(&operation["requestBody"])), ("Refusals", line(&refusals.join(", ")))]))
        }
    }
}

fn model(name: &str, schema: &Value) -> Markup {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let field = |(name, schema): (&String, &Value)| [name_of(name, required.contains(&name.as_str())), kind(schema)];
    let fields: Vec<_> = members(&schema["properties"]).map(field).collect();
    html! {
        details #{ "model-" (name) } {
            summary { code { (name) } }
            @if schema["properties"].is_object() {
                (table(name, ["Field", "Type"], &fields, "No fields."))
            } @else {
                p { (kind(schema)) }
            }
        }
    }
}

fn name_of(name: &str, is_required: bool) -> Markup {
    html! { code { (name) } @if is_required { " (required)" } }
}

/// What a body or a reply holds; empty if nothing.
fn content(holder: &Value) -> Markup {
    html! {
        @for (media, content) in members(&holder["content"]) {
            (kind(&content["schema"])) @if media != JSON { " as " (media) }
        }
    }
}

/// A type in words, with links to models.
fn kind(schema: &Value) -> Markup {
    let alternatives = ["allOf", "anyOf"].iter().find_map(|key| schema[*key].as_array());
    let base = if let Some(name) = text(&schema["$ref"]).strip_prefix("#/components/schemas/") {
        html! { a href={ "#model-" (name) } { (name) } }
    } else if let Some(alternatives) = alternatives {
        html! { @for (index, one) in alternatives.iter().enumerate() { @if index > 0 { " or " } (kind(one)) } }
    } else if let Some(texts) = schema["enum"].as_array() {
        let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
        html! { (texts.join(" | ")) }
    } else {
        match (text(&schema["type"]), text(&schema["format"])) {
            ("", _) => html! { "any" },
            ("array", _) => html! { "list of " (kind(&schema["items"])) },
            ("object", _) if schema["additionalProperties"].is_object() => {
                html! { "map of " (kind(&schema["additionalProperties"])) }
            }
            ("object", _) => html! { "object" },
            (name, "") => html! { (name) },
            (name, format) => html! { (name) " (" (format) ")" },
        }
    };
    html! { (base) @if schema["nullable"] == true { " or null" } }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::ENDPOINTS;

    #[test]
    fn every_operation_is_shown_and_every_link_leads_somewhere() {
        let html = whole(&openapi::document("")).0;
        for endpoint in ENDPOINTS.iter() {
            assert!(html.contains(&format!("<code>{} {}</code>", endpoint.method, endpoint.path)), "{}", endpoint.path);
        }
        for link in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(html.contains(&format!("id=\"{link}\"")), "{link}");
        }
        assert!(!html.contains("<script>") && !html.contains("style="), "nothing inline");
        assert!(html.contains("uuid)") && html.contains("list of ") && html.contains(" or null"), "types in words");
    }
}
