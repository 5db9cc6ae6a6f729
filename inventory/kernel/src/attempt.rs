//! Work that may end its process, such as a library that panics on damaged data: it is done in a forked process.

use crate::fork;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
};
use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::fd::AsFd,
    panic,
    sync::{Once, OnceLock},
    time::{Duration, Instant},
};

/// Parts of the output, each a letter, its length and its bytes.
const DATA: u8 = b'D';
const FAILED: u8 = b'F';
const DONE: u8 = b'E';

/// Where the forked process reports.
static WORDS: OnceLock<File> = OnceLock::new();

/// What became of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// What the work wrote, up to its failure.
    pub output: Vec<u8>,
    /// Why it did not finish.
    pub failure: Option<String>,
}

/// Does the work in its own process, which is killed after `patience`. An error means that it could not be forked.
pub fn attempt(patience: Duration, work: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Attempt> {
    report_panics();
    let (child, pipe) = fork::apart(|pipe| {
        // Only such a process ever sets it, so no other thread can have held its lock at the fork.
        let pipe = WORDS.get_or_init(|| pipe);
        let _ = match work(&mut Parts(pipe)) {
            Ok(()) => put(pipe, DONE, &[]),
            Err(error) => put(pipe, FAILED, error.to_string().as_bytes()),
        };
    })?;
    let deadline = Instant::now().checked_add(patience);
    let read = read(File::from(pipe), deadline);
    // It may hold its end open, and do nothing more.
    let is_late = !matches!(read, Ok((_, true))) && kill(child, Signal::SIGKILL).is_ok();
    let end = loop {
        match waitpid(child, None) {
            Err(Errno::EINTR) => {}
            _ if is_late => break format!("it took longer than {patience:?}"),
            Ok(WaitStatus::Signaled(_, signal, _)) => break format!("its process was ended by {signal}"),
            _ => break "its process ended early".to_owned(),
        }
    };
    let (bytes, _) = read?;
    let mut attempt = Attempt { failure: Some(end), ..Attempt::default() };
    let mut rest = &bytes[..];
    while let Some((tag, part)) = part(&mut rest) {
        match tag {
            DATA => attempt.output.extend_from_slice(part),
            FAILED => {
                attempt.failure = Some(String::from_utf8_lossy(part).into_owned());
                break;
            }
            _ => attempt.failure = None,
        }
    }
    Ok(attempt)
}

/// Sends a panic's text to the pipe, in a process that has one. The hook is set once, before a fork: a child that set it
/// would wait forever if another thread held the hook's lock at the fork.
fn report_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let Some(pipe) = WORDS.get() else { return others(panic) };
            let payload = panic.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it doesn't say why");
            let _ = put(pipe, FAILED, text.as_bytes());
        }));
    });
}

/// What comes until then, and whether that is all of it.
fn read(mut pipe: File, deadline: Option<Instant>) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    loop {
        match pipe.read_to_end(&mut bytes) {
            Ok(_) => return Ok((bytes, true)),
            // The pipe does not block, and what came is in place.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let left = match deadline.map(|deadline| deadline.checked_duration_since(Instant::now())) {
            Some(None) => return Ok((bytes, false)),
            Some(Some(left)) => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
            None => PollTimeout::NONE,
        };
        match poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], left) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, after) = rest.split_first()?;
    let (len, after) = after.split_first_chunk()?;
    let (part, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
    *rest = after;
    Some((*tag, part))
}

fn put(mut pipe: &File, tag: u8, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    pipe.write_all(&[&[tag][..], &len.to_le_bytes(), bytes].concat())
}

/// Output in parts, each of which is sent as soon as it is written: the process may end next.
struct Parts<'a>(&'a File);

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        put(self.0, DATA, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PATIENCE: Duration = testkit::wait::LIMIT;

    #[test]
    fn what_ends_the_work_does_not_end_us() {
        let good = attempt(PATIENCE, |out| out.write_all(b"one").and_then(|()| out.write_all(b"two"))).unwrap();
        assert_eq!(good, Attempt { output: b"onetwo".to_vec(), failure: None });
        let failed = |work: fn(&mut dyn Write) -> io::Result<()>| attempt(PATIENCE, work).unwrap();
        let refused = failed(|_| Err(io::Error::other("no disk")));
        assert_eq!(refused, Attempt { output: Vec::new(), failure: Some("no disk".into()) });
        let panicked = failed(|out| {
            out.write_all(b"half")?;
            panic!("page {} is damaged", 7)
        });
        assert_eq!(panicked, Attempt { output: b"half".to_vec(), failure: Some("page 7 is damaged".into()) });
        let crashed = failed(|out| {
            out.write_all(b"half")?;
            std::process::abort()
        });
        assert_eq!(
            crashed,
            Attempt { output: b"half".to_vec(), failure: Some("its process was ended by SIGABRT".into()) }
        );
        let gone = failed(|_| fork::exit());
        assert_eq!(gone.failure.unwrap(), "its process ended early");
        let hung = attempt(Duration::from_secs(5), |out| {
            out.write_all(b"half")?;
            loop {
                std::thread::park();
            }
        });
        let late = Some("it took longer than 5s".into());
        assert_eq!(hung.unwrap(), Attempt { output: b"half".to_vec(), failure: late });
    }

    #[test]
    fn much_output_is_read_meanwhile() {
        let bytes = vec![7; 3 << 20];
        assert_eq!(attempt(PATIENCE, |out| out.write_all(&bytes)).unwrap().output, bytes);
    }
}
