//! The events the service records.

use crate::check::{Finding, turned::Turn};
use crate::model::{ClusterRecord, Event, HostRecord, InfraEnvRecord};
use crate::state::{ClusterState, HostState};
use crate::store::Change;
use serde_json::{Value, json};

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    #[allow(missing_docs)]
    Info,
    #[allow(missing_docs)]
    Warning,
    #[allow(missing_docs)]
    Error,
    #[allow(missing_docs)]
    Critical,
}

impl Severity {
    /// The wire's texts.
    pub const NAMES: [&'static str; 4] = ["info", "warning", "error", "critical"];

    fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

fn event(change: &Change, name: &str, severity: Severity, message: String, props: Value) -> Event {
    Event {
        name: name.to_owned(),
        cluster_id: None,
        host_id: None,
        infra_env_id: None,
        severity: severity.as_str().to_owned(),
        category: "user".to_owned(),
        message,
        event_time: change.now,
        request_id: String::new(),
        props: if props.is_null() { String::new() } else { props.to_string() },
    }
}

/// The details every event of its kind has, with those of this one.
fn with_own(mut common: Value, own: Value) -> Value {
    if let (Value::Object(common), Value::Object(own)) = (&mut common, own) {
        common.retain(|_, value| !value.is_null());
        common.extend(own);
    }
    common
}

/// Something about a host; the message starts with its name.
pub fn host(change: &mut Change, record: &HostRecord, name: &str, severity: Severity, text: &str, props: Value) {
    let host_name = display_name(record);
    let ids = &record.host;
    let common = json!({"cluster_id": ids.cluster_id, "host_id": ids.id, "infra_env_id": ids.infra_env_id, "host_name": host_name});
    let props = with_own(common, props);
    let event = Event {
        cluster_id: record.host.cluster_id,
        host_id: Some(record.host.id),
        infra_env_id: Some(record.host.infra_env_id),
        ..event(change, name, severity, format!("Host {host_name}: {text}"), props)
    };
    change.event(event);
}

/// Something about a cluster.
pub fn cluster(
    change: &mut Change,
    record: &ClusterRecord,
    name: &str,
    severity: Severity,
    text: String,
    props: Value,
) {
    let props = with_own(json!({"cluster_id": record.cluster.id}), props);
    let event = Event { cluster_id: Some(record.cluster.id), ..event(change, name, severity, text, props) };
    change.event(event);
}

/// Something about an infra-env.
pub fn infra_env(change: &mut Change, record: &InfraEnvRecord, name: &str, text: String) {
    let ids = &record.infra_env;
    let props = with_own(json!({"cluster_id": ids.cluster_id, "infra_env_id": ids.id}), Value::Null);
    let event = Event {
        infra_env_id: Some(ids.id),
        cluster_id: ids.cluster_id,
        ..event(change, name, Severity::Info, text, props)
    };
    change.event(event);
}

/// A host changed its state.
pub fn host_state(change: &mut Change, record: &HostRecord, from: HostState) {
    let severity = match record.state {
        HostState::Disconnected
        | HostState::DisconnectedUnbound
        | HostState::InstallingPendingUserAction
        | HostState::Insufficient
        | HostState::InsufficientUnbound => Severity::Warning,
        HostState::Error => Severity::Error,
        _ => Severity::Info,
    };
    let text = format!("updated status from {from} to {} ({})", record.state, record.host.status_info);
    let props = json!({"src_status": from, "new_status": record.state});
    host(change, record, "host_status_updated", severity, &text, props);
}

/// A cluster changed its state.
pub fn cluster_state(change: &mut Change, record: &ClusterRecord, from: ClusterState) {
    let severity = if record.state == ClusterState::Error { Severity::Error } else { Severity::Info };
    let text = format!("Updated status of the cluster to {}", record.state);
    let props = json!({"src_status": from, "new_status": record.state});
    cluster(change, record, "cluster_status_updated", severity, text, props);
}

/// A longer message of a check is cut in the details of its event.
const MAX_FAILURE_CHARS: usize = 1000;

/// What is told of a check that turned: the event's ending and severity, its text, its details.
fn check(turn: Turn, finding: &Finding) -> (&'static str, Severity, String, Value) {
    let id = finding.id;
    match turn {
        Turn::Failed => {
            let failure: String = finding.message.chars().take(MAX_FAILURE_CHARS).collect();
            let text = format!("validation '{id}' that used to succeed is now failing: {failure}");
            ("failed", Severity::Warning, text, json!({"validation_id": id, "failure_message": failure}))
        }
        Turn::Fixed => {
            ("fixed", Severity::Info, format!("validation '{id}' is now fixed"), json!({"validation_id": id}))
        }
    }
}

/// A check of a host turned.
pub fn host_check(change: &mut Change, record: &HostRecord, turn: Turn, finding: &Finding) {
    let (ending, severity, text, props) = check(turn, finding);
    host(change, record, &format!("host_validation_{ending}"), severity, &text, props);
}

/// A check of a cluster turned.
pub fn cluster_check(change: &mut Change, record: &ClusterRecord, turn: Turn, finding: &Finding) {
    let (ending, severity, text, props) = check(turn, finding);
    cluster(change, record, &format!("cluster_validation_{ending}"), severity, format!("Cluster {text}"), props);
}

/// A host's name for people: its own, or its id while it has none.
pub fn display_name(record: &HostRecord) -> String {
    record.hostname().map_or_else(|| record.host.id.to_string(), str::to_owned)
}
