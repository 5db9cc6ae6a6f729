//! What a machine is expected to be: a TOML tree shaped like the report, of which only what is named is compared.

use super::{
    condition::{Condition, ConditionError, literal_bytes},
    fields,
    schema::{self, Shape},
};
use kernel::order;
use serde::Serialize;
use serde_json::Value;
use std::{fmt, str::FromStr};
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

/// Key of a list's entry: how many elements shall be like it.
const COUNT: &str = "count";
/// Longest list that is shown in full.
const MANY: usize = 16;
/// Key of a table: whether there shall be nothing of that name.
const ABSENT: &str = "absent";

/// What is expected of a report. It is parsed from TOML; its form is that of `landfall report --expect`.
#[derive(Debug)]
pub struct Expectation(Fields);

type Fields = Vec<(String, Check)>;

/// What is expected at one place.
#[derive(Debug)]
enum Check {
    Fields(Fields),
    /// One of the conditions holds.
    OneOf(Vec<Condition>),
    /// For each condition the list has a value that meets it.
    Holds(Vec<Condition>),
    /// As many elements as said are like each of these.
    Elements(Vec<Kind>),
    Absent(bool),
    /// A list with nothing in it.
    Empty,
}

/// Elements of a list that are alike in the named fields.
#[derive(Debug)]
struct Kind {
    count: Condition,
    fields: Fields,
    /// The fields as they were written, for messages.
    written: String,
}

/// One place where a report is not as expected.
#[derive(Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Where, with dots between names; an element of a list is named by what it is known by.
    pub path: String,
    /// What was expected, as it was written.
    pub expected: String,
    /// What the report has; null when nothing.
    pub found: Value,
    /// Of a list: which element comes nearest, and what it lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

/// An expectation that can't be understood, and where.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct ExpectError {
    line: usize,
    fault: Fault,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("not valid TOML: {0}")]
    Toml(String),
    #[error("a report has no {path}; {hint}")]
    Unknown { path: String, hint: String },
    #[error("{path}: {source}")]
    Condition { path: String, source: ConditionError },
    #[error("{path} is {is}, but the file has {written}")]
    Form { path: String, is: &'static str, written: &'static str },
    #[error("{path}: `absent` must be the only key, and true or false")]
    Absent { path: String },
}

impl Expectation {
    /// Understands an expectation of a report with that shape.
    pub(super) fn parse(text: &str, shape: &Shape<'_>) -> Result<Self, ExpectError> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            ExpectError { line: line(text, at), fault: Fault::Toml(error.message().to_owned()) }
        })?;
        Reader { text }.fields(table.get_ref(), shape, "").map(Self)
    }

    /// Where a report is not as expected, in the order of the expectation.
    pub fn differences(&self, report: &Value) -> Vec<Difference> {
        let mut differences = Vec::new();
        compare_fields(&self.0, Some(report), "", &mut differences);
        differences
    }
}

impl FromStr for Expectation {
    type Err = ExpectError;

    fn from_str(text: &str) -> Result<Self, ExpectError> {
        Self::parse(text, &Shape::new(&schema::report()))
    }
}

impl ExpectError {
    /// The error without its line, for texts that were made from a larger one.
    pub fn reason(&self) -> String {
        self.fault.to_string()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.path, self.expected, found_text(&self.path, &self.found))?;
        self.nearest.as_ref().map_or(Ok(()), |nearest| write!(f, "; nearest: {nearest}"))
    }
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn fail<T>(&self, at: usize, fault: Fault) -> Result<T, ExpectError> {
        Err(ExpectError { line: line(self.text, at), fault })
    }

    fn fields(&self, table: &DeTable<'_>, shape: &Shape<'_>, path: &str) -> Result<Fields, ExpectError> {
        let mut fields = Vec::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = join(path, name);
            let Some(shape) = shape.field(name) else {
                let hint = match shape.nearest_field(name) {
                    Some(nearest) => format!("did you mean {nearest}?"),
                    None => format!("known here: {}", shape.fields().into_iter().collect::<Vec<_>>().join(", ")),
                };
                return self.fail(key.span().start, Fault::Unknown { path, hint });
            };
            fields.push((key.span().start, name.to_owned(), self.check(value, &shape, &path)?));
        }
        // As written: the map has sorted them.
        order::sort_by_key(&mut fields, |(at, ..)| *at);
        Ok(fields.into_iter().map(|(_, name, check)| (name, check)).collect())
    }

    fn check(&self, value: &Spanned<DeValue<'_>>, shape: &Shape<'_>, path: &str) -> Result<Check, ExpectError> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::Table(table) if table.contains_key(ABSENT) => {
                match table.values().map(|value| value.get_ref().as_bool()).collect::<Vec<_>>()[..] {
                    [Some(absent)] => Ok(Check::Absent(absent)),
                    _ => self.fail(at, Fault::Absent { path: path.to_owned() }),
                }
            }
            DeValue::Table(table) if shape.has_fields() => self.fields(table, shape, path).map(Check::Fields),
            DeValue::Array(values) => match shape.element() {
                Some(_) if values.is_empty() => Ok(Check::Empty),
                Some(element) if element.has_fields() => self.kinds(values, &element, path).map(Check::Elements),
                Some(element) => self.conditions(values, &element, path).map(Check::Holds),
                None => self.conditions(values, shape, path).map(Check::OneOf),
            },
            _ => self.condition(value, shape, path).map(|condition| Check::OneOf(vec![condition])),
        }
    }

    fn kinds(&self, values: &DeArray<'_>, element: &Shape<'_>, path: &str) -> Result<Vec<Kind>, ExpectError> {
        let kind = |value: &Spanned<DeValue<'_>>| {
            let DeValue::Table(table) = value.get_ref() else {
                let written = value.get_ref().type_str();
                let fault = Fault::Form { path: path.to_owned(), is: "a list of tables ([[...]])", written };
                return self.fail(value.span().start, fault);
            };
            let mut table = table.clone();
            let count = table.remove(COUNT);
            let count = match count {
                Some(count) => self.number(&count, &join(path, COUNT))?,
                None => self.located(Condition::number(">= 1", false), value.span().start, path)?,
            };
            let fields = self.fields(&table, element, path)?;
            let written = fields.iter().map(|(name, check)| check.written(name)).collect::<Vec<_>>().join(", ");
            Ok(Kind { count, fields, written })
        };
        values.iter().map(kind).collect()
    }

    fn conditions(&self, values: &DeArray<'_>, shape: &Shape<'_>, path: &str) -> Result<Vec<Condition>, ExpectError> {
        values.iter().map(|value| self.condition(value, shape, path)).collect()
    }

    fn condition(&self, value: &Spanned<DeValue<'_>>, shape: &Shape<'_>, path: &str) -> Result<Condition, ExpectError> {
        let at = value.span().start;
        let number = shape.may_be("integer") || shape.may_be("number");
        match value.get_ref() {
            DeValue::Boolean(truth) if shape.may_be("boolean") => Ok(Condition::truth(*truth)),
            DeValue::String(text) if shape.may_be("string") => self.located(Condition::text(text), at, path),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::String(_) if number => self.number(value, path),
            other => {
                let is = match () {
                    () if number => "a number",
                    () if shape.may_be("boolean") => "true or false",
                    () if shape.may_be("string") => "a text",
                    () if shape.element().is_some_and(|element| element.has_fields()) => "a list of tables ([[...]])",
                    () if shape.element().is_some() => "a list ([...])",
                    () => "a table",
                };
                self.fail(at, Fault::Form { path: path.to_owned(), is, written: other.type_str() })
            }
        }
    }

    fn number(&self, value: &Spanned<DeValue<'_>>, path: &str) -> Result<Condition, ExpectError> {
        let at = value.span().start;
        let written = match value.get_ref() {
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => number.to_string(),
                Err(_) => number.as_str().to_owned(),
            },
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::String(text) => text.clone().into_owned(),
            other => {
                let fault = Fault::Form { path: path.to_owned(), is: "a number", written: other.type_str() };
                return self.fail(at, fault);
            }
        };
        self.located(Condition::number(&written, path.ends_with("_bytes")), at, path)
    }

    fn located<T>(&self, result: Result<T, ConditionError>, at: usize, path: &str) -> Result<T, ExpectError> {
        result.or_else(|source| self.fail(at, Fault::Condition { path: path.to_owned(), source }))
    }
}

impl Check {
    /// As one would write it after its name.
    fn written(&self, name: &str) -> String {
        match self {
            Self::OneOf(conditions) => format!("{name} {}", one_of(conditions)),
            Self::Fields(fields) => {
                fields.iter().map(|(field, check)| check.written(&join(name, field))).collect::<Vec<_>>().join(", ")
            }
            Self::Holds(conditions) => {
                format!("{name} with {}", conditions.iter().map(Condition::to_string).collect::<Vec<_>>().join(" and "))
            }
            Self::Elements(kinds) => {
                kinds.iter().map(|kind| format!("{name} ({})", kind.name())).collect::<Vec<_>>().join(", ")
            }
            Self::Absent(true) => format!("no {name}"),
            Self::Absent(false) => format!("any {name}"),
            Self::Empty => format!("no {name}"),
        }
    }
}

impl Kind {
    fn name(&self) -> String {
        let of = if self.written.is_empty() { String::new() } else { format!(" with {}", self.written) };
        format!("{}{of}", self.count)
    }
}

fn compare_fields(fields: &Fields, found: Option<&Value>, path: &str, differences: &mut Vec<Difference>) {
    for (name, check) in fields {
        let found = found.and_then(|found| found.get(name)).filter(|found| !found.is_null());
        compare(check, found, &join(path, name), differences);
    }
}

fn compare(check: &Check, found: Option<&Value>, path: &str, differences: &mut Vec<Difference>) {
    let mut differ = |expected: String, found: Value, nearest| {
        differences.push(Difference { path: path.to_owned(), expected, found, nearest });
    };
    let list = || found.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    match check {
        Check::Fields(fields) => compare_fields(fields, found, path, differences),
        Check::OneOf(conditions) => {
            if !found.is_some_and(|found| conditions.iter().any(|condition| condition.holds(found))) {
                differ(one_of(conditions), found.cloned().unwrap_or_default(), None);
            }
        }
        Check::Holds(conditions) => {
            let missing = conditions.iter().filter(|condition| !list().iter().any(|found| condition.holds(found)));
            let missing: Vec<String> = missing.map(Condition::to_string).collect();
            if !missing.is_empty() {
                differ(format!("{} among them", missing.join(" and ")), found.cloned().unwrap_or_default(), None);
            }
        }
        Check::Elements(kinds) => {
            for kind in kinds {
                let faults: Vec<_> = list().iter().map(|element| kind.faults(element, path)).collect();
                let count = faults.iter().filter(|faults| faults.is_empty()).count();
                if !kind.count.holds(&count.into()) {
                    let too_few = (count..=faults.len()).any(|more| kind.count.holds(&more.into()));
                    differ(kind.name(), count.into(), too_few.then(|| nearest(&faults)).flatten());
                }
            }
        }
        Check::Absent(absent) => {
            let there = found.is_some_and(|found| !is_empty(found));
            if there == *absent {
                let expected = if *absent { "nothing" } else { "anything" };
                differ(expected.to_owned(), found.cloned().unwrap_or_default(), None);
            }
        }
        Check::Empty => {
            if !list().is_empty() {
                differ("none".to_owned(), found.cloned().unwrap_or_default(), None);
            }
        }
    }
}

impl Kind {
    fn faults(&self, element: &Value, path: &str) -> Vec<Difference> {
        let mut faults = Vec::new();
        compare_fields(&self.fields, Some(element), &fields::element_path(path, element), &mut faults);
        faults
    }
}

/// The element with the fewest faults, which is probably the one that is not as it should be.
fn nearest(faults: &[Vec<Difference>]) -> Option<String> {
    let faults = faults.iter().filter(|faults| !faults.is_empty()).min_by_key(|faults| faults.len())?;
    let first = faults.first()?;
    let more = if faults.len() > 1 { format!(" and {} more", faults.len() - 1) } else { String::new() };
    Some(format!("{} is {}{more}", first.path, found_text(&first.path, &first.found)))
}

fn one_of(conditions: &[Condition]) -> String {
    conditions.iter().map(Condition::to_string).collect::<Vec<_>>().join(" or ")
}

/// A found value on one line, in the words that an expectation of it could have.
pub(super) fn found_text(path: &str, found: &Value) -> String {
    match found {
        Value::Null => "nothing".to_owned(),
        Value::Array(values) if values.is_empty() => "nothing".to_owned(),
        Value::Array(values) if values.len() > MANY => format!("{} others", values.len()),
        Value::Array(values) if values.iter().all(|value| !value.is_object()) => {
            values.iter().map(|value| found_text(path, value)).collect::<Vec<_>>().join(", ")
        }
        Value::Array(values) => values.len().to_string(),
        Value::Object(_) => "some".to_owned(),
        plain => literal_bytes(path, plain).unwrap_or_else(|| plain.to_string()),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        schema,
        toy::{self, server},
    };
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Expectation, ExpectError> {
        Expectation::parse(text, &Shape::new(&toy::schema()))
    }

    fn differences(text: &str) -> Vec<String> {
        parse(text).unwrap().differences(&server()).iter().map(Difference::to_string).collect()
    }

    #[test]
    fn only_what_is_named_is_compared() {
        let met = r#"
            maker = ["B*", 'A\*']
            memory.installed_bytes = ">= 60 GiB, < 70 GiB"
            memory.ecc = true
            flaws.l1tf = "Vuln*"
            flaws.meltdown.absent = true
            memory.devices = [{ count = 3 }, { size_bytes = "32 GiB", ranks = [2], count = 2 }, { size_bytes.absent = true }]
        "#;
        assert_eq!(differences(met), [""; 0]);
        assert_eq!(differences(""), [""; 0]);
    }

    #[test]
    fn a_line_for_each_difference_in_the_order_of_the_file() {
        let other = r#"
            serial_number = "2"
            maker = ["B*", "C*"]
            flaws.l1tf = "!= Vuln*"
            flaws.meltdown = "Not affected"
            flaws.l1tf2.absent = false
            [memory]
            installed_bytes = "128 GiB"
            ecc.absent = true
            devices = []
        "#;
        let lines = [
            r#"serial_number: expected "2", found "1""#,
            r#"maker: expected "B*" or "C*", found "A*""#,
            r#"flaws.l1tf: expected "!= Vuln*", found "Vulnerable""#,
            r#"flaws.meltdown: expected "Not affected", found nothing"#,
            "flaws.l1tf2: expected anything, found nothing",
            "memory.installed_bytes: expected 128 GiB, found 64 GiB",
            "memory.ecc: expected nothing, found true",
            "memory.devices: expected none, found 3",
        ];
        assert_eq!(differences(other), lines);
    }

    #[test]
    fn elements_are_counted_and_the_nearest_is_named() {
        let lines = [
            "memory.devices: expected 3 with size_bytes 32 GiB, found 2; nearest: memory.devices[B1].size_bytes is nothing",
            "memory.devices: expected <= 1 with ranks with 1 and 2, found 3",
            "memory.devices: expected >= 1 with chips (>= 1 with maker \"x\"), found 0; nearest: memory.devices[A1].chips is 0",
        ];
        let other = r#"
            [[memory.devices]]
            count = 3
            size_bytes = "32 GiB"
            [[memory.devices]]
            count = "<= 1"
            ranks = [1, 2]
            [[memory.devices]]
            [[memory.devices.chips]]
            maker = "x"
        "#;
        assert_eq!(differences(other), lines);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        for (text, message) in [
            ("\nmakr = 'x'", "line 2: a report has no makr; did you mean maker?"),
            ("[memory.modules]", "line 1: a report has no memory.modules; known here: devices, ecc, installed_bytes"),
            ("memory.ecc = 'yes'", "line 1: memory.ecc is true or false, but the file has string"),
            ("memory = 1", "line 1: memory is a table, but the file has integer"),
            ("memory.devices = 1", "line 1: memory.devices is a list of tables ([[...]]), but the file has integer"),
            ("memory.devices = [1]", "line 1: memory.devices is a list of tables ([[...]]), but the file has integer"),
            ("[memory.devices]", "line 1: memory.devices is a list of tables ([[...]]), but the file has table"),
            ("maker = 1", "line 1: maker is a text, but the file has integer"),
            ("maker = '> 1'", "line 1: maker: `> 1` compares a text, which can only be equal or not (\"!= ...\")"),
            (
                "[[memory.devices]]\ncount = 'x'",
                "line 2: memory.devices.count: `x` is not a number; write one, or conditions such as \">= 64\" or \"> 1, <= 4\"",
            ),
            ("maker.absent = 'x'", "line 1: maker: `absent` must be the only key, and true or false"),
            ("maker = 2020-01-01", "line 1: maker is a text, but the file has datetime"),
            ("a = 'x\n", "line 1: not valid TOML: invalid literal string, expected `'`"),
        ] {
            assert_eq!(error(text), message, "{text}");
        }
    }

    #[test]
    fn numbers_may_be_written_as_toml_allows() {
        let met = "memory.installed_bytes = 0x10_0000_0000\n[[memory.devices]]\ncount = 0\nvolts = 1.5";
        assert_eq!(differences(met), [""; 0]);
    }

    #[test]
    fn no_field_of_a_report_is_named_as_a_word_of_the_language() {
        fn check(value: &Value) {
            let properties = value.get("properties").and_then(Value::as_object);
            for word in [COUNT, ABSENT] {
                assert!(!properties.is_some_and(|properties| properties.contains_key(word)), "{word} in {value}");
            }
            match value {
                Value::Object(object) => object.values().for_each(check),
                Value::Array(values) => values.iter().for_each(check),
                _ => {}
            }
        }
        check(&schema::report());
    }

    proptest! {
        #[test]
        fn no_file_panics(text in r#"([a-z]{1,3}|memory|devices|[\[\]{}=.,"' \n]|count|absent|[0-9]){0,20}"#) {
            if let Ok(expectation) = parse(&text) {
                expectation.differences(&server());
            }
        }
    }
}
