use super::*;
use crate::model::{HostRecord, InfraEnvRecord};
use crate::state::HostState;
use api::HostId;
use redb::{Database, StorageBackend, backends::InMemoryBackend};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn all(store: &Store) -> Vec<Event> {
    store.events(&EventQuery { limit: usize::MAX, ..EventQuery::default() }).unwrap().events
}

fn event(message: &str) -> Event {
    Event {
        name: String::new(),
        cluster_id: None,
        host_id: None,
        infra_env_id: None,
        severity: "info".into(),
        category: "user".into(),
        message: message.into(),
        event_time: Timestamp::now(),
        request_id: String::new(),
        props: String::new(),
    }
}

#[test]
fn a_second_opener_is_refused_and_content_survives() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let host = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
    store
        .change("r1", |change| {
            change.put_host(HostRecord::new(host, None, change.now));
            change.event(event("hello"));
            Ok::<_, StoreError>(())
        })
        .unwrap();
    let heard = Presence { checked_in_at: Timestamp::from_unix_seconds(1_000), clock: 7 };
    store.presences().note(host, heard);
    store.save_presence().unwrap();
    assert!(matches!(Store::open(directory.path()), Err(StoreError::Locked { .. })));
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(store.model().hosts[&host].state, HostState::DiscoveringUnbound);
    assert_eq!(store.presences().get(host), heard);
    let events = all(&store);
    assert_eq!((events.len(), events[0].request_id.as_str()), (1, "r1"));
}

#[test]
fn a_limited_event_is_recorded_once_in_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let limits: EventLimits = r#"{"limited": "1h"}"#.parse().unwrap();
    let (first, second) = (Some(ClusterId::random()), Some(ClusterId::random()));
    let record = |store: &Store, name: &str, cluster_id: Option<ClusterId>, seconds_ago: i64| {
        let event_time = Timestamp::from_unix_seconds(Timestamp::now().unix_seconds() - seconds_ago);
        store
            .change("", |change| {
                change.event(Event { name: name.into(), cluster_id, event_time, ..event("said") });
                Ok::<_, StoreError>(())
            })
            .unwrap();
        all(store).len()
    };
    let store = Store::open(directory.path()).unwrap();
    store.limit_events(&limits);
    assert_eq!(record(&store, "limited", first, 4000), 1);
    assert_eq!(record(&store, "limited", first, 0), 2, "the hour is over");
    assert_eq!(record(&store, "limited", first, 0), 2);
    assert_eq!(record(&store, "limited", second, 0), 3, "of another cluster");
    assert_eq!(record(&store, "other", first, 0), 4);
    assert_eq!(record(&store, "other", first, 0), 5);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    store.limit_events(&limits);
    assert_eq!(record(&store, "limited", first, 0), 5, "the stored ones count");
}

#[test]
fn a_failed_change_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let failed = store.change("", |change| {
        change.event(event("never"));
        Err::<(), _>(StoreError::Locked { path: PathBuf::new() })
    });
    assert!(failed.is_err());
    assert_eq!(all(&store), []);
}

#[test]
fn a_damaged_event_hides_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    for text in ["first", "damaged", "last"] {
        store
            .change("", |change| {
                change.event(event(text));
                Ok::<_, StoreError>(())
            })
            .unwrap();
    }
    let transaction = store.file.begin_write().unwrap();
    transaction.open_table(EVENTS).unwrap().insert(1, b"{\"name\":".as_slice()).unwrap();
    transaction.commit().unwrap();
    let texts: Vec<_> = all(&store).into_iter().map(|event| event.message).collect();
    assert_eq!(texts, ["first", "last"]);
}

#[test]
fn plain_records_of_an_earlier_version_are_sealed() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let infra_env = InfraEnvId::random();
    let record = InfraEnvRecord {
        infra_env: api::InfraEnv { id: infra_env, name: "old".into(), ..api::InfraEnv::default() },
        pull_secret: api::Secret::new("hunter2"),
        ..InfraEnvRecord::default()
    };
    let raw = |store: &Store| {
        let transaction = store.file.begin_read().unwrap();
        transaction.open_table(INFRA_ENVS).unwrap().get(key(infra_env.0)).unwrap().unwrap().value().to_vec()
    };
    let transaction = store.file.begin_write().unwrap();
    let plain = serde_json::to_vec(&record).unwrap();
    transaction.open_table(INFRA_ENVS).unwrap().insert(key(infra_env.0), plain.as_slice()).unwrap();
    transaction.open_table(META).unwrap().insert("format", PLAIN_FORMAT).unwrap();
    transaction.commit().unwrap();
    assert_eq!(raw(&store), plain);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(store.model().infra_envs[&infra_env].pull_secret.expose(), "hunter2");
    assert!(Seal::is_sealed(&raw(&store)), "sealed with the first start");
    drop(store);
    std::fs::remove_file(directory.path().join(seal::FILE)).unwrap();
    assert!(matches!(Store::open(directory.path()), Err(StoreError::Seal(SealError::Foreign))));
}

#[test]
fn what_earlier_versions_stored_of_hosts_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let host = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
    let mut old = serde_json::to_value(HostRecord::new(host, None, Timestamp::from_unix_seconds(1_000))).unwrap();
    old.as_object_mut().unwrap().remove("texts");
    old["kept"] = serde_json::json!({"ntp_sources": "[]", "node_labels": "{}", "of_a_later_version": "x"});
    let sealed = store.encode("host", &host.host, &old).unwrap();
    let transaction = store.file.begin_write().unwrap();
    transaction.open_table(HOSTS).unwrap().insert(pair(host), sealed.as_slice()).unwrap();
    transaction.commit().unwrap();
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(store.damage(), []);
    let record = store.model().hosts[&host].clone();
    let texts = [("ntp_sources", "[]"), ("node_labels", "{}")];
    assert_eq!(record.texts.published().collect::<Vec<_>>(), texts);
    let written = store.change("", |change| {
        change.put_host(HostRecord::clone(&record));
        Ok::<_, StoreError>(())
    });
    written.unwrap();
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(store.model().hosts[&host].texts.published().collect::<Vec<_>>(), texts);
}

#[test]
fn another_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let transaction = store.file.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("format", 99).unwrap();
    transaction.commit().unwrap();
    drop(store);
    assert!(matches!(Store::open(directory.path()), Err(StoreError::Format { found: 99, .. })));
}

/// A disk whose syncs take their time, are counted, and fail on demand.
#[derive(Clone, Debug)]
struct Slow {
    memory: Arc<InMemoryBackend>,
    state: Arc<(AtomicUsize, AtomicBool)>,
}

impl StorageBackend for Slow {
    fn len(&self) -> std::io::Result<u64> {
        self.memory.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.memory.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.memory.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        std::thread::sleep(std::time::Duration::from_millis(5));
        self.state.0.fetch_add(1, Ordering::SeqCst);
        if self.state.1.load(Ordering::SeqCst) { Err(std::io::Error::other("no space")) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.memory.write(offset, data)
    }
}

fn slow() -> (Store, Arc<(AtomicUsize, AtomicBool)>) {
    let state = Arc::new((AtomicUsize::new(0), AtomicBool::new(false)));
    let backend = Slow { memory: Arc::new(InMemoryBackend::new()), state: state.clone() };
    let open = move || Ok(Database::builder().create_with_backend(backend.clone())?);
    (
        Store::over(DatabaseFile::open(Box::new(open)).unwrap(), Path::new(""), Seal::new(&[7; 32]).unwrap()).unwrap(),
        state,
    )
}

fn tell(store: &Store, text: &str) -> Result<(), StoreError> {
    store.change("", |change| {
        change.event(event(text));
        Ok(())
    })
}

#[test]
fn changes_that_come_together_are_synced_together() {
    let (store, state) = slow();
    let before = state.0.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        for writer in 0..20 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..5 {
                    let text = format!("{writer}-{number}");
                    tell(store, &text).unwrap();
                    // Answered means: there for everybody.
                    assert!(all(store).iter().any(|event| event.message == text));
                }
            });
        }
    });
    let syncs = state.0.load(Ordering::SeqCst) - before;
    assert_eq!(all(&store).len(), 100);
    assert!(syncs < 60, "{syncs} syncs for 100 changes by 20 writers");
}

#[test]
fn a_commit_that_fails_takes_all_its_changes_with_it() {
    let (store, state) = slow();
    tell(&store, "kept").unwrap();
    state.1.store(true, Ordering::SeqCst);
    let failed: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8).map(|_| scope.spawn(|| tell(&store, "lost").is_err())).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(failed, [true; 8]);
    let texts = |store: &Store| -> Vec<String> { all(store).into_iter().map(|event| event.message).collect() };
    // As long as the disk takes nothing, neither does the store; then it goes on, and nothing of what was refused comes back.
    assert!(tell(&store, "lost").is_err());
    state.1.store(false, Ordering::SeqCst);
    assert_eq!(texts(&store), ["kept"]);
    tell(&store, "later").unwrap();
    assert_eq!(texts(&store), ["kept", "later"]);
    let Store { file, .. } = store;
    let store = Store::over(file, Path::new(""), Seal::new(&[7; 32]).unwrap()).unwrap();
    assert_eq!(texts(&store), ["kept", "later"]);
}

#[test]
fn pages_of_events() {
    let (store, _) = slow();
    let [cluster, other] = [ClusterId::random(), ClusterId::random()];
    let [gone, here] = [HostId::random(), HostId::random()];
    let severities = ["info", "warning", "info", "error", "info"];
    store
        .change("", |change| {
            // Told late, listed first.
            for (number, severity) in severities.iter().enumerate() {
                let at = if number == 4 { 1 } else { 100 + i64::try_from(number).unwrap() };
                change.event(Event {
                    cluster_id: Some(if number == 3 { other } else { cluster }),
                    host_id: [None, Some(gone), Some(here)].into_iter().cycle().nth(number).unwrap(),
                    severity: (*severity).to_owned(),
                    event_time: Timestamp::from_unix_seconds(at),
                    ..event(&format!("Event {number}"))
                });
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    let page = |query: EventQuery| {
        let page = store.events(&EventQuery { limit: query.limit.max(1), ..query }).unwrap();
        let numbers: String = page.events.iter().map(|event| event.message.trim_start_matches("Event ")).collect();
        (numbers, page.total, page.by_severity)
    };
    let every = EventQuery { limit: 10, ..EventQuery::default() };
    assert_eq!(page(every.clone()), ("40123".into(), 5, [3, 1, 1, 0]));
    let of_cluster = EventQuery { cluster: Some(cluster), ..every.clone() };
    assert_eq!(
        page(EventQuery { descending: true, offset: 1, limit: 2, ..of_cluster.clone() }),
        ("10".into(), 4, [3, 1, 0, 0])
    );
    assert_eq!(
        page(EventQuery { message: Some("event 2".into()), ..of_cluster.clone() }),
        ("2".into(), 1, [1, 0, 0, 0])
    );
    assert_eq!(
        page(EventQuery { severities: Some(vec!["warning".into()]), ..of_cluster }),
        ("1".into(), 1, [0, 1, 0, 0])
    );
    let hosts = |these: &[HostId], none, other_than: Option<&[HostId]>| {
        let hosts = HostFilter::Any { these: these.to_vec(), none, other_than: other_than.map(<[HostId]>::to_vec) };
        page(EventQuery { hosts, ..every.clone() }).0
    };
    assert_eq!(hosts(&[here], false, None), "2");
    assert_eq!(hosts(&[], true, None), "03");
    assert_eq!(hosts(&[], false, Some(&[here])), "41");
    assert_eq!(hosts(&[here], true, Some(&[here])), "40123");
    assert_eq!(page(EventQuery { cluster: Some(ClusterId::random()), ..every }).1, 0);
}

#[test]
fn the_oldest_entries_of_the_journal_go_first() {
    let mut journal = Journal::default();
    for number in 0..10 {
        journal.push(Some(&event(&number.to_string())), 3);
    }
    let stored: Vec<u64> = journal.find(&EventQuery::default()).into_iter().map(|(sequence, _)| sequence).collect();
    assert_eq!((stored, journal.next()), (vec![7, 8, 9], 10));
}

#[test]
fn a_loud_cluster_loses_its_own_oldest_events() {
    let [loud, quiet] = [ClusterId::random(), ClusterId::random()];
    let of = |cluster, text: &str| Event { cluster_id: Some(cluster), ..event(text) };
    let mut journal = Journal::default();
    journal.push(Some(&of(quiet, "first")), MAX_EVENTS);
    for number in 0..5 {
        journal.push(Some(&of(loud, &number.to_string())), MAX_EVENTS);
    }
    let out = journal.crowded_out(&[of(loud, "5"), of(loud, "6"), of(quiet, "second")], 4);
    assert_eq!(out, [1, 2, 3], "seven of four");
    out.into_iter().for_each(|sequence| journal.remove(sequence));
    let left = |journal: &Journal| journal.find(&EventQuery::default()).into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!(left(&journal), [0, 4, 5]);
    assert_eq!(journal.crowded_out(&[of(loud, "7")], 4), [] as [u64; 0]);
}

#[test]
fn gaps_between_events_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    for text in ["a", "b", "c"] {
        tell(&store, text).unwrap();
    }
    let transaction = store.file.begin_write().unwrap();
    transaction.open_table(EVENTS).unwrap().remove(1).unwrap();
    transaction.commit().unwrap();
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    tell(&store, "d").unwrap();
    let texts: Vec<_> = all(&store).into_iter().map(|event| event.message).collect();
    assert_eq!(texts, ["a", "c", "d"]);
}

#[test]
fn a_full_disk_takes_only_what_makes_room() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let host = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
    let put = |store: &Store| {
        store.change("", |change| {
            change.put_host(HostRecord::new(host, None, change.now));
            Ok::<_, StoreError>(())
        })
    };
    put(&store).unwrap();
    store.leave_free(u64::MAX);
    assert!(matches!(put(&store), Err(StoreError::Room(_))));
    assert!(matches!(tell(&store, "x"), Err(StoreError::Room(_))));
    store
        .change("", |change| {
            change.remove_host(host);
            Ok::<_, StoreError>(())
        })
        .unwrap();
    store.leave_free(0);
    put(&store).unwrap();
}
