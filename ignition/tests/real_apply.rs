//! Configs applied by the real Ignition and by us, to two equal directories: the results are equal.
#![allow(clippy::unwrap_used)]

#[path = "real/cases.rs"]
mod cases;
use crate::real;

use cases::Case;
use ignition::apply::{Now, Root, apply, newest};
use ignition::fetch::{FetchOptions, Fetcher};
use ignition::model::Version;
use real::{Node, Real, base, snapshot};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use tempfile::TempDir;

const RESULT: &str = "/etc/.ignition-result.json";
const PRESET_DIR: &str = "/etc/systemd/system-preset";
const PRESET: &str = "/etc/systemd/system-preset/20-ignition.preset";
const WORKERS: usize = 4;

/// All that is not the same, and why.
const DIFFERENCES: [(&str, &str, &str); 2] = [
    (
        "instances disabled",
        "/etc/systemd/system/multi-user.target.wants/t@one.service",
        "Ignition asks systemctl for the preset's words 't@.service one' as one name, which no unit has, so that the instance \
         stays enabled; ours is disabled, as any other unit",
    ),
    ("instances disabled", PRESET, "the same"),
];

/// What an Ignition from before the rules differs in besides: it presets what is not enabled.
const OLD_DIFFERENCES: [(&str, &str); 12] = [
    ("units disabled", PRESET),
    ("disabled unit disabled", PRESET_DIR),
    ("disabled unit disabled", PRESET),
    ("masked unit disabled", PRESET_DIR),
    ("masked unit disabled", PRESET),
    ("linked unit disabled", PRESET_DIR),
    ("linked unit disabled", PRESET),
    ("linked unit disabled", "/etc/systemd/system/linked.service"),
    ("unit written and disabled", PRESET_DIR),
    ("unit written and disabled", PRESET),
    ("unit masked and disabled", PRESET_DIR),
    ("unit masked and disabled", PRESET),
];

struct Pair {
    dir: TempDir,
}

impl Pair {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pair = Self { dir };
        base(&pair.real());
        base(&pair.ours());
        pair
    }

    fn real(&self) -> PathBuf {
        self.dir.path().join("real")
    }

    fn ours(&self) -> PathBuf {
        self.dir.path().join("ours")
    }
}

fn apply_ours(root: &Path, config: &str) -> Result<(), String> {
    let (document, version, report) = ignition::parse(config.as_bytes()).map_err(|error| error.to_string())?;
    assert!(!report.is_fatal(), "{report}");
    let root = Root::open(root).unwrap();
    let fetcher = Fetcher::new(FetchOptions { offline: true, ..FetchOptions::default() });
    apply(&root, &newest(document, version), &Now::read(), &fetcher).map_err(|error| format!("{error} {error:?}"))
}

/// What must differ made the same: the date and boot of the result, the day of a new password. Of an old Ignition the order of
/// presets as well, for which it takes that of a Go map, and what it gives new groups for a password.
fn tree(real: &Real, root: &Path) -> BTreeMap<String, Node> {
    let mut tree = snapshot(root);
    if let Some(result) = tree.get_mut(RESULT) {
        let parsed: Value = serde_json::from_slice(&result.contents).unwrap();
        let names: Vec<_> = parsed.as_object().unwrap().keys().cloned().collect();
        let lines = String::from_utf8_lossy(&result.contents).lines().count();
        let is_whole = !parsed["provisioningDate"].as_str().unwrap().contains('.');
        result.contents =
            format!("{names:?} {} {lines} lines, whole seconds: {is_whole}", parsed["userConfigProvided"]).into_bytes();
    }
    let today = Now::read().days;
    for path in ["/etc/shadow", "/etc/shadow-"] {
        if let Some(shadow) = tree.get_mut(path) {
            let text = String::from_utf8_lossy(&shadow.contents);
            let text = text.replace(&format!(":{}:", today.saturating_sub(1)), ":today:");
            shadow.contents = text.replace(&format!(":{today}:"), ":today:").into_bytes();
        }
    }
    if !real.is_old {
        return tree;
    }
    for path in ["/etc/gshadow", "/etc/gshadow-"] {
        if let Some(gshadow) = tree.get_mut(path) {
            gshadow.contents = String::from_utf8_lossy(&gshadow.contents).replace(":*:", ":!:").into_bytes();
        }
    }
    if let Some(preset) = tree.get_mut(PRESET) {
        let text = String::from_utf8_lossy(&preset.contents).into_owned();
        let lines: BTreeSet<_> = text.lines().collect();
        preset.contents = lines.into_iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes();
    }
    tree
}

fn text((name, version, rest): &Case) -> String {
    let mut config = rest.clone();
    config["ignition"] = json!({"version": version});
    assert!(!name.is_empty());
    config.to_string()
}

/// Calls `check` for every case, some at a time; returns what is wrong.
fn each<T: Sync>(list: &[T], check: impl Fn(&T) -> Vec<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || {
            let mut wrong = Vec::new();
            while let Some(case) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                wrong.extend(check(case));
            }
            wrong
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// What is not the same in two trees.
fn differences(real: &BTreeMap<String, Node>, ours: &BTreeMap<String, Node>) -> Vec<(String, String)> {
    let paths: BTreeSet<_> = real.keys().chain(ours.keys()).collect();
    let differs = |path: &&String| real.get(*path) != ours.get(*path);
    let show = |node: Option<&Node>| match node {
        None => "nothing".to_owned(),
        Some(node) => format!(
            "{} {:o} {:?} {:?} {:?}",
            node.kind,
            node.mode,
            node.owners,
            String::from_utf8_lossy(&node.contents).chars().take(1000).collect::<String>(),
            node.same_as
        ),
    };
    let line = |path: &String| (path.clone(), format!("{} | ours: {}", show(real.get(path)), show(ours.get(path))));
    paths.into_iter().filter(differs).map(line).collect()
}

fn explained(real: &Real, case: &str) -> Vec<&'static str> {
    let known = DIFFERENCES.iter().map(|(case, path, _)| (*case, *path));
    // An old one writes the same line as we do.
    let known = known.filter(|(_, path)| !real.is_old || *path != PRESET);
    let old = OLD_DIFFERENCES.iter().copied().filter(|_| real.is_old);
    known.chain(old).filter(|(known, _)| *known == case).map(|(_, path)| path).collect()
}

#[test]
fn the_same_tree_comes_of_a_config() {
    let Some(real) = Real::find() else { return };
    let mut cases = cases::good();
    if !real.is_old {
        cases.extend(cases::newer());
    }
    assert!(cases.len() >= 50, "{}", cases.len());
    let wrong = each(&cases, |case| {
        let (name, pair, config) = (case.0, Pair::new(), text(case));
        if let Err(error) = real.apply(&pair.real(), &config) {
            return vec![format!("{name}: Ignition fails: {error}")];
        }
        if let Err(error) = apply_ours(&pair.ours(), &config) {
            return vec![format!("{name}: ours fails: {error}")];
        }
        let found = differences(&tree(&real, &pair.real()), &tree(&real, &pair.ours()));
        let explained = explained(&real, name);
        let same = explained.iter().filter(|path| !found.iter().any(|(other, _)| other == *path));
        let mut wrong: Vec<_> = same.map(|path| format!("{name}: {path} should differ and does not")).collect();
        let found = found.iter().filter(|(path, _)| !explained.contains(&path.as_str()));
        wrong.extend(found.map(|(path, found)| format!("{name}: {path}: {found}")));
        wrong
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} configs, the same trees", cases.len());
}

#[test]
fn what_ignition_fails_at_fails() {
    let Some(real) = Real::find() else { return };
    let cases = cases::bad();
    let wrong = each(&cases, |case| {
        let (name, pair, config) = (case.0, Pair::new(), text(case));
        let mut wrong = Vec::new();
        if real.apply(&pair.real(), &config).is_ok() {
            wrong.push(format!("{name}: Ignition does it"));
        }
        if apply_ours(&pair.ours(), &config).is_ok() {
            wrong.push(format!("{name}: ours does it"));
        }
        wrong
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_merged_before_is_as_what_ignition_merges() {
    let Some(real) = Real::find() else { return };
    let wrong = each(&cases::families(), |(name, parent, child)| {
        let (parent, child) = (parent.to_string(), child.to_string());
        let mut whole: Value = serde_json::from_str(&parent).unwrap();
        whole["ignition"]["config"] = json!({"merge": [{"source": ignition::data_url::base64(child.as_bytes())}]});
        let merged = ignition::merge_all(&[parent.as_bytes(), child.as_bytes()]).unwrap();
        let merged = String::from_utf8(merged).unwrap();
        let (pair, other) = (Pair::new(), Pair::new());
        real.apply(&pair.real(), &whole.to_string()).unwrap();
        real.apply(&other.real(), &merged).unwrap();
        apply_ours(&pair.ours(), &merged).unwrap();
        let by_ignition = tree(&real, &pair.real());
        let of_merged = differences(&by_ignition, &tree(&real, &other.real()));
        let mut of_ours = differences(&by_ignition, &tree(&real, &pair.ours()));
        // A disabled unit that is not enabled: see above.
        of_ours.retain(|(path, _)| !(real.is_old && path == PRESET));
        of_merged.into_iter().chain(of_ours).map(|(path, found)| format!("{name}: {path}: {found}")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_translated_is_as_before() {
    let Some(real) = Real::find() else { return };
    // One of each kind is enough: those of no file of their own are in `all at once`.
    let names = [
        "file in gzip",
        "file owners by number",
        "user of every field",
        "user with keys",
        "instances enabled",
        "units masked",
        "through links",
    ];
    let cases: Vec<_> = cases::good().into_iter().filter(|case| names.contains(&case.0) && case.1 < "3.3.0").collect();
    assert_eq!(cases.len(), names.len());
    let wrong = each(&cases, |case| {
        let (name, config, pair, other) = (case.0, text(case), Pair::new(), Pair::new());
        let translated = ignition::translate(config.as_bytes(), Version::V3_3).unwrap();
        let translated = String::from_utf8(translated).unwrap();
        real.apply(&pair.real(), &config).unwrap();
        real.apply(&other.real(), &translated).unwrap();
        apply_ours(&pair.ours(), &translated).unwrap();
        let before = tree(&real, &pair.real());
        let of_real = differences(&before, &tree(&real, &other.real()));
        let of_ours = differences(&before, &tree(&real, &pair.ours()));
        of_real.into_iter().chain(of_ours).map(|(path, found)| format!("{name}: {path}: {found}")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
