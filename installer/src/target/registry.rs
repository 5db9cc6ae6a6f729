//! The data of the registry that a medium for installations without a network carries: copied to the new disk
//! (docs/compatibility.md#registry-data).

use super::{
    Pace, ROOT, TargetError, copy, failed,
    retry::thrice,
    space::{Steps, free_percent},
};
use crate::{host::Host, programs::Program};
use assist::TRANSPOSE_SCRIPT;
use diskwrite::{WrittenDisk, grow_xfs};
use kernel::Cancel;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

/// Below the live system's root.
const SOURCE: &str = "mnt/agentdata";
/// Below the new one's.
const DESTINATION: &str = "ostree/deploy/rhcos/var/lib/iri-registry";
/// Moves the contents of the root file system away, makes a new one, and puts them back.
const TRANSPOSE: &str = "usr/lib/dracut/modules.d/40ignition-ostree/ignition-ostree-transposefs.sh";

/// Copies it. `on_percent` gets what is worth reporting.
pub(crate) fn copy_registry_data(
    host: &dyn Host,
    device: &Path,
    pace: &Pace,
    on_percent: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<(), TargetError> {
    let source = host.root().join(SOURCE);
    let bytes = copy::size(&source)?;
    let disk = thrice(pace, cancel, || WrittenDisk::open(device))?;
    let layout = disk.layout()?;
    // The first boot's own tool needs free sectors at the end of the disk.
    let free = free_percent(&layout, bytes.saturating_mul(5) / 2);
    if free < 1 {
        return Err(TargetError::TooSmall { device: device.to_owned(), bytes });
    }
    let root_bytes = thrice(pace, cancel, || disk.grow(ROOT, free))?;
    // Its own devices are opened by the script.
    drop(disk);
    transpose(host, pace, cancel)?;
    let disk = thrice(pace, cancel, || WrittenDisk::open(device))?;
    let at = host.root().join("mnt/root");
    let (news, percents) = mpsc::channel();
    let (source, at) = (&source, &at);
    let disk = &disk;
    let run = move || {
        let mut steps = Steps::default();
        let mut observe =
            move |done: u64| steps.report(done, bytes).into_iter().for_each(|percent| _ = news.send(percent));
        thrice(pace, cancel, || {
            let inside = || -> Result<(), TargetError> {
                grow_xfs(at, root_bytes)?;
                copy::tree(source, &at.join(DESTINATION), cancel, &mut observe)
            };
            disk.mounted(&[(ROOT, at)], inside).map_err(TargetError::from).and_then(|result| result)
        })
    };
    // The callback stays in this thread; the mounts are another's.
    thread::scope(|scope| {
        let copying = scope.spawn(run);
        percents.into_iter().for_each(on_percent);
        copying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The image's root was made for a disk of its own size: grown as it is it would have thousands of allocation groups.
fn transpose(host: &dyn Host, pace: &Pace, cancel: &Cancel) -> Result<(), TargetError> {
    let path = host.root().join(TRANSPOSE);
    let script = fs::read_to_string(&path).map_err(failed("read", &path))?;
    let changed = host.root().join(TRANSPOSE_SCRIPT.trim_start_matches('/'));
    if let Some(directory) = changed.parent() {
        fs::create_dir_all(directory).map_err(failed("make", directory))?;
    }
    fs::write(&changed, always(&script)).map_err(failed("write", &changed))?;
    let _remove = Remove(&changed);
    for command in ["autosave-xfs", "restore", "cleanup"] {
        thrice(pace, cancel, || host.run(Program::Shell, &[changed.as_os_str(), OsStr::new(command)], cancel))?;
    }
    Ok(())
}

struct Remove<'a>(&'a PathBuf);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// The script with a threshold of none: it leaves file systems alone that have fewer allocation groups.
fn always(script: &str) -> String {
    let mut lines = Vec::new();
    for line in script.lines() {
        let indent = line.len() - line.trim_start().len();
        let number = line.trim_start().strip_prefix("threshold=");
        let is_number = number.is_some_and(|number| number.trim_end().bytes().all(|byte| byte.is_ascii_digit()));
        lines.push(if is_number {
            format!("{}threshold=0", line.get(..indent).unwrap_or_default())
        } else {
            line.to_owned()
        });
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_threshold_of_the_script_changes() {
        let script = "#!/bin/bash\ncase x in\n    autosave-xfs)\n        threshold=400\n        [ $n -lt \"$threshold\" ] && exit\nesac\n";
        assert_eq!(always(script), script.replace("threshold=400", "threshold=0"));
        let other = "threshold=$1\nmy_threshold=4\n";
        assert_eq!(always(other), other);
    }
}
