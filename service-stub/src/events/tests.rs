//! The events against the published ones.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// A row of the published table: scope, category, severity, text, names of details.
struct Published {
    scope: String,
    category: String,
    severity: String,
    rate_limit: String,
    message: String,
    details: Vec<String>,
}

fn published() -> BTreeMap<String, Published> {
    let rows = include_str!("published.tsv").lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let details = cells[6].split(", ").filter_map(|cell| cell.split(' ').next()).map(str::to_owned).collect();
        let own = |at: usize| cells[at].to_owned();
        (
            own(0),
            Published {
                scope: own(1),
                category: own(2),
                severity: own(3),
                rate_limit: own(4),
                message: own(5),
                details,
            },
        )
    });
    rows.collect()
}

/// Published, and not sent here.
const NOT_SENT: &[(&str, &str)] = &[
    ("after a failure of a database", "cluster_deregister_failed"),
    ("after a failure of a database", "host_reset_fetch_failed"),
    ("after a failure of a database", "host_set_status_failed"),
    ("after a failure of a database", "generate_image_fetch_failed"),
    ("a host that is not being installed does not prevent a cancellation", "host_cancel_installation_failed"),
    ("its infra-env never had an id that a client knows", "infra_env_registration_failed"),
    ("of the Kubernetes API", "host_approved_updated"),
    ("a host that was reset waits for its image at once", "user_required_complete_installation_reset"),
    ("the upload has no such type", "host_boot_logs_uploaded"),
    ("controllers send it", "reboots_for_node"),
    ("the published service does not send it either", "cancel_install_start_failed"),
    ("the published service does not send it either", "cancel_install_commit_failed"),
    ("the published service does not send it either", "host_registration_setting_properties_failed"),
    ("the published service does not send it either", "expired_image_deleted"),
    ("the published service does not send it either", "existing_image_reused"),
    ("the published service does not send it either", "generate_image_format_failed"),
    ("the published service does not send it either", "generate_minimal_iso_failed"),
    ("the published service does not send it either", "upload_image_failed"),
    ("the published service does not send it either", "ignition_config_image_generated"),
    ("the published service does not send it either", "inactive_clusters_deregistered"),
    ("the published service does not send it either", "clusters_permanently_deleted"),
];

#[test]
fn every_published_event_is_sent_or_has_a_reason() {
    let published = published();
    let user: BTreeSet<&str> = published.keys().map(String::as_str).filter(|name| !name.starts_with('(')).collect();
    let ours = kinds::ALL.iter().map(|kind| kind.name).filter(|name| !kinds::OURS.contains(name));
    let sent: BTreeSet<&str> = ours.collect();
    let others: BTreeSet<&str> = NOT_SENT.iter().map(|(_, name)| *name).collect();
    assert!(sent.is_disjoint(&others), "{:?}", sent.intersection(&others));
    assert_eq!(sent.union(&others).copied().collect::<BTreeSet<_>>(), user);
}

#[test]
fn rates_are_limited_as_published() {
    let published = published();
    let limited: BTreeSet<&str> =
        published.iter().filter(|(_, row)| row.rate_limit != "-").map(|(name, _)| name.as_str()).collect();
    assert!(limited.iter().all(|name| published[*name].rate_limit == "1h"));
    assert_eq!(kinds::HOURLY.iter().map(|kind| kind.name).collect::<BTreeSet<_>>(), limited);
}

fn names_in(message: &str) -> Vec<&str> {
    message.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

#[test]
fn kinds_are_as_published() {
    let published = published();
    for kind in kinds::ALL.iter().filter(|kind| !kinds::OURS.contains(&kind.name)) {
        let Some(row) = published.get(kind.name) else { panic!("{} is not published", kind.name) };
        assert_eq!((kind.message, "user"), (row.message.as_str(), row.category.as_str()), "{}", kind.name);
        // That of a host's state follows the state.
        if *kind != kinds::HOST_STATUS_UPDATED {
            assert_eq!(kind.severity.as_str(), row.severity, "{}", kind.name);
        }
        let starts = match row.scope.as_str() {
            "cluster" => [
                "cluster",
                "api_",
                "install",
                "cancel",
                "reset",
                "finalizing",
                "prepare",
                "proxy",
                "validations",
                "after",
            ]
            .as_slice(),
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
