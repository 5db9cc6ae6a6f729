//! Areas for kernel arguments: listed, in the header, on recorded ISOs, damaged.

use super::*;
use crate::testing::image;
use proptest::prelude::*;
use std::io::Cursor;

fn found(info: &str, area: &[u8]) -> Result<Option<Kargs>, KargsError> {
    let bytes = image(&[("COREOS/KARGS.JSO", info.as_bytes()), ("EFI/GRUB.CFG", area)]);
    Kargs::find(&mut Iso::open(Cursor::new(bytes)).unwrap())
}

#[test]
fn the_end_and_the_padding_may_be_others() {
    for (more, area, expected) in [
        ("", &b"xx a=1 b\n######"[..], b"c\n########".as_slice()),
        (r#","pad":" ","end":"\n""#, b"xx a=1 b\n      ", b"c\n        "),
        (r#","pad":"\n","end":"!""#, b"xx a=1 b!\n\n\n\n\n\n", b"c!\n\n\n\n\n\n\n\n"),
    ] {
        let info = format!(r#"{{"default":"a=1","size":12,"files":[{{"path":"efi/grub.cfg","offset":3{more}}}]}}"#);
        let kargs = found(&info, area).unwrap().unwrap();
        assert_eq!((kargs.current(), kargs.default_arguments()), ("a=1 b", "a=1"), "{more}");
        let [patch] = &kargs.patches("c").unwrap()[..] else { panic!("one place") };
        assert!(expected.starts_with(&patch.bytes[..2]), "{patch:?}");
        assert!(kargs.patches("a=1 b").unwrap().is_empty(), "what is the same is not written");
        assert_eq!(kargs.patches("01234567890").unwrap().len(), 1);
        let error = kargs.patches("012345678901").unwrap_err().to_string();
        assert_eq!(error, "kargs too large for area: 13 vs 12");
    }
}

#[test]
fn lists_that_make_no_sense_are_refused() {
    for (info, expected) in [
        ("{", "decoding kargs embed area info"),
        (r#"{"default":"","size":2049,"files":[]}"#, "karg embed area size larger than 2048 (found 2049)"),
        (r#"{"default":"abc","size":2,"files":[]}"#, "default kargs size 3 larger than embed areas (2)"),
        (r#"{"default":"","size":2,"files":[]}"#, "No karg embed areas found; corrupted CoreOS ISO image."),
        (r#"{"default":"","size":2,"files":[{"path":"x","offset":0}]}"#, "looking up 'x'"),
        (r#"{"default":"","size":2,"files":[{"path":"efi/grub.cfg","offset":99999}]}"#, "reading kargs embed area"),
        (
            r#"{"default":"","size":4,"files":[{"path":"efi/grub.cfg","offset":0},{"path":"efi/grub.cfg","offset":4}]}"#,
            "kargs don't match at all offsets! (expected 'a', but offset 45060 has: 'b')",
        ),
    ] {
        assert_eq!(found(info, b"a\n##b\n##").unwrap_err().to_string(), expected, "{info}");
    }
}

#[test]
fn real_isos_have_room_in_every_boot_loader() {
    for name in ["2021-12.iso", "2022-02.iso", "2023-07.x86_64.iso"] {
        let Some(packed) = testkit::recordings::path(&format!("data/iso/embed-areas-{name}.xz")) else { continue };
        let packed = File::open(packed).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::copy(&mut liblzma::read::XzDecoder::new(packed), &mut file).unwrap();
        let patches = append_patches(file.path(), &["quiet".to_owned(), "x=y".to_owned()]).unwrap();
        assert_eq!(patches.len(), 2, "{name}");
        for patch in &patches {
            let text = String::from_utf8_lossy(&patch.bytes);
            assert!(text.len() < 20 && text.starts_with(" quiet x=y"), "{name}: {text:?}");
        }
        let mut bytes = std::fs::read(file.path()).unwrap();
        for patch in patches {
            let at = usize::try_from(patch.offset).unwrap();
            bytes[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
        }
        let mut iso = Iso::open(Cursor::new(bytes)).unwrap();
        let kargs = Kargs::find(&mut iso).unwrap().unwrap();
        assert_eq!(kargs.current(), format!("{} quiet x=y", kargs.default_arguments()), "{name}");
    }
    assert!(matches!(append_patches(Path::new("/dev/null"), &[]), Err(KargsError::Iso(_))));
}

proptest! {
    #[test]
    fn no_list_makes_it_panic(info in "[\\[\\]{}\":,a-z0-9#\n]{0,80}", size in any::<u64>(), offset in any::<u64>(), area in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = found(&info, &area);
        let info = format!(r#"{{"default":"","size":{size},"files":[{{"path":"efi/grub.cfg","offset":{offset}}}]}}"#);
        if let Ok(Some(kargs)) = found(&info, &area) {
            let _ = kargs.patches("a=b");
        }
    }

    #[test]
    fn no_header_makes_it_panic(numbers in proptest::collection::vec(prop_oneof![any::<u64>(), 0_u64..50_000], 8)) {
        let mut bytes = image(&[("A", &b"a\n##"[..])]);
        let header: Vec<u8> = b"coreKarg".iter().copied().chain(numbers.iter().flat_map(|n| n.to_le_bytes())).collect();
        bytes[32_672..32_744].copy_from_slice(&header);
        let _ = Kargs::find(&mut Iso::open(Cursor::new(bytes)).unwrap());
    }
}
