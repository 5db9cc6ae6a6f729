//! A TPM as a captured tree has it, with certificates built here.

use super::*;
use crate::testing::Tree;
use proptest::prelude::*;

/// A tag and what it holds.
fn der(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap();
    let mut bytes = vec![tag];
    match len {
        0..0x80 => bytes.push(len.to_be_bytes()[1]),
        _ => bytes.extend([&[0x82], &len.to_be_bytes()[..]].concat()),
    }
    bytes.extend(body);
    bytes
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    der(0x30, &parts.concat())
}

fn name(parts: &[(&[u8], &str)]) -> Vec<u8> {
    let part = |(id, text): &(&[u8], &str)| der(0x31, &sequence(&[der(6, id), der(0x0c, text.as_bytes())]));
    sequence(&parts.iter().map(part).collect::<Vec<_>>())
}

/// A certificate of a TPM's RSA key with 2048 bits.
fn certificate(serial: &[u8]) -> Vec<u8> {
    const SAN: &[u8] = &[0x55, 0x1d, 0x11];
    let rsa = sequence(&[der(6, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1]), der(5, &[])]);
    let modulus = [&[0][..], &[0xab; 256]].concat();
    let key = sequence(&[der(2, &modulus), der(2, &[1, 0, 1])]);
    let tpm = name(&[
        (&[0x67, 0x81, 5, 2, 1], "id:49465800"),
        (&[0x67, 0x81, 5, 2, 2], "SLB9670"),
        (&[0x67, 0x81, 5, 2, 3], "id:0755"),
    ]);
    let names = sequence(&[der(0xa4, &tpm)]);
    let extension = sequence(&[der(6, SAN), der(1, &[0xff]), der(4, &names)]);
    let signed = sequence(&[
        der(0xa0, &der(2, &[2])),
        der(2, serial),
        rsa.clone(),
        name(&[(&[0x55, 4, 6], "DE"), (&[0x55, 4, 3], "Acme, TPM CA")]),
        sequence(&[der(0x17, b"200102030405Z"), der(0x18, b"99991231235959Z")]),
        name(&[]),
        sequence(&[rsa.clone(), der(3, &[&[0][..], &key].concat())]),
        der(0xa3, &sequence(&[extension])),
    ]);
    sequence(&[signed, rsa, der(3, &[&[0][..], &[0xcd; 256]].concat())])
}

fn capability(group: u32, items: &[Vec<u8>]) -> Vec<u8> {
    [&group.to_be_bytes()[..], &u32::try_from(items.len()).unwrap().to_be_bytes(), &items.concat()].concat()
}

fn machine() -> Tree {
    let tree = Tree::new(&[]);
    let add = |file: &str, bytes: Vec<u8>| {
        tree.add(&format!("landfall/tpm/tpm0/{file}"), bytes);
    };
    let property = |number: u32, value: u32| [number, value].map(u32::to_be_bytes).concat();
    let text = |number: u32, text: &[u8; 4]| property(number, u32::from_be_bytes(*text));
    add(
        "capability-6-100",
        capability(
            6,
            &[
                text(0x100, b"2.0\0"),
                property(0x102, 138),
                property(0x103, 8),
                property(0x104, 2018),
                text(0x105, b"IFX\0"),
                text(0x106, b"SLB9"),
                text(0x107, b"670\0"),
                property(0x10b, 0x0007_0055),
                property(0x10c, 0x0011_cb00),
                property(0x12d, 1),
            ],
        ),
    );
    add("capability-6-200", capability(6, &[property(0x200, 0x0201)]));
    add(
        "capability-0-0",
        capability(0, &[vec![0, 1, 0, 0, 0, 9], vec![0, 0x0b, 0, 0, 0, 4], vec![0x7f, 0, 0, 0, 0, 0]]),
    );
    let handles =
        |handles: &[u32]| capability(1, &handles.iter().map(|one| one.to_be_bytes().to_vec()).collect::<Vec<_>>());
    add(
        "capability-1-1c00002",
        handles(&[0x01c0_0002, 0x01c0_0004, 0x01c0_000a, 0x01c0_0100, 0x01c0_0101, 0x01d0_0000]),
    );
    add("capability-1-81010000", handles(&[0x8101_0001, 0x8102_0000]));
    // Padded, as by some makers.
    add("nv-01c00002", [certificate(&[0, 0xfe, 1, 2, 3, 4, 5, 6]), vec![0xff; 40]].concat());
    add("nv-01c0000a", vec![0; 100]);
    let chain = [certificate(&[1; 8]), certificate(&[2; 8])].concat();
    let (first, second) = chain.split_at(1000);
    add("nv-01c00100", first.to_vec());
    add("nv-01c00101", second.to_vec());
    let mut area = vec![0, 1, 0, 0xb, 0, 3, 0, 0xb2, 0, 0, 0, 6, 0, 0x80, 0, 0x43, 0, 0x10, 8, 0, 0, 0, 0, 0, 1, 0];
    area.extend([0xab; 256]);
    add("public-81010001", area);
    tree
}

#[test]
fn all_that_a_tpm_tells() {
    let found = details(&machine().root(), "tpm0").unwrap();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!((&found.family, &found.revision), (&text("2.0"), &text("1.38")));
    assert_eq!((&found.specification_date, &found.manufacturer), (&text("2018-008"), &text("IFX")));
    assert_eq!((&found.vendor_text, &found.firmware_version), (&text("SLB9670"), &text("7.85.17.51968")));
    assert_eq!(found.algorithms, ["rsa", "sha256", "0x7f00"]);
    assert_eq!((found.fips_140_2, found.has_owner_password, found.is_locked_out), (Some(true), Some(true), Some(true)));
    let [certificate] = &found.endorsement_certificates[..] else { panic!("{found:#?}") };
    let wanted = Certificate {
        nv_index: "01c00002".to_owned(),
        issuer: "CN=Acme\\, TPM CA,C=DE".to_owned(),
        subject: String::new(),
        serial_number: "00fe010203040506".to_owned(),
        not_before: "2020-01-02T03:04:05Z".to_owned(),
        not_after: "9999-12-31T23:59:59Z".to_owned(),
        key: text("RSA 2048"),
        tpm_manufacturer: text("IFX"),
        tpm_model: text("SLB9670"),
        tpm_version: text("id:0755"),
    };
    assert_eq!(certificate, &wanted);
    let serials: Vec<_> = found.certificate_chain.iter().map(|one| one.serial_number.as_str()).collect();
    assert_eq!(serials, ["0101010101010101", "0202020202020202"]);
    let [key] = &found.endorsement_keys[..] else { panic!() };
    assert_eq!((key.handle.as_str(), key.key.as_str(), key.public_key.len()), ("81010001", "RSA 2048", 512));
}

#[test]
fn what_only_one_machine_has() {
    let unique = unique_in_index(&certificate(&[0, 9, 9, 9, 9, 9, 9, 9]));
    assert_eq!(unique, ["09".repeat(7), "ab".repeat(256), "cd".repeat(256)]);
    assert_eq!(details(&Tree::new(&[]).root(), "tpm0"), None);
}

proptest! {
    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz(&bytes);
    }

    #[test]
    fn damaged_certificates_never_panic(at in 0_usize..900, to: u8) {
        let mut bytes = certificate(&[1; 8]);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = to;
        }
        fuzz(&bytes);
    }
}
