//! Commands that are looked at and not run: does the program know the subcommand and each option?

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use testkit::wait;

/// Looks at commands; knows help once asked for.
pub(crate) struct Checker {
    bin: PathBuf,
    scratch: PathBuf,
    help: BTreeMap<Vec<String>, String>,
}

impl Checker {
    /// Programs are taken from `bin`; files that commands name are in `scratch`.
    pub(crate) fn new(bin: &Path, scratch: &Path) -> Self {
        Self { bin: bin.to_owned(), scratch: scratch.to_owned(), help: BTreeMap::new() }
    }

    /// Checks each command of a script; how many there were, or what is wrong.
    pub(crate) fn script(&mut self, text: &str) -> Result<usize, String> {
        let commands = commands(text);
        for words in &commands {
            self.command(words).map_err(|why| format!("{}: {why}", words.join(" ")))?;
        }
        Ok(commands.len())
    }

    fn command(&mut self, words: &[String]) -> Result<(), String> {
        match words[0].as_str() {
            "landfall" | "coreos-installer" => self.ours(words),
            "make" => make(&words[1..]),
            "qemu-system-x86_64" => self.machine(words),
            "virt-install" => manual(words),
            // The shell's and the system's, without meaning for us.
            "export" | "find" | "jq" | "minisign" | "modprobe" | "openssl" | "sha256sum" | "sort" | "tar" | "xargs" => {
                Ok(())
            }
            _ => Err("nobody checks this program".to_owned()),
        }
    }

    /// Walks down the subcommands as far as help lists them, then looks for each option in the last one's help.
    fn ours(&mut self, words: &[String]) -> Result<(), String> {
        let mut path = vec![words[0].clone()];
        let mut rest = &words[1..];
        let mut help = self.help(&path)?;
        while let Some((first, others)) = rest.split_first() {
            let Some(listed) = listed(&help) else { break };
            if first.starts_with('-') || !listed.lines().any(|line| line.split_whitespace().next() == Some(first)) {
                break;
            }
            path.push(first.clone());
            help = self.help(&path)?;
            rest = others;
        }
        // Its first usage may end with a value of its own.
        let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default();
        let takes_value = usage.split(' ').next_back().is_some_and(|word| word.starts_with('[') && word != "[OPTIONS]");
        let needs_more = listed(&help).is_some() && !help.contains("[OPTIONS]\n") && !takes_value;
        if needs_more && rest.first().is_none_or(|word| !word.starts_with('-')) {
            return Err(format!("{} has no such subcommand", path.join(" ")));
        }
        let known: Vec<&str> = help
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.starts_with('-'))
            .collect();
        for word in rest.iter().take_while(|word| *word != "--").filter(|word| word.starts_with('-') && *word != "-") {
            let name = word.split('=').next().unwrap_or_default();
            if !known.contains(&name) {
                return Err(format!("{} has no option {name}", path.join(" ")));
            }
        }
        Ok(())
    }

    fn help(&mut self, path: &[String]) -> Result<String, String> {
        if let Some(help) = self.help.get(path) {
            return Ok(help.clone());
        }
        let output = Command::new(self.bin.join(&path[0])).args(&path[1..]).arg("--help").output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{} --help: {}", path.join(" "), String::from_utf8_lossy(&output.stderr)));
        }
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        self.help.insert(path.to_vec(), help.clone());
        Ok(help)
    }

    /// A virtual machine that is not started (`-S`) looks at all of its command line, and at the files in it.
    fn machine(&self, words: &[String]) -> Result<(), String> {
        let errors = self.scratch.join("qemu.log");
        let log = fs::File::create(&errors).map_err(|error| error.to_string())?;
        let mut command = Command::new(&words[0]);
        // Whether KVM works here is not the page's matter.
        let kvm = words.windows(2).position(|pair| pair[0] == "-accel" && pair[1] == "kvm");
        let left = words.iter().enumerate().filter(|(at, _)| kvm.is_none_or(|kvm| *at != kvm && *at != kvm + 1));
        command
            .args(left.skip(1).map(|(_, word)| word))
            .args(["-S", "-qmp", "unix:qmp,server=on,wait=off"])
            .current_dir(&self.scratch)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let mut machine = match command.spawn() {
            Ok(machine) => machine,
            Err(error) => return super::skipped(&format!("{}: {error}", words[0])),
        };
        // It answers once it has taken its command line.
        let control = self.scratch.join("qmp");
        let mut ended = None;
        let is_taken = wait::comes(|| {
            ended = machine.try_wait().ok().flatten();
            ended.is_some() || says_its_state(&control)
        });
        let _ = machine.kill();
        let _ = machine.wait();
        match ended {
            Some(status) => Err(format!("{status}: {}", fs::read_to_string(&errors).unwrap_or_default())),
            None if is_taken => Ok(()),
            None => Err("it does not answer".to_owned()),
        }
    }
}

/// Whether the machine with this socket says whether it runs.
fn says_its_state(control: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(control) else { return false };
    let asked = b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"query-status\"}\n";
    // At the end of the machine this is the end.
    stream.write_all(asked).is_ok()
        && BufReader::new(stream).lines().map_while(Result::ok).any(|line| line.contains("\"running\""))
}

/// The commands that help lists: below one heading, or those of the whole program by topic.
fn listed(help: &str) -> Option<&str> {
    match help.split_once("\nCommands:\n") {
        Some((_, listed)) => listed.split("\n\n").next(),
        None => help.split_once("\nUsage: landfall [OPTIONS] <COMMAND>\n")?.1.split("\nOptions:\n").next(),
    }
}

/// Whether the repository's Makefile has these targets; nothing is made.
fn make(words: &[String]) -> Result<(), String> {
    let output = Command::new("make").arg("-n").args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Whether a program's manual page, unpacked by .ci/vm-packages, has these options, and what they take before a `=`.
fn manual(words: &[String]) -> Result<(), String> {
    let Some(page) = super::libvirt().map(|root| root.join(format!("usr/share/man/man1/{}.1.gz", words[0]))) else {
        return super::skipped("there are no packages of libvirt: .ci/setup fetches them");
    };
    let output = Command::new("gzip").arg("-dc").arg(&page).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{}: {}", page.display(), String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout).replace('\\', "");
    for option in words.iter().filter(|word| word.starts_with("--")) {
        let name = option.split('=').next().unwrap_or_default();
        if !text.contains(name) {
            return Err(format!("its manual has no {name}"));
        }
    }
    Ok(())
}

/// The commands of a script as words: between `|`, `&&`, `||`, `;` and `&`, without redirections, assignments and comments.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut characters = text.chars().peekable();
    let mut redirected = false;
    let end = |word: &mut Option<String>, all: &mut Vec<Vec<String>>, redirected: &mut bool| {
        let Some(word) = word.take() else { return };
        let Some(command) = all.last_mut() else { return };
        let assigns = command.is_empty()
            && word.split_once('=').is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_'));
        if !std::mem::take(redirected) && !assigns {
            command.push(word);
        }
    };
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('\n') | None => {}
                Some(other) => word.get_or_insert_default().push(other),
            },
            '\'' | '"' => {
                let quoted: String = characters.by_ref().take_while(|inner| *inner != character).collect();
                word.get_or_insert_default().push_str(&quoted);
            }
            '#' if word.is_none() => while characters.next_if(|inner| *inner != '\n').is_some() {},
            '>' | '<' => {
                // A descriptor's number before it is no argument.
                if word.as_deref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
                    word = None;
                }
                end(&mut word, &mut all, &mut redirected);
                redirected = true;
            }
            ' ' | '\t' => end(&mut word, &mut all, &mut redirected),
            '\n' | '|' | ';' | '&' => {
                end(&mut word, &mut all, &mut redirected);
                redirected = false;
                all.push(Vec::new());
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    end(&mut word, &mut all, &mut redirected);
    all.retain(|command| !command.is_empty());
    all
}

#[test]
fn scripts_become_commands() {
    let all = commands("A=1 a \\\n  --b='c d' > e 2> /dev/null | f # g | h\nexport X=\"y z\" && i & \n# k\n");
    let all: Vec<Vec<&str>> = all.iter().map(|command| command.iter().map(String::as_str).collect()).collect();
    assert_eq!(all, [vec!["a", "--b=c d"], vec!["f"], vec!["export", "X=y z"], vec!["i"]]);
}
