//! The files of a crate, and which names each takes from which other.

use crate::graph::Graph;
use std::{collections::BTreeMap, fs, io, path::Path};

/// A module's place in its crate; empty for the crate's root.
type Module = Vec<String>;

/// The names that a file uses and declares.
#[derive(Debug, Default)]
struct Names {
    uses: Vec<Use>,
    /// Paths elsewhere.
    paths: Vec<Vec<String>>,
    /// Names of its items.
    items: Vec<String>,
    /// Modules in files of their own that are tests.
    tests: Vec<String>,
}

/// One path of a `use` line.
#[derive(Debug)]
struct Use {
    path: Vec<String>,
    /// What it is called here.
    name: String,
    /// It is `pub`: other files may name it by this one.
    passes: bool,
}

/// A crate's files, without its tests.
pub(crate) struct Crate {
    files: BTreeMap<Module, Names>,
}

impl Crate {
    /// Reads what lies under `source`.
    pub(crate) fn read(source: &Path) -> io::Result<Self> {
        let mut texts = BTreeMap::new();
        read_directory(source, &Module::new(), &mut texts)?;
        Ok(Self::new(texts.iter().map(|(module, text)| (module.clone(), text.as_str()))))
    }

    fn new<'a>(texts: impl IntoIterator<Item = (Module, &'a str)>) -> Self {
        let mut files: BTreeMap<Module, Names> =
            texts.into_iter().map(|(module, text)| (module, names(&tokens(text)))).collect();
        let test = |(module, names): (&Module, &Names)| {
            let module = module.clone();
            names.tests.clone().into_iter().map(move |name| [module.as_slice(), &[name]].concat()).collect::<Vec<_>>()
        };
        let tests: Vec<Module> = files.iter().flat_map(test).collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { files }
    }

    /// How many files it has.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// What each file depends on.
    pub(crate) fn dependencies(&self) -> Graph {
        let mut passed_on = BTreeMap::new();
        for (module, names) in &self.files {
            for line in names.uses.iter().filter(|line| line.passes) {
                if let Some(target) = self.locate(module, &line.path) {
                    passed_on.insert((module.clone(), line.name.clone()), target);
                }
            }
        }
        let mut graph = Graph::new();
        for (module, names) in &self.files {
            let targets = graph.entry(text(module)).or_default();
            let uses = names.uses.iter().map(|line| (&line.path, line.passes));
            for (path, passes) in uses.chain(names.paths.iter().map(|path| (path, false))) {
                let Some(mut found) = self.locate(module, path) else { continue };
                // A re-export may lead to a re-export; the bound ends a circle of them.
                for _ in 0..8 {
                    let (place, rest) = &found;
                    let Some((name, behind)) = rest.split_first() else { break };
                    if let Some((further, item)) = passed_on.get(&(place.clone(), name.clone())) {
                        found = (further.clone(), [item.as_slice(), behind].concat());
                    } else if let Some(further) = self.passed_as_a_whole(place, name) {
                        found.0 = further;
                    } else {
                        break;
                    }
                }
                let (target, _) = found;
                let own_parts = passes && target.starts_with(module);
                if target != *module && !own_parts {
                    targets.insert(text(&target));
                }
            }
        }
        graph
    }

    /// The file that declares a name which a module re-exports by `*`.
    fn passed_as_a_whole(&self, module: &Module, name: &String) -> Option<Module> {
        let lines = self.files.get(module)?.uses.iter().filter(|line| line.passes && line.name == "*");
        let mut places = lines.filter_map(|line| Some(self.locate(module, &line.path)?.0));
        places.find(|place| self.files.get(place).is_some_and(|names| names.items.contains(name)))
    }

    /// The file that a path leads to from a module, and the rest of the path inside that file; none for a path into another crate.
    fn locate(&self, from: &Module, path: &[String]) -> Option<(Module, Vec<String>)> {
        let (first, _) = path.split_first()?;
        let ups = path.iter().take_while(|part| *part == "super").count();
        let (mut place, rest) = match first.as_str() {
            "crate" => (Module::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => (from[..from.len().checked_sub(ups)?].to_vec(), &path[ups..]),
            name => {
                let inside = [from.as_slice(), &[name.to_owned()]].concat();
                self.files.contains_key(&inside).then_some((from.clone(), path))?
            }
        };
        let mut rest = rest.iter();
        while let Some(name) = rest.as_slice().first() {
            let next = [place.as_slice(), std::slice::from_ref(name)].concat();
            if !self.files.contains_key(&next) {
                break;
            }
            place = next;
            rest.next();
        }
        Some((place, rest.cloned().collect()))
    }
}

fn text(module: &Module) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

fn read_directory(directory: &Path, module: &Module, texts: &mut BTreeMap<Module, String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let inner = match stem {
            "mod" | "lib" | "main" => module.clone(),
            stem => [module.as_slice(), &[stem.to_owned()]].concat(),
        };
        if path.is_dir() && stem != "bin" {
            read_directory(&path, &inner, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            // A crate's library and its program are one here.
            texts.entry(inner).or_default().push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Words and signs, `::` as one; without comments, texts and characters.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// How long the text or character is that `rest` begins with, if it begins with one.
fn literal(rest: &str) -> Option<usize> {
    let unprefixed = rest.trim_start_matches(['b', 'c']);
    let raw = unprefixed.strip_prefix('r').map(|raw| raw.trim_start_matches('#')).filter(|raw| raw.starts_with('"'));
    if let Some(raw) = raw {
        let hashes = unprefixed.len() - raw.len() - 1;
        let end = format!("\"{}", "#".repeat(hashes));
        let inner = &raw[1..];
        return Some(inner.find(&end).map_or(rest.len(), |at| rest.len() - inner.len() + at + end.len()));
    }
    let mut chars = unprefixed.char_indices();
    let (_, quote) = chars.next().filter(|(_, quote)| matches!(quote, '"' | '\''))?;
    let offset = rest.len() - unprefixed.len();
    let mut escaped = false;
    for (at, c) in chars {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(offset + at + 1),
            // A lifetime, not a character.
            _ if quote == '\'' && at > 1 && !unprefixed.starts_with("'\\") => return None,
            _ => {}
        }
    }
    None
}

fn names(tokens: &[String]) -> Names {
    let mut names = Names::default();
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token == word);
    let mut passes = false;
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].iter().take(6).eq(["#", "[", "cfg", "(", "test", ")"].iter()) {
            let module = (at..tokens.len()).take(12).find(|at| is(*at, "mod"));
            if let Some(module) = module {
                names.tests.extend(tokens.get(module + 1).filter(|_| is(module + 2, ";")).cloned());
                at = end(tokens, module);
                continue;
            }
        }
        match tokens[at].as_str() {
            "pub" => passes = true,
            "use" => {
                let stop = (at..tokens.len()).find(|at| is(*at, ";")).unwrap_or(tokens.len());
                let mut paths = Vec::new();
                tree(&tokens[at + 1..stop], &[], &mut paths);
                names.uses.extend(paths.into_iter().map(|(path, name)| Use { path, name, passes }));
                at = stop;
            }
            "crate" | "super" | "self" if is(at + 1, "::") => {
                let mut path = vec![tokens[at].clone()];
                while is(at + 1, "::") && tokens.get(at + 2).is_some_and(|token| token != "<" && token != "{") {
                    path.push(tokens[at + 2].clone());
                    at += 2;
                }
                names.paths.push(path);
            }
            "struct" | "enum" | "trait" | "fn" | "const" | "static" | "type" => {
                names.items.extend(tokens.get(at + 1).cloned());
            }
            // `pub(crate)`, `pub(super)`.
            "(" | ")" | "crate" | "super" | "self" | "in" if passes => {}
            _ => passes = false,
        }
        at += 1;
    }
    names
}

/// Behind the item that begins at `at`: its `;`, or the brace that closes it.
fn end(tokens: &[String], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(token.as_str(), "}" | ";") {
            return index + 1;
        }
    }
    tokens.len()
}

/// The paths of a `use`, and what each is called then.
fn tree(tokens: &[String], before: &[String], paths: &mut Vec<(Vec<String>, String)>) {
    let mut path = before.to_vec();
    let mut alias = None;
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "::" => {}
            "as" => {
                alias = tokens.get(at + 1).cloned();
                break;
            }
            "{" => {
                let (mut start, mut depth) = (at + 1, 0_usize);
                for index in at + 1..tokens.len() {
                    match tokens[index].as_str() {
                        "{" => depth += 1,
                        "}" if depth > 0 => depth -= 1,
                        "," | "}" if depth == 0 => {
                            if start < index {
                                tree(&tokens[start..index], &path, paths);
                            }
                            start = index + 1;
                        }
                        _ => {}
                    }
                }
                return;
            }
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
    let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
    paths.push((path, name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependencies(files: &[(&str, &str)]) -> Vec<String> {
        let module = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let sources = Crate::new(files.iter().map(|(path, text)| (module(path), *text)));
        let graph = sources.dependencies();
        graph.iter().flat_map(|(from, targets)| targets.iter().map(move |to| format!("{from} -> {to}"))).collect()
    }

    #[test]
    fn uses_and_paths_lead_to_the_file_that_declares_the_name() {
        let found = dependencies(&[
            ("", "pub mod a; mod b;"),
            ("a", "pub use inner::Item as Thing; pub mod inner; pub mod other; pub use all::*;"),
            ("a::inner", "use super::other::{self, More}; pub struct Item;"),
            ("a::all", "pub enum Choice {}"),
            ("a::other", "use super::helper; // use crate::b;\nconst TEXT: &str = \"crate::b::X\";"),
            (
                "b",
                "use crate::{a::{Choice, Thing},\n    Root as R}; fn f<'a>() { crate::a::other::go('\"'); std::fs::read(); }",
            ),
        ]);
        assert_eq!(
            found,
            ["a::inner -> a::other", "a::other -> a", "b -> a::all", "b -> a::inner", "b -> a::other", "b -> crate"]
        );
    }

    #[test]
    fn tests_do_not_count() {
        let found = dependencies(&[
            ("", "#[cfg(test)] mod checks;"),
            ("checks", "use crate::a;"),
            ("a", "#[cfg(test)]\nmod tests { use crate::b; fn f() { if true {} } }\nuse crate::c;"),
            ("b", ""),
            ("c", ""),
        ]);
        assert_eq!(found, ["a -> c"]);
    }
}
