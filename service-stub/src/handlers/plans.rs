//! The plans of an infra-env's hosts: kept with its record, and carried out whenever a host registers. A host that has not got its part
//! is not installed.

use super::{host_settings, hosts};
use crate::check::host::valid_hostname;
use crate::documents;
use crate::find::find_infra_env;
use crate::http::{Answer, Call, Refusal};
use crate::model::{HostRecord, InfraEnvRecord};
use crate::planned::{HostChange, PlannedHost, of_host};
use crate::service::Service;
use crate::text::plain;
use api::NodeLabel;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

/// Most hosts of one infra-env's plan.
const MAX_HOSTS: usize = 1000;

/// The body of a request, and the answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) hosts: Vec<PlannedHost>,
}

/// GET /landfall/infra-envs/{id}/plan.
pub(crate) fn get(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_infra_env(&service.store.model(), call.infra_env_id()?)?;
    Ok(Answer::json(StatusCode::OK, &Plan { hosts: record.plan.clone() }))
}

/// PUT of the same: hosts that the plan mentions get it, what is planned for others stays.
pub(crate) fn set(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.infra_env_id()?;
    let given: Plan = call.own_json()?;
    given.hosts.iter().try_for_each(check)?;
    let plan = service.change(call.request_id(), |change| {
        let mut record = InfraEnvRecord::clone(find_infra_env(change.model(), id)?.as_ref());
        merge(&mut record.plan, given.hosts)?;
        let plan = record.plan.clone();
        change.put_infra_env(record);
        Ok::<_, Refusal>(plan)
    })?;
    carry_out(service, id);
    Ok(Answer::json(StatusCode::OK, &Plan { hosts: plan }))
}

/// Replaces the plans of the machines that are given.
pub(crate) fn merge(plan: &mut Vec<PlannedHost>, given: Vec<PlannedHost>) -> Result<(), Refusal> {
    plan.retain(|known| given.iter().all(|host| host.macs.is_disjoint(&known.macs)));
    plan.extend(given);
    if plan.len() > MAX_HOSTS {
        return Err(Refusal::invalid(format!("the plan has {} hosts; the limit is {MAX_HOSTS}", plan.len())));
    }
    Ok(())
}

/// Carries out all plans. What stops one host is a failing check of it, and stops no other.
pub(crate) fn carry_out_all(service: &Service) {
    let model = service.store.model();
    for record in model.infra_envs.values().filter(|record| !record.plan.is_empty()) {
        carry_out(service, record.infra_env.id);
    }
}

fn carry_out(service: &Service, id: api::InfraEnvId) {
    for record in service.store.model().hosts_of_infra_env(id) {
        if let Err(refusal) = apply(service, &record) {
            tracing::debug!(host = %record.host.id, reason = refusal.message(), "the plan of a host is not carried out");
        }
    }
}

/// Applies what is planned for a host and not set yet.
pub(crate) fn apply(service: &Service, record: &HostRecord) -> Result<(), Refusal> {
    let (facts, host) = (record.facts(), &record.host);
    let model = service.store.model();
    let infra_env = model.infra_envs.get(&host.infra_env_id);
    let plan = infra_env.and_then(|infra_env| of_host(&infra_env.plan, facts.inventory.as_ref()));
    let plan = plan.filter(|_| record.state.settings_open());
    let Some((plan, inventory)) = plan.zip(facts.inventory.as_ref()) else { return Ok(()) };
    let path = [("infra_env_id", host.infra_env_id.to_string()), ("host_id", host.id.to_string())];
    let changes = plan.changes(&record.now(), inventory).map_err(|error| Refusal::conflict(error.to_string()))?;
    for (change, body) in changes {
        let call = Call::internal(&path, &body);
        match change {
            HostChange::Settings => host_settings::update(service, &call)?,
            HostChange::InstallerArgs => hosts::set_installer_args(service, &call)?,
            HostChange::Ignition => hosts::set_ignition(service, &call)?,
        };
    }
    Ok(())
}

/// Holds what is planned for a host against the service's rules.
pub(crate) fn check(host: &PlannedHost) -> Result<(), Refusal> {
    if !host.name.is_empty() && !valid_hostname(&host.name) {
        return Err(Refusal::invalid(format!("'{}' is not a host name", plain(&host.name))));
    }
    hosts::check_installer_args(&host.installer_args)?;
    if !host.ignition_override.is_empty() {
        documents::check_host_override(&host.ignition_override)?;
    }
    let label = |(key, value): (&String, &String)| NodeLabel { key: key.clone(), value: value.clone() };
    host_settings::checked_labels(&host.labels.iter().map(label).collect::<Vec<_>>()).map(drop)
}
