//! Processors (docs/compatibility.md#processors): what `lscpu` reports, from `/proc/cpuinfo` and sysfs.

use crate::{Root, arm, smbios::Smbios};
use api::Cpu;

const CPUS: &str = "/sys/devices/system/cpu";
/// Some 2 KiB a processor, and thousands of processors.
const MAX_CPUINFO_BYTES: usize = 32 << 20;

pub(crate) fn cpu(root: &Root, info: &CpuInfo, smbios: &Smbios) -> Cpu {
    let flags = info.flags().map(|flags| flags.map(str::to_owned).collect::<Vec<_>>());
    let processors = processors(root);
    Cpu {
        architecture: architecture(root, info),
        count: count(root, info, &processors),
        frequency: frequency_mhz(root, info, &processors),
        model_name: model_name(info, smbios).unwrap_or_default(),
        flags,
    }
}

/// The text of `/proc/cpuinfo`: `key : value` lines, the processors one after the other. The kernel takes a while to
/// produce it, so it is read once.
pub(crate) struct CpuInfo(String);

impl CpuInfo {
    pub(crate) fn read(root: &Root) -> Self {
        Self(root.text("/proc/cpuinfo", MAX_CPUINFO_BYTES).unwrap_or_default())
    }

    fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.lines().filter_map(move |line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim())
        })
    }

    /// The first value that is not empty.
    pub(crate) fn get<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.all(key).find(|value| !value.is_empty())
    }

    /// Features of the first processor, as each architecture calls them.
    pub(crate) fn flags(&self) -> Option<impl Iterator<Item = &str>> {
        let keys = ["flags", "Features", "features", "ASEs implemented"];
        Some(keys.into_iter().find_map(|key| self.get(key))?.split_ascii_whitespace())
    }
}

/// Names of the processors' directories, offline ones included.
fn processors(root: &Root) -> Vec<String> {
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
    root.list(CPUS).into_iter().filter(is_cpu).collect()
}

/// The kernel's name of the architecture. In a captured tree of an older kernel only the layout of cpuinfo shows it.
fn architecture(root: &Root, info: &CpuInfo) -> String {
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
        Some(_) if info.flags().is_some_and(|mut flags| flags.any(|flag| flag == "lm")) => "x86_64",
        _ if info.get("CPU implementer").is_some() => "aarch64",
        _ if info.get("cpu").is_some_and(|cpu| cpu.starts_with("POWER")) => "ppc64le",
        _ => "",
    };
    name.to_owned()
}

/// Processors present, offline ones included, as lscpu's `CPU(s)`.
fn count(root: &Root, info: &CpuInfo, processors: &[String]) -> u64 {
    let present = root.attribute(format!("{CPUS}/present")).and_then(|list| count_list(&list));
    let directories = || Some(processors.len()).filter(|n| *n > 0);
    // s390x lists them as "processor 0: version = …".
    let numbered = || info.0.lines().filter(|line| line.starts_with("processor")).count();
    let found = present.or_else(|| u64::try_from(directories().unwrap_or_else(numbered)).ok());
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

/// Highest frequency, MHz; 0 without a constant source.
///
/// `cpu MHz` of a processor that counts its real cycles (`aperfmperf`) is a measurement that differs with every read; the
/// inventory should not, so the nominal frequency in the model's name stands in for it.
fn frequency_mhz(root: &Root, info: &CpuInfo, processors: &[String]) -> f64 {
    let limit_khz = |name: &String| root.number::<u32>(format!("{CPUS}/{name}/cpufreq/cpuinfo_max_freq"));
    if let Some(khz) = processors.iter().filter_map(limit_khz).max() {
        return f64::from(khz) / 1000.0;
    }
    let highest =
        |key| info.all(key).filter_map(|mhz| mhz.parse::<f64>().ok()).filter(|mhz| mhz.is_finite()).fold(0.0, f64::max);
    if info.get("cpu MHz static").is_some() {
        return highest("cpu MHz static");
    }
    if info.flags().is_some_and(|mut flags| flags.any(|flag| flag == "aperfmperf")) {
        return info.get("model name").and_then(nominal_mhz).unwrap_or(0.0);
    }
    if info.get("cpu MHz").is_some() {
        return highest("cpu MHz");
    }
    // POWER: "clock : 3800.000000MHz".
    info.get("clock")
        .and_then(|clock| clock.strip_suffix("MHz")?.parse().ok())
        .filter(|mhz: &f64| mhz.is_finite())
        .unwrap_or(0.0)
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

/// lscpu's `Model name`, or `Machine type` on s390x.
fn model_name(info: &CpuInfo, smbios: &Smbios) -> Option<String> {
    if info.get("vendor_id") == Some("IBM/S390") {
        // "processor 0: version = FF,  identification = 1A2B3C,  machine = 8561"
        let line = info.0.lines().find(|line| line.starts_with("processor ") && line.contains("machine ="))?;
        return Some(line.rsplit_once("machine =")?.1.trim().to_owned());
    }
    if let (Some(implementer), Some(part)) = (info.get("CPU implementer"), info.get("CPU part")) {
        return arm::part(implementer, part).map(str::to_owned).or_else(|| smbios.processor());
    }
    // x86 and LoongArch, POWER, RISC-V, MIPS.
    let keys = ["model name", "Model Name", "cpu", "uarch", "cpu model"];
    keys.into_iter().find_map(|key| info.get(key)).map(str::to_owned).or_else(|| smbios.processor())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn read_cpu(tree: &Tree) -> Cpu {
        let root = tree.root();
        cpu(&root, &CpuInfo::read(&root), &Smbios::parse(Vec::new()))
    }

    #[test]
    fn x86() {
        let cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some CPU @ 2.10GHz\ncpu MHz\t\t: 1200.5\n\
                       flags\t\t: fpu lm vmx\n\nprocessor\t: 1\ncpu MHz\t\t: 2100.0\nflags\t\t: fpu lm vmx\n";
        let tree = Tree::new(&[("proc/cpuinfo", cpuinfo)]);
        let found = read_cpu(&tree);
        assert_eq!((found.architecture.as_str(), found.count, found.frequency), ("x86_64", 2, 2100.0));
        assert_eq!(found.model_name, "Some CPU @ 2.10GHz");
        assert_eq!(found.flags.unwrap(), ["fpu", "lm", "vmx"]);
        tree.add("sys/devices/system/cpu/present", "0-3,8\n");
        tree.add("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3900000\n");
        tree.add("sys/devices/system/cpu/cpu10/cpufreq/cpuinfo_max_freq", "4800000\n");
        assert_eq!((read_cpu(&tree).count, read_cpu(&tree).frequency), (5, 4800.0));
    }

    #[test]
    fn a_measured_frequency_is_not_reported() {
        let cpuinfo = "processor : 0\nmodel name : X @ 2.10GHz\ncpu MHz : 1234.5\nflags : lm aperfmperf\n";
        assert_eq!(read_cpu(&Tree::new(&[("proc/cpuinfo", cpuinfo)])).frequency, 2100.0);
        let unnamed = cpuinfo.replace(" @ 2.10GHz", "");
        assert_eq!(read_cpu(&Tree::new(&[("proc/cpuinfo", &unnamed)])).frequency, 0.0);
    }

    #[test]
    fn other_architectures() {
        let arm = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        let found = read_cpu(&Tree::new(&[("proc/cpuinfo", arm)]));
        assert_eq!(
            (found.architecture.as_str(), found.model_name.as_str(), found.count),
            ("aarch64", "Neoverse-N1", 1)
        );
        assert_eq!(found.flags.unwrap(), ["fp", "asimd"]);
        let z = "vendor_id       : IBM/S390\nfeatures\t: esan3 zarch\n\
                 processor 0: version = FF,  identification = 1A2B3C,  machine = 8561\ncpu MHz static : 5200\n";
        let found = read_cpu(&Tree::new(&[("proc/cpuinfo", z), ("sys/devices/system/cpu/present", "0\n")]));
        assert_eq!(
            (found.architecture.as_str(), found.model_name.as_str(), found.frequency),
            ("s390x", "8561", 5200.0)
        );
    }

    #[test]
    fn a_power_machine() {
        let cpuinfo = "processor\t: 0\ncpu\t\t: POWER9 (architected), altivec supported\nclock\t\t: 2900.000000MHz\n\
                       revision\t: 2.2 (pvr 004e 1202)\n\nprocessor\t: 1\ncpu\t\t: POWER9 (architected), altivec supported\n\
                       clock\t\t: 2900.000000MHz\n\ntimebase\t: 512000000\nplatform\t: pSeries\n";
        let found = read_cpu(&Tree::new(&[("proc/cpuinfo", cpuinfo)]));
        assert_eq!((found.architecture.as_str(), found.count, found.frequency), ("ppc64le", 2, 2900.0));
        assert_eq!(found.model_name, "POWER9 (architected), altivec supported");
        assert_eq!(found.flags, None);
    }

    #[test]
    fn nothing_known() {
        assert_eq!(read_cpu(&Tree::new(&[])), Cpu::default());
        for bad in ["", "3-1", "0-x", "1,,2"] {
            assert_eq!(count_list(bad), None, "{bad}");
        }
    }
}
