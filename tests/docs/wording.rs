//! Documents, strings and help have none of the wordings that docs/glossary.md refuses.

use super::page;
use std::{fs, path::Path};

const GLOSSARY: &str = "docs/glossary.md";
/// The glossary's section about wordings, which quotes them.
const SECTION: &str = "## Wordings";
/// The heading of the table of refused wordings.
const TABLE: &str = "### Words that are refused";
/// Directories without text for users.
const SKIPPED: [&str; 5] = [".git", "fuzz", "qemu-tests", "target", "tests"];

/// Where a wording may occur: file, wording, reason.
const EXCEPTIONS: [(&str, &str, &str); 2] = [
    ("service-stub/src/model.rs", "told", "the name of a field on disk"),
    ("service-stub/src/rules/networks.rs", "has to be", "a text of the real service"),
];

/// A refused wording, and what to write instead.
struct Wording {
    words: Vec<String>,
    instead: String,
}

impl Wording {
    fn is_at(&self, at: usize, words: &[(String, usize)]) -> bool {
        let is_word = |word: &str| word.starts_with(|c: char| c.is_alphanumeric() || c == '{');
        let fits = |(wanted, (found, _)): (&String, &(String, usize))| match wanted.as_str() {
            "X" => found != "there",
            "Y" => found != "longer" && is_word(found),
            wanted => found == wanted,
        };
        words.len() >= at + self.words.len() && self.words.iter().zip(&words[at..]).all(fits)
    }
}

/// The rows of the glossary's table.
fn wordings(glossary: &str) -> Vec<Wording> {
    let (_, table) = glossary.split_once(TABLE).unwrap();
    let rows = table.lines().take_while(|line| !line.starts_with('#')).filter_map(|line| {
        let (words, instead) = line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ")?;
        Some(Wording { words: words.split(' ').map(str::to_owned).collect(), instead: instead.to_owned() })
    });
    rows.collect()
}

/// A full stop, then the words and punctuation marks of a text that starts at `line`, each with its line.
fn words(text: &str, line: usize) -> Vec<(String, usize)> {
    let mut all = vec![(".".to_owned(), line)];
    for (text, line) in text.lines().zip(line..) {
        let mut spaced = String::new();
        for character in text.to_lowercase().chars() {
            match character.is_alphanumeric() || "_-'{}".contains(character) {
                true => spaced.push(character),
                false => spaced.extend([' ', character, ' ']),
            }
        }
        all.extend(spaced.split_whitespace().map(|word| (word.to_owned(), line)));
    }
    all
}

/// The strings of a Rust file, and its doc comments if `with_docs`, each with its first line. Items of `#[cfg(test)]` are left out.
fn texts(source: &str, with_docs: bool) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let (mut line, mut depth, mut last_doc) = (1_usize, 0_usize, 0_usize);
    // The depth of braces at an item for tests.
    let mut test: Option<usize> = None;
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let hashes = rest.strip_prefix('r').map(|behind| behind.len() - behind.trim_start_matches('#').len());
        let raw = hashes.filter(|hashes| rest[hashes + 1..].starts_with('"'));
        let mut text = None;
        let len: usize = if rest.starts_with("//") {
            let comment = rest.lines().next().unwrap_or_default();
            if let Some(doc) = comment.strip_prefix("///").filter(|_| with_docs && test.is_none()) {
                if last_doc + 1 != line || all.is_empty() {
                    all.push((line, String::new()));
                }
                all.last_mut().unwrap().1.extend([doc, "\n"]);
                last_doc = line;
            }
            comment.len()
        } else if let Some(hashes) = raw {
            let start = hashes + 2;
            let end = format!("\"{}", "#".repeat(hashes));
            let len = rest[start..].find(&end).unwrap();
            text = Some(rest[start..start + len].to_owned());
            start + len + end.len()
        } else if first == '"' {
            let mut end = 1;
            while rest.as_bytes()[end] != b'"' {
                end += 1 + usize::from(rest.as_bytes()[end] == b'\\');
            }
            text = Some(rest[1..end].replace("\\n", " ").replace('\\', ""));
            end + 1
        } else if rest.starts_with("'\\") {
            rest[3..].find('\'').unwrap() + 4
        } else if first == '\'' && rest.chars().nth(2) == Some('\'') {
            rest.chars().take(3).map(char::len_utf8).sum()
        } else {
            if rest.starts_with("#[cfg(test)]") && test.is_none() {
                test = Some(depth);
            }
            depth = if first == '{' { depth + 1 } else { depth.saturating_sub(usize::from(first == '}')) };
            if matches!(first, '}' | ';') && test == Some(depth) {
                test = None;
            }
            first.len_utf8()
        };
        all.extend(text.filter(|_| test.is_none()).map(|text| (line, text)));
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    all
}

/// A page with empty lines for its code blocks and for the section about wordings.
fn prose(text: &str) -> String {
    let (mut is_code, mut is_section) = (false, false);
    let mut prose = String::new();
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        is_section = if line.starts_with("## ") { line == SECTION } else { is_section };
        prose.extend([if is_code || is_fence || is_section { "" } else { line }, "\n"]);
    }
    prose
}

/// The refused wordings in a file, as `FILE:LINE: WORDING: write …`.
fn refused(name: &str, content: &str, wordings: &[Wording]) -> Vec<String> {
    let is_page = name == "README.md" || name.starts_with("docs/") || name.starts_with("examples/");
    let is_test = name.ends_with("_tests.rs") || name.ends_with("/tests.rs");
    let texts = match name.rsplit_once('.') {
        Some((_, "md")) if is_page => vec![(1, prose(content))],
        Some((_, "rs")) if !is_test => texts(content, content.contains("clap")),
        _ => Vec::new(),
    };
    let mut all = Vec::new();
    for (line, text) in texts {
        let words = words(&text, line);
        for (at, (_, line)) in words.iter().enumerate() {
            for wording in wordings.iter().filter(|wording| wording.is_at(at, &words)) {
                let refused = wording.words.join(" ");
                if !EXCEPTIONS.iter().any(|(file, allowed, _)| *file == name && *allowed == refused) {
                    all.push(format!("{name}:{line}: {refused}: write {}", wording.instead));
                }
            }
        }
    }
    all
}

/// The same in all files below a directory.
fn search(root: &Path, below: &Path, wordings: &[Wording]) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let (name, kind) = (entry.file_name().to_string_lossy().into_owned(), entry.file_type().unwrap());
        let path = below.join(&name);
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            all.extend(search(root, &path, wordings));
        } else if kind.is_file() && (name.ends_with(".md") || name.ends_with(".rs")) {
            all.extend(refused(&path.to_string_lossy(), &fs::read_to_string(entry.path()).unwrap(), wordings));
        }
    }
    all
}

#[test]
fn refused_words_do_not_occur() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all = search(root, Path::new(""), &wordings(&page::read(GLOSSARY)));
    assert!(all.is_empty(), "{} refused wordings:\n{}", all.len(), all.join("\n"));
}

#[test]
fn planted_words_are_found() {
    let wordings = wordings(&page::read(GLOSSARY));
    let source = "/// clap: a name of its\n/// own.\nfn f<'a>() { // told\n    g('\"', '\\'', \"a\\nplan \\\n    is no {plan}\", \
        r#\"it \"has to be\"\"#);\n}\n#[cfg(test)]\nmod tests { const A: &str = \"told\"; }\nconst B: &str = \"there is no plan. \
        It is no longer one; this is. No\";\n";
    let found = [
        "a.rs:1: of its own: write its own",
        "a.rs:4: X is no Y: write X is not a Y",
        "a.rs:5: has to be: write must be",
    ];
    assert_eq!(refused("a.rs", source, &wordings), found);
    let page = "It goes on.\n```sh\ntold\n```\n## Wordings\ntold\n## More\nNobody\n";
    let found = ["docs/a.md:1: goes on: write continues", "docs/a.md:8: nobody: write no user, no client, none"];
    assert_eq!(refused("docs/a.md", page, &wordings), found);
}
