//! Steps that only some clusters ask for.

use super::*;
use crate::{
    net::programs::Server,
    service::ServiceOptions,
    site::{AGENT_IMAGE, SERVER},
};
use std::net::TcpListener;

const NAMES: &[(&str, &str)] = &[
    ("quay.io", "192.0.2.80"),
    ("api.day2.example.com", SERVER),
    ("api-int.day2.example.com", SERVER),
    ("apps.day2.example.com", SERVER),
];

#[test]
fn a_host_joins_a_cluster_that_is_there() {
    scenario("e: day 2, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let service = site.real_service(peers, ServiceOptions::default());
        let import = json!({
            "name": "day2", "openshift_version": "4.22.9", "api_vip_dnsname": "api.day2.example.com",
            "openshift_cluster_id": "0b5d3f1e-1111-4222-8333-444455556666",
        });
        let cluster = id(&service.api.request("POST", "/clusters/import", Some(import)));
        let env = id(&service.api.request("POST", "/infra-envs", Some(infra_env(Some(&cluster)))));
        site.serve("192.168.131.1:22624", |_| ("200 OK", br#"{"ignition":{"version":"3.2.0"}}"#.to_vec()));
        let (host, _clock) = site.our_host(1, &env, &site.url(), &[]);
        let hosts = await_known(&service.api, &env, 1);
        let known = service.api.get(&format!("/infra-envs/{env}/hosts/{}", hosts[0]));
        assert_eq!(known["kind"], "AddToExistingClusterHost");
        let seen = exchanges(site);
        let checks = replies(&seen, "api-vip-connectivity-check", "api_vip_connectivity_response");
        assert!(!checks.is_empty());
        assert!(checks.iter().all(|check| check["output"]["is_success"] == true), "by its name: {checks:?}");
        let path = format!("/infra-envs/{env}/hosts/{}", hosts[0]);
        let args = json!({"args": ["--image-url", IMAGE_URL]});
        service.api.request("PATCH", &format!("{path}/installer-args"), Some(args));
        service.api.request("POST", &format!("{path}/actions/install"), None);
        // Nobody watches such a host any longer: its reboot is its last stage.
        await_stage(&service.api, &env, &hosts[0], "Done");
        await_exchanges(site, "that it reboots", |all| {
            all.iter().any(|one| one.kind() == "progress Rebooting" && one.status == Some(200))
        });
        assert_eq!(host.disk.partitions(), [1, 2, 3, 4]);
        let config = site.image.debugfs(&host.disk, "cat /ignition/config.ign");
        assert!(config.contains("api.day2.example.com:22624/config/worker"), "{config}");
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}

#[test]
fn an_agent_of_another_version_is_told_to_upgrade() {
    scenario("g: upgrade-agent, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        // An agent that registers takes the version it is told: only a service that changes has agents of another.
        let older = site.real_service(peers, ServiceOptions::default());
        let (_, env) = create(&older.api, single_node_cluster());
        let (_host, _clock) = site.our_host(0, &env, &site.url(), &[]);
        await_exchanges(site, "an inventory", |all| all.iter().any(|one| one.kind() == "reply inventory"));
        let store = older.store();
        drop(older);
        let newer = AGENT_IMAGE.replace(":latest", ":newer");
        let environment = [("AGENT_DOCKER_IMAGE", newer.clone())];
        let options = ServiceOptions { environment: &environment, store: Some(store), ..ServiceOptions::default() };
        let service = site.real_service(peers, options);
        let seen = await_exchanges(site, "a reply to upgrade-agent", |all| {
            all.iter().any(|one| one.kind().starts_with("reply upgrade-agent"))
        });
        let answers = replies(&seen, "upgrade-agent", "upgrade_agent_response");
        assert_eq!(answers[0]["output"], json!({"agent_image": newer, "result": "success"}), "{answers:?}");
        let events = service.api.get(&format!("/events?infra_env_id={env}")).to_string();
        assert!(events.contains("upgrade"), "{events}");
        await_exchanges(site, "a poll of the newer agent", |all| {
            let version = ("discovery_agent_version".to_owned(), newer.clone());
            all.iter().any(|one| one.kind() == "poll" && one.request.headers.contains(&version))
        });
        let version = Row("*", "request *discovery_agent_version", "it is upgraded in this scenario");
        let told = Row("register", "response *agent_version", "it is upgraded in this scenario");
        assert_as_recorded_but(site, Direction::OursAtTheRealService, &[version, told]).summary()
    });
}

#[test]
fn tang_servers_are_asked() {
    scenario("h: Tang, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let service = site.real_service(peers, ServiceOptions::default());
        let thumbprint = site.tang("192.168.131.1:7500");
        let servers = json!([{"url": "http://192.168.131.1:7500", "thumbprint": thumbprint}]);
        let mut body = single_node_cluster();
        body["disk_encryption"] = json!({"enable_on": "all", "mode": "tang", "tang_servers": servers.to_string()});
        let (_, env) = create(&service.api, body);
        let (_host, _clock) = site.our_host(0, &env, &site.url(), &[]);
        let hosts = await_known(&service.api, &env, 1);
        let answers = replies(&exchanges(site), "tang-connectivity-check", "tang_connectivity_response");
        assert!(!answers.is_empty());
        assert!(answers.iter().all(|answer| answer["output"]["is_success"] == true), "{answers:?}");
        let known = service.api.get(&format!("/infra-envs/{env}/hosts/{}", hosts[0]));
        let validations = known["validations_info"].as_str().unwrap();
        let validations: Value = serde_json::from_str(validations).unwrap();
        let hardware = validations["hardware"].as_array().unwrap();
        let encryption = hardware.iter().find(|one| one["id"] == "disk-encryption-requirements-satisfied").unwrap();
        assert_eq!(encryption["status"], "success", "{encryption}");
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}

#[test]
fn virtual_addresses_are_leased() {
    scenario("i: DHCP leases, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let service = site.real_service(peers, ServiceOptions::default());
        let _leases: Server = site.leases("192.168.131.200,192.168.131.220");
        let mut body = single_node_cluster();
        for (name, value) in [
            ("name", json!("leases")),
            ("openshift_version", json!("4.14")),
            ("control_plane_count", json!(3)),
            ("high_availability_mode", json!("Full")),
            ("vip_dhcp_allocation", json!(true)),
            ("network_type", json!("OpenShiftSDN")),
        ] {
            body[name] = value;
        }
        let (cluster, env) = create(&service.api, body);
        let (_host, _clock) = site.our_host(0, &env, &site.url(), &[]);
        let leased =
            |cluster: &Value| !cluster["api_vips"][0]["ip"].is_null() && !cluster["ingress_vips"][0]["ip"].is_null();
        let path = format!("/clusters/{cluster}");
        let state = service.api.await_state("the cluster has its addresses", &path, PATIENCE, leased);
        let answers = replies(&exchanges(site), "dhcp-lease-allocate", "dhcp_allocation_response");
        assert_eq!(state["api_vips"][0]["ip"], answers[0]["output"]["api_vip_address"]);
        assert_eq!(state["ingress_vips"][0]["ip"], answers[0]["output"]["ingress_vip_address"]);
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}

/// What a host cannot reach is told, too.
#[test]
fn a_tang_server_that_is_not_there_is_reported() {
    scenario("w: Tang that does not answer, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let service = site.real_service(peers, ServiceOptions::default());
        // Nobody listens there.
        let closed =
            site.server.namespace.enter(|| TcpListener::bind("192.168.131.1:0").unwrap().local_addr().unwrap());
        let servers = json!([{"url": format!("http://{closed}"), "thumbprint": "PLjNyRdGw03zlRoGjQYMahSZGu9"}]);
        let mut body = single_node_cluster();
        body["disk_encryption"] = json!({"enable_on": "all", "mode": "tang", "tang_servers": servers.to_string()});
        let (_, env) = create(&service.api, body);
        let (_host, _clock) = site.our_host(0, &env, &site.url(), &[]);
        let seen = await_exchanges(site, "a reply to tang-connectivity-check", |all| {
            all.iter().any(|one| one.kind().starts_with("reply tang-connectivity-check"))
        });
        let answers = replies(&seen, "tang-connectivity-check", "tang_connectivity_response");
        assert!(answers.iter().all(|answer| answer["output"]["is_success"] != true), "{answers:?}");
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}
