//! Lists of processors as the kernel writes them: `0-3,8`.

use std::{collections::BTreeSet, fmt::Write};

/// More processors than any kernel is built for (8192 on x86_64).
const MAX_CPU: u32 = 1 << 16;

/// The numbers a list names; what can't be parsed is left out.
pub(super) fn parse(list: &str) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            numbers.extend(first..=last.min(MAX_CPU));
        }
    }
    numbers
}

/// The shortest list of these numbers.
pub(super) fn format(numbers: &BTreeSet<u32>) -> String {
    let mut list = String::new();
    let mut numbers = numbers.iter().copied().peekable();
    while let Some(first) = numbers.next() {
        let mut last = first;
        while let Some(next) = numbers.next_if(|next| Some(*next) == last.checked_add(1)) {
            last = next;
        }
        let comma = if list.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = if first == last { write!(list, "{comma}{first}") } else { write!(list, "{comma}{first}-{last}") };
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn noise_is_nothing() {
        for bad in ["", "3-1", "x", "-", "70000-4000000000", "1-x"] {
            assert!(parse(bad).is_empty(), "{bad}");
        }
        assert_eq!(parse("0-4294967295").len(), 65537);
    }

    proptest! {
        #[test]
        fn there_and_back(numbers in prop::collection::btree_set(0u32..300, 0..80)) {
            prop_assert_eq!(parse(&format(&numbers)), numbers);
        }
    }
}
