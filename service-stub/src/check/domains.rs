//! The names that hosts resolved.

use kernel::order::Gather;
use serde_json::Value;
use std::{collections::BTreeMap, net::IpAddr};

/// The addresses that a host resolved for each name it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    by_name: BTreeMap<String, Vec<IpAddr>>,
}

impl Domains {
    /// The reply to `domain-resolution`; none before there is one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(text).ok()?;
        let addresses = |resolution: &Value, key: &str| {
            let list = resolution.get(key).and_then(Value::as_array).into_iter().flatten();
            // Some agents add the length of a prefix.
            let bare = list.filter_map(|address| address.as_str()?.split('/').next());
            bare.filter_map(|address| address.parse().ok()).collect::<Vec<IpAddr>>()
        };
        let by_name = document.get("resolutions")?.as_array()?.iter().filter_map(|resolution| {
            let name = resolution.get("domain_name")?.as_str()?.to_owned();
            let found = [addresses(resolution, "ipv4_addresses"), addresses(resolution, "ipv6_addresses")].concat();
            Some((name, found))
        });
        Some(Self { by_name: by_name.gather() })
    }

    /// The addresses of a name; none if the host was not asked for it.
    pub(crate) fn addresses(&self, name: &str) -> Option<&[IpAddr]> {
        self.by_name.get(name).map(Vec::as_slice)
    }
}
