//! `container-image-availability`: whether the host can pull images.

use super::kind::{Kind, Outcome, Replied, Situation, json};
use super::options::StepOptions;
use super::outputs::{self, MAX_ENTRIES, stored};
use crate::events;
use crate::http::{Refusal, body::wrong_type};
use crate::model::HostRecord;
use crate::state::HostState;
use api::{ContainerImageAvailability, ContainerImageAvailabilityRequest, kinds};
use serde_json::{Value, json};

/// How long all images of a host may take to be pulled.
const LIMIT_S: u64 = 16 * 60;

pub(crate) fn kind() -> Kind {
    Kind { limit_s: Some(LIMIT_S), succeeded, failed, ..Kind::new::<kinds::ContainerImageAvailability>(asked_in, ask) }
}

fn asked_in(state: HostState, added: bool) -> bool {
    !added && state == HostState::PreparingForInstallation
}

fn ask(situation: &Situation) -> Option<Vec<String>> {
    let images = images_to_try(&situation.settings.steps, situation.record);
    if images.is_empty() {
        return None;
    }
    json::<kinds::ContainerImageAvailability>(&ContainerImageAvailabilityRequest {
        images,
        timeout: i64::try_from(LIMIT_S).ok(),
    })
}

/// The images that a host is still to try.
pub(crate) fn images_to_try(options: &StepOptions, record: &HostRecord) -> Vec<String> {
    if options.check_images.is_empty() {
        return Vec::new();
    }
    let tried = stored(record.texts.images_status.as_ref());
    options.check_images.iter().filter(|image| !tried.contains_key(*image)).cloned().collect()
}

fn succeeded(replied: &Replied) -> Result<Outcome, Refusal> {
    match replied.reply.output.as_str() {
        "" => Ok(Outcome::Nothing),
        output => Ok(store(parse(output)?)),
    }
}

fn failed(replied: &Replied) -> Result<Outcome, Refusal> {
    Ok(parse(&replied.reply.output).map_or(Outcome::Nothing, store))
}

fn store(images: Vec<ContainerImageAvailability>) -> Outcome {
    Outcome::Host(Box::new(move |change, record| {
        let mut statuses = stored(record.texts.images_status.as_ref());
        for image in images {
            let status = api::json::to_value(&image).map_err(|error| Refusal::internal(&error))?;
            // What was measured first stays: a later attempt finds the image on the host.
            if let Some(known) = statuses.get_mut(&image.name) {
                known["result"] = status["result"].clone();
            } else if statuses.len() < MAX_ENTRIES {
                let details = json!({"image_status": image.name, "result": status["result"], "info": info(&image)});
                events::host(change, record, events::kinds::IMAGE_STATUS_UPDATED, details);
                statuses.insert(image.name, status);
            }
        }
        record.texts.images_status = Some(Value::Object(statuses).to_string());
        Ok(())
    }))
}

/// How it was fetched; none if unknown.
// A size for people; beyond 2^53 bytes it rounds.
#[allow(clippy::cast_precision_loss)]
fn info(image: &ContainerImageAvailability) -> String {
    if image.size_bytes == 0 {
        return String::new();
    }
    let (time, size_mib, rate) = (image.time, image.size_bytes as f64 / (1 << 20) as f64, image.download_rate);
    format!("time: {time:.2} seconds; size: {size_mib:.2} Megabytes; download rate: {rate:.2} MBps")
}

/// Sizes are numbers, whole or not.
fn parse(text: &str) -> Result<Vec<ContainerImageAvailability>, Refusal> {
    let mut answer = outputs::fields(text, "ContainerImageAvailabilityResponse")?;
    let entries = match answer.remove("images").unwrap_or_default() {
        Value::Null => Vec::new(),
        Value::Array(entries) => entries,
        other => return Err(Refusal::invalid(wrong_type(&other, "ContainerImageAvailability"))),
    };
    let image = |mut entry: Value| {
        if let Some(size) = entry.get_mut("size_bytes") {
            *size = Value::from(whole(size));
        }
        api::json::from_value(entry).ok()
    };
    Ok(entries.into_iter().filter_map(image).collect())
}

/// A number of bytes; 0 if it is not a number.
// A size beyond 2^53 bytes may be rounded: it is told to people only.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(number: &Value) -> u64 {
    let rounded = || number.as_f64().filter(|bytes| *bytes >= 0.0).map_or(0, |bytes| bytes as u64);
    number.as_u64().unwrap_or_else(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_say_nothing_are_left_out() {
        let answer = json!({"images": [
            {"name": "a", "result": "success", "size_bytes": 333_000_000.0, "time": 1.5},
            {"name": "b", "result": "failure", "size_bytes": 1.5},
            {"result": "success"},
            {"name": "c", "result": "maybe"},
        ]});
        let found = parse(&answer.to_string()).unwrap();
        assert_eq!(
            found.iter().map(|image| (image.name.as_str(), image.size_bytes)).collect::<Vec<_>>(),
            [("a", 333_000_000), ("b", 1)]
        );
        assert!(parse("{}").unwrap().is_empty());
    }
}
