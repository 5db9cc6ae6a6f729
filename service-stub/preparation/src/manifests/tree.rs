//! YAML as Kubernetes reads it, by the rules of YAML 1.1: an unquoted `0644` is a number, an unquoted `on` a truth value.
//!
//! It is written as JSON, which is YAML too: all text is quoted, so that no reader takes it for anything else.

use crate::directory::MAX_FILE_BYTES;
use ignition::yaml::{Content, Member, Node, NodeError, trees};
use serde_json::{Number, Value};
use std::fmt::Write;

/// All documents of a text. An empty one is null.
pub(super) fn documents(text: &[u8]) -> Result<Vec<Value>, NodeError> {
    Ok(trees(text, MAX_FILE_BYTES)?.iter().map(value).collect())
}

/// Text with one or more documents.
pub(super) fn text(documents: &[Value]) -> String {
    match documents {
        [document] => format!("{}\n", quoted(document)),
        // The first line says that it is not a single JSON text.
        documents => documents.iter().map(|document| format!("---\n{}\n", quoted(document))).collect(),
    }
}

/// JSON without the characters that YAML forbids.
fn quoted(document: &Value) -> String {
    let mut text = String::new();
    for letter in format!("{document:#}").chars() {
        match letter {
            '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            letter => text.push(letter),
        }
    }
    text
}

fn value(node: &Node) -> Value {
    match &node.content {
        Content::Scalar { text, is_plain: true } => plain(text),
        Content::Scalar { text, .. } => Value::from(&**text),
        Content::Sequence(items) => items.iter().map(value).collect(),
        Content::Mapping(members) => {
            let member = |member: &Member| (member.key.to_string(), value(&member.value));
            Value::Object(members.iter().map(member).collect())
        }
    }
}

/// What unquoted text means (yaml.org/type, of YAML 1.1, without numbers to the base of 60).
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        text => number(text).map_or_else(|| Value::from(text), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if !matches!(first, b'0'..=b'9' | b'+' | b'-' | b'.') {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| {
        // What can't be a float in JSON stays text.
        if is_float(&digits) { Number::from_f64(digits.parse().ok()?) } else { None }
    })
}

fn integer(digits: &str) -> Option<Number> {
    let (is_negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits.strip_prefix('+').unwrap_or(digits)),
    };
    const RADIXES: [(&str, u32); 6] = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)];
    let (digits, radix) = RADIXES
        .iter()
        .find_map(|(prefix, radix)| Some((digits.strip_prefix(prefix)?, *radix)))
        .or_else(|| Some((digits.strip_prefix('0').filter(|rest| !rest.is_empty())?, 8)))
        .unwrap_or((digits, 10));
    // The parser below takes a sign too.
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let amount = u64::from_str_radix(digits, radix).ok()?;
    if is_negative { Some(0_i64.checked_sub_unsigned(amount)?.into()) } else { Some(amount.into()) }
}

/// Whether it is digits with at most one point, and an exponent.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(m, e)| (m, Some(e)));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    let has_exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    has_digits && digits(whole) && digits(fraction) && has_exponent
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unquoted_text_means_what_it_means_to_kubernetes() {
        for (text, expected) in [
            ("0644", json!(420)),
            ("'0644'", json!("0644")),
            ("!!str 0644", json!("0644")),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("-0b11", json!(-3)),
            ("1_000", json!(1000)),
            ("+5", json!(5)),
            ("08", json!(8.0)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1.10", json!(1.1)),
            ("-.5e+3", json!(-500.0)),
            ("1.2.3", json!("1.2.3")),
            ("10.0.0.0/16", json!("10.0.0.0/16")),
            ("1:30", json!("1:30")),
            (".inf", json!(".inf")),
            ("1e999", json!("1e999")),
            ("0x+1", json!("0x+1")),
            ("-", json!([null])),
            ("2026-01-02", json!("2026-01-02")),
            ("on", json!(true)),
            ("\"on\"", json!("on")),
            ("No", json!(false)),
            ("nO", json!("nO")),
            ("~", json!(null)),
            ("", json!(null)),
            ("a: &x {b: [1]}\nc: *x", json!({"a": {"b": [1]}, "c": {"b": [1]}})),
        ] {
            assert_eq!(documents(format!("---\n{text}").as_bytes()).unwrap(), [expected], "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let odd =
            json!({"a": "on", "b": "\u{7f}\u{85}\u{9f}\u{feff}é\u{1f600}\t\n\"\\", "0644": ["0644", 420, -1.5e300]});
        for all in [vec![odd.clone()], vec![odd.clone(), json!(null), json!([odd])]] {
            assert_eq!(documents(text(&all).as_bytes()).unwrap(), all);
        }
        assert_eq!(text(&[json!({"a": 1})]), "{\n  \"a\": 1\n}\n");
    }
}
