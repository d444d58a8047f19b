//! The command line: runs, counts, and tells how to repeat what went wrong.

#![expect(clippy::print_stdout, reason = "this is the one module that talks to people")]

use std::process::ExitCode;
use std::time::Instant;

use persys_model::zoo::{Bug, Zoo};

use crate::fault::Fault;
use crate::run::{Batch, Tally, run, run_many};
use crate::setup::Setup;
use crate::{demo, shrink, zoo};

/// Seeds that once failed, with what they showed.
const REGRESSIONS: &str = include_str!("../regressions.txt");

const HELP: &str = "\
sim --seeds N [--from S] [--jobs 2]   run seeds and check every invariant
sim --seed X [--trace]                run one seed; with --trace tell its story
sim --shrink X                        find the shortest run like seed X that goes wrong
sim --zoo [--bug NAME] [--seeds N]    put each known bug back and find it
    --mute TEXT                       leave out faults whose name has TEXT in it
sim --demo                            a calm story for newcomers
";

#[derive(Debug)]
struct Options {
    seeds: u64,
    from: u64,
    jobs: usize,
    seed: Option<u64>,
    shrink: Option<u64>,
    trace: bool,
    zoo: bool,
    demo: bool,
    bug: Option<Bug>,
    failures: usize,
    mute: Vec<String>,
}

impl Options {
    fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut options = Self {
            seeds: 500,
            from: 1,
            jobs: 2,
            seed: None,
            shrink: None,
            trace: false,
            zoo: false,
            demo: false,
            bug: None,
            failures: 10,
            mute: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let mut value = || -> Result<String, String> {
                arguments.next().ok_or_else(|| format!("{name} needs a value"))
            };
            match name.as_str() {
                "--seeds" => options.seeds = number(&value()?)?,
                "--from" => options.from = number(&value()?)?,
                "--jobs" => options.jobs = usize::try_from(number(&value()?)?).unwrap_or(1),
                "--failures" => {
                    options.failures = usize::try_from(number(&value()?)?).unwrap_or(1);
                }
                "--seed" => options.seed = Some(number(&value()?)?),
                "--shrink" => options.shrink = Some(number(&value()?)?),
                "--mute" => options.mute.push(value()?),
                "--trace" => options.trace = true,
                "--zoo" => options.zoo = true,
                "--demo" => options.demo = true,
                "--bug" => {
                    let name = value()?;
                    let bug = Bug::ALL.iter().copied().find(|bug| bug.name() == name);
                    options.bug = Some(bug.ok_or_else(|| format!("no bug is called {name}"))?);
                }
                other => return Err(format!("{other} is not an option\n{HELP}")),
            }
        }
        Ok(options)
    }

    fn setup(&self, seed: u64) -> Setup {
        let mut setup = Setup::draw(seed);
        for fault in Fault::ALL {
            if self.mute.iter().any(|text| fault.name().contains(text.as_str())) {
                setup.muted.add(*fault);
            }
        }
        match self.bug {
            Some(bug) => setup.with_zoo(Zoo::only(bug)),
            None => setup,
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text} is not a number: {error}"))
}

/// Runs the program.
pub fn main(arguments: Vec<String>) -> ExitCode {
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(text) => {
            println!("{text}");
            return ExitCode::from(2);
        }
    };
    // A panic inside a run is reported with its seed; its own noise helps nobody.
    std::panic::set_hook(Box::new(|_| {}));
    let well = if options.demo {
        tell(&demo::tell());
        true
    } else if options.zoo {
        hunt_all(&options)
    } else if let Some(seed) = options.shrink {
        shorten(&options, seed)
    } else if let Some(seed) = options.seed {
        one(&options, seed)
    } else {
        many(&options)
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(lines: &[String]) {
    for line in lines {
        println!("{line}");
    }
}

fn one(options: &Options, seed: u64) -> bool {
    let outcome = run(options.setup(seed), options.trace);
    tell(&outcome.lines);
    let hash = outcome.hash;
    println!("seed {seed}: {} events, trace {hash:016x}", outcome.events);
    match outcome.violation {
        Some(found) => {
            println!("seed {seed} violates {} at {} ms: {}", found.invariant, found.at, found.text);
            false
        }
        None => true,
    }
}

fn shorten(options: &Options, seed: u64) -> bool {
    let Some(found) = run(options.setup(seed), false).violation else {
        println!("seed {seed} violates nothing");
        return true;
    };
    let (setup, outcome) = shrink::shrink(&options.setup(seed), found.invariant);
    tell(&outcome.lines);
    let kinds: Vec<_> = setup
        .faults
        .list()
        .into_iter()
        .filter(|fault| !setup.muted.has(*fault))
        .map(Fault::name)
        .collect();
    println!(
        "seed {seed} shrunk: {} nodes, {} schedulers, {} workloads, {} ms of {kinds:?}",
        setup.nodes, setup.schedulers, setup.workloads, setup.faults_ms
    );
    if let Some(found) = outcome.violation {
        println!("violates {} at {} ms: {}", found.invariant, found.at, found.text);
    }
    false
}

fn many(options: &Options) -> bool {
    let started = Instant::now();
    let mut well = true;
    let old: Vec<u64> = REGRESSIONS
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    for seed in &old {
        if let Some(found) = run(options.setup(*seed), false).violation {
            well = false;
            println!("regression seed {seed} violates {}: {}", found.invariant, found.text);
        }
    }
    let batch = Batch {
        from: options.from,
        seeds: options.seeds,
        jobs: options.jobs,
        failures: options.failures,
    };
    let tally = run_many(batch, &|seed| options.setup(seed));
    report(&tally, started);
    for (seed, found) in &tally.failed {
        println!("seed {seed} violates {} at {} ms: {}", found.invariant, found.at, found.text);
        println!("    to repeat it: make sim SEED={seed}");
    }
    well &= tally.failed.is_empty();
    let missing = tally.cover.missing();
    if !missing.is_empty() {
        println!("never reached: {}", missing.join(", "));
        // A few seeds cannot reach everything; the full run must.
        well &= options.seeds < 2_000;
    }
    well
}

fn report(tally: &Tally, started: Instant) {
    for (name, hits) in tally.cover.reached() {
        println!("{hits:>10}  {name}");
    }
    let days = tally.virtual_ms / 86_400_000;
    println!(
        "{} seeds, {} events, {days} virtual days, {} seeds run twice, {} failed, {:.1} s",
        tally.seeds,
        tally.events,
        tally.repeated,
        tally.failed.len(),
        started.elapsed().as_secs_f64()
    );
}

fn hunt_all(options: &Options) -> bool {
    let mut well = true;
    for bug in Bug::ALL.iter().copied().filter(|bug| options.bug.is_none_or(|one| one == *bug)) {
        let batch =
            Batch { from: options.from, seeds: options.seeds, jobs: options.jobs, failures: 1 };
        let catch = zoo::hunt(bug, batch);
        let name = catch.bug.name();
        if let Some((seed, found)) = catch.found {
            println!("{name:28} found by seed {seed}: {}: {}", found.invariant, found.text);
        } else {
            well = false;
            println!("{name:28} NOT FOUND in {} seeds", catch.seeds);
        }
    }
    well
}
