use super::*;
use serde_norway::Value;

const MAX: usize = 1 << 20;

fn refusal(text: &str) -> String {
    check(text.as_bytes(), MAX).expect_err(&text.chars().take(40).collect::<String>()).to_string()
}

#[test]
fn what_would_take_for_ever_is_refused_before_it_is_read() {
    // Brackets that comments and strings seem to close are open all the same.
    for nested in ["{a: ", "[", "{? ", "- ", "? ", "[[], ", "{a: #}\n", "{\"}\": ", "{'}}}': ", "[ # ]]]\n"] {
        assert!(
            refusal(&nested.repeat(150_000_usize.min(MAX / nested.len()))).contains("nested too deeply"),
            "{nested}"
        );
    }
    let directives: String = (0..50_000).map(|n| format!("%TAG !t{n}! x\n")).collect();
    assert!(refusal(&directives).contains("%TAG"));
    let laughs: String = "a0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned()
        + &(1..9)
            .map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 8].join(", ")))
            .collect::<String>();
    assert!(refusal(&laughs).contains("too many values"));
    let long = format!("- &a {}\n{}", "x".repeat(MAX / 2), "- *a\n".repeat(50));
    assert!(refusal(&long).contains("repeat too much text"));
    assert!(refusal("- &a [*a, *a]\n").contains("contains itself"));
    assert!(refusal(&format!("[{}]", "a,".repeat(MAX / 2 - 10))).contains("too many values"));
    assert!(refusal(&" ".repeat(MAX + 1)).contains("bytes"));
    assert!(matches!(check(b"\xff\xfea\0", MAX), Err(YamlError::Encoding)));
}

#[test]
fn documents_are_read_and_faults_have_their_place() {
    let text = "a: &x [1, 2]\nb: *x\n---\nc: |\n  [[[[{{{{\n---\nd: \"}}}\" # ]]]\n";
    let read: Vec<Value> = documents(text.as_bytes(), MAX).unwrap();
    assert_eq!((read.len(), read[0]["b"][1].as_i64()), (3, Some(2)));
    let fault = documents::<Value>(b"a: 1\nb: [", MAX).unwrap_err();
    assert!(fault.line().is_some() && fault.to_string().contains("at line"), "{fault}");
    let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    check(deep.as_bytes(), MAX).unwrap();
}

/// Texts with more brackets in strings than may be open: dashboards, regular expressions, CRDs.
#[test]
fn real_manifests_pass() {
    let dashboard = format!("kind: ConfigMap\ndata:\n  a.json: |\n{}", "    {\"x\": [[[{{{\n".repeat(20_000));
    check(dashboard.as_bytes(), MAX).unwrap();
    let Some(data) = testkit::recordings::path("data/crd") else { return };
    let mut count = 0;
    let mut folders = vec![std::fs::read_dir(data).unwrap()];
    while let Some(entries) = folders.pop() {
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(std::fs::read_dir(&path).unwrap());
            } else if path.extension().is_some_and(|end| end == "yaml") {
                let text = std::fs::read(&path).unwrap();
                documents::<Value>(&text, MAX).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                count += 1;
            }
        }
    }
    assert!(count >= 10, "{count} manifests");
}
