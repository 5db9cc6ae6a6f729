//! Station 5: the name of the other side.

use super::report::{Code, Finding, Station};
use crate::files::read_text;
use resolve::{Answer, Outcome, Settings, Source, order, source_towards};
use std::{
    fmt::Write,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

const MAX_FILE_BYTES: u64 = 1 << 20;
/// Shown of what went wrong.
const MAX_FAILURES: usize = 4;

/// How names are looked up here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvConf {
    pub path: PathBuf,
    /// Why it could not be read.
    pub error: Option<String>,
    /// It names a server.
    pub has_servers: bool,
    pub settings: Settings,
}

impl ResolvConf {
    pub(super) fn read(path: &Path) -> Self {
        let read = read_text(path, MAX_FILE_BYTES);
        let text = read.as_deref().unwrap_or_default();
        let has_servers = text.lines().any(|line| line.split_ascii_whitespace().next() == Some("nameserver"));
        let settings = Settings::parse(text);
        Self { path: path.to_owned(), error: read.err().map(|error| error.to_string()), has_servers, settings }
    }

    fn complaint(&self) -> Option<String> {
        let path = self.path.display();
        match &self.error {
            Some(error) => Some(format!("{path} can't be read ({error})")),
            None => (!self.has_servers).then(|| format!("{path} has no nameserver line")),
        }
    }
}

/// Addresses in the order in which the client tries them.
pub(super) fn addresses(answer: &Answer) -> Vec<IpAddr> {
    let addresses = answer.addresses().map(|address| SocketAddr::new(address, 0)).collect();
    order(addresses, source_towards).iter().map(SocketAddr::ip).collect()
}

/// Does the name have an address? `answer` is `None` where the host is an address itself.
pub(super) fn judge(host: &str, answer: Option<&Answer>, conf: &ResolvConf) -> Finding {
    let station = Station::Dns;
    let path = conf.path.display();
    let servers = conf.settings.servers.iter().map(|server| server.ip().to_string()).collect::<Vec<_>>().join(", ");
    let first_aid =
        format!("a name server comes from DHCP or the network configuration; add `nameserver ADDRESS` to {path}");
    let Some(answer) = answer else {
        let seen = format!("not needed: {host} is an address");
        return match conf.complaint() {
            Some(complaint) => {
                let seen =
                    format!("{seen}; but {complaint}, so no other name resolves, such as those of image registries");
                Finding::warn(station, Code::NoNameServer, seen, first_aid)
            }
            None => Finding::not_needed(station, seen),
        };
    };
    let failures = failures(answer);
    if answer.outcome == Outcome::Found {
        let found = addresses(answer).iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
        let by = match answer.source {
            Some(Source::HostsFile) => ", from the hosts file".to_owned(),
            Some(Source::Localhost) => ", which is this host itself".to_owned(),
            Some(Source::Server(server)) => format!(", from {}", server.ip()),
            None => String::new(),
        };
        let seen = format!("{host} is {found}{by}");
        if failures.is_empty() {
            return Finding::ok(station, seen);
        }
        let next = match answer.failures.iter().any(|failure| failure.cause.is_silence()) {
            true => format!("remove the server that does not answer from {path}, or repair it: lookups wait for it"),
            false => {
                "make the server answer for A and AAAA, even with no records: some programs treat half an answer as none \
                      (dnsmasq: local=/DOMAIN/)"
                    .to_owned()
            }
        };
        return Finding::warn(station, code(answer), format!("{seen}; but {failures}"), next);
    }
    if let Some(complaint) = conf.complaint() {
        let seen = format!("{host} can't be resolved: {complaint}");
        return Finding::broken(station, Code::NoNameServer, seen, first_aid);
    }
    let (code, seen, next) = match answer.outcome {
        Outcome::NoSuchName => {
            let tried = conf.settings.candidates(host).join(", ");
            (
                Code::NoSuchName,
                format!("the name {host} does not exist: {servers} knows none of {tried}"),
                format!("correct the host in the URL, or add it to the zone; the search list of {path} may be wrong"),
            )
        }
        Outcome::NoAddress | Outcome::DanglingAlias => (
            Code::NoAddressForName,
            format!("the name {host} exists but has no address, according to {servers}"),
            "add an A or AAAA record for it".to_owned(),
        ),
        Outcome::Failed | Outcome::Found => {
            let next = match code(answer) {
                Code::ServerSilent => format!(
                    "check that {servers} is the right name server (from {path}), that it runs, and that UDP port 53 is open to it"
                ),
                _ => format!(
                    "see the log of the name server {servers}: it runs, but cannot answer (a zone or an upstream server is broken)"
                ),
            };
            let what = if failures.is_empty() { "no answer in time".to_owned() } else { failures };
            (code(answer), format!("{host} can't be resolved: {what}"), next)
        }
    };
    Finding::broken(station, code, seen, next)
}

fn code(answer: &Answer) -> Code {
    if answer.failures.iter().all(|failure| failure.cause.is_silence()) {
        Code::ServerSilent
    } else {
        Code::ServerFailure
    }
}

/// Each server and what it failed with, once.
fn failures(answer: &Answer) -> String {
    let mut texts: Vec<String> = Vec::new();
    for failure in &answer.failures {
        let mut text = failure.server.map_or_else(String::new, |server| format!("{}: ", server.ip()));
        let _ = write!(text, "{}", failure.cause);
        if !texts.contains(&text) && texts.len() < MAX_FAILURES {
            texts.push(text);
        }
    }
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use resolve::{Cause, Failure, Record};

    #[test]
    fn half_an_answer_is_distinguished_from_a_slow_server() {
        let server = "192.0.2.53:53".parse().unwrap();
        let answer = |cause| Answer {
            v4: vec![[192, 0, 2, 7].into()],
            source: Some(Source::Server(server)),
            failures: vec![Failure { server: Some(server), name: "s.lab.".into(), record: Record::Aaaa, cause }],
            ..Answer::new("s.lab", Outcome::Found)
        };
        let conf = ResolvConf::read(Path::new("/nonexistent"));
        let finding = |cause| judge("s.lab", Some(&answer(cause)), &conf);
        let refused = finding(Cause::Refused(5));
        assert_eq!(refused.seen, "s.lab is 192.0.2.7, from 192.0.2.53; but 192.0.2.53: refused (REFUSED)");
        assert!(refused.next.unwrap().starts_with("make the server answer for A and AAAA"));
        assert!(finding(Cause::Timeout).next.unwrap().contains("lookups wait for it"));
    }
}
