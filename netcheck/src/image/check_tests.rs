use super::*;
use serde_json::json;
use std::{cell::RefCell, path::Path};

/// A store that writes down what it is asked.
#[derive(Default)]
struct Fake {
    asked: RefCell<Vec<String>>,
    question_timeouts: RefCell<Vec<Duration>>,
}

impl Store for Fake {
    fn holds(&self, image: &str, timeout: Duration) -> Result<bool, StoreError> {
        self.question_timeouts.borrow_mut().push(timeout);
        self.asked.borrow_mut().push(format!("holds {image}"));
        Ok(image.contains("held"))
    }

    fn pull(&self, image: &str, timeout: Duration) -> Result<(), StoreError> {
        assert!(timeout <= Duration::from_secs(960) && timeout > Duration::from_secs(900));
        self.asked.borrow_mut().push(format!("pull {image}"));
        if image.contains("slow") { Err(StoreError::Timeout { action: "pull", after: timeout }) } else { Ok(()) }
    }

    fn size_bytes(&self, image: &str, timeout: Duration) -> Result<u64, StoreError> {
        self.question_timeouts.borrow_mut().push(timeout);
        self.asked.borrow_mut().push(format!("size {image}"));
        Ok(1_000_000)
    }
}

fn with_store(images: &[&str], timeout: Option<i64>) -> (Findings, Fake) {
    let images = images.iter().map(|image| image.to_string()).collect();
    let request = ContainerImageAvailabilityRequest { images, timeout };
    let store = Fake::default();
    let findings = check(&request, &ImageOptions::default(), Some(&store), &|_| ()).unwrap();
    (findings, store)
}

#[test]
fn a_store_is_asked_before_it_pulls() {
    let (findings, store) = with_store(&["a.b/held", "a.b/new", "a.b/slow", "--all"], None);
    let expected =
        ["holds a.b/held", "holds a.b/new", "pull a.b/new", "size a.b/new", "holds a.b/slow", "pull a.b/slow"];
    assert_eq!(*store.asked.borrow(), expected);
    let mut report = serde_json::to_value(findings.report()).unwrap();
    let stored = &mut report["images"][1];
    let [time, rate] = ["time", "download_rate"].map(|name| stored[name].take().as_f64().unwrap());
    assert!((time * rate - 1.0).abs() < 1e-9, "{time} s at {rate} MB/s");
    let expected = json!({"images": [
        {"name": "a.b/held", "result": "success"},
        {"name": "a.b/new", "result": "success", "size_bytes": 1_000_000, "time": null, "download_rate": null},
        {"name": "a.b/slow", "result": "failure"},
        {"name": "--all", "result": "failure"},
    ]});
    assert_eq!(report, expected);
    assert!(!findings.all_available());
}

#[test]
fn without_time_nothing_is_pulled() {
    for timeout in [0, -1, i64::MIN] {
        let (findings, store) = with_store(&["a.b/held", "a.b/new"], Some(timeout));
        assert_eq!(*store.asked.borrow(), ["holds a.b/held", "holds a.b/new"]);
        assert!(matches!(
            findings.images[..],
            [
                Finding { outcome: Ok(Availability::Present), .. },
                Finding { outcome: Err(ImageError::NoTime { limit_s: 0 }), .. }
            ]
        ));
    }
}

#[test]
fn questions_about_the_store_share_the_time() {
    let timeouts = |timeout| with_store(&["a.b/held", "a.b/new"], timeout).1.question_timeouts.into_inner();
    assert_eq!(timeouts(None), [Duration::from_secs(60); 3], "neither takes longer than this");
    let short = timeouts(Some(0));
    assert!(short[0] <= Duration::from_secs(20) && short[1] < short[0], "{short:?}");
}

fn endpoint(name: &str, mirror: bool) -> Endpoint {
    let Ok(Name::Full(reference)) = name.parse() else { panic!("{name}") };
    Endpoint { reference, insecure: false, blocked: false, mirror }
}

#[test]
fn the_table_says_where_and_why() {
    let name = || Attempt {
        endpoint: endpoint("m.lab/a:1", true),
        error: FetchError::Name { authority: "m.lab".into(), source: ureq::Error::HostNotFound },
    };
    let refused = Attempt {
        endpoint: endpoint("b.io/a:1", false),
        error: FetchError::Refused {
            authority: "b.io".into(),
            user: "someone".into(),
            file: "/root/.docker/config.json".into(),
            status: 401,
            said_text: "UNAUTHORIZED authentication required".into(),
        },
    };
    let finding = |name: &str, outcome| Finding { name: name.into(), outcome };
    let time = Duration::from_secs(2);
    let fetched = |size_bytes, attempts| {
        Ok(Availability::Fetched { endpoint: endpoint("b.io/a:1", false), size_bytes, time, attempts })
    };
    let findings = Findings {
        images: vec![
            finding("b.io/a:1", fetched(25_000_000, vec![name()])),
            finding("b.io/b:1", fetched(0, vec![])),
            finding("b.io/c:1", Ok(Availability::Stored { size_bytes: 1_000_000, time })),
            finding("b.io/d:1", Err(ImageError::Nowhere(vec![name(), refused]))),
            finding("\u{1b}", "\u{1b}".parse::<Name>().map(|_| Availability::Present).map_err(ImageError::from)),
        ],
    };
    let expected = "\
b.io/a:1
  available from b.io/a:1, 23.8 MiB in 2.0 s, 11.9 MiB/s
  mirror m.lab/a:1: name: the name in m.lab cannot be resolved: host not found
    check the name, and the host's DNS servers (landfall netcheck dns)

b.io/b:1
  available from b.io/a:1, all parts shared with images above

b.io/c:1
  available, now stored, 976.6 KiB in 2.0 s, 488.3 KiB/s

b.io/d:1
  NOT AVAILABLE
  mirror m.lab/a:1: name: the name in m.lab cannot be resolved: host not found
    check the name, and the host's DNS servers (landfall netcheck dns)
  source b.io/a:1: auth: b.io refuses the credentials of user 'someone' from /root/.docker/config.json (status 401, it says: UNAUTHORIZED authentication required)
    renew these credentials, or give the user read access to the repository

\\u{1b}
  NOT AVAILABLE: not a valid image name: '\u{fffd}' is not a repository path: expected lower-case letters and digits, separated by '/', '.', '_' or '-'
";
    assert_eq!(table::render(&findings, Path::new("/etc/containers/certs.d")), expected);
    let report = serde_json::to_value(findings.report()).unwrap();
    let first =
        json!({"name": "b.io/a:1", "result": "success", "size_bytes": 25_000_000, "time": 2.0, "download_rate": 12.5});
    assert_eq!(report["images"][0], first);
    assert_eq!(report["images"][1], json!({"name": "b.io/b:1", "result": "success"}));
}
