//! A page, played from top to bottom.

use std::collections::BTreeMap;

use crate::compare::compare;
use crate::page::{Ends, How, Page, Step, Typed};
use crate::stage::{Runtime, Stage};

/// How long one that goes on for ever is watched, in seconds.
const BRIEFLY: &str = "1";
/// How `timeout` ends when it had to say so.
const CUT_SHORT: i32 = 124;
/// How a program ends after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Told with every command of a cluster without Docker; no page shows it.
const NOTE: &str = "note: runtime sim: nothing real runs\n";

/// What was done with the commands of a page.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) ran: usize,
    /// Of these, how many in other words than those of the page.
    pub(crate) reworded: usize,
    /// Of these, how many had their output compared.
    pub(crate) compared: usize,
    /// Those that were not run, by reason.
    pub(crate) excused: BTreeMap<String, Vec<String>>,
}

impl Played {
    /// Says it, for who runs the tests.
    pub(crate) fn tell(&self, name: &str) {
        let excused: usize = self.excused.values().map(Vec::len).sum();
        if self.ran + excused == 0 {
            return;
        }
        let (ran, reworded, compared) = (self.ran, self.reworded, self.compared);
        eprintln!(
            "{name}: {ran} commands ran ({compared} with their output, {reworded} in other words), {excused} were only understood"
        );
        for (why, commands) in &self.excused {
            eprintln!("  {why}: {}", commands.join(" | "));
        }
    }
}

/// Plays a page, and with `PERSYS_TELL=1` says what each command printed, for who writes one. The first thing
/// that is not as the page says ends the test.
pub(crate) fn play(page: &Page, runtime: Runtime) -> Played {
    let mut played = Played::default();
    let has_commands = page.steps.iter().any(|step| matches!(step, Step::Type(_)));
    if !has_commands {
        return played;
    }
    let mut stage = Stage::set(page.nodes.as_deref(), runtime);
    for step in &page.steps {
        match step {
            Step::File { name, text } => stage.write(name, text),
            Step::Type(typed) => command(&mut stage, page, typed, &mut played),
        }
    }
    played
}

fn command(stage: &mut Stage, page: &Page, typed: &Typed, played: &mut Played) {
    let excuse = match &typed.how {
        How::Never(why) => Some(why),
        How::Live(why) if !stage.is_live() => Some(why),
        How::Live(_) | How::ToItsEnd | How::Briefly | How::Beside(_) => None,
    };
    if let Some(why) = excuse {
        played.excused.entry(why.clone()).or_default().push(typed.shown.clone());
        return;
    }
    played.ran += 1;
    played.reworded += usize::from(typed.command != typed.shown);
    let here = format!("{}:{}: {}", page.name, typed.line, typed.shown);
    let line = stage.meant(&typed.command);
    let (code, printed) = match &typed.how {
        How::Beside(ready) => {
            let ready = stage.meant(ready);
            let left = stage.shell.leaves(&line, &ready);
            left.unwrap_or_else(|why| panic!("{here}\n{line}\n{why}\n{}", stage.told()));
            return;
        }
        How::Briefly => {
            let line = format!("timeout --foreground -s INT {BRIEFLY} {line}");
            let (code, printed) = stage.shell.types(&line, typed.input.as_deref());
            let cut = matches!(code, CUT_SHORT | INTERRUPTED);
            (if cut { 0 } else { code }, printed)
        }
        How::ToItsEnd | How::Live(_) | How::Never(_) => {
            stage.shell.types(&line, typed.input.as_deref())
        }
    };
    if std::env::var_os("PERSYS_TELL").is_some() {
        eprintln!("{here}\n{printed}");
    }
    let as_said = typed.ends == Ends::Anyhow || typed.ends == Ends::With(code);
    assert!(as_said, "{here}\nended with {code}, and printed:\n{printed}\n{}", stage.told());
    if let Some(lines) = &typed.prints {
        played.compared += 1;
        let lines: Vec<String> = lines.iter().map(|line| stage.meant(line)).collect();
        let printed = printed.replace(NOTE, "");
        let same = compare(&lines, &printed);
        assert!(same.is_ok(), "{here}\n{}\nprinted was:\n{printed}", same.unwrap_err());
    }
}
