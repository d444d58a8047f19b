//! Plans: made from what is foreseen, and carried out only while that is still so.

use std::sync::Arc;

use persys_model::spec::canonical::content_revision;

use super::World;
use super::foresee::{Foreseen, Wish};
use crate::effects::RefusalCode;
use crate::input::{Ask, RequestId};
use crate::plan::Plan;

impl World {
    /// The plan for a wish that was foreseen so.
    pub fn plan(&self, wish: Wish<'_>, foreseen: &Foreseen) -> Plan {
        Plan {
            cluster: Arc::clone(&self.head.cluster),
            index: self.head.seq,
            generation: self.workload(wish.workload).map(|view| view.workload.generation),
            action: foreseen.action,
            node: foreseen.node.clone(),
            content: wish.spec.map(|spec| content_revision(spec)),
        }
    }

    /// Carries out a wish as it was planned, or not at all.
    pub(super) fn ask_planned(&mut self, request: RequestId, plan: &Plan, ask: Ask) {
        match self.stale(plan, &ask) {
            Some(why) => self.refuse(request, RefusalCode::Conflict, why),
            None => self.ask(request, ask),
        }
    }

    /// The reason a plan does not hold any more, if there is one.
    fn stale(&self, plan: &Plan, ask: &Ask) -> Option<String> {
        let Ask::Apply { workload, spec, revision, desired } = ask else {
            return Some("the plan is of another kind of wish".to_owned());
        };
        let again = "make a new one with `persys plan`";
        if plan.cluster != self.head.cluster {
            return Some(format!("the plan was made in another cluster; {again}"));
        }
        let (spec, revision, desired) = (spec.as_ref(), revision.as_ref(), *desired);
        let wish = Wish { workload, spec, revision, desired };
        let known = self.workload(workload).map(|view| view.workload.generation);
        if known != plan.generation {
            let (then, now) = (plan.index.0, self.head.seq.0);
            return Some(format!(
                "the plan is stale: {workload} was changed since it was made (index {then}, now {now}); \
                 {again}"
            ));
        }
        let foreseen = self.foresee(wish, 0);
        let now = self.plan(wish, &foreseen);
        if now.content != plan.content {
            return Some(format!("the plan is of another spec of {workload}; {again}"));
        }
        let place = |plan: &Plan| match &plan.node {
            Some(node) => format!("{} it on {node}", plan.action.word()),
            None => plan.action.word().to_owned(),
        };
        ((now.action, &now.node) != (plan.action, &plan.node)).then(|| {
            format!(
                "the plan is stale: it was to {}, now it would {}; {again}",
                place(plan),
                place(&now)
            )
        })
    }
}
