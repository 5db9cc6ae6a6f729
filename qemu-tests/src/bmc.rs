//! A management controller for a machine's KCS interface, with its own addresses: QEMU's `ipmi-bmc-extern` talks to it over a
//! socket. QEMU's internal one knows nothing of networks.
//!
//! On the wire (QEMU hw/ipmi/ipmi_bmc_extern.c, OpenIPMI's "VM serial" protocol): messages end in 0xA0, commands to and from the
//! emulator itself in 0xA1; these two and 0xAA inside are sent as 0xAA and the byte with bit 4 set. A message is a sequence
//! number, net function and LUN, command, data, and a checksum that makes the sum of all bytes zero.

use api::Mac;
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Between two attempts to reach a machine; its kernel asks seconds after it is switched on.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

const MESSAGE_END: u8 = 0xa0;
const COMMAND_END: u8 = 0xa1;
const ESCAPE: u8 = 0xaa;
const ESCAPED: u8 = 0x10;
/// IPMI messages over KCS are far shorter; a longer one is cut.
const MAX_MESSAGE_BYTES: usize = 300;
/// Net functions (IPMI 2.0 table 5-1).
const SENSOR: u8 = 0x04;
const APP: u8 = 0x06;
const STORAGE: u8 = 0x0a;
const TRANSPORT: u8 = 0x0c;
/// Completion codes (IPMI 2.0 table 5-2, and 23.2 for the parameter).
const DONE: u8 = 0x00;
const NO_SUCH_PARAMETER: u8 = 0x80;
const TOO_MANY_BYTES: u8 = 0xca;
const NO_SUCH_ENTRY: u8 = 0xcb;
const NO_SUCH_COMMAND: u8 = 0xc1;
const NO_SUCH_FIELD: u8 = 0xcc;

/// What the controller is and where it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BmcConfig {
    /// The channel that is a LAN; on all others there is none.
    pub channel: u8,
    /// Its firmware: major, and minor in BCD.
    pub firmware: (u8, u8),
    /// IANA enterprise number of its maker.
    pub manufacturer: u32,
    /// Its maker's number for it.
    pub product: u16,
    /// The system's GUID, in the order it is sent in.
    pub guid: [u8; 16],
    /// Its interface's address.
    pub mac: Mac,
    /// Its IPv4 address and the prefix length.
    pub ipv4: (Ipv4Addr, u8),
    /// A static address, with the prefix length; `None` disables the entry.
    pub ipv6_static: Option<(Ipv6Addr, u8)>,
    /// An address from DHCPv6 or a router, with the prefix length.
    pub ipv6_dynamic: Option<(Ipv6Addr, u8)>,
    /// What it measures and stores.
    pub contents: Contents,
}

/// What a controller measures and stores; the default is nothing, and then it has no such commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Sensor data records, each with its own id.
    pub records: Vec<Vec<u8>>,
    /// Replies to Get Sensor Reading, by the sensor's number.
    pub readings: BTreeMap<u8, Vec<u8>>,
    /// Replies to Get Sensor Thresholds.
    pub thresholds: BTreeMap<u8, Vec<u8>>,
    /// Data of parts (FRU), by their number.
    pub parts: BTreeMap<u8, Vec<u8>>,
    /// Entries of the event log, the oldest first.
    pub events: Vec<[u8; 16]>,
}

/// As many bytes of a record, or of a part's data, as are given at once: as few as by slow controllers.
const RECORD_STEP: u8 = 20;
const PART_STEP: u8 = 32;

/// A controller that answers while this value lives.
///
/// QEMU listens and this connects: QEMU 10 crashes when the socket is open before the KCS interface is made. A machine that is
/// started again finds its controller again.
#[derive(Debug)]
pub struct Bmc {
    dir: tempfile::TempDir,
    stop: Arc<AtomicBool>,
}

impl Bmc {
    pub fn start(config: BmcConfig) -> io::Result<Self> {
        let (dir, stop) = (crate::paths::socket_dir()?, Arc::new(AtomicBool::new(false)));
        let bmc = Self { dir, stop: stop.clone() };
        let socket = bmc.socket();
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // A connection that breaks is the machine's end; one that isn't made, a machine that isn't on.
                let _ = UnixStream::connect(&socket).and_then(|stream| serve(&config, stream));
                std::thread::sleep(CONNECT_PAUSE);
            }
        });
        Ok(bmc)
    }

    /// Where QEMU's `socket` character device is to listen.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("bmc")
    }
}

impl Drop for Bmc {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn serve(config: &BmcConfig, mut stream: UnixStream) -> io::Result<()> {
    let (mut framing, mut chunk) = (Framing::default(), [0; 512]);
    loop {
        let len = stream.read(&mut chunk)?;
        if len == 0 {
            return Ok(());
        }
        for message in chunk[..len].iter().filter_map(|byte| framing.take(*byte)) {
            if let Some(reply) = reply(config, &message) {
                stream.write_all(&frame(&reply))?;
            }
        }
    }
}

/// Puts messages together; what QEMU reports about itself (its version, its capabilities) needs no answer.
#[derive(Debug, Default)]
struct Framing {
    message: Vec<u8>,
    escaped: bool,
}

impl Framing {
    fn take(&mut self, byte: u8) -> Option<Vec<u8>> {
        match byte {
            MESSAGE_END => return Some(std::mem::take(&mut self.message)),
            COMMAND_END => self.message.clear(),
            ESCAPE => self.escaped = true,
            _ if self.message.len() < MAX_MESSAGE_BYTES => {
                self.message.push(if std::mem::take(&mut self.escaped) { byte & !ESCAPED } else { byte });
            }
            _ => {}
        }
        None
    }
}

/// A message on the wire, checksum and end included.
fn frame(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for byte in message.iter().copied().chain([checksum(message)]) {
        match byte {
            MESSAGE_END | COMMAND_END | ESCAPE => bytes.extend([ESCAPE, byte | ESCAPED]),
            _ => bytes.push(byte),
        }
    }
    bytes.push(MESSAGE_END);
    bytes
}

fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

/// The reply to a request; none to one that is damaged.
fn reply(config: &BmcConfig, request: &[u8]) -> Option<Vec<u8>> {
    let &[sequence, function, command, ref data @ .., _] = request else { return None };
    if checksum(request) != 0 {
        return None;
    }
    let answer = match (function >> 2, command) {
        (APP, command) => application(config, command, data),
        (TRANSPORT, 0x02) => lan_parameter(config, data),
        (SENSOR, command) => sensor(&config.contents, command, data),
        (STORAGE, command) if config.contents != Contents::default() => storage(&config.contents, command, data),
        _ => vec![NO_SUCH_COMMAND],
    };
    let mut reply = vec![sequence, function | 1 << 2, command];
    reply.extend(answer);
    Some(reply)
}

/// What Linux' ipmi_si and ipmi_msghandler ask before they provide the device, in IPMI 2.0's section 20 and 22.
fn application(config: &BmcConfig, command: u8, data: &[u8]) -> Vec<u8> {
    match command {
        // Get Device ID: id, revision, firmware, IPMI 2.0, "chassis, SEL, SDR and sensors", maker, product.
        0x01 => {
            let mut answer = vec![DONE, 0x20, 0x01, config.firmware.0 & 0x7f, config.firmware.1, 0x02, 0x9f];
            answer.extend(&config.manufacturer.to_le_bytes()[..3]);
            answer.extend(config.product.to_le_bytes());
            answer
        }
        // Get System GUID.
        0x37 => [&[DONE], &config.guid[..]].concat(),
        // Set and Get BMC Global Enables, Clear and Get Message Flags: no events, no messages.
        0x2e | 0x30 => vec![DONE],
        0x2f | 0x31 => vec![DONE, 0],
        // Get Channel Info: medium, protocol, sessions, maker (the IPMI forum's number), two own bytes.
        0x42 => {
            let channel = data.first().map_or(0, |channel| channel & 0x0f);
            let (number, medium, protocol, sessions) = match channel {
                // 0x0e is "the one this came by".
                0x0e | 0x0f => (0x0f, 0x0c, 0x05, 0),
                0 => (0, 0x01, 0x01, 0),
                channel if channel == config.channel => (channel, 0x04, 0x01, 0x80),
                _ => return vec![NO_SUCH_FIELD],
            };
            vec![DONE, number, medium, protocol, sessions, 0xf2, 0x1b, 0, 0, 0]
        }
        _ => vec![NO_SUCH_COMMAND],
    }
}

/// Get LAN Configuration Parameters (IPMI 2.0 section 23.2, table 23-4).
fn lan_parameter(config: &BmcConfig, data: &[u8]) -> Vec<u8> {
    let &[channel, parameter, set, _block] = data else { return vec![0xc7] };
    if channel & 0x0f != config.channel {
        return vec![NO_SUCH_FIELD];
    }
    let value: Vec<u8> = match parameter {
        3 => config.ipv4.0.octets().into(),
        // The address is from DHCP.
        4 => vec![2],
        5 => config.mac.0.into(),
        6 => Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(config.ipv4.1)).unwrap_or(0)).octets().into(),
        // Which families: both can be used, and are.
        50 => vec![1, 1, 0x03],
        51 => vec![2],
        56 if set == 0 => ipv6_entry(config.ipv6_static, STATIC),
        59 if set == 0 => ipv6_entry(config.ipv6_dynamic, DHCPV6),
        _ => return vec![NO_SUCH_PARAMETER],
    };
    [vec![DONE, 0x11], value].concat()
}

/// Section 35.
fn sensor(contents: &Contents, command: u8, data: &[u8]) -> Vec<u8> {
    let replies = match command {
        0x27 => &contents.thresholds,
        0x2d => &contents.readings,
        _ => return vec![NO_SUCH_COMMAND],
    };
    let reply = data.first().and_then(|number| replies.get(number));
    reply.map_or_else(|| vec![NO_SUCH_ENTRY], |reply| [&[DONE], &reply[..]].concat())
}

/// Sections 31, 33 and 34.
fn storage(contents: &Contents, command: u8, data: &[u8]) -> Vec<u8> {
    let count = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes();
    // An entry of a list, asked for by its id, and the id of the next.
    fn entry<T: AsRef<[u8]>>(list: &[T], id: [u8; 2]) -> Option<([u8; 2], &[u8])> {
        let at = match id {
            [0, 0] => 0,
            [0xff, 0xff] => list.len().checked_sub(1)?,
            id => list.iter().position(|one| one.as_ref().starts_with(&id))?,
        };
        let next = list.get(at + 1).and_then(|next| next.as_ref().first_chunk().copied());
        Some((next.unwrap_or([0xff, 0xff]), list.get(at)?.as_ref()))
    }
    let part = |bytes: &[u8], at: usize, len: u8| {
        let end = (at + usize::from(len)).min(bytes.len());
        bytes.get(at..end).unwrap_or_default().to_vec()
    };
    match (command, data) {
        (0x10, [device]) => match contents.parts.get(device) {
            Some(bytes) => [&[DONE], &count(bytes.len())[..], &[0]].concat(),
            None => vec![NO_SUCH_ENTRY],
        },
        (0x11, [_, _, _, len]) if *len > PART_STEP => vec![TOO_MANY_BYTES],
        (0x11, [device, low, high, len]) => match contents.parts.get(device) {
            Some(bytes) => {
                let found = part(bytes, u16::from_le_bytes([*low, *high]).into(), *len);
                [vec![DONE, count(found.len())[0]], found].concat()
            }
            None => vec![NO_SUCH_ENTRY],
        },
        // Free space, times of change; it can be reserved.
        (0x20, _) => [&[DONE, 0x51], &count(contents.records.len())[..], &[100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]].concat(),
        (0x22 | 0x42, _) => vec![DONE, 1, 0],
        (0x23, [.., len]) if *len > RECORD_STEP => vec![TOO_MANY_BYTES],
        (0x23, [_, _, i0, i1, at, len]) => match entry(&contents.records, [*i0, *i1]) {
            Some((next, record)) => [&[DONE], &next[..], &part(record, (*at).into(), *len)].concat(),
            None => vec![NO_SUCH_ENTRY],
        },
        (0x40, _) => [&[DONE, 0x51], &count(contents.events.len())[..], &[0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2]].concat(),
        (0x43, [_, _, i0, i1, _, _]) => match entry(&contents.events, [*i0, *i1]) {
            Some((next, event)) => [&[DONE], &next[..], event].concat(),
            None => vec![NO_SUCH_ENTRY],
        },
        (0x48, _) => vec![DONE, 0, 0, 0, 0x60],
        _ => vec![NO_SUCH_COMMAND],
    }
}

const STATIC: u8 = 0x80;
const DHCPV6: u8 = 0x02;

/// Set, source (and whether enabled), address, prefix length, status.
fn ipv6_entry(address: Option<(Ipv6Addr, u8)>, source: u8) -> Vec<u8> {
    let (active, disabled) = (0, 1);
    let (source, (address, prefix), status) = match address {
        Some(address) => (source, address, active),
        None => (0, (Ipv6Addr::UNSPECIFIED, 0), disabled),
    };
    [vec![0, source], address.octets().into(), vec![prefix, status]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> BmcConfig {
        BmcConfig {
            channel: 1,
            firmware: (2, 0x15),
            manufacturer: 0x0001_a2a3,
            product: 0xa0a1,
            guid: [0xaa; 16],
            mac: Mac([2, 0, 0, 0, 0, 9]),
            ipv4: (Ipv4Addr::new(192, 0, 2, 160), 20),
            ipv6_static: None,
            ipv6_dynamic: Some(("2001:db8::a0".parse().unwrap(), 64)),
            contents: Contents {
                records: vec![vec![7, 0, 0x51, 1, 1, 9]],
                parts: BTreeMap::from([(2, vec![5; 40])]),
                events: vec![[3; 16], [4; 16]],
                ..Contents::default()
            },
        }
    }

    fn ask(function: u8, command: u8, data: &[u8]) -> Vec<u8> {
        let mut request = [&[7, function << 2, command], data].concat();
        request.push(checksum(&request));
        let mut framing = Framing::default();
        let sent = frame(&request[..request.len() - 1]);
        let received: Vec<_> = sent.iter().filter_map(|byte| framing.take(*byte)).collect();
        assert_eq!(received, [request.clone()]);
        let reply = reply(&config(), &received[0]).unwrap();
        assert_eq!(reply[..3], [7, function << 2 | 4, command]);
        reply[3..].to_vec()
    }

    #[test]
    fn bytes_that_mean_something_are_escaped() {
        assert_eq!(frame(&[0xa0, 0xa1, 0xaa, 1]), [0xaa, 0xb0, 0xaa, 0xb1, 0xaa, 0xba, 1, 0x14, 0xa0]);
        assert_eq!(ask(APP, 1, &[])[7..], [0xa3, 0xa2, 0x01, 0xa1, 0xa0]);
    }

    #[test]
    fn what_the_emulator_says_of_itself_is_passed_over() {
        let mut framing = Framing::default();
        let bytes = [0xff, 1, COMMAND_END, 8, 0x3f, COMMAND_END, 1, 0x18, 1, 0xe6, MESSAGE_END];
        let messages: Vec<_> = bytes.iter().filter_map(|byte| framing.take(*byte)).collect();
        assert_eq!(messages, [[1, 0x18, 1, 0xe6]]);
        assert!(reply(&config(), &messages[0]).is_some());
        assert_eq!(reply(&config(), &[1, 0x18, 1, 0]), None);
        assert_eq!(reply(&config(), &[0, 0, 0]), None);
    }

    #[test]
    fn addresses_by_channel_and_parameter() {
        assert_eq!(ask(TRANSPORT, 2, &[1, 3, 0, 0]), [0, 0x11, 192, 0, 2, 160]);
        assert_eq!(ask(TRANSPORT, 2, &[1, 6, 0, 0]), [0, 0x11, 255, 255, 240, 0]);
        assert_eq!(ask(TRANSPORT, 2, &[2, 3, 0, 0]), [NO_SUCH_FIELD]);
        assert_eq!(ask(TRANSPORT, 2, &[1, 200, 0, 0]), [NO_SUCH_PARAMETER]);
        let dynamic = ask(TRANSPORT, 2, &[1, 59, 0, 0]);
        assert_eq!((dynamic.len(), dynamic[3], dynamic[20], dynamic[21]), (22, DHCPV6, 64, 0));
        assert_eq!(ask(TRANSPORT, 2, &[1, 56, 0, 0])[21], 1);
        assert_eq!(ask(TRANSPORT, 2, &[1, 59, 1, 0]), [NO_SUCH_PARAMETER]);
    }

    #[test]
    fn what_it_stores_comes_in_parts() {
        assert_eq!(ask(STORAGE, 0x23, &[0, 0, 0, 0, 0, 0xff]), [TOO_MANY_BYTES]);
        assert_eq!(ask(STORAGE, 0x23, &[0, 0, 0, 0, 4, 9]), [0, 0xff, 0xff, 1, 9]);
        assert_eq!(ask(STORAGE, 0x11, &[2, 38, 0, 8]), [0, 2, 5, 5]);
        assert_eq!(ask(STORAGE, 0x43, &[0, 0, 0, 0, 0, 0xff])[..4], [0, 4, 4, 3]);
        assert_eq!(ask(STORAGE, 0x43, &[0, 0, 9, 9, 0, 0xff]), [NO_SUCH_ENTRY]);
        assert_eq!(ask(SENSOR, 0x2d, &[1]), [NO_SUCH_ENTRY]);
    }
}
