//! Entries as `journalctl --all` shows them: a line each, with time, host and program before the message.

use super::{
    file::Bytes,
    local,
    merge::{Found, Journal},
};
use std::io::{self, Write};

/// What a line is made of.
pub const SHORT_FIELDS: &[&str] =
    &["MESSAGE", "_HOSTNAME", "SYSLOG_IDENTIFIER", "_COMM", "_PID", "SYSLOG_PID", "_SOURCE_REALTIME_TIMESTAMP"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Writes entries.
#[derive(Debug, Default)]
pub struct Short {
    boot_id: Option<[u8; 16]>,
    written: u64,
}

impl Short {
    /// Writes all of `journal` in journalctl's form, with its text for an empty one.
    pub fn write_all<B: Bytes>(journal: &mut Journal<B>, out: &mut impl Write) -> io::Result<u64> {
        let mut short = Self::default();
        while let Some(found) = journal.next() {
            short.write(&found, out)?;
        }
        if short.written == 0 {
            writeln!(out, "-- No entries --")?;
        }
        Ok(short.written)
    }

    fn write(&mut self, found: &Found, out: &mut impl Write) -> io::Result<()> {
        if self.boot_id.is_some_and(|last| last != found.boot_id) {
            let id = u128::from_be_bytes(found.boot_id);
            writeln!(out, "-- Boot {id:032x} --")?;
        }
        self.boot_id = Some(found.boot_id);
        self.written += 1;
        let Some(message) = found.field("MESSAGE") else { return Ok(()) };
        let head = head(found);
        out.write_all(&head)?;
        if message.is_empty() {
            return out.write_all(b"\n");
        }
        let message = message.strip_suffix(b"\n").unwrap_or(message);
        for (index, line) in message.split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                write!(out, "{:1$}", "", head.len())?;
            }
            out.write_all(line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// All before the message.
fn head(found: &Found) -> Vec<u8> {
    let given = |name| found.field(name).filter(|value: &&[u8]| !value.is_empty());
    let source = given("_SOURCE_REALTIME_TIMESTAMP").and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let time_us: u64 = source.filter(|us| *us > 0).unwrap_or(found.realtime_us);
    let mut head = time(time_us).into_bytes();
    if let Some(host) = given("_HOSTNAME") {
        head.push(b' ');
        head.extend(host);
    }
    head.push(b' ');
    head.extend(given("SYSLOG_IDENTIFIER").or_else(|| given("_COMM")).unwrap_or(b"unknown"));
    if let Some(pid) = given("_PID").or_else(|| given("SYSLOG_PID")) {
        head.push(b'[');
        head.extend(pid);
        head.push(b']');
    }
    head.extend(b": ");
    head
}

/// `Nov 21 02:51:34`, local time.
fn time(us: u64) -> String {
    let local = i64::try_from(us / 1_000_000).ok().and_then(local);
    let month = local.as_ref().and_then(|local| MONTHS.get(local.month0));
    match (local.as_ref(), month) {
        (Some(local), Some(month)) => {
            format!("{month} {:02} {:02}:{:02}:{:02}", local.day, local.hour, local.minute, local.second)
        }
        _ => format!("@{us}"),
    }
}
