//! Three hundred damaged copies of a store: none starts empty without a word, none panics, and every record that was not hit is
//! served.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use api::{Cluster, ClusterId, HostId, InfraEnv, InfraEnvId, Secret};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::Value;
use service_stub::model::{ClusterRecord, Event, HostKey, HostRecord, InfraEnvRecord};
use service_stub::state::ClusterState;
use service_stub::store::{EventQuery, Store, StoreError};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

const STORE: &str = "state.redb";
const KEY: &str = "secrets-key";
const PAGE_BYTES: usize = 4096;
const ONE: [TableDefinition<u128, &[u8]>; 2] = [TableDefinition::new("clusters"), TableDefinition::new("infra_envs")];
const TWO: TableDefinition<(u128, u128), &[u8]> = TableDefinition::new("hosts");
const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");

fn event(message: String) -> Event {
    serde_json::from_value(serde_json::json!({"severity": "info", "message": message,
        "event_time": "2026-11-21T03:15:46.000Z"}))
    .unwrap()
}

/// As a service leaves it that ran for a while: records were changed, and pages are used again.
fn fill(directory: &Path) {
    let store = Store::open(directory).unwrap();
    let change = |work: &dyn Fn(&mut service_stub::store::Change)| {
        store
            .change("", |change| {
                work(change);
                Ok::<_, StoreError>(())
            })
            .unwrap();
    };
    let clusters: Vec<ClusterId> = (0..6).map(|_| ClusterId::random()).collect();
    for id in &clusters {
        change(&|change| {
            let cluster = Cluster { id: *id, name: "rack".into(), ..Cluster::default() };
            change.put_cluster(ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::new("secret")));
        });
    }
    let infra_envs: Vec<InfraEnvId> = (0..6).map(|_| InfraEnvId::random()).collect();
    for id in &infra_envs {
        change(&|change| {
            let infra_env = InfraEnv { id: *id, name: "lab".into(), ..InfraEnv::default() };
            change.put_infra_env(InfraEnvRecord { infra_env, ..InfraEnvRecord::default() });
        });
    }
    let hosts: Vec<HostKey> =
        (0..60).map(|n| HostKey { infra_env: infra_envs[n % 6], host: HostId::random() }).collect();
    for round in 0..3 {
        for (n, key) in hosts.iter().enumerate() {
            change(&|change| {
                let mut record = HostRecord::new(*key, None, change.now);
                record.set_inventory("x".repeat(200 * (n % 12) + round));
                change.put_host(record);
                change.event(event(format!("event {n} of round {round}")));
            });
        }
    }
}

/// What a store serves, by name.
fn served(store: &Store) -> BTreeMap<String, Value> {
    let model = store.model();
    let mut all = BTreeMap::new();
    for (id, record) in model.clusters.iter() {
        all.insert(format!("cluster {id}"), serde_json::to_value(record.as_ref()).unwrap());
    }
    for (id, record) in model.infra_envs.iter() {
        all.insert(format!("infra-env {id}"), serde_json::to_value(record.as_ref()).unwrap());
    }
    for (key, record) in model.hosts.iter() {
        all.insert(format!("host {}", key.host), serde_json::to_value(record.as_ref()).unwrap());
    }
    let events = store.events(&EventQuery { limit: usize::MAX, ..EventQuery::default() }).unwrap().events;
    for event in events {
        all.insert(event.message.clone(), serde_json::to_value(event).unwrap());
    }
    all
}

/// Where each record's bytes are in the file.
fn places(directory: &Path, file: &[u8]) -> BTreeMap<String, Vec<Range<usize>>> {
    let copy = tempfile::NamedTempFile::new().unwrap();
    fs::write(copy.path(), file).unwrap();
    let mut values: Vec<(String, Vec<u8>)> = Vec::new();
    {
        let database = Database::open(copy.path()).unwrap();
        let transaction = database.begin_read().unwrap();
        for (kind, table) in ["cluster", "infra-env"].into_iter().zip(ONE) {
            for row in transaction.open_table(table).unwrap().iter().unwrap() {
                let (id, value) = row.unwrap();
                values
                    .push((format!("{kind} {}", ClusterId(uuid::Uuid::from_u128(id.value()))), value.value().to_vec()));
            }
        }
        for row in transaction.open_table(TWO).unwrap().iter().unwrap() {
            let (id, value) = row.unwrap();
            values.push((format!("host {}", uuid::Uuid::from_u128(id.value().1)), value.value().to_vec()));
        }
        for row in transaction.open_table(EVENTS).unwrap().iter().unwrap() {
            let (sequence, value) = row.unwrap();
            values.push((format!("sequence {}", sequence.value()), value.value().to_vec()));
        }
    }
    // Events are known by their message, in the order they were told in.
    let store = Store::open(directory).unwrap();
    let events = store.events(&EventQuery { limit: usize::MAX, ..EventQuery::default() }).unwrap().events;
    let messages: Vec<String> = events.into_iter().map(|event| event.message).collect();
    let name = |name: String| match name.strip_prefix("sequence ") {
        Some(number) => {
            let number: usize = number.parse().unwrap();
            format!("event {} of round {}", number % 60, number / 60)
        }
        None => name,
    };
    assert_eq!(messages.len(), 180);
    values
        .into_iter()
        .map(|(key, value)| {
            let found: Vec<Range<usize>> = (0..file.len().saturating_sub(value.len()))
                .filter(|at| file[*at] == value[0] && file[*at..].starts_with(&value))
                .map(|at| at..at + value.len())
                .collect();
            assert!(!found.is_empty(), "{key} is in the file");
            (name(key), found)
        })
        .collect()
}

struct Clean {
    file: Vec<u8>,
    key: Vec<u8>,
    records: BTreeMap<String, Value>,
    places: BTreeMap<String, Vec<Range<usize>>>,
}

impl Clean {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fill(directory.path());
        let file = fs::read(directory.path().join(STORE)).unwrap();
        let key = fs::read(directory.path().join(KEY)).unwrap();
        let places = places(directory.path(), &file);
        let records = served(&Store::open(directory.path()).unwrap());
        assert_eq!(records.len(), 252);
        assert!(records.keys().all(|name| places.contains_key(name)));
        Self { file, key, records, places }
    }

    /// Records that flips at these offsets hit: in their bytes, or in what their page says of where they are.
    fn hit(&self, offsets: &[usize], len: usize) -> BTreeSet<&str> {
        let in_records = |offset: &usize| self.places.values().flatten().any(|place| place.contains(offset));
        let bookkeeping: Vec<Range<usize>> =
            offsets.iter().filter(|offset| !in_records(offset)).map(|offset| self.leaf(*offset)).collect();
        let is_hit = |place: &Range<usize>| {
            place.end > len
                || offsets.iter().any(|offset| place.contains(offset))
                || bookkeeping.iter().any(|leaf| leaf.contains(&place.start))
        };
        let hit = |places: &Vec<Range<usize>>| places.iter().any(is_hit);
        self.places.iter().filter(|(_, places)| hit(places)).map(|(name, _)| name.as_str()).collect()
    }

    /// The page of an offset, as far as its records go: a leaf of long ones has several pages.
    fn leaf(&self, offset: usize) -> Range<usize> {
        let start = offset / PAGE_BYTES * PAGE_BYTES;
        let number = |at: usize, len: usize| {
            let bytes = self.file.get(at..at + len).unwrap_or_default();
            bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
        };
        let count = number(start + 2, 2);
        let end = if self.file[start] == 1 && count > 0 { number(start + 4 * count, 4) } else { 0 };
        start..start + end.clamp(PAGE_BYTES, 16 * PAGE_BYTES)
    }
}

#[test]
fn three_hundred_damaged_copies() {
    let clean = Clean::new();
    let mut random = fastrand::Rng::with_seed(24);
    let used: Vec<usize> = (0..clean.file.len()).filter(|at| clean.file[*at] != 0).collect();
    let mut failures: Vec<String> = Vec::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut whole, mut lost) = (0, 0);
    for number in 0..300 {
        let directory = tempfile::tempdir().unwrap();
        let mut file = clean.file.clone();
        let mut key = Some(clean.key.clone());
        let (mut offsets, mut len, mut may_refuse) = (Vec::new(), clean.file.len(), false);
        let kind = match number {
            0..100 => "one flipped bit in use",
            100..160 => "ten flipped bits in use",
            160..200 => "ten flipped bits anywhere",
            200..215 => "a flipped bit in the header",
            215..250 => "cut off",
            250..260 => "empty",
            260..270 => "missing",
            270..285 => "a key of another store",
            _ => "a store of another program",
        };
        match kind {
            "one flipped bit in use" => offsets.push(used[random.usize(..used.len())]),
            "ten flipped bits in use" => offsets.extend((0..10).map(|_| used[random.usize(..used.len())])),
            "ten flipped bits anywhere" => offsets.extend((0..10).map(|_| random.usize(..file.len()))),
            "a flipped bit in the header" => offsets.push(random.usize(..320)),
            "cut off" => len = random.usize(1..file.len()),
            "empty" => (len, may_refuse) = (0, true),
            "a key of another store" => {
                key = Some((0..32).map(|_| random.u8(..)).collect());
                may_refuse = true;
            }
            "a store of another program" => {
                may_refuse = true;
                let other = directory.path().join(STORE);
                let database = Database::create(&other).unwrap();
                let transaction = database.begin_write().unwrap();
                transaction.open_table(TableDefinition::<u64, u64>::new("theirs")).unwrap().insert(1, 2).unwrap();
                transaction.commit().unwrap();
                drop(database);
                file = fs::read(&other).unwrap();
                len = file.len();
            }
            _ => may_refuse = true,
        }
        for offset in &offsets {
            file[*offset] ^= 1 << random.u8(..8);
        }
        file.truncate(len);
        if kind != "missing" {
            fs::write(directory.path().join(STORE), &file).unwrap();
        }
        fs::write(directory.path().join(KEY), key.take().unwrap()).unwrap();
        let hit = clean.hit(&offsets, len);
        *counts.entry(kind).or_default() += 1;
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let store = Store::open(directory.path())?;
            let (records, damage) = (served(&store), store.damage().to_vec());
            // It takes changes as well.
            let id = ClusterId::random();
            store.change("", |change| {
                let cluster = Cluster { id, ..Cluster::default() };
                change.put_cluster(ClusterRecord::new(ClusterState::Insufficient, cluster, Secret::default()));
                Ok::<_, StoreError>(())
            })?;
            drop(store);
            let again = Store::open(directory.path())?;
            assert!(again.model().clusters.contains_key(&id));
            let kept = served(&again).len();
            Ok::<_, StoreError>((records, damage, kept))
        }));
        let mut fail =
            |why: String| failures.push(format!("copy {number}, {kind}, at {offsets:?}, {len} bytes: {why}"));
        match opened {
            Err(_) => fail("panicked".into()),
            Ok(Err(error)) => {
                let text = format!("{:#}", anyhow::Error::from(error));
                if !may_refuse && hit.len() < clean.records.len() {
                    fail(format!("refused, though records are left: {text}"));
                }
                if !text.contains("restore") && !text.contains("--secrets-key") {
                    fail(format!("refused without a way out: {text}"));
                }
            }
            Ok(Ok((records, damage, kept))) => {
                if may_refuse {
                    fail(format!("started with {} records", records.len()));
                }
                let missing: Vec<&String> = clean
                    .records
                    .iter()
                    .filter(|(name, record)| records.get(*name) != Some(record))
                    .map(|(name, _)| name)
                    .collect();
                let unjust: Vec<&&String> = missing.iter().filter(|name| !hit.contains(name.as_str())).collect();
                if !unjust.is_empty() {
                    fail(format!(
                        "{} records were not hit and are not served: {:?}",
                        unjust.len(),
                        &unjust[..unjust.len().min(3)]
                    ));
                }
                if !missing.is_empty() && damage.is_empty() {
                    fail(format!("{} records are missing without a word", missing.len()));
                }
                if kept != records.len() + 1 {
                    fail(format!("{kept} records after a change, not {}", records.len() + 1));
                }
                (whole, lost) = (whole + records.len(), lost + missing.len());
            }
        }
    }
    println!("{counts:?}: {whole} records served, {lost} lost");
    assert!(failures.is_empty(), "{} of 300\n{}", failures.len(), failures.join("\n"));
}

/// A table by another name is a missing one, one without its tree is an empty one, and the records are there all the same.
#[test]
fn damage_where_the_tables_are_listed_loses_no_record() {
    let clean = Clean::new();
    let is_listed = |page: &[u8]| {
        let names = ["clusters", "infra_envs", "hosts", "events"].map(str::as_bytes);
        names.iter().all(|name| page.windows(name.len()).any(|window| window == *name))
    };
    // Older versions of the list are there as well.
    let lists: Vec<usize> = (0..clean.file.len())
        .step_by(PAGE_BYTES)
        .filter(|at| clean.file.get(*at..at + PAGE_BYTES).is_some_and(is_listed))
        .collect();
    assert!(!lists.is_empty());
    // The rows begin the page; what follows is left of its earlier uses.
    let is_used = |within: &usize| lists.iter().any(|list| clean.file[list + within] != 0);
    let mut failures = Vec::new();
    for within in (0..400).filter(is_used) {
        let directory = tempfile::tempdir().unwrap();
        let mut file = clean.file.clone();
        lists.iter().for_each(|list| file[list + within] ^= 1);
        fs::write(directory.path().join(STORE), &file).unwrap();
        fs::write(directory.path().join(KEY), &clean.key).unwrap();
        let store = Store::open(directory.path()).unwrap();
        let records = served(&store);
        let missing = clean.records.keys().filter(|record| !records.contains_key(*record)).count();
        if missing > 0 {
            let damage: Vec<String> = store.damage().iter().map(ToString::to_string).collect();
            failures.push(format!("byte {within}: {missing} of {} missing: {damage:?}", clean.records.len()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
