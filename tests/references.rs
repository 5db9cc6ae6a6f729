//! What comments and pages refer to is there: headings of pages in this repository, or sections of published specifications.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Names that a section sign may follow in one line of a comment.
const SPECIFICATIONS: [&str; 4] = ["RFC ", "UEFI ", "ECMA-", "SUSP "];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Sources and pages below `directory`, without what is built.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap_or_default();
        if path.is_symlink() || ["target", ".git"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| ["rs", "md", "toml"].iter().any(|wanted| extension == *wanted))
        {
            files.push(path);
        }
    }
}

/// Each source's and page's path below the root, and its text.
fn texts() -> BTreeMap<String, String> {
    let mut files = Vec::new();
    collect(root(), &mut files);
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    files.iter().filter_map(|path| Some((name(path), fs::read_to_string(path).ok()?))).collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// A page's headings as anchors, in order.
fn headings(page: &str) -> Vec<String> {
    let mut in_block = false;
    let lines = page.lines().filter(|line| {
        let fence = line.starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    lines
        .filter_map(|line| {
            Some(anchor(line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?))
        })
        .collect()
}

/// Pages and anchors that `text` refers to: `page.md#anchor`, and `(#anchor)` in a page itself.
fn references(text: &str, own_page: bool) -> Vec<(String, String)> {
    let named = |c: char| c.is_ascii_alphanumeric() || ['-', '_'].contains(&c);
    let after = |rest: &str| rest.chars().take_while(|c| named(*c)).collect::<String>();
    let mut found = Vec::new();
    for (at, _) in text.match_indices(".md#") {
        let before = &text[..at];
        let start = before.rfind(|c: char| !named(c)).map_or(0, |end| end + 1);
        found.push((format!("{}.md", &before[start..]), after(&text[at + 4..])));
    }
    if own_page {
        found.extend(text.match_indices("](#").map(|(at, _)| (String::new(), after(&text[at + 3..]))));
    }
    found
}

fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//")
}

#[test]
fn every_anchor_that_is_named_is_a_heading() {
    let texts = texts();
    let pages: BTreeMap<&str, BTreeSet<String>> = texts
        .iter()
        .filter(|(path, _)| path.ends_with(".md"))
        .map(|(path, text)| (path.rsplit('/').next().unwrap(), headings(text).into_iter().collect()))
        .collect();
    let (mut lost, mut found) = (Vec::new(), 0);
    for (path, text) in &texts {
        let own = path.rsplit('/').next().unwrap();
        for (page, anchor) in references(text, path.ends_with(".md")) {
            // This file's own text names none.
            if path == "tests/references.rs" || anchor.is_empty() {
                continue;
            }
            found += 1;
            let page = if page.is_empty() { own } else { &page };
            if !pages.get(page).is_some_and(|headings| headings.contains(&anchor)) {
                lost.push(format!("{path}: {page}#{anchor}"));
            }
        }
    }
    assert!(lost.is_empty(), "{} references lead nowhere:\n{}", lost.len(), lost.join("\n"));
    assert!(found > 150, "only {found} references: what reads them is broken");
    println!("{found} references");
}

#[test]
fn every_file_that_a_page_links_exists() {
    let (mut lost, mut found) = (Vec::new(), 0);
    for (path, text) in texts().iter().filter(|(path, _)| path.ends_with(".md")) {
        let page = root().join(path);
        let prose: String = text.split('`').step_by(2).collect();
        for target in prose.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if target.is_empty() || target.contains("://") {
                continue;
            }
            found += 1;
            if !page.parent().unwrap().join(target).exists() {
                lost.push(format!("{path}: {target}"));
            }
        }
    }
    assert!(lost.is_empty(), "{} links lead nowhere:\n{}", lost.len(), lost.join("\n"));
    assert!(found > 100, "only {found} links: what reads them is broken");
}

#[test]
fn headings_of_the_compatibility_page_are_unique_and_its_anchors_used() {
    let texts = texts();
    let page = texts.get("docs/compatibility.md").expect("docs/compatibility.md");
    let mut seen = BTreeSet::new();
    let twice: Vec<String> = headings(page).into_iter().filter(|heading| !seen.insert(heading.clone())).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let used: BTreeSet<String> = texts
        .iter()
        .flat_map(|(path, text)| references(text, path.ends_with(".md")))
        .map(|(_, anchor)| anchor)
        .collect();
    for (at, mark) in page.match_indices("<a id=\"") {
        let anchor = page[at + mark.len()..].split('"').next().unwrap();
        assert!(used.contains(anchor), "nothing leads to {anchor}");
    }
    for name in ["README.md", "ARCHITECTURE.md"] {
        let linked = texts.get(name).is_some_and(|text| text.contains("(docs/compatibility.md"));
        assert!(linked, "{name} does not link docs/compatibility.md");
    }
}

#[test]
fn comments_cite_only_what_readers_have() {
    let mut unknown = Vec::new();
    for (path, text) in texts() {
        if !path.ends_with(".rs") || path == "tests/references.rs" {
            continue;
        }
        let mut earlier = "";
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = comment(line) else {
                earlier = "";
                continue;
            };
            let sections = comment.match_indices('§').any(|(at, _)| {
                // The specification may stand at the end of the line before.
                let cited = format!("{earlier} {}", &comment[..at]);
                !SPECIFICATIONS.iter().any(|name| cited.contains(name))
            });
            let page = comment.match_indices(".md").any(|(at, _)| {
                let start = comment[..at].rfind([' ', '(', '`', '"']).map_or(0, |end| end + 1);
                let name = format!("{}.md", &comment[start..at]);
                let elsewhere = name.contains("://") || comment.contains("systemd");
                !elsewhere && !root().join(&name).is_file()
            });
            // The word stood for documents outside of the repository.
            if sections || page || comment.to_lowercase().contains("contract") {
                unknown.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
            earlier = comment;
        }
    }
    assert!(unknown.is_empty(), "{} comments cite what is not here:\n{}", unknown.len(), unknown.join("\n"));
}

#[test]
fn anchors_are_made_as_github_makes_them() {
    assert_eq!(anchor("HTTP client"), "http-client");
    assert_eq!(anchor("`api-vip-connectivity-check`"), "api-vip-connectivity-check");
    assert_eq!(headings("# A b\n```sh\n# no\n```\n## C\n"), ["a-b", "c"]);
    let page = |page: &str, anchor: &str| (page.to_owned(), anchor.to_owned());
    assert_eq!(references("see docs/x.md#a-b, [c](#c)", true), [page("x.md", "a-b"), page("", "c")]);
}

#[test]
fn files_that_the_architecture_names_are_there() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let spans = page.split('`').skip(1).step_by(2).filter(|span| span.contains('/') && !span.contains(['{', ' ']));
    let lost: Vec<&str> = spans.filter(|span| !span.contains("NAME") && !root().join(span).exists()).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn tests_that_the_compatibility_page_names_are_there() {
    let page = fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let tables = page.lines().filter(|line| line.starts_with('|'));
    let spans = tables.flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|span| !span.contains(['{', ' ']));
    let tests: Vec<&str> = spans.filter(|span| span.starts_with("tests/") || span.contains("/tests")).collect();
    let lost: Vec<_> = tests.iter().filter(|path| !root().join(path).exists()).collect();
    assert!(lost.is_empty() && tests.len() > 20, "{lost:?} of {tests:?}");
}
