//! Station 6: our clock, which certificates are judged by.

use super::{
    handshake::TlsFacts,
    report::{Code, Finding, Station},
    tls::is_clocks_fault,
};
use crate::files::read_text;
use kernel::order;
use std::{fs, path::Path};
use time::{Duration, OffsetDateTime};

/// Below this a clock is right enough for everything the service does.
const TOLERANCE_S: f64 = 5.0;
/// A certificate may have been made yesterday.
const FATAL_S: f64 = 86_400.0;
/// More servers than any host configures.
const MAX_SERVERS: usize = 8;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What must be added to our clock, seconds: positive where it is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offset(pub f64);

impl Offset {
    pub(super) fn to_true_time(self) -> Duration {
        Duration::saturating_seconds_f64(self.0)
    }
}

/// "731 days behind".
pub(super) fn describe(offset: Offset) -> String {
    let side = if offset.0 > 0.0 { "behind" } else { "ahead" };
    let total = offset.to_true_time().abs();
    let seconds = total.whole_seconds();
    let (days, hours, minutes) = (total.whole_days(), total.whole_hours(), total.whole_minutes());
    let size = match seconds {
        172_800.. => format!("{days} days"),
        7200.. => format!("{hours} h {} min", minutes % 60),
        120.. => format!("{minutes} min {} s", seconds % 60),
        10.. => format!("{seconds} s"),
        _ => format!("{} ms", total.whole_milliseconds()),
    };
    format!("{size} {side}")
}

/// Who was asked for the time, and what they said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClockFacts {
    /// Each server, and the offset or why there is none.
    pub servers: Vec<(String, Result<Offset, String>)>,
    /// Where the servers' names are from.
    pub origin: String,
    /// The date of the service's answer, and ours when it came.
    pub date: Option<(OffsetDateTime, OffsetDateTime)>,
}

impl ClockFacts {
    /// The offset and who says so: a time server, else the service's own date.
    pub(super) fn offset(&self) -> Option<(Offset, String)> {
        let mut offsets: Vec<_> =
            self.servers.iter().filter_map(|(name, offset)| Some((*offset.as_ref().ok()?, name.clone()))).collect();
        // One that is wrong among several does not decide.
        order::sort_by(&mut offsets, |(a, _), (b, _)| a.0.total_cmp(&b.0));
        let median = offsets.get(offsets.len() / 2).cloned();
        median.or_else(|| {
            let (theirs, ours) = self.date?;
            Some((Offset((theirs - ours).as_seconds_f64()), "the date of the service's answer".to_owned()))
        })
    }
}

/// The servers that chronyd is configured with, from its configuration and the directories it names.
pub(super) fn chrony_servers(path: &Path) -> Vec<String> {
    let text = read(path);
    let mut servers = sources(&text);
    for line in text.lines() {
        let Some(directory) = line.trim().strip_prefix("sourcedir ") else { continue };
        let entries = fs::read_dir(directory.trim()).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "sources"));
        order::sort(&mut files);
        servers.extend(files.iter().flat_map(|path| sources(&read(path))));
    }
    servers.dedup();
    servers.truncate(MAX_SERVERS);
    servers
}

fn read(path: &Path) -> String {
    read_text(path, MAX_FILE_BYTES).unwrap_or_else(|error| {
        tracing::debug!(path = %path.display(), %error, "no time servers from there");
        String::new()
    })
}

/// `server`, `pool` and `peer` lines (chrony.conf(5)).
fn sources(text: &str) -> Vec<String> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let kind = words.next()?.to_ascii_lowercase();
        matches!(kind.as_str(), "server" | "pool" | "peer").then(|| words.next().map(str::to_owned))?
    };
    text.lines().filter_map(server).collect()
}

/// Is our clock right?
pub(super) fn judge(facts: &ClockFacts, is_https: bool, tls: Option<&TlsFacts>, reached: bool) -> Finding {
    let station = Station::Time;
    let failures: Vec<_> =
        facts.servers.iter().filter_map(|(_, offset)| offset.as_ref().err().map(String::as_str)).collect();
    let failures = failures.join("; ");
    let Some((offset, by)) = facts.offset() else {
        return if facts.servers.is_empty() {
            let seen = "no time source: no time server is known, and the service sent no date";
            Finding::warn(station, Code::NoReference, seen, "name a time server: --ntp SERVER")
        } else {
            Finding::warn(station, Code::ServersSilent, failures, silent_advice(facts))
        };
    };
    let also = if failures.is_empty() { String::new() } else { format!("; {failures}") };
    if offset.0.abs() <= TOLERANCE_S {
        // A date has whole seconds only.
        let by_date = facts.servers.iter().all(|(_, offset)| offset.is_err());
        let size = if by_date { " to about a second".to_owned() } else { format!(": {}", describe(offset)) };
        let seen = format!("right{size}, according to {by}{also}");
        return if by_date && !facts.servers.is_empty() {
            Finding::warn(station, Code::ServersSilent, seen, silent_advice(facts))
        } else {
            Finding::ok(station, seen)
        };
    }
    let code = if offset.0 > 0.0 { Code::ClockBehind } else { Code::ClockAhead };
    let fatal = match tls {
        Some(tls) if !tls.chain.is_empty() => is_clocks_fault(tls, Some(offset)),
        _ => offset.0.abs() >= FATAL_S,
    };
    let because = if is_https && fatal { ", so certificates look expired or not yet valid" } else { "" };
    let seen = format!("our clock is {} according to {by}{because}{also}", describe(offset));
    let next = "set the clock (`chronyc makestep`, or in the firmware setup), and check that chronyd can reach a server; \
                if it is wrong again after each start, replace the clock's battery";
    if is_https && fatal {
        Finding::broken(station, code, seen, next).unless(reached)
    } else {
        Finding::warn(station, code, seen, next)
    }
}

fn silent_advice(facts: &ClockFacts) -> String {
    format!(
        "check that UDP port 123 is open to the time servers (from {}), or name another: --ntp SERVER",
        facts.origin
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_written_in_words() {
        for (seconds, text) in [
            (0.0123, "12 ms behind"),
            (-3.5, "3500 ms ahead"),
            (65.0, "65 s behind"),
            (150.0, "2 min 30 s behind"),
            (-9000.0, "2 h 30 min ahead"),
            (63_158_400.0, "731 days behind"),
            (f64::INFINITY, "106751991167300 days behind"),
        ] {
            assert_eq!(describe(Offset(seconds)), text);
        }
    }

    #[test]
    fn chronys_servers_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let more = directory.path().join("more");
        fs::create_dir(&more).unwrap();
        fs::write(more.join("dhcp.sources"), "server 10.0.0.3 iburst\n").unwrap();
        fs::write(more.join("readme"), "server no\n").unwrap();
        let main = directory.path().join("chrony.conf");
        let text = format!("# server no\npool 2.pool.example iburst\n Server 10.0.0.2\nsourcedir {}\n", more.display());
        fs::write(&main, text).unwrap();
        assert_eq!(chrony_servers(&main), ["2.pool.example", "10.0.0.2", "10.0.0.3"]);
        assert_eq!(chrony_servers(Path::new("/nonexistent")), [] as [&str; 0]);
    }

    #[test]
    fn one_wrong_server_of_three_does_not_decide() {
        let servers = [("a", 0.001), ("b", 99_999.0), ("c", 0.002)];
        let servers = servers.map(|(name, offset)| (name.to_owned(), Ok(Offset(offset)))).into();
        let facts = ClockFacts { servers, ..ClockFacts::default() };
        assert_eq!(facts.offset(), Some((Offset(0.002), "c".to_owned())));
        assert_eq!(judge(&facts, true, None, false).seen, "right: 2 ms behind, according to c");
    }

    #[test]
    fn a_wrong_clock_is_in_the_way_of_certificates_only() {
        let facts = ClockFacts { servers: vec![("a".into(), Ok(Offset(-200_000.0)))], ..ClockFacts::default() };
        let finding = judge(&facts, true, None, false);
        assert_eq!((finding.code, finding.verdict), (Code::ClockAhead, super::super::report::Verdict::Broken));
        let finding = judge(&facts, false, None, false);
        assert_eq!(finding.verdict, super::super::report::Verdict::Warn);
    }
}
