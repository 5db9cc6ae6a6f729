//! What is linked and no crate: C libraries that crates carry within them, Rust's own library, the C library.

use crate::cargo::{Id, Linked};
use anyhow::{Context, bail};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A library that is no crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Native {
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
pub(crate) struct Toolchain {
    /// `rustc --version`.
    pub rust: String,
    /// The version of the C library that comes with the target.
    pub libc: Option<String>,
}

/// Where a crate says which version of its library it carries.
enum Said {
    /// In its own version, behind this (`2.1.2+zstd.1.5.7`).
    Version(&'static str),
    /// In a C header, as three macros with this prefix.
    Header(&'static str, &'static str),
    /// In a C header, as the number behind this: major, and two digits each of minor and patch.
    Number(&'static str, &'static str),
}

/// Crates with C libraries of others in them. ring's C code is its own.
const CARRIERS: [(&str, &str, &str, Said); 3] = [
    (
        "libmimalloc-sys",
        "mimalloc",
        "MIT",
        Said::Number("c_src/mimalloc/v3/include/mimalloc.h", "#define MI_MALLOC_VERSION "),
    ),
    ("liblzma-sys", "xz", "0BSD", Said::Header("xz/src/liblzma/api/lzma/version.h", "#define LZMA_VERSION_")),
    ("zstd-sys", "zstd", "BSD-3-Clause OR GPL-2.0-only", Said::Version("+zstd.")),
];

/// All such libraries; `read` gives the text of a file of a crate.
pub(crate) fn found(
    linked: &Linked,
    toolchain: &Toolchain,
    read: impl Fn(&Path) -> io::Result<String>,
) -> anyhow::Result<Vec<Native>> {
    let mut all = Vec::new();
    for (carrier, name, license, said) in CARRIERS {
        for (id, package) in linked.iter().filter(|(id, _)| id.name == carrier) {
            let text = |header| {
                let path = package.manifest.with_file_name(header);
                read(&path).with_context(|| format!("reading {}", path.display()))
            };
            let version = match said {
                Said::Version(mark) => id.version.split_once(mark).map(|(_, version)| version.to_owned()),
                Said::Header(header, prefix) => header_version(&text(header)?, prefix),
                Said::Number(header, prefix) => header_number(&text(header)?, prefix),
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

/// `3.3.2` of a line as `#define MI_MALLOC_VERSION 30302   // a remark`.
fn header_number(text: &str, prefix: &str) -> Option<String> {
    let number = text.lines().find_map(|line| line.strip_prefix(prefix))?.split_whitespace().next()?;
    let number: u32 = number.parse().ok()?;
    Some(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
}

/// The version of musl in a toolchain: the one text in libc.a that looks like one.
pub(crate) fn libc(sysroot: &str, target: &str) -> Option<String> {
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
        let number = "#define MI_MALLOC_VERSION 30302   // major + 2 digits minor + 2 digits patch\n";
        assert_eq!(header_number(number, "#define MI_MALLOC_VERSION ").as_deref(), Some("3.3.2"));
        assert_eq!(header_number("#define MI_MALLOC_VERSION x\n", "#define MI_MALLOC_VERSION "), None);
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
