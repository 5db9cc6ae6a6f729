//! The kernel's log as `dmesg -T` shows it, from /dev/kmsg (Documentation/ABI/testing/dev-kmsg).

use journal::local;
use nix::time::{ClockId, clock_gettime};
use std::{
    fmt::Write,
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// One record is at most this long.
const RECORD_BYTES: usize = 8192;
/// The kernel's buffer is at most 32 MiB.
const MAX_BYTES: usize = 40 << 20;
const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// All records, with the wall clock's time.
pub(super) fn log(kmsg: &Path) -> io::Result<String> {
    let boot_us = boot_time_us();
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(kmsg)?;
    let mut text = String::new();
    let mut record = vec![0; RECORD_BYTES];
    // One record at a time. There are no more when reading would wait; overwritten ones are skipped with EPIPE.
    while text.len() < MAX_BYTES {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(len) => write_record(record.get(..len).unwrap_or_default(), boot_us, &mut text),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

/// When the boot's clock was zero, microseconds since 1970.
fn boot_time_us() -> i64 {
    let now = |clock| clock_gettime(clock).map_or(0, |time| time.tv_sec() * 1_000_000 + time.tv_nsec() / 1000);
    now(ClockId::CLOCK_REALTIME) - now(ClockId::CLOCK_BOOTTIME)
}

/// `LEVEL,NUMBER,MICROSECONDS,FLAGS;MESSAGE`, then lines with dictionary entries, which start with a blank.
fn write_record(record: &[u8], boot_us: i64, text: &mut String) {
    let record = String::from_utf8_lossy(record);
    let Some((head, rest)) = record.split_once(';') else { return };
    let us: i64 = head.split(',').nth(2).and_then(|us| us.parse().ok()).unwrap_or(0);
    let time = local(boot_us.saturating_add(us).div_euclid(1_000_000));
    let time = time.and_then(|t| {
        let (day, month) = (DAYS.get(t.weekday0)?, MONTHS.get(t.month0)?);
        Some(format!("[{day} {month} {:2} {:02}:{:02}:{:02} {}] ", t.day, t.hour, t.minute, t.second, t.year))
    });
    let time = time.unwrap_or_else(|| format!("[{us:>12} us] "));
    let message = unescape(rest.split('\n').next().unwrap_or_default());
    for line in message.split('\n') {
        let _ = writeln!(text, "{time}{line}");
    }
}

/// `\xHH` is a byte.
fn unescape(message: &str) -> String {
    let mut bytes = Vec::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once("\\x") {
        bytes.extend(before.bytes());
        match after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.extend(b"\\x");
                rest = after;
            }
        }
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line_with_its_time() {
        let mut text = String::new();
        write_record(b"6,339,5140900,-;eth0: link\\x0ais up \\xe2\\x82\\xac \\xzz\n DEVICE=n2\n", 0, &mut text);
        let lines: Vec<_> = text.lines().map(|line| line.split_once("] ").unwrap()).collect();
        assert!(lines[0].0.starts_with("[Thu Jan  1 ") && lines[0].0.ends_with(":05 1970"), "{text}");
        assert_eq!((lines[0].1, lines[1].1, lines.len()), ("eth0: link", "is up € \\xzz", 2));
        write_record(b"noise", 0, &mut text);
        assert_eq!(text.lines().count(), 2);
    }
}
