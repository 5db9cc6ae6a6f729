//! Processors (contract §7.4): what `lscpu` reports, from `/proc/cpuinfo` and sysfs.

use crate::{Root, smbios::Smbios};
use api::Cpu;
use std::collections::BTreeSet;

const CPUS: &str = "/sys/devices/system/cpu";
/// Some 2 KiB a processor, and thousands of processors.
const MAX_CPUINFO_BYTES: usize = 32 << 20;

/// Arm's part numbers have no text in `/proc/cpuinfo`: implementer, part, name (from the vendors' reference manuals).
const ARM_PARTS: [(&str, &str, &str); 17] = [
    ("0x41", "0xd03", "Cortex-A53"),
    ("0x41", "0xd07", "Cortex-A57"),
    ("0x41", "0xd08", "Cortex-A72"),
    ("0x41", "0xd0b", "Cortex-A76"),
    ("0x41", "0xd0c", "Neoverse-N1"),
    ("0x41", "0xd40", "Neoverse-V1"),
    ("0x41", "0xd42", "Cortex-A78AE"),
    ("0x41", "0xd49", "Neoverse-N2"),
    ("0x41", "0xd4f", "Neoverse-V2"),
    ("0x41", "0xd83", "Neoverse-V3AE"),
    ("0x41", "0xd84", "Neoverse-V3"),
    ("0x41", "0xd8e", "Neoverse-N3"),
    ("0x43", "0x0a1", "ThunderX-88XX"),
    ("0x43", "0x0af", "ThunderX2-99xx"),
    ("0x48", "0xd01", "TaiShan-v110"),
    ("0xc0", "0xac3", "Ampere-1"),
    ("0xc0", "0xac4", "Ampere-1a"),
];

/// `cpu`.
pub(crate) fn cpu(root: &Root, smbios: &Smbios) -> Cpu {
    let text = root.text("/proc/cpuinfo", MAX_CPUINFO_BYTES).unwrap_or_default();
    let info = CpuInfo(&text);
    let flags = info.get("flags").or_else(|| info.get("Features")).or_else(|| info.get("features"));
    let flags = flags.map(|flags| flags.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>());
    Cpu {
        architecture: architecture(root, &info),
        count: count(root, &info),
        frequency: frequency_mhz(root, &info, flags.as_deref().unwrap_or_default()),
        model_name: model_name(&info, smbios).unwrap_or_default(),
        flags,
    }
}

/// The text of `/proc/cpuinfo`: `key : value` lines, the processors one after the other.
struct CpuInfo<'a>(&'a str);

impl<'a> CpuInfo<'a> {
    fn all(&self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.lines().filter_map(move |line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim())
        })
    }

    fn get(&self, key: &'a str) -> Option<&'a str> {
        self.all(key).find(|value| !value.is_empty())
    }
}

/// The kernel's name of the architecture. A captured tree of an older kernel tells it only by the layout of cpuinfo.
fn architecture(root: &Root, info: &CpuInfo<'_>) -> String {
    if let Some(name) = root.attribute("/proc/sys/kernel/arch").filter(|name| !name.is_empty()) {
        return name;
    }
    if root.is_live() {
        return nix::sys::utsname::uname()
            .map(|name| name.machine().to_string_lossy().into_owned())
            .unwrap_or_default();
    }
    let name = match info.get("vendor_id") {
        Some("IBM/S390") => "s390x",
        Some(_) if info.get("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "lm")) => "x86_64",
        _ if info.get("CPU implementer").is_some() => "aarch64",
        _ if info.get("cpu").is_some_and(|cpu| cpu.starts_with("POWER")) => "ppc64le",
        _ => "",
    };
    name.to_owned()
}

/// Processors present, offline ones included, as lscpu's `CPU(s)`.
fn count(root: &Root, info: &CpuInfo<'_>) -> u64 {
    let present = root.attribute(format!("{CPUS}/present")).and_then(|list| count_list(&list));
    let directories = || {
        let is_cpu = |name: &&String| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
        Some(root.list(CPUS).iter().filter(is_cpu).count()).filter(|n| *n > 0)
    };
    let listed = || Some(info.all("processor").count());
    let found = present.or_else(|| directories().or_else(listed).and_then(|n| u64::try_from(n).ok()));
    found.unwrap_or(0)
}

/// How many processors a list such as `0-3,8` names.
fn count_list(list: &str) -> Option<u64> {
    let mut count = 0u64;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.checked_add(u64::from(last.checked_sub(first)?) + 1)?;
    }
    Some(count)
}

/// Highest frequency, MHz; 0 when nothing steady tells.
///
/// `cpu MHz` of a processor that counts its real cycles (`aperfmperf`) is a measurement that differs with every read; the
/// inventory should not, so the nominal frequency in the model's name stands in for it.
fn frequency_mhz(root: &Root, info: &CpuInfo<'_>, flags: &[String]) -> f64 {
    let limits_khz: BTreeSet<u32> = root
        .list(CPUS)
        .iter()
        .filter(|name| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok()))
        .filter_map(|name| root.number(format!("{CPUS}/{name}/cpufreq/cpuinfo_max_freq")))
        .collect();
    if let Some(khz) = limits_khz.last() {
        return f64::from(*khz) / 1000.0;
    }
    let highest =
        |key| info.all(key).filter_map(|mhz| mhz.parse::<f64>().ok()).filter(|mhz| mhz.is_finite()).fold(0.0, f64::max);
    if info.get("cpu MHz static").is_some() {
        return highest("cpu MHz static");
    }
    if flags.iter().any(|flag| flag == "aperfmperf") {
        return info.get("model name").and_then(nominal_mhz).unwrap_or(0.0);
    }
    highest("cpu MHz")
}

/// The frequency in a name such as `Intel(R) Xeon(R) CPU E5-2695 v4 @ 2.10GHz`, MHz.
fn nominal_mhz(model: &str) -> Option<f64> {
    let (_, speed) = model.rsplit_once('@')?;
    let speed = speed.trim();
    let (number, factor) = match speed.strip_suffix("GHz") {
        Some(number) => (number, 1000.0),
        None => (speed.strip_suffix("MHz")?, 1.0),
    };
    number.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0).map(|n| n * factor)
}

fn model_name(info: &CpuInfo<'_>, smbios: &Smbios) -> Option<String> {
    if info.get("vendor_id") == Some("IBM/S390") {
        // "processor 0: version = FF,  identification = 1A2B3C,  machine = 8561"
        let line = info.0.lines().find(|line| line.starts_with("processor ") && line.contains("machine ="))?;
        return Some(line.rsplit_once("machine =")?.1.trim().to_owned());
    }
    if let (Some(implementer), Some(part)) = (info.get("CPU implementer"), info.get("CPU part")) {
        let known =
            ARM_PARTS.iter().find(|(i, p, _)| *i == implementer && *p == part).map(|(_, _, name)| (*name).to_owned());
        return known.or_else(|| smbios.processor());
    }
    info.get("model name").or_else(|| info.get("cpu")).map(str::to_owned).or_else(|| smbios.processor())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn of(tree: &Tree) -> Cpu {
        cpu(&tree.root(), &Smbios::parse(Vec::new()))
    }

    #[test]
    fn x86() {
        let cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some CPU @ 2.10GHz\ncpu MHz\t\t: 1200.5\n\
                       flags\t\t: fpu lm vmx\n\nprocessor\t: 1\ncpu MHz\t\t: 2100.0\nflags\t\t: fpu lm vmx\n";
        let tree = Tree::new(&[("proc/cpuinfo", cpuinfo)]);
        let found = of(&tree);
        assert_eq!((found.architecture.as_str(), found.count, found.frequency), ("x86_64", 2, 2100.0));
        assert_eq!(found.model_name, "Some CPU @ 2.10GHz");
        assert_eq!(found.flags.unwrap(), ["fpu", "lm", "vmx"]);
        tree.add("sys/devices/system/cpu/present", "0-3,8\n");
        tree.add("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3900000\n");
        tree.add("sys/devices/system/cpu/cpu10/cpufreq/cpuinfo_max_freq", "4800000\n");
        assert_eq!((of(&tree).count, of(&tree).frequency), (5, 4800.0));
    }

    #[test]
    fn a_measured_frequency_is_not_reported() {
        let cpuinfo = "processor : 0\nmodel name : X @ 2.10GHz\ncpu MHz : 1234.5\nflags : lm aperfmperf\n";
        assert_eq!(of(&Tree::new(&[("proc/cpuinfo", cpuinfo)])).frequency, 2100.0);
        let unnamed = cpuinfo.replace(" @ 2.10GHz", "");
        assert_eq!(of(&Tree::new(&[("proc/cpuinfo", &unnamed)])).frequency, 0.0);
    }

    #[test]
    fn other_architectures() {
        let arm = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        let found = of(&Tree::new(&[("proc/cpuinfo", arm)]));
        assert_eq!(
            (found.architecture.as_str(), found.model_name.as_str(), found.count),
            ("aarch64", "Neoverse-N1", 1)
        );
        assert_eq!(found.flags.unwrap(), ["fp", "asimd"]);
        let z = "vendor_id       : IBM/S390\nfeatures\t: esan3 zarch\n\
                 processor 0: version = FF,  identification = 1A2B3C,  machine = 8561\ncpu MHz static : 5200\n";
        let found = of(&Tree::new(&[("proc/cpuinfo", z), ("sys/devices/system/cpu/present", "0\n")]));
        assert_eq!(
            (found.architecture.as_str(), found.model_name.as_str(), found.frequency),
            ("s390x", "8561", 5200.0)
        );
    }

    #[test]
    fn nothing_known() {
        assert_eq!(of(&Tree::new(&[])), Cpu::default());
        for bad in ["", "3-1", "0-x", "1,,2"] {
            assert_eq!(count_list(bad), None, "{bad}");
        }
    }
}
