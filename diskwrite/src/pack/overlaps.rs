//! The extents of many files on one disk, put in order.

use crate::source::osmet::format::Mapping;
use kernel::order;
use std::cmp::Reverse;

/// What became of extents that overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// Extents within others.
    pub dropped: usize,
    /// Extents that begin within others, of which the rest was taken.
    pub cut: usize,
}

/// Sorts the mappings by their places, and takes each byte of the disk from one of them. Files share bytes if they are links to each
/// other, or copies that the file system made without copying.
pub(super) fn arrange(mappings: &mut Vec<Mapping>) -> Overlaps {
    order::sort_by_key(mappings, |mapping| (mapping.start, Reverse(mapping.len), mapping.object));
    let mut overlaps = Overlaps::default();
    let mut taken = 0;
    mappings.retain_mut(|mapping| {
        let end = mapping.start.saturating_add(mapping.len);
        if end <= taken {
            overlaps.dropped += 1;
            return false;
        }
        let over = taken.saturating_sub(mapping.start);
        if over > 0 {
            overlaps.cut += 1;
            mapping.start = mapping.start.saturating_add(over);
            mapping.file_offset = mapping.file_offset.saturating_add(over);
            mapping.len = mapping.len.saturating_sub(over);
        }
        taken = end;
        true
    });
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapping(start: u64, len: u64, object: u8) -> Mapping {
        Mapping { file_offset: 1 << 20, start, len, object: [object; 32] }
    }

    #[test]
    fn each_byte_is_of_one_file() {
        let mut mappings =
            vec![mapping(4096, 8192, 2), mapping(0, 8192, 1), mapping(4096, 4096, 3), mapping(0, 4096, 4)];
        let overlaps = arrange(&mut mappings);
        let rest = Mapping { file_offset: (1 << 20) + 4096, start: 8192, len: 4096, object: [2; 32] };
        assert_eq!((mappings, overlaps), (vec![mapping(0, 8192, 1), rest], Overlaps { dropped: 2, cut: 1 }));
        let mut empty = vec![mapping(0, 0, 1)];
        assert_eq!((arrange(&mut empty).dropped, empty.len()), (1, 0));
    }

    proptest! {
        /// Whatever overlaps, what was covered stays covered, from the same place of the same file.
        #[test]
        fn nothing_is_lost_and_nothing_is_twice(all in proptest::collection::vec((0u64..60, 0u64..20), 0..30)) {
            let of = |at: usize, (start, len)| Mapping {
                file_offset: start + 1000 * u64::try_from(at).unwrap(), start, len, object: [u8::try_from(at).unwrap(); 32],
            };
            let before: Vec<Mapping> = all.iter().enumerate().map(|(at, range)| of(at, *range)).collect();
            let mut after = before.clone();
            arrange(&mut after);
            for byte in 0..80 {
                let covers = |mapping: &&Mapping| (mapping.start..mapping.start + mapping.len).contains(&byte);
                let found: Vec<&Mapping> = after.iter().filter(covers).collect();
                prop_assert_eq!(found.len(), usize::from(before.iter().any(|mapping| covers(&mapping))));
                for mapping in found {
                    let original = &before[usize::from(mapping.object[0])];
                    prop_assert!(covers(&original));
                    prop_assert_eq!(mapping.file_offset - mapping.start, original.file_offset - original.start);
                }
            }
            prop_assert!(after.windows(2).all(|two| two[0].start + two[0].len <= two[1].start));
        }
    }
}
