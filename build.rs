//! What the linker is asked for beside a static program: no tables for unwinding, a seventh of its size that nothing would read, as a
//! panic ends it; and, of the linker that comes with the compiler, functions that are the same only once, short relocations, and a
//! map, which `make size` reads.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The programs of this package.
const PROGRAMS: [&str; 2] = ["landfall", "landfall-host"];

fn main() {
    println!("cargo::rerun-if-changed=src/no-unwinding.ld");
    // Cargo does not say which profile has `panic = "abort"`: it is that of a release, and those that inherit from it.
    let is = |name, wanted| env::var(name).is_ok_and(|found| found == wanted);
    if !is("CARGO_CFG_TARGET_ENV", "musl") || !is("PROFILE", "release") {
        return;
    }
    let script = format!("{}/src/no-unwinding.ld", env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr,-T,{script}");
    let Some(linker) = linker() else {
        println!("cargo::warning=the compiler comes without lld: the programs will be larger, and without a map");
        return;
    };
    println!("cargo::rustc-link-arg-bins=-B{}", linker.display());
    println!("cargo::rustc-link-arg-bins=-fuse-ld=lld");
    // Functions only: mimalloc tells its tables apart by their addresses, though some have the same contents.
    println!("cargo::rustc-link-arg-bins=-Wl,-O2,--icf=all,-z,pack-relative-relocs");
    // Where the programs go, below a directory of the profile's name: OUT_DIR is build/landfall-HASH/out in it.
    let out = env::var("OUT_DIR").unwrap_or_default();
    let Some(directory) = Path::new(&out).ancestors().nth(3) else { return };
    for name in PROGRAMS {
        println!("cargo::rustc-link-arg-bin={name}=-Wl,-Map={}/{name}.map", directory.display());
    }
}

/// The directory in which a C compiler finds the linker `ld.lld` of this toolchain.
fn linker() -> Option<PathBuf> {
    let printed = Command::new(env::var_os("RUSTC")?).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(printed.stdout).ok()?;
    let programs = Path::new(sysroot.trim_end()).join("lib/rustlib").join(env::var_os("HOST")?).join("bin/gcc-ld");
    programs.join("ld.lld").exists().then_some(programs)
}
