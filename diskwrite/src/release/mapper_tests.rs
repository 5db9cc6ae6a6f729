use super::*;
use proptest::prelude::*;

fn encode(number: DevNumber) -> u64 {
    let (major, minor) = (u64::from(number.major), u64::from(number.minor));
    (minor & 0xFF) | ((major & 0xFFF) << 8) | ((minor & 0xFFF_FF00) << 12)
}

fn answer(device: &Mapped, deps: &[DevNumber]) -> Vec<u8> {
    let mut bytes = vec![0; BUFFER_BYTES];
    bytes[at::DATA_SIZE..][..4]
        .copy_from_slice(&u32::try_from(HEADER_BYTES + 8 + deps.len() * 8).unwrap().to_ne_bytes());
    bytes[at::DATA_START..][..4].copy_from_slice(&u32::try_from(HEADER_BYTES).unwrap().to_ne_bytes());
    bytes[at::OPEN_COUNT..][..4].copy_from_slice(&3u32.to_ne_bytes());
    bytes[at::DEV..][..8].copy_from_slice(&encode(device.number).to_ne_bytes());
    bytes[at::NAME..][..device.name.len()].copy_from_slice(device.name.as_bytes());
    bytes[at::UUID..][..device.uuid.len()].copy_from_slice(device.uuid.as_bytes());
    bytes[HEADER_BYTES..][..4].copy_from_slice(&u32::try_from(deps.len()).unwrap().to_ne_bytes());
    for (index, number) in deps.iter().enumerate() {
        bytes[HEADER_BYTES + 8 + index * 8..][..8].copy_from_slice(&encode(*number).to_ne_bytes());
    }
    bytes
}

fn number(major: u32, minor: u32) -> DevNumber {
    DevNumber { major, minor }
}

fn device() -> Mapped {
    Mapped { name: "vg0-root".into(), uuid: "LVM-abc".into(), number: number(253, 4), on: vec![number(8, 3)] }
}

#[test]
fn numbers_are_those_of_the_kernel() {
    // new_encode_dev of linux/kdev_t.h.
    assert_eq!(encode(number(8, 3)), 0x803);
    assert_eq!(encode(number(259, 0x12345)), 0x1231_0345);
    assert_eq!(nix::sys::stat::makedev(259, 0x12345), encode(number(259, 0x12345)));
}

#[test]
fn answers_are_read_and_their_ends_checked() {
    let (device, deps) = (device(), [number(8, 3), number(259, 1 << 16)]);
    let bytes = answer(&device, &deps);
    let known = status(&bytes).unwrap();
    assert_eq!((known.number, known.open_count), (device.number, 3));
    assert_eq!((known.name, known.uuid), (device.name.clone(), device.uuid.clone()));
    assert_eq!(dependencies(&bytes).unwrap(), deps);
    // One more than there is room for.
    let mut long = bytes.clone();
    long[HEADER_BYTES] = 3;
    assert!(matches!(dependencies(&long), Err(AnswerError::Short)));
    let mut full = bytes.clone();
    full[at::FLAGS + 1] = 1;
    assert!(matches!(dependencies(&full), Err(AnswerError::Full)));
    let mut endless = bytes.clone();
    endless[at::NAME..at::NAME + NAME_BYTES].fill(b'x');
    assert!(matches!(status(&endless), Err(AnswerError::Text)));
    // Without a table there is no list.
    let mut none = bytes;
    none[at::DATA_SIZE..][..4].copy_from_slice(&312u32.to_ne_bytes());
    assert_eq!(dependencies(&none).unwrap(), []);
    assert!(matches!(dependencies(&[]), Err(AnswerError::Short)));
}

#[test]
fn a_question_names_the_device_by_one_key() {
    let by_uuid = question(Some(&device())).unwrap();
    assert_eq!(
        status(&*by_uuid).unwrap(),
        Status { number: number(0, 0), open_count: 0, name: String::new(), uuid: "LVM-abc".into() }
    );
    let by_name = question(Some(&Mapped { uuid: String::new(), ..device() })).unwrap();
    assert_eq!(status(&*by_name).unwrap().name, "vg0-root");
    assert_eq!(word(&*by_name, at::DATA_SIZE).unwrap(), 16384);
    for bad in
        [Mapped { uuid: "x".repeat(129), ..device() }, Mapped { uuid: String::new(), name: String::new(), ..device() }]
    {
        assert!(question(Some(&bad)).is_err());
    }
    assert!(question(Some(&Mapped { uuid: "x".repeat(128), ..device() })).is_ok());
}

#[test]
fn a_target_that_fails_is_laid_out_as_the_kernel_reads_it() {
    let spec = error_target(0x0102);
    assert_eq!(spec[..24], [&[0; 8][..], &0x0102u64.to_ne_bytes(), &[0; 8]].concat());
    assert_eq!(&spec[24..40], b"error\0\0\0\0\0\0\0\0\0\0\0");
}

#[test]
fn the_control_nodes_number_is_in_proc() {
    assert_eq!(mapper_minor(" 58 rfkill\n236 device-mapper\n237 loop-control\n"), Some(236));
    assert_eq!(mapper_minor("236 not-device-mapper\n"), None);
}

proptest! {
    #[test]
    fn no_answer_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..400), start in 0u32..500, size in 0u32..500) {
        let mut bytes = bytes;
        for (at, value) in [(at::DATA_START, start), (at::DATA_SIZE, size), (at::FLAGS, 0)] {
            if let Some(field) = bytes.get_mut(at..at + 4) {
                field.copy_from_slice(&value.to_ne_bytes());
            }
        }
        let _ = status(&bytes);
        if let Ok(list) = dependencies(&bytes) {
            prop_assert!(list.len() * 8 <= bytes.len());
        }
    }

    #[test]
    fn lists_come_back_as_they_are(all in proptest::collection::vec((0u32..4096, 0u32..1 << 20), 0..200)) {
        let all: Vec<_> = all.into_iter().map(|(major, minor)| number(major, minor)).collect();
        prop_assert_eq!(dependencies(&answer(&device(), &all)).unwrap(), all);
    }
}
