//! `iso customize`.

use super::{Target, note};
use crate::area::{CONFIG_NAME, NETWORK_PREFIX};
use crate::customize::{Customizations, LIVE};
use crate::kargs::Edit;
use anyhow::bail;
use clap::Args;
use std::path::Path;

/// Make a live ISO that configures itself or installs a machine
///
/// The result needs no user at the console: the settings take effect when it boots. Earlier customizations are replaced only with
/// --force.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall iso customize --dest-device /dev/sda --dest-ignition node.ign \\
    -o install.iso live.iso
  landfall iso customize --network-keyfile eth0.nmconnection \\
    --installer-config install.yaml --post-install report.sh \\
    -o install.iso live.iso
  landfall iso customize --live-ignition rescue.ign \\
    --live-karg-append console=ttyS0 -o rescue.iso live.iso")]
pub struct IsoCustomize {
    #[command(flatten)]
    customizations: Customizations,
    /// Kernel argument to add to the live system; may be repeated
    ///
    /// For the installed system use --dest-karg-append.
    #[arg(help_heading = LIVE, long, value_name = "arg")]
    live_karg_append: Vec<String>,
    /// Kernel argument to remove from the live system; may be repeated
    ///
    /// Only arguments that `iso kargs show --default` prints can be removed, spelled exactly like that.
    #[arg(help_heading = LIVE, long, value_name = "arg")]
    live_karg_delete: Vec<String>,
    /// Kernel argument of the live system to change; may be repeated
    ///
    /// KEY=OLD=NEW turns KEY=OLD into KEY=NEW: "rd.luks=0=1" turns "rd.luks=0" into "rd.luks=1". Without KEY=OLD nothing
    /// changes.
    #[arg(help_heading = LIVE, long, value_name = "k=o=n")]
    live_karg_replace: Vec<String>,
    /// Replace earlier customizations of the image
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    target: Target,
}

impl IsoCustomize {
    pub(super) fn image(&self) -> &Path {
        &self.target.input
    }

    pub(super) fn run(self) -> anyhow::Result<()> {
        let (mut iso, output) = self.target.open()?;
        let has_files =
            iso.archive().get(CONFIG_NAME).is_some() || !iso.archive().names_below(NETWORK_PREFIX).is_empty();
        let has_kargs = iso.kargs_if_any().is_some_and(|kargs| kargs.current() != kargs.default_arguments());
        if !self.force && (has_files || has_kargs) {
            bail!("This ISO image is already customized; use -f to force.");
        }
        let features = iso.features()?;
        let archive = self.customizations.apply(features, &mut note)?;
        let edit =
            Edit { delete: self.live_karg_delete, append: self.live_karg_append, replace: self.live_karg_replace };
        let mut patches = Vec::new();
        if !edit.is_empty() {
            let Some(kargs) = iso.kargs_if_any() else {
                bail!("This OS image does not support customizing live kernel arguments.");
            };
            patches = kargs.patches(&edit.apply(kargs.default_arguments())?)?;
        }
        patches.extend(iso.replace(&archive)?);
        Ok(iso.write(patches, &output)?)
    }
}
