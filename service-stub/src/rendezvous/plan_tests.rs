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
  clusterInstallRef: {kind: AgentClusterInstall, name: rack, group: extensions.hive.openshift.io, version: v1beta1}
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
    let idle = [
        "a.yaml: spec.online: does nothing here: power is the business of what boots the machines",
        "a.yaml: the ConfigMap 'other' does nothing here: no document names it",
    ];
    assert_eq!((rack.idle.as_slice(), rack.warnings.len()), (&idle.map(str::to_owned)[..], 0));

    // What is shown has no credentials, and names everybody.
    let rendezvous = Rendezvous::new(rack.clone(), None);
    let shown = format!("{}{:?}", as_json(&rendezvous), lines(&rendezvous));
    assert!(!shown.contains("aHVudGVyMg") && shown.contains("node-2") && shown.contains("spec.online"), "{shown}");
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
    assert_eq!(rack.idle.last().unwrap(), "a.yaml: the ConfigMap 'other' does nothing here: no document names it");
    for (data, why) in [
        (
            json!({"registries.conf": conf}),
            "a.yaml: spec.mirrorRegistryRef.name 'two' names no ConfigMap: there is other, one",
        ),
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
    let without =
        ZTP.replace("kind: Secret", "kind: Other").replace("pullSecretRef: {name: registry}", "preserveOnDelete: true");
    let own_key = without.replace("  sshAuthorizedKey: ssh-ed25519 BBBB live\n", "");
    let changed = |text: &str| changes(&parse("a.yaml", text).unwrap(), None, Unknown::Refused);
    let error = planned(&[("a.yaml", &without)]).unwrap_err();
    assert!(error.starts_with("no pull secret"), "{error}");
    let rack = changed(&own_key).unwrap();
    assert_eq!(rack.infra_env.ssh_authorized_key.as_deref(), Some("ssh-ed25519 AAAA key"), "the cluster's");
    let no_key = without.replace("ssh-ed25519 BBBB live", "''");
    assert_eq!(changed(&no_key).unwrap().infra_env.ssh_authorized_key, None, "an empty key is none");
    let error = changed(
        &without
            .replace("clusterName: rack", "clusterName: ''")
            .replace("{name: rack-1, namespace: rack}", "{}")
            .replace("clusterDeploymentRef: {name: rack-1}", "clusterDeploymentRef: {}"),
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
            "a.yaml: spec.imageSetRef.name 'v5' names no ClusterImageSet: there is v4",
        ),
        (
            planned(&[("a.yaml", &ZTP.replace("pullSecretRef: {name: registry}", "pullSecretRef: {name: other}"))]),
            "a.yaml: spec.pullSecretRef.name 'other' names no Secret: there is registry",
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
            "b.yaml: hosts[0].role: 'king' is none of master, arbiter, worker",
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

/// What a reader says of the ZTP manifests with a change.
fn changed(from: &str, to: &str) -> Result<Rack, String> {
    assert!(ZTP.contains(from), "{from}");
    planned(&[("a.yaml", &ZTP.replacen(from, to, 1))])
}

#[test]
fn nothing_is_dropped_in_silence() {
    for (from, to, expected) in [
        ("  fancy: 7", "", ""),
        (
            "  platformType: None",
            "  platformTyp: None",
            "a.yaml: spec.platformTyp, line 18: is not a field of this document: did you mean 'platformType'?",
        ),
        (
            "kind: ClusterImageSet",
            "kind: ClusterImageSets",
            "a.yaml: kind: 'ClusterImageSets' is not a kind that is read here: did you mean 'ClusterImageSet'?",
        ),
        ("kind: ClusterImageSet", "kind: ClusterImageset", "a.yaml: kind: 'ClusterImageset' is not a kind"),
        (
            "apiVersion: hive.openshift.io/v1\nkind: ClusterImageSet",
            "apiVersion: hive.openshift.io/v2\nkind: ClusterImageSet",
            "a.yaml: apiVersion: 'hive.openshift.io/v2' is not that of a ClusterImageSet: hive.openshift.io/v1",
        ),
        ("online: true", "online: true, online: true", "a.yaml: duplicate key online, line 56, again in line 56"),
        (
            "rootDeviceHints: {serialNumber: S1}",
            "rootDeviceHints: {serialNumbr: S1}",
            "a.yaml: spec.rootDeviceHints.serialNumbr, line 56: is not a field of this document: did you mean 'serialNumber'?",
        ),
        (
            "agent-install.openshift.io/role: master",
            "agent-install.openshift.io/rolle: master",
            "a.yaml: metadata.annotations.bmac.agent-install.openshift.io/rolle: is not read here: did you mean 'bmac.agent-install.openshift.io/role'?",
        ),
        (
            "platformType: None",
            "platformType: None\n  diskEncryption: {mode: tpmv2}",
            "a.yaml: spec.diskEncryption.enableOn: is missing",
        ),
        (
            "online: true",
            "externallyProvisioned: true",
            "a.yaml: spec.externallyProvisioned: is not supported: the machine is another's",
        ),
        (
            "clusterName: rack",
            "clusterName: rack\n  provisioning: {releaseImage: x}",
            "a.yaml: spec.provisioning: is not supported: an AgentClusterInstall installs the cluster",
        ),
        (
            "clusterDeploymentRef: {name: rack-1}",
            "clusterDeploymentRef: {name: other}",
            "a.yaml: spec.clusterDeploymentRef.name 'other' names no ClusterDeployment: there is rack-1",
        ),
        (
            "name: rack, group",
            "name: racks, group",
            "a.yaml: spec.clusterInstallRef.name 'racks' names no AgentClusterInstall: there is rack",
        ),
        (
            "sshAuthorizedKey:",
            "clusterRef: {name: rack-1, namespace: x}\n  sshAuthorizedKey:",
            "a.yaml: spec.clusterRef.name 'rack-1' names no ClusterDeployment of namespace 'x': that of a.yaml is in 'rack'",
        ),
        (
            "sshAuthorizedKey:",
            "nmStateConfigLabelSelector: {matchLabels: {a: b}}\n  sshAuthorizedKey:",
            "a.yaml: spec.nmStateConfigLabelSelector does not select the NMStateConfig 'one' of a.yaml",
        ),
        (
            "sshAuthorizedKey:",
            "agentApproval: {autoApprove: false}\n  sshAuthorizedKey:",
            "a.yaml: spec.agentApproval.autoApprove: hosts are taken as they register",
        ),
    ] {
        if expected.is_empty() {
            continue;
        }
        let error = changed(from, to).expect_err(expected);
        assert!(error.starts_with(expected), "{error}\n  not: {expected}");
    }
}

#[test]
fn documents_of_one_name_or_of_another_cluster_are_refused() {
    let with = |more: &str| planned(&[("a.yaml", ZTP), ("b.yaml", more)]).unwrap_err();
    let set = "apiVersion: hive.openshift.io/v1\nkind: ClusterImageSet\nmetadata: {name: v4}\nspec: {releaseImage: 'r:4.21.0'}\n";
    assert_eq!(with(set), "a.yaml and b.yaml differ in the ClusterImageSet 'v4': remove one of them");
    let other = "kind: AgentClusterInstall\nmetadata: {name: other}\nspec: {clusterDeploymentRef: {name: other}, holdInstallation: true}\n";
    assert_eq!(
        with(other),
        "b.yaml: spec.clusterDeploymentRef.name 'other' names no ClusterDeployment: there is rack-1"
    );
    let two = "kind: ClusterDeployment\nmetadata: {name: other}\nspec: {clusterName: rack}\n";
    assert!(with(two).contains("a plan is of one cluster"), "{}", with(two));
    let secret = "kind: Secret\nmetadata: {name: registry, namespace: elsewhere}\nstringData: {a: b}\n";
    let named = ZTP.replace("metadata: {name: registry}", "metadata: {name: registry, namespace: rack}");
    assert!(planned(&[("a.yaml", &named), ("b.yaml", secret)]).is_ok(), "another namespace's");
    let twin = secret.replace("elsewhere", "rack");
    assert!(with(&twin).contains("'registry' may be the Secret of a.yaml or that of b.yaml: "), "{}", with(&twin));
}

#[test]
fn settings_of_the_published_schemas_are_the_clusters() {
    let text = ZTP
        .replace(
            "  platformType: None\n",
            "  platformType: None\n  diskEncryption: {enableOn: all, mode: tpmv2}\n  loadBalancer: {type: UserManaged}\n  ntpSources: [192.0.2.9]\n  controlPlane: {name: master, hyperthreading: Disabled}\n  manifestsConfigMapRefs: [{name: other}]\n",
        )
        .replace(
            "metadata: {name: rack}\nspec:\n  clusterDeploymentRef",
            "metadata:\n  name: rack\n  annotations: {agent-install.openshift.io/install-config-overrides: '{\"fips\":true}'}\nspec:\n  clusterDeploymentRef",
        )
        .replace("  sshAuthorizedKey", "  networkDiscoveryDelaySeconds: 90\n  osImageVersion: '4.21'\n  imageType: minimal-iso\n  sshAuthorizedKey")
        .replace(
            "    bmac.agent-install.openshift.io/role: master",
            "    bmac.agent-install.openshift.io/role: master\n    bmac.agent-install.openshift.io/machine-config-pool: gpu\n    bmac.agent-install.openshift.io.node-label.rack: '7'",
        );
    let rack = planned(&[("a.yaml", &text)]).unwrap();
    let cluster = json!(rack.cluster);
    assert_eq!(cluster["disk_encryption"], json!({"enable_on": "all", "mode": "tpmv2"}));
    assert_eq!(cluster["load_balancer"], json!({"type": "user-managed"}));
    assert_eq!((&cluster["ntp_sources"], &cluster["hyperthreading"]), (&"192.0.2.9".into(), &"workers".into()));
    assert_eq!(rack.overrides, r#"{"fips":true}"#);
    assert_eq!((rack.manifests[0].file(), rack.manifests[0].content()), ("a", "b"));
    let infra_env = json!(rack.infra_env);
    assert_eq!(infra_env["network_discovery_delay_seconds"], 90);
    assert_eq!((&infra_env["openshift_version"], &infra_env["image_type"]), (&"4.21".into(), &"minimal-iso".into()));
    let host = &rack.hosts[0];
    assert_eq!((host.pool.as_str(), &host.labels["rack"]), ("gpu", &"7".to_owned()));

    let install = format!("{INSTALL}fips: true\ncapabilities: {{baselineCapabilitySet: None}}\n")
        .replace("replicas: 3}", "replicas: 3, hyperthreading: Disabled}");
    let version = ("v.yml", "kind: ClusterImageSet\nmetadata: {name: v}\nspec: {releaseImage: 'r:4.16.3'}\n");
    let rack = planned(&[("i.yaml", &install), version]).unwrap();
    assert_eq!(rack.cluster.hyperthreading.as_deref(), Some("none"));
    assert_eq!(rack.overrides, r#"{"capabilities":{"baselineCapabilitySet":"None"},"fips":true}"#);
    for (field, expected) in [
        ("fisp: true", "i.yaml: fisp, line 10: is not a field of this document: did you mean 'fips'?"),
        ("bootstrapInPlace: {installationDisk: /dev/sda}", "i.yaml: bootstrapInPlace: is not supported: give the disk"),
        (
            "capabilities: {baseline: None}",
            "i.yaml: fips: has no effect: an install configuration has no 'capabilities.baseline'",
        ),
    ] {
        let error = planned(&[("i.yaml", &format!("{INSTALL}{field}\n")), version]).unwrap_err();
        assert!(error.starts_with(expected), "{error}\n  not: {expected}");
    }
}

#[test]
fn what_is_unknown_can_be_ignored_but_never_about_machines_disks_and_safety() {
    let read = |text: &str| {
        plan_with(&parse("a.yaml", text).unwrap(), None, Unknown::Ignored).map_err(|error| error.to_string())
    };
    let rack = read(&ZTP.replace("platformType: None", "platformType: None\n  fancy: 7")).unwrap();
    assert_eq!(rack.warnings, ["ignored as asked: a.yaml: spec.fancy, line 19: is not a field of this document"]);
    for (from, to) in [
        ("{serialNumber: S1}", "{serialNumbr: S1}"),
        ("platformType: None", "platformType: None\n  diskEncrption: {enableOn: all}"),
        ("online: true", "rootDeviceHint: {serialNumber: S1}"),
    ] {
        assert!(read(&ZTP.replace(from, to)).is_err(), "{to}");
    }
}

#[test]
fn a_version_that_is_given_twice_is_not_chosen() {
    let rack = "hosts = 1\nversion = \"4.19\"\n";
    let read = |version: Option<&str>| {
        plan(&parse("rack.toml", rack).unwrap(), version).map(|rack| rack.cluster.openshift_version)
    };
    assert_eq!(read(None).unwrap(), "4.19");
    let error = read(Some("4.20")).unwrap_err().to_string();
    assert_eq!(
        error,
        "rack.toml: version and --openshift-version differ in the version to install, 4.19 and 4.20: remove one of them"
    );
    let plain = plan(&parse("rack.toml", "hosts = 1\n").unwrap(), None).unwrap();
    assert_eq!(plain.cluster.openshift_version, "4.20");
    let error = parse("rack.toml", "hosts = 1\nhosts = 3\n").unwrap_err().to_string();
    assert_eq!(error, "rack.toml: duplicate key hosts, line 2");
    let error = parse("rack.json", "{\"hosts\": 1,\n\"hosts\": 3}").unwrap_err().to_string();
    assert_eq!(error, "rack.json: duplicate key hosts, line 1, again in line 2");
}
