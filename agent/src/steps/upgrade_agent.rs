//! Another agent's image: `landfall netcheck upgrade`. What comes of it is for [`crate::upgrade`].

use super::{
    fields::Format::Image,
    kind::{Act, Deadline, Dry, IN_PROCESS, Kind, Run, only_arg, read},
    refusal::Refusal,
};
use crate::{
    confine::calls::{CHANGE_FILES, REPLACE_FILES},
    privileges::{Calls, IMAGES, PODMAN_PULLS, PULLS, Privileges, Reach, Rules},
    settings::Settings,
};
use api::{HostId, Step, StepType, UpgradeAgentRequest, UpgradeAgentResponse};
use std::time::Duration;

/// Where the child puts the program. Only root writes below /run.
pub(crate) const STAGED: &str = "/run/landfall/agent.new";
const FETCH_SECONDS: &str = "450";
const MAX_IMAGE_CHARS: usize = 1000;

pub(super) static KIND: Kind = Kind {
    step_type: StepType::UpgradeAgent,
    fields: &[("agent_image", true, Image)],
    act: Act::Run(act),
    // Pulling and fetching watch their own time, [`FETCH_SECONDS`] each.
    deadline: Deadline::After(Duration::from_secs(960)),
    dry: Dry::Refused,
    failed: IN_PROCESS,
    prints_json: true,
    answers_on_stderr: false,
    privileges: Privileges { reach: Reach::Assisted(RULES, PODMAN_PULLS), ..PULLS },
};

/// Images, and the agent that is in one.
const RULES: Rules = Rules { trees: &["/run/landfall"], calls: Calls::Only(&[CHANGE_FILES, REPLACE_FILES]), ..IMAGES };

fn act(step: &Step, _: &Settings, _: HostId) -> Result<Run, Refusal> {
    let argument = only_arg(step)?;
    let UpgradeAgentRequest { agent_image } = read(argument, "upgrade agent request")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/' | '@' | '?');
    let starts_well = agent_image.starts_with(|c: char| c.is_ascii_alphanumeric());
    if agent_image.len() > MAX_IMAGE_CHARS || !starts_well || !agent_image.chars().all(fits) {
        let value = agent_image.chars().take(80).collect();
        return Err(Refusal::Type { what: "agent_image", kind: "image reference", value });
    }
    let words = ["netcheck", "upgrade", "--request", "-", "--json", "--stage", STAGED, "--timeout-s", FETCH_SECONDS];
    Ok(Run::new(words, argument.as_bytes().to_vec()))
}

/// Whether the answer says that the image is there.
pub(crate) fn succeeded(output: &str) -> bool {
    serde_json::from_slice::<UpgradeAgentResponse>(output.as_bytes()).is_ok_and(|answer| answer.result == "success")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(args: &[&str]) -> Result<Run, String> {
        super::super::tests::act_on(&KIND, args)
    }

    #[test]
    fn the_request_goes_in_as_it_came_if_it_names_an_image() {
        let request = r#"{"agent_image":"r.example.com:5000/ns/agent:v3@sha256:aa","new":1}"#;
        let run = act(&[request]).unwrap();
        assert_eq!((run.args[1].as_ref(), run.stdin.as_slice()), ("upgrade", request.as_bytes()));
        assert!(run.args.iter().any(|word| *word == "--json"));
        assert!(run.dies_with_agent && run.deadline.is_some());
        assert_eq!(act(&[]).unwrap_err(), "upgrade-agent cmd accepts 1 params in args, given args []");
        assert!(act(&["{}"]).unwrap_err().starts_with("validation failure list:\nupgrade agent request: "));
        for image in ["", "--all-tags", "a b", "a\nb", "r.io/a:1;reboot", &"a".repeat(2000)] {
            let error = act(&[&serde_json::json!({"agent_image": image}).to_string()]).unwrap_err();
            assert!(error.starts_with("validation failure list:\nagent_image in body"), "{error}");
        }
    }

    #[test]
    fn only_success_is_success() {
        assert!(succeeded(r#"{"agent_image":"x","result":"success"}"#));
        for output in [r#"{"agent_image":"x","result":"failure"}"#, r#"{"agent_image":"x"}"#, "", "success"] {
            assert!(!succeeded(output), "{output}");
        }
    }
}
