//! docs/cmd: a page for each command, made of its help. WRITE_HELP=1 writes them.

use clap::{Command, CommandFactory};
use landfall::{Cli, Commands, Topic, Whole, by_topic};
use std::{collections::BTreeMap, fs, path::Path};

#[test]
fn pages_of_commands_are_their_help() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cmd");
    let mut whole = without_values(Cli::<Whole>::command());
    whole.build();
    let shown: Vec<&Command> =
        whole.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help").collect();
    let mut pages = BTreeMap::from([("README.md".to_owned(), index(&by_topic(&whole, Whole::topic)))]);
    for command in shown {
        let mut text = format!("# landfall {}\n", command.get_name());
        describe(command, &mut text);
        pages.insert(format!("landfall-{}.md", command.get_name()), text);
    }
    if std::env::var_os("WRITE_HELP").is_some() {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        pages.iter().for_each(|(name, text)| fs::write(directory.join(name), text).unwrap());
    }
    let found = fs::read_dir(&directory).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    });
    let found: BTreeMap<String, String> = found.collect();
    let old: Vec<&String> =
        pages.keys().chain(found.keys()).filter(|name| pages.get(*name) != found.get(*name)).collect();
    assert!(old.is_empty(), "WRITE_HELP=1 cargo nextest run -p landfall pages_of_commands writes them: {old:?}");
}

/// Longest line of an example: clap wraps longer ones at 80 columns, in the middle of commands.
const MAX_EXAMPLE: usize = 78;

/// The lines of a text below `Examples:`, up to the next that is not indented.
fn examples(text: &str) -> Vec<&str> {
    let below = text.lines().skip_while(|line| *line != "Examples:").skip(1);
    below.take_while(|line| line.is_empty() || line.starts_with(' ')).collect()
}

/// Of a command, and of those below it.
fn long_examples(path: &str, command: &Command, found: &mut Vec<String>) {
    let path = format!("{path} {}", command.get_name());
    let texts = [command.get_after_help(), command.get_after_long_help()];
    for text in texts.into_iter().flatten().map(ToString::to_string) {
        let lines = examples(&text);
        let long = lines.iter().filter(|line| line.chars().count() > MAX_EXAMPLE);
        found.extend(long.map(|line| format!("{path}: {line}")));
    }
    command.get_subcommands().for_each(|below| long_examples(&path, below, found));
}

#[test]
fn examples_are_lines_that_are_not_wrapped() {
    let text = "Exit codes: 0\n\nExamples:\n  a\n\n  b:\n    c\nThe rest\n  d";
    assert_eq!(examples(text), ["  a", "", "  b:", "    c"]);
    let mut found = Vec::new();
    long_examples("", &Cli::<Whole>::command(), &mut found);
    assert!(found.is_empty(), "{} lines are too long; end them with \\:\n{}", found.len(), found.join("\n"));
}

/// Variables are named, not shown as they are here; a default that is this machine's processor is not named.
fn without_values(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let argument = argument.hide_env_values(true);
        if argument.get_default_values().iter().all(|value| *value != *std::env::consts::ARCH) {
            return argument;
        }
        let help = argument.get_help().cloned().unwrap_or_default();
        argument.hide_default_value(true).help(format!("{help} [default: this machine's]"))
    });
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, without_values))
}

fn index(topics: &[(Topic, Vec<&Command>)]) -> String {
    let row = |command: &&Command| {
        let name = command.get_name();
        format!("| [{name}](landfall-{name}.md) | {} |\n", command.get_about().unwrap_or_default())
    };
    let table = |(topic, commands): &(Topic, Vec<&Command>)| {
        let rows: String = commands.iter().map(row).collect();
        format!("\n## {}\n\n| command | what it does |\n|---|---|\n{rows}", topic.title())
    };
    let tables: String = topics.iter().map(table).collect();
    format!(
        "# Commands\n\nThe help of each command. [commands.md](../commands.md) has their subcommands too.\n{tables}"
    )
}

/// The help of a command, then that of each below it.
fn describe(command: &Command, text: &mut String) {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!("\n```text\n{}\n```\n", lines.join("\n")));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        let name = below.get_bin_name().unwrap_or_else(|| below.get_name());
        text.push_str(&format!("\n## {name}\n"));
        describe(below, text);
    }
}
