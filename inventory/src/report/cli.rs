//! `landfall report`: the deep facts for people, for machines, and against what was expected.

use super::{
    collect,
    diff::{self, Change},
    expect::{Difference, Expectation},
    layout::Layout,
    page::{Look, page},
    schema::{self, Shape},
    starter,
    words::{escaped, printable},
};
use crate::Root;
use anyhow::Context;
use serde::Serialize;
use serde_json::{Serializer, Value, ser::PrettyFormatter};
use std::{
    fs::{self, File},
    io::{Read, Write, stdin, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Exit code for a machine that is not as expected, and for reports that differ.
const DIFFERENT: u8 = 3;
/// Longest report or expectation that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Stands for standard input.
const STDIN: &str = "-";

/// Report all that is known about this machine, and compare it with an expectation
///
/// Prints one page, warnings first: degraded PCIe links, devices that report errors or failing health, unmitigated flaws
/// of the processor. Notes follow: empty memory slots, modules that differ. Nothing is written to any disk. Many facts
/// need root; a fact that cannot be read is left out, and LANDFALL_LOG=debug says why.
#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = r#"An expectation is a TOML file shaped like the report. Only what it names is compared:

  kernel.architecture = "x86_64"         # texts are equal; * stands for any part
  kernel.release = ["5.14.*", "6.*"]     # one of these; "!= 6.1.*": none such
  memory.installed_bytes = ">= 512 GiB"  # also =, !=, >, <=, <, or ">= 60 GiB, < 70 GiB"
  security.secure_boot = "Enabled"
  management_controller.absent = false   # it exists; true: it is missing

  [[memory.devices]]                     # elements of a list: how many are like this
  count = 16                             # or ">= 2", or 0; without count at least one
  manufacturer = "Samsung*"

In a list of plain values, such as kernel.available_clock_sources = ["tsc"], each one named must
be present; [] means that the list is empty. Unknown names are refused. --print-expect writes a
file to begin from.

Exit codes: 0 as expected or the same, 3 different, 1 failure, 2 wrong usage.

Examples:
  landfall report | less
  landfall report --json --pretty | jq .kernel
  landfall report --print-expect > edge-2024.toml
  landfall report --expect edge-2024.toml || echo "not an edge-2024"
  landfall report --root sick-machine.tar.gz
  landfall report --json > before.json; reboot
  landfall report diff before.json <(landfall report --json)"#)]
pub struct Report {
    #[command(subcommand)]
    command: Option<Command>,
    /// Report on a captured machine: a file made by `landfall capture`, or that file unpacked
    #[arg(long, value_name = "DIR|FILE", default_value = "/")]
    root: PathBuf,
    /// Print JSON; its form is versioned, see --schema
    #[arg(long, conflicts_with_all = ["schema", "print_expect"])]
    json: bool,
    /// With --json: indented
    #[arg(long, requires = "json")]
    pretty: bool,
    /// Print the JSON Schema of the report
    #[arg(long)]
    schema: bool,
    /// Compare with this expectation and print only the differences, one per line
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["schema", "print_expect"])]
    expect: Option<PathBuf>,
    /// Print an expectation that this machine meets, without unique values such as serial numbers
    #[arg(long, conflicts_with = "schema")]
    print_expect: bool,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    Diff(Diff),
}

/// Print the differences between two reports, one per line
///
/// `-` is only in the first, `+` only in the second, `~` has changed. Elements of lists are compared by name or address,
/// not by position. Exit codes: 0 the same, 3 different, 1 failure, 2 wrong usage.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"Examples:
  landfall report diff good.json bad.json
  landfall report diff golden.tar.gz /
  ssh node landfall report --json | landfall report diff golden.json -"#)]
struct Diff {
    /// A report's JSON, a capture, / for this machine, or - for JSON on standard input
    before: PathBuf,
    /// The report to compare it with
    after: PathBuf,
    /// Also compare what changes by itself: temperatures, counters, frequencies
    #[arg(long)]
    all: bool,
    /// Print a JSON list
    #[arg(long)]
    json: bool,
}

impl Report {
    /// Runs the subcommand. An error means that a file, the root or stdout is unusable; missing facts are not errors.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (text, code) = self.output()?;
        let mut out = stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot print the report")?;
        Ok(ExitCode::from(code))
    }

    fn output(&self) -> anyhow::Result<(String, u8)> {
        if let Some(Command::Diff(diff)) = &self.command {
            return diff.output();
        }
        let schema = schema::report();
        if self.schema {
            return Ok((serde_json::to_string_pretty(&schema)? + "\n", 0));
        }
        let shape = Shape::new(&schema);
        // First of all: a mistake in the file should not take a minute to show.
        let expectation = self.expect.as_deref().map(|path| read_expectation(path, &shape)).transpose()?;
        let root = Root::open(&self.root)?;
        if self.root == Path::new("/") && !nix::unistd::geteuid().is_root() {
            tracing::warn!("this report lacks what only root may read: SMBIOS, serial numbers, health of disks");
        }
        let facts = collect(&root);
        let report = document(&facts)?;
        if let Some(expectation) = expectation {
            let differences = expectation.differences(&report);
            if differences.is_empty() {
                tracing::info!("the machine is as expected");
            }
            return printed(&differences, self.json, self.pretty, Difference::to_string);
        }
        let text = match () {
            () if self.print_expect => starter::expectation(&report, &shape)?,
            () if self.json => json(&facts, self.pretty)?,
            () => page(&facts, &report, Look::of_stdout()),
        };
        Ok((text, 0))
    }
}

impl Diff {
    fn output(&self) -> anyhow::Result<(String, u8)> {
        anyhow::ensure!(
            self.before != Path::new(STDIN) || self.after != Path::new(STDIN),
            "only one of the reports can come from standard input"
        );
        let changes = diff::changes(&read_report(&self.before)?, &read_report(&self.after)?, self.all);
        printed(&changes, self.json, false, Change::to_string)
    }
}

/// What differs, one a line or as a list, and the exit code.
fn printed<T: Serialize>(
    differences: &[T],
    as_json: bool,
    pretty: bool,
    line: impl Fn(&T) -> String,
) -> anyhow::Result<(String, u8)> {
    let text = match as_json {
        true => json(&differences, pretty)?,
        false => {
            let columns = kernel::terminal::line_columns();
            differences
                .iter()
                .map(|difference| kernel::wrapped("", &printable(&line(difference)), 4, columns))
                .collect()
        }
    };
    Ok((text, if differences.is_empty() { 0 } else { DIFFERENT }))
}

fn json(value: &impl Serialize, pretty: bool) -> anyhow::Result<String> {
    Ok(escaped(std::str::from_utf8(&written(value, pretty)?)?) + "\n")
}

/// All reports are written by this: see [`Layout`].
fn written(value: &impl Serialize, pretty: bool) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Layout(pretty.then(PrettyFormatter::new))))?;
    Ok(text)
}

/// A report as what reads its JSON has it.
fn document(facts: &super::Report) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&written(facts, false)?)?)
}

fn read_expectation(path: &Path, shape: &Shape<'_>) -> anyhow::Result<Expectation> {
    let bytes = File::open(path).and_then(bounded).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{} is not text", path.display()))?;
    Expectation::parse(&text, shape).with_context(|| format!("cannot use {}", path.display()))
}

/// A report from its JSON, or of a captured machine.
fn read_report(path: &Path) -> anyhow::Result<Value> {
    let name = path.display();
    let bytes = if path == Path::new(STDIN) {
        bounded(stdin().lock()).context("cannot read standard input")?
    } else if fs::metadata(path).with_context(|| format!("cannot read {name}"))?.is_dir() || !begins_as_json(path) {
        return document(&collect(&Root::open(path)?));
    } else {
        File::open(path).and_then(bounded).with_context(|| format!("cannot read {name}"))?
    };
    let report: Value = serde_json::from_slice(&bytes).with_context(|| format!("{name} is not JSON"))?;
    let version = report.get("schema_version").and_then(Value::as_u64);
    anyhow::ensure!(
        version == Some(super::SCHEMA_VERSION.into()),
        "{name} is not a report of schema version {}: recreate it with `report --json` of this landfall, from the machine \
         or its capture",
        super::SCHEMA_VERSION
    );
    Ok(report)
}

fn begins_as_json(path: &Path) -> bool {
    let mut begin = Vec::new();
    // A pipe can't be looked at and then read again; JSON is what comes through one.
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    !is_file
        || File::open(path).is_ok_and(|file| file.take(64).read_to_end(&mut begin).is_ok())
            && begin.trim_ascii_start().starts_with(b"{")
}

fn bounded(file: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        report: Report,
    }

    fn machine() -> Tree {
        Tree::new(&[
            ("sys/class/dmi/id/board_serial", "123-456-789\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/tainted", "16\n"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet \n"),
        ])
    }

    fn run(words: &[&str]) -> anyhow::Result<(String, u8)> {
        Cli::try_parse_from(["report"].iter().chain(words)).unwrap().report.output()
    }

    fn on(tree: &Tree, options: &[&str]) -> (String, u8) {
        let root = tree.path().to_str().unwrap();
        run(&[&["--root", root], options].concat()).unwrap()
    }

    fn expected(tree: &Tree, expectation: &str, options: &[&str]) -> anyhow::Result<(String, u8)> {
        tree.add("expect.toml", expectation);
        let file = tree.path().join("expect.toml");
        let root = tree.path().to_str().unwrap();
        run(&[&["--root", root, "--expect", file.to_str().unwrap()], options].concat())
    }

    #[test]
    fn json_is_the_report_and_nothing_else() {
        let tree = machine();
        let (plain, code) = on(&tree, &["--json"]);
        let read: crate::report::Report = serde_json::from_str(&plain).unwrap();
        assert_eq!((plain.lines().count(), code, &read), (1, 0, &collect(&tree.root())));
        assert_eq!((read.schema_version, read.kernel.release.as_deref()), (1, Some("6.1.0")));
        let (pretty, _) = on(&tree, &["--json", "--pretty"]);
        assert!(pretty.lines().count() > 5 && pretty.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<crate::report::Report>(&pretty).unwrap(), read);
    }

    #[test]
    fn the_page_has_warnings_first() {
        let (page, code) = on(&machine(), &[]);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
        assert!(at("Warnings (1)") < at("machine check") && at("machine check") < at("\nKernel\n"), "{page}");
        assert!(at("  release") < at("6.1.0") && !page.contains('\x1b') && code == 0, "{page}");
    }

    #[test]
    fn an_expectation_has_its_own_exit_code() {
        let tree = machine();
        assert_eq!(expected(&tree, "kernel.release = '6.*'", &[]).unwrap(), (String::new(), 0));
        assert_eq!(expected(&tree, "kernel.release = '6.*'", &["--json"]).unwrap(), ("[]\n".to_owned(), 0));
        let other = "kernel.release = '5.*'\n[kernel]\n";
        assert!(expected(&tree, other, &[]).is_err(), "a table defined twice");
        let other = "[kernel]\nrelease = '5.*'\navailable_clock_sources = ['tsc', 'kvm-clock']";
        let lines = "kernel.release: expected \"5.*\", found \"6.1.0\"\n\
            kernel.available_clock_sources: expected \"kvm-clock\" among them, found \"tsc\", \"hpet\"\n";
        assert_eq!(expected(&tree, other, &[]).unwrap(), (lines.to_owned(), DIFFERENT));
        let (json, code) = expected(&tree, other, &["--json"]).unwrap();
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read[0]["path"], &read[0]["found"], code), (&"kernel.release".into(), &"6.1.0".into(), DIFFERENT));
    }

    #[test]
    fn a_bad_expectation_says_where() {
        let tree = machine();
        let error = |text: &str| format!("{:#}", expected(&tree, text, &[]).unwrap_err());
        assert!(
            error("\n[kernel]\nrelase = 'x'").ends_with("line 3: a report has no kernel.relase; did you mean release?")
        );
        assert!(error("a = = 1").contains("expect.toml: line 1: not valid TOML"), "{}", error("a = = 1"));
        let missing = format!("{:#}", run(&["--expect", "/nonexistent.toml"]).unwrap_err());
        assert!(missing.starts_with("cannot read /nonexistent.toml"), "{missing}");
    }

    #[test]
    fn what_is_printed_as_expectation_is_met() {
        let tree = machine();
        let (starter, _) = on(&tree, &["--print-expect"]);
        assert!(starter.starts_with("# ") && starter.contains("release = \"6.1.0\""), "{starter}");
        assert_eq!(expected(&tree, &starter, &[]).unwrap(), (String::new(), 0));
        tree.add("proc/sys/kernel/osrelease", "6.1.1\n");
        assert_eq!(expected(&tree, &starter, &[]).unwrap().1, DIFFERENT);
    }

    #[test]
    fn reports_and_captures_are_compared() {
        let tree = machine();
        let path = |name: &str| tree.path().join(name).to_str().unwrap().to_owned();
        tree.add("before.json", on(&tree, &["--json"]).0);
        let root = tree.path().to_str().unwrap();
        assert_eq!(run(&["diff", &path("before.json"), root]).unwrap(), (String::new(), 0));
        tree.add("proc/sys/kernel/osrelease", "6.1.1\n").add("proc/sys/kernel/arch", "x86_64\n");
        let lines = "+ kernel.architecture: \"x86_64\"\n~ kernel.release: \"6.1.0\" -> \"6.1.1\"\n";
        assert_eq!(run(&["diff", &path("before.json"), root]).unwrap(), (lines.to_owned(), DIFFERENT));
        let (json, _) = run(&["diff", "--json", root, &path("before.json")]).unwrap();
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read[0], serde_json::json!({"path": "kernel.architecture", "before": "x86_64", "after": null}));
        assert!(run(&["diff", "-", "-"]).is_err());
        tree.add("other.json", "{\"disks\": []}").add("no.json", "{");
        for (file, fault) in [("other.json", "is not a report of schema version 1"), ("no.json", "is not JSON")] {
            let error = format!("{:#}", run(&["diff", &path(file), root]).unwrap_err());
            assert!(error.contains(fault), "{error}");
        }
    }

    /// A recorded machine, unpacked until dropped, and its path.
    fn recorded(name: &str) -> Option<(tempfile::TempDir, String)> {
        let path = testkit::recordings::path(&format!("data/machines/{name}"))?;
        let (dir, root) = crate::archive::unpack(&path).unwrap();
        Some((dir, root.to_str().unwrap().to_owned()))
    }

    #[test]
    fn pages_of_recorded_machines() {
        for (name, wanted) in [
            ("amd-ryzen-1600.tar.gz", "  L3     Unified      8 MiB    16    64 B  2"),
            ("nvidia-accelerator.tar.gz", "  0000:06:00.0  3D controller              10de    15f8    nvidia"),
            (
                "offline-cpus.tar.gz",
                "  ! mmio stale data: Vulnerable: Clear CPU buffers attempted, no microcode; SMT Host state unknown",
            ),
        ] {
            let Some((_dir, path)) = recorded(name) else { return };
            let (page, code) = run(&["--root", &path]).unwrap();
            assert!(code == 0 && page.lines().any(|line| line == wanted), "{name}: {page}");
            assert_eq!(run(&["--root", &path]).unwrap().0, page, "the same machine, the same bytes");
        }
    }

    #[test]
    fn recorded_machines_are_themselves_and_not_each_other() {
        let (one, other) = (recorded("amd-ryzen-1600.tar.gz"), recorded("offline-cpus.tar.gz"));
        let (Some((_one, one)), Some((_other, other))) = (one, other) else { return };
        let tree = Tree::new(&[]);
        tree.add("expect.toml", run(&["--root", &one, "--print-expect"]).unwrap().0);
        let file = tree.path().join("expect.toml");
        let expect = |machine: &str| run(&["--root", machine, "--expect", file.to_str().unwrap()]).unwrap();
        assert_eq!(expect(&one), (String::new(), 0));
        let (lines, code) = expect(&other);
        assert!(code == DIFFERENT && lines.contains("processors.cores: expected 6, found 2\n"), "{lines}");
        assert_eq!(run(&["diff", &one, &one]).unwrap(), (String::new(), 0));
        let (lines, code) = run(&["diff", &one, &other]).unwrap();
        assert!(code == DIFFERENT && lines.contains("~ processors.cores: 6 -> 2\n"), "{lines}");
    }

    #[test]
    fn the_example_of_the_help_is_understood() {
        let help = <Cli as clap::CommandFactory>::command().get_after_help().unwrap().to_string();
        let begin = help.find("  kernel.architecture").unwrap();
        let example = &help[begin..help.find("In a list").unwrap()];
        let tree = machine();
        let (lines, code) = expected(&tree, example, &[]).unwrap();
        assert!(code == DIFFERENT && lines.contains("memory.devices: expected 16 with"), "{lines}");
        let page = include_str!("../../../docs/reports.md");
        let begin = page.find("```toml\n").unwrap() + "```toml\n".len();
        let example = &page[begin..begin + page[begin..].find("```").unwrap()];
        let (lines, code) = expected(&tree, example, &[]).unwrap();
        assert!(code == DIFFERENT && lines.contains("memory.devices: expected 16 with"), "{lines}");
    }

    #[test]
    fn options_that_exclude_each_other() {
        for words in [
            &["--schema", "--json"][..],
            &["--pretty"],
            &["--print-expect", "--expect", "x"],
            &["--root", "x", "diff", "a", "b"],
            &["diff", "a"],
        ] {
            assert!(Cli::try_parse_from(["report"].iter().chain(words)).is_err(), "{words:?}");
        }
    }
}
