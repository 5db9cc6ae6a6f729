//! Keys of Tang servers: `landfall netcheck tang` (docs/compatibility.md#tang-connectivity-check).

use super::{fields::Format::Any, kind::Kind};
use crate::privileges::FETCHES;
use api::kinds::TangConnectivityCheck;

pub(super) static KIND: Kind =
    Kind::check::<TangConnectivityCheck>("tang", "tang connectivity request", &[("tang_servers", true, Any)], FETCHES);
