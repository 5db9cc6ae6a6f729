//! Texts of documents, and from strangers.

use serde_json::Value;

/// Of a stranger's text so much is shown.
const MAX_CHARS: usize = 300;

/// A text by JSON pointer; empty if there is none.
pub(crate) fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A stranger's text on one line of a log.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_CHARS).collect()
}
