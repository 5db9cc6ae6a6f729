//! The course of a cluster's installation: what was prepared, and what the cluster's controller has reported.

use crate::state::cluster::{FinalizingStage, Preparation};
use crate::state::limits::FinalizingLimits;
use api::{ClusterId, Secret, Timestamp};
use kernel::order;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// Part of every cluster that has not chosen its parts.
const CONSOLE: &str = "console";

/// Stored with a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// Time limits flag instead of failing.
    pub(crate) soft_timeouts: bool,
    /// The operator's own limits of finalizing stages.
    #[serde(skip_serializing_if = "FinalizingLimits::is_usual")]
    pub(crate) finalizing_limits: FinalizingLimits,
    /// The outcome of the last preparation.
    pub(crate) preparation: Preparation,
    /// Why it failed.
    pub(crate) preparation_reason: String,
    /// What the controller does.
    pub(crate) finalizing_stage: Option<FinalizingStage>,
    /// Operators that must work before the cluster counts as installed.
    pub(crate) operators: Vec<Operator>,
    /// Authority that signs the cluster's ingress, PEM, as the controller found it.
    pub(crate) ingress_ca: String,
    /// The controller's final report about all operators.
    pub(crate) operators_report: Value,
    /// Its install-time files are made by this service.
    pub(crate) prepares_files: bool,
    /// The preparation that made them.
    pub(crate) prepared_files: Option<Uuid>,
    /// The cluster's own identity, once it is known.
    pub(crate) openshift_cluster_id: Option<Uuid>,
    /// Name its API is reached by, for hosts that are added.
    pub api_vip_dns_name: String,
    /// It was not installed by this service.
    pub(crate) imported: bool,
    /// The service chose roles for its hosts, of which there are more than a control plane needs.
    pub(crate) roles_assigned: bool,
    /// The install configuration as it was when the installation began; the pull secret is in it.
    #[serde(skip_serializing_if = "Secret::is_empty")]
    pub(crate) install_config: Secret,
}

impl Default for Course {
    fn default() -> Self {
        Self {
            soft_timeouts: false,
            finalizing_limits: FinalizingLimits::default(),
            preparation: Preparation::NotStarted,
            preparation_reason: String::new(),
            finalizing_stage: None,
            operators: vec![Operator::builtin(CONSOLE)],
            ingress_ca: String::new(),
            operators_report: Value::Null,
            prepares_files: false,
            prepared_files: None,
            openshift_cluster_id: None,
            api_vip_dns_name: String::new(),
            imported: false,
            roles_assigned: false,
            install_config: Secret::default(),
        }
    }
}

impl Course {
    /// A controller has reported.
    pub(crate) fn reported(&self) -> bool {
        self.finalizing_stage.is_some() || self.operators.iter().any(|operator| operator.status.is_some())
    }

    /// The install-time files are not there yet.
    pub(crate) fn awaits_files(&self) -> bool {
        self.prepares_files && self.preparation == Preparation::NotStarted
    }

    /// The controller is done: the cluster's configuration is complete, and its operators have finished.
    pub(crate) fn finalized(&self) -> bool {
        !self.ingress_ca.is_empty() && self.operators.iter().all(Operator::ended)
    }

    /// Percentage of operators that have finished.
    pub(crate) fn operators_percent(&self) -> u64 {
        let ended = self.operators.iter().filter(|operator| operator.ended()).count();
        let percent = ended.saturating_mul(100).checked_div(self.operators.len()).unwrap_or(0);
        u64::try_from(percent).unwrap_or(100)
    }

    /// Names of added operators that failed.
    pub(crate) fn failed_operators(&self) -> Vec<String> {
        let failed = self.olm_operators().filter(|operator| operator.status == Some(OperatorStatus::Failed));
        failed.map(|operator| operator.name.clone()).collect()
    }

    /// The longest time any operator that may fail takes, seconds.
    pub(crate) fn olm_timeout(&self) -> i64 {
        self.operators
            .iter()
            .filter(|operator| operator.olm())
            .map(|operator| operator.timeout_seconds)
            .max()
            .unwrap_or(0)
    }

    /// Operators that were added.
    pub(crate) fn olm_operators(&self) -> impl Iterator<Item = &Operator> {
        self.operators.iter().filter(|operator| operator.olm())
    }

    /// Replaces the operators that were added; the list stays in order of names.
    pub(crate) fn set_olm_operators(&mut self, operators: Vec<Operator>) {
        self.operators.retain(|operator| !operator.olm());
        self.operators.extend(operators);
        order::sort_by(&mut self.operators, |one, other| one.name.cmp(&other.name));
    }

    /// Whether the console is among the operators that must work.
    pub(crate) fn set_console(&mut self, is_enabled: bool) {
        if !is_enabled {
            self.operators.retain(|operator| operator.name != CONSOLE);
        } else if self.operators.iter().all(|operator| operator.name != CONSOLE) {
            self.operators.push(Operator::builtin(CONSOLE));
            order::sort_by(&mut self.operators, |one, other| one.name.cmp(&other.name));
        }
    }

    /// Forgets an earlier installation.
    pub(crate) fn clear(&mut self) {
        for operator in &mut self.operators {
            operator.status = None;
            operator.status_info.clear();
            operator.version.clear();
            operator.status_updated_at = Timestamp::ZERO;
        }
        self.begin();
    }

    /// Starts an installation. Reports about operators since the last reset stay.
    pub(crate) fn begin(&mut self) {
        self.preparation = Preparation::NotStarted;
        self.preparation_reason.clear();
        self.finalizing_stage = None;
        self.ingress_ca.clear();
        self.operators_report = Value::Null;
        self.openshift_cluster_id = None;
        self.install_config = Secret::default();
    }
}

/// A cluster's DHCP leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DhcpVips {
    /// The API's, as dhclient writes one.
    pub(crate) api_lease: String,
    pub(crate) ingress_lease: String,
    /// Since when leases are expected; zero if they are not.
    pub(crate) expected_since: Timestamp,
    /// They did not come in time.
    pub(crate) timed_out: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperatorKind {
    /// Part of every cluster.
    Builtin,
    /// Added; the cluster works without it.
    Olm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperatorStatus {
    Failed,
    Progressing,
    Available,
}

impl OperatorStatus {
    /// The wire's texts.
    pub(crate) const NAMES: [&'static str; 3] = ["failed", "progressing", "available"];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Failed => Self::NAMES[0],
            Self::Progressing => Self::NAMES[1],
            Self::Available => Self::NAMES[2],
        }
    }
}

/// `monitored-operator`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operator {
    pub(crate) name: String,
    pub(crate) kind: OperatorKind,
    /// Status, once reported.
    #[serde(default)]
    pub(crate) status: Option<OperatorStatus>,
    /// Its status as text.
    #[serde(default)]
    pub(crate) status_info: String,
    #[serde(default)]
    pub(crate) version: String,
    /// When its status was reported.
    #[serde(default)]
    pub(crate) status_updated_at: Timestamp,
    /// How long it may take, seconds.
    #[serde(default)]
    pub(crate) timeout_seconds: i64,
    /// Where an added one is installed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    /// The subscription of an added one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) subscription_name: String,
    /// Its settings, as the user gave them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) properties: String,
    /// Others need it; the user did not choose it.
    #[serde(default, skip_serializing_if = "api::is_zero")]
    pub(crate) dependency_only: bool,
    /// Bundles that it was chosen with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) source_bundles: Vec<String>,
}

impl Operator {
    /// One that every cluster has.
    pub(crate) fn builtin(name: &str) -> Self {
        Self { timeout_seconds: 3600, ..Self::new(name, OperatorKind::Builtin) }
    }

    /// One that nothing is known of.
    pub(crate) fn new(name: &str, kind: OperatorKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            status: None,
            status_info: String::new(),
            version: String::new(),
            status_updated_at: Timestamp::ZERO,
            timeout_seconds: 0,
            namespace: String::new(),
            subscription_name: String::new(),
            properties: String::new(),
            dependency_only: false,
            source_bundles: Vec::new(),
        }
    }

    fn olm(&self) -> bool {
        self.kind == OperatorKind::Olm
    }

    fn ended(&self) -> bool {
        self.status == Some(OperatorStatus::Available) || self.olm() && self.status == Some(OperatorStatus::Failed)
    }

    /// As it is published.
    pub(crate) fn document(&self, cluster: ClusterId) -> Value {
        let mut document = json!({
            "bundles": null,
            "cluster_id": cluster,
            "name": self.name,
            "operator_type": self.kind,
            "source_bundles": (!self.source_bundles.is_empty()).then_some(&self.source_bundles),
            "status_updated_at": self.status_updated_at,
            "timeout_seconds": self.timeout_seconds,
        });
        let texts = [
            ("status", self.status.map_or("", OperatorStatus::as_str)),
            ("status_info", &self.status_info),
            ("version", &self.version),
            ("namespace", &self.namespace),
            ("subscription_name", &self.subscription_name),
            ("properties", &self.properties),
        ];
        if let Value::Object(fields) = &mut document {
            fields.extend(
                texts
                    .iter()
                    .filter(|(_, text)| !text.is_empty())
                    .map(|(name, text)| ((*name).to_owned(), Value::from(*text))),
            );
            if self.dependency_only {
                fields.insert("dependency_only".into(), Value::from(true));
            }
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_addition_degrades_and_a_failed_part_does_not_end() {
        let mut course = Course::default();
        course.operators.push(Operator { timeout_seconds: 7200, ..Operator::new("odf", OperatorKind::Olm) });
        assert!(!course.reported() && !course.finalized());
        course.ingress_ca = "pem".into();
        course.operators[1].status = Some(OperatorStatus::Failed);
        course.operators[0].status = Some(OperatorStatus::Failed);
        assert_eq!(
            (course.finalized(), course.operators_percent(), course.failed_operators()),
            (false, 50, vec!["odf".to_owned()])
        );
        course.operators[0].status = Some(OperatorStatus::Available);
        assert_eq!((course.finalized(), course.operators_percent(), course.olm_timeout()), (true, 100, 7200));
        course.clear();
        assert_eq!((course.reported(), course.operators.len(), course.olm_timeout()), (false, 2, 7200));
    }
}
