//! `landfall up`: one command from images to a rack of installed nodes.
//!
//! It makes a plan of a rack (`plan`), starts `landfall serve` with it (`service`), puts the discovery ISO where it can be booted from
//! (`stick`, `machines`), and shows how far each machine is (`live`) until all are installed. The service starts the installation
//! itself, as soon as the rack is complete and ready. All that is lasting is in one directory, where a second `up` continues.

mod cli;
mod images;
mod live;
mod machines;
mod place;
mod plan;
mod service;
mod stick;
mod stored;

use crate::control::{
    Console, Session,
    culprit::{self, Urgency, urgency},
    host_name, hosts, on_interrupt,
    table::{Column, Table},
    width,
};
use crate::rendezvous::Rendezvous;
use crate::text::{self, at};
use anyhow::{Context, bail, ensure};
use api::endpoint::{GET_CLUSTER, GET_FILE_URL, GET_IMAGE_URL};
pub use cli::Up;
use live::Live;
use machines::Machines;
use place::{make, shown};
use serde_json::{Value, json};
use std::{
    env,
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};
use stored::Stored;

/// The installation failed or was cancelled.
const EXIT_FAILED: u8 = 3;
/// Between two looks at the cluster.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A host that failed sends its logs at its next polls, if it still can.
const LOGS_LIMIT: Duration = Duration::from_secs(90);

impl Up {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.init {
            return plan::init(Path::new(crate::rendezvous::RACK_FILE)).map(|()| ExitCode::SUCCESS);
        }
        let directory = self.directory()?;
        if self.down {
            return machines::down(&directory).map(|()| ExitCode::SUCCESS);
        }
        Console::standard(|console| self.up(&directory, console))
    }

    fn directory(&self) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.state_dir {
            return std::path::absolute(directory).context("--state-dir");
        }
        let name = self.name.as_deref().unwrap_or("rack");
        ensure!(
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "--name '{name}': use letters, digits and hyphens"
        );
        let home = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = home("XDG_STATE_HOME").or_else(|| Some(home("HOME")?.join(".local/state")));
        Ok(state.context("HOME is not set: give --state-dir")?.join("landfall").join(name))
    }

    fn up(self, directory: &Path, console: &mut Console) -> anyhow::Result<ExitCode> {
        let mut live = Live::new(stderr().is_terminal(), width(&stderr()));
        let mut stored = Stored::read(&self, directory)?;
        if stored.vms.is_some() {
            machines::check()?;
        }
        let stick = self.stick.as_deref().map(|path| stick::Stick::choose(path, self.yes)).transpose()?;
        make(directory)?;
        let plan = plan::prepare(&self, &stored, directory)?;
        live.say(&format!("the rack is in {}", shown(directory)));
        let rendezvous = Rendezvous::new(plan.rack, None);
        let images = images::find(&stored, &self.stream, directory, &mut live)?;
        stored.listen = Some(service::listen_address(&stored)?);
        stored.write(directory)?;
        let service = service::Running::start(&stored, directory, &plan.directory, &images)?;
        let stop = service::Stop(service.clone());
        let machines_run = stored.vms.is_some();
        let end = on_interrupt({
            let service = service.clone();
            move || {
                eprintln!("\nlandfall: stopping the service; `landfall up` continues");
                service.stop();
                if machines_run {
                    eprintln!("virtual machines keep running; `landfall up --down` ends them and removes the rack");
                }
            }
        })?;
        live.say(&format!("its page is {}; log in with any name, and the token of", service.url()));
        live.say(&format!("  landfall serve token --state-dir {}", shown(service.state_dir())));
        let session = service.session()?;
        let iso = self.fetch_iso(&session, &rendezvous, directory, &service)?;
        let machines = match stored.vms {
            Some(count) => {
                let machines = Machines::start(directory, count, &stored, &iso)?;
                live.say(&format!(
                    "{count} virtual machines run; consoles: {}/*.console",
                    shown(&machines::place(directory))
                ));
                Some(machines)
            }
            None => {
                how_to_boot(&iso, &boot_script(&session, &rendezvous)?, stick.is_none())
                    .iter()
                    .for_each(|line| live.say(line));
                None
            }
        };
        if let Some(stick) = stick {
            stick.write(&iso, &mut live)?;
        }
        let last = follow(&session, &rendezvous, &mut live, &service)?;
        let last = with_logs(&session, &mut live, last);
        drop((end, stop));
        match at(&last, "/status") {
            "installed" | "adding-hosts" => self.done(console, &last, machines.as_ref())?,
            _ => {
                failed(&last, &service).iter().for_each(|line| live.say(line));
                return Ok(ExitCode::from(EXIT_FAILED));
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Stores the discovery ISO in the rack's directory.
    fn fetch_iso(
        &self,
        session: &Session,
        rendezvous: &Rendezvous,
        directory: &Path,
        service: &service::Running,
    ) -> anyhow::Result<PathBuf> {
        let document = session.client.document(&GET_IMAGE_URL.at(&[&rendezvous.infra_env]))?;
        // The address is that of the machines, which this one need not have.
        let url = at(&document, "/url");
        let path =
            url.find("://").and_then(|scheme| url[scheme + 3..].find('/').map(|slash| &url[scheme + 3 + slash..]));
        let path = path.with_context(|| format!("the service names '{}' for its ISO", api::http::public_url(url)))?;
        let to = directory.join(format!("{}.iso", rendezvous.rack.cluster.name));
        let mut quiet = std::io::sink();
        let mut nowhere = Console { out: &mut quiet, width: None };
        crate::control::download::url(session, &mut nowhere, &format!("{}{path}", service.url()), Some(&to))?;
        Ok(to)
    }

    fn done(&self, console: &mut Console, cluster: &Value, machines: Option<&Machines>) -> anyhow::Result<()> {
        let mut nodes = Vec::new();
        for host in hosts(cluster) {
            let address = live::address(host);
            let login = match machines.map(|machines| machines.forward_ssh(&address)) {
                Some(Ok(port)) => format!("ssh -p {port} core@127.0.0.1"),
                Some(Err(error)) => format!("not reachable from here: {error:#}"),
                None => format!("ssh core@{address}"),
            };
            nodes.push((host_name(host), address, crate::control::role(host), login));
        }
        if self.json {
            let nodes: Vec<Value> = nodes
                .iter()
                .map(|(name, address, role, login)| json!({"name": name, "address": address, "role": role, "login": login}))
                .collect();
            return console.json(&json!({"schema_version": 1, "cluster": at(cluster, "/name"), "nodes": nodes}));
        }
        let mut table = Table::new(&[
            ("NODE", Column::Name),
            ("ADDRESS", Column::State),
            ("ROLE", Column::Detail(1)),
            ("LOG IN", Column::State),
        ]);
        nodes.into_iter().for_each(|(name, address, role, login)| table.row([name, address, role, login]));
        console.table(&table)?;
        if machines.is_some() {
            console.say("`landfall up --down` ends the virtual machines and removes the rack")?;
        }
        Ok(())
    }
}

/// Where iPXE finds what boots a machine into discovery, and an installed one from its disk.
fn boot_script(session: &Session, rendezvous: &Rendezvous) -> anyhow::Result<Value> {
    let target = GET_FILE_URL.at(&[&rendezvous.infra_env]).with("file_name", "ipxe-script");
    Ok(session.client.document(&target.with("ipxe_script_type", "boot-order-control"))?)
}

fn how_to_boot(iso: &Path, script: &Value, with_stick: bool) -> Vec<String> {
    let mut lines =
        vec![format!("boot the machines from {}: one disk of each is erased without a question", shown(iso))];
    if with_stick {
        lines.push(
            "  on a stick: landfall up --stick /dev/sdX; or as virtual media of their management controllers".into(),
        );
    }
    let [url, until] = ["/url", "/expires_at"].map(|name| text::plain(at(script, name)));
    lines.push(format!("  or by network: iPXE's `chain` takes this address, until {until}"));
    lines.push(format!("    {url}"));
    lines
}

/// Shows the rack until it is installed, or will not be.
fn follow(
    session: &Session,
    rendezvous: &Rendezvous,
    live: &mut Live,
    service: &service::Running,
) -> anyhow::Result<Value> {
    let started = Instant::now();
    loop {
        match session.client.document(&GET_CLUSTER.at(&[&rendezvous.cluster])) {
            Ok(cluster) => {
                let status = at(&cluster, "/status");
                if matches!(status, "installed" | "adding-hosts" | "error" | "cancelled") {
                    live.show(started.elapsed(), &cluster, rendezvous.rack.total);
                    return Ok(cluster);
                }
                live.show(started.elapsed(), &cluster, rendezvous.rack.total);
            }
            Err(error) => {
                if let Some(why) = service.ended() {
                    bail!("the service ended: {why}");
                }
                tracing::debug!("the service does not answer: {error}");
            }
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// The cluster once the hosts that failed have sent their logs: the service ends with this command.
fn with_logs(session: &Session, live: &mut Live, mut cluster: Value) -> Value {
    let is_awaited =
        |host: &&Value| urgency(host) == Urgency::Failed && !matches!(at(host, "/logs_info"), "completed" | "timeout");
    let has_awaited = |cluster: &Value| at(cluster, "/status") == "error" && hosts(cluster).iter().any(is_awaited);
    if has_awaited(&cluster) {
        live.say("a machine failed: waiting for its logs");
    }
    let started = Instant::now();
    while has_awaited(&cluster) && started.elapsed() < LOGS_LIMIT {
        thread::sleep(LOOK_INTERVAL);
        match session.client.document(&GET_CLUSTER.at(&[&at(&cluster, "/id")])) {
            Ok(now) => cluster = now,
            Err(_) => break,
        }
    }
    cluster
}

/// Which host failed and why, and where to look next. The service has ended: its clients' commands would find none.
fn failed(cluster: &Value, service: &service::Running) -> Vec<String> {
    let logs = service.state_dir().join("logs").join(at(cluster, "/id"));
    let mut lines = vec![format!("the installation ended: {}", text::plain(at(cluster, "/status_info")))];
    lines.extend(culprit::lines(cluster, |host| {
        match host.map(|host| logs.join(at(host, "/id")).join("logs.tar.gz")) {
            Some(logs) if logs.exists() => vec![format!("    logs: {}", shown(&logs))],
            Some(_) => vec!["    it has sent no logs".to_owned()],
            None => Vec::new(),
        }
    }));
    lines.push(format!("logs of the hosts: {}", shown(&logs)));
    lines.push(format!("log of the service: {}", shown(service.log())));
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_ways_to_boot_are_named() {
        let script =
            json!({"url": "http://192.0.2.1:8090/x?file_name=ipxe-script", "expires_at": "2026-01-02T03:04:05Z"});
        let lines = how_to_boot(Path::new("/r/rack.iso"), &script, true);
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines.first().unwrap(),
            "boot the machines from /r/rack.iso: one disk of each is erased without a question"
        );
        assert!(lines.get(2).unwrap().ends_with("until 2026-01-02T03:04:05Z"), "{lines:?}");
        assert_eq!(lines.last().unwrap(), "    http://192.0.2.1:8090/x?file_name=ipxe-script");
        assert!(!how_to_boot(Path::new("/r/rack.iso"), &script, false).concat().contains("--stick"));
    }
}
