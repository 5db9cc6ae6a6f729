//! The `inventory` subcommand as a program of its own.

use clap::Parser;

#[derive(Parser)]
#[command(name = "inventory")]
struct Cli {
    #[command(flatten)]
    inventory: inventory::cli::Inventory,
}

fn main() -> anyhow::Result<()> {
    Cli::parse().inventory.run()
}
