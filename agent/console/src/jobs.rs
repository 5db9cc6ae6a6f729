//! Carries out what a form asks for. Takes from milliseconds to a minute, so each job has its own thread, and reports events.

use crate::{
    dbus::Bus,
    facts::{addresses, gateway},
    network::Plan,
    network_manager as manager,
    screen::{Action, Event, Trial},
};
use agent::{
    config::{Config, Sources, set_at_console},
    rendezvous::Place,
};
use anyhow::Context;
use kernel::{Cancel, in_full};
use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

const BUS: &str = "/run/dbus/system_bus_socket";
const PROFILES: &str = "/etc/NetworkManager/system-connections";
const AGENT: &str = "agent.service";
const PATIENCE: Duration = Duration::from_secs(5);
/// The discard service (RFC 863): any answer of the host will do, and a refusal is the usual one.
const DISCARD: u16 = 9;

/// What a job works with.
pub(crate) struct Means<'a> {
    pub(crate) sources: &'a Sources<'a>,
    /// Where certificates that are configured as text go.
    pub(crate) ca_file: PathBuf,
    pub(crate) stop: &'a Cancel,
}

/// Carries out `action`; the event that ends it.
pub(crate) fn run(action: &Action, means: &Means<'_>) -> Event {
    match action {
        // The loop's own.
        Action::Quit => Event::Done(String::new()),
        Action::Set(values) => set(values, means).map_or_else(refused, Event::Done),
        Action::Plan(settings) => match settings.plan() {
            Ok(plan) => Event::Planned(plan),
            Err(error) => Event::Refused(in_full(&error)),
        },
        Action::Apply(plan) => match apply(plan, means) {
            Ok(trial) => Event::Tried(trial),
            Err(error) => Event::Refused(format!("the network is as it was: {}", in_full(&error))),
        },
        Action::Keep(checkpoint) => end(|bus| manager::keep(bus, checkpoint), "the new network is kept"),
        Action::TakeBack(checkpoint) => end(|bus| manager::take_back(bus, checkpoint), "the network is as it was"),
    }
}

/// Applies it, looks at what has become of it, and gives a person time from then on.
fn apply(plan: &Plan, means: &Means<'_>) -> Result<Trial, manager::ApplyError> {
    let mut bus = Bus::connect(Path::new(BUS))?;
    let checkpoint = manager::apply(&mut bus, plan, Path::new(PROFILES), means.stop)?;
    let report = report(&plan.gateways, means);
    manager::extend(&mut bus, &checkpoint)?;
    Ok(Trial { checkpoint, report })
}

fn refused(error: anyhow::Error) -> Event {
    Event::Refused(format!("{error:#}"))
}

fn end(call: impl FnOnce(&mut Bus) -> Result<(), crate::dbus::BusError>, done: &str) -> Event {
    match Bus::connect(Path::new(BUS)).and_then(|mut bus| call(&mut bus)) {
        Ok(()) => Event::Done(done.to_owned()),
        Err(error) => Event::Refused(in_full(&error)),
    }
}

/// Writes what was set if the agent could work with it, and has the agent start with it.
fn set(values: &[(agent::config::Key, String)], means: &Means<'_>) -> anyhow::Result<String> {
    let config = Config::read_with(means.sources, values)?;
    if !values.is_empty() && config.rendezvous()?.is_none() {
        config.resolve()?;
    }
    set_at_console(Path::new("/"), values).with_context(|| format!("writing {}", agent::config::CONSOLE_FILE))?;
    let restarted = Bus::connect(Path::new(BUS)).and_then(|mut bus| manager::restart(&mut bus, AGENT));
    restarted.with_context(|| format!("it is written, but {AGENT} could not be restarted"))?;
    Ok("set, and the agent starts with it".to_owned())
}

/// What the new network is good for: each line, and whether that is well.
fn report(gateways: &[IpAddr], means: &Means<'_>) -> Vec<(bool, String)> {
    let local = |address: &str| address.starts_with("127.") || address == "::1/128";
    let all: Vec<String> = addresses()
        .into_iter()
        .filter(|(_, address)| !local(address))
        .map(|(name, address)| format!("{name} {address}"))
        .collect();
    let addresses = if all.is_empty() { "none".to_owned() } else { all.join("  ") };
    let mut report = vec![(!all.is_empty(), format!("addresses: {addresses}"))];
    let known = gateways.iter().copied().chain(gateway(means.sources.root).filter(|_| gateways.is_empty()));
    for gateway in known {
        let (is_well, answer) = answers(gateway);
        report.push((is_well, format!("gateway {gateway}: {answer}")));
    }
    report.push(match service(means) {
        Ok(text) => (true, text),
        Err(error) => (false, format!("service: {error:#}")),
    });
    report
}

/// Whether a neighbour has this address: the kernel says so if none answers to ARP, or to neighbour discovery.
fn answers(ip: IpAddr) -> (bool, String) {
    match TcpStream::connect_timeout(&SocketAddr::new(ip, DISCARD), PATIENCE) {
        Ok(_) => (true, "answers".to_owned()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => (true, "answers".to_owned()),
        // A packet filter, at a neighbour whose hardware address is known.
        Err(error) if error.kind() == ErrorKind::TimedOut => (true, "is on the network".to_owned()),
        Err(error) => (false, error.to_string()),
    }
}

/// Asks the configured service for anything.
fn service(means: &Means<'_>) -> anyhow::Result<String> {
    let config = Config::read(means.sources)?;
    let url = match config.rendezvous()? {
        Some((Place::At(url), _)) => url,
        Some((Place::Announced, _)) => return Ok("service: to be found by multicast DNS".to_owned()),
        None if !config.is_configured() => return Ok("service: none is configured".to_owned()),
        None => config.resolve()?.url,
    };
    let client = api::http::agent(&config.http(&means.ca_file)?)?;
    let shown = api::http::public_url(&url);
    match client.get(&url).config().timeout_global(Some(2 * PATIENCE)).build().call() {
        Ok(_) => Ok(format!("service {shown}: answers")),
        Err(error) => Err(anyhow::anyhow!("{shown}: {}", in_full(&error))),
    }
}
