//! The rack on a terminal, redrawn in place; elsewhere a line for each change.

use crate::control::{
    self,
    culprit::{Urgency, reason, urgency, urgent_first},
    host_name, hosts,
    table::{Column, Table},
};
use crate::text::{self, at, number_at};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{Write, stderr},
    time::Duration,
};

/// Without a terminal percentages are shown in such steps.
const STEP_PERCENT: u64 = 25;
/// Of an id that stands for a name.
const ID_CHARS: usize = 8;

pub(super) struct Live {
    is_terminal: bool,
    width: Option<usize>,
    /// Lines on the terminal that the next picture replaces.
    drawn: usize,
    /// What was last said of each host, and of the rack.
    said: BTreeMap<String, String>,
}

impl Live {
    pub(super) fn new(is_terminal: bool, width: Option<usize>) -> Self {
        Self { is_terminal, width, drawn: 0, said: BTreeMap::new() }
    }

    /// A line that stays.
    pub(super) fn say(&mut self, line: &str) {
        let text = format!("{}{}\n", self.back(), line);
        self.drawn = 0;
        put(&text);
    }

    /// The rack as it is now.
    pub(super) fn show(&mut self, elapsed: Duration, cluster: &Value, total: usize) {
        let text = match self.is_terminal {
            true => self.picture(elapsed, cluster, total),
            false => self.changes(cluster, total),
        };
        put(&text);
    }

    fn back(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.drawn) }
    }

    fn picture(&mut self, elapsed: Duration, cluster: &Value, total: usize) -> String {
        let mut table = Table::new(&[
            ("MACHINE", Column::Name),
            ("ADDRESS", Column::Detail(2)),
            ("STATE", Column::State),
            ("DONE", Column::Detail(1)),
            ("DETAIL", Column::Reason),
        ]);
        for host in urgent_first(cluster) {
            let (state, detail) = condition(host);
            table.row([name(host), address(host), state, control::host_percent(host), detail]);
        }
        let time = text::duration(i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX));
        let mut lines = format!("{time}  {}\n", summary(cluster, total));
        if !hosts(cluster).is_empty() {
            lines.push_str(&table.text(self.width));
        }
        // Without line wrapping, so that one line here is one line there.
        let text = format!("{}\x1b[?7l{lines}\x1b[?7h", self.back());
        self.drawn = lines.lines().count();
        text
    }

    fn changes(&mut self, cluster: &Value, total: usize) -> String {
        let mut lines = String::new();
        let mut note = |key: String, line: String| {
            if self.said.get(&key) != Some(&line) {
                lines.push_str(&line);
                lines.push('\n');
                self.said.insert(key, line);
            }
        };
        note(String::new(), summary(cluster, total));
        for host in hosts(cluster) {
            let (state, detail) = condition(host);
            let detail =
                match detail.rsplit_once(": ").map(|(stage, percent)| (stage, percent.trim_end_matches('%').parse())) {
                    Some((stage, Ok(percent))) => {
                        format!("{stage}: {}%", u64::min(percent, 100) / STEP_PERCENT * STEP_PERCENT)
                    }
                    _ => detail,
                };
            let words = [name(host), address(host), state, detail].map(|word| text::plain(&word));
            let line = words.iter().filter(|word| !word.is_empty()).map(String::as_str).collect::<Vec<_>>().join("  ");
            note(at(host, "/id").to_owned(), format!("  {line}"));
        }
        lines
    }
}

fn put(text: &str) {
    // A terminal that went away does not end an installation.
    let _ = stderr().write_all(text.as_bytes()).and_then(|()| stderr().flush());
}

/// The first IPv4 address of a host, else its first address.
pub(super) fn address(host: &Value) -> String {
    let interfaces = control::inventory(host).map(|inventory| inventory.interfaces).unwrap_or_default();
    let all = |v6: bool| {
        interfaces
            .iter()
            .flat_map(move |nic| if v6 { &nic.ipv6_addresses } else { &nic.ipv4_addresses })
            .next()
            .cloned()
    };
    let first = all(false).or_else(|| all(true)).unwrap_or_default();
    first.split('/').next().unwrap_or_default().to_owned()
}

/// The start of the id, until a machine has reported its name.
fn name(host: &Value) -> String {
    let (name, id) = (host_name(host), at(host, "/id"));
    if name == id { id.chars().take(ID_CHARS).collect() } else { name }
}

/// In a word, and what it waits for.
fn condition(host: &Value) -> (String, String) {
    let status = at(host, "/status");
    let stage = control::stage(host);
    let info = || at(host, "/status_info").to_owned();
    let (word, detail) = match status {
        "discovering" => ("found", "reports its hardware".to_owned()),
        "insufficient" | "pending-for-input" => ("not ready", reason(host)),
        "known" => ("ready", String::new()),
        "disconnected" => ("silent", "no contact: is it switched on, and on the network?".to_owned()),
        "preparing-for-installation" | "preparing-successful" => ("preparing", info()),
        "installing" | "installing-in-progress" if stage.is_empty() => ("installing", String::new()),
        "installing" | "installing-in-progress" => ("installing", stage),
        "installing-pending-user-action" => ("needs you", info()),
        "installed" | "added-to-existing-cluster" => ("installed", String::new()),
        "error" => ("failed", info()),
        other => (other, info()),
    };
    (word.to_owned(), detail)
}

/// The rack in a line: what it waits for.
fn summary(cluster: &Value, total: usize) -> String {
    let hosts = hosts(cluster);
    let count = |status: &str| hosts.iter().filter(|host| at(host, "/status") == status).count();
    let ready = count("known");
    if let Some(host) = hosts.iter().find(|host| urgency(host) == Urgency::Waiting) {
        return text::plain(&format!("{} needs you: {}", host_name(host), reason(host)));
    }
    let text = match at(cluster, "/status") {
        "insufficient" | "pending-for-input" | "ready" if hosts.len() < total => {
            format!(
                "{} of {total} machines have registered: waiting for {} to boot the ISO",
                hosts.len(),
                total - hosts.len()
            )
        }
        "insufficient" | "pending-for-input" | "ready" if hosts.len() > total => {
            format!(
                "{} machines have registered, {total} are planned: `landfall host delete` removes those that are not the rack's",
                hosts.len()
            )
        }
        "insufficient" | "pending-for-input" if ready < total => format!("{ready} of {total} machines are ready"),
        "insufficient" | "pending-for-input" => reason(cluster),
        "ready" => "all machines are ready: the installation starts".to_owned(),
        "preparing-for-installation" => "preparing the installation".to_owned(),
        "installing" | "installing-pending-user-action" | "finalizing" => {
            let done = count("installed");
            format!(
                "installing: {} %, {done} of {total} machines are done",
                number_at(cluster, "/progress/total_percentage")
            )
        }
        "installed" | "adding-hosts" if total == 1 => "the machine is installed".to_owned(),
        "installed" | "adding-hosts" => format!("all {total} machines are installed"),
        other => format!("{other}: {}", at(cluster, "/status_info")),
    };
    text::plain(&text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn cluster(status: &str, hosts: Value) -> Value {
        json!({"name": "rack", "status": status, "status_info": "why", "hosts": hosts, "progress": {"total_percentage": 43}})
    }

    fn host(status: &str, stage: &str, info: &str) -> Value {
        let inventory = json!({"hostname": "n1", "interfaces": [{"ipv4_addresses": ["10.0.2.15/24"], "ipv6_addresses": ["fe80::1/64"]}]});
        json!({"id": "1", "status": status, "inventory": inventory.to_string(),
            "progress": {"current_stage": stage, "progress_info": info, "installation_percentage": 40}})
    }

    #[test]
    fn the_summary_says_what_is_waited_for() {
        let one = || json!([host("known", "", "")]);
        for (cluster, total, part) in [
            (cluster("insufficient", json!([])), 3, "0 of 3 machines have registered: waiting for 3 to boot the ISO"),
            (cluster("ready", one()), 1, "the installation starts"),
            (cluster("insufficient", one()), 0, "1 machines have registered, 0 are planned"),
            (cluster("insufficient", json!([host("discovering", "", "")])), 1, "0 of 1 machines are ready"),
            (cluster("installing", one()), 1, "installing: 43 %, 0 of 1 machines are done"),
            (cluster("error", one()), 1, "error: why"),
        ] {
            let text = summary(&cluster, total);
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_host_names_its_first_failed_check() {
        let checks = json!({"network": [
            {"id": "a", "status": "pending", "message": "wait"}, {"id": "b", "status": "failure", "message": "No route"}]});
        let mut host = host("insufficient", "", "");
        host["validations_info"] = checks.to_string().into();
        assert_eq!(condition(&host), ("not ready".to_owned(), "No route".to_owned()));
        assert_eq!(address(&host), "10.0.2.15");
    }

    #[test]
    fn a_terminal_is_redrawn_in_place() {
        let mut live = Live::new(true, Some(80));
        let now = cluster("installing", json!([host("installing-in-progress", "Writing image to disk", "55%")]));
        let first = live.picture(Duration::from_secs(61), &now, 1);
        assert!(first.starts_with("\x1b[?7l1m  installing: 43 %"), "{first:?}");
        assert!(first.contains("n1       10.0.2.15  installing  40 %  Writing image to disk: 55%"), "{first}");
        assert!(
            live.picture(Duration::from_secs(62), &now, 1).starts_with("\x1b[3A\r\x1b[J"),
            "three lines were drawn"
        );
    }

    #[test]
    fn what_failed_is_first_and_keeps_its_reason() {
        let mut bad = host("error", "", "");
        bad["requested_hostname"] = "z-machine-with-a-long-name.rack.example.com".into();
        bad["status_info"] = "Failed - the disk has been removed while the image was written to it".into();
        let now = cluster("installing", json!([host("installing-in-progress", "Writing image to disk", "55%"), bad]));
        for (width, row) in [
            (80, "z-machine-with-…  failed      -     Failed - the disk has been removed while th…"),
            (60, "z-machine-with-…  failed      Failed - the disk has been re…"),
        ] {
            let picture = Live::new(true, Some(width)).picture(Duration::ZERO, &now, 2);
            assert!(picture.lines().nth(2).is_some_and(|line| line.starts_with(row)), "{row}\n{picture}");
        }
    }

    #[test]
    fn a_machine_without_a_name_is_shown_by_the_start_of_its_id() {
        let unnamed = json!({"id": "4c7bacd0-f187-88fd-9b71-d4c4991c09c2", "status": "discovering"});
        let picture = Live::new(true, Some(80)).picture(Duration::ZERO, &cluster("insufficient", json!([unnamed])), 3);
        assert!(picture.contains("\n4c7bacd0  "), "{picture}");
    }

    #[test]
    fn a_machine_that_waits_for_a_person_is_in_the_summary() {
        let mut waiting = host("installing-pending-user-action", "Rebooting", "");
        waiting["status_info"] = "Boot from the disk".into();
        let summary = summary(&cluster("installing-pending-user-action", json!([waiting])), 1);
        assert_eq!(summary, "n1 needs you: Boot from the disk");
    }

    #[test]
    fn a_file_gets_changes_only() {
        let mut live = Live::new(false, None);
        let at =
            |info: &str| cluster("installing", json!([host("installing-in-progress", "Writing image to disk", info)]));
        let first = live.changes(&at("51%"), 1);
        assert!(first.ends_with("\n  n1  10.0.2.15  installing  Writing image to disk: 50%\n"), "{first}");
        assert_eq!(live.changes(&at("70%"), 1), "");
        assert!(live.changes(&at("75%"), 1).contains("75%"));
    }

    #[test]
    fn what_a_host_says_moves_no_cursor() {
        let mut evil = host("error", "", "");
        evil["status_info"] = "a\x1b[2Jb".into();
        let mut live = Live::new(false, None);
        assert!(!live.changes(&cluster("error", json!([evil])), 1).contains('\x1b'));
    }
}
