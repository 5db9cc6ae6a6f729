//! How it stands, on standard error: on a terminal a few lines in their place, elsewhere a line now and then.

use crate::{
    result::{Part, State},
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
pub(crate) struct Live {
    is_terminal: bool,
    shown: Option<Duration>,
    drawn: usize,
    faults: u64,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self { is_terminal: stderr().is_terminal(), shown: None, drawn: 0, faults: 0 }
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
        let count = standing.parts.iter().map(|part| part.fault_count).sum();
        let pause = if self.is_terminal { FRAME } else { LINE };
        let is_new = count > self.faults;
        if self.shown.is_some_and(|shown| standing.elapsed < shown + pause) && !is_new {
            return None;
        }
        (self.shown, self.faults) = (Some(standing.elapsed), count);
        let mut lines = lines(standing, count);
        if !self.is_terminal {
            lines.truncate(1);
            return lines.pop().map(|line| line + "\n");
        }
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
        Standing { elapsed: Duration::from_secs(seconds), planned: Duration::from_secs(600), parts }
    }

    fn live(is_terminal: bool) -> Live {
        Live { is_terminal, shown: None, drawn: 0, faults: 0 }
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
        part.fault("x");
        assert!(at(&part, 59).unwrap().ends_with("1 fault\n"));
        assert_eq!(at(&part, 60), None);
        assert!(at(&part, 119).is_some());
    }
}
