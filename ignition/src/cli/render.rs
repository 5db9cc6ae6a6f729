//! `landfall ignition render`.

use super::butane::Butane;
use super::{print_config, read};
use crate::apply::Root;
use crate::fetch::{FetchOptions, Fetcher, RETRIES};
use crate::system;
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
///
/// With --system, the configs that an installed system brings are merged below: base.d and base.platform.d in /run/ignition,
/// /etc/ignition and /usr/lib/ignition. Without FILE the system's own user.ign is taken.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition render worker.ign > whole.ign\n  \
    landfall ignition render --ca site-ca.pem worker.ign | jq .kernelArguments\n  \
    landfall ignition render --system /mnt/image --platform metal host.ign\n  \
    landfall ignition render --offline pointer.ign   # fails if it needs more")]
pub(super) struct Render {
    /// The config, or - for standard input
    #[arg(required_unless_present = "system")]
    file: Option<PathBuf>,
    /// Merge over the configs that the system below this directory brings
    #[arg(long, value_name = "DIR")]
    system: Option<PathBuf>,
    /// Platform whose base configs are merged, such as metal
    #[arg(long, value_name = "NAME", requires = "system")]
    platform: Option<String>,
    /// Fetch nothing from the network: data: URLs only
    #[arg(long)]
    offline: bool,
    /// PEM bundle trusted for https:, in addition to the system's and those the config names; repeatable
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// How often a failed request is retried; Ignition itself retries forever
    #[arg(long, value_name = "N", default_value_t = RETRIES)]
    retries: u32,
    #[command(flatten)]
    butane: Butane,
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
        let root = self.system.as_ref().map(|dir| {
            Root::open(dir).with_context(|| format!("{} can't be opened as the system's root", dir.display()))
        });
        let root = root.transpose()?;
        let own = match (&self.file, &root) {
            (Some(file), _) => Some((file.display().to_string(), self.butane.read(file)?)),
            (None, Some(root)) => system::user(root)?,
            (None, None) => None,
        };
        // An empty user's config is as good as none.
        let own = own.filter(|(_, text)| !text.is_empty() || root.is_none());
        let own = own.map(|(name, text)| {
            let rendered = crate::render(&text, &mut Fetcher::new(options));
            rendered.with_context(|| format!("{name} can't be rendered")).map(|rendered| (name, rendered))
        });
        let mut configs =
            root.map(|root| system::base(&root, self.platform.as_deref())).transpose()?.unwrap_or_default();
        configs.retain(|(_, text)| !text.is_empty());
        configs.extend(own.transpose()?);
        anyhow::ensure!(!configs.is_empty(), "the system brings no config");
        if let [(_, rendered)] = &configs[..] {
            return print_config(rendered);
        }
        let texts: Vec<&[u8]> = configs.iter().map(|(_, text)| text.as_slice()).collect();
        let merged = crate::merge_all(&texts).map_err(|(place, error)| {
            let name =
                place.and_then(|place| configs.get(place)).map_or("the merged config", |(name, _)| name.as_str());
            anyhow::Error::new(error).context(format!("{name} is not valid"))
        })?;
        print_config(&merged)
    }
}
