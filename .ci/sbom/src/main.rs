//! Prints what is linked into the static binary as a CycloneDX 1.5 document.
//!
//! The crates are those of `cargo tree`, with this package's features and for this target, without build scripts and macros;
//! `cargo metadata` and Cargo.lock tell the rest. Nothing of time, place or chance is in it: the same sources give the same bytes.

mod cargo;
mod document;
mod native;

use anyhow::{Context, bail};
use clap::Parser;
use document::Program;
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// The package whose binaries are described.
const PACKAGE: &str = "landfall";
/// The one that is built without the package's default features.
const HOST_PROGRAM: &str = "landfall-host";

/// Print the bill of materials of the static binary (CycloneDX 1.5, JSON)
#[derive(Debug, Parser)]
struct Line {
    /// For which target the binary is built
    #[arg(long, value_name = "TRIPLE", default_value = "x86_64-unknown-linux-musl")]
    target: String,
    /// Name of the program, of those that the package has
    #[arg(long, value_name = "NAME", default_value = PACKAGE)]
    program: String,
    /// The binary itself, whose SHA-256 is then in the document
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let Line { target, program, binary } = Line::parse();
    let top =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the workspace is above this package")?;
    let cargo = |words: &[&str]| output(Command::new("cargo").args(words).current_dir(top));
    let mut words = vec![
        "tree",
        "--locked",
        "--package",
        PACKAGE,
        "--edges",
        "normal,no-proc-macro",
        "--target",
        &target,
        "--prefix",
        "depth",
        "--format",
        "{p}",
    ];
    if program == HOST_PROGRAM {
        words.push("--no-default-features");
    }
    let tree = cargo(&words)?;
    let metadata = cargo(&["metadata", "--locked", "--format-version", "1", "--filter-platform", &target])?;
    let lock = top.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).with_context(|| format!("reading {}", lock.display()))?;
    let linked = cargo::linked(&tree, &metadata, &lock)?;

    let toolchain = native::Toolchain {
        rust: output(Command::new("rustc").arg("--version"))?,
        libc: native::libc(&output(Command::new("rustc").args(["--print", "sysroot"]))?, &target),
    };
    let native = native::found(&linked, &toolchain, |path| fs::read_to_string(path))?;
    let sha256 = match &binary {
        Some(path) => {
            let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            Some(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
        }
        None => None,
    };
    let program = Program { name: &program, package: PACKAGE, target: &target, sha256 };
    let document = document::document(&linked, &native, program)?;
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    io::stdout().write_all(&text).context("writing the document")
}

/// What a program prints.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} prints what is not text"))
}
