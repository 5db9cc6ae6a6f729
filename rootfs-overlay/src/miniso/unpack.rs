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
    edit(out, rootfs_url).context("modifying miniso kernel args")
}

/// Takes out the argument that names the full ISO, for good, and puts in where the root file system is.
fn edit(file: &File, rootfs_url: Option<&str>) -> anyhow::Result<()> {
    let mut live = LiveIso::from_file(file.try_clone().context("cloning a file")?)?;
    let kargs = live.kargs()?;
    let named = kargs.current().split_ascii_whitespace().find(|karg| karg.starts_with("coreos.liveiso="));
    let named = named.context("minimal ISO does not have coreos.liveiso= karg")?.to_owned();
    let default = Edit { delete: vec![named], ..Edit::default() }.apply(kargs.current())?;
    let mut append = Vec::new();
    if let Some(url) = rootfs_url {
        if url.split_ascii_whitespace().count() > 1 {
            bail!("forbidden whitespace found in '{url}'");
        }
        append.push(format!("coreos.live.rootfs_url={url}"));
    }
    let arguments = Edit { append, ..Edit::default() }.apply(&default)?;
    apply(file, &kargs.patches(&arguments)?)?;
    Ok(apply(file, &[kargs::default_patch(live.iso(), &default)?])?)
}
