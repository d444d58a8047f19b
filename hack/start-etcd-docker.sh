#!/usr/bin/env bash
# Starts one etcd as a container, for a scheduler on this machine: hack/start-etcd-docker.sh
#   --from-host   with an image of this host's own etcd program (Debian's package), where no registry can
#                 be reached
#   --stop        ends it and removes its data
#
#   ETCD_IMAGE=NAME   another image than quay.io/coreos/etcd
#   ETCD_PORT=N       another port on 127.0.0.1 than 2379
#   ETCD_NAME=NAME    another name of the container than persys-etcd
set -euo pipefail

here=$(dirname "$0")
image=${ETCD_IMAGE:-quay.io/coreos/etcd:v3.5.17}
port=${ETCD_PORT:-2379}
name=${ETCD_NAME:-persys-etcd}

# An image with nothing but the program and its libraries.
from_host() {
  image=persys/etcd:host
  "$here/etcd-install"
  local tree library
  tree=$(mktemp -d)
  install -D -m 755 "$(command -v etcd)" "$tree/usr/local/bin/etcd"
  for library in $(ldd "$(command -v etcd)" 2>/dev/null | grep -o '/[^ ]*' || true); do
    install -D -m 755 "$(realpath "$library")" "$tree$library"
  done
  mkdir -p "$tree/etcd-data"
  tar -C "$tree" -c . | docker import --change 'ENV PATH=/usr/local/bin' - "$image" >/dev/null
  rm -rf "$tree"
}

if ! docker info >/dev/null 2>&1; then
  echo "start-etcd-docker: Docker does not answer; next: $here/docker-up" >&2
  exit 1
fi
case ${1:-} in
  --stop)
    docker rm -f -v "$name" >/dev/null 2>&1 || true
    echo "$name is gone"
    exit 0
    ;;
  --from-host) from_host ;;
  "") ;;
  *)
    sed -n '2,5p' "$0" >&2
    exit 64
    ;;
esac

if [ "$(docker inspect -f '{{.State.Running}}' "$name" 2>/dev/null)" = true ]; then
  echo "$name runs already: ETCD_ENDPOINTS=localhost:$(docker port "$name" 2379/tcp | sed 's/.*://' | head -1)"
  exit 0
fi
if ! docker image inspect "$image" >/dev/null 2>&1 && ! said=$(docker pull "$image" 2>&1); then
  cat >&2 <<END
start-etcd-docker: the image $image cannot be had: $(tail -n 1 <<<"$said")
  next: $0 --from-host     makes an image of Debian's etcd on this host
    or: docker load <FILE            with an image that was saved elsewhere
    or: ETCD_IMAGE=NAME $0           with an image you have
    or: apt-get install etcd-server && etcd --data-dir ./etcd-data     without Docker
END
  exit 1
fi
docker rm -f -v "$name" >/dev/null 2>&1 || true
docker run -d --name "$name" -p "127.0.0.1:$port:2379" "$image" etcd --name "$name" --data-dir /etcd-data \
  --listen-client-urls http://0.0.0.0:2379 --advertise-client-urls "http://127.0.0.1:$port" >/dev/null
for _ in $(seq 100); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null &&
    curl -fsS "http://127.0.0.1:$port/health" 2>/dev/null | grep -q '"health":"true"'; then
    echo "$name answers; next: ETCD_ENDPOINTS=localhost:$port persys scheduler -insecure"
    exit 0
  fi
  sleep 0.1
done
echo "start-etcd-docker: $name does not answer on port $port; what it says:" >&2
docker logs --tail 10 "$name" >&2 || true
exit 1
