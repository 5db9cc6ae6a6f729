//! Writes the documents that `kinds` reads: a rack on a service as manifests that change nothing of it.

use super::draft::MANIFESTS;
use crate::planned::Hints;
use crate::text::{at, number_at, plain};
use api::{Host, HostRole, Inventory, Mac};
use base64::{Engine, prelude::BASE64_STANDARD};
use ignition::yaml;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Settings that no document has a field for, and their defaults.
const INEXPRESSIBLE: [(&str, &str); 2] = [("/additional_ntp_source", ""), ("/os_stream", "")];
/// A longer network config is written as text.
const MAX_NETWORK_BYTES: usize = 1 << 20;

/// A cluster with its hosts and its infra-env, as the service shows them. Comments name what is left out, above all secrets.
pub(crate) fn manifests(
    cluster: &Value,
    infra_env: Option<&Value>,
    files: &[UsersManifest],
) -> Result<String, serde_norway::Error> {
    let name = at(cluster, "/name");
    let hosts = cluster.get("hosts").and_then(Value::as_array).into_iter().flatten();
    let (hosts, shown): (Vec<Host>, Vec<&Value>) =
        hosts.filter_map(|host| Some((serde_json::from_value(host.clone()).ok()?, host))).unzip();
    let mut rack = Manifests::default();
    rack.left_out("the pull secret: a new cluster needs a Secret with .dockerconfigjson");
    rack.hosts(&hosts, &shown);
    match infra_env {
        Some(infra_env) => rack.networks(infra_env, &hosts),
        None => rack.left_out("the infra-env: none is bound to the cluster, and apply would create one"),
    }
    rack.settings_of_hosts(cluster);
    let files = rack.files(files, name);
    let mut documents = rack.cluster(cluster, &hosts, files.is_some());
    documents.extend(endpoint_authority(cluster));
    documents.extend(files);
    documents.extend(infra_env.map(|infra_env| rack.infra_env(infra_env, name)));
    documents.extend(config_map(cluster, &cluster_mirrors(name)));
    documents.extend(infra_env.and_then(|infra_env| config_map(infra_env, &infra_env_mirrors(infra_env))));
    let mut text = format!("# Cluster {}, as `landfall apply -f` reads it. Left out:\n", plain(name));
    rack.left_out.iter().for_each(|what| text.push_str(&format!("# - {what}\n")));
    for document in documents.iter().chain(&rack.machines).chain(&rack.networks) {
        text.push_str("---\n");
        text.push_str(&serde_norway::to_string(document)?);
    }
    Ok(text)
}

/// A manifest that a user added to the cluster.
#[derive(Clone, Debug)]
pub(crate) struct UsersManifest {
    pub(crate) folder: String,
    pub(crate) file: String,
    pub(crate) content: Vec<u8>,
}

#[derive(Default)]
struct Manifests {
    /// A comment on each.
    left_out: Vec<String>,
    machines: Vec<Value>,
    /// After the machines, whose installer arguments have `--copy-network` at its place.
    networks: Vec<Value>,
    /// Machines of networks that have not registered.
    awaited: u64,
}

impl Manifests {
    fn left_out(&mut self, what: &str) {
        self.left_out.push(plain(what));
    }

    /// Settings of hosts that no document has a field for.
    fn settings_of_hosts(&mut self, cluster: &Value) {
        for host in cluster.get("hosts").and_then(Value::as_array).into_iter().flatten() {
            for (field, what) in [
                ("skip_formatting_disks", "the disks that stay as they are"),
                ("fencing_credentials", "the fencing credentials"),
                ("ignition_endpoint_token_set", "the token for the ignition endpoint"),
                ("ignition_endpoint_http_headers", "the headers for the ignition endpoint"),
            ] {
                let value = host.get(field).unwrap_or(&Value::Null);
                if !matches!(value, Value::Null | Value::Bool(false)) && value != "" {
                    self.left_out(&format!("{what} of host {}", at(host, "/id")));
                }
            }
        }
        for operator in cluster.get("monitored_operators").and_then(Value::as_array).into_iter().flatten() {
            if at(operator, "/operator_type") == "olm" {
                self.left_out(&format!("the operator {}", at(operator, "/name")));
            }
        }
    }

    /// The user's manifests, in a ConfigMap.
    fn files(&mut self, files: &[UsersManifest], name: &str) -> Option<Value> {
        let mut data = Map::new();
        for UsersManifest { folder, file, content } in files {
            match str::from_utf8(content) {
                Ok(text) if folder == MANIFESTS => drop(data.insert(file.clone(), text.into())),
                _ => self.left_out(&format!("the manifest {folder}/{file}")),
            }
        }
        let name = manifests_name(name);
        (!data.is_empty())
            .then(|| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}))
    }

    /// What is decoded over the install configuration, unless it may hold a secret.
    fn overrides<'a>(&mut self, cluster: &'a Value) -> &'a str {
        let text = at(cluster, "/install_config_overrides");
        let lower = text.to_lowercase();
        if ["password", "secret", "token", "credential"].iter().any(|word| lower.contains(word)) {
            self.left_out("the overrides of the install configuration, which may hold a secret");
            return "";
        }
        text
    }

    fn cluster(&mut self, cluster: &Value, hosts: &[Host], has_files: bool) -> Vec<Value> {
        let name = at(cluster, "/name");
        let texts = |list: &str, field: &str| -> Vec<Value> {
            let all = cluster.get(list).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(|entry| entry.get(field).cloned()).collect()
        };
        let image = at(cluster, "/ocp_release_image");
        if image.is_empty() {
            let version = at(cluster, "/openshift_version");
            self.left_out(&format!("the version, {version}: for a new cluster apply takes --openshift-version"));
        }
        for (pointer, default) in INEXPRESSIBLE {
            if !["", default].contains(&at(cluster, pointer)) {
                self.left_out(&format!(
                    "a setting without a field in these documents: {}",
                    pointer.trim_start_matches('/')
                ));
            }
        }
        let of_role = |role: HostRole| count(hosts.iter().filter(|host| host.role == role));
        let single = at(cluster, "/high_availability_mode") == "None";
        let masters = match number_at(cluster, "/control_plane_count") {
            0 if single => 1,
            0 => 3,
            masters => masters,
        };
        let masters = masters.max(of_role(HostRole::Master));
        let others =
            (count(self.machines.iter()) + self.awaited).saturating_sub(masters).max(of_role(HostRole::Worker));
        let platform = match at(cluster, "/platform/type") {
            "baremetal" => "BareMetal",
            "none" => "None",
            other => other,
        };
        let flag = |field: &str| cluster.get(field).filter(|flag| **flag == json!(true)).cloned();
        let pods = cluster.get("cluster_networks").and_then(Value::as_array).into_iter().flatten();
        let pods: Vec<Value> =
            pods.map(|pods| json!({"cidr": pods.get("cidr"), "hostPrefix": pods.get("host_prefix")})).collect();
        let machines = texts("machine_networks", "cidr").into_iter().map(|cidr| json!({"cidr": cidr}));
        let proxy =
            self.proxy(["http_proxy", "https_proxy", "no_proxy"].map(|field| at(cluster, &format!("/{field}"))));
        let overrides = self.overrides(cluster);
        let encryption = match at(cluster, "/disk_encryption/enable_on") {
            "" | "none" => Value::Null,
            on => json!({
                "enableOn": on,
                "mode": at(cluster, "/disk_encryption/mode"),
                "tangServers": at(cluster, "/disk_encryption/tang_servers"),
            }),
        };
        let balancer = match at(cluster, "/load_balancer/type") {
            "user-managed" => "UserManaged",
            _ => "",
        };
        let endpoint = json!({
            "url": at(cluster, "/ignition_endpoint/url"),
            "caCertificateReference": {"name": endpoint_authority(cluster).map(|_| endpoint_authority_name(name))},
        });
        let [masters_threads, arbiters_threads, workers_threads] = threads(at(cluster, "/hyperthreading"));
        let pool =
            |pool: &str, threads: &str| (!threads.is_empty()).then(|| json!({"name": pool, "hyperthreading": threads}));
        let manifests: Vec<Value> = if has_files { vec![json!({"name": manifests_name(name)})] } else { Vec::new() };
        let sources: Vec<&str> = at(cluster, "/ntp_sources").split(',').filter(|source| !source.is_empty()).collect();
        let mut documents = vec![
            document(
                "hive.openshift.io/v1",
                "ClusterDeployment",
                name,
                json!({"clusterName": name, "baseDomain": at(cluster, "/base_dns_domain"),
                    "clusterInstallRef": {"group": "extensions.hive.openshift.io", "version": "v1beta1",
                        "kind": "AgentClusterInstall", "name": name}}),
            ),
            document(
                "extensions.hive.openshift.io/v1beta1",
                "AgentClusterInstall",
                name,
                json!({
                    "clusterDeploymentRef": {"name": name},
                    "imageSetRef": {"name": if image.is_empty() { "" } else { name }},
                    "platformType": platform,
                    "sshPublicKey": at(cluster, "/ssh_public_key"),
                    "mastersSchedulable": flag("schedulable_masters"),
                    "mirrorRegistryRef": {"name": config_map_name(cluster, cluster_mirrors(name))},
                    "diskEncryption": encryption,
                    "loadBalancer": {"type": balancer},
                    "ignitionEndpoint": if at(&endpoint, "/url").is_empty() { Value::Null } else { endpoint },
                    "controlPlane": pool("master", masters_threads),
                    "arbiter": pool("arbiter", arbiters_threads),
                    "compute": pool("worker", workers_threads).into_iter().collect::<Vec<_>>(),
                    "manifestsConfigMapRefs": manifests,
                    "ntpSources": sources,
                    "apiVIPs": texts("api_vips", "ip"),
                    "ingressVIPs": texts("ingress_vips", "ip"),
                    "proxy": proxy,
                    "networking": {
                        "networkType": at(cluster, "/network_type"),
                        "userManagedNetworking": flag("user_managed_networking"),
                        "clusterNetwork": pods,
                        "serviceNetwork": texts("service_networks", "cidr"),
                        "machineNetwork": machines.collect::<Vec<_>>(),
                    },
                    "provisionRequirements": {"controlPlaneAgents": masters, "workerAgents": others},
                }),
            ),
        ];
        if let Some(metadata) = documents.get_mut(1).and_then(|install| install.get_mut("metadata")) {
            metadata["annotations"] = json!({"agent-install.openshift.io/install-config-overrides": overrides});
            metadata["labels"] =
                json!({"agentclusterinstalls.agent-install.openshift.io/consumer": at(cluster, "/tags")});
            *metadata = filled(metadata.take());
        }
        if !image.is_empty() {
            documents.push(document("hive.openshift.io/v1", "ClusterImageSet", name, json!({"releaseImage": image})));
        }
        documents
    }

    fn infra_env(&mut self, infra_env: &Value, cluster: &str) -> Value {
        let sources: Vec<&str> = at(infra_env, "/additional_ntp_sources").split(',').collect();
        let arguments: Value = serde_json::from_str(at(infra_env, "/kernel_arguments")).unwrap_or_default();
        let proxy = self
            .proxy(["http_proxy", "https_proxy", "no_proxy"].map(|field| at(infra_env, &format!("/proxy/{field}"))));
        let only: Vec<&str> = at(infra_env, "/ntp_sources").split(',').filter(|source| !source.is_empty()).collect();
        let image_type = at(infra_env, "/type");
        if !at(infra_env, "/rendezvous_ip").is_empty() {
            self.left_out("the rendezvous address of the image");
        }
        if !at(infra_env, "/os_stream").is_empty() {
            self.left_out(&format!("the release stream of the image, {}", plain(at(infra_env, "/os_stream"))));
        }
        let mut document = document(
            "agent-install.openshift.io/v1beta1",
            "InfraEnv",
            at(infra_env, "/name"),
            json!({
                "clusterRef": {"name": cluster},
                "cpuArchitecture": at(infra_env, "/cpu_architecture"),
                "additionalNTPSources": if sources == [""] { Vec::new() } else { sources },
                "additionalTrustBundle": at(infra_env, "/additional_trust_bundle"),
                "ignitionConfigOverride": at(infra_env, "/ignition_config_override"),
                "imageType": if image_type == "full-iso" { "" } else { image_type },
                "networkDiscoveryDelaySeconds": infra_env.get("network_discovery_delay_seconds"),
                "ntpSources": only,
                "kernelArguments": arguments,
                "mirrorRegistryRef": {"name": config_map_name(infra_env, infra_env_mirrors(infra_env))},
                "proxy": proxy,
            }),
        );
        // An empty key too: without the field it is the cluster's.
        if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("sshAuthorizedKey".into(), at(infra_env, "/ssh_authorized_key").into());
        }
        document
    }

    /// A URL may have a password in it.
    fn proxy(&mut self, [http, https, no]: [&str; 3]) -> Value {
        let mut public = |url: &str| {
            if url.contains('@') {
                self.left_out(&format!("the password of a proxy, with its URL {}", api::http::public_url(url)));
                return String::new();
            }
            url.to_owned()
        };
        json!({"httpProxy": public(http), "httpsProxy": public(https), "noProxy": no})
    }

    fn hosts(&mut self, hosts: &[Host], all_shown: &[&Value]) {
        let mut known = (BTreeSet::new(), BTreeSet::new());
        for (host, shown) in hosts.iter().zip(all_shown) {
            let inventory: Inventory = serde_json::from_str(&host.inventory).unwrap_or_default();
            let id = host.id.to_string();
            let Some(mac) = macs(&inventory).into_iter().find(|mac| known.0.insert(*mac)) else {
                self.left_out(&format!("host {id}: no MAC address is known that only it has"));
                continue;
            };
            let mut name = host.requested_hostname.as_str();
            if name == id || !known.1.insert(name) {
                name = "";
            }
            let role =
                matches!(host.role, HostRole::Master | HostRole::Arbiter | HostRole::Worker).then_some(host.role);
            let args: Vec<String> = serde_json::from_str(&host.installer_args).unwrap_or_default();
            let args = if args.is_empty() { "" } else { &host.installer_args };
            let note = |name: &str| format!("bmac.agent-install.openshift.io/{name}");
            let mut metadata = json!({
                "name": if name.is_empty() { &id } else { name },
                "annotations": {
                    note("hostname"): name,
                    note("role"): role,
                    note("installer-args"): args,
                    note("ignition-config-overrides"): host.ignition_config_overrides,
                },
            });
            metadata["annotations"][note("machine-config-pool")] = at(shown, "/machine_config_pool_name").into();
            let labels: Map<String, Value> = serde_json::from_str(at(shown, "/node_labels")).unwrap_or_default();
            for (label, value) in labels {
                metadata["annotations"][format!("bmac.agent-install.openshift.io.node-label.{label}")] = value;
            }
            let spec =
                json!({"bootMACAddress": mac.to_string(), "online": true, "rootDeviceHints": hints(host, &inventory)});
            self.machines.push(filled(
                json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": metadata, "spec": spec}),
            ));
        }
    }

    fn networks(&mut self, infra_env: &Value, hosts: &[Host]) {
        let networks: Vec<Value> = serde_json::from_str(at(infra_env, "/static_network_config")).unwrap_or_default();
        for (number, network) in networks.iter().enumerate() {
            let map = network.get("mac_interface_map").and_then(Value::as_array).into_iter().flatten();
            let interfaces: Vec<(Mac, &str)> = map
                .filter_map(|entry| Some((at(entry, "/mac_address").parse().ok()?, at(entry, "/logical_nic_name"))))
                .collect();
            let is_of = |host: &&Host| {
                let inventory: Inventory = serde_json::from_str(&host.inventory).unwrap_or_default();
                macs(&inventory).iter().any(|mac| interfaces.iter().any(|(own, _)| own == mac))
            };
            match hosts.iter().find(is_of) {
                None => self.awaited += 1,
                Some(host) if host.installer_args.contains("\"--copy-network\"") => {}
                Some(host) => {
                    // Its document would add the argument.
                    let what = format!("the network of host {}, whose installer does not copy it", host.id);
                    self.left_out(&what);
                    continue;
                }
            }
            let text = at(network, "/network_yaml");
            let parsed = yaml::documents(text.as_bytes(), MAX_NETWORK_BYTES).unwrap_or_default();
            let config = parsed.into_iter().next().filter(Value::is_object).unwrap_or_else(|| text.into());
            let interfaces: Vec<Value> =
                interfaces.iter().map(|(mac, name)| json!({"name": name, "macAddress": mac.to_string()})).collect();
            self.networks.push(json!({
                "apiVersion": "agent-install.openshift.io/v1beta1",
                "kind": "NMStateConfig",
                "metadata": {"name": format!("network-{number}")},
                "spec": {"interfaces": interfaces, "config": config},
            }));
        }
    }
}

/// The words of pools for the roles whose processors have two threads a core; none where all have.
fn threads(roles: &str) -> [&'static str; 3] {
    if ["", "all"].contains(&roles) {
        return [""; 3];
    }
    ["masters", "arbiters", "workers"].map(|role| match roles.split(',').any(|on| on == role) {
        true => "Enabled",
        false => "Disabled",
    })
}

fn manifests_name(name: &str) -> String {
    format!("{name}-manifests")
}

fn endpoint_authority_name(name: &str) -> String {
    format!("{name}-ignition-endpoint")
}

/// The authority of the server where hosts get their configs.
fn endpoint_authority(cluster: &Value) -> Option<Value> {
    let encoded = at(cluster, "/ignition_endpoint/ca_certificate");
    let pem = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok().filter(|pem| !pem.is_empty())?;
    let name = endpoint_authority_name(at(cluster, "/name"));
    Some(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"tls.crt": pem}}))
}

fn cluster_mirrors(name: &str) -> String {
    format!("{name}-mirrors")
}

fn infra_env_mirrors(infra_env: &Value) -> String {
    format!("{}-host-mirrors", at(infra_env, "/name"))
}

/// The name, if the record has mirrors of registries.
fn config_map_name(record: &Value, name: String) -> Option<String> {
    record.get("mirror_registry_configuration").map(|_| name)
}

/// The mirrors of registries of a cluster or an infra-env.
fn config_map(record: &Value, name: &str) -> Option<Value> {
    let mirrors = record.get("mirror_registry_configuration")?;
    let data = json!({"registries.conf": at(mirrors, "/registries_conf"), "ca-bundle.crt": at(mirrors, "/ca_bundle")});
    Some(filled(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})))
}

fn document(version: &str, kind: &str, name: &str, spec: Value) -> Value {
    filled(json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}))
}

/// Without members that say nothing.
fn filled(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    let members = members.into_iter().map(|(name, value)| (name, filled(value)));
    Value::Object(members.filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>())
}

fn count<T>(all: impl Iterator<Item = T>) -> u64 {
    all.map(|_| 1).sum()
}

/// The addresses of its interfaces.
fn macs(inventory: &Inventory) -> Vec<Mac> {
    let macs = inventory.interfaces.iter().filter_map(|nic| nic.mac_address.parse().ok());
    macs.filter(|mac| *mac != Mac([0; 6])).collect()
}

/// Hints that only a host's installation disk fits, by what is least likely to change.
fn hints(host: &Host, inventory: &Inventory) -> Hints {
    let chosen = inventory.disks.iter().find(|disk| disk.path == host.installation_disk_path);
    let Some(disk) = chosen else { return Hints::default() };
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let candidates = [
        Hints { wwn: some(&disk.wwn), ..Hints::default() },
        Hints { serial_number: some(&disk.serial), ..Hints::default() },
        Hints { device_name: some(&disk.by_path), ..Hints::default() },
        Hints { device_name: some(&disk.path), ..Hints::default() },
    ];
    let fits = |hints: &Hints| {
        !hints.is_empty() && matches!(hints.matching(inventory).as_slice(), [only] if only.path == disk.path)
    };
    candidates.into_iter().find(fits).unwrap_or_default()
}
