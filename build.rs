//! What the linker is asked for beside a static program: a map, which `make size` reads; and of a program that a panic ends, no
//! tables for unwinding, a seventh of its size that nothing would read.

use std::{env, path::Path};

/// The programs of this package.
const PROGRAMS: [&str; 2] = ["landfall", "landfall-host"];

fn main() {
    println!("cargo::rerun-if-changed=src/no-unwinding.ld");
    let is = |name, value: &str| env::var(name).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_ENV", "musl") {
        return;
    }
    // Beside the programs: OUT_DIR is build/landfall-HASH/out below.
    let out = env::var("OUT_DIR").unwrap_or_default();
    if let Some(directory) = Path::new(&out).ancestors().nth(3) {
        for name in PROGRAMS {
            println!("cargo::rustc-link-arg-bin={name}=-Wl,-Map={}/{name}.map", directory.display());
        }
    }
    if is("CARGO_CFG_PANIC", "abort") {
        let script = format!("{}/src/no-unwinding.ld", env!("CARGO_MANIFEST_DIR"));
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr,-T,{script}");
    }
}
