use super::*;
use crate::{
    answer::{Cause, Failure},
    drive::Over,
    simulation::{Deed, Seen, Simulation},
};
use hickory_proto::op::ResponseCode;
use proptest::prelude::*;
use std::{cell::Cell, collections::BTreeSet};
use testkit::net::name_server::alias;

const ONE: &str = "nameserver 192.0.2.1\n";
const TWO: &str = "nameserver 192.0.2.1\nnameserver 192.0.2.2\n";

fn first(seen: &Seen) -> bool {
    seen.server.ip().to_string() == "192.0.2.1"
}

fn addresses(answer: &Answer) -> Vec<String> {
    answer.addresses().map(|address| address.to_string()).collect()
}

fn failures(answer: &Answer) -> Vec<String> {
    answer.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn one_family_suffices_whatever_becomes_of_the_other() {
    let a = |seen: &Seen| seen.tell(1, "10.0.0.1");
    for (what, other, elapsed_ms, expected) in [
        ("refused", (|seen| seen.refuse(ResponseCode::Refused)) as fn(&Seen) -> Deed, 2, &["10.0.0.1"][..]),
        ("failing", |seen| seen.refuse(ResponseCode::ServFail), 2, &["10.0.0.1"]),
        ("not there", |seen| seen.refuse(ResponseCode::NXDomain), 1, &["10.0.0.1"]),
        ("unreachable", |_| Deed::Unreachable, 1, &["10.0.0.1"]),
        ("dropped", |_| Deed::Drop, 51, &["10.0.0.1"]),
        ("three seconds late", |seen| seen.tell(3000, "fd00::1"), 51, &["10.0.0.1"]),
        ("a little late", |seen| seen.tell(40, "fd00::1"), 40, &["fd00::1", "10.0.0.1"]),
        ("sooner", |seen| seen.tell(0, "fd00::1"), 1, &["fd00::1", "10.0.0.1"]),
    ] {
        let mut network = Simulation::new(|seen: &Seen| if seen.is_v4() { a(seen) } else { other(seen) });
        let answer = network.lookup("host.lab", ONE, Aim::Connect);
        assert_eq!(
            (answer.outcome, addresses(&answer)),
            (Outcome::Found, expected.iter().map(|a| (*a).into()).collect()),
            "{what}"
        );
        assert_eq!(network.elapsed_ms(), elapsed_ms, "{what}");
    }
}

#[test]
fn an_address_that_cannot_be_reached_does_not_end_the_wait_for_the_others() {
    let mut network =
        Simulation::new(
            |seen: &Seen| if seen.is_v4() { seen.tell(1000, "10.0.0.1") } else { seen.tell(1, "2001:db8::1") },
        );
    network.has_v6 = false;
    let answer = network.lookup("host.lab", ONE, Aim::Connect);
    assert_eq!(addresses(&answer), ["2001:db8::1", "10.0.0.1"]);
    assert_eq!(network.elapsed_ms(), 1000);
}

#[test]
fn both_late_is_not_too_late() {
    let mut network =
        Simulation::new(
            |seen: &Seen| if seen.is_v4() { seen.tell(1000, "10.0.0.1") } else { seen.tell(1000, "fd00::1") },
        );
    let answer = network.lookup("host.lab", ONE, Aim::Connect);
    assert_eq!((addresses(&answer).len(), network.elapsed_ms(), network.log.len()), (2, 1000, 2));
}

#[test]
fn a_report_waits_for_all_there_is_to_know() {
    let mut network =
        Simulation::new(|seen: &Seen| if seen.is_v4() { seen.tell(1, "10.0.0.1") } else { seen.tell(3000, "fd00::1") });
    let answer = network.lookup("host.lab", ONE, Aim::Report);
    assert_eq!((addresses(&answer).len(), network.elapsed_ms()), (2, 3000));
}

#[test]
fn the_next_server_is_asked_and_the_silent_one_last_from_then_on() {
    let mut network = Simulation::new(|seen: &Seen| match first(seen) {
        true => Deed::Drop,
        false if seen.is_v4() => seen.tell(1, "10.0.0.1"),
        false => seen.refuse(ResponseCode::NoError),
    });
    let resolver = Resolver::new(Settings::parse(TWO), Hosts::default());
    let answer = network.lookup_by(&resolver, "a.lab", Aim::Connect);
    assert_eq!((addresses(&answer), network.elapsed_ms()), (vec!["10.0.0.1".to_owned()], 5001));
    assert_eq!(
        failures(&answer),
        ["A", "AAAA"].map(|r| format!("192.0.2.1:53 asked for {r} of a.lab.: no answer in time"))
    );
    network.lookup_by(&resolver, "b.lab", Aim::Connect);
    assert_eq!(network.elapsed_ms(), 5002);
    assert_eq!(network.questions()[4..], ["192.0.2.2 A b.lab.", "192.0.2.2 AAAA b.lab."]);
}

#[test]
fn a_server_that_only_points_elsewhere_or_fails_is_not_believed() {
    for code in [ResponseCode::ServFail, ResponseCode::Refused, ResponseCode::NotImp, ResponseCode::FormErr] {
        let mut network = Simulation::new(|seen: &Seen| {
            if first(seen) {
                seen.refuse(code)
            } else {
                seen.tell(1, if seen.is_v4() { "10.0.0.1" } else { "fd00::1" })
            }
        });
        let answer = network.lookup("a.lab", TWO, Aim::Connect);
        assert_eq!(addresses(&answer), ["fd00::1", "10.0.0.1"], "{code}");
        assert!(answer.failures.iter().all(|failure| failure.cause == Cause::Refused(code.into())), "{answer:?}");
    }
}

#[test]
fn unanswered_questions_are_reported_with_server_and_question() {
    let mut network = Simulation::new(|_: &Seen| Deed::Drop);
    let answer = network.lookup("a", &format!("{ONE}search lab\noptions timeout:1 attempts:2\n"), Aim::Connect);
    assert_eq!(answer.outcome, Outcome::Failed);
    assert_eq!(
        failures(&answer),
        ["A", "AAAA"].map(|r| format!("192.0.2.1:53 asked for {r} of a.lab.: no answer in time"))
    );
    // Two rounds and one over TCP. The silence is the same for every other name.
    let asked = |over: &str| ["A", "AAAA"].map(|r| format!("192.0.2.1{over} {r} a.lab."));
    assert_eq!(network.questions(), [asked(""), asked(""), asked(" tcp")].concat());
    assert_eq!(network.elapsed_ms(), 3000);
}

#[test]
fn the_whole_takes_no_longer_than_it_may() {
    let mut network = Simulation::new(|_: &Seen| Deed::Drop);
    let conf = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\noptions timeout:30 attempts:5\n";
    let answer = network.lookup("a.lab", conf, Aim::Connect);
    assert_eq!((answer.outcome, network.elapsed_ms()), (Outcome::Failed, 30_000));
    assert_eq!(network.log.len(), 2, "the first server had all the time");
    assert_eq!(answer.failures.len(), 2, "who was not asked did not fail");
}

#[test]
fn a_server_that_answers_over_tcp_only_is_asked_so() {
    // UDP is dropped on the way, as by a firewall.
    let mut network = Simulation::new(|seen: &Seen| match seen.over {
        Over::Udp => Deed::Drop,
        Over::Tcp if seen.is_v4() => seen.tell(1, "10.0.0.1"),
        Over::Tcp => seen.refuse(ResponseCode::NoError),
    });
    let answer = network.lookup("a.lab", &format!("{ONE}options timeout:1\n"), Aim::Connect);
    assert_eq!((addresses(&answer), network.elapsed_ms()), (vec!["10.0.0.1".to_owned()], 2001));

    // UDP says that there is more.
    let truncated = |seen: &Seen| {
        let mut message = seen.addresses(&["10.0.0.9"]);
        message[2] |= 0x02;
        Deed::Send(vec![(1, message)])
    };
    let mut network = Simulation::new(|seen: &Seen| match seen.over {
        _ if !seen.is_v4() => seen.refuse(ResponseCode::Refused),
        Over::Udp => truncated(seen),
        Over::Tcp => seen.tell(1, "10.0.0.1"),
    });
    let answer = network.lookup("a.lab", &format!("{ONE}options attempts:1\n"), Aim::Connect);
    assert_eq!(addresses(&answer), ["10.0.0.1"]);
    assert_eq!(network.questions(), ["192.0.2.1 A a.lab.", "192.0.2.1 AAAA a.lab.", "192.0.2.1 tcp A a.lab."]);

    // There is more, and no way to get it.
    let mut network = Simulation::new(|seen: &Seen| match seen.over {
        _ if !seen.is_v4() => seen.refuse(ResponseCode::NoError),
        Over::Udp => truncated(seen),
        Over::Tcp => Deed::Unreachable,
    });
    let answer = network.lookup("a.lab", ONE, Aim::Connect);
    assert_eq!(addresses(&answer), ["10.0.0.9"], "a part is better than nothing");
    assert_eq!(failures(&answer), ["192.0.2.1:53 asked for A of a.lab.: connection refused"]);

    let mut network = Simulation::new(|seen: &Seen| seen.tell(1, if seen.is_v4() { "10.0.0.1" } else { "fd00::1" }));
    network.lookup("a.lab", &format!("{ONE}options use-vc\n"), Aim::Connect);
    assert_eq!(network.questions(), ["192.0.2.1 tcp A a.lab.", "192.0.2.1 tcp AAAA a.lab."]);
}

#[test]
fn what_does_not_answer_the_question_is_thrown_away() {
    let mut network = Simulation::new(|seen: &Seen| {
        if !seen.is_v4() {
            return seen.refuse(ResponseCode::NoError);
        }
        let evil = seen.addresses(&["10.66.66.66"]);
        let mut other_id = evil.clone();
        other_id[0] ^= 1;
        let mut question = evil.clone();
        question[2] &= 0x7f;
        let mut other_name = evil.clone();
        other_name[13] = b'b';
        let truth = seen.addresses(&["10.0.0.1"]);
        Deed::Send(vec![(1, other_id), (2, question), (3, other_name), (4, b"noise".to_vec()), (5, truth)])
    });
    let answer = network.lookup("a.lab", ONE, Aim::Connect);
    assert_eq!((addresses(&answer), network.log.len()), (vec!["10.0.0.1".to_owned()], 2));
}

#[test]
fn a_flood_of_forged_answers_ends_with_the_time() {
    let mut network = Simulation::new(|_: &Seen| Deed::Send((0..200).map(|_| (0, b"noise".to_vec())).collect()));
    let answer = network.lookup("a.lab", &format!("{ONE}options timeout:1 attempts:1\n"), Aim::Connect);
    assert_eq!(answer.outcome, Outcome::Failed);
}

#[test]
fn aliases_are_followed_so_far_and_no_further() {
    let mut network = Simulation::new(|seen: &Seen| {
        let records = [("a.lab.", alias("b.lab.")), ("b.lab.", alias("a.lab."))];
        Deed::Send(vec![(1, seen.with(ResponseCode::NoError, &records))])
    });
    let answer = network.lookup("a.lab", ONE, Aim::Connect);
    assert_eq!((answer.outcome, addresses(&answer).len()), (Outcome::DanglingAlias, 0));
}

#[test]
fn names_that_do_not_exist_are_searched_for() {
    let mut network = Simulation::new(|seen: &Seen| match seen.name.as_str() {
        "web.second." if seen.is_v4() => seen.tell(1, "10.0.0.2"),
        "web.second." => seen.refuse(ResponseCode::NoError),
        // Is there, and refuses one half of the question.
        "web.first." if seen.is_v4() => seen.refuse(ResponseCode::Refused),
        _ => seen.refuse(ResponseCode::NXDomain),
    });
    let conf = format!("{ONE}search first second\noptions attempts:1\n");
    assert_eq!(addresses(&network.lookup("web", &conf, Aim::Connect)), ["10.0.0.2"]);
    let none = network.lookup("nothing", &conf, Aim::Connect);
    assert_eq!(none.outcome, Outcome::NoSuchName);
    assert_eq!(none.source, Some(Source::Server("192.0.2.1:53".parse().unwrap())));
    // An absolute name is not searched for.
    assert_eq!(network.lookup("web.", &conf, Aim::Connect).outcome, Outcome::NoSuchName);
}

#[test]
fn a_denied_name_is_not_waited_for() {
    let serve = |seen: &Seen| match seen.name.as_str() {
        "web.first." if seen.is_v4() => seen.refuse(ResponseCode::NXDomain),
        // For want of AAAA records.
        "web.second." if !seen.is_v4() => seen.refuse(ResponseCode::NXDomain),
        "web.second." => seen.tell(500, "10.0.0.2"),
        _ => Deed::Drop,
    };
    let mut network = Simulation::new(serve);
    let answer = network.lookup("web", &format!("{ONE}search first second\n"), Aim::Connect);
    assert_eq!((addresses(&answer), network.elapsed_ms()), (vec!["10.0.0.2".to_owned()], 51 + 500));
}

#[test]
fn an_alias_of_a_name_that_does_not_exist_does_not_exist() {
    let mut network = Simulation::new(|seen: &Seen| {
        Deed::Send(vec![(1, seen.with(ResponseCode::NXDomain, &[("wild.c.d.", alias("gone.example."))]))])
    });
    let mut answer = network.lookup("wild.c.d.", ONE, Aim::Report);
    assert!(answer.source.take().is_some());
    assert_eq!(answer, Answer::new("wild.c.d.", Outcome::NoSuchName));
}

#[test]
fn an_alias_without_addresses_is_forgotten_once_there_are_some() {
    let serve = |seen: &Seen| match seen.name.as_str() {
        "web.first." => {
            Deed::Send(vec![(1, seen.with(ResponseCode::NoError, &[("web.first.", alias("nowhere.first."))]))])
        }
        "web.second." if seen.is_v4() => seen.tell(1, "10.0.0.2"),
        "web.second." => seen.refuse(ResponseCode::NoError),
        _ => seen.refuse(ResponseCode::NXDomain),
    };
    let mut answer = Simulation::new(serve).lookup("web", &format!("{ONE}search first second\n"), Aim::Report);
    assert!(answer.source.take().is_some());
    let expected = Answer {
        v4: vec![[10, 0, 0, 2].into()],
        canonical: Some("web.second.".into()),
        found_as: Some("web.second.".into()),
        ..Answer::new("web", Outcome::Found)
    };
    assert_eq!(answer, expected);
    let dangling = Simulation::new(serve).lookup("web.first.", ONE, Aim::Report);
    assert_eq!((dangling.outcome, dangling.canonical.as_deref()), (Outcome::DanglingAlias, Some("nowhere.first.")));
}

#[test]
fn options_are_heeded() {
    let serve = |seen: &Seen| seen.tell(10, if seen.is_v4() { "10.0.0.1" } else { "fd00::1" });
    let mut network = Simulation::new(serve);
    network.lookup("a.lab", &format!("{ONE}options single-request\n"), Aim::Connect);
    let times: Vec<u64> = network.log.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 10]);
    let mut network = Simulation::new(serve);
    assert_eq!(addresses(&network.lookup("a.lab", &format!("{ONE}options no-aaaa\n"), Aim::Connect)), ["10.0.0.1"]);
    let mut firsts = BTreeSet::new();
    for _ in 0..100 {
        let mut network = Simulation::new(serve);
        network.lookup("a.lab", &format!("{TWO}options rotate\n"), Aim::Connect);
        firsts.insert(network.questions()[0].to_owned());
    }
    assert_eq!(firsts.len(), 2, "one of two servers is asked first a hundred times once in 2^99 runs");
}

#[test]
fn this_host_s_own_names_are_not_sent_to_servers() {
    let mut network = Simulation::new(|_: &Seen| Deed::Unreachable);
    for name in ["localhost", "LOCALHOST.", "db.localhost"] {
        let answer = network.lookup(name, ONE, Aim::Connect);
        assert_eq!(
            (addresses(&answer), answer.source),
            (vec!["::1".into(), "127.0.0.1".into()], Some(Source::Localhost))
        );
    }
    let resolver = Resolver::new(Settings::parse(ONE), Hosts::parse("10.0.0.5 localhost api\n"));
    for name in ["localhost", "API."] {
        let answer = network.lookup_by(&resolver, name, Aim::Connect);
        assert_eq!((addresses(&answer), answer.source), (vec!["10.0.0.5".into()], Some(Source::HostsFile)));
    }
    assert!(network.log.is_empty());
}

#[test]
fn a_name_that_is_none_is_not_asked_for() {
    let mut network = Simulation::new(|_: &Seen| Deed::Drop);
    let answer = network.lookup("a..b", ONE, Aim::Report);
    assert_eq!((answer.outcome, network.log.len()), (Outcome::Failed, 0));
    let failure = Failure { server: None, name: "a..b.".into(), record: Record::A, cause: Cause::NotAName };
    assert_eq!(answer.failures.first(), Some(&failure));
}

#[test]
fn many_names_share_few_sockets() {
    let mut network = Simulation::new(|seen: &Seen| seen.tell(1, if seen.is_v4() { "10.0.0.1" } else { "fd00::1" }));
    let resolver = Resolver::new(Settings::parse(ONE), Hosts::default());
    let lookups: Vec<_> = (0..500).map(|n| resolver.lookup(&format!("host{n}.lab"), Aim::Report)).collect();
    let finished = resolver.drive(&mut network, lookups, Duration::from_secs(30));
    let names: Vec<_> = finished.iter().map(|lookup| lookup.answer.name.clone()).collect();
    assert_eq!(names, (0..500).map(|n| format!("host{n}.lab")).collect::<Vec<_>>());
    assert!(finished.iter().all(|lookup| lookup.answer.outcome == Outcome::Found));
    assert!(network.most_open <= 64, "{}", network.most_open);
}

#[test]
fn a_hosts_file_that_is_a_directory_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    assert!(Resolver::from_files(&missing, &missing).is_ok());
    let error = Resolver::from_files(directory.path(), &missing).unwrap_err();
    let expected = format!("cannot read {}, which name lookups need", directory.path().display());
    assert_eq!(error.to_string(), expected);
    assert!(matches!(Resolver::from_files(&missing, Path::new("/dev/zero")), Err(ReadError::Read { .. })));
}

proptest! {
    /// Whatever servers do: it ends in time; if the first one to say so knows an address, there is one; and nobody is asked
    /// without end.
    #[test]
    fn any_behaviour_of_servers_is_survived(deeds in proptest::collection::vec((0u8..7, 0u64..7000), 1..40), is_report: bool) {
        let turn = Cell::new(0);
        let is_answered = Cell::new(false);
        let is_denied = Cell::new(false);
        let mut network = Simulation::new(|seen: &Seen| {
            let (deed, ms) = deeds[turn.get() % deeds.len()];
            turn.set(turn.get() + 1);
            match deed {
                0 => Deed::Drop,
                1 => Deed::Unreachable,
                2 => seen.refuse(ResponseCode::Refused),
                3 => {
                    is_denied.set(is_denied.get() || seen.is_v4());
                    seen.refuse(ResponseCode::NXDomain)
                }
                4 => Deed::Send(vec![(ms, b"noise".to_vec())]),
                5 => {
                    let mut message = seen.with(ResponseCode::NoError, &[]);
                    message[2] |= 0x02;
                    Deed::Send(vec![(ms, message)])
                }
                _ => {
                    is_answered.set(is_answered.get() || ms < 5000);
                    seen.tell(ms, if seen.is_v4() { "10.0.0.1" } else { "fd00::1" })
                }
            }
        });
        let aim = if is_report { Aim::Report } else { Aim::Connect };
        let answer = network.lookup("host", &format!("{TWO}search lab d\n"), aim);
        prop_assert!(network.elapsed_ms() <= 30_000);
        prop_assert!(network.log.len() <= 3 * 2 * 3 * 3 * 2);
        let has_addresses = answer.addresses().next().is_some();
        prop_assert_eq!(answer.outcome == Outcome::Found, has_addresses);
        prop_assert!(!has_addresses || is_answered.get());
        // A server that denies the name, and then tells an address of it, is not waited for as long as it may take.
        let is_consistent = is_report || !is_denied.get();
        if network.elapsed_ms() < 30_000 && is_consistent {
            prop_assert!(has_addresses || !is_answered.get(), "{:?}", network.log);
        }
    }
}
