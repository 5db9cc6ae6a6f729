//! What stands in a cluster's way: which host, and why.

use super::{display_name, host_name, hosts};
use crate::text::{self, Validation, at};
use serde_json::Value;

/// More lines than these are counted only.
const MAX_LINES: usize = 10;

/// The hosts that failed with their reasons, else the checks that failed, host by host.
pub(crate) fn culprits(cluster: &Value) -> Vec<String> {
    let hosts = hosts(cluster);
    let mut lines: Vec<String> = hosts
        .iter()
        .filter(|host| is_failed(host))
        .map(|host| line(&host_name(host), at(host, "/status_info")))
        .collect();
    if lines.is_empty() {
        lines.extend(failed_checks("the cluster", cluster));
        lines.extend(hosts.iter().flat_map(|host| failed_checks(&host_name(host), host)));
    }
    let more = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    if more > 0 {
        lines.push(format!("  and {more} more: landfall cluster show {}", display_name(cluster)));
    }
    lines.iter().map(|line| text::plain_end(line)).collect()
}

fn is_failed(host: &Value) -> bool {
    matches!(at(host, "/status"), "error" | "cancelled" | "installing-pending-user-action")
}

fn failed_checks(whose: &str, document: &Value) -> Vec<String> {
    let found = text::validations(at(document, "/validations_info"));
    let failed = found.iter().filter(|one: &&Validation| one.status == "failure");
    failed.map(|one| line(whose, &one.message)).collect()
}

fn line(whose: &str, why: &str) -> String {
    format!("  {whose}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failed_hosts_come_before_failed_checks() {
        let checks = json!({"network": [{"id": "a", "status": "failure", "message": "No route"},
            {"id": "b", "status": "pending", "message": "wait"}]})
        .to_string();
        let good = json!({"requested_hostname": "n1", "status": "insufficient", "validations_info": checks});
        let bad = json!({"requested_hostname": "n2", "status": "error", "status_info": "disk\u{1b}[2J full"});
        let both = json!({"name": "rack", "hosts": [bad, good.clone()]});
        assert_eq!(culprits(&both), ["  n2: disk [2J full"]);
        let one = json!({"name": "rack", "hosts": [good]});
        assert_eq!(culprits(&one), ["  n1: No route"]);
        assert!(culprits(&json!({"name": "rack", "hosts": []})).is_empty());
    }
}
