use super::{
    fuzzing::fuzz_journal,
    merge::{Journal, Range},
    query::Query,
    short::{SHORT_FIELDS, Short},
    testing::{Form, Record},
};
use proptest::prelude::*;

const FORMS: [Form; 4] = [
    Form { keyed: false, compact: false },
    Form { keyed: true, compact: false },
    Form { keyed: false, compact: true },
    Form { keyed: true, compact: true },
];

const RECORDS: [Record; 4] = [
    (1_000_000, &["MESSAGE=one", "TAG=agent", "_HOSTNAME=h", "SYSLOG_IDENTIFIER=agent", "_PID=7"]),
    (2_000_000, &["MESSAGE=two\nlines", "TAG=installer", "_HOSTNAME=h", "_COMM=i"]),
    (3_000_000, &["MESSAGE=three", "TAG=agent", "_HOSTNAME=h", "_SYSTEMD_UNIT=a.service"]),
    (4_000_000, &["MESSAGE=", "TAG=agent", "_UID=0", "OBJECT_SYSTEMD_UNIT=a.service"]),
];

fn journal(files: &[&[u8]], query: &Query, range: Range) -> (String, Vec<String>) {
    let mut journal = Journal::empty(range, SHORT_FIELDS);
    for (index, file) in files.iter().enumerate() {
        journal.add(format!("f{index}").into(), file.to_vec(), query);
    }
    let mut out = Vec::new();
    Short::write_all(&mut journal, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), journal.faults())
}

/// What stands behind the time.
fn read(files: &[&[u8]], query: &Query) -> Vec<String> {
    let (text, faults) = journal(files, query, Range::default());
    assert_eq!(faults, [""; 0]);
    text.lines().map(|line| line.get(16..).unwrap_or(line).to_owned()).collect()
}

#[test]
fn every_form_of_file_gives_its_entries() {
    for form in FORMS {
        let file = form.file(1, &RECORDS).bytes;
        let all = read(&[&file], &Query::everything());
        assert_eq!(
            all,
            ["h agent[7]: one", "h i: two", "     lines", "h unknown: three", "unknown: "].map(|l| l.to_owned()),
            "{form:?}"
        );
        assert_eq!(read(&[&file], &Query::field("TAG", "agent")).len(), 3, "{form:?}");
        assert_eq!(read(&[&file], &Query::field("TAG", "installer")).len(), 2, "{form:?}");
        assert_eq!(read(&[&file], &Query::unit("a.service")), ["h unknown: three", "unknown: "], "{form:?}");
        let none = journal(&[&file], &Query::field("TAG", "none"), Range::default());
        assert_eq!(none, ("-- No entries --\n".to_owned(), Vec::new()), "{form:?}");
    }
}

#[test]
fn files_are_merged_in_order_and_an_entry_in_two_is_one() {
    let form = FORMS[3];
    let (first, second) = (form.file(1, &RECORDS[..3]).bytes, form.file(3, &RECORDS[2..]).bytes);
    let lines = read(&[&second, &first], &Query::field("TAG", "agent"));
    assert_eq!(lines, ["h agent[7]: one", "h unknown: three", "unknown: "]);
}

#[test]
fn only_entries_of_the_time_asked_for_are_given() {
    let file = FORMS[0].file(1, &RECORDS).bytes;
    let range = Range { since_us: 2_000_000, until_us: 3_000_000 };
    assert_eq!(journal(&[&file], &Query::everything(), range).0.lines().count(), 3);
}

#[test]
fn a_chain_that_leads_back_ends_and_is_named() {
    for form in FORMS {
        let mut made = form.file(1, &RECORDS);
        let array = made.array as u64;
        made.bytes[made.array + 16..made.array + 24].copy_from_slice(&array.to_le_bytes());
        let (text, faults) = journal(&[&made.bytes], &Query::everything(), Range::default());
        assert_eq!(text, "-- No entries --\n");
        assert_eq!(faults, [format!("f0: is damaged at byte {array}: a chain of arrays leads back")]);
    }
}

#[test]
fn an_entry_that_is_damaged_is_left_out_and_the_others_are_not() {
    let mut made = FORMS[1].file(1, &RECORDS);
    let second = made.entries[1];
    made.bytes[second] = 9;
    let (text, faults) = journal(&[&made.bytes], &Query::everything(), Range::default());
    assert_eq!(text.lines().count(), 3);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("an object has the wrong type"), "{faults:?}");
}

#[test]
fn other_files_and_newer_journals_are_reported() {
    let (_, faults) = journal(&[b"short"], &Query::everything(), Range::default());
    assert_eq!(faults, ["f0: is not a journal file"]);
    let mut file = FORMS[0].file(1, &RECORDS).bytes;
    file[13] = 1;
    let (_, faults) = journal(&[&file], &Query::everything(), Range::default());
    assert_eq!(faults, ["f0: needs features 0x100, which are not supported"]);
}

proptest! {
    /// Any damage: no panic, no endless loop, and never more entries than the bytes can hold.
    #[test]
    fn damage_does_no_harm(
        form in 0_usize..4,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..24),
        len in any::<prop::sample::Index>(),
        cut: bool,
    ) {
        let mut file = FORMS[form].file(1, &RECORDS).bytes;
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if cut {
            file.truncate(len.index(file.len()));
        }
        prop_assert!(fuzz_journal(&file) <= 100);
    }

    #[test]
    fn noise_is_no_journal(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert_eq!(fuzz_journal(&bytes), 0);
    }
}
