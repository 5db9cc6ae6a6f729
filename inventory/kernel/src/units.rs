//! Amounts of bytes, and times, as people write them. Pure.

use std::time::Duration;

/// The longest time that is asked for: a year.
const MAX_TIME: Duration = Duration::from_secs(366 * 86_400);
/// Powers of 1024.
const LETTERS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

/// Tenths of the largest binary unit of which there is at least one, rounded, and its letter: `(15, "K")` for 1536, `(7, "")`
/// and so whole bytes for 7.
fn tenths(bytes: u64) -> (u128, &'static str) {
    let power = (bytes.max(1).ilog2() / 10).min(6);
    let unit = 1_u128 << (10 * power);
    let letter = LETTERS.get(usize::try_from(power).unwrap_or(0)).copied().unwrap_or_default();
    ((u128::from(bytes) * 10 + unit / 2) / unit, letter)
}

/// `1.5 KiB`, `1.0 GiB`, `512 B`: with one decimal, rounded. For amounts that change while they are shown.
pub fn one_decimal(bytes: u64) -> String {
    match tenths(bytes) {
        (_, "") => format!("{bytes} B"),
        (tenths, letter) => format!("{}.{} {letter}iB", tenths / 10, tenths % 10),
    }
}

/// `1.5K`, `1G`, `512B`: as util-linux writes sizes, with a decimal where it is not zero, rounded.
pub fn short(bytes: u64) -> String {
    let (tenths, letter) = tenths(bytes);
    let letter = if letter.is_empty() { "B" } else { letter };
    match tenths % 10 {
        0 => format!("{}{letter}", tenths / 10),
        tenth => format!("{}.{tenth}{letter}", tenths / 10),
    }
}

/// `32 GiB`, `894.2 GiB`, `512 B`: with a decimal where it is not zero, rounded down. TiB is the largest unit. So people read sizes
/// everywhere, but where the form is another program's.
pub fn binary(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() / 10).min(4);
    let unit = 1_u64 << (10 * power);
    let name = ["B", "KiB", "MiB", "GiB", "TiB"].get(usize::try_from(power).unwrap_or(0)).copied().unwrap_or_default();
    // Whole numbers of the unit below, since smaller amounts are never shown.
    let rest = (bytes % unit) >> (10 * power.saturating_sub(1));
    match rest * 10 / 1024 {
        0 => format!("{} {name}", bytes / unit),
        tenths => format!("{}.{tenths} {name}", bytes / unit),
    }
}

/// The same beside another amount, which it is compared with: exact where both would look the same.
pub fn beside(bytes: u64, other: u64) -> String {
    let rounded = binary(bytes);
    if bytes != other && rounded == binary(other) { format!("{bytes} B") } else { rounded }
}

/// A number of bytes, with or without a binary unit: `22m`, `22MiB`. The error is a sentence for the user.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 1,
        "m" | "mib" => 2,
        "g" | "gib" => 3,
        unit => return Err(format!("'{unit}' is not a unit: KiB, MiB or GiB")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{digits}' is not a number of bytes"))?;
    number.checked_mul(1 << (10 * power)).ok_or_else(|| "too large".to_owned())
}

/// `90s`, `10m`, `8h`, `2d`. The error is a sentence for the user.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("a time is a number with s, m, h or d, such as 10m".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{digits}' is not a number"))?;
    let time = Duration::from_secs(number.saturating_mul(unit));
    if time.is_zero() || time > MAX_TIME { Err("the time must be from 1s to 366d".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_every_order_are_shown() {
        let shown = [0, 1023, 1024, 1536, 1 << 30, u64::MAX].map(one_decimal);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 GiB", "16.0 EiB"]);
        let shown = [0, 512, 1536, 137_438_953_472, 1_920_383_410_176].map(short);
        assert_eq!(shown, ["0B", "512B", "1.5K", "128G", "1.7T"]);
    }

    #[test]
    fn amounts_are_never_more_than_there_is() {
        let sizes = [0, 1023, 1024, 1536, 32 << 30, 960_197_124_096, u64::MAX];
        let shown = ["0 B", "1023 B", "1 KiB", "1.5 KiB", "32 GiB", "894.2 GiB", "16777215.9 TiB"];
        assert_eq!(sizes.map(binary), shown);
    }

    #[test]
    fn amounts_that_differ_look_different() {
        assert_eq!(beside(10 << 30, 8 << 30), "10 GiB");
        assert_eq!(beside((8 << 30) + 512, 8 << 30), "8589935104 B");
        assert_eq!(beside(8 << 30, (8 << 30) + 512), "8589934592 B");
        assert_eq!(beside(1 << 20, 1 << 20), "1 MiB");
    }

    #[test]
    fn amounts_are_read_with_their_units() {
        assert_eq!(["22m", "22MiB", "2300", "1k"].map(|text| parse(text).unwrap()), [22 << 20, 22 << 20, 2300, 1024]);
        for bad in ["", "m", "-1", "1x", "1 MiB", "99999999999999999999", "18446744073709551615k"] {
            parse(bad).unwrap_err();
        }
    }

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| parse_duration(text).unwrap().as_secs();
        assert_eq!(["90s", "10m", "8h", "2d"].map(seconds), [90, 600, 28_800, 172_800]);
        for bad in ["", "10", "0s", "-1s", "1w", "h", "9999999999999d", "367d"] {
            parse_duration(bad).unwrap_err();
        }
    }
}
