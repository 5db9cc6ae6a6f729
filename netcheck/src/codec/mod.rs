//! Packet codecs: bytes to values and back. Pure and bounded: no input makes them panic or loop.
//!
//! Fixed headers are read and written with `pnet_packet`; what has lengths inside (NDP options, IPv4 options) is walked here,
//! because a length of zero or past the end must end the walk. A packet that is damaged or of another kind is `None`:
//! on a shared segment that is usual and not an error.

pub mod arp;
pub mod chrony;
pub mod dhcp;
pub mod echo;
pub mod ethernet;
pub mod http;
pub mod lldp;
pub mod ndp;
pub mod sntp;
pub mod text;
pub mod udp;
pub mod x509;
