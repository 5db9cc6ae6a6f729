//! What users set on a cluster after it is made (service contract §1.2.5), and what a page of theirs keeps with it.

use super::clusters::{
    check_dhcp, check_encryption, check_networks, check_pull_secret, check_vips, least_machines, shown, with_prefixes,
};
use super::infra_env_settings::{check_proxy, checked_sources};
use super::{find_cluster, shapes};
use crate::check::host::valid_hostname;
use crate::dhcp_vips::DhcpVips;
use crate::events::{self, kinds};
use crate::http::{Answer, Call, Refusal};
use crate::ignition_endpoint;
use crate::model::ClusterRecord;
use crate::pass;
use crate::service::Service;
use api::{ClusterNetwork, ClusterUpdateParams, MachineNetwork, Platform, Proxy};
use axum::http::StatusCode;
use serde_json::{Value, json};

/// Longest text a page keeps with a cluster, bytes.
const MAX_UI_SETTINGS_BYTES: usize = 64 << 10;

/// PATCH /v2/clusters/{id}.
pub fn update(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let params: ClusterUpdateParams = call.json(&shapes::UPDATE_CLUSTER)?;
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        if !record.state.accepts_hosts() {
            return Err(Refusal::conflict(format!(
                "cluster {id} is in status {}: its settings can change only before it is installed",
                record.state
            )));
        }
        let proxy = proxy_of(&record);
        apply(&mut record, params)?;
        if proxy_of(&record) != proxy {
            events::cluster(change, &record, kinds::PROXY_SETTINGS_CHANGED, Value::Null);
        }
        change.put_cluster(record);
        pass::settle_cluster(service, change, id);
        Ok(())
    })?;
    shown(service, id, StatusCode::CREATED)
}

/// A text setting kept with the cluster; none for an empty one.
fn kept_text(record: &ClusterRecord, name: &str) -> Option<String> {
    record.kept.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn proxy_of(record: &ClusterRecord) -> Proxy {
    let text = |name| kept_text(record, name);
    Proxy { http_proxy: text("http_proxy"), https_proxy: text("https_proxy"), no_proxy: text("no_proxy") }
}

/// Sets what is given; what isn't stays.
pub fn apply(record: &mut ClusterRecord, params: ClusterUpdateParams) -> Result<(), Refusal> {
    if params.schedulable_masters == Some(true) {
        return Err(Refusal::not_implemented("field schedulable_masters"));
    }
    check_encryption(params.disk_encryption.as_ref())?;
    set_kept(record, &params)?;
    let (id, balanced) = (record.cluster.id, record.user_balanced());
    let own = &mut record.cluster;
    if let Some(name) = params.name {
        if !valid_hostname(&name) {
            return Err(Refusal::invalid(format!("cluster name '{name}' is not a DNS name")));
        }
        own.name = name;
    }
    let texts = [
        (&mut own.base_dns_domain, params.base_dns_domain),
        (&mut own.ssh_public_key, params.ssh_public_key),
        (&mut own.hyperthreading, params.hyperthreading),
        (&mut own.network_type, params.network_type),
    ];
    for (own, given) in texts {
        if let Some(given) = given {
            *own = given;
        }
    }
    if let Some(count) = params.control_plane_count {
        if !(1..=5).contains(&count) {
            return Err(Refusal::invalid(format!("control_plane_count {count} is not 1 to 5")));
        }
        own.control_plane_count = count;
        own.high_availability_mode = if count == 1 { "None" } else { "Full" }.into();
    }
    let by_dhcp = params.vip_dhcp_allocation.unwrap_or(own.vip_dhcp_allocation);
    let given = params.api_vips.iter().chain(&params.ingress_vips).any(|vips| !vips.is_empty());
    check_dhcp(by_dhcp, params.user_managed_networking.unwrap_or(own.user_managed_networking), given)?;
    // Those of one way are no good for the other, nor are leases of another network.
    let moved = params.machine_networks.is_some() || params.machine_network_cidr.is_some();
    if by_dhcp != own.vip_dhcp_allocation || by_dhcp && moved {
        own.vip_dhcp_allocation = by_dhcp;
        own.api_vips.clear();
        own.ingress_vips.clear();
        record.dhcp = DhcpVips::default();
    }
    if let Some(vips) = params.api_vips {
        own.api_vips = vips;
    }
    if let Some(vips) = params.ingress_vips {
        own.ingress_vips = vips;
    }
    check_vips(&own.api_vips, &own.ingress_vips)?;
    let given = params.machine_network_cidr.map(|cidr| vec![MachineNetwork { cidr, cluster_id: None }]);
    if let Some(networks) = params.machine_networks.or(given) {
        own.machine_networks = networks;
    }
    let (cidr, host_prefix) = (params.cluster_network_cidr, params.cluster_network_host_prefix);
    if let Some(networks) = params.cluster_networks {
        own.cluster_networks = networks;
    } else if cidr.is_some() || host_prefix.is_some() {
        let first = own.cluster_networks.first().cloned().unwrap_or_default();
        own.cluster_networks = vec![ClusterNetwork {
            cidr: cidr.unwrap_or(first.cidr),
            host_prefix: host_prefix.unwrap_or(first.host_prefix),
            cluster_id: None,
        }];
    }
    let given = params.service_network_cidr.map(|cidr| vec![MachineNetwork { cidr, cluster_id: None }]);
    if let Some(networks) = params.service_networks.or(given) {
        own.service_networks = networks;
    }
    own.cluster_networks = with_prefixes(std::mem::take(&mut own.cluster_networks));
    let least = least_machines(own.control_plane_count == 1, balanced);
    check_networks(&own.cluster_networks, &own.service_networks, &own.machine_networks, least)?;
    own.cluster_networks.iter_mut().for_each(|network| network.cluster_id = Some(id));
    let others = own.service_networks.iter_mut().chain(&mut own.machine_networks);
    others.for_each(|network| network.cluster_id = Some(id));
    if let Some(managed) = params.user_managed_networking {
        own.user_managed_networking = managed;
    }
    match params.platform {
        Some(platform) => own.platform = Some(checked_platform(platform)?),
        // The platform follows, where it says no more than who manages the network.
        None if params.user_managed_networking.is_some() => {
            let plain = own.platform.as_ref().is_none_or(|own| matches!(own.kind.as_str(), "" | "none" | "baremetal"));
            if plain {
                let kind = if own.user_managed_networking { "none" } else { "baremetal" };
                own.platform = Some(Platform { external: json!({}), kind: kind.to_owned() });
            }
        }
        None => {}
    }
    if let Some(pull_secret) = params.pull_secret.filter(|secret| !secret.is_empty()) {
        check_pull_secret(pull_secret.expose())?;
        record.pull_secret = pull_secret;
        own.pull_secret_set = true;
    }
    Ok(())
}

/// Settings that are shown again but change nothing here; an empty text removes one.
fn set_kept(record: &mut ClusterRecord, params: &ClusterUpdateParams) -> Result<(), Refusal> {
    check_proxy(&Proxy {
        http_proxy: params.http_proxy.clone(),
        https_proxy: params.https_proxy.clone(),
        no_proxy: None,
    })?;
    for (name, list) in [("additional_ntp_source", &params.additional_ntp_source), ("ntp_sources", &params.ntp_sources)]
    {
        checked_sources(name, list.clone().unwrap_or_default())?;
    }
    let texts = [
        ("additional_ntp_source", &params.additional_ntp_source),
        ("api_vip_dns_name", &params.api_vip_dns_name),
        ("http_proxy", &params.http_proxy),
        ("https_proxy", &params.https_proxy),
        ("no_proxy", &params.no_proxy),
        ("ntp_sources", &params.ntp_sources),
        ("tags", &params.tags),
    ];
    for (name, text) in texts {
        match text.as_deref() {
            None => {}
            Some("") => drop(record.kept.remove(name)),
            Some(text) => drop(record.kept.insert(name.into(), text.into())),
        }
    }
    if kept_text(record, "additional_ntp_source").is_some() && kept_text(record, "ntp_sources").is_some() {
        return Err(Refusal::invalid("ntp_sources and additional_ntp_source exclude each other: give one of them"));
    }
    if let Some(endpoint) = &params.ignition_endpoint {
        match ignition_endpoint::checked(endpoint).map_err(Refusal::invalid)? {
            Some(endpoint) => drop(record.kept.insert("ignition_endpoint".into(), endpoint)),
            None => drop(record.kept.remove("ignition_endpoint")),
        }
    }
    if let Some(balancer) = &params.load_balancer {
        check_load_balancer(balancer)?;
        record.kept.insert("load_balancer".into(), balancer.clone());
    }
    Ok(())
}

/// One of the published kinds.
pub fn checked_platform(platform: Platform) -> Result<Platform, Refusal> {
    const KINDS: [&str; 5] = ["baremetal", "nutanix", "vsphere", "none", "external"];
    if !KINDS.contains(&platform.kind.as_str()) {
        return Err(Refusal::bad_request(format!("platform.type in body should be one of [{}]", KINDS.join(" "))));
    }
    let external = if platform.external.is_object() { platform.external } else { json!({}) };
    Ok(Platform { external, ..platform })
}

/// One of the two published kinds, and nothing else.
pub fn check_load_balancer(balancer: &Value) -> Result<(), Refusal> {
    let kind = balancer.get("type").and_then(Value::as_str);
    let alone = balancer.as_object().is_some_and(|fields| fields.len() == 1);
    if !alone || !matches!(kind, Some("cluster-managed" | "user-managed")) {
        return Err(Refusal::bad_request("load_balancer.type in body should be one of [cluster-managed user-managed]"));
    }
    Ok(())
}

/// GET /v2/clusters/{id}/ui-settings: what a page keeps, as it was given.
pub fn ui_settings(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_cluster(&service.store.model(), call.cluster_id()?)?;
    Ok(Answer::json(StatusCode::OK, &record.ui_settings))
}

/// PUT /v2/clusters/{id}/ui-settings.
pub fn set_ui_settings(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let id = call.cluster_id()?;
    let text: String = call.json_text("uiSettings")?;
    if text.len() > MAX_UI_SETTINGS_BYTES {
        return Err(Refusal::invalid(format!("ui-settings are longer than {MAX_UI_SETTINGS_BYTES} bytes")));
    }
    service.change(call.request_id(), |change| {
        let mut record = ClusterRecord::clone(find_cluster(change.model(), id)?.as_ref());
        record.ui_settings = text;
        let answer = Answer::json(StatusCode::OK, &record.ui_settings);
        change.put_cluster(record);
        Ok(answer)
    })
}

/// GET /v2/clusters/{id}/supported-platforms: those whose hosts need no cloud of their own.
pub fn supported_platforms(service: &Service, call: &Call) -> Result<Answer, Refusal> {
    let record = find_cluster(&service.store.model(), call.cluster_id()?)?;
    let all = ["baremetal", "none", "external"];
    let platforms = if record.single_node() { &all[1..] } else { &all[..] };
    Ok(Answer::json(StatusCode::OK, &platforms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ClusterState;
    use api::{Cluster, Secret};

    fn set(params: Value) -> Result<ClusterRecord, String> {
        let mut record = ClusterRecord::new(ClusterState::Insufficient, Cluster::default(), Secret::default());
        record.cluster.cluster_networks =
            vec![ClusterNetwork { cidr: "10.128.0.0/14".into(), host_prefix: 23, cluster_id: None }];
        record.kept.insert("tags".into(), "old".into());
        match apply(&mut record, serde_json::from_value(params).unwrap()) {
            Ok(()) => Ok(record),
            Err(Refusal::Request(status, text) | Refusal::Application(status, text)) => {
                Err(format!("{status}: {text}"))
            }
        }
    }

    #[test]
    fn what_is_given_is_set_and_the_rest_stays() {
        let record = set(json!({
            "name": "edge", "control_plane_count": 1, "machine_network_cidr": "192.0.2.0/24",
            "cluster_network_host_prefix": 24, "user_managed_networking": true, "tags": "", "ntp_sources": "ntp1,192.0.2.1",
            "api_vips": [{"ip": "192.0.2.5"}], "ingress_vips": [{"ip": "192.0.2.6"}],
        }))
        .unwrap();
        let cluster = &record.cluster;
        assert_eq!((cluster.name.as_str(), cluster.high_availability_mode.as_str()), ("edge", "None"));
        assert_eq!(cluster.machine_networks[0].cidr, "192.0.2.0/24");
        assert_eq!(
            (cluster.cluster_networks[0].cidr.as_str(), cluster.cluster_networks[0].host_prefix),
            ("10.128.0.0/14", 24)
        );
        assert_eq!(cluster.platform.as_ref().unwrap().kind, "none");
        assert!(!record.kept.contains_key("tags") && record.kept.contains_key("ntp_sources"));
    }

    #[test]
    fn addresses_of_one_way_are_no_good_for_the_other() {
        let vips = json!({"api_vips": [{"ip": "192.0.2.5"}], "ingress_vips": [{"ip": "192.0.2.6"}]});
        let mut record = set(vips).unwrap();
        let mut set = |params: Value| {
            apply(&mut record, serde_json::from_value(params).unwrap()).unwrap();
            (record.cluster.vip_dhcp_allocation, record.cluster.api_vips.len())
        };
        assert_eq!(set(json!({"vip_dhcp_allocation": true})), (true, 0));
        assert_eq!(set(json!({"name": "a"})), (true, 0));
        assert_eq!(
            set(
                json!({"vip_dhcp_allocation": false, "api_vips": [{"ip": "192.0.2.5"}], "ingress_vips": [{"ip": "192.0.2.6"}]})
            ),
            (false, 1)
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (params, said) in [
            (json!({"schedulable_masters": true}), "501"),
            (json!({"vip_dhcp_allocation": true, "user_managed_networking": true}), "400 Bad Request: VIP DHCP"),
            (json!({"vip_dhcp_allocation": true, "api_vips": [{"ip": "192.0.2.5"}]}), "400 Bad Request: Setting API"),
            (json!({"disk_encryption": {"enable_on": "all"}}), "501"),
            (json!({"name": "Edge"}), "400 Bad Request: cluster name 'Edge'"),
            (json!({"control_plane_count": 9}), "400"),
            (json!({"api_vips": [{"ip": "192.0.2.5"}]}), "400 Bad Request: there are 1 api_vips and 0"),
            (json!({"machine_networks": [{"cidr": "192.0.2.1/24"}]}), "400 Bad Request: 192.0.2.1/24 has host bits"),
            (json!({"platform": {"type": "moon"}}), "400 Bad Request: platform.type"),
            (json!({"load_balancer": {"type": "none"}}), "400 Bad Request: load_balancer.type"),
            (json!({"http_proxy": "p:1"}), "400 Bad Request: http_proxy"),
            (json!({"ntp_sources": "n1", "additional_ntp_source": "n2"}), "400 Bad Request: ntp_sources and"),
            (json!({"pull_secret": "x"}), "400 Bad Request: pull secret"),
        ] {
            let text = set(params.clone()).unwrap_err();
            assert!(text.starts_with(said), "{params}: {text}");
        }
    }
}
