//! What a processor offers for confidential computing: enclaves of SGX, and guests with encrypted memory of SEV.

use crate::{Root, ask::Question};
use kernel::bytes::le32;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const NODES: &str = "/sys/devices/system/node";
/// Sections of enclave memory that are looked for, by subleaf.
const SECTIONS: std::ops::Range<u32> = 2..10;

/// Software Guard Extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sgx {
    /// Whether firmware and kernel have enabled it.
    pub is_enabled: bool,
    /// Whether enclaves may grow (SGX2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_sgx2: Option<bool>,
    /// Memory for enclaves (EPC), bytes; absent while the firmware sets none aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enclave_bytes: Option<u64>,
}

/// AMD's memory encryption (CPUID 8000001Fh). That the processor has it does not mean that it is enabled: see
/// `security.memory_encryption_features`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryEncryption {
    /// What the processor has: sme, sev, sev_es, sev_snp.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Guests with encrypted memory that may run at the same time.
    pub guests: u32,
    /// Those of them that must be SEV-ES or SEV-SNP; the firmware divides them.
    pub es_guests: u32,
    /// Privilege levels in a guest (VMPL).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_privilege_levels: Option<u32>,
    /// Bits of physical addresses that encryption takes away.
    pub lost_address_bits: u32,
}

/// EAX, EBX, ECX and EDX; `None` where the processor has no such leaf.
fn cpuid(root: &Root, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    let answer = root.ask(&Question::Cpuid { leaf, subleaf }).ok()?;
    let [a, b, c, d] = [0, 4, 8, 12].map(|at| le32(&answer, at));
    Some([a?, b?, c?, d?])
}

/// `None` for a processor without it.
pub(super) fn sgx(root: &Root, flags: &BTreeSet<String>) -> Option<Sgx> {
    let is_enabled = flags.contains("sgx");
    let [_, features, ..] = cpuid(root, 7, 0).unwrap_or_default();
    if features >> 2 & 1 == 0 && !is_enabled {
        return None;
    }
    let versions = cpuid(root, 0x12, 0).map(|[versions, ..]| versions);
    Some(Sgx {
        is_enabled,
        has_sgx2: versions.map(|versions| versions >> 1 & 1 == 1).filter(|_| versions.is_some_and(|v| v & 1 == 1)),
        enclave_bytes: by_node(root).or_else(|| by_section(root)).filter(|bytes| *bytes > 0),
    })
}

/// What the kernel uses.
fn by_node(root: &Root) -> Option<u64> {
    let nodes = root.list(NODES).into_iter().filter(|name| name.starts_with("node"));
    nodes.filter_map(|node| root.number(format!("{NODES}/{node}/x86/sgx_total_bytes"))).reduce(u64::saturating_add)
}

/// What the processor has (Intel SDM, CPUID 12h): sizes from bit 12 on, in two registers.
fn by_section(root: &Root) -> Option<u64> {
    let sections = SECTIONS.map_while(|subleaf| cpuid(root, 0x12, subleaf).filter(|[kind, ..]| kind & 0xf == 1));
    sections
        .map(|[_, _, low, high]| u64::from(high & 0xf_ffff) << 32 | u64::from(low & 0xffff_f000))
        .reduce(u64::saturating_add)
}

/// `None` for a processor without it.
pub(super) fn memory_encryption(root: &Root) -> Option<MemoryEncryption> {
    let [features, sizes, guests, first_plain] = cpuid(root, 0x8000_001f, 0)?;
    let names = [(0, "sme"), (1, "sev"), (3, "sev_es"), (4, "sev_snp")];
    let features: Vec<String> =
        names.iter().filter(|(bit, _)| features >> bit & 1 == 1).map(|(_, name)| (*name).to_owned()).collect();
    (!features.is_empty()).then(|| MemoryEncryption {
        features,
        guests,
        es_guests: first_plain.saturating_sub(1).min(guests),
        guest_privilege_levels: Some(sizes >> 12 & 0xf).filter(|levels| *levels > 0),
        lost_address_bits: sizes >> 6 & 0x3f,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn add(tree: &Tree, leaf: &str, registers: [u32; 4]) {
        tree.add(&format!("landfall/cpuid/{leaf}"), registers.map(u32::to_le_bytes).concat());
    }

    #[test]
    fn enclaves() {
        let tree = Tree::new(&[]);
        assert_eq!(sgx(&tree.root(), &BTreeSet::new()), None);
        add(&tree, "00000007-0", [0, 4, 0, 0]);
        assert_eq!(sgx(&tree.root(), &BTreeSet::new()), Some(Sgx::default()));
        add(&tree, "00000012-0", [3, 0, 0, 0]);
        add(&tree, "00000012-2", [0x8000_0001, 0, 0xf000_0001, 3]);
        add(&tree, "00000012-3", [0x8000_0001, 0, 0x1000_0001, 0]);
        let flags = BTreeSet::from(["sgx".to_owned()]);
        let found = sgx(&tree.root(), &flags).unwrap();
        let bytes = (3 << 32 | 0xf000_0000) + 0x1000_0000;
        assert_eq!(found, Sgx { is_enabled: true, has_sgx2: Some(true), enclave_bytes: Some(bytes) });
        tree.add("sys/devices/system/node/node0/x86/sgx_total_bytes", "4096\n");
        tree.add("sys/devices/system/node/node1/x86/sgx_total_bytes", "8192\n");
        assert_eq!(sgx(&tree.root(), &flags).unwrap().enclave_bytes, Some(12_288));
    }

    #[test]
    fn encrypted_guests() {
        let tree = Tree::new(&[]);
        assert_eq!(memory_encryption(&tree.root()), None);
        // 509 guests, of which the first 99 are SEV-ES'; 5 bits of addresses, four levels.
        add(&tree, "8000001f-0", [0x1b, 4 << 12 | 5 << 6 | 51, 509, 100]);
        let found = memory_encryption(&tree.root()).unwrap();
        assert_eq!(found.features, ["sme", "sev", "sev_es", "sev_snp"]);
        assert_eq!((found.guests, found.es_guests, found.lost_address_bits), (509, 99, 5));
        assert_eq!(found.guest_privilege_levels, Some(4));
        tree.add("landfall/cpuid/8000001f-0", [0; 7]);
        assert_eq!(memory_encryption(&tree.root()), None);
    }
}
