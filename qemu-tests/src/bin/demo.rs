//! `make demo`: installs virtual machines end to end and shows it happen.

use anyhow::{Context, Result};
use clap::Parser;
use qemu_tests::{
    accel::{self, Accel},
    images::{Compression, Drivers, SectorSize},
    interrupt::Interrupts,
    media, paths,
    rack::{NodeFacts, Rack, RackConfig, RackError, SITE_FILE},
    table::{self, Live},
    view::HostView,
    vm::Firmware,
};
use service_stub::control;
use std::{
    cell::RefCell,
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Boots virtual machines from a live ISO, discovers, installs and reboots them, and shows the result of each.
///
/// Everything runs on this machine, without privileges: the service, a switch, a gateway, the machines. Progress goes to
/// stderr, the final table to stdout. All logs are retained; their directory is printed at the end.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  demo                                                    three machines, images built here
  demo --hosts 1 --uefi                                   one machine with UEFI firmware
  demo --base-iso fcos-live.iso --image fcos-metal.raw.xz your own images; the service delivers the agent")]
struct Demo {
    /// Machines: 1, or 3 to 9.
    #[arg(long, env = "HOSTS", default_value = "3", value_parser = parse_hosts)]
    hosts: u8,
    /// Live ISO to boot, instead of the built one.
    #[arg(long, env = "BASE_ISO", value_name = "FILE")]
    base_iso: Option<PathBuf>,
    /// OS image to install, instead of the built one.
    #[arg(long, env = "IMAGE", value_name = "FILE")]
    image: Option<PathBuf>,
    /// UEFI firmware instead of BIOS.
    #[arg(long)]
    uefi: bool,
    /// Memory of each machine, MiB [default: 1024, and 4096 with --base-iso].
    #[arg(long, value_name = "MIB")]
    memory: Option<u32>,
    /// Minutes for each step (discover, become ready, install) before the demo gives up.
    #[arg(long, value_name = "MINUTES", default_value = "30")]
    limit: u64,
}

fn parse_hosts(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(hosts @ (1 | 3..=9)) => Ok(hosts),
        _ => Err("a cluster must have 1 machine, or 3 to 9".to_owned()),
    }
}

fn main() -> ExitCode {
    let demo = Demo::parse();
    let interrupts = match Interrupts::take() {
        Ok(interrupts) => interrupts,
        Err(error) => {
            eprintln!("demo: cannot watch for Ctrl-C: {error}");
            return ExitCode::FAILURE;
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let worker = std::thread::spawn(move || demo.run(&stopped));
    while !worker.is_finished() {
        if interrupts.wait(Duration::from_millis(200)) {
            stop.store(true, Ordering::SeqCst);
            eprintln!("\ndemo: stopping");
            // The worker sees it within a second, unless it builds an image or waits for a console.
            let deadline = Instant::now() + Duration::from_secs(5);
            while !worker.is_finished() && Instant::now() < deadline && !interrupts.wait(Duration::from_millis(50)) {}
            if !worker.is_finished() {
                paths::remove_directories();
            }
            return ExitCode::from(130);
        }
    }
    match worker.join() {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// A failed host polls, gathers and sends logs within seconds; slower under emulation.
const LOGS_LIMIT: Duration = Duration::from_secs(600);

impl Demo {
    fn run(&self, stop: &Arc<AtomicBool>) -> Result<()> {
        let began = Instant::now();
        let say = |text: &str| eprintln!("{:>5}  {text}", table::clock(began.elapsed()));
        match accel::choose() {
            Accel::Kvm => say("machines run under KVM"),
            Accel::Tcg => say("machines run under emulation: no working KVM, so this takes a few minutes"),
        }
        let iso = match &self.base_iso {
            Some(iso) => iso.clone(),
            None => {
                say("building the live ISO, if anything changed");
                media::agent_iso(Drivers::Cloud)?
            }
        };
        let image = match &self.image {
            Some(image) => image.clone(),
            None => {
                say("building the OS image, if anything changed");
                media::os_image(SectorSize::B512, Compression::Zstd, Drivers::Cloud)?
            }
        };
        for path in [&iso, &image] {
            std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        }
        let own = self.base_iso.is_some() || self.image.is_some();
        let mut config = RackConfig::new("demo", self.hosts, iso, image);
        config.deliver_agent = self.base_iso.is_some();
        config.firmware = if self.uefi { Firmware::Uefi } else { Firmware::Bios };
        config.memory_mib = self.memory.unwrap_or(if self.base_iso.is_some() { 4096 } else { config.memory_mib });
        if own {
            // Sparse; what a CoreOS image asks for, with room.
            config.disk_bytes = 32 << 30;
        }
        self.install(config, began, stop)
    }

    fn install(&self, config: RackConfig, began: Instant, stop: &Arc<AtomicBool>) -> Result<()> {
        let limit = Duration::from_secs(self.limit.saturating_mul(60));
        let live = Rc::new(RefCell::new(Live::new(io::stderr().is_terminal(), control::width(&io::stderr()))));
        let title = Rc::new(RefCell::new(String::new()));
        let observer = {
            let (live, title, stop) = (live.clone(), title.clone(), stop.clone());
            Box::new(move |views: &[HostView]| {
                if stop.load(Ordering::SeqCst) {
                    return Err(RackError::Interrupted);
                }
                // A closed terminal must not stop the installation.
                let _ = live.borrow_mut().show(&mut io::stderr(), &title.borrow(), began.elapsed(), views);
                Ok(())
            })
        };
        let step = |text: &str| {
            let _ = live.borrow_mut().say(&mut io::stderr(), began.elapsed(), text);
            text.clone_into(&mut title.borrow_mut());
        };
        step("starting the service, the switch and the gateway");
        let mut rack = Rack::start(config, observer)?;
        step("machines boot the live ISO and register");
        rack.power_on()?;
        rack.discover(limit)?;
        step("machines probe each other; the service checks them");
        rack.wait_ready(limit)?;
        step("installing");
        rack.install()?;
        let views = match rack.wait_installed(limit) {
            Err(error @ RackError::Host { .. }) => {
                step("a host failed; waiting for its logs");
                match rack.logs_of_failed(LOGS_LIMIT) {
                    Ok(path) => step(&format!("its logs are in {}", path.display())),
                    Err(error) => step(&format!("its logs did not arrive: {error}")),
                }
                return Err(error.into());
            }
            views => views?,
        };
        step("installed");
        let facts = if self.image.is_none() { rack.facts()? } else { Vec::new() };
        println!();
        report(&views, &facts).iter().for_each(|line| println!("{line}"));
        println!(
            "\n{} in {}; logs are in {}",
            plural(views.len()),
            table::clock(began.elapsed()),
            rack.logs().display()
        );
        judge(&views, &facts)
    }
}

fn plural(hosts: usize) -> String {
    if hosts == 1 { "1 machine installed".to_owned() } else { format!("{hosts} machines installed") }
}

/// The final table: what the service knows, and what each machine said of itself from inside.
fn report(views: &[HostView], facts: &[NodeFacts]) -> Vec<String> {
    let mut rows = vec![
        ["NODE", "ADDRESS", "STATE", "HOSTNAME INSIDE", "USER", "FILE", "IGNITION", "FAILED UNITS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (index, view) in views.iter().enumerate() {
        let mut row = vec![view.name.clone(), view.address.clone(), view.state.clone()];
        match facts.get(index) {
            Some(facts) => {
                let user = facts.get("user").and_then(|line| line.split(':').next()).filter(|user| !user.is_empty());
                let key = facts.user_key().map(|key| format!(" with key {key}")).unwrap_or_default();
                let file = facts.site_file().map(|sum| format!("{SITE_FILE} {}…", sum.get(..8).unwrap_or(sum)));
                let failed = facts.failed_units().join(" ");
                row.push(facts.get("hostname").unwrap_or("-").to_owned());
                row.push(format!("{}{key}", user.unwrap_or("-")));
                row.push(file.unwrap_or_else(|| "-".to_owned()));
                row.push(facts.provisioned().map_or("NO CONFIG".to_owned(), |date| format!("applied {date}")));
                row.push(if failed.is_empty() { "none".to_owned() } else { failed });
            }
            None => row.extend(["-"; 5].map(str::to_owned)),
        }
        rows.push(row);
    }
    table::columns(&rows)
}

/// A machine that came up with other settings is a failure, whatever the service reports.
fn judge(views: &[HostView], facts: &[NodeFacts]) -> Result<()> {
    for (view, facts) in views.iter().zip(facts) {
        facts.check(&view.name).map_err(anyhow::Error::msg)?;
    }
    Ok(())
}
