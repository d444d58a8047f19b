//! Words that people bring along from docker, kubectl, nomad and virsh.
//!
//! Those with the same meaning here are understood ([`translated`]); the others are answered with the
//! command to type instead ([`advice`]). A word of ours is never read as one of theirs.

mod flags;
mod words;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::problem::Problem;

/// What was typed, in our words.
pub(crate) fn translated(typed: Vec<OsString>) -> Vec<OsString> {
    let plain: Vec<&str> = typed.iter().map_while(|word| word.to_str()).collect();
    let is_option = |word: &&str| word.starts_with('-');
    let help = |word: &&str| ["-h", "--help"].contains(word);
    if let [kind, rest @ ..] = plain.as_slice()
        && rest.iter().all(is_option)
        && !rest.iter().any(help)
        && let Some((_, ours)) = words::ALONE.iter().find(|(name, _)| name == kind)
    {
        let options = typed.iter().skip(1).cloned();
        return ours.iter().map(OsString::from).chain(options).collect();
    }
    for known in words::SAME {
        if !plain.starts_with(known.theirs) {
            continue;
        }
        let rest = typed.get(known.theirs.len()..).unwrap_or_default();
        let named = rest.iter().any(|word| !word.to_string_lossy().starts_with('-'));
        let ours = if named { known.ours } else { known.ours_alone };
        return ours.iter().map(OsString::from).chain(rest.iter().cloned()).collect();
    }
    typed
}

/// The command that lists what kubectl calls by this word.
pub(crate) fn listing(word: &str) -> Option<&'static [&'static str]> {
    words::KINDS.iter().find(|(names, _)| names.contains(&word)).map(|(_, ours)| *ours)
}

/// What to type instead of what was not understood.
pub(crate) fn advice(typed: &[OsString], error: &clap::Error) -> Option<Problem> {
    let all: Vec<&str> = typed.iter().filter_map(|word| word.to_str()).collect();
    let wrong = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(_) | None => None,
    };
    if error.kind() == ErrorKind::InvalidSubcommand {
        let known = words::OTHER.iter().filter(|known| all.starts_with(known.theirs));
        let known = known.max_by_key(|known| known.theirs.len())?;
        let what = format!("there is no command {:?}", known.theirs.join(" "));
        return Some(told(what, &all, None, (known.why, known.next)));
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let flag = wrong(ContextKind::InvalidArg)?;
    let command = all.iter().find(|word| !word.starts_with('-'))?;
    let command = if *command == "rm" { "delete" } else { command };
    if let Some(kind) = all.get(1).filter(|_| ["get", "describe"].contains(&command))
        && let Some(problem) = of_kind(&all, kind, flag)
    {
        return Some(problem);
    }
    let flag = flag.split('=').next().unwrap_or(flag);
    let known = flags::OTHER
        .iter()
        .find(|known| known.commands.contains(&command) && known.flags.contains(&flag))?;
    Some(told(format!("{command} has no {flag}"), &all, Some(flag), (known.why, known.next)))
}

/// `get pod web` and `get node n1`: the kind is not typed here.
fn of_kind(all: &[&str], kind: &str, name: &str) -> Option<Problem> {
    let singular = |names: &&[&str]| names.contains(&kind) || names.contains(&&*format!("{kind}s"));
    let (_, ours) = words::KINDS.iter().find(|(names, _)| singular(names))?;
    let shows = match *ours {
        ["nodes"] => "node get ",
        ["disk", "list"] => "disk get ",
        _ => "get ",
    };
    let command = all.first().unwrap_or(&"get");
    Some(
        Problem::usage(format!("{command} takes a name without a kind before it"))
            .next(format!("persys {shows}{name}")),
    )
}

/// `{last}` is the last name that was typed, `{value}` what stands behind the flag.
fn told(what: String, all: &[&str], flag: Option<&str>, (why, next): (&str, &[&str])) -> Problem {
    let at = flag.and_then(|flag| all.iter().position(|word| word.starts_with(flag)));
    let value = at.and_then(|at| {
        let own = all.get(at).and_then(|word| word.split_once('=')).map(|(_, value)| value);
        own.or_else(|| all.get(at.saturating_add(1)).copied())
    });
    let last = all.iter().skip(1).rev().find(|word| !word.starts_with('-'));
    let mut problem = Problem::usage(what).why(why);
    for line in next {
        let line = line.replace("{last}", last.copied().unwrap_or("NAME"));
        problem = problem.next(line.replace("{value}", value.unwrap_or("VALUE")));
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn typed(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn ours(line: &str) -> String {
        let words = translated(typed(line));
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_of_other_tools_are_understood() {
        for (theirs, here) in [
            ("inspect web", "get web"),
            ("job status", "list"),
            ("job status web", "get web"),
            ("alloc logs -f web", "logs -f web"),
            ("node status n1", "node get n1"),
            ("rollout undo web", "rollback web"),
            ("up -d", "apply . -d"),
            ("unpause web", "resume web"),
            ("create -f a.yaml", "apply -f a.yaml"),
            ("list", "list"),
            ("disks", "disk list"),
            ("secrets -A", "secret list -A"),
            ("secrets --help", "secrets --help"),
            ("disks create x", "disks create x"),
            ("node drain n1", "node drain n1"),
        ] {
            assert_eq!(ours(theirs), here, "{theirs}");
        }
    }

    /// Every command that is named is one of ours, and no word of ours is read as another.
    #[test]
    fn the_tables_name_commands_of_ours_only() {
        let command = crate::args::Cli::command();
        let find = |words: &[&str]| {
            let mut at = &command;
            for word in words {
                match at.find_subcommand(word) {
                    Some(inner) => at = inner,
                    None => return at.get_name() != command.get_name(),
                }
            }
            true
        };
        for known in words::SAME {
            assert!(find(known.ours) && find(known.ours_alone), "{:?}", known.theirs);
            let mut at = Some(&command);
            for word in known.theirs {
                at = at.and_then(|at| at.find_subcommand(word));
            }
            assert!(at.is_none(), "{:?} is ours", known.theirs);
        }
        let next = words::OTHER.iter().flat_map(|known| known.next);
        for line in next.chain(flags::OTHER.iter().flat_map(|known| known.next)) {
            let first = line.strip_prefix("persys ").and_then(|rest| rest.split(' ').next());
            let Some(first) = first else { continue };
            assert!(command.find_subcommand(first).is_some(), "{line}");
        }
        for known in flags::OTHER {
            for name in known.commands {
                assert!(command.find_subcommand(name).is_some(), "{name}");
            }
        }
    }
}
