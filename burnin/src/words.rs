//! Measurements, times and lines as people read them. Pure.

use crate::result::Total;
use kernel::units::binary;
use std::time::Duration;

/// `1:02:03`, `2:03`.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// All that a total measured: `read 12.3 GB/s, tested 40 GiB`.
pub(crate) fn measured(total: &Total) -> String {
    let shown = total.measurements.iter().map(|(name, value)| measurement(name, *value));
    shown.collect::<Vec<_>>().join(", ")
}

/// One: its unit is the end of its name.
fn measurement(name: &str, value: f64) -> String {
    let with = |suffix: &str, shown: String| name.strip_suffix(suffix).map(|name| format!("{} {shown}", spaced(name)));
    with("_bytes_per_second", scaled(value, "B/s"))
        .or_else(|| with("_bits_per_second", scaled(value, "bit/s")))
        .or_else(|| with("_bytes", bytes(value)))
        .or_else(|| with("_hertz", format!("{:.0} MHz", value / 1e6)))
        .or_else(|| with("_microseconds", format!("{:.3} ms", value / 1e3)))
        .or_else(|| with("_celsius", format!("{value:.0} °C")))
        .or_else(|| with("_percent", format!("{value:.3} %")))
        .unwrap_or_else(|| format!("{} {value:.0}", spaced(name)))
}

fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// With a decimal prefix, as speeds of links and disks are sold.
fn scaled(value: f64, unit: &str) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G{unit}", v / 1e9),
        v if v >= 1e6 => format!("{:.1} M{unit}", v / 1e6),
        v => format!("{:.1} k{unit}", v / 1e3),
    }
}

fn bytes(value: f64) -> String {
    // Whole, and so exact, below 2^53.
    format!("{value:.0}").parse().map_or_else(|_| format!("{value:.0} B"), binary)
}

/// `no faults`, `1 fault`, `3 faults`.
pub(crate) fn faults(count: u64) -> String {
    match count {
        0 => "no faults".to_owned(),
        1 => "1 fault".to_owned(),
        count => format!("{count} faults"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_show_hours_only_where_there_are_any() {
        assert_eq!([5, 65, 3723].map(|seconds| clock(Duration::from_secs(seconds))), ["0:05", "1:05", "1:02:03"]);
    }

    #[test]
    fn measurements_are_shown_by_their_units() {
        let shown = [
            ("read_bytes_per_second", 12.345e9, "read 12.35 GB/s"),
            ("tcp_sent_bits_per_second", 9.4e9, "tcp sent 9.40 Gbit/s"),
            ("slow_bytes_per_second", 1500.0, "slow 1.5 kB/s"),
            ("region_bytes", 1_610_612_736.0, "region 1.5 GiB"),
            ("clock_average_hertz", 2.9e9, "clock average 2900 MHz"),
            ("p99_microseconds", 12_500.0, "p99 12.500 ms"),
            ("temperature_before_celsius", 41.0, "temperature before 41 °C"),
            ("udp_lost_percent", 0.25, "udp lost 0.250 %"),
            ("rounds", 7.0, "rounds 7"),
        ];
        for (name, value, expected) in shown {
            assert_eq!(measurement(name, value), expected);
        }
        assert_eq!([0, 1, 2].map(faults), ["no faults", "1 fault", "2 faults"]);
    }
}
