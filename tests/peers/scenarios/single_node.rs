//! A single node from registration to its reboot.

use super::*;
use crate::service::Options;

const NAMES: &[(&str, &str)] = &[("quay.io", "192.0.2.80")];

#[test]
fn ours_at_the_real_service() {
    scenario("a: single node, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let mut service = site.real_service(peers, Options::default());
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
