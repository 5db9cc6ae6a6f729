//! Whether images are available: `landfall netcheck image` (docs/compatibility.md#container-image-availability).

use super::{
    fields::Format::Any,
    kind::{Act, Deadline, Dry, IN_PROCESS, Kind, Run, answer, only_arg, read},
    refusal::Refusal,
};
use crate::{privileges::PULLS, settings::Settings};
use api::{
    ContainerImageAvailability, ContainerImageAvailabilityRequest, ContainerImageAvailabilityResponse,
    ContainerImageAvailabilityResult, HostId, Step, StepType,
};
use std::time::Duration;

const WHAT: &str = "container image availability request";
/// What the service allows the images of one step when it says nothing, seconds.
const DEFAULT_SECONDS: i64 = 960;
/// No image takes a day.
const MAX_SECONDS: i64 = 86_400;

pub(super) static KIND: Kind = Kind {
    step_type: StepType::ContainerImageAvailability,
    fields: &[("images", true, Any)],
    act: Act::Run(act),
    deadline: Deadline::Requested { grace: Duration::from_secs(60) },
    dry: Dry::Answered(|step| answer(step, WHAT, images)),
    failed: IN_PROCESS,
    prints_json: true,
    answers_on_stderr: false,
    privileges: PULLS,
};

fn act(step: &Step, _: &Settings, _: HostId) -> Result<Run, Refusal> {
    let argument = only_arg(step)?;
    let request: ContainerImageAvailabilityRequest = read(argument, WHAT)?;
    let seconds = request.timeout.unwrap_or(DEFAULT_SECONDS).clamp(0, MAX_SECONDS);
    Ok(Run { deadline: Some(Duration::from_secs(seconds.unsigned_abs())), ..Run::netcheck("image", argument) })
}

fn images(request: ContainerImageAvailabilityRequest) -> ContainerImageAvailabilityResponse {
    let available = |name| ContainerImageAvailability {
        download_rate: 100.0,
        name,
        result: ContainerImageAvailabilityResult::Success,
        size_bytes: 400_000_000,
        time: 10.0,
    };
    ContainerImageAvailabilityResponse { images: request.images.into_iter().map(available).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::act;
    use api::StepType;

    #[test]
    fn images_have_the_time_the_service_gives_them() {
        let seconds =
            |request: &str| act(StepType::ContainerImageAvailability, &[request]).unwrap().deadline.unwrap().as_secs();
        assert_eq!(seconds(r#"{"images":[]}"#), 1020);
        assert_eq!(seconds(r#"{"images":[],"timeout":5}"#), 65);
        assert_eq!(seconds(r#"{"images":[],"timeout":-5}"#), 60);
        assert_eq!(seconds(r#"{"images":[],"timeout":9223372036854775807}"#), 86_460);
    }
}
