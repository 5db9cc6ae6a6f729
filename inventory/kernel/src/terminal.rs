//! The terminal.
#![allow(unsafe_code)]

use std::{
    io::{IsTerminal, stdout},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

/// Of a terminal that does not know.
const COLUMNS: usize = 80;

/// A progress bar with a known end, as indicatif reads it: what is done (`msg`), how far, how fast, how long still, and what
/// limits it (`prefix`). The same in all commands.
pub const BAR: &str =
    "{msg} [{wide_bar}] {percent}% {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left{prefix}";
/// Without a known end.
pub const COUNTER: &str = "{msg} {binary_bytes} {binary_bytes_per_sec}{prefix}";

mod ioctl {
    nix::ioctl_read_bad!(window_size, libc::TIOCGWINSZ, libc::winsize);
}

/// How long a line on standard output may be: as wide as the terminal, or without limit if it is none.
pub fn line_columns() -> usize {
    let stdout = stdout();
    if stdout.is_terminal() { columns(stdout.as_fd()).map_or(COLUMNS, usize::from) } else { usize::MAX }
}

/// Columns of a terminal; `None` if it does not know, or is not a terminal.
pub fn columns(terminal: BorrowedFd<'_>) -> Option<u16> {
    size(terminal).map(|(columns, _)| columns)
}

/// Columns and rows; `None` if it does not know its columns, or is not a terminal.
pub fn size(terminal: BorrowedFd<'_>) -> Option<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel writes one `struct winsize`, which this is.
    unsafe { ioctl::window_size(terminal.as_raw_fd(), &raw mut size) }.ok()?;
    (size.ws_col > 0).then_some((size.ws_col, size.ws_row))
}
