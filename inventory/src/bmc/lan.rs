//! LAN channels of a management controller and their addresses (IPMI 2.0 22.24, 23.2).

use super::{Controller, NETFN_APP, NETFN_TRANSPORT};
use std::net::{Ipv4Addr, Ipv6Addr};

const GET_CHANNEL_INFO: u8 = 0x42;
const GET_LAN_PARAMETERS: u8 = 0x02;
/// Channels 0 and above 12 are the interfaces to the host and to other controllers.
const CHANNELS: std::ops::RangeInclusive<u8> = 1..=12;
/// 802.3 LAN, and other LAN (table 6-3).
const LAN_MEDIA: [u8; 2] = [4, 6];
// Parameters (table 23-4).
const IP_ADDRESS: u8 = 3;
const IP_SOURCE: u8 = 4;
const MAC_ADDRESS: u8 = 5;
const SUBNET_MASK: u8 = 6;
const GATEWAY: u8 = 12;
const VLAN: u8 = 20;
const IPV6_ENABLES: u8 = 51;
const IPV6_STATUS: u8 = 55;
const IPV6_STATIC: u8 = 56;
const IPV6_DYNAMIC: u8 = 59;
/// More than any controller has, for one that does not say.
const MAX_ADDRESSES: u8 = 16;
/// `STATUS` of an address in use.
const ACTIVE: u8 = 0;

/// What the inventory reports of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub ipv4: Option<Ipv4Addr>,
    pub ipv6: Option<Ipv6Addr>,
}

/// A channel that leads to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub number: u8,
    pub mac: Option<[u8; 6]>,
    pub ipv4: Option<Ipv4Addr>,
    /// Where `ipv4` comes from: 1 static, 2 DHCP, 3 from firmware, 4 other.
    pub ipv4_source: Option<u8>,
    pub ipv4_mask: Option<Ipv4Addr>,
    pub ipv4_gateway: Option<Ipv4Addr>,
    /// `None` without a VLAN, or if the controller does not say.
    pub vlan: Option<u16>,
    pub ipv6: Option<Ipv6Addr>,
}

/// The first IPv4 address of the lowest channel that has one, and so for IPv6, where what the network gave goes before what
/// was set by hand. Where there are several the real agent picks any; here it is always the first.
pub(crate) fn addresses(controller: &mut impl Controller) -> Addresses {
    let mut found = Addresses::default();
    for channel in CHANNELS {
        if !is_lan(controller, channel) {
            continue;
        }
        found.ipv4 = found.ipv4.or_else(|| ipv4(controller, channel, IP_ADDRESS));
        found.ipv6 = found.ipv6.or_else(|| ipv6(controller, channel));
        if found.ipv4.is_some() && found.ipv6.is_some() {
            break;
        }
    }
    found
}

/// All channels that lead to a network.
pub(crate) fn channels(controller: &mut impl Controller) -> Vec<Channel> {
    let mut channels = Vec::new();
    for number in CHANNELS {
        if is_lan(controller, number) {
            channels.push(Channel {
                number,
                mac: parameter(controller, number, MAC_ADDRESS, 0).and_then(|data| data.first_chunk().copied()),
                ipv4: ipv4(controller, number, IP_ADDRESS),
                ipv4_source: parameter(controller, number, IP_SOURCE, 0).and_then(|data| Some(data.first()? & 0xf)),
                ipv4_mask: ipv4(controller, number, SUBNET_MASK),
                ipv4_gateway: ipv4(controller, number, GATEWAY),
                vlan: parameter(controller, number, VLAN, 0).and_then(|data| vlan(&data)),
                ipv6: ipv6(controller, number),
            });
        }
    }
    channels
}

fn is_lan(controller: &mut impl Controller, channel: u8) -> bool {
    let reply = controller.request(NETFN_APP, GET_CHANNEL_INFO, &[channel]);
    reply.is_some_and(|reply| reply.get(1).is_some_and(|medium| LAN_MEDIA.contains(&(medium & 0x7f))))
}

/// Its id, if it is in use.
fn vlan(data: &[u8]) -> Option<u16> {
    let vlan = kernel::bytes::le16(data, 0)?;
    (vlan & 0x8000 != 0).then_some(vlan & 0xfff)
}

fn ipv4(controller: &mut impl Controller, channel: u8, which: u8) -> Option<Ipv4Addr> {
    let data = parameter(controller, channel, which, 0)?;
    let address = Ipv4Addr::from(*data.first_chunk::<4>()?);
    (!address.is_unspecified()).then_some(address)
}

fn ipv6(controller: &mut impl Controller, channel: u8) -> Option<Ipv6Addr> {
    // 0 is IPv4 only, 1 is IPv6 only, 2 is both.
    if !matches!(parameter(controller, channel, IPV6_ENABLES, 0)?.first()?, 1 | 2) {
        return None;
    }
    let status = parameter(controller, channel, IPV6_STATUS, 0).unwrap_or_default();
    let count = |at: usize| status.get(at).copied().unwrap_or(MAX_ADDRESSES);
    let (statics, dynamics) = (count(0), count(1));
    // SLAAC and DHCPv6.
    let is_dynamic = |source: u8| matches!(source & 0xf, 1 | 2);
    let is_enabled = |source: u8| source & 0x80 != 0;
    first_active(controller, channel, IPV6_DYNAMIC, dynamics, is_dynamic)
        .or_else(|| first_active(controller, channel, IPV6_STATIC, statics, is_enabled))
}

/// The first address in use of a table, as far as the controller lets it be read.
fn first_active(
    controller: &mut impl Controller,
    channel: u8,
    table: u8,
    count: u8,
    is_wanted: impl Fn(u8) -> bool,
) -> Option<Ipv6Addr> {
    for index in 0..count {
        let entry = parameter(controller, channel, table, index)?;
        // Set selector, source, address, prefix length, status.
        let Some(([_, source, rest @ ..], _)) = entry.split_first_chunk::<20>() else { continue };
        let Some((address, [_, status])) = rest.split_first_chunk::<16>() else { continue };
        let address = Ipv6Addr::from(*address);
        if is_wanted(*source) && status & 0xf == ACTIVE && !address.is_unspecified() {
            return Some(address);
        }
    }
    None
}

/// A parameter's data, without the revision before it.
fn parameter(controller: &mut impl Controller, channel: u8, parameter: u8, set: u8) -> Option<Vec<u8>> {
    let reply = controller.request(NETFN_TRANSPORT, GET_LAN_PARAMETERS, &[channel, parameter, set, 0])?;
    Some(reply.split_first()?.1.to_vec())
}
