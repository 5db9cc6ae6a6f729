//! Whole configs.

use crate::resources::certificates::Certificates;
use crate::resources::{error_text, gzip, sha512};
use ignition::{
    data_url,
    fetch::{FetchOptions, Fetcher},
};
use serde_json::{Value, json};
use testkit::http::{Server, ok, reply};

/// A config with this `ignition.config`, and a file by which it is known.
fn config(name: &str, references: Value) -> Value {
    json!({"ignition": {"version": "3.3.0", "config": references}, "storage": {"files": [{"path": format!("/{name}")}]}})
}

fn data(config: &Value) -> Value {
    json!({"source": data_url::base64(config.to_string().as_bytes())})
}

fn render(config: &Value) -> Result<Value, String> {
    render_with(FetchOptions { retries: 0, ..FetchOptions::default() }, config)
}

fn render_with(options: FetchOptions, config: &Value) -> Result<Value, String> {
    let rendered = ignition::render(config.to_string().as_bytes(), &mut Fetcher::new(options)).map_err(error_text)?;
    Ok(serde_json::from_slice(&rendered).unwrap())
}

fn files(rendered: &Value) -> Vec<&str> {
    rendered["storage"]["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect()
}

#[test]
fn children_come_in_order_each_after_its_own() {
    let of = |name: &str, children: &[&Value]| {
        config(name, json!({"merge": children.iter().map(|child| data(child)).collect::<Vec<_>>()}))
    };
    let (a1, a2) = (of("a1", &[]), of("a2", &[]));
    let a = of("a", &[&a1, &a2]);
    let rendered = render(&of("root", &[&a, &of("b", &[])])).unwrap();
    assert_eq!(files(&rendered), ["/root", "/a", "/a1", "/a2", "/b"]);
    assert_eq!(rendered["ignition"], json!({"version": "3.3.0"}), "nothing is left to be fetched");
}

#[test]
fn a_replacement_leaves_nothing_of_what_it_replaces() {
    let last = config("last", json!({}));
    let merging = config("merging", json!({"merge": [data(&config("gone", json!({"replace": data(&last)})))]}));
    let root = config("root", json!({"replace": data(&merging), "merge": [{"source": "http://127.0.0.1:1/never"}]}));
    assert_eq!(files(&render(&root).unwrap()), ["/merging", "/last"]);
}

#[test]
fn the_newest_version_is_that_of_all() {
    let child = json!({"ignition": {"version": "3.3.0"}, "kernelArguments": {"shouldExist": ["a"]}});
    let old = json!({"ignition": {"version": "3.0.0", "config": {"merge": [data(&child)]}}});
    let expected = json!({"ignition": {"version": "3.3.0"}, "kernelArguments": {"shouldExist": ["a"]}});
    assert_eq!(render(&old), Ok(expected));
    // Bits without meaning in the child's version must not get one in the parent's.
    let file = json!([{"path": "/a", "mode": 0o4755}]);
    let child = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": file}});
    let new = json!({"ignition": {"version": "3.6.0", "config": {"merge": [data(&child)]}}});
    assert_eq!(render(&new).unwrap()["storage"]["files"][0]["mode"], 0o755);
}

#[test]
fn what_is_fetched_later_is_fetched_as_the_configs_so_far_say() {
    let certificates = Certificates::new();
    let secure = Server::with_tls(certificates.server.clone(), |_| ok(config("secure", json!({})).to_string()));
    let secured = json!({"source": secure.url("/")});
    let mut trusting = config("trusting", json!({}));
    trusting["ignition"]["security"] = json!({"tls": {"certificateAuthorities":
        [{"source": data_url::base64(certificates.ca_pem.as_bytes())}]}});
    // The child's CA counts for what its parent fetches after it, and for its own children.
    let rendered = render(&config("root", json!({"merge": [data(&trusting), secured]}))).unwrap();
    assert_eq!(files(&rendered), ["/root", "/trusting", "/secure"]);
    assert_eq!(rendered["ignition"]["security"], trusting["ignition"]["security"]);
    let mut own = trusting.clone();
    own["ignition"]["config"] = json!({"replace": secured});
    assert_eq!(files(&render(&config("root", json!({"merge": [data(&own)]}))).unwrap()), ["/root", "/secure"]);
    // What comes before does not.
    let error = render(&config("root", json!({"merge": [secured, data(&trusting)]}))).unwrap_err();
    let url = secure.url("/");
    let expected = format!("$.ignition.config.merge.0 ({url}): cannot fetch {url}: the request failed: ");
    assert!(error.starts_with(&expected) && error.contains("UnknownIssuer"), "{error}");
    let given =
        FetchOptions { ca_bundles: vec![certificates.ca_pem.into_bytes()], retries: 0, ..FetchOptions::default() };
    assert!(render_with(given, &config("root", json!({"merge": [secured]}))).is_ok());
}

#[test]
fn packed_and_verified() {
    let child = config("child", json!({})).to_string();
    let (packed, hash) = (gzip(child.as_bytes()), sha512(child.as_bytes()));
    let server = Server::start(move |request| match request.header("authorization").unwrap_or_default() {
        "Bearer hunter2" => ok(&packed),
        _ => reply("403 Forbidden", "", ""),
    });
    let reference = json!({"source": server.url("/child?hunter2"), "compression": "gzip", "verification": {"hash": hash},
        "httpHeaders": [{"name": "Authorization", "value": "Bearer hunter2"}]});
    let with = |reference: &Value| render(&config("root", json!({"merge": [reference]})));
    assert_eq!(files(&with(&reference).unwrap()), ["/root", "/child"]);
    for (key, value, expected) in [
        ("compression", json!(""), "hash verification failed"),
        ("verification", json!({"hash": sha512(b"")}), "hash verification failed"),
        ("httpHeaders", json!([]), "failed to fetch resource (HTTP status 403)"),
    ] {
        let mut reference = reference.clone();
        reference[key] = value;
        let error = with(&reference).unwrap_err();
        assert!(
            error.starts_with("$.ignition.config.merge.0 (http://127.0.0.1:") && error.contains(expected),
            "{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn errors_tell_the_way() {
    let bad = json!({"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": "hunter"}]}});
    let root = |reference: &Value| {
        let middle = config("middle", json!({"replace": reference}));
        render(&config("root", json!({"merge": [data(&config("fine", json!({}))), data(&middle)]}))).unwrap_err()
    };
    let way = "$.ignition.config.merge.1 (a data: URL), there $.ignition.config.replace (a data: URL): ";
    let position = bad.to_string().find("hunter").unwrap();
    assert_eq!(
        root(&data(&bad)),
        format!(
            "{way}config is not valid:\nerror at $.storage.files.0.path, line 1 col {position}: path not absolute\n"
        )
    );
    for (text, expected) in [
        ("", "not a config (empty): Ignition would drop all the others, too, and continue without a config"),
        (r#"{"ignition":{"version":"4.0.0"}}"#, "unsupported config version"),
        ("{", "config is not valid:\nerror at line 0 col 0: unexpected end of JSON input\n"),
    ] {
        let reference = json!({"source": data_url::base64(text.as_bytes())});
        assert_eq!(root(&reference), format!("{way}{expected}"));
    }
    assert!(render(&bad).unwrap_err().starts_with("the config itself: config is not valid:\nerror at $.storage"));
    let offline = FetchOptions { offline: true, ..FetchOptions::default() };
    let error =
        render_with(offline, &config("root", json!({"replace": {"source": "http://h/x?hunter2"}}))).unwrap_err();
    assert_eq!(
        error,
        "$.ignition.config.replace (http://h/x): cannot fetch http://h/x: it is on the network, which must not be used"
    );
}

#[test]
fn valid_configs_may_merge_to_one_that_is_not() {
    let filesystem = |format: &str| {
        let filesystem = json!([{"device": "/dev/disk/by-label/x", "path": "/x", "format": format}]);
        json!({"ignition": {"version": "3.3.0"}, "storage": {"filesystems": filesystem}})
    };
    let mut parent = filesystem("ext4");
    let mut child = filesystem("");
    child["storage"]["filesystems"][0].as_object_mut().unwrap().remove("path");
    parent["ignition"]["config"] = json!({"merge": [data(&child)]});
    let error = render(&parent).unwrap_err();
    assert!(error.starts_with("the config itself: merging configs resulted in an invalid config:\n"), "{error}");
    assert!(error.contains("$.storage.filesystems.0.format"), "{error}");
    // In the end it is valid again.
    parent["ignition"]["config"] = json!({"merge": [data(&child), data(&filesystem("xfs"))]});
    assert_eq!(render(&parent).unwrap()["storage"]["filesystems"][0]["format"], "xfs");
}

#[test]
fn configs_without_end_come_to_one() {
    let server = Server::start(|request| {
        let next = |count: usize| {
            let merge: Vec<_> = (0..count)
                .map(|place| json!({"source": format!("http://{}/wide/{place}", request.header("host").unwrap())}))
                .collect();
            json!({"merge": merge})
        };
        let config = match request.path() {
            "/self" => config(
                "self",
                json!({"replace": {"source": format!("http://{}/self", request.header("host").unwrap())}}),
            ),
            "/deep" => {
                let deeper = format!(
                    "http://{}/deep?{}x",
                    request.header("host").unwrap(),
                    request.target().trim_start_matches("/deep?")
                );
                config("deep", json!({"replace": {"source": deeper}}))
            }
            "/many" => config("many", next(300)),
            path => config(path.trim_start_matches('/'), json!({})),
        };
        ok(config.to_string())
    });
    let error = |path: &str| render(&config("root", json!({"merge": [{"source": server.url(path)}]}))).unwrap_err();
    let url = server.url("/self");
    let expected = format!(
        "$.ignition.config.merge.0 ({url}), there $.ignition.config.replace ({url}): the config refers to itself"
    );
    assert_eq!(error("/self"), expected);
    assert!(error("/deep?").ends_with(": configs refer to each other more than 32 deep"));
    assert!(server.requests().len() < 40);
    let last = server.url("/wide/255");
    let many = error("/many");
    assert!(many.ends_with(&format!("merge.255 ({last}): more than 256 configs are referred to")), "{many}");
}
