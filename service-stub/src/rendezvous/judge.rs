//! Holds a plan against the service's own rules, and against itself: what would be refused on the machine, after it has booted, is refused
//! where the plan is written.

use super::{PlanError, Rack};
use crate::handlers::{infra_env_settings, infra_envs, manifests, new_cluster, plans};
use crate::http::{Call, Refusal};
use crate::install_config::{self, Site};
use crate::machine_networks::addresses;
use crate::model::{InfraEnvRecord, Model};
use crate::net::Cidr;
use crate::planned::PlannedHost;
use crate::text::at;
use api::{ClusterCreateParams, ClusterId, HostRole, InfraEnvCreateParams, InfraEnvUpdateParams, Mac};
use ignition::yaml;
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::IpAddr};

/// A longer network config is not one.
const MAX_NETWORK_BYTES: usize = 1 << 20;

impl Rack {
    /// Holds the plan of a rack that is to be made against the rules of new records, and against itself.
    ///
    /// # Errors
    /// A rule is broken, or two parts of the plan contradict each other.
    pub fn judge(&self) -> Result<(), PlanError> {
        let refused = |refusal: Refusal| PlanError::Rule(refusal.message().to_owned());
        if self.existing.is_none() {
            cluster(self).map_err(refused)?;
        }
        infra_env(&self.infra_env).map_err(refused)?;
        for host in &self.hosts {
            let place = |why: Refusal| PlanError::Rule(format!("{}: {}", host.place, why.message()));
            plans::check(host).map_err(place)?;
        }
        self.judge_itself()
    }

    /// Holds the parts of a plan against each other.
    pub(crate) fn judge_itself(&self) -> Result<(), PlanError> {
        Addresses::new(self).judge().map_err(PlanError::Refused)
    }
}

fn cluster(rack: &Rack) -> Result<(), Refusal> {
    let params: ClusterCreateParams = Call::internal(&[], &json!(rack.cluster)).json(&new_cluster::BODY)?;
    let record = new_cluster::plan(None, params, ClusterId::default())?;
    install_config::check_override(&record, &Model::default(), &Site::default(), &rack.overrides)
        .map_err(|error| Refusal::invalid(error.to_string()))?;
    rack.manifests.iter().try_for_each(|manifest| manifests::check(manifest.file(), manifest.content().as_bytes()))
}

fn infra_env(params: &InfraEnvCreateParams) -> Result<(), Refusal> {
    let params: InfraEnvCreateParams = Call::internal(&[], &json!(params)).json(&infra_envs::NEW_INFRA_ENV)?;
    infra_env_settings::check_new(params.ssh_authorized_key.as_deref(), params.pull_secret.expose())?;
    let settings = InfraEnvUpdateParams {
        additional_ntp_sources: params.additional_ntp_sources,
        additional_trust_bundle: params.additional_trust_bundle,
        ignition_config_override: params.ignition_config_override,
        image_type: params.image_type,
        kernel_arguments: params.kernel_arguments,
        mirror_registry_configuration: params.mirror_registry_configuration,
        network_discovery_delay_seconds: params.network_discovery_delay_seconds,
        ntp_sources: params.ntp_sources,
        openshift_version: params.openshift_version,
        os_stream: params.os_stream,
        proxy: params.proxy,
        pull_secret: Some(params.pull_secret),
        rendezvous_ip: params.rendezvous_ip,
        ssh_authorized_key: params.ssh_authorized_key,
        static_network_config: params.static_network_config,
    };
    infra_env_settings::apply(&mut InfraEnvRecord::default(), settings).map(drop)
}

/// What a plan says of addresses.
struct Addresses<'a> {
    rack: &'a Rack,
    /// The addresses of each host, and whether it gets others from somebody else.
    of_hosts: Vec<(&'a PlannedHost, Vec<IpAddr>, bool)>,
    machine_networks: Vec<Cidr>,
    /// The virtual addresses, with their names.
    virtual_ones: Vec<(&'static str, IpAddr)>,
}

impl<'a> Addresses<'a> {
    fn new(rack: &'a Rack) -> Self {
        let networks: Vec<Network> = rack.infra_env.static_network_config.iter().flatten().map(Network::new).collect();
        let of_host = |host: &'a PlannedHost| {
            let own = networks.iter().filter(|network| !network.macs.is_disjoint(&host.macs));
            let own: Vec<&Network> = own.collect();
            let is_dynamic = own.is_empty() || own.iter().any(|network| network.is_dynamic);
            (host, own.iter().flat_map(|network| network.addresses.iter().copied()).collect(), is_dynamic)
        };
        let cluster = &rack.cluster;
        let vips = |list: &Option<Vec<Value>>| addresses(list.as_deref().unwrap_or_default()).collect::<Vec<_>>();
        let (api, ingress) = (vips(&cluster.api_vips), vips(&cluster.ingress_vips));
        let machine_networks = cluster.machine_networks.iter().flatten();
        Self {
            rack,
            of_hosts: rack.hosts.iter().map(of_host).collect(),
            machine_networks: machine_networks.filter_map(|network| network.cidr.parse().ok()).collect(),
            virtual_ones: api
                .into_iter()
                .map(|address| ("API", address))
                .chain(ingress.into_iter().map(|address| ("ingress", address)))
                .collect(),
        }
    }

    fn judge(&self) -> Result<(), String> {
        self.one_host_each()?;
        self.virtual_addresses()?;
        self.rendezvous()?;
        self.somebody_is_in_each_network()
    }

    /// The place of a host's address.
    fn owner(&self, address: IpAddr) -> Option<&PlannedHost> {
        self.of_hosts.iter().find(|(_, addresses, _)| addresses.contains(&address)).map(|(host, ..)| *host)
    }

    fn one_host_each(&self) -> Result<(), String> {
        for (index, (host, addresses, _)) in self.of_hosts.iter().enumerate() {
            for (other, others, _) in self.of_hosts.iter().skip(index + 1) {
                if let Some(address) = addresses.iter().find(|address| others.contains(address)) {
                    return Err(format!("{} and {} both have the address {address}", host.place, other.place));
                }
            }
        }
        Ok(())
    }

    fn networks(&self) -> String {
        self.machine_networks.iter().map(Cidr::to_string).collect::<Vec<_>>().join(", ")
    }

    fn is_outside(&self, address: IpAddr) -> bool {
        let mut same_family =
            self.machine_networks.iter().filter(|network| network.address.is_ipv6() == address.is_ipv6()).peekable();
        same_family.peek().is_some() && !same_family.any(|network| network.contains(address))
    }

    fn virtual_addresses(&self) -> Result<(), String> {
        for (name, address) in &self.virtual_ones {
            if let Some(host) = self.owner(*address) {
                return Err(format!("the {name} address {address} is that of a host too, at {}", host.place));
            }
            if self.is_outside(*address) {
                return Err(format!(
                    "the {name} address {address} is outside the machine network, {}",
                    self.networks()
                ));
            }
        }
        Ok(())
    }

    fn rendezvous(&self) -> Result<(), String> {
        let Some(address) = self.rack.address.filter(|_| self.rack.existing.is_none()) else { return Ok(()) };
        // A service that listens on this machine alone, as tests have it.
        if address.is_loopback() {
            return Ok(());
        }
        if let Some((name, _)) = self.virtual_ones.iter().find(|(_, own)| *own == address) {
            return Err(format!("the rendezvousIP {address} is the {name} address too: give a host's own"));
        }
        if self.is_outside(address) {
            return Err(format!("the rendezvousIP {address} is outside the machine network, {}", self.networks()));
        }
        match self.owner(address) {
            Some(host) if host.role == HostRole::Worker => {
                Err(format!("the rendezvousIP {address} is that of a worker, at {}: give a master's", host.place))
            }
            Some(_) => Ok(()),
            None if self.of_hosts.len() < self.rack.total || self.of_hosts.iter().any(|(.., dynamic)| *dynamic) => {
                Ok(())
            }
            None => {
                let given = self.of_hosts.iter().flat_map(|(_, addresses, _)| addresses).map(IpAddr::to_string);
                let given: Vec<String> = given.collect();
                Err(format!(
                    "no host of the plan has the rendezvousIP {address}: their networks give {}",
                    given.join(", ")
                ))
            }
        }
    }

    fn somebody_is_in_each_network(&self) -> Result<(), String> {
        let may_be_anywhere =
            self.of_hosts.len() < self.rack.total || self.of_hosts.iter().any(|(.., is_dynamic)| *is_dynamic);
        let is_empty = |network: &&Cidr| {
            !self.of_hosts.iter().any(|(_, addresses, _)| addresses.iter().any(|address| network.contains(*address)))
        };
        match self.machine_networks.iter().find(is_empty).filter(|_| !may_be_anywhere) {
            Some(network) => Err(format!("no host of the plan has an address in the machine network {network}")),
            None => Ok(()),
        }
    }
}

/// The network of a machine.
struct Network {
    macs: BTreeSet<Mac>,
    addresses: Vec<IpAddr>,
    /// It has addresses of somebody else too.
    is_dynamic: bool,
}

impl Network {
    fn new(document: &Value) -> Self {
        let map = document.get("mac_interface_map").and_then(Value::as_array).into_iter().flatten();
        let macs = map.filter_map(|entry| at(entry, "/mac_address").parse().ok()).collect();
        let mut network = Self { macs, addresses: Vec::new(), is_dynamic: false };
        let text = at(document, "/network_yaml");
        let documents: Vec<Value> = yaml::documents(text.as_bytes(), MAX_NETWORK_BYTES).unwrap_or_default();
        let interfaces = documents.iter().filter_map(|document| document.get("interfaces")?.as_array()).flatten();
        for family in interfaces.flat_map(|interface| ["ipv4", "ipv6"].map(|name| interface.get(name))).flatten() {
            let is_on = |name: &str| family.get(name) == Some(&Value::Bool(true));
            network.is_dynamic |= is_on("enabled") && (is_on("dhcp") || is_on("autoconf"));
            let list = family.get("address").and_then(Value::as_array).into_iter().flatten();
            network.addresses.extend(list.filter_map(|entry| at(entry, "/ip").parse::<IpAddr>().ok()));
        }
        network
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
