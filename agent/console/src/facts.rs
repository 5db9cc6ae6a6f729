//! What the screen shows of the host.

use agent::{
    config::Sources,
    status::{View, read},
};
use api::Timestamp;
use inventory::Root;
use journal::{Journal, Query, Range};
use kernel::order;
use nix::ifaddrs::getifaddrs;
use std::{collections::VecDeque, net::IpAddr, path::Path};

const MAX_INTERFACES: usize = 64;
/// Lines of the log that can be scrolled through.
const MAX_LOG_LINES: usize = 1000;
/// Where the log begins when it is read for the first time.
const LOG_US: u64 = 3600 * 1_000_000;
const MAX_ROUTES_BYTES: usize = 1 << 20;
const NET: &str = "/sys/class/net";

/// One moment.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// By the host's clock.
    pub(crate) now: Timestamp,
    pub(crate) view: View,
    /// Why the agent's status can't be read.
    pub(crate) problem: Option<String>,
    pub(crate) interfaces: Vec<Interface>,
    /// The log's lines, if there are new ones.
    pub(crate) log: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) mac: String,
    /// `up`, `no link`, `off`.
    pub(crate) state: &'static str,
    /// With prefixes.
    pub(crate) addresses: Vec<String>,
    /// Hardware with an Ethernet address, which the form is for.
    pub(crate) is_ethernet: bool,
}

/// Looks at the host.
pub(crate) fn gather(directory: &Path, sources: &Sources, log: &mut Log) -> Facts {
    let (snapshot, problem) = match read(directory) {
        Ok(snapshot) => (snapshot, None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let interfaces = interfaces(sources.root, &addresses());
    Facts { now: Timestamp::now(), view: View::now(snapshot, sources), problem, interfaces, log: log.read() }
}

/// Each interface's name with an address and its prefix.
pub(crate) fn addresses() -> Vec<(String, String)> {
    let all = getifaddrs().into_iter().flatten().filter_map(|interface| {
        let (address, netmask) = (interface.address?, interface.netmask?);
        let text = match (address.as_sockaddr_in(), netmask.as_sockaddr_in()) {
            (Some(ip), Some(mask)) => format!("{}/{}", ip.ip(), u32::from(mask.ip()).count_ones()),
            _ => {
                let (ip, mask) = (address.as_sockaddr_in6()?.ip(), netmask.as_sockaddr_in6()?.ip());
                if ip.is_unicast_link_local() {
                    return None;
                }
                format!("{ip}/{}", u128::from(mask).count_ones())
            }
        };
        Some((interface.interface_name, text))
    });
    let mut all: Vec<_> = all.collect();
    order::sort(&mut all);
    all
}

/// The interfaces but loopback, from sysfs; those of hardware first.
fn interfaces(root: &Root, addresses: &[(String, String)]) -> Vec<Interface> {
    let one = |name: String| {
        let attribute = |file: &str| root.attribute(format!("{NET}/{name}/{file}")).unwrap_or_default();
        let mac = attribute("address");
        let state = match (attribute("operstate").as_str(), attribute("carrier").as_str()) {
            ("down", "") => "off",
            (_, "1") => "up",
            _ => "no link",
        };
        let own = addresses.iter().filter(|(of, _)| *of == name).map(|(_, address)| address.clone()).collect();
        // ARPHRD_ETHER, on a bus.
        let is_ethernet = attribute("type") == "1" && root.exists(format!("{NET}/{name}/device"));
        Interface { mac, state, addresses: own, is_ethernet, name }
    };
    let names = root.list(NET).into_iter().filter(|name| name != "lo" && root.is_dir(format!("{NET}/{name}")));
    let mut all: Vec<_> = names.take(MAX_INTERFACES).map(one).collect();
    order::sort_by(&mut all, |a, b| (!a.is_ethernet, &a.name).cmp(&(!b.is_ethernet, &b.name)));
    all
}

/// The gateway of the first default route of IPv4 (proc_net_route: addresses are hexadecimal, in the machine's order of bytes).
pub(crate) fn gateway(root: &Root) -> Option<IpAddr> {
    let table = root.text("/proc/net/route", MAX_ROUTES_BYTES)?;
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (destination, gateway) = (fields.next()?, fields.next()?);
        let gateway = u32::from_str_radix(gateway, 16).ok().filter(|gateway| *gateway != 0)?;
        (destination == "00000000").then(|| IpAddr::from(gateway.to_ne_bytes()))
    })
}

/// The agent's part of the journal: what it, its steps and its unit wrote.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: VecDeque<String>,
    /// Of the last entry that was read.
    last_us: u64,
}

impl Log {
    /// All lines, if there are new ones.
    fn read(&mut self) -> Option<Vec<String>> {
        let now = u64::try_from(Timestamp::now().unix_milliseconds()).unwrap_or_default().saturating_mul(1000);
        let since_us = if self.last_us == 0 { now.saturating_sub(LOG_US) } else { self.last_us + 1 };
        let range = Range { since_us, ..Range::default() };
        let query = Query::unit("agent.service");
        let mut journal = Journal::open(&journal::directories(), &query, range, &["MESSAGE"]);
        let mut is_new = false;
        while let Some(found) = journal.next() {
            is_new = true;
            self.last_us = self.last_us.max(found.realtime_us);
            self.add(found.realtime_us, &String::from_utf8_lossy(found.field("MESSAGE").unwrap_or_default()));
        }
        is_new.then(|| self.lines.iter().cloned().collect())
    }

    fn add(&mut self, realtime_us: u64, message: &str) {
        let local = i64::try_from(realtime_us / 1_000_000).ok().and_then(journal::local).unwrap_or_default();
        let time = format!("{:02}:{:02}:{:02}", local.hour, local.minute, local.second);
        for line in message.lines().take(MAX_LOG_LINES) {
            if self.lines.len() == MAX_LOG_LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(format!("{time} {}", readable(line).chars().take(1000).collect::<String>()));
        }
    }
}

/// A record of the agent (`time=… level=… msg=… file=…` and fields) for people; other lines are as they are.
fn readable(line: &str) -> String {
    let record = || {
        let (_, rest) = value(line.strip_prefix("time=")?)?;
        let (level, rest) = value(rest.strip_prefix(" level=")?)?;
        let (message, rest) = value(rest.strip_prefix(" msg=")?)?;
        let (_, fields) = value(rest.strip_prefix(" file=")?)?;
        let level = if level == "info" { String::new() } else { format!("{level}: ") };
        Some(format!("{level}{message}{fields}"))
    };
    record().unwrap_or_else(|| line.to_owned())
}

/// A word, or a text in quotation marks without its escapes; and what follows.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (word, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
        return Some((word.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(chars.next().map(|(_, c)| c).filter(|c| *c != 'n').unwrap_or(' ')),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tree::put;

    #[test]
    fn interfaces_have_their_state_and_hardware_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("bond0", &[("address", "02:00:00:00:00:01"), ("operstate", "down"), ("type", "1")][..]),
            (
                "eth1",
                &[
                    ("address", "02:00:00:00:00:01"),
                    ("operstate", "down"),
                    ("carrier", "0"),
                    ("device/x", ""),
                    ("type", "1"),
                ],
            ),
            (
                "eth0",
                &[
                    ("address", "02:00:00:00:00:02"),
                    ("operstate", "up"),
                    ("carrier", "1"),
                    ("device/x", ""),
                    ("type", "1"),
                ],
            ),
            ("lo", &[("address", "00:00:00:00:00:00")]),
        ];
        for (name, attributes) in files {
            for (file, text) in attributes {
                put(dir.path(), &format!("sys/class/net/{name}/{file}"), format!("{text}\n"));
            }
        }
        put(dir.path(), "sys/class/net/bonding_masters", "bond0\n");
        put(
            dir.path(),
            "proc/net/route",
            "Iface Destination Gateway\neth0 000200C0 00000000\neth0 00000000 010200C0\n",
        );
        let root = Root::open(dir.path()).unwrap();
        let found = interfaces(&root, &[("eth0".into(), "192.0.2.7/24".into())]);
        let short: Vec<_> =
            found.iter().map(|i| (i.name.as_str(), i.state, i.is_ethernet, i.addresses.len())).collect();
        assert_eq!(short, [("eth0", "up", true, 1), ("eth1", "no link", true, 0), ("bond0", "off", false, 0)]);
        if cfg!(target_endian = "little") {
            assert_eq!(gateway(&root), "192.0.2.1".parse().ok());
        }
    }

    #[test]
    fn records_of_the_agent_are_readable() {
        for (line, expected) in [
            ("time=\"26-11-2026 05:09:28\" level=info msg=registered file=\"register.rs:9\"", "registered"),
            (
                "time=\"x\" level=warning msg=\"no \\\"token\\\"\\n\" file=\"a\" step=inventory-1",
                "warning: no \"token\"  step=inventory-1",
            ),
            ("Started agent.service", "Started agent.service"),
            ("time=\"cut", "time=\"cut"),
            ("time=1 level=info", "time=1 level=info"),
        ] {
            assert_eq!(readable(line), expected);
        }
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = Log::default();
        log.add(0, &"x\n".repeat(MAX_LOG_LINES * 2));
        log.add(0, "last");
        assert_eq!(log.lines.len(), MAX_LOG_LINES);
        assert!(log.lines.back().unwrap().ends_with(" last"));
    }
}
