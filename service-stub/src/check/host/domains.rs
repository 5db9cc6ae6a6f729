//! Names the cluster's machines must resolve.

use super::context::{Context, pending, success, verdict};
use crate::check::{Status, Verdict};
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
    let by_itself = context.single_node() && context.shared.single_node_dnsmasq;
    if !context.user_managed() || by_itself {
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
    let Some(found) = domains.addresses(&full) else { return pending(format!("The host has not resolved {full} yet")) };
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
    let found = [domains.addresses(&name), domains.addresses(&format!("{name}."))];
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
