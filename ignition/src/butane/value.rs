//! A document by its schema: values with their places, under Ignition's names of keys.

use super::edition::Edition;
use crate::json::{Position, write_text};
use crate::model::shape::Shape;
use crate::report::{Entry, Report, Severity};
use crate::yaml::{Content, Node};
use std::rc::Rc;

/// The search ends after this many findings.
const MAX_FINDINGS: usize = 1000;
/// Plain text that is null.
const NULLS: [&str; 5] = ["", "~", "null", "Null", "NULL"];
const TRUE: [&str; 3] = ["true", "True", "TRUE"];
const FALSE: [&str; 3] = ["false", "False", "FALSE"];
/// Truth values of YAML 1.1; Butane takes them in quotes, too.
const OLD_TRUE: [&str; 8] = ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"];
const OLD_FALSE: [&str; 8] = ["n", "N", "no", "No", "NO", "off", "Off", "OFF"];

/// Where a value comes from: a number of [`Findings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(usize);

#[derive(Clone, Debug)]
pub(super) struct Value {
    pub at: At,
    pub data: Data,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    Text(Rc<str>),
    Number(i64),
    Flag(bool),
    List(Vec<Value>),
    /// With the name of its shape. What is missing or null is left out.
    Object(&'static str, Vec<(&'static str, Value)>),
    Map(Vec<(Rc<str>, Value)>),
}

enum Step {
    Root,
    Key(Rc<str>),
    Index(usize),
}

struct Origin {
    above: At,
    step: Step,
    position: Position,
}

/// Places of values, and what is found wrong with them.
pub(super) struct Findings {
    origins: Vec<Origin>,
    pub report: Report,
}

impl Findings {
    /// The place of a document that begins here.
    pub(super) fn new(position: Position) -> (Self, At) {
        let root = Origin { above: At(0), step: Step::Root, position };
        (Self { origins: vec![root], report: Report::default() }, At(0))
    }

    /// The whole document's place.
    pub(super) fn root(&self) -> At {
        At(0)
    }

    fn below(&mut self, above: At, step: Step, position: Position) -> At {
        self.origins.push(Origin { above, step, position });
        At(self.origins.len() - 1)
    }

    /// The place of a member. A missing one is where its object is.
    pub(super) fn member(&mut self, object: &Value, key: &str) -> At {
        if let Some(value) = object.get(key) {
            return value.at;
        }
        let position = self.origins.get(object.at.0).map_or(Position::END, |origin| origin.position);
        self.below(object.at, Step::Key(snake(key).into()), position)
    }

    pub(super) fn error_at(&mut self, object: &Value, key: &str, message: impl ToString) {
        let at = self.member(object, key);
        self.error(at, message);
    }

    pub(super) fn warning_at(&mut self, object: &Value, key: &str, message: impl ToString) {
        let at = self.member(object, key);
        self.warning(at, message);
    }

    pub(super) fn error(&mut self, at: At, message: impl ToString) {
        self.add(Severity::Error, at, message.to_string());
    }

    pub(super) fn warning(&mut self, at: At, message: impl ToString) {
        self.add(Severity::Warning, at, message.to_string());
    }

    pub(super) fn add(&mut self, severity: Severity, at: At, message: String) {
        if self.report.entries.len() < MAX_FINDINGS {
            let position = self.origins.get(at.0).map(|origin| origin.position);
            self.report.entries.push(Entry { severity, path: Some(self.path(at)), position, message });
        }
    }

    fn path(&self, at: At) -> String {
        let mut steps = Vec::new();
        let mut next = self.origins.get(at.0);
        while let Some(origin) = next {
            match &origin.step {
                Step::Root => break,
                Step::Key(key) => steps.push(key.escape_debug().to_string()),
                Step::Index(index) => steps.push(index.to_string()),
            }
            next = self.origins.get(origin.above.0);
        }
        steps.push("$".to_owned());
        steps.reverse();
        steps.join(".")
    }
}

/// A key of Ignition as it is written in Butane.
pub(super) fn snake(key: &str) -> String {
    key.replace("MiB", "_mib").chars().fold(String::new(), |mut name, char| {
        if char.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(char.to_ascii_lowercase());
        name
    })
}

/// Reads what has this shape; None if it is null or of another shape.
pub(super) fn read(
    node: &Node,
    shape: &'static Shape,
    edition: Edition,
    at: At,
    findings: &mut Findings,
) -> Option<Value> {
    let data = match (&node.content, shape) {
        (Content::Scalar { text, is_plain: true }, shape) if NULLS.contains(&&**text) => {
            if matches!(shape, Shape::Object { .. }) {
                findings.warning(at, "there is nothing in it");
            }
            return None;
        }
        (Content::Scalar { text, .. }, Shape::Text) => Data::Text(text.clone()),
        (Content::Scalar { text, is_plain: true }, Shape::Number) => match number(text) {
            Some(number) => Data::Number(number),
            None => return mismatch(node, "an integer", at, findings),
        },
        (Content::Scalar { text, is_plain }, Shape::Flag) => match flag(text, *is_plain) {
            Some(flag) => Data::Flag(flag),
            None => return mismatch(node, "true or false", at, findings),
        },
        (Content::Sequence(items), Shape::List(of, _)) => {
            let item = |(index, item): (usize, &Node)| {
                let at = findings.below(at, Step::Index(index), item.at);
                // An item counts even if there is nothing in it.
                read(item, of, edition, at, findings).or_else(|| nothing(of, at))
            };
            Data::List(items.iter().enumerate().filter_map(item).collect())
        }
        (Content::Mapping(members), Shape::Object { name, .. }) => {
            let mut fields = Vec::new();
            for member in members.iter() {
                let place = findings.below(at, Step::Key(member.key.clone()), member.value.at);
                let Some((key, shape)) = edition.fields(shape).find(|(key, _)| snake(key) == *member.key) else {
                    let key = findings.below(at, Step::Key(member.key.clone()), member.at);
                    findings.warning(key, format!("unused key {}", member.key.escape_debug()));
                    continue;
                };
                let value = read(&member.value, shape, edition, place, findings);
                fields.extend(value.map(|value| (key, value)));
            }
            Data::Object(name, fields)
        }
        (Content::Mapping(members), Shape::Map) => {
            let mut entries = Vec::new();
            for member in members.iter() {
                let place = findings.below(at, Step::Key(member.key.clone()), member.value.at);
                let value = read(&member.value, &Shape::Text, edition, place, findings);
                entries.extend(value.or_else(|| nothing(&Shape::Text, place)).map(|value| (member.key.clone(), value)));
            }
            Data::Map(entries)
        }
        (_, Shape::Text) => return mismatch(node, "text", at, findings),
        (_, Shape::Number) => return mismatch(node, "an integer", at, findings),
        (_, Shape::Flag) => return mismatch(node, "true or false", at, findings),
        (_, Shape::List(..)) => return mismatch(node, "a list", at, findings),
        (_, Shape::Object { .. } | Shape::Map) => return mismatch(node, "a mapping", at, findings),
    };
    Some(Value { at, data })
}

fn mismatch(node: &Node, expected: &str, at: At, findings: &mut Findings) -> Option<Value> {
    let found = match &node.content {
        Content::Scalar { is_plain: true, .. } => "other plain text",
        Content::Scalar { .. } => "quoted text",
        Content::Sequence(_) => "a list",
        Content::Mapping(_) => "a mapping",
    };
    findings.error(at, format!("expected {expected}, found {found}"));
    None
}

fn nothing(shape: &'static Shape, at: At) -> Option<Value> {
    let data = match shape {
        Shape::Text => Data::Text("".into()),
        Shape::Object { name, .. } => Data::Object(name, Vec::new()),
        _ => return None,
    };
    Some(Value { at, data })
}

fn flag(text: &str, is_plain: bool) -> Option<bool> {
    let is = |plain: &[&str], old: &[&str]| is_plain && plain.contains(&text) || old.contains(&text);
    if is(&TRUE, &OLD_TRUE) {
        return Some(true);
    }
    is(&FALSE, &OLD_FALSE).then_some(false)
}

/// Octal with a leading zero, too, as modes are written.
fn number(text: &str) -> Option<i64> {
    let digits = text.replace('_', "");
    let (is_negative, digits) = match digits.split_at_checked(1) {
        Some(("-", digits)) => (true, digits),
        Some(("+", digits)) => (false, digits),
        _ => (false, digits.as_str()),
    };
    let radix = |prefix: &str| match prefix {
        "0x" | "0X" => Some(16),
        "0o" | "0O" => Some(8),
        "0b" | "0B" => Some(2),
        _ => None,
    };
    let parse = |digits: &str, radix: u32| {
        let is_number = digits.starts_with(|first: char| first.is_digit(radix));
        let signed = if is_negative { format!("-{digits}") } else { digits.to_owned() };
        is_number.then(|| i64::from_str_radix(&signed, radix).ok()).flatten()
    };
    if let Some((prefix, digits)) = digits.split_at_checked(2)
        && let Some(radix) = radix(prefix)
    {
        return parse(digits, radix);
    }
    let octal = digits.strip_prefix('0').and_then(|digits| parse(digits, 8));
    octal.or_else(|| parse(digits, 10))
}

impl At {
    pub(super) fn text(self, text: impl Into<Rc<str>>) -> Value {
        Value { at: self, data: Data::Text(text.into()) }
    }

    pub(super) fn number(self, number: i64) -> Value {
        Value { at: self, data: Data::Number(number) }
    }

    pub(super) fn flag(self, flag: bool) -> Value {
        Value { at: self, data: Data::Flag(flag) }
    }

    pub(super) fn list(self, items: impl IntoIterator<Item = Value>) -> Value {
        Value { at: self, data: Data::List(items.into_iter().collect()) }
    }

    pub(super) fn object(self, members: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
        let members = members.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Value { at: self, data: Data::Object("", members.collect()) }
    }
}

impl Value {
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.data {
            Data::Object(_, members) => members.iter().find(|(name, _)| *name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.data {
            Data::Object(_, members) => members.iter_mut().find(|(name, _)| *name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Whether it is an object of the document, and not one that was made of others.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.data, Data::Object(name, _) if !name.is_empty())
    }

    /// What is at the end of these keys.
    pub(super) fn find(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Self> {
        let Data::Object(_, members) = &mut self.data else { return None };
        let place = members.iter().position(|(name, _)| *name == key)?;
        Some(members.remove(place).1)
    }

    pub(super) fn set(&mut self, key: &'static str, value: Self) {
        if let Some(old) = self.get_mut(key) {
            *old = value;
        } else if let Data::Object(_, members) = &mut self.data {
            members.push((key, value));
        }
    }

    /// The list under a key. A missing one is made, because of what is at this place.
    pub(super) fn list_mut(&mut self, key: &'static str, at: At) -> Option<&mut Vec<Self>> {
        if self.get(key).is_none() {
            self.set(key, at.list([]));
        }
        match &mut self.get_mut(key)?.data {
            Data::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Data::Text(text) = &self.data { Some(text) } else { None }
    }

    pub(super) fn text_at(&self, key: &str) -> &str {
        self.get(key).and_then(Self::text).unwrap_or_default()
    }

    pub(super) fn number_at(&self, key: &str) -> Option<i64> {
        if let Data::Number(number) = self.get(key)?.data { Some(number) } else { None }
    }

    pub(super) fn is_true(&self, keys: &[&str]) -> bool {
        matches!(self.find(keys), Some(Self { data: Data::Flag(true), .. }))
    }

    /// What is in a list; nothing of anything else.
    pub(super) fn items(&self) -> &[Self] {
        if let Data::List(items) = &self.data { items } else { &[] }
    }

    pub(super) fn items_at(&self, keys: &[&str]) -> &[Self] {
        self.find(keys).map(Self::items).unwrap_or_default()
    }

    /// Every object in it with the name of its shape, each before those in it.
    pub(super) fn each_object(&self, visit: &mut dyn FnMut(&'static str, &Self)) {
        match &self.data {
            Data::List(items) => items.iter().for_each(|item| item.each_object(visit)),
            Data::Object(name, members) => {
                visit(name, self);
                members.iter().for_each(|(_, value)| value.each_object(visit));
            }
            _ => {}
        }
    }

    pub(super) fn each_object_mut(&mut self, visit: &mut dyn FnMut(&'static str, &mut Self)) {
        if let Data::Object(name, _) = self.data {
            visit(name, self);
        }
        match &mut self.data {
            Data::List(items) => items.iter_mut().for_each(|item| item.each_object_mut(visit)),
            Data::Object(_, members) => members.iter_mut().for_each(|(_, value)| value.each_object_mut(visit)),
            _ => {}
        }
    }

    /// Its JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match &self.data {
            Data::Text(text) => write_text(text, out),
            Data::Number(number) => out.extend(number.to_string().bytes()),
            Data::Flag(flag) => out.extend(flag.to_string().bytes()),
            Data::List(items) => separated(b"[]", items, out, |item, out| item.write(out)),
            Data::Object(_, members) => separated(b"{}", members, out, write_member),
            Data::Map(entries) => separated(b"{}", entries, out, write_member),
        }
    }
}

fn separated<T>(brackets: &[u8; 2], items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    let [open, close] = *brackets;
    out.push(open);
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(close);
}

fn write_member<K: AsRef<str>>((key, value): &(K, Value), out: &mut Vec<u8>) {
    write_text(key.as_ref(), out);
    out.push(b':');
    value.write(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_in_snake_case() {
        for (key, expected) in [
            ("sizeMiB", "size_mib"),
            ("sshAuthorizedKeysLocal", "ssh_authorized_keys_local"),
            ("tpm2", "tpm2"),
            ("noProxy", "no_proxy"),
        ] {
            assert_eq!(snake(key), expected);
        }
    }

    #[test]
    fn numbers_and_truth_values_are_those_of_butane() {
        for (text, expected) in [
            ("0644", Some(0o644)),
            ("0o644", Some(0o644)),
            ("420", Some(420)),
            ("-1", Some(-1)),
            ("+7", Some(7)),
            ("0x1A", Some(26)),
            ("0b11", Some(3)),
            ("1_000", Some(1000)),
            ("0", Some(0)),
            // Not octal.
            ("0899", Some(899)),
            ("", None),
            ("-", None),
            ("--1", None),
            ("0x-1", None),
            ("1.5", None),
            ("a", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
        assert_eq!((flag("yes", false), flag("true", false), flag("True", true)), (Some(true), None, Some(true)));
        assert_eq!((flag("off", true), flag("0", true)), (Some(false), None));
    }
}
