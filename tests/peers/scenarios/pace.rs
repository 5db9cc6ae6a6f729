//! How often our service has real agents do their checks.

use super::{three_hosts::three_hosts_cluster, *};
use crate::{host::Host, service::ours::OurService, site::Clock};
use std::collections::BTreeMap;

const NAMES: &[(&str, &str)] = &[("quay.io", "192.0.2.80")];
const MINUTES: u64 = 10;

/// Steps that an agent has started and ended, by what it wrote to its journal.
#[derive(Default)]
struct Steps {
    /// By type.
    started: BTreeMap<String, usize>,
    /// Such as were started while one of their type ran, with when.
    overlapping: Vec<String>,
}

fn steps(journal: &str) -> Steps {
    let mut steps = Steps::default();
    // Type of those that run, by id.
    let mut running: BTreeMap<String, String> = BTreeMap::new();
    for line in journal.lines() {
        let word = |after: &str, number: usize| {
            let (_, rest) = line.split_once(after)?;
            rest.split(' ').nth(number).map(|word| word.trim_matches(['<', '>', '"', '\\']).to_owned())
        };
        if let (Some(kind), Some(id)) =
            (word("Creating execution step for ", 0), word("Creating execution step for ", 1))
        {
            *steps.started.entry(kind.clone()).or_default() += 1;
            if running.values().any(|other| *other == kind) {
                let at = line.split(' ').next().unwrap_or_default();
                steps.overlapping.push(format!("{kind} at {at} ms"));
            }
            running.insert(id, kind);
        } else if let Some(id) = word("Sending step ", 0) {
            running.remove(&id);
        } else if let Some(kind) = word("Result for ", 0).filter(|_| line.contains("already exists")) {
            let id = running.iter().find(|(_, other)| **other == kind).map(|(id, _)| id.clone());
            running.remove(&id.unwrap_or_default());
        }
    }
    steps
}

#[test]
fn real_agents_at_ours_start_no_step_twice() {
    scenario("n: three real agents at ours for ten minutes", &["agent", "installer"], NAMES, |peers, site| {
        let service = OurService::start(site, &[]);
        let (_, env) = create(&service.api, three_hosts_cluster());
        let hosts: Vec<(Host, Clock)> = [0, 2, 3].map(|number| site.real_host(peers, number, &env)).into();
        thread::sleep(Duration::from_secs(60 * MINUTES));
        let load = std::fs::read_to_string("/proc/loadavg").unwrap();
        let (ticks, all) = (service.ticks(), exchanges(site));
        let polls = all.iter().filter(|one| one.kind() == "poll").count();
        let mut started = BTreeMap::<String, usize>::new();
        let mut overlapping = Vec::new();
        for (host, _) in &hosts {
            let steps = steps(&host.file("journal.log"));
            assert!(!steps.started.is_empty(), "the agent wrote of no step: {}", host.file("agent.log"));
            steps.started.into_iter().for_each(|(kind, count)| *started.entry(kind).or_default() += count);
            overlapping.extend(steps.overlapping);
        }
        assert_eq!(overlapping, Vec::<String>::new(), "steps started while one of their type ran");
        assert_as_recorded(site, Direction::TheRealOnesAtOurs);
        let load = load.split(' ').take(2).collect::<Vec<_>>().join(" and ");
        let count: usize = started.values().sum();
        format!(
            "{polls} polls, {count} steps started {started:?}, none beside another of its type; the service took {ticks} ticks; \
             load of the machine {load}"
        )
    });
}

#[test]
fn steps_of_a_journal_are_counted() {
    let journal = "1 msg=\"Creating execution step for inventory inventory-1 args <[]>\"\n\
                   2 msg=\"Creating execution step for inventory inventory-2 args <[]>\"\n\
                   3 msg=\"Sending step <inventory-1> reply output\"\n\
                   4 msg=\"Result for inventory already exists in assisted service\"\n\
                   5 msg=\"Creating execution step for inventory inventory-3 args <[]>\"\n";
    let steps = steps(journal);
    assert_eq!((steps.started["inventory"], steps.overlapping), (3, vec!["inventory at 2 ms".to_owned()]));
}
