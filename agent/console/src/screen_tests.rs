use super::*;
use crate::{facts::Interface, network::tests::filled};
use serde_json::json;

fn facts() -> Facts {
    let file = json!({"host_id": "b1f5c5b7-caf8-66bd-addd-439b331f2640", "registered": "2026-01-01T00:00:00Z",
        "infra_env_id": "bbbbbbbb-0000-0000-0000-000000000001",
        "service": {"url": "https://s.example", "state": "reachable"}, "last_step": "inventory",
        "running": [{"step_type": "install", "step_id": "1", "since": "2026-01-01T00:00:00Z"}],
        "stage": {"stage": "Writing image to disk", "info": "25%"},
        "user_action": "fix the boot order",
        "last_results": {"inventory": {"exit_code": 0, "at": "2026-01-01T00:00:00Z"},
            "ntp-synchronizer": {"exit_code": 5, "at": "2026-01-01T00:00:00Z"}},
        "last_error": {"at": "2026-01-01T00:00:00Z", "text": "POST /x: no\u{1b}[2J\u{202e} connection refused"}});
    let interface = Interface {
        name: "eth0".into(),
        mac: "02:00:00:00:00:01".into(),
        state: "up",
        addresses: vec!["192.0.2.7/24".into()],
        is_ethernet: true,
    };
    let mut facts = Facts { interfaces: vec![interface], ..Facts::default() };
    facts.view.name = "edge-17".into();
    facts.now = api::Timestamp::from_unix_seconds(1_795_688_100);
    facts.view.agent = Some((serde_json::from_value(file).unwrap(), true));
    facts.log = Some((0..100).map(|n| format!("12:00:00 line {n}")).collect());
    facts
}

fn screen() -> Screen {
    let mut screen = Screen::new(true);
    screen.take(Event::Facts(Box::new(facts())));
    screen
}

fn type_in(screen: &mut Screen, text: &str) {
    for c in text.chars() {
        assert!(screen.key(Key::Char(c)).is_none());
    }
}

fn text(screen: &Screen) -> String {
    screen.draw(80, 24).text()
}

#[test]
fn the_status_is_on_the_screen() {
    let shown = text(&screen());
    assert_eq!(shown.lines().count(), 24);
    for part in [
        " Landfall  edge-17                                     2026-11-26 ",
        " host        b1f5c5b7-caf8-66bd-addd-439b331f2640\n",
        " service     https://s.example: reachable, this host is registered\n",
        " agent       running install\n",
        " stage       [#####---------------] Writing image to disk 25%\n",
        " to do       fix the boot order\n",
        " error       POST /x: no?[2J? connection refused\n",
        " network     eth0       up       02:00:00:00:00:01 192.0.2.7/24\n",
        " checks      ntp-synchronizer failed (5) at 2026-01-01",
        "             ok: inventory\n",
        " 12:00:00 line 99\n",
        " n network  s service  r rendezvous  l log  c shell  q quit\n",
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    assert!(!text(&Screen::new(false)).contains("quit"));
}

#[test]
fn every_page_fits_every_screen() {
    let mut screen = screen();
    for page in [None, Some('l'), Some('c'), Some('n'), Some('s'), Some('r')] {
        screen.key(Key::Escape);
        page.map(|page| screen.key(Key::Char(page)));
        for (width, height) in [(80, 24), (60, 16), (200, 60), (40, 10), (1, 1), (0, 0), (79, 3)] {
            let shown = screen.draw(width, height).text();
            assert!(shown.lines().count() == height && shown.lines().all(|line| line.len() <= width), "{shown}");
        }
    }
    assert!(screen.draw(40, 10).text().starts_with("This screen has 40x10 characters, and\n60x16 are needed.\n"));
}

#[test]
fn many_interfaces_are_scrolled_through() {
    let mut all = facts();
    all.interfaces = (0..40).map(|n| Interface { name: format!("eth{n}"), ..Interface::default() }).collect();
    let mut screen = Screen::new(true);
    screen.take(Event::Facts(Box::new(all)));
    assert!(text(&screen).contains("Up, Down: more") && !text(&screen).contains("eth39"));
    screen.key(Key::End);
    assert!(text(&screen).contains("eth39"));
    screen.key(Key::Home);
    assert!(text(&screen).contains(" host "));
}

#[test]
fn the_log_is_scrolled_from_its_end() {
    let mut screen = screen();
    screen.key(Key::Tab);
    assert!(text(&screen).contains("line 99") && !text(&screen).contains("line 79\n"));
    screen.key(Key::PageUp);
    screen.key(Key::Up);
    assert!(text(&screen).contains("line 88\n") && !text(&screen).contains("line 89\n"));
    screen.key(Key::Home);
    assert!(text(&screen).contains("line 0\n") && text(&screen).contains("line 19\n"));
    screen.key(Key::End);
    assert!(text(&screen).contains("line 99"));
    screen.key(Key::Char('l'));
    assert!(text(&screen).contains(" host "));
}

#[test]
fn only_a_screen_that_may_be_left_is_left() {
    let mut screen = screen();
    assert!(matches!(screen.key(Key::Char('q')), Some(Action::Quit)));
    assert!(matches!(screen.key(Key::Interrupt), Some(Action::Quit)));
    let mut fixed = Screen::new(false);
    assert!(fixed.key(Key::Char('q')).is_none() && fixed.key(Key::Interrupt).is_none());
    screen.key(Key::Char('s'));
    assert!(screen.key(Key::Char('q')).is_none(), "a letter of a value");
}

#[test]
fn the_service_is_set_once_its_form_is_right() {
    let mut screen = screen();
    screen.key(Key::Char('s'));
    assert!(text(&screen).contains("https://s.example_") && text(&screen).contains("bbbbbbbb-0000"));
    for (url, wrong) in [("ftp://x", true), ("https://", true), ("https://a b", true), ("http://new:8090", false)] {
        (0..40).for_each(|_| drop(screen.key(Key::Backspace)));
        type_in(&mut screen, url);
        let action = screen.key(Key::Enter);
        assert_eq!(action.is_none(), wrong, "{url}");
        if let Some(action) = action {
            let Action::Set(values) = action else { panic!("{action:?}") };
            let infra_env = "bbbbbbbb-0000-0000-0000-000000000001".to_owned();
            assert_eq!(values, [(config::Key::Url, url.to_owned()), (config::Key::InfraEnvId, infra_env)]);
        } else {
            assert!(text(&screen).contains("is not a URL"), "{url}");
        }
    }
    assert!(text(&screen).contains("setting the service ...") && screen.key(Key::Enter).is_none(), "one at a time");
    screen.take(Event::Refused("no bus".into()));
    assert!(text(&screen).contains("no bus") && text(&screen).contains("http://new:8090_"), "the form stays");
    assert!(screen.key(Key::Enter).is_some());
    screen.take(Event::Done("set".into()));
    assert!(text(&screen).contains("\n set\n") && text(&screen).contains(" host "));
}

#[test]
fn the_rendezvous_is_an_address_or_nothing() {
    let mut screen = screen();
    screen.key(Key::Char('r'));
    type_in(&mut screen, "a b");
    assert!(screen.key(Key::Enter).is_none() && text(&screen).contains("'a b' is not ADDRESS"));
    (0..3).for_each(|_| drop(screen.key(Key::Backspace)));
    assert!(matches!(screen.key(Key::Enter), Some(Action::Set(values)) if values.is_empty()));
    screen.take(Event::Refused("x".into()));
    type_in(&mut screen, "192.0.2.1");
    let expected = [(config::Key::Rendezvous, "192.0.2.1".to_owned())];
    assert!(matches!(screen.key(Key::Enter), Some(Action::Set(values)) if values == expected));
}

#[test]
fn a_network_is_shown_then_tried_then_kept_or_not() {
    let tried = || {
        let mut screen = screen();
        screen.key(Key::Char('n'));
        assert!(text(&screen).contains("< eth0 >") && text(&screen).contains("< DHCP >"));
        type_in(&mut screen, " ");
        let Some(Action::Plan(settings)) = screen.key(Key::Enter) else { panic!() };
        assert_eq!(settings, network::parse(&filled(&[])).unwrap());
        screen.take(Event::Planned(settings.plan().unwrap()));
        assert!(text(&screen).contains("# eth0.nmconnection"), "{}", text(&screen));
        assert!(matches!(screen.key(Key::Enter), Some(Action::Apply(_))));
        assert!(text(&screen).contains("applying the network"));
        screen.tick(100);
        let report = vec![(true, "addresses: eth0 192.0.2.7/24".into()), (false, "gateway: no".into())];
        screen.take(Event::Tried(Trial { checkpoint: "/c/1".into(), report }));
        screen.tick(130);
        screen
    };
    let mut kept = tried();
    assert!(text(&kept).contains("taken back in 30 s") && text(&kept).contains("gateway: no"));
    assert!(kept.key(Key::Enter).is_none(), "only its letter keeps it");
    assert!(matches!(kept.key(Key::Char('k')), Some(Action::Keep(checkpoint)) if checkpoint == "/c/1"));
    kept.take(Event::Done("kept".into()));
    assert!(text(&kept).contains("\n kept\n"));
    assert!(matches!(tried().key(Key::Escape), Some(Action::TakeBack(checkpoint)) if checkpoint == "/c/1"));
    let mut forgotten = tried();
    forgotten.tick(160);
    assert!(text(&forgotten).contains("not kept: the network is as it was"));
}

#[test]
fn a_failure_while_it_is_tried_is_said() {
    let mut screen = screen();
    screen.take(Event::Refused("the network is as it was: no\u{1b}c bus".into()));
    assert!(text(&screen).contains(" the network is as it was: no?c bus\n"));
}
