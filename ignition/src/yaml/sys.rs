//! libyaml's events, one at a time: the parsers above it read a whole document before they look at any of it.
#![allow(unsafe_code)] // C interface

use std::{ffi::CStr, marker::PhantomData, mem::MaybeUninit};
use unsafe_libyaml_norway::{
    YAML_ALIAS_EVENT, YAML_DOCUMENT_START_EVENT, YAML_MAPPING_END_EVENT, YAML_MAPPING_START_EVENT, YAML_SCALAR_EVENT,
    YAML_SEQUENCE_END_EVENT, YAML_SEQUENCE_START_EVENT, YAML_STREAM_END_EVENT, yaml_event_delete, yaml_event_t,
    yaml_parser_delete, yaml_parser_initialize, yaml_parser_parse, yaml_parser_set_input_string, yaml_parser_t,
};

/// An event, with its anchor where it has one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    DocumentStart,
    CollectionStart(Option<Box<[u8]>>),
    CollectionEnd,
    Scalar { anchor: Option<Box<[u8]>>, bytes: usize },
    Alias(Option<Box<[u8]>>),
    Other,
}

/// The events of a text. They end at its end, or where it is not YAML.
pub(super) struct Events<'a> {
    /// It holds pointers into itself: it must not be moved.
    parser: Box<MaybeUninit<yaml_parser_t>>,
    is_over: bool,
    text: PhantomData<&'a [u8]>,
}

impl<'a> Events<'a> {
    pub(super) fn parse(text: &'a [u8]) -> Self {
        let mut parser = Box::new(MaybeUninit::<yaml_parser_t>::uninit());
        let len = u64::try_from(text.len()).unwrap_or(0);
        let is_over;
        // SAFETY: the parser is in its own box, and `text` outlives it by the lifetime of `Self`.
        unsafe {
            is_over = !yaml_parser_initialize(parser.as_mut_ptr()).ok;
            yaml_parser_set_input_string(parser.as_mut_ptr(), text.as_ptr(), len);
        }
        Self { parser, is_over, text: PhantomData }
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.is_over {
            return None;
        }
        let mut event = MaybeUninit::<yaml_event_t>::uninit();
        // SAFETY: the parser was initialised by `of`. The event is read only where parsing succeeded, by the member that its
        // type names, and then deleted once; anchors are null or end with a zero byte.
        unsafe {
            if !yaml_parser_parse(self.parser.as_mut_ptr(), event.as_mut_ptr()).ok {
                self.is_over = true;
                return None;
            }
            let parsed = &*event.as_ptr();
            let anchor = |text: *mut u8| (!text.is_null()).then(|| CStr::from_ptr(text.cast()).to_bytes().into());
            let found = match parsed.type_ {
                YAML_DOCUMENT_START_EVENT => Event::DocumentStart,
                YAML_SEQUENCE_START_EVENT => Event::CollectionStart(anchor(parsed.data.sequence_start.anchor)),
                YAML_MAPPING_START_EVENT => Event::CollectionStart(anchor(parsed.data.mapping_start.anchor)),
                YAML_SEQUENCE_END_EVENT | YAML_MAPPING_END_EVENT => Event::CollectionEnd,
                YAML_SCALAR_EVENT => Event::Scalar {
                    anchor: anchor(parsed.data.scalar.anchor),
                    bytes: usize::try_from(parsed.data.scalar.length).unwrap_or(usize::MAX),
                },
                YAML_ALIAS_EVENT => Event::Alias(anchor(parsed.data.alias.anchor)),
                _ => Event::Other,
            };
            self.is_over = parsed.type_ == YAML_STREAM_END_EVENT;
            yaml_event_delete(event.as_mut_ptr());
            Some(found)
        }
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        // SAFETY: it was initialised by `of`, and is deleted here only.
        unsafe { yaml_parser_delete(self.parser.as_mut_ptr()) }
    }
}
