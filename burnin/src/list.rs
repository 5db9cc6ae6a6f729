//! Lists of CPUs as the kernel writes them: `0-3,8`. Pure.

/// More than any kernel is built for.
const MAX: u32 = 8192;

/// The numbers, in order. The error is a sentence for the user.
pub(crate) fn parse(text: &str) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |word: &str| word.trim().parse::<u32>().ok().filter(|number| *number < MAX);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => all.extend(first..=last),
            _ => return Err(format!("'{part}' is not a range of CPUs such as 0-3")),
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_bounded() {
        assert_eq!(parse("0-2,8,1"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(parse("\n"), Ok(Vec::new()));
        for bad in ["x", "3-1", "0-9999", "-1", "4294967296"] {
            parse(bad).unwrap_err();
        }
    }
}
