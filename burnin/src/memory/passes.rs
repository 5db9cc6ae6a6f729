//! The patterns, and the order in which they pass over the memory. Pure.

use loops::Fill;

/// Once over all words: each is compared, then written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// Of its pattern, for people.
    pub name: &'static str,
    pub expect: Option<Fill>,
    pub write: Option<Fill>,
    /// From the first word to the last, or back.
    pub up: bool,
}

const EVERY_OTHER: u64 = 0x5555_5555_5555_5555;

/// The passes of a round. Rounds alternate between the patterns, which shift each time that they come back.
pub(super) fn passes(round: u64) -> Vec<Pass> {
    let (turn, shift) = (round / 5, u32::try_from(round / 5 % 64).unwrap_or(0));
    let pattern = |name: &'static str, fills: &[Fill], ends_down: bool| {
        let expects = std::iter::once(None).chain(fills.iter().copied().map(Some));
        let writes = fills.iter().copied().map(Some).chain([None]);
        let count = fills.len();
        let pass = |(place, (expect, write))| Pass { name, expect, write, up: !(ends_down && place + 1 >= count) };
        expects.zip(writes).enumerate().map(pass).collect()
    };
    match round % 5 {
        0 => pattern("own address", &[Fill::Address { inverted: false }, Fill::Address { inverted: true }], false),
        1 => inversions(pattern, "moving inversions of zeros", 0),
        2 => inversions(pattern, "moving inversions of every other bit", EVERY_OTHER.rotate_left(shift)),
        3 => {
            let walk = |zeros| Fill::Walk { shift, zeros };
            pattern("walking bits", &[walk(false), walk(true)], false)
        }
        _ => pattern("random words", &[Fill::Random { seed: turn }, Fill::Random { seed: !turn }], false),
    }
}

/// Writes a word everywhere; going up, compares each and writes its complement; going down, the other way round.
fn inversions(pattern: impl Fn(&'static str, &[Fill], bool) -> Vec<Pass>, name: &'static str, word: u64) -> Vec<Pass> {
    pattern(name, &[Fill::Constant(word), Fill::Constant(!word), Fill::Constant(word)], true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_expects_what_the_one_before_wrote() {
        for round in 0..1000 {
            let passes = passes(round);
            assert_eq!((passes[0].expect, passes.last().unwrap().write), (None, None));
            assert!(passes.windows(2).all(|two| two[0].write == two[1].expect && two[0].write.is_some()), "{round}");
        }
    }

    #[test]
    fn inversions_move_up_and_then_down() {
        let directions: Vec<_> = passes(1).iter().map(|pass| pass.up).collect();
        assert_eq!(directions, [true, true, false, false]);
    }

    #[test]
    fn every_bit_of_a_word_is_walked_over() {
        let words = (0..64).map(|turn| passes(5 * turn + 3)[0].write.unwrap().word(0));
        assert_eq!(words.fold(0, |all, word| all | word), u64::MAX);
        assert_ne!(passes(4), passes(9));
    }
}
