//! A single node from registration to its reboot.

use super::*;
use crate::{
    service::{ServiceOptions, ours::OurService},
    site::SERVER,
};

const NAMES: &[(&str, &str)] =
    &[("quay.io", "192.0.2.80"), ("service.lab", "192.168.131.1"), ("images.lab", "192.168.131.1")];

#[test]
fn ours_at_the_real_service() {
    scenario("a: single node, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let mut service = site.real_service(peers, ServiceOptions::default());
        let cluster = id(&service.api.request("POST", "/clusters", Some(single_node_cluster())));
        let env = id(&service.api.request("POST", "/infra-envs", Some(infra_env(Some(&cluster)))));
        let (host, _clock) = site.our_host(0, &env, &site.url(), &[]);
        let hosts = await_known(&service.api, &env, 1);
        service.replace_dummies(&cluster);
        install(&service.api, &cluster, &env, &hosts);
        await_stage(&service.api, &env, &hosts[0], "Rebooting");
        assert_eq!(host.disk.partitions(), [1, 2, 3, 4]);
        let config = site.image.debugfs(&host.disk, "cat /ignition/config.ign");
        assert!(config.contains("made-by-bootkube") && config.contains("/etc/hostname"), "{config}");
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}

#[test]
fn ours_at_the_real_service_by_name() {
    scenario("o: single node by name, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let url = site.url().replace(SERVER, "service.lab");
        let mut service =
            site.real_service(peers, ServiceOptions { base_url: url.clone(), ..ServiceOptions::default() });
        let (cluster, env) = create(&service.api, single_node_cluster());
        let started = Instant::now();
        let (host, _clock) = site.our_host(0, &env, &url, &[]);
        await_exchanges(site, "the registration", |all| all.iter().any(|one| one.is("POST", "/hosts")));
        let registered = started.elapsed();
        let hosts = await_known(&service.api, &env, 1);
        service.replace_dummies(&cluster);
        install_from(&service.api, &cluster, &env, &hosts, &IMAGE_URL.replace(SERVER, "images.lab"));
        await_stage(&service.api, &env, &hosts[0], "Rebooting");
        assert_eq!(host.disk.partitions(), [1, 2, 3, 4]);
        let log = site.name_server_log();
        for line in ["query[AAAA] service.lab", "query[AAAA] images.lab", "error is REFUSED"] {
            assert!(log.contains(line), "{line}: {log}");
        }
        let refused = log.matches("REFUSED").count();
        format!("{refused} questions were refused; registered {} ms after the host's start", registered.as_millis())
    });
}

#[test]
fn the_real_ones_at_ours() {
    scenario("l: single node, the real ones at ours", &["agent", "installer"], NAMES, |peers, site| {
        let service = OurService::start(site, &[]);
        let (cluster, env) = create(&service.api, single_node_cluster());
        let (host, _clock) = site.real_host(peers, 0, &env);
        let hosts = await_known(&service.api, &env, 1);
        install(&service.api, &cluster, &env, &hosts);
        await_stage(&service.api, &env, &hosts[0], "Rebooting");
        assert_eq!(host.disk.partitions(), [1, 2, 3, 4]);
        let config = site.image.debugfs(&host.disk, "cat /ignition/config.ign");
        assert!(config.contains("made-by-bootkube") && config.contains("/etc/hostname"), "{config}");
        assert_as_recorded(site, Direction::TheRealOnesAtOurs).summary()
    });
}
