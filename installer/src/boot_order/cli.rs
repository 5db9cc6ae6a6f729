//! `landfall boot-order`: what the firmware starts, shown and set.

use super::{BootOrderError, BootState, Done, Variables, entry_name, numbers, set};
use crate::host::LiveHost;
use anyhow::Context;
use api::http::HttpConfig;
use kernel::Cancel;
use serde::Serialize;
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Raised when a field changes its meaning.
const SCHEMA: u32 = 1;
const NO_UEFI: &str = "No UEFI: this machine was started by a BIOS, or by firmware whose order is not visible. Set the order \
                       in its own setup.\n";

/// Show or set what the firmware starts next
///
/// An installation ends with a reboot. The machine should then start from the new disk, although the live medium may still
/// be inserted and first in the firmware's order. On UEFI, an entry for the disk's boot loader is created, put first, and
/// set as the next to start; on POWER, the firmware's boot list is set. The order of a BIOS can be changed only in its own
/// setup.
#[derive(Debug, clap::Args)]
pub struct BootOrder {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(Show),
    Set(Set),
}

/// Show the firmware's boot entries in their order
///
/// Reads UEFI's variables from efivarfs, as efibootmgr does; changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  shown; also if there is nothing to show, as with a BIOS
  1  failed; the message says why
  2  wrong usage

Examples:
  landfall boot-order show
  landfall boot-order show --json \\
    | jq -r '.entries[] | select(.active) | .label'")]
struct Show {
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
    /// Directory that contains the system's /sys
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Make the machine start from a disk
///
/// Finds the boot loader on the disk's EFI system partition: the shim of redhat, centos or fedora, in this order; without
/// Secure Boot also their GRUB, or the fallback path. Creates an entry for it or reuses an existing one, puts it first, sets
/// it as the next to start, removes Landfall's entries that lead nowhere, and reads everything back. Other entries and
/// their order do not change. The last step of every installation does the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  set; also if there is nothing to set, as with a BIOS
  1  not set, or the firmware did not retain it; the message says why
  2  wrong usage

Examples:
  landfall boot-order set --dry-run /dev/nvme0n1   # what would change
  landfall boot-order set /dev/sda && systemctl reboot")]
struct Set {
    /// A whole disk with a system on it
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Print what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl BootOrder {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Show(show) => show.run(),
            Command::Set(set) => set.run(),
        }
    }
}

/// What `show --json` prints.
#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    /// `uefi`, or `other` if no boot order is visible.
    firmware: &'static str,
    secure_boot: Option<bool>,
    current: Option<String>,
    next: Option<String>,
    order: Vec<String>,
    entries: Vec<ShownEntry>,
}

/// An entry; an invalid one has an error and nothing else.
#[derive(Debug, Serialize)]
struct ShownEntry {
    number: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Shown {
    fn new(state: Option<&BootState>) -> Self {
        let number = |number: u16| format!("{number:04X}");
        let none = BootState::default();
        let BootState { order, current, next, secure_boot, entries } = state.unwrap_or(&none);
        let entries = entries.iter().map(|(of, entry)| match entry {
            Ok(option) => ShownEntry {
                number: number(*of),
                label: Some(option.label()),
                active: Some(option.is_active()),
                path: Some(option.path_text()),
                error: None,
            },
            Err(error) => ShownEntry {
                number: number(*of),
                label: None,
                active: None,
                path: None,
                error: Some(error.to_string()),
            },
        });
        Self {
            schema: SCHEMA,
            firmware: if state.is_some() { "uefi" } else { "other" },
            secure_boot: *secure_boot,
            current: current.map(number),
            next: next.map(number),
            order: order.iter().copied().map(number).collect(),
            entries: entries.collect(),
        }
    }
}

impl Show {
    fn run(self) -> anyhow::Result<ExitCode> {
        let variables = Variables::open(&self.root);
        let state = variables.as_ref().map(BootState::read).transpose().map_err(BootOrderError::from)?;
        let text = if self.json {
            serde_json::to_string(&Shown::new(state.as_ref()))? + "\n"
        } else {
            state.as_ref().map_or_else(|| NO_UEFI.to_owned(), table)
        };
        print(&text)
    }
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    io::stdout().write_all(text.as_bytes()).context("cannot print the result")?;
    Ok(ExitCode::SUCCESS)
}

fn table(state: &BootState) -> String {
    let one = |number: Option<u16>| number.map_or_else(|| "none".to_owned(), entry_name);
    let secure = match state.secure_boot {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    };
    let mut text = format!(
        "firmware     UEFI, Secure Boot {secure}\nstarted      {}\nnext         {}\norder        {}\n\n",
        one(state.current),
        one(state.next),
        if state.order.is_empty() { "none".to_owned() } else { numbers(&state.order) },
    );
    for line in state.lines() {
        text += &line;
        text.push('\n');
    }
    text
}

impl Set {
    fn run(self) -> anyhow::Result<ExitCode> {
        let cancel = Cancel::default();
        cancel.on_signals().context("cannot wait for signals")?;
        let host = LiveHost { http: HttpConfig::default(), environment: Vec::new(), logs: None, allow_reboot: false };
        let done = set(&host, &self.device, self.dry_run, &cancel)?;
        print(&done_text(&done, self.dry_run))
    }
}

fn done_text(done: &Done, dry_run: bool) -> String {
    match done {
        Done::Uefi { plan, loader } => {
            let mut text = format!("{} starts {}\n", entry_name(plan.number), loader.path);
            for change in &plan.changes {
                text += &format!("{}{change}\n", if dry_run { "would " } else { "" });
            }
            if plan.changes.is_empty() {
                text += "everything was already set\n";
            }
            text
        }
        Done::Bootlist => "the firmware's boot list is set\n".to_owned(),
        Done::Nothing { firmware } => {
            format!("the boot order of {firmware} cannot be set from here; use its own setup\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{esp_partition, machine};
    use super::*;
    use crate::boot_order::LoadOption;

    #[test]
    fn a_table_names_what_is_started() {
        let machine = machine();
        machine.put("BootOrder", &[2, 0, 0, 0]);
        machine.put("Boot0002", &LoadOption::file("Fedora\n", esp_partition(), r"\EFI\fedora\shimx64.efi").to_bytes());
        machine.put("Boot0000", &[0; 7]);
        machine.put("BootCurrent", &[0, 0]);
        machine.put("SecureBoot", &[1]);
        let state = BootState::read(&machine.variables).unwrap();
        assert_eq!(
            table(&state),
            "firmware     UEFI, Secure Boot on\nstarted      Boot0000\nnext         none\norder        0002,0000\n\n\
             Boot0002 Fedora?: HD(2,GPT,04030201-0605-0807-090a-0b0c0d0e0f10,0x1000,0x3f800)/\\EFI\\fedora\\shimx64.efi\n\
             Boot0000 is invalid: its description is not terminated\n"
        );
        let json = serde_json::to_value(Shown::new(Some(&state))).unwrap();
        assert_eq!(json["order"], serde_json::json!(["0002", "0000"]));
        assert_eq!(json["entries"][1]["label"], "Fedora?");
        assert_eq!(json["entries"][0]["error"], "its description is not terminated");
        assert_eq!(serde_json::to_value(Shown::new(None)).unwrap()["firmware"], "other");
    }
}
