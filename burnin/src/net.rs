//! Links: TCP and UDP in both directions at once, between this machine and others that serve.

pub(crate) mod ports;
pub(crate) mod rounds;
mod serve;
mod tcp;
mod udp;
mod wire;

use crate::{
    facts::Facts,
    load::{Load, Run, Trouble},
    plan::{Kind, Planned, Request},
    result::{Gauge, Part, number, wide},
};
use nix::sys::socket::{getsockopt, sockopt::IpMtu};
use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    thread,
    time::{Duration, SystemTime},
};
use wire::{Header, Role, SEGMENT_BYTES, parse_pair, pattern};

use ports::Ports;

pub(crate) use serve::serve;

pub(crate) const KIND: Kind = Kind { name: "net", nice: 0, plan };

/// Where the other end serves unless the user says otherwise.
pub(crate) const PORT: u16 = 7117;
/// One protocol, then the other: a stop waits for no longer than its data need.
const SLICE: Duration = Duration::from_secs(4);
const CONNECT: Duration = Duration::from_secs(5);
/// After a connection that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// Datagrams that may be lost: one of ten thousand.
const MAX_LOSS: f64 = 1e-4;
/// Headers of IPv4 and UDP; of IPv6 the MTU that every link has is taken.
const IPV4_HEADERS: u16 = 28;
const IPV6_PAYLOAD: u16 = 1232;

fn plan(_: &Facts, request: &Request) -> Planned {
    if request.peers.is_empty() && request.ports.is_empty() {
        let not_tested = vec!["net: no other end is given: use --peer or --ports".to_owned()];
        return Planned { not_tested, ..Planned::default() };
    }
    let (streams, mut planned) = (request.streams, Planned::default());
    for peer in &request.peers {
        planned.text.push(format!("{peer}: TCP and UDP, both directions, {streams} streams"));
        planned.loads.push(Box::new(Link::new(*peer, streams)));
    }
    for ports in &request.ports {
        let [one, other] = ports;
        planned.text.push(format!("{one} and {other}: the same; this system cannot use them during the test"));
        planned.loads.push(Box::new(Ports::new(ports.clone(), streams)));
    }
    planned
}

/// `ADDRESS`, or `ADDRESS:PORT`. The error is a sentence for the user.
pub(crate) fn parse_peer(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    address.or_else(|_| text.parse()).map_err(|_| format!("'{text}' is not an IP address, with or without a port"))
}

/// What both ends of a link call each of its two directions.
#[derive(Clone, Copy)]
struct Direction {
    name: &'static str,
    tcp: Role,
    udp: Role,
}

const DIRECTIONS: [Direction; 2] = [
    Direction { name: "sent", tcp: Role::SendTcp, udp: Role::SendUdp },
    Direction { name: "received", tcp: Role::ReceiveTcp, udp: Role::ReceiveUdp },
];

/// What one flow carried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Carried {
    bytes: u64,
    seconds: f64,
    /// Pieces, of which so many did not arrive and so many were wrong. Of TCP they are bytes.
    pieces: u64,
    lost: u64,
    wrong: u64,
}

/// One other end.
struct Link {
    part: Part,
    peer: SocketAddr,
    streams: u16,
    pattern: Vec<u8>,
    is_udp: bool,
    rates: [[Gauge; 2]; 2],
    flow: u64,
}

impl Link {
    fn new(peer: SocketAddr, streams: u16) -> Self {
        // Only tells this burn-in's datagrams from those of one before.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let flow = u64::try_from(since.as_nanos()).unwrap_or(0);
        let part = Part::new(KIND.name, peer.to_string());
        Self { part, peer, streams, pattern: Vec::new(), is_udp: false, rates: Default::default(), flow }
    }

    /// Both directions at once, for the time of a slice.
    fn slice(&mut self, run: &Run) -> [io::Result<Carried>; 2] {
        let streams = if self.is_udp { 1 } else { self.streams };
        let (begin, is_udp, peer, pattern) = (run.now(), self.is_udp, self.peer, &self.pattern);
        let flow = self.flow;
        self.flow = flow.wrapping_add(1);
        let is_over = || run.is_over() || run.now().duration_since(begin) >= SLICE;
        let carry = |direction: Direction| {
            let start = run.now();
            let carried = if is_udp {
                carry_udp(peer, direction.udp, flow, pattern, &is_over)
            } else {
                carry_tcp(peer, direction.tcp, pattern, &is_over)
            };
            carried.map(|carried| Carried { seconds: run.now().duration_since(start).as_secs_f64(), ..carried })
        };
        thread::scope(|scope| {
            let carry = &carry;
            let threads = DIRECTIONS
                .map(|direction| (0..streams).map(|_| scope.spawn(move || carry(direction))).collect::<Vec<_>>());
            threads.map(|threads| {
                let mut all = Carried::default();
                for thread in threads {
                    let one = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?;
                    all.bytes += one.bytes;
                    all.seconds = all.seconds.max(one.seconds);
                    all.pieces += one.pieces;
                    all.lost += one.lost;
                    all.wrong += one.wrong;
                }
                Ok(all)
            })
        })
    }

    /// Takes note of what a direction carried.
    fn note(&mut self, place: usize, direction: Direction, carried: io::Result<Carried>) {
        let (protocol, what) = if self.is_udp { ("udp", "datagrams") } else { ("tcp", "bytes") };
        let name = format!("{protocol}_{}", direction.name);
        let carried = match carried {
            Ok(carried) => carried,
            Err(error) => {
                self.part.fault(format!("{protocol} {}: {error}", direction.name));
                return;
            }
        };
        let gauge = self.rates.get_mut(usize::from(self.is_udp)).and_then(|rates| rates.get_mut(place));
        if let Some(gauge) = gauge.filter(|_| carried.seconds > 0.0) {
            gauge.add(8.0 * number(carried.bytes) / carried.seconds);
            self.part.set_gauge(&name, "bits_per_second", gauge);
        }
        self.part.add(&format!("{name}_bytes"), number(carried.bytes));
        if self.is_udp {
            self.part.add(&format!("{name}_datagrams"), number(carried.pieces));
            self.part.add(&format!("{name}_lost_datagrams"), number(carried.lost));
        }
        if number(carried.lost) > number(carried.pieces) * MAX_LOSS {
            self.part.fault(format!("{name}: {} of {} {what} were lost", carried.lost, carried.pieces));
        }
        if carried.wrong > 0 {
            self.part
                .fault(format!("{name}: {} of {} {what} arrived with wrong content", carried.wrong, carried.pieces));
        }
    }
}

/// Connects, and says what the flow will be.
fn connect(peer: SocketAddr, header: &Header) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&peer, CONNECT)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(CONNECT))?;
    stream.set_read_timeout(Some(CONNECT))?;
    (&stream).write_all(&header.bytes())?;
    Ok(stream)
}

fn carry_tcp(peer: SocketAddr, role: Role, pattern: &[u8], is_over: &dyn Fn() -> bool) -> io::Result<Carried> {
    let stream = connect(peer, &Header { role, flow: 0, segment_bytes: 0, port: 0, window_bytes: 0 })?;
    if role == Role::SendTcp {
        let sent = tcp::send(&stream, pattern, is_over)?;
        let received = tcp::finish_sending(&stream)?;
        let lost = sent.saturating_sub(received.bytes);
        return Ok(Carried {
            bytes: received.bytes,
            pieces: sent,
            lost,
            wrong: received.wrong_bytes,
            ..Carried::default()
        });
    }
    let received = tcp::receive(&stream, pattern, is_over)?;
    Ok(Carried { bytes: received.bytes, pieces: received.bytes, wrong: received.wrong_bytes, ..Carried::default() })
}

fn carry_udp(
    peer: SocketAddr,
    role: Role,
    flow: u64,
    pattern: &[u8],
    is_over: &dyn Fn() -> bool,
) -> io::Result<Carried> {
    // Of the interface that leads there.
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(peer)?;
    let segment_bytes = segment_bytes(&socket);
    let identity = udp::Flow { flow, segment_bytes };
    if role == Role::SendUdp {
        let control = connect(peer, &Header { role, flow, segment_bytes, port: 0, window_bytes: 0 })?;
        let mut reply = [0; 16];
        (&control).read_exact(&mut reply)?;
        let (port, window) = parse_pair(&reply);
        let port = u16::try_from(port).map_err(io::Error::other)?;
        socket.connect(SocketAddr::new(peer.ip(), port))?;
        let sent = udp::send(&socket, &control, identity, u32::try_from(window).unwrap_or(0), pattern, is_over)?;
        let (arrived, wrong) = udp::finish_sending(&control, sent)?;
        return Ok(datagrams(segment_bytes, arrived, sent, wrong));
    }
    // Not connected: the other end sends from a port that is not known yet.
    let socket = UdpSocket::bind(SocketAddr::new(socket.local_addr()?.ip(), 0))?;
    let window_bytes = udp::prepare_receiver(&socket)?;
    let port = socket.local_addr()?.port();
    let control = connect(peer, &Header { role, flow, segment_bytes, port, window_bytes })?;
    let (received, sent) = udp::receive(&socket, &control, identity, window_bytes, pattern, is_over)?;
    Ok(datagrams(segment_bytes, received.datagrams, sent, received.wrong))
}

fn datagrams(segment_bytes: u16, arrived: u64, sent: u64, wrong: u64) -> Carried {
    let bytes = arrived.saturating_mul(segment_bytes.into());
    Carried { bytes, pieces: sent, lost: sent.saturating_sub(arrived), wrong, ..Carried::default() }
}

/// The largest datagram that is sent in one packet.
fn segment_bytes(socket: &UdpSocket) -> u16 {
    let mtu = getsockopt(socket, IpMtu).ok().and_then(|mtu| u16::try_from(mtu).ok());
    let payload = match socket.local_addr() {
        Ok(SocketAddr::V4(_)) => mtu.unwrap_or(1500).saturating_sub(IPV4_HEADERS),
        _ => IPV6_PAYLOAD,
    };
    payload.clamp(SEGMENT_BYTES.0, SEGMENT_BYTES.1)
}

impl Load for Link {
    fn start(&mut self, _: &Run) -> Result<(), Trouble> {
        self.pattern = pattern();
        let reached = TcpStream::connect_timeout(&self.peer, CONNECT);
        reached.map(drop).map_err(|error| format!("nothing serves at {}: {error}", self.peer).into())
    }

    fn step(&mut self, run: &Run) -> Result<(), Trouble> {
        let carried = self.slice(run);
        let has_failed = carried.iter().any(Result::is_err);
        for ((place, direction), carried) in DIRECTIONS.into_iter().enumerate().zip(carried) {
            self.note(place, direction, carried);
        }
        if has_failed {
            run.sleep(PAUSE);
        }
        self.is_udp = !self.is_udp;
        self.part.add("slices", 1.0);
        Ok(())
    }

    fn findings(&self) -> &Part {
        &self.part
    }
}

/// As many streams as cores can drive, at most four.
pub(crate) fn default_streams(cpus: usize) -> u16 {
    u16::try_from(wide(cpus) / 2).unwrap_or(4).clamp(1, 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Cancel;
    use std::net::TcpListener;

    /// A slice of each protocol with an end that serves here.
    fn slices(link: &mut Link, listener: TcpListener) {
        let stop = Cancel::default();
        thread::scope(|scope| {
            let served = stop.clone();
            scope.spawn(move || serve(&listener, &served).unwrap());
            link.start(&Run::default()).unwrap();
            for is_udp in [false, true] {
                link.is_udp = is_udp;
                let run = Run::default();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        thread::sleep(Duration::from_secs(3));
                        run.end();
                    });
                    link.step(&run).unwrap();
                });
            }
            stop.cancel();
        });
    }

    #[test]
    fn both_directions_of_both_protocols_are_carried_and_verified() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut link = Link::new(listener.local_addr().unwrap(), 2);
        slices(&mut link, listener);
        assert_eq!(link.part.faults, []);
        for name in ["tcp_sent", "tcp_received", "udp_sent", "udp_received"] {
            assert!(link.part.get(&format!("{name}_average_bits_per_second")).unwrap() > 0.0, "{name}");
            assert!(link.part.get(&format!("{name}_bytes")).unwrap() > 0.0, "{name}");
        }
        assert_eq!(link.part.get("udp_sent_lost_datagrams"), Some(0.0));
    }

    #[test]
    fn a_lossy_link_is_a_fault() {
        let mut link = Link::new(parse_peer("192.0.2.1").unwrap(), 1);
        link.is_udp = true;
        let carried = |lost| Ok(Carried { bytes: 5, seconds: 1.0, pieces: 100_000, lost, wrong: 0 });
        link.note(0, DIRECTIONS[0], carried(10));
        assert_eq!(link.part.faults, []);
        link.note(0, DIRECTIONS[0], carried(11));
        assert_eq!(link.part.faults[0].message, "udp_sent: 11 of 100000 datagrams were lost");
        link.note(1, DIRECTIONS[1], Err(io::ErrorKind::TimedOut.into()));
        assert_eq!(link.part.faults[1].message, "udp received: timed out");
    }

    /// What a slice finds between two hosts whose switch treats frames by this rule of nftables; nothing where there are no namespaces.
    fn through(rule: &str, is_udp: bool) -> Option<Part> {
        use testkit::net::{Segment, in_namespace};
        let segment = Segment::new()?;
        let one = segment.host("one", "52:54:00:00:00:01", &["192.0.2.1/24"]);
        let other = segment.host("other", "52:54:00:00:00:02", &["192.0.2.2/24"]);
        segment.filter_frames(&[rule]);
        let address = SocketAddr::new([192, 0, 2, 1].into(), PORT);
        let listener = one.namespace.enter(|| TcpListener::bind(address).unwrap());
        let stop = Cancel::default();
        let mut link = Link::new(address, 1);
        (link.is_udp, link.pattern) = (is_udp, pattern());
        thread::scope(|scope| {
            let (served, name) = (stop.clone(), one.namespace.0.clone());
            scope.spawn(move || in_namespace(&name, || serve(&listener, &served).unwrap()));
            other.namespace.enter(|| {
                let run = Run::default();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        thread::sleep(Duration::from_secs(3));
                        run.end();
                    });
                    link.step(&run).unwrap();
                });
            });
            stop.cancel();
        });
        Some(link.part)
    }

    /// Whether it has such a fault in each direction, and no other.
    fn has_in_both_directions(part: &Part, protocol: &str, end: &str) -> bool {
        let starts = DIRECTIONS.map(|direction| format!("{protocol}_{}: ", direction.name));
        let is_expected = |(fault, start): (&crate::result::Fault, &String)| {
            fault.message.starts_with(start) && fault.message.ends_with(end)
        };
        part.faults.len() == 2 && part.faults.iter().zip(&starts).all(is_expected)
    }

    #[test]
    fn what_a_link_drops_is_found_in_both_directions() {
        let Some(part) = through("ip protocol udp numgen random mod 100 < 20 drop", true) else { return };
        assert!(has_in_both_directions(&part, "udp", "datagrams were lost"), "{:?}", part.faults);
        assert!(part.get("udp_sent_datagrams") > Some(0.0) && part.get("udp_received_bytes") > Some(0.0));
    }

    #[test]
    fn what_a_link_changes_is_found_in_both_directions() {
        // Behind all headers. Between these hosts the checksum is not looked at.
        let Some(part) = through("ip protocol tcp @th,2000,8 set 0x5a", false) else { return };
        assert!(has_in_both_directions(&part, "tcp", "bytes arrived with wrong content"), "{:?}", part.faults);
        let Some(part) = through("ip protocol udp @th,2000,8 set 0x5a", true) else { return };
        assert!(has_in_both_directions(&part, "udp", "datagrams arrived with wrong content"), "{:?}", part.faults);
    }

    #[test]
    fn where_nothing_serves_nothing_is_tested() {
        let nowhere = testkit::port::Held::default();
        let mut link = Link::new(nowhere.address(), 1);
        assert!(link.start(&Run::default()).unwrap_err().to_string().starts_with("nothing serves at 127.0.0.1:"));
    }

    #[test]
    fn peers_are_addresses() {
        assert_eq!(parse_peer("192.0.2.1").unwrap().port(), PORT);
        assert_eq!(parse_peer("[2001:db8::1]:80").unwrap().port(), 80);
        assert_eq!(parse_peer("2001:db8::1").unwrap().port(), PORT);
        parse_peer("node7").unwrap_err();
        assert_eq!([1, 2, 7, 500].map(default_streams), [1, 1, 3, 4]);
    }
}
