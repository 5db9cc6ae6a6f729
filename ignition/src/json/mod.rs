//! JSON as Go's `encoding/json` reads it, with the place of every value: a config's errors are given by line and column.
//!
//! The document is a flat list of [`Slot`]s beside its text: it costs 16 bytes for each value, strings are copied only if
//! they contain escapes, and depth needs no stack to read or to drop.

mod scan;
mod tree;

pub(crate) use scan::parse;
pub use tree::json_tree;

use std::borrow::Cow;

/// As deep as Go goes.
pub(crate) const MAX_DEPTH: usize = 10_000;
/// A large cluster's bootstrap config has some ten thousand values.
pub(crate) const MAX_VALUES: usize = 1 << 20;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    True,
    False,
    Number,
    /// Without escapes.
    Plain,
    /// With escapes, or with bytes that are not UTF-8.
    Escaped,
    Array,
    /// Keys and values in turn.
    Object,
}

/// A value's place.
#[derive(Clone, Copy, Debug)]
struct Slot {
    kind: Kind,
    start: u32,
    end: u32,
    /// The slot after all that is in it.
    next: u32,
}

#[derive(Debug)]
pub(crate) struct Document<'a> {
    text: &'a [u8],
    slots: Vec<Slot>,
}

/// Not JSON. Offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("unexpected end of JSON input")]
    End,
    /// A byte that is not allowed there.
    #[error("invalid character {} {}", quoted(*.found), context)]
    Character {
        /// The byte, or the first of the character.
        found: u8,
        context: &'static str,
        offset: usize,
    },
    #[error("exceeded max depth")]
    Depth { offset: usize },
    /// Too much for a config.
    #[error("more than {max_values} values, or more than 4 GiB: this is not a config")]
    Size { max_values: usize },
}

impl JsonError {
    /// Where it is, in bytes from the start; None at the end.
    pub(crate) fn offset(&self) -> Option<usize> {
        match self {
            Self::Character { offset, .. } | Self::Depth { offset } => Some(*offset),
            Self::End | Self::Size { .. } => None,
        }
    }
}

/// As Go's scanner quotes a byte.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x20..0x7F => format!("'{}'", char::from(byte)),
        0..0x20 | 0x7F => format!(r"'\x{byte:02x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'d, 'a> {
    document: &'d Document<'a>,
    index: usize,
}

impl<'a> Document<'a> {
    /// The outermost value.
    pub(crate) fn root(&self) -> Value<'_, 'a> {
        Value { document: self, index: 0 }
    }

    fn slot(&self, index: usize) -> Slot {
        self.slots.get(index).copied().unwrap_or(Slot { kind: Kind::Null, start: 0, end: 0, next: u32::MAX })
    }
}

fn index(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl<'d, 'a> Value<'d, 'a> {
    fn slot(&self) -> Slot {
        self.document.slot(self.index)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.slot().kind
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> usize {
        index(self.slot().start)
    }

    /// Where Ignition's reports point: its first byte, or the one after an object's or array's bracket.
    pub(crate) fn report_offset(&self) -> usize {
        let inside = matches!(self.kind(), Kind::Array | Kind::Object);
        self.start().saturating_add(usize::from(inside))
    }

    /// The byte after its last.
    pub(crate) fn end(&self) -> usize {
        index(self.slot().end)
    }

    /// Its bytes in the document.
    pub(crate) fn source(&self) -> &'a [u8] {
        let Slot { start, end, .. } = self.slot();
        self.document.text.get(index(start)..index(end)).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> Option<Cow<'a, str>> {
        let inner = |source: &'a [u8]| source.get(1..source.len().saturating_sub(1)).unwrap_or_default();
        match self.kind() {
            Kind::Plain => Some(scan::unicode_text(inner(self.source()))),
            Kind::Escaped => Some(Cow::Owned(scan::unescape(inner(self.source())))),
            _ => None,
        }
    }

    /// The values in an array, or keys and values of an object in turn.
    pub(crate) fn children(&self) -> impl Iterator<Item = Value<'d, 'a>> + use<'d, 'a> {
        let holds = matches!(self.kind(), Kind::Array | Kind::Object);
        let first = if holds { self.index.saturating_add(1) } else { usize::MAX };
        Value { index: first, ..*self }.siblings(*self)
    }

    /// This value and those behind it in `parent`.
    pub(crate) fn siblings(&self, parent: Self) -> impl Iterator<Item = Value<'d, 'a>> + use<'d, 'a> {
        let (document, end) = (self.document, index(parent.slot().next));
        std::iter::successors(Some(self.index), move |at| Some(index(document.slot(*at).next)))
            .take_while(move |at| *at < end)
            .map(move |index| Value { document, index })
    }

    /// An array's values; none of anything else.
    pub(crate) fn items(&self) -> impl Iterator<Item = Value<'d, 'a>> + use<'d, 'a> {
        let is_array = self.kind() == Kind::Array;
        self.children().filter(move |_| is_array)
    }

    /// An object's members, key and value; none of anything else.
    pub(crate) fn members(&self) -> impl Iterator<Item = (Value<'d, 'a>, Value<'d, 'a>)> + use<'d, 'a> {
        let is_object = self.kind() == Kind::Object;
        let mut children = self.children().filter(move |_| is_object);
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    /// The last member with exactly this key.
    pub(crate) fn member(&self, key: &str) -> Option<Value<'d, 'a>> {
        self.members().filter(|(name, _)| name.text().is_some_and(|name| name == key)).last().map(|(_, value)| value)
    }

    /// What Go calls it in its errors.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind() {
            Kind::Null => "null",
            Kind::True | Kind::False => "bool",
            Kind::Number => "number",
            Kind::Plain | Kind::Escaped => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

/// Appends `text` as a string of JSON, with the escapes that Rust's writers of JSON use.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(byte_scan::plain_length(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        write_escape(*byte, out);
        rest = after;
    }
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0C => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => return out.extend(format!(r"\u{byte:04x}").bytes()),
    };
    out.extend([b'\\', letter]);
}

/// A place for people: line and column, both from 1, the column in bytes; both are 0 at the end of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Position {
    pub line: usize,
    /// Byte in it.
    pub column: usize,
}

impl Position {
    /// What Ignition says of the end of the text.
    pub(crate) const END: Self = Self { line: 0, column: 0 };
}

/// Turns offsets into positions, cheaply when there are many.
#[derive(Debug)]
pub(crate) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub(crate) fn index(text: &[u8]) -> Self {
        let after = byte_scan::line_feeds(text).into_iter().map(|at| at + 1);
        Self { starts: std::iter::once(0).chain(after).collect() }
    }

    pub(crate) fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        Position { line, column: offset.saturating_sub(start).saturating_add(1) }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
