//! Two ports of this machine, with a cable between them: each in a separate network namespace meanwhile, since the kernel would
//! otherwise not use the cable.

use super::{Link, PORT, serve::serve};
use crate::{
    load::{Load, Run, Trouble},
    result::Part,
};
use kernel::{
    Cancel,
    netlink::{Limits, NetlinkError, Request, Scope, ask},
    rtnetlink::{self, Address},
};
use nix::{
    net::if_::if_nametoindex,
    sched::{CloneFlags, setns, unshare},
};
use std::{
    fs::File,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    ops::ControlFlow,
    os::fd::AsFd,
    sync::mpsc,
    thread,
    time::Duration,
};

/// Of the network that tests of links are meant to use (RFC 2544, and RFC 6890 2.2.2).
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
const PREFIX_LEN: u8 = 30;
const LIMITS: Limits = Limits { timeout_s: 10, bytes: 16 << 20 };
/// The cards agree on a speed.
const CARRIER: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(500);
const THIS: &str = "/proc/thread-self/ns/net";

/// Why a port is not tested.
#[derive(Debug, thiserror::Error)]
enum PortError {
    #[error("there is no interface {name}")]
    Missing { name: String },
    #[error("{name} has the address {address}: remove it first, since the test takes the port away from this system")]
    InUse { name: String, address: IpAddr },
    #[error("cannot {deed} {name}")]
    Failed { deed: &'static str, name: String, source: NetlinkError },
}

/// Both ports.
pub(super) struct Ports {
    names: [String; 2],
    link: Link,
    home: Option<File>,
    /// Whether the first port is in the namespace of this load's thread.
    is_away: bool,
    stop: Cancel,
    server: Option<thread::JoinHandle<()>>,
}

impl Ports {
    pub(super) fn new(names: [String; 2], streams: u16) -> Self {
        let link = Link::new(SocketAddr::new(ADDRESSES[1].into(), PORT), streams);
        let [one, other] = &names;
        let link = Link { part: Part::new(&link.part.kind, format!("{one} and {other}")), ..link };
        Self { names, link, home: None, is_away: false, stop: Cancel::default(), server: None }
    }

    /// Starts the thread that serves in the namespace of the second port.
    fn start_server(&mut self, home: &File) -> Result<(), Trouble> {
        let [_, name] = self.names.clone();
        let (theirs, stop) = (home.try_clone()?, self.stop.clone());
        let (ready, started) = mpsc::channel::<Result<(), String>>();
        let work = move || {
            let listener = enter(&name, &theirs, ADDRESSES[1])
                .map_err(|error| error.to_string())
                .and_then(|()| TcpListener::bind((ADDRESSES[1], PORT)).map_err(|error| error.to_string()));
            match listener {
                Ok(listener) => {
                    let _ = ready.send(Ok(()));
                    if let Err(error) = serve(&listener, &stop) {
                        tracing::warn!(%error, "the other end of the link stopped");
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            }
            leave(&name, &theirs);
        };
        self.server = Some(thread::Builder::new().name("other port".to_owned()).spawn(work)?);
        started.recv().map_err(|_| "the other end of the link did not start")??;
        Ok(())
    }
}

/// Moves the calling thread to a new namespace, and the port after it.
fn enter(name: &str, home: &File, address: Ipv4Addr) -> Result<(), Trouble> {
    let index = index(name)?;
    unshare(CloneFlags::CLONE_NEWNET)?;
    let new = File::open(THIS)?;
    setns(home, CloneFlags::CLONE_NEWNET)?;
    change(&rtnetlink::move_link(index, new.as_fd()), "move", name)?;
    setns(&new, CloneFlags::CLONE_NEWNET)?;
    let index = self::index(name)?;
    change(&rtnetlink::set_up(index), "switch on", name)?;
    change(&rtnetlink::add_address(index, address, PREFIX_LEN), "give an address to", name)?;
    Ok(())
}

/// Moves the port back, and the calling thread after it. What fails is said: a card comes back by itself when the namespace ends.
fn leave(name: &str, home: &File) {
    let moved = index(name).and_then(|index| change(&rtnetlink::move_link(index, home.as_fd()), "move back", name));
    if let Err(error) = moved {
        tracing::warn!(%error, "the port is not back yet");
    }
    if let Err(error) = setns(home, CloneFlags::CLONE_NEWNET) {
        tracing::warn!(%error, "cannot return to the system's network");
        return;
    }
    if let Err(error) = index(name).and_then(|index| change(&rtnetlink::set_up(index), "switch on", name)) {
        tracing::warn!(%error, "the port stays off");
    }
}

fn index(name: &str) -> Result<u32, PortError> {
    if_nametoindex(name).map_err(|_| PortError::Missing { name: name.to_owned() })
}

fn change(request: &Request, deed: &'static str, name: &str) -> Result<(), PortError> {
    let failed = |source| PortError::Failed { deed, name: name.to_owned(), source };
    ask(request, Scope::Change, 1, LIMITS, |_| ControlFlow::Continue(())).map(drop).map_err(failed)
}

/// Refuses a port that this system uses: only addresses that the kernel gave it by itself may be lost.
fn check_free(name: &str) -> Result<(), PortError> {
    let index = index(name)?;
    let mut found = None;
    let each = |entry: &[u8]| {
        found = Address::parse(entry).filter(|address| address.link == index && !is_automatic(address.ip));
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let asked = ask(&rtnetlink::addresses(), Scope::Table, 1, LIMITS, each);
    asked.map_err(|source| PortError::Failed { deed: "read the addresses of", name: name.to_owned(), source })?;
    match found {
        Some(address) => Err(PortError::InUse { name: name.to_owned(), address: address.ip }),
        None => Ok(()),
    }
}

fn is_automatic(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

impl Load for Ports {
    fn start(&mut self, run: &Run) -> Result<(), Trouble> {
        self.names.iter().try_for_each(|name| check_free(name))?;
        let home = File::open(THIS)?;
        self.home = Some(home.try_clone()?);
        self.start_server(&home)?;
        self.is_away = true;
        enter(&self.names[0], &home, ADDRESSES[0])?;
        let begin = run.now();
        while let Err(error) = self.link.start(run) {
            if run.is_over() || run.now().duration_since(begin) >= CARRIER {
                return Err(error);
            }
            run.sleep(PAUSE);
        }
        Ok(())
    }

    fn step(&mut self, run: &Run) -> Result<(), Trouble> {
        self.link.step(run)
    }

    fn end(&mut self) {
        self.stop.cancel();
        if let Some(home) = self.home.take().filter(|_| self.is_away) {
            leave(&self.names[0], &home);
        }
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }

    fn findings(&self) -> &Part {
        self.link.findings()
    }
}

/// `eth2,eth3`. The error is a sentence for the user.
pub(crate) fn parse(text: &str) -> Result<[String; 2], String> {
    match text.split(',').collect::<Vec<_>>().as_slice() {
        [one, other] if one != other && !one.is_empty() && !other.is_empty() => {
            Ok([(*one).to_owned(), (*other).to_owned()])
        }
        _ => Err("two interfaces are given as eth2,eth3".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::net::{Segment, in_namespace};

    #[test]
    fn ports_are_parsed() {
        assert_eq!(parse("eth2,eth3"), Ok(["eth2".to_owned(), "eth3".to_owned()]));
        for bad in ["eth2", "eth2,eth2", "eth2,", ",eth3", "a,b,c", ""] {
            parse(bad).unwrap_err();
        }
    }

    #[test]
    fn a_cable_between_two_ports_is_tested_and_both_come_back() {
        let Some(segment) = Segment::new() else { return };
        let host = segment.host("both", "52:54:00:00:00:01", &["192.0.2.1/24"]);
        host.namespace.ip("link add ens8 type veth peer name ens9");
        let part = in_namespace(&host.namespace.0, || {
            let mut ports = Ports::new(["ens8".to_owned(), "ens9".to_owned()], 1);
            let run = Run::default();
            ports.start(&run).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_secs(3));
                    run.end();
                });
                ports.step(&run).unwrap();
            });
            ports.end();
            ports.findings().clone()
        });
        assert_eq!((part.faults.as_slice(), part.name.as_str()), (&[][..], "ens8 and ens9"));
        assert!(part.get("tcp_sent_bytes") > Some(0.0) && part.get("tcp_received_bytes") > Some(0.0), "{part:?}");
        for name in ["ens8", "ens9"] {
            assert!(host.namespace.ip(&format!("link show {name}")).contains("UP"), "{name}");
        }
    }

    #[test]
    fn a_port_in_use_is_not_taken_away() {
        let Some(segment) = Segment::new() else { return };
        let host = segment.host("used", "52:54:00:00:00:01", &["192.0.2.1/24"]);
        in_namespace(&host.namespace.0, || {
            let error = check_free("ens3").unwrap_err().to_string();
            assert!(error.starts_with("ens3 has the address 192.0.2.1: "), "{error}");
            assert!(matches!(check_free("ens7"), Err(PortError::Missing { .. })));
        });
        assert!(host.namespace.ip("link show ens3").contains("ens3"));
    }
}
