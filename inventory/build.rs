//! The schema of reports, packed: a tenth of what it is as text.

use flate2::{Compression, write::DeflateEncoder};
use std::{env, fs, io::Write, path::Path};

const SCHEMA: &str = "report.schema.json";

fn main() {
    println!("cargo::rerun-if-changed={SCHEMA}");
    if let Err(error) = pack() {
        println!("cargo::error={SCHEMA}: {error}");
    }
}

fn pack() -> std::io::Result<()> {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&fs::read(SCHEMA)?)?;
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&out).join(SCHEMA), packed.finish()?)
}
