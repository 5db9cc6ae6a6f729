//! Steps that were handed out and have not been answered: they run, and are not started a second time.

use super::pace::{deadline, is_long};
use crate::model::HostKey;
use api::{Step, StepType};
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// A step that was handed out.
#[derive(Debug)]
struct Started {
    at: Instant,
    args: Vec<String>,
}

/// The running steps of a host.
#[derive(Debug, Default)]
struct Running(HashMap<StepType, Started>);

impl Running {
    /// Keeps of `steps` those that do not run, and notes that they do. A short step with another question is another step.
    fn start(&mut self, steps: Vec<Step>, hurries: bool, now: Instant) -> Vec<Step> {
        self.0.retain(|kind, started| now.saturating_duration_since(started.at) < deadline(kind, hurries));
        let starts = |step: &Step| {
            let started = Started { at: now, args: step.args.clone() };
            match self.0.entry(step.step_type.clone()) {
                Entry::Occupied(running) if is_long(&step.step_type) || running.get().args == step.args => false,
                Entry::Occupied(mut running) => {
                    running.insert(started);
                    true
                }
                Entry::Vacant(place) => {
                    place.insert(started);
                    true
                }
            }
        };
        steps.into_iter().filter(starts).collect()
    }
}

/// Running steps by host. They are not stored: after a restart of the service a step may be handed out once more.
#[derive(Debug, Default)]
pub struct Outstanding {
    hosts: Mutex<BTreeMap<HostKey, Running>>,
}

impl Outstanding {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<HostKey, Running>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps of `steps` those that may be handed to a host now.
    pub(crate) fn start(&self, key: HostKey, steps: Vec<Step>, hurries: bool, now: Instant) -> Vec<Step> {
        self.lock().entry(key).or_default().start(steps, hurries, now)
    }

    /// Notes the end of a step. Its id does not matter: of each kind one runs at a time.
    pub(crate) fn end(&self, key: HostKey, kind: &StepType) {
        if let Some(running) = self.lock().get_mut(&key) {
            running.0.remove(kind);
        }
    }

    /// Forgets the steps of a host whose agent starts anew.
    pub(crate) fn forget(&self, key: HostKey) {
        self.lock().remove(&key);
    }

    /// Forgets hosts that are gone.
    pub fn retain(&self, exists: impl Fn(&HostKey) -> bool) {
        self.lock().retain(|key, _| exists(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{HostId, InfraEnvId};
    use std::time::Duration;

    fn host() -> HostKey {
        HostKey { infra_env: InfraEnvId::random(), host: HostId::random() }
    }

    fn names(outstanding: &Outstanding, key: HostKey, kinds: &[StepType], now: Instant) -> Vec<String> {
        let step = |kind: &StepType| Step { args: Vec::new(), step_id: String::new(), step_type: kind.clone() };
        let given = outstanding.start(key, kinds.iter().map(step).collect(), false, now);
        given.into_iter().map(|step| step.step_type.to_string()).collect()
    }

    #[test]
    fn a_step_is_handed_out_again_after_its_reply_or_its_deadline() {
        use StepType as T;
        let (outstanding, key, other) = (Outstanding::default(), host(), host());
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let kinds = [T::Inventory, T::InstallationDiskSpeedCheck];
        let given = |key, seconds| names(&outstanding, key, &kinds, after(seconds));
        assert_eq!(given(key, 0), ["inventory", "installation-disk-speed-check"]);
        assert_eq!(given(key, 1), [""; 0]);
        assert_eq!(given(other, 1), ["inventory", "installation-disk-speed-check"], "another host's steps are its own");
        outstanding.end(key, &T::Inventory);
        assert_eq!(given(key, 2), ["inventory"]);
        // A minute later the agent is asked again for what it may not have sent because it was the same.
        assert_eq!(given(key, 61), ["inventory"]);
        assert_eq!(given(key, 481), ["inventory"], "a disk may be measured for 480 s");
        assert_eq!(given(key, 541), ["inventory", "installation-disk-speed-check"]);
    }

    #[test]
    fn a_short_step_with_another_question_is_another_step() {
        let (outstanding, key, now) = (Outstanding::default(), host(), Instant::now());
        let step = |kind: StepType, arg: &str| Step { args: vec![arg.into()], step_id: String::new(), step_type: kind };
        let given = |step: Step| outstanding.start(key, vec![step], false, now).len();
        assert_eq!(given(step(StepType::NtpSynchronizer, "a")), 1);
        assert_eq!(given(step(StepType::NtpSynchronizer, "a")), 0);
        assert_eq!(given(step(StepType::NtpSynchronizer, "b")), 1);
        assert_eq!(given(step(StepType::InstallationDiskSpeedCheck, "a")), 1);
        assert_eq!(given(step(StepType::InstallationDiskSpeedCheck, "b")), 0, "the first still runs");
    }

    #[test]
    fn a_host_that_registers_again_or_is_gone_has_no_running_steps() {
        let (outstanding, key, other) = (Outstanding::default(), host(), host());
        let now = Instant::now();
        let install = [StepType::Install];
        for key in [key, other] {
            assert_eq!(names(&outstanding, key, &install, now), ["install"]);
            assert_eq!(names(&outstanding, key, &install, now), [""; 0]);
        }
        outstanding.forget(key);
        assert_eq!(names(&outstanding, key, &install, now), ["install"]);
        outstanding.retain(|known| *known == key);
        assert_eq!(outstanding.lock().len(), 1);
        assert_eq!(names(&outstanding, other, &install, now), ["install"]);
    }
}
