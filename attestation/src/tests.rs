//! A machine whose TPM is made of the bytes that one says, and attacks on it.

use crate::{
    Bytes, Digest, Evidence, Fault, KeyFault, Pcr, QUOTED,
    boot::{Boot, differences, from_nearest},
    event_log, public, quote,
};
use proptest::prelude::*;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};

const RESTRICTED_SIGNER: u32 = 0x0005_0472;
const NONCE: [u8; 32] = [7; 32];
const IPL: u32 = 0xd;
const APPLICATION: u32 = 0x8000_0003;

/// Attestation key, and what was measured: register, type, contents.
struct Machine {
    key: EcdsaKeyPair,
    attributes: u32,
    measured: Vec<(u8, u32, Vec<u8>)>,
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

/// Digest as GRUB makes it: of the text behind its first word.
fn digest(kind: u32, data: &[u8]) -> Digest {
    let text = data.strip_prefix(b"kernel_cmdline: ").filter(|_| kind == IPL);
    public::sha256(text.unwrap_or(data))
}

impl Machine {
    fn new() -> Self {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pair.as_ref(), &random).unwrap();
        let measured =
            [(0, 8, "2.4"), (4, APPLICATION, "the image of GRUB"), (4, APPLICATION, "the kernel"), (7, 4, "\0\0\0\0")]
                .map(|(pcr, kind, data)| (pcr, kind, data.as_bytes().to_vec()));
        let line = (8, IPL, b"kernel_cmdline: /vmlinuz quiet".to_vec());
        Self { key, attributes: RESTRICTED_SIGNER, measured: measured.into_iter().chain([line]).collect() }
    }

    /// The public area of a key with these attributes and the machine's point.
    fn public(&self, attributes: u32, cipher: &[u8], scheme: &[u8]) -> Vec<u8> {
        let point = self.key.public_key().as_ref();
        let mut area = vec![0, 0x23, 0, 0x0b];
        area.extend(attributes.to_be_bytes());
        area.extend([0, 0]);
        area.extend([cipher, scheme, &[0, 3, 0, 0x10]].concat());
        area.extend([sized(&point[1..33]), sized(&point[33..])].concat());
        area
    }

    fn endorsement(&self) -> Vec<u8> {
        self.public(0x0003_00b2, &[0, 6, 0, 128, 0, 0x43], &[0, 0x10])
    }

    fn log(&self) -> Vec<u8> {
        log(&self.measured)
    }

    fn quote(&self, magic: &[u8], nonce: &[u8], bits: &[u8; 3], pcrs: &[Pcr]) -> Vec<u8> {
        let mut attest = magic.to_vec();
        attest.extend([sized(b"signer"), sized(nonce)].concat());
        attest.extend([&[0; 8][..], &5_u32.to_be_bytes(), &[0; 4 + 1 + 8], &[0, 0, 0, 1, 0, 0x0b, 3], bits].concat());
        let values: Vec<u8> = pcrs.iter().flat_map(|pcr| pcr.sha256.0).collect();
        attest.extend(sized(&public::sha256(&values).0));
        attest
    }

    fn sign(&self, attest: &[u8]) -> Vec<u8> {
        let signature = self.key.sign(&SystemRandom::new(), attest).unwrap();
        let (r, s) = signature.as_ref().split_at(32);
        [vec![0, 0x18, 0, 0x0b], sized(r), sized(s)].concat()
    }

    fn evidence(&self) -> Evidence {
        let log = self.log();
        let values = event_log::replay(&event_log::parse(&log).unwrap());
        let pcrs: Vec<Pcr> = QUOTED.iter().map(|index| Pcr { index: *index, sha256: values[index] }).collect();
        // Registers 0 to 15 without 10.
        let attest = self.quote(b"\xffTCG\x80\x18", &NONCE, &[0xff, 0xfb, 0], &pcrs);
        let signature = self.sign(&attest);
        Evidence {
            ek_public: Bytes(self.endorsement()),
            ek_certificate: None,
            ak_public: Bytes(self.public(self.attributes, &[0, 0x10], &[0, 0x18, 0, 0x0b])),
            attest: Bytes(attest),
            signature: Bytes(signature),
            pcrs,
            event_log: Bytes(log),
        }
    }

    fn boot(&self) -> Boot {
        Boot::from(&self.evidence().check(&NONCE).unwrap())
    }
}

fn log(measured: &[(u8, u32, Vec<u8>)]) -> Vec<u8> {
    let header = [&b"Spec ID Event03\0"[..], &[0, 0, 0, 0, 0, 2, 0, 2], &[1, 0, 0, 0, 0x0b, 0, 32, 0, 0]].concat();
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    let mut log = [&[0; 4][..], &[3, 0, 0, 0], &[0; 20], &len(&header), &header].concat();
    for (pcr, kind, data) in measured {
        log.extend(u32::from(*pcr).to_le_bytes());
        log.extend(kind.to_le_bytes());
        log.extend([1, 0, 0, 0, 0x0b, 0]);
        log.extend(digest(*kind, data).0);
        log.extend(len(data));
        log.extend(data);
    }
    log
}

#[test]
fn a_sound_quote_proves_the_registers_and_their_events() {
    let machine = Machine::new();
    let facts = machine.evidence().check(&NONCE).unwrap();
    assert_eq!((facts.events.len(), facts.resets, facts.pcrs.len()), (5, 5, 15));
    assert!(facts.ak_name.starts_with("000b") && facts.ak_name.len() == 68);
    let line = facts.events.last().unwrap();
    assert_eq!((line.kind.as_str(), line.description.as_str()), ("EV_IPL", "'kernel_cmdline: /vmlinuz quiet'"));
    let evidence = machine.evidence();
    let again: Evidence = serde_json::from_str(&serde_json::to_string(&evidence).unwrap()).unwrap();
    assert_eq!(again, evidence);
    // A host whose firmware gives no log proves its registers.
    let facts = Evidence { event_log: Bytes::default(), ..evidence }.check(&NONCE).unwrap();
    assert!(facts.events.is_empty());
}

/// The same quote but for this change, signed by the machine's key.
fn resign(machine: &Machine, evidence: &mut Evidence, change: impl FnOnce(&mut Vec<u8>)) {
    change(&mut evidence.attest.0);
    evidence.signature.0 = machine.sign(&evidence.attest.0);
}

/// Where things are in the machine's quotes: the nonce, and the number and the bits of the bank.
const AT_NONCE: usize = 16;
const AT_BANK: usize = 78;
const AT_BITS: usize = 80;

/// Name, change of sound evidence, and why it proves nothing then.
type Attack = (&'static str, fn(&Machine, &mut Evidence), Fault);

#[test]
fn attacks_are_named() {
    let attacks: [Attack; 14] = [
        ("replayed quote", |m, e| resign(m, e, |attest| attest[AT_NONCE] = 9), Fault::Nonce),
        ("altered quote", |_, e| e.attest.0[AT_NONCE] = 9, Fault::Quote(quote::Fault::Signature)),
        (
            "foreign key",
            |_, e| e.ak_public = Machine::new().evidence().ak_public,
            Fault::Quote(quote::Fault::Signature),
        ),
        ("not of a TPM", |m, e| resign(m, e, |attest| attest[0] = 0), Fault::Quote(quote::Fault::Magic)),
        ("certified key", |m, e| resign(m, e, |attest| attest[5] = 0x17), Fault::Quote(quote::Fault::Kind(0x8017))),
        ("wrong selection", |m, e| resign(m, e, |attest| attest[AT_BITS] = 0xfe), Fault::Selection),
        ("other bank", |m, e| resign(m, e, |attest| attest[AT_BANK] = 0x0c), Fault::Selection),
        ("register left out", |_, e| e.pcrs.truncate(14), Fault::Selection),
        ("altered register", |_, e| e.pcrs[4].sha256.0[0] ^= 1, Fault::Registers),
        (
            "altered log",
            |m, e| e.event_log.0 = log(&[&[(0, 8, b"2.5".to_vec())], &m.measured[1..]].concat()),
            Fault::Replay(0),
        ),
        ("event left out", |m, e| e.event_log.0 = log(&m.measured[..4]), Fault::Replay(8)),
        (
            "truncated log",
            |_, e| e.event_log.0.truncate(e.event_log.0.len() - 1),
            Fault::Log(event_log::Fault::Unsound(5)),
        ),
        ("log of SHA-1", |_, e| e.event_log.0.truncate(40), Fault::Log(event_log::Fault::OldForm)),
        ("no endorsement key", |_, e| e.ek_public.0.push(0), Fault::Endorsement(KeyFault::Unsound)),
    ];
    for (name, attack, fault) in attacks {
        let machine = Machine::new();
        let mut evidence = machine.evidence();
        assert!(evidence.check(&NONCE).is_ok(), "{name}");
        attack(&machine, &mut evidence);
        assert_eq!(evidence.check(&NONCE).unwrap_err(), fault, "{name}: {fault}");
    }
}

#[test]
fn a_key_that_may_sign_anything_proves_nothing() {
    let missing = [
        (1 << 1, "fixed to its TPM (fixedTPM)"),
        (1 << 4, "fixed to its parent (fixedParent)"),
        (1 << 5, "made by its TPM (sensitiveDataOrigin)"),
        (1 << 16, "restricted"),
        (1 << 18, "a signing key"),
    ];
    for (bit, name) in missing {
        let machine = Machine { attributes: RESTRICTED_SIGNER & !bit, ..Machine::new() };
        assert_eq!(machine.evidence().check(&NONCE).unwrap_err(), Fault::Unrestricted(name));
    }
    let both = Machine { attributes: RESTRICTED_SIGNER | 1 << 17, ..Machine::new() };
    assert_eq!(both.evidence().check(&NONCE).unwrap_err(), Fault::Unrestricted("a signing key alone"));
}

#[test]
fn a_tampered_boot_is_named_by_its_events() {
    let good = Machine::new();
    assert_eq!(differences(&good.boot(), &Machine::new().boot()), Vec::<String>::new());
    let mut machine = Machine::new();
    machine.measured[4].2 = b"kernel_cmdline: /vmlinuz quiet init=/bin/sh".to_vec();
    let found = differences(&good.boot(), &machine.boot());
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("register 8 (commands and arguments of GRUB): measured: EV_IPL 'kernel_cmdline: /vmlinuz quiet init=/bin/sh' ["),
        "{found:?}"
    );
    assert!(found[0].contains("; missing: EV_IPL 'kernel_cmdline: /vmlinuz quiet' ["), "{found:?}");
    machine.measured[2].2 = b"another kernel".to_vec();
    let found = differences(&good.boot(), &machine.boot());
    assert!(
        found.len() == 2 && found[0].starts_with("register 4 (boot loader and kernel): measured: EV_EFI_BOOT"),
        "{found:?}"
    );
    // The nearer of two good boots is compared with.
    let near = Machine { measured: machine.measured[..4].to_vec(), ..Machine::new() };
    let found = from_nearest([&good.boot(), &near.boot()], &machine.boot()).unwrap();
    assert!(found.len() == 1 && found[0].starts_with("register 8"), "{found:?}");
    assert_eq!(from_nearest([], &machine.boot()), None);
    // Order counts, and registers speak where logs do not.
    let mut swapped = Machine::new();
    swapped.measured.swap(1, 2);
    assert_eq!(
        differences(&good.boot(), &swapped.boot()),
        ["register 4 (boot loader and kernel): the same was measured in another order"]
    );
    let silent = Boot { events: Vec::new(), ..swapped.boot() };
    assert_eq!(
        differences(&good.boot(), &silent),
        ["register 4 (boot loader and kernel): another value; the host has no event log to say why"]
    );
}

#[test]
fn the_tpm_may_have_been_started_from_another_locality() {
    let mut bytes = log(&[]);
    bytes.extend([0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0x0b, 0]);
    bytes.extend([0; 32]);
    bytes.extend([&17_u32.to_le_bytes()[..], b"StartupLocality\0\x03"].concat());
    let registers = event_log::replay(&event_log::parse(&bytes).unwrap());
    assert_eq!((registers[&0].0[31], registers[&1].0), (3, [0; 32]));
}

proptest! {
    #[test]
    fn noise_proves_nothing(at in 0_usize..2000, byte in any::<u8>(), cut in 0_usize..2000) {
        let evidence = Machine::new().evidence();
        for field in 0..5 {
            let mut evidence = evidence.clone();
            let bytes = match field {
                0 => &mut evidence.ek_public.0,
                1 => &mut evidence.ak_public.0,
                2 => &mut evidence.attest.0,
                3 => &mut evidence.signature.0,
                _ => &mut evidence.event_log.0,
            };
            let before = bytes.clone();
            let index = at % bytes.len();
            bytes[index] = byte;
            bytes.truncate(bytes.len() - cut % bytes.len());
            // Texts and types of the log are claims, and so are the keys before they read a credential.
            if *bytes != before && [2, 3].contains(&field) {
                prop_assert!(evidence.check(&NONCE).is_err());
            } else {
                let _ = evidence.check(&NONCE);
            }
        }
    }
}
