use super::*;
use crate::mirrors::Mirrors;
use crate::rendezvous::{Rendezvous, as_json, lines, read::parse};
use api::HostRole;

const ZTP: &str = r#"
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: rack-1, namespace: rack}
spec:
  clusterName: rack
  baseDomain: example.com
  pullSecretRef: {name: registry}
  platform: {agentBareMetal: {agentSelector: {}}}
  clusterInstallRef: {kind: AgentClusterInstall, name: rack, group: x, version: v1beta1}
---
apiVersion: extensions.hive.openshift.io/v1beta1
kind: AgentClusterInstall
metadata: {name: rack}
spec:
  clusterDeploymentRef: {name: rack-1}
  imageSetRef: {name: v4}
  platformType: None
  sshPublicKey: ssh-ed25519 AAAA key
  networking:
    clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
    serviceNetwork: [172.30.0.0/16]
    machineNetwork: [{cidr: 192.168.7.0/24}]
  provisionRequirements: {controlPlaneAgents: 2, workerAgents: 1}
  fancy: 7
---
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: v4}
spec: {releaseImage: "quay.io/ocp-release:4.22.1-x86_64"}
---
apiVersion: v1
kind: Secret
metadata: {name: registry}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{"q":{"auth":"aHVudGVyMg=="}}}'}
---
kind: InfraEnv
metadata: {name: rack}
spec:
  sshAuthorizedKey: ssh-ed25519 BBBB live
  additionalNTPSources: [192.0.2.5, ntp.example.com]
---
kind: NMStateConfig
metadata: {name: one}
spec:
  interfaces: [{name: eth0, macAddress: "52:54:00:00:00:01"}]
  config:
    interfaces: [{name: eth0, type: ethernet, state: up}]
---
kind: BareMetalHost
metadata:
  name: one
  annotations:
    bmac.agent-install.openshift.io/hostname: node-1
    bmac.agent-install.openshift.io/role: master
spec: {bootMACAddress: "52:54:00:00:00:01", rootDeviceHints: {serialNumber: S1}, online: true}
---
kind: ConfigMap
metadata: {name: other}
data: {a: b}
"#;

const AGENT: &str = r#"
rendezvousIP = "192.168.7.10"
[[hosts]]
hostname = "node-2"
role = "worker"
interfaces = [{name = "eno1", macAddress = "52:54:00:00:00:02"}]
rootDeviceHints = {deviceName = "/dev/sda", minSizeGigabytes = 10}
"#;

const INSTALL: &str = r#"
apiVersion: v1
metadata: {name: rack}
baseDomain: example.com
controlPlane: {name: master, replicas: 3}
compute: [{name: worker, replicas: 0}]
platform: {baremetal: {apiVIPs: [192.168.7.2], ingressVIPs: [192.168.7.3]}}
pullSecret: '{"auths":{"q":{"auth":"aHVudGVyMg=="}}}'
sshKey: ssh-ed25519 AAAA key
"#;

fn planned(files: &[(&str, &str)]) -> Result<Rack, String> {
    let documents: Result<Vec<_>, _> = files.iter().map(|(name, text)| parse(name, text)).collect();
    let documents = documents.map_err(|error| error.to_string())?.concat();
    plan(&documents, None).map_err(|error| error.to_string())
}

#[test]
fn manifests_and_an_agent_config_make_one_plan() {
    let rack = planned(&[("a.yaml", ZTP), ("b.toml", AGENT)]).unwrap();
    let cluster = &rack.cluster;
    assert_eq!((cluster.name.as_str(), cluster.base_dns_domain.as_deref()), ("rack", Some("example.com")));
    assert_eq!((cluster.openshift_version.as_str(), cluster.control_plane_count), ("4.22.1", Some(2)));
    assert_eq!(cluster.user_managed_networking, Some(true));
    assert_eq!(cluster.machine_networks.as_ref().unwrap()[0].cidr, "192.168.7.0/24");
    assert!(cluster.pull_secret.expose().contains("auths"));
    assert_eq!(rack.infra_env.additional_ntp_sources.as_deref(), Some("192.0.2.5,ntp.example.com"));
    assert_eq!(rack.infra_env.ssh_authorized_key.as_deref(), Some("ssh-ed25519 BBBB live"));
    assert_eq!(rack.infra_env.static_network_config.as_ref().unwrap().len(), 1);
    assert_eq!((rack.masters, rack.total, rack.address), (2, 3, Some([192, 168, 7, 10].into())));
    assert_eq!(rack.infra_env.rendezvous_ip, None, "an infra-env has one only for an image that carries the service");
    let [one, two] = rack.hosts.as_slice() else { panic!("{:?}", rack.hosts) };
    assert_eq!(
        (one.name.as_str(), one.role, two.name.as_str(), two.role),
        ("node-1", HostRole::Master, "node-2", HostRole::Worker)
    );
    assert_eq!(one.installer_args, ["--copy-network"]);
    assert_eq!((one.hints.serial_number.as_deref(), two.hints.min_size_gigabytes), (Some("S1"), Some(10)));
    let warnings = ["a.yaml: ignoring the unknown kind 'ConfigMap'", "a.yaml: spec.fancy: ignoring an unknown field"];
    assert_eq!(rack.warnings, warnings);

    // What is shown has no credentials, and names everybody.
    let rendezvous = Rendezvous::new(rack.clone(), None);
    let shown = format!("{}{:?}", as_json(&rendezvous), lines(&rendezvous));
    assert!(!shown.contains("aHVudGVyMg") && shown.contains("node-2") && shown.contains("spec.fancy"), "{shown}");
    assert_eq!(rendezvous.cluster, Rendezvous::new(rack, None).cluster, "a restart finds its records");
    assert_eq!(rendezvous.cluster.0.get_version_num(), 8);
}

#[test]
fn config_maps_have_the_mirrors_that_a_cluster_and_an_infra_env_refer_to() {
    let text = ZTP
        .replace(
            "  clusterDeploymentRef:",
            "  mirrorRegistryRef: {name: one, namespace: rack}\n  clusterDeploymentRef:",
        )
        .replace("  sshAuthorizedKey:", "  mirrorRegistryRef: {name: two, namespace: rack}\n  sshAuthorizedKey:");
    let map = |name: &str, data: &Value| format!("---\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {data}\n");
    let conf = "[[registry]]\nlocation = 'quay.io'\nmirror = [{location = 'm'}]\n";
    let all = format!(
        "{text}{}{}",
        map("one", &json!({"registries.conf": conf})),
        map("two", &json!({"registries.conf": conf.replace("'m'", "'n'")}))
    );
    let rack = planned(&[("a.yaml", &all), ("b.toml", AGENT)]).unwrap();
    let of_cluster = rack.cluster.mirror_registry_configuration.unwrap();
    assert_eq!((of_cluster.registries_conf.as_str(), of_cluster.ca_bundle.as_str()), (conf, ""));
    let of_infra_env = rack.infra_env.mirror_registry_configuration.unwrap();
    assert_eq!(of_infra_env.registries_conf, conf.replace("'m'", "'n'"));
    assert_eq!(rack.warnings[0], "a.yaml: ignoring the unknown kind 'ConfigMap'", "the one without mirrors");
    for (data, why) in [
        (json!({"registries.conf": conf}), "names 'two', which is missing or has no registries.conf"),
        (
            json!({"registries.conf": "[[registry]]"}),
            "data.registries.conf: failed to find any image mirrors in registry.conf",
        ),
        (json!({"registries.conf": conf, "ca-bundle.crt": "x"}), "data.registries.conf: ca_bundle: invalid block"),
    ] {
        let error = planned(&[("a.yaml", &format!("{text}{}", map("one", &data))), ("b.toml", AGENT)]).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn an_install_configuration_has_mirrors_for_the_cluster_and_its_hosts() {
    let sources = "[{source: quay.io/a, mirrors: [m:5000/a, n/a]}, {source: quay.io/b}]";
    let version = ("v.yml", "kind: ClusterImageSet\nmetadata: {name: v}\nspec: {releaseImage: 'r:4.16.3'}\n");
    for name in ["imageDigestSources", "imageContentSources"] {
        let text = format!("{INSTALL}{name}: {sources}\n");
        let rack = planned(&[("i.yaml", &text), version]).unwrap();
        let mirrors = rack.cluster.mirror_registry_configuration.unwrap();
        let read = Mirrors::read(&mirrors.registries_conf, "").unwrap();
        assert_eq!(read.digest, [("quay.io/a".to_owned(), vec!["m:5000/a".to_owned(), "n/a".to_owned()])]);
        assert_eq!(rack.infra_env.mirror_registry_configuration, Some(mirrors));
        assert!(!rack.warnings.iter().any(|warning| warning.contains(name)), "{:?}", rack.warnings);
    }
    for (sources, why) in [
        ("[{mirrors: [a]}]", "[0].source: is missing"),
        ("[{source: a, mirrors: ['a\"b']}]", "[0].mirrors: 'a\\\"b' is not a registry or repository"),
        ("{source: a}", "a list"),
    ] {
        let text = format!("{INSTALL}imageDigestSources: {sources}\n");
        let error = planned(&[("i.yaml", &text), version]).unwrap_err();
        assert!(error.contains("imageDigestSources") && error.contains(why), "{error}");
    }
    let both = format!("{INSTALL}imageDigestSources: [{{source: a, mirrors: [b]}}]\nimageContentSources: {sources}\n");
    let error = planned(&[("i.yaml", &both), version]).unwrap_err();
    assert!(error.contains("imageContentSources"), "{error}");
}

#[test]
fn an_existing_rack_has_what_its_documents_leave_out() {
    let key = "\n---\nkind: InfraEnv\nspec: {sshAuthorizedKey: ''}\n";
    let without =
        ZTP.replace("kind: Secret", "kind: Other").replace("pullSecretRef: {name: registry}", "installed: true");
    let own_key = without.replace("  sshAuthorizedKey: ssh-ed25519 BBBB live\n", "");
    let changed = |text: &str| changes(&parse("a.yaml", text).unwrap(), None);
    let error = planned(&[("a.yaml", &without)]).unwrap_err();
    assert!(error.starts_with("no pull secret"), "{error}");
    let rack = changed(&own_key).unwrap();
    assert_eq!(rack.infra_env.ssh_authorized_key.as_deref(), Some("ssh-ed25519 AAAA key"), "the cluster's");
    assert_eq!(changed(&(own_key + key)).unwrap().infra_env.ssh_authorized_key, None, "an empty key is none");
    let error = changed(
        &without.replace("clusterName: rack", "clusterName: ''").replace("{name: rack-1, namespace: rack}", "{}"),
    );
    assert!(error.unwrap_err().to_string().starts_with("no cluster name"));
}

#[test]
fn an_install_config_is_enough() {
    let version = "kind: ClusterImageSet\nmetadata: {name: x}\nspec: {releaseImage: 'r.io/x:4.21.0'}";
    let rack = planned(&[("install-config.yaml", INSTALL), ("v.yml", version)]).unwrap();
    assert_eq!((rack.masters, rack.total, rack.address, rack.hosts.len()), (3, 3, None, 0));
    assert_eq!(rack.cluster.platform.as_ref().unwrap().kind, "baremetal");
    assert_eq!(rack.cluster.api_vips.as_ref().unwrap()[0]["ip"], "192.168.7.2");
}

#[test]
fn what_is_missing_wrong_or_contradictory_is_named() {
    let without = |text: &str, gone: &str| text.replace(gone, "");
    let agent = |text: &str| planned(&[("a.yaml", ZTP), ("b.yaml", text)]);
    let rows: Vec<(Result<Rack, String>, &str)> = vec![
        (planned(&[("a.yaml", "a: [")]), "a.yaml is not YAML"),
        (planned(&[("a.toml", "a = [")]), "a.toml is not TOML"),
        (planned(&[("a.json", "{")]), "a.json is not JSON: look at line 1"),
        (planned(&[("a.yaml", "a: b")]), "a.yaml: kind: is missing"),
        (planned(&[("i.yaml", INSTALL)]), "no version to install"),
        (planned(&[("a.yaml", &without(ZTP, "  baseDomain: example.com\n"))]), "no base domain"),
        (
            planned(&[("a.yaml", &ZTP.replace("imageSetRef: {name: v4}", "imageSetRef: {name: v5}"))]),
            "no ClusterImageSet: a.yaml: spec.imageSetRef names 'v5'",
        ),
        (
            planned(&[("a.yaml", &ZTP.replace("pullSecretRef: {name: registry}", "pullSecretRef: {name: other}"))]),
            "no pull secret: a.yaml: spec.pullSecretRef names 'other'",
        ),
        (planned(&[("a.yaml", &without(ZTP, "  platformType: None\n"))]), "no API address"),
        (
            planned(&[("a.yaml", &without(ZTP, "{controlPlaneAgents: 2, workerAgents: 1}"))]),
            "no number of control-plane hosts",
        ),
        (
            planned(&[("a.yaml", &ZTP.replace("controlPlaneAgents: 2", "controlPlaneAgents: two"))]),
            "a.yaml: spec.provisionRequirements.controlPlaneAgents: expected a number, found a text",
        ),
        (
            planned(&[("a.yaml", ZTP), ("i.yaml", &INSTALL.replace("example.com", "example.org"))]),
            "a.yaml: spec.baseDomain and i.yaml: baseDomain differ in base dns domain",
        ),
        (agent("rendezvousIP: nowhere"), "b.yaml: rendezvousIP"),
        (
            agent("rendezvousIP: 1.2.3.4\nhosts: [{hostname: a, interfaces: []}]"),
            "b.yaml: hosts[0].interfaces: is empty",
        ),
        (
            agent("rendezvousIP: 1.2.3.4\nhosts: [{hostname: a, interfaces: [{macAddress: x}]}]"),
            "b.yaml: hosts[0].interfaces[0].macAddress: 'x' is not a MAC",
        ),
        (
            agent("hosts: [{hostname: a, role: king, interfaces: [{macAddress: '52:54:00:00:00:09'}]}]"),
            "b.yaml: hosts[0].role: 'king' is neither",
        ),
        (
            agent("hosts: [{hostname: other, interfaces: [{macAddress: '52:54:00:00:00:01'}]}]"),
            "a.yaml: spec.interfaces and b.yaml: hosts[0].interfaces differ in the name of host node-1",
        ),
        (
            agent("hosts: [{hostname: node-1, interfaces: [{macAddress: '52:54:00:00:00:09'}]}]"),
            "a.yaml: spec.interfaces and b.yaml: hosts[0].interfaces differ in which machine is host 'node-1'",
        ),
        (
            agent(
                "hosts: [{role: worker, interfaces: [{macAddress: '52:54:00:00:00:08'}]}, {role: worker, interfaces: [{macAddress: '52:54:00:00:00:09'}]}]",
            ),
            "the plan is inconsistent: 2 workers are listed, but a.yaml: spec.provisionRequirements.workerAgents asks for 1",
        ),
    ];
    for (found, expected) in rows {
        let error = found.expect_err(expected);
        assert!(error.starts_with(expected), "{error}\n  not: {expected}");
        assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"));
    }
}

#[test]
fn a_plan_that_would_take_for_ever_to_read_is_refused() {
    let error = parse("install-config.yaml", &"{a: ".repeat(150_000)).unwrap_err().to_string();
    assert!(error.starts_with("refused install-config.yaml: it is nested too deeply"), "{error}");
    let error = parse("install-config.yaml", "a: 1\nb: [").unwrap_err().to_string();
    assert!(error.starts_with("install-config.yaml is not YAML: look at line"), "{error}");
}
