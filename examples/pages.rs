//! Writes the manual pages of every command.
//!
//! Made of the commands' own help, when a release is built: the programs do not carry them. The same sources give the same bytes.

use anyhow::Context;
use clap::{Command, CommandFactory, Parser};
use clap_mangen::Man;
use landfall::{Cli, Host, Whole};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug, Parser)]
struct Arguments {
    /// Of the host's program
    #[arg(long)]
    host: bool,
    /// Where man1 is put; created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let command = if arguments.host { Cli::<Host>::command() } else { Cli::<Whole>::command() };
    write_pages(command, &arguments.directory.join("man1"))
}

/// The pages of `command` and all below it but what is hidden.
fn write_pages(command: Command, directory: &Path) -> anyhow::Result<()> {
    for page in pages(command) {
        let mut text = Vec::new();
        page.render(&mut text)?;
        write(&directory.join(page.get_filename()), &text)?;
    }
    Ok(())
}

fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).with_context(failed)?;
    fs::write(path, text).with_context(failed)
}

/// One page for each command with its own name; the version on each is this program's.
fn pages(command: Command) -> Vec<Man> {
    // Help is an option of each page already.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let source = format!("landfall {}", env!("CARGO_PKG_VERSION"));
    let mut open = vec![command];
    let mut pages = Vec::new();
    while let Some(command) = open.pop() {
        open.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        pages.push(Man::new(command).source(source.clone()).manual("Landfall"));
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_listed_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        write_pages(Cli::<Whole>::command(), directory.path()).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        for name in ["landfall.1", "landfall-agent-beacon.1", "landfall-iso-bake.1", "landfall-iso-kargs-modify.1"] {
            assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("pack-") || name.contains("-help") || name.contains("man")));
        for name in names {
            let page = fs::read_to_string(directory.path().join(&name)).unwrap();
            assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH NAME"), "{name}: {page}");
            assert!(page.contains(&format!("\"landfall {}\"", env!("CARGO_PKG_VERSION"))), "{name}: {page}");
        }
    }
}
