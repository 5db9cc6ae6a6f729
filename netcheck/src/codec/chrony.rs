//! chronyd's command protocol, version 6: what chronyc speaks (`candm.h` and `pktlength.c` of chrony 4).
//!
//! All numbers are big-endian. A request must be as long as its reply at least, or chronyd refuses it, so that it cannot
//! be used to amplify traffic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const VERSION: u8 = 6;
const TYPE_REQUEST: u8 = 1;
const TYPE_REPLY: u8 = 2;
const REQUEST_HEADER_BYTES: usize = 20;
const REPLY_HEADER_BYTES: usize = 28;
/// A server's name, ended by a zero.
const NAME_BYTES: usize = 256;
/// No reply to one of our requests is longer.
pub const MAX_REPLY_BYTES: usize = REPLY_HEADER_BYTES + NAME_BYTES;

/// A question or a command to chronyd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `N_SOURCES`.
    SourceCount,
    /// `SOURCE_DATA`: one line of `chronyc sources`.
    Source {
        /// From zero.
        index: u32,
    },
    /// `NTP_SOURCE_NAME`: what a source was configured as.
    SourceName {
        /// As in [`Source`].
        address: SourceAddress,
    },
    /// `NTP_DATA`: the last measurement of a source.
    Measurement {
        /// As in [`Source`].
        address: IpAddr,
    },
    /// `TRACKING`: the clock.
    Tracking,
    /// `ADD_SOURCE`, as `chronyc add server NAME iburst`.
    AddServer(ServerName),
}

/// The name or address of a server to add: 1 to 255 bytes, none of them zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName(String);

impl ServerName {
    /// `None` for what has no place in a request.
    pub fn new(name: &str) -> Option<Self> {
        ((1..NAME_BYTES).contains(&name.len()) && !name.contains('\0')).then(|| Self(name.to_owned()))
    }
}

/// What a reply holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Done, nothing to tell.
    Null,
    /// How many sources there are.
    SourceCount(u32),
    Source(Source),
    /// What it was configured as.
    SourceName(String),
    Measurement(Measurement),
    Tracking(Tracking),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceAddress {
    /// Its address; a reference clock's ID in the form of one.
    Ip(IpAddr),
    /// Not resolved yet; chronyd gives it a number.
    Unresolved(u32),
    /// No address, or a family we don't know.
    None,
}

/// `RPY_SOURCE_DATA`. Offsets are in seconds and positive where the host's clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    pub address: SourceAddress,
    /// Stratum; 0 when never heard.
    pub stratum: u16,
    /// What chronyd makes of it.
    pub state: State,
    pub mode: Mode,
    /// Seconds since the last sample; `None` when there is none.
    pub since_sample_s: Option<u32>,
    /// Offset of the last sample.
    pub offset_s: f64,
}

/// `RPY_SD_ST_*`; in brackets what chronyc prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The clock follows it (`*`).
    Selected,
    /// Silent or unfit (`?`).
    NonSelectable,
    /// Disagrees with the others (`x`).
    Falseticker,
    /// Too unsteady (`~`).
    Jittery,
    /// Combined with the selected one (`+`).
    Unselected,
    /// Good but left out (`-`).
    Selectable,
    /// Unheard of.
    Other(u16),
}

/// `RPY_SD_MD_*`; in brackets what chronyc prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// We ask a server (`^`).
    Client,
    /// A peer (`=`).
    Peer,
    /// A reference clock (`#`).
    ReferenceClock,
    /// Unheard of.
    Other(u16),
}

/// A part of `RPY_NTP_DATA`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Round trip, seconds.
    pub delay_s: f64,
}

/// A part of `RPY_TRACKING`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tracking {
    /// The source the clock follows; `None` for none or a reference clock.
    pub address: Option<IpAddr>,
    /// Stratum of this host.
    pub stratum: u16,
    /// 0 to 2 as in NTP, 3 when not synchronised.
    pub leap: u16,
    /// What the clock is yet to be corrected by, seconds; positive where it is behind.
    pub correction_s: f64,
}

/// `STT_*`: why chronyd refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// The source does not exist (any more).
    pub const NO_SUCH_SOURCE: Self = Self(4);
    /// Not over this socket.
    pub const NOT_AUTHORISED: Self = Self(2);
    /// The source exists already.
    pub const SOURCE_KNOWN: Self = Self(11);
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let meaning = match self.0 {
            1 => "FAILED",
            2 => "NOT AUTHORISED",
            3 => "INVALID COMMAND",
            4 => "NO SUCH SOURCE",
            6 => "NOT ENABLED",
            11 => "SOURCE ALREADY KNOWN",
            12 => "TOO MANY SOURCES",
            17 => "INVALID ADDRESS FAMILY",
            18 => "OTHER PROTOCOL VERSION",
            19 => "BAD PACKET LENGTH",
            21 => "INVALID NAME",
            _ => "UNKNOWN STATUS",
        };
        write!(formatter, "{meaning} ({})", self.0)
    }
}

/// Why bytes are not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// No reply of this protocol at all.
    #[error("{length} bytes that are not a reply of chronyd")]
    NotAReply { length: usize },
    #[error("a reply of protocol version {found}, not {VERSION}")]
    Version { found: u8 },
    /// The answer to another request: a late one, or another client's.
    #[error("a reply to another request (command {command}, sequence number {sequence:#x})")]
    OtherRequest { command: u16, sequence: u32 },
    #[error("{0}")]
    Refused(Status),
    /// The answer to ours, but of another kind.
    #[error("a reply of kind {found}, not {expected}")]
    OtherKind { found: u16, expected: u16 },
    /// The answer to ours, but cut short.
    #[error("a reply of {length} bytes, not {expected}")]
    Truncated { length: usize, expected: usize },
}

/// Sizes and codes of a request, from `candm.h`.
struct Shape {
    command: u16,
    /// Kinds of reply: newer versions of chronyd have a longer `NTP_DATA`.
    replies: &'static [u16],
    /// Least length of the reply's data.
    reply_bytes: usize,
    /// Greatest length of the reply's data in any version, for padding.
    padding_bytes: usize,
}

impl Request {
    fn shape(&self) -> Shape {
        let (command, replies, reply_bytes, padding_bytes): (_, &[u16], _, _) = match self {
            Self::SourceCount => (14, &[2], 4, 4),
            Self::Source { .. } => (15, &[3], 48, 48),
            Self::Tracking => (33, &[5], 76, 76),
            Self::Measurement { .. } => (57, &[16, 26], 84, 140),
            Self::AddServer(_) => (64, &[1], 0, 0),
            Self::SourceName { .. } => (65, &[19], NAME_BYTES, NAME_BYTES),
        };
        Shape { command, replies, reply_bytes, padding_bytes }
    }

    /// What chronyc calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SourceCount => "N_SOURCES",
            Self::Source { .. } => "SOURCE_DATA",
            Self::Tracking => "TRACKING",
            Self::Measurement { .. } => "NTP_DATA",
            Self::AddServer(_) => "ADD_SOURCE",
            Self::SourceName { .. } => "NTP_SOURCE_NAME",
        }
    }

    /// The packet; `attempt` counts repetitions from zero.
    pub fn encode(&self, sequence: u32, attempt: u16) -> Vec<u8> {
        let shape = self.shape();
        let mut packet = vec![VERSION, TYPE_REQUEST, 0, 0];
        packet.extend(shape.command.to_be_bytes());
        packet.extend(attempt.to_be_bytes());
        packet.extend(sequence.to_be_bytes());
        packet.resize(REQUEST_HEADER_BYTES, 0);
        match self {
            Self::SourceCount | Self::Tracking => {}
            Self::Source { index } => packet.extend(index.to_be_bytes()),
            Self::SourceName { address } => encode_address(*address, &mut packet),
            Self::Measurement { address } => encode_address(SourceAddress::Ip(*address), &mut packet),
            Self::AddServer(name) => encode_server(name, &mut packet),
        }
        let least = REPLY_HEADER_BYTES + shape.padding_bytes;
        if packet.len() < least {
            packet.resize(least, 0);
        }
        packet
    }

    /// Reads the reply to this request.
    pub fn decode_reply(&self, sequence: u32, packet: &[u8]) -> Result<Reply, ReplyError> {
        let shape = self.shape();
        let length = packet.len();
        let not_a_reply = ReplyError::NotAReply { length };
        let (header, data) = packet.split_at_checked(REPLY_HEADER_BYTES).ok_or(not_a_reply)?;
        let mut header = Reader(header);
        let [version, kind, reserved1, reserved2] = header.take::<4>().ok_or(not_a_reply)?;
        if (kind, reserved1, reserved2) != (TYPE_REPLY, 0, 0) {
            return Err(not_a_reply);
        }
        if version != VERSION {
            return Err(ReplyError::Version { found: version });
        }
        let (command, reply, status) = header.triple().ok_or(not_a_reply)?;
        let _padding = header.take::<6>();
        let found = header.u32().ok_or(not_a_reply)?;
        if (command, found) != (shape.command, sequence) {
            return Err(ReplyError::OtherRequest { command, sequence: found });
        }
        if status != 0 {
            return Err(ReplyError::Refused(Status(status)));
        }
        if !shape.replies.contains(&reply) {
            return Err(ReplyError::OtherKind { found: reply, expected: shape.replies.first().copied().unwrap_or(0) });
        }
        let truncated = ReplyError::Truncated { length, expected: REPLY_HEADER_BYTES + shape.reply_bytes };
        if data.len() < shape.reply_bytes {
            return Err(truncated);
        }
        let mut data = Reader(data);
        match self {
            Self::SourceCount => data.u32().map(Reply::SourceCount),
            Self::Source { .. } => data.source().map(Reply::Source),
            Self::SourceName { .. } => data.name().map(Reply::SourceName),
            Self::Measurement { .. } => data.measurement().map(Reply::Measurement),
            Self::Tracking => data.tracking().map(Reply::Tracking),
            Self::AddServer(_) => Some(Reply::Null),
        }
        .ok_or(truncated)
    }
}

const FAMILY_IPV4: u16 = 1;
const FAMILY_IPV6: u16 = 2;
const FAMILY_ID: u16 = 3;

/// `IPAddr`: 16 bytes of which an IPv4 address or an ID takes the first four, the family, two bytes of padding.
fn encode_address(address: SourceAddress, packet: &mut Vec<u8>) {
    let (bytes, family) = match address {
        SourceAddress::Ip(IpAddr::V4(address)) => (first_four(address.octets()), FAMILY_IPV4),
        SourceAddress::Ip(IpAddr::V6(address)) => (address.octets(), FAMILY_IPV6),
        SourceAddress::Unresolved(id) => (first_four(id.to_be_bytes()), FAMILY_ID),
        SourceAddress::None => ([0; 16], 0),
    };
    packet.extend(bytes);
    packet.extend(family.to_be_bytes());
    packet.extend([0; 2]);
}

fn first_four([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// `REQ_NTP_Source` up to chrony 4.8, with chronyc's defaults for all but the flags.
fn encode_server(name: &ServerName, packet: &mut Vec<u8>) {
    const SERVER: u32 = 1;
    const ONLINE: u32 = 0x1;
    const IBURST: u32 = 0x4;
    const ANY: u32 = u32::MAX;
    packet.extend(SERVER.to_be_bytes());
    packet.extend(name.0.as_bytes());
    packet.resize(REQUEST_HEADER_BYTES + 4 + NAME_BYTES, 0);
    let fields: [u32; 23] = [
        123,             // port
        6,               // minpoll
        10,              // maxpoll
        100,             // presend_minpoll: never
        0,               // min_stratum
        8,               // poll_target
        0,               // version: any
        4,               // max_sources
        ANY,             // min_samples
        ANY,             // max_samples
        0,               // authkey: none
        4460,            // nts_port
        0x06c0_0000,     // max_delay: 3.0
        0,               // max_delay_ratio
        0x0aa0_0000,     // max_delay_dev_ratio: 10.0
        0,               // min_delay
        0x0480_0000,     // asymmetry: 1.0
        0,               // offset
        ONLINE | IBURST, // flags
        0,               // filter_length
        0,               // cert_set
        0,               // max_delay_quant
        0,               // reserved
    ];
    packet.extend(fields.into_iter().flat_map(u32::to_be_bytes));
}

/// Takes fields off the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn triple(&mut self) -> Option<(u16, u16, u16)> {
        Some((self.u16()?, self.u16()?, self.u16()?))
    }

    /// `Float`: a signed exponent of 7 bits and a signed coefficient of 25 bits; 2^(exponent - 25) * coefficient.
    fn float(&mut self) -> Option<f64> {
        let raw = i32::from_be_bytes(self.take()?);
        Some(f64::from(raw << 7 >> 7) * 2f64.powi((raw >> 25) - 25))
    }

    fn address(&mut self) -> Option<SourceAddress> {
        let bytes: [u8; 16] = self.take()?;
        let family = self.u16()?;
        self.take::<2>()?;
        let [a, b, c, d, ..] = bytes;
        Some(match family {
            FAMILY_IPV4 => SourceAddress::Ip(Ipv4Addr::from([a, b, c, d]).into()),
            FAMILY_IPV6 => SourceAddress::Ip(Ipv6Addr::from(bytes).into()),
            FAMILY_ID => SourceAddress::Unresolved(u32::from_be_bytes([a, b, c, d])),
            _ => SourceAddress::None,
        })
    }

    fn source(&mut self) -> Option<Source> {
        let address = self.address()?;
        let _poll = self.u16()?;
        let (stratum, state, mode) = self.triple()?;
        let (_flags, _reachability) = (self.u16()?, self.u16()?);
        let since_sample_s = self.u32().map(|seconds| (seconds != u32::MAX).then_some(seconds))?;
        // The offset as it was measured, without what the clock has been corrected by since.
        let _original_offset = self.float()?;
        let offset_s = self.float()?;
        let (state, mode) = (State::from(state), Mode::from(mode));
        Some(Source { address, stratum, state, mode, since_sample_s, offset_s })
    }

    fn name(&mut self) -> Option<String> {
        let field: [u8; NAME_BYTES] = self.take()?;
        let name = field.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn measurement(&mut self) -> Option<Measurement> {
        // Two addresses, eight bytes of header fields, root delay and dispersion, reference ID and time, offset.
        let _before: [u8; 76] = self.take()?;
        Some(Measurement { delay_s: self.float()? })
    }

    fn tracking(&mut self) -> Option<Tracking> {
        let _reference_id = self.u32()?;
        let address = match self.address()? {
            SourceAddress::Ip(address) => Some(address),
            SourceAddress::Unresolved(_) | SourceAddress::None => None,
        };
        let (stratum, leap) = (self.u16()?, self.u16()?);
        let _reference_time: [u8; 12] = self.take()?;
        Some(Tracking { address, stratum, leap, correction_s: self.float()? })
    }
}

impl From<u16> for State {
    fn from(code: u16) -> Self {
        match code {
            0 => Self::Selected,
            1 => Self::NonSelectable,
            2 => Self::Falseticker,
            3 => Self::Jittery,
            4 => Self::Unselected,
            5 => Self::Selectable,
            other => Self::Other(other),
        }
    }
}

impl From<u16> for Mode {
    fn from(code: u16) -> Self {
        match code {
            0 => Self::Client,
            1 => Self::Peer,
            2 => Self::ReferenceClock,
            other => Self::Other(other),
        }
    }
}

#[cfg(test)]
#[path = "chrony_tests.rs"]
mod tests;
