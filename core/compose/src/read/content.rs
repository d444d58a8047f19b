//! Files that were sent along: where they stand in the file, and who sees them.
//!
//! ```yaml
//! x-persys-content:
//!   ./nginx.conf: {mode: '0644', text: [...]}
//!   ./dashboards: {files: {a.json: {mode: '0644', base64: [...]}}}
//! ```

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::secrets::mode;
use super::service::Draft;
use super::value::{self, one_or_more};
use crate::content::{Content, ContentFile};
use crate::document::Document;
use crate::finding::Place;
use crate::grammar::is_path_within;
use crate::limits::{CONTENT_BYTES, CONTENT_FILES, ENTRIES};
use crate::service::MountSource;
use crate::yaml::Node;

/// The key of the file under which they stand.
pub(crate) const KEY: &str = "x-persys-content";
/// What configs are called among them: none of a folder is.
pub(super) const CONFIGS: &str = "./.configs/";

/// All that was sent along.
pub(super) fn table(at: &Place<'_>, node: &Node) -> BTreeMap<String, Content> {
    let mut all = BTreeMap::new();
    for entry in value::map(at, node, CONTENT_FILES).unwrap_or_default() {
        let here = at.key(&entry.key, entry.line);
        all.extend(one(&here, &entry.value).map(|content| (entry.key.clone(), content)));
    }
    let files: usize = all.values().map(|content| content.files().count()).sum();
    let bytes = all.values().map(Content::bytes).fold(0, usize::saturating_add);
    if files > CONTENT_FILES || bytes > CONTENT_BYTES {
        at.refused(format!(
            "has {files} files with {bytes} bytes; at most {CONTENT_FILES} with {CONTENT_BYTES} are \
             sent along"
        ));
    }
    all
}

fn one(at: &Place<'_>, node: &Node) -> Option<Content> {
    let keys = value::map(at, node, ENTRIES)?;
    let Some(files) = keys.iter().find(|entry| entry.key == "files") else {
        return file(at, node).map(Content::File);
    };
    let mut folder = BTreeMap::new();
    for entry in value::map(at, &files.value, CONTENT_FILES)? {
        let here = at.key(&entry.key, entry.line);
        if !is_path_within(&entry.key) {
            return here.refuse("is no path within a folder");
        }
        folder.insert(entry.key.clone(), file(&here, &entry.value)?);
    }
    let is_both = |path: &str| {
        path.match_indices('/')
            .any(|(at, _)| path.get(..at).is_some_and(|p| folder.contains_key(p)))
    };
    if folder.keys().any(|path| is_both(path)) {
        return at.refuse("has a file and a folder of one name");
    }
    Some(Content::Folder(folder))
}

fn file(at: &Place<'_>, node: &Node) -> Option<ContentFile> {
    let mut file = ContentFile { mode: 0o644, ..ContentFile::default() };
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "mode" => file.mode = mode(&here, node)?,
            "uid" => file.uid = id(&here, node)?,
            "gid" => file.gid = id(&here, node)?,
            "text" => {
                for (here, item) in one_or_more(&here, node)? {
                    file.bytes.extend(value::scalar(&here, item)?.text.as_bytes());
                }
            }
            "base64" => {
                for (here, item) in one_or_more(&here, node)? {
                    match STANDARD.decode(&value::scalar(&here, item)?.text) {
                        Ok(bytes) => file.bytes.extend(bytes),
                        Err(_) => return here.refuse("is not base64"),
                    }
                }
            }
            key => return here.refuse(super::unknown("a file", key, ["mode", "text", "base64"])),
        }
    }
    Some(file)
}

pub(super) fn id(at: &Place<'_>, node: &Node) -> Option<u32> {
    let number = value::count(at, node, 0, 0x7fff_fffe)?;
    u32::try_from(number).ok()
}

/// What services see of files beside them must have been sent along; what nobody sees is left out.
pub(super) fn settle(drafts: &mut [Draft<'_>], document: &mut Document) {
    let mut used = BTreeSet::new();
    for draft in drafts {
        for mount in &draft.service.mounts {
            let MountSource::Content { key } = &mount.source else { continue };
            let at = draft.place_of("volumes", key);
            match document.contents.get(key) {
                Some(_) if key.starts_with(CONFIGS) => {}
                Some(content) => at.changed(format!(
                    "is sent along as content ({}); what the service writes there stays on its node, \
                     until the content changes",
                    content.told()
                )),
                None if key.starts_with(CONFIGS) => continue,
                None => at.refused(
                    "is beside the file, and was not sent along; apply the file with `persys apply`, \
                     or use a named volume or an absolute path of the node",
                ),
            }
            used.insert(key.clone());
        }
    }
    document.contents.retain(|key, _| used.contains(key));
}
