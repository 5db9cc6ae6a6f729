//! The pages' commands do what the pages say. Each block is run, in a directory and a network of its own, or where that can't be
//! (`checked=REASON`) looked at; see `page::Kind` for the marks. A block that is neither fails.
#![allow(clippy::unwrap_used)]

mod commands;
mod examples;
mod help;
mod material;
mod page;
mod wording;

use commands::Checker;
use page::{Block, Kind};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// How long all the commands of one page may take, in seconds.
const DEADLINE_S: &str = "1200";
/// Loopback, and a port whose other end is here too: what asks the network for its addresses has one to ask.
const PRELUDE: &str = "\
set -eu
exec < /dev/null
ip link set lo up
ip link add port0 type veth peer name port1
ip address add 192.0.2.10/29 dev port0
ip link set port0 up
ip link set port1 up
";

/// Reports that a part of the pages is not checked here.
fn skipped(why: &str) -> Result<(), String> {
    testkit::skip::because(why);
    Ok(())
}

/// Packages of libvirt, as .ci/vm-packages unpacks them.
fn libvirt() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_landfall")).parent()?.parent()?;
    Some(built.join("vm/packages/libvirt")).filter(|root| root.join(".done").is_file())
}

/// A script of a page, and what it is to print.
struct Step {
    line: usize,
    script: String,
    expected: Option<Vec<String>>,
}

fn steps(blocks: &[Block]) -> Vec<Step> {
    let steps = blocks.iter().flat_map(|block| match block.kind {
        Kind::Script => vec![Step { line: block.line, script: block.text.clone(), expected: None }],
        Kind::Session => page::session(&block.text)
            .into_iter()
            .map(|(script, expected)| Step { line: block.line, script, expected: Some(expected) })
            .collect(),
        _ => Vec::new(),
    });
    steps.collect()
}

/// Runs the steps one after the other in one shell, so that variables and what runs in the background stay; the first that fails.
fn run(steps: &[Step], bin: &Path, scratch: &Path) -> Result<(), String> {
    let mut script = PRELUDE.to_owned();
    for (number, step) in steps.iter().enumerate() {
        // A session is as a person's shell has it; of a script every part must succeed.
        let set = if step.expected.is_some() { "set +o pipefail" } else { "set -o pipefail" };
        fs::write(bin.join(format!("{number}.sh")), format!("{set}\n{}", step.script)).unwrap();
        script.push_str(&format!("echo {number} > \"$BIN/at\"; . \"$BIN/{number}.sh\" > \"$BIN/{number}.out\" 2>&1\n"));
    }
    let path = std::env::join_paths(
        std::iter::once(bin.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", DEADLINE_S, "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !nix::unistd::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["bash", "-c", &script]).current_dir(scratch).env("PATH", path.unwrap()).env("BIN", bin);
    command.env("HOME", scratch).env("TMPDIR", bin).env_remove("LANDFALL_URL").env_remove("RUST_BACKTRACE");
    for proxy in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    let output = command.output().unwrap();
    let printed = |number: usize| fs::read(bin.join(format!("{number}.out"))).unwrap_or_default();
    if !output.status.success() {
        let at = fs::read_to_string(bin.join("at")).ok().and_then(|at| at.trim().parse::<usize>().ok());
        let Some(step) = at.and_then(|at| steps.get(at)) else {
            return Err(format!("before anything: {}", String::from_utf8_lossy(&output.stderr)));
        };
        let said = String::from_utf8_lossy(&printed(at.unwrap())).into_owned();
        return Err(format!("line {}: {}: {}\n{said}", step.line, output.status, step.script));
    }
    for (number, step) in steps.iter().enumerate() {
        let printed = printed(number);
        let printed = String::from_utf8_lossy(&printed);
        if let Some(expected) = &step.expected
            && !page::matches(expected, &printed.lines().collect::<Vec<_>>())
        {
            return Err(format!(
                "line {}: {}\nprints\n{printed}and not\n{}",
                step.line,
                step.script,
                expected.join("\n")
            ));
        }
    }
    Ok(())
}

/// Parses a document, and by its schema where we have that.
fn document(language: &str, text: &str, scratch: &Path) -> Result<(), String> {
    match language {
        "json" => serde_json::from_str::<serde_json::Value>(text).map(drop).map_err(|error| error.to_string()),
        "yaml" => serde_norway::from_str::<serde_json::Value>(text).map(drop).map_err(|error| error.to_string()),
        "toml" if text.starts_with("hosts = ") => plan(text, scratch),
        "toml" => expectation(text, scratch),
        _ => domain(text, scratch),
    }
}

/// A small plan of a rack.
fn plan(text: &str, scratch: &Path) -> Result<(), String> {
    let directory = scratch.join("plan");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("rack.toml"), text).unwrap();
    let words = ["serve", "--check", "--rendezvous"];
    let output = Command::new(env!("CARGO_BIN_EXE_landfall")).args(words).arg(&directory).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// What a machine is expected to be: understood, whether this one is it or not.
fn expectation(text: &str, scratch: &Path) -> Result<(), String> {
    let file = scratch.join("expected.toml");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_landfall")).args(["report", "--expect"]).arg(file).output().unwrap();
    match output.status.code() {
        Some(0 | 3) => Ok(()),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A libvirt domain, by libvirt's own schema.
fn domain(text: &str, scratch: &Path) -> Result<(), String> {
    let Some(root) = libvirt() else { return skipped("there are no packages of libvirt: .ci/setup fetches them") };
    let file = scratch.join("domain.xml");
    fs::write(&file, text).unwrap();
    let libraries = [root.join("usr/lib/x86_64-linux-gnu"), root.join("lib/x86_64-linux-gnu")];
    let mut command = Command::new(root.join("usr/bin/xmllint"));
    command.arg("--noout").arg("--relaxng").arg(root.join("usr/share/libvirt/schemas/domain.rng")).arg(file);
    let output = command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap()).output();
    let output = output.map_err(|error| format!("xmllint: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Runs and checks all that a page says.
fn holds(name: &str) {
    let (blocks, spans) = page::parse(&page::read(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
    let directory = tempfile::tempdir().unwrap();
    let (bin, scratch) = (directory.path().join("bin"), directory.path().join("scratch"));
    material::make(&bin, &scratch);
    let mut documents = 0;
    for block in &blocks {
        let Kind::Document { language, file } = &block.kind else { continue };
        document(language, &block.text, directory.path())
            .unwrap_or_else(|why| panic!("{name}, line {}: {why}", block.line));
        if let Some(file) = file {
            let path = scratch.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &block.text).unwrap();
        }
        documents += 1;
    }
    let steps = steps(&blocks);
    run(&steps, &bin, &scratch).unwrap_or_else(|why| panic!("{name}, {why}"));
    let commands_run: usize = steps.iter().map(|step| commands::commands(&step.script).len()).sum();

    let mut checker = Checker::new(&bin, &scratch);
    let mut checked = 0;
    let scripts = blocks
        .iter()
        .filter(|block| matches!(block.kind, Kind::Checked(_)))
        .map(|block| (block.line, block.text.clone()));
    for (line, text) in scripts.chain(spans) {
        checked += checker.script(&text).unwrap_or_else(|why| panic!("{name}, line {line}: {why}"));
    }
    println!("{name}: {commands_run} commands run, {checked} checked, {documents} documents parsed");
}

#[test]
fn readme() {
    holds("README.md");
}

#[test]
fn bake() {
    holds("docs/bake.md");
}

#[test]
fn burn_in() {
    holds("docs/burnin.md");
}

#[test]
fn image_builders() {
    holds("docs/image-builders.md");
}

#[test]
fn install() {
    holds("docs/install.md");
}

#[test]
fn roles() {
    holds("docs/roles.md");
}

#[test]
fn ignition() {
    holds("docs/ignition.md");
}

#[test]
fn network() {
    holds("docs/network.md");
}

#[test]
fn reports() {
    holds("docs/reports.md");
}

#[test]
fn rack() {
    holds("docs/rack.md");
}

#[test]
fn add_nodes() {
    holds("docs/add-nodes.md");
}

#[test]
fn generation() {
    holds("docs/generation.md");
}

#[test]
fn service() {
    holds("docs/service.md");
}

#[test]
fn development() {
    holds("docs/development.md");
}

#[test]
fn list_of_commands() {
    holds("docs/commands.md");
}

#[test]
fn one_command() {
    holds("docs/up.md");
}

#[test]
fn libvirt_harnesses() {
    holds("docs/libvirt.md");
}

#[test]
fn certification() {
    holds("docs/certification.md");
}

#[test]
fn certify() {
    holds("docs/certify.md");
}

#[test]
fn openshift() {
    holds("docs/openshift.md");
}

#[test]
fn releases() {
    holds("docs/releases.md");
}

#[test]
fn controller() {
    holds("docs/controller.md");
}

#[test]
fn processors() {
    holds("docs/processors.md");
}

/// The README, and the pages of `docs`.
fn pages() -> Vec<String> {
    let docs = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).unwrap();
    let names = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().into_string().unwrap()));
    names.filter(|name| name.ends_with(".md")).chain(["README.md".to_owned()]).collect()
}

#[test]
fn blocks_are_counted() {
    let blocks = pages().into_iter().flat_map(|name| page::parse(&page::read(&name)).unwrap().0);
    let (mut run, mut looked_at) = (0, BTreeMap::new());
    for block in blocks {
        match block.kind {
            Kind::Script | Kind::Session => run += 1,
            Kind::Checked(reason) => *looked_at.entry(reason).or_insert(0) += 1,
            Kind::Document { .. } | Kind::Text => {}
        }
    }
    let unused: Vec<&str> =
        page::REASONS.iter().map(|(mark, _)| *mark).filter(|mark| !looked_at.contains_key(mark)).collect();
    assert!(unused.is_empty(), "no block has these reasons: {unused:?}");
    let reasons = page::REASONS.map(|(mark, what)| format!("{} {what}", looked_at[mark]));
    let count: usize = looked_at.values().sum();
    println!("docs: {run} blocks run, {count} looked at: {}", reasons.join(", "));
    assert!(run > count, "more blocks are looked at than run");
}

#[test]
fn pages_without_a_test_have_no_commands() {
    let tested = [
        "add-nodes.md",
        "bake.md",
        "burnin.md",
        "certification.md",
        "certify.md",
        "commands.md",
        "controller.md",
        "development.md",
        "generation.md",
        "ignition.md",
        "image-builders.md",
        "install.md",
        "libvirt.md",
        "network.md",
        "openshift.md",
        "processors.md",
        "rack.md",
        "releases.md",
        "reports.md",
        "roles.md",
        "service.md",
        "up.md",
    ];
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_landfall"), directory.path().join("landfall")).unwrap();
    let mut checker = Checker::new(directory.path(), directory.path());
    let untested = |name: &&String| name.strip_prefix("docs/").is_some_and(|own| !tested.contains(&own));
    for name in pages().iter().filter(untested) {
        let (blocks, spans) = page::parse(&page::read(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(blocks.iter().all(|block| block.kind == Kind::Text), "{name} has commands, and no test here");
        // Those that its lines name exist all the same.
        for (line, text) in spans {
            checker.script(&text).unwrap_or_else(|why| panic!("{name}, line {line}: {why}"));
        }
    }
}

#[test]
fn a_domain_that_libvirt_would_refuse_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let why = domain("<domain type='kvm'><nmae>x</nmae></domain>", directory.path());
    if libvirt().is_some() {
        assert!(why.unwrap_err().contains("nmae"));
    }
}

#[test]
fn an_expectation_that_is_not_understood_is_found() {
    let directory = tempfile::tempdir().unwrap();
    assert!(expectation("memory.instaled_bytes = 5", directory.path()).is_err());
}

#[test]
fn an_option_or_a_subcommand_that_is_not_there_is_found() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_landfall"), directory.path().join("landfall")).unwrap();
    let mut checker = Checker::new(directory.path(), directory.path());
    for (script, complaint) in [
        ("landfall iso bake live.iso --urls x", "has no option --urls"),
        ("landfall iso bakes live.iso", "no such subcommand"),
        ("landfall isos", "no such subcommand"),
        ("apt-get install x", "nobody checks this program"),
        ("make no-such-target", "no-such-target"),
    ] {
        let why = checker.script(script).unwrap_err();
        assert!(why.contains(complaint), "{script}: {why}");
    }
    let good = "landfall iso bake live.iso -o x --url=y\nlandfall serve --iso x\nlandfall report diff a b";
    assert_eq!(checker.script(good), Ok(3));
}
