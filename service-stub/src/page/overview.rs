//! All there is: clusters, hosts without one, infra-envs.

use super::html::{Tone, badge, cell, e, list, moment, page, progress, section, table};
use crate::auth::Caller;
use crate::handlers::infra_envs::image_url;
use crate::http::{Call, Refusal};
use crate::model::Model;
use crate::service::Service;

/// GET /.
pub fn render(service: &Service, call: &Call) -> Result<String, Refusal> {
    let model = service.store.model();
    let main = format!(
        "<h1>Overview</h1>{}{}{}",
        section("clusters", "Clusters", &clusters(&model, call.caller)),
        section("unbound", "Hosts without a cluster", &unbound(service, &model, call.caller)),
        section("infra-envs", "Infra-envs", &infra_envs(service, &model, call.caller)),
    );
    Ok(page("Overview", &[], &main, Some("/ui/stream")))
}

fn clusters(model: &Model, caller: Caller) -> String {
    let rows: Vec<String> = model
        .clusters
        .values()
        .filter(|record| caller.sees_cluster(model, record.cluster.id))
        .map(|record| {
            let cluster = &record.cluster;
            let link = format!("<a href=\"/ui/clusters/{}\">{}</a>", cluster.id, e(&cluster.name));
            let total = cluster.progress.as_ref().map_or(0, |progress| progress.total_percentage);
            let far = match cluster.install_started_at.is_zero() {
                true => "–".to_owned(),
                false => progress(&format!("Installation of {}", cluster.name), total),
            };
            [
                cell("Name", link),
                cell("State", badge(Tone::of_state(record.state.as_str()), record.state.as_str())),
                cell("Progress", far),
                cell("Hosts", model.hosts_of_cluster(cluster.id).len()),
                cell("Version", e(&cluster.openshift_version)),
                cell("Info", e(&cluster.status_info)),
            ]
            .concat()
        })
        .collect();
    let none = "There is no cluster yet: make one with `landfall cluster create`, or by the API.";
    table("All clusters", &["Name", "State", "Progress", "Hosts", "Version", "Info"], &rows, none)
}

fn unbound(service: &Service, model: &Model, caller: Caller) -> String {
    let hosts = model.hosts.values().filter(|record| record.host.cluster_id.is_none());
    let hosts = hosts.filter(|record| caller.sees_infra_env(model, record.host.infra_env_id));
    let rows: Vec<String> = hosts
        .map(|record| {
            [
                cell("Name", super::host::link(record)),
                cell("State", badge(Tone::of_state(record.state.as_str()), record.state.as_str())),
                cell("Hardware", e(&super::host::summary(record))),
                cell("Last heard of", moment(service.store.presences().get(record.key()).checked_in_at)),
                cell("Info", e(&record.host.status_info)),
            ]
            .concat()
        })
        .collect();
    table("Hosts without a cluster", &["Name", "State", "Hardware", "Last heard of", "Info"], &rows, "None.")
}

fn infra_envs(service: &Service, model: &Model, caller: Caller) -> String {
    let mut html = String::new();
    let seen = model.infra_envs.values().filter(|record| caller.sees_infra_env(model, record.infra_env.id));
    for record in seen {
        let infra_env = &record.infra_env;
        let cluster = infra_env.cluster_id.and_then(|id| model.clusters.get(&id));
        let cluster = cluster.map(|record| {
            let cluster = &record.cluster;
            format!("<a href=\"/ui/clusters/{}\">{}</a>", cluster.id, e(&cluster.name))
        });
        let url = image_url(service, record).0;
        html.push_str(&format!("<article><h3>{}</h3>", e(&infra_env.name)));
        html.push_str(&list(&[
            (
                "ISO",
                if service.media.has_iso() {
                    format!("<a href=\"{}\">Download</a>", e(&url))
                } else {
                    "This service was started without an ISO.".to_owned()
                },
            ),
            ("Cluster", cluster.unwrap_or_default()),
            ("Hosts", model.hosts_of_infra_env(infra_env.id).len().to_string()),
            ("Architecture", e(&infra_env.cpu_architecture).to_string()),
            ("Image", e(&infra_env.kind_of_image).to_string()),
            ("Id", format!("<code>{}</code>", infra_env.id)),
        ]));
        html.push_str("</article>");
    }
    if html.is_empty() {
        html.push_str("<p class=\"none\">There is no infra-env yet: make one with `landfall infra-env create`, or by the API.</p>");
    }
    html
}
