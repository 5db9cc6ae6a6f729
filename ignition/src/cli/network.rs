//! `landfall ignition network`.

use super::read;
use crate::network::apply::{self, ApplyError, Plan, Settled};
use crate::network::kargs::{Kargs, kargs};
use crate::network::{self, Flow, HOSTS_DIR, HostNetwork, MacInterface, State};
use crate::yaml;
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_norway::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Check static networks, show what each host gets, and apply them on a live host.
///
/// A list of hosts' networks is `static_network_config` as the service accepts it, in JSON or YAML: for each host its NMState
/// (`network_yaml`) and the MAC addresses of its interfaces (`mac_interface_map`). A file may contain the list, an
/// infra-env with it, or the NMState of one host.
#[derive(Debug, Args)]
pub(super) struct Network {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(Show),
    Files(Files),
    Kargs(KernelArguments),
    Apply(Apply),
}

impl Network {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Show(show) => show.run(),
            Command::Files(files) => files.run(),
            Command::Kargs(kargs) => kargs.run(),
            Command::Apply(apply) => apply.run(),
        }
    }
}

/// Print what each host of a list would get.
///
/// Its MAC addresses, NetworkManager's keyfiles with logical names in them, and the equivalent kernel arguments. Keyfiles
/// may contain secret keys. If the list breaks a rule of the service, the error names host and interface. What of the NMState
/// does nothing is listed on standard error, with the reason.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition network show networks.yaml\n  \
    landfall ignition network show --json infra-env.json \\\n    \
    | jq '.hosts[].kargs.arguments'")]
struct Show {
    /// The list, or - for standard input
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Write the files that a live ISO contains for its hosts.
///
/// hostN/ directories with keyfiles, or with a policy for nmstatectl, and the map of MAC addresses. On the live host they
/// are in /etc/assisted/network. What of the NMState keyfiles have no place for is listed on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition network files networks.yaml --to network\n  \
    landfall ignition network files networks.yaml --to network --flow policy")]
struct Files {
    /// The list, or - for standard input
    file: PathBuf,
    /// Directory to create them in
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Kind of files: keyfiles, as before OpenShift 4.18, or policies
    #[arg(long, value_enum, default_value_t = FlowArgument::Keyfiles)]
    flow: FlowArgument,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FlowArgument {
    Keyfiles,
    Policy,
}

/// Print the kernel arguments that configure a host's network in the initramfs.
///
/// As in dracut.cmdline(7), on one line. What they can't express is listed on standard error. CoreOS systems bring the
/// network up in the initramfs only when something needs it, or with rd.neednet=1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition network kargs nmstate.yaml\n  \
    landfall ignition network kargs networks.json --host 2")]
struct KernelArguments {
    /// The list or one host's NMState, or - for standard input
    file: PathBuf,
    /// Which host of the list, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    host: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Apply this machine's network settings, before NetworkManager starts.
///
/// Finds the hosts whose map has a MAC address of this machine, puts the names of this machine's interfaces into their
/// profiles, and writes them where NetworkManager looks; other profiles there are removed. Policies are converted to
/// keyfiles without nmstatectl. Everything is planned first: an error leaves the directory as it was. Does nothing on a
/// machine that is not one of the hosts.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    landfall ignition network apply --dry-run\n  \
    landfall ignition network apply --from /mnt/network --to /tmp/profiles \\\n    \
    --stable 0")]
struct Apply {
    /// The directory with the hosts' directories
    #[arg(long, value_name = "DIR", default_value = HOSTS_DIR)]
    from: PathBuf,
    /// Directory for profiles [default: /etc/NetworkManager/system-connections, in an initramfs
    /// /etc/coreos-firstboot-network]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Path of sysfs
    #[arg(long, value_name = "DIR", default_value = "/sys")]
    sys: PathBuf,
    /// How long the names of interfaces must stay the same before they count, in seconds; a dry run never waits
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    stable: u64,
    /// How long to wait for that, in seconds; then the current names count
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    limit: u64,
    /// Print what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The answer of `show --json`.
#[derive(Serialize)]
struct Shown {
    schema: u32,
    hosts: Vec<ShownHost>,
}

#[derive(Serialize)]
struct ShownHost {
    name: String,
    interfaces: Vec<MacInterface>,
    keyfiles: Vec<ShownKeyfile>,
    kargs: Kargs,
}

#[derive(Serialize)]
struct ShownKeyfile {
    name: String,
    text: String,
}

impl Show {
    fn run(self) -> anyhow::Result<()> {
        let mut hosts = Vec::new();
        for (index, (state, interfaces)) in load(&self.file)?.into_iter().enumerate() {
            warn(state.notes());
            let keyfiles = state.keyfiles().iter().cloned();
            let keyfiles = keyfiles.map(|file| ShownKeyfile { name: file.name, text: file.text });
            let kargs = kargs(&state, &interfaces);
            hosts.push(ShownHost { name: format!("host{index}"), keyfiles: keyfiles.collect(), kargs, interfaces });
        }
        if self.json {
            return print_json(&Shown { schema: 1, hosts });
        }
        let out = &mut std::io::stdout().lock();
        for host in &hosts {
            writeln!(out, "{}", host.name)?;
            for MacInterface { mac_address, logical_nic_name } in &host.interfaces {
                writeln!(out, "  {mac_address} is {logical_nic_name}")?;
            }
            for ShownKeyfile { name, text } in &host.keyfiles {
                writeln!(out, "  {name}")?;
                for line in text.trim_end().lines() {
                    writeln!(out, "{}", format!("    {line}").trim_end())?;
                }
            }
            writeln!(out, "  kernel arguments")?;
            for argument in &host.kargs.arguments {
                writeln!(out, "    {argument}")?;
            }
            for note in &host.kargs.notes {
                writeln!(out, "    # {note}")?;
            }
        }
        Ok(())
    }
}

impl Files {
    fn run(self) -> anyhow::Result<()> {
        let flow = match self.flow {
            FlowArgument::Keyfiles => Flow::Keyfiles,
            FlowArgument::Policy => Flow::Policy,
        };
        let Input::List(configs) = parse(&self.file, &read(&self.file)?)? else {
            anyhow::bail!("{} is the NMState of one host; files need a list with MAC addresses", self.file.display());
        };
        network::check(&configs)?.iter().for_each(|state| warn(state.notes()));
        for file in network::files(&configs, flow)? {
            let path = self.to.join(file.path.trim_start_matches(HOSTS_DIR).trim_start_matches('/'));
            apply::write_new(&path, &file.bytes)?;
            writeln!(std::io::stdout(), "{}", path.display())?;
        }
        Ok(())
    }
}

impl KernelArguments {
    fn run(self) -> anyhow::Result<()> {
        let hosts = load(&self.file)?;
        let count = hosts.len();
        let host = hosts.get(self.host);
        let (state, map) = host.with_context(|| format!("host{} does not exist: the list has {count}", self.host))?;
        let kargs = kargs(state, map);
        if self.json {
            return print_json(&kargs);
        }
        for note in &kargs.notes {
            writeln!(std::io::stderr(), "{note}")?;
        }
        writeln!(std::io::stdout(), "{}", kargs.arguments.join(" "))?;
        Ok(())
    }
}

/// The answer of `apply --json`.
#[derive(Serialize)]
struct Applied<'a> {
    schema: u32,
    dry_run: bool,
    target: &'a Path,
    #[serde(flatten)]
    plan: &'a Plan,
    remove: &'a [String],
}

impl Apply {
    fn run(self) -> anyhow::Result<()> {
        let target = self.to.as_deref().unwrap_or_else(|| apply::default_target());
        let err = &mut std::io::stderr();
        if !self.dry_run && self.wait()? == Settled::TimedOut {
            writeln!(err, "interfaces were still changing after {} s; continuing with the current ones", self.limit)?;
        }
        let (hosts, passed_over) = apply::read_hosts(&self.from)?;
        for name in passed_over {
            writeln!(err, "{name} has no {}: skipped", network::MAP_NAME)?;
        }
        let plan = apply::plan(&hosts, &apply::interfaces(&self.sys)?)?;
        warn(&plan.notes);
        let remove = apply::stale(&plan, target)?;
        if !self.dry_run {
            apply::carry_out(&plan, target, &remove)?;
        }
        if self.json {
            return print_json(&Applied { schema: 1, dry_run: self.dry_run, target, plan: &plan, remove: &remove });
        }
        let out = &mut std::io::stdout().lock();
        if plan.hosts.is_empty() {
            writeln!(out, "none of {} hosts has a MAC address of this machine: nothing to do", hosts.len())?;
        }
        for host in &plan.hosts {
            for interface in &host.interfaces {
                let name = interface.name.as_deref().unwrap_or("not on this machine");
                writeln!(out, "{}: {} ({}) is {name}", host.name, interface.logical, interface.mac)?;
            }
        }
        let would = if self.dry_run { "would be " } else { "" };
        for write in &plan.write {
            writeln!(out, "{would}written: {} (from {})", target.join(&write.name).display(), write.from)?;
        }
        for name in &remove {
            writeln!(out, "{would}removed: {}", target.join(name).display())?;
        }
        Ok(())
    }

    fn wait(&self) -> Result<Settled, ApplyError> {
        let names = || Ok(apply::interfaces(&self.sys)?.into_values().collect());
        apply::settle(names, std::thread::sleep, Duration::from_secs(self.stable), Duration::from_secs(self.limit))
    }
}

/// Tells what of a network does nothing.
pub(super) fn warn(notes: &[network::Note]) {
    for note in notes {
        tracing::warn!("{note}");
    }
}

/// Networks of a thousand hosts.
const MAX_FILE_BYTES: usize = 16 << 20;

/// What a file holds.
enum Input {
    List(Vec<HostNetwork>),
    /// One host's NMState.
    State(String),
}

/// A list of hosts' networks.
pub(super) fn networks(file: &Path) -> anyhow::Result<Vec<HostNetwork>> {
    match parse(file, &read(file)?)? {
        Input::List(configs) => Ok(configs),
        Input::State(_) => anyhow::bail!("{} is NMState without the MAC addresses of a host", file.display()),
    }
}

/// Each host's network and the map of its interfaces.
fn load(file: &Path) -> anyhow::Result<Vec<(State, Vec<MacInterface>)>> {
    Ok(match parse(file, &read(file)?)? {
        Input::State(yaml) => vec![(State::parse(0, &yaml)?, Vec::new())],
        Input::List(configs) => {
            let states = network::check(&configs)?;
            states.into_iter().zip(configs).map(|(state, config)| (state, config.mac_interface_map)).collect()
        }
    })
}

fn parse(file: &Path, text: &[u8]) -> anyhow::Result<Input> {
    let list = |value: Value| -> Result<Input, anyhow::Error> {
        Ok(Input::List(match value {
            // As the service shows it.
            Value::String(text) => yaml::document(text.as_bytes(), MAX_FILE_BYTES)?,
            // The parser's own words may quote what it read, and so a key.
            value => serde_norway::from_value(value).map_err(|_| anyhow::anyhow!("it has another structure"))?,
        }))
    };
    let found = || -> anyhow::Result<Input> {
        let value: Value = yaml::document(text, MAX_FILE_BYTES)?;
        if let Some(value) = value.get("static_network_config") {
            return list(value.clone());
        }
        if value.is_mapping() {
            return Ok(Input::State(String::from_utf8_lossy(text).into_owned()));
        }
        list(value)
    };
    found().with_context(|| format!("{} is neither a list of networks nor NMState", file.display()))
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_infra_envs_and_single_networks_are_distinguished() {
        let list = r#"[{"network_yaml": "interfaces: []", "mac_interface_map": [{"mac_address": "a", "logical_nic_name": "b"}]}]"#;
        let quoted = serde_json::to_string(list).unwrap();
        let inputs = [
            list.to_owned(),
            format!("{{\"name\": \"x\", \"static_network_config\": {list}}}"),
            format!("{{\"static_network_config\": {quoted}}}"),
        ];
        for input in inputs {
            let Input::List(configs) = parse(Path::new("f"), input.as_bytes()).unwrap() else { panic!("{input}") };
            assert_eq!(configs[0].mac_interface_map[0].logical_nic_name, "b");
        }
        assert!(matches!(parse(Path::new("f"), b"interfaces: []").unwrap(), Input::State(_)));
        for bad in ["hunter2", "[hunter2]", "{hunter2", "[{network_yaml: {hunter2: 1}}]", "static_network_config: 3"] {
            let error = format!("{:#}", parse(Path::new("f"), bad.as_bytes()).err().unwrap());
            assert!(error.starts_with("f is neither") && !error.contains("hunter2"), "{error}");
        }
    }
}
