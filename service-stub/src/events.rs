//! The events the service records.

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

/// Something about a host; the message starts with its name.
pub fn host(change: &mut Change, record: &HostRecord, name: &str, severity: Severity, text: &str, props: Value) {
    let host_name = display_name(record);
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
    let event = Event { cluster_id: Some(record.cluster.id), ..event(change, name, severity, text, props) };
    change.event(event);
}

/// Something about an infra-env.
pub fn infra_env(change: &mut Change, record: &InfraEnvRecord, name: &str, text: String) {
    let event = Event {
        infra_env_id: Some(record.infra_env.id),
        cluster_id: record.infra_env.cluster_id,
        ..event(change, name, Severity::Info, text, Value::Null)
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

/// A host's name for people: its own, or its id while it has none.
pub fn display_name(record: &HostRecord) -> String {
    record.hostname().map_or_else(|| record.host.id.to_string(), str::to_owned)
}
