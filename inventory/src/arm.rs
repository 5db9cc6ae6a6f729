//! Names of Arm's processors, whose `/proc/cpuinfo` has numbers only.

/// A row a part: implementer, part or `-` for the implementer's own name, name.
const TABLE: &str = include_str!("arm_parts.tsv");

/// Who designed it, by the text of `CPU implementer`.
pub(crate) fn implementer(implementer: &str) -> Option<&'static str> {
    let implementer = number(implementer)?;
    rows().find(|(found, part, _)| *found == implementer && part.is_none()).map(|(.., name)| name)
}

/// What it is called, by the texts of `CPU implementer` and `CPU part`.
pub(crate) fn part(implementer: &str, part: &str) -> Option<&'static str> {
    let wanted = (number(implementer)?, Some(number(part)?));
    rows().find(|(implementer, part, _)| (*implementer, *part) == wanted).map(|(.., name)| name)
}

fn rows() -> impl Iterator<Item = (u32, Option<u32>, &'static str)> {
    TABLE.lines().filter_map(|line| {
        let (implementer, rest) = line.split_once('\t')?;
        let (part, name) = rest.split_once('\t')?;
        Some((number(implementer)?, number(part), name))
    })
}

fn number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_and_in_order() {
        let rows: Vec<_> = rows().map(|(implementer, part, _)| (implementer, part)).collect();
        assert_eq!(rows.len(), TABLE.lines().filter(|line| !line.starts_with('#')).count());
        assert!(rows.is_sorted_by(|a, b| a < b), "a part stands twice, or out of order");
        for (id, _) in rows.iter().filter(|(_, part)| part.is_some()) {
            assert!(implementer(&format!("{id:#x}")).is_some(), "{id:#x} has no name");
        }
    }

    #[test]
    fn numbers_as_the_kernel_writes_them() {
        assert_eq!((implementer("0x41"), part("0x41", "0xd0c")), (Some("ARM"), Some("Neoverse-N1")));
        assert_eq!((part("0x42", "0x00f"), part("0x42", "0xf")), (Some("Brahma-B15"), Some("Brahma-B15")));
        assert_eq!((part("0x41", "d0c"), part("0x41", "0xfff"), implementer("")), (None, None, None));
    }
}
