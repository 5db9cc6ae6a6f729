//! The shells that complete our command lines: their scripts, what those ask, and how they read the answer.
//!
//! A script knows no command: it asks `landfall complete SHELL`, followed in zsh and fish by the words after the program's name, the
//! last being the one to complete. bash cuts words at `=` and `:` too, so it sends the part that it would replace, and the command
//! line up to the cursor. The answer's first line says which paths the shell completes where no candidate fits, and each further
//! line is a candidate.

use crate::complete::line::{Candidate, Completions, Paths};
use std::io::{self, Write};

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// The script that makes it complete our command lines.
    pub(crate) fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("landfall.bash"),
            Self::Zsh => include_str!("_landfall"),
            Self::Fish => include_str!("landfall.fish"),
        }
    }
}

/// Print a shell completion script
///
/// The script asks this program when Tab is pressed. Commands, options and their values, disks of this machine and, with the
/// service in LANDFALL_URL, names of clusters, hosts and infra-envs are completed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(landfall completion bash)         # in this shell
  landfall completion bash > /etc/bash_completion.d/landfall
  landfall completion zsh > \"${fpath[1]}/_landfall\"
  landfall completion fish > ~/.config/fish/completions/landfall.fish")]
pub struct Completion {
    /// Shell to complete in
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self) -> io::Result<()> {
        io::stdout().write_all(self.shell.script().as_bytes())
    }
}

/// What a script asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    shell: Shell,
    /// The words after the program's name up to the cursor. The last is completed, and may be empty.
    pub(crate) words: Vec<String>,
    /// Bytes at the start of the last word that the shell leaves as they are.
    kept: usize,
}

impl Request {
    /// `None` if no script asks that.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let (shell, rest) = arguments.split_first()?;
        let shell = <Shell as clap::ValueEnum>::from_str(shell, false).ok()?;
        if shell != Shell::Bash {
            return (!rest.is_empty()).then(|| Self { shell, words: rest.to_vec(), kept: 0 });
        }
        let [replaced, line] = rest else { return None };
        let mut words = split(line);
        let replaced = split(replaced).pop()?;
        let kept = words.last()?.strip_suffix(replaced.as_str()).map_or(0, str::len);
        words.remove(0);
        (!words.is_empty()).then_some(Self { shell, words, kept })
    }

    /// The answer, as the script reads it.
    pub(crate) fn answer(&self, found: &Completions) -> String {
        let paths = match found.paths {
            Paths::None => "none",
            Paths::Files => "files",
            Paths::Directories => "directories",
        };
        let lines = found.candidates.iter().map(|candidate| format!("{}\n", self.line(candidate)));
        format!("{paths}\n{}", lines.collect::<String>())
    }

    fn line(&self, Candidate { value, about }: &Candidate) -> String {
        // A line is a candidate, and models of disks are from outside.
        let about = about.replace(char::is_control, " ");
        match (self.shell, about.trim()) {
            (Shell::Bash, _) => value.get(self.kept..).unwrap_or_default().to_owned(),
            (Shell::Zsh, about) => {
                let value = value.replace('\\', "\\\\").replace(':', "\\:");
                if about.is_empty() { value } else { format!("{value}:{about}") }
            }
            (Shell::Fish, "") => value.clone(),
            (Shell::Fish, about) => format!("{value}\t{about}"),
        }
    }
}

/// The words of a command line in bash, without their quotes. The last one ends at the cursor, which may be inside of quotes.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.push(word.unwrap_or_default());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

    fn request(arguments: &[&str]) -> Option<Request> {
        Request::parse(&arguments.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn found(value: &str, about: &str) -> Completions {
        let candidates = vec![Candidate { value: value.to_owned(), about: about.to_owned() }];
        Completions { candidates, paths: Paths::Files }
    }

    #[test]
    fn a_command_line_of_bash_is_cut_into_words() {
        for (line, words) in [
            ("", &[""][..]),
            ("landfall", &["landfall"]),
            ("landfall  iso ", &["landfall", "iso", ""]),
            ("a 'b  c' \"d \\\" e\" f\\ g", &["a", "b  c", "d \" e", "f g"]),
            ("a '' \"b c", &["a", "", "b c"]),
            ("a 'b\\", &["a", "b\\"]),
            ("a b\\", &["a", "b"]),
        ] {
            assert_eq!(split(line), words, "{line}");
        }
    }

    #[test]
    fn bash_replaces_what_follows_the_last_sign_that_it_cuts_at() {
        let color = request(&["bash", "al", "landfall --color=al"]).unwrap();
        assert_eq!(color.words, ["--color=al"]);
        assert_eq!(color.answer(&found("--color=always", "x")), "files\nalways\n");
        let whole = request(&["bash", "clu", "./landfall -v clu"]).unwrap();
        assert_eq!(whole.words, ["-v", "clu"]);
        assert_eq!(whole.answer(&found("cluster", "")), "files\ncluster\n");
        let quoted = request(&["bash", "ra", "landfall cluster show \"ra"]).unwrap();
        assert_eq!((quoted.words.last().unwrap().as_str(), quoted.kept), ("ra", 0));
    }

    #[test]
    fn zsh_and_fish_show_what_a_candidate_is() {
        let zsh = request(&["zsh", "host", ""]).unwrap();
        assert_eq!(zsh.words, ["host", ""]);
        assert_eq!(zsh.answer(&found("a:b", "c: d")), "files\na\\:b:c: d\n");
        assert_eq!(zsh.answer(&found("a", "")), "files\na\n");
        let fish = request(&["fish", ""]).unwrap();
        assert_eq!(fish.answer(&found("a:b", "c\td\n--evil")), "files\na:b\tc d --evil\n");
        assert_eq!(fish.answer(&found("a", "\n")), "files\na\n");
    }

    #[test]
    fn other_requests_are_refused() {
        for bad in
            [&[][..], &["bash"], &["bash", "x"], &["bash", "", ""], &["zsh"], &["tcsh", "x"], &["bash", "", "a b", "c"]]
        {
            assert_eq!(request(bad), None, "{bad:?}");
        }
    }

    /// What the scripts must have, whether or not this machine has their shells.
    #[test]
    fn scripts_are_small_and_ask_the_program() {
        for (shell, parts) in ALL.into_iter().zip([
            &[
                "\"$program\" complete bash \"$2\" \"${COMP_LINE:0:COMP_POINT}\"",
                "compopt -o default",
                "compopt -o dirnames",
                "\ncomplete -o nosort -F _landfall landfall\n",
            ][..],
            &[
                "#compdef landfall\n",
                "complete zsh",
                "_describe",
                "_files",
                "_files -/",
                "\n    compdef _landfall landfall\n",
            ],
            &["complete fish", "__fish_complete_path", "__fish_complete_directories", "\ncomplete -c landfall "],
        ]) {
            let script = shell.script();
            assert!(script.len() < 4096, "{shell:?}: {} bytes", script.len());
            for part in parts {
                assert!(script.contains(part), "{shell:?}: {part}");
            }
            // Nothing of the answer is evaluated.
            assert!(!script.contains("eval"), "{shell:?}");
        }
    }
}
