//! Which shared libraries a set of programs needs.

use super::tools;
use anyhow::{Context, Result};
use std::{
    collections::BTreeSet,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// The libraries below `root` that `programs` need, directly or through one another, as paths relative to `root`.
/// Libraries are taken by name from `lib_dirs`; a name in none of them is an error.
pub(super) fn closure(root: &Path, lib_dirs: &[PathBuf], mut programs: Vec<PathBuf>) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    while let Some(program) = programs.pop() {
        for name in needed(&root.join(&program))? {
            let path = lib_dirs
                .iter()
                .map(|dir| dir.join(&name))
                .find(|path| root.join(path).exists())
                .with_context(|| format!("{} needs {name}, which no unpacked package has", program.display()))?;
            if found.insert(path.clone()) {
                programs.push(path);
            }
        }
    }
    Ok(found)
}

fn needed(object: &Path) -> Result<Vec<String>> {
    let text = tools::run("readelf", ["-dW".as_ref(), object.as_os_str()])?;
    let name = |line: &str| Some(line.split_once("(NEEDED)")?.1.split_once('[')?.1.split_once(']')?.0.to_owned());
    Ok(text.lines().filter_map(name).collect())
}

/// Whether a file is an ELF object.
pub(super) fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}
