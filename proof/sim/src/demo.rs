//! A calm story for newcomers: five nodes, twelve workloads, one node dies and comes back.

use persys_cluster::input::Ask;
use persys_model::workload::Desired;

use crate::fault::FaultSet;
use crate::setup::Setup;
use crate::sim::{Event, Sim};

const INTRODUCTION: &str = "\
Two schedulers and five nodes, n0 to n4, on simulated machines; every decision is the real one.
Twelve workloads, w0 to w11, are submitted; then n2 loses its power. What keeps data on n2 waits
for it, what must never run twice moves only when that is certain, the rest moves at once.
Seconds of virtual time come first.
";

const FAREWELL: &str = "
Nothing was lost and nothing ran twice. Go on with `make test`, or with the real processes:
cargo run -p persys -- dev --runtime sim";

/// Tells the story.
pub(crate) fn tell() -> Vec<String> {
    let mut setup = Setup::draw(5);
    setup.nodes = 5;
    setup.contract.clear();
    setup.schedulers = 2;
    setup.workloads = 12;
    setup.room_percent = 250;
    setup.faults = FaultSet::default();
    setup.faults_ms = 40_000;
    setup.user_gap_ms = 1_000_000;
    let mut sim = Sim::new(setup, true);
    for owned in &mut sim.users.workloads {
        owned.version = 1;
    }
    let asks: Vec<Ask> =
        sim.users.workloads.iter().filter_map(|owned| owned.apply(Desired::Running)).collect();
    for (number, ask) in asks.into_iter().enumerate() {
        let at = 4_000 + 200 * crate::setup::count(number);
        sim.queue.push(at, Event::Scripted(crate::sim::Scripted::Ask(Box::new(ask))));
    }
    sim.queue.push(15_000, Event::Scripted(crate::sim::Scripted::PowerOff(2)));
    sim.queue.push(30_000, Event::PowerOn { node: 2 });
    sim.run();
    let mut lines: Vec<String> = INTRODUCTION.lines().map(str::to_owned).collect();
    lines.extend(sim.trace.take_lines().iter().flat_map(|line| turns(line)));
    match sim.check.take_violation() {
        Some(violation) => {
            lines.push(format!("violated {}: {}", violation.invariant, violation.text));
        }
        None => lines.extend(FAREWELL.lines().map(str::to_owned)),
    }
    lines
}

/// What matters to a newcomer in one piece of the trace, each turn with its time.
fn turns(told: &str) -> Vec<String> {
    let time: String = told.chars().take(12).collect();
    let turn = |line: &&str| {
        ["-> Running", "NodeLost", "Ready", "Lost (", "power", "==="]
            .iter()
            .any(|word| line.contains(word))
            && !line.contains(" call ")
            && !line.contains("store ")
            && !line.contains(": Ended")
    };
    told.lines()
        .filter(turn)
        .map(|line| format!("{time}  {}", line.trim_start_matches(time.as_str()).trim()))
        .collect()
}
