//! The screen: a pure model that keys and events change, and that draws itself.

use crate::{
    facts::Facts,
    form::{Field, Form, Outcome},
    frame::{Frame, Style, wrapped},
    keys::Key,
    network::{self, Plan, Settings},
    network_manager::TRIAL_S,
};
use agent::{
    config,
    rendezvous::Place,
    status::{Configured, ServiceState, Snapshot, lines},
};
use api::InfraEnvId;

/// Below this nothing can be read.
const MIN_SIZE: (usize, usize) = (60, 16);
/// Where values begin.
const VALUE_COLUMN: usize = 13;
const BAR_CHARS: usize = 20;
/// Columns of values on the usual screen, and rows that stay in sight however far the page is scrolled.
const USUAL_WIDTH: usize = 66;
const STAYS: usize = 8;
/// Rows of the log below the status, at least.
const MIN_LOG: usize = 4;
const SHELL: &[&str] = &[
    "Press Alt+F2 for a login prompt on another screen, and Alt+F1 to come back.",
    "",
    "Log in as the user whose key or password the image was given. Then:",
    "  landfall agent status       the state of the agent, in full",
    "  landfall agent config       what is configured, and from where",
    "  landfall netcheck --help    checks of the network, one by one",
    "  journalctl -u agent         the whole log",
];
const SERVICE_HELP: &[&str] = &[
    "Up, Down: field    Enter: set it, and start the agent again    Esc: back",
    "Empty: what is configured elsewhere, as before.",
];
const RENDEZVOUS_HELP: &[&str] = &[
    "Enter: set it, and start the agent again    Esc: back",
    "The rack's machine that serves: ADDRESS, ADDRESS:PORT or https://ADDRESS.",
    "Empty: what is configured elsewhere, as before.",
];

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Action {
    Quit,
    /// Set at the console, in the place of what was set before.
    Set(Vec<(config::Key, String)>),
    Plan(Settings),
    Apply(Plan),
    /// The checkpoint of a trial.
    Keep(String),
    TakeBack(String),
}

/// What has happened.
#[derive(Debug)]
pub(crate) enum Event {
    Facts(Box<Facts>),
    Planned(Plan),
    Tried(Trial),
    Done(String),
    Refused(String),
}

/// A network that is taken back unless it is kept.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) checkpoint: String,
    /// What it is good for, and whether that is well.
    pub(crate) report: Vec<(bool, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Network,
    Service,
    Rendezvous,
}

#[derive(Debug)]
enum Page {
    Status,
    Log,
    Shell,
    Form(Purpose, Form),
    Plan(Plan),
    /// Until this second.
    Trial(Trial, u64),
}

#[derive(Debug)]
pub(crate) struct Screen {
    offers_quit: bool,
    facts: Facts,
    log: Vec<String>,
    page: Page,
    /// Lines that the page is scrolled by: down, in the log up from its end.
    scroll: usize,
    /// What runs.
    busy: Option<&'static str>,
    /// How the last thing ended, and whether well.
    notice: Option<(bool, String)>,
    now_s: u64,
}

impl Screen {
    pub(crate) fn new(offers_quit: bool) -> Self {
        let (facts, log, page) = (Facts::default(), Vec::new(), Page::Status);
        Self { offers_quit, facts, log, page, scroll: 0, busy: None, notice: None, now_s: 0 }
    }

    pub(crate) fn key(&mut self, key: Key) -> Option<Action> {
        if key == Key::Interrupt && self.offers_quit {
            return Some(Action::Quit);
        }
        match &mut self.page {
            Page::Form(purpose, form) => {
                let purpose = *purpose;
                match form.key(key) {
                    Outcome::Stays => None,
                    Outcome::Left => self.turn(Page::Status),
                    Outcome::Submitted => self.submit(purpose),
                }
            }
            Page::Plan(plan) => match key {
                Key::Enter if self.busy.is_none() => {
                    let action = Action::Apply(plan.clone());
                    self.start("applying the network, which takes up to a minute", action)
                }
                Key::Escape => self.turn(Page::Status),
                key => self.scroll(key),
            },
            Page::Trial(trial, _) if self.busy.is_none() => match key {
                Key::Char('k' | 'K') => {
                    let action = Action::Keep(trial.checkpoint.clone());
                    self.start("keeping the network", action)
                }
                Key::Char('t' | 'T') | Key::Escape => {
                    let action = Action::TakeBack(trial.checkpoint.clone());
                    self.start("taking the network back", action)
                }
                _ => None,
            },
            Page::Trial(..) => None,
            Page::Status | Page::Log | Page::Shell => self.open(key),
        }
    }

    /// A key on a page that is only read.
    fn open(&mut self, key: Key) -> Option<Action> {
        match key {
            Key::Char('q') if self.offers_quit => return Some(Action::Quit),
            Key::Char('l') | Key::Tab => {
                let is_log = matches!(self.page, Page::Log);
                return self.turn(if is_log { Page::Status } else { Page::Log });
            }
            Key::Escape => return self.turn(Page::Status),
            Key::Char('c') => return self.turn(Page::Shell),
            Key::Char('n') => {
                let ethernet = self.facts.interfaces.iter().filter(|interface| interface.is_ethernet);
                let names = ethernet.map(|interface| interface.name.clone()).collect();
                return self.turn(Page::Form(Purpose::Network, network::form(names)));
            }
            Key::Char('s') => return self.turn(Page::Form(Purpose::Service, self.service_form())),
            Key::Char('r') => {
                let place = match &self.facts.view.configured {
                    Configured::Rendezvous(place) => place.to_string(),
                    _ => String::new(),
                };
                let place = place.strip_prefix("http://").unwrap_or(&place);
                let fields = vec![Field::text("Address", place)];
                return self.turn(Page::Form(Purpose::Rendezvous, Form::new("Rendezvous", RENDEZVOUS_HELP, fields)));
            }
            _ => {}
        }
        self.scroll(key)
    }

    fn scroll(&mut self, key: Key) -> Option<Action> {
        let is_log = matches!(self.page, Page::Log);
        let (back, forth) = if is_log { (10_isize, -10) } else { (-10, 10) };
        let by = match key {
            Key::Up => back / 10,
            Key::Down => forth / 10,
            Key::PageUp => back,
            Key::PageDown => forth,
            Key::Home => back.saturating_mul(1000),
            Key::End => forth.saturating_mul(1000),
            _ => 0,
        };
        let most = match &self.page {
            Page::Log => self.log.len(),
            Page::Plan(plan) => plan.lines().len().saturating_sub(STAYS),
            _ => self.status(USUAL_WIDTH).len().saturating_sub(STAYS),
        };
        self.scroll = self.scroll.saturating_add_signed(by).min(most);
        None
    }

    fn turn(&mut self, page: Page) -> Option<Action> {
        (self.page, self.scroll, self.notice) = (page, 0, None);
        None
    }

    fn start(&mut self, what: &'static str, action: Action) -> Option<Action> {
        (self.busy, self.notice) = (Some(what), None);
        Some(action)
    }

    fn snapshot(&self) -> Option<&Snapshot> {
        self.facts.view.agent.as_ref().map(|(snapshot, _)| snapshot)
    }

    fn service_form(&self) -> Form {
        let known = self.snapshot().map(|now| now.service.url.as_str());
        let url = match &self.facts.view.configured {
            Configured::Service(url) => url,
            _ => known.unwrap_or_default(),
        };
        let infra_env = self.snapshot().and_then(|now| now.infra_env_id).map(|id| id.to_string());
        let fields = vec![Field::text("URL", url), Field::text("Infra-env (UUID)", &infra_env.unwrap_or_default())];
        Form::new("Service", SERVICE_HELP, fields)
    }

    /// What a form asks for, unless one of its fields is wrong.
    fn submit(&mut self, purpose: Purpose) -> Option<Action> {
        let Page::Form(_, form) = &mut self.page else { return None };
        if self.busy.is_some() {
            return None;
        }
        let parsed = match purpose {
            Purpose::Network => network::parse(form).map(|settings| ("making the profiles", Action::Plan(settings))),
            Purpose::Service => service(form).map(|values| ("setting the service", Action::Set(values))),
            Purpose::Rendezvous => rendezvous(form).map(|values| ("setting the rendezvous", Action::Set(values))),
        };
        match parsed {
            Ok((what, action)) => {
                form.error = None;
                self.start(what, action)
            }
            Err((field, error)) => {
                (form.focus, form.error) = (field, Some(error));
                None
            }
        }
    }

    pub(crate) fn take(&mut self, event: Event) {
        match event {
            Event::Facts(mut facts) => {
                if let Some(log) = facts.log.take() {
                    self.log = log;
                }
                self.facts = *facts;
                return;
            }
            Event::Planned(plan) => drop(self.turn(Page::Plan(plan))),
            Event::Tried(trial) => drop(self.turn(Page::Trial(trial, self.now_s + u64::from(TRIAL_S)))),
            Event::Done(text) => {
                self.turn(Page::Status);
                self.notice = Some((true, text));
            }
            Event::Refused(text) => match &mut self.page {
                Page::Form(_, form) if self.busy.is_some() => form.error = Some(text),
                _ => {
                    self.turn(Page::Status);
                    self.notice = Some((false, text));
                }
            },
        }
        self.busy = None;
    }

    /// The time, in seconds of a clock that is never set.
    pub(crate) fn tick(&mut self, now_s: u64) {
        self.now_s = now_s;
        if matches!(&self.page, Page::Trial(_, until_s) if *until_s <= now_s) {
            self.turn(Page::Status);
            (self.busy, self.notice) = (None, Some((false, "not kept: the network is as it was".to_owned())));
        }
    }

    pub(crate) fn draw(&self, width: usize, height: usize) -> Frame {
        let mut frame = Frame::new(width, height);
        if width < MIN_SIZE.0 || height < MIN_SIZE.1 {
            let text =
                format!("This screen has {width}x{height} characters, and {}x{} are needed.", MIN_SIZE.0, MIN_SIZE.1);
            for (row, line) in wrapped(&text, width).iter().enumerate() {
                frame.put(row, 0, line, Style::Plain);
            }
            return frame;
        }
        let now = self.facts.now.to_string();
        let clock = now.get(..19).filter(|_| !self.facts.now.is_zero()).map(|now| now.replace('T', " ") + " UTC ");
        frame.bar(0, &format!("Landfall  {}", self.facts.view.name), &clock.unwrap_or_default());
        match &self.page {
            Page::Status => self.draw_status(&mut frame, width, height),
            Page::Log => {
                let title = format!("Log of the agent, {} lines", self.log.len());
                frame.put(1, 1, &title, Style::Bold);
                self.draw_log(&mut frame, 2, height - 4, self.scroll);
            }
            Page::Shell => {
                frame.put(1, 1, "How to log in", Style::Bold);
                SHELL.iter().enumerate().for_each(|(row, line)| frame.put(row + 3, 1, line, Style::Plain));
            }
            Page::Form(_, form) => form.draw(&mut frame, width),
            Page::Plan(plan) => self.draw_plan(plan, &mut frame, height),
            Page::Trial(trial, until_s) => {
                let left = until_s.saturating_sub(self.now_s);
                frame.put(1, 1, &format!("The new network is taken back in {left} s unless you keep it"), Style::Bold);
                let mut row = 3;
                for (is_well, text) in &trial.report {
                    for line in wrapped(text, width - 2) {
                        frame.put(row, 1, &line, if *is_well { Style::Green } else { Style::Red });
                        row += 1;
                    }
                }
            }
        }
        let (text, style) = match (self.busy, &self.notice) {
            (Some(what), _) => (format!("{what} ..."), Style::Bold),
            (None, Some((true, text))) => (text.clone(), Style::Green),
            (None, Some((false, text))) => (text.clone(), Style::Red),
            (None, None) => (String::new(), Style::Plain),
        };
        if !text.is_empty() {
            frame.put(height - 2, 0, &" ".repeat(width), Style::Plain);
            frame.put(height - 2, 1, &text, style);
        }
        frame.bar(height - 1, &self.keys(), "");
        frame
    }

    /// The keys that mean something now.
    fn keys(&self) -> String {
        let keys = match &self.page {
            Page::Form(..) => "Enter: continue  Esc: back",
            Page::Plan(_) => "Enter: apply for a trial  Up, Down: scroll  Esc: back",
            Page::Trial(..) => "k: keep  t: take back",
            Page::Log => "Up, Down, PgUp, PgDn: scroll  Tab, Esc: back",
            Page::Status | Page::Shell => "n network  s service  r rendezvous  l log  c shell",
        };
        let quits = self.offers_quit && matches!(self.page, Page::Status | Page::Log | Page::Shell);
        format!("{keys}{}", if quits { "  q quit" } else { "" })
    }

    fn draw_status(&self, frame: &mut Frame, width: usize, height: usize) {
        let status = self.status(width.saturating_sub(VALUE_COLUMN + 1));
        // Between the bars, without the notice's row.
        let rows = height - 3;
        let shown = status.len().min(rows - MIN_LOG - 1);
        let start = if shown < status.len() { self.scroll.min(status.len() - 1) } else { 0 };
        for (row, (name, text, style)) in status.iter().skip(start).take(shown).enumerate() {
            frame.put(row + 1, 1, name, Style::Plain);
            frame.put(row + 1, VALUE_COLUMN, text, *style);
        }
        let more = if shown < status.len() { " Up, Down: more above " } else { "" };
        frame.put(shown + 1, 0, &format!("{:-<width$}", format!("-- log {more}")), Style::Plain);
        self.draw_log(frame, shown + 2, rows - shown - 1, 0);
    }

    /// Names, texts and their styles, a row each.
    fn status(&self, width: usize) -> Vec<(&'static str, String, Style)> {
        let mut rows = Vec::new();
        let mut add = |name, text: &str, style| {
            let broken = wrapped(text, width).into_iter().enumerate();
            rows.extend(broken.map(|(index, text)| (if index == 0 { name } else { "" }, text, style)));
        };
        let snapshot = self.snapshot();
        for (name, text) in lines(&self.facts.view) {
            let is_reachable = snapshot.is_some_and(|now| now.service.state == ServiceState::Reachable);
            match name {
                // They are in the bar, and below.
                "name" | "addresses" => {}
                "error" => add(name, &text, Style::Red),
                "to do" => add(name, &text, Style::Bold),
                "stage" => add(name, &format!("{}{text}", progress(snapshot).unwrap_or_default()), Style::Plain),
                "service" => add(name, &text, if is_reachable { Style::Green } else { Style::Plain }),
                _ => add(name, &text, Style::Plain),
            }
        }
        if let Some(problem) = &self.facts.problem {
            add("error", problem, Style::Red);
        }
        for (index, interface) in self.facts.interfaces.iter().enumerate() {
            let name = if index == 0 { "network" } else { "" };
            let text = format!(
                "{:<10} {:<8} {:<17} {}",
                interface.name,
                interface.state,
                interface.mac,
                interface.addresses.join(" ")
            );
            // Columns are as they are: only what does not fit is broken.
            if text.chars().count() <= width {
                rows.push((name, text, Style::Plain));
            } else {
                let broken = wrapped(&text, width).into_iter().enumerate();
                rows.extend(broken.map(|(index, text)| (if index == 0 { name } else { "" }, text, Style::Plain)));
            }
        }
        let results = || snapshot.into_iter().flat_map(|now| &now.last_results);
        let failed = results().filter(|(_, last)| last.exit_code != 0);
        let failed: Vec<_> =
            failed.map(|(kind, last)| format!("{kind} failed ({}) at {}", last.exit_code, last.at)).collect();
        let well: Vec<_> = results().filter(|(_, last)| last.exit_code == 0).map(|(kind, _)| kind.as_str()).collect();
        let mut name = "checks";
        for text in failed {
            let broken = wrapped(&text, width).into_iter();
            rows.extend(broken.map(|text| (std::mem::take(&mut name), text, Style::Red)));
        }
        if !well.is_empty() {
            let broken = wrapped(&format!("ok: {}", well.join(", ")), width).into_iter();
            rows.extend(broken.map(|text| (std::mem::take(&mut name), text, Style::Plain)));
        }
        rows
    }

    /// The end of the log, without its last `skipped` lines.
    fn draw_log(&self, frame: &mut Frame, row: usize, rows: usize, skipped: usize) {
        let end = self.log.len().saturating_sub(skipped).max(rows.min(self.log.len()));
        let start = end.saturating_sub(rows);
        for (index, line) in self.log.iter().take(end).skip(start).enumerate() {
            frame.put(row + index, 1, line, Style::Plain);
        }
    }

    fn draw_plan(&self, plan: &Plan, frame: &mut Frame, height: usize) {
        frame.put(1, 1, "These profiles are written to /etc/NetworkManager/system-connections", Style::Bold);
        let texts = plan.lines();
        let rows = height - 5;
        for (index, line) in texts.iter().skip(self.scroll).take(rows).enumerate() {
            frame.put(index + 3, 1, line, Style::Plain);
        }
    }
}

/// `[##########----------] `, if the stage has a percentage.
fn progress(snapshot: Option<&Snapshot>) -> Option<String> {
    let percent: usize = snapshot?.stage.as_ref()?.info.trim().strip_suffix('%')?.parse().ok()?;
    let done = percent.min(100) * BAR_CHARS / 100;
    Some(format!("[{}{}] ", "#".repeat(done), "-".repeat(BAR_CHARS - done)))
}

/// The values of the service's form; else the field that is wrong, and why.
fn service(form: &Form) -> Result<Vec<(config::Key, String)>, (usize, String)> {
    let (url, infra_env) = (form.get(0), form.get(1));
    if url.is_empty() {
        return Ok(Vec::new());
    }
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let is_url = host.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', '?', '#', ':']));
    if !is_url || url.contains(char::is_whitespace) {
        return Err((0, format!("'{url}' is not a URL: expected http://HOST[:PORT] or https://HOST[:PORT]")));
    }
    infra_env.parse::<InfraEnvId>().map_err(|error| (1, format!("'{infra_env}': {error}")))?;
    Ok(vec![(config::Key::Url, url.to_owned()), (config::Key::InfraEnvId, infra_env.to_owned())])
}

fn rendezvous(form: &Form) -> Result<Vec<(config::Key, String)>, (usize, String)> {
    let place = form.get(0);
    if place.is_empty() {
        return Ok(Vec::new());
    }
    place.parse::<Place>().map_err(|error| (0, error.to_string()))?;
    Ok(vec![(config::Key::Rendezvous, place.to_owned())])
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
