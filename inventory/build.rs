//! The schema of reports without the white space that people read it with: the program prints it anew.

use std::{env, fs, path::Path};

const SCHEMA: &str = "report.schema.json";

fn main() {
    println!("cargo::rerun-if-changed={SCHEMA}");
    let text = fs::read_to_string(SCHEMA).unwrap_or_default();
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    if let Err(error) = fs::write(Path::new(&out).join(SCHEMA), compact(&text)) {
        println!("cargo::error={SCHEMA}: {error}");
    }
}

/// JSON without what is between its tokens.
fn compact(text: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_kept = |char: &char| {
        let kept = is_string || !char.is_ascii_whitespace();
        is_string ^= *char == '"' && !is_escaped;
        is_escaped = is_string && *char == '\\' && !is_escaped;
        kept
    };
    text.chars().filter(is_kept).collect()
}
