//! A cluster: state, hosts, validations, links between hosts, events.

use super::actions::{self, Action};
use super::html::{line, list, moment, none, page, progress, section, state_badge, table};
use super::{events, host, mesh};
use crate::find::find_cluster;
use crate::http::{Call, Refusal};
use crate::model::{ClusterRecord, HostRecord};
use crate::service::Service;
use crate::store::EventQuery;
use crate::text;
use kernel::order;
use maud::{Markup, display, html};
use std::sync::Arc;

/// GET /ui/clusters/{id}.
pub(super) fn render(service: &Service, call: &Call) -> Result<Markup, Refusal> {
    let id = call.cluster_id()?;
    let model = service.store.model();
    let record = find_cluster(&model, id)?;
    let mut hosts = model.hosts_of_cluster(id);
    order::sort_by_key(&mut hosts, |host| (host.hostname().map(str::to_owned), host.host.id));
    let all_events = format!("{}/v2/events?cluster_id={id}", api::API_PATH);
    let of_cluster = EventQuery { cluster: Some(id), ..EventQuery::default() };
    let events = events::events(service, of_cluster, &all_events)?;
    let main = html! {
        h1 { (line(&record.cluster.name)) }
        (section("state", "State", state(&record)))
        (section("hosts", "Hosts", table_of_hosts(&record, &hosts)))
        (section("validations", "Validations", validations(&record, &hosts)))
        (section("mesh", "Links between hosts", mesh::matrix(&hosts)))
        (section("logs", "Logs", logs(&record, &hosts)))
        (section("events", "Events", events))
        p { a href={ (api::API_PATH) "/v2/clusters/" (display(id)) } { "All as JSON" } }
    };
    let title = format!("Cluster {}", record.cluster.name);
    Ok(page(&title, &[("Overview", "/")], main, Some(&format!("/ui/stream?cluster_id={id}"))))
}

fn state(record: &ClusterRecord) -> Markup {
    let cluster = &record.cluster;
    let percent = cluster.progress.as_ref().map_or(0, |progress| progress.total_percentage);
    let networks: Vec<&str> = cluster.machine_networks.iter().map(|network| network.cidr.as_str()).collect();
    let addresses =
        |vips: &[serde_json::Value]| vips.iter().map(|vip| text::at(vip, "/ip")).collect::<Vec<_>>().join(", ");
    let domain = match cluster.base_dns_domain.as_str() {
        "" => String::new(),
        domain => format!("{}.{domain}", cluster.name),
    };
    let mut actions = Action::ALL.into_iter().filter(|action| action.fits(record.state)).peekable();
    html! {
        (list(&[
            ("State", state_badge(record.state.as_str())),
            ("Info", line(&cluster.status_info)),
            ("Progress", html! { @if !cluster.install_started_at.is_zero() { (progress("Installation", percent)) } }),
            ("Started", moment(cluster.install_started_at)),
            ("Ended", moment(cluster.install_completed_at)),
            ("Domain", line(&domain)),
            ("Version", line(&cluster.openshift_version)),
            ("Control plane", html! { (cluster.control_plane_count) " host(s)" }),
            ("Machine networks", line(&networks.join(", "))),
            ("API", line(&addresses(&cluster.api_vips))),
            ("Ingress", line(&addresses(&cluster.ingress_vips))),
            ("Id", html! { code { (display(cluster.id)) } }),
        ]))
        @if actions.peek().is_some() {
            p.actions { @for action in actions { (actions::link(action, cluster.id)) } }
        }
    }
}

fn table_of_hosts(cluster: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Markup {
    let row = |record: &Arc<HostRecord>| {
        [
            host::link(record),
            line(&host::role(record)),
            state_badge(record.state.as_str()),
            line(&host::stage(record)),
            host::progress_of(record),
            line(&record.host.installation_disk_path),
            line(&host::summary(record)),
        ]
    };
    let rows: Vec<_> = hosts.iter().map(row).collect();
    let wanted = cluster.cluster.control_plane_count;
    let nothing = format!(
        "None yet: boot machines from the ISO of an infra-env of this cluster. Its control plane needs {wanted}."
    );
    let headers = ["Name", "Role", "State", "Stage", "Progress", "Disk", "Hardware"];
    table("Hosts of the cluster", headers, &rows, &nothing)
}

fn validations(record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Markup {
    let found = html! {
        (host::validations("The cluster", &record.cluster.validations_info))
        @for record in hosts { (host::validations(&host::name(record), &record.host.validations_info)) }
    };
    if found.0.is_empty() { none("None yet.") } else { found }
}

fn logs(record: &ClusterRecord, hosts: &[Arc<HostRecord>]) -> Markup {
    let cluster = &record.cluster;
    let hosts = hosts.iter().map(|record| {
        let query = format!("logs_type=host&host_id={}", record.host.id);
        (query, host::name(record), record.host.logs_collected_at)
    });
    let controller = (
        "logs_type=controller".to_owned(),
        "The cluster's controller".to_owned(),
        cluster.controller_logs_collected_at,
    );
    let uploaded: Vec<_> = hosts.chain([controller]).filter(|(.., time)| !time.is_zero()).collect();
    if uploaded.is_empty() {
        return none("None have been uploaded yet.");
    }
    html! {
        ul {
            @for (query, name, time) in uploaded {
                li {
                    a href={ (api::API_PATH) "/v2/clusters/" (display(cluster.id)) "/logs?" (query) } download {
                        (line(&name))
                    }
                    ", " (moment(time))
                }
            }
        }
    }
}
