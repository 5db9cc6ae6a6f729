//! A host: state, hardware, validations, events.

use super::events;
use super::html::{Tone, badge, cell, e, list, moment, page, progress, section, table};
use crate::http::{Call, Refusal};
use crate::model::HostRecord;
use crate::service::Service;
use crate::store::{EventQuery, HostFilter};
use crate::text::{self, binary_bytes, decimal_bytes};
use api::{HostRole, Inventory};

/// Its name, or its id as long as it has none.
pub fn name(record: &HostRecord) -> String {
    record.hostname().map_or_else(|| record.host.id.to_string(), str::to_owned)
}

/// Its name, leading to its page.
pub fn link(record: &HostRecord) -> String {
    let key = record.key();
    format!("<a href=\"/ui/infra-envs/{}/hosts/{}\">{}</a>", key.infra_env, key.host, e(&name(record)))
}

/// Processors, memory, disks; empty before it has told of them.
pub fn summary(record: &HostRecord) -> String {
    record.facts().inventory.as_ref().map(text::hardware).unwrap_or_default()
}

/// The role it has, or in parentheses the one it would be given.
pub fn role(record: &HostRecord) -> String {
    match (record.host.role, record.host.suggested_role) {
        (HostRole::AutoAssign, HostRole::AutoAssign) => "auto-assign".to_owned(),
        (HostRole::AutoAssign, suggested) => format!("({suggested})"),
        (role, _) if record.host.bootstrap => format!("{role}, bootstrap"),
        (role, _) => role.to_string(),
    }
}

/// The stage it is in, with what it says of it.
pub fn stage(record: &HostRecord) -> String {
    let Some(progress) = &record.host.progress else { return String::new() };
    match (progress.current_stage, progress.progress_info.as_str()) {
        (None, _) => String::new(),
        (Some(stage), "") => stage.to_string(),
        (Some(stage), detail) => format!("{stage}: {detail}"),
    }
}

/// How far it is; empty before an installation.
pub fn progress_of(record: &HostRecord) -> String {
    let begun = record.host.progress.as_ref().filter(|progress| progress.current_stage.is_some());
    begun
        .map(|begun| progress(&format!("Installation of {}", name(record)), begun.installation_percentage))
        .unwrap_or_default()
}

/// The validations of `whose`: those that stand in the way, and the others folded away.
pub fn validations(whose: &str, info: &str) -> String {
    let found = text::validations(info);
    if found.is_empty() {
        return String::new();
    }
    let (wrong, right): (Vec<_>, Vec<_>) = found.iter().partition(|finding| finding.stands_in_the_way());
    let items = |findings: &[&text::Validation]| -> String {
        let item = |finding: &&text::Validation| {
            let badge = badge(Tone::of_validation(&finding.status), &finding.status);
            format!("<li>{badge} <strong>{}</strong> {}</li>", e(&finding.id), e(&finding.message))
        };
        findings.iter().map(item).collect()
    };
    let whose = e(whose);
    let folded = |title: String, findings: &[&text::Validation]| {
        format!("<details><summary>{title}</summary><ul class=\"findings\">{}</ul></details>", items(findings))
    };
    match (wrong.len(), right.len()) {
        (0, count) => folded(format!("<h3>{whose}: all {count} pass</h3>"), &right),
        (count, passing) => {
            let all = found.len();
            let head = format!("<h3>{whose}: {count} of {all} stand in the way</h3>");
            let rest = if passing == 0 { String::new() } else { folded(format!("The {passing} that pass"), &right) };
            format!("{head}<ul class=\"findings\">{}</ul>{rest}", items(&wrong))
        }
    }
}

/// GET /ui/infra-envs/{id}/hosts/{id}.
pub fn render(service: &Service, call: &Call) -> Result<String, Refusal> {
    let key = call.host_key()?;
    let model = service.store.model();
    let record = model.hosts.get(&key).ok_or_else(|| Refusal::not_found(format!("host {} was not found", key.host)))?;
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    let api = format!("{}/v2/infra-envs/{}/hosts/{}", api::API_PATH, key.infra_env, key.host);
    let all_events = format!("{}/v2/events?host_id={}", api::API_PATH, key.host);
    let these = HostFilter::Any { these: vec![key.host], none: false, other_than: None };
    let of_host = EventQuery { infra_env: Some(key.infra_env), hosts: these, ..EventQuery::default() };
    let presence = service.store.presences().get(key);
    let state = list(&[
        ("State", badge(Tone::of_state(record.state.as_str()), record.state.as_str())),
        ("Info", e(&record.host.status_info).to_string()),
        ("Stage", e(&stage(record)).to_string()),
        ("Progress", progress_of(record)),
        ("Role", e(&role(record)).to_string()),
        (
            "Cluster",
            cluster
                .map(|c| format!("<a href=\"/ui/clusters/{}\">{}</a>", c.cluster.id, e(&c.cluster.name)))
                .unwrap_or_default(),
        ),
        ("Installation disk", e(&record.host.installation_disk_path).to_string()),
        ("Installer arguments", e(&record.host.installer_args).to_string()),
        ("Last heard of", moment(presence.checked_in_at)),
        ("Registered", moment(record.host.registered_at)),
        ("Agent", e(&record.host.discovery_agent_version).to_string()),
        ("Id", format!("<code>{}</code>", key.host)),
    ]);
    let found = validations(&name(record), &record.host.validations_info);
    let found = if found.is_empty() { "<p class=\"none\">None yet.</p>".to_owned() } else { found };
    let none = "<p class=\"none\">The host has not told of its hardware yet.</p>";
    let hardware = record.facts().inventory.as_ref().map_or_else(|| none.to_owned(), hardware);
    let main = format!(
        "<h1>{}</h1>{}{}{}{}<p><a href=\"{api}\">All as JSON</a></p>",
        e(&name(record)),
        section("state", "State", &state),
        section("validations", "Validations", &found),
        section("hardware", "Hardware", &hardware),
        section("events", "Events", &events::events(service, of_host, &all_events)?),
    );
    let path = cluster.map(|record| format!("/ui/clusters/{}", record.cluster.id));
    let title = cluster.map(|record| format!("Cluster {}", record.cluster.name)).unwrap_or_default();
    let mut trail = vec![("Overview", "/")];
    trail.extend(path.as_deref().map(|path| (title.as_str(), path)));
    let stream = format!("/ui/stream?infra_env_id={}&host_id={}", key.infra_env, key.host);
    Ok(page(&format!("Host {}", name(record)), &trail, &main, Some(&stream)))
}

fn hardware(inventory: &Inventory) -> String {
    let (cpu, memory) = (inventory.cpu.as_ref(), inventory.memory.as_ref());
    let boot = inventory.boot.as_ref();
    let facts = list(&[
        ("Machine", e(&text::machine(inventory)).to_string()),
        (
            "Serial number",
            inventory.system_vendor.as_ref().map(|v| e(&v.serial_number).to_string()).unwrap_or_default(),
        ),
        (
            "Processors",
            cpu.map(|cpu| e(format!("{} {} {}", cpu.count, cpu.architecture, cpu.model_name).trim()).to_string())
                .unwrap_or_default(),
        ),
        (
            "Memory",
            memory
                .map(|memory| {
                    format!("{}, {} usable", binary_bytes(memory.physical_bytes), binary_bytes(memory.usable_bytes))
                })
                .unwrap_or_default(),
        ),
        ("Firmware", boot.map(|boot| e(&boot.current_boot_mode).to_string()).unwrap_or_default()),
        ("Secure boot", boot.map(|boot| e(&boot.secure_boot_state).to_string()).unwrap_or_default()),
        ("TPM", e(&inventory.tpm_version).to_string()),
        ("Management controller", e(&text::bmc(inventory)).to_string()),
    ]);
    let disks: Vec<String> = inventory
        .disks
        .iter()
        .map(|disk| {
            let fit = match disk.installation_eligibility.eligible {
                true => badge(Tone::Good, "fit"),
                false => {
                    let reasons = disk.installation_eligibility.not_eligible_reasons.as_deref().unwrap_or_default();
                    format!("{} {}", badge(Tone::Plain, "not fit"), e(&reasons.join("; ")))
                }
            };
            [
                cell("Disk", e(&disk.path)),
                cell("Kind", e(&disk.drive_type)),
                cell("Size", decimal_bytes(disk.size_bytes)),
                cell("Model", e(format!("{} {}", disk.vendor, disk.model).trim())),
                cell("Serial number", e(&disk.serial)),
                cell("Fit to install to", fit),
            ]
            .concat()
        })
        .collect();
    let interfaces: Vec<String> = inventory
        .interfaces
        .iter()
        .map(|nic| {
            let addresses: Vec<&str> =
                nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses).map(String::as_str).collect();
            let speed = if nic.speed_mbps > 0 { format!("{} Mb/s", nic.speed_mbps) } else { String::new() };
            [
                cell("Interface", e(&nic.name)),
                cell("MAC", e(&nic.mac_address)),
                cell("Link", if nic.has_carrier { badge(Tone::Good, "up") } else { badge(Tone::Plain, "down") }),
                cell("Speed", speed),
                cell("MTU", nic.mtu),
                cell("Addresses", e(&addresses.join(", "))),
            ]
            .concat()
        })
        .collect();
    let disk_heads = ["Disk", "Kind", "Size", "Model", "Serial number", "Fit to install to"];
    let nic_heads = ["Interface", "MAC", "Link", "Speed", "MTU", "Addresses"];
    facts
        + &table("Disks", &disk_heads, &disks, "No disk.")
        + &table("Network interfaces", &nic_heads, &interfaces, "No interface.")
}
