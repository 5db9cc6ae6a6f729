//! JSON as the tree that YAML is read to, each key once.

use super::{Kind, Lines, MAX_VALUES, Value, parse};
use crate::yaml::{Content, Member, Node, NodeError, YamlError};
use std::{collections::HashSet, rc::Rc};

/// Levels of arrays and objects.
const MAX_DEPTH: usize = crate::yaml::MAX_DEPTH;

/// The document of a text of at most `max_bytes`. Numbers, truth values and null are plain text, as they are written.
///
/// # Errors
/// It is not JSON, an object has a key twice, or a bound is exceeded.
pub fn json_tree(text: &[u8], max_bytes: usize) -> Result<Node, NodeError> {
    if text.len() > max_bytes {
        return Err(YamlError::TooLong { found: text.len(), max: max_bytes }.into());
    }
    let lines = Lines::index(text);
    let document = parse(text, MAX_VALUES).map_err(|error| {
        let at = lines.position(error.offset().unwrap_or(text.len()));
        YamlError::Syntax { line: Some(at.line), column: Some(at.column) }
    })?;
    node(document.root(), &lines, MAX_DEPTH)
}

fn node(value: Value<'_, '_>, lines: &Lines, depth: usize) -> Result<Node, NodeError> {
    let Some(depth) = depth.checked_sub(1) else { return Err(YamlError::TooDeep { max: MAX_DEPTH }.into()) };
    let content = match value.kind() {
        Kind::Plain | Kind::Escaped => {
            Content::Scalar { text: value.text().unwrap_or_default().into(), is_plain: false }
        }
        Kind::Null | Kind::True | Kind::False | Kind::Number => {
            Content::Scalar { text: String::from_utf8_lossy(value.source()).into(), is_plain: true }
        }
        Kind::Array => {
            let items: Result<Vec<_>, _> = value.items().map(|item| node(item, lines, depth)).collect();
            Content::Sequence(items?.into())
        }
        Kind::Object => {
            let (mut members, mut seen) = (Vec::new(), HashSet::new());
            for (key, value) in value.members() {
                let (at, key): (_, Rc<str>) = (lines.position(key.start()), key.text().unwrap_or_default().into());
                if !seen.insert(key.clone()) {
                    let first =
                        members.iter().find(|member: &&Member| member.key == key).map_or(at, |member| member.at);
                    return Err(NodeError::Twice { first, at, key: key.to_string() });
                }
                members.push(Member { key, at, value: node(value, lines, depth)? });
            }
            Content::Mapping(members.into())
        }
    };
    Ok(Node { at: lines.position(value.start()), content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_places_and_keys_are_there_once() {
        let root = json_tree(
            br#"{"a": [1.50, "1", true],
 "b": {"c": "\ud83d\ude00"}}"#,
            1000,
        );
        let Content::Mapping(members) = root.unwrap().content else { panic!() };
        assert_eq!((&*members[1].key, members[1].at.line), ("b", 2));
        let Content::Sequence(items) = &members[0].value.content else { panic!() };
        let texts: Vec<_> = items
            .iter()
            .map(|item| match &item.content {
                Content::Scalar { text, is_plain } => (&**text, *is_plain),
                _ => panic!(),
            })
            .collect();
        assert_eq!(texts, [("1.50", true), ("1", false), ("true", true)]);
        let error = |text: &str| json_tree(text.as_bytes(), 100_000).unwrap_err().to_string();
        assert_eq!(error("{\"a\": 1,\n\"a\": 2}"), "line 2 col 1: the mapping has this key twice");
        assert!(error("{\"a\":\n").contains("line 2"), "{}", error("{\"a\":\n"));
        assert!(error(&"[".repeat(1000)).contains("line 1"), "{}", error(&"[".repeat(1000)));
        assert!(error(&format!("{}{}", "[".repeat(200), "]".repeat(200))).contains("too deeply"));
    }
}
