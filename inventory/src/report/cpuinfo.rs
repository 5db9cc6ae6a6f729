//! `/proc/cpuinfo`, where the model and the microcode of each processor stand.

use crate::arm;
use kernel::order::Gather;
use std::collections::{BTreeMap, BTreeSet};

/// Makers of RISC-V processors by `mvendorid` (JEDEC's numbers; the kernel's asm/vendorid_list.h).
const RISC_V_VENDORS: [(&str, &str); 6] = [
    ("0x127", "MIPS"),
    ("0x29", "Microchip"),
    ("0x31e", "Andes"),
    ("0x489", "SiFive"),
    ("0x5b7", "T-Head"),
    ("0x710", "SpacemiT"),
];

/// What is said of one online processor. Family, model, stepping and microcode are x86's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Processor {
    pub cpu: u32,
    pub package: Option<u32>,
    pub vendor_id: Option<String>,
    pub model_name: Option<String>,
    pub family: Option<u32>,
    pub model: Option<u32>,
    pub stepping: Option<u32>,
    pub microcode: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuInfo {
    /// In the kernel's order.
    pub processors: Vec<Processor>,
    /// Features that all processors have, sorted.
    pub flags: BTreeSet<String>,
    /// Widths of physical and virtual addresses, bits.
    pub address_bits: Option<(u32, u32)>,
}

pub(super) fn parse(text: &str) -> CpuInfo {
    let mut info = CpuInfo::default();
    let mut last_flags = None;
    // s390x: what it says of all at once, and where each is.
    let mut common_vendor = None;
    let mut mainframe: BTreeMap<u32, usize> = BTreeMap::new();
    let mut current = None;
    let mut implementer = None;
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (key, value) = (key.trim(), value.trim());
        if key == "processor" {
            implementer = None;
            if let Ok(cpu) = value.parse() {
                current = Some(info.processors.len());
                info.processors.push(Processor { cpu, ..Processor::default() });
            }
            continue;
        }
        if let Some(cpu) = key.strip_prefix("processor ").and_then(|cpu| cpu.parse().ok())
            && let Some((_, machine)) = value.rsplit_once("machine =")
        {
            mainframe.insert(cpu, info.processors.len());
            let (vendor_id, model_name) = (common_vendor.clone(), Some(machine.trim().to_owned()));
            info.processors.push(Processor { cpu, vendor_id, model_name, ..Processor::default() });
            continue;
        }
        if key == "cpu number" {
            current = value.parse().ok().and_then(|cpu: u32| mainframe.get(&cpu).copied());
            continue;
        }
        match key {
            // Mostly the very same line for each of them.
            "flags" | "Features" | "features" if last_flags != Some(value) => {
                let flags: BTreeSet<&str> = value.split_ascii_whitespace().gather();
                if last_flags.is_none() {
                    info.flags = flags.into_iter().map(str::to_owned).collect();
                } else {
                    info.flags.retain(|flag| flags.contains(flag.as_str()));
                }
                last_flags = Some(value);
            }
            "address sizes" | "Address Sizes" => info.address_bits = info.address_bits.or_else(|| address_bits(value)),
            _ => {}
        }
        let text = || Some(value.to_owned()).filter(|text| !text.is_empty());
        if key == "vendor_id" && info.processors.is_empty() {
            common_vendor = text();
        }
        let Some(processor) = current.and_then(|at| info.processors.get_mut(at)) else { continue };
        match key {
            "physical id" | "package" => processor.package = value.parse().ok(),
            "vendor_id" => processor.vendor_id = text(),
            "model name" | "Model Name" | "uarch" => processor.model_name = text(),
            "CPU implementer" => {
                implementer = Some(value);
                processor.vendor_id = arm::implementer(value).map(str::to_owned);
            }
            "CPU part" => processor.model_name = implementer.and_then(|by| arm::part(by, value)).map(str::to_owned),
            // LoongArch: `Loongson-64bit`.
            "CPU Family" => processor.vendor_id = value.split('-').next().map(str::to_owned),
            "mvendorid" => processor.vendor_id = risc_v_vendor(value),
            // POWER: `POWER9 (architected), altivec supported`.
            "cpu" => {
                processor.model_name = text();
                processor.vendor_id = value.starts_with("POWER").then(|| "IBM".to_owned());
            }
            "cpu family" => processor.family = value.parse().ok(),
            "model" => processor.model = value.parse().ok(),
            "stepping" => processor.stepping = value.parse().ok(),
            "microcode" => processor.microcode = text(),
            _ => {}
        }
    }
    info
}

/// The number itself if its maker is unknown; 0 means none.
fn risc_v_vendor(id: &str) -> Option<String> {
    let known = RISC_V_VENDORS.iter().find(|(known, _)| *known == id).map(|(_, name)| *name);
    Some(known.unwrap_or(id).to_owned()).filter(|id| id != "0x0")
}

/// `43 bits physical, 48 bits virtual`
fn address_bits(text: &str) -> Option<(u32, u32)> {
    let (physical, rest) = text.split_once(" bits physical, ")?;
    Some((physical.parse().ok()?, rest.strip_suffix(" bits virtual")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_processors_that_differ() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 1\nmodel name\t: X\n\
                    stepping\t: 2\nmicrocode\t: 0x8001138\nphysical id\t: 0\nflags\t\t: fpu svm avx\n\
                    address sizes\t: 43 bits physical, 48 bits virtual\n\nprocessor\t: 3\nphysical id\t: 1\nflags\t\t: svm fpu\n";
        let info = parse(text);
        let first = &info.processors[0];
        assert_eq!((first.family, first.model, first.stepping, first.package), (Some(23), Some(1), Some(2), Some(0)));
        assert_eq!((first.microcode.as_deref(), first.model_name.as_deref()), (Some("0x8001138"), Some("X")));
        assert_eq!((info.processors[1].cpu, info.processors[1].package), (3, Some(1)));
        assert_eq!(info.flags, ["fpu", "svm"].map(str::to_owned).into());
        assert_eq!(info.address_bits, Some((43, 48)));
        let arm = parse("processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n");
        assert_eq!((arm.processors.len(), arm.flags.len(), arm.address_bits), (1, 2, None));
        assert_eq!(parse("model : 3\nprocessor 0: version = FF\n"), CpuInfo::default());
    }

    proptest! {
        #[test]
        fn noise_never_panics(text in "(processor|processor 3|cpu number|machine =|CPU implementer|CPU part|0x41|flags|address sizes|[ -~]{0,9}|\t: |\n|7| bits physical, ){0,40}") {
            parse(&text);
        }
    }
}
