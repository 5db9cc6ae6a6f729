//! The config that a running cluster gives new workers: `landfall netcheck endpoint`
//! (docs/compatibility.md#api-vip-connectivity-check).

use super::{fields::Format::Any, kind::Kind};
use crate::privileges::FETCHES;
use api::kinds::ApiVipConnectivityCheck;

// It succeeds also when nothing could be fetched, and says so on standard error.
pub(super) static KIND: Kind =
    Kind::check::<ApiVipConnectivityCheck>("endpoint", "api vip connectivity request", &[("url", true, Any)], FETCHES)
        .with_answers_on_stderr();
