//! `landfall disk`: what a disk can do.

use anyhow::{Context, ensure};
use api::{DiskSpeedCheckRequest, DiskSpeedCheckResponse};
use diskwrite::speed::{self, Contents, DiskSpeed, SpeedError, SpeedOptions, SpeedProgress, WriterSpeed};
use indicatif::{ProgressBar, ProgressStyle};
use kernel::Cancel;
use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// What `timeout` of coreutils says, and the service hears.
const EXIT_TIMEOUT: u8 = 124;
/// -1, which the service hears of a disk that could not be measured (docs/compatibility.md#installation-disk-speed-check).
const EXIT_NOT_MEASURED: u8 = 255;
/// A path and no more.
const MAX_REQUEST_BYTES: u64 = 64 << 10;
/// etcd's own advice, and where the service warns.
const ETCD_MS: u64 = 10;

/// Look at a disk
#[derive(Debug, clap::Args)]
pub struct Disk {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Speed(Speed),
}

impl Disk {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Speed(speed) => speed.run(),
        }
    }
}

/// Measure how long a disk takes to flush small writes: is it fast enough for etcd?
///
/// Writes 22 MiB in blocks of 2300 bytes, each followed by fdatasync, from two writers at once, like etcd's own test with
/// fio, and shows the 99th percentile of fdatasync's time: etcd needs 10 ms at most. The disk's contents are held in memory
/// and put back afterwards, also after an error, Ctrl-C or a timeout. Only SIGKILL or a power cut leaves the start of the
/// disk, with its partition table, overwritten. Disks in use are refused; idle volumes and arrays on them do not count as use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0    measured, however slow
  1    not measured: refused, failed, or stopped; the message says why
  2    wrong usage
  124  took longer than --timeout
  255  with --request: not measured

Examples:
  landfall disk speed /dev/sdb                   # a disk that is not in use
  landfall disk speed /var/lib/etcd/speed-test   # the disk below a file
  landfall disk speed --json /dev/sdb | jq .io_sync_duration_ms
  landfall disk speed --request request.json --json

A request is {\"path\": \"/dev/disk/by-id/…\"}; the answer has the service's form, {\"io_sync_duration\", \"path\"}.
The same with fio, which puts nothing back:
  fio --name=test --rw=write --ioengine=sync --size=22m --bs=2300 --fdatasync=1 --filename=…")]
pub struct Speed {
    /// A whole disk that is not in use, or a regular file
    #[arg(value_name = "DEVICE", required_unless_present = "request", conflicts_with = "request")]
    path: Option<PathBuf>,
    /// A service's request; '-' is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "480", value_parser = seconds)]
    timeout: Duration,
    /// Bytes each writer writes, from the start of the disk, such as 22MiB or 22m
    #[arg(long, value_name = "SIZE", default_value = "22MiB", value_parser = kernel::units::parse)]
    size: u64,
    /// Bytes of one write
    #[arg(long, value_name = "BYTES", default_value_t = 2300)]
    block: u32,
    /// Writers at once, all on the same range
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    writers: u32,
    /// Do not restore the overwritten contents
    #[arg(long)]
    no_restore: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl Speed {
    fn run(self) -> anyhow::Result<ExitCode> {
        let (path, request) = match (&self.path, &self.request) {
            (Some(path), _) => (path.clone(), None),
            (None, Some(file)) => {
                let request = read_request(file)?;
                (PathBuf::from(&request.path), Some(request))
            }
            (None, None) => anyhow::bail!("give a disk or a request"),
        };
        let cancel = Cancel::default();
        cancel.on_signals_in_order().context("cannot wait for signals")?;
        let options = SpeedOptions {
            size_bytes: self.size,
            block_bytes: self.block,
            writers: self.writers,
            timeout: self.timeout,
            restore: !self.no_restore,
            cancel: cancel.clone(),
            ..SpeedOptions::new(path)
        };
        let bar = io::stderr().is_terminal().then(bar);
        let mut show = |progress: SpeedProgress| {
            if let Some(bar) = &bar {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
            }
        };
        let result = speed::measure(&options, &mut show);
        if let Some(bar) = &bar {
            bar.finish_and_clear();
        }
        match (result, request) {
            (Ok(speed), None) => self.print(&speed),
            (Ok(speed), Some(request)) => {
                answer(request, speed.io_sync_duration_ms)?;
                Ok(ExitCode::SUCCESS)
            }
            (Err(error @ SpeedError::Timeout { .. }), _) => {
                say(&error.into());
                Ok(ExitCode::from(EXIT_TIMEOUT))
            }
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(request)) => {
                // The service looks for the start of this text.
                let text = format!("Could not get I/O performance for path {}", request.path);
                let error = if matches!(error, SpeedError::Write { .. }) {
                    anyhow::Error::from(error)
                } else {
                    anyhow::Error::from(error).context(text)
                };
                say(&error);
                answer(request, 0)?;
                Ok(ExitCode::from(EXIT_NOT_MEASURED))
            }
        }
    }

    fn print(&self, speed: &DiskSpeed) -> anyhow::Result<ExitCode> {
        let text = if self.json { serde_json::to_string(speed)? + "\n" } else { table(speed) };
        io::stdout().write_all(text.as_bytes()).context("cannot print the result")?;
        Ok(ExitCode::SUCCESS)
    }
}

fn read_request(path: &Path) -> anyhow::Result<DiskSpeedCheckRequest> {
    let mut text = String::new();
    let reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("cannot open the request {}", path.display()))?)
    };
    reader.take(MAX_REQUEST_BYTES).read_to_string(&mut text).context("cannot read the request")?;
    let request: DiskSpeedCheckRequest =
        serde_json::from_slice(text.as_bytes()).context("the request is not a JSON object with a path")?;
    ensure!(!request.path.is_empty(), "the path in the request is empty");
    Ok(request)
}

fn answer(request: DiskSpeedCheckRequest, io_sync_duration: u64) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(&DiskSpeedCheckResponse { io_sync_duration, path: request.path })?;
    line.push('\n');
    io::stdout().write_all(line.as_bytes()).context("cannot print the result")
}

fn say(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "{error:#}");
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("measuring [{wide_bar}] {percent}% {pos}/{len} flushes, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}

fn table(speed: &DiskSpeed) -> String {
    let verdict = if speed.io_sync_duration_ms <= ETCD_MS { "fast enough for" } else { "too slow for" };
    let mut text = format!(
        "{}: fdatasync takes {} ms at the 99th percentile, {verdict} etcd (at most {ETCD_MS} ms)\n\n{:10}{:>11}{:>11}{:>11}{:>11}{:>11}  ms\n",
        speed.path.display(),
        speed.io_sync_duration_ms,
        "",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max"
    );
    for (number, writer) in speed.writers.iter().enumerate() {
        let WriterSpeed { p50_ns, p90_ns, p99_ns, p999_ns, max_ns, writes, bytes, elapsed_ms } = writer;
        let columns: String = [p50_ns, p90_ns, p99_ns, p999_ns, max_ns].map(|ns| format!("{:>11}", ms(*ns))).concat();
        text += &format!(
            "writer {:<3}{columns}  {writes} writes, {}, {} s\n",
            number + 1,
            kernel::units::binary(*bytes),
            elapsed_ms / 1000
        );
    }
    if speed.failed_writers > 0 {
        text += &format!("{} writers failed; see the log\n", speed.failed_writers);
    }
    text += match speed.contents {
        Contents::Restored => "\nThe disk's contents are restored.\n",
        Contents::Overwritten => "\nThe measured range is overwritten.\n",
    };
    text
}

/// With three decimals.
fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_fraction() {
        assert_eq!(seconds("480.00"), Ok(Duration::from_secs(480)));
        for bad in ["", "-1", "NaN", "inf", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_result_is_shown_with_its_verdict() {
        let writer = WriterSpeed {
            p50_ns: 120_832,
            p90_ns: 1_187_840,
            p99_ns: 12_500_000,
            p999_ns: 69_730_304,
            max_ns: 222_721_919,
            writes: 10_029,
            bytes: 23_066_700,
            elapsed_ms: 32_999,
        };
        let mut speed = DiskSpeed {
            schema_version: 1,
            path: "/dev/loop9".into(),
            size_bytes: 22 << 20,
            block_bytes: 2300,
            io_sync_duration_ms: 12,
            writers: vec![writer],
            failed_writers: 0,
            elapsed_ms: 33_000,
            contents: Contents::Restored,
        };
        let text = table(&speed);
        assert!(
            text.starts_with("/dev/loop9: fdatasync takes 12 ms at the 99th percentile, too slow for etcd"),
            "{text}"
        );
        assert!(
            text.contains("writer 1        0.120      1.187     12.500     69.730    222.721  10029 writes"),
            "{text}"
        );
        assert!(text.ends_with("contents are restored.\n"));
        speed.io_sync_duration_ms = 10;
        assert!(table(&speed).contains("fast enough"));
    }
}
