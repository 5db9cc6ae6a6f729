//! What the linker is asked for beside a static program: a map, which `make size` reads; and no tables for unwinding, a seventh of its
//! size that nothing would read, as a panic ends it.

use std::{env, path::Path};

/// The programs of this package.
const PROGRAMS: [&str; 2] = ["landfall", "landfall-host"];

fn main() {
    println!("cargo::rerun-if-changed=src/no-unwinding.ld");
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|found| found != "musl") {
        return;
    }
    // Where the programs go, below a directory of the profile's name: OUT_DIR is build/landfall-HASH/out in it.
    let out = env::var("OUT_DIR").unwrap_or_default();
    let Some(directory) = Path::new(&out).ancestors().nth(3) else { return };
    for name in PROGRAMS {
        println!("cargo::rustc-link-arg-bin={name}=-Wl,-Map={}/{name}.map", directory.display());
    }
    // Cargo does not tell which profile has `panic = "abort"`: it is that of a release, and those that inherit from it.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        let script = format!("{}/src/no-unwinding.ld", env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr,-T,{script}");
    }
}
