//! Documents and what they become; local files; what is refused; damage.

use super::*;
use crate::{data_url, yaml};
use serde_json::Value as Tree;
use std::{fs, io::Read};

mod cases;

/// What became of a case: the config, and the findings as `KIND PATH LINE:COL`.
fn outcome(case: &cases::Case, files: &Path) -> (Option<Tree>, Vec<String>) {
    let options = Options { files_dir: Some(files), machine_config: !case.raw };
    let (text, report) = match translate(case.document.as_bytes(), &options) {
        Ok(translated) => (Some(translated.text), translated.report),
        Err(ButaneError::Invalid(report)) => (None, report),
        Err(error) => {
            let text = error.to_string();
            let place = text.strip_prefix("line ").and_then(|text| text.split_once(": "));
            let place = place.unwrap_or_else(|| panic!("{}: {text}", case.name)).0.replace(" col ", ":");
            return (None, vec![format!("error - {place}")]);
        }
    };
    let findings = report.entries.iter().map(|entry| {
        let at = entry.position.unwrap();
        format!("{} {} {}:{}", entry.severity, entry.path.as_deref().unwrap(), at.line, at.column)
    });
    // YAML has line breaks that JSON has not.
    let read = |text: Vec<u8>| serde_json::from_slice(&text).or_else(|_| yaml::document(&text, 1 << 20)).unwrap();
    (text.map(read), findings.collect())
}

fn contents(url: &str) -> String {
    let data = data_url::decode(url).unwrap().data.into_owned();
    let mut contents = String::new();
    match flate2::read::GzDecoder::new(&data[..]).read_to_string(&mut contents) {
        Ok(_) => contents,
        Err(_) => String::from_utf8(data).unwrap(),
    }
}

#[test]
fn documents_become_what_butane_makes_of_them() {
    let directory = tempfile::tempdir().unwrap();
    cases::files(directory.path());
    let all = cases::all();
    assert!(all.len() >= 100, "{}", all.len());
    let mut wrong = Vec::new();
    for case in all {
        let (config, mut findings) = outcome(&case, directory.path());
        for expected in &case.expected {
            let words: Vec<&str> = expected.splitn(3, ' ').collect();
            let found = config.as_ref().and_then(|config| config.pointer(words[0]));
            let holds = match words[..] {
                ["error" | "warning", ..] => {
                    let place = findings.iter().position(|finding| finding == expected);
                    place.map(|place| findings.remove(place)).is_some()
                }
                [_, "-"] => config.is_some() && found.is_none(),
                [_, "=", json] => found == Some(&serde_json::from_str(json).unwrap()),
                [_, "~", json] => found.and_then(Tree::as_str).map(contents) == serde_json::from_str(json).unwrap(),
                _ => panic!("{expected}"),
            };
            if !holds {
                wrong.push(format!("{}: {expected}: {found:?} {findings:?}", case.name));
            }
        }
        if !findings.is_empty() {
            wrong.push(format!("{}: besides: {findings:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn refusal(document: &str, options: &Options<'_>) -> String {
    translate(document.as_bytes(), options).unwrap_err().to_string()
}

#[test]
fn local_files_are_below_their_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (inside, secret) = (directory.path().join("files"), directory.path().join("secret"));
    fs::create_dir(&inside).unwrap();
    fs::write(&secret, "hunter2").unwrap();
    fs::create_dir_all(inside.join("tree/sub")).unwrap();
    std::os::unix::fs::symlink("../secret", inside.join("relative")).unwrap();
    std::os::unix::fs::symlink(&secret, inside.join("absolute")).unwrap();
    std::os::unix::fs::symlink(directory.path(), inside.join("up")).unwrap();
    std::os::unix::fs::symlink("../../secret", inside.join("tree/link")).unwrap();
    let options = Options { files_dir: Some(&inside), machine_config: false };
    let head = "variant: fcos\nversion: 1.5.0\nstorage: ";
    for local in ["relative", "absolute", "up/secret", "../secret", "tree/../../secret", "/../secret", "tree"] {
        let document = format!("{head}{{files: [{{path: /a, contents: {{local: {local}}}}}]}}");
        let error = refusal(&document, &options);
        assert!(error.contains("$.storage.files.0.contents.local") && !error.contains("hunter2"), "{error}");
    }
    for local in ["up", "..", "missing"] {
        assert!(refusal(&format!("{head}{{trees: [{{local: {local}}}]}}"), &options).contains("trees.0.local"));
    }
    // A link of a tree becomes a link: what it leads to is the host's.
    let tree = translate(format!("{head}{{trees: [{{local: tree}}]}}").as_bytes(), &options).unwrap();
    assert!(String::from_utf8(tree.text).unwrap().contains(r#""target":"../../secret""#));
    let none = refusal(&format!("{head}{{trees: [{{local: tree}}]}}"), &Options::default());
    assert!(none.contains("--files-dir"), "{none}");
    let pipe = inside.join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(refusal(&format!("{head}{{trees: [{{local: .}}]}}"), &options).contains("/pipe: it is not a file"));
}

#[test]
fn what_is_not_a_document_is_refused() {
    for (text, expected) in [
        ("", "no variant"),
        ("[]", "no variant"),
        ("variant: [fcos]", "no variant"),
        ("variant: flatcar\nversion: 1.0.0", "'flatcar' is not supported"),
        ("variant: fcos\nversion: 1.8.0-experimental", "experimental"),
        ("variant: fcos\nversion: 1.5", "'1.5' is not a version"),
        ("variant: fcos\nversion: 1.5.0\nstorage: [", "line"),
        ("variant: fcos\nversion: 1.5.0\na: *b", "line 3 col 4"),
    ] {
        assert!(
            refusal(text, &Options::default()).contains(expected),
            "{text}: {}",
            refusal(text, &Options::default())
        );
    }
    let deep = format!("variant: fcos\nversion: 1.5.0\na: {}", "[".repeat(100_000));
    assert!(refusal(&deep, &Options::default()).contains("nested too deeply"));
    let many =
        format!("variant: fcos\nversion: 1.5.0\n{}", (0..5000).map(|n| format!("k{n}: 1\n")).collect::<String>());
    assert_eq!(translate(many.as_bytes(), &Options::default()).unwrap().report.entries.len(), 1000);
    let odd = "variant: fcos\nversion: 1.5.0\n\"\\e[31m\": 1\n";
    let report = translate(odd.as_bytes(), &Options::default()).unwrap().report.to_string();
    assert!(!report.contains('\u{1b}'), "{report:?}");
}

/// Each document with a piece cut out or put in, and a byte changed: no panic, and what comes of it is valid.
#[test]
fn damaged_documents_are_no_danger() {
    let documents: Vec<String> = cases::all().into_iter().map(|case| case.document).collect();
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..3000 {
        let (one, other) = (&documents[random.usize(..documents.len())], &documents[random.usize(..documents.len())]);
        let mut bytes = one.clone().into_bytes();
        let (from, to) = (random.usize(..bytes.len()), random.usize(..bytes.len()));
        match random.u8(..3) {
            0 => drop(bytes.drain(from.min(to)..from.max(to))),
            1 => bytes.splice(from..from, other.bytes().skip(random.usize(..other.len())).take(40)).for_each(drop),
            _ => bytes[from] = *random.choice(b" {}[],:&*<|\"'\n-0a\xff").unwrap(),
        }
        crate::fuzzing::fuzz_butane(&bytes);
    }
}
