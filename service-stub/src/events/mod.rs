//! The events the service records.

pub(crate) mod kinds;
pub mod limits;
pub(crate) mod measured;
#[cfg(test)]
mod tests;

pub(crate) use kinds::Kind;

use crate::check::{Finding, turned::Turn};
use crate::model::{ClusterRecord, Event, HostRecord, InfraEnvRecord};
use crate::state::HostState;
use crate::store::Change;
use ignition::network::Note;
use serde_json::{Value, json};

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Info,
    Warning,
    Error,
    Critical,
}

impl Severity {
    /// The wire's texts.
    pub(crate) const NAMES: [&'static str; 4] = ["info", "warning", "error", "critical"];

    fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

fn event(change: &Change, kind: Kind, props: Value) -> Event {
    Event {
        name: kind.name.to_owned(),
        cluster_id: None,
        host_id: None,
        infra_env_id: None,
        severity: kind.severity.as_str().to_owned(),
        category: "user".to_owned(),
        message: filled(kind.message, &props),
        event_time: change.now,
        request_id: String::new(),
        props: props.to_string(),
    }
}

/// A text with details in place of their names. One that is not there stays a name, which a test would see.
fn filled(message: &str, details: &Value) -> String {
    let (mut text, mut rest) = (String::new(), message);
    while let Some((before, after)) = rest.split_once('{')
        && let Some((name, after)) = after.split_once('}')
    {
        text.push_str(before);
        match &details[name] {
            Value::Null => text.push_str(&format!("{{{name}}}")),
            Value::String(detail) => text.push_str(detail),
            detail => text.push_str(&detail.to_string()),
        }
        rest = after;
    }
    text + rest
}

/// The details every event of its kind has, with those of this one.
fn with_own(mut common: Value, own: Value) -> Value {
    if let (Value::Object(common), Value::Object(own)) = (&mut common, own) {
        common.retain(|_, value| !value.is_null());
        common.extend(own);
    }
    common
}

/// Something about a host.
pub(crate) fn host(change: &mut Change, record: &HostRecord, kind: Kind, details: Value) {
    let ids = &record.host;
    let common = json!({
        "cluster_id": ids.cluster_id,
        "host_id": ids.id,
        "infra_env_id": ids.infra_env_id,
        "host_name": display_name(record),
    });
    let event = Event {
        cluster_id: ids.cluster_id,
        host_id: Some(ids.id),
        infra_env_id: Some(ids.infra_env_id),
        ..event(change, kind, with_own(common, details))
    };
    change.event(event);
}

/// Something about a cluster.
pub(crate) fn cluster(change: &mut Change, record: &ClusterRecord, kind: Kind, details: Value) {
    let id = record.cluster.id;
    let event = Event { cluster_id: Some(id), ..event(change, kind, with_own(json!({"cluster_id": id}), details)) };
    change.event(event);
}

/// Something about an infra-env.
pub(crate) fn infra_env(change: &mut Change, record: &InfraEnvRecord, kind: Kind) {
    infra_env_with(change, record, kind, Value::Null);
}

pub(crate) fn infra_env_with(change: &mut Change, record: &InfraEnvRecord, kind: Kind, details: Value) {
    let ids = &record.infra_env;
    let common = json!({"cluster_id": ids.cluster_id, "infra_env_id": ids.id});
    let event = Event {
        infra_env_id: Some(ids.id),
        cluster_id: ids.cluster_id,
        ..event(change, kind, with_own(common, details))
    };
    change.event(event);
}

/// An infra-env has a new image.
pub(crate) fn image_updated(change: &mut Change, record: &InfraEnvRecord) {
    let infra_env = &record.infra_env;
    let proxy = infra_env.proxy.http_proxy.as_deref().filter(|url| !url.is_empty());
    let proxy = proxy.map(|url| format!("proxy URL is \"{}\"", api::http::public_url(url)));
    let kind = format!("Image type is \"{}\"", infra_env.kind_of_image);
    let key = if infra_env.ssh_authorized_key.is_empty() { "not set" } else { "set" };
    let details: Vec<String> = proxy.into_iter().chain([kind, format!("SSH public key is {key}")]).collect();
    infra_env_with(change, record, kinds::IMAGE_INFO_UPDATED, json!({"details": details.join(", ")}));
}

/// What of the networks of an infra-env does nothing. A list of hosts may have it many times.
pub(crate) fn networks_without_effect(change: &mut Change, record: &InfraEnvRecord, notes: &[Note]) {
    const MAX_NOTES: usize = 50;
    for note in notes.iter().take(MAX_NOTES) {
        let details = json!({"what": note.what, "reason": note.why});
        infra_env_with(change, record, kinds::INFRA_ENV_SETTING_WITHOUT_EFFECT, details);
    }
    if let Some(more) = notes.len().checked_sub(MAX_NOTES).filter(|more| *more > 0) {
        let details =
            json!({"what": format!("More of static_network_config ({more})"), "reason": "as the events before"});
        infra_env_with(change, record, kinds::INFRA_ENV_SETTING_WITHOUT_EFFECT, details);
    }
}

pub(crate) fn host_state(change: &mut Change, record: &HostRecord, from: HostState) {
    let severity = match record.state {
        HostState::Disconnected | HostState::InstallingPendingUserAction | HostState::Insufficient => Severity::Warning,
        HostState::Error => Severity::Error,
        _ => Severity::Info,
    };
    let info = &record.host.status_info;
    let info = if info.is_empty() { String::new() } else { format!("({info})") };
    let details = json!({"src_status": from, "new_status": record.state, "info": info});
    host(change, record, Kind { severity, ..kinds::HOST_STATUS_UPDATED }, details);
}

/// Why settings of a control plane have no effect.
pub(crate) const NO_CONTROL_PLANE: &str = "this service brings up no control plane";

/// What a cluster's settings newly ask for that needs a control plane, where there is none: a user who reads the events does not believe a
/// disk encrypted that is not.
pub(crate) fn settings_without_effect(change: &mut Change, before: Option<&ClusterRecord>, record: &ClusterRecord) {
    for (name, what) in [("disk_encryption", "Disk encryption"), ("schedulable_masters", "schedulable_masters")] {
        let setting = record.settings.get(name);
        let is_on = setting.is_some_and(|setting| match &setting["enable_on"] {
            Value::String(roles) => !matches!(roles.as_str(), "" | "none"),
            _ => *setting == Value::Bool(true),
        });
        if is_on && setting != before.and_then(|before| before.settings.get(name)) {
            let details = json!({"what": what, "reason": NO_CONTROL_PLANE});
            cluster(change, record, kinds::CLUSTER_SETTING_WITHOUT_EFFECT, details);
        }
    }
}

pub(crate) fn cluster_state(change: &mut Change, record: &ClusterRecord) {
    let details = json!({"cluster_status": record.state, "status_info": record.cluster.status_info});
    cluster(change, record, kinds::CLUSTER_STATUS_UPDATED, details);
}

/// How the text of a check goes on that failed after it had passed.
pub(crate) const REGRESSED: &str = "that used to succeed is now failing";

/// How the text of a check that failed goes on.
fn failure(regressed: bool) -> &'static str {
    if regressed { REGRESSED } else { "failed" }
}

pub(crate) fn host_check(change: &mut Change, record: &HostRecord, turn: Turn, finding: &Finding) {
    let id = finding.id;
    match turn {
        Turn::Failed { regressed } => {
            let details = json!({"validation_id": id, "failure_message": failure(regressed)});
            host(change, record, kinds::HOST_VALIDATION_FAILED, details);
        }
        Turn::Fixed => host(change, record, kinds::HOST_VALIDATION_FIXED, json!({"validation_id": id})),
    }
}

/// A longer message of a check is cut in the details of its event.
const MAX_FAILURE_CHARS: usize = 1000;

pub(crate) fn cluster_check(change: &mut Change, record: &ClusterRecord, turn: Turn, finding: &Finding) {
    let (id, message) = (finding.id, finding.message.chars().take(MAX_FAILURE_CHARS).collect::<String>());
    match turn {
        Turn::Failed { regressed } => {
            let details =
                json!({"validation_id": id, "validation_msg": message, "failure_message": failure(regressed)});
            cluster(change, record, kinds::CLUSTER_VALIDATION_FAILED, details);
        }
        Turn::Fixed => {
            let details = json!({"validation_id": id, "validation_msg": message});
            cluster(change, record, kinds::CLUSTER_VALIDATION_FIXED, details);
        }
    }
}

/// A host's name for people: its own, or its id while it has none.
pub(crate) fn display_name(record: &HostRecord) -> String {
    record.name_or_id()
}
