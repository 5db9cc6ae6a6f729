//! Texts for people: units behind values, sizes, and nothing that a terminal would take for a command.

use serde_json::Value;
use std::borrow::Cow;

/// Plain values of a list that are shown.
pub(super) const MANY: usize = 24;
/// Characters of a text that are shown: a long kernel command line, and no hostile one.
const MAX_TEXT: usize = 2048;

/// Units at the end of names, and how they follow the value.
const UNITS: [(&str, &str); 19] = [
    ("_celsius", " °C"),
    ("_percent", " %"),
    ("_khz", " kHz"),
    ("_mhz", " MHz"),
    ("_mts", " MT/s"),
    ("_gts", " GT/s"),
    ("_mbps", " Mb/s"),
    ("_millivolts", " mV"),
    ("_rpm", " rpm"),
    ("_watts", " W"),
    ("_mv", " mV"),
    ("_hours", " h"),
    ("_seconds", " s"),
    ("_dbm", " dBm"),
    ("_milliamperes", " mA"),
    ("_meters", " m"),
    ("_nanometers", " nm"),
    ("_nanoseconds", " ns"),
    ("_mb_per_second", " MB/s"),
];

/// A name for people: without the unit, which follows the value.
pub(super) fn label(name: &str) -> String {
    let ends = UNITS.iter().map(|(end, _)| *end).chain(["_bytes"]);
    ends.filter_map(|end| name.strip_suffix(end)).next().unwrap_or(name).replace('_', " ")
}

/// Not longer than fits a page for people.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}… and more, see --json", &text[..end]).into(),
        None => text.into(),
    }
}

/// A value with the unit that its name ends with.
pub(super) fn with_unit(name: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if name.ends_with("_bytes") => kernel::units::binary(bytes),
            _ => format!(
                "{}{}",
                number.to_string().trim_end_matches(".0"),
                UNITS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
            ),
        },
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => printable(text),
        Value::Array(values) if values.len() > MANY => format!("{} of them, see --json", values.len()),
        Value::Array(values) => values.iter().map(|value| with_unit(name, value)).collect::<Vec<_>>().join(", "),
        Value::Object(_) => "some".to_owned(),
    }
}

/// Not longer than that many characters.
pub(super) fn cut(text: &str, width: usize) -> String {
    if chars(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

pub(super) fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Whether a terminal does something with it other than show it: control characters, and those that turn the direction of
/// the text or are not seen at all, by which one name is made to look like another.
pub(super) fn is_unseen(c: char) -> bool {
    let is_format = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c.is_control() || is_format
}

/// Firmware's texts may hold anything; a terminal gets only what can be seen.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { '\u{fffd}' } else { c }).collect()
}

/// JSON with all that can't be seen written as `\u` and four digits, which is read as the same: it stands only in strings but
/// for the line feeds that JSON is laid out with.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push(c),
            // None of them is longer than four digits.
            c if is_unseen(c) => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_text_commands_a_terminal() {
        let hostile = "a\u{1b}[2J\u{9b}31m\u{7f}\u{202e}b\u{200b}\u{feff}€";
        assert_eq!(printable(hostile), "a\u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd}b\u{fffd}\u{fffd}€");
    }

    proptest! {
        #[test]
        fn escapes_are_read_as_what_they_stand_for(text: String) {
            let json = escaped(&serde_json::to_string_pretty(&[&text]).unwrap());
            prop_assert!(json.chars().all(|c| c == '\n' || !is_unseen(c)));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [text]);
        }
    }
}
