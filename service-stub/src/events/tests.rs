//! The events against the published ones.

use super::*;
use std::{collections::BTreeMap, path::Path};

/// A row of the published table: scope, category, severity, text, names of details.
struct Published {
    scope: String,
    category: String,
    severity: String,
    message: String,
    details: Vec<String>,
}

fn published() -> Option<BTreeMap<String, Published>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/contract/events.tsv");
    let Ok(text) = std::fs::read_to_string(&path) else {
        testkit::skip::because(format_args!("{} is not there", path.display()));
        return None;
    };
    let rows = text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let details = cells[6].split(", ").filter_map(|cell| cell.split(' ').next()).map(str::to_owned).collect();
        let own = |at: usize| cells[at].to_owned();
        (own(0), Published { scope: own(1), category: own(2), severity: own(3), message: own(5), details })
    });
    Some(rows.collect())
}

fn names_in(message: &str) -> Vec<&str> {
    message.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

#[test]
fn kinds_are_as_published() {
    let Some(published) = published() else { return };
    for kind in kinds::ALL.iter().filter(|kind| !kinds::OURS.contains(&kind.name)) {
        let Some(row) = published.get(kind.name) else { panic!("{} is not published", kind.name) };
        assert_eq!((kind.message, "user"), (row.message.as_str(), row.category.as_str()), "{}", kind.name);
        // That of a host's state follows the state.
        if *kind != kinds::HOST_STATUS_UPDATED {
            assert_eq!(kind.severity.as_str(), row.severity, "{}", kind.name);
        }
        let starts = match row.scope.as_str() {
            "cluster" => {
                ["cluster", "api_", "install", "cancel", "reset", "finalizing", "proxy", "validations", "after"]
                    .as_slice()
            }
            "infra_env" => &["infra_env", "image_info"],
            _ => &["host", "disk", "image_status", "quick", "upgrade"],
        };
        assert!(starts.iter().any(|start| kind.name.starts_with(start)), "{} is about a {}", kind.name, row.scope);
        for name in names_in(kind.message) {
            let common = ["cluster_id", "host_id", "host_name"].contains(&name);
            assert!(common || row.details.iter().any(|detail| detail == name), "{}: {name}", kind.name);
        }
    }
    for name in kinds::OURS {
        assert!(!published.contains_key(*name), "{name} is a published name");
    }
}

#[test]
fn texts_are_filled_and_a_missing_detail_shows() {
    let details = json!({"host_name": "a{b}", "minutes": 30, "stage": "Rebooting"});
    assert_eq!(
        filled(kinds::HOST_STAGE_TIMED_OUT.message, &details),
        "Host a{b}: host stage Rebooting has been active more than the expected completion time (30 minutes)"
    );
    assert_eq!(filled("{host_name} {gone} {", &details), "a{b} {gone} {");
}
