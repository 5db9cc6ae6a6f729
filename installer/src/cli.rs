//! `landfall install`.

use crate::{
    args::NETWORK_DIR,
    cancel::Cancel,
    display::Display,
    document::Document,
    flow::{self, Pace},
    host::{LiveHost, lock},
    plan::{Image, ImageWrite, plan},
};
use anyhow::Context;
use api::http::HttpConfig;
use serde::Serialize;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Held by the role flow, so that two agents never install at once.
const LOCK_FILE: &str = "/run/landfall-install.lock";
/// What a container engine answers for a name in use; the service knows it and lets it pass.
const EXIT_ALREADY_RUNNING: u8 = 125;

/// Install an image to a disk, or carry out a service's install request
///
/// The disk's contents are destroyed. Its first MiB, with the partition table, is written last, and cleared again when
/// anything fails or a signal stops the command: a half-written disk does not boot.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0    installed (or the plan was printed)
  1    failed; the message says what is on the disk: untouched, cleared of its partition table, or kept as asked
  2    wrong usage
  125  with --request: another installation is running

Examples:
  landfall install --image-file fedora-coreos.raw.xz --ignition-file host.ign /dev/sdb
  landfall install -u http://10.0.0.1/coreos.raw.gz -i host.ign --append-karg console=ttyS0 /dev/disk/by-id/wwn-0x5000c500a
  landfall install --dry-run --request request.json

A request is {\"request\": {…}, \"service\": {\"url\", \"token\", \"ca_cert\", \"insecure\", \"agent_version\"}, \
\"reboot\": false, \"reboot_delay_seconds\": 10} with the service's install_cmd_request as \"request\".")]
pub struct Install {
    /// The disk to install to: a device node or a stable link to one
    #[arg(value_name = "DEVICE", required_unless_present = "request", conflicts_with = "request")]
    device: Option<PathBuf>,
    /// Image to fetch by http or https: raw, gzip, xz or zstd
    #[arg(short = 'u', long, value_name = "URL", required_unless_present_any = ["request", "image_file"], conflicts_with_all = ["request", "image_file"])]
    image_url: Option<String>,
    /// Image file: raw, gzip, xz or zstd; '-' is standard input
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "request")]
    image_file: Option<PathBuf>,
    /// Ignition config for the first boot
    #[arg(short = 'i', long, visible_alias = "ignition", value_name = "FILE", conflicts_with = "request")]
    ignition_file: Option<PathBuf>,
    /// Kernel argument to add; may be repeated
    #[arg(long, value_name = "ARG", conflicts_with = "request")]
    append_karg: Vec<String>,
    /// Kernel argument to remove; may be repeated
    #[arg(long, value_name = "ARG", conflicts_with = "request")]
    delete_karg: Vec<String>,
    /// Copy this system's NetworkManager profiles to the installed one
    #[arg(short = 'n', long, conflicts_with = "request")]
    copy_network: bool,
    /// Where --copy-network finds the profiles
    #[arg(long, value_name = "DIR", default_value = NETWORK_DIR, conflicts_with = "request")]
    network_dir: PathBuf,
    /// Don't warn that the image's signature is not checked (this version checks none)
    #[arg(long, conflicts_with = "request")]
    insecure: bool,
    /// PEM bundle trusted for https in addition to the system's roots
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    cacert: Option<PathBuf>,
    /// Keep what was written when something fails, instead of clearing the partition table
    #[arg(long, conflicts_with = "request")]
    preserve_on_error: bool,
    /// Carry out a service's install request from a JSON file, or from standard input with '-'
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Print JSON on standard output: one progress event a line, or with --dry-run the plan
    #[arg(long)]
    json: bool,
    /// Print what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl Install {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match &self.request {
            Some(request) => self.run_request(request),
            None => self.run_disk(),
        }
    }

    fn run_request(&self, path: &Path) -> anyhow::Result<ExitCode> {
        let document = Document::read(path)?;
        if self.dry_run {
            let plan = plan(&document.request, document.reboot, document.reboot_delay())?;
            return self.print(&plan, &plan.to_string());
        }
        let Some(lock) = lock(Path::new(LOCK_FILE))? else {
            tracing::error!(
                "another installation is running on this host (in the service's words: the container name \
                 \"assisted-installer\" is already in use)"
            );
            return Ok(ExitCode::from(EXIT_ALREADY_RUNNING));
        };
        let cancel = self.cancel_on_signals()?;
        let host = LiveHost { http: document.service.http(), allow_reboot: document.reboot };
        let mut display = Display::new(self.json);
        flow::run(&document, &host, &cancel, Pace::default(), &mut |event| display.show(event))?;
        if document.reboot {
            // Whatever the service asks for until the reboot comes, the new disk is not touched again: the process that
            // waits to reboot shares the lock, which dropping it here would release.
            std::mem::forget(lock);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn run_disk(&self) -> anyhow::Result<ExitCode> {
        let write = self.image_write()?;
        let ignition = self.ignition_file.as_ref().map(|path| {
            std::fs::read(path).with_context(|| format!("cannot read the Ignition config {}", path.display()))
        });
        let ignition = ignition.transpose()?;
        let http = HttpConfig { ca_cert: self.cacert.clone(), insecure: false };
        let host = LiveHost { http, allow_reboot: false };
        if self.dry_run {
            let plan = diskwrite::plan(&host.options(&write, ignition.as_deref(), &Cancel::default()))?;
            self.print(&plan, &plan.to_string())?;
            return Ok(if plan.is_refused() { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        if !self.insecure {
            tracing::warn!("the image's signature is not checked by this version; --insecure says that this is known");
        }
        let cancel = self.cancel_on_signals()?;
        let mut display = Display::new(self.json);
        let mut show = |event: &diskwrite::Event| display.show(event);
        flow::write_disk(&host, &write, ignition.as_deref(), &cancel, Pace::default(), &mut show)?;
        if !self.json {
            let _ = writeln!(io::stderr(), "Install complete.");
        }
        Ok(ExitCode::SUCCESS)
    }

    fn image_write(&self) -> anyhow::Result<ImageWrite> {
        let image = match (&self.image_url, &self.image_file) {
            (Some(url), _) => Image::Url(url.clone()),
            (None, Some(path)) if path == Path::new("-") => Image::Stdin,
            (None, Some(path)) => Image::File(path.clone()),
            (None, None) => anyhow::bail!("no image: give --image-url or --image-file"),
        };
        Ok(ImageWrite {
            device: self.device.clone().context("no disk to install to")?,
            image,
            append_kargs: self.append_karg.clone(),
            delete_kargs: self.delete_karg.clone(),
            network_dir: self.copy_network.then(|| self.network_dir.clone()),
            preserve_on_error: self.preserve_on_error,
            // Whoever sits in front of it can see the cause and try again.
            attempts: 1,
        })
    }

    fn cancel_on_signals(&self) -> anyhow::Result<Cancel> {
        let cancel = Cancel::default();
        cancel.on_signals().context("cannot wait for signals")?;
        Ok(cancel)
    }

    fn print(&self, plan: &impl Serialize, text: &str) -> anyhow::Result<ExitCode> {
        let text = if self.json { format!("{}\n", serde_json::to_string_pretty(plan)?) } else { text.to_owned() };
        match io::stdout().write_all(text.as_bytes()) {
            // Whoever read it has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            result => Ok(result.map(|()| ExitCode::SUCCESS)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches, error::ErrorKind};

    fn parse(args: &[&str]) -> Result<Install, clap::Error> {
        let command = Install::augment_args(Command::new("install"));
        let matches = command.try_get_matches_from(std::iter::once(&"install").chain(args))?;
        Install::from_arg_matches(&matches)
    }

    #[test]
    fn the_flags_are_those_of_coreos_installer() {
        Install::augment_args(Command::new("install")).debug_assert();
        let install = parse(&[
            "-u",
            "http://h/i.raw.xz",
            "-i",
            "/h.ign",
            "--append-karg",
            "a=b",
            "--append-karg",
            "c",
            "--delete-karg",
            "quiet",
            "-n",
            "--insecure",
            "--preserve-on-error",
            "/dev/loop9",
        ]);
        let write = install.unwrap().image_write().unwrap();
        let expected = ImageWrite {
            device: "/dev/loop9".into(),
            image: Image::Url("http://h/i.raw.xz".into()),
            append_kargs: vec!["a=b".into(), "c".into()],
            delete_kargs: vec!["quiet".into()],
            network_dir: Some(NETWORK_DIR.into()),
            preserve_on_error: true,
            attempts: 1,
        };
        assert_eq!(write, expected);
        let write =
            parse(&["--ignition", "/h.ign", "-f", "-", "--network-dir", "/nm", "/dev/loop9"]).unwrap().image_write();
        let write = write.unwrap();
        assert_eq!((write.image, write.network_dir), (Image::Stdin, None));
    }

    #[test]
    fn a_disk_needs_an_image_and_a_request_neither() {
        let kind = |args: &[&str]| parse(args).unwrap_err().kind();
        assert_eq!(kind(&[]), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind(&["/dev/loop9"]), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind(&["-f", "/i"]), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind(&["-f", "/i", "-u", "http://h", "/dev/loop9"]), ErrorKind::ArgumentConflict);
        assert_eq!(kind(&["--request", "-", "/dev/loop9"]), ErrorKind::ArgumentConflict);
        assert_eq!(kind(&["--request", "-", "-f", "/i"]), ErrorKind::ArgumentConflict);
        assert!(parse(&["--request", "-", "--dry-run", "--json"]).is_ok());
    }
}
