//! The live ISO and the image: given, downloaded before, or downloaded.

use super::{live::Live, stored::Stored};
use anyhow::{Context, ensure};
use rootfs_overlay::bake::iso::IsoFile;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What the machines boot and install.
pub(super) struct Images {
    pub(super) iso: PathBuf,
    pub(super) image: PathBuf,
    /// The ISO has an agent in it.
    pub(super) has_agent: bool,
}

pub(super) fn find(stored: &Stored, stream: &str, directory: &Path, live: &mut Live) -> anyhow::Result<Images> {
    let iso = match &stored.iso {
        Some(iso) => iso.clone(),
        None => download(stream, directory, "iso", live)?,
    };
    let image = match &stored.image {
        Some(image) => image.clone(),
        None => download(stream, directory, "raw.xz", live)?,
    };
    fs::File::open(&image).with_context(|| format!("cannot read the image {}", image.display()))?;
    let opened = IsoFile::open(&iso)?;
    let has_agent = opened.manifest().is_some();
    Ok(Images { iso: std::path::absolute(iso)?, image: std::path::absolute(image)?, has_agent })
}

/// By our own command, which checks signatures, takes what is there, and shows its progress.
fn download(stream: &str, directory: &Path, format: &str, live: &mut Live) -> anyhow::Result<PathBuf> {
    let images = directory.join("images");
    fs::create_dir_all(&images).with_context(|| format!("cannot make {}", images.display()))?;
    live.say(&format!("downloading Fedora CoreOS, stream {}: {format}", stream));
    let program = std::env::current_exe().context("cannot find this program")?;
    let output = Command::new(program)
        .args(["download", "--stream", stream, "--platform", "metal", "--format", format, "--directory"])
        .arg(&images)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the download")?;
    ensure!(output.status.success(), "the download failed: --iso and --image name files that you have");
    let text = String::from_utf8_lossy(&output.stdout);
    let path = text.lines().last().filter(|line| !line.is_empty()).context("the download named no file")?;
    Ok(PathBuf::from(path))
}
