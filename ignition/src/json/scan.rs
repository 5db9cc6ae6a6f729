//! The scanner: one pass, no recursion.

use super::{Document, JsonError, Kind, MAX_DEPTH, Slot};
use std::borrow::Cow;

/// What is open, and what may come next in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// A value, after `[` also its end.
    FirstItem,
    Item,
    AfterItem,
    /// A key, after `{` also its end.
    FirstKey,
    Key,
    Colon,
    MemberValue,
    AfterMember,
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    slots: Vec<Slot>,
    max_values: usize,
    /// Open arrays and objects: their slots, and what they expect.
    open: Vec<(usize, Expect)>,
}

/// Reads a whole document, unless it has more than `max_values` values: objects, lists, keys and what is in them.
pub(crate) fn parse(text: &[u8], max_values: usize) -> Result<Document<'_>, JsonError> {
    if u32::try_from(text.len()).is_err() {
        return Err(JsonError::Size { max_values });
    }
    let mut scanner = Scanner { text, at: 0, slots: Vec::new(), max_values, open: Vec::new() };
    scanner.blanks();
    scanner.value("looking for beginning of value")?;
    while let Some((slot, expect)) = scanner.open.last().copied() {
        scanner.blanks();
        scanner.step(slot, expect)?;
    }
    scanner.blanks();
    if scanner.peek().is_some() {
        return Err(scanner.error("after top-level value"));
    }
    Ok(Document { text, slots: scanner.slots })
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The current byte is not allowed here.
    fn error(&self, context: &'static str) -> JsonError {
        match self.peek() {
            Some(found) => JsonError::Character { found, context, offset: self.at },
            None => JsonError::End,
        }
    }

    fn expect(&mut self, next: Expect) {
        if let Some((_, expect)) = self.open.last_mut() {
            *expect = next;
        }
    }

    /// One step in the innermost open array or object.
    fn step(&mut self, slot: usize, expect: Expect) -> Result<(), JsonError> {
        match (expect, self.peek()) {
            (Expect::FirstItem | Expect::AfterItem, Some(b']'))
            | (Expect::FirstKey | Expect::AfterMember, Some(b'}')) => {
                self.at += 1;
                self.close(slot);
                Ok(())
            }
            (Expect::FirstItem | Expect::Item, _) => {
                self.expect(Expect::AfterItem);
                self.value("looking for beginning of value")
            }
            (Expect::AfterItem, Some(b',')) => {
                self.at += 1;
                self.expect(Expect::Item);
                Ok(())
            }
            (Expect::AfterItem, _) => Err(self.error("after array element")),
            (Expect::FirstKey | Expect::Key, Some(b'"')) => {
                self.expect(Expect::Colon);
                self.string()
            }
            (Expect::FirstKey | Expect::Key, _) => Err(self.error("looking for beginning of object key string")),
            (Expect::Colon, Some(b':')) => {
                self.at += 1;
                self.expect(Expect::MemberValue);
                Ok(())
            }
            (Expect::Colon, _) => Err(self.error("after object key")),
            (Expect::MemberValue, _) => {
                self.expect(Expect::AfterMember);
                self.value("looking for beginning of value")
            }
            (Expect::AfterMember, Some(b',')) => {
                self.at += 1;
                self.expect(Expect::Key);
                Ok(())
            }
            (Expect::AfterMember, _) => Err(self.error("after object key:value pair")),
        }
    }

    fn value(&mut self, context: &'static str) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'{') => self.begin(Kind::Object, Expect::FirstKey),
            Some(b'[') => self.begin(Kind::Array, Expect::FirstItem),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Kind::True, "in literal true"),
            Some(b'f') => self.word(b"false", Kind::False, "in literal false"),
            Some(b'n') => self.word(b"null", Kind::Null, "in literal null"),
            _ => Err(self.error(context)),
        }
    }

    fn begin(&mut self, kind: Kind, expect: Expect) -> Result<(), JsonError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(JsonError::Depth { offset: self.at });
        }
        let start = self.at;
        self.at += 1;
        let slot = self.push(kind, start)?;
        self.open.push((slot, expect));
        Ok(())
    }

    fn close(&mut self, slot: usize) {
        self.open.pop();
        let (end, next) = (narrow(self.at), narrow(self.slots.len()));
        if let Some(slot) = self.slots.get_mut(slot) {
            (slot.end, slot.next) = (end, next);
        }
    }

    /// Adds a value that ends here; its slot.
    fn push(&mut self, kind: Kind, start: usize) -> Result<usize, JsonError> {
        let slot = self.slots.len();
        if slot >= self.max_values {
            return Err(JsonError::Size { max_values: self.max_values });
        }
        self.slots.push(Slot { kind, start: narrow(start), end: narrow(self.at), next: narrow(slot + 1) });
        Ok(slot)
    }

    fn word(&mut self, word: &[u8], kind: Kind, context: &'static str) -> Result<(), JsonError> {
        let start = self.at;
        for letter in word {
            if self.peek() != Some(*letter) {
                return Err(match context {
                    _ if self.peek().is_none() => JsonError::End,
                    context => self.error(context),
                });
            }
            self.at += 1;
        }
        self.push(kind, start).map(drop)
    }

    fn digits(&mut self, context: &'static str) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.error(context));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        self.push(Kind::Number, start).map(drop)
    }

    fn string(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        self.at += 1;
        let mut kind = Kind::Plain;
        loop {
            // Most of a config is inside of strings.
            let rest = self.text.get(self.at..).unwrap_or_default();
            self.at += byte_scan::plain_length(rest);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return self.push(kind, start).map(drop);
                }
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    self.at += 1;
                    self.escape()?;
                }
                _ => return Err(self.error("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.error(r"in \u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.error("in string escape code")),
        }
        Ok(())
    }
}

/// Lengths were checked before.
fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The text of a scanned string, between its quotes. What is not Unicode becomes U+FFFD.
pub(super) fn unescape(source: &[u8]) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (plain, escape) = rest.split_at(at);
        text.push_str(&unicode_text(plain));
        let (char, len) = match escape.get(1) {
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{C}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'u') => unicode(escape),
            Some(other) => (char::from(*other), 2),
            None => (char::REPLACEMENT_CHARACTER, 1),
        };
        text.push(char);
        rest = escape.get(len..).unwrap_or_default();
    }
    text.push_str(&unicode_text(rest));
    text
}

/// Bytes as text, with U+FFFD for what is not Unicode. Megabytes that are Unicode are checked much sooner than they are corrected.
pub(super) fn unicode_text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// The character of `\uXXXX` at the start, or of a surrogate pair of them, and how many bytes that takes.
fn unicode(escape: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        let digits = escape.get(at..).filter(|rest| rest.starts_with(br"\u"))?.get(2..6)?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(0).unwrap_or(0xFFFD);
    if let (0xD800..0xDC00, Some(second @ 0xDC00..0xE000)) = (first, unit(6)) {
        let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}
