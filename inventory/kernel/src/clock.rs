//! The C library's local time, and a clock to wait by.
#![allow(unsafe_code)]

use std::{
    mem::MaybeUninit,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The machine's clock, or one that moves only while something sleeps by it. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    simulated: Option<Simulated>,
}

#[derive(Clone, Debug)]
struct Simulated {
    start: Instant,
    slept_ms: Arc<AtomicU64>,
}

impl Clock {
    /// Sleeping takes no time: for tests of what takes hours.
    pub fn simulated() -> Self {
        Self { simulated: Some(Simulated { start: Instant::now(), slept_ms: Arc::default() }) }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// The simulated time that was slept.
    pub fn slept(&self) -> Duration {
        let slept_ms = |simulated: &Simulated| simulated.slept_ms.load(Ordering::Relaxed);
        Duration::from_millis(self.simulated.as_ref().map_or(0, slept_ms))
    }

    pub fn now(&self) -> Instant {
        self.simulated.as_ref().map_or_else(Instant::now, |simulated| simulated.start + self.slept())
    }

    pub fn sleep(&self, duration: Duration) {
        match &self.simulated {
            Some(simulated) => {
                let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                simulated.slept_ms.fetch_add(ms, Ordering::Relaxed);
                thread::yield_now();
            }
            None => thread::sleep(duration),
        }
    }
}

/// A moment on the wall clock here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Local {
    pub year: i64,
    /// From 0.
    pub month0: usize,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// From 0, Sunday.
    pub weekday0: usize,
}

/// What the wall clock shows at `unix_seconds`.
pub fn local(unix_seconds: i64) -> Option<Local> {
    let mut tm = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live values, and all-zero is a valid tm. The zone may be read from TZ, which nothing here
    // sets after the start.
    let tm = unsafe {
        if libc::localtime_r(&raw const unix_seconds, tm.as_mut_ptr()).is_null() {
            return None;
        }
        tm.assume_init()
    };
    Some(Local {
        year: i64::from(tm.tm_year) + 1900,
        month0: tm.tm_mon.try_into().ok()?,
        day: tm.tm_mday.try_into().ok()?,
        hour: tm.tm_hour.try_into().ok()?,
        minute: tm.tm_min.try_into().ok()?,
        second: tm.tm_sec.try_into().ok()?,
        weekday0: tm.tm_wday.try_into().ok()?,
    })
}

/// A moment in UTC, as RFC 3339 has it: `2026-01-02T03:04:05Z`. Pure.
pub fn utc_text(unix_seconds: i64) -> String {
    let (days, second) = (unix_seconds.div_euclid(86_400), unix_seconds.rem_euclid(86_400));
    // Years of March to February, in cycles of 400 years, which have 146097 days.
    let days = days.saturating_add(719_468);
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = cycle * 400 + year + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// When the wall clock shows `local`; days beyond the month's end are those of the next, as mktime has it.
pub fn unix_seconds(local: &Local) -> Option<i64> {
    let mut tm = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: all-zero is a valid tm, and mktime gets a pointer to a live one.
    let (seconds, weekday) = unsafe {
        let tm = tm.assume_init_mut();
        tm.tm_year = i32::try_from(local.year - 1900).ok()?;
        tm.tm_mon = local.month0.try_into().ok()?;
        tm.tm_mday = local.day.try_into().ok()?;
        tm.tm_hour = local.hour.try_into().ok()?;
        tm.tm_min = local.minute.try_into().ok()?;
        tm.tm_sec = local.second.try_into().ok()?;
        tm.tm_isdst = -1;
        tm.tm_wday = -1;
        (libc::mktime(tm), tm.tm_wday)
    };
    // It sets the day of the week unless it fails.
    (weekday >= 0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc_text(seconds), text);
        }
        utc_text(i64::MAX);
        utc_text(i64::MIN);
    }
}
