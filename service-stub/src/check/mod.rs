//! What must hold before an installation: checks of hosts and clusters as tables of pure functions (service contract §5).

pub mod cluster;
pub mod connectivity;
pub mod disks;
pub mod host;
pub mod reach;
pub mod requirements;

use serde::Serialize;
use std::collections::BTreeMap;

/// How a check came out. Pending means that a fact is missing; it does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[allow(missing_docs)]
    Success,
    #[allow(missing_docs)]
    Failure,
    #[allow(missing_docs)]
    Pending,
}

/// One check's result, as it is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check.
    pub id: &'static str,
    /// How it came out.
    pub status: Status,
    /// Why, for people.
    pub message: String,
}

impl Finding {
    /// Whether it passed.
    pub fn passes(&self) -> bool {
        self.status == Status::Success
    }
}

/// A check's verdict before it gets its id.
pub type Verdict = (Status, String);

/// The condition decides between two messages.
pub fn verdict(holds: bool, success: impl Into<String>, failure: impl FnOnce() -> String) -> Verdict {
    if holds { (Status::Success, success.into()) } else { (Status::Failure, failure()) }
}

/// Findings by category, as the published JSON text.
pub fn to_json<'a>(findings: impl Iterator<Item = (&'static str, &'a Finding)>) -> String {
    let mut by_category: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for (category, finding) in findings {
        by_category.entry(category).or_default().push(finding);
    }
    serde_json::to_string(&by_category).unwrap_or_default()
}
