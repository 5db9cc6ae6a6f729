//! A program with all that it has started.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::fs;

/// A process, not to be taken for another that gets its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    number: i32,
    started_ticks: u64,
}

impl Process {
    /// With the number of its parent; `None` for what has ended, zombies included.
    pub(crate) fn read(number: i32) -> Option<(Self, i32)> {
        Self::parse(number, &fs::read_to_string(format!("/proc/{number}/stat")).ok()?)
    }

    /// `stat` is /proc/PID/stat (proc_pid_stat(5)).
    fn parse(number: i32, stat: &str) -> Option<(Self, i32)> {
        // The program's name stands before this and may hold anything, parentheses too.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split_ascii_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let started_ticks = fields.nth(17)?.parse().ok()?;
        (!ended).then_some((Self { number, started_ticks }, parent))
    }

    pub(crate) fn runs(&self) -> bool {
        Self::read(self.number).is_some_and(|(now, _)| now == *self)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if self.runs() {
            // It may end at this moment.
            let _ = kill(Pid::from_raw(self.number), signal);
        }
    }
}

/// Adds what these have started, and what that has started.
pub(crate) fn add_descendants(processes: &mut Vec<Process>) {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let running = entries.filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?));
    let (mut parents, mut others): (Vec<_>, Vec<_>) = running.partition(|(process, _)| processes.contains(process));
    while !parents.is_empty() {
        let is_child = |other: &mut (Process, i32)| parents.iter().any(|(parent, _)| parent.number == other.1);
        let children: Vec<_> = others.extract_if(.., is_child).collect();
        processes.extend(children.iter().map(|(process, _)| process));
        parents = children;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_cannot_mislead() {
        let rest = "5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 99 23";
        let process = |state: &str| Process::parse(7, &format!("7 (a) Z 5 (b) {state} 42 {rest}"));
        assert_eq!(process("S"), Some((Process { number: 7, started_ticks: 99 }, 42)));
        assert_eq!((process("Z"), Process::parse(7, "7 (a) S")), (None, None));
    }
}
