//! resolv.conf(5): which servers are asked, and what a name without trailing dot may stand for.

use nix::net::if_::if_nametoindex;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    time::Duration,
};

/// Of servers, as in the C library; a resolver that asks more asks ones that other programs never do.
const MAX_SERVERS: usize = 3;
const PORT: u16 = 53;
/// The C library once had a limit of six. Each domain is asked for in turn.
const MAX_SEARCH: usize = 32;
/// RFC 1035 §2.3.4, in text, with the last dot.
const MAX_NAME_LEN: usize = 254;

/// What resolv.conf says. Lines that are not understood are ignored, as by every other reader of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// In the order in which they are asked; the local host's own, when none is named.
    pub servers: Vec<SocketAddr>,
    /// Domains, without dots at their ends.
    pub search: Vec<String>,
    /// A name with so many dots is tried as it stands first.
    pub ndots: usize,
    /// Time for one server to answer once.
    pub timeout: Duration,
    /// Rounds through all servers.
    pub attempts: u32,
    /// Long answers may come over UDP.
    pub edns: bool,
    /// Only TCP.
    pub tcp: bool,
    /// Each lookup begins with another server.
    pub rotate: bool,
    /// One question at a time, for what stands between and loses the second.
    pub one_at_a_time: bool,
    /// IPv6 addresses are not asked for.
    pub no_aaaa: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            edns: false,
            tcp: false,
            rotate: false,
            one_at_a_time: false,
            no_aaaa: false,
        }
    }
}

impl Settings {
    /// Reads the text of a resolv.conf.
    pub fn parse(text: &str) -> Self {
        let mut settings = Self::default();
        for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => settings.servers.extend(words.next().and_then(parse_server)),
                // The last of these lines counts.
                Some("domain") => settings.search = words.take(1).filter_map(domain).collect(),
                Some("search") => settings.search = words.filter_map(domain).collect(),
                Some("options") => words.for_each(|option| settings.set(option)),
                _ => {}
            }
        }
        settings.servers.truncate(MAX_SERVERS);
        settings.search.truncate(MAX_SEARCH);
        if settings.servers.is_empty() {
            settings.servers = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()]
                .map(|address| SocketAddr::new(address, PORT))
                .into();
        }
        settings
    }

    fn set(&mut self, option: &str) {
        let number = |text: &str, max: u32| text.parse::<u32>().ok().map(|number| number.min(max));
        match option.split_once(':') {
            Some(("ndots", text)) => {
                self.ndots = number(text, 15).map_or(self.ndots, |n| usize::try_from(n).unwrap_or_default());
            }
            Some(("timeout", text)) => {
                self.timeout = number(text, 30).map_or(self.timeout, |n| Duration::from_secs(n.max(1).into()));
            }
            Some(("attempts", text)) => self.attempts = number(text, 5).map_or(self.attempts, |n| n.max(1)),
            Some(_) => {}
            None => match option {
                "edns0" => self.edns = true,
                "use-vc" | "usevc" => self.tcp = true,
                "rotate" => self.rotate = true,
                "single-request" | "single-request-reopen" => self.one_at_a_time = true,
                "no-aaaa" => self.no_aaaa = true,
                _ => {}
            },
        }
    }

    /// The absolute names that `name` may stand for, in the order they are tried: itself alone when it ends in a dot.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let itself = format!("{name}.");
        let dots = name.bytes().filter(|byte| *byte == b'.').count();
        let searched = self.search.iter().map(|domain| format!("{name}.{domain}."));
        let mut names: Vec<String> = searched.filter(|name| name.len() <= MAX_NAME_LEN).collect();
        let place = if dots >= self.ndots { 0 } else { names.len() };
        names.insert(place, itself);
        names
    }
}

fn domain(word: &str) -> Option<String> {
    let domain = word.trim_end_matches('.');
    (!domain.is_empty() && domain.len() < MAX_NAME_LEN).then(|| domain.to_owned())
}

fn parse_server(word: &str) -> Option<SocketAddr> {
    parse_literal(word, PORT)
}

/// An address; a link-local one may name its interface after a percent sign.
pub(crate) fn parse_literal(word: &str, port: u16) -> Option<SocketAddr> {
    let Some((address, zone)) = word.split_once('%') else {
        return word.parse().ok().map(|address| SocketAddr::new(address, port));
    };
    let scope = zone.parse().ok().or_else(|| if_nametoindex(zone).ok())?;
    Some(SocketAddrV6::new(address.parse().ok()?, port, 0, scope).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_whole_file_is_read() {
        let text = "# Generated\n\
                    domain old.example\n\
                    search lab.example. prod.example .\n\
                    nameserver 192.0.2.1\nnameserver\tfe80::1%1\nnameserver nonsense\nnameserver fd00::1\n\
                    nameserver 192.0.2.4\n\
                    ;options ndots:9\n\
                    options ndots:5 timeout:99 attempts:0 edns0 rotate use-vc ndots:x single-request no-aaaa trust-ad\n";
        let expected = Settings {
            servers: vec![
                "192.0.2.1:53".parse().unwrap(),
                "[fe80::1%1]:53".parse().unwrap(),
                "[fd00::1]:53".parse().unwrap(),
            ],
            search: vec!["lab.example".into(), "prod.example".into()],
            ndots: 5,
            timeout: Duration::from_secs(30),
            attempts: 1,
            edns: true,
            tcp: true,
            rotate: true,
            one_at_a_time: true,
            no_aaaa: true,
        };
        assert_eq!(Settings::parse(text), expected);
    }

    #[test]
    fn an_empty_file_means_the_local_host() {
        let servers = ["127.0.0.1:53", "[::1]:53"].map(|text| text.parse().unwrap()).into();
        assert_eq!(Settings::parse(""), Settings { servers, ..Settings::default() });
    }

    #[test]
    fn a_trailing_dot_keeps_the_search_list_away() {
        let settings = |ndots| Settings { search: vec!["x".into(), "y.z".into()], ndots, ..Settings::default() };
        assert_eq!(settings(1).candidates("v.c.d."), ["v.c.d."]);
        assert_eq!(settings(1).candidates("v.c.d"), ["v.c.d.", "v.c.d.x.", "v.c.d.y.z."]);
        assert_eq!(settings(2).candidates("v.c.d"), ["v.c.d.", "v.c.d.x.", "v.c.d.y.z."]);
        assert_eq!(settings(3).candidates("v.c.d"), ["v.c.d.x.", "v.c.d.y.z.", "v.c.d."]);
        assert_eq!(settings(0).candidates("v"), ["v.", "v.x.", "v.y.z."]);
        let long = "a.".repeat(125) + "aa";
        assert_eq!(settings(1).candidates(&long), [format!("{long}."), format!("{long}.x.")][..1]);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            let settings = Settings::parse(&text);
            prop_assert!(!settings.servers.is_empty() && settings.servers.len() <= MAX_SERVERS);
            prop_assert!(!settings.candidates(&text).is_empty());
            prop_assert!(settings.candidates(&text).len() <= MAX_SEARCH + 1);
        }
    }
}
