//! A guest's serial console: stored in a log file, split into lines, watched for `@@ ` markers and for panics.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Prefix of a guest's lines that are meant for us.
pub const MARKER: &str = "@@ ";
/// Under TCG on a busy machine the guest's timer check may come too late, at 0.05 s of its life; a second try works.
const TIMER_PANIC: &str = "IO-APIC + timer doesn't work";
/// Or the one timer interrupt it waits for is lost, and it waits forever; after 21 s it says so.
const TIMER_LOST: &str = "Possible timer handling issue on cpu=";
const PANIC: &str = "Kernel panic - not syncing";
/// Lines stored for error messages.
const TAIL_LINES: usize = 30;
/// A longer line is cut in two.
const MAX_LINE_BYTES: usize = 4096;

/// A `@@ ` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Host time since the machine was started.
    pub at: Duration,
    /// What follows `@@ `.
    pub text: String,
}

impl Marker {
    /// The value of the first `key=value` word.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }
}

/// State of the guest, as far as its console shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing bad seen.
    Running,
    /// A timer flake of TCG: start again.
    TimerPanic,
    /// Its kernel panicked; the line.
    Panic(String),
    /// The console was closed: QEMU ended.
    Ended,
}

#[derive(Debug)]
struct State {
    markers: Vec<Marker>,
    tail: VecDeque<String>,
    fate: Fate,
    bytes: u64,
}

/// The console, fed by its own thread.
#[derive(Clone, Debug)]
pub struct Serial {
    shared: Arc<(Mutex<State>, Condvar)>,
    started: Instant,
}

impl Serial {
    /// Since the machine was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Reads `output` to its end, into `log` and into memory.
    pub fn follow(mut output: impl Read + Send + 'static, mut log: File, started: Instant) -> Self {
        let state = State { markers: Vec::new(), tail: VecDeque::new(), fate: Fate::Running, bytes: 0 };
        let serial = Self { shared: Arc::new((Mutex::new(state), Condvar::new())), started };
        let console = serial.clone();
        std::thread::spawn(move || {
            let mut lines = Lines::default();
            let mut chunk = [0; 16 << 10];
            loop {
                match output.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(len) => {
                        // A full disk must not stop the guest's console; the lines are still in memory.
                        let _ = log.write_all(&chunk[..len]);
                        console.take(lines.feed(&chunk[..len]), len);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            console.take(lines.finish().into_iter().collect(), 0);
            let mut state = console.lock();
            if state.fate == Fate::Running {
                state.fate = Fate::Ended;
            }
            drop(state);
            console.shared.1.notify_all();
        });
        serial
    }

    /// All markers so far, in order.
    pub fn markers(&self) -> Vec<Marker> {
        self.lock().markers.clone()
    }

    /// The last lines, oldest first.
    pub fn tail(&self) -> Vec<String> {
        self.lock().tail.iter().cloned().collect()
    }

    /// What became of the guest.
    pub fn fate(&self) -> Fate {
        self.lock().fate.clone()
    }

    /// Bytes printed so far.
    pub fn len_bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// The first marker at or after index `from` that `wanted` accepts, waiting at most `limit` and no longer than the
    /// guest runs.
    pub fn wait(&self, from: usize, limit: Duration, wanted: impl Fn(&Marker) -> bool) -> Option<(usize, Marker)> {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        let mut next = from;
        loop {
            while let Some(marker) = state.markers.get(next) {
                if wanted(marker) {
                    return Some((next, marker.clone()));
                }
                next += 1;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.fate != Fate::Running {
                return None;
            }
            state = self.shared.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn take(&self, lines: Vec<String>, len: usize) {
        let at = self.started.elapsed();
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        for line in lines {
            if let Some(text) = marker_text(&line) {
                state.markers.push(Marker { at, text: text.to_owned() });
            }
            let is_starting = state.markers.is_empty();
            if line.contains(TIMER_PANIC) || is_starting && line.contains(TIMER_LOST) {
                state.fate = Fate::TimerPanic;
            } else if line.contains(PANIC) && state.fate == Fate::Running {
                state.fate = Fate::Panic(line.clone());
            }
            if state.tail.len() == TAIL_LINES {
                state.tail.pop_front();
            }
            state.tail.push_back(line);
        }
        drop(state);
        self.shared.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The marker in a line; kernel messages and terminal codes may stand before it.
fn marker_text(line: &str) -> Option<&str> {
    line.find(MARKER).map(|start| line[start + MARKER.len()..].trim_end())
}

/// Splits console output into lines without control characters.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in bytes {
            if byte == b'\n' || self.line.len() >= MAX_LINE_BYTES {
                lines.extend(self.finish());
            }
            if byte != b'\n' {
                self.line.push(byte);
            }
        }
        lines
    }

    fn finish(&mut self) -> Option<String> {
        let line = clean(&std::mem::take(&mut self.line));
        (!line.is_empty()).then_some(line)
    }
}

/// Text without escape sequences (ECMA-48 CSI, and two-byte ones) and control characters.
fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            if chars.next() == Some('[') {
                chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
        } else if !c.is_control() {
            out.push(c);
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serial(output: &'static [u8]) -> Serial {
        Serial::follow(output, tempfile::tempfile().unwrap(), Instant::now())
    }

    #[test]
    fn markers_are_found_behind_escapes_and_kernel_messages() {
        let serial = serial(b"\x1b[2J\x1b[01;01H@@ grub\r\n[ 0.1] virtio@@ net-ok address=10.0.2.15\r\nplain\n@@ cut");
        let (index, marker) = serial.wait(0, testkit::wait::LIMIT, |m| m.text.starts_with("net-ok")).unwrap();
        assert_eq!((index, marker.value("address"), marker.value("addr")), (1, Some("10.0.2.15"), None));
        assert_eq!(serial.wait(2, testkit::wait::LIMIT, |_| true).unwrap().1.text, "cut");
        assert_eq!(serial.tail()[0], "@@ grub");
        assert_eq!(serial.wait(0, testkit::wait::LIMIT, |m| m.text == "never"), None);
        assert_eq!(serial.fate(), Fate::Ended);
    }

    #[test]
    fn panics_are_distinguished() {
        for (output, fate) in [
            (
                &b"Kernel panic - not syncing: IO-APIC + timer doesn't work!  Boot with apic=debug\n"[..],
                Fate::TimerPanic,
            ),
            (b"rcu: \tPossible timer handling issue on cpu=0 timer-softirq=7\n", Fate::TimerPanic),
            // On a host that was suspended the guest is wrong about this.
            (b"@@ up\nrcu: \tPossible timer handling issue on cpu=0 timer-softirq=7\n", Fate::Ended),
            (b"x Kernel panic - not syncing: VFS\nmore\n", Fate::Panic("x Kernel panic - not syncing: VFS".into())),
        ] {
            let serial = serial(output);
            assert_eq!(serial.wait(0, testkit::wait::LIMIT, |marker| marker.text == "never"), None);
            assert_eq!(serial.fate(), fate);
        }
    }

    #[test]
    fn endless_lines_are_cut() {
        let mut lines = Lines::default();
        let cut = lines.feed(&[b'x'; 3 * MAX_LINE_BYTES]);
        assert_eq!(cut.iter().map(String::len).collect::<Vec<_>>(), [MAX_LINE_BYTES; 2]);
        assert_eq!(lines.finish().unwrap().len(), MAX_LINE_BYTES);
    }
}
