//! `size TABLE PROGRAM=MAP:BUDGET...`: how many bytes of each program are whose, beside what the table of the last commit says.
//!
//! Ends with 1 where a program has more bytes than its budget. With `WRITE_SIZES=1` the table is written anew.

mod map;

use std::{collections::BTreeMap, env, fs, process::ExitCode};

/// Crates with fewer bytes than these are printed as one.
const SMALL_BYTES: u64 = 8 << 10;
/// The row of a whole program.
const FILE: &str = "file";

/// Bytes by program and crate.
type Table = BTreeMap<(String, String), u64>;

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("size: error: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Whether all programs are within their budgets.
fn run(arguments: &[String]) -> Result<bool, String> {
    let (path, programs) = arguments.split_first().ok_or("usage: size TABLE PROGRAM=MAP:BUDGET...")?;
    let before = read(&fs::read_to_string(path).unwrap_or_default())?;
    let mut now = Table::new();
    let mut is_within = true;
    for program in programs {
        let (file, rest) = program.split_once('=').ok_or_else(|| format!("{program} has no ="))?;
        let (map, budget) = rest.rsplit_once(':').ok_or_else(|| format!("{program} has no budget"))?;
        let budget: u64 = budget.parse().map_err(|_| format!("{budget} is not a number of bytes"))?;
        let name = file.rsplit('/').next().unwrap_or(file);
        let found = measure(file, map)?;
        let bytes = found.get(FILE).copied().unwrap_or_default();
        print(name, &found, &before);
        let verdict = if bytes <= budget { "within" } else { "over" };
        println!("size: {name} has {bytes} bytes, {verdict} its budget of {budget}\n");
        is_within &= bytes <= budget;
        now.extend(found.into_iter().map(|(owner, bytes)| ((name.to_owned(), owner), bytes)));
    }
    if env::var_os("WRITE_SIZES").is_some() {
        fs::write(path, write(&now)).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(is_within)
}

fn measure(file: &str, map: &str) -> Result<BTreeMap<String, u64>, String> {
    let bytes = fs::metadata(file).map_err(|error| format!("{file}: {error}"))?.len();
    let map = fs::read(map).map_err(|error| format!("{map}: {error}"))?;
    let mut found = BTreeMap::new();
    let mut rest = 0;
    for (owner, bytes) in map::bytes_by_crate(&String::from_utf8_lossy(&map)) {
        if bytes < SMALL_BYTES {
            rest += bytes;
        } else {
            found.insert(owner, bytes);
        }
    }
    found.insert("smaller ones".into(), rest);
    found.insert(FILE.into(), bytes);
    Ok(found)
}

fn print(name: &str, found: &BTreeMap<String, u64>, before: &Table) {
    let mut rows: Vec<_> = found.iter().collect();
    rows.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    println!("{name}: bytes, and the difference to the last commit");
    for (owner, bytes) in rows {
        let difference = match before.get(&(name.to_owned(), owner.clone())) {
            Some(before) if before == bytes => String::new(),
            Some(before) if before < bytes => format!("+{}", bytes - before),
            Some(before) => format!("-{}", before - bytes),
            None => "new".into(),
        };
        println!("{bytes:>10} {difference:>9}  {owner}");
    }
}

/// A line for each: program, crate, bytes.
fn read(text: &str) -> Result<Table, String> {
    let row = |line: &str| {
        let [program, owner, bytes] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        Some(((program.to_owned(), owner.to_owned()), bytes.parse().ok()?))
    };
    text.lines().map(|line| row(line).ok_or_else(|| format!("not a row of the table: {line}"))).collect()
}

fn write(table: &Table) -> String {
    table.iter().map(|((program, owner), bytes)| format!("{program}\t{owner}\t{bytes}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_is_written() {
        let table = Table::from([(("a".into(), "b".into()), 3), (("a".into(), "[c d]".into()), 5)]);
        assert_eq!(read(&write(&table)).unwrap(), table);
        assert!(read("a\tb\n").is_err() && read("a\tb\tc\n").is_err());
    }
}
