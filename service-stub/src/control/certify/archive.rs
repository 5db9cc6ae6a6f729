//! The signed archive of a run.

use super::super::Session;
use anyhow::{Context, ensure};
use api::endpoint::GET_CERTIFICATION_FILE;
use certify::{SecretKey, cli::secret_key, pack, result::HostResult};
use serde_json::Value;
use std::{
    fs::OpenOptions,
    io::{self, BufWriter, Cursor, Read, Write},
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

/// Where the archive goes, and who signs it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Archive")]
pub(super) struct Archive {
    /// Write the signed archive of the run to this file at the end
    #[arg(long, value_name = "FILE", requires = "key")]
    output: Option<PathBuf>,
    /// The secret key that signs it; `landfall certify key --generate` makes one
    #[arg(long, value_name = "FILE", requires = "output")]
    key: Option<PathBuf>,
    /// The file whose first line is the key's password; otherwise the command asks on the terminal
    #[arg(long, value_name = "FILE", requires = "key")]
    password_file: Option<PathBuf>,
}

/// An archive that can be written.
pub(super) struct Prepared {
    output: PathBuf,
    key: SecretKey,
}

impl Archive {
    /// Checks what can be checked before hours of work, and asks for the password.
    pub(super) fn prepare(&self) -> anyhow::Result<Option<Prepared>> {
        let Some((output, key)) = self.output.as_ref().zip(self.key.as_ref()) else { return Ok(None) };
        ensure!(!output.exists(), "{} exists, and no file is overwritten: name another one", output.display());
        let key = secret_key(key, self.password_file.as_deref())?;
        Ok(Some(Prepared { output: output.clone(), key }))
    }
}

impl Prepared {
    /// Fetches what the hosts sent, and writes all of it. A file that could not be written to its end is removed.
    pub(super) fn write(self, session: &Session, document: &Value) -> anyhow::Result<PathBuf> {
        let run: certify::result::Run = api::json::from_value(document["result"].clone())
            .context("the service's result is not one of a certification")?;
        let failed = || format!("cannot write {}", self.output.display());
        let file = OpenOptions::new().write(true).create_new(true).open(&self.output).with_context(failed)?;
        let mut out = BufWriter::new(file);
        let mut open = |host: &HostResult, name: &str| -> io::Result<(u64, Box<dyn Read>)> {
            let target = GET_CERTIFICATION_FILE.at(&[&run.id, &host.serial, &name]);
            let bytes = session.client.file(&target).map_err(io::Error::other)?;
            Ok((u64::try_from(bytes.len()).unwrap_or(u64::MAX), Box::new(Cursor::new(bytes))))
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let written = pack(&mut out, &run, &self.key, now, &mut open).map_err(anyhow::Error::from);
        let written = written.and_then(|()| {
            out.flush()?;
            Ok(out.get_ref().sync_all()?)
        });
        if written.is_err() {
            // Report the first error.
            let _ = std::fs::remove_file(&self.output);
        }
        written.with_context(failed)?;
        Ok(self.output)
    }
}
