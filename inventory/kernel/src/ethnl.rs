//! Requests to a network card's driver by generic netlink (linux/ethtool_netlink.h). Answers are the kernel's attributes, in the
//! machine's byte order, or the bytes that they hold.

use crate::netlink::{Limits, NetlinkError, Request, Scope, ask_generic, attribute, attributes};
use std::{io, ops::ControlFlow};

// linux/genetlink.h
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Of `struct genlmsghdr`: command, version, 2 reserved bytes.
const GENERIC_HEADER_BYTES: usize = 4;
const NLA_F_NESTED: u16 = 0x8000;
// linux/ethtool_netlink.h
const ETHTOOL_MSG_MODULE_EEPROM_GET: u8 = 31;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;
const ETHTOOL_FLAG_STATS: u32 = 1 << 2;
const ETHTOOL_A_STATS_GROUPS: u16 = 3;
const ETHTOOL_A_BITSET_NOMASK: u16 = 1;
const ETHTOOL_A_BITSET_SIZE: u16 = 2;
const ETHTOOL_A_BITSET_VALUE: u16 = 4;
/// `ETHTOOL_STATS_ETH_PHY`, `_ETH_MAC` and `_RMON`.
const STATISTICS_GROUPS: u32 = 1 | 1 << 1 | 1 << 3;
const ETHTOOL_A_MODULE_EEPROM_OFFSET: u16 = 2;
const ETHTOOL_A_MODULE_EEPROM_LENGTH: u16 = 3;
const ETHTOOL_A_MODULE_EEPROM_PAGE: u16 = 4;
const ETHTOOL_A_MODULE_EEPROM_BANK: u16 = 5;
const ETHTOOL_A_MODULE_EEPROM_I2C_ADDRESS: u16 = 6;
const ETHTOOL_A_MODULE_EEPROM_DATA: u16 = 7;

const LIMITS: Limits = Limits { timeout_s: 10, bytes: 1 << 20 };
/// Half of a module's address space, the most that is read at once.
pub const MODULE_PAGE_BYTES: usize = 128;

/// A request without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Get {
    /// `ETHTOOL_MSG_LINKMODES_GET`: speeds that are supported and advertised, lanes.
    LinkModes,
    /// `ETHTOOL_MSG_LINKSTATE_GET`: signal quality, why there is no link.
    LinkState,
    /// `ETHTOOL_MSG_FEC_GET`: forward error correction, with its counters.
    Fec,
    /// `ETHTOOL_MSG_STATS_GET`: the standard's counters of the physical layer, the MAC and remote monitoring.
    Statistics,
}

impl Get {
    /// Number of the message, of its header's attribute, flags in the header.
    fn parts(self) -> (u8, u16, u32) {
        match self {
            Self::LinkModes => (4, 1, 0),
            Self::LinkState => (6, 1, 0),
            Self::Fec => (29, 1, ETHTOOL_FLAG_STATS),
            Self::Statistics => (32, 2, 0),
        }
    }

    fn arguments(self) -> Vec<u8> {
        if self != Self::Statistics {
            return Vec::new();
        }
        let groups = [
            attribute(ETHTOOL_A_BITSET_NOMASK, &[]),
            attribute(ETHTOOL_A_BITSET_SIZE, &4u32.to_ne_bytes()),
            attribute(ETHTOOL_A_BITSET_VALUE, &STATISTICS_GROUPS.to_ne_bytes()),
        ];
        attribute(NLA_F_NESTED | ETHTOOL_A_STATS_GROUPS, &groups.concat())
    }
}

/// Half a page of a module's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModulePage {
    /// Address on the module's I2C bus, 7 bits: 50h, or 51h for the diagnostics of an SFP.
    pub device: u8,
    /// Bank of the page.
    pub bank: u8,
    /// Page that the upper half shows.
    pub page: u8,
    /// Whether bytes 128 to 255 are meant, not 0 to 127.
    pub upper: bool,
}

/// The attributes behind the reply's generic header.
pub fn get(interface: &str, what: Get) -> io::Result<Vec<u8>> {
    let (message, header, flags) = what.parts();
    ethtool(message, [device(header, interface, flags), what.arguments()].concat())
}

/// 128 bytes of the memory of the module in an interface's cage.
pub fn module_page(interface: &str, page: ModulePage) -> io::Result<Vec<u8>> {
    let offset: u32 = if page.upper { 128 } else { 0 };
    let body = [
        device(1, interface, 0),
        attribute(ETHTOOL_A_MODULE_EEPROM_OFFSET, &offset.to_ne_bytes()),
        attribute(ETHTOOL_A_MODULE_EEPROM_LENGTH, &128u32.to_ne_bytes()),
        attribute(ETHTOOL_A_MODULE_EEPROM_PAGE, &[page.page]),
        attribute(ETHTOOL_A_MODULE_EEPROM_BANK, &[page.bank]),
        attribute(ETHTOOL_A_MODULE_EEPROM_I2C_ADDRESS, &[page.device]),
    ];
    let reply = ethtool(ETHTOOL_MSG_MODULE_EEPROM_GET, body.concat())?;
    let data = attributes(&reply, 0).find(|(kind, _)| *kind == ETHTOOL_A_MODULE_EEPROM_DATA);
    match data {
        Some((_, data)) if data.len() == MODULE_PAGE_BYTES => Ok(data.to_vec()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not 128 bytes of a module's memory")),
    }
}

/// `ETHTOOL_A_HEADER`.
fn device(header_attribute: u16, interface: &str, flags: u32) -> Vec<u8> {
    let mut header = attribute(ETHTOOL_A_HEADER_DEV_NAME, &[interface.as_bytes(), &[0]].concat());
    if flags != 0 {
        header.extend(attribute(ETHTOOL_A_HEADER_FLAGS, &flags.to_ne_bytes()));
    }
    attribute(NLA_F_NESTED | header_attribute, &header)
}

fn ethtool(message: u8, body: Vec<u8>) -> io::Result<Vec<u8>> {
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
    let about = reply(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, name)?;
    let id = attributes(&about, 0).find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID);
    let id = id.and_then(|(_, id)| id.try_into().ok().map(u16::from_ne_bytes));
    reply(id.ok_or(io::ErrorKind::InvalidData)?, message, body)
}

/// The attributes of the one message that answers a request.
fn reply(family: u16, command: u8, body: Vec<u8>) -> io::Result<Vec<u8>> {
    let request = Request { kind: family, body: [vec![command, 1, 0, 0], body].concat() };
    let mut found = None;
    let take = |payload: &[u8]| {
        found = payload.get(GENERIC_HEADER_BYTES..).map(<[u8]>::to_vec);
        ControlFlow::Break(())
    };
    match ask_generic(&request, Scope::Entry, 1, LIMITS, take) {
        Ok(_) => found.ok_or_else(|| io::ErrorKind::InvalidData.into()),
        Err(NetlinkError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_the_interface_and_what_is_wanted() {
        let header = device(1, "eth0", ETHTOOL_FLAG_STATS);
        let [(kind, inner)] = attributes(&header, 0).collect::<Vec<_>>()[..] else { panic!() };
        let expected = [(2, &b"eth0\0"[..]), (3, &4u32.to_ne_bytes()[..])];
        assert_eq!((kind, attributes(inner, 0).collect::<Vec<_>>()), (1, expected.to_vec()));
        assert_eq!(Get::Fec.arguments(), b"");
        let groups = Get::Statistics.arguments();
        let [(3, groups)] = attributes(&groups, 0).collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!(attributes(groups, 0).map(|(kind, _)| kind).collect::<Vec<_>>(), [1, 2, 4]);
    }
}
