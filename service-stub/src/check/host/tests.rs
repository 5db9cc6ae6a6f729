use super::*;
use crate::model::HostKey;
use api::{HostId, InfraEnvId};

const NOW: i64 = 1_800_000_000;

fn record(inventory: serde_json::Value) -> HostRecord {
    let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
    let mut record = HostRecord::new(key, None, Timestamp::from_unix_seconds(NOW));
    record.set_inventory(inventory.to_string());
    record
}

fn findings(record: &HostRecord, presence: Presence, shared: &Shared) -> BTreeMap<&'static str, Status> {
    let context = Context {
        record,
        presence,
        cluster: None,
        infra_env: None,
        shared,
        requirements: &Requirements::default(),
        now: Timestamp::from_unix_seconds(NOW),
        started: Timestamp::from_unix_seconds(0),
    };
    run(&context, Waived::default()).all.into_iter().map(|(_, _, finding)| (finding.id, finding.status)).collect()
}

fn heard(seconds_ago: i64, clock_off: i64) -> Presence {
    Presence { checked_in_at: Timestamp::from_unix_seconds(NOW - seconds_ago), clock: NOW - seconds_ago + clock_off }
}

#[test]
fn thresholds_are_where_they_are_said_to_be() {
    let shared = Shared::default();
    let with = |cpus: u64, mib: u64, method: &str| {
        let inventory = serde_json::json!({
            "hostname": "a", "cpu": {"count": cpus},
            "memory": {"physical_bytes": mib << 20, "physical_bytes_method": method},
        });
        findings(&record(inventory), heard(0, 0), &shared)
    };
    use Status::{Failure, Success};
    assert_eq!(with(2, 8192, "ghw")["has-min-cpu-cores"], Success);
    assert_eq!(with(1, 8192, "ghw")["has-min-cpu-cores"], Failure);
    assert_eq!(with(2, 8092, "ghw")["has-min-memory"], Success);
    assert_eq!(with(2, 8091, "ghw")["has-min-memory"], Failure);
    assert_eq!(with(2, 7929, "meminfo")["has-min-memory"], Success);
    assert_eq!(with(2, 7928, "meminfo")["has-min-memory"], Failure);
}

#[test]
fn presence_and_clock() {
    use Status::{Failure, Pending, Success};
    let record = record(serde_json::json!({"hostname": "a"}));
    let check = |presence, id| findings(&record, presence, &Shared::default())[id];
    assert_eq!(check(heard(179, 0), "connected"), Success);
    assert_eq!(check(heard(180, 0), "connected"), Failure);
    assert_eq!(check(heard(0, -1200), "time-synced-between-host-and-service"), Success);
    assert_eq!(check(heard(0, -1201), "time-synced-between-host-and-service"), Failure);
    assert_eq!(check(heard(0, 3600), "time-synced-between-host-and-service"), Success);
    assert_eq!(check(heard(0, 3601), "time-synced-between-host-and-service"), Failure);
    let silent = Presence { clock: 0, ..heard(0, 0) };
    assert_eq!(check(silent, "time-synced-between-host-and-service"), Pending);
    let t = Timestamp::from_unix_seconds;
    assert!(connected(&record, heard(10_000, 0), t(NOW), t(NOW - 10)), "the service itself was down");
    let at = |stage| {
        let mut record = record.clone();
        record.host.progress = Some(api::HostProgressInfo { current_stage: Some(stage), ..Default::default() });
        connected(&record, heard(10_000, 0), t(NOW), t(0))
    };
    assert_eq!([at(HostStage::Rebooting), at(HostStage::Installing)], [true, false]);
    let mut bootstrap = record.clone();
    bootstrap.host.bootstrap = true;
    let heard_of = |seconds| connected(&bootstrap, heard(seconds, 0), t(NOW), t(0));
    assert_eq!([heard_of(299), heard_of(300)], [true, false], "it has more to do");
}

#[test]
fn hostnames() {
    for good in ["a", "sno-0", "node-1.example.com", "52-54-00-aa-bb-01", "0"] {
        assert!(valid_hostname(good), "{good}");
    }
    let long = "a".repeat(64);
    for bad in ["", "-a", "A", "a_b", "a..b", "a.", "localhost", "localhost.localdomain", &long] {
        assert!(!valid_hostname(bad), "{bad}");
    }
}

#[test]
fn a_host_without_inventory_waits() {
    let mut record = record(serde_json::json!({}));
    record.set_inventory(String::new());
    let found = findings(&record, heard(0, 0), &Shared::default());
    assert_eq!(found["has-inventory"], Status::Failure);
    assert_eq!(found["has-min-cpu-cores"], Status::Pending);
}
