//! Reads and checks all that a caller wants on the boot file system, before the disk is touched.

use crate::boot::console::ConsoleError;
use crate::boot::kargs::KargEdits;
use crate::boot::network::{Network, NetworkFile};
use crate::boot::{BootConfig, Ignition};
use crate::ignition_hash::{IgnitionHash, IgnitionHashError};
use crate::options::{InstallOptions, METAL, NetworkPlace};
use kernel::order;
use std::{
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A keyfile is a few hundred bytes; certificates may lie beside them.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// More files than any host has connections.
const MAX_FILES: usize = 1000;

/// Why the options can't be carried out. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The sum is invalid, or another config's.
    #[error(transparent)]
    Hash(#[from] IgnitionHashError),
    #[error(transparent)]
    Console(#[from] ConsoleError),
    /// Would be several kernel arguments, or none.
    #[error("'{platform}' is not a platform: it is empty or contains whitespace or '='")]
    Platform { platform: String },
    /// Would break the line they go into.
    #[error("the first-boot arguments '{args}' contain a line break")]
    FirstbootArgs { args: String },
    /// Would break the line it goes into.
    #[error("'{karg}' is not a kernel argument: it is empty or contains a line break")]
    Karg { karg: String },
    /// The keyfiles can't be read.
    #[error("cannot read the network configuration in {}", path.display())]
    Network { path: PathBuf, source: io::Error },
    /// Not keyfiles, from the size of it.
    #[error("{} is too large for keyfiles: the limit is {MAX_FILES} files of {MAX_FILE_BYTES} bytes each", path.display())]
    NetworkSize { path: PathBuf },
}

/// Reads the keyfiles and checks everything.
pub(crate) fn prepare(options: &InstallOptions) -> Result<BootConfig, OptionsError> {
    let broken = |text: &str| text.contains(['\n', '\r', '\0']);
    let hash = options.ignition_hash.as_deref().map(str::parse::<IgnitionHash>).transpose()?;
    if let (Some(ignition), Some(hash)) = (&options.ignition, &hash) {
        hash.check(ignition)?;
    }
    let is_invalid = |name: &str| {
        name.is_empty() || name.contains(|letter: char| letter == '=' || letter == '\0' || letter.is_whitespace())
    };
    if let Some(platform) = options.platform.as_deref().filter(|name| is_invalid(name)) {
        return Err(OptionsError::Platform { platform: platform.to_owned() });
    }
    let consoles = options.consoles.iter().map(|spec| spec.parse()).collect::<Result<_, _>>()?;
    if let Some(args) = options.firstboot_args.as_deref().filter(|args| broken(args)) {
        return Err(OptionsError::FirstbootArgs { args: args.to_owned() });
    }
    for karg in options.changes.append_kargs.iter().chain(&options.changes.delete_kargs) {
        if karg.trim().is_empty() || broken(karg) {
            return Err(OptionsError::Karg { karg: karg.clone() });
        }
    }
    let changes = &options.changes;
    Ok(BootConfig {
        ignition: options.ignition.clone().map(|config| Ignition { config, hash }),
        platform: options.platform.clone().filter(|platform| platform != METAL),
        consoles,
        firstboot_args: options.firstboot_args.clone(),
        kargs: KargEdits {
            delete: changes.delete_kargs.clone(),
            append: changes.append_kargs.clone(),
            ..KargEdits::default()
        },
        network: changes.network_dir.as_deref().map(|dir| network(dir, options.network_place)).transpose()?,
    })
}

fn network(dir: &Path, place: NetworkPlace) -> Result<Network, OptionsError> {
    Ok(Network { directory: dir.to_owned(), files: network_files(dir)?, place })
}

/// The regular files directly in `dir`, by name.
fn network_files(dir: &Path) -> Result<Vec<NetworkFile>, OptionsError> {
    let error = |path: &Path| {
        let path = path.to_owned();
        move |source| OptionsError::Network { path, source }
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(error(dir))? {
        let entry = entry.map_err(error(dir))?;
        let path = entry.path();
        if !entry.file_type().map_err(error(&path))?.is_file() {
            continue;
        }
        let file = File::open(&path).map_err(error(&path))?;
        let permissions = file.metadata().map_err(error(&path))?.permissions();
        let permissions = Permissions::from_mode(permissions.mode() & 0o777);
        let mut content = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(error(&path))?;
        if u64::try_from(content.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
            return Err(OptionsError::NetworkSize { path });
        }
        files.push(NetworkFile { name: entry.file_name(), content, permissions });
        if files.len() > MAX_FILES {
            return Err(OptionsError::NetworkSize { path: dir.to_owned() });
        }
    }
    order::sort_by(&mut files, |a, b| a.name.cmp(&b.name));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Changes;

    #[test]
    fn refuses_what_cannot_be_right() {
        for bad in ["", "  ", "a\nb"] {
            let options = InstallOptions {
                changes: Changes { append_kargs: vec![bad.into()], ..Default::default() },
                ..Default::default()
            };
            assert!(matches!(prepare(&options), Err(OptionsError::Karg { .. })));
        }
    }

    #[test]
    fn refuses_what_would_break_a_line_and_sums_of_other_configs() {
        let check = |options: InstallOptions| prepare(&options).err();
        for bad in ["", "a b", "a=b", "a\n"] {
            let options = InstallOptions { platform: Some(bad.into()), ..Default::default() };
            assert!(matches!(check(options), Some(OptionsError::Platform { .. })), "{bad}");
        }
        let options = InstallOptions { firstboot_args: Some("a\nb".into()), ..Default::default() };
        assert!(matches!(check(options), Some(OptionsError::FirstbootArgs { .. })));
        let options = InstallOptions { consoles: vec!["tty0".into(), "tty1".into()], ..Default::default() };
        assert!(matches!(check(options), Some(OptionsError::Console(_))));
        let hash = |hash: &str| InstallOptions {
            ignition: Some(b"{}".to_vec()),
            ignition_hash: Some(hash.into()),
            ..Default::default()
        };
        let good = "sha256-44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert!(check(hash(good)).is_none());
        assert!(matches!(check(hash(&good.replace("44", "45"))), Some(OptionsError::Hash(_))));
        assert!(matches!(check(hash("md5-00")), Some(OptionsError::Hash(_))));
    }

    #[test]
    fn metal_is_what_images_are_anyway() {
        let options = |name: &str| InstallOptions { platform: Some(name.into()), ..Default::default() };
        assert!(prepare(&options("metal")).unwrap() == BootConfig::default() && !options("metal").configures_boot());
        assert_eq!(prepare(&options("qemu")).unwrap().platform.as_deref(), Some("qemu"));
    }

    #[test]
    fn takes_regular_files_only() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("b.nmconnection"), "b").unwrap();
        fs::write(dir.path().join("a.nmconnection"), "a").unwrap();
        fs::set_permissions(dir.path().join("a.nmconnection"), Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        let files = network_files(dir.path()).unwrap();
        assert_eq!(
            files.iter().map(|file| file.name.clone()).collect::<Vec<_>>(),
            ["a.nmconnection", "b.nmconnection"]
        );
        assert_eq!(files[0].permissions.mode(), 0o600);
        assert_eq!(files[0].content, b"a");
        assert!(matches!(network_files(&dir.path().join("no")), Err(OptionsError::Network { .. })));
        File::create(dir.path().join("huge")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(network_files(dir.path()), Err(OptionsError::NetworkSize { .. })));
    }
}
