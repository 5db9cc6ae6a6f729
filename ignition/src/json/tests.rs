use super::*;
use proptest::prelude::*;

fn parse(text: &[u8]) -> Result<Document<'_>, JsonError> {
    super::parse(text, MAX_VALUES)
}

fn error(text: &str) -> String {
    let error = parse(text.as_bytes()).unwrap_err();
    format!("{error} @{:?}", error.offset())
}

/// As another reader's tree.
fn tree(value: Value<'_, '_>) -> serde_json::Value {
    match value.kind() {
        Kind::Null => serde_json::Value::Null,
        Kind::True => true.into(),
        Kind::False => false.into(),
        Kind::Number => serde_json::from_slice(value.source()).unwrap(),
        Kind::Plain | Kind::Escaped => value.text().unwrap().into_owned().into(),
        Kind::Array => value.items().map(tree).collect(),
        Kind::Object => {
            let members = value.members().map(|(key, value)| (key.text().unwrap().into_owned(), tree(value)));
            serde_json::Value::Object(members.collect())
        }
    }
}

#[test]
fn errors_are_gos() {
    for (text, expected) in [
        ("", "unexpected end of JSON input @None"),
        ("{", "unexpected end of JSON input @None"),
        ("{} x", "invalid character 'x' after top-level value @Some(3)"),
        ("{,", "invalid character ',' looking for beginning of object key string @Some(1)"),
        (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string @Some(7)"),
        (r#"{"a" 1}"#, "invalid character '1' after object key @Some(5)"),
        (r#"{"a":1 2"#, "invalid character '2' after object key:value pair @Some(7)"),
        ("[1 2]", "invalid character '2' after array element @Some(3)"),
        ("[1,]", "invalid character ']' looking for beginning of value @Some(3)"),
        ("[01]", "invalid character '1' after array element @Some(2)"),
        ("[-]", "invalid character ']' in numeric literal @Some(2)"),
        ("[1.]", "invalid character ']' after decimal point in numeric literal @Some(3)"),
        ("[1e]", "invalid character ']' in exponent of numeric literal @Some(3)"),
        ("[trve]", "invalid character 'v' in literal true @Some(3)"),
        ("[\"a\n\"]", r"invalid character '\n' in string literal @Some(3)"),
        (r#"["\x"]"#, "invalid character 'x' in string escape code @Some(3)"),
        (r#"["\u00g0"]"#, r"invalid character 'g' in \u hexadecimal character escape @Some(6)"),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn depth_and_number_of_values_are_bounded() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(deep(MAX_DEPTH).as_bytes()).is_ok());
    assert_eq!(error(&deep(MAX_DEPTH + 1)), format!("exceeded max depth @Some({MAX_DEPTH})"));
    assert_eq!(error(&"[".repeat(100_000)), format!("exceeded max depth @Some({MAX_DEPTH})"));
    let many = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
    assert!(parse(many(MAX_VALUES).as_bytes()).is_ok());
    assert_eq!(parse(many(MAX_VALUES + 1).as_bytes()).unwrap_err(), JsonError::Size { max_values: MAX_VALUES });
}

#[test]
fn strings_are_borrowed_unless_they_have_escapes() {
    let document = parse(br#"["data:,x", "a\u00fc\n\ud83d\ude00\ud800x"]"#).unwrap();
    let texts: Vec<_> = document.root().items().map(|item| item.text().unwrap()).collect();
    assert!(matches!(texts[0], Cow::Borrowed("data:,x")));
    assert_eq!(texts[1], "aü\n😀\u{FFFD}x");
    let bad = parse(b"\"a\xFFb\"").unwrap();
    assert_eq!(bad.root().text().unwrap(), "a\u{FFFD}b");
}

#[test]
fn later_members_win_and_places_are_known() {
    let text = b"{\"a\": 1,\n \"a\": [2, {\"b\": 3}]}";
    let document = parse(text).unwrap();
    let list = document.root().member("a").unwrap();
    let inner = list.items().nth(1).unwrap().member("b").unwrap();
    assert_eq!(inner.source(), b"3");
    let lines = Lines::index(text);
    assert_eq!(lines.position(list.start()), Position { line: 2, column: 7 });
    assert_eq!(lines.position(inner.start()), Position { line: 2, column: 17 });
    assert_eq!(lines.position(0), Position { line: 1, column: 1 });
    assert!(document.root().member("c").is_none());
}

proptest! {
    #[test]
    fn what_is_json_to_others_is_the_same_here(text in r#"([\[\]{},:0-9.eE+-]|"a"|"b":|"\\u00e9"|true|null| ){0,30}"#) {
        let others: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let ours = parse(text.as_bytes()).ok();
        match (others, ours) {
            (Some(others), Some(ours)) => prop_assert_eq!(tree(ours.root()), others),
            // Numbers too large for theirs.
            (None, Some(_)) => prop_assert!(text.contains(['e', 'E'])),
            (others, ours) => prop_assert!(others.is_none() && ours.is_none()),
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(document) = parse(&bytes) {
            let _ = document.root().text();
        }
    }

    #[test]
    fn text_is_written_as_others_write_it(text in "[ -~\\x00-\\x1f\\x7f\"\\\\ü😀]{0,40}") {
        let mut written = Vec::new();
        write_text(&text, &mut written);
        prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&text).unwrap());
    }
}
