//! What protects the machine from its operators and its guests from each other: secure boot, TPM, IOMMU, mitigations.

use crate::{
    Root, boot,
    smbios::{self, Smbios},
    tpm::{self, MeasuredBoot, TpmDetails},
};
use kernel::order::Gather;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const GROUPS: &str = "/sys/kernel/iommu_groups";
const TPMS: &str = "/sys/class/tpm";
/// Registers of firmware (0 to 7), boot loaders and operating systems (TCG PC Client Platform Firmware Profile, 3.3.4). Those above are for
/// tests and for programs.
const PCRS: u8 = 16;
/// Best first.
const BANKS: [&str; 4] = ["sha256", "sha384", "sha512", "sha1"];
/// Kernel arguments that switch protections against hardware vulnerabilities, by how they begin.
const MITIGATIONS: [&str; 24] = [
    "mitigations=",
    "nopti",
    "pti=",
    "kpti=",
    "nospectre_v1",
    "nospectre_v2",
    "nospectre_bhb",
    "spectre_v2=",
    "spectre_v2_user=",
    "spectre_bhi=",
    "spec_store_bypass_disable=",
    "nospec_store_bypass_disable",
    "ssbd=",
    "l1tf=",
    "kvm-intel.vmentry_l1d_flush=",
    "mds=",
    "tsx=",
    "tsx_async_abort=",
    "mmio_stale_data=",
    "retbleed=",
    "gather_data_sampling=",
    "spec_rstack_overflow=",
    "reg_file_data_sampling=",
    "nosmt",
];
const IOMMU_ARGUMENTS: [&str; 5] = ["intel_iommu=", "amd_iommu=", "iommu=", "iommu.", "arm-smmu"];
/// Processor features of confidential computing and memory encryption, by the names of /proc/cpuinfo.
const ENCRYPTION: [&str; 7] = ["sev", "sev_es", "sev_snp", "sme", "tdx_guest", "tdx_host_platform", "tme"];
/// Parameters of KVM that tell whether guests can use them.
const KVM_PARAMETERS: [(&str, &str); 5] = [
    ("sev", "kvm_amd/parameters/sev"),
    ("sev_es", "kvm_amd/parameters/sev_es"),
    ("sev_snp", "kvm_amd/parameters/sev_snp"),
    ("sgx", "kvm_intel/parameters/sgx"),
    ("tdx", "kvm_intel/parameters/tdx"),
];

/// Protections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Security {
    /// Whether UEFI boots only what is signed: Enabled, Disabled, NotSupported, Unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<String>,
    /// Whether UEFI has no platform key, so that anyone may enrol theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_mode: Option<bool>,
    /// What the kernel keeps from root: none, integrity, confidentiality.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lockdown: Option<String>,
    /// Linux security modules, in the kernel's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_modules: Vec<String>,
    /// Whether SELinux enforces its policy; absent without SELinux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selinux_enforcing: Option<bool>,
    /// Whether the kernel is in FIPS mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// Kernel arguments that switch protections against hardware vulnerabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mitigation_arguments: Vec<String>,
    /// Protection from the DMA of devices.
    pub iommu: Iommu,
    /// Processor features for encrypted memory and confidential guests, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_encryption_features: Vec<String>,
    /// Whether KVM is ready for confidential guests and enclaves, by technology.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kvm_confidential: BTreeMap<String, bool>,
    /// TPMs that have a driver, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tpms: Vec<Tpm>,
    /// TPMs the firmware lists (SMBIOS type 43).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub firmware_tpms: Vec<smbios::Tpm>,
}

/// The IOMMU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Iommu {
    /// Units in use, from /sys/class/iommu.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
    /// Groups of devices; 0 means that no IOMMU is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
    /// Kernel arguments about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

/// A trusted platform module (/sys/class/tpm).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tpm {
    /// The kernel's name of it: `tpm0`.
    pub name: String,
    /// Specification it implements: 1.2 or 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is, as its driver or ACPI names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Banks of platform configuration registers that are in use, by hash, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pcr_banks: Vec<String>,
    /// Hash of the bank that the values are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcr_bank: Option<String>,
    /// Values of registers 0 to 15, hexadecimal in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pcrs: BTreeMap<String, String>,
    /// The same of other banks, by hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_pcrs: BTreeMap<String, BTreeMap<String, String>>,
    /// What was booted, by the firmware's log. `landfall attest` has the TPM sign the registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_boot: Option<MeasuredBoot>,
    /// What a TPM 2.0 says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<TpmDetails>,
}

pub(super) fn security(root: &Root, smbios: &Smbios, flags: &[String], command_line: Option<&str>) -> Security {
    let arguments = |prefixes: &[&str]| {
        let begins = |word: &&str| prefixes.iter().any(|prefix| word.starts_with(prefix));
        command_line.unwrap_or_default().split_ascii_whitespace().filter(begins).map(str::to_owned).collect()
    };
    let has = |name: &&str| flags.iter().any(|flag| flag == name);
    let yes = |path: String| match root.attribute(path)?.as_str() {
        "1" | "Y" => Some(true),
        "0" | "N" => Some(false),
        _ => None,
    };
    let kvm = |(name, path): (&str, &str)| Some((name.to_owned(), yes(format!("/sys/module/{path}"))?));
    Security {
        secure_boot: root.is_dir("/sys/firmware").then(|| boot::secure_boot(root).to_owned()),
        setup_mode: kernel::efi::flag(root, "SetupMode").ok().flatten(),
        lockdown: root.attribute("/sys/kernel/security/lockdown").as_deref().and_then(chosen),
        security_modules: root
            .attribute("/sys/kernel/security/lsm")
            .map(|list| list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
            .unwrap_or_default(),
        selinux_enforcing: yes("/sys/fs/selinux/enforce".to_owned()),
        fips: yes("/proc/sys/crypto/fips_enabled".to_owned()),
        mitigation_arguments: arguments(&MITIGATIONS),
        iommu: Iommu {
            units: root.list("/sys/class/iommu"),
            groups: root.is_dir(GROUPS).then(|| u32::try_from(root.list(GROUPS).len()).unwrap_or(u32::MAX)),
            arguments: arguments(&IOMMU_ARGUMENTS),
        },
        memory_encryption_features: ENCRYPTION.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect(),
        kvm_confidential: KVM_PARAMETERS.into_iter().filter_map(kvm).gather(),
        tpms: root.list(TPMS).into_iter().filter(|name| name.starts_with("tpm")).map(|name| tpm(root, name)).collect(),
        firmware_tpms: smbios.tpms(),
    }
}

/// `none [integrity] confidentiality`
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn tpm(root: &Root, name: String) -> Tpm {
    let dir = format!("{TPMS}/{name}");
    let pcr_banks: Vec<String> =
        root.list(&dir).iter().filter_map(|entry| entry.strip_prefix("pcr-")).map(str::to_owned).collect();
    let pcr_bank = BANKS.into_iter().find(|bank| pcr_banks.iter().any(|name| name == bank)).map(str::to_owned);
    let pcr = |bank: &String, pcr: u8| {
        let value = root.measurements(&format!("{dir}/pcr-{bank}"), &[pcr.to_string()]).pop()??;
        Some((pcr.to_string(), value.to_lowercase()))
    };
    // A TPM that fails once keeps the next reader waiting too.
    let pcrs_in =
        |bank: &String| -> BTreeMap<String, String> { (0..PCRS).map_while(|number| pcr(bank, number)).gather() };
    let pcrs = pcr_bank.as_ref().map(pcrs_in).unwrap_or_default();
    let others = pcr_banks.iter().filter(|bank| Some(*bank) != pcr_bank.as_ref());
    let other_pcrs: BTreeMap<_, _> =
        others.map(|bank| (bank.clone(), pcrs_in(bank))).filter(|(_, values)| !values.is_empty()).gather();
    let measured_boot = tpm::measured_boot(root, &name, |bank| match pcr_bank.as_deref() == Some(bank) {
        true => Some(&pcrs),
        false => other_pcrs.get(bank),
    });
    let major = root.attribute(format!("{dir}/tpm_version_major"));
    // A TPM 1.2 has other commands.
    let details = major.as_deref().filter(|major| *major != "1").and_then(|_| tpm::details(root, &name));
    let description = ["device/description", "device/firmware_node/description"];
    Tpm {
        version: major.map(|major| match major.as_str() {
            "1" => "1.2".to_owned(),
            "2" => "2.0".to_owned(),
            _ => major,
        }),
        description: description.iter().find_map(|file| root.attribute(format!("{dir}/{file}"))),
        pcr_banks,
        pcr_bank,
        pcrs,
        other_pcrs,
        measured_boot,
        details,
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn read_security(tree: &Tree, command_line: &str) -> Security {
        security(&tree.root(), &Smbios::default(), &["fpu".to_owned(), "sev".to_owned()], Some(command_line))
    }

    #[test]
    fn protections() {
        let tree = Tree::new(&[
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
            ("sys/kernel/security/lsm", "lockdown,capability,selinux"),
            ("sys/fs/selinux/enforce", "0"),
            ("sys/module/kvm_amd/parameters/sev", "Y\n"),
            ("sys/module/kvm_amd/parameters/sev_snp", "N\n"),
        ]);
        let setup_mode = "sys/firmware/efi/efivars/SetupMode-8be4df61-93ca-11d2-aa0d-00e098032b8c";
        tree.add(setup_mode, [6, 0, 0, 0, 0]).dir("sys/kernel/iommu_groups/0").dir("sys/kernel/iommu_groups/1");
        tree.dir("sys/class/iommu/ivhd0");
        let found = read_security(&tree, "quiet mitigations=off amd_iommu=on iommu=pt");
        assert_eq!((found.secure_boot.as_deref(), found.setup_mode), (Some("NotSupported"), Some(false)));
        assert_eq!((found.lockdown.as_deref(), found.security_modules.len()), (Some("integrity"), 3));
        assert_eq!((found.selinux_enforcing, found.fips), (Some(false), None));
        assert_eq!(found.mitigation_arguments, ["mitigations=off"]);
        assert_eq!((found.iommu.groups, found.iommu.units.join(" ")), (Some(2), "ivhd0".to_owned()));
        assert_eq!(found.iommu.arguments, ["amd_iommu=on", "iommu=pt"]);
        assert_eq!(found.memory_encryption_features, ["sev"]);
        assert_eq!(found.kvm_confidential, BTreeMap::from([("sev".to_owned(), true), ("sev_snp".to_owned(), false)]));
    }

    #[test]
    fn registers_of_the_best_bank_until_one_fails() {
        let tree = Tree::new(&[("sys/class/tpm/tpm0/tpm_version_major", "2\n")]);
        for (bank, pcr, value) in [("sha1", 0, "AA"), ("sha256", 0, "3D45"), ("sha256", 1, "00FF"), ("sha256", 3, "01")]
        {
            tree.add(&format!("sys/class/tpm/tpm0/pcr-{bank}/{pcr}"), format!("{value}\n"));
        }
        let tpm = read_security(&tree, "").tpms.remove(0);
        assert_eq!(
            (tpm.name.as_str(), tpm.version.as_deref(), tpm.pcr_bank.as_deref()),
            ("tpm0", Some("2.0"), Some("sha256"))
        );
        assert_eq!(tpm.pcr_banks, ["sha1", "sha256"]);
        let values = |values: &[(&str, &str)]| -> BTreeMap<String, String> {
            values.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        assert_eq!(tpm.pcrs, values(&[("0", "3d45"), ("1", "00ff")]));
        assert_eq!(tpm.other_pcrs, BTreeMap::from([("sha1".to_owned(), values(&[("0", "aa")]))]));
        assert_eq!(tpm.measured_boot, None, "there is no log");
    }

    #[test]
    fn nothing_known() {
        let root = Tree::new(&[]);
        assert_eq!(security(&root.root(), &Smbios::default(), &[], None), Security::default());
        assert_eq!(["none", "[", "]["].map(chosen), [None, None, None]);
    }
}
