//! Whether images can be had: `landfall netcheck image` (docs/compatibility.md#container-image-availability).

use super::{IN_PROCESS, Kind, Refusal, Run, check, fields::Format::Any, only_arg, read};
use crate::{
    dry::{self, Dry},
    settings::Settings,
};
use api::{
    ContainerImageAvailability, ContainerImageAvailabilityRequest, ContainerImageAvailabilityResponse,
    ContainerImageAvailabilityResult, HostId, Step, StepType, kinds,
};
use std::time::Duration;

const WHAT: &str = "container image availability request";
/// What the service allows the images of one step when it says nothing, seconds.
const DEFAULT_SECONDS: i64 = 960;
/// The check watches its own time; it is ended only when it fails to.
const GRACE: Duration = Duration::from_secs(60);
/// Nobody waits a day for an image.
const MAX_SECONDS: i64 = 86_400;

pub(super) static KIND: Kind = Kind {
    step_type: StepType::ContainerImageAvailability,
    fields: &[("images", true, Any)],
    act,
    dry: Dry::Answered(|step| dry::answer(step, WHAT, images)),
    failed: IN_PROCESS,
    prints_json: true,
};

fn act(step: &Step, settings: &Settings, _: HostId) -> Result<Run, Refusal> {
    let run = check::<kinds::ContainerImageAvailability>(step, settings, "image", WHAT)?;
    let request: ContainerImageAvailabilityRequest = read(only_arg(step)?, WHAT)?;
    let seconds = request.timeout.unwrap_or(DEFAULT_SECONDS).clamp(0, MAX_SECONDS);
    Ok(Run { deadline: Some(Duration::from_secs(seconds.unsigned_abs()) + GRACE), ..run })
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
