//! Prints the circles among the files of each crate, and fails on one of more than [`MAX_FILES`].
//!
//! A file depends on another if it names something of it, in a `use` or by its path. A name that a module only passes on leads
//! to the file that declares it. Tests do not count.
//!
//! usage: `circles [WORKSPACE]`

mod graph;
mod source;

use source::Crate;
use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The largest circle that a crate may have: a type, its parts, and the code that makes it.
const MAX_FILES: usize = 3;

fn main() -> ExitCode {
    let root = env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    match crates(&root) {
        Ok(crates) => check(&crates),
        Err(error) => {
            eprintln!("circles: {}: {error}", root.display());
            ExitCode::from(2)
        }
    }
}

fn check(crates: &BTreeMap<String, Crate>) -> ExitCode {
    let mut failed = false;
    for (name, sources) in crates {
        let dependencies = sources.dependencies();
        let circles = graph::circles(&dependencies);
        let sizes: Vec<usize> = circles.iter().map(Vec::len).collect();
        println!("{name}: {} files, circles of {sizes:?}", sources.len());
        let large: Vec<&Vec<String>> = circles.iter().filter(|circle| circle.len() > MAX_FILES).collect();
        for circle in &large {
            println!("  {}:", circle.len());
            for file in *circle {
                let targets = dependencies.get(file).into_iter().flatten();
                let inside: Vec<&str> = targets.filter(|to| circle.contains(to)).map(String::as_str).collect();
                println!("    {file} -> {}", inside.join(" "));
            }
        }
        if !large.is_empty() {
            eprintln!("circles: {name} has circles of more than {MAX_FILES} files");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The crates under a directory, by their directories' names.
fn crates(root: &Path) -> io::Result<BTreeMap<String, Crate>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let source = directory.join("src");
        if directory.join("Cargo.toml").is_file() && source.is_dir() {
            let name = directory.strip_prefix(root).unwrap_or(&directory).display().to_string();
            found.insert(if name.is_empty() { ".".to_owned() } else { name }, Crate::read(&source)?);
        }
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let skipped = ["src", "target", ".git", "tests", "fuzz"].iter().any(|skipped| name == *skipped);
            if entry.file_type()?.is_dir() && !skipped {
                directories.push(entry.path());
            }
        }
    }
    Ok(found)
}
