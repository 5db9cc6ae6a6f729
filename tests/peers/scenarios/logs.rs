//! Logs of hosts whose installation failed or was cancelled.

use super::*;
use crate::{
    host::Host,
    service::{RealService, ServiceOptions},
};

const NAMES: &[(&str, &str)] = &[("quay.io", "192.0.2.80")];

/// The host's logs are at the service, as people get them.
fn assert_logs(service: &RealService, cluster: &str, host: &str) {
    let path = format!("/clusters/{cluster}/logs?logs_type=host&host_id={host}");
    let (status, archive) = service.api.file(&path);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&archive));
    assert!(archive.len() > 1000, "{} bytes of logs", archive.len());
}

fn await_logs(site: &Site) {
    await_exchanges(site, "logs and their step's reply", |all| {
        let completed = |one: &Exchange| one.request.body["logs_state"] == "completed";
        let gathered = all.iter().any(|one| one.kind().starts_with("reply logs-gather"));
        gathered && all.iter().any(completed)
    });
    for exchange in exchanges(site).iter().filter(|one| one.is("POST", "/logs") || one.is("PUT", "/logs-progress")) {
        assert_eq!(exchange.status, Some(204), "{:?}", exchange.response.body);
    }
}

#[test]
fn logs_come_after_a_failure() {
    scenario("f: logs after a failure, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let mut service = site.real_service(peers, ServiceOptions::default());
        let (cluster, env) = create(&service.api, single_node_cluster());
        let (_host, _clock) = site.our_host(0, &env, &site.url(), &[]);
        let hosts = await_known(&service.api, &env, 1);
        service.replace_dummies(&cluster);
        install_from(&service.api, &cluster, &env, &hosts, "http://192.168.131.1:8088/no-such-image");
        let path = format!("/infra-envs/{env}/hosts/{}", hosts[0]);
        service.api.await_state("the host failed", &path, PATIENCE, |host| host["status"] == "error");
        await_logs(site);
        assert_logs(&service, &cluster, &hosts[0]);
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}

/// bootkube of this host takes for ever.
fn never_ready(host: &Host) {
    std::fs::write(host.path("/usr/bin/systemctl"), "#!/bin/sh\nexit 0\n").unwrap();
}

#[test]
fn logs_come_when_an_installation_is_cancelled() {
    scenario(
        "v: logs of a cancelled installation, ours at the real service",
        &["assisted-service"],
        NAMES,
        |peers, site| {
            let mut service = site.real_service(peers, ServiceOptions::default());
            let (cluster, env) = create(&service.api, single_node_cluster());
            let (host, _clock) = site.our_host(0, &env, &site.url(), &[]);
            never_ready(&host);
            let hosts = await_known(&service.api, &env, 1);
            service.replace_dummies(&cluster);
            install(&service.api, &cluster, &env, &hosts);
            await_stage(&service.api, &env, &hosts[0], "Waiting for bootkube");
            service.api.request("POST", &format!("/clusters/{cluster}/actions/cancel"), None);
            await_logs(site);
            await_exchanges(site, "a reply to stop-installation", |all| {
                all.iter().any(|one| one.kind() == "reply stop-installation")
            });
            assert_logs(&service, &cluster, &hosts[0]);
            assert!(host.disk.partitions().is_empty(), "nothing was written");
            assert_as_recorded(site, Direction::OursAtTheRealService).summary()
        },
    );
}
