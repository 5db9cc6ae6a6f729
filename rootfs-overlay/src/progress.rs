//! A bar on a terminal while large files are copied or packed.

use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, IsTerminal, Read};

/// Bytes copied between updates.
const STEP_BYTES: u64 = 64 << 20;

/// How much of a file is done; gone when dropped. Without a terminal nothing is shown.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Of a file that will have `len` bytes.
    pub(crate) fn of(len: u64) -> Self {
        Self::named("copying", len)
    }

    /// For work of this name, on `len` bytes.
    pub(crate) fn named(name: &'static str, len: u64) -> Self {
        Self(io::stderr().is_terminal().then(|| bar(name, len)))
    }

    /// So many bytes are done.
    #[cfg(feature = "pack-osmet")]
    pub(crate) fn reach(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }

    /// Copies `len` bytes inside the kernel where it can; fewer if the file ends. Returns how many.
    pub(crate) fn copy(&self, mut from: &File, len: u64, to: &mut File) -> io::Result<u64> {
        let mut copied = 0;
        while copied < len {
            let step = io::copy(&mut Read::take(&mut from, STEP_BYTES.min(len - copied)), to)?;
            if step == 0 {
                break;
            }
            copied += step;
            if let Some(bar) = &self.0 {
                bar.inc(step);
            }
        }
        Ok(copied)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn bar(name: &'static str, len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len).with_message(name);
    if let Ok(style) = ProgressStyle::with_template(kernel::terminal::BAR) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn a_file_is_copied_up_to_its_end() {
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(&[7; 1000]).unwrap();
        let mut to = tempfile::tempfile().unwrap();
        for (len, copied) in [(10, 10), (2000, 1000), (0, 0)] {
            from.rewind().unwrap();
            assert_eq!(Progress::of(len).copy(&from, len, &mut to).unwrap(), copied);
        }
        assert_eq!(to.metadata().unwrap().len(), 1010);
    }
}
