//! What to bake in, from the command line and the files it names.

use super::content::{Content, Ingredients, RENDEZVOUS_DIR, Service};
use super::program::{self, Program};
use anyhow::{Context, bail, ensure};
use api::{InfraEnvId, Secret};
use clap::Args;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Maximum size of a rack plan, which is held in memory here and on every machine.
const MAX_PLAN_BYTES: u64 = 64 << 20;
/// Maximum size of any other file.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum depth of a plan's directory.
const MAX_DEPTH: usize = 8;

/// Where the service of a plan keeps its records on the machine.
const STATE_DIR: &str = "/var/lib/landfall/service";

/// Their group in the help.
pub(crate) const CONTENT: &str = "Content";

/// What to bake in. By default the running program and its units, for hosts that get their service from kernel arguments, firmware,
/// or an Ignition config embedded later.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = CONTENT)]
pub struct OverlayOptions {
    /// Static landfall for the live system's processor [default: the
    /// landfall-host installed with this program, else this program; with
    /// --rendezvous always this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// URL of the service that agents report to
    #[arg(long, value_name = "URL", requires = "infra_env_id")]
    url: Option<String>,
    /// Infra-env in which hosts are discovered
    #[arg(long, value_name = "UUID", requires = "url")]
    infra_env_id: Option<InfraEnvId>,
    /// File with the agents' token
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// CA certificates (PEM) that verify the service's certificate
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Agent configuration, for /etc/landfall/agent.toml
    #[arg(long, value_name = "agent.toml", conflicts_with = "no_agent")]
    config: Option<PathBuf>,
    /// Directory with the plan of a rack with nothing else around: see `landfall serve --help`
    #[arg(long, value_name = "DIR")]
    rendezvous: Option<PathBuf>,
    /// Further options of the rendezvous host's `landfall serve`
    #[arg(long, value_name = "TEXT", requires = "rendezvous")]
    rendezvous_options: Option<String>,
    /// Bake in the program without starting an agent at boot
    #[arg(long, conflicts_with = "url")]
    no_agent: bool,
}

impl OverlayOptions {
    /// Whether none is given.
    pub fn is_empty(&self) -> bool {
        let Self { binary, url, infra_env_id, token_file, cacert, config, rendezvous, rendezvous_options, no_agent } =
            self;
        let files = [binary, token_file, cacert, config, rendezvous];
        files.iter().all(|file| file.is_none())
            && url.is_none()
            && infra_env_id.is_none()
            && rendezvous_options.is_none()
            && !no_agent
    }

    /// Reads the named files. A plan's rendezvous host installs the image at `image` on the live host, unless the options name one.
    pub fn read(self, image: Option<&str>) -> anyhow::Result<Content> {
        let service = match (self.url, self.infra_env_id) {
            (Some(url), Some(infra_env_id)) => {
                let token = self.token_file.as_deref().map(token).transpose()?;
                Some(Service { url, infra_env_id, token })
            }
            _ => None,
        };
        let ca_pem = self.cacert.as_deref().map(certificates).transpose()?;
        let agent_toml = self.config.as_deref().map(read).transpose()?;
        let rendezvous = self.rendezvous.as_deref().map(plan).transpose()?.unwrap_or_default();
        if let Some(directory) = &self.rendezvous {
            judge(directory, self.rendezvous_options.as_deref().unwrap_or_default())?;
        }
        let mut rendezvous_options = self.rendezvous_options;
        if let (Some(image), false) = (image, rendezvous.is_empty()) {
            let options = rendezvous_options.get_or_insert_default();
            if !options.contains("--image") {
                *options = format!("--image {image} {options}").trim_end().to_owned();
            }
        }
        // One machine of a plan serves the others.
        let serves = !rendezvous.is_empty();
        let program = Program::read(self.binary.as_deref().or(serves.then_some(Path::new(program::RUNNING))))?;
        ensure!(
            !serves || program.has_service,
            "the plan needs a program with the service, which this one lacks: give the full landfall with --binary FILE"
        );
        Ok(Content::new(Ingredients {
            program,
            agent: !self.no_agent,
            service,
            ca_pem,
            agent_toml,
            rendezvous,
            rendezvous_options,
        })?)
    }
}

/// Has the plan and the options read by the command that reads them on the machine: what it refuses there is refused here. A program
/// without that command can't say.
fn judge(directory: &Path, options: &str) -> anyhow::Result<()> {
    if !program::can_serve().context("cannot read this program")? {
        return Ok(());
    }
    let mut command = Command::new(program::RUNNING);
    command.arg("serve").arg("--rendezvous").arg(directory).args(["--announce", "--state-dir", STATE_DIR, "--check"]);
    let mut words = options.split_whitespace().peekable();
    while let Some(word) = words.next() {
        // Keys are files of the machine; those of the plan are here.
        let is_key = ["--rendezvous-key", "--auth-key"].contains(&word);
        match words.next_if(|_| is_key).map(|path| here(path, directory)) {
            Some(path) if path.exists() => drop(command.arg(word).arg(path)),
            Some(_) => {}
            None => drop(command.arg(word)),
        }
    }
    let output = command.stdin(Stdio::null()).output().context("cannot run this program again to check the plan")?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    ensure!(output.status.success(), "the plan in {} cannot be used: {}", directory.display(), said(&output.stderr));
    said(&output.stdout).lines().filter(|line| line.starts_with("nothing")).for_each(|line| eprintln!("{line}"));
    Ok(())
}

/// The file that has this path on the machine, if it comes from the plan.
fn here(path: &str, directory: &Path) -> PathBuf {
    let of_plan = Path::new(path).strip_prefix(RENDEZVOUS_DIR);
    of_plan.map_or_else(|_| PathBuf::from(path), |rest| directory.join(rest))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("cannot read {}", path.display());
    let len = fs::metadata(path).with_context(failed)?.len();
    ensure!(len <= MAX_FILE_BYTES, "{} has {len} bytes; the limit is {MAX_FILE_BYTES}", path.display());
    fs::read(path).with_context(failed)
}

fn text(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(read(path)?).ok().with_context(|| format!("{} is not UTF-8 text", path.display()))
}

fn token(path: &Path) -> anyhow::Result<Secret> {
    let text = text(path)?;
    let token = text.trim();
    ensure!(!token.is_empty(), "{} has no token: the file is empty", path.display());
    Ok(Secret::new(token))
}

fn certificates(path: &Path) -> anyhow::Result<String> {
    let text = text(path)?;
    let expected = "-----BEGIN CERTIFICATE-----";
    ensure!(text.contains(expected), "{} has no PEM certificate: no line is {expected}", path.display());
    Ok(text)
}

/// All files below `directory`, by their names below it.
fn plan(directory: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut total = 0;
    let mut open = vec![(directory.to_owned(), String::new(), 0)];
    while let Some((path, prefix, depth)) = open.pop() {
        let failed = || format!("cannot read {}", path.display());
        for entry in fs::read_dir(&path).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let name = entry.file_name().into_string().ok();
            let name = name.with_context(|| format!("the name of {} is not UTF-8", entry.path().display()))?;
            // Follows links, since secrets may be stored elsewhere.
            let meta = fs::metadata(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
            if meta.is_dir() {
                ensure!(
                    depth < MAX_DEPTH,
                    "{} is nested more than {MAX_DEPTH} directories deep",
                    entry.path().display()
                );
                open.push((entry.path(), format!("{prefix}{name}/"), depth + 1));
                continue;
            }
            total += meta.len();
            ensure!(total <= MAX_PLAN_BYTES, "the files in {} exceed {MAX_PLAN_BYTES} bytes", directory.display());
            files.insert(format!("{prefix}{name}"), read(&entry.path())?);
        }
    }
    if files.is_empty() {
        bail!("{} has no plan: the directory is empty", directory.display());
    }
    Ok(files)
}
