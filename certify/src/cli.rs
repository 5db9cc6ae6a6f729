//! The commands that need no service.

use crate::{
    export::{self, Form},
    plan,
    sign::{MAX_TEXT, PublicKey, SecretKey},
    verify::{Check, State, Verified, verify},
};
use anyhow::Context;
use inventory::report::printable;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use serde::Serialize;
use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, IsTerminal, Read, Write, stdin, stdout},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Exit code for an archive that is not as it was signed.
const BAD: u8 = 3;
/// Stands for standard output.
const STDOUT: &str = "-";

#[derive(Clone, Debug, clap::Subcommand)]
pub enum Offline {
    Verify(Verify),
    Export(Export),
    Key(Key),
    Init(Init),
}

/// Verify an archive: its form, every file, the signature, and that the verdicts follow from the steps
///
/// Works anywhere, without a service. One altered byte makes it fail. Without --key or --key-file the signer is not checked,
/// and the exit code is 1. `minisign -Vm manifest.json` checks the signature in the unpacked archive.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Exit codes: 0 verified, 1 no key or another error, 2 wrong usage, 3 altered, of another signer, or wrong verdicts.

Examples:
  landfall certify verify rack-7.tar --key-file lab.key.pub
  landfall certify verify rack-7.tar \\
    --key RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3
  landfall certify verify rack-7.tar --key-file lab.key.pub --json | \\
    jq -r .verdict")]
pub struct Verify {
    /// The archive
    file: PathBuf,
    #[command(flatten)]
    key: Trusted,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Clone, Debug)]
struct Trusted {
    /// The tester's public key, as minisign writes it
    #[arg(long, value_name = "KEY", conflicts_with = "key_file")]
    key: Option<PublicKey>,
    /// A file of that key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// Export an archive as an HTML page, CycloneDX or OCP Test & Validation
///
/// The archive is verified first; an altered one is refused. html is one page with a section for each host. cyclonedx is a
/// bill of materials of the hardware (CycloneDX 1.6). ocptv is the output of OCP Test & Validation 2.0: JSON lines for one
/// host.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Exit codes: 0 written, 1 failure, 2 wrong usage.

Examples:
  landfall certify export rack-7.tar --as html -o rack-7.html
  landfall certify export rack-7.tar --as cyclonedx | jq '.components[].name'
  landfall certify export rack-7.tar --as ocptv --host CZ1234 > CZ1234.jsonl")]
pub struct Export {
    /// The archive
    file: PathBuf,
    /// The form: ocptv, cyclonedx or html
    #[arg(long = "as", value_name = "FORM")]
    form: Form,
    /// Only the host with this serial number; required for ocptv if the archive has several
    #[arg(long, value_name = "SERIAL")]
    host: Option<String>,
    /// Where to write; otherwise standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    key: Trusted,
}

/// Create the key that signs archives
///
/// Writes the secret key to FILE, which only its owner may read, and the public key to FILE.pub. Both are minisign's. The
/// password is asked on the terminal.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Exit codes: 0 written, 1 failure, 2 wrong usage. No file is overwritten.

Examples:
  landfall certify key --generate lab.key
  landfall certify key --generate lab.key --password-file /run/secrets/lab")]
pub struct Key {
    /// The file of the new secret key
    #[arg(long, value_name = "FILE")]
    generate: PathBuf,
    /// The file whose first line is the password
    #[arg(long, value_name = "FILE", conflicts_with = "no_password")]
    password_file: Option<PathBuf>,
    /// Do not encrypt the key
    #[arg(long)]
    no_password: bool,
}

/// Write an example plan
///
/// It has every step, with comments. No file is overwritten.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Exit codes: 0 written, 1 failure, 2 wrong usage.

Examples:
  landfall certify init rack-7.toml
  landfall certify init - | less")]
pub struct Init {
    /// The file; - is standard output
    #[arg(default_value = "certify.toml")]
    file: PathBuf,
}

impl Offline {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Verify(command) => command.run(),
            Self::Export(command) => command.run(),
            Self::Key(command) => command.run(),
            Self::Init(command) => command.run(),
        }
    }
}

/// What `verify --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    /// Whether all is good, the key included.
    is_verified: bool,
    /// Of the run, if the archive is good.
    verdict: Option<crate::result::Verdict>,
    run: Option<&'a str>,
    key: Option<String>,
    checks: &'a [Check],
}

impl Verify {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let trusted = self.key.read()?;
        let verified = open(&self.file, trusted.as_ref())?;
        print(&match self.json {
            true => {
                let document = Document {
                    schema_version: 1,
                    is_verified: !verified.is_bad() && trusted.is_some(),
                    verdict: verified.run.as_ref().map(|run| run.verdict),
                    run: verified.run.as_ref().map(|run| run.id.as_str()),
                    key: verified.key.map(|key| key.to_string()),
                    checks: &verified.checks,
                };
                serde_json::to_string(&document)? + "\n"
            }
            false => table(&verified),
        })?;
        if verified.is_bad() {
            return Ok(ExitCode::from(BAD));
        }
        anyhow::ensure!(
            trusted.is_some(),
            "the signer was not checked: give the tester's public key with --key or --key-file"
        );
        Ok(ExitCode::SUCCESS)
    }
}

fn table(verified: &Verified) -> String {
    let columns = kernel::terminal::line_columns();
    let mut text = String::new();
    for check in &verified.checks {
        let state = match check.state {
            State::Good => "ok",
            State::NotChecked => "not checked",
            State::Bad => "BAD",
        };
        let head = format!("{:<12} {:<12} ", check.name, state);
        text += &kernel::wrapped(&head, &printable(&check.detail), head.len(), columns);
    }
    text
}

impl Export {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let verified = open(&self.file, self.key.read()?.as_ref())?;
        if let Some(check) = verified.checks.iter().find(|check| check.state == State::Bad) {
            anyhow::bail!(
                "{} is not as it was signed: {}: {}",
                self.file.display(),
                check.name,
                printable(&check.detail)
            );
        }
        let text = export::export(&verified, self.form, self.host.as_deref())?;
        match &self.output {
            Some(path) => {
                std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => print(&text)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Key {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let key = SecretKey::generate()?;
        // Before the password is asked for: a file that exists must not cost the user one.
        let path = &self.generate;
        let mut public = path.clone().into_os_string();
        public.push(".pub");
        let public = PathBuf::from(public);
        for path in [path, &public] {
            anyhow::ensure!(
                !path.exists(),
                "{} exists, and no key is overwritten: choose another name",
                path.display()
            );
        }
        let password = match (&self.password_file, self.no_password) {
            (_, true) => None,
            (Some(path), _) => Some(password_of(path)?),
            (None, _) => {
                let first = ask("Password of the new key: ")?;
                anyhow::ensure!(ask("Once more: ")? == first, "the passwords differ: nothing was written");
                Some(first)
            }
        };
        anyhow::ensure!(
            password.as_ref().is_none_or(|password| !password.is_empty()),
            "the password is empty: --no-password writes a key that is not encrypted"
        );
        create(path, 0o600, &key.to_text(password.as_deref())?)?;
        create(&public, 0o644, &key.public().to_text())?;
        print(&format!("{}\n", key.public()))?;
        tracing::info!("{} signs, {} verifies", path.display(), public.display());
        Ok(ExitCode::SUCCESS)
    }
}

impl Init {
    fn run(&self) -> anyhow::Result<ExitCode> {
        match self.file.as_os_str() == STDOUT {
            true => print(plan::EXAMPLE)?,
            false => create(&self.file, 0o644, plan::EXAMPLE)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Trusted {
    fn read(&self) -> anyhow::Result<Option<PublicKey>> {
        match &self.key_file {
            Some(path) => {
                let text = short_text(path)?;
                text.parse().map(Some).with_context(|| format!("{} cannot be used", path.display()))
            }
            None => Ok(self.key),
        }
    }
}

fn open(path: &Path, trusted: Option<&PublicKey>) -> anyhow::Result<Verified> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(verify(&mut BufReader::with_capacity(1 << 20, file), trusted))
}

/// The key to sign with. Its password is the first line of `password_file`, or asked on the terminal.
pub fn secret_key(path: &Path, password_file: Option<&Path>) -> anyhow::Result<SecretKey> {
    let text = short_text(path)?;
    let mut failed = None;
    let key = SecretKey::parse(&text, &mut || {
        let password = match password_file {
            Some(path) => password_of(path),
            None => ask(&format!("Password of {}: ", path.display())),
        };
        password.map_err(|error| {
            failed = Some(error);
            io::ErrorKind::Other.into()
        })
    });
    match failed {
        Some(error) => Err(error),
        None => key.with_context(|| format!("cannot use the key {}", path.display())),
    }
}

fn short_text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_TEXT).read_to_string(&mut text));
    read.map(|_| text).with_context(|| format!("cannot read {}", path.display()))
}

fn password_of(path: &Path) -> anyhow::Result<String> {
    Ok(short_text(path)?.lines().next().unwrap_or_default().to_owned())
}

/// Asks on the terminal, without showing what is typed.
fn ask(prompt: &str) -> anyhow::Result<String> {
    let input = stdin();
    anyhow::ensure!(input.is_terminal(), "no terminal to ask for the password: give it with --password-file");
    io::stderr().write_all(prompt.as_bytes())?;
    let before = tcgetattr(&input)?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&input, SetArg::TCSAFLUSH, &silent)?;
    let mut line = String::new();
    let read = input.read_line(&mut line);
    tcsetattr(&input, SetArg::TCSAFLUSH, &before)?;
    io::stderr().write_all(b"\n")?;
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn create(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        anyhow::bail!("{} exists, and no file is overwritten: choose another name", path.display());
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot print")
}

#[cfg(test)]
mod tests;
