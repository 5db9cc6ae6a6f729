//! Entries as firmware makes them, byte for byte, and as it must not.

use super::*;
use crate::boot_order::device_path::PathError;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let (pairs, _) = digits.as_chunks::<2>();
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What OVMF makes for a drive: the vendor's GUID behind the path says that the firmware may remove it.
const DVD: &str = "
    01000000 1e00
    55004500460049002000510045004d00550020004400560044000000
    02010c00 d041030a 00000000
    01010600 0101
    03010800 01000000
    7fff0400
    4eac0881119f594d850ee21a522c59b2";

/// What efibootmgr makes for a disk.
const DISK: &str = "
    01000000 6200
    5200480045004c000000
    04012a00 02000000 0010000000000000 00f8030000000000 0102030405060708090a0b0c0d0e0f10 0202
    04043400 5c004500460049005c007200650064006800610074005c007300680069006d007800360034002e006500660069000000
    7fff0400";

#[test]
fn reads_what_firmware_makes() {
    let option = LoadOption::parse(&hex(DVD)).unwrap();
    assert_eq!((&*option.description, option.is_active(), option.loader()), ("UEFI QEMU DVD", true, None));
    assert_eq!(option.path_text(), "PciRoot(0x0)/Pci(0x1,0x1)/Path(3,1,4 bytes)");
    assert_eq!((option.partition(), option.optional_data.len()), (None, 16));
    assert_eq!(option.to_bytes(), hex(DVD));
}

#[test]
fn writes_what_efibootmgr_writes() {
    let guid = std::array::from_fn(|index| u8::try_from(index).unwrap() + 1);
    let option = LoadOption::file("RHEL", HardDrive::gpt(2, 4096, 260_096, guid), r"\EFI\redhat\shimx64.efi");
    assert_eq!(option.to_bytes(), hex(DISK));
    assert_eq!(LoadOption::parse(&hex(DISK)), Ok(option.clone()));
    assert_eq!(option.loader(), Some(r"\EFI\redhat\shimx64.efi"));
    assert_eq!(option.partition().unwrap().guid(), Some(guid));
    assert_eq!(
        option.path_text(),
        r"HD(2,GPT,04030201-0605-0807-090a-0b0c0d0e0f10,0x1000,0x3f800)/\EFI\redhat\shimx64.efi"
    );
}

#[test]
fn what_is_cut_off_is_no_entry() {
    let whole = hex(DISK);
    for len in 0..whole.len() {
        assert!(LoadOption::parse(&whole[..len]).is_err(), "{len}");
    }
    assert_eq!(LoadOption::parse(&whole[..5]), Err(LoadOptionError::Short(5)));
    assert_eq!(LoadOption::parse(&whole[..14]), Err(LoadOptionError::Description));
    assert_eq!(LoadOption::parse(&whole[..40]), Err(LoadOptionError::Paths { len: 98, remaining: 24 }));
}

#[test]
fn nodes_that_lie_about_their_length_end_the_reading() {
    let entry = |path: &str| {
        let path = hex(path);
        let len = u16::try_from(path.len()).unwrap().to_le_bytes();
        LoadOption::parse(&[&[1, 0, 0, 0], &len[..], &[0, 0], &path].concat())
    };
    assert_eq!(entry("7fff0400").unwrap().path, []);
    assert_eq!(entry("04030000 7fff0400"), Err(PathError::Node { offset: 0, len: 0, remaining: 8 }.into()));
    assert_eq!(
        entry("01010600 0000 0401ffff 7fff0400"),
        Err(PathError::Node { offset: 6, len: 65535, remaining: 8 }.into())
    );
    assert_eq!(entry("01010600 0000"), Err(PathError::Endless.into()));
    assert_eq!(entry(""), Err(PathError::Endless.into()));
    // A hard drive of another size, and a file that is no text, are kept as they are.
    for odd in ["04010500 01 7fff0400", "04040600 4100 7fff0400", "04040700 410000 7fff0400", "04040600 00d8 7fff0400"]
    {
        let option = entry(odd).unwrap();
        assert!(matches!(&option.path[..], [Node::Other { kind: 4, .. }]), "{option:?}");
        assert_eq!(LoadOption::parse(&option.to_bytes()), Ok(option));
    }
}

#[test]
fn nothing_hostile_reaches_a_terminal() {
    let option = LoadOption::file("\u{1b}[2Jgone", HardDrive::gpt(1, 1, 1, [0; 16]), "\\\u{7}\r");
    assert_eq!(option.label(), "?[2Jgone");
    assert!(option.path_text().ends_with(r"/\??"));
    let uri = [hex("03181f00"), b"http://h/boot.efi?token=secret".to_vec(), hex("7fff0400")].concat();
    let mut bytes = vec![1, 0, 0, 0, u8::try_from(uri.len()).unwrap(), 0, 0, 0];
    bytes.extend(uri);
    // One byte of the URI's length is not there.
    assert!(LoadOption::parse(&bytes).is_err());
    bytes[8 + 2] = 34;
    assert_eq!(LoadOption::parse(&bytes).unwrap().path_text(), "Uri(http://h/boot.efi)");
}

/// Whatever the bytes, reading ends; and what was read and written reads the same.
#[test]
fn any_bytes_are_read_or_refused() {
    let mut random = fastrand::Rng::with_seed(7);
    let seeds = [hex(DVD), hex(DISK)];
    for _ in 0..5000 {
        let mut bytes = seeds[random.usize(..2)].clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        super::super::fuzz_load_option(&bytes);
    }
}
