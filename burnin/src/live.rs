//! How it stands, on standard error: on a terminal a few lines in their place, elsewhere a line now and then.

use crate::{
    result::{Part, State, wide},
    run::Standing,
    totals::totals,
    words::{clock, faults, measured},
};
use inventory::report::printable;
use std::{
    io::{IsTerminal, Write, stderr},
    os::fd::AsFd,
    time::Duration,
};

/// Between two views of a terminal.
const FRAME: Duration = Duration::from_millis(500);
/// Between two lines elsewhere.
const LINE: Duration = Duration::from_secs(60);

/// What was shown, and when.
#[derive(Default)]
pub(crate) struct Live {
    is_terminal: bool,
    shown: Option<Duration>,
    drawn: usize,
    faults: u64,
    /// Faults of each part that were shown with their words.
    described: Vec<usize>,
    latest: Option<String>,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self { is_terminal: stderr().is_terminal(), ..Self::default() }
    }

    /// Shows it if it is time to.
    pub(crate) fn show(&mut self, standing: &Standing<'_>) {
        if let Some(text) = self.next(standing, kernel::terminal::size(stderr().as_fd())) {
            // A terminal that is gone stops nothing.
            let _ = stderr().write_all(text.as_bytes());
        }
    }

    /// What to write, at once: a terminal shows no half.
    fn next(&mut self, standing: &Standing<'_>, size: Option<(u16, u16)>) -> Option<String> {
        let count = standing.parts.iter().map(|part| part.fault_count).sum::<u64>() + wide(standing.watched_faults);
        let pause = if self.is_terminal { FRAME } else { LINE };
        let is_new = count > self.faults;
        if self.shown.is_some_and(|shown| standing.elapsed < shown + pause) && !is_new {
            return None;
        }
        (self.shown, self.faults) = (Some(standing.elapsed), count);
        let mut lines = lines(standing, count);
        let new = self.new_faults(standing.parts);
        if !self.is_terminal {
            lines.truncate(1);
            return Some(lines.into_iter().chain(new).map(|line| line + "\n").collect());
        }
        self.latest = new.into_iter().next_back().or(self.latest.take());
        lines.splice(1..1, self.latest.clone());
        let (columns, rows) = size.map_or((80, 24), |(columns, rows)| (usize::from(columns), usize::from(rows)));
        lines.truncate(rows.saturating_sub(2).max(1));
        // Each line replaces the one in its place, and clears what that had more.
        let mut text = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
        for line in &lines {
            text.extend(line.chars().take(columns.saturating_sub(1)));
            text.push_str("\x1b[K\n");
        }
        for _ in lines.len()..self.drawn {
            text.push_str("\x1b[K\n");
        }
        self.drawn = self.drawn.max(lines.len());
        Some(text)
    }
}

impl Live {
    /// The faults that are described now and were not before.
    fn new_faults(&mut self, parts: &[Part]) -> Vec<String> {
        self.described.resize(parts.len(), 0);
        let mut lines = Vec::new();
        for (described, part) in self.described.iter_mut().zip(parts) {
            let new = part.faults.iter().skip(std::mem::replace(described, part.faults.len()));
            lines.extend(
                new.map(|fault| printable(&format!("  fault: {} {}: {}", part.kind, part.name, fault.message))),
            );
        }
        lines
    }
}

fn lines(standing: &Standing<'_>, count: u64) -> Vec<String> {
    let is_running = |part: &&Part| part.state == State::Running;
    let running = standing.parts.iter().filter(is_running).count();
    let (elapsed, planned) = (clock(standing.elapsed), clock(standing.planned));
    let first = format!("burn-in {elapsed} of {planned}: {running} loads run, {}", faults(count));
    let total = |total: &crate::result::Total| {
        let line =
            format!("  {:<7} {:<12} {:<10} {}", total.kind, total.name, faults(total.fault_count), measured(total));
        printable(&line)
    };
    std::iter::once(first).chain(totals(standing.parts).iter().map(total)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(parts: &[Part], seconds: u64) -> Standing<'_> {
        Standing { elapsed: Duration::from_secs(seconds), planned: Duration::from_secs(600), parts, watched_faults: 0 }
    }

    fn live(is_terminal: bool) -> Live {
        Live { is_terminal, ..Live::default() }
    }

    #[test]
    fn a_terminal_s_lines_are_replaced_in_one_write() {
        let mut part = Part::new("cpu", "cpu 0");
        part.state = State::Running;
        part.set("rounds", 5.0);
        let mut live = live(true);
        let first = live.next(&standing(&[part.clone()], 0), Some((40, 24))).unwrap();
        let expected = "burn-in 0:00 of 10:00: 1 loads run, no \x1b[K\n  cpu     all          no faults  round\x1b[K\n";
        assert_eq!(first, expected);
        assert_eq!(live.next(&standing(&[part.clone()], 0), Some((40, 24))), None);
        let second = live.next(&standing(&[part], 1), Some((40, 24))).unwrap();
        assert!(second.starts_with("\x1b[2Aburn-in 0:01") && !second.contains("\x1b[2J"), "{second:?}");
    }

    #[test]
    fn elsewhere_there_is_a_line_a_minute_and_one_for_a_fault() {
        let mut part = Part::new("disk", "sda");
        let mut live = live(false);
        let mut at = |part: &Part, seconds| live.next(&standing(std::slice::from_ref(part), seconds), None);
        assert_eq!(at(&part, 0).as_deref(), Some("burn-in 0:00 of 10:00: 0 loads run, no faults\n"));
        assert_eq!(at(&part, 59), None);
        part.fault("x\u{1b}y");
        let with_fault = "burn-in 0:59 of 10:00: 0 loads run, 1 fault\n  fault: disk sda: x\u{fffd}y\n";
        assert_eq!(at(&part, 59).as_deref(), Some(with_fault));
        assert_eq!(at(&part, 60), None);
        assert!(at(&part, 119).unwrap().ends_with("1 fault\n"));
    }

    #[test]
    fn a_terminal_shows_the_latest_fault() {
        let mut part = Part::new("disk", "sda");
        let mut live = live(true);
        part.fault("first");
        part.fault("second");
        live.next(&standing(&[part.clone()], 0), Some((80, 24)));
        let text = live.next(&standing(&[part], 1), Some((80, 24))).unwrap();
        assert!(text.contains("\n  fault: disk sda: second\x1b[K\n") && !text.contains("first"), "{text:?}");
    }
}
