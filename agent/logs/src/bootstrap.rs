//! The bundle of the host that carries the temporary control plane: made by the cluster's own scripts, when it brought them
//! (docs/compatibility.md#bootstrap-logs).

use super::{
    Wanted,
    collect::Collected,
    guard,
    item::{Item, Source},
    programs::Running,
};
use assist::HostProgram;
use flate2::{Compression, write::GzEncoder};
use journal::local;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Between uploads of what exists so far.
const PARTIAL_EVERY: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);
const PARTIAL: &str = "partial/log-bundle-partial.tar.gz";

/// Runs the scripts and takes what they made.
pub(super) fn gather(wanted: &Wanted, collected: &mut Collected, partial: &mut dyn FnMut(&mut Collected)) {
    let id = gather_id();
    let artifacts = PathBuf::from(format!("/tmp/artifacts-{id}"));
    for script in [HostProgram::OvsGather, HostProgram::InstallerGather].map(HostProgram::path) {
        if !Path::new(script).exists() {
            collected.report.add(format_args!("{script} is missing: the cluster's bootstrap has not installed it"));
            continue;
        }
        tracing::info!(script, "starting the cluster's own gathering");
        let mut command = Command::new(script);
        command.args(["--id", &id]).args(wanted.masters.iter().map(ToString::to_string));
        if let Err(error) = run(&command, &artifacts, collected, partial) {
            collected.report.add(format_args!("{script}: {error}"));
        }
    }
    if let Some(path) = collected.path_for(PARTIAL) {
        path.parent().into_iter().for_each(guard::remove);
    }
    collected.items.retain(|item| item.name != PARTIAL);
    let name = format!("log-bundle-{id}.tar.gz");
    take(&Path::new("/root").join(&name), name, collected);
}

/// Moves the bundle beside the other items; where that can't be, it is sent from where it is.
fn take(made: &Path, name: String, collected: &mut Collected) {
    let len = match fs::metadata(made) {
        Ok(metadata) => metadata.len(),
        Err(error) => return collected.report.add(format_args!("{}: {error}", made.display())),
    };
    let moved = collected.path_for(&name).filter(|path| match fs::rename(made, path) {
        Ok(()) => true,
        Err(_) if len <= collected.room() => fs::copy(made, path).is_ok() && fs::remove_file(made).is_ok(),
        Err(_) => false,
    });
    let path = moved.unwrap_or_else(|| made.to_owned());
    collected.items.push(Item { name, source: Source::File(path), len, skip: 0 });
}

/// Local time, `YYYYMMDDhhmmss`.
fn gather_id() -> String {
    let now = i64::try_from(super::collect::now_us() / 1_000_000).unwrap_or(0);
    let t = local(now).unwrap_or_default();
    format!("{:04}{:02}{:02}{:02}{:02}{:02}", t.year, t.month0 + 1, t.day, t.hour, t.minute, t.second)
}

fn run(
    command: &Command,
    artifacts: &Path,
    collected: &mut Collected,
    partial: &mut dyn FnMut(&mut Collected),
) -> io::Result<()> {
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    let running = Running::start(command, [null.into(), io::stderr().as_fd().try_clone_to_owned()?])?;
    let mut last = Instant::now();
    loop {
        if let Some(status) = running.ended()? {
            return if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) };
        }
        thread::sleep(LOOK);
        if last.elapsed() >= PARTIAL_EVERY {
            match add_partial(artifacts, collected) {
                Ok(true) => partial(collected),
                Ok(false) => {}
                Err(error) => tracing::info!(%error, "cannot make a partial bundle"),
            }
            last = Instant::now();
        }
    }
}

/// Packs what the scripts have so far. Only on disk: it changes while it is read.
fn add_partial(artifacts: &Path, collected: &mut Collected) -> io::Result<bool> {
    // The scripts' directory has a predictable name, in a directory that all users can write to.
    let made_by_us = fs::symlink_metadata(artifacts)
        .is_ok_and(|found| found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw());
    let Some(path) = collected.path_for(PARTIAL).filter(|_| made_by_us) else { return Ok(false) };
    path.parent().map(fs::create_dir_all).transpose()?;
    let limit = collected.room();
    let counting = super::item::Counting { out: File::create(&path)?, count: 0, limit };
    let mut tar = tar::Builder::new(GzEncoder::new(counting, Compression::default()));
    tar.follow_symlinks(false);
    tar.append_dir_all(artifacts.file_name().unwrap_or_default(), artifacts)?;
    let len = tar.into_inner()?.finish()?.count;
    collected.items.retain(|item| item.name != PARTIAL);
    collected.items.push(Item { name: PARTIAL.to_owned(), source: Source::File(path), len, skip: 0 });
    Ok(true)
}
