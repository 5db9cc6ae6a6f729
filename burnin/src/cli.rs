//! `landfall burnin`.

use crate::{
    facts::Facts,
    kinds::KINDS,
    list,
    live::Live,
    load::Run,
    net,
    page::page,
    plan::{Kind, Planned, Request},
    result::{Document, Verdict},
    run::{self, Group},
    watch::Watch,
};
use anyhow::{Context, ensure};
use diskwrite::ResolveError;
use inventory::{
    Root,
    report::{escaped, printable},
};
use kernel::{Cancel, processor, terminal, units};
use std::{
    fs,
    io::{self, BufRead, IsTerminal, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};

/// Exit code for a machine with faults, as of `report --expect` for one that is not as expected.
const FAULTS: u8 = 3;
const SCHEMA: &str = include_str!("../burnin.schema.json");
/// Of all processes the first to be killed when memory runs out (proc_pid_oom_score_adj(5)).
const FIRST_TO_BE_KILLED: &str = "1000";
const MAX_ANSWER_BYTES: u64 = 100;

/// Load this machine as hard as possible, and report every fault
///
/// All parts work at once, and all results are verified:
///
///   cpu     arithmetic with known answers on every core, at every vector width
///   memory  patterns over all free memory except a reserve, by NUMA node
///   disk    every disk read in order; with --destroy, written and read back
///   net     TCP and UDP in both directions at once: see --peer and --ports
///
/// Meanwhile it samples sensors and power, and watches the kernel's counters of
/// memory errors, PCIe errors, machine checks and throttling. A counter that
/// increases is a fault.
///
/// Other programs go first (nice 19). If memory runs out, the kernel kills the
/// burn-in first. Ctrl-C ends it within seconds and prints the faults found so
/// far.
#[derive(Clone, Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Exit codes:
  0  everything was tested for the whole time, without a fault
  1  no fault, but not everything was tested; or an error
  2  wrong usage
  3  faults were found

Examples:
  landfall burnin --dry-run                       # what would be tested
  landfall burnin --for 8h                        # a night
  landfall burnin --for 1h --json > burnin.json
  landfall burnin --only memory --for 2h          # only the memory
  landfall burnin --only cpu --cpus 0-15          # one package
  landfall burnin --only disk --for 12h           # all disks are read
  landfall burnin --only disk --destroy /dev/sdb --for 12h
  landfall burnin serve-net --listen 192.0.2.7    # on another machine
  landfall burnin --only net --peer 192.0.2.7 --for 1h
  landfall burnin --only net --ports eth2,eth3    # a cable between them
  landfall burnin --json | jq '.faults[]'")]
pub struct Burnin {
    #[command(subcommand)]
    command: Option<Command>,
    /// How long, such as 30s, 10m, 8h or 1d
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = units::parse_duration, help_heading = "What to test")]
    time: Duration,
    /// Only these kinds of load, separated by commas: cpu, memory, disk, net
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind, help_heading = "What to test")]
    only: Vec<&'static str>,
    /// Only these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = cpus, help_heading = "What to test")]
    cpus: Option<Cpus>,
    /// Test at most this much memory, such as 64GiB; otherwise all except the reserve
    #[arg(long, value_name = "SIZE", value_parser = units::parse, help_heading = "What to test")]
    memory: Option<u64>,
    /// Memory to leave to the system; otherwise a sixteenth of the available memory, from 256 MiB to 4 GiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse, help_heading = "What to test")]
    reserve: Option<u64>,
    /// Read only this disk, by path, name, link, WWN or serial number; repeatable. Otherwise all are read
    #[arg(long, value_name = "DISK", help_heading = "What to test")]
    disk: Vec<PathBuf>,
    /// Write this disk and read it back: EVERYTHING ON IT IS LOST; repeatable
    ///
    /// A disk in use is refused, and so is the medium that this system was booted from. On a terminal the command asks
    /// first; elsewhere it needs --yes.
    #[arg(long, value_name = "DISK", help_heading = "What to test")]
    destroy: Vec<PathBuf>,
    /// Do not ask before disks are written
    #[arg(long, requires = "destroy", help_heading = "What to test")]
    yes: bool,
    /// Test the link to this address, where another machine runs `landfall burnin serve-net`; repeatable
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = net::parse_peer, help_heading = "What to test")]
    peer: Vec<SocketAddr>,
    /// Test two ports of this machine that a cable connects, such as eth2,eth3; repeatable
    ///
    /// Each is in a separate network namespace during the test. A port with an address is refused.
    #[arg(long, value_name = "PORT,PORT", value_parser = net::ports::parse, help_heading = "What to test")]
    ports: Vec<[String; 2]>,
    /// TCP streams of each link, in each direction; otherwise half as many as CPUs, at most 4
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=16), help_heading = "What to test")]
    streams: Option<u16>,
    /// Print what would be tested, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON on standard output; its form is versioned, see --schema
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of the result
    #[arg(long, conflicts_with_all = ["json", "dry_run"])]
    schema: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    ServeNet(ServeNet),
}

/// Answer the link tests of other machines, until Ctrl-C
///
/// Any machine that reaches the address can fill the link, without a password: serve on the link under test only. Datagrams
/// go only to the address that a connection comes from. Nothing is stored.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 stopped by a signal or the time, 1 failure, 2 wrong usage.

Examples:
  landfall burnin serve-net --listen 192.0.2.7
  landfall burnin serve-net --listen 192.0.2.7 --for 1h
  landfall burnin serve-net --listen '[2001:db8::7]:7117'")]
struct ServeNet {
    /// Where to listen; the port is 7117 unless given. `::` listens on all addresses, IPv4 too
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = net::parse_peer)]
    listen: SocketAddr,
    /// End after this time, with s, m, h or d
    #[arg(long = "for", value_name = "TIME", value_parser = units::parse_duration)]
    time: Option<Duration>,
}

impl ServeNet {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let stop = Cancel::default();
        stop.on_signals_in_order().context("cannot wait for signals")?;
        let listener = TcpListener::bind(self.listen).or_else(|error| match self.listen {
            // A kernel without IPv6.
            SocketAddr::V6(all) if all.ip().is_unspecified() && error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, all.port()))
            }
            _ => Err(error),
        });
        let listener = listener.with_context(|| format!("cannot listen on {}", self.listen))?;
        tracing::info!(address = %listener.local_addr()?, "serving tests of links");
        if let Some(time) = self.time {
            let stop = stop.clone();
            let end = move || {
                stop.sleep(time);
                stop.cancel();
            };
            thread::Builder::new().name("time".to_owned()).spawn(end).context("cannot start a thread")?;
        }
        net::serve(&listener, &stop).context("cannot serve")?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A list of CPUs.
#[derive(Clone, Debug)]
struct Cpus(Vec<u32>);

fn cpus(text: &str) -> Result<Cpus, String> {
    list::parse(text).map(Cpus)
}

fn kind(text: &str) -> Result<&'static str, String> {
    let names = KINDS.map(|kind| kind.name);
    let found = names.into_iter().find(|name| *name == text);
    found.ok_or_else(|| format!("the kinds of load are {}", names.join(", ")))
}

impl Burnin {
    /// Whether it shows how it stands in the place of the log.
    pub fn has_view(&self) -> bool {
        self.command.is_none() && io::stderr().is_terminal()
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(Command::ServeNet(serve)) = &self.command {
            return serve.run();
        }
        if self.schema {
            print(SCHEMA)?;
            return Ok(ExitCode::SUCCESS);
        }
        let root = Arc::new(Root::open("/")?);
        let facts =
            Facts::read(&root, self.cpus_of(processor::allowed().context("cannot read which CPUs may be used")?)?);
        let request = self.request(root.clone(), facts.cpus.len())?;
        let planned = self.plan(&facts, &request);
        if self.dry_run {
            print(&shown(&planned))?;
            return Ok(ExitCode::SUCCESS);
        }
        self.confirm(&facts, &request)?;
        let document = self.carry_out(planned, &facts, &request)?;
        print(&match self.json {
            true => escaped(&serde_json::to_string_pretty(&document)?) + "\n",
            false => page(&document, terminal::line_columns()),
        })?;
        Ok(match document.verdict {
            Verdict::Pass => ExitCode::SUCCESS,
            Verdict::Faults => ExitCode::from(FAULTS),
            Verdict::Incomplete => ExitCode::FAILURE,
        })
    }

    /// Those asked for, all of which must be among those that may be used.
    fn cpus_of(&self, allowed: Vec<u32>) -> anyhow::Result<Vec<u32>> {
        let Some(Cpus(wanted)) = &self.cpus else { return Ok(allowed) };
        ensure!(!wanted.is_empty(), "--cpus names no CPU");
        if let Some(missing) = wanted.iter().find(|cpu| !allowed.contains(cpu)) {
            anyhow::bail!("CPU {missing} does not exist, or may not be used by this process");
        }
        Ok(wanted.clone())
    }

    fn request(&self, root: Arc<Root>, cpus: usize) -> anyhow::Result<Request> {
        let resolved = |disks: &[PathBuf]| -> Result<Vec<PathBuf>, ResolveError> {
            disks.iter().map(|disk| diskwrite::resolve(&root, disk)).collect()
        };
        let destroyed = resolved(&self.destroy)?;
        // Who names a disk to write does not ask for others to be read.
        let are_named = !(self.disk.is_empty() && self.destroy.is_empty());
        let disks = if are_named { Some(resolved(&self.disk)?) } else { None };
        Ok(Request {
            root,
            memory_bytes: self.memory,
            reserve_bytes: self.reserve,
            disks,
            destroyed,
            peers: self.peer.clone(),
            ports: self.ports.clone(),
            streams: self.streams.unwrap_or_else(|| net::default_streams(cpus)),
        })
    }

    /// Asks before disks are written.
    fn confirm(&self, facts: &Facts, request: &Request) -> anyhow::Result<()> {
        if self.yes || request.destroyed.is_empty() || !(self.only.is_empty() || self.only.contains(&"disk")) {
            return Ok(());
        }
        let shown = |path: &PathBuf| {
            let known = facts.disks.iter().find(|disk| Path::new(&disk.path) == path);
            let about = known.map(|disk| format!(" ({})", disk.about)).unwrap_or_default();
            printable(&format!("{}{about}", path.display()))
        };
        let disks = request.destroyed.iter().map(shown).collect::<Vec<_>>().join(", ");
        ensure!(io::stdin().is_terminal(), "everything on {disks} would be lost: confirm with --yes");
        let mut out = io::stderr();
        write!(out, "EVERYTHING ON {disks} WILL BE LOST. Type yes to continue: ")?;
        out.flush()?;
        let mut answer = String::new();
        io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer)?;
        ensure!(answer.trim() == "yes", "nothing was written");
        Ok(())
    }

    fn plan(&self, facts: &Facts, request: &Request) -> Vec<(Kind, Planned)> {
        let is_wanted = |kind: &Kind| self.only.is_empty() || self.only.contains(&kind.name);
        KINDS.into_iter().filter(is_wanted).map(|kind| (kind, (kind.plan)(facts, request))).collect()
    }

    fn carry_out(&self, planned: Vec<(Kind, Planned)>, facts: &Facts, request: &Request) -> anyhow::Result<Document> {
        let (mut groups, mut not_tested) = (Vec::new(), Vec::new());
        for (kind, planned) in planned {
            groups.push(Group { nice: kind.nice, loads: planned.loads });
            not_tested.extend(planned.not_tested);
        }
        ensure!(groups.iter().any(|group| !group.loads.is_empty()), "nothing to test: {}", not_tested.join("; "));
        let stop = Cancel::default();
        stop.on_signals_in_order().context("cannot wait for signals")?;
        if let Err(error) = fs::write("/proc/self/oom_score_adj", FIRST_TO_BE_KILLED) {
            tracing::debug!(%error, "the kernel may kill other programs first when memory runs out");
        }
        let run = Arc::new(Run::new(stop));
        let mut watch = Watch::new(request.root.clone());
        let mut live = Live::new();
        let left = request.reserve(facts.available_bytes).min(facts.available_bytes) / 2;
        let mut show = |standing: &run::Standing<'_>| live.show(standing);
        let document = run::run(groups, self.time, left, &run, &mut watch, &mut show);
        // What was asked for by name must be tested.
        let is_short = !not_tested.is_empty() && !self.only.is_empty() && document.verdict == Verdict::Pass;
        let verdict = if is_short { Verdict::Incomplete } else { document.verdict };
        Ok(Document { verdict, not_tested, ..document })
    }
}

/// The plan for people.
fn shown(planned: &[(Kind, Planned)]) -> String {
    let mut text = String::new();
    for (kind, planned) in planned {
        for line in &planned.text {
            text += &format!("{:<7} {}\n", kind.name, printable(line));
        }
        for line in &planned.not_tested {
            text += &format!("not tested: {}\n", printable(line));
        }
    }
    text
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot print the result")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::State;
    use clap::Parser;
    use testkit::tree::Tree;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        burnin: Burnin,
    }

    fn parsed(words: &str) -> Burnin {
        Cli::try_parse_from(["burnin"].into_iter().chain(words.split_whitespace())).unwrap().burnin
    }

    /// The result of a machine that is this tree.
    fn result(tree: &Tree, words: &str) -> anyhow::Result<Document> {
        let burnin = parsed(words);
        let root = Arc::new(Root::open(tree.path()).unwrap());
        let facts = Facts::read(&root, processor::allowed()?.into_iter().take(2).collect());
        let request = burnin.request(root, 1)?;
        let planned = burnin.plan(&facts, &request);
        burnin.carry_out(planned, &facts, &request)
    }

    fn machine() -> Tree {
        Tree::new(&[("proc/meminfo", "MemAvailable: 1048576 kB\n")])
    }

    #[test]
    fn options_are_parsed_and_bounded() {
        assert_eq!(parsed("").time, Duration::from_secs(600));
        assert_eq!(parsed("--only memory,cpu").only, ["memory", "cpu"]);
        assert_eq!(parsed("--memory 64MiB").memory, Some(64 << 20));
        for bad in ["--for 0s", "--only gpu", "--cpus x", "--schema --json", "--peer x", "--streams 0"] {
            Cli::try_parse_from(["burnin"].into_iter().chain(bad.split_whitespace())).unwrap_err();
        }
        assert_eq!(parsed("--cpus 1").cpus_of(vec![0, 1]).unwrap(), [1]);
        parsed("--cpus 7").cpus_of(vec![0, 1]).unwrap_err();
    }

    #[test]
    fn the_plan_is_shown_and_takes_nothing() {
        let burnin = parsed("--memory 64MiB --disk /dev/sdx --destroy /dev/sdy");
        let tree = machine();
        let root = Arc::new(Root::open(tree.path()).unwrap());
        let facts = Facts { available_bytes: 1 << 30, ..Facts::read(&root, vec![0, 1]) };
        let text = shown(&burnin.plan(&facts, &burnin.request(root, 1).unwrap()));
        assert!(
            text.starts_with(
                "memory  64 MiB of 1 GiB that are available, in 2 shares on 1 NUMA nodes\ncpu     2 cores"
            ),
            "{text}"
        );
        let disks = "/dev/sdy: write and read back. EVERYTHING ON IT IS LOST\ndisk    /dev/sdx: read (not listed)\n";
        assert!(text.contains(disks), "{text}");
    }

    #[test]
    fn a_small_burn_in_of_this_machine_passes() {
        let found = result(&machine(), "--for 1s --only cpu,memory --memory 64MiB").unwrap();
        assert_eq!(found.verdict, Verdict::Pass, "{found:#?}");
        assert!(found.parts.iter().all(|part| part.state == State::Done && part.fault_count == 0));
        assert_eq!(found.totals.iter().map(|total| total.name.as_str()).collect::<Vec<_>>(), ["node 0", "all"]);
        let node = &found.totals[0].measurements;
        assert!(node["region_bytes"] <= f64::from(64 << 20) && node["tested_bytes"] > 0.0, "{node:?}");
    }

    #[test]
    fn no_disk_is_written_unasked() {
        if io::stdin().is_terminal() {
            return;
        }
        let burnin = parsed("--destroy /dev/sdx");
        let root = Arc::new(Root::open(machine().path()).unwrap());
        let facts = Facts::read(&root, vec![0]);
        let request = burnin.request(root.clone(), 1).unwrap();
        assert_eq!((request.destroyed.len(), request.disks.as_deref()), (1, Some(&[][..])));
        let error = burnin.confirm(&facts, &request).unwrap_err().to_string();
        assert_eq!(error, "everything on /dev/sdx would be lost: confirm with --yes");
        let burnin = parsed("--destroy /dev/sdx --yes");
        burnin.confirm(&facts, &burnin.request(root, 1).unwrap()).unwrap();
    }

    #[test]
    fn what_is_asked_for_and_cannot_be_tested_is_said() {
        let tree = Tree::new(&[("proc/meminfo", "MemAvailable: 1024 kB\n")]);
        let error = result(&tree, "--for 1s --only memory").unwrap_err().to_string();
        assert!(error.contains("not more than the reserve"), "{error}");
    }
}
