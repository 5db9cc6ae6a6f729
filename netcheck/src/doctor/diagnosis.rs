//! From facts to findings. Pure.

use super::{
    address::{self, Address},
    clock::{self, ClockFacts},
    duplicate::{self, Asked},
    gateway::{self, Destination, NextHop},
    link::{self, Interface},
    names::{self, ResolvConf},
    proxy::{self, Tunnel},
    report::{Finding, Report, Station, Verdict},
    service,
    target::{Endpoint, Target},
    tls,
    wire::Walk,
};
use api::proxy::{Choice, ProxyVariables};

const LOCAL: &str = "not needed: the other side is this machine itself";

/// All that was seen.
#[derive(Debug)]
pub(super) struct Facts {
    pub target: Target,
    pub insecure: bool,
    pub interfaces: Vec<Interface>,
    pub addresses: Vec<Address>,
    pub proxies: ProxyVariables,
    pub choice: Choice,
    /// Where the first packets have to get: the proxy or the service, or while neither's address is known a name server.
    pub destination: Option<Destination>,
    pub hops: Vec<NextHop>,
    /// `None`: there was no need to ask, nothing to ask, or nowhere to ask it.
    pub duplicates: Option<Asked>,
    pub resolv_conf: ResolvConf,
    /// `None` where the host is an address.
    pub name: Option<resolve::Answer>,
    pub clock: ClockFacts,
    /// `None`: there was no address to go to, or no way to it.
    pub walk: Option<Walk>,
    /// Whether the service takes connections without the proxy.
    pub direct: Option<bool>,
}

impl Facts {
    /// The other side is the machine itself, which needs no network.
    pub(super) fn is_local(&self) -> bool {
        let route = self.destination.as_ref().and_then(|destination| destination.route);
        self.hop().is_loopback() || self.hop().ip().is_some() && route.is_some_and(|route| route.is_local)
    }

    fn hop(&self) -> &Endpoint {
        self.choice.server().map_or(&self.target.endpoint, |server| &server.endpoint)
    }

    fn is_reached(&self) -> bool {
        let Some(walk) = &self.walk else { return false };
        let distrusted = walk.tls.as_ref().is_some_and(|tls| tls.distrust.is_some());
        (!distrusted || self.insecure) && service::is_reached(walk.answer.as_ref())
    }
}

pub(super) fn diagnose(facts: &Facts) -> Report {
    let reached = facts.is_reached();
    let needless = reached || facts.is_local();
    let mut findings: Vec<Finding> = Vec::new();
    let is_broken = |finding: &Finding| finding.verdict == Verdict::Broken;

    findings.push(link::judge(&facts.interfaces).unless(needless));
    if facts.is_local() {
        findings.push(Finding::not_needed(Station::Address, LOCAL));
    } else if !findings.iter().any(is_broken) {
        findings.push(address::judge(&facts.interfaces, &facts.addresses).unless(needless));
    }
    // Without link or address nothing was tried.
    if let Some(first) = findings.iter().find(|finding| is_broken(finding)).map(|finding| finding.station) {
        let all = [
            Station::Address,
            Station::Gateway,
            Station::Duplicate,
            Station::Dns,
            Station::Time,
            Station::Proxy,
            Station::Tls,
            Station::Service,
        ];
        findings
            .extend(all.into_iter().filter(|station| *station > first).map(|station| Finding::skipped(station, first)));
        return Report::new(facts.target.url.clone(), reached, findings);
    }

    let name = |index: u32| {
        let known = facts.interfaces.iter().find(|interface| interface.index == index);
        known.map_or_else(|| format!("interface {index}"), |interface| interface.name.clone())
    };
    findings.push(gateway::judge(facts.destination.as_ref(), &facts.hops, &name).unless(reached));
    findings.push(match &facts.duplicates {
        Some(asked) => duplicate::judge(asked),
        None if facts.is_local() => Finding::not_needed(Station::Duplicate, LOCAL),
        None => Finding::not_needed(Station::Duplicate, "not needed: this machine has no address on a segment"),
    });
    findings.push(names::judge(&facts.hop().host, facts.name.as_ref(), &facts.resolv_conf).unless(reached));
    let tls_facts = facts.walk.as_ref().and_then(|walk| walk.tls.as_ref());
    findings.push(clock::judge(&facts.clock, facts.target.is_https, tls_facts, reached));
    // Why the walk was not begun.
    let obstacle = findings.iter().find(|finding| is_broken(finding) && finding.station != Station::Duplicate);
    let obstacle = obstacle.map_or(Station::Dns, |finding| finding.station);

    let tunnel = facts.walk.as_ref().and_then(|walk| walk.tunnel.as_ref());
    findings.push(match (&facts.walk, facts.choice.server()) {
        (None, Some(_)) => Finding::skipped(Station::Proxy, obstacle),
        _ => proxy::judge(&facts.proxies, &facts.choice, tunnel, facts.direct, &facts.target),
    });
    let proxy_breaks =
        tunnel.is_some_and(|tunnel| *tunnel != Tunnel::Open) || matches!(facts.choice, Choice::Impossible { .. });
    let obstacle = if proxy_breaks { Station::Proxy } else { obstacle };

    let offset = facts.clock.offset().map(|(offset, _)| offset);
    let connection = facts.walk.as_ref().and_then(|walk| walk.connection.as_ref());
    findings.push(match tls_facts {
        _ if !facts.target.is_https => Finding::not_needed(Station::Tls, "not needed: the URL says http"),
        Some(tls) => tls::judge(&facts.target, tls, offset, facts.insecure),
        None if connection.is_some() => Finding::skipped(Station::Tls, Station::Service),
        None => Finding::skipped(Station::Tls, obstacle),
    });
    let tls_breaks = findings.last().is_some_and(is_broken);
    findings.push(match &facts.walk {
        Some(_) if tls_breaks => Finding::skipped(Station::Service, Station::Tls),
        Some(walk) if !proxy_breaks => service::judge(&facts.target, connection, walk.answer.as_ref()),
        _ => Finding::skipped(Station::Service, obstacle),
    });
    Report::new(facts.target.url.clone(), reached, findings)
}
