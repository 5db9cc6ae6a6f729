//! `landfall image overlay`: the overlay in the formats of image builders.

use crate::bake::OverlayOptions;
use crate::bake::content::Content;
use crate::initrd::{Archive, Compression, Member};
use crate::installer_files;
use crate::oci::{self, Hashed};
use crate::output::{Output, Unfinished, stdout};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use flate2::write::GzEncoder;
use kernel::order;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

/// For users of bootc; the overlay is beside it.
const CONTAINERFILE: &str = "\
# podman build --build-arg BASE=quay.io/fedora/fedora-coreos:stable -t landfall-live .
ARG BASE=quay.io/fedora/fedora-coreos:stable
FROM ${BASE}
COPY overlay/ /
";

/// Write the files that a live host has in addition to its distribution's, for image builders
///
/// The program is in /usr/bin, the units beside the distribution's, and enabled. For existing images use `landfall iso bake`. The
/// same options give the same bytes: sorted, without owners and times.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  landfall image overlay --format directory -o overlay.d/90landfall   # cosa
  landfall image overlay --format oci-layer -o landfall.tar.gz
  landfall image overlay --format containerfile -o build && podman build build
  landfall image overlay --format ignition --url https://service.example.com \\
    --infra-env-id 5a1e… -o landfall.ign")]
pub(crate) struct Overlay {
    /// Format
    #[arg(long, value_enum)]
    format: Format,
    /// New file or directory, which must not exist; - is standard output
    #[arg(short, long, value_name = "path")]
    output: std::path::PathBuf,
    /// Add the name, units, generator and dracut module (rdcore) of coreos-installer, for images without its package
    #[arg(long)]
    coreos_installer: bool,
    #[command(flatten)]
    overlay: OverlayOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A directory with the files
    Directory,
    /// A cpio archive, for an initramfs that is the root
    Cpio,
    /// A tar archive
    Tar,
    /// A compressed tar archive, with the digests that an image's documents need on standard error
    OciLayer,
    /// An Ignition config (3.2.0), with the program in /usr/local/bin
    Ignition,
    /// A directory with a Containerfile and the files
    Containerfile,
}

impl Overlay {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Self { format, output, coreos_installer, overlay } = self;
        let content = overlay.read(None)?;
        let mut root = content.root()?;
        if coreos_installer {
            if format == Format::Ignition {
                bail!("--coreos-installer is for an image in the making: a config comes too late for its generator");
            }
            installer_files::add(&mut root)?;
        }
        match format {
            Format::Directory => directory(&root, &output),
            Format::Containerfile => {
                DirBuilder::new().create(&output).with_context(|| format!("creating {}", output.display()))?;
                let path = output.join("Containerfile");
                fs::write(&path, CONTAINERFILE).with_context(|| format!("writing {}", path.display()))?;
                directory(&root, &output.join("overlay"))
            }
            _ => file(format, &content, &root, &output),
        }
    }
}

fn file(format: Format, content: &Content, root: &Archive, output: &Path) -> anyhow::Result<()> {
    let bytes = match format {
        Format::Cpio => root.pack(Compression::None)?,
        Format::Tar => tar(root, Vec::new())?,
        Format::OciLayer => {
            let packed = Hashed::new(GzEncoder::new(Hashed::new(Vec::new()), flate2::Compression::best()));
            let plain = tar(root, packed)?;
            let (packed, diff_id) = plain.finish();
            let (bytes, digest) = packed.finish().context("compressing")?.finish();
            let line = format!("digest sha256:{digest} diff_id sha256:{diff_id}");
            // A closed standard error is not a failure.
            let _ = writeln!(io::stderr(), "{line}");
            bytes
        }
        Format::Ignition => content.config()?,
        Format::Directory | Format::Containerfile => bail!("a directory is not a file"),
    };
    match Output::from_path(Some(output)) {
        Output::NewFile(path) => {
            let mut unfinished = Unfinished::create(&path)?;
            unfinished.file().write_all(&bytes).with_context(|| format!("writing {}", path.display()))?;
            Ok(unfinished.finish()?)
        }
        Output::Stdout | Output::InPlace => stdout()?.write_all(&bytes).context("writing output"),
    }
}

/// The names of the directories above each member, each once, in the order they are made.
fn directories(root: &Archive) -> Vec<&str> {
    let parents = root.members().flat_map(|(name, _)| name.match_indices('/').map(|(at, _)| &name[..at]));
    let mut all: Vec<&str> = parents.collect();
    order::sort(&mut all);
    all.dedup();
    all
}

/// Writes the members to a new directory.
fn directory(root: &Archive, path: &Path) -> anyhow::Result<()> {
    let failed = |path: &Path| format!("creating {}", path.display());
    let make = |path: &Path| {
        DirBuilder::new().mode(0o755).create(path).with_context(|| failed(path))?;
        // Independent of the umask, the image's users must have access.
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).with_context(|| failed(path))
    };
    make(path)?;
    for name in directories(root) {
        make(&path.join(name))?;
    }
    for (name, member) in root.members() {
        let path = path.join(name);
        match member {
            Member::File { mode, data } => {
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
                let mut file = file.with_context(|| failed(&path))?;
                file.write_all(data).with_context(|| failed(&path))?;
                file.set_permissions(fs::Permissions::from_mode(*mode)).with_context(|| failed(&path))?;
            }
            Member::Symlink { target } => symlink(target, &path).with_context(|| failed(&path))?,
            Member::Directory { .. } => {}
        }
    }
    Ok(())
}

/// Writes the members as a tar archive to `out`, and returns it.
fn tar<W: Write>(root: &Archive, out: W) -> anyhow::Result<W> {
    let mut archive = oci::Archive::new(out, 0);
    for name in directories(root) {
        archive.directory(name, 0o755)?;
    }
    for (name, member) in root.members() {
        match member {
            Member::File { mode, data } => archive.file(name, *mode, data)?,
            Member::Symlink { target } => archive.link(name, target)?,
            Member::Directory { .. } => {}
        }
    }
    archive.finish().context("writing the archive")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::program::sample;
    use clap::Parser;
    use std::collections::BTreeMap;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        overlay: Overlay,
    }

    fn run(directory: &Path, format: &str) -> std::path::PathBuf {
        let out = directory.join(format);
        run_with(directory, format, &out, &[]).unwrap();
        out
    }

    fn run_with(directory: &Path, format: &str, out: &Path, more: &[&str]) -> anyhow::Result<()> {
        let program = directory.join("program");
        fs::write(&program, sample(1, 62)).unwrap();
        let words = ["overlay", "--format", format, "-o", out.to_str().unwrap(), "--binary", program.to_str().unwrap()];
        let line = Line::try_parse_from([&words, more].concat()).map_err(|error| error.to_string());
        line.unwrap().overlay.run()
    }

    #[test]
    fn an_image_without_coreos_installer_gets_what_its_package_had() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        run_with(directory.path(), "directory", &out, &["--coreos-installer"]).unwrap();
        let tree = of_directory(&out);
        let expected = of_directory(&Path::new(env!("CARGO_MANIFEST_DIR")).join("coreos-installer"));
        assert!(expected.contains_key("usr/lib/systemd/system/coreos-installer-post.target"));
        for (path, content) in expected {
            assert_eq!(tree.get(&path), Some(&content), "{path}");
        }
        for link in ["usr/bin/coreos-installer", "usr/lib/systemd/system-generators/coreos-installer-generator"] {
            assert_eq!(fs::read(out.join(link)).unwrap(), sample(1, 62), "{link}");
        }
        let config = directory.path().join("x.ign");
        assert!(run_with(directory.path(), "ignition", &config, &["--coreos-installer"]).is_err() && !config.exists());
    }

    /// Path, mode, and content or target.
    type Tree = BTreeMap<String, (u32, Vec<u8>)>;

    fn of_tar(bytes: &[u8]) -> Tree {
        let mut archive = tar::Archive::new(bytes);
        let mut tree = Tree::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            assert_eq!((entry.header().mtime().unwrap(), entry.header().uid().unwrap()), (0, 0));
            let path = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
            let mode = entry.header().mode().unwrap();
            let mut content = entry.link_name_bytes().map(|name| name.into_owned()).unwrap_or_default();
            io::Read::read_to_end(&mut entry, &mut content).unwrap();
            tree.insert(path, (mode, content));
        }
        tree
    }

    fn of_directory(root: &Path) -> Tree {
        let mut tree = Tree::new();
        let mut open = vec![root.to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let meta = path.symlink_metadata().unwrap();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                let content = if meta.is_dir() {
                    open.push(path.clone());
                    Vec::new()
                } else if meta.is_symlink() {
                    fs::read_link(&path).unwrap().to_str().unwrap().as_bytes().to_vec()
                } else {
                    fs::read(&path).unwrap()
                };
                tree.insert(name, (meta.permissions().mode() & 0o777, content));
            }
        }
        tree
    }

    #[test]
    fn every_form_has_the_same_files() {
        let directory = tempfile::tempdir().unwrap();
        let read = |format: &str| fs::read(run(directory.path(), format)).unwrap();
        let expected = of_tar(&read("tar"));
        assert_eq!(expected["usr/bin/landfall"], (0o755, sample(1, 62)));
        let link = "usr/lib/systemd/system/multi-user.target.wants/agent.service";
        assert_eq!(expected[link].1, b"../agent.service");
        // What is in the repository, and nothing besides.
        let overlay = of_directory(&Path::new(env!("CARGO_MANIFEST_DIR")).join("overlay"));
        for (path, (_, bytes)) in overlay.iter().filter(|(path, _)| *path != "README.md" && !path.ends_with("preset")) {
            assert_eq!(expected.get(path).map(|(_, bytes)| bytes), Some(bytes), "{path}");
        }

        assert_eq!(of_directory(&run(directory.path(), "directory")), expected);
        let build = run(directory.path(), "containerfile");
        assert_eq!(of_directory(&build.join("overlay")), expected);
        assert!(fs::read_to_string(build.join("Containerfile")).unwrap().contains("COPY overlay/ /"));
        let mut layer = Vec::new();
        let packed = read("oci-layer");
        io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut layer).unwrap();
        assert_eq!(of_tar(&layer), expected);
        let cpio = Archive::unpack(&read("cpio")).unwrap();
        assert_eq!(cpio.get("usr/bin/landfall"), Some(&sample(1, 62)[..]));
        ignition::parse(&read("ignition")).unwrap();
    }
}
