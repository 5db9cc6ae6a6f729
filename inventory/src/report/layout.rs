//! JSON on one line or indented, as one type: each type costs 40 KiB of code that writes a report.

use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use std::io::{self, Write};

/// Indented if it says how.
pub(super) struct Layout(pub(super) Option<PrettyFormatter<'static>>);

/// Each method as the one or the other has it.
macro_rules! either {
    ($($method:ident($($argument:ident: $kind:ty)?);)*) => {
        $(fn $method<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $kind)?) -> io::Result<()> {
            match &mut self.0 {
                Some(indented) => indented.$method(writer $(, $argument)?),
                None => CompactFormatter.$method(writer $(, $argument)?),
            }
        })*
    };
}

impl Formatter for Layout {
    either! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde_json::{Serializer, json};

    #[test]
    fn both_are_as_serde_json_writes_them() {
        let value = json!({"a": [1, {"b": []}, {}], "c": null, "d": {"e": "f", "g": 1.5}});
        let written = |layout| {
            let mut text = Vec::new();
            value.serialize(&mut Serializer::with_formatter(&mut text, layout)).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(written(Layout(None)), value.to_string());
        assert_eq!(written(Layout(Some(PrettyFormatter::new()))), serde_json::to_string_pretty(&value).unwrap());
    }
}
