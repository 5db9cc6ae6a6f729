//! Processors: packages, cores, threads, frequencies, mitigations.

use super::{
    caches::{self, Cache},
    cores::{CoreKind, core_kinds},
    cpuinfo::{self, CpuInfo},
    devicetree,
    enclaves::{self, MemoryEncryption, Sgx, TrustDomains},
    lists,
    numa::{self, NumaNode},
    place::CPUS,
};
use crate::{
    Root,
    smbios::{self, Smbios},
};
use kernel::order::Gather;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Some 2 KiB a processor, and thousands of processors.
const MAX_CPUINFO_BYTES: usize = 32 << 20;
/// The CPUs of one package, by either name.
const PACKAGE_LISTS: [&str; 2] = ["package_cpus_list", "core_siblings_list"];
/// Kinds of cores in one package.
const MAX_MODELS: usize = 8;

/// The processors. CPUs are the kernel's logical ones, and lists of them in its own form: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Processors {
    /// Packages that have a CPU online, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// Sockets, filled or empty, as the firmware lists them (SMBIOS type 4), in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<smbios::Processor>,
    /// Cores of all packages that have a CPU online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// CPUs online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Whether cores run several threads now (/sys/devices/system/cpu/smt/active).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt_active: Option<bool>,
    /// Whether they may do so: on, off, forceoff, notsupported, notimplemented (/sys/devices/system/cpu/smt/control).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt_control: Option<String>,
    /// CPUs there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<String>,
    /// CPUs in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<String>,
    /// CPUs not in use, among them those that could still be plugged in; empty when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline: Option<String>,
    /// CPUs the scheduler leaves alone (`isolcpus=`); empty when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolated: Option<String>,
    /// Width of physical addresses, bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_address_bits: Option<u32>,
    /// Width of virtual addresses, bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_address_bits: Option<u32>,
    /// Extension for virtual machines that is enabled: vmx or svm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtualization: Option<String>,
    /// How many features there are: one less than on a twin machine is a firmware setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flag_count: Option<u32>,
    /// Features all CPUs have, by the names of /proc/cpuinfo, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Kinds of cores, the strongest first, where they are not all alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_kinds: Vec<CoreKind>,
    /// Enclaves (SGX); absent for processors without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sgx: Option<Sgx>,
    /// Encryption of memory and of guests by AMD's processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_encryption: Option<MemoryEncryption>,
    /// Encryption of memory and of guests by Intel's processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_domains: Option<TrustDomains>,
    /// Caches, each size of them once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// NUMA nodes, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_nodes: Vec<NumaNode>,
    /// How frequencies are chosen; absent where the system can't choose them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
    /// Driver of the idle states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_driver: Option<String>,
    /// The kernel's verdict on each hardware vulnerability, from /sys/devices/system/cpu/vulnerabilities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vulnerabilities: BTreeMap<String, String>,
}

/// A processor package: what is in a socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Package {
    /// The kernel's number of it (`physical_package_id`).
    pub id: u32,
    /// Maker, as the processor names it: GenuineIntel, AuthenticAMD, IBM/S390. Where it only has a number, the name
    /// behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
    /// Model as the processor names it, or the name behind its number; several where the cores are of several kinds. The
    /// machine type on s390x.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
    /// Family (CPUID 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<u32>,
    /// Model (CPUID 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<u32>,
    /// Stepping (CPUID 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stepping: Option<u32>,
    /// Microcode revisions of its CPUs. More than one means that not all were updated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub microcode: Vec<String>,
    /// Dies in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dies: Option<u32>,
    /// Cores that have a CPU online.
    pub cores: u32,
    /// CPUs online.
    pub threads: u32,
    /// The CPUs online.
    pub cpus: String,
}

/// Frequency scaling (/sys/devices/system/cpu/cpufreq).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Frequency {
    /// Scaling drivers, sorted; one on nearly all machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<String>,
    /// Governors in use, sorted. More than one means that CPUs are set differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub governors: Vec<String>,
    /// Preferences of energy over performance in use, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub energy_performance_preferences: Vec<String>,
    /// Lowest frequency of any CPU, MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_mhz: Option<u32>,
    /// Frequency that all cores can keep, MHz; the lowest among the CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_mhz: Option<u32>,
    /// Highest frequency of any CPU, MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mhz: Option<u32>,
    /// Whether the processor may exceed its base frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
}

pub(super) fn processors(root: &Root, smbios: &Smbios) -> Processors {
    let text = |name: &str| root.attribute(format!("{CPUS}/{name}"));
    let info = cpuinfo::parse(&root.text("/proc/cpuinfo", MAX_CPUINFO_BYTES).unwrap_or_default());
    let online = text("online").map(|list| lists::parse(&list)).filter(|cpus| !cpus.is_empty());
    let online = online.unwrap_or_else(|| info.processors.iter().map(|processor| processor.cpu).collect());
    let packages = packages(root, &info, &online, smbios);
    let has = |flag: &str| info.flags.contains(flag).then(|| flag.to_owned());
    Processors {
        cores: total(packages.iter().map(|package| package.cores)),
        threads: total(packages.iter().map(|package| package.threads)),
        packages,
        sockets: smbios.processors(),
        smt_active: text("smt/active").and_then(|text| switch(&text)),
        smt_control: text("smt/control").filter(|text| !text.is_empty()),
        present: text("present"),
        online: (!online.is_empty()).then(|| lists::format(&online)),
        offline: text("offline"),
        isolated: text("isolated"),
        physical_address_bits: info.address_bits.map(|(bits, _)| bits),
        virtual_address_bits: info.address_bits.map(|(_, bits)| bits),
        virtualization: has("vmx").or_else(|| has("svm")),
        flag_count: u32::try_from(info.flags.len()).ok().filter(|count| *count > 0),
        core_kinds: core_kinds(root, &online),
        sgx: enclaves::sgx(root, &info.flags),
        memory_encryption: enclaves::memory_encryption(root),
        trust_domains: enclaves::trust_domains(root, &info.flags),
        flags: info.flags.into_iter().collect(),
        caches: caches::caches(root, &online),
        numa_nodes: numa::nodes(root),
        frequency: frequency(root),
        idle_driver: text("cpuidle/current_driver").filter(|name| !name.is_empty() && name != "none"),
        vulnerabilities: vulnerabilities(root),
    }
}

fn total(counts: impl Iterator<Item = u32>) -> Option<u32> {
    Some(counts.sum()).filter(|sum| *sum > 0)
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Reads the topology once for each core and package, not for each of their CPUs.
fn packages(root: &Root, info: &CpuInfo, online: &BTreeSet<u32>, smbios: &Smbios) -> Vec<Package> {
    let firmwares_model = smbios.processor().or_else(|| devicetree::processor(root));
    let by_cpu: BTreeMap<u32, &cpuinfo::Processor> =
        info.processors.iter().map(|processor| (processor.cpu, processor)).gather();
    let siblings = |cpu: u32, names: [&str; 2]| {
        let read = |name| root.attribute(format!("{CPUS}/cpu{cpu}/topology/{name}"));
        let mut cpus = names.into_iter().find_map(read).map(|list| lists::parse(&list)).unwrap_or_default();
        cpus.insert(cpu);
        cpus.retain(|cpu| online.contains(cpu));
        cpus
    };
    let mut packages: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut without_id: Vec<BTreeSet<u32>> = Vec::new();
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    for cpu in online {
        if !seen.contains(cpu) {
            let topology = format!("{CPUS}/cpu{cpu}/topology");
            let cpus = siblings(*cpu, PACKAGE_LISTS);
            seen.extend(&cpus);
            // -1 stands for a firmware that gives no numbers.
            let id = root.number(format!("{topology}/physical_package_id")).or_else(|| by_cpu.get(cpu)?.package);
            match id {
                Some(id) => packages.entry(id).or_default().extend(cpus),
                None if PACKAGE_LISTS.iter().any(|name| root.exists(format!("{topology}/{name}"))) => {
                    without_id.push(cpus);
                }
                // A machine that reports no packages has one.
                None => packages.entry(0).or_default().extend(cpus),
            }
        }
    }
    let mut free = 0..;
    for cpus in without_id {
        packages.extend(free.find(|id| !packages.contains_key(id)).map(|id| (id, cpus)));
    }
    let count_of = |cpus: &BTreeSet<u32>, names| {
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut count = 0;
        for cpu in cpus {
            if !seen.contains(cpu) {
                seen.extend(siblings(*cpu, names));
                count += 1;
            }
        }
        count
    };
    let package = |(id, cpus): (u32, BTreeSet<u32>)| {
        let first = cpus.iter().find_map(|cpu| by_cpu.get(cpu)).copied().cloned().unwrap_or_default();
        let sysfs = |cpu: u32| root.attribute(format!("{CPUS}/cpu{cpu}/microcode/version"));
        let microcode =
            |cpu: &u32| by_cpu.get(cpu).and_then(|processor| processor.microcode.clone()).or_else(|| sysfs(*cpu));
        let microcode: BTreeSet<String> = cpus.iter().filter_map(microcode).gather();
        let knows_dies = cpus.first().is_some_and(|cpu| root.exists(format!("{CPUS}/cpu{cpu}/topology/die_cpus_list")));
        // Mostly one; a map would sort them.
        let mut models: Vec<&str> = Vec::new();
        for model in cpus.iter().filter_map(|cpu| by_cpu.get(cpu)?.model_name.as_deref()) {
            if !models.contains(&model) && models.len() < MAX_MODELS {
                models.push(model);
            }
        }
        Package {
            id,
            vendor_id: first.vendor_id,
            model_name: Some(models.join(" + ")).filter(|names| !names.is_empty()).or_else(|| firmwares_model.clone()),
            family: first.family,
            model: first.model,
            stepping: first.stepping,
            microcode: microcode.into_iter().collect(),
            dies: knows_dies.then(|| count_of(&cpus, ["die_cpus_list"; 2])),
            cores: count_of(&cpus, ["core_cpus_list", "thread_siblings_list"]),
            threads: u32::try_from(cpus.len()).unwrap_or(u32::MAX),
            cpus: lists::format(&cpus),
        }
    };
    packages.into_iter().map(package).collect()
}

fn frequency(root: &Root) -> Option<Frequency> {
    let mut found = Frequency::default();
    let [mut drivers, mut governors, mut preferences] = [const { BTreeSet::new() }; 3];
    for policy in root.list(format!("{CPUS}/cpufreq")).iter().filter(|name| name.starts_with("policy")) {
        let text = |name: &str| root.attribute(format!("{CPUS}/cpufreq/{policy}/{name}")).filter(|t| !t.is_empty());
        let mhz = |name: &str| text(name)?.parse::<u32>().ok().map(|khz| khz / 1000);
        drivers.extend(text("scaling_driver"));
        governors.extend(text("scaling_governor"));
        preferences.extend(text("energy_performance_preference"));
        found.min_mhz = found.min_mhz.into_iter().chain(mhz("cpuinfo_min_freq")).min();
        found.base_mhz = found.base_mhz.into_iter().chain(mhz("base_frequency")).min();
        found.max_mhz = found.max_mhz.max(mhz("cpuinfo_max_freq"));
    }
    let text = |name: &str| root.attribute(format!("{CPUS}/{name}"));
    let no_turbo = || text("intel_pstate/no_turbo").and_then(|text| switch(&text)).map(|is_off| !is_off);
    found.turbo = no_turbo().or_else(|| text("cpufreq/boost").and_then(|text| switch(&text)));
    found.drivers = drivers.into_iter().collect();
    found.governors = governors.into_iter().collect();
    found.energy_performance_preferences = preferences.into_iter().collect();
    (found != Frequency::default()).then_some(found)
}

fn vulnerabilities(root: &Root) -> BTreeMap<String, String> {
    let dir = format!("{CPUS}/vulnerabilities");
    root.list(&dir)
        .into_iter()
        .filter_map(|name| Some((root.attribute(format!("{dir}/{name}"))?, name)))
        .map(|(word, name)| (name, word))
        .gather()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    /// Two packages of two cores of two threads, the last CPU offline.
    fn server() -> Tree {
        let tree = Tree::new(&[("sys/devices/system/cpu/online", "0-6\n"), ("sys/devices/system/cpu/offline", "7\n")]);
        let mut cpuinfo = String::new();
        for cpu in 0..7 {
            let (package, core) = (cpu / 2 % 2, cpu % 4);
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            tree.add(&format!("{topology}/physical_package_id"), format!("{package}\n"));
            tree.add(&format!("{topology}/package_cpus_list"), ["0-1,4-5\n", "2-3,6\n"][package]);
            let core = if core == 3 { "3\n".to_owned() } else { format!("{core},{}\n", core + 4) };
            tree.add(&format!("{topology}/core_cpus_list"), core);
            let microcode = if cpu == 6 { "0x1" } else { "0x2" };
            cpuinfo += &format!("processor : {cpu}\nmodel name : X\nmicrocode : {microcode}\nflags : fpu vmx\n\n");
        }
        tree.add("proc/cpuinfo", cpuinfo);
        tree
    }

    #[test]
    fn packages_cores_threads() {
        let found = processors(&server().root(), &Smbios::default());
        assert_eq!((found.packages.len(), found.cores, found.threads), (2, Some(4), Some(7)));
        let [first, second] = &found.packages[..] else { panic!() };
        assert_eq!((first.cores, first.threads, first.cpus.as_str(), first.dies), (2, 4, "0-1,4-5", None));
        assert_eq!((second.cores, second.threads, second.cpus.as_str()), (2, 3, "2-3,6"));
        assert_eq!((first.microcode.join(" "), second.microcode.join(" ")), ("0x2".to_owned(), "0x1 0x2".to_owned()));
        assert_eq!((found.online.as_deref(), found.offline.as_deref()), (Some("0-6"), Some("7")));
        assert_eq!((found.virtualization.as_deref(), found.flag_count), (Some("vmx"), Some(2)));
        assert_eq!(found.frequency, None);
    }

    #[test]
    fn frequencies_and_vulnerabilities() {
        let tree = server();
        for (policy, governor, base) in [("policy0", "performance", "2500000"), ("policy1", "powersave", "2400000")] {
            let dir = format!("sys/devices/system/cpu/cpufreq/{policy}");
            tree.add(&format!("{dir}/scaling_driver"), "intel_pstate\n");
            tree.add(&format!("{dir}/scaling_governor"), governor);
            tree.add(&format!("{dir}/base_frequency"), base);
            tree.add(&format!("{dir}/cpuinfo_min_freq"), "800000\n");
            tree.add(&format!("{dir}/cpuinfo_max_freq"), if base == "2500000" { "3900000" } else { "3800000" });
        }
        tree.add("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
        tree.add("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n");
        let found = processors(&tree.root(), &Smbios::default());
        let frequency = found.frequency.unwrap();
        assert_eq!(frequency.drivers, ["intel_pstate"]);
        assert_eq!(frequency.governors, ["performance", "powersave"]);
        let mhz = (frequency.min_mhz, frequency.base_mhz, frequency.max_mhz);
        assert_eq!((mhz, frequency.turbo), ((Some(800), Some(2400), Some(3900)), Some(false)));
        assert_eq!(found.vulnerabilities["meltdown"], "Mitigation: PTI");
    }

    #[test]
    fn nothing_known() {
        assert_eq!(processors(&Tree::new(&[]).root(), &Smbios::default()), Processors::default());
    }
}
