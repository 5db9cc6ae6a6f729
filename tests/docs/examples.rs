//! Files for other programs in `examples`: each `landfall` command in them is parsed as the program parses it.

use super::{commands::commands, page};
use clap::CommandFactory;
use landfall::{Cli, Whole};
use serde_json::Value;

/// What the steps of a workflow run.
fn scripts(workflow: &Value) -> Vec<&str> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    let steps = jobs.flat_map(|job| job["steps"].as_array().unwrap());
    steps.filter_map(|step| step["run"].as_str()).collect()
}

/// How many commands of ours a script has, or what is wrong with one.
fn parsed(script: &str) -> Result<usize, String> {
    let all = commands(script);
    let ours: Vec<_> = all.iter().filter(|words| words[0] == "landfall").collect();
    for words in &ours {
        let parsed = Cli::<Whole>::command().try_get_matches_from(*words);
        parsed.map_err(|error| format!("{}: {error}", words.join(" ")))?;
    }
    Ok(ours.len())
}

#[test]
fn commands_of_workflows_are_understood() {
    let name = "examples/ci/install-test.yml";
    let workflow: Value = serde_norway::from_str(&page::read(name)).unwrap();
    let counts =
        scripts(&workflow).into_iter().map(|script| parsed(script).unwrap_or_else(|why| panic!("{name}: {why}")));
    let count: usize = counts.sum();
    assert!(count >= 2, "{name} has {count} commands: what reads them is broken");
    assert!(parsed("landfall up --virtual-machines 3").is_err());
}
