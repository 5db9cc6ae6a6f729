//! What is read of a real journald's files against what journalctl says of them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Journald, can_run, journalctl, wait};
use journal::{Journal, Query, Range, SHORT_FIELDS, Short, fuzzing::fuzz_journal, parse_time};
use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

fn ours(directory: &Path, query: &Query, since: Option<&str>) -> String {
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap();
    let since_us = since.map_or(0, |text| parse_time(text, now).unwrap());
    let range = Range { since_us, ..Range::default() };
    let mut journal = Journal::open(&[directory.to_owned()], query, range, SHORT_FIELDS);
    let mut out = Vec::new();
    Short::write_all(&mut journal, &mut out).unwrap();
    assert_eq!(journal.faults(), [""; 0]);
    String::from_utf8_lossy(&out).into_owned()
}

/// Compares what both say to some questions.
fn compare(directory: &Path, what: &str) {
    let same = |args: &[&str], query: Query, since: Option<&str>| {
        let (theirs, ours) = (journalctl(directory, args), ours(directory, &query, since));
        assert!(theirs == ours, "{what}, {args:?}:\njournalctl: {theirs}\nours: {ours}");
        ours.lines().count()
    };
    let agent = same(&["TAG=agent"], Query::field("TAG", "agent"), None);
    assert!(agent >= 100, "{what}: {agent} lines");
    same(&["TAG=installer"], Query::field("TAG", "installer"), None);
    assert!(ours(directory, &Query::field("TAG", "installer"), None).len() > 480_000, "the large one is missing");
    same(&["TAG=nobody"], Query::field("TAG", "nobody"), None);
    same(&["-u", "systemd-journald"], Query::unit("systemd-journald.service"), None);
    same(&["--since", "-1h", "TAG=agent"], Query::field("TAG", "agent"), Some("-1h"));
    same(&["--since", "2200-01-01 00:00:00", "TAG=agent"], Query::field("TAG", "agent"), Some("2200-01-01 00:00:00"));
    assert!(same(&[], Query::everything(), None) >= 150, "{what}");
}

fn fill(journald: &Journald, from: usize) {
    for index in from..from + 50 {
        let (line, long) = (format!("line {index}\n"), format!("long {index} {}", "packs well ".repeat(400)));
        journald.send(&[("MESSAGE", line.as_bytes()), ("TAG", b"agent"), ("SYSLOG_IDENTIFIER", b"landfall")]);
        journald.send(&[("MESSAGE", long.as_bytes()), ("TAG", b"agent"), ("SYSLOG_PID", b"12")]);
        journald.send(&[("MESSAGE", b"two\nlines"), ("TAG", b"installer"), ("PRIORITY", b"3")]);
    }
    journald.send(&[("MESSAGE", b"not text \xff\x01\x1b[1m here"), ("TAG", b"agent")]);
    journald.send(&[("MESSAGE", b""), ("TAG", b"agent")]);
    journald.send(&[("TAG", b"agent"), ("NOTHING", b"to say")]);
    // More than a datagram holds.
    let large = "large ".repeat(80_000);
    journald.send(&[("MESSAGE", large.as_bytes()), ("TAG", b"installer")]);
    journald.send(&[("MESSAGE", b"the last"), ("TAG", b"agent"), ("NUMBER", from.to_string().as_bytes())]);
    let last = [format!("NUMBER={from}")];
    let last = last.each_ref().map(String::as_str);
    wait("the last record", || journalctl(&journald.files(), &last).contains("the last"));
}

#[test]
fn files_of_every_layout_say_what_journalctl_says() {
    if !can_run() {
        return;
    }
    // Variables of systemd's docs/ENVIRONMENT.md.
    let (keyed, compact, packing) =
        ("SYSTEMD_JOURNAL_KEYED_HASH", "SYSTEMD_JOURNAL_COMPACT", "SYSTEMD_JOURNAL_COMPRESS");
    for variables in [
        [(keyed, "1"), (compact, "1"), (packing, "zstd")],
        [(keyed, "0"), (compact, "0"), (packing, "lz4")],
        [(keyed, "1"), (compact, "0"), (packing, "xz")],
    ] {
        let mut journald = Journald::start(&variables);
        fill(&journald, 0);
        // Still open, and so not closed cleanly.
        compare(&journald.files(), &format!("{variables:?}, online"));
        if variables[0].1 == "1" && variables[1].1 == "1" {
            // Rotated: an archived file and a new one.
            let count = || {
                let mut list = Vec::new();
                files_in(&journald.files(), &mut list);
                list.len()
            };
            let before = count();
            journald.rotate();
            wait("a second file", || count() > before);
            fill(&journald, 50);
            compare(&journald.files(), "rotated");
        }
        journald.end();
        compare(&journald.files(), &format!("{variables:?}, closed"));
        cut_and_damaged(&journald.files());
    }
}

fn files_in(directory: &Path, list: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_in(&path, list) } else { list.push(path) }
    }
}

/// A file that ends early gives what is there; one with noise in it neither hangs nor panics.
fn cut_and_damaged(directory: &Path) {
    let mut list = Vec::new();
    files_in(directory, &mut list);
    let whole = fs::read(&list[0]).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let cut = fuzz_journal(&whole[..used - 4096]);
    assert!(cut > 100, "{cut} entries of a file without its last 4 KiB");
    let mut random = fastrand::Rng::with_seed(7);
    // From the first object behind the two hash tables on.
    let objects = used - 60_000..used;
    for _ in 0..5 {
        let mut noisy = whole[..used].to_vec();
        for _ in 0..200 {
            noisy[random.usize(objects.clone())] = random.u8(..);
        }
        fuzz_journal(&noisy);
    }
}
