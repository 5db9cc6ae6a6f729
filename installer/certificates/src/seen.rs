//! Text from a request, as a log may show it.

use std::fmt;

const MAX_CHARS: usize = 160;

/// Escaped and cut: it came from a client that holds at most a bootstrap token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen(String);

impl Seen {
    pub(super) fn text(text: &str) -> Self {
        Self::list(&[text])
    }

    /// `'a', 'b'`; `none` of an empty list.
    pub(super) fn list(texts: &[impl AsRef<str>]) -> Self {
        if texts.is_empty() {
            return Self("none".to_owned());
        }
        let mut left = MAX_CHARS;
        let mut shown = String::new();
        for text in texts {
            shown.push_str(if shown.is_empty() { "'" } else { ", '" });
            for c in text.as_ref().chars().map(Some).chain([None]) {
                let Some(rest) = left.checked_sub(1) else {
                    shown.push('…');
                    return Self(shown);
                };
                left = rest;
                match c {
                    Some(c) => shown.extend(c.escape_debug()),
                    None => shown.push('\''),
                }
            }
        }
        Self(shown)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_one_short_line() {
        for (text, shown) in [
            ("node-1", "'node-1'"),
            ("", "''"),
            ("a\0b\x1b[2J\n", r"'a\0b\u{1b}[2J\n'"),
            ("a\u{202e}b\u{200f}", r"'a\u{202e}b\u{200f}'"),
            ("it's", r"'it\'s'"),
        ] {
            assert_eq!(Seen::text(text).to_string(), shown);
        }
        assert_eq!(Seen::list(&["a", "b"]).to_string(), "'a', 'b'");
        assert_eq!(Seen::list(&[""; 0]).to_string(), "none");
        let long = Seen::text(&"\0".repeat(1000)).to_string();
        assert_eq!(long, format!("'{}…", r"\0".repeat(MAX_CHARS)));
        assert!(Seen::list(&vec!["a"; 1000]).to_string().chars().count() < 3 * MAX_CHARS);
        assert!(Seen::list(&vec![""; 1000]).to_string().chars().count() < 5 * MAX_CHARS);
    }
}
