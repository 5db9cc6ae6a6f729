//! What people write: switches, and names with a letter wrong.

/// What a switch of the environment or of the kernel's arguments says. Anything else than these words is a mistake.
pub fn switch(text: &str) -> Option<bool> {
    match &*text.to_ascii_lowercase() {
        "1" | "on" | "t" | "true" | "yes" => Some(true),
        "0" | "f" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The words that [`switch`] takes, for messages.
pub const SWITCH: &str = "1, on, t, true or yes; 0, off, f, false or no";

/// The same for the variable of an option that has no value. Empty is off.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    let mistake = || format!("it is neither on nor off: write one of {SWITCH}");
    if text.is_empty() { Ok(false) } else { switch(text).ok_or_else(mistake) }
}

/// The one of `names` that was probably meant by `name`.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, nearest) = names.into_iter().map(|known| (distance(name, known), known)).min()?;
    (distance <= nearest.len().div_ceil(2)).then_some(nearest)
}

/// Characters to add, drop or change to make one of the other (Levenshtein).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_or_off_or_a_mistake() {
        assert!(["1", "on", "True", "YES", "T"].iter().all(|text| switch(text) == Some(true)));
        assert!(["0", "off", "False", "NO", "f"].iter().all(|text| switch(text) == Some(false)));
        assert!(["", "never", "maybe", "2", " yes"].iter().all(|text| switch(text).is_none()));
        assert_eq!([parse_switch(""), parse_switch("on")], [Ok(false), Ok(true)]);
        assert!(parse_switch("never").unwrap_err().contains("neither on nor off"));
    }

    #[test]
    fn the_name_that_was_meant_is_found() {
        let names = ["save_partlabel", "save_partindex", "stream"];
        assert_eq!(nearest("save_partlable", names), Some("save_partlabel"));
        assert_eq!(nearest("steam", names), Some("stream"));
        assert_eq!(nearest("x", names), None);
        assert_eq!(nearest("x", []), None);
        let known = ["state", "name", "mtu"];
        for (word, meant) in [("stat", Some("state")), ("nmae", Some("name")), ("mut", Some("mtu")), ("zzzzzz", None)] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(
            [("", "abc"), ("abc", "abc"), ("abd", "abc"), ("ac", "abc")].map(|(a, b)| distance(a, b)),
            [3, 0, 1, 1]
        );
    }
}
