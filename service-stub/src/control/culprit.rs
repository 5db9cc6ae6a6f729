//! What stands in a cluster's way: which host, why, and where to read more.

use super::{host_name, hosts};
use crate::state::host::info;
use crate::text::{self, Validation, at, plain};
use kernel::order;
use serde_json::Value;

/// More culprits than these are counted only.
const MAX_CULPRITS: usize = 10;
/// What a line with a reason begins with; one with a command begins with more.
const REASON_INDENT: &str = "  ";
/// A longer reason is cut.
const MAX_REASON_CHARS: usize = 1000;
/// The cluster's check that only repeats what the hosts' checks say.
const REPEATED: &str = "all-hosts-are-ready-to-install";

/// How urgently a host needs a person, the most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    Failed,
    /// It waits for someone to act on the machine.
    Waiting,
    Unfit,
    #[default]
    Well,
}

pub fn urgency(host: &Value) -> Urgency {
    match at(host, "/status") {
        // The others of a cluster fail with the first.
        "error" if at(host, "/status_info") != info::CLUSTER_ERROR => Urgency::Failed,
        status if status.ends_with("-pending-user-action") => Urgency::Waiting,
        "error" | "cancelled" | "preparing-failed" | "disconnected" | "disconnected-unbound" => Urgency::Unfit,
        _ if is_unready(host) => Urgency::Unfit,
        _ => Urgency::Well,
    }
}

/// The hosts of a cluster, the most urgent first, then by name.
pub(crate) fn urgent_first(cluster: &Value) -> Vec<&Value> {
    let mut hosts = hosts(cluster);
    order::sort_by_key(&mut hosts, |host| urgency(host));
    hosts
}

/// Why a host or cluster is not further: its stage, its first failed check, or what the service says. Empty if nothing is left to do.
pub fn reason(record: &Value) -> String {
    let or_info = |text: String| if text.is_empty() { at(record, "/status_info").to_owned() } else { text };
    match at(record, "/status") {
        "known" | "known-unbound" | "ready" | "installed" | "added-to-existing-cluster" | "adding-hosts" => {
            String::new()
        }
        "installing" | "installing-in-progress" => or_info(stage(record)),
        _ if is_unready(record) => {
            or_info(blocking(record).into_iter().map(|one| one.message).next().unwrap_or_default())
        }
        _ => or_info(String::new()),
    }
}

/// A host's stage, with its detail.
pub(crate) fn stage(host: &Value) -> String {
    let (stage, detail) = (at(host, "/progress/current_stage"), at(host, "/progress/progress_info"));
    match (stage, detail) {
        ("", _) => String::new(),
        (stage, "") => stage.to_owned(),
        (stage, detail) => format!("{stage}: {detail}"),
    }
}

/// The hosts that failed with their reasons, else why the cluster failed, else the checks that failed, host by host. What failed ends
/// with the commands for its logs and events.
pub(crate) fn culprits(cluster: &Value) -> Vec<String> {
    let name = reference(at(cluster, "/name"), cluster);
    lines(cluster, |failed| commands(&name, failed))
}

/// The same with other lines about the logs of a host that failed, or of the cluster.
pub fn lines(cluster: &Value, logs: impl Fn(Option<&Value>) -> Vec<String>) -> Vec<String> {
    let hosts = urgent_first(cluster);
    let mut found: Vec<Vec<String>> =
        hosts.iter().filter(|host| urgency(host) < Urgency::Unfit).flat_map(|host| entries(host, &logs)).collect();
    if found.is_empty() && matches!(at(cluster, "/status"), "error" | "cancelled") {
        found.push([vec![line("the cluster", at(cluster, "/status_info"))], logs(None)].concat());
    }
    if found.is_empty() {
        found.extend(hosts.iter().flat_map(|host| entries(host, &logs)));
        let mut checks = if is_unready(cluster) { blocking(cluster) } else { Vec::new() };
        checks.retain(|one| found.is_empty() || one.id != REPEATED);
        found.extend(checks.iter().map(|one| vec![line("the cluster", &one.message)]));
    }
    let more = found.len().saturating_sub(MAX_CULPRITS);
    found.truncate(MAX_CULPRITS);
    if more > 0 {
        found.push(vec![format!(
            "  and {more} more: landfall cluster show {} --all",
            reference(at(cluster, "/name"), cluster)
        )]);
    }
    found.concat().iter().map(|line| text::plain_end(line)).collect()
}

/// What stands in one host's way.
pub(crate) fn of_host(host: &Value) -> Vec<String> {
    let found = entries(host, &|failed| commands(at(host, "/cluster_id"), failed));
    found.concat().iter().map(|line| text::plain_end(line)).collect()
}

/// The lines for a terminal: a reason that is too long goes on below, further to the right. Commands stay whole.
pub(crate) fn fitted(lines: &[String], width: Option<usize>) -> String {
    let fit = |line: &String| match line.strip_prefix(REASON_INDENT).filter(|rest| !rest.starts_with(' ')) {
        Some(reason) => {
            let hang = REASON_INDENT.len() * 2;
            kernel::wrapped(REASON_INDENT, reason, hang, width.unwrap_or(usize::MAX))
        }
        None => format!("{line}\n"),
    };
    lines.iter().map(fit).collect()
}

/// The lines of each of a host's culprits.
fn entries(host: &Value, logs: &impl Fn(Option<&Value>) -> Vec<String>) -> Vec<Vec<String>> {
    let name = host_name(host);
    match urgency(host) {
        Urgency::Well => Vec::new(),
        Urgency::Failed => vec![[vec![line(&name, &reason(host))], logs(Some(host))].concat()],
        _ if is_unready(host) => blocking(host).iter().map(|one| vec![line(&name, &one.message)]).collect(),
        _ => vec![vec![line(&name, &reason(host))]],
    }
}

/// Its checks keep it from being installed.
fn is_unready(record: &Value) -> bool {
    matches!(at(record, "/status"), "insufficient" | "insufficient-unbound" | "pending-for-input")
}

/// The checks that failed; if none did, those that wait for a fact or a setting.
fn blocking(record: &Value) -> Vec<Validation> {
    let mut found = text::validations(at(record, "/validations_info"));
    let any_failed = found.iter().any(|one| one.status == "failure");
    found.retain(|one| if any_failed { one.status == "failure" } else { one.stands_in_the_way() });
    found
}

fn line(whose: &str, why: &str) -> String {
    format!("{REASON_INDENT}{whose}: {}", text::cut(why, MAX_REASON_CHARS))
}

/// Where to read more about a host of a cluster, or about the cluster.
fn commands(cluster: &str, host: Option<&Value>) -> Vec<String> {
    let host = host.map(|host| format!(" --host {}", reference(&host_name(host), host))).unwrap_or_default();
    let of_cluster = if cluster.is_empty() { String::new() } else { format!(" --cluster {cluster}") };
    let mut lines = vec![format!("    events: landfall event list{of_cluster}{host}")];
    if !cluster.is_empty() {
        lines.insert(0, format!("    logs: landfall cluster logs {cluster}{host}"));
    }
    lines
}

/// A record in a command line: its name, or its id if a shell could take the name for something else.
fn reference(name: &str, record: &Value) -> String {
    let is_word = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    plain(if is_word { name } else { at(record, "/id") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn unready(name: &str) -> Value {
        let checks = json!({"network": [{"id": "b", "status": "pending", "message": "wait"},
            {"id": "a", "status": "failure", "message": "No route"}]});
        json!({"requested_hostname": name, "status": "insufficient", "validations_info": checks.to_string()})
    }

    #[test]
    fn reasons_are_broken_between_words_and_commands_are_not() {
        let lines = ["  n1: no disk that is large enough", "    logs: landfall cluster logs rack --host n1"];
        let lines = lines.map(str::to_owned);
        let narrow = "  n1: no disk that\n    is large enough\n    logs: landfall cluster logs rack --host n1\n";
        assert_eq!(fitted(&lines, Some(20)), narrow);
        assert_eq!(fitted(&lines, None), lines.join("\n") + "\n");
    }

    #[test]
    fn failed_hosts_come_before_failed_checks() {
        let bad = json!({"requested_hostname": "n2", "status": "error", "status_info": "disk\u{1b}[2J full"});
        let victim = json!({"requested_hostname": "n0", "status": "error", "status_info": info::CLUSTER_ERROR});
        let both = json!({"name": "rack", "status": "error", "hosts": [victim, unready("n1"), bad]});
        assert_eq!(
            culprits(&both),
            [
                "  n2: disk [2J full",
                "    logs: landfall cluster logs rack --host n2",
                "    events: landfall event list --cluster rack --host n2"
            ]
        );
        assert_eq!(urgent_first(&both).iter().map(|host| host_name(host)).collect::<Vec<_>>(), ["n2", "n0", "n1"]);
        let one = json!({"name": "rack", "hosts": [unready("n1")]});
        assert_eq!(culprits(&one), ["  n1: No route"]);
        assert!(culprits(&json!({"name": "rack", "hosts": []})).is_empty());
    }

    #[test]
    fn a_cluster_that_failed_by_itself_is_the_culprit() {
        let victim = json!({"requested_hostname": "n0", "status": "error", "status_info": info::CLUSTER_ERROR});
        let cluster = json!({"name": "rack", "status": "error", "status_info": "no operators", "hosts": [victim]});
        assert_eq!(
            culprits(&cluster),
            [
                "  the cluster: no operators",
                "    logs: landfall cluster logs rack",
                "    events: landfall event list --cluster rack"
            ]
        );
    }

    #[test]
    fn the_clusters_own_checks_do_not_repeat_the_hosts() {
        let checks = json!({"hosts-data": [
            {"id": REPEATED, "status": "failure", "message": "1 host is not ready"},
            {"id": "sufficient-masters-count", "status": "failure", "message": "too few"}]});
        let cluster = |hosts: Value| json!({"name": "rack", "status": "insufficient", "validations_info": checks.to_string(), "hosts": hosts});
        assert_eq!(culprits(&cluster(json!([unready("n1")]))), ["  n1: No route", "  the cluster: too few"]);
        assert_eq!(culprits(&cluster(json!([])))[0], "  the cluster: 1 host is not ready");
        // What failed once is not a reason when nothing waits for it.
        let mut ready = cluster(json!([{"requested_hostname": "n1", "status": "known"}]));
        ready["status"] = "ready".into();
        assert!(culprits(&ready).is_empty());
    }

    #[test]
    fn a_name_that_a_shell_would_run_is_not_in_a_command() {
        let host = json!({"id": "5a1e", "cluster_id": "c1", "requested_hostname": "$(reboot)", "status": "error",
            "status_info": "why"});
        let lines = of_host(&host);
        assert_eq!(lines[0], "  $(reboot): why");
        assert_eq!(lines[1], "    logs: landfall cluster logs c1 --host 5a1e");
    }

    #[test]
    fn many_culprits_are_counted() {
        let hosts: Vec<Value> = (10..25).map(|n| unready(&format!("n{n}"))).collect();
        let lines = culprits(&json!({"name": "rack", "hosts": hosts}));
        assert_eq!(lines.len(), MAX_CULPRITS + 1);
        assert_eq!(lines.last().map(String::as_str), Some("  and 5 more: landfall cluster show rack --all"));
    }

    #[test]
    fn a_reason_is_a_stage_a_check_or_what_the_service_says() {
        let record = |status: &str| json!({"status": status, "status_info": "info"});
        let mut installing = record("installing-in-progress");
        assert_eq!(reason(&installing), "info");
        installing["progress"] = json!({"current_stage": "Writing image to disk", "progress_info": "40%"});
        assert_eq!(reason(&installing), "Writing image to disk: 40%");
        installing["status"] = "error".into();
        assert_eq!(reason(&installing), "info");
        assert_eq!(reason(&unready("n1")), "No route");
        assert_eq!(reason(&record("known")), "");
    }
}
