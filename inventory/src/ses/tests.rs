use super::*;
use proptest::prelude::*;

fn page(code: u8, second: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[code, second][..], &len, &[0, 0, 0, 1], body].concat()
}

/// Two bays, a fan, a power supply and a sensor; the first bay has a drive.
pub(crate) fn pages() -> [Vec<u8>; 4] {
    let mut enclosure = vec![0x11, 0, 4, 36];
    enclosure.extend(0x5003_0480_1f3f_4a3f_u64.to_be_bytes());
    enclosure.extend(b"LSI     SAS3x28         0601");
    let types = [[ARRAY_SLOT, 2, 0, 0], [0x03, 1, 0, 0], [0x02, 1, 0, 0], [0x04, 1, 0, 0]].concat();
    let configuration = page(0x01, 0, &[enclosure, types].concat());
    let states = [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [5, 0, 0, 0x40],
        [0, 0, 0, 0],
        [1, 0x02, 0x10, 3],
        [0, 0, 0, 0],
        [0x42, 0, 0, 0x40],
        [0, 0, 0, 0],
        [1, 0, 50, 0],
    ];
    let status = page(0x02, 0b10, &states.concat());
    let names: Vec<u8> = ["All", "Slot00", "Slot01", "", "Fan A", "", "PSU 1", "", "Ambient"]
        .iter()
        .flat_map(|name| [&[0, 0, 0, u8::try_from(name.len()).unwrap()][..], name.as_bytes()].concat())
        .collect();
    let mut phy = vec![0; 28];
    phy[4..12].copy_from_slice(&0x5003_0480_1f3f_4a3f_u64.to_be_bytes());
    phy[12..20].copy_from_slice(&0x5000_c500_a1b2_c3d5_u64.to_be_bytes());
    let first = [&[0x16, 34, 0, 0, 1, 0, 0, 12][..], &phy].concat();
    let second = [&[0x96, 34, 0, 1, 1, 0, 0, 13][..], &phy].concat();
    [configuration, status, page(0x07, 0, &names), page(0x0a, 0, &[first, second].concat())]
}

/// Two bays, and a part of each kind, with every problem.
pub(crate) fn all_kinds() -> [Vec<u8>; 4] {
    let kinds = [0x02, 0x03, 0x04, 0x06, 0x12, 0x13, 0x07, 0x18, 0x0b];
    let mut enclosure = vec![0x11, 0, 10, 36];
    enclosure.extend(0x5003_0480_1f3f_4a3f_u64.to_be_bytes());
    enclosure.extend(b"LSI     SAS3x28         0601");
    let types: Vec<u8> = kinds.iter().flat_map(|kind| [*kind, 1, 0, 0]).collect();
    let configuration = page(0x01, 0, &[&enclosure[..], &[ARRAY_SLOT, 2, 0, 0], &types].concat());
    let bays = [[0, 0, 0, 0], [1, 0, 2, 0x20], [5, 0, 0, 0]].concat();
    let parts = [
        [3, 0, 0x0e, 0x4f],
        [2, 0x03, 0x10, 0x43],
        [2, 0x40, 50, 0x0f],
        [1, 0x40, 0, 0],
        [0x43, 0x4f, 0x04, 0xd2],
        [3, 0x4a, 0x04, 0xd2],
        [2, 0x40, 0, 0],
        [1, 0x40, 0, 0],
        [2, 0, 0xd0, 0x40],
    ];
    let parts = parts.iter().flat_map(|part| [[0; 4], *part].concat());
    let status = page(0x02, 0b110, &[bays, parts.collect()].concat());
    let names =
        ["", "Slot00", "Slot01", "", "PSU 1", "", "Fan A", "", "Ambient", "", "Buzzer", "", "12 V", "", "12 V in"];
    let names = names.iter().chain(&["", "ESM", "", "SAS3x28", "", "UPS 1"]);
    let names: Vec<u8> =
        names.flat_map(|name| [&[0, 0, 0, u8::try_from(name.len()).unwrap()][..], name.as_bytes()].concat()).collect();
    let bay = |index: u8, slot: u8| {
        let mut phy = vec![0; 28];
        phy[4..12].copy_from_slice(&0x5003_0480_1f3f_4a3f_u64.to_be_bytes());
        phy[12..20].copy_from_slice(&(0x5000_c500_a1b2_c3d5_u64 + u64::from(index)).to_be_bytes());
        [&[0x16, 34, 0, index, 1, 0, 0, slot][..], &phy].concat()
    };
    let additional = page(0x0a, 0, &[bay(0, 12), bay(1, 13)].concat());
    [configuration, status, page(0x07, 0, &names), additional]
}

fn read(pages: &[Vec<u8>; 4]) -> Option<Content> {
    let [a, b, c, d] = pages;
    content([a, b, c, d])
}

#[test]
fn an_enclosure() {
    let found = read(&pages()).unwrap();
    assert_eq!(found.wwn.as_deref(), Some("0x500304801f3f4a3f"));
    assert_eq!(found.conditions, ["critical"]);
    let bay = |number, name: &str, state: &str| EnclosureBay {
        number,
        name: Some(name.to_owned()),
        state: Some(state.to_owned()),
        is_lit: Some(false),
        ..EnclosureBay::default()
    };
    let full = EnclosureBay { wwn: Some("0x5000c500a1b2c3d5".to_owned()), ..bay(12, "Slot00", "ok") };
    let empty = EnclosureBay { is_faulty: true, ..bay(1, "Slot01", "not installed") };
    assert_eq!(found.bays, [full, empty]);
    let short: Vec<_> = found
        .parts
        .iter()
        .map(|part| {
            (part.kind.as_str(), part.name.as_deref().unwrap(), part.state.as_deref().unwrap(), part.is_failing)
        })
        .collect();
    let expected = [
        ("fan", "Fan A", "ok", false),
        ("power supply", "PSU 1", "critical", true),
        ("temperature", "Ambient", "ok", false),
    ];
    assert_eq!(short, expected);
    assert_eq!((found.parts[0].speed_rpm, found.parts[2].temperature_celsius), (Some(5280), Some(30)));
}

#[test]
fn problems_of_parts() {
    let found = read(&all_kinds()).unwrap();
    let problems: Vec<_> = found.parts.iter().map(|part| part.problems.join(", ")).collect();
    let expected = [
        "failed, too hot, warm, no input, no output, voltage too high, voltage too low, current too high",
        "failed",
        "failed, critically high, high, critically low, low",
        "failed",
        "failed, critically high, high, critically low, low",
        "failed, critically high, high",
        "failed",
        "failed",
        "failed, input too low, input too high, no input",
    ];
    assert_eq!(problems, expected);
    assert_eq!([found.parts[4].voltage_millivolts, found.parts[5].current_milliamperes], [Some(12_340); 2]);
    let lamps: Vec<_> = found.bays.iter().map(|bay| (bay.is_lit, bay.is_faulty)).collect();
    assert_eq!(lamps, [(Some(true), true), (Some(false), false)]);
}

#[test]
fn pages_that_are_missing_are_facts_that_are_missing() {
    let [configuration, ..] = pages();
    let found = content([&configuration, &[], &[], &[]]).unwrap();
    assert_eq!((found.bays.len(), found.parts.len(), found.conditions.len()), (2, 3, 0));
    assert_eq!((found.bays[1].number, &found.bays[0].state, found.parts[0].speed_rpm), (1, &None, None));
    assert!(content([&[], &[], &[], &[]]).is_none());
    // An index that counts what stands for all.
    let mut all = pages();
    all[3][8 + 2] = 1;
    all[3][8 + 3] = 2;
    assert_eq!(read(&all).unwrap().bays[1].number, 12);
}

#[test]
fn names_in_pages() {
    let [configuration, _, _, additional] = pages();
    assert_eq!(secrets(&configuration), ["500304801f3f4a3f"]);
    assert_eq!(secrets(&additional)[..2], ["500304801f3f4a3f", "5000c500a1b2c3d5"]);
}

proptest! {
    #[test]
    fn noise_never_panics(answer in prop::collection::vec(any::<u8>(), 0..700)) {
        fuzz(&answer);
    }

    #[test]
    fn nor_does_a_page_with_a_byte_of_it(which in 0..4usize, at in 0..80usize, byte: u8) {
        let mut all = pages();
        if let Some(place) = all[which].get_mut(at) {
            *place = byte;
        }
        read(&all);
        all.iter().for_each(|page| drop(secrets(page)));
    }
}
