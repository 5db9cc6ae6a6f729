//! What the machine itself is good for.

use super::context::{Context, no_inventory, pending, reply, success, verdict};
use crate::check::{Status, Verdict, requirements::RoleNeeds};
use serde_json::Value;

pub(super) fn has_inventory(context: &Context) -> Option<Verdict> {
    verdict(context.inventory().is_some(), "Valid inventory exists for the host", || {
        "The host has not sent its inventory yet".to_owned()
    })
}

fn enough_cpus(context: &Context, needs: RoleNeeds, success: String, what: &str) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let found = inventory.cpu.as_ref().map_or(0, |cpu| cpu.count);
    verdict(found >= needs.cpu_cores, success, || {
        format!("{what} needs {} CPU cores, the host has {found}", needs.cpu_cores)
    })
}

fn enough_memory(context: &Context, needs: RoleNeeds, success: String, what: &str) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let memory = inventory.memory.clone().unwrap_or_default();
    let found = memory.physical_bytes >> 20;
    verdict(found >= needs.least_mib(&memory.physical_bytes_method), success, || {
        format!("{what} needs {} MiB of memory, the host has {found} MiB", needs.ram_mib)
    })
}

pub(super) fn has_min_cpu_cores(context: &Context) -> Option<Verdict> {
    let needs = context.requirements.least(context.version());
    enough_cpus(context, needs, "Sufficient CPU cores".into(), "Any role")
}

pub(super) fn has_min_memory(context: &Context) -> Option<Verdict> {
    let needs = context.requirements.least(context.version());
    enough_memory(context, needs, "Sufficient minimum RAM".into(), "Any role")
}

pub(super) fn has_min_valid_disks(context: &Context) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    if inventory.disks.is_empty() {
        return Some((Status::Error, "The host has no disk that could be seen".to_owned()));
    }
    verdict(
        inventory.disks.iter().any(|disk| disk.installation_eligibility.eligible),
        "Sufficient disk capacity",
        || {
            let reasons = inventory.disks.iter().map(|disk| {
                let reasons = disk.installation_eligibility.not_eligible_reasons.as_deref().unwrap_or_default();
                format!("{}: {}", disk.name, reasons.join(", "))
            });
            format!("No eligible disks were found ({})", reasons.collect::<Vec<_>>().join("; "))
        },
    )
}

pub(super) fn has_cpu_cores_for_role(context: &Context) -> Option<Verdict> {
    let role = context.record.effective_role();
    enough_cpus(context, context.needs(), format!("Sufficient CPU cores for role {role}"), &format!("Role {role}"))
}

pub(super) fn has_memory_for_role(context: &Context) -> Option<Verdict> {
    let role = context.record.effective_role();
    enough_memory(context, context.needs(), format!("Sufficient RAM for role {role}"), &format!("Role {role}"))
}

pub(super) fn hostname_unique(context: &Context) -> Option<Verdict> {
    let Some(name) = context.record.hostname() else { return no_inventory() };
    let others = context.shared.names.get(name).map_or(0, |count| count.saturating_sub(1));
    verdict(others == 0, format!("Hostname {name} is unique in cluster"), || {
        format!("Hostname {name} is also that of {others} other host(s) of the cluster: give the host another name")
    })
}

/// A host's name: DNS labels, at most 63 characters, and not a name of the loopback.
pub(crate) fn valid_hostname(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 63
        && name.split('.').all(label)
        && !name.starts_with('-')
        && !api::FORBIDDEN_HOSTNAMES.contains(&name)
}

pub(super) fn hostname_valid(context: &Context) -> Option<Verdict> {
    let Some(name) = context.inventory().and_then(|_| context.record.hostname()) else {
        return Some((Status::Failure, "The host has not reported its name yet".to_owned()));
    };
    verdict(valid_hostname(name), format!("Hostname {name} is allowed"), || {
        format!(
            "Hostname {name} is not allowed: use lower-case letters, digits, hyphens and dots, at most 63, not localhost"
        )
    })
}

pub(super) fn not_partially_truncated(context: &Context) -> Option<Verdict> {
    truncated(context, "partial")
}

pub(super) fn not_fully_truncated(context: &Context) -> Option<Verdict> {
    truncated(context, "full")
}

fn truncated(context: &Context, kind: &str) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let cut = inventory.truncation.as_ref().filter(|truncation| truncation.kind == kind);
    verdict(cut.is_none(), "Inventory is not truncated", || {
        let reasons = cut.map(|truncation| truncation.reasons.join("; ")).unwrap_or_default();
        format!(
            "The agent left a part of the inventory out ({reasons}): raise its limit of size, or have it list fewer disks"
        )
    })
}

pub(super) fn compatible_with_platform(context: &Context) -> Option<Verdict> {
    let platform = context.cluster?.cluster.platform.as_ref().map_or("", |platform| platform.kind.as_str());
    // Of a cluster that hosts are added to, it is somebody else's matter.
    if context.day2() {
        return success("Host is compatible with the cluster it is added to");
    }
    if platform.is_empty() {
        return pending("The platform of the cluster is not set");
    }
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let manufacturer = inventory.system_vendor.as_ref().map_or("", |vendor| vendor.manufacturer.as_str());
    let fits = match platform {
        "vsphere" => manufacturer.starts_with("VMware"),
        "nutanix" => manufacturer == "Nutanix",
        _ => true,
    };
    verdict(fits, format!("Host is compatible with cluster platform {platform}"), || {
        format!("Host is not compatible with cluster platform {platform}: its maker is '{manufacturer}'")
    })
}

pub(super) fn vsphere_disk_uuid(context: &Context) -> Option<Verdict> {
    if context.cluster?.cluster.platform.as_ref().is_none_or(|platform| platform.kind != "vsphere") {
        return None;
    }
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let eligible = inventory.disks.iter().filter(|disk| disk.installation_eligibility.eligible);
    let without: Vec<&str> = eligible.filter(|disk| !disk.has_uuid).map(|disk| disk.name.as_str()).collect();
    verdict(without.is_empty(), "VSphere disk.EnableUUID is enabled for this virtual machine", || {
        format!("Disks {} have no UUID: set disk.EnableUUID to TRUE for this virtual machine", without.join(", "))
    })
}

/// Any agent that speaks the protocol will do: this service upgrades none.
#[allow(clippy::unnecessary_wraps)] // one of the table
pub(super) fn compatible_agent(_: &Context) -> Option<Verdict> {
    success("Host agent is compatible with the service")
}

fn skipped_disks(context: &Context) -> Vec<String> {
    let text = context.record.texts.skip_formatting_disks.as_deref().unwrap_or_default();
    text.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

pub(super) fn no_skip_installation_disk(context: &Context) -> Option<Verdict> {
    let host = &context.record.host;
    let skipped = skipped_disks(context);
    let named = skipped.iter().any(|id| *id == host.installation_disk_id || *id == host.installation_disk_path);
    verdict(!named, "No request to skip formatting of the installation disk", || {
        "The installation disk is among those whose formatting is skipped: choose another one, or take it off the list"
            .to_owned()
    })
}

pub(super) fn no_skip_missing_disk(context: &Context) -> Option<Verdict> {
    let Some(inventory) = context.inventory() else { return no_inventory() };
    let skipped = skipped_disks(context);
    let known = |id: &&String| inventory.disks.iter().any(|disk| crate::check::disks::answers_to(disk, id));
    let missing: Vec<&str> = skipped.iter().filter(|id| !known(id)).map(String::as_str).collect();
    verdict(missing.is_empty(), "All disks that have skipped formatting are present in the host inventory", || {
        format!("Disks whose formatting is skipped are not in the inventory: {}", missing.join(", "))
    })
}

/// By the exit code of the step, as the host keeps it.
pub(super) fn disk_speed(context: &Context) -> Option<Verdict> {
    let info: Option<Value> = reply(&context.record.texts.disks_info);
    let unmeasured = || success("Speed of installation disk has not yet been measured");
    let Some(info) = info else { return unmeasured() };
    let host = &context.record.host;
    let speed = [&host.installation_disk_id, &host.installation_disk_path]
        .into_iter()
        .filter(|id| !id.is_empty())
        .find_map(|id| info.get(id)?.get("disk_speed").cloned());
    let Some(speed) = speed.filter(|speed| speed["tested"] == true) else { return unmeasured() };
    // 0 is left out.
    match speed["exit_code"].as_i64() {
        None | Some(0) => success("Speed of installation disk is sufficient"),
        Some(code) => Some((
            Status::Failure,
            format!("Speed of installation disk could not be measured: the step ended with {code}"),
        )),
    }
}
