//! The kernel and the part of its modules that an image has.

use super::{Hardware, store, tools, tree};
use anyhow::{Context, Result, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// An unpacked kernel package.
pub(super) struct Kernel {
    /// `uname -r`.
    pub release: String,
    pub image: PathBuf,
    modules: PathBuf,
}

impl Kernel {
    pub(super) fn open(hardware: Hardware) -> Result<Self> {
        let package = store::packages(hardware.arch, hardware.drivers.package())?;
        let all = package.join("lib/modules");
        let mut releases = fs::read_dir(&all).with_context(|| format!("listing {}", all.display()))?;
        let Some(entry) = releases.next() else { bail!("{} contains no kernel", all.display()) };
        let release = entry?.file_name().to_string_lossy().into_owned();
        let image = package.join("boot").join(format!("vmlinuz-{release}"));
        Ok(Self { modules: all.join(&release), image, release })
    }

    /// Copies the modules `wanted` names into `root/usr/lib/modules`, with those they depend on, and indexes them.
    /// An entry is a module's name, or a directory below `kernel/` (ending in `/`) for all in it. Names that this kernel
    /// lacks are ignored: lists serve more than one kernel.
    pub(super) fn install_modules(&self, wanted: &[String], root: &Path) -> Result<()> {
        let text = fs::read_to_string(self.modules.join("modules.dep")).context("reading modules.dep")?;
        let mut needs = BTreeMap::new();
        let mut by_name = BTreeMap::new();
        for line in text.lines() {
            let (path, rest) = line.split_once(':').with_context(|| format!("modules.dep: no colon in {line:?}"))?;
            needs.insert(path, rest.split_whitespace().collect::<Vec<_>>());
            by_name.insert(module_name(path), path);
        }
        let mut chosen = BTreeSet::new();
        for want in wanted {
            let paths: Vec<&str> = if want.ends_with('/') {
                let prefix = format!("kernel/{want}");
                needs.keys().copied().filter(|path| path.starts_with(&prefix)).collect()
            } else {
                by_name.get(&want.replace('-', "_")).copied().into_iter().collect()
            };
            for path in paths {
                chosen.extend(needs.get(path).into_iter().flatten().copied());
                chosen.insert(path);
            }
        }
        let to = root.join("usr/lib/modules").join(&self.release);
        let indexes = ["modules.builtin", "modules.builtin.modinfo", "modules.order"];
        for path in chosen.into_iter().chain(indexes) {
            tree::place(&self.modules.join(path), &to.join(path))?;
        }
        // depmod looks below lib/modules, which is a link to usr/lib/modules in every root here.
        tools::run("depmod", ["-b".as_ref(), root.as_os_str(), self.release.as_ref()])?;
        Ok(())
    }
}

fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}
