//! The steps that run now: at most one of a type, each in a thread that waits for its child.

use crate::{
    child, confine,
    media::EXIT_MEDIA_LOST,
    outbox::{Outbox, Route},
    outcome::Outcome,
    pretended,
    settings::Settings,
    status::Status,
    steps::{self, Kind, Refusal, upgrade_succeeded},
};
use api::{Step, StepReply, StepType};
use kernel::Cancel;
use nix::sys::resource::{UsageWho, getrusage};
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// More in one answer is nonsense: there are 20 types.
const MAX_STEPS: usize = 64;

/// Starts steps and sees them through.
pub(crate) struct Scheduler {
    settings: Arc<Settings>,
    outbox: Arc<Outbox>,
    status: Arc<Status>,
    stop: Cancel,
    running: Arc<Mutex<HashSet<StepType>>>,
    upgraded: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Takes a type off the running ones, also when its thread panics.
struct Turn {
    running: Arc<Mutex<HashSet<StepType>>>,
    kind: StepType,
}

impl Turn {
    fn take(running: &Arc<Mutex<HashSet<StepType>>>, kind: &StepType) -> Option<Self> {
        let new = running.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.clone());
        new.then(|| Self { running: running.clone(), kind: kind.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.kind);
    }
}

impl Scheduler {
    pub(crate) fn new(settings: Arc<Settings>, outbox: Arc<Outbox>, status: Arc<Status>, stop: Cancel) -> Self {
        confine::log_means();
        Self { settings, outbox, status, stop, running: Arc::default(), upgraded: Arc::default(), threads: Vec::new() }
    }

    /// Whether a step of this type runs.
    pub(crate) fn runs(&self, kind: &StepType) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains(kind)
    }

    /// Whether another agent's image has arrived since the last call, and the reply about it is on its way.
    pub(crate) fn take_upgrade(&self) -> bool {
        self.upgraded.swap(false, Ordering::AcqRel)
    }

    /// Starts all of them; returns at once.
    pub(crate) fn start(&mut self, steps: Vec<Step>, route: &Route) {
        self.threads.retain(|thread| !thread.is_finished());
        if steps.len() > MAX_STEPS {
            tracing::warn!(count = steps.len(), "the service sent too many steps, taking the first {MAX_STEPS}");
        }
        for step in steps.into_iter().take(MAX_STEPS) {
            self.start_one(step, route.clone());
        }
    }

    fn start_one(&mut self, step: Step, route: Route) {
        // The service repeats a step every minute while it waits for it. Two installations would fight over a disk, and
        // an answer to the second, whichever, would be taken for the first's: silence is right.
        let Some(turn) = Turn::take(&self.running, &step.step_type) else {
            tracing::info!(step = step.step_id, "a step of this type is still running, leaving this one out");
            return;
        };
        let (settings, outbox, status, stop) =
            (self.settings.clone(), self.outbox.clone(), self.status.clone(), self.stop.clone());
        let upgraded = self.upgraded.clone();
        let is_installing = self.runs(&StepType::Install);
        let (name, id) = (step.step_type.to_string(), step.step_id.clone());
        let work = move || {
            let _span = tracing::info_span!("step", id = step.step_id).entered();
            let kind = turn.kind.clone();
            let outcome = carry_out(&step, is_installing, &settings, &route, &status, &stop);
            // Before the reply: the service may then send the next step of this type at once.
            drop(turn);
            if stop.is_cancelled() {
                return;
            }
            status.step_ended(&kind, outcome.exit_code, &outcome.error);
            log_memory();
            let Outcome { exit_code, output, error } = outcome;
            let is_upgrade = kind == StepType::UpgradeAgent && upgrade_succeeded(&output);
            outbox
                .post(route, StepReply { error, exit_code, output, step_id: step.step_id, step_type: step.step_type });
            if is_upgrade {
                upgraded.store(true, Ordering::Release);
            }
        };
        match thread::Builder::new().name(name).spawn(work) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => tracing::error!(step = id, %error, "cannot start a thread for this step, leaving it out"),
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Peak resident memory so far, of the agent and of the largest step it ran: hosts with little memory are installed too.
fn log_memory() {
    let peak_kib = |who| getrusage(who).map_or(-1, |usage| usage.max_rss());
    let (agent_kib, largest_step_kib) = (peak_kib(UsageWho::RUSAGE_SELF), peak_kib(UsageWho::RUSAGE_CHILDREN));
    tracing::info!(agent_kib, largest_step_kib, "peak memory");
}

fn carry_out(
    step: &Step,
    is_installing: bool,
    settings: &Settings,
    route: &Route,
    status: &Status,
    stop: &Cancel,
) -> Outcome {
    let kind = steps::kind(&step.step_type);
    if let Some(kind) = kind.filter(|kind| kind.step_type == StepType::Certify && is_installing) {
        let refusal = Refusal::Installing(step.step_type.clone());
        tracing::warn!(%refusal, "step refused");
        return kind.answer(step, Outcome::failed(refusal.to_string()));
    }
    let in_earnest = || carry_out_here(step, kind, settings, route, status, stop);
    match (&settings.dry, kind) {
        // What is only pretended has no medium either.
        (Some(dry), Some(kind)) => pretended::carry_out(dry, kind, step, in_earnest),
        _ => in_earnest(),
    }
}

fn carry_out_here(
    step: &Step,
    kind: Option<&Kind>,
    settings: &Settings,
    route: &Route,
    status: &Status,
    stop: &Cancel,
) -> Outcome {
    if let Err(error) = settings.media.check() {
        tracing::error!(%error, "step not run");
        return Outcome { exit_code: EXIT_MEDIA_LOST, output: String::new(), error: error.to_string() };
    }
    let Some(kind) = kind else {
        tracing::info!("this version has no action for this step");
        return Outcome::failed(Refusal::Unknown(step.step_type.clone()).to_string());
    };
    let run = match kind.action(step, settings, route.host_id) {
        Ok(run) => run,
        Err(refusal) => {
            tracing::warn!(%refusal, "step refused");
            return kind.answer(step, Outcome::failed(refusal.to_string()));
        }
    };
    tracing::debug!(?run, "step starts");
    status.step_started(step, run.deadline);
    let (step_type, on_start) = (&step.step_type, |pid| status.step_runs_as(&step.step_type, pid));
    let mut outcome =
        child::run_with_start(&settings.program, &run, step_type, &step.step_id, settings.limits, stop, on_start);
    if outcome.exit_code == 1 {
        outcome.exit_code = kind.failed;
    }
    if kind.prints_json {
        outcome.output.truncate(outcome.output.trim_end().len());
    }
    if outcome.exit_code != 0 {
        // People search for the start of this line.
        tracing::error!(
            "Step execution failed (exit code {}): {}, command: {}, args: {:?}. Output:\nstdout:\n{}\nstderr:\n{}",
            outcome.exit_code,
            step.step_id,
            settings.program.display(),
            run.args,
            start_of(&outcome.output),
            outcome.error
        );
        if let Err(error) = settings.media.check() {
            tracing::error!(%error, "the step failed, and the live medium is gone");
            outcome.exit_code = EXIT_MEDIA_LOST;
            return outcome;
        }
    }
    kind.answer(step, outcome)
}

fn start_of(output: &str) -> String {
    output.chars().take(2000).collect()
}
