//! Registering again, and being bound to a cluster.

use super::*;
use crate::service::ServiceOptions;

const NAMES: &[(&str, &str)] = &[("quay.io", "192.0.2.80")];

fn registrations(exchanges: &[Exchange]) -> usize {
    exchanges.iter().filter(|one| one.is("POST", "/hosts") && one.status == Some(201)).count()
}

#[test]
fn an_agent_that_was_killed_registers_again() {
    scenario("c: agent restarted, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let service = site.real_service(peers, ServiceOptions::default());
        let (_, env) = create(&service.api, single_node_cluster());
        let (host, _clock) = site.our_host(0, &env, &site.url(), &[]);
        await_exchanges(site, "an inventory", |all| all.iter().any(|one| one.kind() == "reply inventory"));
        host.kill_service();
        await_exchanges(site, "polls after a second registration", |all| {
            let second = all.iter().rposition(|one| one.is("POST", "/hosts") && one.status == Some(201));
            registrations(all) >= 2
                && all[second.unwrap_or_default()..].iter().filter(|one| one.kind() == "poll").count() >= 2
        });
        assert_eq!(registrations(&exchanges(site)), 2, "it registers once, not again and again");
        await_known(&service.api, &env, 1);
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}

#[test]
fn a_host_is_bound_to_a_cluster_later() {
    scenario("d: bind, ours at the real service", &["assisted-service"], NAMES, |peers, site| {
        let service = site.real_service(peers, ServiceOptions::default());
        let env = id(&service.api.request("POST", "/infra-envs", Some(infra_env(None))));
        let (_host, _clock) = site.our_host(2, &env, &site.url(), &[]);
        let hosts = format!("/infra-envs/{env}/hosts");
        let unbound = service
            .api
            .await_state("the host is known, unbound", &hosts, PATIENCE, |hosts| hosts[0]["status"] == "known-unbound");
        let host = format!("{hosts}/{}", id(&unbound[0]));
        let cluster = id(&service.api.request("POST", "/clusters", Some(single_node_cluster())));
        service.api.request("POST", &format!("{host}/actions/bind"), Some(json!({"cluster_id": cluster})));
        let known = service
            .api
            .await_state("the host is known in the cluster", &host, PATIENCE, |host| host["status"] == "known");
        assert_eq!(known["cluster_id"], cluster);
        let seen = exchanges(site);
        assert_eq!(registrations(&seen), 2);
        assert!(seen.iter().any(|one| one.response.body["post_step_action"] == "exit"));
        assert_as_recorded(site, Direction::OursAtTheRealService).summary()
    });
}
