//! A cluster in detail.

use super::{
    Console,
    culprit::{culprits, fitted, reason, urgent_first},
    display_name, host_name,
    table::{Column, Table},
};
use crate::text::{self, at, number_at};
use serde_json::Value;

/// Progress of an installation: `43 %`; empty before one.
pub(crate) fn percent(cluster: &Value) -> String {
    let begun =
        !at(cluster, "/install_started_at").starts_with("0001-") && !at(cluster, "/install_started_at").is_empty();
    if begun { format!("{} %", number_at(cluster, "/progress/total_percentage")) } else { String::new() }
}

/// Progress of a host: `37 %`; empty before an installation.
pub(crate) fn host_percent(host: &Value) -> String {
    match at(host, "/progress/current_stage") {
        "" => String::new(),
        _ => format!("{} %", number_at(host, "/progress/installation_percentage")),
    }
}

/// A host's role, or in parentheses its suggested role.
pub(crate) fn role(host: &Value) -> String {
    let bootstrap = host.pointer("/bootstrap").and_then(Value::as_bool).unwrap_or(false);
    match (at(host, "/role"), at(host, "/suggested_role")) {
        ("auto-assign" | "", "auto-assign" | "") => "auto-assign".to_owned(),
        ("auto-assign" | "", suggested) => format!("({suggested})"),
        (role, _) if bootstrap => format!("{role}, bootstrap"),
        (role, _) => role.to_owned(),
    }
}

fn addresses(document: &Value, list: &str) -> String {
    let all = document.get(list).and_then(Value::as_array).into_iter().flatten();
    all.map(|entry| match at(entry, "/ip") {
        "" => at(entry, "/cidr"),
        ip => ip,
    })
    .collect::<Vec<_>>()
    .join(", ")
}

/// What stands in its way comes first.
pub(crate) fn show(console: &mut Console, cluster: &Value, all: bool) -> anyhow::Result<()> {
    culprits_first(console, &display_name(cluster), cluster, &culprits(cluster))?;
    let text = |pointer| at(cluster, pointer).to_owned();
    let moment = |pointer| Some(text(pointer)).filter(|text| !text.starts_with("0001-")).unwrap_or_default();
    let domain = match at(cluster, "/base_dns_domain") {
        "" => String::new(),
        domain => format!("{}.{domain}", display_name(cluster)),
    };
    console.list(&[
        ("Name", display_name(cluster)),
        ("Id", text("/id")),
        ("Status", text("/status")),
        ("Info", text("/status_info")),
        ("Progress", percent(cluster)),
        ("Domain", domain),
        ("Version", text("/openshift_version")),
        ("Architecture", text("/cpu_architecture")),
        ("Control plane", number_at(cluster, "/control_plane_count").to_string()),
        ("Platform", text("/platform/type")),
        ("API addresses", addresses(cluster, "api_vips")),
        ("Ingress addresses", addresses(cluster, "ingress_vips")),
        ("Machine networks", addresses(cluster, "machine_networks")),
        ("Created", moment("/created_at")),
        ("Installation started", moment("/install_started_at")),
        ("Installation ended", moment("/install_completed_at")),
    ])?;
    let hosts = urgent_first(cluster);
    if !hosts.is_empty() {
        let mut rows = Table::new(&[
            ("HOST", Column::Name),
            ("ROLE", Column::Detail(2)),
            ("STATUS", Column::State),
            ("DONE", Column::Detail(1)),
            ("DISK", Column::Detail(3)),
            ("REASON", Column::Reason),
        ]);
        for host in &hosts {
            rows.row([
                host_name(host),
                role(host),
                at(host, "/status").to_owned(),
                host_percent(host),
                at(host, "/installation_disk_path").to_owned(),
                reason(host),
            ]);
        }
        console.say("")?;
        console.table(&rows)?;
    }
    if all {
        validations(console, "the cluster", cluster)?;
        hosts.iter().try_for_each(|host| validations(console, &host_name(host), host))?;
    }
    Ok(())
}

/// Prints why a record is in its state, and an empty line; nothing if there is no reason.
pub(crate) fn culprits_first(
    console: &mut Console,
    name: &str,
    record: &Value,
    culprits: &[String],
) -> anyhow::Result<()> {
    if culprits.is_empty() {
        return Ok(());
    }
    console.say(text::plain(&format!("{name} is {}:", at(record, "/status"))))?;
    console.say(fitted(culprits, console.width))
}

/// Prints all validations of a record, those that pass too.
pub(crate) fn validations(console: &mut Console, whose: &str, record: &Value) -> anyhow::Result<()> {
    let found = text::validations(at(record, "/validations_info"));
    if found.is_empty() {
        return Ok(());
    }
    console.say("")?;
    console.say(text::plain(&format!("Validations of {whose}:")))?;
    found
        .iter()
        .try_for_each(|one| console.say(text::plain_end(&format!("  {:<8} {}: {}", one.status, one.id, one.message))))
}
