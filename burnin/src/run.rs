//! Runs all loads until the time is over, and puts together what they found.

use crate::{
    load::{Load, Run},
    result::{Document, Fault, Part, SCHEMA_VERSION, State, Verdict},
    totals::totals,
    watch::Watch,
};
use kernel::{in_full, processor};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

/// Between two looks at the clock.
const TICK: Duration = Duration::from_millis(200);
/// Between two looks at the sensors.
const SAMPLE: Duration = Duration::from_secs(2);
/// A load that has not ended so long after it was to is given up.
const PATIENCE: Duration = Duration::from_secs(15);
/// The least time that all loads have to take what they need: a busy machine gives its memory slowly.
const START: Duration = Duration::from_secs(300);

/// The loads of one kind, and how their threads give way.
pub(crate) struct Group {
    pub nice: i32,
    pub loads: Vec<Box<dyn Load>>,
}

/// How it stands.
pub(crate) struct Standing<'a> {
    pub elapsed: Duration,
    pub planned: Duration,
    pub parts: &'a [Part],
    /// Faults that the machine itself reports: counters, sensors, the kernel's log.
    pub watched_faults: usize,
}

/// When each described fault of each part was first seen, in the order of the parts.
struct Seen(Vec<Vec<f64>>);

impl Seen {
    fn note(&mut self, parts: &[Part], after: Duration) {
        self.0.resize(parts.len(), Vec::new());
        for (times, part) in self.0.iter_mut().zip(parts) {
            // A part's faults only become more.
            times.resize(part.faults.len(), after.as_secs_f64());
        }
    }

    /// Takes all faults out of the parts, with these times.
    fn take(self, parts: &mut [Part]) -> Vec<Fault> {
        let faults = |(part, times): (&mut Part, Vec<f64>)| {
            let timed = std::mem::take(&mut part.faults).into_iter().zip(times);
            timed.map(|(fault, found_after_seconds)| Fault { found_after_seconds, ..fault }).collect::<Vec<_>>()
        };
        parts.iter_mut().zip(self.0).flat_map(faults).collect()
    }
}

/// Where each load's findings are while it runs.
struct Board {
    parts: Vec<Mutex<Part>>,
    /// Loads that have not yet taken what they need.
    starting: AtomicUsize,
    /// Loads that have threads.
    working: AtomicUsize,
}

impl Board {
    fn parts(&self) -> Vec<Part> {
        self.parts.iter().map(|part| part.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    fn put(&self, place: usize, findings: &Part, state: State, error: Option<String>) {
        if let Some(part) = self.parts.get(place) {
            *part.lock().unwrap_or_else(PoisonError::into_inner) = Part { state, error, ..findings.clone() };
        }
    }
}

/// Starts the groups one after another, each when those before it have what they need, then runs all together for `planned`, until all are
/// done, or until a signal comes. Starting takes at most as long again, or [`START`]. `left_bytes`: memory is short when less than that is
/// available.
pub(crate) fn run(
    groups: Vec<Group>,
    planned: Duration,
    left_bytes: u64,
    run: &Arc<Run>,
    watch: &mut Watch,
    show: &mut dyn FnMut(&Standing<'_>),
) -> Document {
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let begin = run.now();
    let parts = groups.iter().flat_map(|group| &group.loads).map(|load| Mutex::new(load.findings().clone())).collect();
    let board = Arc::new(Board { parts, starting: AtomicUsize::new(0), working: AtomicUsize::new(0) });
    let (mut groups, mut place) = (VecDeque::from(groups), 0);
    let (mut sampled, mut working_since, mut over_since) = (None, None, None);
    let mut stopped = false;
    let mut seen = Seen(Vec::new());
    loop {
        let is_starting = board.starting.load(Ordering::Acquire) > 0;
        if !is_starting
            && !run.is_over()
            && let Some(group) = groups.pop_front()
        {
            begin_group(group, &mut place, &board, run);
        }
        let now = run.now();
        if !is_starting && groups.is_empty() {
            working_since.get_or_insert(now);
        }
        if sampled.is_none_or(|since| now.duration_since(since) >= SAMPLE) {
            sampled = Some(now);
            watch.sample(now);
            if watch.available_bytes() < left_bytes && !run.is_over() {
                tracing::warn!("memory is short: the test of memory gives half of it back");
                run.report_shortage();
            }
        }
        let elapsed = working_since.map_or(Duration::ZERO, |since| now.duration_since(since));
        let parts = board.parts();
        seen.note(&parts, now.duration_since(begin));
        show(&Standing { elapsed, planned, parts: &parts, watched_faults: watch.fault_count() });
        let is_idle = board.working.load(Ordering::Acquire) == 0;
        if is_idle && (groups.is_empty() || run.is_over()) {
            break;
        }
        stopped |= run.is_stopped() && elapsed < planned;
        let is_late = working_since.is_none() && now.duration_since(begin) >= planned.max(START);
        if elapsed >= planned || is_late {
            run.end();
        }
        if run.is_over() && now.duration_since(*over_since.get_or_insert(now)) >= PATIENCE {
            break;
        }
        if run.is_over() { thread::sleep(TICK / 4) } else { run.sleep(TICK) }
    }
    let end = run.now();
    let elapsed = end.duration_since(begin);
    watch.sample(end);
    watch.count(end);
    let mut parts = board.parts();
    for part in parts.iter_mut().filter(|part| part.state == State::Running) {
        part.state = State::Hung;
        part.fault(format!("did not answer within {} s at the end", PATIENCE.as_secs()));
    }
    seen.note(&parts, elapsed);
    let mut faults = seen.take(&mut parts);
    let (sensors, counters, watched_counters) = watch.findings();
    faults.extend(watch.take_faults());
    Document {
        schema_version: SCHEMA_VERSION,
        verdict: verdict(&parts, !faults.is_empty(), stopped),
        started_unix_seconds: started.as_secs(),
        elapsed_seconds: elapsed.as_secs_f64(),
        planned_seconds: planned.as_secs_f64(),
        stopped,
        totals: totals(&parts),
        parts,
        sensors,
        counters,
        watched_counters,
        faults,
        not_tested: Vec::new(),
    }
}

fn verdict(parts: &[Part], has_faults: bool, stopped: bool) -> Verdict {
    if has_faults {
        Verdict::Faults
    } else if stopped || parts.is_empty() || parts.iter().any(|part| part.state != State::Done) {
        Verdict::Incomplete
    } else {
        Verdict::Pass
    }
}

fn begin_group(group: Group, place: &mut usize, board: &Arc<Board>, run: &Arc<Run>) {
    for load in group.loads {
        let (at, theirs, run) = (*place, board.clone(), run.clone());
        *place += 1;
        board.starting.fetch_add(1, Ordering::AcqRel);
        board.working.fetch_add(1, Ordering::AcqRel);
        board.put(at, load.findings(), State::Running, None);
        // Not joined: one that waits for a device that never answers is given up, and ends with the process.
        let spawned = thread::Builder::new().name(format!("load {at}")).spawn(move || {
            if let Err(error) = processor::nice(group.nice) {
                tracing::debug!(%error, "the load does not give way to other programs");
            }
            work(load, at, &theirs, &run);
            theirs.working.fetch_sub(1, Ordering::AcqRel);
        });
        if let Err(error) = spawned {
            board.starting.fetch_sub(1, Ordering::AcqRel);
            board.working.fetch_sub(1, Ordering::AcqRel);
            if let Some(part) = board.parts().get(at) {
                board.put(at, part, State::Failed, Some(error.to_string()));
            }
        }
    }
}

fn work(mut load: Box<dyn Load>, place: usize, board: &Board, run: &Run) {
    let mut result = load.start(run);
    board.starting.fetch_sub(1, Ordering::AcqRel);
    // On a busy machine the time may be over before this thread gets any.
    while result.is_ok() && !run.is_stopped() {
        result = load.step(run);
        board.put(place, load.findings(), State::Running, None);
        if run.is_over() {
            break;
        }
    }
    load.end();
    let (state, error) = match result {
        Ok(()) => (State::Done, None),
        Err(error) => (State::Failed, Some(in_full(&*error))),
    };
    board.put(place, load.findings(), state, error);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Trouble;
    use inventory::Root;
    use kernel::Cancel;
    use testkit::tree::Tree;

    /// Works until it is over, or fails or finds at its second step.
    struct Fake {
        part: Part,
        deed: Deed,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Deed {
        Work,
        Fail,
        Find,
        FailToStart,
    }

    impl Load for Fake {
        fn start(&mut self, _: &Run) -> Result<(), Trouble> {
            if self.deed == Deed::FailToStart { Err("nothing to take".into()) } else { Ok(()) }
        }

        fn step(&mut self, _: &Run) -> Result<(), Trouble> {
            thread::sleep(Duration::from_millis(1));
            self.part.add("steps", 1.0);
            if self.part.get("steps") == Some(1.0) {
                return Ok(());
            }
            match self.deed {
                Deed::Fail => return Err("broke".into()),
                Deed::Find => {
                    self.part.fault("wrong");
                }
                Deed::Work | Deed::FailToStart => {}
            }
            Ok(())
        }

        fn end(&mut self) {
            self.part.set("ended", 1.0);
        }

        fn findings(&self) -> &Part {
            &self.part
        }
    }

    fn group(deeds: &[Deed]) -> Group {
        let load = |deed: &Deed| Box::new(Fake { part: Part::new("cpu", "x"), deed: *deed }) as Box<dyn Load>;
        Group { nice: 19, loads: deeds.iter().map(load).collect() }
    }

    fn result(deeds: &[Deed], planned: Duration, stop: &Cancel) -> Document {
        let root = Arc::new(Root::open(Tree::empty().path()).unwrap());
        let run_ = Arc::new(Run::new(stop.clone()));
        run(vec![group(deeds), group(&[Deed::Work])], planned, 0, &run_, &mut Watch::new(root), &mut |_| ())
    }

    /// The loads have less to say than others on a busy machine, and do two steps in it all the same.
    const SHORT: Duration = Duration::from_secs(5);

    #[test]
    fn all_that_works_to_the_end_passes() {
        let found = result(&[Deed::Work, Deed::Work], SHORT, &Cancel::default());
        assert_eq!((found.verdict, found.parts.len(), found.stopped), (Verdict::Pass, 3, false));
        assert!(found.parts.iter().all(|part| part.state == State::Done && part.get("ended") == Some(1.0)));
        assert!(found.parts.iter().all(|part| part.get("steps") > Some(0.0)));
    }

    #[test]
    fn a_fault_decides_and_is_described() {
        let found = result(&[Deed::Find, Deed::Fail], SHORT, &Cancel::default());
        assert_eq!((found.verdict, found.parts[1].state), (Verdict::Faults, State::Failed));
        assert_eq!(found.parts[1].error.as_deref(), Some("broke"));
        assert!(found.parts[0].fault_count > 0 && found.faults[0].message == "wrong");
    }

    #[test]
    fn faults_have_the_time_at_which_they_were_first_seen() {
        let mut parts = [Part::new("disk", "sda"), Part::new("disk", "sdb")];
        let mut seen = Seen(Vec::new());
        seen.note(&parts, Duration::from_secs(1));
        parts[1].fault("first");
        seen.note(&parts, Duration::from_secs(2));
        parts[0].fault("other");
        parts[1].fault("second");
        seen.note(&parts, Duration::from_secs(5));
        seen.note(&parts, Duration::from_secs(9));
        let faults = seen.take(&mut parts);
        let shown: Vec<_> = faults.iter().map(|fault| (fault.message.as_str(), fault.found_after_seconds)).collect();
        assert_eq!(shown, [("other", 5.0), ("first", 2.0), ("second", 5.0)]);
    }

    #[test]
    fn what_could_not_be_tested_is_not_passed() {
        let found = result(&[Deed::FailToStart], SHORT, &Cancel::default());
        assert_eq!((found.verdict, found.parts[0].error.as_deref()), (Verdict::Incomplete, Some("nothing to take")));
        assert_eq!(found.parts[1].state, State::Done);
    }

    #[test]
    fn a_signal_ends_it_and_what_was_found_stays() {
        let stop = Cancel::default();
        let signal = stop.clone();
        let waiter = thread::spawn(move || {
            thread::sleep(SHORT);
            signal.cancel();
        });
        let found = result(&[Deed::Work], Duration::from_secs(3600), &stop);
        waiter.join().unwrap();
        assert_eq!((found.verdict, found.stopped), (Verdict::Incomplete, true));
        assert!(found.parts.iter().all(|part| part.get("ended") == Some(1.0)));
        assert_eq!(found.planned_seconds, 3600.0);
    }

    #[test]
    fn hours_pass_in_simulated_time() {
        let found = result(&[Deed::Work], Duration::from_secs(8 * 3600), &Cancel::in_simulated_time());
        assert_eq!(found.verdict, Verdict::Pass);
        assert!(found.elapsed_seconds >= 8.0 * 3600.0);
    }
}
