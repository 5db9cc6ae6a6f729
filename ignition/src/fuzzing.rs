//! What fuzzers call: each function takes hostile bytes and does all that is done with them. No part of the API.

use crate::model::Version;
use crate::{butane, data_url, merge_all, parse, translate};

/// Parses a config, writes it, parses that: the same, and written the same again. Translates it to every version.
///
/// # Panics
/// If they differ.
pub fn fuzz_config(text: &[u8]) {
    let Ok((config, version, _)) = parse(text) else { return };
    let written = config.to_json();
    let (again, same_version, report) = parse(&written).expect("what was written is a config");
    assert!(version == same_version && config == again, "{}", String::from_utf8_lossy(&written));
    assert_eq!(written, again.to_json());
    assert!(report.entries.iter().all(|entry| !entry.message.starts_with("unused key")), "{report}");
    for version in Version::ALL {
        let _ = translate(text, version);
    }
}

/// Translates a Butane document, in both forms: a config that comes of it is valid.
///
/// # Panics
/// If it is not.
pub fn fuzz_butane(text: &[u8]) {
    let translate = |machine_config| butane::translate(text, &butane::Options { files_dir: None, machine_config });
    let _ = translate(true);
    let Ok(translated) = translate(false) else { return };
    let report = parse(&translated.text).map(|(_, _, report)| report);
    assert!(report.is_ok_and(|report| !report.is_fatal()), "{}", String::from_utf8_lossy(&translated.text));
}

/// Reads a `data:` URL: its check and its reading must agree, and what was read must come back from both forms of writing.
///
/// # Panics
/// If they don't.
pub fn fuzz_data_url(url: &[u8]) {
    let url = String::from_utf8_lossy(url);
    let read = data_url::decode(&url);
    assert_eq!(data_url::check(&url).is_ok(), read.is_ok());
    let Ok(read) = read else { return };
    for url in [data_url::base64(&read.data), data_url::percent(&read.data)] {
        assert_eq!(data_url::decode(&url).expect("what was written is a URL").data, read.data);
    }
}

/// Merges two configs, separated by an empty line: two valid ones give a valid one, and an empty child changes nothing.
///
/// # Panics
/// If that is not so.
pub fn fuzz_merge(text: &[u8]) {
    let at = text.windows(2).position(|pair| pair == b"\n\n").unwrap_or(text.len());
    let (parent, child) = text.split_at(at);
    let _ = merge_all(&[parent, child]);
    let (Ok((parent, ..)), Ok((child, ..))) = (parse(parent), parse(child)) else { return };
    assert!(parent.clone().merge(Default::default()) == parent);
    let merged = parent.merge(child);
    let written = merged.to_json();
    assert!(parse(&written).is_ok_and(|(again, ..)| again == merged), "{}", String::from_utf8_lossy(&written));
}
