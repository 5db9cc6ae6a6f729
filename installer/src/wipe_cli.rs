//! `landfall wipe`: empties a disk.

use anyhow::Context;
use diskwrite::wipe::{self, Level, WipeOptions, WipePlan, WipeProgress, Wiped};
use indicatif::{ProgressBar, ProgressStyle};
use kernel::{Cancel, units::binary};
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Empty a disk, and say what was really done
///
/// Shows what is on the disk and what will be done, then does it. Each level also makes sure, by reading the disk again, that
/// no partition table, file system, RAID, LVM, ZFS or encryption is recognized on it any more:
///
///   signatures  only the magic numbers are zeroed. Seconds. All data is still there, and tools can find it again.
///   discard     the disk is asked to discard everything. Seconds. It promises nothing about the contents.
///   zero        every byte is overwritten, by the disk's own command if it has one that guarantees zeros. Minutes to
///               hours. Blocks that the disk has set aside may keep old contents.
///   secure      the disk erases itself by its own command: NVMe Format with secure erase or Sanitize, or ATA SECURITY
///               ERASE UNIT, enhanced where it can. Seconds to hours; it cannot be stopped, and the power must stay on.
///               Other NVMe namespaces are spared. An ATA disk that loses power meanwhile is locked with the password
///               'landfall' until it is wiped again.
///
/// Disks in use (see --release), the medium this system was booted from, and partitions are refused. Ctrl-C stops: the
/// partition table is gone by then.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "\
Exit codes:
  0  done; with --allow-weaker possibly at a weaker level, which the report gives
  1  refused, failed or incomplete; the message says why and what was written
  2  wrong usage

Examples:
  landfall wipe --dry-run /dev/sdb                     # what would be erased
  landfall wipe /dev/disk/by-id/wwn-0x5000c500a1b2     # to reuse the disk
  landfall wipe --release --dry-run /dev/sdb           # what uses it
  landfall wipe --release /dev/sdb                     # an old server's disk
  landfall wipe --level zero --verify /dev/sdb
  landfall wipe --level secure --allow-weaker nvme0n1   # else zeros
  landfall wipe --level discard --allow-weaker --json /dev/sdb | jq .rungs")]
pub struct Wipe {
    /// A whole disk: its path, name, link, WWN or serial number
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// How far to go
    #[arg(long, value_name = "LEVEL", default_value = "signatures", value_parser = level)]
    level: Level,
    /// First take down idle devices on the disk, from the top: LVM volumes, RAID arrays, unlocked encryption
    ///
    /// Such devices are activated when a system starts, and keep the disk in use. If any of them is mounted, used as swap,
    /// or open in a program, the command says which, and changes nothing. Other disks of a volume or array are not
    /// changed. A multipath device stays; give its name, not one of its paths.
    #[arg(long)]
    release: bool,
    /// Continue with the next weaker level that the disk supports, instead of failing
    #[arg(long)]
    allow_weaker: bool,
    /// Print what is on the disk and what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON on standard output: the report, or with --dry-run the plan
    #[arg(long)]
    json: bool,
    /// After zeroing, read back the whole disk, not only samples
    #[arg(long)]
    verify: bool,
}

fn level(text: &str) -> Result<Level, String> {
    let found = Level::ALL.into_iter().find(|level| level.to_string() == text);
    found.ok_or_else(|| format!("a level is one of {}", Level::ALL.map(|level| level.to_string()).join(", ")))
}

impl Wipe {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let cancel = Cancel::default();
        let options = WipeOptions {
            device: self.disk.clone(),
            level: self.level,
            release: self.release,
            allow_weaker: self.allow_weaker,
            verify_all: self.verify,
            cancel: cancel.clone(),
        };
        let plan = wipe::plan(&options)?;
        if self.dry_run {
            self.print(&plan, &plan.to_string())?;
            let refused = !plan.refusals.is_empty();
            return Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        self.show(&plan);
        cancel.on_signals_in_order().context("cannot wait for signals")?;
        let bar = io::stderr().is_terminal().then(bar);
        let mut show = |progress: WipeProgress| {
            if let Some(bar) = &bar {
                let word = if progress.verifying { "read back" } else { "wiped" };
                bar.set_message(format!("{}, {word}", progress.level));
                bar.set_length(progress.total_bytes);
                bar.set_position(progress.done_bytes);
            }
        };
        let result = wipe::wipe(&options, &mut show);
        if let Some(bar) = &bar {
            bar.finish_and_clear();
        }
        let wiped = result?;
        self.print(&wiped, &report(&wiped, self.level))
    }

    /// The plan of what is about to be done: on standard error, beside the result.
    fn show(&self, plan: &WipePlan) {
        let _ = io::stderr().write_all(plan.to_string().as_bytes());
    }

    fn print(&self, document: &impl Serialize, text: &str) -> anyhow::Result<ExitCode> {
        let text = if self.json { format!("{}\n", serde_json::to_string_pretty(document)?) } else { text.to_owned() };
        io::stdout().write_all(text.as_bytes()).context("cannot print the result")?;
        Ok(ExitCode::SUCCESS)
    }
}

fn report(wiped: &Wiped, asked: Level) -> String {
    let device = wiped.disk.path.display();
    let mut text = match wiped.done() {
        Some(done) if done == asked => format!("{device} is wiped, level {done}\n"),
        Some(done) => format!("{device} is wiped, level {done}, WEAKER than the requested level {asked}\n"),
        None => format!("{device} is not wiped\n"),
    };
    for step in &wiped.taken_down {
        text += &format!("  taken down: {step}\n");
    }
    for rung in &wiped.rungs {
        text += &format!("  {rung}\n");
    }
    for step in wiped.taken_down.iter().filter(|step| !step.also_on.is_empty()) {
        text += &format!(
            "Warning: what was in {} may show again if it is made anew, until {} is wiped too\n",
            step.label(),
            step.also_on.join(", ")
        );
    }
    for span in &wiped.unreadable {
        text += &format!(
            "Warning: {} at byte {} cannot be read; the contents are unknown\n",
            binary(span.len),
            span.offset
        );
    }
    text
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template(kernel::terminal::BAR) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwrite::{
        Geometry,
        probe::{Contents, Span},
        wipe::{Outcome, Rung},
    };

    #[test]
    fn levels_go_by_their_names() {
        <Wipe as clap::Args>::augment_args(clap::Command::new("wipe")).debug_assert();
        for known in Level::ALL {
            assert_eq!(level(&known.to_string()), Ok(known));
        }
        assert!(level("Zero").unwrap_err().contains("signatures, discard, zero, secure"));
    }

    #[test]
    fn a_weaker_level_is_said_aloud() {
        let done = |bytes| Outcome::Done { bytes, verified_bytes: 0, how: None };
        let mut wiped = Wiped {
            schema_version: 1,
            disk: Geometry { path: "/dev/loop9".into(), size_bytes: 4096, sector_bytes: 512 },
            taken_down: Vec::new(),
            found: Contents::default(),
            rungs: vec![
                Rung { level: Level::Discard, outcome: Outcome::Refused { reason: "not supported".to_owned() } },
                Rung { level: Level::Signatures, outcome: done(0) },
            ],
            unreadable: vec![Span { offset: 512, len: 1024 }],
        };
        let expected = "\
/dev/loop9 is wiped, level signatures, WEAKER than the requested level discard
  discard: REFUSED: not supported
  signatures: none is left
Warning: 1 KiB at byte 512 cannot be read; the contents are unknown
";
        assert_eq!(report(&wiped, Level::Discard), expected);
        wiped.rungs = vec![Rung { level: Level::Signatures, outcome: done(2) }];
        assert!(report(&wiped, Level::Signatures).starts_with("/dev/loop9 is wiped, level signatures\n"));
    }
}
