//! `landfall man`: manual pages, made of what the commands' own help is made of.

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;
use std::{fs, path::PathBuf};

/// Write the manual page of every command
///
/// For release archives and packages, so it is not listed. The same program writes the same bytes.
#[derive(Debug, Args)]
pub(crate) struct Pages {
    /// Where landfall.1, landfall-agent.1 and so on are put; made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Pages {
    /// Writes the pages of `command` and all below it but what is hidden.
    pub(crate) fn run(self, command: Command) -> anyhow::Result<()> {
        let failed = || format!("cannot write manual pages to {}", self.directory.display());
        fs::create_dir_all(&self.directory).with_context(failed)?;
        for page in pages(command) {
            let path = self.directory.join(page.get_filename());
            let mut text = Vec::new();
            page.render(&mut text).with_context(failed)?;
            fs::write(&path, text).with_context(failed)?;
        }
        Ok(())
    }
}

/// One page for each command with a name of its own; the version on each is this program's.
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
    use clap::CommandFactory;

    #[test]
    fn every_command_that_is_listed_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        let written = directory.path().join("man1");
        Pages { directory: written.clone() }.run(crate::commands::Cli::command()).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&written).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        for name in ["landfall.1", "landfall-agent-beacon.1", "landfall-iso-bake.1", "landfall-iso-kargs-modify.1"] {
            assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("pack-") || name.contains("-help") || name.contains("man")));
        for name in names {
            let page = fs::read_to_string(written.join(&name)).unwrap();
            assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH NAME"), "{name}: {page}");
            assert!(page.contains(&format!("\"landfall {}\"", env!("CARGO_PKG_VERSION"))), "{name}: {page}");
        }
    }
}
