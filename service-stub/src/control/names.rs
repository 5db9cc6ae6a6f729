//! Names of clusters, hosts and infra-envs, which complete a command line.

use super::{Reach, Session, display_name, host_name};
use crate::text;
use api::endpoint::{LIST_CLUSTERS, LIST_INFRA_ENVS};
use clap::{Args, FromArgMatches};
use kernel::order;
use serde_json::Value;
use std::{collections::BTreeMap, sync::mpsc, thread, time::Duration};

/// A person waits: for everything from the lookup of the address to the last answer.
const LIMIT: Duration = Duration::from_secs(1);
/// More is not read on a screen.
const MAX_NAMES: usize = 200;
/// A longer name is not offered: host names end at 253.
const MAX_NAME_BYTES: usize = 253;
/// Characters of a name that is shown beside its id.
const SHOWN: usize = 40;

/// What a value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cluster,
    Host,
    InfraEnv,
}

impl Kind {
    /// By the name that help has for such a value.
    pub fn of(value_name: &str) -> Option<Self> {
        match value_name {
            "CLUSTER" => Some(Self::Cluster),
            "HOST" => Some(Self::Host),
            "INFRA-ENV" | "INFRA_ENV" => Some(Self::InfraEnv),
            _ => None,
        }
    }
}

/// Names that begin with what is typed, and what each is. `options` are those of the command line, as `--NAME=VALUE`. There are none
/// if the service does not answer in time.
pub fn names(kind: Kind, typed: &str, options: &[String]) -> Vec<(String, String)> {
    names_within(LIMIT, kind, typed, options)
}

fn names_within(limit: Duration, kind: Kind, typed: &str, options: &[String]) -> Vec<(String, String)> {
    let (sender, receiver) = mpsc::channel();
    let options = options.to_vec();
    // Not joined: the process ends after this, and a request that is late with it.
    thread::spawn(move || sender.send(records(kind, &options)));
    let records = receiver.recv_timeout(limit).ok().and_then(Result::ok);
    candidates(kind, &records.unwrap_or_default(), typed)
}

fn records(kind: Kind, options: &[String]) -> anyhow::Result<Vec<Value>> {
    let session = session(options)?;
    match kind {
        Kind::Cluster => session.list(&LIST_CLUSTERS.at(&[])),
        Kind::InfraEnv => session.list(&LIST_INFRA_ENVS.at(&[])),
        Kind::Host => session.hosts(options.iter().find_map(|option| option.strip_prefix("--infra-env="))),
    }
}

/// With those of the options that say how to reach the service.
fn session(options: &[String]) -> anyhow::Result<Session> {
    let command = Reach::augment_args(clap::Command::new("service").no_binary_name(true));
    let name = |option: &str| option.trim_start_matches('-').split('=').next().map(str::to_owned);
    let known: Vec<String> =
        command.get_arguments().filter_map(|argument| Some(argument.get_long()?.to_owned())).collect();
    let words = options.iter().filter(|option| name(option).is_some_and(|name| known.contains(&name)));
    Reach::from_arg_matches(&command.try_get_matches_from(words)?)?.session()
}

/// The name of each record, or its id if a shell would interpret the name or another record has it too.
fn candidates(kind: Kind, records: &[Value], typed: &str) -> Vec<(String, String)> {
    let name = match kind {
        Kind::Cluster | Kind::InfraEnv => display_name,
        Kind::Host => host_name,
    };
    let state = match kind {
        Kind::Cluster | Kind::Host => "/status",
        Kind::InfraEnv => "/type",
    };
    let named: Vec<(String, &Value)> = records.iter().map(|record| (name(record), record)).collect();
    let mut uses = BTreeMap::<&str, usize>::new();
    for (name, _) in &named {
        *uses.entry(name).or_default() += 1;
    }
    let mut found = Vec::new();
    for (name, record) in &named {
        let (id, state) = (text::at(record, "/id"), text::plain(text::at(record, state)));
        let is_unique = uses.get(name.as_str()) == Some(&1);
        if is_harmless(name) && is_unique {
            found.push((name.clone(), state));
        } else if is_harmless(id) {
            found.push((id.to_owned(), format!("{} {state}", text::cut(&text::plain(name), SHOWN))));
        }
    }
    found.retain(|(value, _)| value.starts_with(typed));
    order::sort(&mut found);
    found.truncate(MAX_NAMES);
    found
}

/// Whether shells and terminals take it as it is, and no command takes it for an option: names come from untrusted machines.
fn is_harmless(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use std::net::TcpListener;
    use testkit::http::{Server, ok, reply};

    const ID: &str = "7e5ff6df-e038-4103-bbb2-90433ded3e50";

    fn cluster(name: &str) -> Value {
        json!({"id": ID, "name": name, "status": "ready"})
    }

    fn url(server: &Server) -> Vec<String> {
        vec![format!("--url={}", server.url(""))]
    }

    fn values(found: Vec<(String, String)>) -> Vec<String> {
        found.into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn a_name_that_a_shell_would_interpret_is_not_offered() {
        let long = "a".repeat(254);
        for hostile in [
            "",
            "-rf",
            "--yes",
            "a b",
            "a;reboot",
            "$(reboot)",
            "`reboot`",
            "a'b",
            "a\"b",
            "a\nb",
            "a\\b",
            "~root",
            "a*",
            "a&b",
            "a|b",
            "a>b",
            "!x",
            "{a,b}",
            "ä",
            "a\u{202e}b",
            "\x1b[2J",
            "a:b",
            "a=b",
            "a/b",
            ".",
            long.as_str(),
        ] {
            let found = candidates(Kind::Cluster, &[cluster(hostile)], "");
            assert_eq!(values(found.clone()), [ID], "{hostile}");
            assert!(
                !found.iter().any(|(_, about)| about.contains(|c: char| c.is_control() || c == '\u{202e}')),
                "{found:?}"
            );
        }
        let hostile_id = json!({"id": "$(reboot)", "name": "a b"});
        assert_eq!(candidates(Kind::Cluster, &[hostile_id, json!(7), json!({})], ""), []);
        assert_eq!(candidates(Kind::Cluster, &[cluster("rack-1.a_B")], ""), [("rack-1.a_B".into(), "ready".into())]);
    }

    #[test]
    fn a_name_that_two_records_have_is_replaced_by_their_ids() {
        let other = "11111111-e038-4103-bbb2-90433ded3e50";
        let records = [cluster("twin"), json!({"id": other, "name": "twin"}), json!({"id": "3", "name": "edge"})];
        assert_eq!(values(candidates(Kind::Cluster, &records, "")), [other, ID, "edge"]);
        assert_eq!(values(candidates(Kind::Cluster, &records, "e")), ["edge"]);
        assert_eq!(values(candidates(Kind::Cluster, &records, "x")), [""; 0]);
    }

    #[test]
    fn their_number_is_bounded_after_what_is_typed() {
        let records: Vec<Value> = (0..1000).map(|n| json!({"id": "1", "name": format!("n{n:03}")})).collect();
        assert_eq!(candidates(Kind::InfraEnv, &records, "n").len(), MAX_NAMES);
        assert_eq!(values(candidates(Kind::InfraEnv, &records, "n99")).len(), 10);
    }

    #[test]
    fn the_service_of_the_command_line_is_asked() {
        let server = Server::start(|request| match request.path() {
            "/api/assisted-install/v2/clusters" => ok(json!([cluster("rack")]).to_string()),
            "/api/assisted-install/v2/infra-envs" => ok(json!([{"id": "e1", "name": "env"}]).to_string()),
            "/api/assisted-install/v2/infra-envs/e1/hosts" => {
                ok(json!([{"id": "h1", "requested_hostname": "node-0", "status": "known"}]).to_string())
            }
            _ => reply("404 Not Found", "", ""),
        });
        let limit = Duration::from_secs(60);
        let options = [url(&server), vec!["--json".into(), "--unknown=x".into(), "--severity=info".into()]].concat();
        assert_eq!(names_within(limit, Kind::Cluster, "", &options), [("rack".into(), "ready".into())]);
        assert_eq!(values(names_within(limit, Kind::InfraEnv, "", &options)), ["env"]);
        assert_eq!(names_within(limit, Kind::Host, "n", &options), [("node-0".into(), "known".into())]);
        assert_eq!(server.requests().len(), 4);
    }

    #[test]
    fn a_service_that_does_not_answer_is_not_waited_for() {
        // Connections are accepted by the kernel, and none is answered.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = [format!("--url=http://{}", silent.local_addr().unwrap())];
        assert_eq!(names_within(Duration::from_millis(20), Kind::Host, "", &options), []);
    }

    #[test]
    fn failures_are_silent() {
        let refusing = Server::start(|_| reply("401 Unauthorized", "", r#"{"message": "no"}"#));
        let nonsense = Server::start(|_| ok("[[}"));
        for options in [
            url(&refusing),
            url(&nonsense),
            vec!["--url=nonsense".into()],
            vec!["--url=http://127.0.0.1:1".into(), "--token-file=/nonexistent".into()],
        ] {
            assert_eq!(names_within(Duration::from_secs(60), Kind::Cluster, "", &options), [], "{options:?}");
        }
    }

    #[test]
    fn values_are_known_by_their_names_in_help() {
        assert_eq!(["CLUSTER", "HOST", "INFRA-ENV", "INFRA_ENV"].map(|name| Kind::of(name).is_some()), [true; 4]);
        assert_eq!(["", "NAME", "URL", "host", "HOST:PORT"].map(Kind::of), [None; 5]);
    }
}
