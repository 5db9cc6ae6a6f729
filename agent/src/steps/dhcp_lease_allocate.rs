//! Leases of virtual addresses: `landfall netcheck dhcp` (docs/compatibility.md#dhcp-lease-allocate).

use super::{
    fields::Format::{Any, Mac},
    kind::Kind,
};
use crate::privileges::PROBES;
use api::kinds::DhcpLeaseAllocate;

pub(super) static KIND: Kind = Kind::check::<DhcpLeaseAllocate>(
    "dhcp",
    "dhcp allocation request",
    &[("api_vip_mac", true, Mac), ("ingress_vip_mac", true, Mac), ("interface", true, Any)],
    PROBES,
);
