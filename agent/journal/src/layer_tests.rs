use super::*;
use std::{collections::BTreeMap, fs, os::unix::net::UnixDatagram};
use tempfile::TempDir;
use tracing_subscriber::layer::SubscriberExt;

/// Takes a record apart as journald does.
fn decode(mut record: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while !record.is_empty() {
        let end = record.iter().position(|byte| *byte == b'\n').unwrap();
        let (line, rest) = (&record[..end], &record[end + 1..]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match line.iter().position(|byte| *byte == b'=') {
            Some(at) => {
                fields.insert(text(&line[..at]), text(&line[at + 1..]));
                record = rest;
            }
            None => {
                let len = usize::try_from(u64::from_le_bytes(rest[..8].try_into().unwrap())).unwrap();
                fields.insert(text(line), text(&rest[8..8 + len]));
                record = &rest[8 + len + 1..];
            }
        }
    }
    fields
}

/// What arrives at a socket of our own when `log` logs.
fn received(log: impl FnOnce()) -> Vec<BTreeMap<String, String>> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let layer = JournalLayer::new(&path, "agent", "").unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
    let mut buffer = vec![0; 1 << 20];
    let mut next = || socket.recv(&mut buffer).ok().map(|len| decode(&buffer[..len]));
    std::iter::from_fn(&mut next).collect()
}

/// Without time and place.
fn body(message: &str) -> String {
    let (time, rest) = message.split_once(" level=").unwrap();
    let digits: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(digits, "time=\"00-00-0000 00:00:00\"");
    let (before, after) = rest.split_once(" file=\"").unwrap();
    let (place, after) = after.split_once('"').unwrap();
    assert!(place.split_once(':').unwrap().1.parse::<u32>().is_ok(), "{place}");
    format!("{before}{after}")
}

#[test]
fn an_event_is_a_record_in_the_form_that_is_searched_for() {
    let records = received(|| {
        let _span = tracing::info_span!("step", id = "inventory-1").entered();
        tracing::info!(error = "a \"b\"\n", path = "/dev/sda", count = 3, "Executing it");
        tracing::warn!("word");
        tracing::info!(target: RELAYED, "a child has sent this itself");
    });
    let bodies: Vec<_> = records.iter().map(|record| body(&record["MESSAGE"])).collect();
    assert_eq!(
        bodies,
        [
            "info msg=\"Executing it\" error=\"a \\\"b\\\"\\n\" path=/dev/sda count=3 step=inventory-1\n",
            "warning msg=word step=inventory-1\n"
        ]
    );
    let fields: Vec<_> = records[1].iter().filter(|(name, _)| *name != "MESSAGE").collect();
    let expected = [("DRY_AGENT_ID", ""), ("PRIORITY", "4"), ("SYSLOG_IDENTIFIER", "agent"), ("TAG", "agent")];
    assert_eq!(
        fields,
        expected
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .iter()
            .map(|(n, v)| (n, v))
            .collect::<Vec<_>>()
    );
}

#[test]
fn without_a_journald_there_is_no_layer() {
    assert!(JournalLayer::new(Path::new("/nonexistent/socket"), "agent", "").is_err());
}

/// The recorded datagrams of the real agent, when they are there.
#[test]
fn the_real_agent_s_records_have_the_same_fields_and_form() {
    let Some(recorded) = testkit::recordings::path("data/wire/journald-native.raw") else { return };
    let recorded = fs::read(recorded).unwrap();
    let ours = received(|| tracing::info!(path = "/x", "Executing it"));
    let ours: Vec<_> = ours[0].keys().filter(|name| *name != "SYSLOG_IDENTIFIER").cloned().collect();
    let mut count = 0;
    let mut rest = recorded.as_slice();
    while let Some(at) = rest.windows(6).position(|window| window == b"\n----\n") {
        let record = decode(&rest[..at]);
        assert_eq!(record.keys().cloned().collect::<Vec<_>>(), ours);
        let message = &record["MESSAGE"];
        assert!(message.ends_with('\n'));
        body(message);
        count += 1;
        rest = &rest[at + 6..];
    }
    assert!(count >= 40, "{count} records");
}
