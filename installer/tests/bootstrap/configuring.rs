//! Telling which hosts have fetched their configs.

use super::*;
use installer::bootstrap::configuring::Watcher;

const LOG: &str = "/var/log/containers/machine-config-server-node-1_openshift-machine-config-operator_mcs-1.log";
const OTHER: &str = "/var/log/containers/machine-config-server-node-1_openshift-machine-config-operator_mcs-2.log";

fn line(pool: &str, address: &str) -> String {
    format!(
        "2026-11-22T18:00:00.0Z stderr F I1122 api.go:66] Pool {pool} requested by address:\"{address}:53442\" \
         User-Agent:\"Ignition/2.14.0\" Accept-Header: \"x\"\n"
    )
}

fn service(hosts: Value) -> FakeService {
    let asked = Mutex::new(0);
    FakeService::start(move |request| match request.method.as_str() {
        "GET" => {
            *asked.lock().unwrap() += 1;
            // It has trouble at first.
            if *asked.lock().unwrap() == 1 {
                Answer::Status(500)
            } else {
                Answer::Json(200, json!({"id": CLUSTER, "hosts": hosts}))
            }
        }
        _ => Answer::Done,
    })
}

fn append(host: &FakeHost<'_>, at: &str, text: &str) {
    let before = fs::read_to_string(path(host, at)).unwrap_or_default();
    fs::create_dir_all(path(host, at).parent().unwrap()).unwrap();
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path(host, at)).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    assert!(text.len() + before.len() > 0);
}

fn reports(requests: &[Request]) -> Vec<String> {
    let reports = requests.iter().filter(|r| r.ends_with("PUT", "/progress"));
    reports
        .map(|r| {
            let host = r.path.split('/').nth(5).unwrap().chars().last().unwrap();
            format!("{host} {}", r.body["current_stage"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn each_host_is_reported_once_from_any_log_and_the_thread_ends_by_itself() {
    let mut hosts: Vec<_> =
        (1..=7).map(|number| member(number, if number == 4 { "worker" } else { "master" })).collect();
    hosts[4]["status"] = "disabled".into();
    hosts[5]["progress"]["current_stage"] = "Joined".into();
    hosts[6]["progress"]["current_stage"] = "Waiting for ignition".into();
    let service = service(hosts.into());
    let host = host();
    let setup = Setup::new(&service, |_| {});
    let watcher = Watcher::start(host.root.path(), &setup.context(), &Cancel::default()).unwrap();
    let wait = |count: usize| reports(&service.wait_for("a report", |requests| reports(requests).len() >= count));
    // Its own request is no news; half a line is none.
    let first = line("master", "10.0.0.1");
    let second = line("master", "10.0.0.2");
    append(&host, LOG, &format!("{first}{}", &second[..90]));
    thread::sleep(Duration::from_millis(20));
    append(&host, LOG, &second[90..]);
    assert_eq!(wait(1), ["2 Configuring"]);
    append(&host, OTHER, &line("worker", "[fd00::4%ens3]"));
    assert_eq!(wait(2)[1], "4 Waiting for ignition");
    // Replaced by a new one of the same name.
    fs::rename(path(&host, LOG), path(&host, &format!("{LOG}.1"))).unwrap();
    append(&host, LOG, &format!("{}{}", line("master", "10.0.0.2"), line("master", "10.0.0.3")));
    assert_eq!(wait(3)[2], "3 Configuring");
    watcher.finish();
    assert_eq!(reports(&service.requests()).len(), 3);
    let gets = service.requests().iter().filter(|r| r.method == "GET").count();
    assert_eq!(gets, 2, "once it has answered it is not asked again");
}

#[test]
fn a_report_that_does_not_get_out_is_made_again() {
    let refused = Shared::new(0);
    let count = refused.clone();
    let service = FakeService::start(move |request| match request.method.as_str() {
        "GET" => Answer::Json(200, json!({"id": CLUSTER, "hosts": [member(2, "master")]})),
        _ => {
            count.change(|count| *count += 1);
            if count.get() < 3 { Answer::Status(503) } else { Answer::Done }
        }
    });
    let host = host();
    append(&host, LOG, &line("master", "10.0.0.2"));
    let setup = Setup::new(&service, |_| {});
    let watcher = Watcher::start(host.root.path(), &setup.context(), &Cancel::default()).unwrap();
    service.wait_for("the third report", |requests| reports(requests).len() == 3);
    watcher.finish();
    assert_eq!(refused.get(), 3);
}

#[test]
fn it_ends_when_cancelled_and_when_finished() {
    let service = service(json!([member(2, "master")]));
    let setup = Setup { pace: SLOW, ..Setup::new(&service, |_| {}) };
    let host = host();
    for cancels in [false, true] {
        let cancel = Cancel::default();
        let watcher = Watcher::start(host.root.path(), &setup.context(), &cancel).unwrap();
        thread::sleep(Duration::from_millis(30));
        if cancels {
            cancel.cancel();
        }
        watcher.finish();
    }
}
