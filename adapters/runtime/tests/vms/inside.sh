# A libvirtd of its own, in namespaces of its own: what it starts ends with it, nobody else sees its
# machines, and its bridge has the usual name and address without being in anybody's way.
# usage: unshare --mount --net --pid --fork --kill-child --mount-proc bash inside.sh FOLDER
set -eu
folder=$1
ip link set lo up
mount --make-rprivate /
mkdir -p "$folder"/sock "$folder"/lib "$folder"/cache "$folder"/etc/qemu /run/libvirt
mount -t tmpfs none /run/libvirt
mount --bind "$folder/lib" /var/lib/libvirt
mount --bind "$folder/cache" /var/cache/libvirt
mount --bind "$folder/etc" /etc/libvirt
# Where the device cannot be used by the emulator's user, libvirt examines the emulator again for
# every machine, which takes most of a minute. A file that nobody may open is no device.
if [ -e /dev/kvm ]; then
  : >"$folder/no-kvm"
  chmod 600 "$folder/no-kvm"
  mount --bind "$folder/no-kvm" /dev/kvm
fi
printf 'unix_sock_dir = "%s"\nunix_sock_rw_perms = "0777"\nauth_unix_rw = "none"\n' \
  "$folder/sock" >"$folder/etc/libvirtd.conf"
# The emulator's own mounts would hide the file above.
echo 'namespaces = [ ]' >"$folder/etc/qemu.conf"
virtlogd --daemon --pid-file "$folder/virtlogd.pid"
# `hold` keeps it away, `freeze` keeps it silent; without them it runs and is started again.
while :; do
  if [ ! -e "$folder/hold" ]; then
    libvirtd --config "$folder/etc/libvirtd.conf" --pid-file "$folder/libvirtd.pid" &
    daemon=$!
    frozen=
    while kill -0 "$daemon" 2>/dev/null; do
      if [ -e "$folder/hold" ]; then kill -KILL "$daemon" && break; fi
      if [ -e "$folder/freeze" ] && [ -z "$frozen" ]; then
        kill -STOP "$daemon" && frozen=yes && : >"$folder/frozen"
      elif [ ! -e "$folder/freeze" ] && [ -n "$frozen" ]; then
        rm -f "$folder/frozen" && kill -CONT "$daemon" && frozen=
      fi
      sleep 0.05
    done
    wait "$daemon" || true
    rm -f "$folder/libvirtd.pid" "$folder"/sock/*
    : >"$folder/held"
  fi
  sleep 0.05
done
