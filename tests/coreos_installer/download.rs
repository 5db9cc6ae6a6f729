//! `download` and `list-stream`, from a server on the loopback that has a stream of its own.

use super::cases::{Case, Part, but, same};
use super::{Outcome, differences, peer, run};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    path::Path,
};
use testkit::http::{Server, ok, reply};

const LOOKS: &str = "our help teaches more";
const LIBRARY: &str = "what HTTP libraries say of a connection that fails";
const WHERE: &str = "we say where, too";
const SECRET: &str = "what may be secret in a URL is not shown";
const STREAMS: &str = "--stream-base-url URL/streams/";

/// `URL` is the server's, `STREAMS` the option that names its streams.
const ROWS: &[Case] = &[
    same("list-stream STREAMS"),
    same("list-stream -s empty STREAMS"),
    same("list-stream -s broken STREAMS"),
    same("list-stream -s other STREAMS"),
    same("list-stream -s absent STREAMS"),
    same("list-stream -s failing STREAMS"),
    same("list-stream --stream-base-url nonsense"),
    same("list-stream x"),
    but(&[Part::Stderr], LIBRARY, "list-stream --stream-base-url http://127.0.0.1:9/"),
    but(
        &[Part::Code, Part::Stdout, Part::Stderr],
        "a base URL without a slash at its end is one too",
        "list-stream --stream-base-url URL/streams",
    ),
    but(&[Part::Stdout], LOOKS, "list-stream --help"),
    but(&[Part::Stdout], LOOKS, "download --help"),
    // Of a stream.
    same("download STREAMS --insecure"),
    same("download STREAMS"),
    same("download STREAMS -a aarch64 --insecure"),
    same("download STREAMS -f raw.gz --insecure -d"),
    same("download STREAMS -f raw.gz --insecure; download STREAMS -f raw.gz --insecure"),
    same("download STREAMS -f pxe --insecure"),
    same("download STREAMS -f pxe -d --insecure"),
    same("download STREAMS -f missing --insecure"),
    same("download STREAMS -f nothing --insecure"),
    same("download STREAMS -f other --insecure"),
    same("download STREAMS -a m68k --insecure"),
    same("download STREAMS -p gcp --insecure"),
    same("download STREAMS -s absent"),
    same("download STREAMS -s broken"),
    but(
        &[Part::Code, Part::Stdout, Part::Stderr, Part::Files],
        "bytes that the stream's metadata has another sum for are refused",
        "download STREAMS -f wrong-sum --insecure",
    ),
    but(
        &[Part::Code, Part::Stdout, Part::Stderr, Part::Files],
        "metadata may leave out the signature",
        "download STREAMS -s unsigned --insecure",
    ),
    // By URL.
    same("download -u URL/disk.raw --insecure"),
    same("download -u URL/disk.raw --insecure -d"),
    same("download -u URL/disk.raw.xz --insecure"),
    same("download -u URL/disk.raw.xz --insecure -d"),
    same("download -u URL/disk.raw.gz --insecure --decompress"),
    same("download -u URL/disk.tar.gz --insecure -d"),
    same("download -u URL/disk.TAR.gz --insecure -d"),
    // Names tell, not contents.
    same("download -u URL/odd.img --insecure -d"),
    same("download -u URL/odd.raw.zst --insecure -d"),
    same("download -u URL/odd.raw.gz --insecure -d"),
    same("download -u URL/trail.raw.gz --insecure"),
    same("download -u URL/disk.raw --stream next --architecture x --platform y --format z --insecure"),
    same("download -u URL/disk.raw"),
    same("download -u URL/absent --insecure"),
    same("download -u URL/failing --insecure"),
    same("download -u URL/disk.raw --insecure -C absent"),
    same("download -u URL/disk.raw --insecure -C ."),
    same("download -u URL/disk.raw --insecure -C /dev/null"),
    but(&[Part::Stderr], "we look at the image first", "download -u URL/ --insecure"),
    same("download -u nonsense"),
    same("download -f"),
    same("download x"),
    same("download --fetch-retries infinite -u URL/disk.raw --insecure"),
    but(&[Part::Stderr], WHERE, "download -u URL/small.raw --insecure"),
    but(&[Part::Stderr], WHERE, "download -u URL/small.raw.gz --insecure -d"),
    but(&[Part::Stderr], WHERE, "download -u URL/trail.raw.gz --insecure -d"),
    but(&[Part::Stderr], WHERE, "download -u URL/cut.raw.xz --insecure -d"),
    but(&[Part::Stderr], WHERE, "download -u URL/bad.raw.xz --insecure -d"),
    but(&[Part::Stderr], "theirs has lost its gpg by then", "download -u URL/signed.raw.gz"),
    but(&[Part::Stderr], "theirs has lost its gpg by then", "download -u URL/signed.raw.gz --insecure"),
    but(&[Part::Stderr], SECRET, "download -u URL/disk.raw.xz?key=secret --insecure"),
    but(&[Part::Stderr], LIBRARY, "download -u http://127.0.0.1:9/x --insecure"),
    but(&[Part::Stderr], LIBRARY, "download -u ftp://127.0.0.1/x --insecure"),
];

/// Bytes that don't get smaller.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    liblzma::read::XzEncoder::new(bytes, 1).read_to_end(&mut packed).unwrap();
    packed
}

type Files = BTreeMap<String, Vec<u8>>;

fn line(server: &Server, lines: &str) -> &'static str {
    Box::leak(lines.replace("STREAMS", STREAMS).replace("URL", &server.url("")).into_boxed_str())
}

fn serve(files: Files) -> Server {
    Server::start(move |request| match (request.path(), files.get(request.path())) {
        (path, _) if path.starts_with("/failing") || path.ends_with("/failing.json") => {
            reply("500 Internal Server Error", "", "")
        }
        (path, Some(stream)) if path.starts_with("/streams/") => {
            let here = format!("http://{}", request.header("host").unwrap());
            ok(String::from_utf8_lossy(stream).replace("URL", &here))
        }
        (_, Some(bytes)) => ok(bytes),
        (_, None) => reply("404 Not Found", "", "no such page"),
    })
}

fn files() -> Files {
    let raw = [noise(2 << 20), vec![0; 1 << 20]].concat();
    let (gz, xz) = (gzip(&raw), xz(&raw));
    let mut bad = xz.clone();
    bad[1_500_000..1_502_000].fill(b'q');
    let mut files: Files = [
        ("/disk.raw", raw.clone()),
        ("/kernel", raw.clone()),
        ("/disk.raw.gz", gz.clone()),
        ("/disk.tar.gz", gz.clone()),
        ("/disk.TAR.gz", gz.clone()),
        ("/odd.img", gz.clone()),
        ("/odd.raw.zst", gz.clone()),
        ("/odd.raw.gz", raw.clone()),
        ("/trail.raw.gz", [&gz[..], b"more"].concat()),
        ("/signed.raw.gz", gz),
        ("/signed.raw.gz.sig", b"nonsense".to_vec()),
        ("/cut.raw.xz", xz[..xz.len() - 40].to_vec()),
        ("/bad.raw.xz", bad),
        ("/disk.raw.xz", xz),
        ("/small.raw", vec![1; 1000]),
        ("/small.raw.gz", gzip(&[1; 1000])),
        ("/", b"an index".to_vec()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into();
    let artifact = |name: &str| {
        let sum: String =
            Sha256::digest(files.get(name).map_or(&[][..], |bytes| bytes)).iter().map(|b| format!("{b:02x}")).collect();
        json!({"location": format!("URL{name}"), "signature": format!("URL{name}.sig"), "sha256": sum, "uncompressed-sha256": sum})
    };
    let disk = |name| json!({"disk": artifact(name)});
    let mut wrong = disk("/disk.raw.xz");
    wrong["disk"]["sha256"] = "00".repeat(32).into();
    let mut unsigned = disk("/disk.raw.xz");
    unsigned["disk"].as_object_mut().unwrap().remove("signature");
    let pxe = json!({"kernel": artifact("/kernel"), "initramfs": artifact("/disk.raw.gz"), "rootfs": artifact("/disk.raw.xz")});
    let formats = json!({"raw.xz": disk("/disk.raw.xz"), "raw.gz": disk("/disk.raw.gz"), "4k.raw.xz": disk("/disk.raw.xz"),
        "pxe": pxe, "missing": disk("/absent"), "nothing": {}, "wrong-sum": wrong});
    let metal = |formats: Value| json!({"metal": {"release": "44.1", "formats": formats}});
    let mut x86 = metal(formats);
    x86["a-platform-with-a-name"] = json!({"release": "44.1", "formats": {"qcow2.xz": disk("/disk.raw.xz")}});
    let stable = json!({"stream": "stable", "metadata": {"last-modified": "2026-01-01T00:00:00Z"}, "architectures": {
        "x86_64": {"artifacts": x86, "images": {"aws": {"regions": {}}}},
        "aarch64": {"artifacts": metal(json!({"raw.xz": disk("/disk.raw.xz")}))},
        "s390x": {"artifacts": {}}}});
    let unsigned = json!({"architectures": {"x86_64": {"artifacts": metal(json!({"raw.xz": unsigned}))}}});
    for (name, text) in [
        ("stable", stable.to_string()),
        ("unsigned", unsigned.to_string()),
        ("empty", json!({"architectures": {}}).to_string()),
        ("broken", "{\"a\":".to_owned()),
        ("other", json!({"stream": "x"}).to_string()),
    ] {
        files.insert(format!("/streams/{name}.json"), text.into_bytes());
    }
    files
}

/// How often progress is told is a matter of time: that the end is reached is what counts.
fn without_times(mut outcome: Outcome) -> Outcome {
    let ends = outcome.codes.iter().all(|code| *code == Some(0));
    let mut lines: Vec<&str> = outcome.stderr.lines().collect();
    lines.retain(|line| !line.starts_with("Read ") || (ends && line.ends_with("(100%)")));
    lines.dedup();
    outcome.stderr = lines.iter().map(|line| format!("{line}\n")).collect();
    outcome
}

#[test]
fn downloads_say_and_leave_what_the_released_program_does() {
    let Some(peer) = peer() else { return };
    let server = serve(files());
    let ours = tempfile::tempdir().unwrap();
    let program = ours.path().join("coreos-installer");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_landfall"), &program).unwrap();
    let only = std::env::var("LANDFALL_CASE").unwrap_or_default();
    let mut failed = Vec::new();
    let rows: Vec<&Case> = ROWS.iter().filter(|case| case.lines.contains(&only)).collect();
    for row in &rows {
        let case = Case { lines: line(&server, row.lines), differs: row.differs };
        let [ours, theirs] = [&program, &peer].map(|program| without_times(run(program, &case, Path::new("/absent"))));
        let found = differences(&case, &ours, &theirs);
        if !found.is_empty() {
            failed.push(format!("{}\n  {}", row.lines, found.join("\n  ")));
        }
        // A reason that is none any more must go.
        if row.differs.is_some() && differences(&Case { differs: None, ..case }, &ours, &theirs).is_empty() {
            failed.push(format!("{}: differs no more", row.lines));
        }
    }
    let differing = rows.iter().filter(|case| case.differs.is_some()).count();
    println!("{} rows of downloads compared, of which {differing} differ for a reason", rows.len());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), rows.len(), failed.join("\n\n"));
}

/// With a key of our own: what the released program does with one of its own.
#[test]
fn a_signed_image_is_kept_with_its_signature_and_not_fetched_twice() {
    let home = tempfile::Builder::new().prefix("gpg-").tempdir_in("/tmp").unwrap();
    let gpg = |args: &[&str]| {
        let mut gpg = std::process::Command::new("gpg");
        gpg.arg("--homedir").arg(home.path()).args([
            "--batch",
            "--yes",
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
        ]);
        let output = gpg.args(args).stdin(std::process::Stdio::null()).output();
        output.ok().filter(|output| output.status.success()).map(|output| output.stdout)
    };
    if gpg(&["--quick-gen-key", "signer", "rsa2048", "sign", "never"]).is_none() {
        return testkit::skip::because("there is no gpg");
    }
    let keyring = home.path().join("keys");
    fs::write(&keyring, gpg(&["--export", "signer"]).unwrap()).unwrap();
    let image = home.path().join("image");
    let mut files = files();
    fs::write(&image, &files["/signed.raw.gz"]).unwrap();
    gpg(&["--detach-sign", image.to_str().unwrap()]).unwrap();
    let signature = fs::read(home.path().join("image.sig")).unwrap();
    files.insert("/signed.raw.gz.sig".to_owned(), signature.clone());
    let mut changed = files["/signed.raw.gz"].clone();
    changed[1_000_000] ^= 1;
    files.insert("/changed.raw.gz".to_owned(), changed);
    files.insert("/changed.raw.gz.sig".to_owned(), signature.clone());
    let server = serve(files.clone());
    let program = Path::new(env!("CARGO_BIN_EXE_landfall"));
    let go = |lines: &str| {
        let lines = lines.replace("KEYS", keyring.to_str().unwrap());
        without_times(run(program, &Case { lines: line(&server, &lines), differs: None }, Path::new("/absent")))
    };
    let kept = go("download --keyring KEYS -u URL/signed.raw.gz; download --keyring KEYS -u URL/signed.raw.gz");
    assert_eq!(kept.codes, [Some(0), Some(0)], "{}", kept.stderr);
    assert_eq!(kept.stdout, b"./signed.raw.gz\n./signed.raw.gz\n");
    assert_eq!(kept.stderr.matches("Read disk").count(), 1, "the second finds it: {}", kept.stderr);
    assert!(kept.files[Path::new("signed.raw.gz")].1 == files["/signed.raw.gz"]);
    assert_eq!(kept.files[Path::new("signed.raw.gz.sig")].1, signature);
    let unpacked = go("download --keyring KEYS -d -u URL/signed.raw.gz");
    assert_eq!(unpacked.files.keys().map(|path| path.to_str().unwrap()).collect::<Vec<_>>(), ["signed.raw"]);
    assert!(unpacked.files[Path::new("signed.raw")].1 == files["/disk.raw"]);
    for insecure in ["", "--insecure"] {
        let changed = go(&format!("download {insecure} --keyring KEYS -u URL/changed.raw.gz"));
        assert_eq!((&changed.codes[..], changed.files.len()), (&[Some(1)][..], 0), "{}", changed.stderr);
        assert!(changed.stderr.contains("GPG verification failure: BAD signature"), "{}", changed.stderr);
    }
    let stranger = go("download -u URL/signed.raw.gz");
    assert!(stranger.codes == [Some(1)] && stranger.stderr.contains("which is not trusted"), "{}", stranger.stderr);
}
