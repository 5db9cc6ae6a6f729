//! A single node from registration to its reboot.

use super::*;
use crate::{service::IMAGE_URL, service::Options};

/// Names of the cluster, and the registry that must have one.
const NAMES: &[(&str, &str)] = &[
    ("quay.io", "192.0.2.80"),
    ("api.sno.example.com", "192.168.131.10"),
    ("api-int.sno.example.com", "192.168.131.10"),
    ("console-openshift-console.apps.sno.example.com", "192.168.131.10"),
];

#[test]
fn ours_at_the_real_service() {
    scenario("a: single node, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let mut service = site.real_service(peers, Options::default());
        let cluster = id(&service.api.request("POST", "/clusters", Some(single_node_cluster())));
        let env = id(&service.api.request("POST", "/infra-envs", Some(infra_env(Some(&cluster)))));
        let (host, _clock) = site.our_host(0, &env, &site.url(), &[]);
        let hosts = format!("/infra-envs/{env}/hosts");
        let known =
            service.api.await_state("the host is known", &hosts, PATIENCE, |hosts| hosts[0]["status"] == "known");
        let host_id = id(&known[0]);
        let args = json!({"args": ["--image-url", IMAGE_URL]});
        service.api.request("PATCH", &format!("{hosts}/{host_id}/installer-args"), Some(args));
        service.replace_dummies(&cluster);
        service.api.request("POST", &format!("/clusters/{cluster}/actions/install"), None);
        let at = |host: &Value, stage: &str| host["progress"]["current_stage"] == stage;
        let done = service.api.await_state("the host reboots", &format!("{hosts}/{host_id}"), PATIENCE, |host| {
            at(host, "Rebooting") || host["status"] == "error"
        });
        assert!(at(&done, "Rebooting"), "{} {}; {}", done["status_info"], done["progress"], host.file("agent.log"));
        assert_eq!(host.disk.partitions(), [1, 2, 3, 4]);
        let config = site.image.debugfs(&host.disk, "cat /ignition/config.ign");
        assert!(config.contains("made-by-bootkube") && config.contains("/etc/hostname"), "{config}");
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}
