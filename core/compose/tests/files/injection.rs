//! What somebody would write who means harm: each refused, with its reason and its line.

use std::collections::BTreeMap;

use persys_compose::{Verdict, read};

/// A case: what is tried, the file, and a part of the reason.
type Case = (&'static str, String, &'static str);

fn service(body: &str) -> String {
    format!("services:\n  web:\n    image: nginx\n{body}\nvolumes: {{data: {{}}}}\n")
}

fn key(line: &str) -> String {
    service(&format!("    {line}"))
}

fn check(cases: &[Case]) {
    let variables: BTreeMap<String, String> =
        [("SECRET", "hunter2"), ("EVIL", "-v /:/host"), ("NEWLINE", "a\nprivileged: true")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    for (name, text, expected) in cases {
        let reading = read(text, &variables);
        // What is withheld is for an operator to give, and for nobody else.
        let withheld = reading.withheld().next().is_some();
        assert!(reading.document.is_none() || withheld, "{name} was let through");
        let no = |verdict| matches!(verdict, Verdict::Refused | Verdict::Withheld);
        let refused: Vec<_> = reading.findings.iter().filter(|f| no(f.verdict)).collect();
        assert!(
            refused.iter().any(|finding| finding.why.contains(expected)),
            "{name}: expected \"{expected}\", found {refused:?}"
        );
        for finding in &reading.findings {
            assert!(!finding.why.contains("hunter2"), "{name} shows a secret: {finding:?}");
            let clean = |text: &str| !text.chars().any(char::is_control);
            assert!(clean(&finding.why) && clean(&finding.path), "{name}: {finding:?}");
        }
    }
}

#[test]
fn names() {
    let named = |name: &str| format!("services:\n  {name}:\n    image: nginx\n");
    check(&[
        ("an option as a name", named("--help"), "not a service's name"),
        ("a short option", named("-f"), "not a service's name"),
        ("a path", named("../../etc"), "not a service's name"),
        ("a dot", named(".hidden"), "not a service's name"),
        ("a space", named("\"a b\""), "not a service's name"),
        ("a quote", named("'a\"b'"), "not a service's name"),
        ("a shell", named("\"a;reboot\""), "not a service's name"),
        ("a line break", named("\"a\\nb\""), "not a service's name"),
        ("not ASCII", named("wéb"), "not a service's name"),
        ("too long", named(&"a".repeat(64)), "not a service's name"),
        ("empty", named("\"\""), "not a service's name"),
        ("a volume", "services: {a: {image: b}}\nvolumes: {../x: {}}\n".into(), "volume's name"),
        ("a network", "services: {a: {image: b}}\nnetworks: {-x: {}}\n".into(), "network's name"),
        ("an alias", key("networks: {default: {aliases: ['-x']}}"), "not a host's name"),
        ("a link", key("links: ['--x']"), "not service or service:name"),
        ("a host name", key("hostname: 'a b'"), "not a host's name"),
        ("a user", key("user: '-u0'"), "not a user"),
        ("another's label", key("labels: {persys.workload_id: other}"), "a label of ours"),
        ("a project's label", key("labels: [com.docker.compose.project=x]"), "a label of ours"),
    ]);
}

#[test]
fn images() {
    let image = |image: &str| format!("services:\n  web:\n    image: {image}\n");
    check(&[
        ("an option", image("--privileged"), "not an image"),
        ("a short option", image("-it"), "not an image"),
        ("a variable that is an option", image("${EVIL}"), "not an image"),
        ("a secret in it", image("'!${SECRET}'"), "what its variables give is not an image"),
        ("a space", image("'nginx --rm'"), "only visible ASCII"),
        ("a line break", image("\"nginx\\nx\""), "only visible ASCII"),
        ("a path", image("../../nginx"), "not an image"),
        ("a shell", image("'nginx;reboot'"), "not an image"),
        ("an id", image(&"a".repeat(64)), "no registry"),
        ("a list", image("[nginx]"), "must be a single value"),
        ("nothing", "services: {web: {command: x}}".into(), "has no image"),
        ("an anchor", "services: {web: {image: &nginx}}".into(), "has no image"),
    ]);
}

#[test]
fn environments_and_variables() {
    check(&[
        ("a name with =", key("environment: {'A=B': c}"), "not a variable's name"),
        ("a name with a break", key("environment: {\"A\\nB\": c}"), "not a variable's name"),
        ("an empty name", key("environment: ['=x']"), "not a variable's name"),
        ("a name that is an option", key("environment: ['-e']"), "not a variable's name"),
        ("a nested value", key("environment: {A: {B: c}}"), "must be a single value"),
        ("NUL", key("environment: {A: \"a\\0b\"}"), "control character"),
        ("an escape", key("environment: {A: \"\\e[31m\"}"), "control character"),
        ("an open brace", key("command: echo ${"), "without a variable's name"),
        ("an empty brace", key("command: echo ${}"), "without a variable's name"),
        ("never closed", key("command: 'echo ${A:-x'"), "without its '}'"),
        ("a program", key("command: echo $(id)"), "without a variable's name"),
        ("bad substitution", key("command: echo ${A/x/y}"), "not followed by"),
        ("indirection", key("command: echo ${!A}"), "without a variable's name"),
        ("needed", key("environment: {A: '${NONE:?${SECRET}}'}"), "needs the variable NONE"),
        ("deep", key(&format!("command: '{}x{}'", "${A:-".repeat(9), "}".repeat(9))), "levels"),
        ("a file", key("env_file: /etc/hostname"), "was not sent along"),
        ("a key out of a variable", key("\"${NEWLINE}\": x"), "is not a key of a service"),
    ]);
}

#[test]
fn paths() {
    let mount = |mount: &str| key(&format!("volumes: ['{mount}']"));
    let sent = |files: &str| {
        format!(
            "services: {{a: {{image: b, volumes: ['./x:/x']}}}}\n\
             x-persys-content: {{./x: {{files: {{{files}}}}}}}"
        )
    };
    check(&[
        ("the whole node", mount("/:/host:ro"), "the whole node"),
        ("the whole node, longer", mount("//:/host"), "the whole node"),
        ("Docker's socket", mount("/var/run/docker.sock:/s"), "act as the node"),
        ("Docker's socket, read-only", mount("/run/docker.sock:/s:ro"), "act as the node"),
        ("the folder of sockets", mount("/run:/s"), "belongs to Docker"),
        ("our state", mount("/var/lib/persys:/s:ro"), "belongs to Docker"),
        ("all state", mount("/var/lib:/s"), "belongs to Docker"),
        ("its configuration", mount("/etc:/s:ro"), "belongs to Docker"),
        ("upwards", mount("/srv/../etc:/s"), "'..' in it"),
        ("relative", mount("./x:/s"), "beside the file"),
        ("a parent", mount("../x:/s"), "beside the file"),
        ("a home", mount("~/.ssh:/s"), "beside the file"),
        ("half a path", mount("x/y:/s"), "beside the file"),
        ("a variable", mount("${SECRET}/..:/s"), "beside the file"),
        ("options", mount("data:/s:rshared"), "option other than"),
        ("more fields", mount("data:/s:ro:x"), "source:target"),
        ("over everything", mount("data:/"), "must not be the root"),
        ("relative inside", mount("data:s"), "not an absolute path"),
        ("nobody's volume", mount("other:/s"), "not under volumes"),
        ("an option as a volume", mount("-v:/s"), "names no volume"),
        ("twice", key("volumes: ['data:/s', 'data:/s/']"), "where an earlier entry is"),
        (
            "propagation",
            key("volumes: [{type: bind, source: /srv, target: /s, bind: {propagation: shared}}]"),
            "not one of",
        ),
        ("a pipe", key("volumes: [{type: npipe, source: x, target: /s}]"), "not one of volume"),
        (
            "a bind by driver options",
            "services: {a: {image: b}}\nvolumes: {d: {driver_opts: {o: bind, device: /}}}".into(),
            "can mount anything",
        ),
        (
            "a volume by a path",
            "services: {a: {image: b}}\nvolumes: {d: {external: true, name: /etc}}".into(),
            "gives to nothing",
        ),
        ("a name that leaves", sent("'../x': {text: a}"), "no path within"),
        ("a name from the root", sent("'/x': {text: a}"), "no path within"),
        ("a name of nothing", sent("'a//b': {text: a}"), "no path within"),
        ("a file that is a folder", sent("a: {text: a}, a/b: {text: b}"), "a file and a folder"),
        ("no base64", sent("a: {base64: '%'}"), "is not base64"),
        ("memory with options", key("tmpfs: ['/x:size=1m,dev']"), "option other than"),
        ("a device outside /dev", key("devices: ['/etc/shadow:/x']"), "is not a device"),
        ("a folder upwards", key("working_dir: /a/../b"), "'..' in it"),
        ("a profile", key("security_opt: ['seccomp:/etc/shadow']"), "is not one of"),
        ("a label file", key("label_file: /etc/passwd"), "was not sent along"),
    ]);
}

#[test]
fn ports() {
    let port = |port: &str| key(&format!("ports: ['{port}']"));
    check(&[
        ("zero", port("0:80"), "is not a port"),
        ("too large", port("65536:80"), "is not a port"),
        ("negative", port("-1:80"), "is not a port"),
        ("a sum", port("+80:80"), "is not a port"),
        ("hexadecimal", port("0x50:80"), "is not a port"),
        ("no number", port("http:80"), "is not a port"),
        ("a host for an address", port("localhost:80:80"), "is not a port"),
        ("another protocol", port("80:80/sctp"), "is not a port"),
        ("backwards", port("90-80:90-80"), "is not a port"),
        ("uneven", port("80-82:80-81"), "different lengths"),
        ("all of them", port("1-65535:1-65535"), "more than 256 ports"),
        ("spaces", port(" 80:80"), "is not a port"),
        ("twice", key("ports: ['80:80', '0.0.0.0:80:81']"), "taken twice"),
        ("for many", key("ports: ['80:80']\n    scale: 2"), "for 2 copies"),
        ("too many lists", key(&format!("ports: [{}]", "80,".repeat(300))), "entries"),
    ]);
}

#[test]
fn ways_around_the_container() {
    check(&[
        ("another group", key("cgroup_parent: /"), "out of its limits"),
        ("no killing", key("oom_kill_disable: true"), "memory of the node"),
        ("before the node", key("oom_score_adj: -1000"), "before the node"),
        ("a runtime by its path", key("runtime: /evil"), "name of a runtime"),
        ("the API", key("use_api_socket: true"), "act as the node"),
        ("a program of the node", key("provider: {type: evil}"), "programs of the node"),
        ("another's files", key("volumes_from: ['container:other']"), "not supported"),
        ("another's network", key("network_mode: 'container:../x'"), "is not one of"),
        ("another's processes", key("pid: container:other"), "is not one of"),
        ("a network of others", key("external_links: [other]"), "beyond the stack"),
        ("the kernel", key("sysctls: {kernel.core_pattern: '|/evil'}"), "would change the node"),
        ("a capability", key("cap_add: ['ALL,x']"), "not a capability"),
        ("building", "services: {a: {build: 'https://evil/x.git'}}".into(), "nothing is built"),
        (
            "a remote file",
            "include: ['oci://evil']\nservices: {a: {image: b}}".into(),
            "not sent along",
        ),
        ("extending", key("extends: {file: ../x.yml, service: y}"), "was not sent along"),
        (
            "a secret from the node",
            "services: {a: {image: b}}\nsecrets: {s: {file: /etc/shadow}}".into(),
            "is not external",
        ),
        (
            "a bridge of the node",
            "services: {a: {image: b}}\nnetworks: {n: {driver: macvlan}}".into(),
            "not one of bridge",
        ),
        (
            "a bridge by option",
            "services: {a: {image: b}}\nnetworks: {n: {driver_opts: \
             {com.docker.network.bridge.name: docker0}}}"
                .into(),
            "not an option",
        ),
        ("more memory than there is", key("mem_limit: 99999999t"), "not an amount"),
        ("no memory", key("mem_limit: 1k"), "not an amount"),
        ("many copies", key("scale: 1000000"), "a whole number from"),
        ("a stranger's key", key("privleged: true"), "is \"privileged\" meant?"),
        ("a key of another case", key("Privileged: true"), "is not a key"),
    ]);
}

#[test]
fn yaml_itself() {
    check(&[
        ("a merge of no mapping", key("<<: x"), "not a mapping"),
        ("a merge of a list", key("<<: [a, b]"), "not a mapping"),
        ("two merges", key("<<: {tty: true}\n    <<: {tty: false}"), "'<<' twice"),
        ("a quoted merge", key("'<<': {privileged: true}"), "is not a key"),
        ("itself", "services: &a {web: *a}".into(), "a part of"),
        ("nobody", "services: *nobody".into(), "is not YAML"),
        ("a tag", key("command: !!python/object/apply:os.system [id]"), "has the tag"),
        ("a tag of nobody", key("command: !resets []"), "has the tag"),
        ("a tag on an item", key("command: [!reset x]"), "has the tag"),
        ("a tag on a key", key("!reset command: [x]"), "has the tag"),
        ("a tag on all", "!reset {services: {web: {image: x}}}".into(), "has the tag"),
        ("binary", key("command: !!binary aWQ="), "has the tag"),
        ("a directive", format!("%TAG ! tag:evil,2000:\n---\n{}", key("")), "is not YAML"),
        ("two documents", format!("{}---\n{}", key(""), key("")), "second document"),
        ("a list for a key", "services: {[a, b]: {image: x}}".into(), "not a text"),
        ("an empty key", "services: {~: {image: x}}".into(), "not a text"),
        ("tabs", "services:\n\tweb:\n\t\timage: x".into(), "is not YAML"),
        ("not a mapping", "- services".into(), "has no keys"),
        ("nothing", String::new(), "is empty"),
        ("only a comment", "# nothing\n".into(), "is empty"),
        ("no services", "version: '3'".into(), "has no services"),
        ("a circle", key("depends_on: [web]"), "the service itself"),
        (
            "a longer circle",
            "services: {a: {image: x, depends_on: [b]}, b: {image: x, links: [a]}}".into(),
            "in a circle: a, b",
        ),
    ]);
}

fn lines(numbers: std::ops::Range<usize>, line: impl Fn(usize) -> String) -> String {
    numbers.map(line).collect::<Vec<_>>().concat()
}

/// Reading takes no longer for a file that means harm than for the largest honest one.
#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is tested")]
fn bombs() {
    let laugh = |n: usize| {
        let before = format!("*a{}", n - 1);
        format!("x-{n}: &a{n} [{}]\n", vec![before; 10].join(","))
    };
    let laughs = format!("x-0: &a0 [l,l,l,l,l,l,l,l,l,l]\n{}", lines(1..12, laugh));
    let merge = |n: usize| format!("x-{n}: &m{n}\n  <<: [*m{0}, *m{0}]\n  k{n}: v\n", n - 1);
    let merges = format!("x-0: &m0 {{k0: v, l0: v, n0: v}}\n{}", lines(1..400, merge));
    let long = "x".repeat(30_000);
    let copies = format!("x-a: &a \"{long}\"\nx-b: [{}]\n", vec!["*a"; 100].join(","));
    let many = lines(0..100, |n| format!("  s{n}: {{image: x}}\n"));
    let grows = lines(0..2000, |n| format!("      V{n}: $SECRET$SECRET\n"));
    let cases: Vec<Case> = vec![
        ("a billion laughs", laughs + "services: {a: {image: b}}", "unfolds to more than"),
        ("merges of merges", merges + "services: {a: {image: b}}", "unfolds to more than"),
        ("a long text copied", copies + "services: {a: {image: b}}", "unfolds to more than"),
        ("deep lists", format!("services: {}", "[".repeat(10_000)), "recursion limit"),
        ("deep mappings", format!("services: {}", "{a: ".repeat(10_000)), "levels deep"),
        ("deep blocks", lines(0..400, |n| format!("{}a:\n", " ".repeat(n))), "levels deep"),
        ("a huge text", format!("services: \"{}\"", "x".repeat(40_000)), "a text of more than"),
        ("a huge key", format!("services: {{? \"{}\" : b}}", "x".repeat(300)), "a key of more"),
        ("a huge file", "#".repeat(300_000), "at most 262144"),
        ("many values", format!("services: [{}]", "a,".repeat(100_000)), "unfolds to more than"),
        ("many services", format!("services:\n{many}"), "at most 64"),
        ("many keys", service(&format!("    environment:\n{grows}")), "at most 256"),
    ];
    for case in cases {
        let name = case.0;
        let begun = std::time::Instant::now();
        check(&[case]);
        let took = begun.elapsed();
        assert!(took.as_millis() < 1500, "{name} took {took:?}");
    }
}

#[test]
fn of_what_stands_twice_the_later_counts_and_it_is_said() {
    let twice = |text: String| {
        let reading = read(&text, &BTreeMap::new());
        let document = reading.document.unwrap_or_else(|| panic!("{:?}", reading.findings));
        let why = reading.findings.iter().find(|f| f.why.contains("counts")).expect("a word");
        (document.service("web").expect("the service").clone(), why.path.clone(), why.line)
    };
    let (web, path, _) = twice(key("environment: [A=1, B=2, A=3]"));
    assert_eq!(
        (web.environment["A"].as_str(), path.as_str()),
        ("3", "services.web.environment[0]")
    );
    let (web, _, line) = twice(key("user: a\n    \"us\\x65r\": b"));
    assert_eq!((web.identity.user.as_deref(), line), (Some("b"), 5));
}

#[test]
fn what_is_of_the_node_is_used_by_its_name_and_never_marked() {
    let text = "services:\n  a: {image: b, networks: [lan], volumes: ['d:/d', 'e:/e']}\n  \
                c: {image: b, network_mode: 'container:vpn'}\n  \
                v: {image: b, container_name: mine}\n  \
                w: {image: b, network_mode: 'container:mine'}\n\
                networks: {lan: {external: true}}\n\
                volumes: {d: {external: {name: old}}, e: {}}\n";
    let document = read(text, &BTreeMap::new()).document.expect("a document");
    assert_eq!(document.named_volumes().collect::<Vec<_>>(), ["e"]);
    let labels = [("mine".to_owned(), "yes".to_owned())].into();
    let marks = persys_compose::Marks { labels, ..persys_compose::Marks::default() };
    let json: serde_json::Value = serde_json::from_str(&document.emit(&marks)).expect("JSON");
    assert_eq!(json["networks"]["lan"], serde_json::json!({"external": true, "name": "lan"}));
    assert_eq!(json["volumes"]["d"], serde_json::json!({"external": true, "name": "old"}));
    assert_eq!(json["volumes"]["e"]["labels"]["mine"], "yes");
    assert_eq!(json["services"]["c"]["network_mode"], "container:vpn");
    assert_eq!(json["services"]["w"]["network_mode"], "service:v", "a service of the stack");
}
