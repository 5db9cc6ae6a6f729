//! A page: its fenced blocks, and what each is for.

use std::path::Path;

/// Why a block is only looked at: its mark, and what its commands do.
pub(crate) const REASONS: [(&str, &str); 6] = [
    ("build", "build from the sources"),
    ("disk", "write to a disk"),
    ("images", "take images for another processor"),
    ("machines", "need machines"),
    ("network", "need a network with others in it"),
    ("system", "need an installed system"),
];

/// What is done with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// ```` ```sh ```` — run.
    Script,
    /// ```` ```console ```` — each line behind `$ ` is run, and prints what follows it.
    Session,
    /// ```` ```sh checked=REASON ```` — can't be run in a test for a reason of [`REASONS`], so its commands are looked at.
    Checked(&'static str),
    /// ```` ```json ````, `yaml`, `toml`, `xml` — parsed, and written to the file of `file=NAME`.
    Document { language: String, file: Option<String> },
    /// ```` ``` ```` — nothing for a machine.
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Of the fence, from 1 on.
    pub line: usize,
    /// What is done with it.
    pub kind: Kind,
    /// Without the fences.
    pub text: String,
}

/// What a page has for a machine: its blocks, and its commands within lines (`` `landfall …` ``) with their line's number.
pub(crate) type Page = (Vec<Block>, Vec<(usize, String)>);

/// The page; or what is neither run nor checked in it.
pub(crate) fn parse(text: &str) -> Result<Page, String> {
    let (mut blocks, mut spans) = (Vec::new(), Vec::new());
    let mut open: Option<Block> = None;
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => open = Some(Block { line: number, kind: kind(number, info)?, text: String::new() }),
            (None, Some(block)) => {
                if block.kind == Kind::Text
                    && ["landfall ", "coreos-installer ", "$ "].iter().any(|it| line.starts_with(it))
                {
                    return Err(format!("line {number} is a command in a block that is neither run nor checked"));
                }
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) if !line.starts_with('|') => spans.extend(
                line.split('`')
                    .skip(1)
                    .step_by(2)
                    .filter(|span| span.starts_with("landfall "))
                    .map(|s| (number, s.to_owned())),
            ),
            (None, None) => spans.extend(listed(line).into_iter().map(|command| (number, command))),
        }
    }
    match open {
        Some(block) => Err(format!("the block of line {} has no end", block.line)),
        None => Ok((blocks, spans)),
    }
}

/// The commands that a table's row begins with: `` | `landfall iso a\|b`, `pxe c` | … `` lists three. Asked for their help they must
/// be there.
fn listed(row: &str) -> Vec<String> {
    let cell = row.trim_start_matches("| ").split(" | ").next().unwrap_or_default();
    if !cell.starts_with("`landfall ") {
        return Vec::new();
    }
    let spans = cell.split('`').skip(1).step_by(2).map(|span| span.strip_prefix("landfall ").unwrap_or(span));
    let expanded = spans.flat_map(|span| {
        span.split(' ').fold(vec!["landfall".to_owned()], |commands, word| {
            let with =
                |other: &str| commands.iter().map(move |command| format!("{command} {other}")).collect::<Vec<_>>();
            word.split("\\|").flat_map(with).collect()
        })
    });
    expanded.map(|command| format!("{command} --help")).collect()
}

fn kind(number: usize, info: &str) -> Result<Kind, String> {
    let mut words = info.split_whitespace();
    let (language, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
    let unknown = || format!("the block of line {number} is neither run nor checked: {info:?}");
    match (language, rest.as_slice()) {
        ("", []) | ("mermaid", []) => Ok(Kind::Text),
        ("sh", []) => Ok(Kind::Script),
        ("console", []) => Ok(Kind::Session),
        ("json" | "yaml" | "toml" | "xml", []) => Ok(Kind::Document { language: language.to_owned(), file: None }),
        ("json" | "yaml" | "toml" | "xml", [file]) if file.starts_with("file=") => {
            Ok(Kind::Document { language: language.to_owned(), file: Some(file["file=".len()..].to_owned()) })
        }
        ("sh", [mark]) => reason(mark).map(Kind::Checked).ok_or_else(unknown),
        _ => Err(unknown()),
    }
}

fn reason(mark: &str) -> Option<&'static str> {
    let given = mark.strip_prefix("checked=")?;
    REASONS.iter().map(|(name, _)| *name).find(|name| *name == given)
}

/// The commands of a session, each with what it is to print.
pub(crate) fn session(text: &str) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.to_owned(), Vec::new())),
            (None, Some((_, expected))) => expected.push(line.to_owned()),
            (None, None) => all.push((String::new(), vec![line.to_owned()])),
        }
    }
    all
}

/// Whether these lines are as expected, where the line `...` is any lines, and `[..]` in a line any text.
pub(crate) fn matches(expected: &[String], seen: &[&str]) -> bool {
    match (expected, seen) {
        ([], []) => true,
        ([first, rest @ ..], _) if first == "..." => (0..=seen.len()).any(|skipped| matches(rest, &seen[skipped..])),
        ([first, rest @ ..], [line, others @ ..]) => line_matches(first, line) && matches(rest, others),
        _ => false,
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    match expected.split_once("[..]") {
        None => expected == line,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|line| {
            (0..=line.len()).filter(|at| line.is_char_boundary(*at)).any(|at| line_matches(rest, &line[at..]))
        }),
    }
}

/// The text of a page of this repository.
pub(crate) fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_block_that_is_neither_run_nor_checked_is_refused() {
    for (text, complaint) in [
        ("```bash\nls\n```\n", "line 1 is neither run nor checked"),
        ("```sh later\nls\n```\n", "line 1 is neither run nor checked"),
        ("```sh checked\nls\n```\n", "line 1 is neither run nor checked"),
        ("```sh checked=mood\nls\n```\n", "line 1 is neither run nor checked"),
        ("a\n```\nlandfall serve\n```\n", "line 3 is a command"),
        ("```sh\nls\n", "has no end"),
    ] {
        assert!(parse(text).unwrap_err().contains(complaint), "{text}");
    }
    let (blocks, spans) = parse("run `landfall wait`, not `ls`\n| `landfall a\\|b` |\n```sh\nls\n```\n").unwrap();
    assert_eq!(blocks, [Block { line: 3, kind: Kind::Script, text: "ls\n".into() }]);
    let expected = ["landfall wait", "landfall a --help", "landfall b --help"];
    assert_eq!(spans.iter().map(|(_, span)| span.as_str()).collect::<Vec<_>>(), expected);
    let commands = listed(r"| `landfall iso x`, `pxe a\|b w\|u` | does that |");
    assert_eq!(commands.len(), 5, "{commands:?}");
    assert!(commands.contains(&"landfall pxe b w --help".to_owned()), "{commands:?}");
}

#[test]
fn what_is_printed_is_compared() {
    for (expected, seen, equal) in [
        (vec!["a", "b"], vec!["a", "b"], true),
        (vec!["a"], vec!["a", "b"], false),
        (vec!["a", "..."], vec!["a", "b", "c"], true),
        (vec!["...", "c"], vec!["a", "b", "c"], true),
        (vec!["...", "c"], vec!["a", "b"], false),
        (vec!["x [..] y"], vec!["x 1 2 y"], true),
        (vec!["x [..] y"], vec!["x 1 2 z"], false),
        (vec![], vec!["a"], false),
    ] {
        let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(matches(&expected, &seen), equal, "{expected:?} {seen:?}");
    }
    let session = session("$ a | b\nx\n$ c\n");
    assert_eq!(session, [("a | b".into(), vec!["x".into()]), ("c".into(), vec![])]);
}
