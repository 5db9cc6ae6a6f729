//! `landfall complete`: answers the scripts of `landfall completion` when Tab is pressed. It is quick and silent, and changes nothing.

pub(crate) mod line;

use crate::{
    commands::{self, Commands},
    complain,
    shell::Request,
};
use line::{Candidate, complete, is_disk};
use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

/// The first word of the command line that asks. Help does not list it.
pub(crate) const NAME: &str = "complete";

/// Answers a script.
pub(crate) fn main<C: Commands>(words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some(request) = Request::parse(&words) else {
        complain(format_args!("landfall {NAME} is for the scripts of landfall completion"));
        return ExitCode::from(2);
    };
    // The word at the cursor is not complete.
    let first = request.words.split_last().and_then(|(_, before)| before.first());
    let mut command = commands::line::<C>(first.map(String::as_str));
    command.build();
    let answer = request.answer(&complete(&command, &request.words, &candidates::<C>));
    // The shell may have stopped waiting.
    let _ = io::stdout().write_all(answer.as_bytes());
    ExitCode::SUCCESS
}

/// What a value with this name in the help may be: a disk of this machine, or what the service knows.
fn candidates<C: Commands>(kind: &str, typed: &str, options: &[String]) -> Vec<Candidate> {
    let named = match is_disk(kind) {
        true => inventory::Root::open("/").map(|root| inventory::disk_nodes(&root)).unwrap_or_default(),
        false => C::names(kind, typed, &options.iter().map(|option| at_home(option)).collect::<Vec<_>>()),
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
