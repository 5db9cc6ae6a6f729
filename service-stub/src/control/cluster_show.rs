//! A cluster in detail.

use super::{Console, display_name, host_name, hosts, table};
use crate::text::{self, at, number_at};
use serde_json::Value;

/// Progress of an installation: `43 %`; empty before one.
pub(crate) fn percent(cluster: &Value) -> String {
    let begun =
        !at(cluster, "/install_started_at").starts_with("0001-") && !at(cluster, "/install_started_at").is_empty();
    if begun { format!("{} %", number_at(cluster, "/progress/total_percentage")) } else { String::new() }
}

/// A host's stage, with its detail and progress.
pub(crate) fn stage(host: &Value) -> String {
    let (stage, detail) = (at(host, "/progress/current_stage"), at(host, "/progress/progress_info"));
    match (stage, detail) {
        ("", _) => String::new(),
        (stage, "") => stage.to_owned(),
        (stage, detail) => format!("{stage}: {detail}"),
    }
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

pub(crate) fn show(console: &mut Console, cluster: &Value, all_validations: bool) -> anyhow::Result<()> {
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
    let hosts = hosts(cluster);
    if !hosts.is_empty() {
        let mut rows = table::Table::new(&["HOST", "ROLE", "STATUS", "DONE", "STAGE", "DISK"]);
        for host in &hosts {
            rows.row([
                host_name(host),
                role(host),
                at(host, "/status").to_owned(),
                host_percent(host),
                stage(host),
                at(host, "/installation_disk_path").to_owned(),
            ]);
        }
        console.say("")?;
        console.table(&rows)?;
    }
    findings(console, "cluster", at(cluster, "/validations_info"), all_validations)?;
    for host in hosts {
        findings(console, &host_name(host), at(host, "/validations_info"), all_validations)?;
    }
    Ok(())
}

/// Prints the validations of `whose`: those that block it, or all. Prints nothing if there are none.
pub(crate) fn findings(console: &mut Console, whose: &str, info: &str, all: bool) -> anyhow::Result<()> {
    let found = text::validations(info);
    let wanted: Vec<_> = found.iter().filter(|finding| all || finding.stands_in_the_way()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    console.say("")?;
    let whose = text::plain(whose);
    console.say(if all { format!("Validations of {whose}:") } else { format!("Blocking {whose}:") })?;
    for finding in wanted {
        console.say(format!("  {:<8} {}: {}", finding.status, finding.id, text::plain(&finding.message)))?;
    }
    Ok(())
}
