//! Overview: clusters, hosts without a cluster, infra-envs.

use super::html::{line, list, moment, none, page, progress, section, state_badge, table};
use super::{host, link};
use crate::auth::Caller;
use crate::handlers::infra_envs::image_url;
use crate::http::{Call, Refusal};
use crate::model::{InfraEnvRecord, Model};
use crate::service::Service;
use maud::{Markup, display, html};

/// GET /.
pub(super) fn render(service: &Service, call: &Call) -> Result<Markup, Refusal> {
    let model = service.store.model();
    let main = html! {
        h1 { "Overview" }
        (section("clusters", "Clusters", clusters(&model, call.caller)))
        (section("unbound", "Hosts without a cluster", unbound(service, &model, call.caller)))
        (section("infra-envs", "Infra-envs", infra_envs(service, &model, call.caller)))
    };
    Ok(page("Overview", &[], main, Some("/ui/stream")))
}

fn clusters(model: &Model, caller: Caller) -> Markup {
    let records = model.clusters.values().filter(|record| caller.sees_cluster(model, record.cluster.id));
    let rows: Vec<_> = records
        .map(|record| {
            let cluster = &record.cluster;
            let percent = cluster.progress.as_ref().map_or(0, |progress| progress.total_percentage);
            [
                link::cluster(record),
                state_badge(record.state.as_str()),
                match cluster.install_started_at.is_zero() {
                    true => line("–"),
                    false => progress(&format!("Installation of {}", cluster.name), percent),
                },
                html! { (model.hosts_of_cluster(cluster.id).len()) },
                line(&cluster.openshift_version),
                line(&cluster.status_info),
            ]
        })
        .collect();
    let nothing = "There is no cluster yet: create one with `landfall cluster create` or the API.";
    table("All clusters", ["Name", "State", "Progress", "Hosts", "Version", "Info"], &rows, nothing)
}

fn unbound(service: &Service, model: &Model, caller: Caller) -> Markup {
    let hosts = model.hosts.values().filter(|record| record.host.cluster_id.is_none());
    let hosts = hosts.filter(|record| caller.sees_infra_env(model, record.host.infra_env_id));
    let rows: Vec<_> = hosts
        .map(|record| {
            [
                host::link(record),
                state_badge(record.state.as_str()),
                line(&host::summary(record)),
                moment(service.store.presences().get(record.key()).checked_in_at),
                line(&record.host.status_info),
            ]
        })
        .collect();
    table("Hosts without a cluster", ["Name", "State", "Hardware", "Last contact", "Info"], &rows, "None.")
}

fn infra_envs(service: &Service, model: &Model, caller: Caller) -> Markup {
    let records = model.infra_envs.values().filter(|record| caller.sees_infra_env(model, record.infra_env.id));
    let articles: Vec<_> = records.map(|record| infra_env(service, model, record)).collect();
    if articles.is_empty() {
        return none("There is no infra-env yet: create one with `landfall infra-env create` or the API.");
    }
    html! { @for article in articles { (article) } }
}

fn infra_env(service: &Service, model: &Model, record: &InfraEnvRecord) -> Markup {
    let infra_env = &record.infra_env;
    let cluster = infra_env.cluster_id.and_then(|id| model.clusters.get(&id));
    let iso = match service.media.has_iso() || !service.iso_store.is_empty() {
        true => html! { a href=(line(&image_url(service, record).0)) { "Download" } },
        false => line("None: the service was started without --iso."),
    };
    html! {
        article {
            h3 { (line(&infra_env.name)) }
            (list(&[
                ("ISO", iso),
                ("Cluster", cluster.map(|record| link::cluster(record)).unwrap_or_default()),
                ("Hosts", html! { (model.hosts_of_infra_env(infra_env.id).len()) }),
                ("Architecture", line(&infra_env.cpu_architecture)),
                ("Image", line(&infra_env.kind_of_image)),
                ("Id", html! { code { (display(infra_env.id)) } }),
            ]))
        }
    }
}
