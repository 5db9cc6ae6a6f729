//! Configs made at random, most of them wrong somewhere, as ignition-validate judges them and as we do: the same verdict, and
//! the same findings at the same places.
//!
//! `LANDFALL_CONFIGS=10000` makes so many.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use ignition::{ParseError, parse};
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
    testkit::skip::because(why);
    None
}

/// The stable version that a program of today knows; one that doesn't is held to fewer rules.
const NEWEST_STABLE: &str = "3.6.0";
const VERSIONS: [&str; 8] = ["3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0", "3.6.0", "3.7.0-experimental"];

/// What the real program is, which is asked once.
struct Judge {
    program: PathBuf,
    /// Whether it is older than our rules.
    is_old: bool,
    /// How many of the versions it knows.
    versions: usize,
    /// Whether its errors name a value by its path, as those of Go since 1.27.
    has_paths: bool,
}

impl Judge {
    fn find() -> Option<Self> {
        let program = validator()?;
        let file = tempfile::NamedTempFile::new().unwrap();
        let knows = |version: &str| {
            fs::write(file.path(), json!({"ignition": {"version": version}}).to_string()).unwrap();
            theirs(&program, file.path()).0
        };
        let versions = VERSIONS.iter().take_while(|version| knows(version)).count();
        let is_old = !knows(NEWEST_STABLE);
        fs::write(file.path(), r#"{"ignition":{"version":"3.0.0"},"storage":{"files":[5]}}"#).unwrap();
        let has_paths = theirs(&program, file.path()).1.contains("Config.storage.files.0 ");
        Some(Self { program, is_old, versions, has_paths })
    }
}

/// Makes configs; `faults` of a hundred values are such as no config should have.
struct Maker {
    rng: Rng,
    version: &'static str,
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
            "DATA:,x",
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
            ("format", |m| m.one(&["ext4", "xfs", "btrfs", "vfat", "swap", "virtiofs"], &["", "ntfs", "none"])),
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
    section["version"] = spelled(m).into();
    section
}

/// The version, now and then as nobody writes it.
fn spelled(m: &mut Maker) -> String {
    let version = m.version;
    match m.rng.usize(0..60) {
        0 => format!("0{version}"),
        1 => version.replacen(".", ".0", 1),
        2 => format!("{version}+"),
        3 => format!("{version}-"),
        4 => format!("{version}-a_b"),
        5 => format!("{version}.0"),
        _ => version.to_owned(),
    }
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
    // What is wrong before the data of a URL is told in a library's words.
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

/// What a program of today says and Debian's does not, or the other way round.
const CHANGED: [&str; 5] = [
    "path conflicts with systemd unit or dropin",
    "filesystem overwrites partitioned device",
    "device matches disk with wipeTable enabled; filesystem will be wiped",
    "doesn't have Install section",
    "shouldExist is false for a partition and other partition(s) has start or size 0",
];

/// A verdict, and the findings as the program prints them.
type Verdict = (bool, String);

impl Judge {
    /// Findings as lines, with what the programs' words differ in made alike, and in no order.
    fn lines(&self, report: &str) -> Vec<String> {
        let told = report
            .lines()
            .map(str::trim_end)
            .filter(|line| !self.is_old || !CHANGED.iter().any(|changed| line.ends_with(changed)));
        let mut lines: Vec<_> = told.map(|line| self.alike(line)).collect();
        lines.sort();
        lines
    }

    fn alike(&self, line: &str) -> String {
        let line = line.trim_end_matches('.').replace(": Unused key", ": unused key").replace(
            "are not supported in spec versions older than 3.4.0",
            "are not supported or functional in spec versions older than 3.6.0",
        );
        // What stands after a section's name may be secret, and is not told here.
        if let Some((place, _)) = line.split_once(": found garbage after section name") {
            return format!("{place}: garbage");
        }
        // The words of Go's reader change with its versions.
        let is_known = self.has_paths && line.contains("cannot unmarshal");
        if line.starts_with("error at line") && !is_known {
            return line.split(": ").next().unwrap_or_default().to_owned();
        }
        // What is wrong with base64 is told in a library's words.
        match line.split_once(": illegal base64 data").or(line.split_once(": the base64 of the data: URL")) {
            Some((place, _)) => format!("{place}: base64"),
            None => line,
        }
    }

    /// Whether it takes a config, without what only the other one refuses.
    fn takes(&self, (valid, report): &Verdict) -> bool {
        *valid || report.starts_with("error at $") && !self.lines(report).iter().any(|line| line.starts_with("error"))
    }

    fn is_same(&self, ours: &Verdict, theirs: &Verdict) -> bool {
        self.takes(ours) == self.takes(theirs) && self.lines(&ours.1) == self.lines(&theirs.1)
    }
}

fn ours(text: &[u8]) -> Verdict {
    match parse(text) {
        Ok((_, _, report)) => (!report.is_fatal(), report.to_string()),
        Err(ParseError::Invalid(report)) => (false, report.to_string()),
        Err(error) => (false, format!("couldn't parse config: {error}\n")),
    }
}

fn theirs(program: &Path, file: &Path) -> Verdict {
    let output = Command::new(program).arg(file).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// The text of a config from this seed.
fn text_of(seed: u64, versions: usize) -> String {
    let mut rng = Rng::with_seed(seed);
    let (version, faults) = (VERSIONS[rng.usize(0..versions)], [0, 5, 30][rng.usize(0..3)]);
    let mut maker = Maker { rng: rng.fork(), version, faults };
    let mut config = config(&mut maker);
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

#[test]
fn configs_are_judged_as_ignition_judges_them() {
    let Some(judge) = &Judge::find() else { return };
    let count = std::env::var("LANDFALL_CONFIGS").map_or(CONFIGS, |count| count.parse().unwrap());
    let differences = thread::scope(|scope| {
        let work = |part: u64| {
            move || {
                let dir = tempfile::tempdir().unwrap();
                let file = dir.path().join("config.ign");
                let mut found = Vec::new();
                for seed in (part..count).step_by(2) {
                    let text = text_of(seed, judge.versions);
                    fs::write(&file, &text).unwrap();
                    let (ours, theirs) = (ours(text.as_bytes()), theirs(&judge.program, &file));
                    if !judge.is_same(&ours, &theirs) {
                        let (ours, theirs) = (judge.lines(&ours.1), judge.lines(&theirs.1));
                        let only = |who: &str, some: &[String], others: &[String]| -> String {
                            let own = some.iter().filter(|line| !others.contains(line));
                            own.map(|line| format!("{who} {line}\n")).collect()
                        };
                        let (ours, theirs) = (only("ours", &ours, &theirs), only("theirs", &theirs, &ours));
                        found.push(format!("seed {seed}: {}\n{ours}{theirs}", text.replace('\n', " ")));
                    }
                }
                found
            }
        };
        let threads = [0, 1].map(|part| scope.spawn(work(part)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for difference in &differences {
        let message = |line: &str| line.split(": ").last().unwrap_or_default().to_owned();
        for line in difference.lines().skip(1) {
            let kind = line.split(' ').next().unwrap_or_default().to_owned() + " " + &message(line);
            *kinds.entry(kind).or_default() += 1;
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
