//! `landfall serve states`.

use crate::state::document;
use std::io::Write;

/// Print the state transitions of hosts and clusters.
///
/// These tables alone decide what the service does: the first row that matches wins. A row's name is its section and row in
/// the published behaviour.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  landfall serve states
  landfall serve states picture > states.md")]
pub(super) struct States {
    /// Markdown tables, or Mermaid state diagrams
    #[arg(value_enum, default_value_t = StatesForm::Table)]
    pub(super) form: StatesForm,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum StatesForm {
    Table,
    Picture,
}

impl States {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let text = match self.form {
            StatesForm::Table => document::tables(),
            StatesForm::Picture => document::pictures(),
        };
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}
