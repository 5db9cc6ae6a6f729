//! Exchanges beside recorded ones of the real programs: each header and each leaf of each body is the same, or the difference
//! is one that the table of allowed differences names.

use super::{
    allowed::{self, Row},
    exchange::{Exchange, Side, recordings},
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// Whose requests and whose responses a scenario sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Our agent and installer at the real service.
    OursAtTheRealService,
    /// The real agent and installer at our service.
    TheRealOnesAtOurs,
}

/// Where requests of the real agent, installer and controller are recorded.
const REAL_REQUESTS: [&str; 4] =
    ["sno-install", "unknown-infra-env", "the-real-ones-at-ours/sno", "the-real-ones-at-ours/ha-with-controller"];
/// Where responses of the real service are recorded.
const REAL_RESPONSES: [&str; 8] = [
    "errors",
    "ours-at-the-real-service/bind-never-registers-again",
    "sno-install",
    "ours-at-the-real-service/sno-with-accept-patched",
    "ours-at-the-real-service/ha-with-accept-patched",
    "ours-at-the-real-service/bind-with-nulls-patched",
    "ours-at-the-real-service/day2",
    "ours-at-the-real-service/sno-download-refused",
];

/// A leaf that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Difference {
    /// Such as `request body.output.memory.usable_bytes`, an index as `[]`.
    pub leaf: String,
    pub seen: Option<String>,
    pub recorded: Option<String>,
}

/// What came of all exchanges of a scenario.
#[derive(Default)]
pub(crate) struct Comparison {
    pub exchanges: usize,
    pub compared: usize,
    /// Kinds without a recording, with how many there were.
    pub unrecorded: BTreeMap<String, usize>,
    /// Differences that the table names, by reason.
    pub named: BTreeMap<&'static str, usize>,
    /// All others, with where they were.
    pub unnamed: Vec<(String, Difference)>,
}

impl Comparison {
    /// What the report of a scenario says.
    pub(crate) fn summary(&self) -> String {
        let unrecorded: usize = self.unrecorded.values().sum();
        let kinds: Vec<_> = self.unrecorded.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let unrecorded = if kinds.is_empty() {
            String::new()
        } else {
            format!(" ({unrecorded} without a recording: {})", kinds.join(", "))
        };
        let named: usize = self.named.values().sum();
        let (reasons, exchanges, compared) = (self.named.len(), self.exchanges, self.compared);
        format!(
            "{compared} of {exchanges} exchanges compared{unrecorded}, {named} named differences of {reasons} kinds"
        )
    }

    fn add(
        &mut self,
        exchange: &Exchange,
        differences: impl IntoIterator<Item = Difference>,
        reason: impl Fn(&Difference) -> Option<&'static str>,
    ) {
        for difference in differences {
            match reason(&difference) {
                Some(reason) => *self.named.entry(reason).or_default() += 1,
                None => self.unnamed.push((format!("{} ({})", exchange.name, exchange.kind()), difference)),
            }
        }
    }

    /// The first differences that nothing names.
    pub(crate) fn first_unnamed(&self) -> Vec<String> {
        let shown = |value: &Option<String>| value.as_deref().map_or("absent".to_owned(), shortened);
        let mut told = BTreeSet::new();
        let new = self.unnamed.iter().filter(|(kind, difference)| told.insert((kind.clone(), difference.leaf.clone())));
        new.take(40)
            .map(|(place, difference)| {
                format!(
                    "{place}: {}: seen {}, recorded {}",
                    difference.leaf,
                    shown(&difference.seen),
                    shown(&difference.recorded)
                )
            })
            .collect()
    }
}

fn shortened(text: &str) -> String {
    let start: String = text.chars().take(160).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}

/// The recorded traffic, where this machine has it.
pub(crate) fn wire() -> Option<PathBuf> {
    testkit::recordings::path("data/wire")
}

/// Compares both sides of every exchange with those of the real programs.
pub(crate) fn compare(seen: &[Exchange], direction: Direction, scenario: &[Row]) -> Comparison {
    let mut comparison = Comparison { exchanges: seen.len(), ..Comparison::default() };
    let Some(wire) = wire() else { return comparison };
    let pool = |directories: &[&str]| {
        let all = directories.iter().filter(|name| wire.join(name).is_dir());
        let all: Vec<Exchange> = all.flat_map(|name| with_words(recordings(&wire, name))).collect();
        all
    };
    let (requests, responses) = (pool(&REAL_REQUESTS), pool(&REAL_RESPONSES));
    let seen = with_words(seen.to_vec());
    for exchange in &seen {
        let kind = exchange.kind();
        let is_named = |difference: &Difference| allowed::reason(direction, scenario, &kind, difference).is_some();
        let request = nearest(exchange, &requests, |known| known.kind() == kind, request_leaves, &is_named);
        let similar = |known: &Exchange| known.kind() == kind && known.status == exchange.status;
        let response = if kind == "poll" && exchange.status == Some(200) {
            poll_differences(exchange, &responses, &is_named)
        } else {
            nearest(exchange, &responses, similar, response_leaves, &is_named)
        };
        comparison.compared += usize::from(request.is_some() && response.is_some());
        if request.is_none() || response.is_none() {
            let missing = match (&request, &response) {
                (None, None) => "",
                (None, _) => " (its request)",
                _ => " (its response)",
            };
            let status = exchange.status.map_or("no answer".into(), |status| status.to_string());
            *comparison.unrecorded.entry(format!("{kind} {status}{missing}")).or_default() += 1;
        }
        let all = request.into_iter().flatten().chain(response.into_iter().flatten());
        comparison.add(exchange, all, |difference| allowed::reason(direction, scenario, &kind, difference));
    }
    comparison
}

/// Compares the requests of one program with those of another.
pub(crate) fn compare_requests(seen: &[Exchange], judge: &[Exchange], scenario: &[Row]) -> Comparison {
    let mut comparison = Comparison { exchanges: seen.len(), ..Comparison::default() };
    for exchange in seen {
        let kind = exchange.kind();
        let direction = Direction::OursAtTheRealService;
        let is_named = |difference: &Difference| allowed::reason(direction, scenario, &kind, difference).is_some();
        let Some(found) = nearest(exchange, judge, |known| known.kind() == kind, request_leaves, &is_named) else {
            *comparison.unrecorded.entry(kind).or_default() += 1;
            continue;
        };
        comparison.compared += 1;
        comparison.add(exchange, found, |difference| allowed::reason(direction, scenario, &kind, difference));
    }
    comparison
}

type Leaves = BTreeMap<String, Vec<String>>;

/// Those that nothing names first, then all.
fn weight(differences: &[Difference], is_named: &dyn Fn(&Difference) -> bool) -> (usize, usize) {
    (differences.iter().filter(|difference| !is_named(difference)).count(), differences.len())
}

/// The differences from the recorded exchange that has the fewest; `None` where there is no such exchange.
fn nearest(
    exchange: &Exchange,
    pool: &[Exchange],
    similar: impl Fn(&Exchange) -> bool,
    leaves: impl Fn(&Exchange) -> Leaves,
    is_named: &dyn Fn(&Difference) -> bool,
) -> Option<Vec<Difference>> {
    let seen = leaves(exchange);
    let all = pool.iter().filter(|known| similar(known)).map(|known| differences(&seen, &leaves(known)));
    all.min_by_key(|differences| weight(differences, is_named))
}

fn differences(seen: &Leaves, recorded: &Leaves) -> Vec<Difference> {
    let mut found = Vec::new();
    for leaf in seen.keys().chain(recorded.keys()).collect::<BTreeSet<_>>() {
        let values = |leaves: &Leaves| leaves.get(leaf).map(|values| values.join(", "));
        let (seen, recorded) = (values(seen), values(recorded));
        if seen != recorded {
            found.push(Difference { leaf: leaf.clone(), seen, recorded });
        }
    }
    found
}

fn request_leaves(exchange: &Exchange) -> Leaves {
    let mut leaves = side_leaves("request", &exchange.request);
    leaves.insert("path".into(), vec![exchange.path.clone()]);
    for (name, value) in &exchange.query {
        leaves.entry(format!("query {name}")).or_default().push(value.clone());
    }
    leaves
}

fn response_leaves(exchange: &Exchange) -> Leaves {
    side_leaves("response", &exchange.response)
}

fn side_leaves(name: &str, side: &Side) -> Leaves {
    let mut leaves = Leaves::new();
    for (header, value) in &side.headers {
        leaves.entry(format!("{name} header {header}")).or_default().push(value.clone());
    }
    collect(&format!("{name} body"), &side.body, &mut leaves);
    leaves
}

/// All leaves of a value; empty lists and objects are some too.
fn collect(at: &str, value: &Value, leaves: &mut Leaves) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            items.iter().for_each(|item| collect(&format!("{at}[]"), item, leaves))
        }
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, field)| collect(&format!("{at}.{name}"), field, leaves));
        }
        leaf => leaves.entry(at.to_owned()).or_default().push(leaf.to_string()),
    }
}

/// A poll's answer is compared step by step: which steps come together is the service's timing.
fn poll_differences(
    exchange: &Exchange,
    pool: &[Exchange],
    is_named: &dyn Fn(&Difference) -> bool,
) -> Option<Vec<Difference>> {
    let polls = |known: &&Exchange| known.kind() == "poll" && known.status == Some(200);
    let envelope = |one: &Exchange| {
        let mut leaves = response_leaves(one);
        leaves.retain(|leaf, _| !leaf.starts_with("response body.instructions"));
        leaves
    };
    let mut found = nearest(exchange, pool, |known| polls(&known), envelope, is_named)?;
    let recorded: Vec<&Value> = pool.iter().filter(polls).flat_map(instructions).collect();
    let leaves = |step: &Value| {
        let mut leaves = Leaves::new();
        collect(&format!("step {}", step["step_type"].as_str().unwrap_or("?")), step, &mut leaves);
        leaves
    };
    for step in instructions(exchange) {
        let role = |step: &Value| [&step["args"][0]["role"], &step["args"][0]["control_plane_count"]].map(Value::clone);
        let same = recorded.iter().filter(|known| known["step_type"] == step["step_type"] && role(known) == role(step));
        let all = same.map(|known| differences(&leaves(step), &leaves(known)));
        found.extend(all.min_by_key(|differences| weight(differences, is_named))?);
    }
    Some(found)
}

pub(crate) fn instructions(exchange: &Exchange) -> impl Iterator<Item = &Value> {
    exchange.response.body["instructions"].as_array().into_iter().flatten()
}

/// Everything that is another in each run named by what it is: infra-env, cluster, hosts, steps.
fn with_words(exchanges: Vec<Exchange>) -> Vec<Exchange> {
    let words: BTreeMap<String, &str> = exchanges.iter().flat_map(Exchange::identities).collect();
    let text = |text: &str| {
        let mut text = text.to_owned();
        for (id, word) in &words {
            text = text.replace(id, word);
        }
        without_step_number(text)
    };
    fn renamed(value: Value, text: &dyn Fn(&str) -> String) -> Value {
        match value {
            Value::String(old) => Value::String(text(&old)),
            Value::Array(items) => items.into_iter().map(|item| renamed(item, text)).collect(),
            Value::Object(fields) => Value::Object(
                fields.into_iter().map(|(name, value)| (name, renamed(value, text))).collect::<Map<_, _>>(),
            ),
            other => other,
        }
    }
    let side = |side: Side| Side { body: renamed(side.body, &text), ..side };
    exchanges
        .into_iter()
        .map(|exchange| Exchange {
            path: text(&exchange.path),
            query: exchange.query.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            request: side(exchange.request),
            response: side(exchange.response),
            ..exchange
        })
        .collect()
}

/// A step's id is its type and eight random digits.
fn without_step_number(text: String) -> String {
    match text.rsplit_once('-') {
        Some((kind, number))
            if number.len() == 8
                && number.bytes().all(|byte| byte.is_ascii_hexdigit())
                && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') =>
        {
            format!("{kind}-{{number}}")
        }
        _ => text,
    }
}
