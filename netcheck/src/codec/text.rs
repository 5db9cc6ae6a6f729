//! Text that others wrote, made fit for a terminal, a log and JSON.

/// Text without the zeroes and blanks that some end it with. Line ends and tabs become blanks; what is not UTF-8, or
/// would control a terminal or reverse the writing direction, becomes U+FFFD.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(|c: char| c == '\0' || c.is_whitespace());
    let fit = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
            char::REPLACEMENT_CHARACTER
        }
        c => c,
    };
    text.chars().map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(printable(b"leaf-07 \r\n\0\0"), "leaf-07");
        assert_eq!(printable("NX-OS\r\n\tGrüße".as_bytes()), "NX-OS   Grüße");
        assert_eq!(printable(b"\x1b[31mred\x07\xff"), "\u{fffd}[31mred\u{fffd}\u{fffd}");
        assert_eq!(printable("a\u{202e}b\u{200b}".as_bytes()), "a\u{fffd}b\u{fffd}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(!printable(&bytes).contains(char::is_control));
        }
    }
}
