//! Numbers for new users and groups.

use super::settings::Range;
use kernel::order;
use std::collections::BTreeSet;

/// A free number as shadow-utils choose it: the preferred one; else above the greatest, for the system below the least; else the
/// first that is free from where they begin. None if all are taken.
pub(super) fn choose(used: &BTreeSet<u32>, range: Range, system: bool, preferred: Option<u32>) -> Option<u32> {
    let Range { min, max, preferred_min } = range;
    if min > max {
        return None;
    }
    let wanted = preferred.filter(|number| (preferred_min..=max).contains(number) && !used.contains(number));
    if wanted.is_some() {
        return wanted;
    }
    let mut inside = used.range(min..=max);
    let free = |number: &u32| !used.contains(number);
    if system {
        let next = inside.next().map_or(Some(max), |least| least.checked_sub(1)).filter(|next| *next >= min);
        next.or_else(|| (min..=max).rev().find(free))
    } else {
        let next = inside.next_back().map_or(Some(min), |greatest| greatest.checked_add(1)).filter(|next| *next <= max);
        next.or_else(|| (min..=max).find(free))
    }
}

/// The first `count` numbers in a row between `min` and `max` that are in none of `taken`, ranges by first and last.
pub(super) fn choose_range(taken: &mut [(u64, u64)], min: u32, max: u32, count: u32) -> Option<u64> {
    order::sort(taken);
    let (mut start, count) = (u64::from(min), u64::from(count));
    for (first, last) in taken.iter() {
        if first.saturating_sub(start) >= count && *first >= start {
            break;
        }
        start = start.max(last.saturating_add(1));
    }
    (start.saturating_add(count).saturating_sub(1) <= u64::from(max)).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range { min: 10, max: 14, preferred_min: 10 };

    #[test]
    fn numbers_are_chosen_from_the_right_end() {
        for (used, system, preferred, expected) in [
            (&[][..], false, None, Some(10)),
            (&[], true, None, Some(14)),
            (&[9, 12, 15], false, None, Some(13)),
            (&[9, 12, 15], true, None, Some(11)),
            (&[11, 14], false, None, Some(10)),
            (&[10, 14], true, None, Some(13)),
            (&[12], false, Some(11), Some(11)),
            (&[12], false, Some(12), Some(13)),
            (&[12], false, Some(9), Some(13)),
            (&[10, 11, 12, 13, 14], false, None, None),
            (&[10, 11, 12, 13, 14], true, None, None),
        ] {
            let used = used.iter().copied().collect();
            assert_eq!(choose(&used, RANGE, system, preferred), expected, "{used:?} {system} {preferred:?}");
        }
        assert_eq!(choose(&BTreeSet::new(), Range { min: 5, max: 4, preferred_min: 1 }, false, None), None);
        assert_eq!(choose(&BTreeSet::from([u32::MAX]), Range { max: u32::MAX, ..RANGE }, false, None), Some(10));
    }

    #[test]
    fn ranges_fill_the_first_gap() {
        for (taken, expected) in [
            (&[][..], Some(100)),
            (&[(100, 109)], Some(110)),
            (&[(110, 119)], Some(100)),
            (&[(109, 119)], Some(120)),
            (&[(120, 129), (100, 109)], Some(110)),
            (&[(0, 50), (100, 191)], None),
        ] {
            assert_eq!(choose_range(&mut taken.to_vec(), 100, 200, 10), expected, "{taken:?}");
        }
    }
}
