//! `init`: a commented spec to start from.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::args::{Init, InitKind};
use crate::problem::Problem;
use crate::world::World;

const CONTAINER: &str = "\
# A container. Apply it with: persys apply -f persys.yaml
name: web                       # id: a-z, 0-9, '-', '_', '.'; up to 63
spec:
  type: container
  resources:                    # what its node keeps free for it
    cpu_millicores: 250         # thousandths of a core
    memory_mb: 128
  container:
    image: nginx:1.27
    # command: [\"nginx\", \"-g\", \"daemon off;\"]
    env:
      GREETING: \"hello\"         # values are texts: put numbers in quotes
    ports:
      - host_port: 8080
        container_port: 80
        protocol: tcp
    # volumes:
    #   - host_path: /srv/www
    #     container_path: /usr/share/nginx/html
    #     read_only: true
    restart_policy: always      # no, always, on-failure, unless-stopped
  # placement:
  #   constraints:
  #     - key: zone
  #       operator: in          # exists, absent, in, not-in
  #       values: [\"a\"]
";

const COMPOSE: &str = "\
# A Compose stack on one node. Apply it with: persys apply -f persys.yaml
# (A Compose file can also be applied as it is: persys apply docker-compose.yml)
name: shop
spec:
  type: compose
  resources:
    cpu_millicores: 500
    memory_mb: 512
  compose:
    source_type: inline         # or git, with git_repo, git_ref and git_path
    inline_yaml: |
      services:
        web:
          image: nginx:1.27
          ports: [\"8081:80\"]
    env:
      STAGE: \"test\"
";

const VM: &str = "\
# A virtual machine. Apply it with: persys apply -f persys.yaml
name: box
spec:
  type: vm
  vm:
    vcpus: 2
    memory_mb: 2048
    os_image: debian-12         # a name of the node's catalogue, or an absolute path
    disk_gb: 20                 # the root disk made from the image
    networks:
      - network: default        # a libvirt network; or bridge: br0
        dhcp: true
    # cloud_init:               # a login; without it nobody gets in
    #   username: admin
    #   ssh_public_key: the line of your ~/.ssh/id_ed25519.pub
";

/// `init`.
pub(super) fn init(world: &World, program: &str, init: &Init) -> Result<(), Problem> {
    let text = match init.kind {
        InitKind::Container => CONTAINER,
        InitKind::Compose => COMPOSE,
        InitKind::Vm => VM,
    };
    if init.file == Path::new("-") {
        return Ok(world.print(text.as_bytes())?);
    }
    let shown = init.file.display();
    let mut options = fs::OpenOptions::new();
    options.write(true);
    if init.force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let written = options.open(&init.file).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {
            let lines = format!("{shown} is written\nnext:\n  {program} apply -f {shown}\n");
            Ok(world.print(lines.as_bytes())?)
        }
        Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Problem::new(format!("{shown} is there already"))
                .why("what is in it would be lost")
                .next("persys init OTHER-FILE")
                .next(format!("persys init --force {shown}")))
        }
        Err(why) => Err(Problem::new(format!("{shown} cannot be written")).why(why.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Beside, read};

    #[test]
    fn what_is_written_can_be_applied() {
        for (text, id) in [(CONTAINER, "web"), (COMPOSE, "shop"), (VM, "box")] {
            let wanted = read("persys.yaml", text, &Beside::default()).unwrap();
            assert_eq!(wanted[0].request.workload_id, id);
        }
    }
}
