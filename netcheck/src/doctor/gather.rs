//! Looks at everything once.

use super::{
    DoctorOptions, Error,
    address::{self, Address},
    clock::{self, ClockFacts, Offset},
    diagnosis::Facts,
    duplicate::{self, Asked},
    gateway::{self, Destination, NextHop},
    handshake::Roots,
    link::{self, Interface, State},
    names::{self, ResolvConf},
    netlink::{self, Route},
    proxy::Tunnel,
    service,
    target::Target,
    wire::{self, Way},
};
use crate::{files::read_text, ntp::sntp, privileges};
use api::proxy::Choice;
use resolve::{Hosts, Resolver};
use std::{
    net::{IpAddr, SocketAddr},
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

/// More gateways than this are a router's.
const MAX_HOPS: usize = 4;
const MAX_HOSTS_BYTES: u64 = 4 << 20;

pub(super) fn gather(options: &DoctorOptions) -> Result<Facts, Error> {
    let target = Target::parse(&options.url)?;
    let roots = Roots::load(&options.http)?;
    let choice = options.proxy.choose(&target.uri);
    let interfaces = link::interfaces(&netlink::links()?, &options.sysfs);
    let addresses = address::addresses(&interfaces, &netlink::addresses()?);
    let resolv_conf = ResolvConf::read(&options.resolv_conf);
    let what = if choice.server().is_some() { "the proxy" } else { "the service" };
    let hop = choice.server().map_or(&target.endpoint, |server| &server.endpoint).clone();
    let mut facts = Facts {
        insecure: options.http.insecure,
        destination: hop.ip().map(|ip| destination(what, ip)).transpose()?,
        hops: Vec::new(),
        duplicates: None,
        name: None,
        clock: ClockFacts::default(),
        walk: None,
        direct: None,
        target,
        interfaces,
        addresses,
        choice,
        proxies: options.proxy.clone(),
        resolv_conf,
    };
    let (is_local, has_segment) = (facts.is_local(), facts.addresses.iter().any(Address::is_usable));
    if !is_local && !has_segment {
        privileges::drop_all()?;
        return Ok(facts);
    }
    // Packets to this machine itself never leave it.
    let next_hops = if is_local { Vec::new() } else { next_hops(&facts)? };
    thread::scope(|scope| {
        // Each gives up the capabilities of its own thread; they must exist before we give up ours.
        let hops: Vec<ScopedJoinHandle<'_, NextHop>> =
            next_hops.iter().map(|(ip, interface)| scope.spawn(move || gateway::ask(*ip, interface))).collect();
        let duplicates: Option<ScopedJoinHandle<'_, Asked>> = (!is_local).then(|| scope.spawn(duplicate::ask));
        privileges::drop_all()?;
        look_from_here(options, &mut facts, roots, what)?;
        facts.hops = hops.into_iter().filter_map(|hop| hop.join().ok()).collect();
        facts.duplicates = duplicates.and_then(|asked| asked.join().ok());
        Ok(facts)
    })
}

fn destination(what: &'static str, ip: IpAddr) -> Result<Destination, Error> {
    Ok(Destination { what, ip, route: netlink::route_to(ip)? })
}

/// The gateways that packets to the other side, or to a name server, may go through, and the interfaces they are behind.
fn next_hops(facts: &Facts) -> Result<Vec<(IpAddr, String)>, Error> {
    let known = facts.destination.as_ref().and_then(|destination| destination.route);
    let mut routes: Vec<Route> = known.into_iter().collect();
    if facts.destination.is_none() {
        for server in &facts.resolv_conf.settings.servers {
            routes.extend(netlink::route_to(server.ip())?);
        }
        routes.extend(netlink::default_routes()?);
    }
    let name = |route: &Route| {
        let up = |interface: &&Interface| Some(interface.index) == route.link && interface.state == State::Up;
        facts.interfaces.iter().find(up).map(|interface| interface.name.clone())
    };
    let mut hops = Vec::new();
    for hop in routes.iter().filter_map(|route| Some((route.gateway?, name(route)?))) {
        if hops.len() < MAX_HOPS && !hops.contains(&hop) {
            hops.push(hop);
        }
    }
    Ok(hops)
}

/// What needs no capability: names, time, and the way itself.
fn look_from_here(options: &DoctorOptions, facts: &mut Facts, roots: Roots, what: &'static str) -> Result<(), Error> {
    let ntp = if options.ntp_servers.is_empty() {
        facts.clock.origin = options.chrony_conf.display().to_string();
        clock::chrony_servers(&options.chrony_conf)
    } else {
        facts.clock.origin = "--ntp".to_owned();
        options.ntp_servers.clone()
    };
    let hop = facts.choice.server().map_or(&facts.target.endpoint, |server| &server.endpoint).clone();
    let service_host = facts.target.endpoint.host.clone();
    let is_name = |host: &str| host.parse::<IpAddr>().is_err();
    let ntp_names =
        ntp.iter().filter(|server| is_name(server) && server.parse::<SocketAddr>().is_err() && !server.contains(':'));
    let names: Vec<String> =
        [&hop.host, &service_host].into_iter().filter(|host| is_name(host)).chain(ntp_names).cloned().collect();
    // As our own options say, also for servers of time that are more than a name.
    let hosts = Hosts::parse(&read_text(&options.hosts, MAX_HOSTS_BYTES).unwrap_or_default());
    let resolver = &Resolver::new(facts.resolv_conf.settings.clone(), hosts);
    let answers = match names[..] {
        [] => Vec::new(),
        _ => resolver.lookup_all(&names, options.timeout * 2),
    };
    let found = |host: &str| -> Vec<IpAddr> {
        let known = answers.iter().find(|answer| answer.name == host).map(names::addresses);
        host.parse().map_or_else(|_| known.unwrap_or_default(), |ip| vec![ip])
    };

    let addresses = found(&hop.host);
    match (addresses.first(), facts.resolv_conf.settings.servers.first()) {
        (Some(ip), _) => facts.destination = Some(destination(what, *ip)?),
        (None, Some(server)) if facts.resolv_conf.has_servers => {
            facts.destination = Some(destination("the name server", server.ip())?);
        }
        _ => {}
    }
    let has_way = facts.destination.as_ref().is_some_and(|destination| destination.route.is_some());
    thread::scope(|scope| {
        let clocks: Vec<_> = ntp
            .iter()
            .map(|server| {
                let address = if is_name(server) { found(server).first().map(IpAddr::to_string) } else { None };
                let place = address.or_else(|| (!names.contains(server)).then(|| server.clone()));
                scope.spawn(move || (server.clone(), ask_for_time(server, place, resolver, options.timeout)))
            })
            .collect();
        if has_way && !addresses.is_empty() && !matches!(facts.choice, Choice::Impossible { .. }) {
            let path = format!("{}{}", api::API_PATH, service::PATH);
            let way = Way {
                target: &facts.target,
                proxy: facts.choice.server(),
                addresses: &addresses,
                roots,
                path: &path,
                timeout: options.timeout,
            };
            facts.walk = Some(wire::walk(&way));
        }
        facts.clock.date = facts.walk.as_ref().and_then(|walk| walk.date);
        facts.clock.servers = clocks.into_iter().filter_map(|clock| clock.join().ok()).collect();
    });
    let tunnel = facts.walk.as_ref().and_then(|walk| walk.tunnel.as_ref());
    if tunnel.is_some_and(|tunnel| *tunnel != Tunnel::Open) {
        let direct = found(&service_host);
        facts.direct = Some(wire::connect(&direct, facts.target.endpoint.port, options.timeout).is_ok());
    }
    facts.name = answers.into_iter().find(|answer| answer.name == hop.host);
    Ok(())
}

/// `place` is the server's address, or the server itself where it says more than a name.
fn ask_for_time(server: &str, place: Option<String>, resolver: &Resolver, timeout: Duration) -> Result<Offset, String> {
    let place = place.ok_or_else(|| format!("no time from {server}: its name has no address"))?;
    sntp::measure(&place, resolver, timeout).map(|found| Offset(found.offset_s)).map_err(|error| error.to_string())
}
