//! Reading the files of a project: each with its variables, with what it includes and what its services
//! extend, and with paths as they are seen from the folder of the project.

use std::collections::{BTreeMap, BTreeSet};

use super::path::{folder_of, join};
use super::{Files, Found, Most, dotenv, merge, tree};
use crate::finding::{Place, Spot, shown};
use crate::limits::{FILE_BYTES, PROJECT_DEPTH, PROJECT_FILES};
use crate::read::mounts::is_beside;
use crate::read::{self, fill};
use crate::yaml::{self, Entry, Node, Value};

type Variables = BTreeMap<String, String>;

/// Reads files, and counts them.
pub(super) struct Loader<'f, 'a> {
    files: &'f dyn Files,
    at: Place<'a>,
    /// The files that were read, as findings name them.
    pub(super) names: Vec<String>,
    /// The text of the first.
    pub(super) first_text: String,
    /// Whether any of them needed another.
    pub(super) several: bool,
    /// Variables they name.
    pub(super) asked: BTreeSet<String>,
    /// Files that are being read, each because of the one before.
    open: Vec<String>,
    /// Keys that what is before a file loses, by the file.
    cuts: BTreeMap<String, Vec<Vec<String>>>,
}

impl<'f, 'a> Loader<'f, 'a> {
    pub(super) fn new(files: &'f dyn Files, at: &Place<'a>) -> Self {
        Self {
            files,
            at: at.clone(),
            names: Vec::new(),
            first_text: String::new(),
            several: false,
            asked: BTreeSet::new(),
            open: Vec::new(),
            cuts: BTreeMap::new(),
        }
    }

    pub(super) fn look(&self, path: &str, most: Most) -> Result<Found, String> {
        self.files.look(path, most)
    }

    /// The text of a file, or why there is none.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        match self.files.look(path, Most { files: 1, bytes: FILE_BYTES })? {
            Found::File(file) => {
                let text = String::from_utf8(file.bytes);
                text.map_err(|why| format!("is not text: {}", why.utf8_error()))
            }
            Found::Folder(_) => Err("is a folder".to_owned()),
            Found::Nothing => Err("is not there".to_owned()),
        }
    }

    /// The variables of `.env` in a folder; none where there is no such file.
    pub(super) fn dotenv(&self, folder: &str) -> Variables {
        let path = join(folder, ".env");
        match self.files.look(&path, Most { files: 1, bytes: FILE_BYTES }) {
            Ok(Found::File(_)) => self.variables_of(&self.at, &path, &Variables::new()),
            Ok(Found::Nothing | Found::Folder(_)) | Err(_) => Variables::new(),
        }
    }

    /// The variables of a file; whatever is wrong with it is said.
    fn variables_of(&self, at: &Place<'_>, path: &str, others: &Variables) -> Variables {
        let pairs = self.pairs_of(at, path, others).unwrap_or_default();
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The lines of a file of variables, in their order.
    pub(super) fn pairs_of(
        &self,
        at: &Place<'_>,
        path: &str,
        others: &Variables,
    ) -> Option<Vec<dotenv::Pair>> {
        let text = match self.text(path) {
            Ok(text) => text,
            Err(why) => return at.refuse(format!("{} {why}", shown(path))),
        };
        match dotenv::parse(&text, others) {
            Ok(pairs) => Some(pairs),
            Err((line, why)) => at.refuse(format!("line {line} of {} {why}", shown(path))),
        }
    }

    /// All files, one over the other.
    pub(super) fn all(&mut self, files: &[String], variables: &Variables) -> Option<Node> {
        let mut merged: Option<Node> = None;
        for file in files {
            let root = self.file(&self.at.clone(), file, ".", variables)?;
            merged = Some(match merged {
                None => root,
                Some(base) => merge::files(self.cut(base, file), root),
            });
        }
        merged
    }

    /// What is before a file, without the keys that the file takes away or replaces whole.
    fn cut(&self, mut base: Node, file: &str) -> Node {
        for way in self.cuts.get(file).into_iter().flatten() {
            yaml::remove(&mut base, way);
        }
        base
    }

    /// One file, with what it includes and extends; its paths are seen from `folder`.
    fn file(
        &mut self,
        at: &Place<'_>,
        path: &str,
        folder: &str,
        variables: &Variables,
    ) -> Option<Node> {
        let mut root = self.nodes(at, path, variables)?;
        self.open.push(path.to_owned());
        let rest = self.completed(&mut root, path, folder, variables);
        self.open.pop();
        rest.map(|()| root)
    }

    /// The nodes of one file, with its variables filled in.
    fn nodes(&mut self, at: &Place<'_>, path: &str, variables: &Variables) -> Option<Node> {
        if self.open.iter().any(|open| open == path) {
            return at.refuse(format!("{} is read because of itself", shown(path)));
        }
        if self.names.len() >= PROJECT_FILES || self.open.len() >= PROJECT_DEPTH {
            return at.refuse(format!(
                "takes more than {PROJECT_FILES} files, or {PROJECT_DEPTH} one in the other"
            ));
        }
        let text = match self.text(path) {
            Ok(text) => text,
            Err(why) => return at.refuse(format!("{} {why}", shown(path))),
        };
        let number = u16::try_from(self.names.len()).unwrap_or(u16::MAX);
        self.names.push(path.strip_prefix("./").unwrap_or(path).to_owned());
        let here = self.at.on_line(Spot { file: number, line: 0 });
        let root = read::nodes_and_cuts(&here, &text, number);
        if number == 0 {
            self.first_text = text;
        }
        let (mut root, cuts) = root?;
        // Others do not read the tags: what is sent is written anew.
        self.several |= !cuts.is_empty();
        self.cuts.insert(path.to_owned(), cuts);
        fill::fill(&self.at, &mut root, variables, &mut self.asked);
        Some(root)
    }

    fn completed(
        &mut self,
        root: &mut Node,
        path: &str,
        folder: &str,
        variables: &Variables,
    ) -> Option<()> {
        rebase(root, folder);
        self.extended(root, path, variables)?;
        if let Some(entry) = tree::take(root, "include") {
            let at = self.at.key("include", entry.line);
            self.several = true;
            let own = std::mem::replace(root, Node { line: root.line, value: Value::Null });
            *root = self.included(&at, own, entry.value, folder, variables)?;
            at.honoured("");
        }
        Some(())
    }

    /// `root` with everything it includes. What both have is refused: neither is over the other.
    fn included(
        &mut self,
        at: &Place<'_>,
        mut root: Node,
        mut list: Node,
        folder: &str,
        variables: &Variables,
    ) -> Option<Node> {
        for (nth, item) in tree::items_mut(&mut list).iter_mut().enumerate() {
            let here = at.item(nth, item.line);
            let paths: Vec<String> = match tree::field_mut(item, "path") {
                Some(entry) => {
                    let all = tree::items_mut(&mut entry.value).iter();
                    all.filter_map(tree::text).map(|path| join(folder, path)).collect()
                }
                None => tree::text(item).map(|path| join(folder, path)).into_iter().collect(),
            };
            let Some(first) = paths.first() else { return here.refuse("names no file") };
            let said = tree::text_of(item, "project_directory").map(|path| join(folder, path));
            let inner = said.unwrap_or_else(|| folder_of(first));
            let mut own = match tree::field_mut(item, "env_file") {
                Some(entry) => {
                    let mut own = Variables::new();
                    for item in tree::items_mut(&mut entry.value) {
                        let path = join(folder, tree::text(item).unwrap_or_default());
                        own.extend(self.variables_of(&here, &path, variables));
                    }
                    own
                }
                None => self.dotenv(&inner),
            };
            own.extend(variables.clone());
            let mut merged: Option<Node> = None;
            for path in &paths {
                let file = self.file(&here, path, &inner, &own)?;
                merged = Some(match merged {
                    None => file,
                    Some(base) => merge::files(self.cut(base, path), file),
                });
            }
            added(&here, &mut root, merged?)?;
        }
        Some(root)
    }

    /// Puts under each service what it extends.
    fn extended(&mut self, root: &mut Node, path: &str, variables: &Variables) -> Option<()> {
        let Some(services) = tree::field(root, "services") else { return Some(()) };
        let at = self.at.key("services", services.line);
        let whole = services.value.clone();
        let mut done = Vec::new();
        for entry in tree::entries(&whole) {
            if tree::field(&entry.value, "extends").is_some() {
                let here = at.key(&entry.key, entry.line);
                let mut seen = vec![(path.to_owned(), entry.key.clone())];
                let service =
                    self.one_extended(&here, entry, &whole, (path, variables), &mut seen)?;
                done.push((entry.key.clone(), service));
            }
        }
        self.several |= !done.is_empty();
        let services = tree::field_mut(root, "services")?;
        for (name, service) in done {
            tree::field_mut(&mut services.value, &name)?.value = service;
        }
        Some(())
    }

    /// A service over the one it extends, which is of the same file or of another.
    fn one_extended(
        &mut self,
        at: &Place<'_>,
        entry: &Entry,
        siblings: &Node,
        (path, variables): (&str, &Variables),
        seen: &mut Vec<(String, String)>,
    ) -> Option<Node> {
        let mut own = entry.value.clone();
        let Some(extends) = tree::take(&mut own, "extends") else { return Some(own) };
        let here = at.key("extends", extends.line);
        let named = tree::text_of(&extends.value, "service").or_else(|| tree::text(&extends.value));
        let Some(name) = named else { return here.refuse("names no service") };
        let file = tree::text_of(&extends.value, "file").map(str::to_owned);
        let next = (file.clone().unwrap_or_else(|| path.to_owned()), name.to_owned());
        if seen.contains(&next) || seen.len() > PROJECT_DEPTH {
            return here.refuse("extends itself, by one or more steps");
        }
        seen.push(next.clone());
        let other = match &file {
            Some(file) if file != path => {
                let mut root = self.nodes(&here, file, variables)?;
                rebase(&mut root, &folder_of(file));
                Some(tree::take(&mut root, "services").map(|entry| entry.value)?)
            }
            Some(_) | None => None,
        };
        let siblings = other.as_ref().unwrap_or(siblings);
        let Some(base) = tree::field(siblings, name) else {
            return here.refuse(format!("names \"{}\", which is no service there", shown(name)));
        };
        let base = self.one_extended(&here, base, siblings, (&next.0, variables), seen)?;
        here.honoured("");
        let mut base = base;
        for way in self.cuts.get(path).into_iter().flatten() {
            if let [services, name, rest @ ..] = way.as_slice()
                && services == "services"
                && *name == entry.key
            {
                yaml::remove(&mut base, rest);
            }
        }
        Some(merge::service(base, own))
    }
}

/// Adds what another file has to `root`.
fn added(at: &Place<'_>, root: &mut Node, other: Node) -> Option<()> {
    let Value::Map(entries) = other.value else { return Some(()) };
    for entry in entries {
        match entry.key.as_str() {
            "services" | "networks" | "volumes" | "secrets" | "configs" => {}
            key if key.starts_with("x-") || matches!(key, "name" | "version") => continue,
            _ => {
                tree::put(root, &entry.key, entry.line, entry.value.value);
                continue;
            }
        }
        let Some(own) = tree::field_mut(root, &entry.key) else {
            tree::put(root, &entry.key, entry.line, entry.value.value);
            continue;
        };
        for inner in tree::entries(&entry.value) {
            let twin = tree::field(&own.value, &inner.key);
            if twin.is_some_and(|twin| plain(&twin.value) != plain(&inner.value)) {
                let what = entry.key.strip_suffix('s').unwrap_or(&entry.key);
                let name = shown(&inner.key);
                return at.refuse(format!(
                    "brings the {what} \"{name}\", which the project has already; rename one"
                ));
            }
            tree::put(&mut own.value, &inner.key, inner.line, inner.value.value.clone());
        }
    }
    Some(())
}

/// A value without its lines, to be compared.
fn plain(node: &Node) -> String {
    super::written::file(node)
}

/// Paths of a file as they are seen from the folder of the project.
fn rebase(root: &mut Node, folder: &str) {
    for (key, inner) in [("secrets", "file"), ("configs", "file")] {
        let Some(all) = tree::field_mut(root, key) else { continue };
        for entry in tree::entries_mut(&mut all.value) {
            if let Some(file) = tree::field_mut(&mut entry.value, inner) {
                joined(&mut file.value, folder);
            }
        }
    }
    let Some(services) = tree::field_mut(root, "services") else { return };
    for service in tree::entries_mut(&mut services.value) {
        for key in ["env_file", "label_file"] {
            let Some(entry) = tree::field_mut(&mut service.value, key) else { continue };
            for item in tree::items_mut(&mut entry.value) {
                match tree::field_mut(item, "path") {
                    Some(path) => joined(&mut path.value, folder),
                    None => joined(item, folder),
                }
            }
        }
        if let Some(extends) = tree::field_mut(&mut service.value, "extends")
            && let Some(file) = tree::field_mut(&mut extends.value, "file")
        {
            joined(&mut file.value, folder);
        }
        if let Some(build) = tree::field_mut(&mut service.value, "build") {
            match tree::field_mut(&mut build.value, "context") {
                Some(context) => joined_unless_far(&mut context.value, folder),
                None => joined_unless_far(&mut build.value, folder),
            }
        }
        let volumes = tree::field_mut(&mut service.value, "volumes");
        for item in volumes.map(|entry| tree::items_mut(&mut entry.value)).into_iter().flatten() {
            rebase_mount(item, folder);
        }
    }
}

fn rebase_mount(item: &mut Node, folder: &str) {
    if tree::text_of(item, "type") == Some("bind") {
        if let Some(source) = tree::field_mut(item, "source") {
            joined(&mut source.value, folder);
        }
        return;
    }
    let Value::Scalar(scalar) = &mut item.value else { return };
    let Some((source, rest)) = scalar.text.split_once(':') else { return };
    // With nothing before the colon the compose program takes the folder itself.
    if source.is_empty() || is_beside(source) {
        scalar.text = format!("{}:{rest}", join(folder, source));
    }
}

fn joined(node: &mut Node, folder: &str) {
    if let Value::Scalar(scalar) = &mut node.value {
        scalar.text = join(folder, &scalar.text);
    }
}

/// What is built may also be an address.
fn joined_unless_far(node: &mut Node, folder: &str) {
    if tree::text(node).is_some_and(|text| !text.contains("://") && !text.starts_with("git@")) {
        joined(node, folder);
    }
}
