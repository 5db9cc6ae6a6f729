//! What the TPM of a machine proves of its boot through UEFI: the same kernel is the same boot, and a tampered one is named.

#![allow(clippy::unwrap_used)]

use crate::facts;

use api::attest::AttestReply;
use attestation::boot::{Boot, differences};
use facts::Facts;
use qemu_tests::{
    images::Drivers,
    media, paths,
    vm::{DirectKernel, Firmware, Vm},
};
use serde_json::Value;
use std::{fs, path::Path, time::Instant};

const NONCE: [u8; 32] = [0x3c; 32];

/// What the machine's TPM proves. Each machine has another one.
fn boot(name: &str, kernel: DirectKernel) -> Boot {
    let machine = Vm::builder("attest", name).memory_mib(768).firmware(Firmware::Uefi).kernel(kernel);
    let mut vm = machine.tpm().shell().start().unwrap();
    let mut facts = Facts::ask(&mut vm);
    // Where the kernel shows the firmware's log.
    facts.run("[ -e /sys/kernel/security/tpm0 ] || mount -t securityfs securityfs /sys/kernel/security");
    let nonce = kernel::hex::lower(NONCE);
    let reply = facts.run(&format!("landfall attest --nonce {nonce} --json"));
    let AttestReply { evidence, .. } = serde_json::from_slice(&reply).unwrap();
    let proven = evidence.check(&NONCE).unwrap();
    assert!(proven.events.len() > 10, "{:#?}", proven.events);
    let replayed = evidence.check(&[0; 32]).unwrap_err().to_string();
    assert_eq!(replayed, "the quote has another nonce: it was made for another request, or is replayed");
    let report: Value = serde_json::from_slice(&facts.run("landfall report --json")).unwrap();
    let measured = &report["security"]["tpms"][0]["measured_boot"];
    println!("{name}: {}, {} events", measured["outcome"], measured["events"]);
    assert_eq!(measured["leads_to_registers"], true, "{measured:#}");
    // UEFI started the kernel itself, with its arguments.
    let digests = |list: &str| -> Vec<&str> {
        measured[list].as_array().unwrap().iter().map(|one| one["sha256"].as_str().unwrap()).collect()
    };
    for (list, kind) in [("programs", "EV_EFI_BOOT_SERVICES_APPLICATION"), ("arguments", "EV_EVENT_TAG")] {
        let known = digests(list);
        let is_known = |digest: String| known.contains(&digest.as_str());
        let mut events = proven.events.iter().filter(|event| event.kind == kind);
        assert!(!known.is_empty() && events.any(|event| is_known(event.sha256.to_string())), "{measured:#}");
    }
    drop(facts);
    vm.quit().unwrap();
    Boot::from(&proven)
}

/// The kernel with one byte of a text changed that is not shown when UEFI starts it.
fn tampered(kernel: &Path, copy: &Path) {
    let mut bytes = fs::read(kernel).unwrap();
    let text = b"No setup signature";
    let at = bytes[..4096].windows(text.len()).position(|window| window == text).unwrap();
    bytes[at] = b'n';
    fs::write(copy, bytes).unwrap();
}

#[test]
fn a_tampered_kernel_or_argument_is_another_boot_and_named() {
    let (began, dir) = (Instant::now(), paths::scratch_dir().unwrap());
    let kernel = || media::shell_system(Drivers::Cloud).unwrap();
    let good = boot("good", kernel());
    assert_eq!(differences(&good, &boot("again", kernel())), Vec::<String>::new());

    let mut arguments = kernel();
    arguments.arguments += " init_on_free=0";
    let found = differences(&good, &boot("argument", arguments)).join("\n");
    println!("{found}");
    assert!(
        found.contains(
            "register 9 (files, and arguments of the kernel): measured: EV_EVENT_TAG 'LOADED_IMAGE::LoadOptions'"
        ),
        "{found}"
    );

    let mut image = kernel();
    let copy = dir.path().join("kernel");
    tampered(&image.kernel, &copy);
    image.kernel = copy;
    let found = differences(&good, &boot("image", image)).join("\n");
    println!("{found}");
    assert!(
        found.starts_with("register 4 (boot loader and kernel): measured: EV_EFI_BOOT_SERVICES_APPLICATION"),
        "{found}"
    );
    println!("attest, four machines: {:.1} s", began.elapsed().as_secs_f64());
}
