//! Leaves out events that follow one of their name too soon.

use crate::events::limits::EventLimits;
use crate::model::Event;
use api::{ClusterId, HostId, InfraEnvId, Timestamp};
use std::collections::BTreeMap;

/// More are forgotten: then an event is recorded that could have been left out.
const MAX_RECENT: usize = 100_000;

/// What counts as the same event.
type Key = (String, Option<ClusterId>, Option<HostId>, Option<InfraEnvId>);

/// When limited events were last recorded.
#[derive(Default)]
pub(super) struct EventRates {
    limits: EventLimits,
    recent: BTreeMap<Key, Timestamp>,
}

impl EventRates {
    pub(super) fn new(limits: EventLimits) -> Self {
        Self { limits, recent: BTreeMap::new() }
    }

    /// Notes an event that is stored.
    pub(super) fn note(&mut self, event: &Event) {
        if self.limits.of(&event.name).is_some() {
            self.recent.insert(key(event), event.event_time);
        }
    }

    /// Removes those that come too soon, and notes the others.
    pub(super) fn thin(&mut self, events: &mut Vec<Event>, now: Timestamp) {
        events.retain(|event| {
            let Some(limit) = self.limits.of(&event.name) else { return true };
            let is_due = self.recent.get(&key(event)).is_none_or(|last| now.seconds_since(*last) >= limit);
            if !is_due {
                tracing::debug!(name = event.name, limit_s = limit, "the event comes too soon and is not recorded");
            } else {
                if self.recent.len() >= MAX_RECENT {
                    self.recent.clear();
                }
                self.note(event);
            }
            is_due
        });
    }
}

fn key(event: &Event) -> Key {
    (event.name.clone(), event.cluster_id, event.host_id, event.infra_env_id)
}
