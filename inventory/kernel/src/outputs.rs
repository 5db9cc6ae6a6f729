//! The output of programs: bounded, and read without a thread.

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    io::{self, PipeReader, Read},
    os::fd::{AsFd, OwnedFd},
    process::ExitStatus,
    thread,
    time::{Duration, Instant},
};

/// How often a program is checked.
const LOOK_MS: u16 = 20;
/// Read from one stream before the next has its turn: more than any pipe holds.
const CHUNKS: usize = 64;
/// A line without an end is passed on in pieces of this size.
const LINE_BYTES: usize = 8 << 10;

/// The part of a stream that is stored. The rest is read and dropped, so that the program can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// This many bytes of its start.
    Start(usize),
    /// This many bytes of its end.
    End(usize),
    /// This many bytes of its start, and as many of its end.
    Ends(usize),
}

/// The pipes of a program.
pub struct Outputs<const N: usize>([Stream; N]);

type Relay = Box<dyn FnMut(&str)>;

struct Stream {
    /// None once it is closed.
    pipe: Option<PipeReader>,
    keep: Keep,
    bytes: Vec<u8>,
    /// More came than is stored.
    is_full: bool,
    /// The incomplete last line, where lines are relayed.
    line: Vec<u8>,
    relay: Option<Relay>,
}

impl Outputs<2> {
    /// Standard output and error apart, and the program's ends of the pipes.
    pub fn apart([output, error]: [Keep; 2]) -> io::Result<(Self, [OwnedFd; 2])> {
        let ((output, first), (error, second)) = (stream(output)?, stream(error)?);
        Ok((Self([output, error]), [first, second]))
    }

    /// Passes each line of standard error to `relay` as soon as it is complete.
    pub fn relaying_errors(mut self, relay: impl FnMut(&str) + 'static) -> Self {
        let [_, error] = &mut self.0;
        error.relay = Some(Box::new(relay));
        self
    }

    /// Whether standard output was longer than the stored part.
    pub fn is_flooded(&self) -> bool {
        let [output, _] = &self.0;
        output.is_full
    }
}

impl Outputs<1> {
    /// Standard output and error in one, in the order in which they were written.
    pub fn merged(keep: Keep) -> io::Result<(Self, [OwnedFd; 2])> {
        let (both, end) = stream(keep)?;
        Ok((Self([both]), [end.try_clone()?, end]))
    }

    /// Standard error alone.
    pub fn errors(keep: Keep) -> io::Result<(Self, [OwnedFd; 2])> {
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        let (error, end) = stream(keep)?;
        Ok((Self([error]), [null.into(), end]))
    }
}

fn stream(keep: Keep) -> io::Result<(Stream, OwnedFd)> {
    let (pipe, end) = io::pipe()?;
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let (bytes, line) = (Vec::new(), Vec::new());
    Ok((Stream { pipe: Some(pipe), keep, bytes, is_full: false, line, relay: None }, end.into()))
}

impl<const N: usize> Outputs<N> {
    /// Reads until the program has ended, or until `is_over`: then returns `None`. Processes that it leaves running may hold the
    /// pipes open: their output is read for `linger` longer.
    pub fn follow(
        &mut self,
        linger: Duration,
        mut ended: impl FnMut() -> io::Result<Option<ExitStatus>>,
        is_over: impl Fn(&Self) -> bool,
    ) -> io::Result<Option<ExitStatus>> {
        while !is_over(self) {
            self.look()?;
            if let Some(status) = ended()? {
                self.finish(linger)?;
                return Ok(Some(status));
            }
        }
        Ok(None)
    }

    /// Reads until all pipes are closed or `linger` is over.
    pub fn finish(&mut self, linger: Duration) -> io::Result<()> {
        self.drain()?;
        let start = Instant::now();
        while !self.are_closed() && start.elapsed() < linger {
            self.look()?;
        }
        Ok(())
    }

    /// Whether all processes have closed the other ends.
    pub fn are_closed(&self) -> bool {
        self.0.iter().all(|stream| stream.pipe.is_none())
    }

    /// The stored part of each.
    pub fn texts(self) -> [String; N] {
        self.0.map(|stream| String::from_utf8_lossy(&stream.bytes).into_owned())
    }

    /// Waits a moment for output, and reads it.
    fn look(&mut self) -> io::Result<()> {
        let open = self.0.iter().filter_map(|stream| stream.pipe.as_ref());
        let mut fds: Vec<_> = open.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
        if fds.is_empty() {
            thread::sleep(Duration::from_millis(LOOK_MS.into()));
            return Ok(());
        }
        match poll(&mut fds, PollTimeout::from(LOOK_MS)) {
            Ok(_) | Err(Errno::EINTR) => self.drain(),
            Err(errno) => Err(errno.into()),
        }
    }

    fn drain(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(Stream::drain)
    }
}

impl Stream {
    /// Reads what is there.
    fn drain(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        // A program that never stops writing must not block this loop.
        for _ in 0..CHUNKS {
            let Some(pipe) = &mut self.pipe else { break };
            match pipe.read(&mut chunk) {
                Ok(0) => {
                    self.pipe = None;
                    self.pass_on();
                }
                Ok(len) => self.take(chunk.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.keep {
            Keep::Start(_) => {}
            Keep::End(limit) => self.drop_from(0, limit),
            Keep::Ends(limit) => self.drop_from(limit, limit),
        }
        Ok(())
    }

    /// Drops what is stored between the first `start` bytes and the last `end`.
    fn drop_from(&mut self, start: usize, end: usize) {
        let dropped_to = self.bytes.len().saturating_sub(end);
        if dropped_to > start {
            self.bytes.drain(start..dropped_to);
        }
    }

    fn pass_on(&mut self) {
        if let Some(relay) = self.relay.as_mut().filter(|_| !self.line.is_empty()) {
            relay(&String::from_utf8_lossy(&self.line));
            self.line.clear();
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in if self.relay.is_some() { bytes } else { &[] } {
            self.line.push(*byte);
            if *byte == b'\n' || self.line.len() >= LINE_BYTES {
                self.pass_on();
            }
        }
        match self.keep {
            Keep::Start(limit) => {
                let room = limit.saturating_sub(self.bytes.len());
                self.bytes.extend(bytes.iter().take(room));
                self.is_full |= room < bytes.len();
            }
            Keep::End(limit) => {
                self.bytes.extend_from_slice(bytes);
                // At most twice the limit is in memory, and each byte is moved once on average.
                if self.bytes.len() / 2 > limit {
                    self.drop_from(0, limit);
                }
            }
            Keep::Ends(limit) => {
                self.bytes.extend_from_slice(bytes);
                if self.bytes.len() / 4 > limit {
                    self.drop_from(limit, limit);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::RefCell,
        process::{Command, Stdio},
        rc::Rc,
    };

    fn shell<const N: usize>(script: &str, (mut outputs, [out, err]): (Outputs<N>, [OwnedFd; 2])) -> [String; N] {
        let mut command = Command::new("/bin/sh");
        let mut child = command.args(["-c", script]).stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
        drop(command);
        let status = outputs.follow(Duration::ZERO, || child.try_wait(), |_| false).unwrap();
        assert!(status.unwrap().success());
        outputs.texts()
    }

    #[test]
    fn streams_come_back_apart_or_in_their_order() {
        let script = "echo a; echo b >&2; echo c";
        assert_eq!(shell(script, Outputs::apart([Keep::End(99); 2]).unwrap()), ["a\nc\n", "b\n"]);
        assert_eq!(shell(script, Outputs::merged(Keep::End(99)).unwrap()), ["a\nb\nc\n"]);
        assert_eq!(shell(script, Outputs::errors(Keep::Start(99)).unwrap()), ["b\n"]);
        // Processes that it leaves running are not waited for.
        assert_eq!(shell("sleep 60 & echo left", Outputs::merged(Keep::End(99)).unwrap()), ["left\n"]);
    }

    #[test]
    fn a_flood_is_read_and_not_stored() {
        let script = "echo begin; yes | head -c 1000000; echo end";
        let [end] = shell(script, Outputs::merged(Keep::End(1000)).unwrap());
        assert!(end.len() == 1000 && end.ends_with("y\nend\n"), "{end}");
        let [start] = shell(script, Outputs::merged(Keep::Start(10)).unwrap());
        assert_eq!(start, "begin\ny\ny\n");
        let [ends] = shell(script, Outputs::merged(Keep::Ends(8)).unwrap());
        assert_eq!(ends, "begin\ny\ny\ny\nend\n");
        assert_eq!(shell("echo short", Outputs::merged(Keep::Ends(8)).unwrap()), ["short\n"]);
        assert_eq!(shell("echo a", Outputs::merged(Keep::End(0)).unwrap()), [""]);
    }

    #[test]
    fn lines_are_passed_on() {
        let lines = Rc::new(RefCell::new(Vec::new()));
        let relay = {
            let lines = lines.clone();
            move |line: &str| lines.borrow_mut().push(line.to_owned())
        };
        let (outputs, ends) = Outputs::apart([Keep::Start(1), Keep::Start(0)]).unwrap();
        let outputs = outputs.relaying_errors(relay);
        assert_eq!(shell("echo a >&2; echo >&2; printf 'bc' >&2; echo more", (outputs, ends)), ["m", ""]);
        assert_eq!(*lines.borrow(), ["a\n", "\n", "bc"]);
        let (mut outputs, ends) = Outputs::apart([Keep::Start(1); 2]).unwrap();
        assert!(!outputs.is_flooded());
        let [mut output, _] = ends.map(std::fs::File::from);
        io::Write::write_all(&mut output, b"12").unwrap();
        outputs.finish(Duration::ZERO).unwrap();
        assert!(outputs.is_flooded() && !outputs.are_closed());
    }

    #[test]
    fn patience_ends() {
        let (mut outputs, ends) = Outputs::merged(Keep::End(9)).unwrap();
        assert!(outputs.follow(Duration::ZERO, || Ok(None), |_| true).unwrap().is_none());
        outputs.finish(Duration::from_millis(1)).unwrap();
        drop(ends);
        outputs.finish(Duration::MAX).unwrap();
        assert_eq!(outputs.texts(), [""]);
    }
}
