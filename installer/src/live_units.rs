//! Programs that the units of a live system's installation need (docs/compatibility.md#installation-units).

use crate::cli::live_value;
use anyhow::Context;
use kernel::spelling;
use std::{
    env, fs,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The name of the generator.
pub const GENERATOR: &str = "coreos-installer-generator";
/// What an installation boots into, in the place of a login prompt.
const TARGET: &str = "/usr/lib/systemd/system/coreos-installer-post.target";
/// The unit that reboots asks for it.
const REBOOT: &str = "run/coreos-installer-reboot";
const CONFIG_DIR: &str = "etc/coreos/installer.d";

/// The program under the name of the generator (systemd.generator(7)): its first argument is a directory for units.
pub fn generator() -> ExitCode {
    let dir = env::args_os().nth(1).map_or_else(|| "/tmp".into(), PathBuf::from);
    let Err(error) = generate(Path::new("/"), &dir) else { return ExitCode::SUCCESS };
    // There is no journal yet, and what a generator writes goes nowhere.
    let log = OpenOptions::new().write(true).open("/dev/kmsg");
    let line = format!("{GENERATOR}: {error:#}\n");
    let _ = match log {
        Ok(mut log) => log.write_all(line.as_bytes()),
        Err(_) => io::stderr().write_all(line.as_bytes()),
    };
    ExitCode::FAILURE
}

/// Makes the installation the boot's target, if the kernel's arguments or config files ask for one.
fn generate(root: &Path, dir: &Path) -> anyhow::Result<()> {
    let line = fs::read_to_string(root.join("proc/cmdline")).context("reading the kernel's arguments")?;
    let value = |name: &str| live_value(&line, name);
    let has_files = fs::read_dir(root.join(CONFIG_DIR)).is_ok_and(|mut entries| entries.next().is_some());
    if !has_files && value("coreos.inst.install_dev").is_none() {
        return Ok(());
    }
    let link = dir.join("default.target");
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(TARGET, &link),
    }
    .with_context(|| format!("creating {}", link.display()))?;
    // A value that is neither makes the installation fail, and is on until it does.
    if value("coreos.inst.skip_reboot").is_none_or(|value| spelling::switch(value) == Some(false)) {
        let path = root.join(REBOOT);
        File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tree::Tree;

    /// Whether the installation is the target, and whether a reboot follows.
    fn generated(line: &str, files: &[&str]) -> (bool, bool) {
        let tree = Tree::new(&[("proc/cmdline", line)]);
        tree.dir("run").dir("units").dir(CONFIG_DIR);
        for file in files {
            tree.add(&format!("{CONFIG_DIR}/{file}"), "");
        }
        let units = tree.path().join("units");
        // A second run finds the link.
        for _ in 0..2 {
            generate(tree.path(), &units).unwrap();
        }
        let target = fs::read_link(units.join("default.target"));
        assert!(target.as_ref().is_err() || target.as_ref().is_ok_and(|target| target == Path::new(TARGET)));
        (target.is_ok(), tree.path().join(REBOOT).exists())
    }

    #[test]
    fn an_installation_is_the_target_where_one_is_asked_for() {
        let table: [(&str, &[&str], (bool, bool)); 8] = [
            ("quiet\n", &[], (false, false)),
            ("coreos.inst.install_dev=\n", &[], (false, false)),
            ("xcoreos.inst.install_dev=/dev/sda coreos.inst.stream=next\n", &[], (false, false)),
            ("a coreos.inst.install_dev=/dev/sda b\n", &[], (true, true)),
            ("quiet\n", &["a.yaml"], (true, true)),
            ("coreos.inst.skip_reboot\n", &["a.yaml"], (true, false)),
            ("coreos.inst.skip_reboot=1 coreos.inst.install_dev=sda\n", &[], (true, false)),
            ("coreos.inst.skip_reboot=no coreos.inst.install_dev=sda\n", &[], (true, true)),
        ];
        for (line, files, expected) in table {
            assert_eq!(generated(line, files), expected, "{line} {files:?}");
        }
    }
}
