//! Butane documents where a config is read.

use super::read;
use crate::butane::{self, Translated};
use anyhow::{Context, ensure};
use clap::Args;
use std::path::{Path, PathBuf};

/// How Butane documents are translated.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Butane documents")]
pub(super) struct Butane {
    /// Directory from which a Butane document may embed local files
    #[arg(long, value_name = "DIR")]
    files_dir: Option<PathBuf>,
    /// Fail if there are warnings about a Butane document
    #[arg(long)]
    strict: bool,
}

impl Butane {
    /// An Ignition config from a file, or from standard input if it is `-`. A Butane document becomes one; its warnings are logged.
    pub(super) fn read(&self, file: &Path) -> anyhow::Result<Vec<u8>> {
        let text = read(file)?;
        if !kernel::butane::is_butane(&text) {
            return Ok(text);
        }
        Ok(self.translate(file, &text, false)?.text)
    }

    /// The same as text, of a file that may not be named.
    pub(super) fn text_of(&self, file: Option<&PathBuf>) -> anyhow::Result<Option<String>> {
        let Some(file) = file else { return Ok(None) };
        let text = String::from_utf8(self.read(file)?);
        text.map(Some).map_err(|_| anyhow::anyhow!("{} is not text", file.display()))
    }

    pub(super) fn translate(&self, file: &Path, text: &[u8], machine_config: bool) -> anyhow::Result<Translated> {
        let translated = butane::translate(text, &self.options(machine_config))
            .with_context(|| format!("{} can't be translated", file.display()))?;
        for entry in &translated.report.entries {
            tracing::warn!(config = %file.display(), "{entry}");
        }
        ensure!(
            !self.strict || translated.report.entries.is_empty(),
            "there are warnings about {}, and --strict is given",
            file.display()
        );
        Ok(translated)
    }

    pub(super) fn options(&self, machine_config: bool) -> butane::Options<'_> {
        butane::Options { files_dir: self.files_dir.as_deref(), machine_config }
    }

    pub(super) fn is_strict(&self) -> bool {
        self.strict
    }
}
