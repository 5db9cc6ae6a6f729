//! The kernel that runs: its release, arguments and time source.

use crate::Root;
use serde::{Deserialize, Serialize};

/// The kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Kernel {
    /// Release as in `uname -r`, from /proc/sys/kernel/osrelease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Build number and date as in `uname -v`, from /proc/sys/kernel/version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Architecture as in `uname -m`, from /proc/sys/kernel/arch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Kernel arguments, from /proc/cmdline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Why the kernel is tainted, by the letters the kernel prints, sorted; empty when it is not. From
    /// /proc/sys/kernel/tainted; Documentation/admin-guide/tainted-kernels.rst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<String>,
    /// Clock source in use, from /sys/devices/system/clocksource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// Clock sources to choose from, in the kernel's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available_clock_sources: Vec<String>,
}

/// Letters of the taint bits, from bit 0 on.
const TAINTS: &str = "PFSRMBUDAWCIOELKXTNJ";

pub(super) fn kernel(root: &Root) -> Kernel {
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";
    let text = |path: &str| root.attribute(path).filter(|text| !text.is_empty());
    Kernel {
        release: text("/proc/sys/kernel/osrelease"),
        version: text("/proc/sys/kernel/version"),
        architecture: text("/proc/sys/kernel/arch"),
        command_line: root.text("/proc/cmdline", 64 << 10).map(|line| line.trim().to_owned()),
        taints: root.number("/proc/sys/kernel/tainted").map(taints),
        clock_source: text(&format!("{CLOCK}/current_clocksource")),
        available_clock_sources: text(&format!("{CLOCK}/available_clocksource"))
            .map(|names| names.split_ascii_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
    }
}

fn taints(bits: u64) -> String {
    TAINTS.chars().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, letter)| letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn what_proc_tells() {
        let tree = Tree::new(&[
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/tainted", "4097\n"),
            ("proc/cmdline", "quiet\n"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet \n"),
        ]);
        let found = kernel(&tree.root());
        assert_eq!(found.release.as_deref(), Some("6.1.0"));
        assert_eq!((found.taints.as_deref(), found.command_line.as_deref()), (Some("PO"), Some("quiet")));
        assert_eq!(found.available_clock_sources, ["tsc", "hpet"]);
        assert_eq!((found.version, taints(0).as_str(), taints(u64::MAX).len()), (None, "", TAINTS.len()));
        assert_eq!(kernel(&Tree::new(&[]).root()), Kernel::default());
    }
}
