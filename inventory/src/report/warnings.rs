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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Aer, Link, NumaNode, Package};

    #[test]
    fn a_machine_in_order_has_none() {
        assert_eq!(warnings(&Report::default()), [""; 0]);
        let mut report = Report::default();
        report.kernel.taints = Some("PO".to_owned());
        let link = Link { degraded: Some(false), limited_by: Some("port: at most".to_owned()), ..Link::default() };
        let aer = Aer { correctable: Some(0), ..Aer::default() };
        report.pci = vec![Function { link: Some(link), aer: Some(aer), ..Function::default() }];
        report.processors.packages = vec![Package { microcode: vec!["0x1".to_owned()], ..Package::default() }; 2];
        report.processors.vulnerabilities.insert("l1tf".to_owned(), "Not affected".to_owned());
        assert_eq!(warnings(&report), [""; 0]);
    }

    #[test]
    fn each_fault_has_its_line() {
        let mut report = Report::default();
        report.kernel.taints = Some("M".to_owned());
        let link = Link { degraded: Some(true), limited_by: Some("training: 8 GT/s x4".to_owned()), ..Link::default() };
        let aer = Aer { correctable: Some(7), fatal: Some(1), ..Aer::default() };
        let (address, device) = ("0000:41:00.0".to_owned(), Some("ConnectX-5".to_owned()));
        report.pci = vec![Function { address, device, link: Some(link), aer: Some(aer), ..Function::default() }];
        let microcode = vec!["0x1".to_owned(), "0x2".to_owned()];
        report.processors.packages =
            vec![Package { microcode, ..Package::default() }, Package { stepping: Some(2), ..Package::default() }];
        report.processors.numa_nodes = vec![NumaNode { id: 1, memory_bytes: Some(0), ..NumaNode::default() }];
        report.processors.vulnerabilities.insert("spectre_v2".to_owned(), "Vulnerable: no IBPB".to_owned());
        let lines = [
            "the kernel has seen a machine check (taint M): look for MCE in its log",
            "0000:41:00.0 (ConnectX-5): PCIe link is degraded: training: 8 GT/s x4",
            "0000:41:00.0 (ConnectX-5): PCIe errors since boot: 1 fatal, 7 correctable",
            "package 0: its CPUs run different microcode: 0x1, 0x2",
            "packages hold different processors, which few makers support",
            "NUMA node 1 has no memory of its own",
            "spectre v2: Vulnerable: no IBPB",
        ];
        assert_eq!(warnings(&report), lines);
    }
}
