//! What is asked of a disk, several at once, and by whom it is carried out.

pub(crate) use kernel::queue::{Answer, Request, Work};
use std::io;

/// Something to write to and read from at any offset: a disk, or a test's stand-in.
pub(crate) trait Target {
    /// Starts a request, which comes back with [`next`](Self::next) even if it can't be started.
    fn start(&mut self, request: Request);
    /// Waits for any request to come back; None when none is under way.
    fn next(&mut self) -> Option<Answer>;
    /// Returns when all that came back written is on the medium.
    fn sync(&mut self) -> io::Result<()>;
    /// Goes on through the page cache, which takes any memory and any length.
    fn leave_direct(&mut self) -> io::Result<()>;
    /// Makes reads come from the disk, as far as the kernel lets us.
    fn forget_cache(&mut self);
}
