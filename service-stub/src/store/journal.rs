//! An index of the stored events: enough to count, filter, and page without reading them.

use crate::events::Severity;
use crate::model::Event;
use api::{ClusterId, HostId, InfraEnvId};
use kernel::order;
use std::collections::{BTreeMap, VecDeque};
use uuid::Uuid;

/// Which events to list; an omitted field matches all.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    pub cluster: Option<ClusterId>,
    pub infra_env: Option<InfraEnvId>,
    pub hosts: HostFilter,
    /// Only of these severities.
    pub severities: Option<Vec<String>>,
    /// Only of these categories.
    pub categories: Option<Vec<String>>,
    /// Only with this text in the message, in lower case.
    pub message: Option<String>,
    /// Newest first.
    pub descending: bool,
    /// How many to skip.
    pub offset: usize,
    /// Maximum number.
    pub limit: usize,
}

/// Which hosts' events to list.
#[derive(Clone, Debug, Default)]
pub enum HostFilter {
    /// All, including those of no host.
    #[default]
    All,
    /// Those that match any of these.
    Any {
        these: Vec<HostId>,
        /// Of no host.
        none: bool,
        /// Of a host other than these.
        other_than: Option<Vec<HostId>>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// All that match the query.
    pub total: usize,
    /// The same by severity, in the order of `Severity::NAMES`.
    pub(crate) by_severity: [usize; Severity::NAMES.len()],
}

/// Entries of all stored events, oldest first.
#[derive(Debug, Default)]
pub(super) struct Journal {
    first: u64,
    entries: VecDeque<Entry>,
    ids: Ids,
    categories: Vec<String>,
    /// Those of each cluster, or of an infra-env without one, by its number: oldest first.
    groups: BTreeMap<u32, VecDeque<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Milliseconds since the epoch.
    time: i64,
    cluster: u32,
    host: u32,
    infra_env: u32,
    severity: u8,
    category: u8,
    /// A damaged one keeps its place and is never shown.
    readable: bool,
}

impl Entry {
    fn group(&self) -> u32 {
        if self.cluster == 0 { self.infra_env } else { self.cluster }
    }
}

/// Identifiers by number: a hundred thousand events name few. Number 0 is none.
#[derive(Debug, Default)]
struct Ids {
    numbers: BTreeMap<Uuid, u32>,
}

impl Ids {
    fn number(&mut self, id: Option<Uuid>) -> u32 {
        let Some(id) = id else { return 0 };
        let next = u32::try_from(self.numbers.len() + 1).unwrap_or(u32::MAX);
        *self.numbers.entry(id).or_insert(next)
    }

    /// `None` for one that no event names.
    fn find(&self, id: Uuid) -> Option<u32> {
        self.numbers.get(&id).copied()
    }
}

/// The conditions of a query on an entry.
struct Wanted {
    cluster: Option<u32>,
    infra_env: Option<u32>,
    /// By number.
    hosts: Option<Vec<bool>>,
    severities: [bool; Severity::NAMES.len()],
    categories: Option<Vec<bool>>,
}

impl Journal {
    /// The sequence number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.entries.len()).unwrap_or(u64::MAX))
    }

    /// Restarts before an event with this number.
    pub(super) fn begin_at(&mut self, sequence: u64) {
        *self = Self { first: sequence, ..Self::default() };
    }

    /// The oldest events that these replace where a cluster, or an infra-env without one, stores at most `max`.
    pub(super) fn crowded_out(&self, events: &[Event], max: usize) -> Vec<u64> {
        let mut added: BTreeMap<u32, usize> = BTreeMap::new();
        for event in events {
            let group = event.cluster_id.map(|id| id.0).or(event.infra_env_id.map(|id| id.0));
            if let Some(group) = group.and_then(|id| self.ids.find(id)) {
                *added.entry(group).or_default() += 1;
            }
        }
        let crowd = |(group, added): (u32, usize)| {
            let there = self.groups.get(&group);
            let over = there.map_or(0, VecDeque::len).saturating_add(added).saturating_sub(max);
            there.into_iter().flatten().take(over).copied().collect::<Vec<_>>()
        };
        added.into_iter().flat_map(crowd).collect()
    }

    /// Forgets an event that [`Self::crowded_out`] named.
    pub(super) fn remove(&mut self, sequence: u64) {
        let index = sequence.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            entry.readable = false;
            self.groups.entry(entry.group()).or_default().retain(|own| *own != sequence);
        }
    }

    /// Adds the next event; `None` for an unreadable one. Stores at most `max`.
    pub(super) fn push(&mut self, event: Option<&Event>, max: usize) {
        let entry = event.map_or(
            Entry { time: 0, cluster: 0, host: 0, infra_env: 0, severity: 0, category: 0, readable: false },
            |event| Entry {
                time: event.event_time.unix_milliseconds(),
                cluster: self.ids.number(event.cluster_id.map(|id| id.0)),
                host: self.ids.number(event.host_id.map(|id| id.0)),
                infra_env: self.ids.number(event.infra_env_id.map(|id| id.0)),
                severity: severity(&event.severity),
                category: self.category(&event.category),
                readable: true,
            },
        );
        if entry.readable {
            let next = self.next();
            self.groups.entry(entry.group()).or_default().push_back(next);
        }
        self.entries.push_back(entry);
        while self.entries.len() > max {
            let Some(entry) = self.entries.pop_front() else { break };
            if let Some(group) = self.groups.get_mut(&entry.group()).filter(|_| entry.readable) {
                group.pop_front();
            }
            self.first += 1;
        }
    }

    /// Numbers and times of the events that a query takes, apart from their text, in the order they are listed in.
    pub(super) fn find(&self, query: &EventQuery) -> Vec<(u64, u8)> {
        let Some(wanted) = self.wanted(query) else { return Vec::new() };
        let mut found: Vec<(i64, u64, u8)> = (self.first..)
            .zip(&self.entries)
            .filter(|(_, entry)| wanted.takes(entry))
            .map(|(sequence, entry)| (entry.time, sequence, entry.severity))
            .collect();
        // Nearly in order already: most are reported when they happen.
        order::sort(&mut found);
        if query.descending {
            found.reverse();
        }
        found.into_iter().map(|(_, sequence, severity)| (sequence, severity)).collect()
    }

    /// None when no event can be taken.
    fn wanted(&self, query: &EventQuery) -> Option<Wanted> {
        let id = |wanted: Option<Uuid>| match wanted {
            None => Some(None),
            Some(id) => self.ids.find(id).map(Some),
        };
        let hosts = match &query.hosts {
            HostFilter::All => None,
            HostFilter::Any { these, none, other_than } => {
                let mut takes = vec![other_than.is_some(); self.ids.numbers.len() + 1];
                let mut set = |hosts: &[HostId], value| {
                    let numbers = hosts.iter().filter_map(|host| self.ids.find(host.0));
                    for number in numbers.filter_map(|number| usize::try_from(number).ok()) {
                        if let Some(takes) = takes.get_mut(number) {
                            *takes = value;
                        }
                    }
                };
                set(other_than.as_deref().unwrap_or_default(), false);
                set(these, true);
                takes[0] = *none;
                Some(takes)
            }
        };
        let takes = |name: &str| query.severities.as_ref().is_none_or(|list| list.iter().any(|own| own == name));
        let categories =
            query.categories.as_ref().map(|list| self.categories.iter().map(|own| list.contains(own)).collect());
        Some(Wanted {
            cluster: id(query.cluster.map(|id| id.0))?,
            infra_env: id(query.infra_env.map(|id| id.0))?,
            hosts,
            severities: Severity::NAMES.map(takes),
            categories,
        })
    }

    /// Requests take two categories; a store of later days may hold a few more.
    fn category(&mut self, name: &str) -> u8 {
        let found = self.categories.iter().position(|own| own == name).unwrap_or_else(|| {
            self.categories.push(name.to_owned());
            self.categories.len() - 1
        });
        u8::try_from(found).unwrap_or(u8::MAX)
    }
}

impl Wanted {
    fn takes(&self, entry: &Entry) -> bool {
        entry.readable
            && self.cluster.is_none_or(|id| entry.cluster == id)
            && self.infra_env.is_none_or(|id| entry.infra_env == id)
            && self.hosts.as_ref().is_none_or(|hosts| usize::try_from(entry.host).is_ok_and(|host| is_set(hosts, host)))
            && is_set(&self.severities, entry.severity.into())
            && self.categories.as_ref().is_none_or(|list| is_set(list, entry.category.into()))
    }
}

fn is_set(flags: &[bool], index: usize) -> bool {
    flags.get(index).copied().unwrap_or(false)
}

/// Its place among the names; an unknown one counts as the least.
fn severity(name: &str) -> u8 {
    Severity::NAMES.iter().position(|own| *own == name).and_then(|place| u8::try_from(place).ok()).unwrap_or(0)
}
