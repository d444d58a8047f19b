//! An agent, its watchdog and Docker, each a process of its own, so that they can be killed.
//!
//! Needs a daemon at `DOCKER_HOST` or the default socket and a libvirtd: `hack/docker-up` and
//! `hack/libvirt-up` start them. It runs only when it is named, as `make live` does. This program is the tests, the agent and the
//! watchdog, by its first argument.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod collect;
mod fence;
mod kinds;
mod node;
mod stacks;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match role.as_str() {
        "watchdog" => {
            let options = persys_agent::watchdog::Options::parse(rest).expect("its options");
            runtime.block_on(persys_agent::watchdog::run(options));
        }
        "agent" => runtime.block_on(node::agent(&rest)),
        // Whatever a test runner asks for, all of it is run: it is one story after the other.
        _ => {
            let stories: [(&str, fn()); 4] = [
                ("a_killed_or_hanging_agent_is_no_way_past_the_fence", fence::story),
                ("stacks_and_machines_end_at_their_deadline_too", kinds::story),
                ("a_stack_is_applied_without_tokens", stacks::story),
                ("only_what_is_ours_and_removed_is_collected", collect::story),
            ];
            for (name, test) in stories {
                test();
                println!("test {name} ... ok");
            }
        }
    }
}
