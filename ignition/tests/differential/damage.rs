//! The texts of configs, some damaged.

use crate::differential::{VERSIONS, configs::Maker};
use fastrand::Rng;
use serde_json::{Value, json};

/// The text of a config from this seed.
pub(crate) fn config_text(seed: u64, versions: usize) -> String {
    let mut rng = Rng::with_seed(seed);
    let (version, faults) = (VERSIONS[rng.usize(0..versions)], [0, 5, 30][rng.usize(0..3)]);
    let mut config = Maker { rng: rng.fork(), version, faults }.config();
    if rng.u8(0..4) == 0 {
        mutate(&mut rng, &mut config);
    }
    let text = if rng.bool() { config.to_string() } else { format!("{config:#}") };
    match rng.u8(0..30) {
        0 | 1 => damage(&mut rng, &text),
        2 | 3 => misspell(&mut rng, &text),
        _ => text,
    }
}

/// One value becomes another.
fn mutate(rng: &mut Rng, value: &mut Value) {
    let inner: Vec<&mut Value> = match value {
        Value::Object(members) => members.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    let len = inner.len();
    if len > 0 && rng.u8(0..10) > 0 {
        let place = rng.usize(0..len);
        return mutate(rng, inner.into_iter().nth(place).unwrap());
    }
    *value =
        [json!(null), json!(5), json!("x"), json!(true), json!([]), json!({}), json!(1.5)][rng.usize(0..7)].clone();
}

/// A key is spelled in another way.
fn misspell(rng: &mut Rng, text: &str) -> String {
    let keys: Vec<_> = text.match_indices("\":").map(|(at, _)| at).collect();
    let Some(end) = keys.get(rng.usize(0..keys.len().max(1))) else { return text.to_owned() };
    let start = text[..*end].rfind('"').unwrap() + 1;
    let key = &text[start..*end];
    let key = match rng.usize(0..4) {
        0 => key.to_uppercase(),
        1 => key.replacen(['s', 'S'], "\u{17f}", 1),
        2 => key.replacen(['k', 'K'], "\u{212a}", 1),
        _ => key.replacen(['t', 'T'], "_t", 1),
    };
    [&text[..start], &key, &text[*end..]].concat()
}

/// A byte is missing, or is another.
fn damage(rng: &mut Rng, text: &str) -> String {
    let at = rng.usize(0..text.len());
    // Errors before the data of a URL are in a library's words.
    const HEADER_BYTES: usize = 24;
    if text.len() < HEADER_BYTES || text[..at].rfind("data").is_some_and(|start| at - start < HEADER_BYTES) {
        return text.to_owned();
    }
    let (Some(before), Some(after)) = (text.get(..at), text.get(at + 1..)) else { return text.to_owned() };
    let byte = ["", "x", "\"", "\\", "}", "]", ",", "\n", "0", "-"][rng.usize(0..10)];
    let damaged = [before, byte, after].concat();
    // Where a bad \u ends, Go's versions disagree.
    if damaged.contains("\\u") { text.to_owned() } else { damaged }
}
