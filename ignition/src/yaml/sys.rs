//! libyaml's events, one at a time: the parsers above it read a whole document before they look at any of it.
#![allow(unsafe_code)] // C interface

use crate::json::Position;
use std::{ffi::CStr, marker::PhantomData, mem::MaybeUninit, rc::Rc, slice};
use unsafe_libyaml_norway::{
    YAML_ALIAS_EVENT, YAML_DOCUMENT_START_EVENT, YAML_MAPPING_END_EVENT, YAML_MAPPING_START_EVENT,
    YAML_PLAIN_SCALAR_STYLE, YAML_SCALAR_EVENT, YAML_SEQUENCE_END_EVENT, YAML_SEQUENCE_START_EVENT,
    YAML_STREAM_END_EVENT, yaml_event_delete, yaml_event_t, yaml_parser_delete, yaml_parser_initialize,
    yaml_parser_parse, yaml_parser_set_input_string, yaml_parser_t,
};

/// An event, where it begins, and its anchor.
#[derive(Debug)]
pub(super) struct Event {
    pub at: Position,
    pub anchor: Option<Box<[u8]>>,
    pub kind: EventKind,
}

#[derive(Debug)]
pub(super) enum EventKind {
    DocumentStart,
    SequenceStart,
    MappingStart,
    CollectionEnd,
    Scalar { bytes: usize, scalar: Option<Scalar> },
    Alias,
    StreamEnd,
    Other,
}

#[derive(Debug)]
pub(super) struct Scalar {
    pub text: Rc<str>,
    /// Without quotes.
    pub is_plain: bool,
    pub tag: Option<Box<[u8]>>,
}

/// The events of a text. They end at its end, or where it is not YAML.
pub(super) struct Events<'a> {
    /// It holds pointers into itself: it must not be moved.
    parser: Box<MaybeUninit<yaml_parser_t>>,
    is_over: bool,
    with_text: bool,
    text: PhantomData<&'a [u8]>,
}

impl<'a> Events<'a> {
    /// Without what is in scalars.
    pub(super) fn parse(text: &'a [u8]) -> Self {
        let mut parser = Box::new(MaybeUninit::<yaml_parser_t>::uninit());
        let len = u64::try_from(text.len()).unwrap_or(0);
        let is_over;
        // SAFETY: the parser is in its own box, and `text` outlives it by the lifetime of `Self`.
        unsafe {
            is_over = !yaml_parser_initialize(parser.as_mut_ptr()).ok;
            yaml_parser_set_input_string(parser.as_mut_ptr(), text.as_ptr(), len);
        }
        Self { parser, is_over, with_text: false, text: PhantomData }
    }

    pub(super) fn with_text(text: &'a [u8]) -> Self {
        let mut events = Self::parse(text);
        events.with_text = true;
        events
    }
}

fn number(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.is_over {
            return None;
        }
        let mut event = MaybeUninit::<yaml_event_t>::uninit();
        // SAFETY: the parser was initialised by `parse`. The event is read only where parsing succeeded, by the member that its
        // type names, and then deleted once; anchors and tags are null or end with a zero byte, a scalar has its length.
        unsafe {
            if !yaml_parser_parse(self.parser.as_mut_ptr(), event.as_mut_ptr()).ok {
                self.is_over = true;
                return None;
            }
            let parsed = &*event.as_ptr();
            let word = |text: *mut u8| (!text.is_null()).then(|| CStr::from_ptr(text.cast()).to_bytes().into());
            let (anchor, kind) = match parsed.type_ {
                YAML_DOCUMENT_START_EVENT => (None, EventKind::DocumentStart),
                YAML_SEQUENCE_START_EVENT => (word(parsed.data.sequence_start.anchor), EventKind::SequenceStart),
                YAML_MAPPING_START_EVENT => (word(parsed.data.mapping_start.anchor), EventKind::MappingStart),
                YAML_SEQUENCE_END_EVENT | YAML_MAPPING_END_EVENT => (None, EventKind::CollectionEnd),
                YAML_SCALAR_EVENT => {
                    let found = &parsed.data.scalar;
                    let bytes = number(found.length);
                    let scalar = self.with_text.then(|| Scalar {
                        text: String::from_utf8_lossy(slice::from_raw_parts(found.value, bytes)).into(),
                        is_plain: found.style == YAML_PLAIN_SCALAR_STYLE,
                        tag: word(found.tag),
                    });
                    (word(found.anchor), EventKind::Scalar { bytes, scalar })
                }
                YAML_ALIAS_EVENT => (word(parsed.data.alias.anchor), EventKind::Alias),
                YAML_STREAM_END_EVENT => (None, EventKind::StreamEnd),
                _ => (None, EventKind::Other),
            };
            let mark = parsed.start_mark;
            let at =
                Position { line: number(mark.line).saturating_add(1), column: number(mark.column).saturating_add(1) };
            self.is_over = parsed.type_ == YAML_STREAM_END_EVENT;
            yaml_event_delete(event.as_mut_ptr());
            Some(Event { at, anchor, kind })
        }
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        // SAFETY: it was initialised by `parse`, and is deleted here only.
        unsafe { yaml_parser_delete(self.parser.as_mut_ptr()) }
    }
}
