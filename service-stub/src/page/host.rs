//! A host: state, hardware, validations, events.

use super::html::{Tone, badge, line, list, moment, none, page, progress, section, state_badge, table};
use super::{events, link};
use crate::http::{Call, Refusal};
use crate::model::HostRecord;
use crate::service::Service;
use crate::store::{EventQuery, HostFilter};
use crate::text;
use api::{Disk, HostRole, Interface, Inventory};
use kernel::units::binary;
use maud::{Markup, display, html};

/// Its name, or its id while it has no name.
pub(super) fn name(record: &HostRecord) -> String {
    record.name_or_id()
}

/// Its name, linked to its page.
pub(super) fn link(record: &HostRecord) -> Markup {
    let key = record.key();
    let path = format!("/ui/infra-envs/{}/hosts/{}", key.infra_env, key.host);
    html! { a href=(path) { (line(&name(record))) } }
}

/// Processors, memory, disks; empty before the first inventory.
pub(super) fn summary(record: &HostRecord) -> String {
    record.facts().inventory.as_ref().map(text::hardware).unwrap_or_default()
}

/// Its role, or in parentheses its suggested role.
pub(super) fn role(record: &HostRecord) -> String {
    match (record.host.role, record.host.suggested_role) {
        (HostRole::AutoAssign, HostRole::AutoAssign) => "auto-assign".to_owned(),
        (HostRole::AutoAssign, suggested) => format!("({suggested})"),
        (role, _) if record.host.bootstrap => format!("{role}, bootstrap"),
        (role, _) => role.to_string(),
    }
}

/// Its stage, with the detail it reports.
pub(super) fn stage(record: &HostRecord) -> String {
    let Some(progress) = &record.host.progress else { return String::new() };
    match (progress.current_stage, progress.progress_info.as_str()) {
        (None, _) => String::new(),
        (Some(stage), "") => stage.to_string(),
        (Some(stage), detail) => format!("{stage}: {detail}"),
    }
}

/// Its progress; empty before an installation.
pub(super) fn progress_of(record: &HostRecord) -> Markup {
    let begun = record.host.progress.as_ref().filter(|progress| progress.current_stage.is_some());
    html! {
        @if let Some(begun) = begun {
            (progress(&format!("Installation of {}", name(record)), begun.installation_percentage))
        }
    }
}

/// The validations of `whose`: those that block it, and the others collapsed. Empty before there are any.
pub(super) fn validations(whose: &str, info: &str) -> Markup {
    let found = text::validations(info);
    if found.is_empty() {
        return Markup::default();
    }
    let (wrong, right): (Vec<_>, Vec<_>) = found.iter().partition(|finding| finding.stands_in_the_way());
    let items = |findings: &[&text::Validation]| {
        html! {
            ul.findings {
                @for finding in findings {
                    li {
                        (badge(Tone::of_validation(&finding.status), &finding.status)) " "
                        strong { (line(&finding.id)) } " " (line(&finding.message))
                    }
                }
            }
        }
    };
    html! {
        @if wrong.is_empty() {
            details {
                summary { h3 { (line(whose)) ": all " (right.len()) " pass" } }
                (items(&right))
            }
        } @else {
            h3 { (line(whose)) ": " (wrong.len()) " of " (found.len()) " block the installation" }
            (items(&wrong))
            @if !right.is_empty() {
                details { summary { (right.len()) " others" } (items(&right)) }
            }
        }
    }
}

/// GET /ui/infra-envs/{id}/hosts/{id}.
pub(super) fn render(service: &Service, call: &Call) -> Result<Markup, Refusal> {
    let key = call.host_key()?;
    let model = service.store.model();
    let record = model.hosts.get(&key).ok_or_else(|| Refusal::not_found(format!("host {} was not found", key.host)))?;
    let cluster = record.host.cluster_id.and_then(|id| model.clusters.get(&id));
    let api = format!("{}/v2/infra-envs/{}/hosts/{}", api::API_PATH, key.infra_env, key.host);
    let all_events = format!("{}/v2/events?host_id={}", api::API_PATH, key.host);
    let these = HostFilter::Any { these: vec![key.host], none: false, other_than: None };
    let of_host = EventQuery { infra_env: Some(key.infra_env), hosts: these, ..EventQuery::default() };
    let events = events::events(service, of_host, &all_events)?;
    let state = list(&[
        ("State", state_badge(record.state.as_str())),
        ("Info", line(&record.host.status_info)),
        ("Stage", line(&stage(record))),
        ("Progress", progress_of(record)),
        ("Role", line(&role(record))),
        ("Cluster", cluster.map(|record| link::cluster(record)).unwrap_or_default()),
        ("Installation disk", line(&record.host.installation_disk_path)),
        ("Installer arguments", line(&record.host.installer_args)),
        ("Boot", line(&text::boot(&record.host.validations_info).unwrap_or_default())),
        ("Last contact", moment(service.store.presences().get(key).checked_in_at)),
        ("Registered", moment(record.host.registered_at)),
        ("Agent", line(&record.host.discovery_agent_version)),
        ("Id", html! { code { (display(key.host)) } }),
    ]);
    let found = validations(&name(record), &record.host.validations_info);
    let found = if found.0.is_empty() { none("None yet.") } else { found };
    let unknown = || none("The host has not reported its hardware yet.");
    let main = html! {
        h1 { (line(&name(record))) }
        (section("state", "State", state))
        (section("validations", "Validations", found))
        (section("hardware", "Hardware", record.facts().inventory.as_ref().map_or_else(unknown, hardware)))
        (section("events", "Events", events))
        p { a href=(api) { "All as JSON" } }
    };
    let above = cluster.map(|record| &record.cluster);
    let above = above.map(|cluster| (format!("Cluster {}", cluster.name), format!("/ui/clusters/{}", cluster.id)));
    let mut trail = vec![("Overview", "/")];
    trail.extend(above.as_ref().map(|(title, path)| (title.as_str(), path.as_str())));
    let stream = format!("/ui/stream?infra_env_id={}&host_id={}", key.infra_env, key.host);
    Ok(page(&format!("Host {}", name(record)), &trail, main, Some(&stream)))
}

fn hardware(inventory: &Inventory) -> Markup {
    let serial_number = inventory.system_vendor.as_ref().map(|vendor| line(&vendor.serial_number));
    let processors = inventory.cpu.as_ref().map(|cpu| format!("{} {} {}", cpu.count, cpu.architecture, cpu.model_name));
    let memory = inventory
        .memory
        .as_ref()
        .map(|memory| line(&format!("{}, {} usable", binary(memory.physical_bytes), binary(memory.usable_bytes))));
    let boot = inventory.boot.as_ref();
    let disks: Vec<_> = inventory.disks.iter().map(disk).collect();
    let interfaces: Vec<_> = inventory.interfaces.iter().map(interface).collect();
    let disk_headers = ["Disk", "Kind", "Size", "Model", "Serial number", "Usable for installation"];
    let interface_headers = ["Interface", "MAC", "Link", "Speed", "MTU", "Addresses"];
    html! {
        (list(&[
            ("Machine", line(&text::machine(inventory))),
            ("Serial number", serial_number.unwrap_or_default()),
            ("Processors", line(&processors.unwrap_or_default())),
            ("Memory", memory.unwrap_or_default()),
            ("Firmware", boot.map(|boot| line(&boot.current_boot_mode)).unwrap_or_default()),
            ("Secure boot", boot.map(|boot| line(&boot.secure_boot_state)).unwrap_or_default()),
            ("TPM", line(&inventory.tpm_version)),
            ("Management controller", line(&text::bmc(inventory))),
        ]))
        (table("Disks", disk_headers, &disks, "No disks."))
        (table("Network interfaces", interface_headers, &interfaces, "No interfaces."))
    }
}

fn disk(disk: &Disk) -> [Markup; 6] {
    let eligibility = &disk.installation_eligibility;
    let reasons = eligibility.not_eligible_reasons.as_deref().unwrap_or_default();
    [
        line(&disk.path),
        line(&disk.drive_type),
        line(&binary(disk.size_bytes)),
        line(&format!("{} {}", disk.vendor, disk.model)),
        line(&disk.serial),
        match eligibility.eligible {
            true => badge(Tone::Good, "yes"),
            false => html! { (badge(Tone::Plain, "no")) " " (line(&reasons.join("; "))) },
        },
    ]
}

fn interface(nic: &Interface) -> [Markup; 6] {
    let addresses: Vec<&str> = nic.ipv4_addresses.iter().chain(&nic.ipv6_addresses).map(String::as_str).collect();
    [
        line(&nic.name),
        line(&nic.mac_address),
        if nic.has_carrier { badge(Tone::Good, "up") } else { badge(Tone::Plain, "down") },
        html! { @if nic.speed_mbps > 0 { (nic.speed_mbps) " Mb/s" } },
        html! { (nic.mtu) },
        line(&addresses.join(", ")),
    ]
}
