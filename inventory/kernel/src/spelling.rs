//! What people write: switches, and names with a letter wrong.

/// What a switch of the environment or of the kernel's arguments says. Anything else than these words is a mistake.
pub fn switch(text: &str) -> Option<bool> {
    match &*text.to_ascii_lowercase() {
        "1" | "on" | "true" | "yes" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// The words that [`switch`] takes, for messages.
pub const SWITCH: &str = "1, on, true or yes; 0, off, false or no";

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
        assert!(["1", "on", "True", "YES"].iter().all(|text| switch(text) == Some(true)));
        assert!(["0", "off", "False", "NO"].iter().all(|text| switch(text) == Some(false)));
        assert!(["", "never", "maybe", "2", " yes"].iter().all(|text| switch(text).is_none()));
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
