//! Patterns over the free memory, node by node, and how fast it is.

mod passes;
mod shares;

use crate::{
    facts::Facts,
    load::{Load, Run, Trouble},
    plan::{Kind, Planned, Request},
    result::{Part, number, wide},
};
use kernel::{
    processor::{self, Width},
    region::{Region, STEP_BYTES, WORD_BYTES, prefer_node},
    units::binary,
};
use loops::{Fill, check, fill, sum};
use nix::unistd::{SysconfVar, sysconf};
use passes::{Pass, passes};
use shares::{Share, shares};
use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

pub(crate) const KIND: Kind = Kind { name: "memory", nice: 19, plan };

const STEP: Duration = Duration::from_millis(200);
/// Worked on between two looks at the clock.
const CHUNK: usize = (8 << 20) / WORD_BYTES;
/// Compared and then written while it is in a cache near the core: it comes from memory once, and goes back once.
const PIECE: usize = (128 << 10) / WORD_BYTES;
/// Of a share this much is enough to measure its speed: far more than any cache.
const MEASURED: usize = (1 << 30) / WORD_BYTES;

/// What is measured: its name, how many words it is about, and what it does.
type Work<'a> = (&'a str, usize, &'a dyn Fn(&mut [u64]));

fn plan(facts: &Facts, request: &Request) -> Planned {
    let shares = shares(&facts.nodes, &facts.cpus, request.memory_room(facts.available_bytes), request.memory_bytes);
    let total = shares.iter().map(|share| wide(share.bytes)).sum();
    if shares.is_empty() {
        let not_tested = vec![format!(
            "memory: {} are available, which is not more than the reserve",
            binary(facts.available_bytes)
        )];
        return Planned { not_tested, ..Planned::default() };
    }
    Planned {
        text: vec![format!(
            "{} of {} that are available, in {} shares on {} NUMA nodes",
            binary(total),
            binary(facts.available_bytes),
            shares.len(),
            facts.nodes.len()
        )],
        loads: shares.into_iter().map(|share| Box::new(Tester::new(share, Region::new)) as Box<dyn Load>).collect(),
        not_tested: Vec::new(),
    }
}

/// Memory under test.
trait Memory: Send {
    fn words(&mut self) -> &mut [u64];

    /// Whether these words now stay in memory.
    fn lock(&mut self, words: Range<usize>) -> bool;

    /// Gives half of it back.
    fn halve(&mut self);
}

impl Memory for Region {
    fn words(&mut self) -> &mut [u64] {
        Self::words(self)
    }

    fn lock(&mut self, words: Range<usize>) -> bool {
        Self::lock(self, words).is_ok()
    }

    fn halve(&mut self) {
        let half = (self.len_bytes() / 2).max(STEP_BYTES);
        if let Err(error) = self.shrink(half) {
            tracing::warn!(%error, "cannot give memory back");
        }
    }
}

/// A share of a node's memory, and where in the patterns its test is.
struct Tester<M> {
    part: Part,
    share: Share,
    width: Width,
    take: fn(usize) -> io::Result<M>,
    memory: Option<M>,
    round: u64,
    pass: usize,
    /// Words of the pass that are done.
    done: usize,
    shortages: u32,
    /// From virtual to physical addresses.
    pagemap: Option<File>,
}

impl<M: Memory> Tester<M> {
    fn new(share: Share, take: fn(usize) -> io::Result<M>) -> Self {
        Self {
            part: Part::new(KIND.name, format!("node {} share {}", share.node, share.number)),
            share,
            width: Width::widest(),
            take,
            memory: None,
            round: 0,
            pass: 0,
            done: 0,
            shortages: 0,
            pagemap: File::open("/proc/self/pagemap").ok(),
        }
    }

    /// Begins the pattern anew.
    fn restart(&mut self) {
        (self.pass, self.done) = (0, 0);
    }

    /// Makes the kernel give the memory, from the node that this thread runs on.
    fn take_all(&mut self, run: &Run) -> io::Result<()> {
        let mut memory = (self.take)(self.share.bytes)?;
        let (mut start, mut locked) = (0, 0);
        let len = memory.words().len();
        let mut may_lock = true;
        while start < len && !run.is_over() {
            let end = len.min(start + CHUNK);
            fill(self.width, memory.words().get_mut(start..end).unwrap_or_default(), 0, Fill::Constant(0));
            may_lock = may_lock && memory.lock(start..end);
            locked += if may_lock { end - start } else { 0 };
            start = end;
        }
        self.part.set("region_bytes", number(wide(len * WORD_BYTES)));
        self.part.set("locked_bytes", number(wide(locked * WORD_BYTES)));
        self.memory = Some(memory);
        Ok(())
    }

    /// How fast it is written, read and copied, while the other shares of the node do the same.
    fn measure(&mut self, run: &Run) {
        let Some(memory) = &mut self.memory else { return };
        let words = memory.words();
        let words = words.get_mut(..MEASURED.min(words.len())).unwrap_or_default();
        let width = self.width;
        let half = words.len() / 2;
        let write = |words: &mut [u64]| {
            words
                .chunks_mut(CHUNK)
                .take_while(|_| !run.is_over())
                .for_each(|chunk| fill(width, chunk, 0, Fill::Constant(1)))
        };
        let read = |words: &mut [u64]| {
            for chunk in words.chunks(CHUNK).take_while(|_| !run.is_over()) {
                sum(width, chunk);
            }
        };
        let copy = |words: &mut [u64]| {
            let (from, to) = words.split_at_mut(half);
            for (from, to) in from.chunks(CHUNK).zip(to.chunks_mut(CHUNK)).take_while(|_| !run.is_over()) {
                to.get_mut(..from.len()).into_iter().for_each(|to| to.copy_from_slice(from));
            }
        };
        let works: [Work<'_>; 3] =
            [("write", words.len(), &write), ("read", words.len(), &read), ("copy", half, &copy)];
        for (name, count, work) in works {
            let start = run.now();
            work(words);
            let seconds = run.now().duration_since(start).as_secs_f64();
            if seconds > 0.0 && !run.is_over() {
                self.part.set(&format!("{name}_bytes_per_second"), number(wide(count * WORD_BYTES)) / seconds);
            }
        }
    }

    /// The next piece of the pass; whether the round continues.
    fn work(&mut self, pass: Pass) {
        let Some(memory) = &mut self.memory else { return };
        let words = memory.words();
        let len = words.len();
        let count = CHUNK.min(len - self.done.min(len));
        let start = if pass.up { self.done } else { len - self.done - count };
        let words = words.get_mut(start..start + count).unwrap_or_default();
        let (part, pagemap) = (&mut self.part, self.pagemap.as_ref());
        for (place, piece) in words.chunks_mut(PIECE).enumerate() {
            let first = wide(start + place * PIECE);
            if let Some(expected) = pass.expect {
                let address = wide(piece.as_ptr().addr());
                check(self.width, piece, first, expected, &mut |place, found| {
                    let bits = found ^ expected.word(first + wide(place));
                    let message = format!("{}: {} bits differ, {bits:#018x}", pass.name, bits.count_ones());
                    if let Some(fault) = part.fault(message) {
                        fault.bits = Some(format!("{bits:#018x}"));
                        let address = address + wide(place * WORD_BYTES);
                        fault.physical_address =
                            pagemap.and_then(|map| physical(map, address)).map(|at| format!("{at:#x}"));
                    }
                });
            }
            if let Some(pattern) = pass.write {
                fill(self.width, piece, first, pattern);
            }
        }
        if pass.expect.is_some() {
            self.part.add("tested_bytes", number(wide(count * WORD_BYTES)));
        }
        self.done += count;
        if self.done >= len {
            (self.done, self.pass) = (0, self.pass + 1);
        }
    }
}

/// The physical address (Documentation/admin-guide/mm/pagemap.rst); `None` without the right to know it.
fn physical(pagemap: &File, address: u64) -> Option<u64> {
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    let page_bytes = u64::try_from(page_bytes).ok().filter(|bytes| *bytes > 0)?;
    let mut entry = [0; 8];
    pagemap.read_exact_at(&mut entry, address / page_bytes * 8).ok()?;
    let frame = u64::from_ne_bytes(entry) & ((1 << 55) - 1);
    (frame > 0).then(|| frame.saturating_mul(page_bytes).saturating_add(address % page_bytes))
}

impl<M: Memory> Load for Tester<M> {
    fn start(&mut self, run: &Run) -> Result<(), Trouble> {
        if !self.share.cpus.is_empty() {
            processor::pin(&self.share.cpus)?;
        }
        if let Err(error) = prefer_node(self.share.is_one_of_many.then_some(self.share.node)) {
            tracing::debug!(%error, "memory comes from the node that the thread runs on");
        }
        self.take_all(run)?;
        self.measure(run);
        Ok(())
    }

    fn step(&mut self, run: &Run) -> Result<(), Trouble> {
        if std::mem::replace(&mut self.shortages, run.shortages()) != run.shortages() {
            if let Some(memory) = &mut self.memory {
                memory.halve();
                self.part.set("region_bytes", number(wide(memory.words().len() * WORD_BYTES)));
            }
            self.restart();
        }
        let start: Instant = run.now();
        loop {
            let Some(pass) = passes(self.round).get(self.pass).copied() else {
                self.round += 1;
                self.part.set("patterns", number(self.round));
                self.restart();
                continue;
            };
            self.work(pass);
            if run.is_over() || run.now().duration_since(start) >= STEP {
                break;
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.memory = None;
    }

    fn findings(&self) -> &Part {
        &self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Cancel;

    /// Memory of which a bit flips the n-th time that it is worked on.
    struct Flipping {
        words: Vec<u64>,
        uses: u32,
    }

    const FLIPS: [u32; 2] = [6, 9];
    const PLACE: usize = 100_000;
    const BIT: u64 = 1 << 37;

    impl Memory for Flipping {
        fn words(&mut self) -> &mut [u64] {
            self.uses += 1;
            if FLIPS.contains(&self.uses) {
                self.words[PLACE] ^= BIT;
            }
            &mut self.words
        }

        fn lock(&mut self, _: Range<usize>) -> bool {
            false
        }

        fn halve(&mut self) {
            self.words.truncate(self.words.len() / 2);
        }
    }

    fn share(bytes: usize) -> Share {
        Share { node: 0, number: 1, cpus: Vec::new(), bytes, is_one_of_many: false }
    }

    fn flipping(bytes: usize) -> io::Result<Flipping> {
        Ok(Flipping { words: vec![0; bytes / WORD_BYTES], uses: 0 })
    }

    /// Makes so many whole rounds.
    fn rounds<M: Memory>(tester: &mut Tester<M>, count: u64) {
        while let Some(pass) = passes(tester.round).get(tester.pass).copied() {
            tester.work(pass);
            if passes(tester.round).len() == tester.pass {
                tester.round += 1;
                tester.restart();
                if tester.round == count {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_bit_that_flips_is_found_with_its_place() {
        let mut tester = Tester::new(share(4 << 20), flipping);
        let run = Run::default();
        tester.start(&run).unwrap();
        rounds(&mut tester, 2);
        let part = tester.findings();
        assert!(part.fault_count > 0 && part.fault_count <= 2, "{part:?}");
        let fault = &part.faults[0];
        assert_eq!(fault.bits.as_deref(), Some("0x0000002000000000"));
        assert!(fault.message.contains("1 bits differ"), "{fault:?}");
    }

    #[test]
    fn good_memory_has_no_faults_and_its_speed_is_measured() {
        let mut tester = Tester::new(share(8 << 20), Region::new);
        tester.start(&Run::default()).unwrap();
        rounds(&mut tester, 12);
        let part = tester.findings();
        assert_eq!((part.faults.as_slice(), part.get("region_bytes")), (&[][..], Some(f64::from(8 << 20))));
        for name in ["write", "read", "copy"] {
            assert!(part.get(&format!("{name}_bytes_per_second")).unwrap() > 0.0);
        }
        assert!(part.get("tested_bytes").unwrap() >= f64::from(12 * (8 << 20)));
    }

    #[test]
    fn memory_is_given_back_when_it_is_short() {
        let mut tester = Tester::new(share(8 << 20), Region::new);
        let run = Run::new(Cancel::in_simulated_time());
        tester.start(&run).unwrap();
        run.report_shortage();
        run.end();
        tester.step(&run).unwrap();
        assert_eq!(tester.findings().get("region_bytes"), Some(f64::from(4 << 20)));
        tester.end();
        assert!(tester.memory.is_none());
    }

    #[test]
    fn root_sees_physical_addresses() {
        if testkit::skip::unless("root", nix::unistd::geteuid().is_root()) {
            let mut region = Region::new(1).unwrap();
            region.words().fill(1);
            let map = File::open("/proc/self/pagemap").unwrap();
            let at = |place: usize, words: &mut [u64]| physical(&map, wide(words[place..].as_ptr().addr()));
            let (first, second) = (at(0, region.words()), at(1, region.words()));
            // Containers may hide them.
            if let (Some(first), Some(second)) = (first, second) {
                assert_eq!(second - first, 8);
            }
        }
    }
}
