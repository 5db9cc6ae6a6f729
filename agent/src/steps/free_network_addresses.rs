//! Which addresses of networks are free: `landfall netcheck sweep` (docs/compatibility.md#free-network-addresses).

use super::kind::{IN_CONTAINER, Kind};
use crate::privileges::PROBES;
use api::kinds::FreeNetworkAddresses;

pub(super) static KIND: Kind =
    Kind::check::<FreeNetworkAddresses>("sweep", "free addresses request", &[], PROBES).with_failure(IN_CONTAINER);
