//! Our requests against the recorded ones: header by header, and leaf by leaf.

use fake_service::{
    Request,
    recorded::{Exchange, Leaves, header_faults, leaf_faults},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Leaves of replies and reports that are not the same each time, by the type of step, or by the end of the path.
const VOLATILE: &[(&str, Leaves)] = &[
    (
        "inventory",
        &[
            ("/output/bmc_address", "this machine's controller"),
            ("/output/bmc_v6address", "this machine's controller"),
            ("/output/boot/**", "this machine's kernel and firmware"),
            ("/output/cpu/**", "this machine's processor"),
            ("/output/disks/**", "this machine's disks"),
            ("/output/hostname", "this machine's name"),
            ("/output/interfaces/**", "the test's network"),
            ("/output/memory/**", "this machine's memory"),
            ("/output/routes/**", "the test's network"),
            ("/output/system_vendor/**", "this machine's maker"),
            ("/output/tpm_version", "this machine's module"),
        ],
    ),
    ("free-network-addresses", &[("/output/0/free_addresses/**", "who is in the test's network")]),
    (
        "domain-resolution",
        &[
            ("/output/resolutions/*/cnames/**", "what the server of names says today"),
            ("/output/resolutions/*/cnames", "what the server of names says today"),
            ("/output/resolutions/*/ipv4_addresses/**", "what the server of names says today"),
            ("/output/resolutions/*/ipv4_addresses", "what the server of names says today"),
            ("/output/resolutions/*/ipv6_addresses/**", "what the server of names says today"),
            ("/output/resolutions/*/ipv6_addresses", "what the server of names says today"),
        ],
    ),
    ("ntp-synchronizer", &[("/output/ntp_sources/*/source_state", "the recorded host had followed it for a while")]),
    (
        "container-image-availability",
        &[
            ("/output/images/*/result", "the test has no internet"),
            ("/output/images/*/time", "measured"),
            ("/output/images/*/size_bytes", "measured"),
            ("/output/images/*/download_rate", "measured"),
            ("/exit_code", "the test has no internet"),
            ("/error", "the test has no internet"),
        ],
    ),
    (
        "installation-disk-speed-check",
        &[("/output/io_sync_duration", "measured"), ("/output/path", "the disk of the test")],
    ),
    ("/progress", &[("/progress_info", "how fast the disk is")]),
];

/// What a request differs in from the recorded one that is most like it; nothing if it is in none. `None` where nothing of its
/// kind was recorded.
pub(crate) fn faults(ours: &Request, recorded: &[Exchange]) -> Option<Vec<String>> {
    let same = recorded.iter().filter(|theirs| theirs.method == ours.method && theirs.path == ours.path);
    let candidates = same.filter(|theirs| part(theirs.asked()) == part(&ours.body));
    let compared = candidates.map(|theirs| {
        let mut faults = header_faults(ours, theirs);
        faults.extend(query_faults(ours, theirs));
        faults.extend(body_faults(ours, theirs));
        faults.into_iter().map(|fault| format!("{fault} in {}", theirs.name)).collect::<Vec<_>>()
    });
    compared.min_by_key(Vec::len)
}

/// Headers alone, of a request whose body has nothing to be compared with.
pub(crate) fn only_header_faults(ours: &Request, recorded: &[Exchange]) -> Vec<String> {
    let same = recorded.iter().filter(|theirs| theirs.method == ours.method && theirs.path == ours.path);
    same.map(|theirs| header_faults(ours, theirs)).min_by_key(Vec::len).expect("some are recorded")
}

/// What tells requests to one endpoint apart. Percentages are of one kind: they come as the disk is fast.
fn part(body: &Value) -> [String; 4] {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let info = text("progress_info");
    let info = if info.ends_with('%') { "%" } else { info };
    [text("step_id"), text("current_stage"), info, text("logs_state")].map(str::to_owned)
}

fn query_faults(ours: &Request, theirs: &Exchange) -> Option<String> {
    // The time of the request is in it.
    let parameters = |query: &str| {
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let value = |name: &str, value: &str| if name == "timestamp" { String::new() } else { value.to_owned() };
        pairs.map(|(name, text)| (name.to_owned(), value(name, text))).collect::<BTreeMap<_, _>>()
    };
    let (own, their) = (parameters(&ours.query), parameters(&theirs.query));
    (own != their).then(|| format!("the query is {:?}, recorded {:?}", ours.query, theirs.query))
}

fn body_faults(ours: &Request, theirs: &Exchange) -> Vec<String> {
    if let Some(text) = theirs.asked()["_base64"].as_str() {
        return form_faults(ours, &decode(text));
    }
    let kind =
        ours.body["step_type"].as_str().unwrap_or_else(|| ours.path.rfind('/').map_or("", |at| &ours.path[at..]));
    let volatile = VOLATILE.iter().find(|(own, _)| *own == kind).map_or(&[][..], |(_, leaves)| leaves);
    leaf_faults(&ours.body, theirs.asked(), volatile, &mut BTreeSet::new())
}

/// A form but for its boundary and for what is in the archive.
fn form_faults(ours: &Request, theirs: &[u8]) -> Vec<String> {
    let frame = |body: &[u8]| {
        let text = String::from_utf8_lossy(body).into_owned();
        let boundary = text.split("\r\n").next().unwrap_or_default().to_owned();
        let head = text.split("\r\n\r\n").next().unwrap_or_default().replace(&boundary, "--");
        let tail = text.rsplit("\r\n--").next().unwrap_or_default().replace(boundary.trim_start_matches("--"), "");
        (head, tail)
    };
    let (own, their) = (frame(&ours.bytes), frame(theirs));
    if own == their { Vec::new() } else { vec![format!("the form is {own:?}, recorded {their:?}")] }
}

fn decode(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| ALPHABET.iter().position(|own| *own == byte)).collect::<Vec<_>>();
    let pieces = digits.chunks(4).flat_map(|chunk| {
        let word = chunk.iter().fold(0_u32, |word, digit| word << 6 | u32::try_from(*digit).unwrap());
        let word = word << (6 * (4 - chunk.len()));
        word.to_be_bytes()[1..chunk.len()].to_vec()
    });
    pieces.collect()
}

#[test]
fn base64_is_read() {
    assert_eq!(decode("LS04YQ=="), b"--8a");
    assert_eq!(decode("LS04YTI="), b"--8a2");
    assert_eq!(decode("LS04YTI5"), b"--8a29");
}
