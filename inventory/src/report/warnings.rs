//! What somebody should look at before this machine is used.

use super::Report;

/// One line for each thing that is not as it should be, the same for the same report.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(taints) = report.kernel.taints.as_ref().filter(|taints| taints.contains('M')) {
        warnings.push(format!("the kernel has seen a machine check (taint {taints}): look for MCE in its log"));
    }
    warnings
}
