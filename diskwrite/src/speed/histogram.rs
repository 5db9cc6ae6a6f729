//! Latencies counted as fio counts them, so that its percentiles and ours can be compared: 64 buckets for each doubling, a
//! bucket's value its middle (fio's stat.c: `plat_val_to_idx`, `plat_idx_to_val`, `calc_clat_percentiles`).

/// `FIO_IO_U_PLAT_BITS`.
const BITS: u32 = 6;
/// `FIO_IO_U_PLAT_VAL`.
const GROUP: usize = 1 << BITS;
/// `FIO_IO_U_PLAT_NR`: 29 groups.
const BUCKETS: usize = 29 * GROUP;

/// Counted latencies.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max_ns: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, ns: u64) {
        if let Some(count) = self.counts.get_mut(bucket(ns)) {
            *count += 1;
        }
        self.total += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// The largest, exactly.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value that so many of a thousand do not exceed; 0 of nothing.
    pub fn per_mille_ns(&self, per_mille: u64) -> u64 {
        let wanted = u128::from(per_mille) * u128::from(self.total);
        let mut sum = 0u128;
        for (index, count) in self.counts.iter().enumerate() {
            sum += u128::from(*count);
            if sum > 0 && sum * 1000 >= wanted {
                return middle(index);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    let top_bit = ns.checked_ilog2().unwrap_or(0);
    if top_bit <= BITS {
        return usize::try_from(ns).unwrap_or(BUCKETS - 1);
    }
    let dropped_bits = top_bit - BITS;
    let group = usize::try_from(dropped_bits + 1).unwrap_or(BUCKETS) << BITS;
    let offset = usize::try_from(ns >> dropped_bits).unwrap_or(0) & (GROUP - 1);
    (group + offset).min(BUCKETS - 1)
}

fn middle(index: usize) -> u64 {
    let exact = u64::try_from(index).unwrap_or(u64::MAX);
    if index < GROUP << 1 {
        return exact;
    }
    let dropped_bits = (exact >> BITS) - 1;
    (1 << (dropped_bits + u64::from(BITS))) + ((exact % (1 << BITS)) << dropped_bits) + (1 << (dropped_bits - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_those_fio_prints() {
        // Percentiles as fio 3.33 printed them: each is the middle of its bucket.
        for value in [148_480, 276_480, 1_187_840, 2_506_752, 8_355_840, 21_364_736, 69_730_304, 128_450_560] {
            assert_eq!(middle(bucket(value)), value);
        }
        for exact in 0..128 {
            assert_eq!(middle(bucket(exact)), exact);
        }
        assert_eq!((middle(bucket(128)), middle(bucket(129)), middle(bucket(130))), (129, 129, 131));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_count_from_below() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.per_mille_ns(990), 0);
        (1..=100).for_each(|ns| histogram.add(ns));
        assert_eq!([500, 900, 990, 999, 1000].map(|p| histogram.per_mille_ns(p)), [50, 90, 99, 100, 100]);
        assert_eq!(histogram.max_ns(), 100);
    }

    proptest! {
        #[test]
        fn a_bucket_is_at_most_a_sixty_fourth_wide(ns in 0u64..1 << 33) {
            prop_assert!(middle(bucket(ns)).abs_diff(ns) <= ns / 128 + 1);
            prop_assert!(bucket(ns) <= bucket(ns + 1));
        }
    }
}
