//! The protocol of two ends of a link. Pure.
//!
//! Each flow of data has a connection to the serving end, which begins with a header of the other end. A TCP flow's data go through that
//! connection, and are the same pattern again and again, so that the receiver knows each byte. A UDP flow's datagrams go beside it, with
//! a number each and then the pattern; the connection carries what arrived, by which the sender keeps less under way than the
//! receiver has room for: what is lost, the link lost.

use loops::{Fill, Width, fill_bytes};

/// With the version of the protocol at its end.
pub(super) const MAGIC: [u8; 8] = *b"LFBURN\x00\x01";
pub(super) const HEADER_BYTES: usize = 24;
/// After so much the pattern is the same again. All of it stays in a near cache.
pub(super) const PATTERN_BYTES: usize = 128 << 10;
/// The number and the flow's identifier at the start of a datagram.
pub(super) const DATAGRAM_HEAD_BYTES: usize = 16;
/// The least that every link carries, and the most that a datagram of UDP holds.
pub(super) const SEGMENT_BYTES: (u16, u16) = (256, 8972);

/// What the end that began the flow does in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    SendTcp,
    ReceiveTcp,
    SendUdp,
    ReceiveUdp,
}

/// The start of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub role: Role,
    /// Distinguishes the datagrams of this flow from those of an earlier one.
    pub flow: u64,
    /// Of UDP: bytes of a datagram.
    pub segment_bytes: u16,
    /// Of UDP: where the end that began the flow receives, if it does.
    pub port: u16,
    /// Of UDP: bytes that may be under way to the receiver, if the end that began the flow is that.
    pub window_bytes: u32,
}

impl Header {
    pub(super) fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let role = match self.role {
            Role::SendTcp => 1_u16,
            Role::ReceiveTcp => 2,
            Role::SendUdp => 3,
            Role::ReceiveUdp => 4,
        };
        let port_and_size = [role.to_be_bytes(), self.segment_bytes.to_be_bytes(), self.port.to_be_bytes()].concat();
        // The window's low half is never needed.
        let window = u16::try_from(self.window_bytes >> 16).unwrap_or(u16::MAX).to_be_bytes();
        let parts = MAGIC.iter().chain(&port_and_size).chain(&window).copied();
        for (place, byte) in bytes.iter_mut().zip(parts.chain(self.flow.to_be_bytes())) {
            *place = byte;
        }
        bytes
    }

    /// `None` if it is not one of this protocol and version, or asks for what no end does.
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let word = |at: usize| Some(u16::from_be_bytes(*rest.get(at..)?.first_chunk()?));
        let role = match word(0)? {
            1 => Role::SendTcp,
            2 => Role::ReceiveTcp,
            3 => Role::SendUdp,
            4 => Role::ReceiveUdp,
            _ => return None,
        };
        let header = Self {
            role,
            segment_bytes: word(2)?,
            port: word(4)?,
            window_bytes: u32::from(word(6)?) << 16,
            flow: u64::from_be_bytes(*rest.get(8..)?.first_chunk()?),
        };
        let is_udp = matches!(role, Role::SendUdp | Role::ReceiveUdp);
        let is_sized = (SEGMENT_BYTES.0..=SEGMENT_BYTES.1).contains(&header.segment_bytes);
        let can_send = role != Role::ReceiveUdp || header.port > 0;
        (!is_udp || (is_sized && can_send)).then_some(header)
    }
}

/// Two numbers: what a receiver reports. Of UDP: the number after the highest that arrived, and how many arrived; at its end as well as
/// of TCP: units that arrived, and those of them that were wrong.
pub(super) fn pair(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().zip(first.to_be_bytes().into_iter().chain(second.to_be_bytes())) {
        *place = byte;
    }
    bytes
}

pub(super) fn parse_pair(bytes: &[u8; 16]) -> (u64, u64) {
    let number = |half: &[u8]| half.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let (first, second) = bytes.split_at(8);
    (number(first), number(second))
}

/// The pattern of all flows, twice, so that a piece of it can begin anywhere.
pub(super) fn pattern() -> Vec<u8> {
    let mut bytes = vec![0; PATTERN_BYTES];
    fill_bytes(Width::widest(), &mut bytes, 0, Fill::Random { seed: 0x4C41_4E44_4641_4C4C });
    bytes.extend_from_within(..);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_went() {
        for role in [Role::SendTcp, Role::ReceiveTcp, Role::SendUdp, Role::ReceiveUdp] {
            let header = Header { role, flow: u64::MAX - 5, segment_bytes: 1472, port: 40_000, window_bytes: 3 << 20 };
            assert_eq!(Header::parse(&header.bytes()), Some(header));
        }
        assert_eq!(parse_pair(&pair(7, u64::MAX)), (7, u64::MAX));
    }

    #[test]
    fn what_no_end_does_is_refused() {
        let good = Header { role: Role::ReceiveUdp, flow: 1, segment_bytes: 1472, port: 1, window_bytes: 0 };
        let bad = |change: &dyn Fn(&mut [u8; HEADER_BYTES])| {
            let mut bytes = good.bytes();
            change(&mut bytes);
            Header::parse(&bytes)
        };
        assert!(bad(&|_| ()).is_some());
        assert_eq!(bad(&|bytes| bytes[7] = 2), None, "another version");
        assert_eq!(bad(&|bytes| bytes[9] = 9), None, "another role");
        assert_eq!(bad(&|bytes| bytes[10..12].fill(0)), None, "no room for the head");
        assert_eq!(bad(&|bytes| bytes[10..12].fill(0xFF)), None, "larger than any datagram");
        assert_eq!(bad(&|bytes| bytes[12..14].fill(0)), None, "no port");
        assert_eq!(Header::parse(&[0; HEADER_BYTES]), None);
    }
}
