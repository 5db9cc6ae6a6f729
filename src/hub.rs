//! The commands of the whole program: the host's, the service, and its clients.

use crate::{
    NAME,
    commands::{Cli, Commands, Host, Purpose},
    topics::Topic,
};
use agent::dropin::Logging;
use clap::{CommandFactory, Subcommand};
use service_stub::{cli::Serve, control};
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// All commands.
#[derive(Debug, Subcommand)]
pub enum Whole {
    #[command(flatten)]
    Hub(Hub),
    #[command(flatten)]
    Host(Host),
}

impl Commands for Whole {
    const HAS_SERVICE: bool = true;

    fn alone(name: &str) -> Option<clap::Command> {
        Host::alone(name).or_else(|| Hub::alone(name))
    }

    fn topic(name: &str) -> Option<Topic> {
        Host::topic(name).or_else(|| Hub::topic(name))
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Host(command) => command.run(),
            Self::Hub(command) => command.run(),
        }
    }

    fn purpose(&self) -> Purpose {
        match self {
            Self::Host(command) => command.purpose(),
            Self::Hub(command) => command.purpose(),
        }
    }

    fn logging(&self) -> Logging {
        match self {
            Self::Host(command) => command.logging(),
            Self::Hub(command) => command.logging(),
        }
    }

    fn has_bar(&self) -> bool {
        matches!(self, Self::Host(command) if command.has_bar())
    }

    fn has_many_threads(&self) -> bool {
        matches!(self, Self::Hub(Hub::Serve(_)))
    }

    fn tag(&self) -> Option<&'static str> {
        match self {
            Self::Host(command) => command.tag(),
            Self::Hub(command) => command.tag(),
        }
    }
}

commands! {
    /// The service and its clients.
    Hub {
        "up" Up(service_stub::up::Up) Acts Install;
        "serve" Serve(Serve) Acts Service;
        "apply" Apply(control::apply::Apply) Acts Service;
        "cluster" Cluster(control::cluster::Cluster) Prints Service;
        "infra-env" InfraEnv(control::infra_env::InfraEnv) Prints Service;
        "host" Host(control::host::Host) Prints Service;
        "wait" Wait(control::wait::Wait) Acts Service;
        "event" Event(control::event::Event) Prints Service;
        "completion" Completion(Completion) Prints Other;
    }
}

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall completion bash > /etc/bash_completion.d/landfall
  landfall completion zsh > \"${fpath[1]}/_landfall\"
  landfall completion fish > ~/.config/fish/completions/landfall.fish")]
pub struct Completion {
    /// Shell to complete in
    shell: clap_complete::Shell,
}

impl Completion {
    fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::<Whole>::command(), NAME, &mut script);
        Ok(io::stdout().write_all(&script)?)
    }
}
