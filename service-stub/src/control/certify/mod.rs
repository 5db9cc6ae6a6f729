//! `landfall certify`: leads machines through a plan, follows, and brings the result home.

mod archive;
mod compare;
mod live;
mod show;

use super::{Console, Reach, Session, ask, on_interrupt};
use crate::text::{self, at};
use anyhow::{Context, bail, ensure};
use api::endpoint::{
    CANCEL_CERTIFICATION, CREATE_CERTIFICATION, GET_CERTIFICATION, GET_MACHINE_HISTORY, LIST_CERTIFICATIONS,
};
use certify::{Plan, Step, cli::Offline};
use live::Live;
use serde_json::Value;
use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// Between two looks at a run.
const LOOK: Duration = Duration::from_secs(1);
const EXIT_FAILED: u8 = 3;
const EXIT_INCOMPLETE: u8 = 4;

/// Certify machines: lead them through the steps of a plan
///
/// `landfall serve` leads machines that run its live system through the steps: report, network, disk speed, burn-in, TPM, installation,
/// boot, power cut. Ctrl-C ends this command only; the run continues. `landfall certify init` writes an example plan.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  landfall certify model-x.toml --hosts 3 --output x.tar --key tester.key
  landfall certify --attach 1b9d6bcd       # follow again
  landfall certify compare 1b9d6bcd 9b2d   # facts and measurements of both

Exit codes: 0 every host passed, 1 refused by the service or another error, 2 wrong usage, 3 a host failed, 4 no host failed but not \
every step passed, 130 Ctrl-C."
)]
pub struct Certify {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Option<Command>,
    /// The plan
    #[arg(value_name = "PLAN.toml", required_unless_present = "attach", conflicts_with = "attach")]
    plan: Option<PathBuf>,
    /// Follow an existing run: its id, or the start of it
    #[arg(long, value_name = "RUN")]
    attach: Option<String>,
    /// Begin when this many hosts are present; overrides `policy.hosts` of the plan
    #[arg(long, value_name = "COUNT", conflicts_with = "attach", value_parser = clap::value_parser!(u32).range(1..))]
    hosts: Option<u32>,
    /// Only hosts of this infra-env: name, id, or start of the id
    #[arg(long, value_name = "INFRA-ENV", conflicts_with = "attach")]
    infra_env: Option<String>,
    /// Do not ask before disks are overwritten
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    archive: archive::Archive,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List runs
    List,
    /// Show a run: each host, and each step of it
    Show {
        /// The run: its id, or the start of it
        run: String,
    },
    /// Compare two runs: facts and measurements of each machine side by side
    Compare {
        /// The first run: its id, or the start of it
        first: String,
        /// The second run
        second: String,
    },
    /// End a run
    ///
    /// Steps that run on hosts are not interrupted, but their results are ignored.
    Cancel {
        /// The run: its id, or the start of it
        run: String,
    },
    /// Show all runs of a machine
    History {
        /// The machine's serial number
        serial: String,
    },
    #[command(flatten)]
    Offline(Offline),
}

impl Certify {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Some(Command::Offline(command)) => command.run(),
            _ => Console::standard(|console| self.run_on(console)),
        }
    }

    /// The same, printing to `console`.
    pub fn run_on(self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let session = self.reach.session()?;
        let is_run = self.plan.is_some() || self.attach.is_some();
        ensure!(!is_run || self.command.is_none(), "a plan and a command beside it: give one of them");
        match self.command {
            None => {}
            Some(Command::Offline(command)) => return command.run(),
            Some(Command::List) => return list(&session, console).map(done),
            Some(Command::Show { run }) => {
                let document = find(&session, &run)?;
                return print(&session, console, &document).map(done);
            }
            Some(Command::Compare { first, second }) => {
                let runs = (find(&session, &first)?, find(&session, &second)?);
                return compare::compare(&session, console, &runs.0, &runs.1).map(done);
            }
            Some(Command::Cancel { run }) => {
                let id = at(&find(&session, &run)?, "/id").to_owned();
                let document = session.client.send(&CANCEL_CERTIFICATION.at(&[&id]), None)?;
                return match session.json {
                    true => console.json(&document),
                    false => console.say(format!("certification {id} is cancelled")),
                }
                .map(done);
            }
            Some(Command::History { serial }) => return history(&session, console, &serial).map(done),
        }
        let archive = self.archive.prepare()?;
        let id = match (&self.plan, &self.attach) {
            (_, Some(run)) => at(&find(&session, run)?, "/id").to_owned(),
            (Some(path), None) => {
                let mut plan = Plan::read(path)?;
                plan.policy.hosts = self.hosts.or(plan.policy.hosts);
                if let Some(question) = overwritten(&plan) {
                    ask::confirm(self.yes, || Ok(question))?;
                }
                begin(&session, &plan, self.infra_env.as_deref())?
            }
            (None, None) => bail!("name a plan, or a run with --attach"),
        };
        let document = follow(&session, console, &id)?;
        let code = match at(&document, "/result/verdict") {
            "pass" => ExitCode::SUCCESS,
            "fail" => ExitCode::from(EXIT_FAILED),
            _ => ExitCode::from(EXIT_INCOMPLETE),
        };
        print(&session, console, &document)?;
        if let Some(archive) = archive {
            let path = archive.write(&session, &document)?;
            if !session.json {
                console.say(format!("written: {}", path.display()))?;
            }
        }
        Ok(code)
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

/// What a person is asked, if the plan overwrites disks.
fn overwritten(plan: &Plan) -> Option<String> {
    let installs = plan.steps.contains(&Step::Install);
    let destroyed = plan.steps.iter().flat_map(|step| match step {
        Step::Burnin { destroy, .. } => destroy.as_slice(),
        _ => &[],
    });
    let mut disks: Vec<&str> = destroyed.map(String::as_str).collect();
    if installs {
        disks.push("the installation disk");
    }
    (!disks.is_empty()).then(|| format!("The plan overwrites {} of every host.", disks.join(", ")))
}

/// Sends the plan. Gives the run's id.
fn begin(session: &Session, plan: &Plan, infra_env: Option<&str>) -> anyhow::Result<String> {
    let mut target = CREATE_CERTIFICATION.at(&[]);
    if let Some(infra_env) = infra_env {
        target = target.with("infra_env_id", session.infra_env_id(infra_env)?);
    }
    let document = serde_json::from_slice(&plan.to_json()).context("the plan is not JSON")?;
    let run = session.client.send(&target, Some(&document))?;
    Ok(at(&run, "/id").to_owned())
}

/// The run that `wanted` names.
fn find(session: &Session, wanted: &str) -> anyhow::Result<Value> {
    if wanted.parse::<uuid::Uuid>().is_ok() {
        return Ok(session.client.document(&GET_CERTIFICATION.at(&[&wanted]))?);
    }
    let all = session.list(&LIST_CERTIFICATIONS.at(&[]))?;
    let ids: Vec<&str> = all.iter().map(|run| at(run, "/id")).filter(|id| id.starts_with(wanted)).collect();
    ensure!(
        !ids.is_empty() && !wanted.is_empty(),
        "no certification begins with '{wanted}': `landfall certify list` shows all"
    );
    ensure!(ids.len() == 1, "{} certifications begin with '{wanted}': {}", ids.len(), ids.join(", "));
    Ok(session.client.document(&GET_CERTIFICATION.at(&[&ids[0]]))?)
}

fn list(session: &Session, console: &mut Console) -> anyhow::Result<()> {
    let runs = session.list(&LIST_CERTIFICATIONS.at(&[]))?;
    match session.json {
        true => console.json(&Value::Array(runs)),
        false => console.table(&show::list(&runs)),
    }
}

fn history(session: &Session, console: &mut Console, serial: &str) -> anyhow::Result<()> {
    let runs = session.list(&GET_MACHINE_HISTORY.at(&[&serial]))?;
    match session.json {
        true => console.json(&Value::Array(runs)),
        false if runs.is_empty() => bail!("no certification had a machine with the serial number '{serial}'"),
        false => console.table(&show::history(&runs)),
    }
}

fn print(session: &Session, console: &mut Console, document: &Value) -> anyhow::Result<()> {
    if session.json {
        return console.json(document);
    }
    console.say(show::title(document))?;
    console.table(&show::hosts(document))?;
    for (host, table) in show::steps(document) {
        console.say("")?;
        console.say(host)?;
        console.table(&table)?;
    }
    Ok(())
}

/// Shows a run until it ends.
fn follow(session: &Session, console: &Console, id: &str) -> anyhow::Result<Value> {
    let mut live = Live::new(io::stderr().is_terminal(), console.width);
    let note = format!(
        "certification {id:.8} continues: `landfall certify --attach {id:.8}` follows it again,\n`landfall certify cancel {id:.8}` ends it"
    );
    let interrupted = on_interrupt(move || live::put(&format!("\n{note}\n")))?;
    live.say(&format!("certification {id}"));
    let document = loop {
        match session.client.document(&GET_CERTIFICATION.at(&[&id])) {
            Ok(document) => {
                live.show(&document);
                if matches!(at(&document, "/state"), "done" | "cancelled") {
                    break document;
                }
            }
            // The service is restarting, or the network is down.
            Err(error)
                if error.status().is_none_or(|status| status >= 500)
                    && !matches!(error, api::ClientError::Decode { .. }) =>
            {
                live.say(&text::plain(&error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(LOOK);
    };
    live.clear();
    drop(interrupted);
    Ok(document)
}
