//! What is linked and no crate: C libraries that crates carry within them, Rust's own library, the C library.

use crate::cargo::{Id, Linked};
use anyhow::{Context, bail};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A library that is no crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    /// Its name.
    pub name: &'static str,
    /// Its version, where that can be told.
    pub version: Option<String>,
    /// SPDX.
    pub license: &'static str,
    /// The crate that carries it; none for what comes with the compiler.
    pub within: Option<Id>,
}

/// What the compiler brings.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// `rustc --version`.
    pub rust: String,
    /// The version of the C library that comes with the target.
    pub libc: Option<String>,
}

/// Where a crate says which version of its library it carries.
enum Said {
    /// Behind this in its own version (`2.1.2+zstd.1.5.7`).
    InVersion(&'static str),
    /// In a C header, as three macros with this prefix.
    InHeader(&'static str, &'static str),
}

/// Crates with C libraries of others in them. ring's C code is its own.
const CARRIERS: [(&str, &str, &str, Said); 2] = [
    ("liblzma-sys", "xz", "0BSD", Said::InHeader("xz/src/liblzma/api/lzma/version.h", "#define LZMA_VERSION_")),
    ("zstd-sys", "zstd", "BSD-3-Clause OR GPL-2.0-only", Said::InVersion("+zstd.")),
];

/// All such libraries; `read` gives the text of a file of a crate.
pub fn found(
    linked: &Linked,
    toolchain: &Toolchain,
    read: impl Fn(&Path) -> io::Result<String>,
) -> anyhow::Result<Vec<Native>> {
    let mut all = Vec::new();
    for (carrier, name, license, said) in CARRIERS {
        for (id, package) in linked.iter().filter(|(id, _)| id.name == carrier) {
            let version = match said {
                Said::InVersion(mark) => id.version.split_once(mark).map(|(_, version)| version.to_owned()),
                Said::InHeader(header, prefix) => {
                    let path = package.manifest.with_file_name(header);
                    let text = read(&path).with_context(|| format!("reading {}", path.display()))?;
                    header_version(&text, prefix)
                }
            };
            if version.is_none() {
                bail!("{carrier} {} does not say which {name} is in it", id.version);
            }
            all.push(Native { name, version, license, within: Some(id.clone()) });
        }
    }
    let rust = toolchain.rust.split(' ').nth(1).map(|version| version.trim().to_owned());
    all.push(Native { name: "musl", version: toolchain.libc.clone(), license: "MIT", within: None });
    all.push(Native { name: "rust-std", version: rust, license: "MIT OR Apache-2.0", within: None });
    Ok(all)
}

/// `5.8.4` of lines as `#define LZMA_VERSION_MAJOR 5`.
fn header_version(text: &str, prefix: &str) -> Option<String> {
    let part = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(prefix)?.strip_prefix(name))?.trim();
        value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.to_owned())
    };
    Some(format!("{}.{}.{}", part("MAJOR ")?, part("MINOR ")?, part("PATCH ")?))
}

/// The version of musl in a toolchain: the one text in libc.a that looks like one.
pub fn libc(sysroot: &str, target: &str) -> Option<String> {
    let path = PathBuf::from(sysroot.trim()).join("lib/rustlib").join(target).join("lib/self-contained/libc.a");
    libc_version(&fs::read(path).ok()?)
}

fn libc_version(archive: &[u8]) -> Option<String> {
    let texts = archive.split(|byte| *byte == 0).filter_map(|text| {
        let minor = text.strip_prefix(b"1.2.")?;
        let is_number = (1..=3).contains(&minor.len()) && minor.iter().all(u8::is_ascii_digit);
        is_number.then(|| String::from_utf8_lossy(text).into_owned())
    });
    let mut versions: Vec<_> = texts.collect();
    versions.dedup();
    match versions.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::Package;

    #[test]
    fn versions_are_read_where_they_are_said() {
        let header = "#define LZMA_VERSION_MAJOR 5\n\n#define LZMA_VERSION_MINOR 8\n#define LZMA_VERSION_PATCH 4\n";
        assert_eq!(header_version(header, "#define LZMA_VERSION_").as_deref(), Some("5.8.4"));
        assert_eq!(header_version("#define LZMA_VERSION_MAJOR 5\n", "#define LZMA_VERSION_"), None);
        assert_eq!(libc_version(b"\x01\x001.2.5\0\x02").as_deref(), Some("1.2.5"));
        assert_eq!(libc_version(b"\x001.2.5\0\x001.2.3\0"), None);
        assert_eq!(libc_version(b"\x001.2.x\0"), None);
    }

    #[test]
    fn what_a_crate_carries_is_named() {
        let id = |version: &str| Id { name: "zstd-sys".into(), version: version.into() };
        let package = Package {
            license: None,
            description: None,
            repository: None,
            sha256: None,
            manifest: "/c/Cargo.toml".into(),
            needs: Default::default(),
        };
        let toolchain = Toolchain { rust: "rustc 1.95.0 (abc 2026-04-14)\n".into(), libc: None };
        let of = |version: &str| {
            found(&[(id(version), package.clone())].into(), &toolchain, |_| Err(io::ErrorKind::NotFound.into()))
        };
        let all = of("2.1.2+zstd.1.5.7").unwrap();
        let told: Vec<_> = all.iter().map(|native| (native.name, native.version.as_deref())).collect();
        assert_eq!(told, [("zstd", Some("1.5.7")), ("musl", None), ("rust-std", Some("1.95.0"))]);
        assert!(of("2.1.2").unwrap_err().to_string().contains("does not say"));
    }
}
