//! `landfall netcheck lldp`.

use super::print;
use crate::{
    Selection,
    lldp::{LldpOptions, listen, table},
};
use std::{process::ExitCode, time::Duration};

/// Show which switch and port each network card is plugged into.
///
/// Listens for LLDP on every network card, ports of bonds included, and sends nothing. Most switches send every 30 seconds,
/// so this takes up to 35; it ends sooner if every card with carrier has heard a neighbour.
///
/// Silence does not prove that there is no switch: it may not send LLDP, and some cards (Intel 700 and E800 series) have a
/// firmware agent that consumes these frames. The result names the likely cause.
///
/// The exit status is 0 even if nothing was heard.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  landfall netcheck lldp
  landfall netcheck lldp --interface ens1f0 --interface ens1f1 \\
    --timeout-s 70 --json")]
pub(super) struct Lldp {
    /// Listen on this interface, whatever its kind, instead of on every network card (may be given several times)
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Maximum time to listen, seconds
    #[arg(long, value_name = "N", default_value = "35", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout_s: u64,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Lldp {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let found = listen(&self.options())?;
        print(self.json, &found, || table::render(&found))?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self) -> LldpOptions {
        let interfaces =
            if self.interfaces.is_empty() { Selection::Automatic } else { Selection::Named(self.interfaces.clone()) };
        LldpOptions { timeout: Duration::from_secs(self.timeout_s), interfaces, ..LldpOptions::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        lldp: Lldp,
    }

    fn lldp(arguments: &[&str]) -> Lldp {
        Program::parse_from(["lldp"].iter().chain(arguments)).lldp
    }

    #[test]
    fn flags_reach_the_options_and_without_them_they_are_the_librarys() {
        assert_eq!(lldp(&[]).options(), LldpOptions::default());
        let expected = LldpOptions {
            timeout: Duration::from_secs(3),
            interfaces: Selection::Named(vec!["a".into(), "b".into()]),
            ..LldpOptions::default()
        };
        assert_eq!(lldp(&["--timeout-s", "3", "--interface", "a", "--interface", "b"]).options(), expected);
    }
}
