//! A plan from its file: TOML, where each mistake has a place.

use super::{At, MAX_BYTES, Mismatch, Plan, Policy, Sku, Step};
use inventory::report::Expectation;
use kernel::units;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Longest plan, and longest expectation beside it.
const MAX_FILE_BYTES: usize = 1 << 20;
/// How long a step of disk speed or network takes if the plan does not say it.
const SHORT: u64 = 10;

/// A plan to begin from.
pub const EXAMPLE: &str = include_str!("example.toml");

/// A plan that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{file}: line {line}, column {column}: {what}")]
    Written { file: String, line: usize, column: usize, what: String },
    #[error("the plan is not as `landfall certify` sends it: {0}")]
    Json(String),
    #[error("the plan cannot be used: {0}")]
    Invalid(String),
    #[error("{what} is larger than {max} bytes, which no plan needs")]
    TooLarge { what: String, max: usize },
    #[error("cannot read {file}: {source}")]
    Read { file: String, source: io::Error },
}

impl Plan {
    /// Reads a plan, and the expectations beside it.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let beside = path.parent().unwrap_or(Path::new(""));
        Self::parse(&path.display().to_string(), &file(path)?, &|name| file(&beside.join(name)))
    }

    /// Reads a plan of that name from its text; `open` reads a file that it names.
    pub fn parse(file: &str, text: &str, open: &dyn Fn(&str) -> Result<String, PlanError>) -> Result<Self, PlanError> {
        let reader = Reader { file, text, open };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            reader.error(at, format!("not valid TOML: {}", error.message()))
        })?;
        reader.plan(table.get_ref())
    }
}

/// The text of a file, which is not too large.
fn file(path: &Path) -> Result<String, PlanError> {
    let name = path.display().to_string();
    let mut text = String::new();
    let limit = MAX_FILE_BYTES as u64 + 1;
    match File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)) {
        Ok(_) if text.len() > MAX_FILE_BYTES => Err(PlanError::TooLarge { what: name, max: MAX_FILE_BYTES }),
        Ok(_) => Ok(text),
        Err(source) => Err(PlanError::Read { file: name, source }),
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    open: &'a dyn Fn(&str) -> Result<String, PlanError>,
}

/// The keys of one table, which are taken from it one by one.
struct Keys<'a> {
    reader: &'a Reader<'a>,
    table: &'a DeTable<'a>,
    /// What the table is, for messages.
    what: String,
    /// Where it begins.
    at: usize,
    known: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    fn error(&self, at: usize, what: impl Into<String>) -> PlanError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        PlanError::Written { file: self.file.to_owned(), line, column, what: what.into() }
    }

    fn keys(&'a self, table: &'a DeTable<'a>, at: usize, what: impl Into<String>) -> Keys<'a> {
        Keys { reader: self, table, what: what.into(), at, known: Vec::new() }
    }

    fn plan(&'a self, table: &'a DeTable<'a>) -> Result<Plan, PlanError> {
        let mut keys = self.keys(table, 0, "the plan");
        let name = keys.needed("name", "a text")?;
        let tester = keys.text("tester")?;
        let mut policy = Policy::default();
        if let Some(value) = keys.take("policy") {
            let table = keys.table(value, "policy")?;
            let mut keys = self.keys(table, value.span().start, "the policy");
            policy.mismatch = match keys.text("mismatch")?.as_deref() {
                None | Some("block") => Mismatch::Block,
                Some("note") => Mismatch::Note,
                Some(other) => return Err(keys.wrong("mismatch", &format!("\"block\" or \"note\", not \"{other}\""))),
            };
            policy.hosts = keys.number("hosts")?;
            keys.end()?;
        }
        let (skus, sku_places): (Vec<_>, Vec<_>) =
            keys.tables("sku", |table, at| self.sku(table, at))?.into_iter().unzip();
        let (mut steps, mut step_places): (Vec<_>, Vec<_>) =
            keys.tables("step", |table, at| self.step(table, at))?.into_iter().unzip();
        keys.end()?;
        if steps.first() != Some(&Step::Report) {
            steps.insert(0, Step::Report);
            step_places.insert(0, 0);
        }
        let plan = Plan { name, tester, policy, skus, steps };
        if let Some(fault) = plan.fault() {
            let at = match fault.at {
                At::Plan => 0,
                At::Sku(index) => sku_places[index],
                At::Step(index) => step_places[index],
            };
            return Err(self.error(at, fault.what));
        }
        if plan.to_json().len() > MAX_BYTES {
            return Err(PlanError::TooLarge { what: format!("{} with its expectations", self.file), max: MAX_BYTES });
        }
        Ok(plan)
    }

    fn sku(&'a self, table: &'a DeTable<'a>, at: usize) -> Result<Sku, PlanError> {
        let mut keys = self.keys(table, at, "a SKU");
        let name = keys.needed("name", "a text")?;
        let matches = match keys.take("match") {
            Some(value) => {
                keys.table(value, "match")?;
                Some(self.inlined(value)?)
            }
            None => None,
        };
        let expect = match keys.take("expect") {
            Some(value) => match value.get_ref() {
                DeValue::String(file) => {
                    let at = value.span().start;
                    let text = (self.open)(file).map_err(|error| self.error(at, error.to_string()))?;
                    text.parse::<Expectation>().map_err(|error| self.error(at, format!("{file}: {error}")))?;
                    text
                }
                DeValue::Table(_) => self.inlined(value)?,
                _ => return Err(keys.wrong("expect", "the name of a file beside the plan, or a table")),
            },
            None => return Err(keys.missing("expect", "the name of a file beside the plan, or a table")),
        };
        keys.end()?;
        Ok(Sku { name, matches, expect })
    }

    /// A table of the plan as a document.
    fn inlined(&self, value: &Spanned<DeValue<'_>>) -> Result<String, PlanError> {
        let at = value.span().start;
        let table = toml::Table::deserialize(value.clone().into_deserializer());
        table.map(|table| table.to_string()).map_err(|error| self.error(at, error.message()))
    }

    fn step(&'a self, table: &'a DeTable<'a>, at: usize) -> Result<Step, PlanError> {
        const STEPS: &str = "report, network, disk-speed, burnin, attest, install, boot or power-cut";
        let mut keys = self.keys(table, at, "a step");
        let name = keys.needed("do", STEPS)?;
        keys.what = format!("a step `{name}`");
        let step = match name.as_str() {
            "report" => Step::Report,
            "network" => {
                Step::Network { seconds: keys.seconds()?.unwrap_or(SHORT), min_mbit: keys.number("min_mbit")? }
            }
            "disk-speed" => Step::DiskSpeed {
                seconds: keys.seconds()?.unwrap_or(SHORT),
                max_ms: keys.number("max_ms")?,
                disk: keys.text("disk")?,
            },
            "burnin" => Step::Burnin {
                seconds: keys.seconds()?.ok_or_else(|| keys.missing("for", "a time such as \"10m\""))?,
                only: keys.texts("only")?,
                memory_bytes: keys.parsed("memory", "a size such as \"64GiB\"", units::parse)?,
                disks: keys.texts("disks")?,
                destroy: keys.texts("destroy")?,
            },
            "install" => Step::Install,
            "boot" => Step::Boot,
            "power-cut" => Step::PowerCut,
            "attest" => Step::Attest,
            other => return Err(keys.wrong("do", &format!("{STEPS}, not `{other}`"))),
        };
        keys.end()?;
        Ok(step)
    }
}

impl<'a> Keys<'a> {
    fn take(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.get(key)
    }

    fn wrong(&self, key: &str, is: &str) -> PlanError {
        let at = self.table.get(key).map_or(self.at, |value| value.span().start);
        self.reader.error(at, format!("{key} of {} is {is}", self.what))
    }

    fn missing(&self, key: &str, is: &str) -> PlanError {
        self.reader.error(self.at, format!("{} needs {key} = ..., which is {is}", self.what))
    }

    fn table(&self, value: &'a Spanned<DeValue<'a>>, key: &str) -> Result<&'a DeTable<'a>, PlanError> {
        value.get_ref().as_table().ok_or_else(|| self.wrong(key, "a table"))
    }

    fn text(&mut self, key: &'static str) -> Result<Option<String>, PlanError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.get_ref().as_str().map(|text| Some(text.to_owned())).ok_or_else(|| self.wrong(key, "a text"))
    }

    fn needed(&mut self, key: &'static str, is: &str) -> Result<String, PlanError> {
        self.text(key)?.ok_or_else(|| self.missing(key, is))
    }

    fn parsed<T>(
        &mut self,
        key: &'static str,
        is: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, PlanError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let Some(text) = value.get_ref().as_str() else { return Err(self.wrong(key, is)) };
        parse(text).map(Some).map_err(|error| self.wrong(key, &format!("{is}, but \"{text}\" is not: {error}")))
    }

    fn seconds(&mut self) -> Result<Option<u64>, PlanError> {
        let time = self.parsed("for", "a time such as \"10m\"", units::parse_duration)?;
        Ok(time.map(|time| time.as_secs()))
    }

    fn number<T: std::str::FromStr>(&mut self, key: &'static str) -> Result<Option<T>, PlanError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| self.wrong(key, "a number, decimal and not negative"))
    }

    fn texts(&mut self, key: &'static str) -> Result<Vec<String>, PlanError> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let texts = value.get_ref().as_array().and_then(|values| {
            values.iter().map(|value| value.get_ref().as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.ok_or_else(|| self.wrong(key, "a list of texts"))
    }

    fn tables<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&'a DeTable<'a>, usize) -> Result<T, PlanError>,
    ) -> Result<Vec<(T, usize)>, PlanError> {
        let is = format!("a list of tables ([[{key}]])");
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let values = value.get_ref().as_array().ok_or_else(|| self.wrong(key, &is))?;
        let table = |value: &'a Spanned<DeValue<'a>>| {
            let table = value.get_ref().as_table().ok_or_else(|| self.wrong(key, &is))?;
            read(table, value.span().start).map(|table| (table, value.span().start))
        };
        values.iter().map(table).collect()
    }

    /// Refuses keys that were not taken.
    fn end(&self) -> Result<(), PlanError> {
        let unknown = self.table.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref()));
        match unknown.min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                let known = self.known.join(", ");
                Err(self
                    .reader
                    .error(key.span().start, format!("{} has no {}; it has {known}", self.what, key.get_ref())))
            }
        }
    }
}
