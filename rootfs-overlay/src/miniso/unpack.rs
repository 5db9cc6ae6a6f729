//! The minimal ISO as a file that boots: its kernel arguments name no full ISO any longer, but where the root file system is.

use super::{BUFFER_BYTES, Data};
use crate::area::LiveIso;
use crate::kargs::{self, Edit};
use crate::output::apply;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::{BufWriter, Write};

/// Writes the minimal ISO of `full` to `out`, which is empty, with `rootfs_url` among its kernel arguments.
///
/// # Errors
/// In the words of coreos-installer; what is in `out` then is nothing.
pub fn unpack(data: &Data, full: &mut File, out: &mut File, rootfs_url: Option<&str>) -> anyhow::Result<()> {
    let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, &mut *out);
    data.unpack(full, &mut buffered).context("unpacking miniso")?;
    buffered.flush().context("unpacking miniso")?;
    drop(buffered);
    set_arguments(out, rootfs_url).context("modifying miniso kernel args")
}

fn set_arguments(file: &File, rootfs_url: Option<&str>) -> anyhow::Result<()> {
    let mut iso = LiveIso::from_file(file.try_clone().context("cloning a file")?)?;
    let kargs = iso.kargs()?;
    let Arguments { default, current } = Arguments::plan(kargs.current(), rootfs_url)?;
    let mut patches = kargs.patches(&current)?;
    patches.push(kargs::default_patch(iso.iso(), &default)?);
    Ok(apply(file, &patches)?)
}

/// The kernel arguments of a minimal ISO.
struct Arguments {
    /// What a reset goes back to: nothing that names the full ISO.
    default: String,
    /// With the place of the root file system, if it is known.
    current: String,
}

impl Arguments {
    /// From those of the full ISO.
    fn plan(full: &str, rootfs_url: Option<&str>) -> anyhow::Result<Self> {
        let name = full.split_ascii_whitespace().find(|argument| argument.starts_with("coreos.liveiso="));
        let name = name.context("minimal ISO does not have coreos.liveiso= karg")?.to_owned();
        let default = Edit { delete: vec![name], ..Edit::default() }.apply(full)?;
        let current = match rootfs_url {
            None => default.clone(),
            Some(url) if url.trim_ascii().contains(|c: char| c.is_ascii_whitespace()) => {
                bail!("forbidden whitespace found in '{url}'")
            }
            Some(url) => {
                let append = vec![format!("coreos.live.rootfs_url={url}")];
                Edit { append, ..Edit::default() }.apply(&default)?
            }
        };
        Ok(Self { default, current })
    }
}
