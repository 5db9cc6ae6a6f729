//! Rate limits per address.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Maximum of remembered addresses; beyond it, those whose allowance is full again are forgotten.
const MAX_ADDRESSES: usize = 10_000;
const MICROS_PER_MINUTE: u128 = 60_000_000;

/// The remaining allowance of each address, which refills with time.
#[derive(Default)]
pub struct Rates {
    allowances: Mutex<BTreeMap<IpAddr, Allowance>>,
}

struct Allowance {
    /// In micro-units per minute; one unit is [`MICROS_PER_MINUTE`].
    remaining: u128,
    at: Instant,
}

impl Rates {
    /// Takes one unit from the allowance of `address`, which starts at `burst` and gains `per_minute`. An IPv6 /64 counts as one.
    pub(crate) fn take(&self, address: IpAddr, burst: u32, per_minute: u32, now: Instant) -> bool {
        let whole = u128::from(burst) * MICROS_PER_MINUTE;
        let grown = |allowance: &Allowance| {
            let micros = now.saturating_duration_since(allowance.at).as_micros();
            allowance.remaining.saturating_add(micros.saturating_mul(per_minute.into())).min(whole)
        };
        let mut table = self.allowances.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= MAX_ADDRESSES {
            table.retain(|_, allowance| grown(allowance) < whole);
        }
        // All remembered addresses are limited: refuse new ones.
        if table.len() >= MAX_ADDRESSES && !table.contains_key(&network(address)) {
            return false;
        }
        let allowance = table.entry(network(address)).or_insert(Allowance { remaining: whole, at: now });
        let remaining = grown(allowance);
        let taken = remaining.checked_sub(MICROS_PER_MINUTE);
        *allowance = Allowance { remaining: taken.unwrap_or(remaining), at: now };
        taken.is_some()
    }
}

/// One host may own a whole /64.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_address_that_took_all_waits_and_others_do_not() {
        let (rates, start) = (Rates::default(), Instant::now());
        let take = |address: &str, at: u64| rates.take(address.parse().unwrap(), 3, 6, start + Duration::from_secs(at));
        assert_eq!([0, 0, 0, 0].map(|at| take("10.0.0.1", at)), [true, true, true, false]);
        assert!(take("10.0.0.2", 0));
        assert_eq!([9, 10, 10].map(|at| take("10.0.0.1", at)), [false, true, false]);
        assert_eq!([1000; 4].map(|at| take("10.0.0.1", at)), [true, true, true, false], "no more than at first");
        assert_eq!([1, 2, 3, 4].map(|n| take(&format!("fd00::{n}"), 0)), [true, true, true, false]);
        assert!(take("fd00:0:0:1::1", 0));
    }
}
