//! Settings changed after creation, catalogues, and addresses to fetch things by.

use crate::common::{API, Files, Running, certificate_pem, pull_secret, recorded};
use crate::files::World;
use serde_json::{Value, json};

pub(crate) fn cluster(running: &Running) -> String {
    let body = json!({"name": "lab", "openshift_version": "4.22", "pull_secret": pull_secret(),
        "base_dns_domain": "example.com"});
    let answer = running.json("POST", "/v2/clusters", &body);
    assert_eq!(answer.status, 201, "{:?}", answer.document());
    answer.document()["id"].as_str().unwrap().to_owned()
}

pub(crate) fn get(running: &Running, path: &str) -> Value {
    let answer = running.get(&format!("{API}{path}"));
    assert_eq!(answer.status, 200, "{path}: {:?}", String::from_utf8_lossy(&answer.body));
    answer.document()
}

#[test]
fn a_cluster_is_changed_and_shown_changed() {
    let running = Running::start(Files::default());
    let path = format!("/v2/clusters/{}", cluster(&running));
    let change =
        json!({"name": "edge", "http_proxy": "http://p:3128", "service_networks": [{"cidr": "172.29.0.0/16"}]});
    let answer = running.json("PATCH", &path, &change);
    assert_eq!(answer.status, 201, "{:?}", answer.document());
    let shown = get(&running, &path);
    assert_eq!((&shown["name"], &shown["http_proxy"]), (&json!("edge"), &json!("http://p:3128")));
    assert_eq!(shown["service_networks"][0]["cluster_id"], shown["id"]);
    let refused = |body: &Value| running.json("PATCH", &path, body).status;
    assert_eq!(refused(&json!({"nam": "x"})), 400, "an unknown field");
    assert_eq!(refused(&json!({"name": ""})), 400);
    assert_eq!(refused(&json!({"name": null})), 201, "null is as good as absent");
    assert_eq!(running.json("PATCH", "/v2/clusters/7e5ff6df-e038-4103-bbb2-90433ded3e50", &json!({})).status, 404);
    let events = get(&running, "/v2/events");
    assert!(events.as_array().unwrap().iter().any(|event| event["name"] == "proxy_settings_changed"));

    let over = json!("{\"fips\": true}");
    assert_eq!(running.json("PATCH", &format!("{path}/install-config"), &over).status, 201);
    let config = get(&running, &format!("{path}/install-config"));
    let config = config.as_str().unwrap();
    assert!(
        config.contains(r#""fips":true"#) && config.contains(r#""name":"edge""#) && config.contains("auths"),
        "{config}"
    );
    assert_eq!(running.json("PATCH", &format!("{path}/install-config"), &json!("[1]")).status, 400);
    assert_eq!(running.json("PATCH", &format!("{path}/install-config"), &json!({})).status, 400);

    assert_eq!(get(&running, &format!("{path}/ui-settings")), json!(""));
    assert_eq!(running.json("PUT", &format!("{path}/ui-settings"), &json!("{\"a\":1}")).status, 200);
    assert_eq!(get(&running, &format!("{path}/ui-settings")), json!("{\"a\":1}"));
    assert_eq!(get(&running, &format!("{path}/supported-platforms")), json!(["none"]), "without hosts");
    assert_eq!(running.get(&format!("{API}{path}/credentials")).status, 409);
    for address in ["credentials-presigned?file_name=kubeconfig", "files-presigned?file_name=logs&logs_type=all"] {
        let answer = running.get(&format!("{API}{path}/downloads/{address}"));
        let reason = json!("Failed to generate presigned URL: invalid backend");
        assert_eq!((answer.status, &answer.document()["reason"]), (400, &reason), "no object store");
    }
}

#[test]
fn an_infra_env_is_changed_and_its_image_with_it() {
    let world = World::new(json!({"openshift_version": "4.17"}));
    let running = &world.running;
    let path = format!("/v2/infra-envs/{}", world.infra_env["id"].as_str().unwrap());
    let network = json!([{
        "network_yaml": "interfaces:\n- {name: eth0, type: ethernet, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.9, prefix-length: 24}]}}\n",
        "mac_interface_map": [{"mac_address": "52:54:00:00:00:0a", "logical_nic_name": "eth0"}],
    }]);
    let bundle = certificate_pem();
    let change = json!({"static_network_config": network, "additional_ntp_sources": "ntp.example.com",
        "additional_trust_bundle": bundle, "kernel_arguments": [{"operation": "append", "value": "quiet"}],
        "proxy": {"http_proxy": "http://p:3128"}, "network_discovery_delay_seconds": 3});
    let answer = running.json("PATCH", &path, &change);
    assert_eq!(answer.status, 201, "{:?}", answer.document());
    let shown = get(running, &path);
    assert_eq!(shown["kernel_arguments"], json!(r#"[{"operation":"append","value":"quiet"}]"#));
    assert_eq!(serde_json::from_str::<Value>(shown["static_network_config"].as_str().unwrap()).unwrap(), network);
    assert!(shown["updated_at"].as_str().unwrap() >= shown["created_at"].as_str().unwrap());

    let config = get(running, &format!("{path}/downloads/files?file_name=discovery.ign"));
    let paths: Vec<&str> =
        config["storage"]["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    for path in [
        "/etc/assisted/network/host0/eth0.nmconnection",
        "/etc/assisted/network/host0/mac_interface.ini",
        "/etc/pki/ca-trust/source/anchors/assisted-infraenv-additional-trust-bundle.pem",
        "/usr/local/bin/add-ntp-sources.sh",
    ] {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    assert_eq!(config["ignition"]["proxy"]["httpProxy"], "http://p:3128");
    let archive = running.get(&format!("{API}{path}/downloads/files?file_name=static-network-config"));
    let mut archive = tar::Archive::new(archive.body.as_slice());
    let names: Vec<String> =
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
    assert_eq!(
        names,
        ["/etc/assisted/network/host0/eth0.nmconnection", "/etc/assisted/network/host0/mac_interface.ini"]
    );

    let refused = |body: Value| running.json("PATCH", &path, &body).status;
    assert_eq!(refused(json!({"static_network_config": [{"network_yaml": "x", "mac_interface_map": []}]})), 400);
    assert_eq!(refused(json!({"kernel_arguments": [{"operation": "replace", "value": "x"}]})), 400);
    assert_eq!(refused(json!({"rendezvous_ip": "192.0.2.80"})), 400, "only of a disconnected ISO");
    assert_eq!(refused(json!({"ignition_config_override": "{"})), 400);
    assert_eq!(get(running, &path)["ignition_config_override"], Value::Null, "what was refused is not kept");
    assert_eq!(refused(json!({"static_network_config": []})), 201);
    assert_eq!(get(running, &path)["static_network_config"], Value::Null);
    let url = get(running, &format!("{path}/downloads/files-presigned?file_name=discovery.ign"));
    let url = url["url"].as_str().unwrap().strip_prefix(&running.url).unwrap().to_owned();
    assert_eq!(running.get(&url).status, 200);
}

/// From 4.18 on, hosts get NMState, and nmstatectl would fail on the host.
#[test]
fn a_network_that_cant_be_converted_is_refused_for_every_version() {
    let running = Running::start(Files::default());
    let map = json!([{"mac_address": "52:54:00:00:00:01", "logical_nic_name": "eth0"}]);
    let body = |version: &str, text: &str| {
        json!({"name": format!("of {version}"), "openshift_version": version, "pull_secret": pull_secret(),
            "static_network_config": [{"network_yaml": text, "mac_interface_map": map}]})
    };
    let eth0 = "name: eth0, type: ethernet, state: up";
    let route = "destination: 10.0.0.0/8, next-hop-address: 192.0.2.2, next-hop-interface: eth5";
    let mistakes = [
        (
            format!("{{interfaces: [{{{eth0}}}], routes: {{config: [{{{route}}}]}}}}"),
            "can't be converted to keyfiles: ",
        ),
        (format!("interfaces: [{{{eth0}, ipv6: {{enabled: true, autoconf: true}}}}]"), "Autoconf without DHCP"),
        (format!("interfaces: [{{{eth0}, mtv: 5}}]"), "interfaces[eth0] has no member mtv; did you mean mtu?"),
        ("interfaces: [{name: h0, type: hsr, state: up}]".to_owned(), "interfaces[h0] is of type hsr"),
        (
            format!("interfaces: [{{{eth0}}}, {{name: s0, type: vlan, state: up, vlan: {{base-iface: eth7, id: 4}}}}]"),
            "host0: interface eth7 is not in mac_interface_map",
        ),
    ];
    for (text, said) in mistakes {
        let mut reasons = Vec::new();
        for version in ["4.16", "4.20"] {
            let answer = running.json("POST", "/v2/infra-envs", &body(version, &text));
            assert_eq!(answer.status, 400, "{version}: {text}: {:?}", answer.document());
            reasons.push(answer.document()["reason"].as_str().unwrap().to_owned());
            let answer = running.json(
                "POST",
                "/v2/infra-envs",
                &json!({"name": "x", "openshift_version": version,
                "pull_secret": pull_secret()}),
            );
            let path = format!("/v2/infra-envs/{}", answer.document()["id"].as_str().unwrap());
            let answer = running.json(
                "PATCH",
                &path,
                &json!({"static_network_config": body(version, &text)["static_network_config"]}),
            );
            assert_eq!(answer.status, 400, "{version}: {text}");
            reasons.push(answer.document()["reason"].as_str().unwrap().to_owned());
        }
        assert!(reasons.iter().all(|reason| *reason == reasons[0] && reason.contains(said)), "{reasons:?}");
    }
}

#[test]
fn what_of_a_network_has_no_effect_is_an_event() {
    let running = Running::start(Files::default());
    let text = "{hostname: {config: n1.example.com}, interfaces: [{name: eth0, type: ethernet, state: up, ethernet: {speed: 1000}}]}";
    let network = json!([{"network_yaml": text,
        "mac_interface_map": [{"mac_address": "52:54:00:00:00:01", "logical_nic_name": "eth0"}]}]);
    let answer = running.json(
        "POST",
        "/v2/infra-envs",
        &json!({"name": "lab", "openshift_version": "4.20",
        "pull_secret": pull_secret(), "static_network_config": network}),
    );
    assert_eq!(answer.status, 201, "{:?}", answer.document());
    let events = get(&running, &format!("/v2/events?infra_env_id={}", answer.document()["id"].as_str().unwrap()));
    let own = events.as_array().unwrap().iter().filter(|event| event["name"] == "infra_env_setting_without_effect");
    let own: Vec<_> = own.map(|event| event["message"].as_str().unwrap()).collect();
    assert_eq!(
        own,
        [
            "host0: hostname.config is stored but has no effect: profiles have no hostname: set it for the host at the service, or in \
         /etc/hostname",
            "host0: interfaces[eth0].ethernet.speed is stored but has no effect: it needs `auto-negotiation: false`",
        ]
    );
}

/// The real service's files for the same networks.
#[test]
fn recorded_static_networks_give_the_recorded_files() {
    let Some(folder) = recorded("api") else { return };
    let load = |name: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap() };
    let running = Running::start(Files::default());
    let answer = running.json("POST", "/v2/infra-envs", &load("static-infraenv-req.json"));
    assert_eq!(answer.status, 201);
    let ours = answer.document();
    let text = std::fs::read_to_string(folder.join("static-infraenv-resp.txt")).unwrap();
    let theirs: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(ours["static_network_config"], theirs["static_network_config"]);
    let id = ours["id"].as_str().unwrap();
    let config = get(&running, &format!("/v2/infra-envs/{id}/downloads/files?file_name=discovery.ign"));
    let files = |config: &Value| -> Vec<(String, String)> {
        let all = config["storage"]["files"].as_array().unwrap().iter();
        let text = |file: &Value, at: &str| file.pointer(at).unwrap().as_str().unwrap().to_owned();
        let all = all.map(|file| (text(file, "/path"), text(file, "/contents/source")));
        let all = all.filter(|(path, _)| path.starts_with("/etc/assisted/network/"));
        let mut all: Vec<_> = all.map(|(path, url)| (path, url.split_once("base64,").unwrap().1.to_owned())).collect();
        all.sort();
        all
    };
    assert_eq!(files(&config), files(&load("static-discovery.ign")));
}

#[test]
fn catalogues_list_what_is_here() {
    let running = Running::start(Files::default());
    let versions = get(&running, "/v2/openshift-versions");
    assert_eq!(versions.as_object().unwrap().keys().collect::<Vec<_>>(), ["4.21.3", "4.22.9"]);
    assert_eq!((&versions["4.22.9"]["default"], &versions["4.21.3"]["default"]), (&json!(true), &json!(false)));
    assert_eq!(get(&running, "/v2/openshift-versions?only_latest=true").as_object().unwrap().len(), 1);
    assert_eq!(get(&running, "/v2/openshift-versions?version=4.21").as_object().unwrap().len(), 1);
    assert!(get(&running, "/v2/component-versions")["versions"]["discovery-agent"].is_string());
    assert_eq!(get(&running, "/v2/clusters/default-config")["cluster_network_host_prefix"], 23);
    for path in ["/v2/release-sources", "/v2/domains", "/v2/supported-operators/odf"] {
        assert_eq!(get(&running, path), json!([]), "{path}");
    }
    assert_eq!(get(&running, "/v2/supported-operators").as_array().unwrap().len(), 28);
    assert_eq!(get(&running, "/v2/operators/bundles")[1]["id"], "openshift-ai");
    assert_eq!(
        get(&running, "/v2/operators/bundles/openshift-ai?feature_ids=SNO")["operators"],
        json!(["lvm", "openshift-ai"])
    );
    let features = get(&running, "/v2/support-levels/features?openshift_version=4.22");
    assert_eq!(
        (&features["features"]["SNO"], &features["features"]["LVM"]),
        (&json!("supported"), &json!("supported"))
    );
    let detailed = get(&running, "/v2/support-levels/features/detailed?openshift_version=4.22&cpu_architecture=s390x");
    let of = |list: &str, id: &str| {
        let all = detailed[list].as_array().unwrap();
        all.iter().find(|entry| entry["feature-support-level-id"] == id).unwrap().clone()
    };
    assert_eq!(
        of("features", "MINIMAL_ISO"),
        json!({"feature-support-level-id": "MINIMAL_ISO", "incompatibilities": [], "reason": "cpuArchitecture",
               "support_level": "unavailable"})
    );
    assert_eq!(
        of("operators", "ODF"),
        json!({"feature-support-level-id": "ODF", "incompatibilities": ["SNO", "LVM", "EXTERNAL_PLATFORM_OCI"],
               "support_level": "supported", "name": "odf", "dependencies": ["LSO"]})
    );
    assert_eq!(
        get(&running, "/v2/support-levels/architectures?openshift_version=4.12")["architectures"],
        json!({"ARM64_ARCHITECTURE": "supported", "MULTIARCH_RELEASE_IMAGE": "tech-preview",
               "PPC64LE_ARCHITECTURE": "tech-preview", "S390X_ARCHITECTURE": "tech-preview",
               "X86_64_ARCHITECTURE": "supported"})
    );
    for (path, status) in [
        ("/v2/supported-operators/zzz", 404),
        ("/v2/operators/bundles/zzz", 500),
        ("/v2/operators/bundles?feature_ids=LVM", 400),
        ("/v2/support-levels/features/detailed?openshift_version=zz", 400),
        ("/v2/support-levels/features/detailed?openshift_version=4.9&cpu_architecture=arm64", 400),
        ("/v2/support-levels/features/detailed?openshift_version=4.13&platform_type=external", 400),
        ("/v2/support-levels/features", 400),
        ("/v2/support-levels/features?openshift_version=4&cpu_architecture=mips", 400),
    ] {
        assert_eq!(running.get(&format!("{API}{path}")).status, status, "{path}");
    }
}

#[test]
fn features_that_exclude_each_other_are_refused_and_chosen_operators_are_monitored() {
    let running = Running::start(Files::default());
    let reason = |answer: crate::common::Answer| {
        assert_eq!(answer.status, 400, "{:?}", answer.document());
        answer.document()["reason"].as_str().unwrap().to_owned()
    };
    let with = |fields: Value| {
        let mut body = json!({"name": "lab", "openshift_version": "4.22", "pull_secret": pull_secret()});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        running.json("POST", "/v2/clusters", &body)
    };
    for (fields, said) in [
        (json!({"olm_operators": [{"name": "zzz"}]}), "operator zzz isn't supported"),
        (json!({"operator_bundles": [{"id": "zzz"}]}), "bundle 'zzz' is not supported"),
        (
            json!({"network_type": "OpenShiftSDN"}),
            "Openshift version 4.22 is not supported for OpenShiftSDN NetworkType",
        ),
        (
            json!({"olm_operators": [{"name": "odf"}], "control_plane_count": 1}),
            "cannot use Single Node OpenShift because it's not compatible with OpenShift Data Foundation",
        ),
        (
            json!({"vip_dhcp_allocation": true}),
            "cannot use VIP Automatic Allocation because it's not compatible with the x86_64 architecture on version 4.22 of \
             OpenShift",
        ),
    ] {
        assert_eq!(reason(with(fields)), said);
    }
    let made = with(json!({"olm_operators": [{"name": "odf", "properties": "{}"}]}));
    assert_eq!(made.status, 201);
    let path = format!("/v2/clusters/{}", made.document()["id"].as_str().unwrap());
    let shown = get(&running, &path);
    let names = |shown: &Value| -> Vec<String> {
        let operators = shown["monitored_operators"].as_array().unwrap();
        operators.iter().map(|operator| operator["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&shown), ["console", "lso", "odf"]);
    assert_eq!(shown["monitored_operators"][1]["dependency_only"], true);
    assert_eq!(shown["monitored_operators"][2]["subscription_name"], "odf-operator");
    let usage: Value = serde_json::from_str(shown["feature_usage"].as_str().unwrap()).unwrap();
    assert_eq!(usage["ODF"], json!({"id": "ODF", "name": "ODF"}));
    assert_eq!(usage["Hyperthreading"]["data"], json!({"hyperthreading_enabled": "all"}));
    // An infra-env for hosts on which the operators do not work.
    let infra_env = json!({"name": "arm", "pull_secret": pull_secret(), "cluster_id": shown["id"],
        "cpu_architecture": "arm64", "openshift_version": "4.22"});
    let refused = running.json("POST", "/v2/infra-envs", &infra_env);
    assert_eq!(refused.status, 400, "{:?}", refused.document());
    assert_eq!(running.json("PATCH", &path, &json!({"olm_operators": []})).status, 201);
    let shown = get(&running, &path);
    assert_eq!(names(&shown), ["console"]);
    assert!(!shown["feature_usage"].as_str().unwrap().contains("ODF"));
    let lvm = json!({"olm_operators": [{"name": "lvm"}, {"name": "odf"}]});
    assert_eq!(
        reason(running.json("PATCH", &path, &lvm)),
        "cannot use Logical Volume Management because it's not compatible with OpenShift Data Foundation"
    );
}

#[test]
fn answers_are_compressed_for_who_takes_it_and_counted() {
    let running = Running::start(Files::default());
    let path = format!("{API}/v2/openapi");
    let plain = running.get(&path);
    assert_eq!(
        (plain.status, plain.header("content-encoding"), plain.header("vary")),
        (200, None, Some("accept-encoding"))
    );
    assert!(plain.document()["paths"]["/v2/clusters"]["post"].is_object());
    let packed = running.request("GET", &path, &[("accept-encoding", "gzip")], b"");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut whole = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.body.as_slice()), &mut whole).unwrap();
    assert!(whole == plain.body && packed.body.len() * 3 < whole.len());
    assert_eq!(running.get(&format!("{API}/openapi")).body, plain.body, "the same under both names");
    let older = running.get(&format!("{API}/swagger.json")).document();
    assert_eq!((&older["swagger"], &older["basePath"]), (&json!("2.0"), &json!(API)));
    assert!(older["paths"]["/v2/clusters"]["post"].is_object());

    let path = format!("/v2/clusters/{}", cluster(&running));
    assert_eq!(running.json("PATCH", &path, &json!({})).status, 201, "judged at once");
    running.get(&format!("{API}/v2/clusters/7e5ff6df-e038-4103-bbb2-90433ded3e50"));
    running.get("/%3Cscript%3E");
    let metrics = running.get("/metrics");
    let text = String::from_utf8(metrics.body).unwrap();
    for line in [
        "landfall_clusters{state=\"pending-for-input\"} 1\n",
        "_count{method=\"POST\",route=\"/api/assisted-install/v2/clusters\",status=\"201\"} 1\n",
        "_count{method=\"GET\",route=\"/api/assisted-install/v2/clusters/{cluster_id}\",status=\"404\"} 1\n",
        "_count{method=\"GET\",route=\"none\",status=\"404\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("script") && !text.contains("7e5ff6df"), "nothing a client wrote: {text}");
    assert_eq!(running.get("/health").status, 200);
}
