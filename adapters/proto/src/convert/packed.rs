//! The VM spec that persysctl packs into metadata.
//!
//! Under [`KEY`] stands base64 of JSON: a VM of the agent package, which can say more than the
//! control package once could. It replaces the body beside it. Every key is known by name, every
//! value has its one type, and every fault is named with its path; no value is ever quoted, for
//! passwords are among them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::spec::check::limits::{
    CLOUD_INIT_BYTES, DISKS, LABEL_TOTAL_BYTES, NETWORKS, VOLUMES,
};
use persys_model::spec::draft::{
    CloudInitDraft, DiskDraft, Draft, NetworkDraft, Texts, VmDraft, VolumeDraft,
};
use serde_json::{Map, Value};

use super::at::At;

/// Where it stands in the metadata of a spec.
pub const KEY: &str = "persys.vm_spec_b64";

/// Bytes of the base64 text: every text of a VM at its limit, base64 within base64, and some.
pub const MOST_BYTES: usize = 4 * (CLOUD_INIT_BYTES + LABEL_TOTAL_BYTES);

/// Puts what is packed in the place of the VM, and takes the packet away. What cannot be unpacked
/// is left where it is, which the check refuses too.
pub(super) fn unpack(at: &At<'_>, draft: &mut Draft) {
    let Some(text) = draft.metadata.get(KEY) else { return };
    let metadata = at.field("metadata");
    let here = metadata.key(KEY);
    let Some(vm) = decoded(&here, text).and_then(|object| vm(&here, object)) else { return };
    if draft.container.is_some() || draft.compose.is_some() {
        return here.fault("holds a VM, but another body is given");
    }
    if let Some(body) = &draft.vm {
        agree(&at.field("vm"), body, &vm);
    }
    draft.vm = Some(vm);
    draft.metadata.remove(KEY);
}

/// What both say must be the same: one of them would be dropped unread.
fn agree(at: &At<'_>, body: &VmDraft, packed: &VmDraft) {
    let differs = "differs from the packed spec in metadata, which stands for the whole VM";
    if body.vcpus != 0 && body.vcpus != packed.vcpus {
        at.field("vcpus").fault(differs);
    }
    if body.memory_mb != 0 && body.memory_mb != packed.memory_mb {
        at.field("memory_mb").fault(differs);
    }
    // persysctl has no other place for the name of the machine.
    let named = body.os_image == packed.name;
    if !body.os_image.is_empty() && body.os_image != packed.os_image && !named {
        at.field("os_image").fault(differs);
    }
}

fn decoded(at: &At<'_>, text: &str) -> Option<Map<String, Value>> {
    if text.len() > MOST_BYTES {
        return at.refuse(format!("has {} bytes; at most {MOST_BYTES} are allowed", text.len()));
    }
    let packed: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let Ok(json) = STANDARD.decode(packed) else {
        return at.refuse("is not well-formed base64");
    };
    match serde_json::from_slice(&json) {
        Ok(Value::Object(object)) => Some(object),
        Ok(_) => at.refuse("is not a JSON object"),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            at.refuse(format!("is not well-formed JSON at line {line}, column {column}"))
        }
    }
}

fn vm(at: &At<'_>, object: Map<String, Value>) -> Option<VmDraft> {
    let mut fields = Fields { at, left: object, sound: true };
    let vm = VmDraft {
        name: fields.text("name"),
        vcpus: fields.small("vcpus"),
        memory_mb: fields.number("memory_mb"),
        disks: fields.list("disks", DISKS, disk),
        networks: fields.list("networks", NETWORKS, network),
        cloud_init: fields.text("cloud_init"),
        cloud_init_config: fields.object("cloud_init_config", cloud_init).unwrap_or_default(),
        os_image: fields.text("os_image"),
        disk_gb: fields.number("disk_gb"),
        runtime: fields.text("runtime"),
        managed_volumes: fields.list("managed_volumes", VOLUMES, volume),
        metadata: fields.texts("metadata"),
    };
    fields.finish(vm)
}

fn disk(at: &At<'_>, object: Map<String, Value>) -> Option<DiskDraft> {
    let mut fields = Fields { at, left: object, sound: true };
    let disk = DiskDraft {
        path: fields.text("path"),
        device: fields.text("device"),
        format: fields.text("format"),
        size_gb: fields.number("size_gb"),
        disk_type: fields.text("type"),
        boot: fields.flag("boot"),
        backing_file: fields.text("backing_file"),
        storage: fields.text("storage"),
        ..DiskDraft::default()
    };
    fields.finish(disk)
}

fn network(at: &At<'_>, object: Map<String, Value>) -> Option<NetworkDraft> {
    let mut fields = Fields { at, left: object, sound: true };
    let network = NetworkDraft {
        network: fields.text("network"),
        mac_address: fields.text("mac_address"),
        ip_address: fields.text("ip_address"),
        host_dev_name: fields.text("host_dev_name"),
        model: fields.text("model"),
        bridge: fields.text("bridge"),
        ..NetworkDraft::default()
    };
    fields.finish(network)
}

fn cloud_init(at: &At<'_>, object: Map<String, Value>) -> Option<CloudInitDraft> {
    let mut fields = Fields { at, left: object, sound: true };
    let config = CloudInitDraft {
        user_data: fields.text("user_data"),
        meta_data: fields.text("meta_data"),
        network_config: fields.text("network_config"),
        vendor_data: fields.text("vendor_data"),
        username: fields.text("username"),
        ssh_public_key: fields.text("ssh_public_key"),
        password: fields.text("password"),
    };
    fields.finish(config)
}

fn volume(at: &At<'_>, object: Map<String, Value>) -> Option<VolumeDraft> {
    let mut fields = Fields { at, left: object, sound: true };
    let volume = VolumeDraft {
        name: fields.text("name"),
        driver: fields.text("driver"),
        size_gb: fields.number("size_gb"),
        access_mode: fields.text("access_mode"),
        fs_type: fields.text("fs_type"),
        mount_path: fields.text("mount_path"),
        read_only: fields.flag("read_only"),
        retain_policy: fields.text("retain_policy"),
    };
    fields.finish(volume)
}

/// An object that is read key by key until nothing is left. Absent and null are "not given".
struct Fields<'a> {
    at: &'a At<'a>,
    left: Map<String, Value>,
    sound: bool,
}

impl Fields<'_> {
    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.left.remove(key).filter(|value| !value.is_null())
    }

    fn refuse(&mut self, key: &'static str, problem: &str) {
        self.at.field(key).fault(problem);
        self.sound = false;
    }

    fn text(&mut self, key: &'static str) -> String {
        match self.take(key) {
            None => String::new(),
            Some(Value::String(text)) => text,
            Some(_) => {
                self.refuse(key, "must be a text");
                String::new()
            }
        }
    }

    fn number(&mut self, key: &'static str) -> i64 {
        let Some(value) = self.take(key) else { return 0 };
        value.as_i64().unwrap_or_else(|| {
            self.refuse(key, "must be a whole number of at most 64 bits");
            0
        })
    }

    fn small(&mut self, key: &'static str) -> i32 {
        i32::try_from(self.number(key)).unwrap_or_else(|_| {
            self.refuse(key, "must be a whole number of at most 32 bits");
            0
        })
    }

    fn flag(&mut self, key: &'static str) -> bool {
        let Some(value) = self.take(key) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.refuse(key, "must be true or false");
            false
        })
    }

    fn texts(&mut self, key: &'static str) -> Texts {
        let mut texts = Texts::new();
        match self.take(key) {
            None => {}
            Some(Value::Object(object)) => {
                for (name, value) in object {
                    if let Value::String(text) = value {
                        texts.insert(name, text);
                    } else {
                        self.at.field(key).key(&name).fault("must be a text");
                        self.sound = false;
                    }
                }
            }
            Some(_) => self.refuse(key, "must be an object of texts"),
        }
        texts
    }

    fn object<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&At<'_>, Map<String, Value>) -> Option<T>,
    ) -> Option<T> {
        match self.take(key) {
            None => None,
            Some(Value::Object(object)) => {
                let value = read(&self.at.field(key), object);
                self.sound &= value.is_some();
                value
            }
            Some(_) => {
                self.refuse(key, "must be an object");
                None
            }
        }
    }

    fn list<T>(
        &mut self,
        key: &'static str,
        most: usize,
        read: impl Fn(&At<'_>, Map<String, Value>) -> Option<T>,
    ) -> Vec<T> {
        let given = match self.take(key) {
            None => Vec::new(),
            Some(Value::Array(given)) => given,
            Some(_) => {
                self.refuse(key, "must be a list");
                Vec::new()
            }
        };
        if given.len() > most {
            let problem = format!("has {} entries; at most {most} are allowed", given.len());
            self.refuse(key, &problem);
            return Vec::new();
        }
        let list = self.at.field(key);
        let mut values = Vec::with_capacity(given.len());
        for (nth, value) in given.into_iter().enumerate() {
            let here = list.index(nth);
            let read = if let Value::Object(object) = value {
                read(&here, object)
            } else {
                here.refuse("must be an object")
            };
            self.sound &= read.is_some();
            values.extend(read);
        }
        values
    }

    /// The value, if all of it was sound and nothing was left unread.
    fn finish<T>(self, value: T) -> Option<T> {
        for key in self.left.keys() {
            self.at.key(key).fault("is not a key of a VM spec");
        }
        (self.sound && self.left.is_empty()).then_some(value)
    }
}
