//! State machines as tables: rows of (trigger, states, conditions → state, text, effects), the first that matches wins.
//!
//! One small function reads the rows, and the same rows print themselves: no second account of them can be wrong.

use std::fmt::{Debug, Display, Write};

/// A kind of state machine.
pub(crate) trait Machine: Sized + 'static {
    type State: Copy + Eq + Display + 'static;
    /// What sets it going.
    type Trigger: Copy + Eq + Debug + 'static;
    /// What it decides on, besides state and trigger.
    type Facts;
    /// What a transition does besides changing state and text.
    type Effect: Copy + Debug + 'static;
}

/// A condition that can name itself.
pub(crate) struct Cond<M: Machine> {
    /// For people.
    pub(crate) text: &'static str,
    pub(crate) holds: fn(&M::Facts) -> bool,
    /// Whether it must not hold.
    pub(crate) negated: bool,
}

impl<M: Machine> Cond<M> {
    pub(crate) const fn new(text: &'static str, holds: fn(&M::Facts) -> bool) -> Self {
        Self { text, holds, negated: false }
    }

    /// Its contrary.
    pub(crate) const fn not(self) -> Self {
        Self { text: self.text, holds: self.holds, negated: !self.negated }
    }
}

/// Where a transition leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To<S> {
    /// To this state, which may be the present one.
    Enter(S),
    /// Nowhere.
    Stay,
    /// To an answer with this HTTP status; the text is its message.
    Refuse(u16),
}

/// The status text after a transition.
pub(crate) enum Info<M: Machine> {
    Keep,
    /// Always this.
    Text(&'static str),
    /// Made of the facts: what it tells, and how it is made.
    Made(&'static str, fn(&M::Facts) -> String),
}

pub(crate) struct Row<M: Machine> {
    /// See docs/compatibility.md#host-states.
    pub(crate) id: &'static str,
    /// What sets it going.
    pub(crate) on: M::Trigger,
    /// The states it leads from; empty: there is no record yet.
    pub(crate) from: &'static [M::State],
    /// All of these must hold.
    pub(crate) when: &'static [Cond<M>],
    pub(crate) to: To<M::State>,
    pub(crate) info: Info<M>,
    /// What it does besides.
    pub(crate) effects: &'static [M::Effect],
}

/// Rows in the order they are tried: id, trigger, states, conditions, target, text, effects.
macro_rules! rows {
    ($($id:literal $on:ident [$($from:ident)*] if [$($when:ident)*] => $to:expr, $info:expr, [$($effect:expr),*];)+) => {
        &[$(Row {
            id: $id,
            on: Trigger::$on,
            from: &[$(S::$from),*],
            when: &[$($when),*],
            to: $to,
            info: $info,
            effects: &[$($effect),*],
        }),+]
    };
}
pub(super) use rows;

/// What the row that matched asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<S, X: 'static> {
    pub(crate) id: &'static str,
    /// State to enter; none leaves it.
    pub(crate) to: Option<S>,
    /// New status text; none leaves it.
    pub(crate) info: Option<String>,
    /// What to do besides.
    pub(crate) effects: &'static [X],
}

/// A trigger that leads to no step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No row matches.
    NoRow,
    /// A row says so, with an HTTP status and a message.
    Row(&'static str, u16, String),
}

/// The step of the first row that matches. `state` is none for a record that is yet to be made.
pub(crate) fn step<M: Machine>(
    rows: &'static [Row<M>],
    on: M::Trigger,
    state: Option<M::State>,
    facts: &M::Facts,
) -> Result<Step<M::State, M::Effect>, Refused> {
    let matches = |row: &&Row<M>| {
        row.on == on
            && state.map_or(row.from.is_empty(), |state| row.from.contains(&state))
            && row.when.iter().all(|cond| (cond.holds)(facts) != cond.negated)
    };
    let row = rows.iter().find(matches).ok_or(Refused::NoRow)?;
    let info = match row.info {
        Info::Keep => None,
        Info::Text(text) => Some(text.to_owned()),
        Info::Made(_, make) => Some(make(facts)),
    };
    let to = match row.to {
        To::Enter(to) => Some(to),
        To::Stay => None,
        To::Refuse(status) => return Err(Refused::Row(row.id, status, info.unwrap_or_default())),
    };
    Ok(Step { id: row.id, to, info, effects: row.effects })
}

/// The rows as a Markdown table.
pub(crate) fn markdown<M: Machine>(rows: &[Row<M>]) -> String {
    let mut text = "| row | on | from | if | to | status_info | effects |\n|---|---|---|---|---|---|---|\n".to_owned();
    for row in rows {
        let list = |items: Vec<String>| items.join(", ");
        let from = match row.from {
            [] => "(new)".to_owned(),
            states => list(states.iter().map(|state| format!("`{state}`")).collect()),
        };
        let when = row.when.iter().map(|cond| format!("{}{}", if cond.negated { "not " } else { "" }, cond.text));
        let to = match row.to {
            To::Enter(state) => format!("`{state}`"),
            To::Stay => "stays".to_owned(),
            To::Refuse(status) => format!("refused, {status}"),
        };
        let info = match row.info {
            Info::Keep => String::new(),
            Info::Text(text) => text.to_owned(),
            Info::Made(what, _) => format!("*{what}*"),
        };
        let effects = list(row.effects.iter().map(|effect| format!("{effect:?}")).collect());
        let when = when.collect::<Vec<_>>().join("; ");
        // Writing into a text can't fail.
        let _ = writeln!(text, "| {} | {:?} | {from} | {when} | {to} | {info} | {effects} |", row.id, row.on);
    }
    text
}

/// The rows as a Mermaid state diagram: an edge for each two states that some row leads between, with the rows' ids.
pub(crate) fn picture<M: Machine>(rows: &[Row<M>]) -> String {
    let mut edges: Vec<(String, String, Vec<&str>)> = Vec::new();
    for row in rows {
        let To::Enter(to) = row.to else { continue };
        let start = row.from.is_empty().then(|| "[*]".to_owned());
        for from in start.into_iter().chain(row.from.iter().filter(|from| **from != to).map(node)) {
            match edges.iter_mut().find(|edge| edge.0 == from && edge.1 == node(&to)) {
                Some(edge) => edge.2.push(row.id),
                None => edges.push((from, node(&to), vec![row.id])),
            }
        }
    }
    let mut text = "stateDiagram-v2\n".to_owned();
    for (from, to, ids) in edges {
        let _ = writeln!(text, "    {from} --> {to} : {}", ids.join(" "));
    }
    text
}

/// Mermaid takes no hyphen in a name.
fn node(state: &impl Display) -> String {
    state.to_string().replace('-', "_")
}
