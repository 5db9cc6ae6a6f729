//! What is declared of a type of step, and the means to declare it with.

use super::{
    fields::{self, Field},
    refusal::Refusal,
};
use crate::{confine::Named, dry::DryRun, outcome::Outcome, privileges::Privileges, settings::Settings};
use api::{HostId, ServiceDocument, Step, StepKind, StepType};
use serde::{Serialize, de::DeserializeOwned};
use std::{borrow::Cow, fmt, time::Duration};

/// What the agent knows of a type of step.
pub(crate) struct Kind {
    pub step_type: StepType,
    /// What its request must have, and in which form.
    pub fields: &'static [Field],
    /// The child that carries it out.
    pub act: Act,
    pub deadline: Deadline,
    /// On a host that is only pretended.
    pub dry: Dry,
    /// What the service gets for exit code 1 (docs/compatibility.md#replies): what it knows from the real agent, that is [`IN_PROCESS`] or [`IN_CONTAINER`], or
    /// the code itself.
    pub failed: i64,
    /// Whether it prints a document, without the line end for a terminal.
    pub prints_json: bool,
    /// Whether its standard error is part of the answer also when it succeeds.
    pub answers_on_stderr: bool,
    /// What the child may do and use.
    pub privileges: Privileges,
}

/// Of what the real agent does in its own process.
pub(crate) const IN_PROCESS: i64 = -1;
/// Of what it runs in a container.
pub(crate) const IN_CONTAINER: i64 = 255;

/// Which child carries a step out.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// A subcommand of `landfall netcheck`, which is fed with the step's own document if that can be read. `what` names it in errors.
    Check { subcommand: &'static str, what: &'static str, read: fn(&str, &'static str) -> Result<(), Refusal> },
    /// The one that this makes of the request. Its deadline counts for [`Deadline::Requested`] alone.
    Run(fn(&Step, &Settings, HostId) -> Result<Run, Refusal>),
    /// The same, with an answer that is made of the child's, or of why there is none; `None` for a request that can't be read.
    Answered {
        run: fn(&Step, &Settings, HostId) -> Result<Run, Refusal>,
        answer: fn(&Step, &Outcome) -> Option<String>,
    },
}

/// How long the child may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    After(Duration),
    /// As long as any check of the network.
    Network,
    /// As long as an inventory.
    Inventory,
    /// What the request allows, and this: the child watches its own time, and is ended only when it fails to.
    Requested {
        grace: Duration,
    },
}

/// What becomes of a step of some type on a pretended host.
#[derive(Clone, Copy)]
pub(crate) enum Dry {
    /// It is really carried out.
    Earnest,
    /// This is answered.
    Answered(fn(&Step) -> Result<String, String>),
    /// It is carried out, and this is made of its output.
    Edited(fn(&DryRun, &str) -> serde_json::Result<String>),
    /// The first where it has something for the step, else the second.
    AnsweredOrEdited(fn(&Step) -> Option<Result<String, String>>, fn(&DryRun, &str) -> serde_json::Result<String>),
    /// It would change the machine.
    Refused,
}

impl Kind {
    /// A check of the network: a subcommand of `landfall netcheck`, on a pretended host too. `what` names its request in errors.
    pub(crate) const fn check<K: StepKind<Request: DeserializeOwned>>(
        subcommand: &'static str,
        what: &'static str,
        fields: &'static [Field],
        privileges: Privileges,
    ) -> Self {
        Self {
            step_type: K::TYPE,
            fields,
            act: Act::Check { subcommand, what, read: can_be_read::<K> },
            deadline: Deadline::Network,
            dry: Dry::Earnest,
            failed: IN_PROCESS,
            prints_json: true,
            answers_on_stderr: false,
            privileges,
        }
    }

    pub(crate) const fn with_failure(mut self, exit_code: i64) -> Self {
        self.failed = exit_code;
        self
    }

    pub(crate) const fn with_answers_on_stderr(mut self) -> Self {
        self.answers_on_stderr = true;
        self
    }

    pub(crate) const fn pretended(mut self, dry: Dry) -> Self {
        self.dry = dry;
        self
    }

    /// Decides on `step`, which is of this type, for `host`.
    pub(crate) fn action(&self, step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
        fields::check(self.fields, step)?;
        self.run(step, settings, host)
    }

    /// What the service gets for this: the step itself succeeds where the answer says what failed.
    pub(crate) fn answer(&self, step: &Step, outcome: Outcome) -> Outcome {
        let Act::Answered { answer, .. } = self.act else { return outcome };
        match answer(step, &outcome) {
            Some(output) => Outcome { exit_code: 0, output, error: String::new() },
            None => outcome,
        }
    }

    /// The same without a look at the fields of the request.
    pub(crate) fn run(&self, step: &Step, settings: &Settings, host: HostId) -> Result<Run, Refusal> {
        let mut run = match self.act {
            Act::Check { subcommand, what, read } => {
                let request = only_arg(step)?;
                read(request, what)?;
                Run::netcheck(subcommand, request)
            }
            Act::Run(act) | Act::Answered { run: act, .. } => act(step, settings, host)?,
        };
        run.answers_on_stderr = self.answers_on_stderr;
        run.deadline = Some(match self.deadline {
            Deadline::After(duration) => duration,
            Deadline::Network => settings.pace.network,
            Deadline::Inventory => settings.pace.inventory,
            Deadline::Requested { grace } => run.deadline.unwrap_or_default() + grace,
        });
        Ok(run)
    }
}

fn can_be_read<K: StepKind<Request: DeserializeOwned>>(request: &str, what: &'static str) -> Result<(), Refusal> {
    read::<K::Request>(request, what).map(drop)
}

/// A child process of this program.
#[derive(Clone, PartialEq, Eq)]
pub struct Run {
    /// Its arguments.
    pub args: Vec<Cow<'static, str>>,
    /// Its standard input; may hold the token.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub deadline: Option<Duration>,
    /// Whether it ends with the agent. An installation doesn't: a half-written disk is useless, and the installer
    /// reports to the service itself.
    pub dies_with_agent: bool,
    /// Whether its standard error is part of the answer also when it succeeds; else that is a log, and ours alone.
    pub answers_on_stderr: bool,
    /// What its rules depend on.
    pub named: Named,
}

impl fmt::Debug for Run {
    /// Of the input only its length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("args", &self.args)
            .field("stdin_bytes", &self.stdin.len())
            .field("deadline", &self.deadline)
            .field("dies_with_agent", &self.dies_with_agent)
            .field("answers_on_stderr", &self.answers_on_stderr)
            .field("named", &self.named)
            .finish()
    }
}

impl Run {
    /// A child that ends with the agent, answers on standard output and writes to no disk.
    pub(super) fn new<const N: usize>(args: [&'static str; N], stdin: Vec<u8>) -> Self {
        Self {
            args: args.map(Cow::from).into(),
            stdin,
            deadline: None,
            dies_with_agent: true,
            answers_on_stderr: false,
            named: Named::default(),
        }
    }

    pub(super) fn netcheck(subcommand: &'static str, request: &str) -> Self {
        Self::new(["netcheck", subcommand, "--request", "-", "--json"], request.as_bytes().to_vec())
    }
}

pub(super) fn read<R: DeserializeOwned>(request: &str, what: &'static str) -> Result<R, Refusal> {
    serde_json::from_slice(request.as_bytes()).map_err(|error| Refusal::Json { what, error })
}

pub(super) fn write(document: &impl Serialize, what: &'static str) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(document).map_err(|error| Refusal::Json { what, error })
}

/// How a child reaches the service.
pub(super) fn service(settings: &Settings) -> ServiceDocument {
    ServiceDocument {
        url: settings.url.clone(),
        token: settings.token.clone(),
        ca_cert: settings.http.ca_cert.clone(),
        insecure: settings.http.insecure,
        agent_version: settings.agent_version.clone(),
    }
}

pub(super) fn only_arg(step: &Step) -> Result<&String, Refusal> {
    args(step).map(|[arg]| arg)
}

/// Exactly this many.
pub(super) fn args<const N: usize>(step: &Step) -> Result<&[String; N], Refusal> {
    step.args.as_slice().try_into().map_err(|_| arg_count(step, N))
}

pub(super) fn arg_count(step: &Step, expected: usize) -> Refusal {
    let given = step.args.iter().take(8).map(|arg| arg.chars().take(80).collect()).collect();
    Refusal::ArgCount { step: step.step_type.clone(), expected, given }
}

/// Answers the only argument of `step`, which `what` names in errors.
pub(super) fn answer<Q: DeserializeOwned, A: Serialize>(
    step: &Step,
    what: &'static str,
    answer: impl FnOnce(Q) -> A,
) -> Result<String, String> {
    let refused = |error| Refusal::Json { what, error }.to_string();
    let request = only_arg(step).map_err(|refusal| refusal.to_string())?;
    let request = serde_json::from_slice(request.as_bytes()).map_err(refused)?;
    serde_json::to_string(&answer(request)).map_err(refused)
}
