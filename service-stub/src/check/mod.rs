//! What must hold before an installation: checks of hosts and clusters as tables of pure functions (docs/compatibility.md#validations).

pub mod cluster;
pub(crate) mod connectivity;
pub(crate) mod disks;
pub(crate) mod domains;
pub mod host;
pub(crate) mod reach;
pub mod requirements;
pub(crate) mod turned;

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

/// Operators that a cluster may have; none of them is installed by this service, so no host needs anything for one.
pub(crate) const OPERATORS: [&str; 29] = [
    "amd-gpu",
    "authorino",
    "cluster-observability",
    "cnv",
    "fence-agents-remediation",
    "kmm",
    "kube-descheduler",
    "loki",
    "lso",
    "lvm",
    "mce",
    "metallb",
    "mtv",
    "nmstate",
    "node-feature-discovery",
    "node-healthcheck",
    "node-maintenance",
    "numa-resources",
    "nvidia-gpu",
    "oadp",
    "odf",
    "openshift-ai",
    "openshift-logging",
    "osc",
    "pipelines",
    "self-node-remediation",
    "serverless",
    "servicemesh",
    "ocs",
];

/// The outcome of a check. Pending means that a fact is missing; it does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It can't be decided because of a setting.
    Error,
    /// The service's operator disabled it.
    Disabled,
    Success,
    Failure,
    Pending,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) id: &'static str,
    /// How it came out.
    pub(crate) status: Status,
    /// Why, for people.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn passes(&self) -> bool {
        matches!(self.status, Status::Success | Status::Disabled)
    }
}

/// Checks that block nothing, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waived {
    /// Shown with their outcome, and counted as passed.
    pub(crate) ignored: BTreeSet<String>,
    /// Not looked at.
    pub(crate) disabled: BTreeSet<String>,
}

impl Waived {
    /// What stands in the place of a check that is not looked at.
    pub(crate) fn verdict(&self, id: &str) -> Option<Verdict> {
        self.disabled.contains(id).then(|| (Status::Disabled, "Validation disabled by configuration".to_owned()))
    }
}

/// A check's verdict before it gets its id.
pub(crate) type Verdict = (Status, String);

/// The condition decides between two messages.
pub(crate) fn verdict(holds: bool, success: impl Into<String>, failure: impl FnOnce() -> String) -> Verdict {
    if holds { (Status::Success, success.into()) } else { (Status::Failure, failure()) }
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    status: Status,
    message: &'a str,
}

/// For operators that were not requested, shown for every host and cluster.
static OPERATOR_FINDINGS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    // The old name of one is not shown.
    let shown = OPERATORS.iter().filter(|operator| **operator != "ocs");
    let finding = |operator: &&str| {
        let name = if *operator == "numa-resources" { "numaresources" } else { operator };
        (format!("{operator}-requirements-satisfied"), format!("{name} is disabled"))
    };
    shown.map(finding).collect()
});

/// Findings by category, as the published JSON text; with those of operators if wanted.
pub(crate) fn to_json<'a>(findings: impl Iterator<Item = (&'static str, &'a Finding)>, with_operators: bool) -> String {
    let mut by_category: BTreeMap<&str, Vec<Shown>> = BTreeMap::new();
    for (category, finding) in findings {
        by_category.entry(category).or_default().push(Shown {
            id: finding.id,
            status: finding.status,
            message: &finding.message,
        });
    }
    if with_operators {
        by_category.insert(
            "operators",
            OPERATOR_FINDINGS.iter().map(|(id, message)| Shown { id, status: Status::Success, message }).collect(),
        );
    }
    serde_json::to_string(&by_category).unwrap_or_default()
}
