//! The dialect of patches, operation by operation.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn patched(manifest: &str, patch: &str) -> Result<Value, String> {
    match apply(manifest.as_bytes(), patch.as_bytes()) {
        Ok(text) => Ok(tree::documents(&text).unwrap().remove(0)),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn operations_apply() {
    let list = "a: [1, 2, 3]";
    for (manifest, patch, expected) in [
        ("a: 1", "", json!({"a": 1})),
        ("a: 1", "# nothing", json!({"a": 1})),
        ("a: 1", "[]", json!({"a": 1})),
        ("a: 1", "[{op: add, path: /b, value: {c: 0644}}]", json!({"a": 1, "b": {"c": 420}})),
        ("a: 1", "[{op: add, path: /a, value: 2}]", json!({"a": 2})),
        ("a: 1", "[{op: add, path: /b}]", json!({"a": 1, "b": null})),
        ("a: 1", "[{op: add, path: /, value: x}]", json!({"a": 1, "": "x"})),
        ("{}", "[{op: add, path: /a~1b~0c~01, value: 1}]", json!({"a/b~c~1": 1})),
        (list, "[{op: add, path: /a/0, value: 0}]", json!({"a": [0, 1, 2, 3]})),
        (list, "[{op: add, path: /a/3, value: 4}]", json!({"a": [1, 2, 3, 4]})),
        (list, "[{op: add, path: /a/-, value: 4}]", json!({"a": [1, 2, 3, 4]})),
        ("[[1]]", "[{op: add, path: /0/-, value: 2}]", json!([[1, 2]])),
        (list, "[{op: remove, path: /a/1}]", json!({"a": [1, 3]})),
        (list, "[{op: remove, path: /a}]", json!({})),
        (list, "[{op: replace, path: /a/1, value: x}]", json!({"a": [1, "x", 3]})),
        ("a: null", "[{op: replace, path: /a, value: x}]", json!({"a": "x"})),
        ("a: {b: 1}", "[{op: move, from: /a/b, path: /c}]", json!({"a": {}, "c": 1})),
        // Set, not inserted.
        (list, "[{op: move, from: /a/0, path: /a/1}]", json!({"a": [2, 1]})),
        (list, "[{op: copy, from: /a/0, path: /a/1}]", json!({"a": [1, 1, 3]})),
        (list, "[{op: copy, from: /a/0, path: /a/4}]", json!({"a": [1, 2, 3, null, 1]})),
        ("a: 1", "[{op: copy, from: /b, path: /c}]", json!({"a": 1, "c": null})),
        ("a: {b: 1}", "[{op: copy, from: /a, path: /a/b}]", json!({"a": {"b": {"b": 1}}})),
        (list, "[{op: test, path: /a/0, value: 1}]", json!({"a": [1, 2, 3]})),
        (list, "[{op: test, path: /b}]", json!({"a": [1, 2, 3]})),
        (list, "[{op: test, path: /a, value: [1, 2, 3]}, {op: remove, path: /a/0}]", json!({"a": [2, 3]})),
        // In their order, and the rest of an operation is not looked at.
        (
            "a: 1",
            "- {op: add, path: /b, value: 1, why: x}\n- {op: replace, path: /b, value: 2}",
            json!({"a": 1, "b": 2}),
        ),
        ("a: 1\n---\nb: 1", "[{op: remove, path: /a}]", json!({})),
    ] {
        assert_eq!(patched(manifest, patch), Ok(expected), "{manifest} | {patch}");
    }
    let rest = apply(b"a: 1\n---\nb: 1", b"[{op: remove, path: /a}]").unwrap();
    assert_eq!(tree::documents(&rest).unwrap(), [json!({}), json!({"b": 1})]);
}

#[test]
fn parts_with_values_match() {
    let pods =
        "spec: {all: [{name: a, image: x, env: [{name: b}]}, {name: b, image: w}, {name: a, image: z, port: 80}]}";
    let image = |patch: &str| patched(pods, patch).map(|found| found["spec"]["all"].clone());
    for (patch, expected) in [
        (
            "[{op: replace, path: /spec/all/name=a/image, value: new}]",
            r#"[{"env":[{"name":"b"}],"image":"new","name":"a"},{"image":"w","name":"b"},{"image":"new","name":"a","port":80}]"#,
        ),
        // Removed from the end, so that no index moves.
        ("[{op: remove, path: /spec/all/name=a}]", r#"[{"image":"w","name":"b"}]"#),
        (
            "[{op: add, path: /spec/all/image=z/new, value: 1}]",
            r#"[{"env":[{"name":"b"}],"image":"x","name":"a"},{"image":"w","name":"b"},{"image":"z","name":"a","new":1,"port":80}]"#,
        ),
        (
            "[{op: add, path: /image=x/env/-, value: 1}]",
            r#"[{"env":[{"name":"b"},1],"image":"x","name":"a"},{"image":"w","name":"b"},{"image":"z","name":"a","port":80}]"#,
        ),
        // Also further down.
        (
            "[{op: add, path: /name=b/new, value: 1}]",
            r#"[{"env":[{"name":"b","new":1}],"image":"x","name":"a"},{"image":"w","name":"b","new":1},{"image":"z","name":"a","port":80}]"#,
        ),
    ] {
        assert_eq!(image(patch), Ok(serde_json::from_str(expected).unwrap()), "{patch}");
    }
    for path in ["/spec/all/name=c/image", "/spec/all/port=80/image", "/spec/name=a=b"] {
        let refused = image(&format!("[{{op: remove, path: {path}}}]"));
        assert!(refused.as_ref().is_err_and(|text| text.contains(path) || text.contains("name=a=b")), "{refused:?}");
    }
    let labels = patched(
        "m: [{n: x, l: {a/b: 1, 'c~d': 2}}]",
        "[{op: remove, path: /m/n=x/l/a~1b}, {op: remove, path: /m/n=x/l/c~0d}]",
    );
    assert_eq!(labels, Ok(json!({"m": [{"n": "x", "l": {}}]})));
}

#[test]
fn what_does_not_apply_is_refused() {
    let manifest = "a: {b: [1, 2]}\nc: 1";
    for (patch, expected) in [
        ("op: add", "the patch is not a list of operations"),
        ("[1]", "operation 1 of the patch is not a mapping with the texts op and path"),
        (
            "[{op: remove, path: /c}, {op: remove, path: 1}]",
            "operation 2 of the patch is not a mapping with the texts op and path",
        ),
        ("[{op: merge, path: /a}]", "Unexpected op: merge"),
        ("[{path: /a}]", "Unexpected op: "),
        ("[{op: add, path: a, value: 1}]", "yamlpatch add operation does not apply: doc is missing path: a"),
        ("[{op: add, value: 1}]", "yamlpatch add operation does not apply: doc is missing path: "),
        ("[{op: add, path: /x/y, value: 1}]", "yamlpatch add operation does not apply: doc is missing path: /x/y"),
        ("[{op: add, path: /c/y, value: 1}]", "yamlpatch add operation does not apply: doc is missing path: /c/y"),
        ("[{op: add, path: /a/b/3, value: 1}]", "Unable to access invalid index: 3"),
        ("[{op: add, path: /a/b/-1, value: 1}]", "Unable to access invalid index: -1"),
        ("[{op: add, path: /a/b/x, value: 1}]", "Unable to access invalid index: x"),
        ("[{op: remove, path: /x}]", "Unable to remove nonexistent key: x"),
        ("[{op: remove, path: /a/b/2}]", "Unable to remove invalid index: 2"),
        ("[{op: remove, path: /a/b/-}]", "Unable to access invalid index: -"),
        ("[{op: replace, path: /x, value: 1}]", "yamlpatch replace operation does not apply: doc is missing key: /x"),
        (
            "[{op: replace, path: /a/b/9, value: 1}]",
            "yamlpatch replace operation does not apply: doc is missing key: /a/b/9",
        ),
        ("[{op: move, from: /x, path: /y}]", "Unable to remove nonexistent key: x"),
        (
            "[{op: move, from: /x/y, path: /y}]",
            "yamlpatch move operation does not apply: doc is missing from path: /x/y",
        ),
        (
            "[{op: move, from: /a, path: /a/b}]",
            "yamlpatch move operation does not apply: doc is missing destination path: /a/b",
        ),
        ("[{op: copy, path: /y}]", "copy operation does not apply: doc is missing from path: "),
        ("[{op: copy, from: /c, path: /a/b/1002}]", "Unable to access invalid index: 1002"),
        ("[{op: test, path: /c, value: 2}]", "test failed"),
        ("[{op: test, path: /c, value: '1'}]", "test failed"),
        ("[{op: add, path: /a/n=b/x, value: 2}]", "could not expand pointer: /a/n=b/x"),
        ("[a: {", "the patch is not YAML"),
    ] {
        assert_eq!(patched(manifest, patch), Err(expected.to_owned()), "{patch}");
    }
    for manifest in ["", "text", "1", "---\n---\na: 1"] {
        assert_eq!(patched(manifest, "[]"), Err("the manifest is not a mapping or a list".to_owned()), "{manifest}");
    }
    assert_eq!(patched("a: [", "[]"), Err("the manifest is not YAML".to_owned()));
}

#[test]
fn patches_stay_within_bounds() {
    let copies: String = (0..64).map(|step| format!("- {{op: copy, from: /a, path: /a/k{step}}}\n")).collect();
    assert_eq!(patched("a: {b: text}", &copies), Err(PatchError::TooLarge.to_string()));
    let mut path = String::new();
    let deeper: String = (0..200)
        .map(|_| {
            path.push_str("/a");
            format!("- {{op: add, path: {path}, value: {{}}}}\n")
        })
        .collect();
    assert_eq!(patched("{}", &deeper), Err(PatchError::TooLarge.to_string()));
    let many = "- {op: test, path: /b}\n".repeat(MAX_OPERATIONS + 1);
    assert_eq!(patched("{}", &many), Err(PatchError::TooMany { max: MAX_OPERATIONS }.to_string()));
}

proptest! {
    #[test]
    fn no_patch_makes_it_panic(
        manifest in "[a-c:\\[\\]{}, 0-9\n-]{0,40}",
        verb in "add|remove|replace|move|copy|test|x",
        path in "(/([a-c]|[0-9]|-|a=b|~0|~1|~|=|a=){0,3}){0,4}",
        from in "(/([a-c]|[0-9]|-){0,2}){0,3}",
        value in "[a-c:\\[\\]{} 0-9]{0,10}",
    ) {
        let patch = format!("[{{op: {verb}, path: '{path}', from: '{from}', value: {value}}}]");
        let nested = "a: {a: [b, {a: b, c: [1]}], b: {c: b}}\nb: [[1, 2], {a: b}]";
        for manifest in [manifest.as_str(), nested] {
            if let Ok(text) = apply(manifest.as_bytes(), patch.as_bytes()) {
                prop_assert!(tree::documents(&text).is_ok());
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(manifest: Vec<u8>, patch: Vec<u8>) {
        let _ = apply(&manifest, &patch);
        let _ = apply(b"a: 1", &patch);
    }
}
