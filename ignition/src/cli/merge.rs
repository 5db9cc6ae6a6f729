//! `landfall ignition merge`.

use super::butane::Butane;
use super::print_config;
use clap::Args;
use std::path::PathBuf;

/// Merge configs, the later into the earlier, by Ignition's rules.
///
/// The result has the newest version among them, and is what Ignition makes of `ignition.config.merge`. Prints compact JSON.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition merge base.ign site.ign host.ign > merged.ign")]
pub(super) struct Merge {
    /// The configs, parents first; one may be - for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    butane: Butane,
}

impl Merge {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let texts = self.files.iter().map(|file| self.butane.read(file)).collect::<anyhow::Result<Vec<_>>>()?;
        let configs: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let merged = crate::merge_all(&configs).map_err(|(place, error)| {
            let file = place.and_then(|place| self.files.get(place));
            let what = file.map_or("the merged config".to_owned(), |file| file.display().to_string());
            anyhow::Error::new(error).context(format!("{what} is not valid"))
        })?;
        print_config(&merged)
    }
}
