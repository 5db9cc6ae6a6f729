//! What a processor offers for confidential computing: enclaves of SGX, and guests with encrypted memory of SEV and TDX.

use crate::{Root, ask::Question};
use kernel::bytes::{le32, le64};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What the kernel divides among groups of processes: a name and a number in each line.
const CAPACITY: &str = "/sys/fs/cgroup/misc.capacity";
/// `IA32_MKTME_KEYID_PARTITIONING` and `IA32_TME_ACTIVATE` (Intel SDM 4, table 2-2).
const KEYS: u32 = 0x87;
const ACTIVATION: u32 = 0x982;
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
    /// Guests that the kernel lets run with SEV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable_guests: Option<u64>,
    /// Guests that the kernel lets run with SEV-ES or SEV-SNP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable_es_guests: Option<u64>,
    /// Bits of physical addresses that encryption takes away.
    pub lost_address_bits: u32,
}

/// Intel's memory encryption (TME) and its guests with encrypted memory (TDX). Most of it needs the kernel's module `msr`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrustDomains {
    /// Whether the firmware has enabled encryption of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_memory_encrypted: Option<bool>,
    /// Keys for memory (MKTME), without those below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_keys: Option<u32>,
    /// Keys for guests: as many may run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_keys: Option<u32>,
    /// Guests that the kernel lets run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable_guests: Option<u64>,
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
        usable_guests: capacity(root, "sev"),
        usable_es_guests: capacity(root, "sev_es"),
        guests,
        es_guests: first_plain.saturating_sub(1).min(guests),
        guest_privilege_levels: Some(sizes >> 12 & 0xf).filter(|levels| *levels > 0),
        lost_address_bits: sizes >> 6 & 0x3f,
    })
}

fn capacity(root: &Root, name: &str) -> Option<u64> {
    let text = root.attribute(CAPACITY)?;
    text.lines().find_map(|line| line.split_once(' ').filter(|(one, _)| *one == name)?.1.trim().parse().ok())
}

/// `None` for a processor without it. Of one that does not have the registers, they are not read.
pub(super) fn trust_domains(root: &Root, flags: &BTreeSet<String>) -> Option<TrustDomains> {
    let has = |flag: &str| flags.contains(flag);
    let register = |number: u32| le64(&root.ask(&Question::Register { number }).ok()?, 0);
    let low = |value: u64| u32::try_from(value & 0xffff_ffff).ok();
    let has_keys = has("tme") || has("tdx_host_platform");
    let (activation, keys) = if has_keys { (register(ACTIVATION), register(KEYS)) } else { (None, None) };
    let found = TrustDomains {
        is_memory_encrypted: activation.map(|value| value & 3 == 3),
        shared_keys: keys.and_then(low),
        private_keys: keys.and_then(|keys| low(keys >> 32)),
        usable_guests: capacity(root, "tdx"),
    };
    (found != TrustDomains::default()).then_some(found)
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
    fn keys_and_guests_of_trust_domains() {
        let tree = Tree::new(&[]);
        tree.add("landfall/registers/00000087", (u64::from(64_u32) << 32 | 63).to_le_bytes());
        tree.add("landfall/registers/00000982", 0x3f_0000_0003_u64.to_le_bytes());
        // Without the feature they are not read.
        assert_eq!(trust_domains(&tree.root(), &BTreeSet::new()), None);
        tree.add("sys/fs/cgroup/misc.capacity", "sev 509\nsev_es 99\ntdx 31\n");
        let flags = BTreeSet::from(["tme".to_owned()]);
        let expected = TrustDomains {
            is_memory_encrypted: Some(true),
            shared_keys: Some(63),
            private_keys: Some(64),
            usable_guests: Some(31),
        };
        assert_eq!(trust_domains(&tree.root(), &flags), Some(expected.clone()));
        // Without the module `msr`, and with a register that is cut.
        tree.add("landfall/registers/00000087", [0; 7]).add("landfall/registers/00000982", "");
        let usable_guests = expected.usable_guests;
        assert_eq!(
            trust_domains(&tree.root(), &flags),
            Some(TrustDomains { usable_guests, ..TrustDomains::default() })
        );
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
        assert_eq!((found.guest_privilege_levels, found.usable_guests), (Some(4), None));
        tree.add("sys/fs/cgroup/misc.capacity", "sev_es 98\nsev 410\n");
        let found = memory_encryption(&tree.root()).unwrap();
        assert_eq!((found.usable_guests, found.usable_es_guests), (Some(410), Some(98)));
        tree.add("landfall/cpuid/8000001f-0", [0; 7]);
        assert_eq!(memory_encryption(&tree.root()), None);
    }
}
