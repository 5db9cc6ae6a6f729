//! The terminal: its bytes as they come, and as it was when we leave it, however we do.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr},
};
use std::{
    io::{self, IsTerminal, Write, stdin, stdout},
    os::fd::AsFd,
    panic,
    sync::OnceLock,
};

/// Another screen where there is one, no cursor, nothing on it (console_codes(4)).
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[0m\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[2J\x1b[H\x1b[?25h\x1b[?1049l";

/// How it was.
static BEFORE: OnceLock<libc::termios> = OnceLock::new();

#[derive(Debug, thiserror::Error)]
pub(crate) enum TerminalError {
    #[error(
        "standard input and output must be a terminal: without one, `landfall agent status --follow` prints what the host does"
    )]
    None,
    #[error("cannot set the terminal up")]
    Setup(#[source] Errno),
    #[error("cannot read from the terminal")]
    Read(#[source] io::Error),
    #[error("the terminal was hung up")]
    HungUp,
}

/// Ours until it is dropped.
pub(crate) struct Terminal(());

impl Terminal {
    pub(crate) fn open() -> Result<Self, TerminalError> {
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            return Err(TerminalError::None);
        }
        let before = tcgetattr(stdin()).map_err(TerminalError::Setup)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let _ = BEFORE.set(before.into());
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            others(panic);
        }));
        tcsetattr(stdin(), SetArg::TCSANOW, &raw).map_err(TerminalError::Setup)?;
        let terminal = Self(());
        terminal.write(ENTER);
        Ok(terminal)
    }

    /// Failures are not errors: the next frame is drawn anew, and one that is gone ends the reading.
    pub(crate) fn write(&self, text: &str) {
        let mut out = stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (usize, usize) {
        // A serial line knows neither.
        let size = kernel::terminal::size(stdout().as_fd()).filter(|(_, rows)| *rows > 0);
        size.map_or((80, 24), |(columns, rows)| (columns.into(), rows.into()))
    }

    /// What was typed within `patience_ms`.
    pub(crate) fn read(&self, patience_ms: u16) -> Result<Vec<u8>, TerminalError> {
        let stdin = stdin();
        let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::from(patience_ms)) {
            Ok(0) | Err(Errno::EINTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(TerminalError::Read(error.into())),
        }
        let mut buffer = [0; 256];
        match nix::unistd::read(stdin.as_fd(), &mut buffer) {
            Ok(0) => Err(TerminalError::HungUp),
            Ok(len) => Ok(buffer.get(..len).unwrap_or_default().to_vec()),
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(Vec::new()),
            Err(error) => Err(TerminalError::Read(error.into())),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    let mut out = stdout().lock();
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    if let Some(before) = BEFORE.get() {
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &Termios::from(*before));
    }
}
