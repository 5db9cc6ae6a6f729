//! Installing to one disk by hand.

use super::{Install, Voice, config::InstallConfig};
use crate::{
    ignition_source::{self, Form, IgnitionSourceError},
    source,
};
use diskwrite::{
    DecodeError, DiskError, DiskState, Failure, ImageError, InstallError, InstallOptions, Use, VerifyError,
};
use kernel::Cancel;
use kernel::order;
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

impl Install {
    pub(super) fn run_disk(&self, voice: Voice) -> anyhow::Result<ExitCode> {
        let mut options = self.config.options()?;
        let cancel = if self.dry_run { Cancel::default() } else { self.cancel_on_signals()? };
        options.cancel = cancel.clone();
        options.ignition = self.ignition(&options, &cancel)?;
        let form = options.ignition.as_deref().map(ignition_source::form).transpose()?;
        if form == Some(Form::Butane) && voice == Voice::Landfall {
            tracing::warn!(
                "the config is Butane and is stored as it is: the image needs Ignition 2.27 or newer to read it"
            );
        }
        // Before anything is said of the image, as coreos-installer does.
        diskwrite::check_filters(&options)?;
        let origin = source::choose(&self.config.choice(), &mut options)?;
        if self.dry_run {
            let plan = diskwrite::plan(&options)?;
            self.print(&plan, &plan.to_string())?;
            return Ok(if plan.is_refused() { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        if voice == Voice::CoreosInstaller {
            say(&origin);
        } else if self.has_bar() {
            // The others are of a signature, which may not be needed.
            origin.lines().take(1).for_each(say);
        }
        let mut display = self.display();
        let result = diskwrite::install(&options, &mut |event| display.show(&event));
        if let Err(error) = &result {
            display.failed(error);
        }
        display.close();
        match result {
            Ok(_) => say("Install complete."),
            Err(error) if voice == Voice::CoreosInstaller => return Err(error.into()),
            Err(error) if cancel.is_cancelled() => {
                return Err(anyhow::Error::new(error).context("cancelled by a signal while writing the disk"));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn ignition(&self, options: &InstallOptions, cancel: &Cancel) -> Result<Option<Vec<u8>>, IgnitionSourceError> {
        let InstallConfig { ignition_file, ignition_url, insecure_ignition, .. } = &self.config;
        let hash = options.ignition_hash.as_deref();
        match (ignition_file, ignition_url) {
            (Some(path), _) => ignition_source::read(path).map(Some),
            (None, Some(url)) => {
                let (http, retries) = (&options.http, options.retries);
                ignition_source::fetch(url, hash, *insecure_ignition, http, retries, cancel).map(Some)
            }
            (None, None) => Ok(None),
        }
    }
}

/// Not eprintln, which panics if the reader is gone.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// coreos-installer names what failed; when the disk was written to already it does so at once, and ends with a general word.
/// It lists the users of a disk apart from the error, in lines that people look for.
pub(super) fn in_its_words(error: InstallError) -> anyhow::Error {
    let preserved = matches!(error.disk, DiskState::Kept | DiskState::KeptBeside { .. });
    let words = its_words(&error.cause);
    if matches!(error.disk, DiskState::Untouched) {
        if let Failure::Disk(DiskError::InUse { uses, .. }) = &*error.cause {
            say(&in_use(&error.device, uses));
            let context = format!("checking for exclusive access to {}", error.device.display());
            return anyhow::anyhow!("found busy partitions").context(context);
        }
        return with(anyhow::Error::new(*error.cause), words);
    }
    say(&format!("\nError: {:?}\n", with(anyhow::Error::new(error), words)));
    if preserved {
        say("Preserving partition table as requested");
    }
    anyhow::anyhow!("install failed")
}

fn with(error: anyhow::Error, words: Option<String>) -> anyhow::Error {
    match words {
        Some(words) => error.context(words),
        None => error,
    }
}

/// What it says of a bad image (docs/compatibility.md#image-checks): lines that people look for.
fn its_words(failure: &Failure) -> Option<String> {
    match failure {
        Failure::Image(ImageError::TooShort { .. }) => Some("decoding first MiB of image".to_owned()),
        Failure::Image(ImageError::SectorSize { image, disk }) => {
            Some(format!("source has sector size {image} but destination has sector size {disk}"))
        }
        Failure::Source(DecodeError::Trailing { .. }) => Some("found trailing data after compressed stream".to_owned()),
        Failure::Source(DecodeError::Verify(error)) if !matches!(error, VerifyError::Sha256 { .. }) => {
            Some("GPG verification failure".to_owned())
        }
        _ => None,
    }
}

/// A disk's uses in coreos-installer's lines (docs/compatibility.md#busy-disks), by name of the partition.
fn in_use(device: &Path, uses: &[Use]) -> String {
    let line = |used: &Use| match used {
        Use::Mounted { device, at } => format!("/dev/{device} mounted on {}", at.display()),
        Use::Swap { device } => format!("/dev/{device} is swap device"),
        Use::Held { device, by } | Use::Loop { device, by, .. } => format!("/dev/{device} in use by /dev/{by}"),
        Use::Member { device, file_system } => format!("/dev/{device} in use by {file_system}"),
    };
    let mut uses: Vec<_> = uses.iter().collect();
    order::sort_by_key(&mut uses, |used| used.device());
    uses.iter()
        .fold(format!("Partitions in use on {}:", device.display()), |text, used| format!("{text}\n    {}", line(used)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwrite::Format;

    fn in_use_by(uses: Vec<Use>, disk: DiskState) -> InstallError {
        let cause = Failure::from(DiskError::InUse { path: "/dev/sdb".into(), uses });
        InstallError { device: "/dev/disk/by-id/b".into(), disk, cause: Box::new(cause) }
    }

    #[test]
    fn users_of_a_disk_are_listed_in_coreos_installers_lines() {
        let uses = [
            Use::Held { device: "sdb2".into(), by: "dm-4 (vg0-root)".into() },
            Use::Swap { device: "sdb10".into() },
            Use::Mounted { device: "sdb1".into(), at: "/mnt/a b".into() },
            Use::Mounted { device: "sdb1".into(), at: "/home".into() },
        ];
        let expected = "\
Partitions in use on /dev/disk/by-id/b:
    /dev/sdb1 mounted on /mnt/a b
    /dev/sdb1 mounted on /home
    /dev/sdb10 is swap device
    /dev/sdb2 in use by /dev/dm-4 (vg0-root)";
        assert_eq!(in_use("/dev/disk/by-id/b".as_ref(), &uses), expected);
    }

    #[test]
    fn an_image_that_is_no_good_is_said_to_be_in_its_words_too() {
        let text = |cause: Failure| {
            let disk = DiskState::Untouched;
            let error = InstallError { device: "/dev/sdb".into(), disk, cause: Box::new(cause) };
            format!("{:#}", in_its_words(error))
        };
        let table: [(Failure, &str); 4] = [
            (ImageError::TooShort { bytes: 9 }.into(), "decoding first MiB of image: the image has 9 bytes, "),
            (
                ImageError::SectorSize { image: 512, disk: 4096 }.into(),
                "source has sector size 512 but destination has sector size 4096: the image is for",
            ),
            (
                DecodeError::Trailing { format: Format::Gzip, offset: 7 }.into(),
                "found trailing data after compressed stream: the gzip image ends at byte 7",
            ),
            (
                DecodeError::Verify(VerifyError::NoSignature { at: "x.sig".into(), source: None }).into(),
                "GPG verification failure: x.sig contains no detached signature",
            ),
        ];
        for (failure, start) in table {
            let text = text(failure);
            assert!(text.starts_with(start), "{text}");
        }
    }

    #[test]
    fn a_disk_in_use_is_an_error_in_coreos_installers_words() {
        let used = || vec![Use::Swap { device: "sdb1".into() }];
        let error = in_its_words(in_use_by(used(), DiskState::Untouched));
        assert_eq!(format!("{error:#}"), "checking for exclusive access to /dev/disk/by-id/b: found busy partitions");
        assert_eq!(format!("{:#}", in_its_words(in_use_by(used(), DiskState::Cleared))), "install failed");
    }
}
