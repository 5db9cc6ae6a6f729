//! Hosts as users see and set them.

use super::{downloads, lists};
use crate::documents;
use crate::events::{self, kinds};
use crate::find::find_host;
use crate::http::body::{BodyShape, shape, text, texts};
use crate::http::{Answer, Call, Refusal};
use crate::logs;
use crate::model::{HostKey, HostRecord, Model};
use crate::pass;
use crate::planned::of_host;
use crate::service::Service;
use crate::store::Change;
use crate::text::plain;
use crate::view;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// GET /v2/infra-envs/{id}/hosts.
pub(crate) fn list(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    Ok(lists::hosts(service, service.store.model().hosts_of_infra_env(id), Vec::new()))
}

/// GET /v2/infra-envs/{id}/hosts/{id}.
pub(crate) fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    answer(service, call.host_key()?, StatusCode::OK)
}

pub(super) fn answer(service: &Service, key: HostKey, status: StatusCode) -> Result<Answer, Refusal> {
    let record = find_host(&service.store.model(), key)?;
    Ok(Answer::json(status, &view::host_document(service, &record)))
}

/// Changes a host, brings its cluster to rest, and shows it.
pub(super) fn change_host(
    service: &Service,
    call: &Call,
    work: impl FnOnce(&mut Change, &mut HostRecord) -> Result<(), Refusal>,
) -> Result<HostKey, Refusal> {
    let key = call.host_key()?;
    service.change(call.request_id(), |change| {
        let before = find_host(change.model(), key)?;
        let mut record = HostRecord::clone(before.as_ref());
        work(change, &mut record)?;
        keeps_to_plan(change.model(), &before, &record)?;
        let cluster = record.host.cluster_id;
        change.put_host(record);
        pass::settle_soon(&service.rules(), change, cluster);
        Ok(key)
    })
}

/// What is planned for a host is not changed by its settings: the plan would change them back.
fn keeps_to_plan(model: &Model, before: &HostRecord, record: &HostRecord) -> Result<(), Refusal> {
    let facts = record.facts();
    let plan = model.infra_envs.get(&record.key().infra_env).map(|infra_env| &infra_env.plan);
    let plan = plan.and_then(|plan| of_host(plan, facts.inventory.as_ref()));
    let Some((plan, inventory)) = plan.zip(facts.inventory.as_ref()) else { return Ok(()) };
    let open = |record: &HostRecord| plan.open_settings(&record.now(), inventory);
    let taken_away: Vec<String> = open(record).difference(&open(before)).cloned().collect();
    if taken_away.is_empty() {
        return Ok(());
    }
    Err(Refusal::conflict(format!(
        "the plan of host {} says otherwise ({}): give its infra-env a changed plan",
        plain(&plan.label()),
        taken_away.join(", ")
    )))
}

pub(super) fn before_installation(record: &HostRecord) -> Result<(), Refusal> {
    if record.state.settings_open() {
        return Ok(());
    }
    Err(Refusal::conflict(format!(
        "host {} is in status {}: its settings can't change any more",
        record.host.id, record.state
    )))
}

/// DELETE /v2/infra-envs/{id}/hosts/{id}. An unknown host is 500 in the real service; 404 says what it is.
pub(crate) fn delete(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let key = call.host_key()?;
    let cluster = service.change(call.request_id(), |change| {
        let record = find_host(change.model(), key)?;
        events::host(change, &record, kinds::HOST_DEREGISTERED, Value::Null);
        change.remove_host(key);
        pass::settle_soon(&service.rules(), change, record.host.cluster_id);
        Ok::<_, Refusal>(record.host.cluster_id)
    })?;
    if let Some(cluster) = cluster {
        logs::forget(service.store.directory(), cluster, Some(key.host));
    }
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

pub(crate) const HOST_IGNITION: BodyShape = shape("hostIgnitionParams", "HostIgnitionParams", &[text("config")]);

#[derive(Default, Deserialize, Serialize)]
struct HostIgnition {
    #[serde(default)]
    config: String,
}

/// GET …/ignition: the config that the host is installed with, as a text.
pub(crate) fn get_ignition(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let (_, config) = downloads::host_config(service, call)?;
    let config = String::from_utf8(config).map_err(|error| Refusal::internal(&error))?;
    Ok(Answer::json(StatusCode::OK, &HostIgnition { config }))
}

/// PATCH …/ignition: sets the override; empty text removes it.
pub(crate) fn set_ignition(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let HostIgnition { config } = call.json(&HOST_IGNITION)?;
    documents::check_host_override(&config)?;
    change_host(service, call, |change, record| {
        record.host.ignition_config_overrides = config;
        events::host(change, record, kinds::HOST_DISCOVERY_IGNITION_CONFIG_APPLIED, Value::Null);
        Ok(())
    })?;
    Ok(Answer::empty(StatusCode::CREATED))
}

pub(crate) const INSTALLER_ARGS: BodyShape = shape("installerArgsParams", "InstallerArgsParams", &[texts("args")]);

#[derive(Default, Deserialize)]
struct InstallerArgs {
    #[serde(default)]
    args: Vec<String>,
}

/// Flags by list, everything else by the characters the real service lets pass.
fn allowed(arg: &str) -> bool {
    match arg.starts_with('-') {
        true => api::INSTALLER_FLAGS.contains(&arg),
        false => !arg.is_empty() && arg.chars().all(api::is_installer_value_char),
    }
}

/// PATCH …/installer-args.
pub(crate) fn set_installer_args(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let InstallerArgs { args } = call.json(&INSTALLER_ARGS)?;
    check_installer_args(&args)?;
    let key = change_host(service, call, |change, record| {
        before_installation(record)?;
        record.host.installer_args = if args.is_empty() { String::new() } else { json!(args).to_string() };
        events::host(change, record, kinds::HOST_INSTALLER_ARGS_APPLIED, Value::Null);
        Ok(())
    })?;
    answer(service, key, StatusCode::CREATED)
}

/// Whether users may give an installer these arguments.
pub(crate) fn check_installer_args(args: &[String]) -> Result<(), Refusal> {
    match args.iter().find(|arg| !allowed(arg)) {
        Some(bad) => {
            Err(Refusal::invalid(format!("found unexpected flag or characters in installer argument '{bad}'")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installer_arguments_pass_by_the_list() {
        for good in [
            "--append-karg",
            "ip=52-54-00-aa-bb-00:dhcp",
            "-n",
            "--image-url",
            "http://10.0.0.1/a.raw.gz",
            "--save-partlabel",
            "data*",
            "console=ttyS0,115200n8",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in
            ["--insecure", "--append-karg=a", "--ignition-file", "-i", "", "a b", "a\nb", "$(reboot)`", "a|b", "ümlaut"]
        {
            assert!(!allowed(bad), "{bad}");
        }
    }
}
