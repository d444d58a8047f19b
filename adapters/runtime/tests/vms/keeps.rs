//! Machines keep the contract of all runtimes, as far as its clauses can be said of machines: they
//! publish no ports, run no commands inside, and choose no exit code.

use async_trait::async_trait;
use persys_model::id::WorkloadId;
use persys_model::spec::Kind;
use persys_runtime::{Refresh, Runtime as _};

use super::bench::{MachineBench, bench, vm};
use crate::contract::{self, Bench, Everything};

#[async_trait]
impl Bench for MachineBench {
    fn runtime(&self) -> &dyn Everything {
        &self.machines
    }

    fn runs(&self) -> Kind {
        Kind::Vm(vm(""))
    }

    fn hears(&self) -> (Kind, &'static str, usize) {
        unreachable!("no signal reaches the programs of a machine")
    }

    fn exits(&self, code: i32) -> Kind {
        unreachable!("a machine does not end with {code} because it wants to")
    }

    fn publishes(&self, host: Option<u16>) -> Kind {
        unreachable!("a machine has no port {host:?} on the node")
    }

    fn broken(&self) -> Kind {
        let mut broken = vm("");
        broken.os_image = Some("no-such-image".into());
        Kind::Vm(broken)
    }

    async fn plant_foreign(&self, workload: &WorkloadId) {
        let xml = format!(
            "<domain type='qemu'><name>persys-{workload}</name><memory unit='MiB'>32</memory>\
             <vcpu>1</vcpu><os><type>hvm</type></os></domain>"
        );
        let path = self.daemon.folder.join("foreign.xml");
        std::fs::write(&path, xml).unwrap();
        self.daemon.virsh(&["define", path.to_str().unwrap()]);
        self.daemon.virsh(&["start", &format!("persys-{workload}")]);
    }

    async fn dig_up_foreign(&self, workload: &WorkloadId) -> bool {
        let name = format!("persys-{workload}");
        let runs = self.daemon.virsh(&["domstate", &name]) == "running";
        self.daemon.virsh(&["destroy", &name]);
        self.daemon.virsh(&["undefine", &name]);
        runs
    }
}

macro_rules! keeps {
    ($($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            contract::$name(&bench().await).await;
        }
    )*};
}

keeps!(
    lifecycle_twice,
    what_is_paused_is_shown_resumed_stopped_and_removed,
    labels_are_listed,
    exclusive_work_is_known,
    updates_come_over_what_runs,
    foreign_is_untouched,
    workloads_are_independent,
    one_workload_at_once,
    too_late_is_not_started,
    changes_are_told,
);

#[tokio::test]
async fn a_machine_is_not_signalled() {
    let bench = bench().await;
    let order = contract::start("contract-signal", "r1", bench.runs());
    let (workload, spec) = (order.workload, order.spec);
    let (secrets, changed) = Default::default();
    let refused = bench.machines.signal(&Refresh { workload, spec, secrets, changed }).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("virtual machine"), "{why}");
}
