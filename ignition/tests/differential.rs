//! Configs made at random, most of them wrong somewhere, as ignition-validate judges them and as we do: the same verdict, and
//! the same findings at the same places.
//!
//! `LANDFALL_CONFIGS=10000` makes so many.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use ignition::{ParseError, Report, parse};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

const CONFIGS: u64 = 600;

fn validator() -> Option<PathBuf> {
    let unpacked =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/vm/packages/ignition/usr/bin/ignition-validate");
    let path = std::env::var_os("LANDFALL_IGNITION_VALIDATE").map_or(unpacked, PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    let why = format!("{} is not there; name an ignition-validate in LANDFALL_IGNITION_VALIDATE", path.display());
    skip::because(why);
    None
}

/// Makes configs; `faults` of a hundred values are such as no config should have.
struct Maker {
    rng: Rng,
    version: u8,
    faults: u8,
}

type Make = fn(&mut Maker) -> Value;

impl Maker {
    fn one(&mut self, good: &[&str], bad: &[&str]) -> Value {
        let faulty = self.rng.u8(0..100) < self.faults;
        let list = if faulty && !bad.is_empty() { bad } else { good };
        match self.rng.usize(0..=list.len()) {
            0 if faulty => Value::Null,
            n => list[n.min(list.len() - 1)].into(),
        }
    }

    /// Some of these members; names given first are always there, unless that is the fault.
    fn object(&mut self, needed: usize, members: &[(&str, Make)]) -> Value {
        let mut object = Map::new();
        for (place, (name, make)) in members.iter().enumerate() {
            let wanted = if place < needed { self.rng.u8(0..100) >= self.faults / 4 } else { self.rng.u8(0..3) == 0 };
            if wanted {
                let value = make(self);
                object.insert((*name).to_owned(), value);
            }
        }
        if self.rng.u8(0..100) < self.faults / 5 {
            object.insert("bogus".into(), 1.into());
        }
        object.into()
    }

    fn list(&mut self, most: usize, make: Make) -> Value {
        let len = self.rng.usize(0..=most);
        (0..len).map(|_| make(self)).collect()
    }

    fn flag(&mut self) -> Value {
        self.rng.bool().into()
    }

    fn number(&mut self) -> Value {
        self.rng.i64(-1..4).into()
    }
}

fn url(m: &mut Maker) -> Value {
    m.one(
        &[
            "http://a.example/x",
            "https://a.example:8080/x?y=z",
            "tftp://a/b",
            "data:,x%20y",
            "data:;base64,eHl6",
            "s3://b/k",
            "",
        ],
        &[
            "data:,x y",
            "data:;base64,x",
            "gs://b/k",
            "arn:aws:s3:::b/k",
            "oem:///x",
            "http://[::1]a",
            "http://a b/",
            "s3://b/k?versionId=",
            ":x",
            "a",
        ],
    )
}

fn path(m: &mut Maker) -> Value {
    m.one(
        &[
            "/a",
            "/a/b",
            "/c",
            "/d/e/f",
            "/etc/hosts",
            "/etc/systemd/system/x.service",
            "/etc/systemd/system/x.service.d/a.conf",
        ],
        &["", "a", "/a/", "/a/../b", "//x", "/a/./b"],
    )
}

fn hash(m: &mut Maker) -> Value {
    let (long, short) = (format!("sha512-{}", "0".repeat(128)), format!("sha256-{}", "a".repeat(64)));
    m.one(&[&long, &short], &["", "sha512", "md5-0", "sha512-00", "sha256-zz"])
}

fn verification(m: &mut Maker) -> Value {
    m.object(0, &[("hash", hash)])
}

fn headers(m: &mut Maker) -> Value {
    m.list(2, |m| m.object(2, &[("name", |m| m.one(&["A", "B"], &[""])), ("value", |m| m.one(&["x"], &[""]))]))
}

fn resource(m: &mut Maker) -> Value {
    let members: [(&str, Make); 4] = [
        ("source", url),
        ("compression", |m| m.one(&["", "gzip"], &["xz"])),
        ("httpHeaders", headers),
        ("verification", verification),
    ];
    m.object(1, &members)
}

fn owner(m: &mut Maker) -> Value {
    m.object(0, &[("id", Maker::number), ("name", |m| m.one(&["core", ""], &[]))])
}

fn mode(m: &mut Maker) -> Value {
    let faulty = m.rng.u8(0..100) < m.faults;
    let modes: [i64; 3] = if faulty { [-1, 0o10000, 99999999] } else { [0, 0o644, 0o777] };
    modes[m.rng.usize(0..3)].into()
}

fn file(m: &mut Maker) -> Value {
    m.object(
        1,
        &[
            ("path", path),
            ("contents", resource),
            ("mode", mode),
            ("overwrite", Maker::flag),
            ("user", owner),
            ("group", owner),
            ("append", |m| m.list(2, resource)),
        ],
    )
}

fn directory(m: &mut Maker) -> Value {
    m.object(1, &[("path", path), ("mode", mode), ("overwrite", Maker::flag), ("user", owner)])
}

fn link(m: &mut Maker) -> Value {
    m.object(
        2,
        &[
            ("path", path),
            ("target", |m| m.one(&["/a", "/x", "../y", "b"], &[""])),
            ("hard", Maker::flag),
            ("overwrite", Maker::flag),
        ],
    )
}

fn guid(m: &mut Maker) -> Value {
    m.one(&["01234567-89AB-CDEF-EDCB-A98765432101", ""], &["x", "01234567-89AB-CDEF-EDCB-A9876543210"])
}

fn partition(m: &mut Maker) -> Value {
    m.object(
        1,
        &[
            ("number", |m| m.rng.i64(0..4).into()),
            ("label", |m| m.one(&["root", "var", "x"], &["a:b", "0123456789012345678901234567890123456789"])),
            ("sizeMiB", |m| m.rng.i64(0..20).into()),
            ("startMiB", |m| m.rng.i64(0..20).into()),
            ("typeGuid", guid),
            ("guid", guid),
            ("shouldExist", |m| (m.rng.u8(0..5) > 0).into()),
            ("wipePartitionEntry", Maker::flag),
            ("resize", Maker::flag),
        ],
    )
}

fn device(m: &mut Maker) -> Value {
    m.one(&["/dev/vda", "/dev/vdb", "/dev/disk/by-label/x"], &["", "vda", "/dev/../x"])
}

fn disk(m: &mut Maker) -> Value {
    m.object(1, &[("device", device), ("partitions", |m| m.list(3, partition)), ("wipeTable", Maker::flag)])
}

fn raid(m: &mut Maker) -> Value {
    m.object(
        3,
        &[
            ("name", |m| m.one(&["r", "s"], &[])),
            ("level", |m| m.one(&["raid1", "linear", "stripe", "10"], &["", "raid7"])),
            ("devices", |m| m.list(2, device)),
            ("spares", Maker::number),
            ("options", |m| m.list(2, |m| m.one(&["--x", "--y"], &[]))),
        ],
    )
}

fn filesystem(m: &mut Maker) -> Value {
    m.object(
        2,
        &[
            ("device", device),
            ("format", |m| m.one(&["ext4", "xfs", "btrfs", "vfat", "swap"], &["", "ntfs", "none"])),
            ("label", |m| m.one(&["root", ""], &["0123456789abcdefg", "0123456789abc"])),
            ("path", |m| m.one(&["/var", ""], &["var", "/a/"])),
            ("uuid", |m| m.one(&["x"], &[])),
            ("wipeFilesystem", Maker::flag),
            ("options", |m| m.list(2, |m| m.one(&["-x"], &[]))),
            ("mountOptions", |m| m.list(2, |m| m.one(&["ro"], &[]))),
        ],
    )
}

fn luks(m: &mut Maker) -> Value {
    m.object(
        2,
        &[
            ("name", |m| m.one(&["l", "k"], &["a/b"])),
            ("device", device),
            ("keyFile", resource),
            ("label", |m| m.one(&["x"], &["01234567890123456789012345678901234567890123456789"])),
            ("uuid", |m| m.one(&["x"], &[])),
            ("wipeVolume", Maker::flag),
            ("options", |m| m.list(2, |m| m.one(&["-x"], &[]))),
            ("clevis", clevis),
        ],
    )
}

fn clevis(m: &mut Maker) -> Value {
    m.object(
        0,
        &[
            ("tpm2", Maker::flag),
            ("threshold", Maker::number),
            ("tang", |m| m.list(2, |m| m.object(2, &[("url", url), ("thumbprint", |m| m.one(&["x"], &[""]))]))),
            ("custom", |m| {
                m.object(
                    2,
                    &[
                        ("pin", |m| m.one(&["tpm2", "tang", "sss"], &["", "x"])),
                        ("config", |m| m.one(&["{}"], &[""])),
                        ("needsNetwork", Maker::flag),
                    ],
                )
            }),
        ],
    )
}

fn contents(m: &mut Maker) -> Value {
    m.one(
        &[
            "",
            "[Unit]\nDescription=x\n",
            "[Install]\nWantedBy=multi-user.target\n",
            "[Service]\nExecStart=/a \\\n b\n[Install]\nA=b",
        ],
        &["[Foo", "[Foo] x\n", "[Foo]\nbar\n", "[Foo]\nbar", "no section", "[Unit]\n# a \\\nb=c\n"],
    )
}

fn unit(m: &mut Maker) -> Value {
    m.object(
        1,
        &[
            ("name", |m| {
                m.one(&["x.service", "y.timer", "t@.service", "t@a.service", "z.mount"], &["", "x", "x.conf"])
            }),
            ("contents", contents),
            ("enabled", Maker::flag),
            ("mask", Maker::flag),
            ("dropins", |m| {
                m.list(2, |m| {
                    m.object(1, &[("name", |m| m.one(&["a.conf", "b.conf"], &["", "a"])), ("contents", contents)])
                })
            }),
        ],
    )
}

fn user(m: &mut Maker) -> Value {
    m.object(
        1,
        &[
            ("name", |m| m.one(&["core", "root"], &[""])),
            ("passwordHash", |m| m.one(&["x"], &[])),
            ("sshAuthorizedKeys", |m| m.list(3, |m| m.one(&["ssh-a", "ssh-b", "ssh-c"], &[]))),
            ("groups", |m| m.list(2, |m| m.one(&["wheel", "sudo"], &[]))),
            ("uid", Maker::number),
            ("shouldExist", Maker::flag),
        ],
    )
}

fn group(m: &mut Maker) -> Value {
    m.object(1, &[("name", |m| m.one(&["g", "h"], &[])), ("gid", Maker::number), ("system", Maker::flag)])
}

fn storage(m: &mut Maker) -> Value {
    m.object(
        0,
        &[
            ("files", |m| m.list(3, file)),
            ("directories", |m| m.list(2, directory)),
            ("links", |m| m.list(2, link)),
            ("disks", |m| m.list(2, disk)),
            ("raid", |m| m.list(2, raid)),
            ("filesystems", |m| m.list(2, filesystem)),
            ("luks", |m| m.list(2, luks)),
        ],
    )
}

fn ignition(m: &mut Maker) -> Value {
    let mut section = m.object(
        0,
        &[
            ("config", |m| m.object(0, &[("merge", |m| m.list(2, resource)), ("replace", resource)])),
            ("timeouts", |m| m.object(0, &[("httpTotal", Maker::number), ("httpResponseHeaders", Maker::number)])),
            ("security", |m| {
                m.object(0, &[("tls", |m| m.object(0, &[("certificateAuthorities", |m| m.list(2, resource))]))])
            }),
            ("proxy", |m| {
                m.object(
                    0,
                    &[("httpProxy", url), ("httpsProxy", url), ("noProxy", |m| m.list(2, |m| m.one(&["a", "b"], &[])))],
                )
            }),
        ],
    );
    section["version"] = format!("3.{}.0", m.version).into();
    section
}

fn config(m: &mut Maker) -> Value {
    let mut config = m.object(
        0,
        &[
            ("storage", storage),
            ("systemd", |m| m.object(1, &[("units", |m| m.list(3, unit))])),
            ("passwd", |m| m.object(0, &[("users", |m| m.list(2, user)), ("groups", |m| m.list(2, group))])),
            ("kernelArguments", |m| {
                m.object(
                    0,
                    &[
                        ("shouldExist", |m| m.list(2, |m| m.one(&["a", "b"], &[]))),
                        ("shouldNotExist", |m| m.list(2, |m| m.one(&["b", "c"], &[]))),
                    ],
                )
            }),
        ],
    );
    config["ignition"] = ignition(m);
    config
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

/// What newer programs than Debian's say, and it does not.
const NEWER: [&str; 4] = [
    "path conflicts with systemd unit or dropin",
    "filesystem overwrites partitioned device",
    "device matches disk with wipeTable enabled; filesystem will be wiped",
    "doesn't have Install section",
];

/// Findings as lines, with what the real program's older words differ in made alike, and in no order.
fn lines(report: &str) -> Vec<String> {
    let told = report.lines().filter(|line| !NEWER.iter().any(|newer| line.ends_with(newer)));
    let alike = |line: &str| {
        let line = line.replace(": Unused key", ": unused key").replace(
            "are not supported in spec versions older than 3.4.0",
            "are not supported or functional in spec versions older than 3.6.0",
        );
        // What stands after a section's name may be secret, and is not told here.
        if let Some((place, _)) = line.split_once(": found garbage after section name") {
            return format!("{place}: garbage");
        }
        // What is wrong with base64 is told in a library's words.
        match line.split_once(": illegal base64 data").or(line.split_once(": the base64 of the data: URL")) {
            Some((place, _)) => format!("{place}: base64"),
            None => line,
        }
    };
    let mut lines: Vec<_> = told.map(alike).collect();
    lines.sort();
    lines
}

fn ours(text: &[u8]) -> (bool, String) {
    match parse(text) {
        Ok((_, _, report)) => (!report.is_fatal(), report.to_string()),
        Err(ParseError::Invalid(Report { entries })) => (
            false,
            entries.iter().map(|entry| format!("{}\n", entry.to_string().split(": ").next().unwrap())).collect(),
        ),
        Err(error) => (false, format!("couldn't parse config: {error}\n")),
    }
}

fn theirs(program: &Path, file: &Path) -> (bool, String) {
    let output = Command::new(program).arg(file).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Said when a null in the config makes its tree and that of the places differ; places are wrong from there on, and unused keys
/// are not told (a null object counts as one that is not there, or as one without a place).
const LOST_PLACES: &str = "context tree does not match content tree";

/// The findings in a form in which both are the same, where this program is known to differ.
fn same(ours: &str, theirs: &str) -> bool {
    if theirs.lines().count() == 1 && theirs.starts_with("error at line") {
        // Go's words can't be had; of a document that is no object at all, nor is the place.
        let place = theirs.split(": ").next().unwrap_or_default();
        return place == ours.trim_end() || place == "error at line 0 col 0" && ours.starts_with("error at line");
    }
    let (ours, theirs) = (lines(ours), lines(theirs));
    if !theirs.iter().any(|line| line.contains(LOST_PLACES)) {
        return ours == theirs;
    }
    let without_places = |lines: &[String]| -> Vec<String> {
        let kept = lines.iter().filter(|line| !line.contains(LOST_PLACES) && !line.contains(": unused key"));
        kept.map(|line| {
            line.split(", line").next().unwrap_or_default().to_owned()
                + line.split(" col ").nth(1).and_then(|rest| rest.split_once(": ")).map_or("", |(_, message)| message)
        })
        .collect()
    };
    without_places(&ours) == without_places(&theirs)
}

/// Ours, without what only newer programs refuse.
fn verdict((valid, report): &(bool, String)) -> bool {
    *valid || report.starts_with("error at $") && !lines(report).iter().any(|line| line.starts_with("error"))
}

#[test]
fn configs_are_judged_as_ignition_judges_them() {
    let Some(program) = validator() else { return };
    let count = std::env::var("LANDFALL_CONFIGS").map_or(CONFIGS, |count| count.parse().unwrap());
    let differences = thread::scope(|scope| {
        let judge = |part: u64| {
            let program = &program;
            move || {
                let dir = tempfile::tempdir().unwrap();
                let mut found = Vec::new();
                for seed in (part..count).step_by(2) {
                    let mut rng = Rng::with_seed(seed);
                    let (version, faults) = (rng.u8(0..4), [0, 5, 30][rng.usize(0..3)]);
                    let mut maker = Maker { rng: rng.fork(), version, faults };
                    let mut config = config(&mut maker);
                    if rng.u8(0..4) == 0 {
                        mutate(&mut rng, &mut config);
                    }
                    let text = if rng.bool() { config.to_string() } else { format!("{config:#}") };
                    let file = dir.path().join("config.ign");
                    fs::write(&file, &text).unwrap();
                    let (ours, theirs) = (ours(text.as_bytes()), theirs(program, &file));
                    if verdict(&ours) != theirs.0 || !same(&ours.1, &theirs.1) {
                        let (ours, theirs) = (lines(&ours.1), lines(&theirs.1));
                        let only = |who: &str, some: &[String], others: &[String]| -> String {
                            some.iter()
                                .filter(|line| !others.contains(line))
                                .map(|line| format!("{who} {line}\n"))
                                .collect()
                        };
                        found.push(format!(
                            "seed {seed}: {config}\n{}{}",
                            only("ours", &ours, &theirs),
                            only("theirs", &theirs, &ours)
                        ));
                    }
                }
                found
            }
        };
        let threads = [0, 1].map(|part| scope.spawn(judge(part)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for difference in &differences {
        let message = |line: &str| line.split(": ").last().unwrap_or_default().to_owned();
        for line in difference.lines().skip(1) {
            *kinds.entry(line.split(' ').next().unwrap_or_default().to_owned() + " " + &message(line)).or_default() +=
                1;
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {count} differ: {kinds:#?}\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
    println!("{count} configs, each judged alike");
}
