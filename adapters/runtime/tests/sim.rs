//! The simulated runtime keeps the contract of all runtimes.

#[cfg(test)]
mod contract;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use async_trait::async_trait;
    use persys_model::failure::FailureReason;
    use persys_model::id::WorkloadId;
    use persys_model::spec::container::Port;
    use persys_model::spec::vm::CloudInit;
    use persys_model::spec::{ContainerSpec, Kind, Protocol, VmSpec};
    use persys_node::input::{Existing, Observation, Outcome};
    use persys_runtime::error::outcome;
    use persys_runtime::runtime::observation;
    use persys_runtime::sim::{Settings, Sim};
    use persys_runtime::{Clock, Runtime};

    use crate::contract::{self, Bench, Everything, quiet, start};

    /// A runtime, and whether machines are put to the test rather than containers.
    struct SimBench(Sim, bool);

    impl SimBench {
        fn kind(&self, image: &str) -> Kind {
            if self.1 { machine(image).into() } else { container(image).into() }
        }
    }

    fn container(image: &str) -> ContainerSpec {
        ContainerSpec { image: Arc::from(image), ..ContainerSpec::default() }
    }

    fn machine(image: &str) -> VmSpec {
        VmSpec {
            name: None,
            vcpus: 1,
            memory_mib: 32,
            disks: Vec::new(),
            networks: Vec::new(),
            cloud_init: CloudInit::default(),
            os_image: Some(Arc::from(image)),
            managed_volumes: Vec::new(),
            metadata: BTreeMap::new(),
        }
    }

    #[async_trait]
    impl Bench for SimBench {
        fn runtime(&self) -> &dyn Everything {
            &self.0
        }
        fn runs(&self) -> Kind {
            self.kind("web:1")
        }
        fn hears(&self) -> (Kind, &'static str, usize) {
            (self.runs(), "is simulated", 1)
        }
        fn exits(&self, code: i32) -> Kind {
            self.kind(&format!("exit:{code}"))
        }
        fn publishes(&self, host: Option<u16>) -> Kind {
            let port = Port { address: None, host, container: 80, protocol: Protocol::Tcp };
            ContainerSpec { ports: vec![port], ..container("web:1") }.into()
        }
        fn broken(&self) -> Kind {
            self.kind("fail:RUNTIME_ERROR")
        }
        async fn plant_foreign(&self, workload: &WorkloadId) {
            self.0.plant_foreign(workload, "somebody");
        }
        async fn dig_up_foreign(&self, workload: &WorkloadId) -> bool {
            self.0.foreign(workload).as_deref() == Some("somebody")
        }
    }

    fn bench() -> SimBench {
        let delay = Duration::from_millis(20);
        let settings = Settings { prepare: delay, start: delay, stop: delay };
        SimBench(Sim::new(settings, Clock::since_boot()), false)
    }

    fn machines() -> SimBench {
        SimBench(bench().0, true)
    }

    macro_rules! keeps {
        ($($name:ident),* $(,)?) => {$(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                contract::$name(&bench()).await;
            }
        )*};
    }

    keeps!(
        lifecycle_twice,
        what_is_paused_is_shown_resumed_stopped_and_removed,
        what_runs_is_signalled_for_the_secrets_that_changed,
        labels_are_listed,
        exclusive_work_is_known,
        other_revision_is_refused,
        foreign_is_untouched,
        exit_codes_come_through,
        workloads_are_independent,
        one_workload_at_once,
        too_late_is_not_started,
        changes_are_told,
        commands_run_inside,
    );

    #[tokio::test(start_paused = true)]
    async fn machines_are_updated_in_place() {
        contract::updates_come_over_what_runs(&machines()).await;
        contract::lifecycle_twice(&machines()).await;
        contract::exit_codes_come_through(&machines()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_taken_port_is_named() {
        contract::a_taken_port_is_named(&bench(), 8080).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_image_fails_as_its_name_says() {
        let sim = bench().0;
        for reason in FailureReason::ALL {
            // A container cannot fail to boot as a machine does.
            let boot = reason == FailureReason::VmBootFailed;
            let told = if boot { FailureReason::RuntimeError } else { reason };
            let order = start("fails", "r1", container(&format!("fail:{}", reason.code())));
            let error = sim.start(&order).await.unwrap_err();
            assert_eq!(error.reason(), told);
            assert!(!error.is_unknown());
            let prepared = sim.prepare(&order.spec, &quiet).await;
            let early =
                matches!(reason, FailureReason::ImageNotFound | FailureReason::ImagePullFailed);
            assert_eq!(prepared.is_err(), early, "{reason:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_unknown_and_never_empty() {
        let sim = bench().0;
        let order = start("web", "r1", container("web:1"));
        sim.start(&order).await.unwrap();
        sim.set_silent(true);
        assert_eq!(observation(sim.list().await), Observation::Unknown);
        let grace = Duration::from_secs(1);
        assert_eq!(outcome(&sim.stop(&order.workload, Some(grace)).await), Outcome::Unknown);
        assert_eq!(outcome(&sim.remove(&order.workload, true).await), Outcome::Unknown);
        assert!(sim.health().await.is_err());
        sim.set_silent(false);
        let Observation::Complete(seen) = observation(sim.list().await) else {
            panic!("it answers")
        };
        assert_eq!(seen[0].state, Existing::Running, "nothing happened meanwhile");
        sim.end(&order.workload, 9);
        assert_eq!(sim.list().await.unwrap()[0].state, Existing::Exited { code: 9 });
    }
}
