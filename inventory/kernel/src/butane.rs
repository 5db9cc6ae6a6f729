//! Telling Butane from Ignition: people take one for the other.

use std::borrow::Cow;

type Unit = fn([u8; 2]) -> u16;

/// As far as the two differ.
const MAX_LOOK_BYTES: usize = 64 << 10;

/// What to do with a config that is Butane.
pub const ADVICE: &str = "it is Butane: `landfall ignition translate --strict FILE` makes an Ignition config of it";

/// Byte order marks, and how the bytes of a unit are put together behind one of UTF-16.
const UTF_8: &[u8] = b"\xEF\xBB\xBF";
const UTF_16: [(&[u8], Unit); 2] = [(b"\xFF\xFE", u16::from_le_bytes), (b"\xFE\xFF", u16::from_be_bytes)];

/// Whether a config is Butane: YAML with a variant at the top.
pub fn is_butane(config: &[u8]) -> bool {
    let start = plain(&config[..config.len().min(MAX_LOOK_BYTES)]);
    start.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"variant:"))
}

/// Whether a text begins with a byte order mark: YAML may, JSON may not.
pub fn has_mark(config: &[u8]) -> bool {
    config.starts_with(UTF_8) || UTF_16.iter().any(|(mark, _)| config.starts_with(mark))
}

/// The text behind a byte order mark, as UTF-8; what no character stands for is replaced. A text without a mark is left as it is.
pub fn plain(config: &[u8]) -> Cow<'_, [u8]> {
    if let Some(rest) = config.strip_prefix(UTF_8) {
        return Cow::Borrowed(rest);
    }
    let wide = UTF_16.into_iter().find_map(|(mark, unit)| Some((config.strip_prefix(mark)?, unit)));
    let Some((rest, unit)) = wide else { return Cow::Borrowed(config) };
    let units = rest.chunks_exact(2).filter_map(|pair| Some(unit(pair.try_into().ok()?)));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Cow::Owned(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_variant_at_the_top_makes_it_butane() {
        assert!(is_butane(b"# node\nvariant: fcos\nversion: 1.5.0\n"));
        for other in
            [&b"{\"ignition\": {\"version\": \"3.4.0\"}}"[..], b"a:\n  variant: x\n", b"", b"{\n\"variant\": 1}"]
        {
            assert!(!is_butane(other), "{other:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let text = "variant: fcos\nversion: 1.6.0\n# Größe \u{1F427}\n";
        let wide = |mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
            [mark.to_vec(), text.encode_utf16().flat_map(bytes).collect()].concat()
        };
        let marked = [
            [UTF_8, text.as_bytes()].concat(),
            wide(b"\xFF\xFE", u16::to_le_bytes),
            wide(b"\xFE\xFF", u16::to_be_bytes),
        ];
        for config in marked {
            assert!(has_mark(&config) && is_butane(&config));
            assert_eq!(plain(&config), text.as_bytes());
        }
        assert!(!has_mark(text.as_bytes()));
        assert_eq!(plain(text.as_bytes()), text.as_bytes());
        assert_eq!(plain(b"\xFF\xFEa\0\x00\xD8b"), "a\u{FFFD}".as_bytes(), "half a pair, and half a unit");
    }
}
