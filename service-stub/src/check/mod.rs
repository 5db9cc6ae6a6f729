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
use std::collections::{BTreeMap, BTreeSet};

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

/// Category of the checks of operators.
pub(crate) const OPERATORS_CATEGORY: &str = "operators";

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    status: Status,
    message: &'a str,
}

/// An old name of an operator's check: it can be ignored, and is never made.
pub(crate) const FORMER_CHECK: &str = "ocs-requirements-satisfied";

/// Findings by category, as the published JSON text.
pub(crate) fn to_json<'a>(findings: impl Iterator<Item = (&'static str, &'a Finding)>) -> String {
    let mut by_category: BTreeMap<&str, Vec<Shown>> = BTreeMap::new();
    for (category, finding) in findings {
        by_category.entry(category).or_default().push(Shown {
            id: finding.id,
            status: finding.status,
            message: &finding.message,
        });
    }
    serde_json::to_string(&by_category).unwrap_or_default()
}
