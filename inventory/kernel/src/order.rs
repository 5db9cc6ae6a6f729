//! Sorting without the standard library's code for each type: that is 4 KiB for each of a hundred types, and here they share one.

use std::cmp::Ordering;

/// Collects into what sorts by itself.
pub trait Gather: Iterator + Sized {
    /// As `collect` for a `BTreeMap` or `BTreeSet`, which sorts all items before it takes them: one after the other instead.
    fn gather<C: Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}

impl<I: Iterator> Gather for I {}

/// Sorts. Equal items stay in their order, as in all below.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts by what `key` says of an item, which is asked once for each.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    let keys: Vec<K> = items.iter().map(key).collect();
    put(items, positions(keys.len(), &|a, b| keys[a].cmp(&keys[b])));
}

/// Sorts by `compare`, a total order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let from = positions(items.len(), &|a, b| compare(&items[a], &items[b]));
    put(items, from);
}

/// Moves to each place the item that belongs there: `from` says where it is.
fn put<T>(items: &mut [T], mut from: Vec<usize>) {
    // Each cycle of the permutation is followed once.
    for start in 0..items.len() {
        let mut at = start;
        while from[at] != start {
            let next = from[at];
            items.swap(at, next);
            from[at] = at;
            at = next;
        }
        from[at] = at;
    }
}

/// For each place, where the item that belongs there is.
fn positions(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut from: Vec<usize> = (0..len).collect();
    from.sort_by(|a, b| compare(*a, *b));
    from
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_order_is_the_standard_librarys(items: Vec<(u8, u16)>) {
            let map: BTreeMap<u8, u16> = items.iter().copied().gather();
            prop_assert_eq!(map, items.iter().copied().collect());
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            let mut found = items.clone();
            sort_by_key(&mut found, |item| item.0);
            prop_assert_eq!(&found, &expected);
            let mut expected = items.clone();
            expected.sort();
            found = items;
            sort(&mut found);
            prop_assert_eq!(found, expected);
        }
    }
}
