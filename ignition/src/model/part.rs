//! What every part of a config can do: be read, merged, written, and walked for its faults.

use super::go_types::{Place, Wanted, type_name};
use super::shape::Shape;
use super::version::Version;
use crate::json::{Kind, Value, write_text};
use crate::report::{DUPLICATE, Walk};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Deref,
};

/// Text of a config, borrowed from it unless it had escapes.
pub type Text<'a> = Cow<'a, str>;

/// Keys seen so far, by the group they must be unique in. They may be as long as the data in a URL, and are not copied.
pub(crate) type Seen<'s> = HashSet<(&'static str, Cow<'s, str>)>;

/// What is known while a document is read.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    pub version: Version,
    /// The first value of a wrong type.
    pub mismatch: Option<Mismatch>,
    /// What Go calls the struct that is read.
    root: &'static str,
    path: Vec<Place<'a>>,
}

/// A value of a wrong type, in Go's words, and where Go saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub message: String,
    pub end: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(root: &'static str, version: Version) -> Self {
        Self { version, mismatch: None, root, path: Vec::new() }
    }

    /// One step further down.
    pub(crate) fn within(&mut self, place: Place<'a>, read: impl FnOnce(&mut Self)) {
        self.path.push(place);
        read(self);
        self.path.pop();
    }

    /// Reading continues, as Go's does; the first counts.
    pub(crate) fn mismatch(&mut self, value: Value<'_, '_>, wanted: Wanted) {
        if self.mismatch.is_some() {
            return;
        }
        let number = || format!("number {}", String::from_utf8_lossy(value.source()));
        let is_bad_int = value.kind() == Kind::Number && wanted == Wanted::Scalar("int");
        let found = if is_bad_int { number() } else { value.kind_name().to_owned() };
        let end = if matches!(value.kind(), Kind::Array | Kind::Object) { value.report_offset() } else { value.end() };
        let into = match self.path.last() {
            None => "Go value".to_owned(),
            Some(Place::Field(..)) => format!("Go struct field {}", self.path_text()),
            Some(Place::Item(_)) => self.path_text(),
        };
        let wanted = type_name(self.root, self.version, &self.path, wanted);
        let message = format!("json: cannot unmarshal {found} into {into} of type {wanted}");
        self.mismatch = Some(Mismatch { message, end });
    }

    fn path_text(&self) -> String {
        self.path.iter().fold(self.root.to_owned(), |text, place| match place {
            Place::Field(_, name) => format!("{text}.{name}"),
            Place::Item(index) => format!("{text}.{index}"),
        })
    }
}

/// Whether Go takes `text` for the field `key`: case is ignored by Unicode's simple folding, to which U+017F is an s and U+212A a k.
pub(crate) fn is_key(text: &str, key: &str) -> bool {
    let fold = |char: char| match char {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        char => char.to_ascii_lowercase(),
    };
    text.eq_ignore_ascii_case(key) || !text.is_ascii() && text.chars().map(fold).eq(key.chars().map(fold))
}

/// A part of a config.
pub(crate) trait Part<'a>: Clone + Default + PartialEq {
    const SHAPE: &'static Shape;

    /// Takes what `value` has. Read twice, as from a key given twice, the later wins.
    fn decode(&mut self, value: Value<'_, 'a>, decoder: &mut Decoder<'a>);

    /// This as the parent of `child`, by Ignition's rules (docs/compatibility.md#ignition-merge).
    fn merge(self, child: Self) -> Self;

    /// Whether it counts as missing.
    fn is_unset(&self) -> bool;

    /// Its JSON.
    fn write(&self, out: &mut Vec<u8>);

    /// Its own faults, then those of what is in it.
    fn walk(&self, _walk: &mut Walk<'_, '_>) {}

    /// Duplicate entries. `group` and `seen` are of the struct it is in.
    fn duplicates<'s>(&'s self, _group: &'static str, _seen: &mut Seen<'s>, _walk: &mut Walk<'_, '_>) {}

    /// Keys of `value` that mean nothing.
    fn unused(_value: Value<'_, '_>, _walk: &mut Walk<'_, '_>) {}
}

/// What the specification says of the fields of one part (see [`crate::check`]).
pub(crate) trait Check {
    fn check(&self, _walk: &mut Walk<'_, '_>) {}
}

/// An entry of a list that is identified by a key.
pub(crate) trait Keyed: Sized {
    /// The fields that the key is made of; none if it is the entry itself.
    const KEYS: &'static [&'static str];

    fn key(&self) -> Cow<'_, str>;

    /// This with what `child`, of the same key, says; None if that removes it.
    fn merge_entry(self, child: Self) -> Option<Self>;
}

impl<'a> Part<'a> for Text<'a> {
    const SHAPE: &'static Shape = &Shape::Text;

    fn decode(&mut self, value: Value<'_, 'a>, decoder: &mut Decoder<'a>) {
        match value.text() {
            Some(text) => *self = text,
            None if value.kind() == Kind::Null => {}
            None => decoder.mismatch(value, Wanted::Scalar("string")),
        }
    }

    fn merge(self, child: Self) -> Self {
        child
    }

    /// It is required, so it is written in any case.
    fn is_unset(&self) -> bool {
        false
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_text(self, out);
    }
}

impl Keyed for Text<'_> {
    const KEYS: &'static [&'static str] = &[];

    fn key(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }

    fn merge_entry(self, child: Self) -> Option<Self> {
        Some(child)
    }
}

impl<'a> Part<'a> for i64 {
    const SHAPE: &'static Shape = &Shape::Number;

    fn decode(&mut self, value: Value<'_, 'a>, decoder: &mut Decoder<'a>) {
        let number = (value.kind() == Kind::Number).then(|| std::str::from_utf8(value.source()).ok()?.parse().ok());
        match number.flatten() {
            Some(number) => *self = number,
            None if value.kind() == Kind::Null => {}
            None => decoder.mismatch(value, Wanted::Scalar("int")),
        }
    }

    fn merge(self, child: Self) -> Self {
        child
    }

    fn is_unset(&self) -> bool {
        *self == 0
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_string().bytes());
    }
}

impl<'a> Part<'a> for bool {
    const SHAPE: &'static Shape = &Shape::Flag;

    fn decode(&mut self, value: Value<'_, 'a>, decoder: &mut Decoder<'a>) {
        match value.kind() {
            Kind::True => *self = true,
            Kind::False => *self = false,
            Kind::Null => {}
            _ => decoder.mismatch(value, Wanted::Scalar("bool")),
        }
    }

    fn merge(self, child: Self) -> Self {
        child
    }

    fn is_unset(&self) -> bool {
        !self
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_string().bytes());
    }
}

/// Null, or a scalar.
impl<'a, T: Part<'a>> Part<'a> for Option<T> {
    const SHAPE: &'static Shape = T::SHAPE;

    fn decode(&mut self, value: Value<'_, 'a>, decoder: &mut Decoder<'a>) {
        if value.kind() == Kind::Null {
            *self = None;
        } else {
            self.get_or_insert_default().decode(value, decoder);
        }
    }

    fn merge(self, child: Self) -> Self {
        child.or(self)
    }

    fn is_unset(&self) -> bool {
        self.is_none()
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(out),
            None => out.extend(b"null"),
        }
    }
}

fn decode_list<'a, T: Part<'a>>(list: &mut Vec<T>, value: Value<'_, 'a>, decoder: &mut Decoder<'a>) {
    match value.kind() {
        Kind::Null => list.clear(),
        Kind::Array => {
            list.clear();
            list.extend(value.items().enumerate().map(|(index, item)| {
                let mut part = T::default();
                decoder.within(Place::Item(index), |decoder| part.decode(item, decoder));
                part
            }));
        }
        _ => decoder.mismatch(value, Wanted::List),
    }
}

fn write_list<'a, T: Part<'a>>(list: &[T], out: &mut Vec<u8>) {
    out.push(b'[');
    for (place, part) in list.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        part.write(out);
    }
    out.push(b']');
}

/// Entries identified by their keys.
impl<'a, T: Part<'a> + Keyed> Part<'a> for Vec<T> {
    const SHAPE: &'static Shape = &Shape::List(T::SHAPE, T::KEYS);

    fn decode(&mut self, value: Value<'_, 'a>, decoder: &mut Decoder<'a>) {
        decode_list(self, value, decoder);
    }

    fn merge(self, child: Self) -> Self {
        let (partners, known) = {
            let mut places: HashMap<Cow<'_, str>, usize> = HashMap::new();
            for (place, entry) in child.iter().enumerate() {
                places.entry(entry.key()).or_insert(place);
            }
            let keys: HashSet<Cow<'_, str>> = self.iter().map(Keyed::key).collect();
            let partners: Vec<_> = self.iter().map(|entry| places.get(&entry.key()).copied()).collect();
            let known: Vec<_> = child.iter().map(|entry| keys.contains(&entry.key())).collect();
            (partners, known)
        };
        let mut merged = Vec::with_capacity(self.len().saturating_add(child.len()));
        for (entry, partner) in self.into_iter().zip(partners) {
            match partner.and_then(|place| child.get(place)) {
                Some(child) => merged.extend(entry.merge_entry(child.clone())),
                None => merged.push(entry),
            }
        }
        merged.extend(child.into_iter().zip(known).filter(|(_, known)| !known).map(|(entry, _)| entry));
        merged
    }

    fn is_unset(&self) -> bool {
        Vec::is_empty(self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_list(self, out);
    }

    fn walk(&self, walk: &mut Walk<'_, '_>) {
        for (place, entry) in self.iter().enumerate() {
            walk.within(place, |walk| entry.walk(walk));
        }
    }

    fn duplicates<'s>(&'s self, group: &'static str, seen: &mut Seen<'s>, walk: &mut Walk<'_, '_>) {
        for (place, entry) in self.iter().enumerate() {
            walk.within(place, |walk| {
                if !seen.insert((group, entry.key())) {
                    walk.error(&[], DUPLICATE);
                }
                entry.duplicates("", &mut Seen::new(), walk);
            });
        }
    }

    fn unused(value: Value<'_, '_>, walk: &mut Walk<'_, '_>) {
        for (place, item) in value.items().enumerate() {
            walk.within(place, |walk| T::unused(item, walk));
        }
    }
}

/// Entries that may be repeated; a child's follow the parent's.
#[derive(Clone, Default, PartialEq)]
pub struct Sequence<T>(pub Vec<T>);

impl<T> Deref for Sequence<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<'a, T: Part<'a>> Part<'a> for Sequence<T> {
    const SHAPE: &'static Shape = &Shape::List(T::SHAPE, &[]);

    fn decode(&mut self, value: Value<'_, 'a>, decoder: &mut Decoder<'a>) {
        decode_list(&mut self.0, value, decoder);
    }

    fn merge(mut self, child: Self) -> Self {
        self.0.extend(child.0);
        self
    }

    fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_list(&self.0, out);
    }

    fn walk(&self, walk: &mut Walk<'_, '_>) {
        for (place, entry) in self.iter().enumerate() {
            walk.within(place, |walk| entry.walk(walk));
        }
    }

    fn duplicates<'s>(&'s self, _group: &'static str, _seen: &mut Seen<'s>, walk: &mut Walk<'_, '_>) {
        for (place, entry) in self.iter().enumerate() {
            walk.within(place, |walk| entry.duplicates("", &mut Seen::new(), walk));
        }
    }

    fn unused(value: Value<'_, '_>, walk: &mut Walk<'_, '_>) {
        for (place, item) in value.items().enumerate() {
            walk.within(place, |walk| T::unused(item, walk));
        }
    }
}

/// Defines the structs of a config. A field has a type, its key, the version it came with (3.0 if none is named), and the group of
/// keys in which its entries must be unique (its own if none is named). A struct may name a method that is called with the child
/// before it is merged. The order of fields is that of reports.
macro_rules! parts {
    ($(
        $(#[$doc:meta])*
        struct $name:ident $(<$life:lifetime>)? $(before_merge $before:ident)? {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty = $key:literal $(since $since:ident)? $(in $group:literal)?,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[allow(unreachable_pub, reason = "some are of the published model, others lie within it")]
        #[derive(Clone, Default, PartialEq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl<'a> Part<'a> for $name $(<$life>)? {
            const SHAPE: &'static crate::model::shape::Shape = &crate::model::shape::Shape::Object {
                name: stringify!($name),
                fields: &[$(crate::model::shape::Field {
                    key: $key,
                    since: crate::model::shape::first(&[$(Version::$since)?]),
                    shape: <$ty as Part<'a>>::SHAPE,
                },)*],
            };

            fn decode(&mut self, value: Value<'_, 'a>, decoder: &mut Decoder<'a>) {
                if !matches!(value.kind(), Kind::Object | Kind::Null) {
                    decoder.mismatch(value, crate::model::go_types::Wanted::Object);
                }
                for (key, value) in value.members() {
                    let key = key.text().unwrap_or_default();
                    $(if crate::model::part::is_key(&key, $key) $(&& decoder.version >= Version::$since)? {
                        let place = crate::model::go_types::Place::Field($key, key.clone());
                        decoder.within(place, |decoder| self.$field.decode(value, decoder));
                    })*
                }
            }

            #[allow(unused_mut)]
            fn merge(mut self, child: Self) -> Self {
                if Part::is_unset(&child) {
                    return self;
                }
                if Part::is_unset(&self) {
                    return child;
                }
                $(self.$before(&child);)?
                Self { $($field: self.$field.merge(child.$field),)* }
            }

            fn is_unset(&self) -> bool {
                *self == Self::default()
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.push(b'{');
                $(if !Part::is_unset(&self.$field) {
                    if out.last() != Some(&b'{') {
                        out.push(b',');
                    }
                    out.extend(concat!("\"", $key, "\":").bytes());
                    self.$field.write(out);
                })*
                out.push(b'}');
            }

            fn walk(&self, walk: &mut Walk<'_, '_>) {
                crate::model::part::Check::check(self, walk);
                $(walk.within($key, |walk| self.$field.walk(walk));)*
            }

            fn duplicates<'s>(&'s self, _group: &'static str, _seen: &mut Seen<'s>, walk: &mut Walk<'_, '_>) {
                let mut seen = Seen::new();
                $(walk.within($key, |walk| {
                    let group = [$key $(, $group)?].last().copied().unwrap_or_default();
                    self.$field.duplicates(group, &mut seen, walk);
                });)*
            }

            fn unused(value: Value<'_, '_>, walk: &mut Walk<'_, '_>) {
                if value.kind() == Kind::Null {
                    walk.null_object(value.start());
                }
                for (key, value) in value.members() {
                    match &*key.text().unwrap_or_default() {
                        $($key $(if walk.version >= Version::$since)? => {
                            walk.within($key, |walk| <$ty as Part<'_>>::unused(value, walk));
                        })*
                        name => walk.unused_key(name, key.start()),
                    }
                }
            }
        }
    )*};
}
pub(crate) use parts;
