//! `landfall complete`: answers the scripts of `landfall completion` when Tab is pressed. It is quick and silent, and changes nothing.

pub(crate) mod line;

use crate::shell::Request;
use line::{Candidate, complete, is_disk};
use std::{env, ffi::OsString};

/// The first word of the command line that asks. Help does not list it.
pub(crate) const NAME: &str = "complete";

/// Names of the service's records with what each is, as `Commands::names` gives them.
type Names = fn(&str, &str, &[String]) -> Vec<(String, String)>;

/// The answer to a script. `line` makes the command line that begins with a word. `None` if no script asks so.
pub(crate) fn answer(words: &[OsString], line: fn(Option<&str>) -> clap::Command, names: Names) -> Option<String> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let request = Request::parse(&words)?;
    // The word at the cursor may be the start of another.
    let first = request.words.split_last().and_then(|(_, before)| before.first());
    let mut command = line(first.map(String::as_str));
    command.build();
    let find = |kind: &str, typed: &str, options: &[String]| candidates(kind, typed, options, names);
    Some(request.answer(&complete(&command, &request.words, &find)))
}

/// What a value with this name in the help may be: a disk of this machine, or what the service knows.
fn candidates(kind: &str, typed: &str, options: &[String], names: Names) -> Vec<Candidate> {
    let named = match is_disk(kind) {
        true => inventory::Root::open("/").map(|root| inventory::disk_nodes(&root)).unwrap_or_default(),
        false => names(kind, typed, &options.iter().map(|option| at_home(option)).collect::<Vec<_>>()),
    };
    named.into_iter().map(|(value, about)| Candidate { value, about }).collect()
}

/// A path in the home directory, which shells complete as it was typed.
fn at_home(option: &str) -> String {
    match (option.split_once("=~/"), env::var("HOME")) {
        (Some((name, path)), Ok(home)) => format!("{name}={home}/{path}"),
        _ => option.to_owned(),
    }
}
