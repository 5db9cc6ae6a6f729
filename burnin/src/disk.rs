//! Disks: the whole device read in order; with leave to destroy it, written and read back.

mod device;
mod medium;
mod rate;
mod read;
mod test;
mod write;

use crate::{
    facts::Facts,
    load::Load,
    plan::{Kind, Planned, Request},
};
use read::Read;
use std::path::Path;
use test::Test;
use write::Write;

pub(crate) const KIND: Kind = Kind { name: medium::NAME, nice: 10, plan };

fn plan(facts: &Facts, request: &Request) -> Planned {
    let mut planned = Planned::default();
    for path in &request.destroyed {
        planned.text.push(format!("{}: write and read back. EVERYTHING ON IT IS LOST", path.display()));
        planned.loads.push(Box::new(Test::new(path, request.root.clone(), Write::default())));
    }
    let is_destroyed = |path: &Path| request.destroyed.iter().any(|other| other == path);
    let about =
        |path: &Path| facts.disks.iter().find(|disk| Path::new(&disk.path) == path).map(|disk| disk.about.as_str());
    let all = || facts.disks.iter().map(|disk| Path::new(&disk.path).to_owned()).collect();
    let named = request.disks.clone().unwrap_or_else(all);
    for path in named.iter().filter(|path| !is_destroyed(path)) {
        planned.text.push(format!("{}: read ({})", path.display(), about(path).unwrap_or("not listed")));
        planned.loads.push(Box::new(Test::new(path, request.root.clone(), Read::default())) as Box<dyn Load>);
    }
    if planned.loads.is_empty() {
        planned.not_tested.push("disk: this machine has none".to_owned());
    }
    planned
}
