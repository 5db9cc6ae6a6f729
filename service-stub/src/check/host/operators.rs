//! What operators ask of a host (docs/compatibility.md#operators). Each operator has one check.

use super::context::Context;
use crate::check::{Status, Verdict, verdict};
use crate::operators::{
    Amount, HostRule, MACHINES_POOL_GIB, Machine, OPERATORS, Operator, STORAGE_HOSTS, Situation, amount,
};
use api::{HostRole, Inventory};

/// The checks of all operators: of those that the cluster does not have too, which ask nothing.
pub(super) fn all(context: &Context) -> impl Iterator<Item = (&'static str, Verdict)> {
    let situation = context.situation();
    let machine = Machine::of(context.record);
    OPERATORS.iter().filter_map(move |operator| {
        let situation = situation.as_ref()?;
        let verdict = situation.unasked(operator.name);
        Some((operator.check, verdict.unwrap_or_else(|| judge(operator, situation, &machine))))
    })
}

/// Whether a host would do for these operators, as far as the cluster has them.
pub(crate) fn fits(names: &[&str], situation: &Situation, machine: &Machine) -> bool {
    let mut asked = OPERATORS.iter().filter(|own| names.contains(&own.name) && situation.has(own.name));
    asked.all(|operator| judge(operator, situation, machine).0 == Status::Success)
}

fn fine() -> Verdict {
    (Status::Success, String::new())
}

fn failure(message: impl Into<String>) -> Verdict {
    (Status::Failure, message.into())
}

fn pending(message: impl Into<String>) -> Verdict {
    (Status::Pending, message.into())
}

fn judge(operator: &Operator, situation: &Situation, machine: &Machine) -> Verdict {
    let takes = amount(operator, situation, machine);
    let known = |unknown: &str, judge: &dyn Fn(&Inventory) -> Verdict| {
        machine.inventory.map_or_else(|| pending(unknown), judge)
    };
    match operator.host {
        HostRule::Nothing => fine(),
        HostRule::Enough { unknown } => known(unknown, &|inventory| enough(operator, takes, inventory)),
        HostRule::Models => known("Missing inventory in the host", &|inventory| models(takes, inventory)),
        HostRule::Machines => known("Missing Inventory in some of the hosts", &|inventory| {
            machines(situation, machine, inventory).unwrap_or_else(|| enough(operator, takes, inventory))
        }),
        HostRule::Volumes => known("Missing Inventory in the host", &|_| volumes(situation, machine)),
        HostRule::Storage => storage(situation, machine),
        HostRule::NoSecureBoot { vendor, loads } => known("Missing inventory in the host", &|inventory| {
            let concerned = vendor.is_none_or(|vendor| inventory.gpus.iter().any(|gpu| gpu.vendor_id == vendor));
            let secure = inventory.boot.as_ref().is_some_and(|boot| boot.secure_boot_state == "Enabled");
            verdict(!concerned || !secure, "", || {
                format!("Secure boot is enabled, but it needs to be disabled in order to load {loads}")
            })
        }),
    }
}

/// Processors, and what the kernel has of memory, MiB.
fn found(inventory: &Inventory) -> Amount {
    let cpus = inventory.cpu.as_ref().map_or(0, |cpu| cpu.count);
    Amount::new(cpus, inventory.memory.as_ref().map_or(0, |memory| memory.usable_bytes >> 20))
}

fn enough(operator: &Operator, takes: Amount, inventory: &Inventory) -> Verdict {
    let (title, found) = (operator.title(), found(inventory));
    if found.cpu_cores < takes.cpu_cores {
        // The text ends in a space, as published.
        return failure(format!(
            "Insufficient CPU to deploy {title}. Required CPU count is {} but found {} ",
            takes.cpu_cores, found.cpu_cores
        ));
    }
    verdict(found.ram_mib >= takes.ram_mib, "", || {
        format!(
            "Insufficient memory to deploy {title}. Required memory is {} MiB but found {} MiB",
            takes.ram_mib, found.ram_mib
        )
    })
}

fn models(takes: Amount, inventory: &Inventory) -> Verdict {
    let found = found(inventory);
    let cpus = (found.cpu_cores < takes.cpu_cores).then(|| {
        format!(
            "Insufficient CPU to deploy OpenShift AI, requires {} CPU cores but found {}",
            takes.cpu_cores, found.cpu_cores
        )
    });
    let memory = (found.ram_mib < takes.ram_mib).then(|| {
        format!(
            "Insufficient memory to deploy OpenShift AI, requires {} GiB but found {} GiB",
            takes.ram_mib >> 10,
            found.ram_mib >> 10
        )
    });
    let reasons: Vec<String> = cpus.into_iter().chain(memory).collect();
    verdict(reasons.is_empty(), "", || reasons.join("\n"))
}

/// What is missing for virtual machines.
fn machines(situation: &Situation, machine: &Machine, inventory: &Inventory) -> Option<Verdict> {
    let able = inventory.cpu.as_ref().is_some_and(|cpu| {
        let flags = cpu.flags.as_deref().unwrap_or_default();
        cpu.architecture == "aarch64" || flags.iter().any(|flag| matches!(flag.as_str(), "vmx" | "svm"))
    });
    if !able {
        return Some(failure("CPU does not have virtualization support"));
    }
    let pool = MACHINES_POOL_GIB << 30;
    if situation.pools_machines() && !machine.spare().any(|disk| disk.size_bytes > pool) {
        return Some(failure(format!(
            "OpenShift Virtualization on SNO requires an additional disk with {} GB ({MACHINES_POOL_GIB} Gi) in order to provide \
             persistent storage for VMs, using hostpath-provisioner",
            pool / 1_000_000_000
        )));
    }
    (machine.effective == HostRole::AutoAssign)
        .then(|| failure("All host roles must be assigned to enable OpenShift Virtualization"))
}

fn volumes(situation: &Situation, machine: &Machine) -> Verdict {
    let least = situation.engine_gb();
    let role = machine.effective;
    if role == HostRole::Worker || situation.masters_must_work() && role != HostRole::Arbiter {
        let size = if least > 0 { format!(" of {least}GB minimum") } else { String::new() };
        return verdict(machine.spare_disks(least).0 > 0, "", || {
            format!("Logical Volume Manager requires at least one non-installation HDD/SSD disk{size} on the host")
        });
    }
    verdict(role != HostRole::AutoAssign, "", || {
        "For Logical Volume Manager Standard Mode, host role must be assigned to master or worker.".to_owned()
    })
}

fn storage(situation: &Situation, machine: &Machine) -> Verdict {
    if situation.storage_needs_role(machine.role) {
        return pending(
            "Auto-assigning roles for hosts with ODF is allowed only for clusters with exactly three hosts. For other \
             scenarios, please manually assign the host role as either a control plane node or a worker.",
        );
    }
    if situation.runs_storage(machine.role) != Some(true) {
        return fine();
    }
    if machine.inventory.is_none() {
        return pending("Missing Inventory in the host.");
    }
    let mode = situation.storage_mode().name().to_lowercase();
    let least = situation.storage_disk_gb(true);
    match machine.spare_disks(least) {
        (0, 0) => failure(format!(
            "Insufficient disks, ODF requires at least one non-installation SSD or HDD disk on each host in {mode} mode."
        )),
        (0, _) => failure(format!(
            "Insufficient resources to deploy ODF in {mode} mode. ODF requires a minimum of {STORAGE_HOSTS} hosts. Each host must \
             have at least 1 additional disk of {least} GB minimum and an installation disk."
        )),
        _ => fine(),
    }
}
