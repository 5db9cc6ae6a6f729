//! Behaves as `openshift-install` does, as far as its caller can see.

mod assets;
mod config;
mod ignition_configs;
mod manifests;

use anyhow::{Context, bail};
use config::{Config, ConfigError};
use installer_double::{Behaviour, Call, Fault};
use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::Pid,
};
use std::{
    env, fs,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

const VERSION: &str = "4.22.9";
/// Of a refused install-config.yaml.
const REFUSED_CONFIG: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("level=fatal msg=\"{error:#}\"");
            let is_refusal = error.downcast_ref::<ConfigError>().is_some();
            ExitCode::from(if is_refusal { REFUSED_CONFIG } else { 1 })
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<u8> {
    let (words, directory) = parse(arguments)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let behaviour = Behaviour::of(&env::current_exe()?).context("the double's settings can't be read")?;
    if let Some(log) = &behaviour.log {
        let call = Call::own(arguments, directory.as_deref(), &behaviour);
        call.append(log).context("the double's log can't be written")?;
    }
    let directory = directory.unwrap_or_else(|| PathBuf::from("."));
    let command = words.last().copied().unwrap_or_default();
    let faults: Vec<&Fault> = behaviour.faults_of(command).collect();
    for fault in &faults {
        if let Some(code) = before(fault, &directory)? {
            return Ok(code);
        }
    }
    if let Some(real) = &behaviour.real {
        let error = Command::new(real).args(arguments).exec();
        return Err(error).with_context(|| format!("cannot start {}", real.display()));
    }
    let result = match words[..] {
        ["version"] => {
            println!("openshift-install {VERSION}\nbuilt from commit 0\nrelease image {}", manifests::release_image());
            Vec::new()
        }
        ["create", "manifests"] => manifests::create(&directory)?,
        ["create", "ignition-configs"] => ignition_configs::create(&directory, &behaviour, false)?,
        ["create", "single-node-ignition-config"] => ignition_configs::create(&directory, &behaviour, true)?,
        ["agent", "create", "unconfigured-ignition"] => ignition_configs::unconfigured(&directory)?,
        _ => bail!("unknown command {words:?}"),
    };
    for fault in &faults {
        thread::sleep(Duration::from_millis(fault.sleep_within_ms));
    }
    assets::write(&directory, &result)?;
    faults.iter().try_for_each(|fault| after(fault, &directory))?;
    Ok(0)
}

/// The words of the command, and the directory.
fn parse(arguments: &[String]) -> anyhow::Result<(Vec<String>, Option<PathBuf>)> {
    let (mut words, mut directory) = (Vec::new(), None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.split_once('=') {
            _ if argument == "--dir" => directory = Some(rest.next().context("--dir needs a directory")?.into()),
            Some(("--dir", path)) => directory = Some(path.into()),
            Some(("--log-level", _)) => {}
            _ if argument == "--log-level" => drop(rest.next()),
            _ if argument.starts_with('-') => bail!("unknown flag: {argument}"),
            _ => words.push(argument.clone()),
        }
    }
    Ok((words, directory))
}

/// An exit code, if it ends here.
fn before(fault: &Fault, directory: &Path) -> anyhow::Result<Option<u8>> {
    if fault.ignores_sigterm {
        SigSet::from(Signal::SIGTERM).thread_block()?;
    }
    if fault.has_child {
        Command::new("sleep").arg("60").spawn()?;
    }
    thread::sleep(Duration::from_millis(fault.sleep_before_ms));
    while fault.waits_for.as_ref().is_some_and(|file| !file.exists()) {
        thread::sleep(Duration::from_millis(10));
    }
    print!("{}{}", fault.output, "x".repeat(fault.output_chars));
    if fault.fill_bytes > 0 {
        let mut left = fault.fill_bytes;
        for number in 0.. {
            let now = left.min(1 << 20);
            fs::write(directory.join(format!("fill-{number}")), vec![7; usize::try_from(now)?])?;
            left -= now;
            if left == 0 {
                break;
            }
        }
    }
    for number in 0..fault.fill_files {
        fs::write(directory.join(format!("empty-{number}")), "")?;
    }
    if let Some(signal) = fault.signal {
        io::stdout().flush()?;
        kill(Pid::this(), Signal::try_from(signal)?)?;
    }
    Ok(fault.exit_code)
}

fn after(fault: &Fault, directory: &Path) -> anyhow::Result<()> {
    for (name, target) in &fault.links {
        let path = directory.join(name);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path)?;
        } else if path.exists() || path.is_symlink() {
            fs::remove_file(&path)?;
        }
        std::os::unix::fs::symlink(target, path)?;
    }
    for (name, content) in &fault.contents {
        fs::write(directory.join(name), content)?;
    }
    Ok(())
}
