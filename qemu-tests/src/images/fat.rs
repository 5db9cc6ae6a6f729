//! FAT images for UEFI.

use super::tools;
use anyhow::Result;
use std::{fs::File, path::Path};

/// The time of files for mkfs and mtools (2000-01-01): the same files make the same image.
const DATE: (&str, &str) = ("SOURCE_DATE_EPOCH", "946684800");

/// Makes a FAT file system of `len_bytes` at `image` that holds `files` (path with `/`, source).
pub(super) fn image(image: &Path, len_bytes: u64, sector: u64, label: &str, files: &[(&str, &Path)]) -> Result<()> {
    File::create(image)?.set_len(len_bytes)?;
    let mut mkfs = tools::tool("mkfs.vfat");
    mkfs.args(["-S", &sector.to_string(), "-n", label, "-i", "7B7795E7", "--invariant"]).arg(image).env(DATE.0, DATE.1);
    tools::finish(mkfs)?;
    let mut made = std::collections::BTreeSet::new();
    for (path, source) in files {
        for (at, _) in path.match_indices('/') {
            if made.insert(&path[..at]) {
                mtool("mmd", image, [format!("::/{}", &path[..at]).as_ref()])?;
            }
        }
        mtool("mcopy", image, [source.as_os_str(), format!("::/{path}").as_ref()])?;
    }
    Ok(())
}

fn mtool<const N: usize>(program: &str, image: &Path, args: [&std::ffi::OsStr; N]) -> Result<()> {
    let mut command = tools::tool(program);
    command.env("MTOOLS_SKIP_CHECK", "1").env(DATE.0, DATE.1).arg("-i").arg(image).args(args);
    tools::finish(command)?;
    Ok(())
}
