//! Names the cluster's machines must resolve.

use super::{Context, pending, success, verdict};
use crate::check::{Status, Verdict};
use serde_json::Value;
use std::{collections::BTreeMap, net::IpAddr};

/// What a host resolved: the addresses of each name it was asked for.
#[derive(Debug, Default)]
pub struct Domains {
    by_name: BTreeMap<String, Vec<IpAddr>>,
}

impl Domains {
    /// The reply to `domain-resolution`; none before there is one.
    pub fn parse(text: &str) -> Option<Self> {
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
        Some(Self { by_name: by_name.collect() })
    }

    fn of(&self, name: &str) -> Option<&[IpAddr]> {
        self.by_name.get(name).map(Vec::as_slice)
    }
}

pub(super) fn api(context: &Context) -> Option<Verdict> {
    resolved(context, "api", "api")
}

pub(super) fn api_int(context: &Context) -> Option<Verdict> {
    resolved(context, "api-int", "api-int")
}

pub(super) fn apps(context: &Context) -> Option<Verdict> {
    resolved(context, "console-openshift-console.apps", "*.apps")
}

/// Only where the user looks after names and addresses, and only of a host that was asked: `asked` stands for `shown`.
fn resolved(context: &Context, asked: &str, shown: &str) -> Option<Verdict> {
    let record = context.cluster?;
    let (name, base) = (&record.cluster.name, &record.cluster.base_dns_domain);
    let satisfied =
        format!("Domain name resolution for the {shown}.{name}.{base} domain was successful or not required");
    // A single node resolves its own names.
    if !context.user_managed() || context.single_node() {
        return success(satisfied);
    }
    if base.is_empty() {
        return Some((
            Status::Error,
            format!("The base domain is not set: {shown}.{name} can't be resolved without it"),
        ));
    }
    let Some(domains) = context.record.facts().domains.as_ref() else { return success(satisfied) };
    let full = format!("{asked}.{name}.{base}");
    let Some(found) = domains.of(&full) else { return pending(format!("The host has not resolved {full} yet")) };
    let own = &context.record.facts().addresses;
    if found.is_empty() {
        let why = format!("The host can't resolve {full}: add a record for it to the DNS server that the host uses");
        return verdict(false, satisfied, || why);
    }
    // With more nodes than one no single one of them is the API.
    let to_itself =
        !context.single_node() && !shown.contains("apps") && found.iter().all(|address| own.contains(address));
    verdict(!to_itself, satisfied, || format!("{full} leads to this host itself: it must lead to the load balancer"))
}

pub(super) fn no_wildcard(context: &Context) -> Option<Verdict> {
    const SUCCESS: &str = "DNS wildcard check was successful";
    let record = context.cluster?;
    let Some(domains) = context.record.facts().domains.as_ref().filter(|_| !context.day2()) else {
        return success(SUCCESS);
    };
    let name = format!("validateNoWildcardDNS.{}.{}", record.cluster.name, record.cluster.base_dns_domain);
    let found = [domains.of(&name), domains.of(&format!("{name}."))];
    if found.iter().all(Option::is_none) {
        return pending("The host has not looked for a DNS wildcard yet");
    }
    let resolves = found.into_iter().flatten().any(|addresses| !addresses.is_empty());
    verdict(!resolves, SUCCESS, || {
        format!(
            "DNS wildcard configuration was detected for domain *.{}.{}: the installation will not work with it",
            record.cluster.name, record.cluster.base_dns_domain
        )
    })
}
