//! Completion of command lines, by bash itself: its script is sourced, and its function called as readline would.
#![allow(clippy::unwrap_used)]

use serde_json::json;
use std::{net::TcpListener, path::Path, process::Command};
use testkit::http::{Server, ok, reply};

/// As readline calls the function of a script: `$2` is the part of the word that bash replaces. `compopt` works inside of readline
/// only, so the call is printed.
const CALL: &str = r#"
set -eu
source <(landfall completion bash)
[ "$(complete -p landfall)" = 'complete -o nosort -F _landfall landfall' ]
compopt() { printf 'compopt %s\n' "$*"; }
COMP_LINE=$1 COMP_POINT=${#1}
_landfall landfall "$2" ""
[ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"
"#;

/// What bash offers for a line that ends in `word`, with the service at `url`.
fn complete(line: &str, word: &str, url: &str) -> Vec<String> {
    let programs = Path::new(env!("CARGO_BIN_EXE_landfall")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", CALL, "bash", line, word]).env("PATH", path);
    for name in ["LANDFALL_TOKEN", "LANDFALL_TOKEN_FILE", "LANDFALL_CACERT", "http_proxy", "HTTP_PROXY"] {
        bash.env_remove(name);
    }
    let done = bash.env("LANDFALL_URL", url).output().unwrap();
    let (out, err) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && err.is_empty(), "{line}: {} {err}", done.status);
    out.lines().map(str::to_owned).collect()
}

/// Without a service.
fn alone(line: &str, word: &str) -> Vec<String> {
    complete(line, word, "http://127.0.0.1:1")
}

#[test]
fn commands_options_and_values() {
    assert_eq!(alone("landfall ins", "ins"), ["install"]);
    assert_eq!(alone("landfall infra-env sh", "sh"), ["show"]);
    let all = alone("landfall ", "");
    for command in ["agent", "cluster", "serve", "completion", "help"] {
        assert!(all.iter().any(|found| found == command), "{command} in {all:?}");
    }
    assert!(!all.iter().any(|command| ["complete", "dev", "pack"].contains(&command.as_str())), "{all:?}");
    let options = alone("landfall install --", "--");
    for option in ["--image-file", "--append-karg", "--dry-run", "--verbose", "--help"] {
        assert!(options.iter().any(|found| found == option), "{option} in {options:?}");
    }
    assert!(!options.iter().any(|option| option == "--mco-image"), "hidden: {options:?}");
    assert_eq!(alone("landfall wait rack --for ins", "ins"), ["installing", "installed"]);
    // bash cuts words at `=`.
    assert_eq!(alone("landfall inventory --color=al", "al"), ["always"]);
    assert_eq!(alone("landfall event list --severity error,cr", "error,cr"), ["error,critical"]);
    assert_eq!(alone("landfall nonsense ", ""), [""; 0]);
}

#[test]
fn paths_are_completed_by_bash() {
    assert_eq!(alone("landfall install -i ", ""), ["compopt -o default"]);
    assert_eq!(alone("landfall install --config-file=ed", "ed"), ["compopt -o default"]);
    assert_eq!(alone("landfall serve --state-dir ", ""), ["compopt -o dirnames"]);
    assert_eq!(alone("landfall wipe /dev/disk/by-", "/dev/disk/by-"), ["compopt -o default"]);
}

#[test]
fn names_are_those_of_the_service() {
    let id = "7e5ff6df-e038-4103-bbb2-90433ded3e50";
    let server = Server::start(move |request| match request.path() {
        "/api/assisted-install/v2/clusters" => ok(json!([
            {"id": "11111111-e038-4103-bbb2-90433ded3e50", "name": "rack", "status": "ready"},
            {"id": id, "name": "$(touch evil); `reboot` \u{1b}[2J", "status": "x\ny"},
        ])
        .to_string()),
        "/api/assisted-install/v2/infra-envs" => ok(json!([{"id": "e", "name": "lab"}]).to_string()),
        "/api/assisted-install/v2/infra-envs/e/hosts" => {
            ok(json!([{"id": "h", "requested_hostname": "node-0"}]).to_string())
        }
        _ => reply("404 Not Found", "", ""),
    });
    let url = server.url("");
    assert_eq!(complete("landfall cluster show ", "", &url), [id, "rack"]);
    assert_eq!(complete("landfall cluster show r", "r", &url), ["rack"]);
    assert_eq!(complete("landfall wait r", "r", &url), ["rack"]);
    assert_eq!(complete("landfall infra-env iso ", "", &url), ["lab"]);
    assert_eq!(complete("landfall event list --host ", "", &url), ["node-0"]);
    // The command line says more than the environment.
    let other = format!("landfall cluster show --url {url} r");
    assert_eq!(alone(&other, "r"), ["rack"]);
}

#[test]
fn no_service_or_one_that_does_not_answer_offers_nothing() {
    assert_eq!(alone("landfall cluster show ", ""), [""; 0]);
    // The kernel accepts connections, and nothing answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    assert_eq!(complete("landfall cluster show ", "", &url), [""; 0]);
}

#[test]
fn scripts_are_small() {
    for (shell, first) in [("bash", "# Completion"), ("zsh", "#compdef landfall\n"), ("fish", "# Completion")] {
        for program in [env!("CARGO_BIN_EXE_landfall"), env!("CARGO_BIN_EXE_landfall-host")] {
            let script = Command::new(program).args(["completion", shell]).output().unwrap();
            assert!(script.status.success(), "{shell}");
            assert!(script.stdout.starts_with(first.as_bytes()) && script.stdout.len() < 60 << 10, "{shell}");
        }
    }
}

#[test]
fn the_hosts_program_completes_its_commands() {
    let ask = |words: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_landfall-host")).args(words).output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    assert_eq!(ask(&["complete", "fish", "clu"]), (Some(0), "none\n".into()));
    let (code, answer) = ask(&["complete", "fish", "inv"]);
    assert_eq!(code, Some(0));
    assert!(answer.starts_with("none\ninventory\tReport what this machine is"), "{answer}");
    assert_eq!(ask(&["complete"]), (Some(2), String::new()));
    assert_eq!(ask(&["complete", "--help"]).0, Some(2));
}
