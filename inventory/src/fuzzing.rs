//! What fuzzers call: each function takes hostile bytes and does all that is done with them. Not part of the API.

use crate::{
    ata, attest, bmc, cxl, disks, megaraid, mpt, nvme, optics, pci, scsi, ses, smartarray, smbios::Smbios, tpm,
};
use std::collections::BTreeMap;

/// Decodes an SMBIOS table and writes down every fact of it.
pub fn fuzz_smbios(table: &[u8]) {
    let smbios = Smbios::parse(table.to_vec());
    let _ = smbios.memory_bytes();
    let _ = serde_json::to_string(&smbios.facts());
}

/// Asks a management controller whose replies are cut from the bytes for all that is asked of one.
pub fn fuzz_ipmi(replies: &[u8]) {
    bmc::fuzz(replies);
}

/// Reads the bytes as all that a TPM tells, its certificates among it.
pub fn fuzz_tpm(reply: &[u8]) {
    tpm::fuzz(reply);
    attest::fuzz(reply);
}

/// Reads the bytes as all that an NVMe controller tells.
pub fn fuzz_nvme(reply: &[u8]) {
    nvme::parse_identity(reply);
    nvme::parse_health(reply);
}

/// Reads the bytes as all that an ATA disk tells; what follows the first sector stands for the thresholds. The checksum
/// is corrected, since a fuzzer would not find it.
pub fn fuzz_ata(reply: &[u8]) {
    ata::parse_identity(reply);
    let mut sectors = reply.chunks(512).map(|sector| {
        let mut sector = sector.to_vec();
        if let Some((last, rest)) = sector.split_last_mut() {
            *last = rest.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg();
        }
        sector
    });
    if let Some(data) = sectors.next() {
        ata::parse_identity(&data);
        if let Some(mut health) = ata::parse_health(&data, sectors.next().as_deref()) {
            health.read_logs(Some(&data), sectors.next().as_deref());
        }
    }
}

/// Reads the bytes as all that a MegaRAID controller tells.
pub fn fuzz_megaraid(answer: &[u8]) {
    megaraid::fuzz(answer);
}

/// Reads the bytes as all that a SAS adapter's firmware tells.
pub fn fuzz_mpt(answer: &[u8]) {
    mpt::fuzz(answer);
}

/// Reads the bytes as all that a CXL memory device tells.
pub fn fuzz_cxl(answer: &[u8]) {
    cxl::fuzz(answer);
}

/// Reads the bytes as all that a SCSI disk counts.
pub fn fuzz_scsi(answer: &[u8]) {
    scsi::fuzz(answer);
}

/// Reads the bytes as the pages of an enclosure; the first three say how long each of the first three pages is.
pub fn fuzz_ses(answer: &[u8]) {
    ses::fuzz(answer);
}

/// Reads the bytes as all that a Smart Array controller tells.
pub fn fuzz_smartarray(answer: &[u8]) {
    smartarray::fuzz(answer);
}

/// Takes an entry of udev's database apart.
pub fn fuzz_udev(entry: &[u8]) {
    udev_properties(entry);
}

/// All properties of an entry of udev's database, for comparing with libudev.
pub fn udev_properties(entry: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(entry);
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    kernel::udev::properties(&text, |_| true).into_iter().map(owned).collect()
}

/// Takes a mount table apart.
pub fn fuzz_mountinfo(table: &[u8]) {
    kernel::mounts::mounts(&String::from_utf8_lossy(table));
}

/// Takes what a disk answers apart: vital product data pages and the descriptor of an ISO.
pub fn fuzz_vpd(answer: &[u8]) {
    disks::fuzz_answer(answer);
}

/// Reads the bytes as the memory of an optical module, half a page after the other.
pub fn fuzz_module(memory: &[u8]) {
    optics::fuzz(memory);
}

/// Takes the vital product data of a PCI function apart.
pub fn fuzz_pci_vpd(data: &[u8]) {
    pci::fuzz_vpd(data);
}
