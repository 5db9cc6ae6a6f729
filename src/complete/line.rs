//! From the words of a command line to what the last one may become, by what clap knows of the commands. Pure.

use clap::{Arg, ArgAction, Command, ValueHint, builder::StyledStr};

/// What a word may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) value: String,
    /// What it is, in a few words.
    pub(crate) about: String,
}

/// What the shell completes where no candidate fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Paths {
    #[default]
    None,
    Files,
    Directories,
}

/// What is offered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Completions {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) paths: Paths,
}

/// Finds what a value may be: by its name in the help, such as `CLUSTER`, what is typed of it, and the options of the line, as
/// `--NAME=VALUE`.
pub(crate) type Find<'a> = dyn Fn(&str, &str, &[String]) -> Vec<Candidate> + 'a;

/// Whether a value of this name in the help is a disk of this machine.
pub(crate) fn is_disk(kind: &str) -> bool {
    matches!(kind, "DEST_DEVICE" | "DEVICE" | "DISK")
}

/// What the last of the words after the program's name may become.
pub(crate) fn complete(command: &Command, words: &[String], find: &Find) -> Completions {
    let Some((word, before)) = words.split_last() else { return Completions::default() };
    let line = Line::read(command, before);
    if let Some(option) = line.pending {
        return line.values(option, "", word, find);
    }
    if !line.is_past_options {
        let value = word.strip_prefix("--").and_then(|long| long.split_once('='));
        if let Some((name, typed)) = value {
            let option = line.long(name).filter(|option| takes_value(option));
            let start = word.strip_suffix(typed).unwrap_or_default();
            return option.map(|option| line.values(option, start, typed, find)).unwrap_or_default();
        }
        if word.starts_with('-') {
            return Completions { candidates: line.options(word), paths: Paths::None };
        }
    }
    let mut found = line.positional().map(|argument| line.values(argument, "", word, find)).unwrap_or_default();
    found.candidates.splice(..0, line.subcommands(word));
    found
}

/// The words before the one that is completed.
struct Line<'a> {
    command: &'a Command,
    /// The option whose value comes next.
    pending: Option<&'a Arg>,
    /// How many words of this command belong to no option.
    positions: usize,
    /// Whether `--` came.
    is_past_options: bool,
    /// Options with their values, which are empty for flags.
    options: Vec<(&'a Arg, String)>,
}

impl<'a> Line<'a> {
    fn read(command: &'a Command, words: &[String]) -> Self {
        let mut line = Self { command, pending: None, positions: 0, is_past_options: false, options: Vec::new() };
        words.iter().for_each(|word| line.take(word));
        line
    }

    fn take(&mut self, word: &str) {
        if let Some(option) = self.pending.take() {
            return self.options.push((option, word.to_owned()));
        }
        match word.strip_prefix('-').filter(|rest| !rest.is_empty() && !self.is_past_options) {
            Some("-") => self.is_past_options = true,
            Some(rest) => match rest.strip_prefix('-') {
                Some(long) => self.take_long(long),
                None => self.take_short(rest),
            },
            None => match self.subcommand(word) {
                Some(command) => (self.command, self.positions) = (command, 0),
                None => self.positions += 1,
            },
        }
    }

    fn take_long(&mut self, long: &str) {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        if let Some(option) = self.long(name) {
            self.take_option(option, value);
        }
    }

    fn take_short(&mut self, letters: &str) {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let option = self.command.get_arguments().find(|option| {
                option.get_short() == Some(letter)
                    || option.get_all_short_aliases().is_some_and(|all| all.contains(&letter))
            });
            let Some(option) = option else { return };
            if takes_value(option) {
                let value = rest.as_str();
                let value = value.strip_prefix('=').unwrap_or(value);
                return self.take_option(option, Some(value).filter(|value| !value.is_empty()));
            }
            self.take_option(option, None);
        }
    }

    fn take_option(&mut self, option: &'a Arg, value: Option<&str>) {
        if value.is_none() && takes_value(option) && !option.is_require_equals_set() {
            self.pending = Some(option);
        } else {
            self.options.push((option, value.unwrap_or_default().to_owned()));
        }
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|option| {
            option.get_long() == Some(name) || option.get_all_aliases().is_some_and(|all| all.contains(&name))
        })
    }

    /// A subcommand comes before arguments.
    fn subcommand(&self, word: &str) -> Option<&'a Command> {
        if self.positions > 0 || self.is_past_options { None } else { self.command.find_subcommand(word) }
    }

    fn subcommands(&self, typed: &str) -> Vec<Candidate> {
        if self.positions > 0 || self.is_past_options {
            return Vec::new();
        }
        let fits = |command: &&Command| !command.is_hide_set() && command.get_name().starts_with(typed);
        let all = self.command.get_subcommands().filter(fits);
        all.map(|command| candidate(command.get_name().to_owned(), command.get_about())).collect()
    }

    /// The argument that a word without a dash is.
    fn positional(&self) -> Option<&'a Arg> {
        let is_next = |argument: &&Arg| self.is_past_options || !argument.is_last_set();
        let all: Vec<&Arg> = self.command.get_positionals().filter(is_next).collect();
        let last = all.last().filter(|argument| repeats(argument));
        all.get(self.positions).or(last).copied().filter(|argument| !argument.is_hide_set())
    }

    /// Options that the line does not have yet, or that repeat.
    fn options(&self, typed: &str) -> Vec<Candidate> {
        let is_given = |option: &Arg| self.options.iter().any(|(given, _)| given.get_id() == option.get_id());
        let mut found = Vec::new();
        for option in
            self.command.get_arguments().filter(|argument| !argument.is_positional() && !argument.is_hide_set())
        {
            if is_given(option) && !repeats(option) {
                continue;
            }
            let long = option.get_long().map(|long| format!("--{long}"));
            let name = long.or_else(|| option.get_short().map(|short| format!("-{short}")));
            let name = name.filter(|name| name.starts_with(typed));
            found.extend(name.map(|name| candidate(name, option.get_help())));
        }
        found
    }

    /// Values of an argument. `start` is the part of the word before the value.
    fn values(&self, argument: &Arg, start: &str, typed: &str, find: &Find) -> Completions {
        // Only the last one of a list.
        let delimiter = argument.get_value_delimiter();
        let begin = delimiter.and_then(|delimiter| Some(typed.rfind(delimiter)? + delimiter.len_utf8())).unwrap_or(0);
        let (earlier, last) = typed.split_at(begin);
        let possible = argument.get_possible_values();
        let kind = kind(argument);
        let candidates = match possible.is_empty() {
            true => find(kind, last, &self.given()),
            false => {
                let shown = possible.iter().filter(|value| !value.is_hide_set());
                shown.map(|value| candidate(value.get_name().to_owned(), value.get_help())).collect()
            }
        };
        let fits = candidates.into_iter().filter(|candidate| candidate.value.starts_with(last));
        let whole = fits.map(|found| Candidate { value: format!("{start}{earlier}{}", found.value), ..found });
        Completions {
            candidates: whole.collect(),
            paths: if possible.is_empty() { paths(argument) } else { Paths::None },
        }
    }

    /// The options of the line, as `--NAME=VALUE` or `--NAME`.
    fn given(&self) -> Vec<String> {
        let spelled = |(option, value): &(&Arg, String)| {
            let name = option.get_long()?;
            Some(if takes_value(option) { format!("--{name}={value}") } else { format!("--{name}") })
        };
        self.options.iter().filter_map(spelled).collect()
    }
}

fn candidate(value: String, about: Option<&StyledStr>) -> Candidate {
    let about = about.map(ToString::to_string).unwrap_or_default();
    Candidate { value, about: about.lines().next().unwrap_or_default().to_owned() }
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

fn repeats(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append | ArgAction::Count)
}

/// The name of its value in the help.
fn kind(argument: &Arg) -> &str {
    argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str())
}

/// The paths that an argument may be, by the name of its value and by its type.
fn paths(argument: &Arg) -> Paths {
    match (kind(argument), argument.get_value_hint()) {
        ("DIR" | "DIRECTORY", _) | (_, ValueHint::DirPath) => Paths::Directories,
        (_, ValueHint::AnyPath | ValueHint::FilePath | ValueHint::ExecutablePath) => Paths::Files,
        // A link to it, perhaps.
        (kind, _) if is_disk(kind) => Paths::Files,
        _ => Paths::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Parser, ValueEnum};
    use std::path::PathBuf;

    #[derive(Debug, Parser)]
    #[command(name = "tool")]
    struct Tool {
        /// Say more
        #[arg(short, long, global = true, action = ArgAction::Count)]
        verbose: u8,
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Sub {
        /// Racks
        ///
        /// More of it.
        Rack {
            /// Its service
            #[arg(long, global = true, value_name = "URL")]
            url: Option<String>,
            #[command(subcommand)]
            command: Rack,
        },
        /// Write
        Write {
            /// What to write
            #[arg(short, long, visible_alias = "source", value_name = "FILE")]
            image: Option<PathBuf>,
            /// Where to
            #[arg(long, value_name = "DIR")]
            scratch: Option<PathBuf>,
            /// How
            #[arg(short, long, value_delimiter = ',')]
            method: Vec<Method>,
            /// Pretend
            #[arg(short = 'n', long)]
            dry_run: bool,
            /// Compress
            #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
            compress: Option<String>,
            #[arg(long, hide = true)]
            secret: bool,
            device: PathBuf,
            #[arg(value_name = "DEVICE")]
            more: Vec<String>,
        },
        #[command(hide = true)]
        Internal,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Rack {
        Show {
            rack: String,
        },
        Run {
            rack: String,
            #[arg(last = true, value_name = "WORD")]
            words: Vec<String>,
        },
        /// Rows of it
        Row,
    }

    #[derive(Clone, Debug, ValueEnum)]
    enum Method {
        /// Slow
        Safe,
        Fast,
    }

    /// Names that begin with the kind, and the options that were given.
    fn find(kind: &str, typed: &str, options: &[String]) -> Vec<Candidate> {
        match kind {
            "RACK" => vec![
                Candidate { value: "r1".into(), about: options.join(" ") },
                Candidate { value: "s1".into(), about: typed.into() },
            ],
            "DEVICE" => vec![Candidate { value: "/dev/sda".into(), about: String::new() }],
            _ => Vec::new(),
        }
    }

    fn completions(line: &str) -> Completions {
        use clap::CommandFactory;
        let mut command = Tool::command();
        command.build();
        complete(&command, &line.split(' ').map(str::to_owned).collect::<Vec<_>>(), &find)
    }

    fn values(line: &str) -> Vec<String> {
        completions(line).candidates.into_iter().map(|candidate| candidate.value).collect()
    }

    #[test]
    fn commands_are_completed_where_one_may_come() {
        for (line, expected) in [
            ("", &["rack", "write", "help"][..]),
            ("r", &["rack"]),
            ("x", &[]),
            ("-v w", &["write"]),
            ("rack ", &["show", "run", "row", "help"]),
            ("rack --url x r", &["run", "row"]),
            ("rack --url=x sh", &["show"]),
            ("help rack s", &["show"]),
            ("internal ", &[]),
        ] {
            assert_eq!(values(line), expected, "{line}");
        }
        let about = |line| completions(line).candidates.pop().unwrap().about;
        assert_eq!((about("rack").as_str(), about("rack row").as_str()), ("Racks", "Rows of it"));
    }

    #[test]
    fn options_are_those_of_the_command_that_are_not_there_yet() {
        let all = ["--image", "--scratch", "--method", "--dry-run", "--compress", "--verbose", "--help"];
        assert_eq!(values("write -"), all);
        assert_eq!(values("write --dry-run --i"), ["--image"]);
        let left = ["--scratch", "--method", "--compress", "--verbose", "--help"];
        assert_eq!(values("write -nvi file -m safe --"), left);
        assert_eq!(values("write --source=file -n --"), left);
        assert_eq!(values("rack show --u"), ["--url"]);
        assert_eq!(values("write -- --i"), [""; 0]);
        assert_eq!(completions("write --i").candidates[0].about, "What to write");
    }

    #[test]
    fn values_are_completed_behind_their_option() {
        for (line, expected) in [
            ("write --method ", &["safe", "fast"][..]),
            ("write --method=", &["--method=safe", "--method=fast"]),
            ("write --method=f", &["--method=fast"]),
            ("write --method safe,f", &["safe,fast"]),
            ("write -m s", &["safe"]),
            ("write -nm ", &["safe", "fast"]),
            ("write --dry-run=", &[]),
            ("write --nonsense=", &[]),
            // Its value is never a word of its own.
            ("write --compress ", &["/dev/sda"]),
        ] {
            assert_eq!(values(line), expected, "{line}");
        }
        assert_eq!(completions("write -m ").candidates[0].about, "Slow");
    }

    #[test]
    fn names_are_found_by_the_name_of_the_value() {
        let found = completions("rack --url=http://x show -v r");
        assert_eq!(found.candidates, [Candidate { value: "r1".into(), about: "--url=http://x --verbose".into() }]);
        assert_eq!(found.paths, Paths::None);
        assert_eq!(completions("rack show s").candidates[0].about, "s");
        assert_eq!(values("rack show r1 "), [""; 0]);
        assert_eq!(values("rack run "), ["r1", "s1"]);
        assert_eq!(values("rack run r1 "), [""; 0]);
        assert_eq!(values("rack run -- "), ["r1", "s1"]);
        assert_eq!(values("rack run r1 -- -"), [""; 0]);
    }

    #[test]
    fn paths_are_left_to_the_shell() {
        for (line, expected) in [
            ("write --image ", Paths::Files),
            ("write --image=x", Paths::Files),
            ("write -i x", Paths::Files),
            ("write --scratch ", Paths::Directories),
            ("write --method ", Paths::None),
            ("write -i x ", Paths::Files),
            ("write x y ", Paths::Files),
            ("rack --url ", Paths::None),
            ("", Paths::None),
        ] {
            assert_eq!(completions(line).paths, expected, "{line}");
        }
        // A positional that repeats takes all that follow.
        assert_eq!(values("write x /dev/s"), ["/dev/sda"]);
        assert_eq!(values("write x y z "), ["/dev/sda"]);
    }
}
