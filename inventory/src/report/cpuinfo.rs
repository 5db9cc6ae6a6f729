//! `/proc/cpuinfo`, where the model and the microcode of each processor stand.

use std::collections::BTreeSet;

/// What is told of one online processor. Keys of x86; other architectures tell less.
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

/// The whole file.
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
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (key, value) = (key.trim(), value.trim());
        if key == "processor" {
            if let Ok(cpu) = value.parse() {
                info.processors.push(Processor { cpu, ..Processor::default() });
            }
            continue;
        }
        match key {
            // Mostly the very same line for each of them.
            "flags" | "Features" | "features" if last_flags != Some(value) => {
                let flags: BTreeSet<&str> = value.split_ascii_whitespace().collect();
                if last_flags.is_none() {
                    info.flags = flags.into_iter().map(str::to_owned).collect();
                } else {
                    info.flags.retain(|flag| flags.contains(flag.as_str()));
                }
                last_flags = Some(value);
            }
            "address sizes" => info.address_bits = info.address_bits.or_else(|| address_bits(value)),
            _ => {}
        }
        let Some(processor) = info.processors.last_mut() else { continue };
        let text = || Some(value.to_owned()).filter(|text| !text.is_empty());
        match key {
            "physical id" => processor.package = value.parse().ok(),
            "vendor_id" => processor.vendor_id = text(),
            "model name" => processor.model_name = text(),
            "cpu family" => processor.family = value.parse().ok(),
            "model" => processor.model = value.parse().ok(),
            "stepping" => processor.stepping = value.parse().ok(),
            "microcode" => processor.microcode = text(),
            _ => {}
        }
    }
    info
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
        fn noise_never_panics(text in "(processor|flags|address sizes|[ -~]{0,9}|\t: |\n|7| bits physical, ){0,40}") {
            parse(&text);
        }
    }
}
