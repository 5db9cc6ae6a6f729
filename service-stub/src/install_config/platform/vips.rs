//! Virtual addresses, as platforms have them.

use crate::install_config::facts::Facts;
use serde_json::{Map, Value, json};

/// Since when there may be two of a kind.
const LISTS_SINCE: &str = "4.12";

/// Lists of all addresses. Older releases take one of each kind, which they have under two keys.
pub(crate) fn fields(facts: &Facts) -> Result<Map<String, Value>, String> {
    let cluster = &facts.record.cluster;
    let is_older = facts.is_older(LISTS_SINCE);
    let mut fields = Map::new();
    for (list, single, vips, name) in [
        ("apiVIPs", "apiVIP", &cluster.api_vips, "APIVip"),
        ("ingressVIPs", "ingressVIP", &cluster.ingress_vips, "IngressVip"),
    ] {
        let mut addresses: Vec<&str> = vips.iter().filter_map(|vip| vip.get("ip")?.as_str()).collect();
        if is_older {
            addresses.truncate(1);
            let first = addresses.first().ok_or_else(|| missing(name))?;
            fields.insert(single.to_owned(), json!(first));
        }
        fields.insert(list.to_owned(), json!(addresses));
    }
    Ok(fields)
}

/// The same of a platform that cannot be without them.
pub(crate) fn required(facts: &Facts) -> Result<Map<String, Value>, String> {
    let cluster = &facts.record.cluster;
    for (vips, name) in [(&cluster.api_vips, "APIVip"), (&cluster.ingress_vips, "IngressVip")] {
        if vips.is_empty() {
            return Err(missing(name));
        }
    }
    fields(facts)
}

fn missing(name: &str) -> String {
    format!("invalid cluster parameters, {name} must be provided")
}
