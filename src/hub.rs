//! The commands of the whole program: the host's, the service, and its clients.

use crate::{
    commands::{Commands, Host, Purpose},
    topics::Topic,
};
use agent::dropin::Logging;
use clap::Subcommand;
use service_stub::{cli::Serve, control};
use std::process::ExitCode;

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
            // The host's program lacks this stage: it makes no images.
            Self::Host(Host::Ignition(command)) => command.run_with(Some(installer::ignition_disks::stage)),
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

    fn names(kind: &str, typed: &str, options: &[String]) -> Vec<(String, String)> {
        control::names::Kind::of(kind).map(|kind| control::names::names(kind, typed, options)).unwrap_or_default()
    }

    fn logging(&self) -> Logging {
        match self {
            Self::Host(command) => command.logging(),
            Self::Hub(Hub::Controller(command)) => match command.own_log() {
                Some(log) => Logging { text: Some(log), ..Logging::default() },
                None => Logging::default(),
            },
            Self::Hub(command) => command.logging(),
        }
    }

    fn has_bar(&self) -> bool {
        matches!(self, Self::Host(command) if command.has_bar())
    }

    fn is_server(&self) -> bool {
        match self {
            Self::Host(command) => command.is_server(),
            Self::Hub(command) => matches!(command, Hub::Serve(_) | Hub::Controller(_)),
        }
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
        "certify" Certify(control::certify::Certify) Acts Service;
        "event" Event(control::event::Event) Prints Service;
        "node-iso" NodeIso(node_iso::NodeIso) Acts Images;
        "controller" Controller(controller::cli::Controller) Acts Service;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, complete::line::is_disk};
    use clap::CommandFactory;
    use control::names::Kind;

    /// Arguments below `command` whose value has one of these names in the help.
    fn named(command: &clap::Command, is_wanted: &dyn Fn(&str) -> bool, path: &str, found: &mut Vec<String>) {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set() && !argument.is_global_set())
        {
            for name in argument.get_value_names().unwrap_or_default().iter().filter(|name| is_wanted(name)) {
                found.push(format!(
                    "{path} {}{name}",
                    argument.get_long().map(|l| format!("--{l} ")).unwrap_or_default()
                ));
            }
        }
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            named(below, is_wanted, format!("{path} {}", below.get_name()).trim(), found);
        }
    }

    fn all(is_wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        named(&Cli::<Whole>::command(), is_wanted, "", &mut found);
        found.sort();
        found
    }

    #[test]
    fn values_that_are_completed_by_the_service_are_its_clients() {
        let found = all(&|name| Kind::of(name).is_some());
        assert!(found.len() > 25, "{found:#?}");
        let clients = ["certify ", "cluster ", "host ", "infra-env ", "event ", "wait "];
        for value in &found {
            assert!(clients.iter().any(|client| value.starts_with(client)), "{value} is not a name of the service");
        }
        for value in [
            "cluster show CLUSTER",
            "cluster logs --host HOST",
            "event list --infra-env INFRA-ENV",
            "host bind CLUSTER",
            "host show HOST",
            "infra-env show INFRA_ENV",
            "wait CLUSTER",
        ] {
            assert!(found.iter().any(|name| name == value), "{value} in {found:#?}");
        }
    }

    #[test]
    fn values_that_are_completed_by_disks_of_this_machine() {
        assert_eq!(
            all(&is_disk),
            [
                "agent replay --allow-writes DEVICE",
                "boot-order set DEVICE",
                "burnin --destroy DISK",
                "burnin --disk DISK",
                "disk speed DEVICE",
                "ignition apply --disks DEVICE",
                "install --boot-device DEVICE",
                "install --format-disk DEVICE",
                "install DEST_DEVICE",
                "up --stick DEVICE",
                "wipe DISK",
            ]
        );
    }
}
