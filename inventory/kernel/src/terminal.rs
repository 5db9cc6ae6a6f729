//! The terminal.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

mod ioctl {
    nix::ioctl_read_bad!(window_size, libc::TIOCGWINSZ, libc::winsize);
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
