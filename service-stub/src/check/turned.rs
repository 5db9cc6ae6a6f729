//! Checks whose outcome changed since the last time, which events report (docs/compatibility.md#validations).

use super::{Finding, Status};
use kernel::order::Gather;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How a check changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It fails now.
    Failed {
        /// It passed before; else it had not been decided.
        regressed: bool,
    },
    /// It failed before.
    Fixed,
}

/// An entry of the published text, as far as it matters here.
#[derive(Deserialize)]
struct Entry {
    id: String,
    status: Status,
}

/// Findings that changed since `before`, the last `validations_info`: to failure from anything else, or from failure to success. A
/// check that could not be made (`error`) counts as neither.
pub(crate) fn turned<'a>(before: &str, findings: impl Iterator<Item = &'a Finding>) -> Vec<(Turn, &'a Finding)> {
    let Ok(by_category) = serde_json::from_str::<BTreeMap<String, Vec<Entry>>>(before) else { return Vec::new() };
    let previous: BTreeMap<String, Status> =
        by_category.into_values().flatten().map(|entry| (entry.id, entry.status)).gather();
    let turn = |finding: &Finding| match (previous.get(finding.id)?, finding.status) {
        (before, Status::Failure) if *before != Status::Failure => {
            Some(Turn::Failed { regressed: *before == Status::Success })
        }
        (Status::Failure, Status::Success) => Some(Turn::Fixed),
        _ => None,
    };
    findings.filter_map(|finding| Some((turn(finding)?, finding))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Disabled, Error, Failure, Pending, Success};

    #[test]
    fn checks_turn_to_failure_from_anything_and_back_to_success_only() {
        let (regressed, first) = (Some(Turn::Failed { regressed: true }), Some(Turn::Failed { regressed: false }));
        let rows = [
            (Success, Failure, regressed),
            (Pending, Failure, first),
            (Error, Failure, first),
            (Disabled, Failure, first),
            (Failure, Success, Some(Turn::Fixed)),
            (Failure, Failure, None),
            (Success, Error, None),
            (Error, Success, None),
            (Success, Success, None),
            (Failure, Error, None),
            (Pending, Success, None),
            (Success, Pending, None),
            (Failure, Pending, None),
            (Failure, Disabled, None),
        ];
        for (before, now, expected) in rows {
            let finding = |status| Finding { id: "connected", status, message: String::new() };
            let text = super::super::to_json([("network", &finding(before))].into_iter());
            let now = finding(now);
            let found = turned(&text, std::iter::once(&now));
            assert_eq!(found.first().map(|(turn, _)| *turn), expected, "{before:?} to {:?}", now.status);
        }
        let finding = Finding { id: "connected", status: Failure, message: String::new() };
        for unknown in ["", "{}", "[", r#"{"network":[{"id":"other","status":"success","message":""}]}"#] {
            assert_eq!(turned(unknown, std::iter::once(&finding)), [], "{unknown}");
        }
    }
}
