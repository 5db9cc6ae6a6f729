//! `landfall ignition render`.

use super::{print_config, read};
use crate::fetch::{FetchOptions, Fetcher, RETRIES};
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Combine a config and all that it refers to into one config.
///
/// Fetches what `ignition.config.replace` and `ignition.config.merge` name, and what that names in turn, over http:, https: and
/// from data: URLs, with the headers, hashes, timeouts, proxies and certificates of the configs, and merges it as Ignition does.
/// The result refers to no other config. Prints compact JSON; what is fetched is logged.
///
/// Certificates and contents of files are not included.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition render worker.ign > whole.ign\n  \
    landfall ignition render --ca site-ca.pem worker.ign | jq .kernelArguments\n  \
    landfall ignition render --offline pointer.ign   # fails if it needs more")]
pub(super) struct Render {
    /// The config, or - for standard input
    file: PathBuf,
    /// Fetch nothing from the network: data: URLs only
    #[arg(long)]
    offline: bool,
    /// PEM bundle trusted for https:, in addition to the system's and those the config names; repeatable
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// How often a failed request is retried; Ignition itself retries forever
    #[arg(long, value_name = "N", default_value_t = RETRIES)]
    retries: u32,
}

impl Render {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut ca_bundles = Vec::with_capacity(self.ca.len());
        for path in &self.ca {
            let pem = read(path)?;
            anyhow::ensure!(api::http::has_certificate(&pem), "{} contains no PEM certificate", path.display());
            ca_bundles.push(pem);
        }
        let options =
            FetchOptions { ca_bundles, offline: self.offline, retries: self.retries, ..FetchOptions::default() };
        let rendered = crate::render(&read(&self.file)?, &mut Fetcher::new(options))
            .with_context(|| format!("{} can't be rendered", self.file.display()))?;
        print_config(&rendered)
    }
}
