//! Station 3: the way to the other side, and whether the next hop on it is there.

use super::{
    netlink::Route,
    report::{Code, Finding, Station},
};
use crate::{
    Selection, SocketError,
    mesh::{self, measure},
};
use api::{ConnectivityCheckHost, Mac};
use serde_json::json;
use std::{fmt, net::IpAddr, time::Duration};

/// Three questions, and a second for the answers.
const PROBES: u16 = 3;
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// The gateway is looked at for at most this time.
pub(super) const DEADLINE: Duration = Duration::from_secs(3);

/// Whom packets have to get to first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// As a message names it: "the service".
    pub what: &'static str,
    pub ip: IpAddr,
    /// `None`: the kernel has no route.
    pub route: Option<Route>,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.ip)
    }
}

/// What a next hop said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// To ARP or NDP.
    Neighbour(Mac),
    /// To echoes only.
    Echo,
    Silence,
    /// Not asked, for this reason.
    NotAsked(String),
}

/// A next hop that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NextHop {
    pub ip: IpAddr,
    pub interface: String,
    pub answer: Answer,
}

/// Asks a neighbour by ARP or NDP, and by echo. Leaves the thread without any capability.
pub(super) fn ask(ip: IpAddr, interface: &str) -> NextHop {
    let answer = |answer| NextHop { ip, interface: interface.to_owned(), answer };
    let options = mesh::MeshOptions {
        count: PROBES,
        timeout: PROBE_TIMEOUT,
        deadline: DEADLINE,
        interfaces: Selection::Named(vec![interface.to_owned()]),
        ..mesh::MeshOptions::default()
    };
    let host = json!({"host_id": "00000000-0000-0000-0000-000000000000", "nics": [{"ip_addresses": [ip]}]});
    let hosts: Vec<ConnectivityCheckHost> = api::json::from_value(host).into_iter().collect();
    let findings = match measure(&hosts, &options) {
        Ok(findings) => findings,
        Err(mesh::Error::Socket(SocketError::Privilege { .. })) => {
            return answer(Answer::NotAsked("this needs root or the capability CAP_NET_RAW".to_owned()));
        }
        Err(error) => return answer(Answer::NotAsked(error.to_string())),
    };
    let found = findings.hosts.first();
    let mac = found.and_then(|host| host.responders.first()).map(|responder| responder.mac);
    let echoed = found.is_some_and(|host| host.echoes.iter().any(|echo| echo.statistics.received > 0));
    answer(match (mac, echoed) {
        (Some(mac), _) => Answer::Neighbour(mac),
        (None, true) => Answer::Echo,
        (None, false) => Answer::Silence,
    })
}

/// Is there a way, and is its first step there? `name` tells an interface's name by its number.
pub(super) fn judge(destination: Option<&Destination>, hops: &[NextHop], name: &dyn Fn(u32) -> String) -> Finding {
    let station = Station::Gateway;
    let Some(destination) = destination else {
        return Finding::skipped(station, Station::Dns);
    };
    let Some(route) = destination.route else {
        let seen = format!("no route to {destination}, and no default route");
        let next = "a default route comes from DHCP, a router advertisement or the network configuration: find out why it \
                    is missing (`ip route add default via GATEWAY` helps until the next boot)";
        return Finding::broken(station, Code::NoRoute, seen, next);
    };
    if route.is_local {
        return Finding::not_needed(station, format!("not needed: {destination} is this machine itself"));
    }
    let interface = route.link.map(name).unwrap_or_default();
    let Some(gateway) = route.gateway else {
        return Finding::not_needed(station, format!("not needed: {destination} is on the network of {interface}"));
    };
    match hops.iter().find(|hop| hop.ip == gateway && hop.interface == interface).map(|hop| &hop.answer) {
        Some(Answer::Neighbour(mac)) => Finding::ok(
            station,
            format!("{gateway} on {interface} ({mac}) answers; it is the next hop to {destination}"),
        ),
        Some(Answer::Echo) => {
            Finding::ok(station, format!("{gateway} on {interface} answers; it is the next hop to {destination}"))
        }
        Some(Answer::Silence) => {
            let seen =
                format!("{gateway} on {interface}, the next hop to {destination}, answers neither ARP or NDP nor ping");
            let next = format!(
                "check that {gateway} is the right gateway for this network, that it is up, and that {interface} is on its VLAN"
            );
            Finding::broken(station, Code::GatewaySilent, seen, next)
        }
        Some(Answer::NotAsked(reason)) => {
            let seen =
                format!("{gateway} on {interface} is the next hop to {destination}, but was not probed: {reason}");
            Finding::warn(station, Code::NotProbed, seen, "run this as root to probe it")
        }
        None => {
            let seen = format!("{gateway} on {interface} is the next hop to {destination}; it was not probed");
            Finding::ok(station, seen)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(gateway: Option<&str>) -> Destination {
        let route = Route {
            gateway: gateway.map(|text| text.parse().unwrap()),
            link: Some(2),
            ..Route::new("0.0.0.0".parse().unwrap(), 0)
        };
        Destination { what: "the service", ip: "203.0.113.7".parse().unwrap(), route: Some(route) }
    }

    fn judged(destination: &Destination, answer: Option<Answer>) -> Finding {
        let ip = "10.0.0.1".parse().unwrap();
        let hops: Vec<_> = answer.into_iter().map(|answer| NextHop { ip, interface: "ens3".into(), answer }).collect();
        judge(Some(destination), &hops, &|_| "ens3".to_owned())
    }

    #[test]
    fn each_way_is_shown() {
        let through = destination(Some("10.0.0.1"));
        let finding = judged(&through, Some(Answer::Neighbour(Mac([2, 0, 0, 0, 0, 1]))));
        assert_eq!(
            finding.seen,
            "10.0.0.1 on ens3 (02:00:00:00:00:01) answers; it is the next hop to the service 203.0.113.7"
        );
        let finding = judged(&through, Some(Answer::Silence));
        assert_eq!(finding.code, Code::GatewaySilent);
        let finding = judged(&destination(None), None);
        assert_eq!(finding.seen, "not needed: the service 203.0.113.7 is on the network of ens3");
        let finding = judged(&Destination { route: None, ..through }, None);
        assert_eq!(finding.code, Code::NoRoute);
    }
}
