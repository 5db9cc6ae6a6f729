//! The expectation that a machine meets as it is, to begin a file for its kind from.

use super::{
    by_name,
    condition::{literal_bytes, literal_text},
    expect::{ExpectError, Expectation},
    fields,
    schema::Shape,
    words::is_unseen,
};
use serde_json::{Map, Value};

/// What a starting file says of itself.
const HEADER: &str = "\
# Expectation for machines of this kind, made from one by `landfall report --print-expect`.
# Only what is named here is compared: delete what does not matter, loosen the rest.
#   numbers   8   \">= 8\"   \">= 60 GiB, < 70 GiB\"      texts   \"Intel*\"   \"!= Vulnerable*\"   [\"this\", \"or that\"]
#   [[a.list]]  count = elements like this one, or \">= 2\"; without count at least one
#   [a.table] absent = true, or a.fact.absent = true: there is no such thing
";

/// A report that can't be written as an expectation.
#[derive(Debug, thiserror::Error)]
pub(super) enum StarterError {
    #[error("the report cannot be written as TOML")]
    Toml(#[from] toml::ser::Error),
    #[error("the written expectation cannot be read back")]
    Expect(#[from] ExpectError),
}

/// An expectation file that a report of that shape meets. What belongs to one machine alone, and what is measured, is left
/// out.
pub(super) fn expectation(report: &Value, shape: &Shape<'_>) -> Result<String, StarterError> {
    let expected = expected("", report, shape)?.unwrap_or_else(|| Value::Object(Map::new()));
    Ok(format!("{HEADER}\n{}", toml::to_string(&by_name(&expected))?))
}

/// The condition that a value meets; `None` when there is nothing to expect.
fn expected(name: &str, found: &Value, shape: &Shape<'_>) -> Result<Option<Value>, StarterError> {
    Ok(match found {
        Value::Null => None,
        Value::Bool(_) => Some(found.clone()),
        Value::Number(number) => {
            // TOML's integers end earlier.
            let large =
                || number.as_u64().filter(|number| i64::try_from(*number).is_err()).map(|number| number.to_string());
            let rough = || number.as_u64().filter(|_| fields::is_rough(name)).map(about);
            Some(
                rough()
                    .or_else(|| literal_bytes(name, found))
                    .or_else(large)
                    .map_or_else(|| found.clone(), Value::String),
            )
        }
        // Invisible characters can't be typed either.
        Value::String(text) => Some(Value::String(literal_text(text).replace(is_unseen, "*"))),
        Value::Object(object) => {
            let fields = expected_fields(object, shape, fields::is_of_one_machine)?;
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Array(values) => {
            let Some(element) = shape.element() else { return Ok(None) };
            if element.has_fields() {
                return kinds(values, &element).map(Some);
            }
            let values = values.iter().map(|value| expected(name, value, &element)).collect::<Result<Vec<_>, _>>()?;
            Some(values.into_iter().flatten().collect())
        }
    })
}

fn expected_fields(
    object: &Map<String, Value>,
    shape: &Shape<'_>,
    left_out: impl Fn(&str) -> bool,
) -> Result<Map<String, Value>, StarterError> {
    let mut fields = Map::new();
    // What an id means is only as new as the list of ids where it was looked up.
    let has_id = |name: &str| object.contains_key(&format!("{name}_id"));
    let is_included =
        |name: &str| !left_out(name) && !fields::is_passing(name) && !has_id(name) && !name.contains(is_unseen);
    for (name, value) in object.iter().filter(|(name, _)| is_included(name)) {
        let Some(shape) = shape.field(name) else { continue };
        if let Some(value) = expected(name, value, &shape)? {
            fields.insert(name.clone(), value);
        }
    }
    Ok(fields)
}

/// Within some five percent of these bytes.
fn about(bytes: u64) -> String {
    let (unit, name) = if bytes < 8 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
    let low = (bytes - bytes / 20) / unit;
    let high = bytes.saturating_add(bytes / 20) / unit + 1;
    format!(">= {low} {name}, < {high} {name}")
}

/// The number of elements, and of each kind the number of elements that are like it.
fn kinds(values: &[Value], element: &Shape<'_>) -> Result<Value, StarterError> {
    let mut kinds: Vec<Map<String, Value>> = vec![Map::new()];
    for object in values.iter().filter_map(Value::as_object) {
        // Slots and names are left out: which of the same things is where does not make another kind of machine.
        let left_out = |name: &str| fields::is_of_one_machine(name) || fields::is_place(name);
        let kind = expected_fields(object, element, left_out)?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    for kind in &mut kinds {
        // Counted as it will be: an element may also be like another that says less.
        let like = Expectation::parse(&toml::to_string(kind)?, element)?;
        let count = values.iter().filter(|value| like.differences(value).is_empty()).count();
        kind.insert("count".to_owned(), count.into());
    }
    Ok(kinds.into_iter().map(Value::Object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        diff,
        toy::{schema, server, toy},
    };
    use proptest::prelude::*;
    use serde_json::json;

    /// Pointers to all plain values that a starting file speaks of.
    fn compared(pointer: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                for (name, value) in
                    object.iter().filter(|(name, _)| !matches!(name.as_str(), "serial_number" | "locator"))
                {
                    compared(&format!("{pointer}/{name}"), value, found);
                }
            }
            Value::Array(values) => {
                values.iter().enumerate().for_each(|(at, value)| compared(&format!("{pointer}/{at}"), value, found));
            }
            Value::Null => {}
            // Of which only a part is spoken of.
            Value::String(text) if text.contains(is_unseen) => {}
            _ => found.push(pointer.to_owned()),
        }
    }

    fn changed(value: &Value) -> Value {
        match value {
            Value::Bool(truth) => json!(!truth),
            Value::Number(number) => number.as_u64().map_or(json!(7.5), |number| json!(number ^ 0x80)),
            _ => json!("changed"),
        }
    }

    #[test]
    fn what_firmware_wrote_cannot_command_the_terminal() {
        let mut found = server();
        found["maker"] = json!("A\u{1b}[2J\\\u{9b}'\"\u{202e}*");
        found["flaws"] = json!({"l1tf": "Vulnerable", "x\u{9b}y": "z"});
        let schema = schema();
        let shape = Shape::new(&schema);
        let text = expectation(&found, &shape).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !is_unseen(c)) && text.contains("Vulnerable"), "{text:?}");
        assert_eq!(Expectation::parse(&text, &shape).unwrap().differences(&found), []);
    }

    proptest! {
        #[test]
        fn a_machine_meets_its_own_expectation_until_it_changes(toy in toy(), which: prop::sample::Index) {
            let schema = schema();
            let shape = Shape::new(&schema);
            let report = serde_json::to_value(&toy).unwrap();
            let text = expectation(&report, &shape).unwrap();
            let expectation = Expectation::parse(&text, &shape).unwrap();
            prop_assert_eq!(expectation.differences(&report), [], "{}", text);
            prop_assert_eq!(diff::changes(&report, &report, true), []);
            let mut pointers = Vec::new();
            compared("", &report, &mut pointers);
            prop_assume!(!pointers.is_empty());
            let pointer = which.get(&pointers);
            let mut other = report.clone();
            let place = other.pointer_mut(pointer).unwrap();
            *place = changed(place);
            prop_assert!(!expectation.differences(&other).is_empty(), "{} in {}", pointer, text);
            prop_assert!(!diff::changes(&report, &other, false).is_empty(), "{}", pointer);
        }
    }

    #[test]
    fn what_the_kernel_takes_its_part_of_is_rough() {
        assert_eq!(about(0), ">= 0 MiB, < 1 MiB");
        assert_eq!(about(134_843_318_272), ">= 119 GiB, < 132 GiB");
        assert!(about(u64::MAX).starts_with(">= "));
    }

    #[test]
    fn like_elements_are_counted_together() {
        let schema = schema();
        let text = expectation(&server(), &Shape::new(&schema)).unwrap();
        let body = &text[HEADER.len()..];
        let wanted = r#"
maker = 'A\*'

[flaws]
l1tf = "Vulnerable"

[memory]
ecc = true
installed_bytes = "64 GiB"

[[memory.devices]]
count = 3
"#;
        assert!(body.starts_with(wanted), "{body}");
        assert!(body.contains("count = 2\nranks = [1, 2]\nsize_bytes = \"32 GiB\"") && !body.contains("A1"), "{body}");
    }
}
