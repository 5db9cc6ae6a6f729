//! Sorting without the standard library's code for each type: that is 5 KiB for each of a hundred types, and here they share one.

use std::cmp::Ordering;

/// Sorts. Equal items stay in their order, as in all below.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts by what `key` says of an item, which is asked more than once.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts by `compare`, a total order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut from = positions(items.len(), &|a, b| compare(&items[a], &items[b]));
    // Each cycle of the permutation is gone round once.
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

    proptest! {
        #[test]
        fn the_order_is_the_standard_librarys(items: Vec<(u8, u16)>) {
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
