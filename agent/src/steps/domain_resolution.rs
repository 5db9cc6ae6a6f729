//! What names resolve to: `landfall netcheck dns` (docs/compatibility.md#domain-resolution).

use super::{fields::Format::Any, kind::Kind};
use crate::privileges::{CHECK, Privileges, RESOLVE, Reach};
use api::kinds::DomainResolution;

pub(super) static KIND: Kind = Kind::check::<DomainResolution>(
    "dns",
    "domain resolution request",
    &[("domains", true, Any)],
    Privileges { reach: Reach::Only(RESOLVE), ..CHECK },
);
