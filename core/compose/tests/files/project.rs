//! Projects of several files, and what stands beside them.

use std::collections::BTreeMap;

use persys_compose::project::{Ask, Build, Files, Found, Most, Project, is_compose, load};
use persys_compose::{Content, ContentFile, Document, MountSource, Service, Verdict, read};

/// A disk that is a list.
struct Shelf(BTreeMap<String, Vec<u8>>);

fn shelf(files: &[(&str, &str)]) -> Shelf {
    Shelf(files.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect())
}

impl Files for Shelf {
    fn look(&self, path: &str, most: Most) -> Result<Found, String> {
        let file = |bytes: &Vec<u8>| ContentFile {
            mode: 0o644,
            bytes: bytes.clone(),
            ..ContentFile::default()
        };
        if let Some(bytes) = self.0.get(path) {
            if bytes.len() > most.bytes {
                return Err(format!("has more than {} bytes", most.bytes));
            }
            return Ok(Found::File(file(bytes)));
        }
        let below = format!("{path}/");
        let inside = self.0.iter().filter_map(|(name, bytes)| {
            let name =
                if path == "." { name.strip_prefix("./") } else { name.strip_prefix(&below) };
            Some((name?.to_owned(), file(bytes)))
        });
        let is_file = |name: &str| !name.is_empty() && !name.ends_with('/');
        let inside: BTreeMap<_, _> = inside.filter(|(name, _)| is_file(name)).collect();
        if !inside.is_empty() {
            return Ok(Found::Folder(inside));
        }
        let empty = self.0.contains_key(&below);
        Ok(if empty { Found::Folder(BTreeMap::new()) } else { Found::Nothing })
    }
}

fn ask(files: &[&str]) -> Ask {
    Ask {
        files: files.iter().map(|&file| file.to_owned()).collect(),
        folder: "My Shop".to_owned(),
        ..Ask::default()
    }
}

fn refused(project: &Project) -> Vec<String> {
    let all = project.reading.findings.iter().filter(|f| f.verdict == Verdict::Refused);
    all.map(|finding| project.reading.sentence(finding)).collect()
}

/// A project that can run. What is sent of it means the same where nothing is beside it.
fn sound(files: &[(&str, &str)], ask: &Ask) -> (Project, Document) {
    let project = load(&shelf(files), ask);
    let Some(document) = project.reading.document.clone() else {
        panic!("{:?}", refused(&project))
    };
    let again = read(&project.text, &project.variables);
    assert_eq!(again.document.as_ref(), Some(&document), "{}\n{:?}", project.text, again.findings);
    (project, document)
}

fn one(files: &[(&str, &str)], service: &str) -> Service {
    let (_, document) = sound(files, &ask(&["./compose.yaml"]));
    document.service(service).expect("the service").clone()
}

#[test]
fn a_file_that_needs_nothing_is_sent_as_it_is() {
    let text = "services: {web: {image: 'nginx:$TAG', environment: [PASS, HOME]}}";
    let wanted = Ask {
        shell: [("HOME", "/root"), ("PATH", "/bin")].map(|(k, v)| (k.into(), v.into())).into(),
        ..ask(&["./compose.yaml"])
    };
    let (project, _) =
        sound(&[("./compose.yaml", text), ("./.env", "TAG=1\nPASS=x\nZ=1\n")], &wanted);
    assert_eq!(project.text, text);
    let sent: Vec<_> = project.variables.keys().map(String::as_str).collect();
    assert_eq!(sent, ["HOME", "PASS", "TAG"], "only what it names");
    assert_eq!(project.name, "myshop");
    assert!(is_compose(text) && !is_compose("kind: x\nservices: {}") && !is_compose("- a"));
}

#[test]
fn variables_of_files_are_under_those_of_the_service() {
    let web = one(
        &[
            (
                "./compose.yaml",
                "services:\n  web:\n    image: a\n    env_file: [a.env, {path: sub/b.env}, \
                 {path: no.env, required: false}]\n    environment: {C: own, D: }\n",
            ),
            ("./a.env", "A=1\nB=a # note\nC=x\n"),
            ("./sub/b.env", "B='b$$'\nE\n"),
            ("./.env", "D=d\nE=e$x\n"),
        ],
        "web",
    );
    let all: Vec<_> = web.environment.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(all, ["A=1", "B=b$$", "C=own", "D=d", "E=e$x"]);
    let missing = load(
        &shelf(&[("./compose.yaml", "services: {web: {image: a, env_file: no.env}}")]),
        &ask(&["./compose.yaml"]),
    );
    assert_eq!(refused(&missing), ["line 1, services.web.env_file: ./no.env is not there"]);
}

#[test]
fn one_file_goes_over_another() {
    let base = "services:\n  web:\n    image: a\n    command: [x]\n    ports: ['80:80', '81:81']\n    \
                environment: [A=1, B=2]\n    volumes: ['data:/d', 'logs:/l']\n    \
                labels: {k: v}\n    depends_on: [db]\n    healthcheck: {test: [CMD, x], retries: 2}\n  \
                db: {image: b}\nvolumes: {data: , logs: }\n";
    let over = "services:\n  web:\n    command: y z\n    ports: ['80:80/tcp', '82:82']\n    \
                environment: {B: 3, C: 4}\n    volumes: ['more:/d']\n    labels: [l=w]\n    \
                depends_on: {cache: {condition: service_started}}\n    \
                healthcheck: {retries: 9}\n  cache: {image: c}\nvolumes: {more: }\n";
    let files = [("./compose.yaml", base), ("./over.yaml", over)];
    let (project, document) = sound(&files, &ask(&["./compose.yaml", "./over.yaml"]));
    let web = document.service("web").expect("it");
    assert_eq!(web.command.as_deref(), Some(&["y".to_owned(), "z".to_owned()][..]));
    let ports: Vec<_> = web.ports.iter().filter_map(|port| port.host).collect();
    assert_eq!(ports, [80, 81, 82]);
    let all: Vec<_> = web.environment.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(all, ["A=1", "B=3", "C=4"]);
    let volume = |mount: &persys_compose::Mount| match &mount.source {
        MountSource::Volume { name, .. } => format!("{name}:{}", mount.target),
        MountSource::Anonymous
        | MountSource::Bind { .. }
        | MountSource::Secret(_)
        | MountSource::Content { .. }
        | MountSource::Tmpfs { .. } => "no volume".to_owned(),
    };
    assert_eq!(web.mounts.iter().map(volume).collect::<Vec<_>>(), ["more:/d", "logs:/l"]);
    assert_eq!(web.labels.len(), 2);
    assert_eq!(web.depends_on.keys().collect::<Vec<_>>(), ["cache", "db"]);
    assert_eq!(document.services().count(), 3);
    let files = &project.reading.files;
    assert_eq!(files, &["compose.yaml", "over.yaml"], "findings say which");
}

#[test]
fn tags_take_away_or_replace_what_an_earlier_file_says() {
    let base = "services:\n  web:\n    image: a\n    command: [x]\n    ports: ['80:80', '81:81']\n    \
                environment: {A: 1, B: 2}\n    labels: {k: v}\n    healthcheck: {test: [CMD, x], retries: 2}\n  \
                db: {image: b}\nvolumes: {data: }\n";
    let over = "services:\n  web:\n    ports: !override ['82:82']\n    command: !reset null\n    \
                environment: {A: !reset null, C: 3}\n    labels: !override {l: w}\n    \
                healthcheck: {retries: !reset 0}\n  db: !reset {}\n  two:\n    extends: base\n    \
                ports: !override ['90:90']\n    environment: {X: !reset null}\n  \
                base: {image: c, ports: ['91:91'], environment: {X: 1, Y: 2}}\n";
    let files = [("./compose.yaml", base), ("./over.yaml", over)];
    let (project, document) = sound(&files, &ask(&["./compose.yaml", "./over.yaml"]));
    let web = document.service("web").expect("it");
    let of = |service: &Service| {
        let ports: Vec<_> = service.ports.iter().filter_map(|port| port.host).collect();
        let env: Vec<_> = service.environment.iter().map(|(k, v)| format!("{k}={v}")).collect();
        (ports, env)
    };
    assert_eq!(of(web), (vec![82], vec!["B=2".to_owned(), "C=3".to_owned()]));
    assert_eq!((web.command.as_deref(), web.labels.len()), (None, 1));
    assert!(document.service("db").is_none());
    let two = document.service("two").expect("it");
    assert_eq!(of(two), (vec![90], vec!["Y=2".to_owned()]));
    assert!(!project.text.contains('!'), "others do not read the tags: {}", project.text);

    // In a file of its own there is nothing before it.
    let alone = [("./compose.yaml", "services:\n  web: {image: a, command: !reset [x]}\n")];
    let (project, document) = sound(&alone, &ask(&["./compose.yaml"]));
    assert_eq!(document.service("web").expect("it").command, None);
    assert!(!project.text.contains('!'), "{}", project.text);
    let listed = [("./compose.yaml", "services:\n  web: {image: a, ports: [!reset '80:80']}\n")];
    let project = load(&shelf(&listed), &ask(&["./compose.yaml"]));
    assert!(refused(&project)[0].contains("!reset or !override"), "{:?}", refused(&project));
}

#[test]
fn what_is_extended_and_included_is_there_with_its_paths() {
    let (project, document) = sound(
        &[
            (
                "./compose.yaml",
                "include:\n- tools/compose.yaml\n- {path: ../far/c.yaml, project_directory: tools}\n\
                 services:\n  web:\n    extends: {file: common/base.yaml, service: app}\n    \
                 environment: {B: own}\n  two: {extends: web, image: z}\n",
            ),
            (
                "./common/base.yaml",
                "services:\n  app:\n    extends: root\n    environment: [A=1, B=2]\n    \
                 env_file: app.env\n    volumes: ['./conf:/conf:ro']\n  root: {image: a, tty: true}\n",
            ),
            ("./common/app.env", "E=1\n"),
            ("./common/conf/x", "content"),
            ("./tools/compose.yaml", "services: {tool: {image: '${IMG}', volumes: ['./t:/t']}}\n"),
            ("./tools/.env", "IMG=tool:1\n"),
            ("./tools/t", "a tool"),
            ("../far/c.yaml", "services: {far: {image: '$IMG', volumes: ['./t:/t']}}\n"),
        ],
        &ask(&["./compose.yaml"]),
    );
    let web = document.service("web").expect("it");
    assert!(web.process.tty && web.image == "a");
    let all: Vec<_> = web.environment.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(all, ["A=1", "B=own", "E=1"]);
    assert_eq!(
        document.service("two").map(|two| (two.image.as_str(), two.process.tty)),
        Some(("z", true))
    );
    assert_eq!(document.service("far").map(|far| far.image.as_str()), Some("tool:1"));
    let seen: Vec<_> = document.seen_contents().map(|(s, t, c)| (s, t, c.bytes())).collect();
    assert_eq!(
        seen,
        [("far", "/t", 6), ("tool", "/t", 6), ("two", "/conf", 7), ("web", "/conf", 7)]
    );
    assert!(project.reading.files.contains(&"common/base.yaml".to_owned()));
}

#[test]
fn files_that_need_themselves_and_names_that_clash_are_refused() {
    let one =
        |files: &[(&str, &str)]| refused(&load(&shelf(files), &ask(&["./a.yaml"]))).join("; ");
    let service = "services: {web: {image: a}}";
    let told =
        one(&[("./a.yaml", "include: [b.yaml]\nservices: {}"), ("./b.yaml", "include: [a.yaml]")]);
    assert!(told.contains("is read because of itself"), "{told}");
    let told = one(&[("./a.yaml", "services: {a: {extends: b}, b: {extends: a}}")]);
    assert!(told.contains("extends itself"), "{told}");
    let told = one(&[
        ("./a.yaml", "services: {a: {extends: {file: b.yaml, service: x}}}"),
        ("./b.yaml", service),
    ]);
    assert!(told.contains("\"x\", which is no service there"), "{told}");
    let twice =
        [("./a.yaml", "include: [b.yaml]\nservices: {web: {image: b}}"), ("./b.yaml", service)];
    assert!(one(&twice).contains("brings the service \"web\""), "{}", one(&twice));
    let told = one(&[("./a.yaml", "include: [b.yaml]\nservices: {web: {image: b}}")]);
    assert_eq!(told, "a.yaml line 1, include[0]: ./b.yaml is not there".replace("a.yaml ", ""));
    let deep: Vec<(String, String)> = (0..20)
        .map(|n| (format!("./{n}.yaml"), format!("include: [{}.yaml]\nservices: {{}}", n + 1)))
        .collect();
    let deep: Vec<_> = deep.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let told = refused(&load(&shelf(&deep), &ask(&["./0.yaml"]))).join("; ");
    assert!(told.contains("one in the other"), "{told}");
}

#[test]
fn profiles_are_chosen() {
    let text = "services: {a: {image: x}, b: {image: x, profiles: [dev, test]}, c: {image: x, profiles: [ops]}}";
    let names = |profiles: &[&str], dotenv: &str| -> Vec<String> {
        let profiles = profiles.iter().map(|&name| name.to_owned()).collect();
        let wanted = Ask { profiles, ..ask(&["./compose.yaml"]) };
        let (_, document) = sound(&[("./compose.yaml", text), ("./.env", dotenv)], &wanted);
        document.services().map(|service| service.name.clone()).collect()
    };
    assert_eq!(names(&[], ""), ["a"]);
    assert_eq!(names(&["test"], ""), ["a", "b"]);
    assert_eq!(names(&["*"], ""), ["a", "b", "c"]);
    assert_eq!(names(&[], "COMPOSE_PROFILES=ops,none"), ["a", "c"]);
}

#[test]
fn small_files_go_along_and_empty_folders_become_volumes() {
    let files = [
        (
            "./compose.yaml",
            "services:\n  web:\n    image: a\n    volumes: ['./conf:/conf:ro', './data:/data', \
             './none:/none', '~/x:/x', ':/all', {type: bind, source: one, target: /one}]\n    \
             configs: [c, {source: d, target: /etc/d, mode: 0440, uid: '7'}]\n\
             configs: {c: {file: ./conf/a}, d: {content: 'x $$y'}}\n",
        ),
        ("./conf/a", "A$A"),
        ("./conf/b/c", "\u{1}"),
        ("./data/", ""),
        ("./one", "1"),
    ];
    let (project, document) = sound(&files, &ask(&["./compose.yaml"]));
    let web = document.service("web").expect("it");
    let at = |target: &str| web.mounts.iter().find(|m| m.target == target).expect("a mount");
    assert!(at("/conf").read_only && !at("/one").read_only);
    assert!(
        matches!(&at("/data").source, MountSource::Volume { name, nocopy: true } if name == "folder-data")
    );
    assert!(matches!(&at("/x").source, MountSource::Volume { name, .. } if name == "folder-x"));
    let seen: BTreeMap<_, _> =
        document.seen_contents().map(|(_, at, content)| (at, content)).collect();
    let Content::File(d) = seen["/etc/d"] else { panic!("no file") };
    assert_eq!((d.bytes.as_slice(), d.mode, d.uid), (&b"x $y"[..], 0o440, 7));
    assert_eq!(seen["/c"].files().next().map(|(_, file)| file.bytes.as_slice()), Some(&b"A$A"[..]));
    assert_eq!(seen["/conf"].files().map(|(path, _)| path).collect::<Vec<_>>(), ["a", "b/c"]);
    let why = |path: &str| {
        let finding = project.reading.findings.iter().find(|f| f.path == path).expect("a word");
        format!("{}: {}", finding.verdict.word(), finding.why)
    };
    assert!(
        why("services.web.volumes[0]").starts_with("changed: is sent along as content (2 files, 4")
    );
    assert!(
        why("services.web.volumes[1]")
            .contains("./data has nothing in it, so the volume folder-data")
    );

    // Another content is another file to be sent, and to be written.
    let mut other = files;
    other[1].1 = "other";
    let (changed, again) = sound(&other, &ask(&["./compose.yaml"]));
    assert_ne!(changed.text, project.text);
    let names = |document: &Document| document.contents().map(|(name, _)| name).collect::<Vec<_>>();
    assert_ne!(names(&again), names(&document));

    let big = "x".repeat(129 * 1024);
    let large =
        [("./compose.yaml", "services: {a: {image: b, volumes: ['./f:/f']}}"), ("./f", &*big)];
    let told = refused(&load(&shelf(&large), &ask(&["./compose.yaml"]))).join("; ");
    assert!(
        told.starts_with(
            "line 1, services.a.volumes[0]: ./f has more than 131072 bytes; at most 256 files"
        ),
        "{told}"
    );
    assert!(told.contains("use a named volume"), "{told}");
    let gone = [(
        "./compose.yaml",
        "services: {a: {image: b, volumes: [{type: bind, source: ./f, target: /f}]}}",
    )];
    let told = refused(&load(&shelf(&gone), &ask(&["./compose.yaml"]))).join("; ");
    assert!(told.contains("./f is not there; make it, or write create_host_path: true"), "{told}");
}

#[test]
fn secrets_are_put_elsewhere_and_builds_are_named() {
    let files = [
        (
            "./compose.yaml",
            "services:\n  web:\n    build: {context: app, dockerfile: D, target: t, args: {A: '1 2'}}\n    \
             secrets: [pw, {source: key, mode: 0400}]\n  api: {build: ., image: 'me/api:1'}\n\
             secrets: {pw: {file: pw.txt}, key: {environment: KEY}, old: {external: true}}\n",
        ),
        ("./pw.txt", "hunter2"),
    ];
    let wanted =
        Ask { given: [("KEY".to_owned(), "k$y".to_owned())].into(), ..ask(&["./compose.yaml"]) };
    let (mut project, document) = sound(&files, &wanted);
    let told = format!("{} {project:?}", project.text);
    assert!(!told.contains("hunter2") && !told.contains("k$y"), "{told}");
    let given: Vec<_> = project.secrets.iter().map(|s| (s.name.clone(), s.value.clone())).collect();
    assert_eq!(
        given,
        [("myshop-pw".to_owned(), b"hunter2".to_vec()), ("myshop-key".to_owned(), b"k$y".to_vec())]
    );
    let seen: Vec<_> = document.secrets().map(|(at, s)| (at, s.name.as_str(), s.mode)).collect();
    assert_eq!(
        seen,
        [("/run/secrets/key", "myshop-key", 0o400), ("/run/secrets/pw", "myshop-pw", 0o444)]
    );
    let typed: Vec<_> = project.builds.iter().map(Build::typed).collect();
    assert_eq!(
        typed,
        [
            "docker build -t myshop-web -f ./app/D --target t --build-arg 'A=1 2' ./app",
            "docker build -t me/api:1 .",
        ]
    );
    // Another version and another image are another text.
    let before = project.text.clone();
    let secret = project.secrets[0].clone();
    project.has_version(&secret, 3);
    let with_version = project.text.clone();
    project.has_image("web", "myshop-web", "sha256:1");
    assert!(before != with_version && with_version != project.text);
    let again = read(&project.text, &BTreeMap::new()).document.expect("a document");
    let marks = persys_compose::Marks::default();
    let json: serde_json::Value = serde_json::from_str(&again.emit(&marks)).expect("JSON");
    assert_eq!(json["services"]["web"]["labels"]["persys.secrets"], "myshop-pw@3");

    let none = load(&shelf(&files[..1]), &ask(&["./compose.yaml"]));
    assert_eq!(
        refused(&none),
        [
            "line 6, secrets.key.environment: the variable KEY is not given",
            "line 6, secrets.pw.file: ./pw.txt is not there",
        ]
    );
}
