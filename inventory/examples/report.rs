//! The `report` subcommand as a program of its own.

use clap::Parser;

#[derive(Parser)]
#[command(name = "report")]
struct Cli {
    #[command(flatten)]
    report: inventory::report::cli::Report,
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    Cli::parse().report.run()
}
