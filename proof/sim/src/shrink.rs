//! From a long story that ends badly to a short one: leave things out as long as it still does.

use crate::fault::Fault;
use crate::run::{Outcome, run};
use crate::setup::Setup;

/// The shortest failing run found, and the story of it.
pub(crate) fn shrink(setup: &Setup, invariant: &'static str) -> (Setup, Outcome) {
    let fails = |setup: &Setup| {
        run(setup.clone(), false).violation.is_some_and(|found| found.invariant == invariant)
    };
    let mut best = setup.clone();
    // Kinds of fault first: they say most about what goes wrong.
    for fault in Fault::ALL.iter().copied().filter(|fault| setup.faults.has(*fault)) {
        best.muted.add(fault);
        if !fails(&best) {
            best.muted.remove(fault);
        }
    }
    let smaller: [fn(&mut Setup); 6] = [
        |setup| setup.schedulers = (setup.schedulers - 1).max(1),
        |setup| setup.nodes = (setup.nodes - 1).max(1),
        |setup| setup.workloads = (setup.workloads * 2 / 3).max(1),
        |setup| setup.workloads = (setup.workloads - 1).max(1),
        |setup| setup.faults_ms = setup.faults_ms * 2 / 3,
        |setup| setup.faults_ms = setup.faults_ms * 9 / 10,
    ];
    for reduce in smaller {
        for _ in 0..8 {
            let mut next = best.clone();
            reduce(&mut next);
            if !fails(&next) {
                break;
            }
            best = next;
        }
    }
    let outcome = run(best.clone(), true);
    (best, outcome)
}
