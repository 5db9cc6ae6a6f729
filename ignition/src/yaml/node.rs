//! A document as a tree in which each value has its place.

use super::sys::{Event, EventKind, Events, Scalar};
use super::{WordedError, YamlError, check, documents, worded_document};
use crate::json::Position;
use serde::de::IgnoredAny;
use std::{
    collections::{BTreeMap, HashSet},
    rc::Rc,
};

/// Tags that say what plain text says by itself.
const CORE_TAGS: [&[u8]; 3] = [b"tag:yaml.org,2002:int", b"tag:yaml.org,2002:bool", b"tag:yaml.org,2002:null"];
const TEXT_TAGS: [&[u8]; 2] = [b"tag:yaml.org,2002:str", b"!"];
/// The key whose mappings are part of the mapping it is in.
const MERGE: &str = "<<";

/// Why there is no tree.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Yaml(#[from] WordedError),
    #[error("line {} col {}: {what}", at.line, at.column)]
    Here { at: Position, what: &'static str },
    #[error("line {} col {}: the mapping has this key twice", at.line, at.column)]
    Twice { first: Position, at: Position, key: String },
}

impl From<YamlError> for NodeError {
    fn from(error: YamlError) -> Self {
        Self::Yaml(error.into())
    }
}

/// A value. Where it was an alias, its place is that of what the alias stands for.
#[derive(Clone, Debug)]
pub struct Node {
    pub at: Position,
    pub content: Content,
}

#[derive(Clone, Debug)]
pub enum Content {
    /// Plain text may be a number, a truth value or null.
    Scalar {
        text: Rc<str>,
        is_plain: bool,
    },
    Sequence(Rc<Vec<Node>>),
    /// Each key once.
    Mapping(Rc<Vec<Member>>),
}

#[derive(Clone, Debug)]
pub struct Member {
    pub key: Rc<str>,
    pub at: Position,
    pub value: Node,
}

/// The first document of a text of at most `max_bytes`; None if there is nothing in it.
pub(crate) fn first_document(text: &[u8], max_bytes: usize) -> Result<Option<Node>, NodeError> {
    check(text, max_bytes)?;
    let mut composer = Composer { events: Events::with_text(text), anchors: BTreeMap::new() };
    let root = loop {
        match composer.events.next() {
            Some(Event { kind: EventKind::StreamEnd, .. }) => return Ok(None),
            Some(Event { kind: EventKind::DocumentStart | EventKind::Other, .. }) => {}
            Some(event) => break composer.node(event),
            None => break Err(Stop::Syntax),
        }
    };
    root.map(Some).map_err(|stop| stop.into_error(|| worded_document::<IgnoredAny>(text, max_bytes).err()))
}

/// All documents of a text of at most `max_bytes`; an empty one is plain text of no length.
pub fn trees(text: &[u8], max_bytes: usize) -> Result<Vec<Node>, NodeError> {
    check(text, max_bytes)?;
    let mut composer = Composer { events: Events::with_text(text), anchors: BTreeMap::new() };
    let mut trees = Vec::new();
    loop {
        let tree = match composer.events.next() {
            Some(Event { kind: EventKind::StreamEnd, .. }) => return Ok(trees),
            Some(Event { kind: EventKind::DocumentStart, .. }) => {
                composer.anchors.clear();
                continue;
            }
            Some(Event { kind: EventKind::Other, .. }) => continue,
            Some(event) => composer.node(event),
            None => Err(Stop::Syntax),
        };
        trees.push(tree.map_err(|stop| stop.into_error(|| documents::<IgnoredAny>(text, max_bytes).err()))?);
    }
}

enum Stop {
    /// Not YAML.
    Syntax,
    Fault(NodeError),
}

impl Stop {
    /// Another reader has words for what is not YAML.
    fn into_error<E: Into<NodeError>>(self, reader: impl FnOnce() -> Option<E>) -> NodeError {
        match self {
            Self::Fault(error) => error,
            Self::Syntax => reader().map_or_else(|| YamlError::Syntax { line: None, column: None }.into(), Into::into),
        }
    }
}

fn here<T>(at: Position, what: &'static str) -> Result<T, Stop> {
    Err(Stop::Fault(NodeError::Here { at, what }))
}

struct Composer<'a> {
    events: Events<'a>,
    anchors: BTreeMap<Box<[u8]>, Node>,
}

impl Composer<'_> {
    fn next(&mut self) -> Result<Event, Stop> {
        self.events.next().ok_or(Stop::Syntax)
    }

    /// The value that begins with `event`. `check` bounds its depth.
    fn node(&mut self, event: Event) -> Result<Node, Stop> {
        let Event { at, anchor, kind } = event;
        let content = match kind {
            EventKind::Scalar { scalar: Some(scalar), .. } => self::scalar(scalar, at)?,
            EventKind::SequenceStart => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event { kind: EventKind::CollectionEnd, .. } => break Content::Sequence(items.into()),
                        event => items.push(self.node(event)?),
                    }
                }
            }
            EventKind::MappingStart => Content::Mapping(self.members()?.into()),
            EventKind::Alias => {
                return match anchor.and_then(|anchor| self.anchors.get(&anchor)) {
                    Some(node) => Ok(node.clone()),
                    None => here(at, "the alias stands for nothing above it"),
                };
            }
            _ => return Err(Stop::Syntax),
        };
        let node = Node { at, content };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn members(&mut self) -> Result<Vec<Member>, Stop> {
        let (mut members, mut merged) = (Vec::<Member>::new(), Vec::new());
        let mut seen: HashSet<Rc<str>> = HashSet::new();
        loop {
            let event = self.next()?;
            if matches!(event.kind, EventKind::CollectionEnd) {
                break;
            }
            let Node { at, content } = self.node(event)?;
            let Content::Scalar { text: key, is_plain } = content else { return here(at, "a key must be text") };
            let event = self.next()?;
            let value = self.node(event)?;
            if is_plain && &*key == MERGE {
                merge(&value, &mut merged)?;
            } else if seen.insert(key.clone()) {
                members.push(Member { key, at, value });
            } else {
                let first = members.iter().find(|member| member.key == key).map_or(at, |member| member.at);
                return Err(Stop::Fault(NodeError::Twice { first, at, key: key.to_string() }));
            }
        }
        members.extend(merged.into_iter().filter(|member| seen.insert(member.key.clone())));
        Ok(members)
    }
}

/// The members of a mapping, or of several, that are part of another one.
fn merge(value: &Node, to: &mut Vec<Member>) -> Result<(), Stop> {
    match &value.content {
        Content::Mapping(members) => to.extend(members.iter().cloned()),
        Content::Sequence(items) if items.iter().all(|item| matches!(item.content, Content::Mapping(_))) => {
            items.iter().try_for_each(|item| merge(item, to))?;
        }
        _ => return here(value.at, "'<<' takes a mapping, or a list of them"),
    }
    Ok(())
}

fn scalar(scalar: Scalar, at: Position) -> Result<Content, Stop> {
    let Scalar { text, is_plain, tag } = scalar;
    let is_plain = match tag.as_deref() {
        None => is_plain,
        Some(tag) if CORE_TAGS.contains(&tag) => true,
        Some(tag) if TEXT_TAGS.contains(&tag) => false,
        Some(_) => return here(at, "this tag is not supported"),
    };
    Ok(Content::Scalar { text, is_plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one line, with places.
    fn shown(node: &Node) -> String {
        let text = match &node.content {
            Content::Scalar { text, is_plain: true } => text.to_string(),
            Content::Scalar { text, .. } => format!("'{text}'"),
            Content::Sequence(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Content::Mapping(members) => {
                let member = |member: &Member| {
                    format!("{}@{}:{}={}", member.key, member.at.line, member.at.column, shown(&member.value))
                };
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(" "))
            }
        };
        format!("{text}@{}:{}", node.at.line, node.at.column)
    }

    fn read(text: &str) -> Result<String, String> {
        match first_document(text.as_bytes(), 1 << 20) {
            Ok(node) => Ok(node.as_ref().map(shown).unwrap_or_default()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn each_value_has_its_place() {
        for (text, expected) in [
            ("a: 1\nb:\n  - x\n  - 'y'\n", "{a@1:1=1@1:4 b@2:1=[x@3:5 'y'@4:5]@3:3}@1:1"),
            ("a: &n {c: 1}\nb: *n\n", "{a@1:1={c@1:8=1@1:11}@1:4 b@2:1={c@1:8=1@1:11}@1:4}@1:1"),
            (
                "x: &n {a: 1, b: 2}\ny: {b: 3, <<: *n}\n",
                "{x@1:1={a@1:8=1@1:11 b@1:14=2@1:17}@1:4 y@2:1={b@2:5=3@2:8 a@1:8=1@1:11}@2:4}@1:1",
            ),
            ("!!str 1", "'1'@1:1"),
            ("ä: ö", "{ä@1:1=ö@1:4}@1:1"),
            ("a\n---\nb\n", "a@1:1"),
            ("# nothing\n", ""),
            ("---\n", "@2:1"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn faults_have_their_place() {
        for (text, expected) in [
            ("a: 1\na: 2", "line 2 col 1: the mapping has this key twice"),
            ("[a]: 1", "line 1 col 1: a key must be text"),
            ("a: *b", "line 1 col 4: the alias stands for nothing above it"),
            ("a: !mine 1", "line 1 col 4: this tag is not supported"),
            ("a: {<<: 1}", "line 1 col 9: '<<' takes a mapping, or a list of them"),
        ] {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
        assert!(read("a: [1\nb: 2").unwrap_err().contains("line"));
    }

    #[test]
    fn all_documents_are_read() {
        let read = |text: &str| match trees(text.as_bytes(), 1 << 20) {
            Ok(trees) => trees.iter().map(shown).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        for (text, expected) in [
            ("", ""),
            ("# nothing\n", ""),
            ("a\n---\n- 'b'\n---\n...\n", "a@1:1 ['b'@3:3]@3:1 @5:1"),
            // An anchor ends with its document.
            ("&n a\n---\n*n\n", "line 3 col 1: the alias stands for nothing above it"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(read("a\n---\n[b\n").contains("line"), "{}", read("a\n---\n[b\n"));
    }
}
