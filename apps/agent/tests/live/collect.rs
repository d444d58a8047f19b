//! What is collected: leftovers of what was ordered gone, by their labels, and nothing else.

use persys_model::spec::Class;

use crate::node::{IMAGE, NODE, ask, cluster, config, docker, order, runs, until};

fn plant(name: &str, labels: &[(&str, &str)]) {
    let labels =
        labels.iter().flat_map(|(key, value)| ["--label".to_owned(), format!("{key}={value}")]);
    let labels: Vec<String> = labels.collect();
    let mut words = vec!["run", "-d", "--name", name, "--label", "persys.test=live"];
    words.extend(labels.iter().map(String::as_str));
    words.extend([IMAGE, "/bin/sleep", "1000"]);
    let made = docker(&words);
    // A leftover may be collected between its making and its start.
    assert!(!made.stdout.is_empty(), "{made:?}");
}

pub(crate) fn story() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster("collect");
    let web = format!("{cluster}-web");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let agent = runtime.block_on(async {
        let agent = persys_agent::app::start(config(dir.path(), &cluster, false)).await.unwrap();
        order(&agent, &web, 5, Some(Class::Default)).await;
        agent
    });
    let name = format!("persys-{web}");
    until("it runs", || runs(&name).then_some(()));
    runtime.block_on(order(&agent, &web, 6, None));
    until("it is gone", || ask(&name, "{{.Id}}").is_none().then_some(()));

    let mark = |cluster: &str, node: &str, epoch: &str, name: &str| {
        let labels = [
            ("persys.managed", "true"),
            ("persys.cluster", cluster),
            ("persys.node", node),
            ("persys.workload_id", &web),
            ("persys.revision_id", "r1"),
            ("persys.epoch", epoch),
        ];
        plant(name, &labels);
    };
    // Everything of ours on it, but another name: made from an image of ours, perhaps.
    let strangers = ["copy", "cluster", "node", "plain"].map(|what| format!("{cluster}-{what}"));
    let [copy, other_cluster, other_node, plain] = &strangers;
    mark(&cluster, NODE, "5", copy);
    mark("another", NODE, "5", other_cluster);
    mark(&cluster, "n2", "5", other_node);
    plant(plain, &[]);
    // What an interrupted removal leaves behind.
    mark(&cluster, NODE, "5", &name);
    until("the leftover is collected", || ask(&name, "{{.Id}}").is_none().then_some(()));
    // What is newer than the removal was ordered by somebody: it is kept and reported.
    mark(&cluster, NODE, "9", &name);
    let held = until("it is found", || {
        let read = agent.handle.read(|agent, _| agent.inventory().held.len());
        (runtime.block_on(read).unwrap() == 1).then_some(1)
    });
    assert_eq!(held, 1);
    let counted = runtime.block_on(agent.handle.read(|agent, _| agent.collected())).unwrap();
    assert_eq!((counted.found, counted.cleared), (1, 1), "{counted:?}");
    for stranger in strangers.iter().chain([&name]) {
        assert!(runs(stranger), "{stranger} is not ours to touch");
    }
    runtime.block_on(agent.stop());
    let mut all = vec!["rm", "-f", "-v", name.as_str()];
    all.extend(strangers.iter().map(String::as_str));
    assert!(docker(&all).status.success());
}
