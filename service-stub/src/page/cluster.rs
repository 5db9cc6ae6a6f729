//! A cluster: state, hosts, what stands in the way, who reaches whom, events.

use super::actions::{self, Action};
use super::html::{Tone, badge, cell, e, list, moment, page, progress, section, table};
use super::{events, host, mesh};
use crate::http::{Call, Refusal};
use crate::model::{ClusterRecord, HostRecord};
use crate::service::Service;
use crate::store::EventQuery;
use crate::text;
use std::sync::Arc;

/// GET /ui/clusters/{id}.
pub fn render(service: &Service, call: &Call) -> Result<String, Refusal> {
    let id = call.cluster_id()?;
    let model = service.store.model();
    let record = model.clusters.get(&id).ok_or_else(|| Refusal::not_found(format!("cluster {id} was not found")))?;
    let mut hosts = model.hosts_of_cluster(id);
    hosts.sort_by_key(|host| (host.hostname().map(str::to_owned), host.host.id));
    let api = format!("{}/v2/clusters/{id}", api::API_PATH);
    let all_events = format!("{}/v2/events?cluster_id={id}", api::API_PATH);
    let of_cluster = EventQuery { cluster: Some(id), ..EventQuery::default() };
    let main = format!(
        "<h1>{}</h1>{}{}{}{}{}{}<p><a href=\"{api}\">All as JSON</a></p>",
        e(&record.cluster.name),
        section("state", "State", &state(record)),
        section("hosts", "Hosts", &table_of_hosts(record, &hosts)),
        section("validations", "Validations", &validations(record, &hosts)),
        section("mesh", "Links between hosts", &mesh::matrix(&hosts)),
        section("logs", "Logs", &logs(record, &hosts)),
        section("events", "Events", &events::events(service, of_cluster, &all_events)?),
    );
    let title = format!("Cluster {}", record.cluster.name);
    Ok(page(&title, &[("Overview", "/")], &main, Some(&format!("/ui/stream?cluster_id={id}"))))
}

fn state(record: &ClusterRecord) -> String {
    let cluster = &record.cluster;
    let total = cluster.progress.as_ref().map_or(0, |progress| progress.total_percentage);
    let begun = !cluster.install_started_at.is_zero();
    let networks: Vec<&str> = cluster.machine_networks.iter().map(|network| network.cidr.as_str()).collect();
    let addresses =
        |vips: &[serde_json::Value]| vips.iter().map(|vip| text::at(vip, "/ip")).collect::<Vec<_>>().join(", ");
    let domain = match cluster.base_dns_domain.as_str() {
        "" => String::new(),
        domain => format!("{}.{domain}", cluster.name),
    };
    let facts = list(&[
        ("State", badge(Tone::of_state(record.state.as_str()), record.state.as_str())),
        ("Info", e(&cluster.status_info).to_string()),
        ("Progress", if begun { progress("Installation", total) } else { String::new() }),
        ("Begun", moment(cluster.install_started_at)),
        ("Ended", moment(cluster.install_completed_at)),
        ("Domain", e(&domain).to_string()),
        ("Version", e(&cluster.openshift_version).to_string()),
        ("Control plane", format!("{} host(s)", cluster.control_plane_count)),
        ("Machine networks", e(&networks.join(", ")).to_string()),
        ("API", e(&addresses(&cluster.api_vips)).to_string()),
        ("Ingress", e(&addresses(&cluster.ingress_vips)).to_string()),
        ("Id", format!("<code>{}</code>", cluster.id)),
    ]);
    let actions: String = Action::ALL
        .iter()
        .filter(|action| action.fits(record.state))
        .map(|action| actions::link(*action, cluster.id))
        .collect();
    if actions.is_empty() { facts } else { format!("{facts}<p class=\"actions\">{actions}</p>") }
}

fn table_of_hosts(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> String {
    let rows: Vec<String> = hosts
        .iter()
        .map(|record| {
            [
                cell("Name", host::link(record)),
                cell("Role", e(&host::role(record))),
                cell("State", badge(Tone::of_state(record.state.as_str()), record.state.as_str())),
                cell("Stage", e(&host::stage(record))),
                cell("Progress", host::progress_of(record)),
                cell("Disk", e(&record.host.installation_disk_path)),
                cell("Hardware", e(&host::summary(record))),
            ]
            .concat()
        })
        .collect();
    let wanted = cluster.cluster.control_plane_count;
    let none = format!(
        "None yet: boot machines from the ISO of an infra-env of this cluster. Its control plane needs {wanted}."
    );
    table("Hosts of the cluster", &["Name", "Role", "State", "Stage", "Progress", "Disk", "Hardware"], &rows, &none)
}

fn validations(record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> String {
    let mut html = host::validations("The cluster", &record.cluster.validations_info);
    for record in hosts {
        html.push_str(&host::validations(&host::name(record), &record.host.validations_info));
    }
    if html.is_empty() { "<p class=\"none\">None yet.</p>".to_owned() } else { html }
}

fn logs(record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> String {
    let id = record.cluster.id;
    let link = |query: &str, what: &str, time| {
        format!(
            "<li><a href=\"{}/v2/clusters/{id}/logs?{}\" download>{}</a>, {}</li>",
            api::API_PATH,
            e(query),
            e(what),
            moment(time)
        )
    };
    let mut items = String::new();
    for record in hosts.iter().filter(|record| !record.host.logs_collected_at.is_zero()) {
        let query = format!("logs_type=host&host_id={}", record.host.id);
        items.push_str(&link(&query, &host::name(record), record.host.logs_collected_at));
    }
    if !record.cluster.controller_logs_collected_at.is_zero() {
        items.push_str(&link(
            "logs_type=controller",
            "The cluster's controller",
            record.cluster.controller_logs_collected_at,
        ));
    }
    if items.is_empty() {
        "<p class=\"none\">None have been uploaded yet.</p>".to_owned()
    } else {
        format!("<ul>{items}</ul>")
    }
}
