//! How dmidecode writes texts, sizes and voltages.

/// dmidecode prints a dot for each byte that is not printable ASCII.
pub(crate) fn printable(text: &str) -> String {
    text.bytes().map(|byte| if (b' '..0x7f).contains(&byte) { char::from(byte) } else { '.' }).collect()
}

/// As dmidecode writes sizes: in the largest unit, or in the next one if there is something left for it.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let part = |unit: usize| bytes >> (10 * unit) & 0x3ff;
    let mut unit = (1..7).rev().find(|unit| part(*unit) != 0).unwrap_or(0);
    if unit > 0 && part(unit - 1) != 0 {
        unit -= 1;
    }
    let above = if unit < 6 { part(unit + 1) << 10 } else { 0 };
    format!("{} {}", part(unit) + above, UNITS[unit])
}

pub(crate) fn size_of_kib(bytes: u64) -> String {
    if bytes == 0 { "0 kB".to_owned() } else { size(bytes) }
}

/// Of a size that is printed without loss.
pub(crate) fn bytes_of(printed: &str) -> u64 {
    let (number, unit) = printed.split_once(' ').unwrap();
    let unit = ["bytes", "kB", "MB", "GB", "TB", "PB"].iter().position(|name| *name == unit).unwrap();
    number.parse::<u64>().unwrap() << (10 * unit)
}

pub(crate) fn volts(mv: u16) -> String {
    let thousandths = format!("{}.{:03}", mv / 1000, mv % 1000);
    let digits = if mv.is_multiple_of(100) { 1 } else { 3 };
    let text = &thousandths[..thousandths.len() - 3 + digits];
    format!("{} V", if digits == 3 { text.trim_end_matches('0') } else { text })
}
