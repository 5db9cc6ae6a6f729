//! Metrics of the published service, under its names: derived from changes of the records.

use super::text::Text;
use crate::events::kinds;
use crate::model::{Event, HostRecord, Model};
use crate::state::{ClusterState, HostState};
use api::{HostStage, Timestamp};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A metric family.
struct Family {
    name: &'static str,
    help: &'static str,
    /// Upper bounds of its buckets; none for a counter.
    bounds: &'static [f64],
}

const PHASES: &[f64] = &[1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0, 1800.0];
const CYCLES: &[f64] = &[
    1000.0, 10_000.0, 30_000.0, 60_000.0, 120_000.0, 180_000.0, 240_000.0, 300_000.0, 360_000.0, 420_000.0, 480_000.0,
    540_000.0, 600_000.0,
];

macro_rules! families {
    ($($kind:ident $name:literal $help:literal $bounds:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        enum Name { $($kind),* }
        const FAMILIES: &[(Name, Family)] = &[$(
            (Name::$kind, Family { name: concat!("service_assisted_installer_", $name), help: $help, bounds: $bounds })
        ),*];
    };
}

families! {
    Creations "cluster_creations" "Clusters created." &[];
    Started "cluster_installation_started" "Installations of clusters started." &[];
    Installation "cluster_installation_seconds" "Duration of finished cluster installations." PHASES;
    Phase "host_installation_phase_seconds" "Time that hosts spent in each stage." PHASES;
    Hosts "cluster_hosts" "Hosts that were installed or failed." &[];
    Cores "cluster_host_cores" "Processors of such hosts." &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
    Ram "cluster_host_ram_gb" "Memory of such hosts, GiB." &[8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];
    Disk "cluster_host_disk_gb" "Disks of such hosts, GiB." &[250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16_000.0];
    Nic "cluster_host_nic_gb" "Reported speed of such hosts' interfaces." &[1.0, 10.0, 20.0, 40.0, 100.0];
    Sync "cluster_host_disk_sync_duration_ms" "Duration of fdatasync on hosts' disks." &[1.0, 5.0, 10.0, 15.0, 20.0];
    HostFailed "host_validation_is_in_failed_status_on_cluster_deletion" "Host validations in failure when the cluster was deleted." &[];
    HostChanged "host_validation_failed_after_success_before_installation" "Host validations that failed after they had passed." &[];
    ClusterFailed "cluster_validation_is_in_failed_status_on_cluster_deletion" "Cluster validations in failure when the cluster was deleted." &[];
    ClusterChanged "cluster_validation_failed_after_success_before_installation" "Cluster validations that failed after they had passed." &[];
    Cycle "monitored_clusters_cycle_duration_ms" "Duration of a pass over all clusters." CYCLES;
    ReleaseCache "release_cache" "Uses of openshift-install of a release, by whether it was in the cache." &[];
    HostsCycle "monitored_hosts_cycle_duration_ms" "Duration of a pass over all hosts." CYCLES;
}

/// One value, with the labels of its family.
type Observation = (Name, Vec<(&'static str, String)>, f64);

#[derive(Debug, Default)]
struct Counted {
    count: u64,
    sum: f64,
    /// By bucket, each alone.
    buckets: Vec<u64>,
}

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Published {
    counted: Mutex<BTreeMap<(Name, String), Counted>>,
}

impl Published {
    /// Counts the effects of a change.
    pub(crate) fn note(&self, before: &Model, after: &Model, events: &[Event], now: Timestamp) {
        for observation in observations(before, after, events, now) {
            self.observe(observation);
        }
    }

    /// Records the duration of a pass, which is over all clusters and all hosts at once.
    pub(crate) fn cycle(&self, took: Duration) {
        for name in [Name::Cycle, Name::HostsCycle] {
            self.observe((name, vec![("fullscan", "true".to_owned())], took.as_secs_f64() * 1000.0));
        }
    }

    /// Counts a use of the program of a release.
    pub(crate) fn program(&self, minor: &str, was_cached: bool) {
        let labels = vec![("releaseId", minor.to_owned()), ("hit", was_cached.to_string())];
        self.observe((Name::ReleaseCache, labels, 1.0));
    }

    fn observe(&self, (name, labels, value): Observation) {
        let Some((_, family)) = FAMILIES.iter().find(|(own, _)| *own == name) else { return };
        let labels: Vec<String> = labels.iter().map(|(label, text)| format!("{label}=\"{text}\"")).collect();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = counted.entry((name, labels.join(","))).or_default();
        counter.count += 1;
        counter.sum += value;
        counter.buckets.resize(family.bounds.len(), 0);
        let bucket = family.bounds.iter().position(|bound| value <= *bound);
        if let Some(bucket) = bucket.and_then(|at| counter.buckets.get_mut(at)) {
            *bucket += 1;
        }
    }

    /// Writes all families, including those without a value yet.
    pub(crate) fn write(&self, text: &mut Text) {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, family) in FAMILIES {
            let is_counter = family.bounds.is_empty();
            text.family(family.name, if is_counter { "counter" } else { "histogram" }, family.help);
            for ((_, labels), counter) in counted.iter().filter(|((own, _), _)| own == name) {
                if is_counter {
                    text.line("", labels, counter.count);
                    continue;
                }
                let with = |bound: &str| match labels.as_str() {
                    "" => format!("le=\"{bound}\""),
                    labels => format!("{labels},le=\"{bound}\""),
                };
                let mut below = 0;
                for (bound, count) in family.bounds.iter().zip(&counter.buckets) {
                    below += count;
                    text.line("_bucket", &with(&bound.to_string()), below);
                }
                text.line("_bucket", &with("+Inf"), counter.count);
                text.line("_sum", labels, counter.sum);
                text.line("_count", labels, counter.count);
            }
        }
    }
}

/// Seconds since a time; `None` if that is unset.
// An installation's seconds fit.
#[allow(clippy::cast_precision_loss)]
fn seconds(since: Timestamp, now: Timestamp) -> Option<f64> {
    (!since.is_zero()).then(|| now.seconds_since(since).max(0) as f64)
}

/// Ids of failed checks in a published text, which we wrote.
fn failed(validations: &str) -> Vec<String> {
    let by_category: BTreeMap<String, Vec<Value>> = serde_json::from_str(validations).unwrap_or_default();
    let failed = by_category.into_values().flatten().filter(|finding| finding["status"] == "failure");
    failed.filter_map(|finding| finding["id"].as_str().map(str::to_owned)).collect()
}

fn observations(before: &Model, after: &Model, events: &[Event], now: Timestamp) -> Vec<Observation> {
    let mut found: Vec<Observation> = Vec::new();
    if !Arc::ptr_eq(&before.clusters, &after.clusters) {
        clusters(before, after, now, &mut found);
    }
    if !Arc::ptr_eq(&before.hosts, &after.hosts) {
        for (key, record) in after.hosts.iter() {
            if let Some(known) = before.hosts.get(key).filter(|known| !Arc::ptr_eq(known, record)) {
                host(known, record, now, &mut found);
            }
        }
    }
    for event in events {
        let (name, label) = match event.name.as_str() {
            name if name == kinds::HOST_VALIDATION_FAILED.name => (Name::HostChanged, "hostValidationType"),
            name if name == kinds::CLUSTER_VALIDATION_FAILED.name => (Name::ClusterChanged, "clusterValidationType"),
            _ => continue,
        };
        let details: Value = serde_json::from_str(&event.props).unwrap_or_default();
        let regressed = details["failure_message"] == crate::events::REGRESSED;
        if let Some(id) = details["validation_id"].as_str().filter(|_| regressed) {
            found.push((name, vec![(label, id.to_owned())], 1.0));
        }
    }
    found
}

fn clusters(before: &Model, after: &Model, now: Timestamp, found: &mut Vec<Observation>) {
    use ClusterState as S;
    for (id, record) in after.clusters.iter() {
        let Some(known) = before.clusters.get(id) else {
            found.push((Name::Creations, Vec::new(), 1.0));
            continue;
        };
        if known.state == record.state {
            continue;
        }
        let was_installed = matches!(known.state, S::Installing | S::Finalizing | S::InstallingPendingUserAction);
        // Preparation may start and end within one change.
        if !was_installed && record.state == S::Installing {
            found.push((Name::Started, Vec::new(), 1.0));
        }
        if was_installed && matches!(record.state, S::Installed | S::Error | S::Cancelled) {
            let took = seconds(record.cluster.install_started_at, now);
            let result = vec![("result", record.state.to_string())];
            found.extend(took.map(|took| (Name::Installation, result, took)));
        }
    }
    for (id, record) in before.clusters.iter().filter(|(id, _)| !after.clusters.contains_key(id)) {
        let own = failed(&record.cluster.validations_info).into_iter();
        found.extend(own.map(|id| (Name::ClusterFailed, vec![("clusterValidationType", id)], 1.0)));
        for host in before.hosts_of_cluster(*id) {
            let own = failed(&host.host.validations_info).into_iter();
            found.extend(own.map(|id| (Name::HostFailed, vec![("hostValidationType", id)], 1.0)));
        }
    }
}

fn host(before: &HostRecord, after: &HostRecord, now: Timestamp, found: &mut Vec<Observation>) {
    let (before_stage, stage) = (before.stage(), after.stage());
    let failed = after.state == HostState::Error && before.state != HostState::Error && stage.is_some();
    let done = stage == Some(HostStage::Done) && before_stage != stage;
    let result = if failed { "Failed" } else { "Done" };
    if let Some(phase) = before_stage.filter(|_| failed || before_stage != stage && stage.is_some()) {
        let since = before.host.progress.as_ref().map_or(Timestamp::ZERO, |progress| progress.stage_started_at);
        let labels = vec![("phase", phase.to_string()), ("result", result.to_owned())];
        found.extend(seconds(since, now).map(|took| (Name::Phase, labels, took)));
    }
    if failed || done {
        hardware(after, result, found);
    }
    let speeds = |record: &HostRecord| record.texts.disks_info.clone().unwrap_or_default();
    if speeds(before) != speeds(after) {
        let measured = |text: &str| -> BTreeMap<String, Value> { serde_json::from_str(text).unwrap_or_default() };
        let known = measured(&speeds(before));
        let new = measured(&speeds(after)).into_iter().filter(|(path, info)| known.get(path) != Some(info));
        let good = new.filter(|(_, info)| info["disk_speed"]["exit_code"].is_null());
        found.extend(
            good.map(|(_, info)| (Name::Sync, Vec::new(), info["disk_speed"]["speed_ms"].as_f64().unwrap_or(0.0))),
        );
    }
}

/// The hardware of a finished host.
// Numbers of processors and GiB are few.
#[allow(clippy::cast_precision_loss)]
fn hardware(record: &HostRecord, result: &str, found: &mut Vec<Observation>) {
    let role = if record.host.bootstrap { "bootstrap".to_owned() } else { record.effective_role().to_string() };
    let labels = || vec![("role", role.clone()), ("result", result.to_owned())];
    found.push((Name::Hosts, labels(), 1.0));
    let Some(inventory) = &record.facts().inventory else { return };
    if let Some(cpu) = &inventory.cpu {
        found.push((Name::Cores, labels(), cpu.count as f64));
    }
    if let Some(memory) = &inventory.memory {
        found.push((Name::Ram, labels(), (memory.physical_bytes >> 30) as f64));
    }
    for disk in &inventory.disks {
        // The drive type is a host's text: anything.
        const KINDS: [&str; 8] = ["HDD", "SSD", "Multipath", "iSCSI", "FC", "RAID", "LVM", "ODD"];
        let kind = KINDS.into_iter().find(|kind| *kind == disk.drive_type).unwrap_or("Unknown");
        let labels = [("diskType", kind.to_owned())].into_iter().chain(labels()).collect();
        found.push((Name::Disk, labels, (disk.size_bytes >> 30) as f64));
    }
    found.extend(inventory.interfaces.iter().map(|nic| (Name::Nic, labels(), nic.speed_mbps as f64)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterRecord, HostKey};
    use api::{Cluster, ClusterId, HostId, HostProgressInfo, HostRole, InfraEnvId, Secret};
    use serde_json::json;

    fn model(clusters: Vec<ClusterRecord>, hosts: Vec<HostRecord>) -> Model {
        Model {
            clusters: Arc::new(clusters.into_iter().map(|record| (record.cluster.id, Arc::new(record))).collect()),
            hosts: Arc::new(hosts.into_iter().map(|record| (record.key(), Arc::new(record))).collect()),
            ..Model::default()
        }
    }

    fn seen(before: &Model, after: &Model, events: &[Event]) -> Vec<String> {
        let all = observations(before, after, events, Timestamp::from_unix_seconds(1100));
        let line = |(name, labels, value): &Observation| {
            let labels: Vec<&str> = labels.iter().map(|(_, text)| text.as_str()).collect();
            format!("{name:?} {} {value}", labels.join(" "))
        };
        all.iter().map(line).collect()
    }

    #[test]
    fn clusters_are_counted_when_they_are_made_started_and_ended() {
        let id = ClusterId::random();
        let in_state = |state| {
            let mut record = ClusterRecord::new(state, Cluster { id, ..Cluster::default() }, Secret::default());
            record.cluster.install_started_at = Timestamp::from_unix_seconds(1000);
            record.cluster.validations_info =
                json!({"network": [{"id": "a", "status": "failure"}, {"id": "b", "status": "success"}]}).to_string();
            model(vec![record], Vec::new())
        };
        use ClusterState as S;
        assert_eq!(seen(&Model::default(), &in_state(S::Insufficient), &[]), ["Creations  1"]);
        assert_eq!(seen(&in_state(S::PreparingForInstallation), &in_state(S::Installing), &[]), ["Started  1"]);
        assert_eq!(seen(&in_state(S::Finalizing), &in_state(S::Installed), &[]), ["Installation installed 100"]);
        assert_eq!(seen(&in_state(S::Installing), &in_state(S::Error), &[]), ["Installation error 100"]);
        assert_eq!(seen(&in_state(S::Ready), &in_state(S::Insufficient), &[]), [""; 0]);
        assert_eq!(seen(&in_state(S::Ready), &Model::default(), &[]), ["ClusterFailed a 1"]);
    }

    #[test]
    fn hosts_are_measured_by_stage_and_at_their_end() {
        let key = HostKey { infra_env: InfraEnvId::random(), host: HostId::random() };
        let at = |state, stage| {
            let mut record = HostRecord::new(key, None, Timestamp::ZERO);
            record.state = state;
            record.host.role = HostRole::Master;
            let since = Timestamp::from_unix_seconds(1040);
            record.host.progress =
                Some(HostProgressInfo { current_stage: stage, stage_started_at: since, ..HostProgressInfo::default() });
            record.set_inventory(
                json!({"cpu": {"count": 8}, "memory": {"physical_bytes": 17_179_869_184_u64},
                "disks": [{"drive_type": "a\"b", "size_bytes": 1 << 30}], "interfaces": [{"speed_mbps": 1000}]})
                .to_string(),
            );
            record
        };
        use HostState::{Error, InstallingInProgress as Installing};
        let change = |before: HostRecord, after: HostRecord| {
            seen(&model(Vec::new(), vec![before]), &model(Vec::new(), vec![after]), &[])
        };
        let (writing, joined) = (Some(HostStage::WritingImageToDisk), Some(HostStage::Joined));
        assert_eq!(change(at(Installing, writing), at(Installing, joined)), ["Phase Writing image to disk Done 60"]);
        assert_eq!(change(at(Installing, None), at(Installing, writing)), [""; 0]);
        let done = change(at(Installing, joined), at(Installing, Some(HostStage::Done)));
        assert_eq!(
            done,
            [
                "Phase Joined Done 60",
                "Hosts master Done 1",
                "Cores master Done 8",
                "Ram master Done 16",
                "Disk Unknown master Done 1",
                "Nic master Done 1000"
            ]
        );
        let failed = change(at(Installing, writing), at(Error, writing));
        assert_eq!(failed[..2], ["Phase Writing image to disk Failed 60", "Hosts master Failed 1"]);
        let mut measured = at(Installing, writing);
        measured
            .set_text("disks_info", json!({"/dev/sda": {"disk_speed": {"tested": true, "speed_ms": 4}}}).to_string());
        assert_eq!(change(at(Installing, writing), measured), ["Sync  4"]);
    }

    #[test]
    fn what_is_counted_is_written() {
        let published = Published::default();
        published.observe((Name::Phase, vec![("phase", "Joined".into()), ("result", "Done".into())], 7.0));
        published.observe((Name::Creations, Vec::new(), 1.0));
        published.program("4.22", true);
        let mut text = Text::default();
        published.write(&mut text);
        for line in [
            "# TYPE service_assisted_installer_cluster_creations counter",
            "service_assisted_installer_cluster_creations 1",
            "service_assisted_installer_release_cache{releaseId=\"4.22\",hit=\"true\"} 1",
            "service_assisted_installer_host_installation_phase_seconds_bucket{phase=\"Joined\",result=\"Done\",le=\"5\"} 0",
            "service_assisted_installer_host_installation_phase_seconds_bucket{phase=\"Joined\",result=\"Done\",le=\"10\"} 1",
            "service_assisted_installer_host_installation_phase_seconds_sum{phase=\"Joined\",result=\"Done\"} 7",
        ] {
            assert!(text.text.lines().any(|own| own == line), "{line} in {}", text.text);
        }
    }
}
