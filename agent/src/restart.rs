//! `landfall agent restart`: what the steps of a certification end this system with.

use anyhow::Context;
use inventory::PowerSwitch;
use kernel::fork;
use serde_json::json;
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

/// Reboot this machine, or cut its power, a moment after this command has ended
///
/// The result is JSON. For a power cut the management controller (BMC) turns the machine off and on again, or resets it where it does not
/// turn it off; nothing is written to disks before.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 it will, 1 it cannot, 2 wrong usage.")]
pub(crate) struct Restart {
    /// Seconds until then: the result must reach the service before
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=api::certify::MAX_SECONDS))]
    after: u64,
    /// Let the management controller cut the power
    #[arg(long)]
    power_cut: bool,
}

impl Restart {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let delay = Duration::from_secs(self.after);
        let result = if self.power_cut {
            let switch = PowerSwitch::find()?;
            // The process has no log; a machine that still runs shows a failure.
            fork::later(delay, || drop(switch.cut())).context("cannot start the process that cuts the power")?;
            json!({"power_cut_in_seconds": self.after})
        } else {
            // The test sd_booted(3) makes.
            let systemd = Path::new("/run/systemd/system").is_dir();
            fork::reboot_later(delay, systemd).context("cannot start the process that reboots")?;
            json!({"restarts_in_seconds": self.after})
        };
        writeln!(io::stdout(), "{result}")?;
        Ok(ExitCode::SUCCESS)
    }
}
