//! Help of the whole program: its commands by topic.

use clap::Command;
use kernel::wrapped;
use std::fmt::Write;

/// As wide as all help.
const COLUMNS: usize = 80;

/// What a command is about. Help lists the topics in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Install,
    Machine,
    Images,
    Service,
    Other,
}

impl Topic {
    const ALL: [Self; 5] = [Self::Install, Self::Machine, Self::Images, Self::Service, Self::Other];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Install => "Install",
            Self::Machine => "This machine",
            Self::Images => "Images and configs",
            Self::Service => "The service and its clients",
            Self::Other => "Other",
        }
    }
}

/// The topics that have commands, each with its commands in the order of their table. `topic` has the topic of each name.
pub fn by_topic(whole: &Command, topic: fn(&str) -> Option<Topic>) -> Vec<(Topic, Vec<&Command>)> {
    let of = |wanted: Topic| -> Vec<&Command> {
        let shown = whole.get_subcommands().filter(|command| !command.is_hide_set());
        shown.filter(|command| topic(command.get_name()) == Some(wanted)).collect()
    };
    Topic::ALL.map(|topic| (topic, of(topic))).into_iter().filter(|(_, commands)| !commands.is_empty()).collect()
}

/// `whole`, whose help lists its commands by topic.
pub(crate) fn grouped(whole: Command, topic: fn(&str) -> Option<Topic>) -> Command {
    let heading = whole.get_styles().get_header();
    let literal = whole.get_styles().get_literal();
    let topics = by_topic(&whole, topic);
    let names = topics.iter().flat_map(|(_, commands)| commands).map(|command| command.get_name().len());
    let width = names.max().unwrap_or_default();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (topic, commands) in &topics {
        // Writing to a String does not fail.
        let _ = writeln!(text, "\n{heading}{}:{heading:#}", topic.title());
        for command in commands {
            let name = command.get_name();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let lines = wrapped(&format!("  {name:<width$}  "), &about, width + 4, COLUMNS);
            text.push_str(&lines.replacen(name, &format!("{literal}{name}{literal:#}"), 1));
        }
    }
    let _ = write!(text, "\n{heading}Options:{heading:#}\n{{options}}{{after-help}}");
    whole.help_template(text)
}
