//! The sequence: what is reported to the service, and when (docs/compatibility.md#log-sequence).

use super::{
    LogsError, Settings, archive,
    collect::{Collected, directory_name},
    upload::ArchiveReader,
};
use api::{Client, LogsState, RetryPolicy};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Stored on the host when requested.
const ARCHIVE: &str = "logs.tar.gz";

/// What must be removed when the program is ended early.
pub(super) fn leftovers(settings: &Settings) -> Vec<PathBuf> {
    let var_log = &settings.places.var_log;
    vec![var_log.join(directory_name(&settings.wanted)), var_log.join(ARCHIVE)]
}

pub(super) fn send(settings: &Settings) -> Result<String, LogsError> {
    let client = Client::new(&settings.client, RetryPolicy::Agent)?;
    progress(&client, settings, LogsState::Requested);
    let mut partial = |collected: &mut Collected| {
        collected.add_report();
        if let Err(error) = deliver(&client, settings, collected) {
            tracing::warn!("cannot send what was gathered so far: {:#}", anyhow::Error::from(error));
        }
    };
    let mut collected = Collected::gather(&settings.wanted, &settings.places, settings.keep, true, &mut partial);
    collected.add_report();
    deliver(&client, settings, &mut collected)?;
    progress(&client, settings, LogsState::Completed);
    Ok(collected.report.to_string())
}

/// A failed report is only logged.
fn progress(client: &Client, settings: &Settings, state: LogsState) {
    let Some(infra_env) = settings.infra_env_id else { return };
    tracing::info!(?state, "logs");
    if let Err(error) = client.put_logs_progress(infra_env, settings.wanted.host_id, state) {
        tracing::warn!("cannot report to the service that logs are {state:?}: {:#}", anyhow::Error::from(error));
    }
}

fn deliver(client: &Client, settings: &Settings, collected: &mut Collected) -> Result<(), LogsError> {
    progress(client, settings, LogsState::Collecting);
    make_fit(collected, settings.places.max_archive_bytes).map_err(LogsError::Archive)?;
    if settings.keep {
        let path = settings.places.var_log.join(ARCHIVE);
        if let Err(error) = keep(collected, &path) {
            tracing::warn!(path = %path.display(), %error, "cannot store the archive");
        }
    }
    let open = || ArchiveReader::start(collected.directory.clone(), collected.items.clone());
    client.upload_host_logs(settings.cluster_id, settings.infra_env_id, settings.wanted.host_id, open)?;
    Ok(())
}

/// Cuts what is too large, and says so in the report.
pub(super) fn make_fit(collected: &mut Collected, max_bytes: u64) -> io::Result<()> {
    let cuts = archive::fit(&collected.directory, &mut collected.items, max_bytes)?;
    if cuts.is_empty() {
        return Ok(());
    }
    cuts.into_iter().for_each(|cut| collected.report.add(cut));
    collected.add_report();
    // The report itself is small; should it be what no longer fits, the next largest is cut a little more.
    archive::fit(&collected.directory, &mut collected.items, max_bytes).map(drop)
}

fn keep(collected: &Collected, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    archive::write(&collected.directory, &collected.items, &mut out)?;
    out.flush()
}
