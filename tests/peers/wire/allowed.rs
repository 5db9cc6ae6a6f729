//! The differences from the recordings that may be, each with its reason. Everything else fails a scenario.

use super::compare::{Difference, Direction};

/// A row: in which kinds of exchanges (`*` stands for anything), which leaf, and why.
struct Row(&'static str, &'static str, &'static str);

/// In both directions: what is another in each run.
const VOLATILE: &[Row] = &[
    Row("*", "* header date", "the time"),
    Row("*", "request header host", "the address that this test listens at"),
    Row("*", "request header x-request-id", "a new one for each poll"),
    Row("*", "* header content-length", "the body's length, and the body is compared"),
    Row("poll", "query timestamp", "the time"),
];

/// Our requests beside those of the real agent and installer.
const OURS: &[Row] = &[Row("*", "request header user-agent", "names the program")];

/// The responses of our service beside those of the real one.
const OUR_SERVICE: &[Row] = &[];

/// Why a difference may be; None where it may not.
pub fn reason(direction: Direction, kind: &str, difference: &Difference) -> Option<&'static str> {
    let own = match direction {
        Direction::OursAtTheRealService => OURS,
        Direction::TheRealOnesAtOurs => OUR_SERVICE,
    };
    let row = VOLATILE.iter().chain(own).find(|row| matches(row.0, kind) && matches(row.1, &difference.leaf))?;
    Some(row.2)
}

/// `*` in a pattern stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("a*", "a", true),
        ("*c", "abc", true),
        ("a*c", "abd", false),
        ("*b*", "abc", true),
        ("a", "ab", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
