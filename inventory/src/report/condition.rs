//! What an expectation file says of one plain value: `true`, `64`, `">= 64 GiB, < 1 TiB"`, `"Intel*"`, `"!= Vulnerable*"`.

use serde_json::Value;
use std::{cmp::Ordering, fmt};

/// Units of bytes: name, base, exponent.
const UNITS: [(&str, u16, u8); 9] = [
    ("KiB", 1024, 1),
    ("MiB", 1024, 2),
    ("GiB", 1024, 3),
    ("TiB", 1024, 4),
    ("kB", 1000, 1),
    ("KB", 1000, 1),
    ("MB", 1000, 2),
    ("GB", 1000, 3),
    ("TB", 1000, 4),
];
/// Longer ones before those they begin with.
const OPERATORS: [(&str, Relation); 6] = [
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    ("!=", Relation::Other),
    (">", Relation::More),
    ("<", Relation::Less),
    ("=", Relation::Same),
];

/// A condition on a plain value, and how it was written.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    test: Test,
    written: String,
}

#[derive(Clone, Debug)]
enum Test {
    Truth(bool),
    /// All of them hold.
    Number(Vec<(Relation, Number)>),
    Text {
        not: bool,
        pattern: Vec<Piece>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Same,
    Other,
    More,
    AtLeast,
    Less,
    AtMost,
}

/// A number that stays exact while it is an integer.
#[derive(Clone, Copy, Debug)]
struct Number {
    whole: Option<i128>,
    real: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece {
    Char(char),
    /// `*`: any text, also none.
    Any,
}

/// A condition that can't be understood.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(super) enum ConditionError {
    #[error("`{0}` is not a number; write one, or conditions such as \">= 64\" or \"> 1, <= 4\"")]
    NoNumber(String),
    #[error("`{0}` is not a unit of bytes; use KiB, MiB, GiB, TiB, kB, MB, GB and TB")]
    NoUnit(String),
    #[error(
        "`{0}` has a unit, but only fields named *_bytes are in bytes; give the plain number in the field's own unit"
    )]
    UnitOfNoBytes(String),
    #[error("`{0}` compares a text, which can only be equal or not (\"!= ...\")")]
    TextOrder(String),
}

impl Condition {
    /// That a boolean has this value.
    pub(super) fn truth(truth: bool) -> Self {
        Self { test: Test::Truth(truth), written: truth.to_string() }
    }

    /// Conditions on a number, with commas between them. Units are understood where the field counts `bytes`.
    pub(super) fn number(written: &str, bytes: bool) -> Result<Self, ConditionError> {
        let bound = |part: &str| {
            let (relation, rest) = operator(part.trim());
            Ok((relation.unwrap_or(Relation::Same), Number::parse(rest.trim(), bytes)?))
        };
        let bounds = written.split(',').map(bound).collect::<Result<_, _>>()?;
        Ok(Self { test: Test::Number(bounds), written: written.trim().to_owned() })
    }

    /// A condition on a text: the text, with `*` for any part of it and `\` before a character that is only itself; a
    /// leading `!=` negates it.
    pub(super) fn text(written: &str) -> Result<Self, ConditionError> {
        let (relation, rest) = operator(written);
        let (not, rest) = match relation {
            None => (false, written),
            Some(Relation::Other) => (true, rest.trim_start()),
            Some(_) => return Err(ConditionError::TextOrder(written.to_owned())),
        };
        Ok(Self { test: Test::Text { not, pattern: pieces(rest) }, written: format!("{written:?}") })
    }

    /// Whether a value of the report is as expected. One of another type is not.
    pub(super) fn holds(&self, found: &Value) -> bool {
        match (&self.test, found) {
            (Test::Truth(expected), Value::Bool(found)) => expected == found,
            (Test::Number(bounds), Value::Number(found)) => {
                let found = Number::from_json(found);
                bounds.iter().all(|(relation, bound)| relation.holds(found.compare(*bound)))
            }
            (Test::Text { not, pattern }, Value::String(found)) => matches(pattern, found) != *not,
            _ => false,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// A condition that only this text meets.
pub(super) fn literal_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if matches!(c, '*' | '\\') || (at == 0 && operator(text).0.is_some()) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A number as people write it, if it counts bytes and nothing is lost.
pub(super) fn literal_bytes(path: &str, number: &Value) -> Option<String> {
    let bytes = number.as_u64().filter(|_| path.ends_with("_bytes"))?;
    UNITS[..3].iter().rev().find_map(|(name, base, exponent)| {
        let unit = u64::from(*base).pow(u32::from(*exponent));
        (bytes >= unit && bytes.is_multiple_of(unit)).then(|| format!("{} {name}", bytes / unit))
    })
}

impl Relation {
    fn holds(self, order: Option<Ordering>) -> bool {
        order.is_some_and(|order| match self {
            Self::Same => order.is_eq(),
            Self::Other => order.is_ne(),
            Self::More => order.is_gt(),
            Self::AtLeast => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
        })
    }
}

impl Number {
    fn parse(text: &str, bytes: bool) -> Result<Self, ConditionError> {
        let end = text.find(|c: char| c.is_ascii_whitespace() || c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (digits, unit) = (text[..end].replace('_', ""), text[end..].trim());
        let number = Self { whole: digits.parse().ok(), real: digits.parse().unwrap_or(f64::NAN) };
        if !number.real.is_finite() {
            return Err(ConditionError::NoNumber(text.to_owned()));
        }
        if unit.is_empty() {
            return Ok(number);
        }
        if !bytes {
            return Err(ConditionError::UnitOfNoBytes(text.to_owned()));
        }
        let Some((_, base, exponent)) = UNITS.iter().find(|(name, ..)| *name == unit) else {
            return Err(ConditionError::NoUnit(unit.to_owned()));
        };
        let factor = i128::from(*base).pow(u32::from(*exponent));
        Ok(Self {
            whole: number.whole.and_then(|whole| whole.checked_mul(factor)),
            real: number.real * f64::from(*base).powi(i32::from(*exponent)),
        })
    }

    fn from_json(number: &serde_json::Number) -> Self {
        let whole = number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from));
        Self { whole, real: number.as_f64().unwrap_or(f64::NAN) }
    }

    fn compare(self, other: Self) -> Option<Ordering> {
        match (self.whole, other.whole) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => self.real.partial_cmp(&other.real),
        }
    }
}

fn operator(text: &str) -> (Option<Relation>, &str) {
    OPERATORS
        .iter()
        .find_map(|(sign, relation)| text.strip_prefix(sign).map(|rest| (Some(*relation), rest)))
        .unwrap_or((None, text))
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let mut chars = pattern.chars();
    let mut pieces = Vec::new();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            '*' => Piece::Any,
            '\\' => Piece::Char(chars.next().unwrap_or('\\')),
            c => Piece::Char(c),
        });
    }
    pieces
}

/// Goes back only to the last `*`, so that the time is bounded by the product of the lengths.
fn matches(pattern: &[Piece], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut read) = (0, 0);
    let mut last_any: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(Piece::Any) => {
                last_any = Some((at, read));
                at += 1;
            }
            Some(Piece::Char(c)) if *c == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((any, begin)) = last_any else { return false };
                last_any = Some((any, begin + 1));
                at = any + 1;
                read = begin + 1;
            }
        }
    }
    pattern[at..].iter().all(|piece| *piece == Piece::Any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn texts_may_have_gaps() {
        let holds = |written: &str, found: &str| Condition::text(written).unwrap().holds(&json!(found));
        assert!(
            holds("Intel*", "Intel(R) Xeon") && holds("*Xeon", "Intel(R) Xeon") && holds("I*(R)*n", "Intel(R) Xeon")
        );
        assert!(holds("[AMD/ATI]", "[AMD/ATI]") && !holds("intel*", "Intel") && !holds("", "x") && holds("", ""));
        assert!(holds("!= Vulnerable*", "Mitigation: PTI") && !holds("!= Vulnerable*", "Vulnerable: no microcode"));
        assert!(holds(r"\*", "*") && !holds(r"\*", "x") && holds("*a*b", "aab") && !holds("*a*b", "aabc"));
        assert!(!Condition::text("7").unwrap().holds(&json!(7)));
        assert!(matches!(Condition::text(">= F12"), Err(ConditionError::TextOrder(_))));
    }

    #[test]
    fn numbers_may_have_bounds_and_units() {
        let holds = |written: &str, found: u64| Condition::number(written, true).unwrap().holds(&json!(found));
        assert!(holds("64", 64) && !holds("64", 65) && holds("= 64", 64) && holds("!= 64", 65) && holds("1_000", 1000));
        assert!(holds(">= 64 GiB", 64 << 30) && !holds("> 64 GiB", 64 << 30) && holds("64GiB", 64 << 30));
        assert!(holds(">= 60 GiB, < 64 GiB", 61 << 30) && !holds(">= 60 GiB, < 64 GiB", 64 << 30));
        assert!(
            holds("1.5 TiB", 3 << 39) && holds("960 GB", 960_000_000_000) && holds("18446744073709551615", u64::MAX)
        );
        assert!(!holds("18446744073709551615", u64::MAX - 1));
        assert!(Condition::number(">= 2.5", false).unwrap().holds(&json!(2.5)));
        assert!(!Condition::number("1", false).unwrap().holds(&json!("1")));
    }

    #[test]
    fn what_is_no_condition_says_why() {
        let error = |written: &str, bytes| Condition::number(written, bytes).unwrap_err();
        assert_eq!(error("64 GIB", true), ConditionError::NoUnit("GIB".to_owned()));
        assert_eq!(error("64 GiB", false), ConditionError::UnitOfNoBytes("64 GiB".to_owned()));
        assert_eq!(error("many", true), ConditionError::NoNumber("many".to_owned()));
        assert_eq!(error(">= 1,", true), ConditionError::NoNumber(String::new()));
        assert_eq!(error("nan", true), ConditionError::NoNumber("nan".to_owned()));
    }

    proptest! {
        #[test]
        fn a_literal_is_met_by_its_text_alone(text in r"[!=<>*\\a-c ]{0,8}", other in r"[!=<>*\\a-c ]{0,8}") {
            let condition = Condition::text(&literal_text(&text)).unwrap();
            prop_assert!(condition.holds(&json!(text)));
            prop_assert_eq!(condition.holds(&json!(other)), text == other);
        }

        #[test]
        fn bytes_as_written_are_those_bytes(count in 0..u64::MAX >> 30, shift in 0..31u32) {
            let bytes = count << shift;
            let written = literal_bytes("a_bytes", &json!(bytes)).unwrap_or_else(|| bytes.to_string());
            prop_assert!(Condition::number(&written, true).unwrap().holds(&json!(bytes)));
            prop_assert!(!Condition::number(&written, true).unwrap().holds(&json!(bytes ^ 1)));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (Condition::text(&text), Condition::number(&text, true));
        }
    }
}
