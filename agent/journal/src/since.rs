//! Times as journalctl takes them (systemd.time(7), the forms that people use).

use kernel::clock::{Local, local, unix_seconds};

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

/// A time that isn't understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a time: give YYYY-MM-DD HH:MM:SS, HH:MM, @SECONDS, today, yesterday, now, -1h, or 10 minutes ago"
)]
pub struct SinceError {
    text: String,
}

/// Reads `text` at the moment `now_us`; both microseconds since 1970.
pub fn parse_time(text: &str, now_us: u64) -> Result<u64, SinceError> {
    parse(text.trim(), now_us).ok_or_else(|| SinceError { text: text.chars().take(80).collect() })
}

fn parse(text: &str, now: u64) -> Option<u64> {
    if let Some(text) = text.strip_prefix('@') {
        return text.parse::<u64>().ok()?.checked_mul(SECOND);
    }
    if let Some(text) = text.strip_prefix('-') {
        return Some(now.saturating_sub(span(text)?));
    }
    if let Some(text) = text.strip_prefix('+') {
        return now.checked_add(span(text)?);
    }
    if let Some(text) = text.strip_suffix(" ago") {
        return Some(now.saturating_sub(span(text)?));
    }
    if let Some(text) = text.strip_suffix(" left") {
        return now.checked_add(span(text)?);
    }
    let today = |days: i64| -> Option<u64> {
        let seconds = i64::try_from(now / SECOND).ok()?.checked_add(days.checked_mul(86_400)?)?;
        micros(Local { hour: 0, minute: 0, second: 0, ..local(seconds)? })
    };
    match text {
        "now" => return Some(now),
        "today" => return today(0),
        "yesterday" => return today(-1),
        "tomorrow" => return today(1),
        _ => {}
    }
    let (text, utc) = match text.strip_suffix(" UTC").or_else(|| text.strip_suffix('Z')) {
        Some(text) => (text, true),
        None => (text, false),
    };
    // A day of the week may stand before it.
    let text = match text.split_once(' ') {
        Some((day, rest)) if day.chars().all(|c| c.is_ascii_alphabetic()) => rest,
        _ => text,
    };
    let (date, clock) = match text.split_once([' ', 'T']) {
        Some((date, clock)) => (Some(date), clock),
        None if text.contains(':') => (None, text),
        None => (Some(text), "00:00"),
    };
    let (mut moment, fraction_us) = clock_of(clock)?;
    match date {
        Some(date) => {
            let mut parts = date.split('-');
            let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
            if parts.next().is_some() {
                return None;
            }
            let digits = |text: &str| !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
            if ![year, month, day].into_iter().all(digits) {
                return None;
            }
            moment.year = year.parse().ok()?;
            let month: usize = month.parse().ok()?;
            moment.month0 = month.checked_sub(1).filter(|month0| *month0 < 12)?;
            moment.day = day.parse().ok().filter(|day| (1..=31).contains(day))?;
        }
        None => {
            let now = local(i64::try_from(now / SECOND).ok()?)?;
            (moment.year, moment.month0, moment.day) = (now.year, now.month0, now.day);
        }
    }
    let us = if utc { micros_utc(moment)? } else { micros(moment)? };
    us.checked_add(fraction_us)
}

/// `HH:MM[:SS[.fraction]]`, and the fraction in microseconds.
fn clock_of(text: &str) -> Option<(Local, u64)> {
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = text.split(':');
    let mut part = |max: u32, default: Option<u32>| match parts.next() {
        Some(text) => text.parse().ok().filter(|part| *part <= max),
        None => default,
    };
    let (hour, minute, second) = (part(23, None)?, part(59, None)?, part(59, Some(0))?);
    if parts.next().is_some() || fraction.len() > 9 {
        return None;
    }
    let fraction_us = if fraction.is_empty() { 0 } else { format!("{fraction:0<6}").get(..6)?.parse().ok()? };
    Some((Local { hour, minute, second, ..Local::default() }, fraction_us))
}

fn micros(local: Local) -> Option<u64> {
    u64::try_from(unix_seconds(&local)?).ok()?.checked_mul(SECOND)
}

fn micros_utc(moment: Local) -> Option<u64> {
    let month = time::Month::try_from(u8::try_from(moment.month0 + 1).ok()?).ok()?;
    let date =
        time::Date::from_calendar_date(i32::try_from(moment.year).ok()?, month, moment.day.try_into().ok()?).ok()?;
    let time =
        date.with_hms(moment.hour.try_into().ok()?, moment.minute.try_into().ok()?, moment.second.try_into().ok()?);
    u64::try_from(time.ok()?.assume_utc().unix_timestamp()).ok()?.checked_mul(SECOND)
}

/// `1h 30min`, `2 days`, `90`.
fn span(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        total = total.checked_add(number.checked_mul(unit_us(unit)?)?)?;
        rest = after.trim_start();
    }
    Some(total)
}

fn unit_us(unit: &str) -> Option<u64> {
    Some(match unit {
        "us" | "usec" => 1,
        "ms" | "msec" => 1000,
        "" | "s" | "sec" | "second" | "seconds" => SECOND,
        "m" | "min" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hr" | "hour" | "hours" => 3600 * SECOND,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => 7 * DAY,
        // systemd's mean month and year.
        "M" | "month" | "months" => 2_629_800 * SECOND,
        "y" | "year" | "years" => 31_557_600 * SECOND,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-21 02:51:34.5 UTC.
    const NOW: u64 = 1_795_229_494_500_000;

    #[test]
    fn people_s_forms_are_understood() {
        let since = |text| parse_time(text, NOW).unwrap();
        assert_eq!(since("now"), NOW);
        assert_eq!(since("-1h"), NOW - 3600 * SECOND);
        assert_eq!(since("10 minutes ago"), NOW - 600 * SECOND);
        assert_eq!(since("1h 30min ago"), NOW - 5400 * SECOND);
        assert_eq!(since("1d2h ago"), NOW - DAY - 7200 * SECOND);
        assert_eq!(since("@1795229494"), 1_795_229_494 * SECOND);
        assert_eq!(since("2026-11-21 02:51:34.5 UTC"), NOW);
        assert_eq!(since("Sat 2026-11-21 02:51:34 UTC"), 1_795_229_494 * SECOND);
        assert_eq!(since("today") - since("yesterday"), DAY);
        assert_eq!(since("2026-11-20") + DAY, since("2026-11-21 00:00"));
        assert!(since("today") <= NOW && NOW - since("today") < DAY);
        assert_eq!(local(i64::try_from(since("02:51") / SECOND).unwrap()).map(|l| (l.hour, l.minute)), Some((2, 51)));
    }

    #[test]
    fn what_is_no_time_is_said() {
        for text in
            ["", "soon", "-", "-1x", "2026-13-01", "2026-11", "25:00", "ago", "1 2 3 x ago", "@", "2026-11-21-1"]
        {
            assert!(parse_time(text, NOW).is_err(), "{text}");
        }
        assert!(parse_time("soon", NOW).unwrap_err().to_string().starts_with("'soon' is not a time: give "));
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "\\PC{0,40}") {
            let _ = parse_time(&text, NOW);
            let _ = parse_time(&format!("-{text}"), NOW);
        }
    }
}
