//! Command lines in the syntax of Go's `flag` package (docs/compatibility.md#agent-flags; its documentation, pkg.go.dev/flag).
//!
//! `-x`, `--x`, `-x=value` and, for all but booleans, `-x value`. Flags end at the first other word, or at `--`.

use kernel::order::{self, Gather};
use std::{collections::BTreeMap, fmt::Write, path::Path};

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A boolean: bare, or behind `=`.
    Bool,
    /// A whole number of 64 bits, as Go writes them in source: also 0x10, 0b1, 1_000.
    Int,
    /// Anything.
    Text,
    /// Anything, as often as it is given.
    List,
}

/// One flag of a program.
#[derive(Clone, Debug)]
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its value unless given.
    pub default: String,
    /// What it is for.
    pub usage: &'static str,
}

impl Flag {
    pub fn bool(name: &'static str, default: bool, usage: &'static str) -> Self {
        Self { name, kind: Kind::Bool, default: default.to_string(), usage }
    }

    pub fn int(name: &'static str, default: i64, usage: &'static str) -> Self {
        Self { name, kind: Kind::Int, default: default.to_string(), usage }
    }

    pub fn list(name: &'static str, usage: &'static str) -> Self {
        Self { name, kind: Kind::List, default: String::new(), usage }
    }

    pub fn text(name: &'static str, default: impl Into<String>, usage: &'static str) -> Self {
        Self { name, kind: Kind::Text, default: default.into(), usage }
    }
}

/// A command line that was not understood, in Go's words. The program says so, shows its usage and exits 2; asked for
/// help, it shows its usage and exits 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// `-h` or `--help`.
    #[error("flag: help requested")]
    Help,
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("flag provided but not defined: -{0}")]
    Undefined(String),
    #[error("flag needs an argument: -{0}")]
    NoArgument(String),
    #[error("invalid boolean value {value:?} for -{flag}: parse error")]
    Bool { value: String, flag: String },
    /// Not a number, or not of 64 bits.
    #[error("invalid value {value:?} for flag -{flag}: {reason}")]
    Int { value: String, flag: String, reason: &'static str },
}

/// What a command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    given: BTreeMap<&'static str, String>,
    defaults: BTreeMap<&'static str, String>,
    lists: BTreeMap<&'static str, Vec<String>>,
    /// The words behind the flags.
    pub rest: Vec<String>,
}

impl Values {
    /// The value of a flag; empty for one that the program doesn't have.
    pub fn text(&self, flag: &str) -> &str {
        self.given.get(flag).or_else(|| self.defaults.get(flag)).map(String::as_str).unwrap_or_default()
    }

    /// Whether a switch is on.
    pub fn is_on(&self, flag: &str) -> bool {
        parse_bool(self.text(flag)).unwrap_or(false)
    }

    /// The value of a number.
    pub fn int(&self, flag: &str) -> i64 {
        parse_int(self.text(flag)).unwrap_or(0)
    }

    /// All values of a list.
    pub fn list(&self, flag: &str) -> &[String] {
        self.lists.get(flag).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether it stands on the command line, with whatever value.
    pub fn is_given(&self, flag: &str) -> bool {
        self.given.contains_key(flag)
    }
}

/// Reads the words behind the program's name.
pub fn parse(flags: &[Flag], words: impl IntoIterator<Item = String>) -> Result<Values, FlagError> {
    let mut words = words.into_iter();
    let mut values =
        Values { defaults: flags.iter().map(|flag| (flag.name, flag.default.clone())).gather(), ..Values::default() };
    while let Some(word) = words.next() {
        let Some(text) = word.strip_prefix('-').filter(|text| !text.is_empty()) else {
            values.rest.push(word);
            break;
        };
        if text == "-" {
            break;
        }
        let text = text.strip_prefix('-').unwrap_or(text);
        if text.starts_with(['-', '=']) {
            return Err(FlagError::Syntax(word));
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned())));
        let Some(flag) = flags.iter().find(|flag| flag.name == name) else {
            return Err(if matches!(name, "h" | "help") { FlagError::Help } else { FlagError::Undefined(name.into()) });
        };
        let value = match (flag.kind, value) {
            (_, Some(value)) => value,
            (Kind::Bool, None) => "true".to_owned(),
            (_, None) => words.next().ok_or_else(|| FlagError::NoArgument(name.into()))?,
        };
        check(flag, &value)?;
        if flag.kind == Kind::List {
            values.lists.entry(flag.name).or_default().push(value.clone());
        }
        values.given.insert(flag.name, value);
    }
    values.rest.extend(words);
    Ok(values)
}

fn check(flag: &Flag, value: &str) -> Result<(), FlagError> {
    let (value, name) = (value.to_owned(), flag.name.to_owned());
    match flag.kind {
        Kind::Bool if parse_bool(&value).is_none() => Err(FlagError::Bool { value, flag: name }),
        Kind::Int => match parse_int(&value) {
            Ok(_) => Ok(()),
            Err(reason) => Err(FlagError::Int { value, flag: name, reason }),
        },
        _ => Ok(()),
    }
}

/// As `strconv.ParseBool`.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// As `strconv.ParseInt` with base 0 and 64 bits.
fn parse_int(text: &str) -> Result<i64, &'static str> {
    const NONE: &str = "parse error";
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)),
        Some("0b") => (2, lower.get(2..)),
        Some("0o") => (8, lower.get(2..)),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, lower.get(1..)),
        _ => (10, Some(lower.as_str())),
    };
    let digits = digits.unwrap_or_default();
    // Underscores stand between digits, or a prefix and a digit; they are not part of the number.
    let prefixed = radix != 10;
    let plain = digits.replace('_', "");
    let misplaced = digits.ends_with('_') || digits.contains("__") || (!prefixed && digits.starts_with('_'));
    if plain.is_empty() || misplaced || !plain.chars().all(|c| c.is_digit(radix)) {
        return Err(NONE);
    }
    let number = i128::from_str_radix(&plain, radix).map_err(|_| "value out of range")?;
    i64::try_from(if negative { -number } else { number }).map_err(|_| "value out of range")
}

/// The text of `--help`, in the order and form that Go prints.
pub fn usage(program: &Path, flags: &[Flag]) -> String {
    let mut text = format!("Usage of {}:\n", program.display());
    let mut sorted: Vec<_> = flags.iter().collect();
    order::sort_by_key(&mut sorted, |flag| flag.name);
    for flag in sorted {
        let kind = match flag.kind {
            Kind::Bool => "",
            Kind::Int => " int",
            Kind::Text => " string",
            Kind::List => " value",
        };
        let default = match (flag.kind, flag.default.as_str()) {
            (_, "" | "0" | "false") => String::new(),
            (Kind::Text, default) => format!(" (default {default:?})"),
            (_, default) => format!(" (default {default})"),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  -{}{kind}\n    \t{}{default}", flag.name, flag.usage.replace('\n', "\n    \t"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flags() -> Vec<Flag> {
        vec![
            Flag::text("url", "", "Address"),
            Flag::bool("insecure", false, "Trust any server"),
            Flag::bool("loud", true, "Say more"),
            Flag::int("interval", 60, "Seconds"),
            Flag::list("disk", "Disks"),
        ]
    }

    fn read(words: &[&str]) -> Result<Values, String> {
        parse(&flags(), words.iter().map(|&word| word.to_owned())).map_err(|error| error.to_string())
    }

    #[test]
    fn one_dash_or_two_and_the_value_behind_a_blank_or_a_sign() {
        for words in [
            &["-url=http://s", "-insecure=true", "-interval=5"][..],
            &["--url=http://s", "--insecure", "--interval", "5"],
            &["-url", "http://s", "--insecure=T", "-interval", "0x5"],
            &["--url", "first", "-url", "http://s", "-insecure=1", "--interval=+5"],
        ] {
            let values = read(words).unwrap();
            assert_eq!((values.text("url"), values.int("interval")), ("http://s", 5), "{words:?}");
            assert!(values.is_on("insecure") && values.is_given("insecure") && values.is_on("loud"));
            assert!(!values.is_given("loud") && values.rest.is_empty());
        }
        assert_eq!(read(&["-disk=a", "--disk", "b"]).unwrap().list("disk"), ["a", "b"]);
        assert!(read(&[]).unwrap().list("disk").is_empty());
        let values = read(&["-url=a=b", "--loud=F"]).unwrap();
        assert_eq!((values.text("url"), values.is_on("loud"), values.int("interval")), ("a=b", false, 60));
        assert_eq!(read(&["--url", "--insecure"]).unwrap().text("url"), "--insecure");
    }

    #[test]
    fn flags_end_at_the_first_other_word() {
        assert_eq!(read(&["--insecure", "false", "--url=x"]).unwrap().rest, ["false", "--url=x"]);
        assert_eq!(read(&["--insecure", "--", "--url=x"]).unwrap().rest, ["--url=x"]);
        assert_eq!(read(&["-", "--url=x"]).unwrap().rest, ["-", "--url=x"]);
        assert_eq!(read(&["", "-x"]).unwrap().rest, ["", "-x"]);
    }

    #[test]
    fn errors_are_in_gos_words() {
        let table: &[(&[&str], &str)] = &[
            (&["--nope"], "flag provided but not defined: -nope"),
            (&["-nope=1"], "flag provided but not defined: -nope"),
            (&["--url"], "flag needs an argument: -url"),
            (&["--insecure=maybe"], "invalid boolean value \"maybe\" for -insecure: parse error"),
            (&["--insecure="], "invalid boolean value \"\" for -insecure: parse error"),
            (&["--interval", "soon"], "invalid value \"soon\" for flag -interval: parse error"),
            (
                &["--interval=9223372036854775808"],
                "invalid value \"9223372036854775808\" for flag -interval: value out of range",
            ),
            (&["---url"], "bad flag syntax: ---url"),
            (&["-=x"], "bad flag syntax: -=x"),
            (&["--=x"], "bad flag syntax: --=x"),
            (&["-h"], "flag: help requested"),
            (&["--help"], "flag: help requested"),
        ];
        for (words, text) in table {
            assert_eq!(read(words).unwrap_err(), *text, "{words:?}");
        }
    }

    #[test]
    fn numbers_are_as_in_go_source() {
        for (text, number) in
            [("0", 0), ("-7", -7), ("010", 8), ("0b11", 3), ("0o17", 15), ("0X_ff", 255), ("1_000", 1000)]
        {
            assert_eq!(parse_int(text), Ok(number), "{text}");
        }
        assert_eq!(parse_int("-9223372036854775808"), Ok(i64::MIN));
        for text in ["", "-", "+", "0x", "1__0", "_1", "1_", "1.5", " 1", "08", "0b2", "٣", "--1"] {
            assert_eq!(parse_int(text), Err("parse error"), "{text}");
        }
        assert_eq!(parse_int(&"9".repeat(100)), Err("value out of range"));
    }

    #[test]
    fn the_usage_is_as_go_prints_it() {
        assert_eq!(
            usage(Path::new("/usr/bin/agent"), &flags()),
            "Usage of /usr/bin/agent:\n  -disk value\n    \tDisks\n  -insecure\n    \tTrust any server\n  -interval int\n    \tSeconds (default 60)\n  \
             -loud\n    \tSay more (default true)\n  -url string\n    \tAddress\n"
        );
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(words in proptest::collection::vec("[-=a-z0-9_ ]{0,12}", 0..8)) {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            if let Ok(values) = read(&words) {
                prop_assert!(values.rest.len() <= words.len());
            }
        }
    }
}
