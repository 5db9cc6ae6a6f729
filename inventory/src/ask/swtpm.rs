//! What an emulated TPM 2.0 (swtpm) is asked, against what `tpm2_getcap` and `openssl` print of the same.

use super::{Question, tpm};
use crate::{
    testing::Tree,
    tpm::{details, wire},
};
use kernel::{bytes::be32, tpm::exchange};
use std::fs;
use testkit::tpm::{Tpm, shown};

#[test]
fn an_emulated_tpm_is_what_other_tools_read() {
    if !testkit::tpm::has(&["swtpm", "swtpm_setup", "swtpm_localca", "tpm2_getcap", "openssl"]) {
        return;
    }
    let emulator = Tpm::with_certificates();
    let mut device = emulator.connect();

    let tree = Tree::new(&[]);
    let mut ask = |question: Question| {
        let mut exchange = |command: &[u8]| exchange(&mut device, command);
        let answer = match question {
            Question::TpmCapability { capability, property, .. } => {
                tpm::capability(&mut exchange, capability, property)
            }
            Question::TpmNv { index, .. } => tpm::nv(&mut exchange, index),
            Question::TpmPublic { handle, .. } => tpm::public(&mut exchange, handle),
            _ => panic!(),
        };
        let answer = answer.unwrap();
        tree.add(question.path().trim_start_matches('/'), &answer);
        answer
    };
    let tpm = || "tpm0".to_owned();
    for (capability, property) in [(wire::PROPERTIES, 0x100), (wire::PROPERTIES, 0x200), (wire::ALGORITHMS, 0)] {
        ask(Question::TpmCapability { tpm: tpm(), capability, property });
    }
    let mut handles = |property| {
        let answer = ask(Question::TpmCapability { tpm: tpm(), capability: wire::HANDLES, property });
        wire::handles(&answer)
    };
    let (indices, keys) = (handles(0x01c0_0002), handles(0x8101_0000));
    for index in &indices {
        ask(Question::TpmNv { tpm: tpm(), index: *index });
    }
    for handle in keys {
        ask(Question::TpmPublic { tpm: tpm(), handle });
    }
    // It has one client at a time.
    drop(device);

    let found = details(&tree.root(), "tpm0").unwrap();
    let printed = emulator.ask("tpm2_getcap", &["properties-fixed"]);
    let raw = |name: &str| {
        let after = printed.split(&format!("TPM2_PT_{name}:")).nth(1).unwrap_or_else(|| panic!("{name}: {printed}"));
        let digits = after.split("raw: ").nth(1).unwrap().lines().next().unwrap().trim();
        digits.strip_prefix("0x").map_or_else(|| digits.parse().unwrap(), |hex| u32::from_str_radix(hex, 16).unwrap())
    };
    let text = |raw: u32| String::from_utf8_lossy(&raw.to_be_bytes()).trim_matches(['\0', ' ']).to_owned();
    assert_eq!(found.family, Some(text(raw("FAMILY_INDICATOR"))));
    assert_eq!(found.manufacturer, Some(text(raw("MANUFACTURER"))));
    let revision = raw("REVISION");
    assert_eq!(found.revision, Some(format!("{}.{:02}", revision / 100, revision % 100)));
    assert_eq!(found.specification_date, Some(format!("{}-{:03}", raw("YEAR"), raw("DAY_OF_YEAR"))));
    let halves = |raw: u32| format!("{}.{}", raw >> 16, raw & 0xffff);
    let firmware = format!("{}.{}", halves(raw("FIRMWARE_VERSION_1")), halves(raw("FIRMWARE_VERSION_2")));
    assert_eq!(found.firmware_version, Some(firmware));
    assert!(["rsa", "ecc", "sha256", "aes"].iter().all(|name| found.algorithms.iter().any(|one| one == name)));
    assert_eq!((found.is_locked_out, found.has_owner_password), (Some(false), Some(false)));

    assert!(found.endorsement_certificates.len() >= 2, "{found:#?}");
    for certificate in &found.endorsement_certificates {
        let file = tree.path().join(format!("landfall/tpm/tpm0/nv-{}", certificate.nv_index));
        let options = ["-noout", "-issuer", "-subject", "-nameopt", "RFC2253", "-serial", "-text"];
        let file = file.to_str().unwrap();
        let printed = shown("openssl", &[&["x509", "-inform", "der", "-in", file], &options[..]].concat());
        let has = |line: String| assert!(printed.lines().any(|one| one.trim() == line), "{line}: {printed}");
        has(format!("issuer={}", certificate.issuer));
        has(format!("subject={}", certificate.subject));
        has(format!("serial={}", certificate.serial_number.to_uppercase()));
        let (kind, size) = certificate.key.as_deref().unwrap().split_once(' ').unwrap();
        has(if kind == "RSA" { format!("Public-Key: ({size} bit)") } else { format!("NIST CURVE: {size}") });
        let parts = [&certificate.tpm_manufacturer, &certificate.tpm_model, &certificate.tpm_version];
        let [maker, model, version] = parts.map(|part| part.as_deref().unwrap());
        let name = format!("DirName:/2.23.133.2.1={maker}/2.23.133.2.2={model}/2.23.133.2.3={version}");
        has(name);
        assert!(certificate.not_after.starts_with("9999-12-31T"), "{certificate:?}");
    }
    // The key of the certificate is the key in the TPM.
    let key = &found.endorsement_keys[0];
    assert_eq!(key.key, "RSA 2048");
    let certificate = fs::read(tree.path().join("landfall/tpm/tpm0/nv-01c00002")).unwrap();
    let modulus: Vec<u8> = (0..key.public_key.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&key.public_key[at..at + 2], 16).unwrap())
        .collect();
    assert!(certificate.windows(modulus.len()).any(|bytes| bytes == modulus));
    assert_eq!(be32(&certificate, 0).map(|start| start >> 16), Some(0x3082));
}
