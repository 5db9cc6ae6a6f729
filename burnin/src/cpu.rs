//! Arithmetic with known answers on every core, at every width; the clock that it runs at meanwhile.

use crate::{
    facts::Facts,
    load::{Load, Run, Trouble},
    plan::{Kind, Planned, Request},
    result::{Gauge, Part, number},
};
use inventory::Root;
use kernel::processor::{self, Width};
use loops::{UNITS, Unit};
use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) const KIND: Kind = Kind { name: "cpu", nice: 19, plan };

const CPUS: &str = "/sys/devices/system/cpu";
const STEP: Duration = Duration::from_millis(200);
/// A core that is on average below this part of its base frequency is throttled: wide vectors alone lower the clock of some processors by
/// less than that.
const LEAST_OF_BASE: f64 = 0.75;
/// `MSR_IA32_APERF` (asm/msr-index.h): counts at the clock the core really has.
const APERF: u64 = 0xE8;
/// Of so many rounds one has all widths, and the others the widest.
const NARROWER: u64 = 8;

fn plan(facts: &Facts, request: &Request) -> Planned {
    let widths = Width::all();
    let core = |cpu: &u32| Box::new(Core::new(*cpu, request.root.clone(), &UNITS, widths.clone())) as Box<dyn Load>;
    let bits = widths.last().map_or("base", |width| match width {
        Width::Base => "base",
        Width::Bits256 => "256-bit",
        Width::Bits512 => "512-bit",
    });
    Planned {
        text: vec![format!("{} cores, {} kinds of arithmetic, vectors up to {bits}", facts.cpus.len(), UNITS.len())],
        loads: facts.cpus.iter().map(core).collect(),
        not_tested: Vec::new(),
    }
}

/// One CPU.
struct Core {
    part: Part,
    cpu: u32,
    root: Arc<Root>,
    units: &'static [Unit],
    /// The widest last.
    widths: Vec<Width>,
    round: u64,
    clock: Gauge,
    /// The counter of clocks, where it can be read, and its last value.
    counter: Option<(File, u64, Instant)>,
}

impl Core {
    fn new(cpu: u32, root: Arc<Root>, units: &'static [Unit], widths: Vec<Width>) -> Self {
        let part = Part::new(KIND.name, format!("cpu {cpu}"));
        Self { part, cpu, root, units, widths, round: 0, clock: Gauge::default(), counter: None }
    }

    fn hertz(&self, file: &str) -> Option<f64> {
        let khz: u64 = self.root.number(format!("{CPUS}/cpu{}/cpufreq/{file}", self.cpu))?;
        Some(number(khz) * 1000.0)
    }

    /// What the driver says, else what the core has counted since the last time.
    fn measure_clock(&mut self, run: &Run) {
        if let Some(hertz) = self.hertz("scaling_cur_freq") {
            self.clock.add(hertz);
        } else if let Some((file, last, since)) = &mut self.counter {
            let (now, count) = (run.now(), clocks(file));
            let seconds = now.duration_since(*since).as_secs_f64();
            // It stands still where a virtual machine has none; a core that works has it advance.
            if let Some(count) = count.filter(|count| seconds > 0.0 && count != last) {
                self.clock.add(number(count.wrapping_sub(*last)) / seconds);
                (*last, *since) = (count, now);
            }
        }
        self.part.set_gauge("clock", "hertz", &self.clock);
    }
}

fn clocks(file: &File) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, APERF).ok()?;
    Some(u64::from_le_bytes(bytes))
}

impl Load for Core {
    fn start(&mut self, run: &Run) -> Result<(), Trouble> {
        // A captured machine's CPUs are not these.
        if self.root.is_live() {
            processor::pin(&[self.cpu])?;
            let open = || File::open(format!("/dev/cpu/{}/msr", self.cpu)).ok();
            self.counter = open().and_then(|file| clocks(&file).map(|count| (file, count, run.now())));
        }
        Ok(())
    }

    fn step(&mut self, run: &Run) -> Result<(), Trouble> {
        let start = run.now();
        loop {
            // The widest loads the core most.
            let narrower = if self.round.is_multiple_of(NARROWER) { 0 } else { self.widths.len().saturating_sub(1) };
            let widths = self.widths.get(narrower..).unwrap_or_default();
            self.round = self.round.wrapping_add(1);
            for unit in self.units {
                for width in widths {
                    let found = (unit.work)(*width);
                    if found != unit.answer {
                        let expected = unit.answer;
                        self.part.fault(format!("{}: {found:#x} instead of {expected:#x}", unit.name));
                    }
                }
            }
            self.part.add("rounds", 1.0);
            if run.is_over() || run.now().duration_since(start) >= STEP {
                break;
            }
        }
        self.measure_clock(run);
        Ok(())
    }

    fn end(&mut self) {
        let Some(base) = self.hertz("base_frequency") else { return };
        self.part.set("clock_base_hertz", base);
        if self.clock.samples > 0 && self.clock.average() < base * LEAST_OF_BASE {
            let mhz = |hertz: f64| hertz / 1e6;
            let (average, base) = (mhz(self.clock.average()), mhz(base));
            self.part.fault(format!("throttled: {average:.0} MHz on average, below the base frequency, {base:.0} MHz"));
        }
    }

    fn findings(&self) -> &Part {
        &self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use testkit::tree::Tree;

    const RIGHT: Unit = Unit { name: "right", work: |_| 5, answer: 5 };
    const WRONG: Unit = Unit { name: "wrong", work: |_| 4, answer: 5 };

    fn core(tree: &Tree, units: &'static [Unit]) -> Core {
        Core::new(3, Arc::new(Root::open(tree.path()).unwrap()), units, vec![Width::Base])
    }

    /// One round.
    fn after_a_step(mut core: Core) -> Part {
        let run = Run::default();
        core.start(&run).unwrap();
        run.end();
        core.step(&run).unwrap();
        core.end();
        core.findings().clone()
    }

    #[test]
    fn wrong_arithmetic_is_a_fault_of_its_core() {
        let part = after_a_step(core(&Tree::empty(), &[RIGHT, WRONG]));
        assert_eq!((part.fault_count, part.faults[0].part.as_str()), (1, "cpu 3"));
        assert_eq!(part.faults[0].message, "wrong: 0x4 instead of 0x5");
        assert_eq!(part.get("rounds"), Some(1.0));
    }

    #[test]
    fn most_rounds_are_those_of_the_widest() {
        const UNIT: Unit = Unit { name: "base", work: |width| u64::from(width == Width::Base), answer: 0 };
        let run = Run::default();
        let root = Arc::new(Root::open(Tree::empty().path()).unwrap());
        let mut core = Core::new(3, root, &[UNIT], vec![Width::Base, Width::Bits256]);
        run.end();
        (0..NARROWER + 1).for_each(|_| core.step(&run).unwrap());
        assert_eq!((core.findings().get("rounds"), core.findings().fault_count), (Some(9.0), 2));
    }

    #[test]
    fn a_counter_that_stands_still_is_no_clock() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 256]).unwrap();
        let run = Run::default();
        let tree = Tree::new(&[("sys/devices/system/cpu/cpu3/cpufreq/base_frequency", "2000000\n")]);
        let mut core = core(&tree, &[RIGHT]);
        let count = clocks(&file).unwrap();
        core.counter = Some((file, count, run.now()));
        run.end();
        core.step(&run).unwrap();
        core.end();
        assert_eq!((core.findings().fault_count, core.findings().get("clock_average_hertz")), (0, None));
    }

    #[test]
    fn a_core_below_its_base_frequency_is_a_fault() {
        let tree = Tree::new(&[
            ("sys/devices/system/cpu/cpu3/cpufreq/base_frequency", "2000000\n"),
            ("sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "1200000\n"),
        ]);
        let part = after_a_step(core(&tree, &[RIGHT]));
        let expected = "throttled: 1200 MHz on average, below the base frequency, 2000 MHz";
        assert_eq!(part.faults[0].message, expected);
        assert_eq!(part.get("clock_average_hertz"), Some(1.2e9));
        tree.add("sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "2600000\n");
        assert_eq!(after_a_step(core(&tree, &[RIGHT])).fault_count, 0);
    }

    #[test]
    fn this_machine_computes_correctly() {
        let mut core = Core::new(0, Arc::new(Root::open(Tree::empty().path()).unwrap()), &UNITS, Width::all());
        core.step(&Run::default()).unwrap();
        assert_eq!(core.findings().faults, []);
    }
}
