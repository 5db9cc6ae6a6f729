//! A disk under test, whether it is read or written: from opening it to its temperature at the end.

use super::{
    device::Device,
    medium::{Medium, NAME},
};
use crate::{
    load::{Load, Run, Trouble},
    result::{Part, number},
};
use inventory::{Root, report::watch::disk_celsius};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const STEP: Duration = Duration::from_millis(200);

/// What a test does with its disk.
pub(super) trait Work: Send {
    fn open(path: &Path) -> Result<Device, Trouble>;

    /// Reads or writes the next span, and takes note in `part` of what that showed.
    fn work(&mut self, medium: &mut impl Medium, part: &mut Part, run: &Run) -> io::Result<()>;
}

/// The test of one disk.
pub(super) struct Test<W> {
    part: Part,
    path: PathBuf,
    root: Arc<Root>,
    device: Option<Device>,
    work: W,
}

impl<W> Test<W> {
    pub(super) fn new(path: &Path, root: Arc<Root>, work: W) -> Self {
        Self { part: Part::new(NAME, name(path)), path: path.to_owned(), root, device: None, work }
    }

    fn measure_temperature(&mut self, when: &str) {
        if let Some(celsius) = disk_celsius(&self.root, &self.part.name) {
            self.part.set(&format!("temperature_{when}_celsius"), celsius);
        }
    }
}

/// The kernel's name of a disk by its node.
fn name(path: &Path) -> String {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl<W: Work> Load for Test<W> {
    fn start(&mut self, _: &Run) -> Result<(), Trouble> {
        let device = W::open(&self.path)?;
        self.part.set("size_bytes", number(device.size_bytes()));
        self.device = Some(device);
        self.measure_temperature("before");
        Ok(())
    }

    fn step(&mut self, run: &Run) -> Result<(), Trouble> {
        let start = run.now();
        while let Some(device) = &mut self.device
            && !run.is_over()
            && run.now().duration_since(start) < STEP
        {
            self.work.work(device, &mut self.part, run)?;
        }
        Ok(())
    }

    fn end(&mut self) {
        self.measure_temperature("after");
        self.device = None;
    }

    fn findings(&self) -> &Part {
        &self.part
    }
}
