//! The override of a schedule, and ticks.

use serde_json::Value;

use super::super::command::Call;
use super::super::worker::Worker;
use super::json::word;
use super::linear::Object;

const CRONS: [&str; 5] = ["5 4 1 1 *", "6 4 1 1 *", "7 4 2 1 *", "* * *", "99 * * * *"];
const ZONES: [&str; 4] = ["UTC", "Europe/Berlin", "Asia/Tokyo", "Mars/Base"];

/// A schedule that only one worker overrides.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    name: String,
    /// The effective value of each key, and whether it is overridden.
    enabled: (String, bool),
    cron: (String, bool),
    zone: (String, bool),
}

/// A change of the override.
#[derive(Clone, Debug)]
pub enum Command {
    /// Overrides or unsets keys.
    Set { enable: Option<bool>, cron: Option<&'static str>, zone: Option<&'static str>, unset: Option<&'static str> },
    /// Removes the override.
    Clear,
}

impl Override {
    fn base(name: &str) -> Self {
        let base = |text: &str| (text.to_owned(), false);
        Self { name: name.to_owned(), enabled: base("true"), cron: base(CRONS[0]), zone: base("UTC") }
    }

    fn field(&mut self, key: &str) -> &mut (String, bool) {
        match key {
            "enabled" => &mut self.enabled,
            "cron" => &mut self.cron,
            _ => &mut self.zone,
        }
    }
}

impl Object for Override {
    type Command = Command;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn call(&self, command: &Command) -> Call {
        let Command::Set { enable, cron, zone, unset } = command else {
            return Call::new(&["schedules", "clear", &self.name]);
        };
        let mut call = Call::new(&["schedules", "set", &self.name]);
        if let Some(enable) = enable {
            call = call.word(if *enable { "--enable" } else { "--disable" });
        }
        for (flag, value) in [("--cron", cron), ("--zone", zone), ("--unset", unset)] {
            if let Some(value) = value {
                call = call.word(flag).word(*value);
            }
        }
        call
    }

    fn apply(&self, command: &Command, _: Option<&Value>) -> Vec<Self> {
        let base = Self::base(&self.name);
        let mut next = self.clone();
        let Command::Set { enable, cron, zone, unset } = command else {
            let overridden = [&self.enabled, &self.cron, &self.zone].iter().any(|field| field.1);
            return if overridden { vec![base] } else { Vec::new() };
        };
        if let Some(enable) = enable {
            next.enabled = (enable.to_string(), true);
        }
        if let Some(cron) = cron {
            next.cron = ((*cron).to_owned(), true);
        }
        if let Some(zone) = zone {
            next.zone = ((*zone).to_owned(), true);
        }
        if let Some(key) = unset {
            *next.field(key) = base.clone().field(key).clone();
        }
        let wrong = cron.is_some_and(|cron| CRONS[3..].contains(&cron)) || zone.is_some_and(|zone| zone == ZONES[3]);
        if wrong { Vec::new() } else { vec![next] }
    }
}

impl Worker {
    /// Runs one step with schedules: a tick, or a change of this worker's override.
    pub fn schedule_step(&mut self) {
        if self.chance(60) {
            return self.tick();
        }
        let name = format!("own-{}", self.id);
        let known = self.owned.overrides.take().unwrap_or_else(|| Override::base(&name));
        let command = if self.chance(20) { Command::Clear } else { self.override_command() };
        self.owned.overrides = self.attempt(&known, vec![command], |worker| worker.read_override(&name));
    }

    fn override_command(&mut self) -> Command {
        let keys = ["enabled", "cron", "zone"];
        let mut some = |values: &[&'static str]| self.chance(50).then(|| values[self.below(values.len())]);
        let (cron, zone, enable) = (some(&CRONS), some(&ZONES), some(&["yes", "no"]));
        // A key is set or unset, not both.
        let free: Vec<&'static str> = keys
            .into_iter()
            .zip([enable.is_some(), cron.is_some(), zone.is_some()])
            .filter_map(|(key, set)| (!set).then_some(key))
            .collect();
        let unset = free.first().copied().filter(|_| cron.is_none() || self.chance(30));
        Command::Set { enable: enable.map(|word| word == "yes"), cron, zone, unset }
    }

    fn read_override(&mut self, name: &str) -> Option<Override> {
        let done = self.run_clean(&Call::new(&["schedules", "show", name]));
        let schedule = done.ran.answer()?["schedule"].clone();
        let field = |key: &str| {
            let value = &schedule[key];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (text, word(&schedule, &format!("{key}_source")) == "override")
        };
        Some(Override { name: name.to_owned(), enabled: field("enabled"), cron: field("cron"), zone: field("zone") })
    }
}
