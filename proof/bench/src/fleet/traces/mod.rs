//! What traces cost: a scheduler with a fleet that writes spans down, and two that do not, with the
//! same work for all of them in turn.
//!
//! ```text
//!   round:  without ─► without ─► with       then each other order; CPU of all of them after each round
//! ```
//!
//! The machine is faster at one moment than at the next, so each round is compared with itself, and a
//! turn is short. What traces add is looked for in all of a round, because spans are sent later than
//! what they tell of; it is told as a share of what a workload costs in the turns alone, without what
//! idle agents cost meanwhile. The two without are alike: how far they are apart is what such a
//! comparison may be off by, and is said beside the result.
//!
//! All agents of a side are one process and send their spans together, in full messages. A real agent
//! has few spans and sends each message for itself; so does one with little to do here.

mod collecting;
mod results;
mod side;

use std::time::Duration;

use persys_telemetry::trace::{self, Exporting, Pairs, Sampling, Settings};

pub(super) use self::collecting::collect;
pub(super) use self::side::serve;

use self::collecting::Collecting;
use self::results::Results;
use self::side::Side;
use super::{Fault, Options};
use crate::placement::say;

/// How many workloads a turn has, and how many rounds warm everything up.
const EACH: usize = 500;
const WARM_UP: usize = 4;
/// The orders in which three sides can have their turns.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [2, 0, 1], [1, 0, 2]];
/// Spans of a trace, from the request until the workload runs.
const SPANS: f64 = 9.0;
/// Most that traces may cost, in percent of the CPU of a workload.
const BAR: f64 = 5.0;

/// The variable that tells a process where spans go.
pub(super) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Sends spans there, as many as a component does that is told nothing else, or so many.
pub(super) fn export(at: &str, service: &str, share: f64) -> Result<Exporting, Fault> {
    let endpoint = Settings::endpoint(at, true)?;
    let sampling = Sampling { ratio: share, follows: true };
    let service = service.to_owned();
    let (attributes, headers) = (Pairs::default(), Pairs::default());
    Ok(trace::export(&Settings {
        endpoint,
        roots: None,
        service,
        instance: None,
        attributes,
        headers,
        sampling,
    })?)
}

/// Measures, prints and keeps. Says whether the bar was met.
pub(super) async fn compare(options: &Options) -> Result<bool, Fault> {
    let collecting = Collecting::start().await?;
    // As many as there are orders, so that each comes as often as the others.
    let orders = ORDERS.len();
    let measured = (options.workloads / EACH).saturating_sub(WARM_UP) / orders * orders;
    let rounds = WARM_UP + measured.max(orders);
    let options = &Options { workloads: rounds * EACH, ..options.clone() };
    let at = collecting.at.to_string();
    let mut sides = Vec::new();
    for to in [None, None, Some(at.as_str())] {
        sides.push(Side::start(options, to).await?);
    }
    say(&format!(
        "{} agents on each of three sides; {rounds} rounds of {EACH} workloads",
        options.agents
    ));
    for round in 0..rounds {
        for whose in ORDERS.into_iter().cycle().nth(round).into_iter().flatten() {
            if let Some(side) = sides.get_mut(whose) {
                side.turn(EACH).await?;
            }
        }
        if round + 1 == rounds {
            // What is sent half a second later belongs to it too.
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        for side in &mut sides {
            side.look()?;
        }
    }
    let mut rounds = Vec::new();
    for side in sides {
        rounds.push(side.finish().await?);
    }
    let spans = collecting.finish().await?;
    arrived(options, spans)?;
    let results = Results::new(&rounds);
    say(&results.table(options.share, spans));
    if let Some(folder) = options.json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let numbers = results.json(options, spans, &rounds);
    std::fs::write(&options.json, format!("{numbers:#}\n"))?;
    Ok(results.met())
}

/// Spans that were lost cost nothing, and would make traces look cheap.
fn arrived(options: &Options, spans: u64) -> Result<(), Fault> {
    let traces = options.share * f64::from(u32::try_from(options.workloads)?);
    let least = 0.8 * SPANS * traces;
    if f64::from(u32::try_from(spans)?) < least {
        return Err(format!("only {spans} spans arrived of about {:.0}", SPANS * traces).into());
    }
    Ok(())
}
