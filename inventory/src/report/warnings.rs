//! What somebody should look at before this machine is used.

use super::{Function, Processors, Report};

/// One line for each thing that is not as it should be, the same for the same report.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(taints) = report.kernel.taints.as_ref().filter(|taints| taints.contains('M')) {
        warnings.push(format!("the kernel has seen a machine check (taint {taints}): look for MCE in its log"));
    }
    report.pci.iter().for_each(|function| pci(function, &mut warnings));
    processors(&report.processors, &mut warnings);
    warnings
}

fn pci(function: &Function, warnings: &mut Vec<String>) {
    let kind = function.device.as_ref().or(function.class.as_ref());
    let name = format!("{}{}", function.address, kind.map(|kind| format!(" ({kind})")).unwrap_or_default());
    if let Some(link) = function.link.as_ref().filter(|link| link.degraded == Some(true)) {
        let reason = link.limited_by.as_deref().unwrap_or("below what both ends can do");
        warnings.push(format!("{name}: PCIe link is degraded: {reason}"));
    }
    if let Some(aer) = &function.aer {
        let counts = [("fatal", aer.fatal), ("nonfatal", aer.nonfatal), ("correctable", aer.correctable)];
        let counts = counts.into_iter().filter_map(|(kind, count)| Some((kind, count.filter(|count| *count > 0)?)));
        let counts: Vec<String> = counts.map(|(kind, count)| format!("{count} {kind}")).collect();
        if !counts.is_empty() {
            warnings.push(format!("{name}: PCIe errors since boot: {}", counts.join(", ")));
        }
    }
}

fn processors(processors: &Processors, warnings: &mut Vec<String>) {
    for package in processors.packages.iter().filter(|package| package.microcode.len() > 1) {
        let revisions = package.microcode.join(", ");
        warnings.push(format!("package {}: its CPUs run different microcode: {revisions}", package.id));
    }
    let models: Vec<_> = processors.packages.iter().map(|package| (&package.model_name, package.stepping)).collect();
    if models.windows(2).any(|pair| pair[0] != pair[1]) {
        warnings.push("packages hold different processors, which few makers support".to_owned());
    }
    for node in processors.numa_nodes.iter().filter(|node| node.memory_bytes == Some(0)) {
        warnings.push(format!("NUMA node {} has no memory of its own", node.id));
    }
    for (name, state) in processors.vulnerabilities.iter().filter(|(_, state)| state.starts_with("Vulnerable")) {
        warnings.push(format!("{}: {state}", name.replace('_', " ")));
    }
}
