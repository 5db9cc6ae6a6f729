//! Users' manifests: each service takes the same ones, and says the same of the others.

use super::*;
use crate::service::{ServiceOptions, ours::OurService};
use base64::{Engine, prelude::BASE64_STANDARD};

const NAMES: &[(&str, &str)] = &[("quay.io", "192.0.2.80")];
/// Behind these are the words of a parser.
const PARSERS: [&str; 2] = ["has an invalid YAML format: ", "is invalid: "];
/// What is another on purpose: what the real service cannot read it calls its own fault.
const DIFFERS: [(&str, u16, u16); 1] = [("PATCH of a missing one", 500, 404)];

/// A request about the manifests of a cluster: what it is for, method, rest of the path, body.
type Request = (&'static str, &'static str, String, Option<Value>);

fn requests() -> Vec<Request> {
    let content = |text: &str| BASE64_STANDARD.encode(text);
    let post = |what: &'static str, folder: &str, file: &str, text: &str| {
        (what, "POST", String::new(), Some(json!({"folder": folder, "file_name": file, "content": content(text)})))
    };
    let raw = |what: &'static str, content: &str| {
        (what, "POST", String::new(), Some(json!({"file_name": "raw.yaml", "content": content})))
    };
    let patch = |what: &'static str, file: &str, more: Value| {
        let mut body = json!({"folder": "openshift", "file_name": file});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (what, "PATCH", String::new(), Some(body))
    };
    let delete = |what: &'static str, query: &str| (what, "DELETE", format!("?{query}"), None);
    let get = |what: &'static str, rest: &str| (what, "GET", rest.to_owned(), None);
    let large = "#".repeat((1 << 20) + 1);
    vec![
        get("an empty list", ""),
        post("YAML", "openshift", "a.yaml", "a: 1\n"),
        post("again", "openshift", "a.yaml", "a: 2\n"),
        post("two documents", "manifests", "b.yml", "a: 1\n---\nb: 2\n"),
        post("nothing but a comment", "manifests", "c.yaml", "# nothing\n"),
        post("JSON", "manifests", "d.json", "{\"a\": 1}"),
        post("a patch", "openshift", "e.yaml.patch_1", "- op: replace\n  path: /spec/x\n  value: {y: 1}\n"),
        post("an empty patch", "openshift", "e.yaml.patch", "[]"),
        post("unusual characters", "openshift", "f:g+h.yaml", "a: 1"),
        raw("line ends in base64", "YTog\nMQo="),
        post("no stem", "manifests", ".yaml", "a: 1"),
        post("a hidden file", "manifests", ".a.yaml", "a: 1"),
        post("a space", "manifests", "a b.yaml", "a: 1"),
        post("a directory", "manifests", "a/b.yaml", "a: 1"),
        post("another extension", "manifests", "a.txt", "a: 1"),
        post("a patch of JSON", "manifests", "a.json.patch", "[]"),
        post("another folder", "etc", "z.yaml", "a: 1"),
        raw("no content", ""),
        raw("blanks", "   "),
        raw("not base64", "*"),
        post("too large", "manifests", "z.yaml", &large),
        post("the second document is bad", "manifests", "z.yaml", "a: 1\n--- {"),
        post("bad JSON", "manifests", "z.json", "{"),
        post("a patch that is not a list", "manifests", "z.yaml.patch", "a: 1"),
        post("the name is in the other folder", "manifests", "a.yaml", "a: 1"),
        post("a bad name comes before a bad content", "manifests", ".yaml", ""),
        post("a bad content comes before the other folder", "manifests", "a.yaml", "{"),
        patch("a new content", "a.yaml", json!({"updated_content": content("a: 3\n")})),
        patch("a bad content", "a.yaml", json!({"updated_content": content("{")})),
        patch("no content", "a.yaml", json!({"updated_content": " "})),
        patch("a bad name", "a.yaml", json!({"updated_file_name": ".yaml"})),
        patch("a name of the other folder", "a.yaml", json!({"updated_file_name": "b.yml"})),
        patch("another name", "a.yaml", json!({"updated_file_name": "z.yaml"})),
        patch("the other folder", "z.yaml", json!({"updated_folder": "manifests"})),
        patch("PATCH of a missing one", "gone.yaml", json!({})),
        patch("a content for a missing one", "gone.yaml", json!({"updated_content": content("a: 4\n")})),
        get("the list", ""),
        get("a file", "/files?folder=manifests&file_name=z.yaml"),
        get("a file of the default folder", "/files?file_name=d.json"),
        get("a missing file", "/files?folder=openshift&file_name=z.yaml"),
        get("a file of a bad name", "/files?file_name=.yaml"),
        get("a file of another folder", "/files?folder=etc&file_name=z.yaml"),
        delete("a bad name", "file_name=.yaml"),
        delete("a missing one", "folder=openshift&file_name=none.yaml"),
        delete("one of another extension", "file_name=a.txt"),
        delete("one that is there", "folder=openshift&file_name=gone.yaml"),
        get("the list at the end", ""),
    ]
}

/// What a service answers, without what differs from cluster to cluster.
fn answers(api: &Api) -> Vec<(u16, String)> {
    let cluster = id(&api.request("POST", "/clusters", Some(single_node_cluster())));
    let mut all = Vec::new();
    for (_, method, rest, body) in requests() {
        let (status, body) = api.try_request(method, &format!("/clusters/{cluster}/manifests{rest}"), body);
        let text = body["reason"].as_str().or(body["message"].as_str());
        let text = text.map_or_else(|| body.to_string(), str::to_owned).replace(&cluster, "ID");
        let end = PARSERS.iter().find_map(|parser| Some(text.find(parser)? + parser.len()));
        all.push((status, text[..end.unwrap_or(text.len())].to_owned()));
    }
    let missing = "/clusters/00000000-0000-4000-8000-000000000000/manifests";
    let (status, body) = api.try_request("GET", missing, None);
    all.push((status, body["reason"].to_string()));
    let shown = api.get(&format!("/clusters/{cluster}"));
    let used = shown["feature_usage"].as_str().unwrap().contains("\"Custom manifest\"");
    all.push((200, format!("used: {used}")));
    all
}

#[test]
fn both_services_take_and_refuse_the_same_manifests() {
    scenario("s: users' manifests, the same at both services", &["assisted-service"], NAMES, |peers, site| {
        let real = answers(&site.real_service(peers, ServiceOptions::default()).api);
        let ours = answers(&OurService::start(site, &[]).api);
        let names = requests().into_iter().map(|(what, ..)| what).chain(["a missing cluster", "the usage"]);
        let mut differences = Vec::new();
        for ((what, real), ours) in names.zip(&real).zip(&ours) {
            let is_named = DIFFERS.contains(&(what, real.0, ours.0));
            if real != ours && !is_named {
                differences.push(format!("{what}: real {real:?}, ours {ours:?}"));
            }
        }
        assert!(differences.is_empty(), "{} differences:\n  {}", differences.len(), differences.join("\n  "));
        format!("{} requests, {} named differences", real.len(), DIFFERS.len())
    });
}
