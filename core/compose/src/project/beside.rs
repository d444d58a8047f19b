//! What stands beside a project and nodes cannot see: variables in files, small files and folders that
//! services see, and what configs are made of. It becomes a part of the file.

use std::collections::{BTreeMap, BTreeSet};

use super::load::Loader;
use super::{Found, Most, tree};
use crate::content::{Content, ContentFile};
use crate::emit;
use crate::finding::{Place, Spot, shown};
use crate::limits::{CONTENT_BYTES, CONTENT_FILES};
use crate::read::content::KEY;
use crate::read::mounts::is_beside;
use crate::yaml::{Entry, Node, Value};

/// What is taken in.
pub(super) struct Beside<'l, 'f, 'a> {
    loader: &'l mut Loader<'f, 'a>,
    variables: &'l BTreeMap<String, String>,
    taken: BTreeMap<String, Content>,
    /// Volumes that take the place of folders with nothing in them, by the path of the folder.
    volumes: BTreeMap<String, String>,
}

impl<'l, 'f, 'a> Beside<'l, 'f, 'a> {
    pub(super) fn new(
        loader: &'l mut Loader<'f, 'a>,
        variables: &'l BTreeMap<String, String>,
    ) -> Self {
        Self { loader, variables, taken: BTreeMap::new(), volumes: BTreeMap::new() }
    }

    /// A variable of the project.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// One file, of at most so many bytes.
    pub(super) fn file(&self, path: &str, bytes: usize) -> Result<ContentFile, String> {
        match self.loader.look(path, Most { files: 1, bytes })? {
            Found::File(file) => Ok(file),
            Found::Folder(_) => Err("is a folder".to_owned()),
            Found::Nothing => Err("is not there".to_owned()),
        }
    }

    /// Takes in all that stands beside `root`; says whether the file is another one by that.
    pub(super) fn settle(
        &mut self,
        at: &Place<'_>,
        root: &mut Node,
        asked: &mut BTreeSet<String>,
    ) -> bool {
        let mut changed = self.configs(at, root);
        if let Some(services) = tree::field_mut(root, "services") {
            let at = at.key("services", services.line);
            for entry in tree::entries_mut(&mut services.value) {
                let here = at.key(&entry.key, entry.line);
                let profiles = tree::field(&entry.value, "profiles");
                // A service that is left out needs nothing.
                if profiles.is_some_and(|entry| entry.value.value != Value::Null) {
                    continue;
                }
                changed |= self.pairs(&here, &mut entry.value, "env_file", "environment");
                changed |= self.pairs(&here, &mut entry.value, "label_file", "labels");
                changed |= self.mounts(&here, &mut entry.value);
                names_in(&entry.value, asked);
            }
        }
        let line = root.line;
        if !self.volumes.is_empty() && tree::field(root, "volumes").is_none() {
            tree::put(root, "volumes", line, Value::Map(Vec::new()));
        }
        if let Some(all) = tree::field_mut(root, "volumes") {
            // It stands in no line of any file.
            for name in self.volumes.values() {
                tree::put(&mut all.value, name, Spot::default(), Value::Null);
            }
        }
        if !self.taken.is_empty() {
            let table = self.taken.iter().map(|(key, content)| {
                let value = tree::of_json(line, emit::objects::content(content));
                Entry { key: key.clone(), line, value: Node { line, value } }
            });
            tree::put(root, KEY, line, Value::Map(table.collect()));
        }
        changed
    }

    /// Variables without a value have the project's, once it is one file that says everything.
    pub(super) fn without_values(&self, root: &mut Node) {
        let Some(services) = tree::field_mut(root, "services") else { return };
        for service in tree::entries_mut(&mut services.value) {
            let Some(entry) = tree::field_mut(&mut service.value, "environment") else { continue };
            match &mut entry.value.value {
                Value::Map(pairs) => {
                    for pair in pairs.iter_mut().filter(|pair| pair.value.value == Value::Null) {
                        if let Some(value) = self.variables.get(&pair.key) {
                            pair.value.value = tree::hidden(value);
                        }
                    }
                }
                Value::List(items) => {
                    for item in items {
                        let Value::Scalar(scalar) = &mut item.value else { continue };
                        if let Some(value) = self.variables.get(&scalar.text) {
                            let text = format!("{}={value}", scalar.text);
                            item.value = tree::hidden(text);
                        }
                    }
                }
                Value::Null | Value::Scalar(_) => {}
            }
        }
    }

    /// What configs are made of.
    fn configs(&mut self, at: &Place<'_>, root: &mut Node) -> bool {
        let Some(all) = tree::field_mut(root, "configs") else { return false };
        let at = at.key("configs", all.line);
        let mut changed = false;
        for config in tree::entries_mut(&mut all.value) {
            let here = at.key(&config.key, config.line);
            if let Some(entry) = tree::field(&config.value, "file")
                && let Some(path) = tree::text(&entry.value)
            {
                changed = true;
                let here = here.key("file", entry.line);
                match self.file(path, CONTENT_BYTES) {
                    Ok(file) => self.take(&here, path, Content::File(file)),
                    Err(why) => here.refused(format!("{} {why}", shown(path))),
                }
            }
            let name = tree::text_of(&config.value, "environment").map(str::to_owned);
            if let Some(value) = name.and_then(|name| self.variables.get(&name)) {
                changed = true;
                drop(tree::take(&mut config.value, "environment"));
                tree::put(&mut config.value, "content", config.line, tree::hidden(value));
            }
        }
        changed
    }

    /// Keeps what was found, within what may be sent along.
    fn take(&mut self, at: &Place<'_>, key: &str, content: Content) {
        if self.taken.contains_key(key) {
            return;
        }
        let all = || self.taken.values().chain([&content]);
        let files: usize = all().map(|one| one.files().count()).sum();
        let bytes = all().map(Content::bytes).fold(0, usize::saturating_add);
        if files > CONTENT_FILES || bytes > CONTENT_BYTES {
            return at.refused(too_much(&format!(
                "with it {files} files of {bytes} bytes would be sent along"
            )));
        }
        self.taken.insert(key.to_owned(), content);
    }

    /// Pairs out of files, under those that the service gives itself.
    fn pairs(&mut self, at: &Place<'_>, service: &mut Node, key: &str, into: &str) -> bool {
        let Some(mut entry) = tree::take(service, key) else { return false };
        let here = at.key(key, entry.line);
        let line = entry.line;
        let mut all: Vec<Entry> = Vec::new();
        let mut sound = true;
        for item in tree::items_mut(&mut entry.value) {
            let at = here.on_line(item.line);
            let said = tree::text_of(item, "path").or_else(|| tree::text(item));
            let Some(path) = said.map(str::to_owned) else {
                at.refused("names no file");
                continue;
            };
            let optional = tree::text_of(item, "required") == Some("false");
            let none = Most { files: 1, bytes: crate::limits::FILE_BYTES };
            if optional && matches!(self.loader.look(&path, none), Ok(Found::Nothing)) {
                at.changed(format!("{} is not there, and not required", shown(&path)));
                continue;
            }
            let Some(found) = self.loader.pairs_of(&at, &path, self.variables) else {
                sound = false;
                continue;
            };
            for (name, value) in found {
                all.retain(|other| other.key != name);
                let value = Node { line, value: value.map_or(Value::Null, tree::hidden) };
                all.push(Entry { key: name, line, value });
            }
        }
        if sound {
            here.honoured(format!("{} are taken from there", super::counted(all.len(), "entry")));
        }
        let own = tree::take(service, into);
        let at_line = own.as_ref().map_or(line, |own| own.line);
        for pair in own.map(|own| tree::pairs(own.value, &['='])).unwrap_or_default() {
            all.retain(|other| other.key != pair.key);
            all.push(pair);
        }
        tree::put(service, into, at_line, Value::Map(all));
        true
    }

    /// Files and folders that a service sees.
    fn mounts(&mut self, at: &Place<'_>, service: &mut Node) -> bool {
        let Some(entry) = tree::field_mut(service, "volumes") else { return false };
        let at = at.key("volumes", entry.line);
        let mut changed = false;
        for (nth, item) in tree::items_mut(&mut entry.value).iter_mut().enumerate() {
            let here = at.item(nth, item.line);
            changed |= self.mount(&here, item);
        }
        changed
    }

    fn mount(&mut self, at: &Place<'_>, item: &mut Node) -> bool {
        let Some(bind) = Bind::of(item) else { return false };
        let most = Most { files: CONTENT_FILES, bytes: CONTENT_BYTES };
        match self.loader.look(&bind.source, most) {
            Ok(Found::File(file)) => self.take(at, &bind.source, Content::File(file)),
            Ok(Found::Folder(files)) if !files.is_empty() => {
                self.take(at, &bind.source, Content::Folder(files));
            }
            Ok(Found::Nothing) if bind.must_exist => {
                at.refused(format!(
                    "{} is not there; make it, or write create_host_path: true under bind",
                    shown(&bind.source)
                ));
            }
            Ok(found) => {
                let what = match found {
                    Found::Nothing => "is not there",
                    Found::File(_) | Found::Folder(_) => "has nothing in it",
                };
                let name = self.volume_for(&bind.source);
                at.changed(format!(
                    "{} {what}, so the volume {name} of the stack takes its place and is kept",
                    shown(&bind.source)
                ));
                item.value = bind.as_volume(&name, item.line);
            }
            Err(why) => at.refused(too_much(&format!("{} {why}", shown(&bind.source)))),
        }
        true
    }

    /// The volume that takes the place of a folder.
    fn volume_for(&mut self, path: &str) -> String {
        if let Some(name) = self.volumes.get(path) {
            return name.clone();
        }
        let letters = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        let plain: String = letters.skip_while(|c| *c == '-').take(40).collect();
        let base = format!("folder-{plain}").trim_end_matches('-').to_owned();
        let taken = |name: &String| self.volumes.values().any(|other| other == name);
        let mut name = base.clone();
        let mut nth = 1_u32;
        while taken(&name) {
            nth = nth.saturating_add(1);
            name = format!("{base}-{nth}");
        }
        self.volumes.insert(path.to_owned(), name.clone());
        name
    }
}

fn too_much(what: &str) -> String {
    format!(
        "{what}; at most {CONTENT_FILES} files of {CONTENT_BYTES} bytes are sent along: put them into \
         the image, use a named volume, or an absolute path of the node"
    )
}

/// Variables that a service takes by their names.
fn names_in(service: &Node, asked: &mut BTreeSet<String>) {
    let Some(entry) = tree::field(service, "environment") else { return };
    let pairs = tree::pairs(entry.value.clone(), &['=']);
    asked.extend(pairs.into_iter().filter(|p| p.value.value == Value::Null).map(|p| p.key));
}

/// A mount of something beside the file.
struct Bind {
    source: String,
    target: String,
    read_only: bool,
    must_exist: bool,
}

impl Bind {
    fn of(item: &Node) -> Option<Self> {
        if let Some(text) = tree::text(item) {
            let mut parts = text.split(':');
            let (source, target) = (parts.next()?, parts.next()?);
            let read_only = parts.next().unwrap_or_default().split(',').any(|word| word == "ro");
            let (source, target) = (source.to_owned(), target.to_owned());
            return is_beside(&source).then_some(Self {
                source,
                target,
                read_only,
                must_exist: false,
            });
        }
        let source = tree::text_of(item, "source").filter(|source| !source.starts_with('/'))?;
        let target = tree::text_of(item, "target")?;
        let options = tree::field(item, "bind").map(|entry| &entry.value);
        let create = options.and_then(|options| tree::text_of(options, "create_host_path"));
        (tree::text_of(item, "type") == Some("bind")).then(|| Self {
            source: source.to_owned(),
            target: target.to_owned(),
            read_only: tree::text_of(item, "read_only") == Some("true"),
            must_exist: create != Some("true"),
        })
    }

    /// The same place with a volume in it. As a folder would, it hides what the image has there.
    fn as_volume(&self, name: &str, line: Spot) -> Value {
        tree::map(
            line,
            [
                ("type", tree::scalar("volume")),
                ("source", tree::scalar(name)),
                ("target", tree::scalar(&self.target)),
                ("read_only", tree::scalar(self.read_only.to_string())),
                ("volume", tree::map(line, [("nocopy", tree::scalar("true"))])),
            ],
        )
    }
}
