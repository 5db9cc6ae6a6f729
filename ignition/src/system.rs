//! The configs that a system brings for its own first boot (docs/compatibility.md#ignition-system-configs).

use crate::apply::Root;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
};

/// From the highest priority down: of the running system, of its administrator, of its vendor.
const DIRS: [&str; 3] = ["/run/ignition", "/etc/ignition", "/usr/lib/ignition"];
const CONFIG_BYTES: u64 = 32 << 20;
/// More of them are not configs.
const MAX_CONFIGS: usize = 256;

/// A config and its path below the root.
pub(crate) type Found = (String, Vec<u8>);

/// Why a system's configs can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SystemError {
    #[error("cannot read {path} below the root")]
    Read { path: String, source: io::Error },
    #[error("{0:?} is not the name of a platform")]
    Platform(String),
    #[error("{path} below the root has more than {MAX_CONFIGS} files")]
    Many { path: String },
}

/// What is merged below any user's config, parents first: `base.d`, then `base.platform.d` of the platform. In each, files go by
/// name, and of those with the same name only that of the highest priority counts.
pub(crate) fn base(root: &Root, platform: Option<&str>) -> Result<Vec<Found>, SystemError> {
    let mut all = fragments(root, "base.d")?;
    if let Some(platform) = platform {
        if platform.is_empty() || platform.contains('/') || platform.starts_with('.') {
            return Err(SystemError::Platform(platform.to_owned()));
        }
        all.extend(fragments(root, &format!("base.platform.d/{platform}"))?);
    }
    Ok(all)
}

/// The user's config, if the system brings one: the first there is.
pub(crate) fn user(root: &Root) -> Result<Option<Found>, SystemError> {
    let read = |dir: &str| {
        let path = format!("{dir}/user.ign");
        let bytes = root.read(&path, CONFIG_BYTES);
        bytes.map_err(|source| SystemError::Read { path: path.clone(), source }).map(|bytes| Some((path, bytes?)))
    };
    DIRS.iter().find_map(|dir| read(dir).transpose()).transpose()
}

fn fragments(root: &Root, below: &str) -> Result<Vec<Found>, SystemError> {
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for dir in DIRS {
        let path = format!("{dir}/{below}");
        let names = root.follow(&path).and_then(|place| root.names(&place));
        for name in names.map_err(|source| SystemError::Read { path: path.clone(), source })? {
            let name = name.to_string_lossy().into_owned();
            let file = format!("{path}/{name}");
            if let Entry::Vacant(free) = by_name.entry(name) {
                free.insert(file);
            }
        }
        if by_name.len() > MAX_CONFIGS {
            return Err(SystemError::Many { path });
        }
    }
    let mut all = Vec::new();
    for path in by_name.into_values() {
        let bytes = root.read(&path, CONFIG_BYTES).and_then(|bytes| bytes.ok_or(io::ErrorKind::NotFound.into()));
        all.push((path.clone(), bytes.map_err(|source| SystemError::Read { path, source })?));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tree::Tree;

    fn texts(found: Vec<Found>) -> Vec<(String, String)> {
        found.into_iter().map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap())).collect()
    }

    #[test]
    fn the_highest_directory_wins_and_names_decide_the_order() {
        let tree = Tree::new(&[
            ("usr/lib/ignition/base.d/10-a.ign", "vendor"),
            ("usr/lib/ignition/base.d/30-c.ign", "vendor"),
            ("etc/ignition/base.d/10-a.ign", "local"),
            ("run/ignition/base.d/20-b.ign", "runtime"),
            ("usr/lib/ignition/base.platform.d/metal/00.ign", "metal"),
            ("usr/lib/ignition/user.ign", "vendor's user"),
            ("etc/ignition/user.ign", "local user"),
        ]);
        let root = Root::open(tree.path()).unwrap();
        let found = |platform| texts(base(&root, platform).unwrap());
        let pair = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let common = [
            pair("/etc/ignition/base.d/10-a.ign", "local"),
            pair("/run/ignition/base.d/20-b.ign", "runtime"),
            pair("/usr/lib/ignition/base.d/30-c.ign", "vendor"),
        ];
        assert_eq!(found(None), common);
        assert_eq!(found(Some("qemu")), common);
        let metal = pair("/usr/lib/ignition/base.platform.d/metal/00.ign", "metal");
        assert_eq!(found(Some("metal")).last(), Some(&metal));
        assert_eq!(texts(user(&root).unwrap().into_iter().collect()), [pair("/etc/ignition/user.ign", "local user")]);
        for platform in ["", "..", "a/b"] {
            assert!(matches!(base(&root, Some(platform)), Err(SystemError::Platform(_))), "{platform}");
        }
        let empty = tempfile::tempdir().unwrap();
        let root = Root::open(empty.path()).unwrap();
        assert!(base(&root, Some("metal")).unwrap().is_empty() && user(&root).unwrap().is_none());
    }
}
