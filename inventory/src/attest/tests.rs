//! An emulated TPM proves to our crate and to tpm2-tools what it is and what it booted; tpm2-tools prove the same to us.

use super::prove;
use api::attest::{AttestRequest, Bytes, Credential, Digest, Evidence};
use attestation::{Pcr, Public, QUOTED, credential, endorsement};
use kernel::{hex, tpm::exchange};
use std::{fs, io, time::Duration};
use testkit::tpm::{Tpm, has, shown};

const TOOLS: [&str; 6] =
    ["swtpm", "swtpm_setup", "swtpm_localca", "tpm2_checkquote", "tpm2_makecredential", "tpm2_flushcontext"];
const NONCE: [u8; 32] = [0xa5; 32];
const SECRET: [u8; 32] = [0x5a; 32];
/// What tpm2-tools put before a credential in a file.
const FILE_HEADER: [u8; 8] = [0xba, 0xdc, 0xc0, 0xde, 0, 0, 0, 1];

fn ask(tpm: &Tpm, credential: Option<Credential>) -> Result<(Evidence, Option<Bytes>), super::Error> {
    let mut device = tpm.connect();
    let request = AttestRequest { nonce: Digest(NONCE), credential };
    let reply = prove(&mut |command| exchange(&mut device, command), &request, Vec::new())?;
    Ok((reply.evidence, reply.secret))
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn public(bytes: &Bytes) -> Public {
    Public::parse(&bytes.0).unwrap()
}

/// A file that tpm2-tools take.
fn file(tpm: &Tpm, name: &str, bytes: &[u8]) -> String {
    let path = tpm.path(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn name(tpm: &Tpm, name: &str) -> String {
    tpm.path(name).to_str().unwrap().to_owned()
}

fn made(evidence: &Evidence) -> Credential {
    let made = credential::make(&public(&evidence.ek_public), &public(&evidence.ak_public).name(), &SECRET).unwrap();
    Credential { blob: Bytes(made.blob), secret: Bytes(made.secret) }
}

#[test]
fn quotes_and_credentials_are_those_of_other_tools() {
    if !has(&TOOLS) {
        return;
    }
    // The first has endorsement keys of RSA, the second makes one of an elliptic curve.
    for tpm in [Tpm::with_certificates(), Tpm::bare()] {
        let left = || {
            ["handles-transient", "handles-loaded-session", "handles-persistent"]
                .map(|what| tpm.ask("tpm2_getcap", &[what]))
        };
        let before = left();
        tpm.ask("tpm2_pcrextend", &[&format!("8:sha256={}", "ab".repeat(32))]);
        let (evidence, secret) = ask(&tpm, None).unwrap();
        let facts = evidence.check(&NONCE).unwrap();
        assert_eq!((secret, facts.pcrs.len()), (None, 15));
        assert_ne!(facts.pcrs[8].sha256, Digest([0; 32]));
        assert!(evidence.check(&[0; 32]).is_err());

        let signer = file(&tpm, "signer", &sized(&evidence.ak_public.0));
        let quote = file(&tpm, "quote", &evidence.attest.0);
        let signature = file(&tpm, "signature", &evidence.signature.0);
        let nonce = hex::lower(NONCE);
        shown("tpm2_checkquote", &["-u", &signer, "-m", &quote, "-s", &signature, "-g", "sha256", "-q", &nonce]);

        // Ours, and theirs, which our commands read.
        let (again, secret) = ask(&tpm, Some(made(&evidence))).unwrap();
        assert_eq!(secret, Some(Bytes(SECRET.to_vec())));
        assert_eq!(
            (&again.ak_public, &again.ek_public),
            (&evidence.ak_public, &evidence.ek_public),
            "the same keys each time"
        );
        let (key, plain) = (file(&tpm, "endorsement", &sized(&evidence.ek_public.0)), file(&tpm, "plain", &SECRET));
        let out = name(&tpm, "credential");
        let signer_name = hex::lower(public(&evidence.ak_public).name());
        shown("tpm2_makecredential", &["-T", "none", "-u", &key, "-s", &plain, "-n", &signer_name, "-o", &out]);
        let theirs = fs::read(&out).unwrap();
        let theirs = theirs.strip_prefix(&FILE_HEADER).unwrap();
        let len = 2 + usize::from(u16::from_be_bytes([theirs[0], theirs[1]]));
        let theirs = Credential { blob: Bytes(theirs[..len].to_vec()), secret: Bytes(theirs[len..].to_vec()) };
        assert_eq!(ask(&tpm, Some(theirs)).unwrap().1, Some(Bytes(SECRET.to_vec())));

        // A credential for another TPM, or another key in this one, is not read; and the TPM is as it was.
        let foreign = ask(&Tpm::bare(), None).unwrap().0;
        let of_key = Evidence { ak_public: foreign.ak_public.clone(), ..evidence.clone() };
        let of_tpm = Evidence { ek_public: foreign.ek_public, ..evidence.clone() };
        for wrong in [of_key, of_tpm] {
            let error = ask(&tpm, Some(made(&wrong))).unwrap_err().to_string();
            assert!(error.starts_with("the TPM refuses to read the credential: code "), "{error}");
        }
        assert_eq!(left(), before);
        assert_eq!(before[0].trim(), "");
    }
}

#[test]
fn an_endorsement_certificate_is_that_of_the_key_and_of_its_authority() {
    if !has(&TOOLS) {
        return;
    }
    let tpm = Tpm::with_certificates();
    let (evidence, _) = ask(&tpm, None).unwrap();
    let (certificate, key) = (evidence.ek_certificate.unwrap().0, public(&evidence.ek_public));
    let now = Duration::from_secs(4_000_000_000);
    let roots = endorsement::Roots::parse(&tpm.authority()).unwrap();
    endorsement::check(&certificate, &key, Some((&roots, now))).unwrap();
    let others = endorsement::Roots::parse(&Tpm::with_certificates().authority()).unwrap();
    let error = endorsement::check(&certificate, &key, Some((&others, now))).unwrap_err();
    assert!(error.to_string().starts_with("the endorsement certificate is not signed by an authority"), "{error}");
    let foreign = public(&ask(&Tpm::bare(), None).unwrap().0.ek_public);
    assert_eq!(endorsement::check(&certificate, &foreign, None), Err(endorsement::Fault::OtherKey));
    let cut = endorsement::check(&certificate[..100], &key, None).unwrap_err();
    assert!(matches!(cut, endorsement::Fault::Unsound(_)), "{cut}");
}

/// The other way round: tpm2-tools make the keys and the quote, and read our credential.
#[test]
fn other_tools_prove_the_same_to_us() {
    if !has(&TOOLS) {
        return;
    }
    let tpm = Tpm::bare();
    for [endorsement, signer, scheme] in [["rsa", "rsa", "rsassa"], ["ecc", "ecc", "ecdsa"]] {
        let [ek, ak, ek_public, ak_public] = ["ek", "ak", "ek.public", "ak.public"].map(|file| name(&tpm, file));
        tpm.ask("tpm2_createek", &["-c", &ek, "-G", endorsement, "-u", &ek_public]);
        tpm.ask("tpm2_createak", &["-C", &ek, "-c", &ak, "-G", signer, "-g", "sha256", "-s", scheme, "-u", &ak_public]);
        let [quote, signature] = ["quote", "signature"].map(|file| name(&tpm, file));
        let registers = format!("sha256:{}", QUOTED.map(|index| index.to_string()).join(","));
        let nonce = hex::lower(NONCE);
        tpm.ask(
            "tpm2_quote",
            &["-c", &ak, "-l", &registers, "-q", &nonce, "-m", &quote, "-s", &signature, "-g", "sha256"],
        );
        let read = |path: &str| Bytes(fs::read(path).unwrap());
        let area = |path: &str| Bytes(fs::read(path).unwrap().split_off(2));
        let evidence = Evidence {
            ek_public: area(&ek_public),
            ak_public: area(&ak_public),
            attest: read(&quote),
            signature: read(&signature),
            pcrs: QUOTED.map(|index| Pcr { index, sha256: Digest([0; 32]) }).into(),
            ..Evidence::default()
        };
        evidence.check(&NONCE).unwrap();

        let made = made(&evidence);
        let credential = file(&tpm, "credential", &[&FILE_HEADER[..], &made.blob.0, &made.secret.0].concat());
        let [session, out] = ["session", "out"].map(|file| name(&tpm, file));
        tpm.ask("tpm2_startauthsession", &["--policy-session", "-S", &session]);
        tpm.ask("tpm2_policysecret", &["-S", &session, "-c", "e"]);
        let policy = format!("session:{session}");
        tpm.ask("tpm2_activatecredential", &["-c", &ak, "-C", &ek, "-i", &credential, "-o", &out, "-P", &policy]);
        assert_eq!(fs::read(&out).unwrap(), SECRET);
        tpm.ask("tpm2_flushcontext", &[&session]);
    }
}

#[test]
fn a_tpm_that_refuses_or_breaks_off_is_named_and_flushed() {
    // It makes two keys, then refuses the quote.
    let mut sent = Vec::new();
    let area = [0; 4];
    let mut handles = 0x8000_0000_u32..;
    let mut tpm = |command: &[u8]| -> io::Result<Vec<u8>> {
        sent.push(command.to_vec());
        Ok(match command[8..10] {
            [0x01, 0x31] => {
                let body = [&handles.next().unwrap().to_be_bytes()[..], &[0; 4], &sized(&area)].concat();
                [&[0x80, 2, 0, 0, 0, 0, 0, 0, 0, 0], body.as_slice()].concat()
            }
            [0x01, 0x65] => vec![0x80, 1, 0, 0, 0, 10, 0, 0, 0, 0],
            _ => vec![0x80, 1, 0, 0, 0, 10, 0, 0, 0x09, 0xa2],
        })
    };
    let request = AttestRequest { nonce: Digest(NONCE), credential: None };
    let error = prove(&mut tpm, &request, Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the TPM refuses to quote its registers: code 0x9a2, because its endorsement hierarchy has a password: clear the TPM, or remove the password"
    );
    let flushed: Vec<u8> =
        sent.iter().filter(|command| command[8..10] == [0x01, 0x65]).map(|command| command[13]).collect();
    assert_eq!(flushed, [1, 0], "the last one first");
}
