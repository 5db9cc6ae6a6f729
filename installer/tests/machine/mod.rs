//! A machine for tests: notes what is done to it, writes as the test says, and has a directory for a root.
#![allow(dead_code, clippy::unwrap_used)]

use diskwrite::{DiskError, Event, Use, wipe::WipeError};
use installer::{
    host::{Host, HostError, WriteError},
    plan::ImageWrite,
    programs::{Program, ProgramError},
};
use kernel::Cancel;
use std::{collections::VecDeque, ffi::OsStr, path::Path, sync::Mutex, time::Duration};

pub(crate) type Write<'a> = Box<dyn FnMut(u32, &Cancel, &mut dyn FnMut(&Event)) -> Result<(), WriteError> + Send + 'a>;

/// Records what is done to it.
pub(crate) struct FakeHost<'a> {
    pub did: Mutex<Vec<String>>,
    pub ignition: Mutex<Option<Vec<u8>>>,
    pub attempts: Mutex<u32>,
    write: Mutex<Write<'a>>,
    pub root: tempfile::TempDir,
    /// Cleaning its disk fails.
    pub unclean: bool,
    /// What its programs write, in turn; nothing when there is none left.
    answers: Mutex<VecDeque<String>>,
    /// How a command starts, and what it always writes.
    says: Mutex<Vec<(String, String)>>,
    /// How a command starts that fails, and how often.
    failures: Mutex<Vec<(String, u32)>>,
}

impl<'a> FakeHost<'a> {
    pub(crate) fn new(
        write: impl FnMut(u32, &Cancel, &mut dyn FnMut(&Event)) -> Result<(), WriteError> + Send + 'a,
    ) -> Self {
        let write: Write = Box::new(write);
        Self {
            did: Mutex::default(),
            ignition: Mutex::default(),
            attempts: Mutex::default(),
            write: write.into(),
            root: tempfile::tempdir().unwrap(),
            unclean: false,
            answers: Mutex::default(),
            says: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    pub(crate) fn answer(&self, output: &str) {
        self.answers.lock().unwrap().push_back(output.to_owned());
    }

    /// From now on commands that start so write this, whatever else is to be answered. The longest start counts.
    pub(crate) fn says(&self, start: &str, output: &str) {
        let mut says = self.says.lock().unwrap();
        says.retain(|(known, _)| known != start);
        says.push((start.to_owned(), output.to_owned()));
    }

    /// The next `times` commands that start so fail.
    pub(crate) fn fail(&self, start: &str, times: u32) {
        self.failures.lock().unwrap().push((start.to_owned(), times));
    }

    pub(crate) fn note(&self, did: String) {
        self.did.lock().unwrap().push(did);
    }

    pub(crate) fn did(&self) -> Vec<String> {
        self.did.lock().unwrap().clone()
    }
}

impl Host for FakeHost<'_> {
    fn root(&self) -> &Path {
        self.root.path()
    }

    fn run(&self, program: Program, args: &[&OsStr], _cancel: &Cancel) -> Result<String, ProgramError> {
        let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        let line = format!("{} {}", program.path(), args.join(" "));
        self.note(line.clone());
        let mut failures = self.failures.lock().unwrap();
        if let Some((_, times)) = failures.iter_mut().find(|(start, times)| *times > 0 && line.starts_with(start)) {
            *times -= 1;
            return Err(ProgramError::Start { program, source: std::io::ErrorKind::NotFound.into() });
        }
        let says = self.says.lock().unwrap();
        if let Some((_, output)) =
            says.iter().filter(|(start, _)| line.starts_with(start)).max_by_key(|(start, _)| start.len())
        {
            return Ok(output.clone());
        }
        Ok(self.answers.lock().unwrap().pop_front().unwrap_or_default())
    }

    fn clean_disk(&self, device: &Path, _cancel: &Cancel) -> Result<(), HostError> {
        self.note(format!("clean {}", device.display()));
        let in_use = || {
            let uses = vec![Use::Mounted { device: "sdz1".into(), at: "/data".into() }];
            HostError::Wipe(WipeError::Disk(DiskError::InUse { path: device.to_owned(), uses }))
        };
        if self.unclean { Err(in_use()) } else { Ok(()) }
    }

    fn make_writable(&self, path: &Path) -> Result<(), HostError> {
        self.note(format!("make {} writable", path.strip_prefix(self.root.path()).unwrap().display()));
        Ok(())
    }

    fn set_boot_order(&self, device: &Path, _cancel: &Cancel) -> Result<(), HostError> {
        self.note(format!("boot from {}", device.display()));
        Ok(())
    }

    fn send_logs(&self, bootstrap: bool) -> Result<(), HostError> {
        self.note(format!("send logs, bootstrap {bootstrap}"));
        Ok(())
    }

    fn clear_boot_sector(&self, device: &Path) -> Result<(), HostError> {
        self.note(format!("clear {}", device.display()));
        Err(HostError::Wipe(WipeError::Disk(DiskError::ReadOnly { path: device.to_owned() })))
    }

    fn write_image(
        &self,
        write: &ImageWrite,
        ignition: Option<&[u8]>,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), WriteError> {
        self.note(format!("write {}", write.device.display()));
        *self.ignition.lock().unwrap() = ignition.map(Into::into);
        *self.attempts.lock().unwrap() += 1;
        let attempt = *self.attempts.lock().unwrap();
        (self.write.lock().unwrap())(attempt, cancel, on_event)
    }

    fn reboot(&self, delay: Duration) -> Result<(), HostError> {
        self.note(format!("reboot after {delay:?}"));
        Ok(())
    }
}
